package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/restore"
)

// tenantsOf are tenants whose documents are in different shards, of so many.
func tenantsOf(shards int) []string {
	if shards == 1 {
		return []string{"acme"}
	}
	return []string{"acme", "default", "acme/rooms", "日本"} // see TestShardsStay
}

func lockOf(tenant, id string) docstore.Key {
	return docstore.Key{Kind: lock.Kind, Tenant: tenant, ID: id}
}

// eachLayout runs a test on all servers and layouts in which what one process notices must be known to all.
func eachLayout(t *testing.T, test func(t *testing.T, server *redistest.Server, shards int)) {
	t.Helper()
	for _, shards := range []int{1, 16} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) { test(t, server, shards) })
			t.Run("cluster", func(t *testing.T) { test(t, redistest.StartCluster(t), shards) })
		})
	}
}

// raiseTokens is what leasehold store raise-tokens does.
func raiseTokens(t *testing.T, server *redistest.Server, o *redisstore.Options) error {
	t.Helper()
	repairing := *o
	repairing.Repair = true
	_, err := restore.RaiseTokens(t.Context(), open(t, server, &repairing), restore.Options{})
	return err
}

// isStopped reports whether a call was rejected because writes were lost.
func isStopped(err error) bool {
	return errors.Is(err, docstore.ErrUnavailable) && errors.Is(err, docstore.ErrNotWritten) &&
		strings.Contains(err.Error(), "leasehold store raise-tokens")
}

// goesOn waits until a store that had stopped takes writes again, and returns the token that it gives.
func goesOn(t *testing.T, s *redisstore.Store, k docstore.Key) (token int64) {
	t.Helper()
	until(t, func() bool {
		r, err := s.Write(t.Context(), count(k))
		if err != nil {
			if !isStopped(err) {
				t.Fatal(err)
			}
			return false
		}
		n, _ := r.Docs[0]["token"].(docstore.Int)
		token = int64(n)
		return true
	})
	return token
}

// TestOneNoticesAllStop (LS-INV-002): once a process has noticed that writes are lost, none grants anything, in no
// shard, nor does one that starts then. They learn it with what they ask anyway. When tokens are raised, all go on by
// themselves, above every token that was granted.
func TestOneNoticesAllStop(t *testing.T) {
	eachLayout(t, func(t *testing.T, server *redistest.Server, shards int) {
		o := redisstore.InsistEvery(time.Millisecond, redisstore.Options{Prefix: "marks", Shards: shards})
		warned := make(chan string, 10)
		with := *o
		with.Warn = func(w string) { warned <- w }
		s, other, admin := open(t, server, &with), open(t, server, o), client(t, server)
		tenants, highest := tenantsOf(shards), map[string]int64{}
		for _, tenant := range tenants {
			highest[tenant] = max(token(t, s, lockOf(tenant, "a")), token(t, other, lockOf(tenant, "b")))
		}
		backup := dump(t, admin)
		highest["acme"] = token(t, s, lockOf("acme", "a"))
		putBack(t, admin, backup)
		if _, err := s.Get(t.Context(), lockOf("acme", "a")); !isStopped(err) {
			t.Fatalf("the process that knows of the write: %v", err)
		}
		if w := <-warned; !strings.Contains(w, "raise-tokens") {
			t.Errorf("the log says %q", w)
		}
		if w := s.Warnings(); !strings.Contains(strings.Join(w, "\n"), "raise-tokens") {
			t.Errorf("the warnings are %q", w)
		}
		documents := func() map[string]any {
			all := dump(t, admin)
			maps.DeleteFunc(all, func(k string, _ any) bool { return strings.HasSuffix(k, ":own") })
			return all
		}
		before := documents()
		started := open(t, server, o)
		for name, p := range map[string]*redisstore.Store{"that notices": s, "that runs": other, "that starts": started} {
			for _, tenant := range tenants {
				if _, err := p.Write(t.Context(), count(lockOf(tenant, "new"))); !isStopped(err) {
					t.Errorf("the process %s writes for %s: %v", name, tenant, err)
				}
			}
			refusesAll(t, p, "leasehold store raise-tokens")
		}
		if after := documents(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("documents changed from %v to %v", before, after)
		}
		if err := raiseTokens(t, server, o); err != nil {
			t.Fatal(err)
		}
		fresh := int64(0)
		for name, p := range map[string]*redisstore.Store{"that noticed": s, "that ran": other, "that started": started} {
			for _, tenant := range tenants {
				for _, id := range []string{"fresh", "a", "b"} {
					got := goesOn(t, p, lockOf(tenant, id))
					if id == "fresh" && fresh == 0 {
						fresh = got
					}
					// all were raised to the same token, and what is new begins above it
					if got <= highest[tenant] || id == "a" && got > fresh+1000 {
						t.Errorf("the process %s gives %s of %s the token %d after %d; the first new one was %d", name, id, tenant,
							got, highest[tenant], fresh)
					}
				}
			}
			if w := p.Warnings(); strings.Contains(strings.Join(w, "\n"), "raise-tokens") {
				t.Errorf("the warnings of the process %s are %q", name, w)
			}
		}
	})
}

