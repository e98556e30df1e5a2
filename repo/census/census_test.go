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
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// world is a census of the documents of a kind on a store in memory that counts requests, and can be away or held up.
type world struct {
	*testing.T
	*counting
	*census.Census
}

// counting is the store. What a test puts there itself is not counted.
type counting struct {
	docstore.Store

	lists, tallies, others atomic.Int64  // lists of documents, writes of tallies, other writes
	away                   error         // of the next writes of tallies
	hold                   chan struct{} // if set, those wait for its end
}

func (s *counting) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.lists.Add(1)
	return s.Store.List(ctx, q)
}

func (s *counting) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if w[0].Key.Kind != census.TallyKind {
		s.others.Add(1)
		return s.Store.Write(ctx, w...)
	}
	s.tallies.Add(1)
	if s.hold != nil {
		<-s.hold
	}
	if s.away != nil {
		return docstore.Result{}, s.away
	}
	return s.Store.Write(ctx, w...)
}

const kind, tenant = "locks", "acme"

func newWorld(t *testing.T, most int) *world {
	t.Helper()
	s := &counting{Store: docstore.NewMemory(nil)}
	return &world{t, s, census.New(s, kind, most, time.Now)}
}

// another is another process on the same store.
func (w *world) another(most int) *world {
	return &world{w.T, w.counting, census.New(w.counting, kind, most, time.Now)}
}

// put creates a document, as another program does.
func (w *world) put(id string) {
	w.Helper()
	k := docstore.Key{Kind: kind, Tenant: tenant, ID: id}
	if _, err := w.Store.Write(w.Context(), docstore.Write{Key: k}); err != nil {
		w.Fatal(err)
	}
}

// remove removes one, as the store does.
func (w *world) remove(id string) {
	w.Helper()
	if _, err := w.Store.Write(w.Context(), docstore.Write{Key: docstore.Key{Kind: kind, Tenant: tenant, ID: id},
		If: docstore.Not{Cond: docstore.Absent{}}, Delete: true}); err != nil {
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

// fill creates as many documents as there is room for, and reports how many.
func (w *world) fill(name string) (n int) {
	w.Helper()
	for w.create(fmt.Sprint(name, n), nil) {
		n++
	}
	return n
}

func (w *world) want(what string, created, want bool) {
	w.Helper()
	if created != want {
		w.Errorf("%s: created %v, want %v", what, created, want)
	}
}

// correct corrects until it is through.
func (w *world) correct(limit int) (all census.Corrected) {
	w.Helper()
	for {
		c, err := census.Correct(w.Context(), w.counting, limit)
		if err != nil {
			w.Fatal(err)
		}
		if all = all.Plus(c); !c.More {
			return all
		}
	}
}

// TestBound (LIM-NUMBER-3): a tenant creates as many documents as it may have, and no more. Commands that create
// nothing take no room, however many there are. What the store removed makes room with the next correction, and what a
// program removed by this one at once.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		w.want("second", w.create("b", nil), true)
		for range 10 {
			err := w.Within(t.Context(), tenant, true, func(bool) (census.Effect, error) { return census.Other, nil })
			if err != nil {
				t.Error(err)
			}
		}
		w.want("third", w.create("c", nil), true)
		for range 10 {
			w.want("beyond it", w.create("d", nil), false)
		}
		if after := w.RetryAfter(tenant); after != 5*time.Minute {
			t.Errorf("to be tried again after %v", after)
		}
		w.correct(0)
		w.remove("c")
		time.Sleep(5*time.Minute - 1*time.Millisecond)
		w.want("before the next count", w.create("d", nil), false)
		if after := w.RetryAfter(tenant); after != time.Second {
			t.Errorf("to be tried again after %v", after)
		}
		w.correct(0)
		time.Sleep(time.Second)
		w.want("it was not due", w.create("d", nil), false)
		w.correct(0)
		w.want("the process still believes", w.create("d", nil), false)
		time.Sleep(time.Second)
		w.want("after it", w.create("d", nil), true)
		w.want("beyond it", w.create("e", nil), false)
		w.remove("d")
		w.Removed(t.Context(), tenant)
		w.want("in the place of one that was removed", w.create("e", nil), true)
		w.want("beyond it", w.create("f", nil), false)
	})
}

