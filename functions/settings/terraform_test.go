package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// module is a module of Terraform whose variable settings is checked by a table, settings.json beside it.
type module struct {
	path      string
	functions []function
	decided   map[string]string // settings that the module sets itself, and by what
}

type function struct {
	name  string
	entry Entry
}

var modules = []module{
	{
		"aws/functions", []function{{"api", LambdaAPI}, {"worker", LambdaWorker}, {"sweep", LambdaSweep}},
		map[string]string{
			"LEASEHOLD_TABLE": "table_name", "LEASEHOLD_REGION": "the region of the provider",
			"LEASEHOLD_FRONT_DOOR": "front_door", "LEASEHOLD_QUEUE_URL": "analyses",
		},
	},
	{
		"gcp/functions", []function{{"api", FunctionAPI}, {"tasks", FunctionTasks}, {"sweep", FunctionSweep}},
		map[string]string{
			"LEASEHOLD_PROJECT": "project", "LEASEHOLD_DATABASE": "database", "LEASEHOLD_AUTH_ISSUER": "auth_issuer",
			"LEASEHOLD_AUTH_AUDIENCE": "auth_audience", "LEASEHOLD_TARGET_TOKEN_FILE": "target_token_secret",
			"LEASEHOLD_TASK_AUTH": "task_auth", "LEASEHOLD_TASK_AUDIENCE": "task_auth",
			"LEASEHOLD_TASK_ACCOUNT": "its queue", "LEASEHOLD_SWEEP_ACCOUNT": "its scheduler",
			"LEASEHOLD_TASK_QUEUE": "its queue", "LEASEHOLD_TASK_URL": "its service tasks",
		},
	},
}

// useless are settings that functions take and that have no place in a module.
var useless = map[string]string{
	"LEASEHOLD_ENDPOINT":          "is for emulators",
	"LEASEHOLD_DEVELOPMENT":       "is for emulators",
	"LEASEHOLD_TARGET_TOKEN":      "is a secret, which would be in the state of Terraform",
	"LEASEHOLD_TARGET_TOKEN_FILE": "is a file, which a function of Lambda does not have",
	"LEASEHOLD_TASK_ISSUER":       "is for tests",
}

// terraform is the table of a module. All that it says of a value, its settings.tf compares without knowing more.
type terraform struct {
	Functions []string          `json:"functions"`
	Names     []string          `json:"names"`    // of all settings, those of other programs too: what a misspelt one is compared with
	Settings  map[string]tabled `json:"settings"` // that the map may have
	Refused   map[string]string `json:"refused"`  // that it may not have, and why
	Rules     []rule            `json:"rules"`    // between those that it may have
}

type tabled struct {
	Functions []string `json:"functions"`           // that take it
	Form      string   `json:"form,omitempty"`      // of every value
	Must      string   `json:"must,omitempty"`      // what a value must be, as the program says it
	Least     *int64   `json:"least,omitempty"`     // of numbers, and of durations in nanoseconds
	Most      *int64   `json:"most,omitempty"`      //
	Step      int64    `json:"step,omitempty"`      //
	JSON      bool     `json:"json,omitempty"`      // a value is JSON
	NotEmpty  bool     `json:"not_empty,omitempty"` // an empty value is an error
}

type rule struct {
	If      string `json:"if"`
	Needs   string `json:"needs,omitempty"`
	NotWith string `json:"not_with,omitempty"`
	Why     string `json:"why"`
}

func (m module) table() terraform {
	t := terraform{Settings: map[string]tabled{}, Refused: map[string]string{}}
	var all Entry
	for _, f := range m.functions {
		all |= f.entry
		t.Functions = append(t.Functions, f.name)
	}
	for _, s := range Table {
		t.Names = append(t.Names, s.Env)
		switch by, why := m.decided[s.Env], useless[s.Env]; {
		case by != "":
			t.Refused[s.Env] = "is set twice: the module sets it, by " + by
		case why != "" && s.Entries&all != 0:
			t.Refused[s.Env] = why
		case s.Entries&all == 0:
			t.Refused[s.Env] = "is a setting of " + strings.Join(s.Entries.Names(), ", ") + ", and has no effect here"
		default:
			t.Settings[s.Env] = m.row(s)
		}
	}
	slices.Sort(t.Names)
	for _, v := range ClientVariables {
		t.Refused[v.Name] = "is a setting of the commands that call a server, and has no effect here"
		if v.Instead != "" {
			t.Refused[v.Name] += ": did you mean " + v.Instead + "?"
		}
	}
	for _, r := range Rules {
		for _, env := range r.If {
			_, may := t.Settings[env]
			if _, with := t.Settings[cmp.Or(r.Needs, r.NotWith)]; may && with && r.Entries&all != 0 {
				t.Rules = append(t.Rules, rule{env, r.Needs, r.NotWith, expand(r.Why, func(env string) string { return env })})
			}
		}
	}
	return t
}

