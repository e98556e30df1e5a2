package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A program is a list of steps, each with one of its parts. It is data, so that rapid can shrink one that fails to the
// few steps that matter.
type program []step

type step struct {
	writes []docstore.Write
	get    []docstore.Key
	list   *docstore.Query
	prune  bool
}

func (p program) String() string {
	var b strings.Builder
	for i, st := range p {
		fmt.Fprintf(&b, "\n  %2d ", i)
		switch {
		case st.list != nil:
			fmt.Fprintf(&b, "list %+v", *st.list)
		case st.get != nil:
			fmt.Fprintf(&b, "get %v", st.get)
		case st.prune:
			b.WriteString("prune")
		default:
			fmt.Fprintf(&b, "write %#v", st.writes)
		}
	}
	return b.String()
}

// runSideBySide runs random programs on the store and on the reference side by side.
func runSideBySide(t *testing.T, s docstore.Store, programs *rapid.Generator[program]) {
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		p := programs.Draw(rt, "program")
		if err := sideBySide(t.Context(), s, fmt.Sprintf("run%d-", runs.Add(1)), p); err != nil {
			rt.Fatal(err)
		}
	})
}

// sideBySide runs a program on s and on a new [docstore.Memory], and returns the first difference. prefix goes before
// every tenant, so that programs share a store without meeting.
//
// Times differ between the two stores. They are compared by origin: a field that step i set to Now+d must hold At of
// step i, as the store returned it, plus d. A counter that started at such a time is compared by how far it is ahead of
// the reference's.
func sideBySide(ctx context.Context, s docstore.Store, prefix string, p program) error {
	b := bench{
		store: s, memory: docstore.NewMemory(nil), prefix: prefix,
		at: make([]time.Time, len(p)), origins: map[docstore.Key]map[string]origin{}, ahead: map[docstore.Key]docstore.Int{},
	}
	for i, st := range p {
		var err error
		switch {
		case st.list != nil:
			err = b.list(ctx, *st.list)
		case st.get != nil:
			err = b.get(ctx, st.get)
		case st.prune:
			err = b.prune(ctx)
		default:
			err = b.write(ctx, i, st.writes)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w\nprogram:%v", i, err, p)
		}
	}
	if err := b.get(ctx, allKeys); err != nil {
		return fmt.Errorf("after the last step: %w\nprogram:%v", err, p)
	}
	return nil
}

// origin says where a field's time comes from.
type origin struct {
	step   int
	offset time.Duration
}

type bench struct {
	store   docstore.Store
	memory  *docstore.Memory
	prefix  string
	at      []time.Time // the store's time of each step
	origins map[docstore.Key]map[string]origin
	ahead   map[docstore.Key]docstore.Int // how much more than in memory the counter of a document is
}

func (b *bench) moved(k docstore.Key) docstore.Key {
	k.Tenant = b.prefix + k.Tenant
	return k
}

// expected is the document that the store must have where memory has d.
func (b *bench) expected(k docstore.Key, d docstore.Doc) docstore.Doc {
	d = d.Clone()
	for field, o := range b.origins[k] {
		if _, ok := d[field]; ok {
			d[field] = docstore.FormatTime(b.at[o.step].Add(o.offset))
		}
	}
	if n, ok := d[counterField].(docstore.Int); ok {
		d[counterField] = n + b.ahead[k]
	}
	return d
}