// TestNoCountsInRequests (LIM-NUMBER-2): whatever number of documents there is, no request reads one, and one that
// creates a document writes the tally once for ten of them.
func TestNoCountsInRequests(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 30_000, 1_000_000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2_000_000)
			_, err := w.Store.Write(t.Context(), docstore.Write{
				Key: docstore.Key{Kind: census.TallyKind, ID: kind + "/" + tenant},
				Set: map[string]docstore.Value{"count": docstore.Int(n)}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				w.want("with room", w.create(strconv.Itoa(i), nil), true)
			}
			// 1, 2, 4 and 8 places, and then ten at a time
			if lists, tallies := w.lists.Load(), w.tallies.Load(); lists != 0 || tallies != 4+9 {
				t.Errorf("%d documents: %d lists, %d writes of the tally", n, lists, tallies)
			}
			// 105 places: five are left, whatever creates nothing
			for range 100 {
				if err := w.Within(t.Context(), tenant, true, func(bool) (census.Effect, error) {
					return census.Other, nil
				}); err != nil {
					t.Error(err)
				}
			}
			for i := range 5 {
				w.want("with what is left", w.create(fmt.Sprint("left", i), nil), true)
			}
			if tallies := w.tallies.Load(); tallies != 4+9 {
				t.Errorf("%d documents: %d writes of the tally for what was in hand", n, tallies)
			}
		})
	}
}

// TestSeveralProcesses (LIM-NUMBER-1): processes on one store do not exceed the bound together. What one had in hand
// when the tally was corrected, ten places at the most, it still uses; the next correction knows.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			const most = 2000
			first := newWorld(t, most)
			all := make([]*world, n)
			for i := range all {
				all[i] = first.another(most)
			}
			var created atomic.Int64
			var wait sync.WaitGroup
			for i, w := range all {
				wait.Go(func() { created.Add(int64(w.fill(fmt.Sprint(i, "-")))) })
			}
			wait.Wait()
			total := int(created.Load())
			// A process that finds the last places taken may have none, while another one has some in hand.
			if total != most {
				t.Errorf("%d processes created %d of %d", n, total, most)
			}
			some, err := first.Store.List(t.Context(), docstore.Query{Kind: kind, Tenant: tenant, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range some.Entries {
				first.remove(e.Key.ID)
			}
			time.Sleep(time.Hour)
			first.correct(0)
			more := 0
			for i, w := range all {
				more += w.fill(fmt.Sprint("again ", i, "-"))
			}
			if more != 100 {
				t.Errorf("%d processes created %d in the place of 100", n, more)
			}
		})
	}
}

// TestRoomInHand: what processes had in hand when the tally was corrected is what they exceed the bound by, and what
// they took with them when they ended comes back.
func TestRoomInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, processes = 1000, 20
		w := newWorld(t, most)
		all := make([]*world, processes)
		for i := range all {
			all[i] = w.another(most)
			for j := range 16 { // 1, 2, 4 and 8 places were taken, and ten more, of which one is used
				all[i].want("with room", all[i].create(fmt.Sprint(i, " ", j), nil), true)
			}
		}
		w.correct(0)
		n := processes*16 + w.fill("w")
		if n != most {
			t.Errorf("%d documents after the correction", n)
		}
		for i, a := range all {
			for j := range 9 {
				a.want("with what was in hand", a.create(fmt.Sprint(i, " again ", j), nil), true)
			}
			a.want("and nothing else", a.create("none", nil), false)
		}
		time.Sleep(24 * time.Hour)
		w.correct(0)
		w.want("beyond the bound", w.create("none", nil), false)
	})
}

