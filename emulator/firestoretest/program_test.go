package firestoretest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

// Random programs, as data: a program runs on any Firestore through the client library and leaves a transcript that
// does not depend on clocks, so that two of them can be compared.

// A step is one request.
type step struct {
	Kind   string // create, set, merge, update, delete, stale, fresh, get or query
	Doc    string
	Fields m
	Query  querySpec
}

type querySpec struct {
	Group   bool
	Filters []filterSpec
	Orders  []string // a, b or __name__
	Start   *cursorSpec
	End     *cursorSpec
	Limit   int // 0: none
}

type filterSpec struct {
	Field, Op string
	Value     any
}

type cursorSpec struct {
	Values []any
	Open   bool // StartAfter, EndBefore
}

var docPaths = []string{"docs/d0", "docs/d1", "docs/d2", "docs/d3", "docs/d1/docs/x", "docs/d9/docs/y", "other/o"}

// modelNames orders names by their segments.
func modelNames(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }

func genValue() *rapid.Generator[any] {
	return rapid.SampledFrom([]any{nil, true, false, int64(0), int64(1), int64(2), 1.5, 1.0, 0.1, -0.5, math.NaN(),
		math.Inf(1), "", "a", "b",
		[]any{int64(1), "a"}, []any{int64(1)}, m{"x": int64(1)}, m{"x": int64(1), "y": "a"}})
}

func genFields() *rapid.Generator[m] {
	return rapid.Custom(func(t *rapid.T) m {
		out := m{}
		for _, f := range []string{"a", "b"} {
			if rapid.IntRange(0, 4).Draw(t, "has "+f) > 0 {
				out[f] = genValue().Draw(t, f)
			}
		}
		return out
	})
}

func genFilter() *rapid.Generator[filterSpec] {
	return rapid.Custom(func(t *rapid.T) filterSpec {
		f := filterSpec{
			Field: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "field"),
			Op:    rapid.SampledFrom([]string{"==", "<", "<=", ">", ">="}).Draw(t, "op"),
		}
		if f.Value = genValue().Draw(t, "value"); !ordered(f.Value) {
			f.Value = "a"
		}
		return f
	})
}

func genQuery() *rapid.Generator[querySpec] {
	return rapid.Custom(func(t *rapid.T) querySpec {
		q := querySpec{
			Group:   rapid.Bool().Draw(t, "group"),
			Filters: rapid.SliceOfN(genFilter(), 0, 3).Draw(t, "filters"),
			Limit:   rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "limit"),
		}
		q.Orders = rapid.Permutation([]string{"a", "b"}).Draw(t, "orders")[:rapid.IntRange(0, 2).Draw(t, "n")]
		if !q.Group && rapid.Bool().Draw(t, "by name") && !q.implies() {
			q.Orders = append(slices.Clone(q.Orders), "__name__")
		}
		if len(q.Orders) > 0 {
			q.Start, q.End = genCursor(q).Draw(t, "start"), genCursor(q).Draw(t, "end")
		}
		return q
	})
}

// ordered reports whether the library asks for the value by a comparison: for null and NaN it has operators of their
// own.
func ordered(v any) bool {
	d, ok := v.(float64)
	return v != nil && !(ok && math.IsNaN(d))
}

// implies reports whether the query has an inequality on a field that the order does not name: then the name of the
// document cannot be named either, because it comes last.
func (q querySpec) implies() bool {
	return slices.ContainsFunc(q.Filters, func(f filterSpec) bool {
		return f.Op != "==" && !slices.Contains(q.Orders, f.Field)
	})
}

func genCursor(q querySpec) *rapid.Generator[*cursorSpec] {
	return rapid.Custom(func(t *rapid.T) *cursorSpec {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		c := &cursorSpec{Open: rapid.Bool().Draw(t, "open")}
		for _, o := range q.Orders {
			if o == "__name__" {
				c.Values = append(c.Values, rapid.SampledFrom([]string{"d0", "d1", "d11", "d3"}).Draw(t, "id"))
			} else {
				c.Values = append(c.Values, genValue().Draw(t, "value"))
			}
		}
		return c
	})
}

func genProgram() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{
			Kind: rapid.SampledFrom([]string{"create", "set", "set", "set", "merge", "update", "delete", "stale", "fresh", "get",
				"query", "query"}).Draw(t, "kind"),
			Doc: rapid.SampledFrom(docPaths).Draw(t, "doc"),
		}
		switch s.Kind {
		case "create", "set", "merge", "update":
			s.Fields = genFields().Draw(t, "fields")
		case "query":
			s.Query = genQuery().Draw(t, "query")
		}
		return s
	}), 1, 30)
}

