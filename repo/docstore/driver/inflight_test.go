package driver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// TestCloseWaitsForCalls: Close lets what has begun end, and nothing begin meanwhile. The release comes last, and once.
func TestCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls driver.InFlight
		for range 2 {
			if err := calls.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		failed, released := errors.New("it failed"), 0
		answer := make(chan error, 1)
		go func() {
			answer <- calls.Close(func() error {
				released++
				return failed
			})
		}()
		for i := range 2 {
			synctest.Wait()
			if len(answer) != 0 || released != 0 {
				t.Fatalf("closed with %d calls in progress", 2-i)
			}
			if err := calls.Begin(t.Context()); !errors.Is(err, docstore.ErrClosed) {
				t.Errorf("a call began while the store was closing: %v", err)
			}
			calls.End()
		}
		if err := <-answer; !errors.Is(err, failed) {
			t.Errorf("Close: %v, want %v", err, failed)
		}
		if err := calls.Close(func() error { panic("released twice") }); !errors.Is(err, failed) || released != 1 {
			t.Errorf("closed again: %v, released %d times", err, released)
		}
	})
}

func TestCallsThatMustNotBegin(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	var calls driver.InFlight
	for want, ctx := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: expired} {
		if err := calls.Begin(ctx); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := calls.Close(nil); err != nil { // it would wait for ever, had one of them begun
		t.Error(err)
	}
	// That the store is closed comes first: trying again with more time does not help.
	if err := calls.Begin(canceled); !errors.Is(err, docstore.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
