package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// wrongSettings are settings that cannot be, with what is said of each, in a plan and at the start.
var wrongSettings = []struct{ setting, says string }{
	// There is none of that name.
	{"LEASEHOLD_TENANT_RATES=5", "LEASEHOLD_TENANT_RATES is not a setting: did you mean LEASEHOLD_TENANT_RATE?"},
	{"LEASEHOLD_RETENSION=24h", "LEASEHOLD_RETENSION is not a setting: did you mean LEASEHOLD_RETENTION?"},
	{"LEASEHOLD_ISSUER=https://x", "LEASEHOLD_ISSUER is not a setting: did you mean LEASEHOLD_AUTH_ISSUER?"},
	{"LEASEHOLD_RATE_TENANT=5", "LEASEHOLD_RATE_TENANT is not a setting: did you mean LEASEHOLD_TENANT_RATE?"},
	{"LEASEHOLD_LOGLEVEL=info", "LEASEHOLD_LOGLEVEL is not a setting: did you mean LEASEHOLD_LOG_LEVEL?"},
	{"LEASEHOLD_COLOUR=red",
		"LEASEHOLD_COLOUR is not a setting, and no setting has a similar name: docs/reference/settings.md lists all"},
	{"LEASEHOLD_TENANT=acme",
		"LEASEHOLD_TENANT is a setting of the commands that call a server, and has no effect here: did you mean LEASEHOLD_AUTH_TENANT?"},
	// Another type.
	{"LEASEHOLD_CONSOLE=yes", `LEASEHOLD_CONSOLE is "yes": it must be true or false`},
	{"LEASEHOLD_TENANT_RATE=many", `LEASEHOLD_TENANT_RATE is "many": it must be a whole number of at least 0`},
	{"LEASEHOLD_SUBJECT_RATE=1.5", `LEASEHOLD_SUBJECT_RATE is "1.5": it must be a whole number of at least 0`},
	{"LEASEHOLD_REQUEST_TIMEOUT=30",
		`LEASEHOLD_REQUEST_TIMEOUT is "30": it must be a duration above 0, such as 30s or 5m`},
	{"LEASEHOLD_AUTH_ADMINS=alice,,bob",
		`LEASEHOLD_AUTH_ADMINS is "alice,,bob": it must be a list separated by commas, without empty items`},
	{"LEASEHOLD_ID_SERVICES=[{", `LEASEHOLD_ID_SERVICES is "[{": it must be JSON`},
	// No choice.
	{"LEASEHOLD_LOG_LEVEL=WARN", `LEASEHOLD_LOG_LEVEL is "WARN": it must be info, warn, error or none`},
	{"LEASEHOLD_RATE_WITHOUT_STORE=reject", `LEASEHOLD_RATE_WITHOUT_STORE is "reject": it must be accept or refuse`},
	// Out of bounds.
	{"LEASEHOLD_RETENTION=59m", `LEASEHOLD_RETENTION is "59m": it must be a duration of at least 1h, or off`},
	{"LEASEHOLD_MAX_WAIT=20001ms", `LEASEHOLD_MAX_WAIT is "20001ms": it must be a duration from 0s to 20s`},
	{"LEASEHOLD_MAX_LOCKS_PER_TENANT=-1",
		`LEASEHOLD_MAX_LOCKS_PER_TENANT is "-1": it must be a whole number of at least 0`},
	{"LEASEHOLD_LOG_SAMPLE=1000001", `LEASEHOLD_LOG_SAMPLE is "1000001": it must be a whole number from 0 to 1000000`},
	// In other letters: nothing reads it, or it is a second value.
	{"leasehold_max_waiting=5", "leasehold_max_waiting is not a setting: did you mean LEASEHOLD_MAX_WAITING?"},
	{"LEASEHOLD_TENANT_RATE=5 leasehold_tenant_rate=6",
		"LEASEHOLD_TENANT_RATE is set twice: as leasehold_tenant_rate, too"},
	// Between two.
	{"LEASEHOLD_AUTH_SUBJECTS=alice",
		"LEASEHOLD_AUTH_SUBJECTS needs LEASEHOLD_AUTH_TENANT: it lists the subjects of that tenant"},
}

