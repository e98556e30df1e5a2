package firestoretest_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// Every query of the client library against the model.
func TestQueriesAgreeWithTheModel(t *testing.T) {
	s, c := start(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		s.Reset()
		ctx := t.Context()
		var docs []modelDoc
		for _, path := range docPaths {
			if rapid.IntRange(0, 5).Draw(t, "there") == 0 {
				continue
			}
			d := modelDoc{path, genFields().Draw(t, path)}
			if _, err := c.Doc(path).Set(ctx, d.fields); err != nil {
				t.Fatal(err)
			}
			docs = append(docs, d)
		}
		for range 5 {
			q := genQuery().Draw(t, "query")
			got, err := q.build(c).Documents(ctx).GetAll()
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			var paths []string
			for _, d := range got {
				paths = append(paths, strings.TrimPrefix(d.Ref.Path, root+"/"))
				if _, other := d.Data()["b"]; q.Select && other {
					t.Fatalf("%+v: %s shows a field that was not selected", q, d.Ref.ID)
				}
			}
			if want := q.model(docs); !reflect.DeepEqual(paths, want) {
				t.Fatalf("%+v\nfound %v\nwant  %v\nin %v", q, paths, want, docs)
			}
			if q.Last {
				continue // the library has no aggregation of those
			}
			query := q.build(c)
			count, err := query.NewAggregationQuery().WithCount("n").Get(ctx)
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			if n := count["n"].(*pb.Value).GetIntegerValue(); n != int64(len(paths)) {
				t.Fatalf("%+v: count %d, want %d", q, n, len(paths))
			}
		}
	})
}

// The order of all types, smallest first; what stands in one row is equal.
func TestValueOrder(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	rows := [][]any{
		{nil}, {false}, {true}, {math.NaN()}, {math.Inf(-1)}, {math.MinInt64}, {-1.5}, {0, 0.0, math.Copysign(0, -1)}, {1, 1.0}, {1.5},
		{int64(1 << 53), float64(1 << 53)}, {int64(1<<53 + 1)}, {int64(1<<53 + 2), float64(1<<53 + 2)}, {math.MaxInt64}, {math.Inf(1)},
		{""}, {"A"}, {"a"}, {"a\x00"}, {"aa"}, {"z"}, {"é"}, {"\uffff"}, {"\U0001F600"}, {[]byte{}}, {[]byte{0}}, {[]byte{0, 1}}, {[]byte{1}},
		{c.Doc("a/b")}, {c.Doc("a/b/c/d")}, {c.Doc("a/b-")}, {c.Doc("a-/b")},
		{[]any{}}, {[]any{1, 2, 3}}, {[]any{1, 2, 3, 1}}, {[]any{2}}, {[]any{"a"}},
		{m{}}, {m{"a": "aaa", "b": "baz"}}, {m{"a": "foo", "b": "bar"}}, {m{"a": "foo", "b": "bar", "c": "qux"}}, {m{"a": "foo", "b": "baz"}},
		{m{"b": "aaa", "c": "baz"}}, {m{"c": "aaa"}},
	}
	var want []string
	for i, row := range rows {
		for j, v := range row {
			id := fmt.Sprintf("%02d-%d", i, j)
			want = append(want, id)
			_ = must[*sdk.WriteResult](t)(c.Doc("values/"+id).Set(ctx, m{"v": v}))
		}
	}
	ids := func(q sdk.Query) (out []string) {
		for _, d := range must[[]*sdk.DocumentSnapshot](t)(q.Documents(ctx).GetAll()) {
			out = append(out, d.Ref.ID)
		}
		return out
	}
	if got := ids(c.Collection("values").OrderBy("v", sdk.Asc)); !reflect.DeepEqual(got, want) {
		t.Fatalf("order\n%v, want\n%v", got, want)
	}
	for i, row := range rows {
		if got := ids(c.Collection("values").Where("v", "==", row[0])); len(got) != len(row) || got[0] != fmt.Sprintf("%02d-0", i) {
			t.Errorf("%v: equal are %v, want %d of row %d", row[0], got, len(row), i)
		}
	}
}

