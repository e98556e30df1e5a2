package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestRequests counts commands on the wire: one for a write and for a read, one and one for each 50 documents for a
// page, one for an empty one.
func TestRequests(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		expect := func(name string, want map[string]int, do func() error) {
			t.Helper()
			server.ResetCommands()
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := server.Commands(); !maps.Equal(got, want) {
				t.Errorf("%s: sent %v, want %v", name, got, want)
			}
		}
		write := func(applied bool, writes ...docstore.Write) func() error {
			return func() error {
				r, err := s.Write(t.Context(), writes...)
				if err == nil && r.Applied != applied {
					err = fmt.Errorf("applied is %v", r.Applied)
				}
				return err
			}
		}
		get := func(keys ...docstore.Key) func() error {
			return func() error {
				_, err := s.Get(t.Context(), keys...)
				return err
			}
		}
		list := func(q docstore.Query, entries int) func() error {
			return func() error {
				p, err := s.List(t.Context(), q)
				if err == nil && len(p.Entries) != entries {
					err = fmt.Errorf("%d entries", len(p.Entries))
				}
				return err
			}
		}
		one, unknown := map[string]int{"EVALSHA": 1}, map[string]int{"EVALSHA": 1, "EVAL": 1}
		several := make([]docstore.Write, docstore.MaxWrites)
		keys := make([]docstore.Key, len(several))
		for i := range several {
			keys[i] = key(fmt.Sprint("k", i))
			several[i] = docstore.Write{Key: keys[i], Add: map[string]int64{"n": 1}}
		}
		all := docstore.Query{Kind: "locks", Tenant: "acme", Limit: docstore.MaxLimit}

		expect("the first write, whose script the server does not know", unknown, write(true, several[0]))
		expect("a write", one, write(true, several[0]))
		refused := docstore.Write{Key: keys[0], If: docstore.Absent{}}
		expect("the first write of another shape", unknown, write(false, refused))
		expect("a refused write", one, write(false, refused))
		expect("the first of several writes", unknown, write(true, several...))
		expect("a hundred writes", one, write(true, several...))
		mixed := slices.Clone(several)
		mixed[len(mixed)-1] = docstore.Write{Key: keys[99], If: docstore.Absent{}}
		expect("the first of several writes of two shapes", unknown, write(false, mixed...))
		expect("a hundred refused writes", one, write(false, mixed...))
		expect("the first read", unknown, get(keys[0]))
		expect("a read", one, get(keys[0]))
		expect("a read of a hundred", one, get(keys...))
		expect("the first page", map[string]int{"EVALSHA": 3, "EVAL": 1}, list(all, 100))
		expect("a page", map[string]int{"EVALSHA": 3}, list(all, 100))
		expect("an empty page", one, list(docstore.Query{Kind: "nothing"}, 0))
		prune := func(want int) func() error {
			return func() error {
				n, err := s.Prune(t.Context(), 1000)
				if err == nil && n != want {
					err = fmt.Errorf("%d removed", n)
				}
				return err
			}
		}
		expect("a prune of nothing", one, prune(0))
		ended := docstore.Write{Key: key("ended"), Keep: time.Millisecond}
		expect("a write with an end", unknown, write(true, ended))
		expect("a write that starts a counter", unknown,
			write(true, docstore.Write{Key: key("counted"), Add: map[string]int64{"n": 1}, StartAtNow: []string{"n"}}))
		deleted := func(i int) docstore.Write {
			return docstore.Write{Key: keys[i], If: docstore.Has{Field: "n"}, Delete: true}
		}
		expect("the first deletion", unknown, write(true, deleted(1)))
		expect("a deletion", one, write(true, deleted(2)))
		expect("several deletions, of the same shape", one, write(true, deleted(3), deleted(4)))
		for from := (time.Time{}); ; { // until a millisecond has passed
			snap, err := s.Get(t.Context(), key("ended"))
			if err != nil {
				t.Fatal(err)
			}
			if from.IsZero() {
				from = snap.At
			} else if snap.At.After(from) {
				break
			}
		}
		expect("the first prune", map[string]int{"EVALSHA": 3, "EVAL": 1}, prune(1))
	})
}