// TestTheScriptMarks: a process that ends when it has noticed has marked the documents.
func TestTheScriptMarks(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		for name, notice := range map[string]func(*redisstore.Store) error{
			"write": func(s *redisstore.Store) error {
				_, err := s.Write(t.Context(), count(key("a")))
				return err
			},
			"read": func(s *redisstore.Store) error {
				_, err := s.Get(t.Context(), key("a"))
				return err
			},
		} {
			o := redisstore.InsistEvery(time.Hour, redisstore.Options{Prefix: name})
			s, other, admin := open(t, server, o), open(t, server, o), client(t, server)
			token(t, s, key("a"))
			token(t, other, key("a"))
			backup := dump(t, admin)
			token(t, s, key("a"))
			putBack(t, admin, backup)
			s.Dies()
			if err := notice(s); !isStopped(err) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := other.Write(t.Context(), count(key("a"))); !isStopped(err) {
				t.Errorf("%s: the other process: %v", name, err)
			}
		}
	})
}

// TestTheMarkCostsNothing: who learns of the mark, and who learns that it is gone, has sent one request.
func TestTheMarkCostsNothing(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := redisstore.InsistEvery(time.Hour, redisstore.Options{Prefix: "counted"})
		s, other, idle, admin := open(t, server, o), open(t, server, o), open(t, server, o), client(t, server)
		for _, p := range []*redisstore.Store{s, other, idle} {
			token(t, p, key("a"))
		}
		backup := dump(t, admin)
		token(t, s, key("a"))
		putBack(t, admin, backup)
		sent := func(name string, want int, do func()) {
			t.Helper()
			server.ResetCommands()
			do()
			got := server.Commands()
			delete(got, "EVAL") // of scripts that the server does not know yet
			if !maps.Equal(got, map[string]int{"EVALSHA": want}) {
				t.Errorf("%s: sent %v, want %d", name, got, want)
			}
		}
		stops := func(p *redisstore.Store) func() {
			return func() {
				if _, err := p.Write(t.Context(), count(key("a"))); !isStopped(err) {
					t.Error(err)
				}
			}
		}
		sent("the process that notices, and marks", 2, stops(s))
		sent("one that learns of it, and marks the other shards", 2, stops(other))
		server.ResetCommands()
		stops(s)()
		if got := server.Commands(); len(got) != 0 {
			t.Errorf("one that knows: sent %v", got)
		}
		if err := raiseTokens(t, server, o); err != nil {
			t.Fatal(err)
		}
		sent("one that missed it all, and is told of the new tokens", 2, func() { token(t, idle, key("a")) })
		sent("the next write", 1, func() { token(t, idle, key("a")) })
	})
}

