package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// forgotten is how many grants a server forgets.
const forgotten = 200

// tokens are the highest ones that were granted, and all.
type tokens struct {
	highest map[string]int64 // by lock
	all     map[string]bool  // with the lock
}

func newTokens() *tokens { return &tokens{map[string]int64{}, map[string]bool{}} }

// grantAll acquires and releases two locks, one after the other, so many times each: no token may have been granted.
func grantAll(t *testing.T, s docstore.Store, granted *tokens, times int) {
	t.Helper()
	locks, repeated := lock.New(s, nil), 0
	for n := range 2 * times {
		key := []string{"k", "other"}[n/times]
		id, request := lock.ID{Tenant: "acme", Key: key}, fmt.Sprint("r", len(granted.all), ".", n)
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: request, TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o.Code, err)
		}
		name := fmt.Sprint(key, o.Lease.Token)
		if granted.all[name] {
			repeated++
		}
		granted.all[name] = true
		granted.highest[key] = max(granted.highest[key], o.Lease.Token)
		o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: o.Lease.Token, RequestID: request})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o.Code, err)
		}
	}
	if repeated > 0 {
		t.Errorf("%d of %d tokens were granted again", repeated, 2*times)
	}
}

// after expects that tokens go on above all that were granted, whatever process is asked: one that did not make the
// writes that were lost, and one that was started since. The one that made them says nothing.
func after(t *testing.T, other *redisstore.Store, o *redisstore.Options, granted *tokens) {
	t.Helper()
	before := maps.Clone(granted.highest)
	if other != nil {
		grantAll(t, other, granted, forgotten)
	}
	grantAll(t, open(t, nil, o), granted, 10)
	for key, token := range before {
		if granted.highest[key] <= token {
			t.Errorf("%s: token %d is not above %d", key, granted.highest[key], token)
		}
	}
}

// TestServerThatForgets (LS-INV-002): another server takes the place of the one that was there, or it is started again,
// without the latest writes. The process that made them is idle, or has ended.
func TestServerThatForgets(t *testing.T) {
	redistest.Each(t, []string{"--appendonly", "yes", "--appendfsync", "no"}, func(t *testing.T, server *redistest.Server) {
		for _, c := range []struct {
			name    string
			carry   bool
			shards  int
			restart bool // all processes are started again as well
		}{{"one", false, 1, false}, {"carried", true, 1, false}, {"shards", false, 3, false}, {"restarted", false, 1, true}} {
			t.Run(c.name, func(t *testing.T) {
				o := &redisstore.Options{Addr: server.URL(), Prefix: c.name, Shards: c.shards}
				s, other, admin := open(t, nil, o), open(t, nil, o), client(t, server)
				if c.carry {
					s.Carry()
					other.Carry()
				}
				granted := newTokens()
				grantAll(t, other, granted, 3)
				backup := dump(t, admin)
				grantAll(t, s, granted, forgotten)
				putBack(t, admin, backup)
				server.Another(t)
				if c.restart {
					if other = nil; s.Close() != nil {
						t.Error("it did not close")
					}
				}
				after(t, other, o, granted)
			})
		}
	})
}

// TestOlderFiles: a server is started with an older RDB file, and one with an append-only file that was restored.
func TestOlderFiles(t *testing.T) {
	for name, c := range map[string]struct{ args []string }{
		"RDB": {nil}, "AOF": {[]string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			o := &redisstore.Options{Addr: server.URL(), Prefix: "older"}
			s, other, admin := open(t, nil, o), open(t, nil, o), client(t, server)
			granted := newTokens()
			grantAll(t, other, granted, 3)
			if err := admin.Save(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			copied := server.Files(t)
			grantAll(t, s, granted, forgotten)
			server.Kill()
			for file, text := range copied {
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(filepath.Base(file), err)
				}
			}
			server.Restart(t)
			after(t, other, o, granted)
		})
	}
}

// TestReplicaThatForgets: Sentinels make a replica the primary that has not got the latest writes. The process that made
// them is idle.
func TestReplicaThatForgets(t *testing.T) {
	p := redistest.StartSentinels(t)
	o := watched(p)
	s, other := open(t, nil, &o), open(t, nil, &o)
	granted := newTokens()
	grantAll(t, other, granted, 3)
	if err := client(t, p.Primary).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.Part(t)
	grantAll(t, s, granted, forgotten)
	p.Primary.Kill()
	for { // until the Sentinels have replaced it
		if _, err := other.Get(t.Context(), key("x")); err == nil {
			break
		}
	}
	after(t, other, &o, granted)
}

// TestPrimaryThatWasAReplica: a primary that became a replica, got older documents, and is the primary again: the process
// is the same, and so are connections with it.
func TestPrimaryThatWasAReplica(t *testing.T) {
	server := redistest.Start(t)
	o := &redisstore.Options{Addr: server.URL(), Prefix: "replica"}
	s, other, admin := open(t, nil, o), open(t, nil, o), client(t, server)
	granted := newTokens()
	grantAll(t, other, granted, 3)
	backup := dump(t, admin)
	grantAll(t, s, granted, forgotten)
	if err := admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), key("x")); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("a replica: %v", err)
	}
	if err := admin.ConfigSet(t.Context(), "replica-read-only", "no").Err(); err != nil {
		t.Fatal(err)
	}
	putBack(t, admin, backup)
	if err := admin.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	after(t, other, o, granted)
}

// TestNewLocksOfAnotherServer: what is granted for the first time on another server, whose clock is behind, is above
// what counters go on from, as all else.
func TestNewLocksOfAnotherServer(t *testing.T) {
	redistest.Each(t, []string{"--appendonly", "yes", "--appendfsync", "no"}, func(t *testing.T, server *redistest.Server) {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		o := &redisstore.Options{Addr: server.URL(), Prefix: "behind", Now: func() time.Time { return now }}
		s := open(t, nil, o)
		granted := newTokens()
		grantAll(t, s, granted, 3)
		server.Another(t)
		now = now.Add(time.Hour)
		if _, err := s.Get(t.Context(), key("x")); err != nil {
			t.Fatal(err)
		}
		now = now.Add(-2 * time.Hour)
		first := token(t, s, key("new"))
		if at := now.Add(2 * time.Hour).UnixMicro(); first <= at {
			t.Errorf("token %d, and counters go on from %d", first, at)
		}
		if next := token(t, s, key("new")); next != first+1 {
			t.Errorf("token %d after %d", next, first)
		}
	})
}

// TestAnotherConnectionIsNoOtherServer: nothing is raised while the server is the same, however often it is connected to.
func TestAnotherConnectionIsNoOtherServer(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := &redisstore.Options{Addr: server.URL(), Prefix: "same"}
		first := token(t, open(t, nil, o), key("a"))
		for n := range int64(3) {
			if next := token(t, open(t, nil, o), key("a")); next != first+n+1 {
				t.Errorf("token %d after %d", next, first+n)
			}
		}
	})
}