// run takes the program through a client and returns one line for each step.
func run(ctx context.Context, t interface{ Fatal(...any) }, c *sdk.Client, program []step) []string {
	var lines []string
	for _, s := range program {
		d := c.Doc(s.Doc)
		var err error
		out := ""
		switch s.Kind {
		case "create":
			_, err = d.Create(ctx, s.Fields)
		case "set":
			_, err = d.Set(ctx, s.Fields)
		case "merge":
			_, err = d.Set(ctx, s.Fields, sdk.MergeAll)
		case "update":
			updates := []sdk.Update{{Path: "nested.u", Value: true}}
			for _, f := range slices.Sorted(maps.Keys(s.Fields)) {
				updates = append(updates, sdk.Update{Path: f, Value: s.Fields[f]})
			}
			_, err = d.Update(ctx, updates)
		case "delete":
			_, err = d.Delete(ctx)
		case "stale", "fresh":
			snap, readErr := d.Get(ctx)
			if readErr != nil {
				err = readErr
				break
			}
			at := snap.UpdateTime
			if s.Kind == "stale" {
				at = snap.UpdateTime.Add(-1000)
			}
			_, err = d.Update(ctx, []sdk.Update{{Path: "a", Value: "fresh"}}, sdk.LastUpdateTime(at))
		case "get":
			var snap *sdk.DocumentSnapshot
			if snap, err = d.Get(ctx); err == nil {
				out = show(snap.Data())
			}
		case "query":
			var docs []*sdk.DocumentSnapshot
			if docs, err = s.Query.build(c).Documents(ctx).GetAll(); err == nil {
				var all strings.Builder
				for _, d := range docs {
					all.WriteString(d.Ref.Path[len(d.Ref.Path)-len(strings.SplitN(d.Ref.Path, "/documents/", 2)[1]):] +
						show(d.Data()) + " ")
				}
				out = all.String()
			}
		default:
			t.Fatal("unknown kind " + s.Kind)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %v %s", s.Kind, s.Doc, status.Code(err), out))
	}
	return lines
}

func show(v any) string {
	switch v := v.(type) {
	case m:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+":"+show(v[k]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, show(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	default:
		return fmt.Sprintf("%T(%v)", v, v)
	}
}

func (q querySpec) build(c *sdk.Client) sdk.Query {
	out := c.Collection("docs").Query
	if q.Group {
		out = c.CollectionGroup("docs").Query
	}
	for _, f := range q.Filters {
		out = out.Where(f.Field, f.Op, f.Value)
	}
	for _, o := range q.Orders {
		out = out.OrderBy(o, sdk.Asc)
	}
	if q.Start != nil && q.Start.Open {
		out = out.StartAfter(q.Start.Values...)
	} else if q.Start != nil {
		out = out.StartAt(q.Start.Values...)
	}
	if q.End != nil && q.End.Open {
		out = out.EndBefore(q.End.Values...)
	} else if q.End != nil {
		out = out.EndAt(q.End.Values...)
	}
	if q.Limit > 0 {
		out = out.Limit(q.Limit)
	}
	return out
}

// The model of a query: written from the documentation, over Go values, by filtering and sorting everything.

type modelDoc struct {
	path   string
	fields m
}

func (d modelDoc) get(field string) (any, bool) {
	if field == "__name__" {
		return d.path, true
	}
	v, ok := d.fields[field]
	return v, ok
}

func (q querySpec) model(docs []modelDoc) []string {
	orders := slices.Clone(q.Orders)
	var implied []string
	for _, f := range q.Filters {
		if f.Op != "==" {
			implied = append(implied, f.Field)
		}
	}
	slices.Sort(implied)
	for _, f := range append(implied, "__name__") {
		if !slices.Contains(orders, f) {
			orders = append(orders, f)
		}
	}
	compare := func(field string, a, b any) int {
		if field == "__name__" {
			return modelNames(a.(string), b.(string))
		}
		return modelCompare(a, b)
	}
	position := func(d modelDoc, values []any) int {
		for i, v := range values {
			if orders[i] == "__name__" {
				v = "docs/" + v.(string)
			}
			field, _ := d.get(orders[i])
			if c := compare(orders[i], field, v); c != 0 {
				return c
			}
		}
		return 0
	}
	var found []modelDoc
	for _, d := range docs {
		segments := strings.Split(d.path, "/")
		if segments[len(segments)-2] != "docs" || !q.Group && len(segments) != 2 {
			continue
		}
		keep := true
		for _, o := range orders {
			_, ok := d.get(o)
			keep = keep && ok
		}
		for _, f := range q.Filters {
			v, ok := d.get(f.Field)
			keep = keep && ok && f.holds(v)
		}
		if keep && q.Start != nil {
			c := position(d, q.Start.Values)
			keep = c > 0 || c == 0 && !q.Start.Open
		}
		if keep && q.End != nil {
			c := position(d, q.End.Values)
			keep = c < 0 || c == 0 && !q.End.Open
		}
		if keep {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(x, y modelDoc) int {
		for _, o := range orders {
			a, _ := x.get(o)
			b, _ := y.get(o)
			if c := compare(o, a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	var paths []string
	for _, d := range found {
		paths = append(paths, d.path)
	}
	return paths
}

func (f filterSpec) holds(v any) bool {
	d, isDouble := v.(float64)
	same := modelType(v) == modelType(f.Value) && !(isDouble && math.IsNaN(d))
	c := modelCompare(v, f.Value)
	switch f.Op {
	case "==":
		return c == 0
	case "<":
		return same && c < 0
	case "<=":
		return same && c <= 0
	case ">":
		return same && c > 0
	default:
		return same && c >= 0
	}
}

func modelType(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case string:
		return 3
	case []any:
		return 4
	default:
		return 5
	}
}

func modelCompare(a, b any) int {
	if c := cmp.Compare(modelType(a), modelType(b)); c != 0 {
		return c
	}
	number := func(v any) float64 {
		if i, ok := v.(int64); ok {
			return float64(i)
		}
		return v.(float64)
	}
	switch x := a.(type) {
	case bool:
		return strings.Compare(strconv.FormatBool(x), strconv.FormatBool(b.(bool))) // "false" < "true"
	case int64, float64:
		return cmp.Compare(number(a), number(b))
	case string:
		return strings.Compare(x, b.(string))
	case []any:
		return slices.CompareFunc(x, b.([]any), modelCompare)
	case m:
		y := b.(m)
		flat := func(v m) (out []any) {
			for _, k := range slices.Sorted(maps.Keys(v)) {
				out = append(out, k, v[k])
			}
			return out
		}
		return slices.CompareFunc(flat(x), flat(y), modelCompare)
	default:
		return 0
	}
}
