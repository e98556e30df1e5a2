package tests

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/idempotency"
)

// TestRunCommand: what became of a request is found by its Idempotency-Key, as the caller wrote it, and nothing by
// that of another caller.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir())
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "orders"} {
		m, err := idempotency.New(c.Runs("acme"), func(*http.Request) string { return "ann" },
			&idempotency.Options{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("10"))
		r.Header.Set(idempotency.Header, `"key-1"`)
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("paid by " + name))
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_TENANT=acme"}
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // "…" at the end allows anything to follow; a line of stdout
	}{
		{"--idempotency-key key-1 --scope ann", 0, `status    READY`, ""},
		{`--idempotency-key "key-1" --scope ann`, 0, `status    READY`, ""},
		{"--idempotency-key key-1 --scope ann --name orders --json", 0, `{"`, ""},
		{"--idempotency-key key-1 --scope bob", 5, "", "leasehold: NOT_FOUND: there is no such run; its record may have been removed (tenant acme)\n"},
		{"--idempotency-key key-1 --scope ann --name x", 5, "", "leasehold: NOT_FOUND: …"},
		{"--idempotency-key key-1", 2, "", "leasehold: --scope is missing: the same key of another caller is another run\n…"},
		{"--idempotency-key a,b --scope ann", 2, "", "leasehold: --idempotency-key: Idempotency-Key must be a string in quotes, …"},
		{"", 2, "", "leasehold: the run is missing: …"},
		{"r1 --scope ann", 2, "", "leasehold: a run is named by its name, or by --idempotency-key with --scope: …"},
		{"r1", 5, "", "leasehold: NOT_FOUND: …"},
	} {
		code, stdout, stderr := run(t, env, append([]string{"run", "get"}, strings.Fields(c.args)...)...)
		prefix, open := strings.CutSuffix(c.stderr, "…")
		if code != c.code || !strings.Contains(stdout, c.stdout) || stdout != "" && c.stdout == "" ||
			stderr != c.stderr && (!open || !strings.HasPrefix(stderr, prefix)) {
			t.Errorf("run get %s\ngot  %d %q %q\nwant %d %q %q", c.args, code, stdout, stderr, c.code, c.stdout, c.stderr)
		}
	}
}
