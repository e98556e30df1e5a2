package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// count adds 1 to a token that starts at the time.
func count(k docstore.Key) docstore.Write {
	return docstore.Write{Key: k, Add: map[string]int64{"token": 1}, StartAtNow: []string{"token"}}
}

func token(t *testing.T, s docstore.Store, k docstore.Key) int64 {
	t.Helper()
	r, err := s.Write(t.Context(), count(k))
	if err != nil || !r.Applied {
		t.Fatalf("applied %v, %v", r.Applied, err)
	}
	n, _ := r.Docs[0]["token"].(docstore.Int)
	return int64(n)
}

// refusesAll expects that no call is answered.
func refusesAll(t *testing.T, s *redisstore.Store, want string) {
	t.Helper()
	_, write := s.Write(t.Context(), count(key("new")))
	_, get := s.Get(t.Context(), key("a"))
	_, list := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"})
	_, walk := s.Walk(t.Context(), docstore.WalkQuery{Kind: "locks"})
	_, prune := s.Prune(t.Context(), 1)
	for name, err := range map[string]error{"Write": write, "Get": get, "List": list, "Walk": walk, "Prune": prune} {
		if !errors.Is(err, docstore.ErrUnavailable) || !errors.Is(err, docstore.ErrNotWritten) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestEmptiedServer: FLUSHALL takes every lock. A process that held some notices with its next call, and writes
// nothing.
func TestEmptiedServer(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := &redisstore.Options{Prefix: "emptied"}
		s, admin := open(t, server, o), client(t, server)
		before := token(t, s, key("a"))
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		refusesAll(t, s, "restart Leasehold")
		if keys := admin.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("%q was written", keys)
		}
		// One that starts afterwards begins with what is there, and tokens go on.
		after := open(t, server, o)
		if got := token(t, after, key("a")); got <= before {
			t.Errorf("token %d after %d", got, before)
		}
		refusesAll(t, s, "restart Leasehold")
	})
}

// TestLostWrites rolls a server back, as a backup, a failover or a crash without syncs does: the generation is the
// same.
func TestLostAcknowledgedWrites(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := redisstore.InsistEvery(time.Hour, redisstore.Options{Prefix: "back"})
		s, other, admin := open(t, server, o), open(t, server, o), client(t, server)
		token(t, s, key("a"))
		backup := dump(t, admin)
		if _, err := other.Get(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		lost := token(t, s, key("a"))
		putBack(t, admin, backup)
		// A process that did not see the write cannot know; it gives the token again.
		if got := token(t, other, key("b")); got == 0 {
			t.Error("the other process")
		}
		putBack(t, admin, backup)
		refusesAll(t, s, "leasehold store raise-tokens")
		putBack(t, admin, backup) // the mark is lost
		started := open(t, server, o)
		for range 5 { // the number of writes grows past what is known
			token(t, started, key("c"))
		}
		refusesAll(t, s, "leasehold store raise-tokens")
		snap, err := started.Get(t.Context(), key("a"))
		if err != nil || !snap.Docs[0].Equal(docstore.Doc{"token": docstore.Int(lost - 1)}) {
			t.Errorf("the process that noticed wrote: %v, %v", snap.Docs, err)
		}
	})
}

// TestLossThatOthersHide: a process notices that its writes are lost also when others have made as many since, whether
// it had written before the loss or not.
func TestLossThatOthersHide(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		for _, c := range []struct {
			name          string
			carry, before bool // whether the process had written before the loss
		}{{"compiled", false, true}, {"compiled-began-later", false, false}, {"carried", true, true},
			{"carried-began-later", true, false}} {
			o := redisstore.InsistEvery(time.Hour, redisstore.Options{Prefix: c.name})
			s, other, admin := open(t, server, o), open(t, server, o), client(t, server)
			if c.carry {
				s.Carry()
				other.Carry()
			}
			if token(t, other, key("b")); c.before {
				token(t, s, key("a"))
			}
			backup := dump(t, admin)
			token(t, s, key("a"))
			putBack(t, admin, backup)
			for range 9 {
				token(t, other, key("b"))
			}
			refusesAll(t, s, "leasehold store raise-tokens")
			if _, err := other.Get(t.Context(), key("b")); !isStopped(err) {
				t.Errorf("%s: the process that hid the loss: %v", c.name, err)
			}
		}
	})
}