func (b *bench) write(ctx context.Context, i int, writes []docstore.Write) error {
	keys := make([]docstore.Key, len(writes))
	for j, w := range writes {
		keys[j] = w.Key
	}
	before, err := b.memory.Get(ctx, keys...)
	if err != nil {
		return err
	}
	want, wantErr := b.memory.Write(ctx, writes...)
	moved := slices.Clone(writes)
	for j := range moved {
		moved[j].Key = b.moved(moved[j].Key)
	}
	got, err := b.store.Write(ctx, moved...)
	if wantErr != nil || err != nil {
		for _, kind := range []error{docstore.ErrInvalid, docstore.ErrDamaged} {
			if errors.Is(wantErr, kind) != errors.Is(err, kind) {
				return fmt.Errorf("error is %w, want %w", err, wantErr)
			}
		}
		if wantErr == nil {
			return fmt.Errorf("error %w, memory has none", err)
		}
		return nil
	}
	if got.Applied != want.Applied {
		return fmt.Errorf("applied is %v, want %v", got.Applied, want.Applied)
	}
	b.at[i] = got.At
	var f findings
	if !want.Applied {
		found := map[int]docstore.Doc{}
		for _, j := range want.Refused {
			found[j] = b.expected(writes[j].Key, want.Docs[j])
		}
		f.severalRefused("refusal", got, nil, len(writes), found)
		return f.err()
	}
	for j, w := range writes {
		b.follow(i, w)
		if err := b.start(ctx, w, before.Docs[j], got.At); err != nil {
			return err
		}
	}
	snap, err := b.memory.Get(ctx, keys...) // what the result does not show as well
	if err != nil {
		return err
	}
	after := make([]docstore.Doc, len(writes))
	for j, w := range writes {
		after[j] = b.expected(w.Key, snap.Docs[j])
		if len(got.Docs) == len(writes) {
			after[j] = shown(w, got.Docs[j], after[j])
		}
	}
	if len(writes) == 1 {
		f.applied("result", got, nil, after[0])
	} else {
		f.severalResult("result", got, nil, after)
	}
	return f.err()
}

// follow keeps the origins after an applied write.
func (b *bench) follow(i int, w docstore.Write) {
	old := b.origins[w.Key]
	fields := maps.Clone(old)
	if fields == nil || w.Delete {
		fields = map[string]origin{}
	}
	b.origins[w.Key] = fields
	for field, v := range w.Set {
		delete(fields, field)
		switch v := v.(type) {
		case docstore.Instant:
			fields[field] = origin{i, v.Offset()}
		case docstore.Before:
			if o, ok := old[string(v)]; ok {
				fields[field] = o
			}
		}
	}
	for _, field := range w.Unset {
		delete(fields, field)
	}
}

// start checks and remembers where a counter started in the store, if the write that was applied at the time at started
// one.
func (b *bench) start(ctx context.Context, w docstore.Write, before docstore.Doc, at time.Time) error {
	if _, set := w.Set[counterField]; set {
		b.ahead[w.Key] = 0
	}
	if _, was := before[counterField]; was || len(w.StartAtNow) == 0 {
		return nil
	}
	memory, err := get(ctx, b.memory, w.Key)
	if err != nil {
		return err
	}
	store, err := get(ctx, b.store, b.moved(w.Key))
	if err != nil {
		return err
	}
	var f findings
	n, _ := memory[counterField].(docstore.Int)
	b.ahead[w.Key] = docstore.Int(f.started("start", store, counterField, at, w.Add[counterField])) - n
	return f.err()
}

// prune finds nothing: what programs keep, they keep for hours.
func (b *bench) prune(ctx context.Context) error {
	if _, ok := b.store.(docstore.Pruner); !ok {
		return nil
	}
	if n, err := prune(ctx, b.store, 10); n != 0 || err != nil {
		return fmt.Errorf("prune: %d, %w", n, err)
	}
	return nil
}

func (b *bench) get(ctx context.Context, keys []docstore.Key) error {
	want, err := b.memory.Get(ctx, keys...)
	if err != nil {
		return err
	}
	moved := make([]docstore.Key, len(keys))
	for i, k := range keys {
		moved[i] = b.moved(k)
	}
	got, err := b.store.Get(ctx, moved...)
	if err != nil {
		return err
	}
	if len(got.Docs) != len(keys) {
		return fmt.Errorf("%d documents for %d keys", len(got.Docs), len(keys))
	}
	for i, k := range keys {
		if w := b.expected(k, want.Docs[i]); !got.Docs[i].Equal(w) {
			return fmt.Errorf("%s is %#v, want %#v", k, got.Docs[i], w)
		}
	}
	return nil
}

