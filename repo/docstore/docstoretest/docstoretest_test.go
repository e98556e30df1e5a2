package docstoretest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// faulty is a sound store with injected faults: each function that is set stands in for the method of its name.
type faulty struct {
	docstore.Store
	write func(ctx context.Context, s docstore.Store, writes []docstore.Write) (docstore.Result, error)
	get   func(ctx context.Context, s docstore.Store, keys []docstore.Key) (docstore.Snapshot, error)
	list  func(ctx context.Context, s docstore.Store, q docstore.Query) (docstore.Page, error)
	due   func(ctx context.Context, s docstore.Store, q docstore.DueQuery) (docstore.Page, error)
	prune func(ctx context.Context, s docstore.Store, limit int) (int, error)
	walk  func(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (docstore.Page, error)
}

func (f faulty) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if f.write == nil || docstore.ValidateWrites(writes) != nil {
		return f.Store.Write(ctx, writes...)
	}
	return f.write(ctx, f.Store, writes)
}

func (f faulty) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if f.get == nil || docstore.ValidateKeys(keys) != nil {
		return f.Store.Get(ctx, keys...)
	}
	return f.get(ctx, f.Store, keys)
}

func (f faulty) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if f.list == nil || q.Validate() != nil {
		return f.Store.List(ctx, q)
	}
	return f.list(ctx, f.Store, q)
}

func (f faulty) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if f.due == nil || q.Validate() != nil {
		return docstore.Due(ctx, f.Store, q)
	}
	return f.due(ctx, f.Store, q)
}

func (f faulty) Prune(ctx context.Context, limit int) (int, error) {
	if f.prune == nil || limit < 1 {
		return prune(ctx, f.Store, limit)
	}
	return f.prune(ctx, f.Store, limit)
}

func (f faulty) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	if f.walk == nil || q.Validate() != nil {
		return walkPage(ctx, f.Store, q)
	}
	return f.walk(ctx, f.Store, q)
}

// eachFound is a fault that alters every write by the document that it finds.
func eachFound(alter func(w *docstore.Write, found docstore.Doc)) faulty {
	return eachWrite(func(ctx context.Context, s docstore.Store, w *docstore.Write) {
		snap, err := s.Get(ctx, w.Key)
		if err != nil {
			panic(err)
		}
		alter(w, snap.Docs[0])
	})
}

// eachCopy is a fault that alters what a write copies from field to field.
func eachCopy(alter func(w *docstore.Write, to, from string, found docstore.Doc)) faulty {
	return eachFound(func(w *docstore.Write, found docstore.Doc) {
		set := w.Set
		w.Set = maps.Clone(set)
		for to, v := range set {
			if from, ok := v.(docstore.Before); ok {
				alter(w, to, string(from), found)
			}
		}
	})
}

// eachWrite is a fault that alters every write before it is sent.
func eachWrite(alter func(ctx context.Context, s docstore.Store, w *docstore.Write)) faulty {
	return faulty{write: func(ctx context.Context, s docstore.Store, writes []docstore.Write) (docstore.Result, error) {
		writes = slices.Clone(writes)
		for i := range writes {
			alter(ctx, s, &writes[i])
		}
		return s.Write(ctx, writes...)
	}}
}

// eachCond is a fault that alters every condition, from the inside out.
func eachCond(alter func(docstore.Cond) docstore.Cond) faulty {
	var walk func(docstore.Cond) docstore.Cond
	walk = func(c docstore.Cond) docstore.Cond {
		switch parts := c.(type) {
		case docstore.Not:
			c = docstore.Not{Cond: walk(parts.Cond)}
		case docstore.Any:
			some := make(docstore.Any, len(parts))
			for i, p := range parts {
				some[i] = walk(p)
			}
			c = some
		case docstore.All:
			all := make(docstore.All, len(parts))
			for i, p := range parts {
				all[i] = walk(p)
			}
			c = all
		}
		return alter(c)
	}
	return eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		if w.If != nil {
			w.If = walk(w.If)
		}
	})
}

