package lock_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestPagesAreBoundedInBytes: a page of locks with much metadata ends at about 750 kB, whatever page_size says, and no
// call reads much more; a walk over all pages sees every lock once. Small locks cost one request for a page of 100, and
// two for one of 1000.
func TestPagesAreBoundedInBytes(t *testing.T) {
	for _, c := range []struct {
		name       string
		metadata   int // bytes of each lock
		size, most int // page_size; locks in a page at most
		requests   int // for the first page
		phase      lock.Phase
		locks      int
	}{
		{"small, default", 10, 0, 100, 1, lock.None, 300},
		{"small, largest", 10, 1000, 1000, 2, lock.None, 1200},
		{"large", 16 << 10, 1000, 50, 1, lock.None, 150},
		{"large, by state", 16 << 10, 1000, 50, 1, lock.Active, 150},
		{"one by one", 16 << 10, 1, 1, 1, lock.None, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &watched{Store: docstore.NewMemory(nil)}
			locks := lock.New(store, nil)
			metadata := map[string]string{}
			for i := range (c.metadata + 511) / 512 {
				metadata[strconv.Itoa(i)] = strings.Repeat("x", min(512, c.metadata))
			}
			var want []string
			for i := range c.locks {
				key := fmt.Sprintf("k%04d", i)
				want = append(want, key)
				o, err := locks.Acquire(t.Context(), lock.Acquire{
					ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: "r1", TTLSeconds: 3600, Metadata: metadata,
				})
				if err != nil || o.Code != lock.OK {
					t.Fatal(o, err)
				}
			}
			var got []string
			for q := (lock.List{Tenant: "acme", PageSize: c.size, Phase: c.phase}); ; {
				store.requests = nil
				p, err := locks.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if got == nil && len(store.requests) != c.requests {
					t.Errorf("the first page cost %d requests, want %d", len(store.requests), c.requests)
				}
				if len(p.Locks) > c.most || len(p.Locks) == 0 && p.Next != "" {
					t.Fatalf("a page of %d locks, %d at most", len(p.Locks), c.most)
				}
				for _, l := range p.Locks {
					got = append(got, l.Key)
				}
				if q.PageToken = p.Next; p.Next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the pages show %d locks, want %d", len(got), len(want))
			}
		})
	}
}

// TestPagesCountHoldersAndWaiters: a page of locks with many holders, or a long line, is bounded in bytes, too.
func TestPagesCountHoldersAndWaiters(t *testing.T) {
	locks := lock.New(docstore.NewMemory(nil), nil)
	metadata := map[string]string{}
	for i := range 32 {
		metadata[strconv.Itoa(i)] = strings.Repeat("x", 512)
	}
	const all = 30
	for i := range all {
		for n := range 5 {
			c := lock.Acquire{
				ID: lock.ID{Tenant: "acme", Key: fmt.Sprint("k", i)}, Owner: strings.Repeat("o", 250) + strconv.Itoa(n),
				RequestID:  strconv.Itoa(n),
				TTLSeconds: 3600, Mode: lock.Shared, Metadata: metadata,
			}
			if o, err := locks.Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
				t.Fatal(o, err)
			}
		}
	}
	seen := 0
	for q := (lock.List{Tenant: "acme", PageSize: 1000}); ; {
		p, err := locks.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Locks) > 10 || p.Cost.Kept < len(p.Locks)*5*16<<10 {
			t.Fatalf("a page of %d locks with 80 KiB each, at a cost of %+v", len(p.Locks), p.Cost)
		}
		seen += len(p.Locks)
		if q.PageToken = p.Next; p.Next == "" {
			break
		}
	}
	if seen != all {
		t.Errorf("the pages show %d locks", seen)
	}
}
