package direct_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// counted is a store that counts its calls, and remembers the ends of writes.
type counted struct {
	docstore.Store

	calls int
	until []time.Time
}

func (c *counted) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	c.calls++
	c.until = append(c.until, writes[0].Until)
	return c.Store.Write(ctx, writes...)
}

// TestEnds: a request to a store ends 2 s after its caller's context. A store whose clock is another one than that of
// this process costs one request more, once.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour} {
		now := func() time.Time { return time.Now().Add(off) }
		store := &counted{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: now})}
		p := direct.Locks(lock.New(store, nil), "t")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		want := 1
		if off != 0 {
			want = 2
		}
		for _, key := range []string{"a", "b", "c"} {
			r := contracts.AcquireRequest{OwnerID: "o", RequestID: "r-" + key, TTLSeconds: 30}
			store.calls = 0
			if _, err := p.Acquire(ctx, key, r); err != nil || store.calls != want {
				t.Errorf("a clock off by %v: %d calls, want %d: %v", off, store.calls, want, err)
			}
			want = 1
			left := store.until[len(store.until)-1].Sub(now())
			if left < 50*time.Second || left > 63*time.Second {
				t.Errorf("a clock off by %v: the request ends in %v, its context in a minute", off, left)
			}
		}
		if _, err := p.(locks.SetProvider).AcquireSet(ctx, contracts.LockSetAcquireRequest{
			LockKeys: []string{"d", "e"}, OwnerID: "o", RequestID: "r", TTLSeconds: 30,
		}); err != nil {
			t.Errorf("a clock off by %v: %v", off, err)
		}
	}
}

// TestEndOfTheCaller: an end that the caller names is the caller's.
func TestEndOfTheCaller(t *testing.T) {
	t.Parallel()
	store := &counted{Store: docstore.NewMemory(nil)}
	p := direct.Locks(lock.New(store, nil), "t")
	for _, end := range []time.Duration{-time.Minute, 2 * time.Hour} {
		_, err := p.Acquire(t.Context(), "k", contracts.AcquireRequest{OwnerID: "o", RequestID: "r", TTLSeconds: 30,
			NotAfter: time.Now().Add(end).UTC().Format(contracts.TimeFormat)})
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Field != "not_after" || e.StoreTime.IsZero() {
			t.Errorf("an end %v away: %v", end, err)
		}
	}
	if store.calls > 2 {
		t.Errorf("%d calls for two requests", store.calls)
	}
}