// TestWritersThatAreForgotten: of many processes those are forgotten that have not written for longest, which is no
// loss.
func TestWritersThatAreForgotten(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := redisstore.InsistEvery(time.Hour, redisstore.Options{Prefix: "forgotten"})
		admin, s := client(t, server), open(t, server, o)
		noted := func() string { return redisstore.Writers(admin.Get(t.Context(), "{forgotten}:own").Val()) }
		token(t, s, key("a"))
		for n := range 17 { // as many as are noted, and one more
			token(t, open(t, server, o), key("b"))
			if _, err := s.Get(t.Context(), key("a")); err != nil {
				t.Fatalf("%d others: %v", n+1, err)
			}
			if want := 16 + 24*min(n+2, 16); len(noted()) != want {
				t.Errorf("%d others: %q has %d bytes, want %d", n+1, noted(), len(noted()), want)
			}
		}
	})
}

// dump copies what is on a server, and putBack puts it back.
func dump(t *testing.T, c *sdk.Client) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, k := range c.Keys(t.Context(), "*").Val() {
		if c.Type(t.Context(), k).Val() == "string" {
			all[k] = c.Get(t.Context(), k).Val()
		} else {
			all[k] = c.ZRangeWithScores(t.Context(), k, 0, -1).Val()
		}
	}
	return all
}

func putBack(t *testing.T, c *sdk.Client, all map[string]any) {
	t.Helper()
	err := c.FlushAll(t.Context()).Err()
	for k, v := range all {
		switch v := v.(type) {
		case string:
			err = errors.Join(err, c.Set(t.Context(), k, v, 0).Err())
		case []sdk.Z:
			err = errors.Join(err, c.ZAdd(t.Context(), k, v...).Err())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpenedOnAReplica: the generation is asked for once the server writes.
func TestOpenedOnAReplica(t *testing.T) {
	server := redistest.Start(t, "--replicaof", "127.0.0.1", "1")
	s := open(t, server, nil)
	if _, err := s.Write(t.Context(), count(key("a"))); !errors.Is(err, docstore.ErrNotWritten) ||
		!strings.Contains(fmt.Sprint(err), "replica") {
		t.Errorf("on a replica: %v", err)
	}
	if err := client(t, server).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	token(t, s, key("a"))
}

// TestTokensAfterTheClockWasSetBack: no token is seen twice, also not by another process (LS-INV-002).
func TestTokensAfterTheClockWasSetBack(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		t.Run("compiled", func(t *testing.T) { tokensOfABackwardClock(t, server, "compiled", func(*redisstore.Store) {}) })
		t.Run("carried", func(t *testing.T) {
			tokensOfABackwardClock(t, server, "carried", (*redisstore.Store).Carry)
		})
	})
}

func tokensOfABackwardClock(t *testing.T, server *redistest.Server, prefix string, prepare func(*redisstore.Store)) {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := noon
	o := &redisstore.Options{Prefix: prefix, Now: func() time.Time { return at }}
	s, admin := open(t, server, o), client(t, server)
	prepare(s)
	floor := func() int64 {
		_, _, floor := redisstore.Own(admin.Get(t.Context(), "{"+prefix+"}:own").Val())
		return floor
	}
	last := noon.UnixMicro()
	next := func(name string, k docstore.Key) {
		t.Helper()
		if got := token(t, s, k); got != last+1 {
			t.Errorf("%s: token %d, want %d", name, got, last+1)
		}
		last++
	}
	remove := func(k docstore.Key) {
		t.Helper()
		if r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Has{Field: "token"},
			Delete: true}); err != nil || !r.Applied {
			t.Fatalf("%v, %v", r.Applied, err)
		}
	}
	next("first", key("a"))
	next("second", key("a"))
	ahead := floor()
	for range 1000 {
		next("grant", key("a"))
	}
	if floor() != ahead { // a grant writes nothing but its document and the number of writes
		t.Errorf("the floor went from %d to %d", ahead, floor())
	}
	next("grant that passes the floor", key("a"))
	at = noon.Add(-time.Hour)
	remove(key("a"))
	last = floor()
	next("removed", key("a"))
	next("another", key("b"))
	s = open(t, server, o)
	prepare(s)
	next("another process", key("c"))
	at = noon.Add(time.Hour)
	last = at.UnixMicro()
	next("an hour later", key("d"))
}