// TestScriptsAreSentAgain: a server that has forgotten the scripts, as after a restart or a failover, gets them again.
func TestScriptsAreSentAgain(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, admin := open(t, server, nil), client(t, server)
		for want := docstore.Int(1); want <= 3; want++ {
			r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}})
			if err != nil || !r.Docs[0].Equal(docstore.Doc{"n": want}) {
				t.Errorf("%v, %v; want %d", r.Docs, err, want)
			}
			if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// client is a plain client for what a test does beside the store.
func client(t testing.TB, server *redistest.Server) *sdk.Client {
	t.Helper()
	// what it sends, it sends once
	c := sdk.NewClient(&sdk.Options{Addr: server.Addr(), ReadTimeout: 5 * time.Minute, MaxRetries: -1})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestLostWrites: a write that may have been executed is not sent again, not by the library either, and ends with
// ErrUnavailable. A read is sent again.
func TestLostWrites(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		for fate, applied := range map[redistest.Fate]bool{redistest.LostRequest: false, redistest.LostResponse: true,
			redistest.ReturnsError: true} {
			t.Run(string(fate), func(t *testing.T) {
				s := open(t, server, nil)
				add := docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}}
				if _, err := s.Write(t.Context(), add); err != nil { // the server knows the script from here on
					t.Fatal(err)
				}
				if _, err := s.Get(t.Context(), key("k")); err != nil {
					t.Fatal(err)
				}
				server.ResetCommands()
				lost := server.Inject(fate, "EVALSHA")
				_, err := s.Write(t.Context(), add)
				if !errors.Is(err, docstore.ErrUnavailable) || !lost.Happened() {
					t.Errorf("%v, want ErrUnavailable", err)
				}
				if got := server.Commands()["EVALSHA"]; got != 1 {
					t.Errorf("the write was sent %d times", got)
				}
				server.Inject(redistest.LostResponse, "EVALSHA")
				want := docstore.Doc{"n": docstore.Int(1)}
				if applied {
					want["n"] = docstore.Int(2)
				}
				snap, err := s.Get(t.Context(), key("k"))
				if err != nil || !snap.Docs[0].Equal(want) {
					t.Errorf("%v, %v; want %v", snap.Docs, err, want)
				}
				if got := server.Commands()["EVALSHA"]; got != 3 {
					t.Errorf("%d requests, want the write and two reads", got)
				}
			})
		}
	})
}

// TestEndedWhileWaiting: a call on a server that does not answer ends with its context, by deadline and by
// cancellation, and Close does not wait for the server either.
func TestEndedWhileWaiting(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: server.Addr(), Prefix: "waiting"})
		if err != nil {
			t.Fatal(err)
		}
		stop := func(begin func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc), want error) {
			t.Helper()
			late := server.Inject(redistest.Late, "EVALSHA")
			// until the call waits for the server, however slow the machine is
			for after := 50 * time.Millisecond; !late.Happened(); after *= 2 {
				ctx, cancel := begin(t.Context(), after)
				_, err := s.Get(ctx, key("k"))
				cancel()
				if err == nil && after > 50*time.Millisecond && late.Happened() {
					break // to the call before, after that had ended
				}
				if !errors.Is(err, want) || errors.Is(err, docstore.ErrUnavailable) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if err := late.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		stop(context.WithTimeout, context.DeadlineExceeded)
		stop(func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(after, cancel)
			return ctx, cancel
		}, context.Canceled)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestListIsBounded: no script reads more than 50 documents, because the server does nothing else meanwhile; the page
// is whole all the same.
func TestListIsBounded(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		for first := 0; first < 120; first += 40 {
			var writes []docstore.Write
			for n := range 40 {
				k := docstore.Key{Kind: "locks", Tenant: "noisy", ID: fmt.Sprintf("k%03d", first+n)}
				writes = append(writes, docstore.Write{Key: k, Set: docstore.Doc{"n": docstore.Int(first + n)}})
			}
			if r, err := s.Write(t.Context(), writes...); err != nil || !r.Applied {
				t.Fatal(r, err)
			}
		}
		list := func(limit int) docstore.Page {
			p, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "noisy", Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		list(1) // loads the scripts
		for limit, requests := range map[int]int{50: 2, 51: 3, 100: 3, 120: 4, 500: 4} {
			server.ResetCommands()
			p := list(limit)
			if got := server.Commands()["EVALSHA"]; got != requests {
				t.Errorf("a page of %d took %d requests, want %d", limit, got, requests)
			}
			for i, e := range p.Entries {
				if e.Key.ID != fmt.Sprintf("k%03d", i) || e.Doc["n"] != docstore.Int(i) {
					t.Errorf("entry %d is %v", i, e)
				}
			}
			if want := min(limit, 120); len(p.Entries) != want || p.At.IsZero() || (p.Next != "") != (limit < 120) {
				t.Errorf("a page of %d has %d documents, want %d; next %q, at %v", limit, len(p.Entries), want, p.Next, p.At)
			}
		}
	})
}

