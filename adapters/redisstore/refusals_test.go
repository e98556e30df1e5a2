package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestRefusals brings a server into states in which it does not write, and checks what callers get. Nothing is
// changed in any of them.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		bring func(ctx context.Context, c *sdk.Client) error
		write []string // what the error of a write says
		is    error
		read  []string // what the error of a read says; nil where it succeeds
	}{
		"out of memory": {
			func(ctx context.Context, c *sdk.Client) error { return c.ConfigSet(ctx, "maxmemory", "1").Err() },
			[]string{"OOM", "raise maxmemory"}, docstore.ErrUnavailable, nil},
		"a replica": {
			func(ctx context.Context, c *sdk.Client) error { return c.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err() },
			[]string{"READONLY", "name the primary"}, docstore.ErrUnavailable, []string{"READONLY", "may be behind"}},
		"too few replicas": {
			func(ctx context.Context, c *sdk.Client) error {
				return c.ConfigSet(ctx, "min-replicas-to-write", "1").Err()
			},
			[]string{"NOREPLICAS", "min-replicas-to-write"}, docstore.ErrUnavailable, []string{"NOREPLICAS"}},
		"a document of another type": {
			func(ctx context.Context, c *sdk.Client) error {
				return errors.Join(c.Del(ctx, "{refusals}:doc:locks/acme/k").Err(),
					c.LPush(ctx, "{refusals}:doc:locks/acme/k", "x").Err())
			},
			[]string{"WRONGTYPE", "another prefix"}, docstore.ErrDamaged, []string{"WRONGTYPE"}},
		"a document of another form": {
			func(ctx context.Context, c *sdk.Client) error {
				return c.Set(ctx, "{refusals}:doc:locks/acme/k", "x", 0).Err()
			},
			[]string{"DAMAGED {refusals}:doc:locks/acme/k", "another prefix"}, docstore.ErrDamaged,
			[]string{"damaged", "something else"}},
		"a list of another type": {
			func(ctx context.Context, c *sdk.Client) error {
				return errors.Join(c.Del(ctx, "{refusals}:ids:locks/acme").Err(),
					c.Set(ctx, "{refusals}:ids:locks/acme", "x", 0).Err())
			},
			[]string{"WRONGTYPE"}, docstore.ErrDamaged, nil},
		"tenants of another type": {
			func(ctx context.Context, c *sdk.Client) error {
				return errors.Join(c.Del(ctx, "{refusals}:tenants").Err(), c.Set(ctx, "{refusals}:tenants", "x", 0).Err())
			},
			[]string{"WRONGTYPE"}, docstore.ErrDamaged, nil},
		"ends of another type": {
			func(ctx context.Context, c *sdk.Client) error { return c.Set(ctx, "{refusals}:ends", "x", 0).Err() },
			[]string{"WRONGTYPE"}, docstore.ErrDamaged, nil},
		"what the store keeps of itself, of another type": {
			func(ctx context.Context, c *sdk.Client) error {
				return errors.Join(c.Del(ctx, "{refusals}:own").Err(), c.LPush(ctx, "{refusals}:own", "x").Err())
			},
			[]string{"WRONGTYPE"}, docstore.ErrDamaged, []string{"WRONGTYPE"}},
		"a user who lost a right": {
			func(ctx context.Context, c *sdk.Client) error {
				return c.Do(ctx, "ACL", "SETUSER", "default", "-@string").Err()
			},
			[]string{"may not do that", "+@string"}, nil, []string{"may not do that"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s, admin := open(t, server, &redisstore.Options{Prefix: "refusals"}), client(t, server)
			found := docstore.Doc{"n": docstore.Int(1)}
			writes := []docstore.Write{{Key: key("new"), Set: found}, {Key: key("k"), Add: map[string]int64{"n": 1}}}
			if _, err := s.Write(t.Context(), writes[1]); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(t.Context(), key("k")); err != nil {
				t.Fatal(err)
			}
			if err := c.bring(t.Context(), admin); err != nil {
				t.Fatal(err)
			}
			_, err := s.Write(t.Context(), writes...)
			says(t, err, append(c.write, server.Addr(), "{refusals}"))
			if c.is != nil && !errors.Is(err, c.is) || c.is == nil && errors.Is(err, docstore.ErrUnavailable) {
				t.Errorf("%v, want %v", err, c.is)
			}
			snap, err := s.Get(t.Context(), key("k"), key("new"))
			says(t, err, c.read)
			if err == nil && (!snap.Docs[0].Equal(found) || snap.Docs[1] != nil) {
				t.Errorf("the documents are %v", snap.Docs)
			}
			if n, err := admin.Exists(t.Context(), "{refusals}:doc:locks/acme/new").Result(); n != 0 && err == nil {
				t.Error("one of the writes was carried out")
			}
		})
	}
}

