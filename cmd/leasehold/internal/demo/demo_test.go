package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// lying returns a play in front of a server that responds what it likes.
func lying(t *testing.T, h http.HandlerFunc) (*play, *bytes.Buffer) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	out := &bytes.Buffer{}
	d := newPlay(&record{begin: time.Now(), out: out}, docstore.NewMemory(nil))
	d.url = s.URL
	return d, out
}

func (d *play) broken() (what []string) {
	for _, c := range d.checks {
		if !c.Held {
			what = append(what, c.What)
		}
	}
	return what
}

// TestLocksForEveryCaller: a server that grants everything, always with the same token, and lets every token pass.
func TestLocksForEveryCaller(t *testing.T) {
	d, out := lying(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.Split(r.URL.Path, "/") // /v1/tenants/{tenant}/locks/{key}/{verb}
		var asked struct {
			Owner string `json:"owner_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		response := map[string]any{
			"tenant_id": path[3], "lock_key": path[5], "lease_id": "l", "owner_id": asked.Owner, "fencing_token": 1,
			"state":      "ACTIVE",
			"expires_at": "2100-01-01T00:00:00.000Z", "remaining_ms": 60000,
		}
		switch path[len(path)-1] {
		case "release":
			response["state"] = "RELEASED"
		case "check":
			response = map[string]any{"tenant_id": path[3], "resource": path[5], "passed": true, "fencing_token": 1,
				"highest": 1}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(response); err != nil {
			t.Error(err)
		}
	})
	if err := d.contend(t.Context()); err != nil {
		t.Fatal(err)
	}
	want :=
		"never two holders at once, each grant has a larger token than all before it, the stale token of a holder that was paused is rejected"
	if got := strings.Join(d.broken(), ", "); got != want || d.summary() {
		t.Errorf("it noticed %q, want %q\n%s", got, want, out)
	}
}

// TestTasksThatRunEachTime: a gate that lets every delivery through.
func TestTasksThatRunEachTime(t *testing.T) {
	var d *play
	var deliveries atomic.Int64
	d, out := lying(t, func(w http.ResponseWriter, r *http.Request) {
		deliveries.Add(1)
		d.office.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"outcome":"ready","analysisId":"`+delivered+`"}`)
	})
	if err := d.deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "a task that is delivered five times runs once, and every delivery learns that it is done"
	if got := strings.Join(d.broken(), ", "); got != want || d.summary() {
		t.Errorf("it noticed %q, want %q\n%s", got, want, out)
	}
}

// TestSummary: a record without checks has shown nothing, and one broken promise is one too many.
func TestSummary(t *testing.T) {
	for _, c := range []struct {
		held []bool
		want bool
		says string
	}{
		{nil, false, "0 of 0 promises held"},
		{[]bool{true}, true, "1 of 1 promises held"},
		{[]bool{true, false}, false, "1 of 2 promises held"},
	} {
		out := &bytes.Buffer{}
		s := &record{begin: time.Now(), out: out}
		for _, held := range c.held {
			s.check(held, "x", "y")
		}
		if got := s.summary(); got != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: %v, %s", c.held, got, out)
		}
	}
}

// TestRoomsForEveryCaller: a server that grants every claim to whichever member, with the same token, and takes every
// state.
func TestRoomsForEveryCaller(t *testing.T) {
	d, out := lying(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.Split(r.URL.Path, "/")
		activation := map[string]any{"kind": roomKind, "id": lobby, "fencing_token": 1, "member": "member-a",
			"incarnation": 1, "phase": "ACTIVE", "state_version": 1}
		var response any = map[string]any{"activation": activation, "replayed": false}
		switch path[len(path)-1] {
		case "join", "heartbeat":
			response = map[string]any{"member": path[7], "incarnation": 1, "remaining_ms": 60000,
				"expires_at": "2100-01-01T00:00:00.000Z", "status": "ACTIVE", "epoch": 1}
		case lobby:
			response = activation
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(response); err != nil {
			t.Error(err)
		}
	})
	if err := d.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	want :=
		"a room that five callers ask for is active once, after its member died another one serves it, not before the lease has run out, " +
			"what the dead member still writes is refused, and its state is kept"
	if got := strings.Join(d.broken(), ", "); got != want || d.summary() {
		t.Errorf("it noticed %q, want %q\n%s", got, want, out)
	}
}
