package docstoretest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkInvalid sends what no store accepts, and expects that nothing was changed.
func checkInvalid(ctx context.Context, s docstore.Store) error {
	var f findings
	good := key("good")
	set := docstore.Doc{"a": docstore.Int(1)}
	text := docstore.String("x")

	keys := map[string]docstore.Key{
		"no kind":           {Kind: "", Tenant: "t", ID: "x"},
		"kind upper case":   {Kind: "Locks", Tenant: "t", ID: "x"},
		"kind with slash":   {Kind: "a/b", Tenant: "t", ID: "x"},
		"kind from a digit": {Kind: "1a", Tenant: "t", ID: "x"},
		"kind too long":     {Kind: strings.Repeat("k", docstore.MaxKindBytes+1), Tenant: "t", ID: "x"},
		"no id":             {Kind: "suite", Tenant: "t", ID: ""},
		"id too long":       {Kind: "suite", Tenant: "t", ID: strings.Repeat("x", docstore.MaxIDBytes+1)},
		"id not UTF-8":      {Kind: "suite", Tenant: "t", ID: "a\xff"},
		"id a surrogate":    {Kind: "suite", Tenant: "t", ID: "\xed\xa0\x80"},
		"id with NUL":       {Kind: "suite", Tenant: "t", ID: "a\x00b"}, // "a" where a string ends at NUL
		"tenant too long":   {Kind: "suite", Tenant: strings.Repeat("x", docstore.MaxTenantBytes+1), ID: "x"},
		"tenant not UTF-8":  {Kind: "suite", Tenant: "\xc3", ID: "x"},
		"tenant with NUL":   {Kind: "suite", Tenant: "\x00", ID: "x"},
	}
	for name, k := range keys {
		_, err := s.Get(ctx, good, k)
		f.invalid("get, "+name, err)
		_, err = s.Write(ctx, docstore.Write{Key: k, Set: set})
		f.invalid("write, "+name, err)
		_, err = s.Write(ctx, docstore.Write{Key: good, Set: set}, docstore.Write{Key: k, Set: set})
		f.invalid("second write, "+name, err)
	}
	_, err := s.Get(ctx)
	f.invalid("get of no keys", err)

	deep := docstore.Cond(docstore.Absent{})
	for range 100 {
		deep = docstore.Not{Cond: deep}
	}
	pointer := docstore.Has{Field: "a"}
	tooMany := docstore.Bytes(make([]byte, docstore.MaxBytes+1))
	writes := map[string][]docstore.Write{
		"none": {},
		"same key twice": {{Key: good, Set: set}, {Key: key("other")},
			{Key: good, Add: map[string]int64{"b": 1}}},
		"another tenant": {{Key: good, Set: set},
			{Key: docstore.Key{Kind: good.Kind, Tenant: "other", ID: good.ID}, Set: set}},
		"tenant and none":            {{Key: docstore.Key{Kind: good.Kind, ID: good.ID}, Set: set}, {Key: good, Set: set}},
		"field without name":         {{Key: good, Set: docstore.Doc{"": text}}},
		"field with a dot":           {{Key: good, Set: docstore.Doc{"a.b": text}}}, // a path into a map, to many stores
		"field from a digit":         {{Key: good, Add: map[string]int64{"1a": 1}}},
		"field from an underscore":   {{Key: good, Unset: []string{"_id"}}},
		"field not ASCII":            {{Key: good, Set: docstore.Doc{"é": text}}},
		"field too long":             {{Key: good, Set: docstore.Doc{strings.Repeat("f", 65): text}}},
		"nil value":                  {{Key: good, Set: docstore.Doc{"a": nil}}},
		"text not UTF-8":             {{Key: good, Set: docstore.Doc{"a": docstore.String("\xff")}}},
		"number too large":           {{Key: good, Set: docstore.Doc{"a": docstore.Int(docstore.MaxInt + 1)}}},
		"number too small":           {{Key: good, Set: docstore.Doc{"a": docstore.Int(-docstore.MaxInt - 1)}}},
		"add too large":              {{Key: good, Add: map[string]int64{"a": docstore.MaxInt + 1}}},
		"too many bytes":             {{Key: good, Set: docstore.Doc{"a": tooMany}}},
		"map without a key":          {{Key: good, Set: docstore.Doc{"a": docstore.Map{"": "x"}}}},
		"map not UTF-8":              {{Key: good, Set: docstore.Doc{"a": docstore.Map{"x": "\xff"}}}},
		"opaque":                     {{Key: good, Set: docstore.Doc{"a": docstore.Opaque{}}}},
		"pointer to a value":         {{Key: good, Set: docstore.Doc{"a": &text}}},
		"part of a millisecond":      {{Key: good, Set: docstore.Doc{"a": docstore.Now.Add(time.Microsecond)}}},
		"time beyond a century":      {{Key: good, Set: docstore.Doc{"a": docstore.Now.Add(101 * 366 * 24 * time.Hour)}}},
		"set and add":                {{Key: good, Set: set, Add: map[string]int64{"a": 1}}},
		"set and unset":              {{Key: good, Set: set, Unset: []string{"a"}}},
		"add and unset":              {{Key: good, Add: map[string]int64{"a": 1}, Unset: []string{"a"}}},
		"unset twice":                {{Key: good, Unset: []string{"a", "a"}}},
		"copy of no field":           {{Key: good, Set: docstore.Doc{"a": docstore.Before("")}}},
		"copy of a path":             {{Key: good, Set: docstore.Doc{"a": docstore.Before("a.b")}}},
		"copy of the store's own":    {{Key: good, Set: docstore.Doc{"a": docstore.Before("_id")}}},
		"comparison with a copy":     {{Key: good, If: docstore.Eq{Field: "a", Value: docstore.Before("b")}}},
		"order by a copy":            {{Key: good, If: docstore.LE{Field: "a", Value: docstore.Before("b")}}},
		"start without a number":     {{Key: good, Set: set, StartAtNow: []string{"a"}}},
		"start of another field":     {{Key: good, Add: map[string]int64{"a": 1}, StartAtNow: []string{"b"}}},
		"start twice":                {{Key: good, Add: map[string]int64{"a": 1}, StartAtNow: []string{"a", "a"}}},
		"return of no field":         {{Key: good, Set: set, Return: []string{""}}},
		"return of the store's own":  {{Key: good, Set: set, Return: []string{"_doc"}}},
		"return twice":               {{Key: good, Set: set, Return: []string{"a", "b", "a"}}},
		"keep less than 0":           {{Key: good, Set: set, Keep: -time.Millisecond}},
		"keep part of a millisecond": {{Key: good, Set: set, Keep: time.Microsecond}},
		"keep beyond a century":      {{Key: good, Set: set, Keep: 101 * 366 * 24 * time.Hour}},
		"delete and set":             {{Key: good, If: docstore.Has{Field: "a"}, Set: set, Delete: true}},
		"delete and add": {{Key: good, If: docstore.Has{Field: "a"}, Add: map[string]int64{"a": 1},
			Delete: true}},
		"delete and unset":           {{Key: good, If: docstore.Has{Field: "a"}, Unset: []string{"a"}, Delete: true}},
		"delete and keep":            {{Key: good, If: docstore.Has{Field: "a"}, Keep: time.Hour, Delete: true}},
		"delete and return":          {{Key: good, If: docstore.Has{Field: "a"}, Return: []string{"a"}, Delete: true}},
		"delete without a condition": {{Key: good, Delete: true}},
		"delete if there is none":    {{Key: good, If: docstore.Absent{}, Delete: true}},
		"delete unless a field is":   {{Key: good, If: docstore.Not{Cond: docstore.Has{Field: "a"}}, Delete: true}},
		"condition on no field":      {{Key: good, If: docstore.Has{}}},
		"condition without a value":  {{Key: good, If: docstore.Eq{Field: "a"}}},
		"condition on opaque":        {{Key: good, If: docstore.Eq{Field: "a", Value: docstore.Opaque{}}}},
		"order of booleans":          {{Key: good, If: docstore.LE{Field: "a", Value: docstore.Bool(true)}}},
		"comparison with too many":   {{Key: good, If: docstore.Eq{Field: "a", Value: tooMany}}},
		"order of bytes":             {{Key: good, If: docstore.LE{Field: "a", Value: docstore.Bytes("a")}}},
		"order of maps":              {{Key: good, If: docstore.LE{Field: "a", Value: docstore.Map{}}}},
		"not of nothing":             {{Key: good, If: docstore.Not{}}},
		"nil in any":                 {{Key: good, If: docstore.Any{docstore.Absent{}, nil}}},
		"nil in all":                 {{Key: good, If: docstore.All{nil}}},
		"condition nested too deep":  {{Key: good, If: deep}},
		"pointer to a condition":     {{Key: good, If: &pointer}},
		"pointer to one, further in": {{Key: good, If: docstore.Not{Cond: &pointer}}},
	}
	for name, w := range writes {
		_, err := s.Write(ctx, w...)
		f.invalid("write, "+name, err)
	}

	queries := map[string]docstore.Query{
		"no kind":          {Tenant: "t"},
		"kind upper case":  {Kind: "Locks"},
		"tenant not UTF-8": {Kind: "suite", Tenant: "\xff"},
		"prefix not UTF-8": {Kind: "suite", Prefix: "a\xff"},
		"prefix with NUL":  {Kind: "suite", Prefix: "a\x00"},
		"prefix too long":  {Kind: "suite", Prefix: strings.Repeat("x", docstore.MaxIDBytes+1)},
		"after not UTF-8":  {Kind: "suite", After: "\xff"},
		"after too long":   {Kind: "suite", After: strings.Repeat("x", docstore.MaxIDBytes+1)},
		"negative limit":   {Kind: "suite", Limit: -1},
		"limit too large":  {Kind: "suite", Limit: docstore.MaxLimit + 1},
	}
	for name, q := range queries {
		_, err := s.List(ctx, q)
		f.invalid("list, "+name, err)
	}
	f.expect(ctx, s, good, nil)
	return f.err()
}

