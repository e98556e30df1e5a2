package census_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// world is a census of the documents of a kind on a store in memory, whose lists a test can hold up or break.
type world struct {
	*testing.T
	docstore.Store
	*census.Census

	lists int
	hold  chan struct{} // if set, the next list is read and waits for its end before it is returned
	err   error         // of the next lists
}

const kind, tenant = "locks", "acme"

func newWorld(t *testing.T, most int) *world {
	t.Helper()
	w := &world{T: t, Store: docstore.NewMemory(nil)}
	w.Census = census.New(w, kind, most, time.Now)
	return w
}

func (w *world) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	w.lists++
	if w.err != nil {
		return docstore.Page{}, w.err
	}
	p, err := w.Store.List(ctx, q)
	if hold := w.hold; hold != nil {
		w.hold = nil
		<-hold
	}
	return p, err
}

// put creates a document, as another process does.
func (w *world) put(id string) {
	w.Helper()
	if _, err := w.Write(w.Context(), docstore.Write{Key: docstore.Key{Kind: kind, Tenant: tenant, ID: id}}); err != nil {
		w.Fatal(err)
	}
}

// create runs a command that creates a document unless it must not, and reports whether it did. It waits in between for
// an end, if there is one.
func (w *world) create(id string, until <-chan struct{}) (created bool) {
	w.Helper()
	err := w.Within(w.Context(), tenant, true, func(existing bool) (census.Effect, error) {
		if existing {
			return census.Missing, nil
		}
		if until != nil {
			<-until
		}
		w.put(id)
		created = true
		return census.Created, nil
	})
	if err != nil {
		w.Error(err)
	}
	return created
}

func (w *world) want(what string, created, want bool) {
	w.Helper()
	if created != want {
		w.Errorf("%s: created %v, want %v", what, created, want)
	}
}

// TestBound: a tenant creates as many documents as it may have, and no more until it has room when it is counted again.
// Commands that create nothing take no room, however many there are.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.put("before")
		w.want("second", w.create("b", nil), true)
		for range 10 {
			err := w.Within(t.Context(), tenant, true, func(existing bool) (census.Effect, error) {
				if existing {
					t.Error("one that creates nothing was told that there is no room")
				}
				return census.Other, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		w.want("third", w.create("c", nil), true)
		w.want("fourth", w.create("d", nil), false)
		if _, err := w.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: kind, Tenant: tenant, ID: "c"},
			If: docstore.Not{Cond: docstore.Absent{}}, Delete: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if after := w.RetryAfter(tenant); after != 4*time.Minute {
			t.Errorf("to be tried again after %v", after)
		}
		time.Sleep(4*time.Minute - 1)
		w.want("before the next count", w.create("d", nil), false)
		if w.lists != 1 {
			t.Errorf("%d lists", w.lists)
		}
		time.Sleep(time.Nanosecond)
		w.want("after it", w.create("d", nil), true)
		w.want("beyond it", w.create("e", nil), false)
	})
}

// TestRequestsUnderWay: what a request may create counts while it is under way.
func TestRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.want("first", w.create("a", nil), true)
		until, done := make(chan struct{}), make(chan bool)
		go func() { done <- w.create("b", until) }()
		synctest.Wait()
		w.want("beside one that may create the last", w.create("c", nil), false)
		close(until)
		w.want("the last", <-done, true)
		w.want("afterwards", w.create("c", nil), false)
	})
}

// TestCreatedDuringACount: a document that is created after the count has read the list is counted, too.
func TestCreatedDuringACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		time.Sleep(5 * time.Minute)
		hold := make(chan struct{})
		w.hold = hold
		w.want("second, which begins a count", w.create("b", nil), true)
		synctest.Wait()
		w.want("third, while it lasts", w.create("c", nil), true)
		time.Sleep(time.Minute)
		close(hold)
		synctest.Wait()
		w.want("fourth", w.create("d", nil), false)
		if after := w.RetryAfter(tenant); after != 4*time.Minute { // since the count began
			t.Errorf("to be tried again after %v", after)
		}
	})
}

// TestUnknownOutcome: a command that fails may have created what it was to create: one document, or each of a set.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		w := newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		if err := w.Within(t.Context(), tenant, true,
			func(bool) (census.Effect, error) { return census.Other, broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
		w.want("the last", w.create("b", nil), true)
		w.want("beyond it", w.create("c", nil), false)

		w = newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		if err := w.Several(t.Context(), tenant, 2, func(bool) (int, int, error) { return 0, 0, broken }); !errors.Is(err,
			broken) {
			t.Error(err)
		}
		w.want("after a set", w.create("b", nil), false)
	})
}