func (m module) row(s Setting) tabled {
	var row tabled
	for _, f := range m.functions {
		if s.Entries.Has(f.entry) {
			if row.Functions == nil {
				s = s.For(f.entry)
			}
			row.Functions = append(row.Functions, f.name)
		}
	}
	row.NotEmpty = s.NotEmpty
	least, most := int64(1), int64(math.MaxInt64)
	choices := "(" + strings.Join(s.Choices, "|") + ")"
	switch s.Type {
	case List:
		row.Form = `^[^,]*[^,\s][^,]*(,[^,]*[^,\s][^,]*)*$`
		if s.Choices != nil {
			row.Form = `^\s*` + choices + `\s*(,\s*` + choices + `\s*)*$`
		}
	case Switch:
		row.Form = "^(true|false|1|0)$"
	case Number:
		row.Form = "^[+]?[0-9]+$"
		least, _ = strconv.ParseInt(s.Min, 10, 64)
		if s.Max != "" {
			most, _ = strconv.ParseInt(s.Max, 10, 64)
		}
		row.Least, row.Most = &least, &most
	case Duration:
		row.Form = `^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[+]?0$`
		if s.Off {
			row.Form += "|^off$"
		}
		if s.Min != "" {
			least = int64(bound(s.Min))
		}
		if s.Max != "" {
			most = int64(bound(s.Max))
		}
		row.Least, row.Most, row.Step = &least, &most, int64(bound(s.Step))
	case JSON:
		row.JSON = true
	default:
		if s.Choices == nil {
			return row // any text
		}
		row.Form = "^" + choices + "$"
	}
	row.Must = s.allowed()
	return row
}

// TestTerraform: the tables of the modules are made of this one.
func TestTerraform(t *testing.T) {
	for _, m := range modules {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(m.table()); err != nil {
			t.Fatal(err)
		}
		path := "../../infra/" + m.path + "/settings.json"
		if flag.Lookup("update").Value.String() == "true" {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Errorf("%s is out of date (%v): go test ./functions/settings -run TestTerraform -update", path, err)
		}
		for _, name := range slices.Sorted(maps.Keys(m.decided)) {
			if _, ok := Find(name); !ok {
				t.Errorf("%s: %s is no setting", m.path, name)
			}
		}
	}
}

// fits is what settings.tf makes of a row: whether a value is taken.
func (row tabled) fits(value string) bool {
	if !regexp.MustCompile(row.Form).MatchString(value) || row.JSON && !json.Valid([]byte(value)) {
		return false
	}
	if row.Least == nil || value == "off" {
		return true
	}
	unit := map[string]float64{"": 1, "ns": 1, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12}
	amount := 0.0
	for _, part := range regexp.MustCompile("([0-9.]+)([a-zµμ]*)").FindAllStringSubmatch(value, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return false
		}
		amount += n * cmp.Or(unit[part[2]], 1e3)
	}
	amount = math.Floor(amount + 0.5)
	return amount >= float64(*row.Least) && amount <= float64(*row.Most) &&
		(row.Step == 0 || math.Mod(amount, float64(row.Step)) == 0)
}

// TestTerraformTakesWhatTheProgramTakes: the form and the bounds of a row admit the values that the program reads.
func TestTerraformTakesWhatTheProgramTakes(t *testing.T) {
	values := []string{
		"", "x", "true", "1", "0", "yes", "TRUE", "-1", "+1", "1.5", "64", "65", "1000000", "1000001", "9999999999",
		"1s", "0s", "1500ms", "59m", "60m", "1h", "24h", "25h", "20s", "21s", ".5s", "1.5m", "1m30s", "10ms", "9ms", "100µs",
		"1d", "s", "1h1", "off", "soon", "info", "WARN", "retry", "a,b", "a,,b", " a , b ", ",", "accept", "refuse ",
		"{", `[{"serviceId":"orders"}]`,
	}
	for _, m := range modules {
		for name, row := range m.table().Settings {
			s, _ := Find(name)
			for _, f := range m.functions {
				if !slices.Contains(row.Functions, f.name) {
					continue
				}
				for _, value := range values {
					if value == "" || s.Type == JSON && !strings.ContainsAny(value, "{[") {
						continue
					}
					err := (&Config{Entry: f.entry}).parse(s.For(f.entry), value)
					if got := row.fits(value); got != (err == nil) {
						t.Errorf("%s=%s: the plan takes it: %t; the program: %v", name, value, got, err)
					} else if want := fmt.Sprintf(" is %q: it must be %s", value, row.Must); err != nil && err.Error() != want &&
						(!row.JSON || !strings.HasPrefix(err.Error(), want+": ")) {
						t.Errorf("%s=%s: the plan says %q; the program%v", name, value, row.Must, err)
					}
				}
				for _, text := range []string{s.Default, s.Min, s.Max} {
					if d, err := time.ParseDuration(text); text != "" && !row.fits(text) && (err != nil || d > 0) && s.For(f.entry).Max == s.Max {
						t.Errorf("%s: the plan refuses %s", name, text)
					}
				}
			}
		}
	}
}
