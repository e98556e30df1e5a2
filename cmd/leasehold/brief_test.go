package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestBrief: a person who tries the server sees a line for each event, with who, what and the result, sees what goes
// wrong in full, and nothing else; a name cannot move the cursor of the terminal.
func TestBrief(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newBriefHandler(&out))
	event := func(e contracts.AuditEvent) string {
		out.Reset()
		log.Info(httpapi.AuditMessage, slog.Any("audit", e))
		_, line, _ := strings.Cut(strings.TrimSuffix(out.String(), "\n"), "  ") // what follows the time
		return strings.Join(strings.Fields(line), " ")
	}
	for _, c := range []struct {
		event contracts.AuditEvent
		want  string
	}{
		{event: contracts.AuditEvent{Action: "lock.acquire", Owner: "ann", Tenant: "default", Key: "deploy", Outcome: "ok",
			FencingToken: 7}, want: "lock.acquire ann default/deploy ok token 7"},
		{event: contracts.AuditEvent{Action: "lock.acquire", Owner: "bob", Tenant: "default", Key: "deploy",
			Outcome: "LOCK_HELD"}, want: "lock.acquire bob default/deploy LOCK_HELD"},
		{event: contracts.AuditEvent{Action: "machine_ids.lease", Outcome: "ok"}, want: "machine_ids.lease - - ok"},
		{event: contracts.AuditEvent{Action: "lock.acquire", Owner: "a\x1b[2J\nb", Key: "k", Outcome: "ok"},
			want: `lock.acquire "a\x1b[2J\nb" k ok`},
	} {
		if got := event(c.event); got != c.want {
			t.Errorf("the line is %q, want %q", got, c.want)
		}
	}
	out.Reset()
	log.Info(httpapi.RequestMessage, "outcome", "ok")
	log.With("a", 1).WithGroup("g").Info("started")
	if out.Len() > 0 {
		t.Errorf("no event, and %q", &out)
	}
	log.Info(httpapi.RequestMessage, "method", "GET", "path", "/v1/x", "outcome", "NOT_FOUND")
	if _, line, _ := strings.Cut(out.String(), "  "); line != "GET /v1/x  NOT_FOUND\n" {
		t.Errorf("a request that was refused is %q", &out)
	}
	out.Reset()
	log.With("a", 1).Warn("the disk is full", "err", "no space")
	if !strings.Contains(out.String(), `msg="the disk is full" a=1 err="no space"`) {
		t.Errorf("a warning is %q", &out)
	}
}

// TestWhoGetsBriefLines: not a program that reads the log.
func TestWhoGetsBriefLines(t *testing.T) {
	c, err := settings.Load(settings.Serve, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if isBrief(c, new(bytes.Buffer)) {
		t.Error("lines are brief, and no terminal reads them")
	}
}
