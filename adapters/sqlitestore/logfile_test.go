package sqlitestore_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// grow writes until the log has so many bytes, while a read holds it.
func grow(t *testing.T, s *sqlitestore.Store, least int64) {
	t.Helper()
	text := docstore.String(strings.Repeat("x", 200_000))
	if err := s.WhileReading(t.Context(), key("a"), func() {
		for n := 0; s.LogBytes() < least; n++ {
			w := increment(key(strconv.Itoa(n % 10)))
			w.Set = docstore.Doc{"text": text}
			if _, err := s.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestLogShrinks: after a long read, during which the log grew, it is 4 MiB at the most again once something is written,
// also while others read all the time. What was written is there.
func TestLogShrinks(t *testing.T) {
	t.Parallel()
	const most = 4<<20 + 1<<20
	for name, c := range map[string]struct {
		overlap bool
		writes  int
	}{"alone": {false, 5}, "beside reads": {true, 5000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
			grow(t, s, 6<<20)
			end := func() {}
			if c.overlap {
				end = readAlways(t, s)
			}
			n := 0
			for ; n < c.writes && s.LogBytes() > most; n++ {
				if _, err := s.Write(t.Context(), increment(key("b"))); err != nil {
					t.Fatal(err)
				}
			}
			end()
			if got := s.LogBytes(); got > most {
				t.Errorf("the log has %d bytes after %d writes", got, n)
			} else {
				t.Logf("%d bytes after %d writes", got, n)
			}
			if got := count(t, s, key("b")); got != int64(n) {
				t.Errorf("%d writes are there of %d", got, n)
			}
		})
	}
}

// readAlways reads until it is ended: each read ends when the next one has begun, so that there is always one, unless
// the next one is held up.
func readAlways(t *testing.T, s *sqlitestore.Store) (end func()) {
	t.Helper()
	over, running := make(chan struct{}), sync.WaitGroup{}
	var read func(begun chan<- struct{})
	read = func(begun chan<- struct{}) {
		if err := s.WhileReading(t.Context(), key("b"), func() {
			close(begun)
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
			}
			next := make(chan struct{})
			running.Go(func() { read(next) })
			select {
			case <-next:
			case <-over:
			case <-time.After(100 * time.Millisecond):
			}
		}); err != nil {
			t.Error(err)
		}
	}
	first := make(chan struct{})
	running.Go(func() { read(first) })
	<-first
	return func() { close(over); running.Wait() }
}

// TestLargeLogIsWarnedOf: one of 64 MiB is a warning, which metrics count, and a smaller one is none.
func TestLargeLogIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	if u := s.Usage(); !u.Log.Known || u.Log.Bytes != s.LogBytes() || u.Warnings != 0 {
		t.Errorf("%+v", u)
	}
	if w := s.LargeLog(64<<20 - 1); len(w) != 0 {
		t.Errorf("%v", w)
	}
	if w := s.LargeLog(64 << 20); len(w) != 1 || !strings.Contains(w[0], "leasehold.db-wal, the log of the store, has 64 MB") {
		t.Errorf("%v", w)
	}
}