// TestWritersThatWereChanged: what the store notes of its writers, and was changed by hand, is damage.
func TestWritersThatWereChanged(t *testing.T) {
	for name, to := range map[string]string{"cut": "w:sub(1, -2)", "no text": "{w}", "no numbers": "w:gsub('%d', 'x')"} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
				s := open(t, server, &redisstore.Options{Prefix: "refusals"})
				write := docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}}
				if _, err := s.Write(t.Context(), write); err != nil {
					t.Fatal(err)
				}
				if err := changeWriters(t.Context(), client(t, server), to); err != nil {
					t.Fatal(err)
				}
				_, err := s.Write(t.Context(), write)
				_, failed := s.Get(t.Context(), key("k"))
				for _, err := range []error{err, failed} {
					if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "DAMAGED {refusals}:own") {
						t.Errorf("%v", err)
					}
				}
			})
		})
	}
}

// TestPassingTroubles: a server that is busy, and one that is gone for a moment, are asked again, and nothing is done
// twice.
func TestPassingTroubles(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "1", "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, server, nil)
	add := docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}}
	expect := func(name string, want docstore.Int) {
		t.Helper()
		if r, err := s.Write(t.Context(), add); err != nil || !r.Docs[0].Equal(docstore.Doc{"n": want}) {
			t.Errorf("%s: %v, %v; want %d", name, r.Docs, err, want)
		}
	}
	expect("well", 1)

	busy, killer := client(t, server), client(t, server)
	if err := killer.Ping(t.Context()).Err(); err != nil { // connected while the server still listens
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- busy.Eval(t.Context(), "while true do end", nil).Err() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if sdk.HasErrorPrefix(killer.Ping(t.Context()).Err(), "BUSY") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not become busy")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Write(ctx, add); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("busy for long: %v, want ErrUnavailable", err)
	}
	again := make(chan error, 1)
	server.ResetCommands()
	go func() {
		_, err := s.Write(ctx, add)
		again <- err
	}()
	for server.Commands()["EVALSHA"] == 0 {
		if ctx.Err() != nil {
			t.Fatal("the write was not sent")
		}
		time.Sleep(time.Millisecond)
	}
	if err := killer.ScriptKill(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if err := <-again; err != nil {
		t.Errorf("busy for a moment: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the script that kept the server busy ended by itself")
	}
	expect("after it was busy", 3)

	server.Kill()
	if _, err := s.Write(t.Context(), add); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("gone: %v, want ErrUnavailable", err)
	}
	server.Restart(t)
	expect("back", 4)
}

// changeWriters changes by hand which writes of each store were the latest, w, in what the store keeps of itself.
func changeWriters(ctx context.Context, c *sdk.Client, to string) error {
	return c.Eval(ctx, "#!lua\n"+
		"local g, writes, floor, indexed, indexes, at, w = cmsgpack.unpack(redis.call('GET', KEYS[1])) "+
		"redis.call('SET', KEYS[1], cmsgpack.pack(g, writes, floor, indexed, indexes, at, ("+to+"))) return 1",
		[]string{"{refusals}:own"}).Err()
}