func TestNullAndNaNFilters(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	for id, fields := range map[string]m{"null": {"v": nil}, "nan": {"v": math.NaN()}, "one": {"v": 1}, "none": {"w": 1}} {
		_ = must[*sdk.WriteResult](t)(c.Doc("values/"+id).Set(ctx, fields))
	}
	for _, test := range []struct {
		op    string
		value any
		want  string
	}{
		{"==", nil, "[null]"}, {"!=", nil, "[nan one]"}, {"==", math.NaN(), "[nan]"}, {"!=", math.NaN(), "[one]"}, {"!=", 1, "[nan]"},
		{"not-in", []any{1}, "[nan]"}, {"not-in", []any{nil, 7}, "[]"}, {"<", 5, "[one]"}, {"in", []any{nil, 1}, "[one]"},
		{"in", []any{math.NaN()}, "[]"}, {"in", []any{math.NaN(), 1}, "[one]"}, {"not-in", []any{math.NaN()}, "[nan one]"},
	} {
		var got []string
		for _, d := range must[[]*sdk.DocumentSnapshot](t)(c.Collection("values").Where("v", test.op, test.value).OrderBy("v", sdk.Asc).Documents(ctx).GetAll()) {
			got = append(got, d.Ref.ID)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("v %s %v: %v, want %v", test.op, test.value, got, test.want)
		}
	}
}

func TestQueryByName(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	for _, id := range []string{"a", "b", "c", "d"} {
		_ = must[*sdk.WriteResult](t)(c.Doc("locks/"+id).Set(ctx, m{"n": 1}))
	}
	locks := c.Collection("locks")
	for name, test := range map[string]struct {
		query sdk.Query
		want  string
	}{
		"prefix walk": {locks.OrderBy(sdk.DocumentID, sdk.Asc).StartAfter("b").Limit(1), "[c]"},
		"range":       {locks.Where(sdk.DocumentID, ">=", locks.Doc("b")).Where(sdk.DocumentID, "<", locks.Doc("d")), "[b c]"},
		"in":          {locks.Where(sdk.DocumentID, "in", []*sdk.DocumentRef{locks.Doc("d"), locks.Doc("a")}), "[a d]"},
		"descending":  {locks.OrderBy(sdk.DocumentID, sdk.Desc).Limit(2), "[d c]"},
		"snapshot":    {locks.OrderBy("n", sdk.Asc).StartAfter(must[*sdk.DocumentSnapshot](t)(locks.Doc("b").Get(ctx))), "[c d]"},
		"last":        {locks.OrderBy(sdk.DocumentID, sdk.Asc).LimitToLast(2), "[c d]"},
		"names only":  {locks.Select(), "[a b c d]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range must[[]*sdk.DocumentSnapshot](t)(test.query.Documents(ctx).GetAll()) {
				got = append(got, d.Ref.ID)
			}
			if fmt.Sprint(got) != test.want {
				t.Fatalf("%v, want %v", got, test.want)
			}
		})
	}
	if docs := must[[]*sdk.DocumentSnapshot](t)(locks.Select().Documents(ctx).GetAll()); len(docs[0].Data()) != 0 {
		t.Fatalf("names only, but %v", docs[0].Data())
	}
}

func TestAggregations(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	for i, v := range []any{1, 2, 3.5, "text", nil} {
		_ = must[*sdk.WriteResult](t)(c.Doc(fmt.Sprintf("mixed/%d", i)).Set(ctx, m{"v": v}))
		_ = must[*sdk.WriteResult](t)(c.Doc(fmt.Sprintf("whole/%d", i)).Set(ctx, m{"v": i}))
	}
	_ = must[*sdk.WriteResult](t)(c.Doc("large/a").Set(ctx, m{"v": math.MaxInt64}))
	_ = must[*sdk.WriteResult](t)(c.Doc("large/b").Set(ctx, m{"v": math.MaxInt64}))
	for collection, want := range map[string]string{
		"mixed": "5 double_value:6.5 double_value:2.1666666666666665",
		"whole": "5 integer_value:10 double_value:2",
		"large": fmt.Sprintf("2 double_value:%v double_value:%v", float64(math.MaxInt64)*2, float64(math.MaxInt64)),
		"empty": "0 integer_value:0 null_value:NULL_VALUE",
	} {
		res, err := c.Collection(collection).NewAggregationQuery().WithCount("n").WithSum("v", "sum").WithAvg("v", "avg").Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		value := func(alias string) *pb.Value { return res[alias].(*pb.Value) }
		got := fmt.Sprintf("%d %v %v", value("n").GetIntegerValue(), value("sum"), value("avg"))
		if strings.ReplaceAll(got, "  ", " ") != want {
			t.Errorf("%s: %s, want %s", collection, got, want)
		}
	}
}

