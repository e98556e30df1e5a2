package fence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestBoundsOfTheServer: the bounds are those of the fences of a store.
func TestBoundsOfTheServer(t *testing.T) {
	if fence.MaxAhead != lock.MaxAhead || fence.MaxResourceBytes != lock.MaxKeyBytes ||
		fence.MaxSubjectBytes < len("lock/")+lock.MaxKeyBytes+len("#99") {
		t.Error(fence.MaxAhead, fence.MaxResourceBytes)
	}
}

// TestMemory: LS-FENCE-001 in one process.
func TestMemory(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	m := fence.NewMemory(&fence.MemoryOptions{MaxResources: 2, Now: func() time.Time { return now }})
	most := now.Add(time.Hour).UnixMicro()
	for i, c := range []struct {
		resource string
		token    int64
		code     contracts.Code // empty: it passes
		highest  int64
	}{
		{"db", 5, "", 0},
		{"db", 5, "", 0}, // a holder does more than one thing
		{"db", 4, contracts.CodeStaleToken, 5},
		{"files", 1, "", 0},
		{"db", 6, "", 0},
		{"db", 5, contracts.CodeStaleToken, 6},
		{"db", 0, contracts.CodeInvalidArgument, 0},
		{"db", -1, contracts.CodeInvalidArgument, 0},
		{"db", most + 1, contracts.CodeInvalidArgument, 0},
		{"", 7, contracts.CodeInvalidArgument, 0},
		{"other", 7, contracts.CodeLockLimit, 0},
		{"db", 7, "", 0}, // nothing that was rejected has changed anything
		{"db", most, "", 0},
		{"db", most - 1, contracts.CodeStaleToken, most},
	} {
		err := m.Check(t.Context(), c.resource, ordersLease(c.token))
		if e, _ := errors.AsType[*contracts.Error](err); c.code == "" && err != nil ||
			c.code != "" && (e == nil || e.Code != c.code || e.HighestToken != c.highest) {
			t.Errorf("%d, %q %d: %v, want %q", i, c.resource, c.token, err, c.code)
		}
	}
}

// TestMemoryAtOnce: of many callers at once, each that passes is above all that passed before it began.
func TestMemoryAtOnce(t *testing.T) {
	m := fence.NewMemory(nil)
	var wait sync.WaitGroup
	errs := make(chan error, 8)
	for caller := range 8 {
		random := rand.New(rand.NewPCG(1, uint64(caller)))
		wait.Go(func() {
			own := int64(0)
			for range 1000 {
				token := 1 + random.Int64N(1_000_000)
				switch err := m.Check(t.Context(), "db", ordersLease(token)); {
				case err == nil && token < own:
					errs <- fmt.Errorf("%d passed after %d", token, own)
					return
				case err == nil:
					own = token
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}