func (b *bench) list(ctx context.Context, q docstore.Query) error {
	want, err := b.memory.List(ctx, q)
	if err != nil {
		return err
	}
	q.Tenant = b.prefix + q.Tenant
	got, err := b.store.List(ctx, q)
	if err != nil {
		return err
	}
	if len(got.Entries) != len(want.Entries) || got.Next != want.Next {
		return fmt.Errorf("%q and Next %q, want %q and %q", ids(got.Entries), got.Next, ids(want.Entries), want.Next)
	}
	for i, e := range want.Entries {
		if g := got.Entries[i]; g.Key != b.moved(e.Key) || !g.Doc.Equal(b.expected(e.Key, e.Doc)) {
			return fmt.Errorf("entry %d is %v, want %v", i, g, e)
		}
	}
	return nil
}

// The pools are small, so that programs meet themselves: the same few keys, fields and values again and again.
var (
	tenants   = []string{"a", "a/b"}
	idPool    = []string{"b/c", "c", "\ufffd", "\U00010000"}
	fieldPool = []string{"f", "g", "h"}

	// counterField is the one that starts at the store's time. Programs do not compare it, because it differs.
	counterField = "token"

	keysOf  = map[string][]docstore.Key{} // by tenant
	allKeys = everyKey()

	tenantOf = rapid.SampledFrom(tenants)
	idOf     = rapid.SampledFrom(idPool)
	fieldOf  = rapid.SampledFrom(fieldPool)
	keyOf    = rapid.SampledFrom(allKeys)

	// Offsets of hours: a program takes no hour, so that its comparisons with the time come out the same on both stores.
	instantOf = rapid.SampledFrom([]docstore.Value{docstore.Now, docstore.Now.Add(-time.Hour),
		docstore.Now.Add(time.Hour)})
	orderedOf = rapid.SampledFrom([]docstore.Value{
		docstore.Int(0), docstore.Int(1), docstore.Int(docstore.MaxInt),
		docstore.String("a"), docstore.String("\ufffd"), docstore.String("\U00010000"),
	})
	plainOf = rapid.OneOf(orderedOf, rapid.SampledFrom([]docstore.Value{
		docstore.Bool(true), docstore.Bool(false), docstore.Map{}, docstore.Map{"x": "1"}, docstore.Map{"x": "1", "y": ""},
		docstore.Bytes(""), docstore.Bytes("a"), docstore.Bytes("\x00\xff"),
	}))
	amountOf = rapid.SampledFrom([]int64{1, -1, 0, 2, docstore.MaxInt, -docstore.MaxInt})
)

func everyKey() []docstore.Key {
	var keys []docstore.Key
	for _, tenant := range tenants {
		for _, id := range idPool {
			keysOf[tenant] = append(keysOf[tenant], docstore.Key{Kind: "random", Tenant: tenant, ID: id})
		}
		keys = append(keys, keysOf[tenant]...)
	}
	return keys
}

// programs draws random programs without what some checks are about: Before, StartAtNow, Delete, Keep.
func programs(without ...string) *rapid.Generator[program] {
	d := drawer{}
	for _, check := range without {
		d[check] = true
	}
	// Slices of slices: rapid draws a handful of elements on its own, and a program needs some more to get anywhere.
	return rapid.Map(rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(d.step), 1, 12), 1, 12), func(parts [][]step) program {
		return slices.Concat(parts...)
	})
}

// drawer knows what a program does without.
type drawer map[string]bool

