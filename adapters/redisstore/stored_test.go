package redisstore_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestStoredForm is what redis-cli shows, and what programs of others may rely on.
func TestStoredForm(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
		s := open(t, server, &redisstore.Options{Prefix: "form", Now: func() time.Time { return at }})
		k := docstore.Key{Kind: "locks", Tenant: "ac/me", ID: "deploy/prod {x}"}
		if _, err := s.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{
			"text": docstore.String("a:b"), "no": docstore.Bool(false), "until": docstore.Now.Add(time.Minute),
			"labels": docstore.Map{"b": "<&>", "a": "1"}, "none": docstore.Map(nil),
			"table": docstore.Bytes("\x00\xff"), "void": docstore.Bytes(""),
		}, Add: map[string]int64{"n": -5}}); err != nil {
			t.Fatal(err)
		}
		c := client(t, server)
		got, err := c.HGetAll(t.Context(), "{form}:doc:locks/ac%2Fme/deploy%2Fprod%20%7Bx%7D").Result()
		want := map[string]string{
			"_doc": "1", "text": "s:a:b", "no": "b:0", "until": "s:2026-01-01T00:01:30.000Z", "labels": `m:{"a":"1","b":"<&>"}`, "none": "m:{}", "table": "x:\x00\xff", "void": "x:", "n": "i:-5",
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
		ids, err := c.ZRange(t.Context(), "{form}:ids:locks/ac%2Fme", 0, -1).Result()
		if err != nil || !slices.Equal(ids, []string{k.ID}) {
			t.Errorf("IDs %q, %v", ids, err)
		}
		for _, key := range c.Keys(t.Context(), "{form}*").Val() {
			if ttl := c.TTL(t.Context(), key).Val(); ttl != -1 {
				t.Errorf("%s expires in %v", key, ttl)
			}
		}
	})
}

// TestStrangersFields: what others put into a document is there, equals nothing, cannot be counted with, and stays as
// it is.
func TestStrangersFields(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, c := open(t, server, &redisstore.Options{Prefix: "others"}), client(t, server)
		strange := map[string]string{
			"plain": "50", "empty": "", "colon": ":", "fraction": "i:1.5", "zeros": "i:007", "minus": "i:-0", "plus": "i:+1", "beyond": "i:9007199254740993",
			"far": "i:99999999999999999999", "exponent": "i:1e3", "space": "i: 1", "yes": "b:true", "order": `m:{"b":"1","a":"2"}`, "nested": `m:{"a":{}}`,
			"list": "m:[]", "null": "m:null", "broken": "m:{", "time": "t:0", "bytes": "s:\xff", "upper": "X:a", "many": "x:" + strings.Repeat("x", docstore.MaxBytes+1), "status": "s:READY", "count": "i:7",
		}
		const hash = "{others}:doc:locks/acme/k"
		if err := c.HSet(t.Context(), hash, strange).Err(); err != nil {
			t.Fatal(err)
		}
		snap, err := s.Get(t.Context(), key("k"))
		if err != nil || len(snap.Docs[0]) != len(strange) {
			t.Fatalf("%v, %v", snap.Docs, err)
		}
		for f, v := range snap.Docs[0] {
			switch o, opaque := v.(docstore.Opaque); {
			case f == "status" && v == docstore.Value(docstore.String("READY")), f == "count" && v == docstore.Value(docstore.Int(7)):
			case !opaque || o.Raw != strange[f]:
				t.Errorf("%s is %#v, stored %q", f, v, strange[f])
			default:
				for _, cond := range []docstore.Cond{
					docstore.Not{Cond: docstore.Has{Field: f}}, docstore.LE{Field: f, Value: docstore.Int(docstore.MaxInt)},
					docstore.Eq{Field: f, Value: docstore.Int(0)}, docstore.Eq{Field: f, Value: docstore.Map{}}, docstore.Eq{Field: f, Value: docstore.Bool(true)},
				} {
					if r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), If: cond}); err != nil || r.Applied {
						t.Errorf("%#v on %q: applied %v, %v", cond, strange[f], r.Applied, err)
					}
				}
				_, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Add: map[string]int64{f: 1}})
				if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), f) {
					t.Errorf("add to %q: %v", strange[f], err)
				}
			}
		}
		// A document that others created is in lists after the first write of the store.
		list := func() int {
			page, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"})
			if err != nil {
				t.Error(err)
			}
			return len(page.Entries)
		}
		if n := list(); n != 0 {
			t.Errorf("%d entries before the first write", n)
		}
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Add: map[string]int64{"count": 1}}); err != nil {
			t.Error(err)
		}
		if n := list(); n != 1 {
			t.Errorf("%d entries after the first write", n)
		}
		strange["count"], strange["_doc"] = "i:8", "1"
		if got := c.HGetAll(t.Context(), hash).Val(); !maps.Equal(got, strange) {
			t.Errorf("stored %q\nwant   %q", got, strange)
		}
		// An ID whose document someone has deleted is passed over.
		if err := c.Del(t.Context(), hash).Err(); err != nil {
			t.Fatal(err)
		}
		if n := list(); n != 0 {
			t.Errorf("%d entries of documents that are gone", n)
		}
	})
}

// TestTimes compares the script's calendar with Go's, on the edges of months and leap years and anywhere else.
func TestTimes(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		var at time.Time
		s := open(t, server, &redisstore.Options{Now: func() time.Time { return at }})
		years := []int{101, 1600, 1899, 1900, 1904, 1969, 1970, 1999, 2000, 2001, 2024, 2026, 2100, 2400, 9899}
		var moments []time.Time
		for _, y := range years {
			for m := time.January; m <= time.December; m++ {
				first := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
				moments = append(moments, first, first.Add(-time.Millisecond))
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		from, to := time.Date(101, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9899, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 500 {
			moments = append(moments, time.UnixMilli(from.UnixMilli()+random.Int64N(to.UnixMilli()-from.UnixMilli())))
		}
		offset := 100 * 366 * 24 * time.Hour
		for _, at = range moments {
			r, err := s.Write(t.Context(), docstore.Write{Key: key("t"), Set: docstore.Doc{
				"now": docstore.Now, "past": docstore.Now.Add(-offset), "future": docstore.Now.Add(offset),
			}})
			want := docstore.Doc{"now": docstore.FormatTime(at), "past": docstore.FormatTime(at.Add(-offset)), "future": docstore.FormatTime(at.Add(offset))}
			if err != nil || !r.At.Equal(docstore.TruncateMilli(at)) || !r.Docs[0].Equal(want) {
				t.Fatalf("%v: At %v, %v, %v; want %v", at, r.At, r.Docs, err, want)
			}
		}
	})
}

// TestServersClock: without a clock of its own the store uses the server's, in whole milliseconds.
func TestServersClock(t *testing.T) {
	server := redistest.Start(t)
	s, c := open(t, server, nil), client(t, server)
	before := c.Time(t.Context()).Val()
	r, err := s.Write(t.Context(), docstore.Write{Key: key("t"), Set: docstore.Doc{"now": docstore.Now}})
	if err != nil {
		t.Fatal(err)
	}
	after := c.Time(t.Context()).Val()
	if r.At.Before(docstore.TruncateMilli(before)) || r.At.After(after) || !r.Docs[0].Equal(docstore.Doc{"now": docstore.FormatTime(r.At)}) {
		t.Errorf("At %v, %v; the server's time was from %v to %v", r.At, r.Docs, before, after)
	}
}