// TestWrongSettings: a plan refuses what the program would not start with, in its words.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		c       *configuration
		entry   settings.Entry
		environ []string // with which it starts
		others  string   // that only a plan refuses
		says    []string
	}{
		"aws": {
			plannable(t, "aws/functions"), settings.LambdaAPI,
			[]string{"LEASEHOLD_TABLE=leasehold", "LEASEHOLD_FRONT_DOOR=http-api"},
			`LEASEHOLD_TABLE = "x", LEASEHOLD_TARGET_TOKEN = "x", LEASEHOLD_REDIS_ADDR = "x", max_wait = 5, max-waiting = 6, LEASEHOLD_TTL = "1500ms"`,
			[]string{
				"LEASEHOLD_TABLE is set twice: the module sets it, by table_name",
				"LEASEHOLD_TARGET_TOKEN is a secret, which would be in the state of Terraform",
				"LEASEHOLD_REDIS_ADDR is a setting of leasehold serve",
				"LEASEHOLD_MAX_WAIT is set twice: as max_wait, too", "max-waiting is not a setting: did you mean LEASEHOLD_MAX_WAITING?",
				`LEASEHOLD_TTL is "1500ms": it must be a duration from 1s to 24h in whole seconds`,
			},
		},
		"gcp": {
			plannable(t, "gcp/functions"), settings.FunctionAPI,
			[]string{"LEASEHOLD_PROJECT=x", "LEASEHOLD_AUTH_ISSUER=https://x", "LEASEHOLD_AUTH_AUDIENCE=x"},
			`LEASEHOLD_PROJECT = "x", LEASEHOLD_TARGET_TOKEN = "x", LEASEHOLD_LISTEN = "x", LEASEHOLD_TASK_TIMEOUT = "31m"`,
			[]string{
				"LEASEHOLD_PROJECT is set twice: the module sets it, by project",
				"LEASEHOLD_TARGET_TOKEN is a secret, which would be in the state of Terraform",
				"LEASEHOLD_LISTEN is a setting of leasehold serve, and has no effect here",
				`LEASEHOLD_TASK_TIMEOUT is "31m": it must be a duration`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x.c.tb = t
			says := x.says
			of := strings.Split(x.others, ", ")
			for _, w := range wrongSettings {
				_, err := settings.Load(x.entry, append(slices.Clone(x.environ), strings.Fields(w.setting)...), nil)
				if err == nil || !strings.HasPrefix(err.Error(), w.says) {
					t.Errorf("%s at the start: %v\nwant %s", w.setting, err, w.says)
				}
				fields := strings.Fields(w.setting) // what is wrong is last, and the map has one value of each name
				name, value, _ := strings.Cut(fields[len(fields)-1], "=")
				says, of = append(says, w.says), append(of, name+" = "+jsonText(value))
			}
			given, err := os.ReadFile(filepath.Join(planFiles, name, "functions/defaults.tfvars"))
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := strings.Cut(string(given), "settings = {")
			if name == "aws" {
				before += "jwt = { issuer = \"https://issuer.example\", audience = [\"leasehold\"] }\n"
			}
			file := filepath.Join(x.c.root, "wrong.tfvars")
			if err := os.WriteFile(file, []byte(before+"settings = {\n"+strings.Join(of, "\n")+"\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := x.c.run("plan", "-input=false", "-no-color", "-refresh=false", "-lock=false", "-var-file="+file)
			if err == nil {
				t.Error("the plan is accepted")
			}
			for _, want := range says {
				if !strings.Contains(words(out), want) {
					t.Errorf("the plan does not say %s", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestSettingsAreCheckedAlike: both modules have the same check, beside their tables.
func TestSettingsAreCheckedAlike(t *testing.T) {
	t.Parallel()
	aws, err := os.ReadFile("../aws/functions/settings.tf")
	if err != nil {
		t.Fatal(err)
	}
	if gcp, err := os.ReadFile("../gcp/functions/settings.tf"); err != nil || string(gcp) != string(aws) {
		t.Errorf("the settings.tf of the modules differ: %v", err)
	}
}
