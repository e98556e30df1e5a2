package redisstore_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestStoredForm is what a program sees that reads the documents of a store with MessagePack.
func TestStoredForm(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
		s := open(t, server, &redisstore.Options{Prefix: "form", Now: func() time.Time { return at }})
		k := docstore.Key{Kind: "locks", Tenant: "ac/me", ID: "deploy/prod {x}"}
		w := docstore.Write{Key: k, Set: docstore.Doc{
			"text": docstore.String("a:b"), "no": docstore.Bool(false), "until": docstore.Now.Add(time.Minute),
			"since":  docstore.FormatTime(at),
			"labels": docstore.Map{"b": "<&>", "a": "1"}, "none": docstore.Map(nil),
			"table": docstore.Bytes("\x00\xff"), "void": docstore.Bytes(""), "blank": docstore.String(""),
		}, Add: map[string]int64{"n": -5}, Keep: time.Hour}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		c := client(t, server)
		const name = "{form}:doc:locks/ac%2Fme/deploy%2Fprod%20%7Bx%7D"
		// As JSON, without what JSON has no form for.
		const read = `#!lua
			local f, ends = cmsgpack.unpack(redis.call('GET', KEYS[1]))
			local table, void = f.table, f.void
			f.table, f.void = nil, nil
			f.labels, f.none = f.labels:sub(2), f.none:sub(2)
			return {tostring(ends), cjson.encode(f), table, void}`
		got, err := c.Eval(t.Context(), read, []string{name}).StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(got[1]), &fields); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"text": "a:b", "no": false, "until": 1767225690000.5, "since": 1767225630000.5, "labels": `m{"a":"1","b":"<&>"}`,
			"none": "m{}", "n": -5.0, "blank": "",
		}
		if got[0] != "1767229230000" && got[0] != "1.76722923e+12" || !maps.Equal(fields, want) ||
			got[2] != "\xffx\x00\xff" || got[3] != "\xffx" {
			t.Errorf("%q; want %v", got, want)
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

// TestEdgesOfValues: what is at the edge of a form comes back as it was, whichever script stored it, and is compared as
// what it is.
func TestEdgesOfValues(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, nil)
		want := docstore.Doc{
			"zero": docstore.Int(0), "small": docstore.Int(127), "more": docstore.Int(128), "minus": docstore.Int(-1),
			"low": docstore.Int(-33), "most": docstore.Int(docstore.MaxInt),
			"least": docstore.Int(-docstore.MaxInt), "almost": docstore.Int(docstore.MaxInt - 1), "word": docstore.Int(1 << 32),
			"token": docstore.Int(1767225600000001),
			"blank": docstore.String(""), "null": docstore.String("\x00"), "emoji": docstore.String("🔒 日本語"),
			"high":   docstore.String("\U0010ffff"),
			"digits": docstore.String("42"), "date": docstore.String("2026-02-29T00:00:00.000Z"),
			"time": docstore.String("2026-02-28T00:00:00.000Z"), "early": docstore.String("0000-01-01T00:00:00.000Z"),
			"late": docstore.String("9999-12-31T23:59:59.999Z"), "long": docstore.String(strings.Repeat("é", 512<<10)),
			"yes": docstore.Bool(true), "no": docstore.Bool(false),
			"bytes": docstore.Bytes("\xffx\xffm\xc1\x00"), "many": docstore.Bytes(strings.Repeat("\xff", docstore.MaxBytes)),
			"map": docstore.Map{"\u2028": "<\x00>"},
		}
		for _, n := range []int{31, 32, 255, 256, 65535, 65536} {
			want["text"+strconv.Itoa(n)+"x"] = docstore.String(strings.Repeat("t", n))
		}
		mustWrite(t, s, docstore.Write{Key: key("k"), Set: want})
		for f, v := range want {
			var cond docstore.Cond = docstore.Eq{Field: f, Value: v}
			switch v.(type) {
			case docstore.String, docstore.Int:
				cond = docstore.All{cond, docstore.LE{Field: f, Value: v}}
			}
			r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), If: cond, Set: docstore.Doc{"last": docstore.String(f)},
				Return: []string{f}})
			if err != nil || !r.Applied || !r.Docs[0].Equal(docstore.Doc{f: v}) {
				t.Errorf("%s: applied %v, %v", f, r.Applied, err)
			}
		}
		mustWrite(t, s, docstore.Write{Key: key("k"), Unset: []string{"last"}}, docstore.Write{Key: key("l")})
		snap, err := s.Get(t.Context(), key("k"), key("l"))
		if err != nil || !snap.Docs[0].Equal(want) || !snap.Docs[1].Equal(docstore.Doc{}) {
			t.Errorf("%d fields, %v, want %d", len(snap.Docs[0]), err, len(want))
		}
	})
}

