package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestLogOfAServer: the first line says what runs, a line about a request has its trace, and audit events are apart, in
// each format.
func TestLogOfAServer(t *testing.T) {
	t.Parallel()
	for format, names := range map[string]struct{ message, trace, id string }{
		"json":          {"msg", "trace_id", traceID},
		"cloud-logging": {"message", "logging.googleapis.com/trace", "projects/p1/traces/" + traceID},
	} {
		dir := t.TempDir()
		audit := filepath.Join(dir, "audit.jsonl")
		p := launch(t, []string{"GOOGLE_CLOUD_PROJECT=p1"}, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--log",
			format, "--audit-log", audit)
		const secret = "s3cret-label"
		for _, owner := range []string{"ann", "bob"} {
			body := fmt.Sprintf(`{"request_id":%q,"owner_id":%q,"ttl_seconds":30,"metadata":{"a":"%s<script>"}}`,
				owner, owner, secret)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/tenants/acme/locks/k/acquire",
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Traceparent", traceparent)
			r.Header.Set("Authorization", "Bearer "+secret)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, w.Body)
			_ = w.Body.Close()
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-p.ended; err != nil {
			t.Fatalf("%v\n%s", err, p.stderr.Bytes())
		}
		checkLog(t, p.stderr.String(), secret)
		events, err := os.ReadFile(audit)
		if err != nil {
			t.Fatal(err)
		}
		checkLog(t, string(events), secret)

		lines := membersOf(t, p.stderr.String())
		first := lines[0]
		for member, want := range map[string]string{"store": "sqlite", "stored": "in " + filepath.Join(dir, "leasehold.db"),
			"authentication": "development mode",
			"listen":         strings.TrimPrefix(p.url, "http://"), "audit": audit} {
			if first[names.message] != "started" || first[member] != want {
				t.Errorf("%s: the first line has the %s %v, want %s", format, member, first[member], want)
			}
		}
		if version, _ := first["version"].(string); version == "" {
			t.Errorf("%s: the first line has no version: %v", format, first)
		}
		var outcomes []any
		for _, l := range lines {
			if l[names.message] == "request" {
				outcomes = append(outcomes, l["outcome"])
				if l[names.trace] != names.id {
					t.Errorf("%s: the line has the trace %v", format, l[names.trace])
				}
			}
			if l[names.message] == "audit" {
				t.Errorf("%s: an audit event is in the log", format)
			}
		}
		if !slices.Equal(outcomes, []any{"ok", "LOCK_HELD"}) {
			t.Errorf("%s: %v", format, outcomes)
		}
		if all := membersOf(t, string(events)); len(all) != 2 || all[0]["msg"] != "audit" || all[0]["trace_id"] != traceID {
			t.Errorf("%s: audit events %s", format, events)
		}
	}
}

// membersOf are the members of each line of a log.
func membersOf(t *testing.T, log string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}
