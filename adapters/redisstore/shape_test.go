package redisstore_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestCarried runs the suite with writes whose text comes along, each in the form of several: that is how those beyond
// all bounds are sent.
func TestCarried(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store {
			s := open(t, server, nil)
			s.Carry()
			t.Cleanup(func() {
				if n := s.Shapes(); n != 0 {
					t.Errorf("%d shapes are kept", n)
				}
			})
			return s
		}, exceptions(server)...)
	})
}

// TestShapes: locks need one script for each command, whatever the values are, also where these look like parts of a
// script.
func TestShapes(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		locks := lock.New(s, nil)
		for i, owner := range []string{"ann", "ACTIVE", "RELEASED", "c:state", "t:0", "'..redis.call('FLUSHALL')..'",
			"ARGV[1]", "FIELDS", "bob", "%s", "--", "]]"} {
			id := lock.ID{Tenant: "acme", Key: owner}
			var token int64
			for range 2 { // the second is the first again
				o, err := locks.Acquire(t.Context(), lock.Acquire{
					ID: id, Owner: owner, RequestID: fmt.Sprint("a", i), TTLSeconds: int64(60 + i),
					Metadata: map[string]string{"COND": owner},
				})
				if err != nil || o.Code != lock.OK || o.Lease.Owner != owner || o.Lease.Metadata["COND"] != owner {
					t.Fatalf("%s: %+v, %v", owner, o, err)
				}
				token = o.Lease.Token
				if o, err = locks.Renew(t.Context(), lock.Renew{ID: id, Owner: owner, Token: token, RequestID: "r",
					TTLSeconds: 90}); err != nil || o.Code != lock.OK {
					t.Fatalf("%s: renew: %+v, %v", owner, o, err)
				}
			}
			if r, err := locks.Release(t.Context(), lock.Release{ID: id, Owner: owner, Token: token,
				RequestID: "e"}); err != nil || r.Code != lock.OK {
				t.Fatalf("%s: release: %+v, %v", owner, r, err)
			}
		}
		if n := s.Shapes(); n != 3 {
			t.Errorf("%d shapes for three commands", n)
		}
	})
}

// TestManyShapes: a server is told so many scripts and no more, because it may keep them until it ends: the text of
// writes of other shapes, and of very large ones, comes along.
func TestManyShapes(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		s := open(t, server, &redisstore.Options{Now: clock.Now})
		want := docstore.Doc{}
		const more = 10
		for i := range redisstore.MostShapes + more {
			if i == redisstore.MostShapes {
				server.ResetCommands()
			}
			f := "f" + strings.Repeat("x", i%50) + "_" + strings.Repeat("y", i/50)
			want[f] = docstore.Int(i)
			r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Set: map[string]docstore.Value{f: docstore.Int(i)},
				If: docstore.Not{Cond: docstore.Has{Field: f}}})
			if err != nil || !r.Applied || !r.Docs[0].Equal(want) {
				t.Fatalf("%d: %v, %v", i, r.Applied, err)
			}
		}
		if n := s.Shapes(); n != redisstore.MostShapes {
			t.Errorf("%d shapes, want %d", n, redisstore.MostShapes)
		}
		// One more script, for all of them.
		if got, want := server.Commands(), map[string]int{"EVALSHA": more, "EVAL": 1}; !maps.Equal(got, want) {
			t.Errorf("%d writes beyond the bound: sent %v, want %v", more, got, want)
		}
	})
}

// TestLargeWrites: a write of very many fields, and the most writes with as many shapes, have no script that a server
// keeps. One of many fields, but not as many, has.
func TestLargeWrites(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		write := func(fields, shapes int) {
			t.Helper()
			s := open(t, server, &redisstore.Options{Now: clock.Now})
			w, want := docstore.Write{Key: key("large"), Set: map[string]docstore.Value{}}, docstore.Doc{}
			for i := range fields {
				f := fmt.Sprintf("f%dx", i)
				w.Set[f], want[f] = docstore.Int(i), docstore.Int(i)
				if i%2 > 0 {
					w.Set[f], want[f] = docstore.Now, docstore.FormatTime(clock.Now())
				}
			}
			for range 2 {
				r, err := s.Write(t.Context(), w)
				if err != nil || !r.Applied || !r.Docs[0].Equal(want) || s.Shapes() != shapes {
					t.Fatalf("%d fields: %d, %d shapes, %v", fields, len(r.Docs), s.Shapes(), err)
				}
			}
		}
		write(400, 1)
		write(1500, 0)

		s := open(t, server, &redisstore.Options{Now: clock.Now})
		writes, want := make([]docstore.Write, docstore.MaxWrites), make([]docstore.Doc, docstore.MaxWrites)
		for i := range writes {
			f, g := fmt.Sprintf("f%dx", i), fmt.Sprintf("g%dx", i)
			writes[i] = docstore.Write{Key: key(f), If: docstore.Not{Cond: docstore.Has{Field: f}},
				Set: docstore.Doc{f: docstore.String(g)}, Add: map[string]int64{g: int64(i)}}
			want[i] = docstore.Doc{f: docstore.String(g), g: docstore.Int(i)}
		}
		for _, applied := range []bool{true, false} {
			r, err := s.Write(t.Context(), writes...)
			if err != nil || r.Applied != applied || len(r.Refused) != len(writes) != applied || s.Shapes() != 0 {
				t.Fatalf("%d writes: applied %v, %d refused, %d shapes, %v", len(writes), r.Applied, len(r.Refused), s.Shapes(), err)
			}
			for i, d := range r.Docs {
				if !d.Equal(want[i]) {
					t.Errorf("%d: %v, want %v", i, d, want[i])
				}
			}
		}
	})
}

// TestReturnOfARow: what a write wants returned is right whichever field of a row it sets.
func TestReturnOfARow(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		want := docstore.Doc{}
		for i, f := range []string{"e1", "e2", "e1", "e3", "e2"} {
			want[f] = docstore.Int(i)
			r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Set: docstore.Doc{f: docstore.Int(i)},
				Return: []string{"e1", "e2", "e3"}})
			if err != nil || !r.Docs[0].Equal(want) {
				t.Errorf("%d: %v, %v; want %v", i, r.Docs, err, want)
			}
		}
	})
}

// TestTheTimeIsThatOfTheServer: in whole milliseconds, and never one that is still to come. The server is asked before
// and after each write.
func TestTheTimeIsThatOfTheServer(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		c := client(t, server)
		asked := func() time.Time {
			at, err := c.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			return at.Truncate(time.Millisecond)
		}
		for name, most := range map[string]func(*redisstore.Store){
			"compiled": func(*redisstore.Store) {}, "carried": (*redisstore.Store).Carry,
		} {
			s := open(t, server, &redisstore.Options{Prefix: name})
			most(s)
			for range 200 { // in most of them all three are of one millisecond
				before := asked()
				r, err := s.Write(t.Context(), count(key("a")))
				if after := asked(); err != nil || r.At.Before(before) || r.At.After(after) {
					t.Fatalf("%s: written at %v, between %v and %v, error %v", name, r.At, before, after, err)
				}
			}
		}
	})
}
