package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestEventsArePrintedOnce: an event that the server shows again is printed once, also if it was shown some pages ago.
func TestEventsArePrintedOnce(t *testing.T) {
	t.Parallel()
	event := func(id string) contracts.PlacementEvent {
		return contracts.PlacementEvent{EventID: id, At: "2026-01-01T00:00:01.000Z", Member: id, Incarnation: 1, To: "ACTIVE"}
	}
	pages := []contracts.EventPage{
		{Events: []contracts.PlacementEvent{event("w1")}, Next: "p1"},
		{Events: []contracts.PlacementEvent{event("w3")}, Next: "p2"},
		{Events: []contracts.PlacementEvent{}, Next: "p3", PollAfterMs: 1},
		{Events: []contracts.PlacementEvent{event("w1"), event("w2"), event("w3")}, Next: "p4"}, // w2 appeared late
	}
	for _, follow := range []bool{true, false} {
		ctx, interrupt := context.WithCancel(t.Context())
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked == len(pages) {
				interrupt()
				<-r.Context().Done()
				return
			}
			if asked > 0 && r.FormValue("after") != pages[asked-1].Next || r.FormValue("wait_seconds") != "" != follow {
				t.Errorf("request %d: %s", asked, r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(pages[asked])
			asked++
		}))
		var out, errs strings.Builder
		args := "--server " + server.URL + " placement events chat"
		want, code := []string{"w1"}, exitOK
		if follow {
			args, want, code = args+" --follow", []string{"w1", "w3", "w2"}, exitInterrupted
		}
		if got := run(ctx, strings.Fields(args), &out, &errs); got != code {
			t.Errorf("exit code %d: %s", got, &errs)
		}
		var members []string
		for line := range strings.Lines(out.String()) {
			members = append(members, strings.Fields(line)[2])
		}
		if strings.Join(members, " ") != strings.Join(want, " ") {
			t.Errorf("printed %q, want %q", members, want)
		}
		server.Close()
		interrupt()
	}
}