// eachPage makes a fault of a change to what List shows.
func eachPage(alter func(p *docstore.Page, q docstore.Query)) faulty {
	return faulty{list: func(ctx context.Context, s docstore.Store, q docstore.Query) (docstore.Page, error) {
		p, err := s.List(ctx, q)
		alter(&p, q)
		return p, err
	}}
}

// eachWalk makes a fault of a change to what Walk shows.
func eachWalk(alter func(p *docstore.Page)) faulty {
	return faulty{walk: func(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (docstore.Page, error) {
		p, err := walkPage(ctx, s, q)
		alter(&p)
		return p, err
	}}
}

// eachAnswer makes a fault of a change to what Write answers.
func eachAnswer(alter func(r *docstore.Result)) faulty {
	return faulty{write: func(ctx context.Context, s docstore.Store, writes []docstore.Write) (docstore.Result, error) {
		r, err := s.Write(ctx, writes...)
		alter(&r)
		return r, err
	}}
}

var plantedFaults = []struct {
	name   string
	store  faulty
	caught []string // the checks in charge
	random bool     // random programs find it too
}{
	{"replaces the document instead of patching it", eachWrite(
		func(ctx context.Context, s docstore.Store, w *docstore.Write) {
			snap, err := s.Get(ctx, w.Key)
			if err != nil {
				return
			}
			for field := range snap.Docs[0] {
				_, set := w.Set[field]
				_, add := w.Add[field]
				if !set && !add && !slices.Contains(w.Unset, field) {
					w.Unset = append(slices.Clone(w.Unset), field)
				}
			}
		}), []string{"Patch", "Conditions"}, true},

	{"ignores Not", eachCond(func(c docstore.Cond) docstore.Cond {
		if n, ok := c.(docstore.Not); ok {
			return n.Cond
		}
		return c
	}), []string{"Conditions"}, true},

	{"takes LE for less", eachCond(func(c docstore.Cond) docstore.Cond {
		if le, ok := c.(docstore.LE); ok {
			return docstore.All{c, docstore.Not{Cond: docstore.Eq(le)}}
		}
		return c
	}), []string{"Conditions", "NumberOrder", "TextOrder"}, true},

	{"takes a missing field for 0", eachCond(func(c docstore.Cond) docstore.Cond {
		if eq, ok := c.(docstore.Eq); ok && eq.Value == docstore.Value(docstore.Int(0)) {
			return docstore.Any{c, docstore.Not{Cond: docstore.Has{Field: eq.Field}}}
		}
		return c
	}), []string{"Conditions"}, true},

	{"takes bytes for text", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		w.Set = maps.Clone(w.Set)
		for field, v := range w.Set {
			if b, ok := v.(docstore.Bytes); ok {
				w.Set[field] = docstore.String(strings.ToValidUTF8(string(b), "\ufffd"))
			}
		}
	}), []string{"Bytes", "BytesOwnership", "Values"}, true},

	{"ends bytes at a NUL", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		w.Set = maps.Clone(w.Set)
		for field, v := range w.Set {
			if b, ok := v.(docstore.Bytes); ok {
				until, _, _ := strings.Cut(string(b), "\x00")
				w.Set[field] = docstore.Bytes(until)
			}
		}
	}), []string{"Bytes", "Values"}, true},

	{"compares bytes with text", eachCond(func(c docstore.Cond) docstore.Cond {
		eq, ok := c.(docstore.Eq)
		b, isBytes := eq.Value.(docstore.Bytes)
		if !ok || !isBytes || !utf8.ValidString(string(b)) {
			return c
		}
		return docstore.Any{c, docstore.Eq{Field: eq.Field, Value: docstore.String(b)}}
	}), []string{"Conditions"}, false},

	{"takes an empty Any for true", eachCond(func(c docstore.Cond) docstore.Cond {
		if some, ok := c.(docstore.Any); ok && len(some) == 0 {
			return docstore.All{}
		}
		return c
	}), []string{"Conditions"}, true},

	{"applies writes one by one", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		all := docstore.Result{Applied: true, Docs: make([]docstore.Doc, len(writes))}
		for i, w := range writes {
			r, err := s.Write(ctx, w)
			if err != nil {
				return r, err
			}
			all.At = r.At
			if !r.Applied {
				all.Applied, all.Refused, all.Docs[i] = false, append(all.Refused, i), r.Docs[0]
			} else if len(writes) == 1 {
				all.Docs[i] = r.Docs[0]
			}
		}
		return all, nil
	}}, []string{"SeveralWrites", "ManyWrites", "AddDamaged"}, true},

	{"joins tenant and ID", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		w.Key = joined(w.Key)
	}), []string{"Keys"}, true},

	{"reads, decides and writes in three steps", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		keys := make([]docstore.Key, len(writes))
		for i, w := range writes {
			keys[i] = w.Key
		}
		snap, err := s.Get(ctx, keys...)
		if err != nil {
			return docstore.Result{}, err
		}
		e, err := driver.Evaluate(writes, snap.At, func(k docstore.Key) (docstore.Doc, error) {
			return snap.Docs[slices.Index(keys, k)], nil
		})
		if err != nil || !e.Applied {
			return e.Result(), err
		}
		time.Sleep(time.Millisecond) // the crowd arrives in between
		for i, k := range keys {
			if _, err := s.Write(ctx, docstore.Write{Key: k, Set: e.After[i]}); err != nil {
				return docstore.Result{}, err
			}
		}
		return e.Result(), nil
	}}, []string{"OneWinner", "NoLostIncrement"}, false},

	{"reads keys one after the other", faulty{get: func(ctx context.Context, s docstore.Store,
		keys []docstore.Key) (docstore.Snapshot, error) {
		var all docstore.Snapshot
		for _, k := range keys {
			snap, err := s.Get(ctx, k)
			if err != nil {
				return snap, err
			}
			if all.At, all.Docs = snap.At, append(all.Docs, snap.Docs[0]); len(all.Docs) == 1 && len(keys) > 1 {
				// Another caller's transfer comes in between.
				if _, err := s.Write(ctx, docstore.Write{Key: keys[0], Add: map[string]int64{"n": -1}},
					docstore.Write{Key: keys[1], Add: map[string]int64{"n": 1}}); err != nil {
					return all, err
				}
			}
		}
		return all, nil
	}}, []string{"Transfers"}, false},

	{"drops duplicate keys", faulty{get: func(ctx context.Context, s docstore.Store,
		keys []docstore.Key) (docstore.Snapshot, error) {
		var once []docstore.Key
		for _, k := range keys {
			if !slices.Contains(once, k) {
				once = append(once, k)
			}
		}
		return s.Get(ctx, once...)
	}}, []string{"GetSeveral"}, true},

	{"hands back nothing with a refusal", eachAnswer(func(r *docstore.Result) {
		if !r.Applied {
			clear(r.Docs)
		}
	}), []string{"Refusal", "Conditions", "SeveralWrites"}, true},

	{"hands back less than the write asks for", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		r, err := s.Write(ctx, writes...)
		for i, w := range writes {
			for field := range r.Docs[i] {
				if _, copied := w.Set[field].(docstore.Before); copied && r.Applied && w.Return != nil {
					delete(r.Docs[i], field)
				}
			}
		}
		return r, err
	}}, []string{"Return"}, true},

	{"hands back fields as they were", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		before, err := s.Get(ctx, keysOfWrites(writes)...)
		if err != nil {
			return docstore.Result{}, err
		}
		r, err := s.Write(ctx, writes...)
		for i, w := range writes {
			if r.Applied && w.Return != nil && r.Docs[i] != nil {
				r.Docs[i] = w.Returned(before.Docs[i])
			}
		}
		return r, err
	}}, []string{"Return"}, true},

	{"hands back what it found after several writes", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		before, err := s.Get(ctx, keysOfWrites(writes)...)
		if err != nil {
			return docstore.Result{}, err
		}
		r, err := s.Write(ctx, writes...)
		if r.Applied && len(writes) > 1 {
			r.Docs = before.Docs
		}
		return r, err
	}}, []string{"SeveralWrites"}, true},

	{"hands back the first of several documents only", eachAnswer(func(r *docstore.Result) {
		if r.Applied && len(r.Docs) > 1 {
			clear(r.Docs[1:])
		}
	}), []string{"SeveralWrites"}, true},

	{"answers with another time than it stored", eachAnswer(func(r *docstore.Result) {
		r.At = r.At.Add(time.Millisecond)
	}), []string{"Now"}, true},

	{"orders IDs by UTF-16", eachPage(func(p *docstore.Page, _ docstore.Query) {
		slices.SortFunc(p.Entries, func(a, b docstore.Entry) int {
			return slices.CompareFunc([]rune(a.Key.ID), []rune(b.Key.ID), func(x, y rune) int {
				unit := func(r rune) rune {
					if r > 0xffff {
						return 0xd800 + (r-0x10000)>>10
					}
					return r
				}
				return cmp.Compare(unit(x), unit(y))
			})
		})
	}), []string{"ListOrder"}, true},

	{"takes a prefix for a pattern", faulty{list: func(ctx context.Context, s docstore.Store,
		q docstore.Query) (docstore.Page, error) {
		if i := strings.IndexAny(q.Prefix, "%_"); i >= 0 {
			q.Prefix = q.Prefix[:i]
		}
		return s.List(ctx, q)
	}}, []string{"ListPrefix"}, false},

	{"finds only what is past, not what is due now", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		q.UpTo = q.UpTo.Add(-time.Millisecond)
		return docstore.Due(ctx, s, q)
	}}, []string{"Due"}, false},

	{"shows due documents in the order of IDs", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		return docstore.Due(ctx, struct{ docstore.Store }{s}, q)
	}}, []string{"Due"}, false},

	{"goes on behind a value, whatever the ID", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		if c, err := driver.ParseDueCursor(q.After); err == nil && q.After != "" {
			q.After = driver.DueCursor{Value: c.Value, ID: "\U0010ffff\U0010ffff"}.String()
		}
		return docstore.Due(ctx, s, q)
	}}, []string{"DuePages"}, false},

	{"goes on behind a number of documents", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		skip := 0
		if c, err := driver.ParseDueCursor(q.After); err != nil {
			return docstore.Page{}, err
		} else if q.After != "" {
			skip = len(c.Value)
		}
		size := q.Size()
		q.After, q.Limit = "", docstore.MaxLimit
		p, err := docstore.Due(ctx, s, q)
		rest := p.Entries[min(skip, len(p.Entries)):]
		p.Entries, p.Next = rest[:min(size, len(rest))], ""
		if len(rest) > size {
			p.Next = driver.DueCursor{Value: strings.Repeat("x", skip+size), ID: "x"}.String()
		}
		return p, err
	}}, []string{"DueWalk"}, false},

	{"finds the documents of all tenants", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		p, err := docstore.Due(ctx, s, q)
		if q.Tenant != "" && err == nil {
			all, err := docstore.Due(ctx, s, docstore.DueQuery{Kind: q.Kind, Field: q.Field, UpTo: q.UpTo})
			p.Entries = append(p.Entries, all.Entries...)
			return p, err
		}
		return p, err
	}}, []string{"DueApart"}, false},

	{"takes any text for a cursor", faulty{due: func(ctx context.Context, s docstore.Store,
		q docstore.DueQuery) (docstore.Page, error) {
		if _, err := driver.ParseDueCursor(q.After); err != nil {
			q.After = ""
		}
		return docstore.Due(ctx, s, q)
	}}, []string{"DueInvalid"}, false},

	{"copies what a field holds after the write", eachCopy(func(w *docstore.Write, to, from string, _ docstore.Doc) {
		if text, ok := w.Set[from].(docstore.String); ok {
			w.Set[to] = text
		}
	}), []string{"Before"}, true},

	{"copies nothing of a field that is missing", eachCopy(func(w *docstore.Write, to, from string, found docstore.Doc) {
		if _, ok := found[from]; !ok {
			delete(w.Set, to)
		}
	}), []string{"Before"}, true},

	{"copies numbers as text", eachCopy(func(w *docstore.Write, to, from string, found docstore.Doc) {
		if n, ok := found[from].(docstore.Int); ok {
			w.Set[to] = docstore.String(fmt.Sprint(n))
		}
	}), []string{"BeforeDamaged"}, true},

	{"copies numbers as they are", eachCopy(func(w *docstore.Write, to, from string, found docstore.Doc) {
		if n, ok := found[from].(docstore.Int); ok {
			w.Set[to] = n
		}
	}), []string{"BeforeDamaged"}, true},

	{"starts counters at 0", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		w.StartAtNow = nil
	}), []string{"StartAtNow", "StartAgain"}, true},

	{"starts counters of new documents only", eachFound(func(w *docstore.Write, found docstore.Doc) {
		if found != nil {
			w.StartAtNow = nil
		}
	}), []string{"StartAtNow", "StartAgain"}, true},

	{"starts counters whose document is there", eachFound(func(w *docstore.Write, found docstore.Doc) {
		w.Add = maps.Clone(w.Add)
		for _, field := range w.StartAtNow {
			if n, ok := found[field].(docstore.Int); ok {
				w.Add[field] += max(0, time.Now().UnixMicro()-int64(n))
			}
		}
	}), []string{"StartAtNow"}, true},

	{"starts every counter of the write", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		if len(w.StartAtNow) > 0 {
			w.StartAtNow = slices.Collect(maps.Keys(w.Add))
		}
	}), []string{"StartAtNow"}, true},

	{"starts where there is damage", eachFound(func(w *docstore.Write, found docstore.Doc) {
		for _, field := range w.StartAtNow {
			if _, ok := found[field].(docstore.Int); !ok && found[field] != nil {
				w.Set, w.Add = maps.Clone(w.Set), maps.Clone(w.Add)
				if w.Set == nil {
					w.Set = docstore.Doc{}
				}
				w.Set[field] = docstore.Int(time.Now().UnixMicro())
				delete(w.Add, field)
			}
		}
		w.StartAtNow = slices.DeleteFunc(slices.Clone(w.StartAtNow),
			func(field string) bool { _, add := w.Add[field]; return !add })
	}), []string{"StartDamaged"}, true},

	{"starts counters at seconds", eachFound(func(w *docstore.Write, found docstore.Doc) {
		w.Add = maps.Clone(w.Add)
		for _, field := range w.StartAtNow {
			if found[field] == nil {
				w.Add[field] += time.Now().Unix()
			}
		}
		w.StartAtNow = nil
	}), []string{"StartAtNow", "StartAgain"}, true},

	{"keeps for ever what a later write says nothing of", eachWrite(
		func(_ context.Context, _ docstore.Store, w *docstore.Write) {
			if w.Keep == 0 && !w.Delete {
				w.Keep = long
			}
		}), []string{"Prune"}, false},

	{"remembers the first end", eachFound(func(w *docstore.Write, found docstore.Doc) {
		if found != nil {
			w.Keep = 0
		}
	}), []string{"Prune"}, false},

	{"moves the end with a refused write", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		r, err := s.Write(ctx, writes...)
		for _, w := range writes {
			if err == nil && !r.Applied && w.Keep > 0 {
				if _, err := s.Write(ctx, docstore.Write{Key: w.Key, Keep: w.Keep}); err != nil {
					return r, err
				}
			}
		}
		return r, err
	}}, []string{"Prune"}, false},

	{"keeps the end of a document that is no more", func() faulty {
		var mu sync.Mutex
		ends := map[docstore.Key]time.Duration{}
		return eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
			mu.Lock()
			defer mu.Unlock()
			if w.Keep > 0 {
				ends[w.Key] = w.Keep
			}
			if !w.Delete {
				w.Keep = ends[w.Key]
			}
		})
	}(), []string{"Prune"}, false},

	{"applies what comes too late", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		w.Until = time.Time{}
	}), []string{"Until"}, false},

	{"applies what ends too far ahead", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		if w.Until.After(time.Now().Add(docstore.MaxAhead)) {
			w.Until = time.Time{}
		}
	}), []string{"Until"}, false},

	{"shows the end", eachWrite(func(_ context.Context, _ docstore.Store, w *docstore.Write) {
		if w.Keep > 0 {
			w.Set = maps.Clone(w.Set)
			if w.Set == nil {
				w.Set = docstore.Doc{}
			}
			w.Set["keep_until"] = docstore.Now.Add(w.Keep)
		}
	}), []string{"Keep"}, true},

	{"removes one more than it may", faulty{prune: func(ctx context.Context, s docstore.Store, limit int) (int, error) {
		return prune(ctx, s, limit+1)
	}}, []string{"Prune", "PruneMany"}, false},

	{"removes at most a hundred", faulty{prune: func(ctx context.Context, s docstore.Store, limit int) (int, error) {
		return prune(ctx, s, min(limit, docstore.MaxWrites))
	}}, []string{"PruneMany"}, false},

	{"says that it removed none", faulty{prune: func(ctx context.Context, s docstore.Store, limit int) (int, error) {
		_, err := prune(ctx, s, limit)
		return 0, err
	}}, []string{"Prune", "PruneMany"}, false},

	{"empties instead of deleting", eachFound(func(w *docstore.Write, found docstore.Doc) {
		if w.Delete {
			w.Delete, w.Unset = false, slices.Collect(maps.Keys(found))
		}
	}), []string{"Delete", "DeleteSeveral"}, true},

	{"deletes on no condition", eachFound(func(w *docstore.Write, found docstore.Doc) {
		if w.Delete && found != nil {
			w.If = docstore.Not{Cond: docstore.Absent{}}
		}
	}), []string{"Delete", "DeleteSeveral"}, true},

	{"deletes what is not there", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		r, err := s.Write(ctx, writes...)
		if len(writes) == 1 && writes[0].Delete && err == nil && !r.Applied && r.Docs[0] == nil {
			r.Applied, r.Refused = true, nil
		}
		return r, err
	}}, []string{"Delete"}, true},

	{"shows what it deleted", faulty{write: func(ctx context.Context, s docstore.Store,
		writes []docstore.Write) (docstore.Result, error) {
		snap, err := s.Get(ctx, writes[0].Key)
		if err != nil {
			return docstore.Result{}, err
		}
		r, err := s.Write(ctx, writes...)
		if len(writes) == 1 && writes[0].Delete && r.Applied {
			r.Docs[0] = snap.Docs[0]
		}
		return r, err
	}}, []string{"Delete"}, true},

	{"walks one tenant", faulty{walk: func(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (docstore.Page,
		error) {
		return s.List(ctx, docstore.Query{Kind: q.Kind, Tenant: "acme", After: q.After, Limit: q.Limit})
	}}, []string{"Walk"}, false},

	{"leaves out those without a tenant", eachWalk(func(p *docstore.Page) {
		p.Entries = slices.DeleteFunc(p.Entries, func(e docstore.Entry) bool { return e.Key.Tenant == "" })
	}), []string{"Walk"}, false},

	{"shows the end of a page again", faulty{walk: func(ctx context.Context, s docstore.Store,
		q docstore.WalkQuery) (docstore.Page, error) {
		p, err := walkPage(ctx, s, q)
		if n := len(p.Entries); n > 1 && p.Next != "" {
			p.Next = p.Entries[n-2].Key.String()
		}
		return p, err
	}}, []string{"Walk", "WalkChanges"}, false},

	{"walks by numbers", faulty{walk: func(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (docstore.Page,
		error) {
		size, skip := q.Size(), 0
		if q.After != "" {
			if _, err := fmt.Sscan(q.After, &skip); err != nil {
				return docstore.Page{}, err
			}
		}
		p, err := walkPage(ctx, s, docstore.WalkQuery{Kind: q.Kind, Limit: docstore.MaxLimit})
		rest := p.Entries[min(skip, len(p.Entries)):]
		p.Entries, p.Next = rest[:min(size, len(rest))], ""
		if len(rest) > size {
			p.Next = strconv.Itoa(skip + size)
		}
		return p, err
	}}, []string{"WalkChanges"}, false},

	{"walks kinds that begin alike", faulty{walk: func(ctx context.Context, s docstore.Store,
		q docstore.WalkQuery) (docstore.Page, error) {
		p, err := walkPage(ctx, s, q)
		if p.Next == "" && err == nil {
			more, err := walkPage(ctx, s, docstore.WalkQuery{Kind: q.Kind + "_"})
			p.Entries = append(p.Entries, more.Entries...)
			return p, err
		}
		return p, err
	}}, []string{"Walk"}, false},

	{"promises an empty last page", eachPage(func(p *docstore.Page, q docstore.Query) {
		if n := len(p.Entries); n == q.Size() {
			p.Next = p.Entries[n-1].Key.ID
		}
	}), []string{"ListPages"}, true},
}

func joined(k docstore.Key) docstore.Key {
	return docstore.Key{Kind: k.Kind, ID: (k.Tenant + "/" + k.ID)[:min(len(k.Tenant)+1+len(k.ID), docstore.MaxIDBytes)]}
}

// TestPlantedFaults demands that the suite finds each fault, by the checks in charge and (where a sequence of calls can
// show it) by random programs.
func TestPlantedFaults(t *testing.T) {
	for _, fault := range plantedFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			if fault.name == "joins tenant and ID" {
				fault.store.get = func(ctx context.Context, s docstore.Store, keys []docstore.Key) (docstore.Snapshot, error) {
					keys = slices.Clone(keys)
					for i := range keys {
						keys[i] = joined(keys[i])
					}
					return s.Get(ctx, keys...)
				}
			}
			for _, name := range fault.caught {
				i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
				if i < 0 {
					t.Fatalf("there is no check %s", name)
				}
				fault.store.Store = docstore.NewMemory(nil)
				if err := checks[i].run(t.Context(), fault.store); err == nil {
					t.Errorf("check %s finds nothing", name)
				}
			}
			if fault.random {
				if n := programsUntilFound(t.Context(), fault.store); n == 0 {
					t.Error("random programs find nothing")
				} else {
					t.Logf("found by program %d", n)
				}
			}
		})
	}
}