// TestSets: a set is created if there is room for all that it lacks. What exists already counts for nothing, and what
// was reserved for it is returned.
func TestSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		set := func(most, lacks int) (ran bool) {
			t.Helper()
			err := w.Several(t.Context(), tenant, most, func(existing bool) (created, missing int, err error) {
				if existing {
					return 0, lacks, nil
				}
				ran = true
				for range lacks {
					w.put(fmt.Sprint(w.lists, "-", time.Now().UnixNano(), "-", created))
					created++
				}
				time.Sleep(time.Nanosecond)
				return created, 0, nil
			})
			if err != nil {
				t.Error(err)
			}
			return ran
		}
		w.want("two of three", set(3, 2), true)
		w.want("three, and there is room for two", set(3, 3), false)
		w.want("none of three", set(3, 0), false) // it was not asked again: all exist
		w.want("one of three", set(3, 1), true)
		w.want("one of one", set(1, 1), true)
		w.want("beyond it", set(1, 1), false)
	})
}

// TestLargeTenants: a count goes on from page to page, to the bound and no farther.
func TestLargeTenants(t *testing.T) {
	for _, c := range []struct {
		most, documents, lists int
	}{{250, 249, 3}, {250, 250, 3}, {250, 1_000, 3}, {100, 1_000, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, c.most)
			for i := range c.documents {
				w.put(strconv.Itoa(i))
			}
			w.want(fmt.Sprintf("beside %d of %d", c.documents, c.most), w.create("new", nil), c.documents < c.most)
			if w.lists != c.lists {
				t.Errorf("%d documents of %d: %d lists, want %d", c.documents, c.most, w.lists, c.lists)
			}
		})
	}
}

// TestCountThatFails: its error is that of the command that needs it; the next command counts again, and the bound
// holds.
func TestCountThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.put("a")
		w.err = docstore.ErrUnavailable
		missing := func(existing bool) (census.Effect, error) {
			if !existing {
				t.Error("nothing is known of the tenant, and there is room")
			}
			return census.Missing, nil
		}
		for range 2 {
			if err := w.Within(t.Context(), tenant, true, missing); !errors.Is(err, docstore.ErrUnavailable) {
				t.Error(err)
			}
		}
		w.err = nil
		w.want("counted again", w.create("b", nil), false)
		if w.lists != 3 {
			t.Errorf("%d lists", w.lists)
		}
	})
}

// TestForgetsIdleTenants: some thousands are remembered, and those beyond them take the place of idle ones, not of one
// with a request under way, whose document counts afterwards.
func TestForgetsIdleTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.want("first", w.create("a", nil), true)
		until, done := make(chan struct{}), make(chan bool)
		go func() { done <- w.create("b", until) }()
		synctest.Wait()
		for i := range 10_000 {
			if err := w.Within(t.Context(), fmt.Sprint("idle", i), false,
				func(bool) (census.Effect, error) { return census.Missing, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			tenant string
			later  time.Duration
			want   time.Duration // until the first of the idle ones is counted again: a second if it was forgotten
		}{{"another", 0, 5 * time.Minute}, {"yet another", time.Hour, time.Second}} {
			time.Sleep(c.later)
			if err := w.Within(t.Context(), c.tenant, false,
				func(bool) (census.Effect, error) { return census.Missing, nil }); err != nil {
				t.Fatal(err)
			}
			if after := w.RetryAfter("idle0"); after != c.want {
				t.Errorf("after %v an idle tenant is to be tried again after %v", c.later, after)
			}
			if n := w.Remembered(); c.later > 0 && n != 2 { // the one under way, and the latest
				t.Errorf("after %v %d tenants are remembered", c.later, n)
			}
		}
		close(until)
		w.want("the one under way", <-done, true)
		w.want("beyond it", w.create("c", nil), false)
	})
}

// slow is a store whose lists wait for an end.
type slow struct {
	docstore.Store

	end   chan struct{}
	lists atomic.Int64
}

func (s *slow) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.lists.Add(1)
	<-s.end
	return s.Store.List(ctx, q)
}

// TestCountsAtATime: however many tenants are to be counted, a few are at a time.
func TestCountsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: docstore.NewMemory(nil), end: make(chan struct{})}
		c := census.New(s, kind, 1, time.Now)
		var all sync.WaitGroup
		for i := range 10 * census.MaxCounts {
			all.Go(func() {
				err := c.Within(t.Context(), fmt.Sprint("tenant ", i), false, func(existing bool) (census.Effect, error) {
					if existing {
						return census.Missing, nil
					}
					return census.Other, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := s.lists.Load(); n != census.MaxCounts {
			t.Errorf("%d counts at a time", n)
		}
		close(s.end)
		all.Wait()
		if n := s.lists.Load(); n != 10*census.MaxCounts {
			t.Errorf("%d counts", n)
		}
	})
}
