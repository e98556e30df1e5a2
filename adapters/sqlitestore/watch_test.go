package sqlitestore_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestWatchOfAnotherStore: what another store, or another process, writes to the file is signalled.
func TestWatchOfAnotherStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	if err := docstoretest.Watched(t.Context(), open(t, path, nil), open(t, path, nil), true); err != nil {
		t.Error(err)
	}
}

// TestHandOvers: stores on one file hand locks over to each other without reads by the clock.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	suite.HandOvers(t, open(t, path, nil), open(t, path, nil), open(t, path, nil))
}

// writeOnce writes the document that TestWatchOfAnotherProcess watches.
func writeOnce(s *sqlitestore.Store, id string) error {
	_, err := s.Write(context.Background(), docstore.Write{Key: key(id), Add: map[string]int64{"n": 1}})
	return err
}

// TestWatchOfAnotherProcess: what another process writes is signalled, of the document that it writes and of no other.
func TestWatchOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	s := open(t, path, nil)
	a, err := s.Watch(t.Context(), key("a"))
	if err != nil {
		t.Fatal(err)
	}
	for !a.Complete() {
		time.Sleep(time.Millisecond)
	}
	b, err := s.Watch(t.Context(), key("b"))
	if err != nil {
		t.Fatal(err)
	}
	<-b.Changed // it has begun; so has the other one, which was read before
	for len(a.Changed) > 0 {
		<-a.Changed
	}
	if err := child(t, "once:b", path).Run(); err != nil {
		t.Fatal(err)
	}
	<-b.Changed
	if err := child(t, "once:a", path).Run(); err != nil {
		t.Fatal(err)
	}
	<-a.Changed
}

// TestHowOftenTheFileIsLookedAt: after a look that a busy machine held up for seconds the store looks as often as
// before, or those who wait at one server would learn of all releases later than those at another; and less often the
// more documents a look reads.
func TestHowOftenTheFileIsLookedAt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	synctest.Test(t, func(t *testing.T) {
		s, other := open(t, path, nil), open(t, path, nil)
		var looks atomic.Int64
		var held atomic.Bool
		if err := s.OnLook(func() {
			looks.Add(1)
			if held.CompareAndSwap(true, false) {
				time.Sleep(3 * time.Second)
			}
		}); err != nil {
			t.Fatal(err)
		}
		watch := func(id string) {
			if _, err := s.Watch(t.Context(), key(id)); err != nil {
				t.Fatal(err)
			}
		}
		inASecond := func() int64 {
			before := looks.Load()
			time.Sleep(time.Second)
			return looks.Load() - before
		}
		watch("watched")
		time.Sleep(time.Second)
		if n := inASecond(); n < 95 || n > 105 {
			t.Errorf("%d looks in a second without a change: want one in 10 ms", n)
		}
		held.Store(true)
		time.Sleep(3 * time.Second) // the next look takes all of it
		if n := inASecond(); n < 95 || n > 105 {
			t.Errorf("%d looks in the second after one that took 3 s: want one in 10 ms", n)
		}
		for n := range 499 {
			watch(strconv.Itoa(n))
		}
		var writing sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		writing.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				if err := writeOnce(other, "not watched"); err != nil {
					t.Error(err)
				}
			}
		})
		defer writing.Wait()
		defer end()
		time.Sleep(time.Second)
		if n := inASecond(); n < 15 || n > 25 {
			t.Errorf("%d looks in a second that read 500 documents each: want one in 50 ms", n)
		}
	})
}