// TestAMarkThatIsLost: a further failover takes the mark away. Those that know write it again.
func TestAMarkThatIsLost(t *testing.T) {
	eachLayout(t, func(t *testing.T, server *redistest.Server, shards int) {
		o := redisstore.InsistEvery(time.Millisecond, redisstore.Options{Prefix: "again", Shards: shards})
		s, other, admin := open(t, server, o), open(t, server, o), client(t, server)
		tenants := tenantsOf(shards)
		for _, tenant := range tenants {
			token(t, s, lockOf(tenant, "a"))
			token(t, other, lockOf(tenant, "a"))
		}
		backup := dump(t, admin)
		token(t, s, lockOf("acme", "a"))
		for range 3 {
			putBack(t, admin, backup)
			if _, err := s.Write(t.Context(), count(lockOf("acme", "a"))); !isStopped(err) {
				t.Fatal(err)
			}
			for _, tenant := range tenants { // the mark comes without a call
				until(t, func() bool {
					_, err := open(t, server, o).Write(t.Context(), docstore.Write{Key: lockOf(tenant, "x")})
					return isStopped(err)
				})
				if _, err := other.Write(t.Context(), count(lockOf(tenant, "a"))); !isStopped(err) {
					t.Errorf("%s: %v", tenant, err)
				}
			}
		}
	})
}

// TestAShardThatCannotBeMarked: where the server cannot be written to, the mark is written as soon as it can, and the
// others do not wait for it.
func TestAShardThatCannotBeMarked(t *testing.T) {
	cluster := redistest.StartClusterOf(t, 2)
	const shards = 16
	o := redisstore.InsistEvery(time.Millisecond, redisstore.Options{Prefix: "members", Shards: shards})
	s, other := open(t, cluster[0], o), open(t, cluster[0], o)
	on := map[int]string{} // a tenant of each member
	for i := range 50 {
		tenant := fmt.Sprint("t", i)
		token(t, s, lockOf(tenant, "a"))
		for m, server := range cluster {
			if len(client(t, server).Keys(t.Context(), "*:doc:"+lockOf(tenant, "a").String()).Val()) == 1 {
				on[m] = tenant
			}
		}
	}
	if len(on) != 2 {
		t.Fatalf("the members have %v", on)
	}
	away := client(t, cluster[1])
	if err := away.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	admin := client(t, cluster[0])
	backup := dump(t, admin)
	token(t, s, lockOf(on[0], "a"))
	putBack(t, admin, backup)
	if _, err := s.Get(t.Context(), lockOf(on[0], "a")); !isStopped(err) {
		t.Fatal(err)
	}
	if _, err := other.Write(t.Context(), count(lockOf(on[1], "a"))); err == nil || isStopped(err) {
		t.Errorf("the member that cannot be written to: %v", err)
	}
	if err := away.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // what reads is told as well
		_, err := open(t, cluster[0], o).Get(t.Context(), lockOf(on[1], "a"))
		return isStopped(err)
	})
	if _, err := other.Write(t.Context(), count(lockOf(on[1], "a"))); !isStopped(err) {
		t.Errorf("the member that can be written to again: %v", err)
	}
}

// TestRaiseThatIsLost: what was raised, and that it was, may be lost as well. Who knows of it stops, and stops the
// others.
func TestRaiseThatIsLost(t *testing.T) {
	eachLayout(t, func(t *testing.T, server *redistest.Server, shards int) {
		o := redisstore.InsistEvery(time.Millisecond, redisstore.Options{Prefix: "raised", Shards: shards})
		s, admin := open(t, server, o), client(t, server)
		for _, tenant := range tenantsOf(shards) {
			token(t, s, lockOf(tenant, "a"))
		}
		before := dump(t, admin)
		if err := raiseTokens(t, server, o); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range tenantsOf(shards) {
			token(t, s, lockOf(tenant, "a"))
		}
		putBack(t, admin, before)
		other := open(t, server, o)
		for range 5 { // there are more writes than are known
			token(t, other, lockOf("acme", "a"))
		}
		if _, err := s.Write(t.Context(), count(lockOf("acme", "a"))); !isStopped(err) {
			t.Errorf("the process that knows of the raise: %v", err)
		}
		for _, tenant := range tenantsOf(shards) {
			if _, err := other.Write(t.Context(), count(lockOf(tenant, "a"))); !isStopped(err) {
				t.Errorf("%s: %v", tenant, err)
			}
		}
	})
}