// The sum of doubles is exact before it is rounded once. What was measured on the official emulator stands beside each.
func TestSumsOfDoubles(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	tenths := slices.Repeat([]any{0.1}, 10)
	for name, test := range map[string]struct {
		values   []any
		sum, avg any
	}{
		"ten tenths":               {tenths, 1.0, 0.1},
		"large and small":          {[]any{1e16, 1.0, -1e16}, 1.0, 1.0 / 3},
		"integers apart":           {[]any{1e16, 1, 1, -1e16}, 2.0, 0.5},
		"more than 2^53":           {[]any{int64(1 << 53), 1, 0.5, 0.5}, float64(1 << 53), float64(1<<53) / 4},
		"integers beyond and back": {[]any{math.MaxInt64, 1, -1}, int64(math.MaxInt64), float64(math.MaxInt64) / 3},
		"integers beyond":          {[]any{math.MaxInt64, math.MaxInt64}, 2 * float64(math.MaxInt64), float64(math.MaxInt64)},
		"whole doubles":            {[]any{1.0, 2.0}, 3.0, 1.5},
		"infinity":                 {[]any{math.Inf(1), 1.0}, math.Inf(1), math.Inf(1)},
		"both infinities":          {[]any{math.Inf(1), math.Inf(-1)}, math.NaN(), math.NaN()},
		"no number":                {[]any{"x"}, int64(0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			values := c.Collection(strings.ReplaceAll(name, " ", "-"))
			for i, v := range test.values {
				_ = must[*sdk.WriteResult](t)(values.Doc(strconv.Itoa(i)).Set(ctx, m{"v": v}))
			}
			res := must[sdk.AggregationResult](t)(values.NewAggregationQuery().WithSum("v", "sum").WithAvg("v", "avg").Get(ctx))
			for alias, want := range map[string]any{"sum": test.sum, "avg": test.avg} {
				var got any
				switch v := res[alias].(*pb.Value).GetValueType().(type) {
				case *pb.Value_IntegerValue:
					got = v.IntegerValue
				case *pb.Value_DoubleValue:
					got = v.DoubleValue
				}
				if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
					t.Errorf("%s is %T %v, want %T %v", alias, got, got, want, want)
				}
			}
		})
	}
}