// TestNeverCounted: a tenant that had documents before they were bounded may create as many more as the bound says,
// until it was counted; no request counts.
func TestNeverCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20)
		for i := range 50 {
			w.put(fmt.Sprint("before ", i))
		}
		for i := range 5 {
			w.want("before the first count", w.create(fmt.Sprint("a", i), nil), true)
		}
		if n := w.lists.Load(); n != 0 {
			t.Errorf("%d lists in requests", n)
		}
		if c := w.correct(0); c.Tallies != 1 || c.Documents != 55 {
			t.Errorf("corrected: %+v", c)
		}
		w.want("after it", w.create("b", nil), false)
		if err := w.Within(t.Context(), tenant, true, func(existing bool) (census.Effect, error) {
			if !existing {
				t.Error("asked to create")
			}
			return census.Other, nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingCorrects (LIM-NUMBER-4): where no sweep runs, a tally refuses nothing from a day on after it should have
// been corrected.
func TestNothingCorrects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		if n := w.fill("a"); n != 3 {
			t.Errorf("%d at first", n)
		}
		time.Sleep(24*time.Hour - time.Second - time.Millisecond)
		w.want("within the day", w.create("b", nil), false)
		time.Sleep(time.Second + time.Millisecond)
		for i := range 10 {
			w.want("after it", w.create(fmt.Sprint("c", i), nil), true)
		}
		w.correct(0)
		w.want("corrected", w.create("d", nil), false)
		time.Sleep(24*time.Hour + 5*time.Minute - 2*time.Second)
		w.want("within the next day", w.create("d", nil), false)
		time.Sleep(2 * time.Second)
		w.want("after that", w.create("d", nil), true)
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

// TestAskedTogether: requests that need room at the same time ask once, and get exactly what there is.
func TestAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		w.hold = make(chan struct{})
		var created atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if w.create(strconv.Itoa(i), nil) {
					created.Add(1)
				}
			})
		}
		synctest.Wait()
		close(w.hold)
		all.Wait()
		if n := created.Load(); n != 5 || w.tallies.Load() > 5 {
			t.Errorf("%d created, by %d writes of the tally", n, w.tallies.Load())
		}
	})
}

// TestUnknownOutcome: a command that fails may have created what it was to create: one document, or each of a set.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		w := newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		if err := w.Within(t.Context(), tenant, true, func(existing bool) (census.Effect, error) {
			if existing {
				return census.Missing, nil
			}
			return census.Other, broken
		}); !errors.Is(err, broken) {
			t.Error(err)
		}
		w.want("the last", w.create("b", nil), true)
		w.want("beyond it", w.create("c", nil), false)

		w = newWorld(t, 3)
		w.want("first", w.create("a", nil), true)
		if err := w.Several(t.Context(), tenant, 2, func(existing bool) (int, int, error) {
			if existing {
				return 0, 2, nil
			}
			return 0, 0, broken
		}); !errors.Is(err, broken) {
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
					w.put(fmt.Sprint(time.Now().UnixNano(), "-", created))
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
		w.want("one of three, right after a larger one was refused", set(3, 1), true)
		w.want("one of one", set(1, 1), true)
		w.want("beyond it", set(1, 1), false)
	})
}