// TestDocumentedScripts: the page on stores says how to look at a document, and how to set a field of one's own, with
// redis-cli.
func TestDocumentedScripts(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts := regexp.MustCompile(`(?m)^redis-cli EVAL "(.*?)" 1 `).FindAllStringSubmatch(string(page), -1)
	if len(scripts) != 2 {
		t.Fatalf("%d scripts in docs/guides/stores.md, want 2", len(scripts))
	}
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, c := open(t, server, &redisstore.Options{Prefix: "page"}), client(t, server)
		mustWrite(t, s, docstore.Write{Key: key("k"), Set: docstore.Doc{"state": docstore.String("ACTIVE")}, Keep: time.Hour})
		name := []string{"{page}:doc:locks/acme/k"}
		if err := c.Eval(t.Context(), "#!lua\n"+scripts[1][1], name, "since Monday").Err(); err != nil {
			t.Fatal(err)
		}
		shown, err := c.Eval(t.Context(), "#!lua\n"+scripts[0][1], name).Text()
		var fields map[string]string
		if err == nil {
			err = json.Unmarshal([]byte(shown), &fields)
		}
		if err != nil || !maps.Equal(fields, map[string]string{"state": "ACTIVE", "note": "since Monday"}) {
			t.Errorf("%s, %v", shown, err)
		}
		r, err := s.Write(t.Context(), docstore.Write{Key: key("k"),
			If: docstore.Eq{Field: "note", Value: docstore.String("since Monday")}, Add: map[string]int64{"n": 1}})
		want := docstore.Doc{"state": docstore.String("ACTIVE"), "note": docstore.String("since Monday"),
			"n": docstore.Int(1)}
		if err != nil || !r.Applied || !r.Docs[0].Equal(want) {
			t.Errorf("%v, %v", r.Docs, err)
		}
	})
}

// TestValuesOfOthers: what the port has no type for is there, equals nothing, cannot be counted with, and stays as it
// is.
func TestValuesOfOthers(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, c := open(t, server, &redisstore.Options{Prefix: "others"}), client(t, server)
		// {fraction = 1.25, list = {1}, table = {a = 1}, bytes = '\xfe', order = '\xffm{"b":"1","a":"2"}', nested =
		// '\xffm{"a":{}}', other = '\xffy', count = 7}
		const stored = "\x88\xa8fraction\xcb\x3f\xf4\x00\x00\x00\x00\x00\x00\xa4list\x91\x01\xa5table\x81\xa1a\x01\xa5bytes\xa1\xfe" +
			"\xa5order\xb3\xffm{\"b\":\"1\",\"a\":\"2\"}\xa6nested\xaa\xffm{\"a\":{}}\xa5other\xa2\xffy\xa5count\x07\xc2"
		const name = "{others}:doc:locks/acme/k"
		if err := c.Set(t.Context(), name, stored, 0).Err(); err != nil {
			t.Fatal(err)
		}
		snap, err := s.Get(t.Context(), key("k"))
		if err != nil || len(snap.Docs[0]) != 8 || snap.Docs[0]["count"] != docstore.Value(docstore.Int(7)) {
			t.Fatalf("%v, %v", snap.Docs, err)
		}
		for f, v := range snap.Docs[0] {
			if _, opaque := v.(docstore.Opaque); !opaque && f != "count" {
				t.Errorf("%s is %#v", f, v)
			}
			if f == "count" {
				continue
			}
			for _, cond := range []docstore.Cond{
				docstore.Not{Cond: docstore.Has{Field: f}}, docstore.LE{Field: f, Value: docstore.Int(docstore.MaxInt)},
				docstore.Eq{Field: f, Value: docstore.Int(0)}, docstore.Eq{Field: f, Value: docstore.Map{}},
				docstore.Eq{Field: f, Value: docstore.Bool(true)},
			} {
				if r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), If: cond}); err != nil || r.Applied {
					t.Errorf("%#v on %s: applied %v, %v", cond, f, r.Applied, err)
				}
			}
			_, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Add: map[string]int64{f: 1}})
			if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), f) {
				t.Errorf("add to %s: %v", f, err)
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
		mustWrite(t, s, docstore.Write{Key: key("k"), Add: map[string]int64{"count": 1}})
		if n := list(); n != 1 {
			t.Errorf("%d entries after the first write", n)
		}
		if err := c.Set(t.Context(), name+"2", "\x81\xa1n\x01\xc2", 0).Err(); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, s, docstore.Write{Key: key("k2"), If: docstore.Has{Field: "n"}}, docstore.Write{Key: key("k3")})
		if n := list(); n != 3 {
			t.Errorf("%d entries, want 3", n)
		}
		after, err := s.Get(t.Context(), key("k"))
		want := maps.Clone(snap.Docs[0])
		want["count"] = docstore.Int(8)
		if err != nil || !after.Docs[0].Equal(want) {
			t.Errorf("%v, %v", after.Docs, err)
		}
		// An ID whose document someone has deleted is passed over.
		if err := c.Del(t.Context(), name).Err(); err != nil {
			t.Fatal(err)
		}
		if n := list(); n != 2 {
			t.Errorf("%d entries, want 2", n)
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
			want := docstore.Doc{"now": docstore.FormatTime(at), "past": docstore.FormatTime(at.Add(-offset)),
				"future": docstore.FormatTime(at.Add(offset))}
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
	if r.At.Before(docstore.TruncateMilli(before)) || r.At.After(after) ||
		!r.Docs[0].Equal(docstore.Doc{"now": docstore.FormatTime(r.At)}) {
		t.Errorf("At %v, %v; the server's time was from %v to %v", r.At, r.Docs, before, after)
	}
}