// What a query with all_descendants may ask for, by its parent and collection. Measured on the official emulator, which
// has a limit more: no descending names in a collection group, because it has no indexes.
func TestDescendants(t *testing.T) {
	s, _ := start(t, nil)
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("tree/p/sub/a", 1), set("tree/p/sub/a/deep/x", 2), set("tree/q/sub/b", 3)), codes.OK)
	const atRoot = "collection group queries are only allowed at the root parent"
	const kind = "kind is required for all orders except __key__ ascending"
	order := func(field string, d pb.StructuredQuery_Direction) *pb.StructuredQuery {
		return &pb.StructuredQuery{OrderBy: []*pb.StructuredQuery_Order{{Field: &pb.StructuredQuery_FieldReference{FieldPath: field}, Direction: d}}}
	}
	where := func(field string, v *pb.Value) *pb.StructuredQuery {
		return &pb.StructuredQuery{Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{
			FieldFilter: &pb.StructuredQuery_FieldFilter{Field: &pb.StructuredQuery_FieldReference{FieldPath: field},
				Op: pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, Value: v}}}}
	}
	const asc, desc = pb.StructuredQuery_ASCENDING, pb.StructuredQuery_DESCENDING
	name := &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: root + "/tree/p/sub/__id-9223372036854775808__"}}
	for _, test := range []struct {
		what               string
		query              *pb.StructuredQuery
		parent, collection string
		found              int // documents, if message is empty
		code               codes.Code
		message            string
	}{
		{"everything", &pb.StructuredQuery{}, "", "", 3, codes.OK, ""},
		{"a group", &pb.StructuredQuery{}, "", "sub", 2, codes.OK, ""},
		{"everything below", &pb.StructuredQuery{}, "/tree/p", "", 2, codes.OK, ""},
		{"a group below", &pb.StructuredQuery{}, "/tree/p", "sub", 1, codes.OK, ""},
		{"ordered", order("n", asc), "", "sub", 2, codes.OK, ""},
		{"ordered", order("n", asc), "", "", 0, codes.InvalidArgument, kind},
		{"ordered", order("n", asc), "/tree/p", "", 0, codes.InvalidArgument, atRoot},
		{"ordered", order("n", asc), "/tree/p", "sub", 0, codes.InvalidArgument, atRoot},
		{"filtered", where("n", integer(2)), "", "sub", 1, codes.OK, ""},
		{"filtered", where("n", integer(2)), "", "", 0, codes.InvalidArgument, "kind is required for filter: n"},
		{"filtered", where("n", integer(2)), "/tree/p", "", 0, codes.InvalidArgument, atRoot},
		{"filtered", where("n", integer(2)), "/tree/p", "sub", 0, codes.InvalidArgument, atRoot},
		{"from a name", where("__name__", name), "/tree/p", "", 2, codes.OK, ""},
		{"by name", order("__name__", asc), "/tree/p", "sub", 1, codes.OK, ""},
		{"descending", order("__name__", desc), "", "", 0, codes.InvalidArgument, kind},
		{"descending", order("__name__", desc), "/tree/p", "", 0, codes.InvalidArgument, kind},
		{"descending, as limitToLast asks", order("__name__", desc), "/tree/p", "sub", 0, codes.FailedPrecondition,
			"collection group queries are only allowed if they're at the root or they're an ascending primary key scan"},
	} {
		t.Run(fmt.Sprintf("%s in %q of %q", test.what, test.collection, test.parent), func(t *testing.T) {
			test.query.From = []*pb.StructuredQuery_CollectionSelector{{CollectionId: test.collection, AllDescendants: true}}
			stream := must[pb.Firestore_RunQueryClient](t)(stub.RunQuery(t.Context(), &pb.RunQueryRequest{Parent: root + test.parent,
				QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: test.query}}))
			for range test.found {
				if res := must[*pb.RunQueryResponse](t)(stream.Recv()); res.GetDocument() == nil {
					t.Fatalf("less than %d documents", test.found)
				}
			}
			_, err := stream.Recv()
			if test.message == "" {
				if !errors.Is(err, io.EOF) {
					t.Fatalf("after %d documents: %v", test.found, err)
				}
				return
			}
			wantCode(t, err, test.code, test.message)
		})
	}
	t.Run("sum below a document", func(t *testing.T) {
		stream := must[pb.Firestore_RunAggregationQueryClient](t)(stub.RunAggregationQuery(t.Context(), &pb.RunAggregationQueryRequest{
			Parent: root + "/tree/p", QueryType: &pb.RunAggregationQueryRequest_StructuredAggregationQuery{
				StructuredAggregationQuery: &pb.StructuredAggregationQuery{
					QueryType: &pb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
						From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "sub", AllDescendants: true}}}},
					Aggregations: []*pb.StructuredAggregationQuery_Aggregation{{Operator: &pb.StructuredAggregationQuery_Aggregation_Sum_{
						Sum: &pb.StructuredAggregationQuery_Aggregation_Sum{Field: &pb.StructuredQuery_FieldReference{FieldPath: "n"}}}}}}}}))
		_, err := stream.Recv()
		wantCode(t, err, codes.InvalidArgument, "This query requires an index that has fields [n] after __name__ and Firestore does not "+
			"currently support such an index. Please try the query again with additional ordering on those fields.")
	})
}