func (d drawer) step(t *rapid.T) step {
	switch rapid.IntRange(0, 10).Draw(t, "step") {
	case 7:
		return step{get: rapid.SliceOfN(keyOf, 1, 4).Draw(t, "get")}
	case 8, 9:
		return step{list: &docstore.Query{
			Kind:   "random",
			Tenant: tenantOf.Draw(t, "tenant"),
			Prefix: rapid.SampledFrom([]string{"", "", "b", "\U00010000"}).Draw(t, "prefix"),
			After:  rapid.OneOf(rapid.Just(""), idOf).Draw(t, "after"),
			Limit:  rapid.IntRange(0, 3).Draw(t, "limit"),
		}}
	case 10:
		return step{prune: true}
	default:
		distinct := func(w docstore.Write) docstore.Key { return w.Key }
		most := rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "most")
		key := rapid.SampledFrom(keysOf[tenantOf.Draw(t, "tenant")])
		write := rapid.Custom(func(t *rapid.T) docstore.Write { return d.write(t, key) })
		return step{writes: rapid.SliceOfNDistinct(write, 1, most, distinct).Draw(t, "writes")}
	}
}

func (d drawer) write(t *rapid.T, key *rapid.Generator[docstore.Key]) docstore.Write {
	w := docstore.Write{Key: key.Draw(t, "key")}
	if rapid.Bool().Draw(t, "conditional") {
		w.If = drawCond(t, 3)
	}
	if !d["Delete"] && rapid.IntRange(0, 7).Draw(t, "delete") == 7 {
		w.If = docstore.All{docstore.Not{Cond: docstore.Absent{}}, orTrue(w.If)}
		w.Delete = true
		return w
	}
	w.Set, w.Add = docstore.Doc{}, map[string]int64{}
	for _, field := range fieldPool {
		switch rapid.IntRange(0, 6).Draw(t, "change") {
		case 1, 2, 3:
			w.Set[field] = rapid.OneOf(plainOf, instantOf).Draw(t, "value")
		case 4:
			w.Add[field] = amountOf.Draw(t, "amount")
		case 5:
			w.Unset = append(w.Unset, field)
		case 6:
			if !d["Before"] {
				w.Set[field] = docstore.Before(fieldOf.Draw(t, "before"))
			}
		}
	}
	if !d["StartAtNow"] {
		switch rapid.IntRange(0, 9).Draw(t, "counter") {
		case 4, 5, 6:
			w.Add[counterField] = rapid.Int64Range(0, 2).Draw(t, "count")
			w.StartAtNow = []string{counterField}
		case 7:
			w.Set[counterField] = docstore.Int(5)
		case 8:
			w.Set[counterField] = docstore.String("damaged")
		case 9:
			w.Unset = append(w.Unset, counterField)
		}
	}
	if !d["Keep"] && rapid.IntRange(0, 5).Draw(t, "keep") == 5 {
		w.Keep = time.Hour
	}
	if rapid.Bool().Draw(t, "some") {
		w.Return = rapid.SliceOfNDistinct(rapid.SampledFrom(append(fieldPool, counterField, "missing")), 0, 4,
			rapid.ID).Draw(t, "return")
	}
	return w
}

func orTrue(c docstore.Cond) docstore.Cond {
	if c == nil {
		return docstore.All{}
	}
	return c
}

func drawCond(t *rapid.T, depth int) docstore.Cond {
	most := 6
	if depth == 0 {
		most = 3
	}
	parts := func() []docstore.Cond {
		cs := make([]docstore.Cond, rapid.IntRange(0, 3).Draw(t, "parts"))
		for i := range cs {
			cs[i] = drawCond(t, depth-1)
		}
		return cs
	}
	switch rapid.IntRange(0, most).Draw(t, "cond") {
	case 0:
		return docstore.Absent{}
	case 1:
		return docstore.Has{Field: rapid.SampledFrom(append(fieldPool, counterField)).Draw(t, "field")}
	case 2:
		return docstore.Eq{Field: fieldOf.Draw(t, "field"), Value: plainOf.Draw(t, "value")}
	case 3:
		return docstore.LE{Field: fieldOf.Draw(t, "field"), Value: rapid.OneOf(orderedOf, instantOf).Draw(t, "value")}
	case 4:
		return docstore.Any(parts())
	case 5:
		return docstore.All(parts())
	default:
		return docstore.Not{Cond: drawCond(t, depth-1)}
	}
}
