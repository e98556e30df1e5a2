package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
)

// sink takes lines of a log, unless it is full.
type sink struct {
	bytes.Buffer

	full bool
}

func (s *sink) Write(line []byte) (int, error) {
	if s.full {
		return 0, errors.New("no space left")
	}
	return s.Buffer.Write(line)
}

// checkChain wants streams in which each event follows the one before it, in the order of the lines.
func checkChain(t *testing.T, events []contracts.AuditEvent) (streams int) {
	t.Helper()
	latest := map[string]contracts.AuditEvent{}
	for i, e := range events {
		before, goes := latest[e.Stream]
		want := contracts.AuditEvent{Number: 1}
		if goes {
			want.Number, want.Previous = before.Number+1, before.Hash()
		}
		if len(e.Stream) != 26 || e.Number != want.Number || e.Previous != want.Previous {
			t.Fatalf("event %d is %d of %q after %q, want %d after %q", i, e.Number, e.Stream, e.Previous, want.Number,
				want.Previous)
		}
		latest[e.Stream] = e
	}
	return len(latest)
}

// TestAuditChain: events have their numbers and the hashes of those before in the order in which they are written,
// whoever writes at the same time; other lines have none; what the log does not take has no number; an end is written
// once, and what comes after it is another stream.
func TestAuditChain(t *testing.T) {
	t.Parallel()
	var out sink
	chain := ChainAudit(slog.NewJSONHandler(&out, nil))
	log := slog.New(chain)
	if err := chain.End(t.Context()); err != nil || out.Len() != 0 {
		t.Fatalf("the end of nothing: %v, %s", err, &out)
	}
	var all sync.WaitGroup
	const writers, each = 8, 50
	for w := range writers {
		all.Go(func() {
			for i := range each {
				WriteAuditEvent(t.Context(), log, nil, contracts.AuditEvent{
					Action: "lock.acquire", Owner: fmt.Sprintf("ann<%d>\x01\xff\u2028", w), FencingToken: int64(i),
					MachineIDs: []int64{1, 2}, Chosen: &contracts.AuditChosen{},
				})
				log.LogAttrs(context.Background(), slog.LevelInfo, "request")
			}
		})
	}
	all.Wait()
	out.full = true
	WriteAuditEvent(t.Context(), log, nil, contracts.AuditEvent{Action: "lost"})
	out.full = false
	if err := chain.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	WriteAuditEvent(t.Context(), log, nil, contracts.AuditEvent{Action: "late"})
	events := contracttest.AuditEvents(t, out.String())
	if n := len(events); n != writers*each+2 || events[n-2].Action != "audit.end" || events[n-1].Action != "late" {
		t.Fatalf("%d events, the last ones %+v", n, events[max(0, n-2):])
	}
	if n := checkChain(t, events); n != 2 {
		t.Errorf("%d streams", n)
	}
}

// BenchmarkAuditChain compares an event in a chain with one that is in none.
func BenchmarkAuditChain(b *testing.B) {
	for name, wrap := range map[string]func(slog.Handler) slog.Handler{
		"chained": func(h slog.Handler) slog.Handler { return ChainAudit(h) },
		"alone":   func(h slog.Handler) slog.Handler { return h },
	} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(wrap(slog.NewJSONHandler(discarded{}, nil)))
			e := contracts.AuditEvent{
				Action: "lock.acquire", Owner: "ann#w1", FencingToken: 1795414766484001, Tenant: "acme", Kind: "lock",
				Key: "deploy-prod", Lease: "8f054366bc2464a60996eb6aa4f25e0e", Mode: "exclusive",
				GrantedAt: "2026-11-26T03:10:00.004Z", ExpiresAt: "2026-11-26T03:10:30.004Z",
				Chosen: &contracts.AuditChosen{OwnerID: "w1", RequestID: "r-17", XRequestID: "5HBFII6CQNDNTST5QQRQP75MB3"},
			}
			b.ReportAllocs()
			for b.Loop() {
				WriteAuditEvent(b.Context(), log, nil, e)
			}
		})
	}
}

// discarded is where the lines of a benchmark go: [io.Discard] would let slog make none.
type discarded struct{}

func (discarded) Write(b []byte) (int, error) { return len(b), nil }