// TestFloorOfSeveralDocuments: what is granted to several documents in one step counts for the floor: the highest of
// all, whichever comes last, that of a new counter and that of one that goes on. With the clock set back, each is
// started above it.
func TestFloorOfSeveralDocuments(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		at := noon
		s := open(t, server, &redisstore.Options{Now: func() time.Time { return at }})
		beside := docstore.Write{Key: key("beside"), Set: docstore.Doc{"x": docstore.Int(1)}}
		grant := func(id string, by int64) docstore.Write {
			return docstore.Write{Key: key(id), Add: map[string]int64{"token": by}, StartAtNow: []string{"token"}}
		}
		highest := noon.UnixMicro()
		write := func(name string, want []int64, w ...docstore.Write) {
			t.Helper()
			r, err := s.Write(t.Context(), w...)
			if err != nil || !r.Applied {
				t.Fatalf("%s: %v, %v", name, r.Applied, err)
			}
			base := highest
			for i, above := range want {
				if got := r.Docs[i]["token"]; got != docstore.Int(base+above) {
					t.Errorf("%s: token %d is %v, want %d", name, i, got, base+above)
				}
				highest = max(highest, base+above)
			}
		}
		// back removes what there is, so that nothing but the floor knows what was granted. A counter that went on may
		// have moved it by headroom.
		back := func(name string, headroom int64, ids ...string) {
			t.Helper()
			at = noon.Add(-time.Hour)
			for _, id := range ids {
				if r, err := s.Write(t.Context(), docstore.Write{Key: key(id), If: docstore.Has{Field: "token"}, Delete: true},
					beside); err != nil || !r.Applied {
					t.Fatal(r.Applied, err)
				}
			}
			r, err := s.Write(t.Context(), grant("next "+name, 1), beside)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := r.Docs[0]["token"].(docstore.Int); int64(got) != highest+headroom+1 {
				t.Errorf("%s: with the clock set back, token %d is not the one after %d", name, got, highest+headroom)
			}
			highest = int64(r.Docs[0]["token"].(docstore.Int))
		}
		write("two begin", []int64{5000, 1}, grant("a", 5000), grant("b", 1))
		back("the higher first", 0, "a", "b")
		write("two begin", []int64{1, 5000}, grant("a", 1), grant("b", 5000), beside)
		back("the higher last", 0, "b")
		write("one goes on", nil, grant("a", 9000), beside)
		highest += 9000 - 5000
		r, err := s.Get(t.Context(), key("a"))
		if got, _ := r.Docs[0]["token"].(docstore.Int); err != nil || int64(got) != highest {
			t.Fatalf("%v, %v, want %d", r.Docs, err, highest)
		}
		back("one goes on", 1000, "a")
	})
}