// IDs of the form __id7__ are numbers. The client library of Node sends the smallest in the queries of recursiveDelete.
func TestNumericIDs(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	docs := c.Collection("docs")
	ids := []string{"__id-9223372036854775808__", "__id-7__", "__id7__", "__id10__", "__id9223372036854775807__", "!", "7", "A", "__id", "____", "a"}
	slices.Sort(ids[5:])
	for _, id := range ids {
		_ = must[*sdk.WriteResult](t)(docs.Doc(id).Set(ctx, m{"self": docs.Doc(id), "n": 1}))
	}
	names := func(q sdk.Query) (out []string) {
		for _, d := range must[[]*sdk.DocumentSnapshot](t)(q.Documents(ctx).GetAll()) {
			out = append(out, d.Ref.ID)
		}
		return out
	}
	var listed []string
	for _, d := range must[[]*sdk.DocumentRef](t)(docs.DocumentRefs(ctx).GetAll()) {
		listed = append(listed, d.ID)
	}
	for what, test := range map[string]struct{ got, want []string }{
		"by name":      {names(docs.Query), ids},
		"by reference": {names(docs.OrderBy("self", sdk.Asc)), ids},
		"cursor":       {names(docs.OrderBy(sdk.DocumentID, sdk.Asc).StartAfter("__id7__").Limit(2)), ids[3:5]},
		"filter":       {names(docs.Where(sdk.DocumentID, "<", docs.Doc("__id10__"))), ids[:3]},
		"reference":    {names(docs.Where("self", "==", docs.Doc("__id10__"))), ids[3:4]},
		"list":         {listed, ids},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %q, want %q", what, test.got, test.want)
		}
	}
	for id, message := range map[string]string{
		"__id9223372036854775808__": `Resource id "__id9223372036854775808__" is invalid because it is not a 64 bit integer.`,
		"__id07__":                  `Resource id "__id07__" is invalid because it is reserved.`,
		"__id0__":                   `Resource id "__id0__" is invalid because it is reserved.`,
		"__id__":                    `Resource id "__id__" is invalid because it is reserved.`,
	} {
		_, err := docs.Doc(id).Get(ctx)
		wantCode(t, err, codes.InvalidArgument, message)
	}
	_, err := c.Doc("__id7__/a").Get(ctx)
	wantCode(t, err, codes.InvalidArgument, `Collection id "__id7__" is invalid because it is reserved.`)
}

// The query with which Node's recursiveDelete finds the documents of a collection and everything below them.
func TestQueryOfRecursiveDelete(t *testing.T) {
	s, _ := start(t, nil)
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("a/x", 1), set("a/x/b/y", 2), set("a/z", 3), set("a0/x", 4), set("b/x", 5)), codes.OK)
	bound := func(op pb.StructuredQuery_FieldFilter_Operator, name string) *pb.StructuredQuery_Filter {
		return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: "__name__"}, Op: op,
			Value: &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: root + "/" + name}}}}}
	}
	stream := must[pb.Firestore_RunQueryClient](t)(stub.RunQuery(t.Context(), &pb.RunQueryRequest{Parent: root,
		QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
			From:   []*pb.StructuredQuery_CollectionSelector{{AllDescendants: true}},
			Select: &pb.StructuredQuery_Projection{Fields: []*pb.StructuredQuery_FieldReference{{FieldPath: "__name__"}}},
			Limit:  wrapperspb.Int32(5000),
			Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: &pb.StructuredQuery_CompositeFilter{
				Op: pb.StructuredQuery_CompositeFilter_AND, Filters: []*pb.StructuredQuery_Filter{
					bound(pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, "a/__id-9223372036854775808__"),
					bound(pb.StructuredQuery_FieldFilter_LESS_THAN, "a\x00/__id-9223372036854775808__")}}}}}}}))
	var got []string
	for {
		res, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		got = append(got, strings.TrimPrefix(res.GetDocument().GetName(), root+"/"))
	}
	if want := []string{"a/x", "a/x/b/y", "a/z"}; !slices.Equal(got, want) {
		t.Fatalf("found %q, want %q", got, want)
	}
}

