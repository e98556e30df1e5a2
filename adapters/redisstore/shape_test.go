package redisstore_test

import (
	"fmt"
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

// TestInterpreted runs the suite with writes that are not compiled: several at once, deletions, and those beyond the
// bounds are not.
func TestInterpreted(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store {
			s := open(t, server, nil)
			s.Interpret()
			t.Cleanup(func() {
				if n := s.Shapes(); n != 0 {
					t.Errorf("%d shapes were compiled", n)
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

// TestManyShapes: a store compiles so many shapes and no more; writes of others, and very large ones, are interpreted.
func TestManyShapes(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		s := open(t, server, &redisstore.Options{Now: clock.Now})
		want := docstore.Doc{}
		for i := range redisstore.MostShapes + 10 {
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
		large := open(t, server, &redisstore.Options{Now: clock.Now})
		w, want := docstore.Write{Key: key("large"), Set: map[string]docstore.Value{}}, docstore.Doc{}
		for i := range 1500 {
			f := fmt.Sprintf("f%dx", i)
			w.Set[f] = docstore.Now
			want[f] = docstore.FormatTime(clock.Now())
		}
		if r, err := large.Write(t.Context(), w); err != nil || !r.Applied || !r.Docs[0].Equal(want) || large.Shapes() != 0 {
			t.Errorf("%d fields, %d shapes, %v", len(r.Docs[0]), large.Shapes(), err)
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
			"compiled": func(*redisstore.Store) {}, "interpreted": (*redisstore.Store).Interpret,
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