// TestLargeTenants (LIM-NUMBER-4): a count goes on from page to page and from call to call, and one that was cut off by
// its time goes on as well. What is created meanwhile stays counted.
func TestLargeTenants(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 250, 600, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2000)
			for i := range 1000 {
				w.put(fmt.Sprintf("%04d", i))
			}
			w.want("first", w.create("5000", nil), true)
			for calls := 0; ; calls++ {
				c, err := census.Correct(t.Context(), w.counting, limit)
				if err != nil || calls > 5 {
					t.Fatal(c, err, calls)
				}
				if !c.More {
					break
				}
				if calls == 0 { // in front of the place where it goes on, and behind it
					w.want("meanwhile", w.create("0000a", nil), true)
					w.want("meanwhile", w.create("6000", nil), true)
				}
			}
			meanwhile := 0
			if limit < 1000 {
				meanwhile = 1 // the one behind it counts twice until the next count
			}
			time.Sleep(time.Hour)
			left := 2000 - 1001 - 3*meanwhile
			if n := w.fill("x"); n != left {
				t.Errorf("limit %d: %d more, want %d", limit, n, left)
			}
			time.Sleep(time.Hour)
			w.correct(limit)
			time.Sleep(time.Second)
			if n := w.fill("y"); n != meanwhile {
				t.Errorf("limit %d: %d more after the next count, want %d", limit, n, meanwhile)
			}
		})
	}
	t.Run("cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2000)
			for i := range 1000 {
				w.put(strconv.Itoa(i))
			}
			w.want("first", w.create("a", nil), true)
			slow := &slowLists{Store: w.Store}
			calls := 0
			for more := true; more; calls++ {
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				c, err := census.Correct(ctx, slow, 0)
				cancel()
				if err != nil || calls > 10 {
					t.Fatal(c, err)
				}
				more = c.More
			}
			if calls < 2 || calls > 5 {
				t.Errorf("%d calls", calls)
			}
			time.Sleep(time.Hour)
			if n := w.fill("x"); n != 999 {
				t.Errorf("%d more", n)
			}
		})
	})
}

// slowLists is a store whose lists take a second.
type slowLists struct{ docstore.Store }

func (s *slowLists) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.List(ctx, q)
	case <-ctx.Done():
		return docstore.Page{}, ctx.Err()
	}
}

// TestCountsAreSeldom: the more documents a tenant has, the less often they are counted; near its bound more often. A
// round is one read while nothing is due, and none begins within five minutes.
func TestCountsAreSeldom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		documents, most int
		again           time.Duration
	}{{10, 1000, 5 * time.Minute}, {900, 10_000, 15 * time.Minute}, {6000, 6500, 10 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, c.most)
			for i := range c.documents - 1 {
				w.put(strconv.Itoa(i))
			}
			w.want("the last", w.create("last", nil), true)
			if done := w.correct(0); done.Documents != c.documents {
				t.Fatalf("%+v", done)
			}
			counted := time.Now()
			w.others.Store(0)
			if w.correct(0); w.others.Load() != 0 {
				t.Errorf("a round began within five minutes")
			}
			for {
				time.Sleep(time.Minute)
				if done := w.correct(0); done.Documents > 0 {
					break
				}
			}
			if got := time.Since(counted); got < c.again || got > c.again+6*time.Minute {
				t.Errorf("%d documents of %d: counted again after %v, want %v", c.documents, c.most, got, c.again)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		if c := w.correct(0); c != (census.Corrected{}) || w.lists.Load() != 1 || w.tallies.Load()+w.others.Load() != 0 {
			t.Errorf("without tallies: %+v, %d lists", c, w.lists.Load())
		}
	})
}

// TestEmptyTenants: the tally of a tenant without documents is removed, unless room was taken meanwhile.
func TestEmptyTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.want("one", w.create("a", nil), true)
		w.remove("a")
		w.correct(0)
		if p, err := w.Store.List(t.Context(), docstore.Query{Kind: census.TallyKind}); err != nil || len(p.Entries) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		if n := w.fill("b"); n != 10 {
			t.Errorf("%d afterwards", n)
		}
	})
}