// TestLostWritesThatRejectTheirRepetition: a write that fails its own condition once it is applied is sent again when
// its response was lost, alone and in a step. It is applied once, and what its caller sees is the document with its
// effect.
func TestLostWritesThatRejectTheirRepetition(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		once := docstore.Write{Key: key("k"), If: docstore.Not{Cond: docstore.Has{Field: "by"}},
			Set: docstore.Doc{"by": docstore.String("me")}, Add: map[string]int64{"n": 1}}
		beside := docstore.Write{Key: key("other"), Add: map[string]int64{"n": 1}}
		for _, writes := range [][]docstore.Write{{once}, {once, beside}} {
			for fate, applied := range map[redistest.Fate]bool{redistest.LostRequest: true, redistest.LostResponse: false} {
				if _, err := s.Write(t.Context(), docstore.Write{Key: once.Key, Unset: []string{"by", "n"}},
					docstore.Write{Key: beside.Key, Unset: []string{"n"}}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Write(t.Context(), writes...); err != nil { // the server knows the script from here on
					t.Fatal(err)
				}
				if _, err := s.Write(t.Context(), docstore.Write{Key: once.Key, Unset: []string{"by", "n"}},
					docstore.Write{Key: beside.Key, Unset: []string{"n"}}); err != nil {
					t.Fatal(err)
				}
				lost := server.Inject(fate, "EVALSHA")
				r, err := s.Write(t.Context(), writes...)
				want := docstore.Doc{"by": docstore.String("me"), "n": docstore.Int(1)}
				if err != nil || !lost.Happened() || r.Applied != applied || !r.Docs[0].Equal(want) {
					t.Errorf("%s, %d writes: %+v, %v; want %v", fate, len(writes), r, err, want)
				}
				snap, err := s.Get(t.Context(), beside.Key)
				if n := snap.Docs[0]["n"]; err != nil || len(writes) > 1 && n != docstore.Int(1) {
					t.Errorf("%s: what is beside has %v, %v", fate, n, err)
				}
			}
		}
	})
}

// TestTimesOfARepetition: the server's time goes on until a write arrives again. What has passed stays passed; of what
// has not, nothing is known.
func TestTimesOfARepetition(t *testing.T) {
	past := docstore.LE{Field: "ends", Value: docstore.Now}
	ends := func(in time.Duration) docstore.Doc { return docstore.Doc{"ends": docstore.Now.Add(in)} }
	for name, c := range map[string]struct {
		write docstore.Write
		want  bool
	}{
		"it has not passed yet":    {docstore.Write{If: past, Set: ends(time.Second)}, false},
		"it has passed":            {docstore.Write{If: past, Set: ends(0)}, false},
		"it was not to have":       {docstore.Write{If: docstore.Not{Cond: past}, Set: ends(0)}, true},
		"it is not to have":        {docstore.Write{If: docstore.Not{Cond: past}, Set: ends(time.Second)}, false},
		"it is not there any more": {docstore.Write{If: past, Unset: []string{"ends"}}, true},
		"another's time":           {docstore.Write{If: past, Set: docstore.Doc{"by": docstore.String("me")}}, false},
		"text and time": {docstore.Write{If: docstore.Eq{Field: "ends", Value: docstore.String("x")},
			Set: ends(time.Second)}, false},
		"nothing of time": {docstore.Write{If: docstore.Absent{}, Set: ends(time.Second)}, true},
	} {
		if got := redisstore.RejectsRepeat(c.write); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
