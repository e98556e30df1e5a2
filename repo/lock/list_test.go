package lock_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestUrgent: what is waited for or about to expire is found among many, wherever its key is; the counts of all pages
// together are those of all locks, and no page reads more than it may.
func TestUrgent(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := &watched{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return now }})}
	locks := lock.New(store, nil)
	acquire := func(key, owner string, mode lock.Mode, ttl int64) {
		t.Helper()
		a := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner, RequestID: "r1", TTLSeconds: ttl, Mode: mode}
		if mode == lock.Permits {
			a.Limit = 9
		}
		if mode == lock.Rate {
			a.Limit, a.WindowSeconds, a.TTLSeconds = 9, ttl, 0
		}
		if o, err := locks.Acquire(t.Context(), a); err != nil || o.Code != lock.OK {
			t.Fatal(key, o, err)
		}
	}
	const many = 12_000
	for i := range many {
		acquire(fmt.Sprintf("k%05d", i), "ann", lock.Exclusive, 3600)
	}
	acquire("z-ends", "bob", lock.Exclusive, 60)
	acquire("z-one-ends", "bob", lock.Permits, 60)
	acquire("z-one-ends", "eve", lock.Permits, 3600)
	acquire("z-rate", "bob", lock.Rate, 60)
	acquire("z-third", "bob", lock.Exclusive, 63)
	now = now.Add(42 * time.Second) // a third of 63 s, and no less, is left of z-third
	waits := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k06000"}, Owner: "joe", RequestID: "r2", TTLSeconds: 60,
		WaitSeconds: 20, Fair: true}
	for range 2 { // the first makes the lock one that has a line
		if _, err := locks.AcquireWithin(t.Context(), waits, 0); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		q     lock.List
		keys  string
		pages int
	}{
		{lock.List{Urgent: true}, "k06000 z-ends z-one-ends", 3},
		{lock.List{Owner: "joe"}, "k06000", 3},
		{lock.List{Urgent: true, Owner: "eve"}, "z-one-ends", 3},
		{lock.List{Owner: "eve"}, "z-one-ends", 3},
		{lock.List{Owner: "bob", Prefix: "z-"}, "z-ends z-one-ends z-rate z-third", 1},
	} {
		var sum lock.Looked
		var keys []string
		pages := 0
		for c.q.Tenant, c.q.PageSize = "acme", 1000; ; pages++ {
			store.requests = nil
			p, err := locks.List(t.Context(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(store.requests); n > 8 || p.Looked.Documents > 5000 {
				t.Errorf("%+v: a page read %d locks in %d requests", c.q, p.Looked.Documents, n)
			}
			for _, l := range p.Locks {
				keys = append(keys, l.Key)
			}
			sum.Documents += p.Looked.Documents
			sum.Active += p.Looked.Active
			sum.Ending += p.Looked.Ending
			sum.Waited += p.Looked.Waited
			if c.q.PageToken = p.Next; p.Next == "" {
				pages++
				break
			}
		}
		want := lock.Looked{Documents: many + 4, Active: many + 4, Ending: 2, Waited: 1}
		if c.q.Prefix != "" {
			want = lock.Looked{Documents: 4, Active: 4, Ending: 2}
		}
		if got := strings.Join(keys, " "); got != c.keys || pages != c.pages || sum != want {
			t.Errorf("%+v: %q on %d pages, %+v; want %q on %d, %+v", c.q, got, pages, sum, c.keys, c.pages, want)
		}
	}
}