func (f *findings) invalid(name string, err error) {
	if !errors.Is(err, docstore.ErrInvalid) {
		f.addf("%s: error is %v, want ErrInvalid", name, err)
	}
}

// unnoticed is a context whose deadline may have passed without its timer: so it is in a process that was stopped and
// goes on.
type unnoticed struct {
	context.Context //nolint:containedctx // it is one, with another deadline

	deadline time.Time
}

func (c unnoticed) Deadline() (time.Time, bool) { return c.deadline, true }

// Gone checks what an adapter does with a call that has waited for its turn: sent says whether it is sent for a caller
// with the context. What no caller waits for any more must not be.
func Gone(t *testing.T, sent func(context.Context) bool) {
	t.Helper()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of a case
		want bool
	}{
		"no deadline":  {t.Context(), true},
		"an hour left": {unnoticed{t.Context(), time.Now().Add(time.Hour)}, true},
		"no time left": {unnoticed{t.Context(), time.Now().Add(-time.Millisecond)}, false},
		"canceled":     {gone, false},
	} {
		if got := sent(c.ctx); got != c.want {
			t.Errorf("%s: it is sent: %v, want %v", name, got, c.want)
		}
	}
}

// checkEndedContext calls with a context that has ended already: the store must not begin, and must say why in a way
// that the caller can tell from a store that is down.
func checkEndedContext(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("kept")
	want := docstore.Doc{"n": docstore.Int(1)}
	if err := put(ctx, s, k, want); err != nil {
		return err
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancel := context.WithDeadline(ctx, time.Unix(1, 0))
	defer cancel()
	for _, ended := range []context.Context{canceled, expired, unnoticed{ctx, time.Unix(1, 0)}} {
		wanted := context.DeadlineExceeded
		if ended == canceled {
			wanted = context.Canceled
		}
		_, getErr := s.Get(ended, k)
		_, writeErr := s.Write(ended, docstore.Write{Key: k, Add: map[string]int64{"n": 1}})
		_, severalErr := s.Write(ended, docstore.Write{Key: k, Add: map[string]int64{"n": 1}},
			docstore.Write{Key: key("more")})
		_, listErr := s.List(ended, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
		for name, err := range map[string]error{"Get": getErr, "Write": writeErr, "several writes": severalErr,
			"List": listErr} {
			if !errors.Is(err, wanted) {
				f.addf("%s: error is %v, want %v", name, err, wanted)
			}
		}
	}
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{k: want, key("more"): nil})
	return f.err()
}

// checkClosed closes the store, twice, and calls it.
func checkClosed(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("closed")
	if err := put(ctx, s, k, docstore.Doc{"n": docstore.Int(1)}); err != nil {
		return err
	}
	for range 2 {
		if err := s.Close(); err != nil {
			f.addf("Close: %w", err)
		}
		_, getErr := s.Get(ctx, k)
		_, writeErr := s.Write(ctx, docstore.Write{Key: k})
		_, severalErr := s.Write(ctx, docstore.Write{Key: k}, docstore.Write{Key: key("more")})
		_, listErr := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
		for name, err := range map[string]error{"Get": getErr, "Write": writeErr, "several writes": severalErr,
			"List": listErr} {
			if !errors.Is(err, docstore.ErrClosed) {
				f.addf("%s: error is %v, want ErrClosed", name, err)
			}
		}
	}
	return f.err()
}