// TestEndOfOneDeletedByHand: a document that takes the place of one that an operator deleted is kept as its own write
// says, and does not end when the one before would have.
func TestEndOfOneDeletedByHand(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		for name, carry := range map[string]bool{"compiled": false, "carried": true} {
			at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			s, admin := open(t, server, &redisstore.Options{Prefix: name, Now: func() time.Time { return at }}),
				client(t, server)
			if carry {
				s.Carry()
			}
			mustWrite(t, s, docstore.Write{Key: key("k"), Keep: time.Hour})
			if n := admin.Del(t.Context(), "{"+name+"}:doc:"+key("k").String()).Val(); n != 1 {
				t.Fatalf("%s: %d documents were deleted", name, n)
			}
			mustWrite(t, s, docstore.Write{Key: key("k"), If: docstore.Absent{}, Set: docstore.Doc{"n": docstore.Int(1)}})
			at = at.Add(24 * time.Hour)
			if n, err := s.Prune(t.Context(), 10); n != 0 || err != nil {
				t.Errorf("%s: %d removed, %v", name, n, err)
			}
			if snap, err := s.Get(t.Context(), key("k")); err != nil || snap.Docs[0] == nil {
				t.Errorf("%s: the document is %v, %v", name, snap.Docs, err)
			}
		}
	})
}

// TestPruneByTheClock: a document goes at its end and not a millisecond before, and leaves nothing behind.
func TestPruneByTheClock(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		at := noon
		s, admin := open(t, server, &redisstore.Options{Prefix: "ends", Now: func() time.Time { return at }}),
			client(t, server)
		for i := range 3 {
			w := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: fmt.Sprint("t", i/2), ID: strconv.Itoa(i)},
				Keep: time.Hour + time.Duration(i)*time.Millisecond}
			if _, err := s.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []int{0, 1, 1, 1, 0} {
			at = noon.Add(time.Hour + time.Duration(i-1)*time.Millisecond)
			if n, err := s.Prune(t.Context(), 10); err != nil || n != want {
				t.Errorf("step %d: %d removed, %v, want %d", i, n, err, want)
			}
		}
		if keys := admin.Keys(t.Context(), "{ends}*").Val(); len(keys) != 2 || !slices.Contains(keys, "{ends}:own") {
			t.Errorf("%q are left", keys)
		}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("x"), Keep: time.Hour},
			docstore.Write{Key: key("y")}); err != nil {
			t.Fatal(err)
		}
		there := docstore.Not{Cond: docstore.Absent{}}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("x"), If: there, Delete: true},
			docstore.Write{Key: key("y"), If: there, Delete: true}); err != nil {
			t.Fatal(err)
		}
		if keys := admin.Keys(t.Context(), "{ends}*").Val(); len(keys) != 2 {
			t.Errorf("%q are left after deletion", keys)
		}
		// A write may come between finding a document and removing it.
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("moved"), Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.RemoveDue(t.Context(), "locks/acme/moved", "locks/acme/never"); n != 0 || err != nil {
			t.Errorf("%d removed that were not due any more, %v", n, err)
		}
		// Writes that follow each other soon do not move the end each time, and never let it come too early.
		moved := map[float64]bool{}
		for range 60 {
			at = at.Add(time.Second)
			if _, err := s.Write(t.Context(), docstore.Write{Key: key("moved"), Keep: time.Hour}); err != nil {
				t.Fatal(err)
			}
			end := admin.ZScore(t.Context(), "{ends}:ends", "locks/acme/moved").Val()
			moved[end] = true
			if late := time.Duration(end-float64(at.Add(time.Hour).UnixMilli())) * time.Millisecond; late < 0 ||
				late > time.Hour/30 {
				t.Errorf("the document is kept %v longer than the write says", late)
			}
		}
		if len(moved) > 3 {
			t.Errorf("60 writes within a minute moved the end %d times", len(moved))
		}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("moved"), Keep: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if end := admin.ZScore(t.Context(), "{ends}:ends", "locks/acme/moved").Val(); end > float64(
			at.Add(2*time.Minute).UnixMilli()) {
			t.Errorf("a document that is to be kept for a minute is kept until %.0f", end)
		}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("moved"), If: there, Delete: true}); err != nil {
			t.Fatal(err)
		}
		// What was deleted by hand, and made again, does not end when the other would have.
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("z"), Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := admin.Del(t.Context(), "{ends}:doc:locks/acme/z").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("z")}); err != nil {
			t.Fatal(err)
		}
		at = at.Add(2 * time.Hour)
		if n, err := s.Prune(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("%d removed, %v", n, err)
		}
	})
}
