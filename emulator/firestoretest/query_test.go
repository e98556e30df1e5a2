package firestoretest_test

import (
	"fmt"
	"math"
	"reflect"
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