// TestDamagedTallies: what is no number refuses no one, and is put right. What cannot be counted keeps no other tally
// from it.
func TestDamagedTallies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		put := func(id string, d docstore.Doc) {
			if _, err := w.Store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: census.TallyKind, ID: id},
				Set: d}); err != nil {
				t.Fatal(err)
			}
		}
		put("a kind/"+tenant, docstore.Doc{"count": docstore.Int(3)}) // no kind of documents
		put("nothing", docstore.Doc{"count": docstore.Int(3)})
		put(kind+"/"+tenant, docstore.Doc{"count": docstore.String("many"), "counted_at": docstore.String("soon"),
			"after": docstore.Int(7)})
		for i := range 8 {
			w.put(strconv.Itoa(i))
		}
		w.want("before it is put right", w.create("a", nil), true)
		c, err := census.Correct(t.Context(), w.counting, 0)
		if !errors.Is(err, docstore.ErrInvalid) || c.Errors != 1 || c.Tallies != 1 || c.More {
			t.Errorf("%+v, %v", c, err)
		}
		if n := w.fill("b"); n != 1 {
			t.Errorf("%d afterwards", n)
		}
	})
}

// TestTallyAway: the error of a store that is away is that of the command that needs room; one on a document that there
// is needs none.
func TestTallyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.away = docstore.ErrUnavailable
		missing := func(existing bool) (census.Effect, error) { //nolint:unparam // as try
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
		there := func(bool) (census.Effect, error) { return census.Other, nil }
		if err := w.Within(t.Context(), tenant, false, there); err != nil {
			t.Error(err)
		}
		w.away = nil
		w.want("asked again", w.create("a", nil), true)
		w.want("beyond it", w.create("b", nil), false)

		w = newWorld(t, 1)
		w.hold = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- w.Within(ctx, tenant, true, missing) }()
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(w.hold)
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
		ask := func(tenant string) {
			if err := w.Within(t.Context(), tenant, false, func(existing bool) (census.Effect, error) {
				if existing {
					return census.Missing, nil
				}
				return census.Other, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range census.MaxTallies {
			ask(fmt.Sprint("idle", i))
		}
		if n := w.Remembered(); n != census.MaxTallies+1 {
			t.Errorf("%d tenants are remembered", n)
		}
		time.Sleep(time.Hour)
		ask("another")
		if n := w.Remembered(); n != 2 { // the one under way, and the latest
			t.Errorf("%d tenants are remembered", n)
		}
		close(until)
		w.want("the one under way", <-done, true)
		w.want("beyond it", w.create("c", nil), false)
	})
}

// TestForgetsWhoTookRoomAfterwards: a tenant for which room was taken after the document was created is idle then, and
// forgotten like others: nothing of it is under way.
func TestForgetsWhoTookRoomAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		created := func(tenant string) bool {
			ok, err := w.Created(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		for i := range census.MaxTallies {
			w.want("first", created(fmt.Sprint("idle", i)), true)
		}
		w.want("second", created("idle0"), true)
		w.want("beyond it", created("idle0"), false)
		time.Sleep(time.Hour)
		w.want("another", created("another"), true)
		if n := w.Remembered(); n != 1 {
			t.Errorf("%d tenants are remembered, want the latest", n)
		}
		w.want("beyond it, an hour later", created("idle0"), false)
	})
}

// TestStepOfATake (LIM-NUMBER-1): each outcome of the rule, at the bound, one beyond and ten times beyond it.
func TestStepOfATake(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	const most = 100
	for count := range int64(12 * most) {
		for _, c := range []struct{ need, want int }{{1, 1}, {1, 10}, {7, 10}, {20, 20}} {
			left := int64(most) - count
			want := min(left, int64(c.want))
			if want < int64(c.need) {
				want = 0
			}
			found := docstore.Doc{"count": docstore.Int(count)}
			after, o, err := rule.Step(census.Take{Kind: kind, Tenant: tenant, Need: c.need, Want: c.want, Most: most}, found,
				rule.When{At: now})
			if err != nil || int64(o.Granted) != want || after["count"] != docstore.Int(count+want) {
				t.Fatalf("%d of %d, %+v: %+v, %v, %v", count, most, c, o, after, err)
			}
		}
	}
}
