package conformance_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasehold-dev/leasehold/contracts/conformance"
)

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchema: all scripts are as the JSON schema says, which other languages may read them by; and it refuses what the
// player refuses.
func TestSchema(t *testing.T) {
	s := compile(t, conformance.Schema)
	files, err := filepath.Glob("scripts/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for _, steps := range []string{
		`{"call": "acquire"}`, `{"call": "juggle", "as": "x"}`, `{"pass": 1, "key": "k"}`, `{"pass": -1}`,
		`{"note": "nothing"}`, `{"request": "GET /"}`,
		`{"request": "GET", "fault": "hang"}`, `{"request": "GET /", "fault": "fire"}`, `{"request": "GET /", "answer": {}}`,
		`{"request": "GET /", "answer": {"like": "lease", "text": ""}}`, `{"result": "x", "error": {}}`,
		`{"result": "x", "error": {"class": "odd"}}`, `{"wait": 1}`,
		`{"pass": 1, "freeze": 1}`, `{"lost": "x", "within": 0}`,
		`{"call": "handle", "as": "x", "http": {"path": "/"}}`, `{"return": "x", "value": {"body": "paid"}}`,
	} {
		if err := validate(t, s, []byte(`{"area": "locks", "proves": "it", "client": {}, "steps": [`+steps+
			`]}`)); err == nil {
			t.Errorf("it allows %s", steps)
		}
	}
}

// TestTemplates: what the player answers is what the contract says.
func TestTemplates(t *testing.T) {
	const lock, set, run = "/v1/tenants/acme/locks/deploy%2Fprod/acquire", "/v1/tenants/acme/lock-sets/acquire",
		"/v1/tenants/acme/runs/invoice-42/begin"
	const owner = `"owner_id": "worker-1", "request_id": "r1", "ttl_seconds": 60`
	const keys = `{"lock_keys": ["b", "a"], ` + owner + `}`
	for _, c := range []struct{ like, schema, path, body, want string }{
		{"lease", "lease", lock, `{` + owner + `}`, `"lock_key":"deploy/prod"`},
		{"lease", "lease", lock, `{"mode": "permits", "limit": 3, ` + owner + `}`, `"permit":1`},
		{"ended", "ended_lease", lock, `{"fencing_token": 7, ` + owner + `}`, `"fencing_token":7`},
		{"lock", "lock", "/v1/tenants/acme/locks/deploy%2Fprod", `{}`, `"lock_key":"deploy/prod"`},
		{"set", "lock_set", set, keys,
			`"leases":[{"fencing_token":1,"lease_id":"lease-1","lock_key":"a"},{"fencing_token":2,"lease_id":"lease-2","lock_key":"b"}]`},
		{"set_ended", "lock_set_released", set, `{"leases": [{"lock_key": "a", "fencing_token": 9}], ` + owner + `}`,
			`"leases":[{"fencing_token":9,"lock_key":"a"}]`},
		{"run", "run_granted", run, `{` + owner + `}`, `"run_id":"invoice-42"`},
		{"run_locked", "run_skipped", run, `{` + owner + `}`, `"reason":"locked"`},
		{"run_finished", "run_skipped", run, `{` + owner + `}`, `"status":"READY"`},
		{"run_refreshed", "run_lock", run, `{"fencing_token": 3, ` + owner + `}`, `"remaining_ms":60000`},
		{"run_released", "run_released", run, `{}`, `"run_id":"invoice-42"`},
		{"run_ended", "run_finished", run, `{"status": "FAILED"}`, `"status":"FAILED"`},
		{"machine_ids", "machine_id_leases", "/v1/machine-ids/lease", `{}`, `"id":5`},
		{"events", "event_page", "/v1/tenants/acme/clusters/chat/events", `{}`, `"next":"p1"`},
		{"LOCK_HELD", "problem", lock, `{}`, `"retryable":true`},
	} {
		schema, err := jsonschema.NewCompiler().Compile("../schema/" + c.schema + ".json") // and what it refers to
		if err != nil {
			t.Fatal(err)
		}
		got, err := conformance.Body(c.like, "POST", c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, got); err != nil {
			t.Errorf("%s: %v\n%s", c.like, err, got)
		}
		if !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %s, want %s in it", c.like, got, c.want)
		}
	}
	for _, name := range conformance.Templates() {
		if !slices.Contains([]string{
			"lease", "ended", "lock", "set", "set_ended", "run", "run_locked", "run_finished", "run_refreshed", "run_released",
			"run_ended", "machine_ids", "events",
		}, name) {
			t.Errorf("the template %q is not checked", name)
		}
	}
	if text, err := conformance.Body("given_up", "POST", lock, `{}`); err != nil || len(text) > 0 {
		t.Errorf("a request that was given up is answered %q, %v", text, err)
	}
	if _, err := conformance.Body("LOCK_LOST", "POST", lock, `{}`); err == nil {
		t.Error("there is an answer like LOCK_LOST, which is no code")
	}
}

