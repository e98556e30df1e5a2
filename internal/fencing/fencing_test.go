package fencing_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestGiven: at the bounds.
func TestGiven(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	most := now.Add(time.Hour).UnixMicro()
	for token, want := range map[int64]string{
		1: "", most: "", most + 1: "is a number that no lock has given: 1767229200000000 at most by now",
		0: "must be a whole number from 1 to 9007199254740992", -1: "must be a whole number from 1 to 9007199254740992",
		fencing.MaxToken + 1: "must be a whole number from 1 to 9007199254740992",
	} {
		got := ""
		if err := fencing.Given(token, now); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d: %q, want %q", token, got, want)
		}
	}
	if fencing.MaxToken != docstore.MaxInt {
		t.Error("stores keep other tokens")
	}
}

// TestFrom: the innermost token counts.
func TestFrom(t *testing.T) {
	ctx := fencing.With(fencing.With(t.Context(), fencing.OfLock("a", 0, 1)), fencing.OfLock("pool", 2, 2))
	if token, ok := fencing.From(context.WithoutCancel(ctx)); !ok || token != (fencing.Lease{Subject: "lock/pool#2", Token: 2}) {
		t.Error(token, ok)
	}
	if token, ok := fencing.From(t.Context()); ok {
		t.Error(token)
	}
}