// Malformed and unsupported queries are told so.
func TestQueryRefusals(t *testing.T) {
	s, _ := start(t, nil)
	stub := raw(t, s)
	from := []*pb.StructuredQuery_CollectionSelector{{CollectionId: "locks"}}
	field := func(name string, op pb.StructuredQuery_FieldFilter_Operator, v *pb.Value) *pb.StructuredQuery_Filter {
		return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: name}, Op: op, Value: v}}}
	}
	both := func(op pb.StructuredQuery_CompositeFilter_Operator, f ...*pb.StructuredQuery_Filter) *pb.StructuredQuery_Filter {
		return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_CompositeFilter{
			CompositeFilter: &pb.StructuredQuery_CompositeFilter{Op: op, Filters: f}}}
	}
	list := func(n int) *pb.Value {
		a := &pb.ArrayValue{}
		for i := range n {
			a.Values = append(a.Values, integer(int64(i)))
		}
		return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: a}}
	}
	const (
		equal    = pb.StructuredQuery_FieldFilter_EQUAL
		notEqual = pb.StructuredQuery_FieldFilter_NOT_EQUAL
		less     = pb.StructuredQuery_FieldFilter_LESS_THAN
		in       = pb.StructuredQuery_FieldFilter_IN
		notIn    = pb.StructuredQuery_FieldFilter_NOT_IN
		has      = pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS
		and      = pb.StructuredQuery_CompositeFilter_AND
	)
	null := &pb.Value{ValueType: &pb.Value_NullValue{}}
	where := func(f *pb.StructuredQuery_Filter) *pb.StructuredQuery {
		return &pb.StructuredQuery{From: from, Where: f}
	}
	for name, test := range map[string]struct {
		query *pb.StructuredQuery
		code  codes.Code
	}{
		"no collection": {&pb.StructuredQuery{}, codes.Unimplemented},
		"a field after the name": {&pb.StructuredQuery{From: from, Where: field("a", less, integer(1)), OrderBy: []*pb.StructuredQuery_Order{{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: "__name__"}}}}, codes.InvalidArgument},
		"two collections":        {&pb.StructuredQuery{From: append(from, from...)}, codes.InvalidArgument},
		"nearest neighbors":      {&pb.StructuredQuery{From: from, FindNearest: &pb.StructuredQuery_FindNearest{}}, codes.Unimplemented},
		"a negative limit":       {&pb.StructuredQuery{From: from, Limit: wrapperspb.Int32(-1)}, codes.InvalidArgument},
		"a negative offset":      {&pb.StructuredQuery{From: from, Offset: -1}, codes.InvalidArgument},
		"an empty cursor":        {&pb.StructuredQuery{From: from, EndAt: &pb.Cursor{}}, codes.OK},
		"a cursor without order": {&pb.StructuredQuery{From: from, StartAt: &pb.Cursor{Values: []*pb.Value{integer(1)}}}, codes.InvalidArgument},
		"less than null":         {where(field("a", less, null)), codes.OK},
		"a name that is no name": {where(field("__name__", equal, integer(1))), codes.InvalidArgument},
		"a bad path":             {where(field("a..b", equal, integer(1))), codes.InvalidArgument},
		"an open backtick":       {where(field("`a", equal, integer(1))), codes.InvalidArgument},
		"in 30":                  {where(field("a", in, list(30))), codes.OK},
		"in 31":                  {where(field("a", in, list(31))), codes.InvalidArgument},
		"in none":                {where(field("a", in, list(0))), codes.InvalidArgument},
		"not in 11":              {where(field("a", notIn, list(11))), codes.InvalidArgument},
		"30 disjunctions":        {where(both(and, field("a", in, list(5)), field("b", in, list(6)))), codes.OK},
		"35 disjunctions":        {where(both(and, field("a", in, list(5)), field("b", in, list(7)))), codes.InvalidArgument},
		"two negations":          {where(both(and, field("a", notEqual, integer(1)), field("b", notEqual, integer(1)))), codes.InvalidArgument},
		"not in and in":          {where(both(and, field("a", notIn, list(1)), field("b", in, list(1)))), codes.InvalidArgument},
		"two array conditions":   {where(both(and, field("a", has, integer(1)), field("b", has, integer(1)))), codes.InvalidArgument},
		"an empty composite":     {where(both(and)), codes.OK},
		"no operator":            {where(field("a", 0, integer(1))), codes.InvalidArgument},
		"no filter":              {where(&pb.StructuredQuery_Filter{}), codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			stream := must[pb.Firestore_RunQueryClient](t)(stub.RunQuery(t.Context(), &pb.RunQueryRequest{Parent: root,
				QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: test.query}}))
			_, err := stream.Recv()
			wantCode(t, err, test.code)
		})
	}
}