// TestLostWhileTokensAreRaised: the raise fails, and its mark stays: what was raised may be lost.
func TestLostWhileTokensAreRaised(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := redisstore.InsistEvery(time.Millisecond, redisstore.Options{Prefix: "meanwhile"})
		s, admin := open(t, server, o), client(t, server)
		token(t, s, key("a"))
		backup := dump(t, admin)
		token(t, s, key("a"))
		repairing := *o
		repairing.Repair = true
		// Marked after it was opened.
		putBack(t, admin, backup)
		repair := open(t, server, &repairing)
		refusesAll(t, s, "raise-tokens")
		if _, err := restore.RaiseTokens(t.Context(), repair, restore.Options{}); err == nil ||
			errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "raise-tokens") {
			t.Errorf("marked meanwhile: %v", err)
		}
		// Writes of its own are lost, and the mark with them.
		repair = open(t, server, &repairing)
		marked := dump(t, admin)
		token(t, repair, key("b"))
		putBack(t, admin, marked)
		if _, err := restore.RaiseTokens(t.Context(), repair, restore.Options{}); err == nil {
			t.Error("raised what is lost")
		}
		if err := repair.TokensRaised(t.Context(), 1); err == nil {
			t.Error("the mark was removed")
		}
		refusesAll(t, open(t, server, o), "raise-tokens")
		// A dry run leaves it.
		repair = open(t, server, &repairing)
		if _, err := restore.RaiseTokens(t.Context(), repair, restore.Options{DryRun: true}); err != nil {
			t.Error(err)
		}
		refusesAll(t, open(t, server, o), "raise-tokens")
		if err := raiseTokens(t, server, o); err != nil {
			t.Error(err)
		}
		token(t, open(t, server, o), key("a"))
	})
}

// TestMarksInAnyOrder: processes write, start and end, failovers lose writes, tokens are raised, in any order. From
// when one has noticed that writes are lost until tokens are raised, none is granted; and those after are above all
// before.
func TestMarksInAnyOrder(t *testing.T) {
	for _, shards := range []int{1, 16} {
		redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
			for round := range 5 {
				o := redisstore.InsistEvery(20*time.Millisecond,
					redisstore.Options{Prefix: fmt.Sprintf("any-%d-%d", shards, round), Shards: shards})
				t.Run(o.Prefix, func(t *testing.T) { marksInAnyOrder(t, server, o) })
			}
		})
	}
}

func marksInAnyOrder(t *testing.T, server *redistest.Server, o *redisstore.Options) {
	t.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	admin, tenants := client(t, server), tenantsOf(o.Shards)
	start := func() *redisstore.Store { return open(t, server, o) }
	running := []*redisstore.Store{start(), start(), start()}
	backup := dump(t, admin)
	noticed, highest, raised := false, int64(0), int64(0) // the highest token; what it was when tokens were raised
	for step := range 60 {
		k := lockOf(tenants[random.IntN(len(tenants))], strconv.Itoa(random.IntN(3)))
		which := random.IntN(len(running))
		switch random.IntN(12) {
		default:
			r, err := running[which].Write(t.Context(), count(k))
			if err != nil {
				if !isStopped(err) {
					t.Fatal(err)
				}
				noticed = true
				break
			}
			got, _ := r.Docs[0]["token"].(docstore.Int)
			if noticed || int64(got) <= raised {
				t.Fatalf("step %d: process %d grants %d; noticed %v, %d was raised", step, which, got, noticed, raised)
			}
			highest = max(highest, int64(got))
		case 0:
			if !noticed {
				backup = dump(t, admin)
			}
		case 1:
			if !noticed { // a mark that is lost is another test
				putBack(t, admin, backup)
			}
		case 2:
			running[which] = start()
		case 3:
			if !noticed {
				break
			}
			if err := raiseTokens(t, server, o); err != nil {
				t.Fatal(err)
			}
			noticed, raised = false, highest
			for _, p := range running {
				got := goesOn(t, p, k)
				if got <= raised {
					t.Fatalf("step %d: %d was raised, and the token is %d", step, raised, got)
				}
				highest = max(highest, got)
			}
			backup = dump(t, admin)
		}
	}
}