// programsUntilFound runs as many random programs as rapid would, and returns the number of the first that shows a
// difference, 0 if none does.
func programsUntilFound(ctx context.Context, store faulty) int {
	for n := range 100 {
		store.Store = docstore.NewMemory(nil)
		if sideBySide(ctx, store, "", programs().Example(n+1)) != nil {
			return n + 1
		}
	}
	return 0
}

// TestSoundStoreWithoutFault shows that the wrapper itself is not what the checks find.
func TestSoundStoreWithoutFault(t *testing.T) {
	Run(t, func(*testing.T) docstore.Store { return faulty{Store: docstore.NewMemory(nil)} })
}

// TestClosedStoreThatResponds plants faults in the end of a store's life, which the wrapper above leaves alone.
func TestClosedStoreThatResponds(t *testing.T) {
	if err := checkClosed(t.Context(), immortal{docstore.NewMemory(nil)}); err == nil {
		t.Error("a store that answers after Close passes")
	}
	if err := checkClosed(t.Context(), &closesOnce{Store: docstore.NewMemory(nil)}); err == nil {
		t.Error("a store that fails when it is closed twice passes")
	}
	if err := checkEndedContext(t.Context(), deaf{docstore.NewMemory(nil)}); err == nil {
		t.Error("a store that does not look at the context passes")
	}
}

type immortal struct{ docstore.Store }

func (immortal) Close() error { return nil }

type closesOnce struct {
	docstore.Store
	closed bool
}

func (c *closesOnce) Close() error {
	if c.closed {
		return errors.New("closed already")
	}
	c.closed = true
	return c.Store.Close()
}

type deaf struct{ docstore.Store }

func (d deaf) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	return d.Store.Write(context.WithoutCancel(ctx), writes...)
}