// TestMatch: what a pattern takes, and what it says of the rest.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		strict               bool
		pattern, value, want string // want is the difference, empty for none
	}{
		{true, `{"a": 1}`, `{"a": 1}`, ""},
		{true, `{"a": 1}`, `{"a": 1, "b": false, "c": "", "d": 0, "e": null, "f": [], "g": {}}`, ""},
		{true, `{"a": 1}`, `{"a": 1, "b": true}`, "it.b is true, want none"},
		{false, `{"a": 1}`, `{"a": 1, "b": true}`, ""},
		{true, `{"a": 1}`, `{}`, "it.a is missing, want 1"},
		{true, `{"a": 0}`, `{}`, ""},
		{true, `{"a": 1}`, `{"a": "1"}`, `it.a is "1", want 1`},
		{true, `{"a": [1, 2]}`, `{"a": [1]}`, `it.a is [1], want [1,2]`},
		{true, `{"a": [1, {"b": 2}]}`, `{"a": [1, {"b": 3}]}`, `it.a[1].b is 3, want 2`},
		{true, `{"a": {"b": 2}}`, `{"a": 2}`, `it.a is 2, want an object`},
		{true, `{"a": 9007199254740993}`, `{"a": 9007199254740992}`, `it.a is 9007199254740992, want 9007199254740993`},
		{true, `"$any"`, `"x"`, ""},
		{true, `"$any"`, `""`, `it is "", want $any`},
		{true, `{"a": "$any"}`, `{}`, `it.a is missing, want $any`},
		{true, `{"a": "$maybe"}`, `{}`, ""},
		{true, `{"a": "$maybe"}`, `{"a": 5}`, ""},
		{true, `"$new:x"`, `"fresh"`, ""},
		{true, `"$new:x"`, `"old"`, `it is "old" again, which is "first": want another`},
		{true, `"$new:x"`, `""`, `it is "", want $new:x`},
		{true, `"$same:first"`, `"old"`, ""},
		{true, `"$same:first"`, `"fresh"`, `it is "fresh", want "old" as before`},
		{true, `"$1..20"`, `20`, ""},
		{true, `"$1..20"`, `20.5`, `it is 20.5, want $1..20`},
		{true, `"$1..20"`, `"5"`, `it is "5", want $1..20`},
		{true, `"@30.5"`, `"2030-01-01T00:00:30.500Z"`, ""},
		{true, `"@30"`, `"2030-01-01T00:00:31.000Z"`, `it is "2030-01-01T00:00:31.000Z", want "2030-01-01T00:00:30.000Z"`},
		{true, `"@1..18"`, `"2030-01-01T00:00:18.000Z"`, ""},
		{true, `"@1..18"`, `"2030-01-01T01:00:01.0005+01:00"`, ""},
		{true, `"@-4000..18"`, `"2029-12-31T22:53:20Z"`, ""},
		{true, `"@1..18"`, `"2030-01-01T00:00:18.001Z"`,
			`it is "2030-01-01T00:00:18.001Z", want a time from 2030-01-01T00:00:01.000Z to 2030-01-01T00:00:18.000Z`},
		{true, `"@1..18"`, `"2030-01-01T00:00:00.999Z"`,
			`it is "2030-01-01T00:00:00.999Z", want a time from 2030-01-01T00:00:01.000Z to 2030-01-01T00:00:18.000Z`},
		{true, `"@1..18"`, `10`,
			`it is 10, want a time from 2030-01-01T00:00:01.000Z to 2030-01-01T00:00:18.000Z`},
		{true, `{"a": "@1..18"}`, `{}`, `it.a is missing, want @1..18`},
		{true, `"@1..x"`, `"2030-01-01T00:00:18.000Z"`, `"x" are no seconds`},
		{true, `"$ms:1"`, `1893456001000`, ""},
		{true, `"$what"`, `1`, `it: the script has the pattern "$what", which there is not`},
	} {
		got, err := conformance.Match(map[string]string{"first": "old"}, c.strict, c.pattern, c.value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s against %s: %q, want %q", c.value, c.pattern, got, c.want)
		}
	}
}
