package firestoretest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// data reads a document that must exist.
func data(t *testing.T, d *sdk.DocumentRef) m {
	t.Helper()
	return must[*sdk.DocumentSnapshot](t)(d.Get(t.Context())).Data()
}

func wantData(t *testing.T, d *sdk.DocumentRef, want m) {
	t.Helper()
	if got := data(t, d); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s holds %v, want %v", d.ID, got, want)
	}
}

func TestPreconditions(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	there, missing := c.Doc("locks/there"), c.Doc("locks/missing")
	first := must[*sdk.WriteResult](t)(there.Create(ctx, m{"n": 1}))
	stale := first.UpdateTime.Add(-time.Microsecond)
	set := []sdk.Update{{Path: "n", Value: 2}}
	for name, test := range map[string]struct {
		do   func() (*sdk.WriteResult, error)
		code codes.Code
	}{
		"create what is there": {func() (*sdk.WriteResult, error) { return there.Create(ctx, m{"n": 2}) },
			codes.AlreadyExists},
		"update what is missing": {func() (*sdk.WriteResult, error) { return missing.Update(ctx, set) },
			codes.NotFound},
		"update at a stale time": {func() (*sdk.WriteResult, error) {
			return there.Update(ctx, set, sdk.LastUpdateTime(stale))
		}, codes.FailedPrecondition},
		"update what is missing at a time": {func() (*sdk.WriteResult, error) {
			return missing.Update(ctx, set, sdk.LastUpdateTime(stale))
		}, codes.FailedPrecondition},
		"delete at a stale time": {func() (*sdk.WriteResult, error) {
			return there.Delete(ctx, sdk.LastUpdateTime(stale))
		}, codes.FailedPrecondition},
		"delete what is missing but must exist": {func() (*sdk.WriteResult, error) { return missing.Delete(ctx, sdk.Exists) },
			codes.NotFound},
		"delete what is missing": {func() (*sdk.WriteResult, error) { return missing.Delete(ctx) }, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.do()
			wantCode(t, err, test.code)
			wantData(t, there, m{"n": int64(1)})
			_, err = missing.Get(ctx)
			wantCode(t, err, codes.NotFound)
		})
	}
	second := must[*sdk.WriteResult](t)(there.Update(ctx, set, sdk.LastUpdateTime(first.UpdateTime)))
	if !second.UpdateTime.After(first.UpdateTime) {
		t.Fatalf("update times %v, %v do not rise", first.UpdateTime, second.UpdateTime)
	}
	_ = must[*sdk.WriteResult](t)(there.Delete(ctx, sdk.LastUpdateTime(second.UpdateTime)))
	_, err := there.Get(ctx)
	wantCode(t, err, codes.NotFound)
}

// What the service says, word for word, because people search for it.
func TestPreconditionMessages(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	first := must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(t.Context(), m{"n": 1}))
	w := set("locks/a", 2)
	w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{
		UpdateTime: timestamppb.New(time.UnixMicro(7))}}
	wantCode(t, plain(t, stub, w), codes.FailedPrecondition,
		fmt.Sprintf("the stored version (%d) does not match the required base version (7)", first.UpdateTime.UnixMicro()))
	w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{}}
	wantCode(t, plain(t, stub, w), codes.AlreadyExists, "Document already exists: "+root+"/locks/a")
}

func TestTimes(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 608_608_999, time.UTC)
	_, c := start(t, &firestoretest.Options{Now: func() time.Time { return now }})
	d := c.Doc("locks/a")
	created := must[*sdk.WriteResult](t)(d.Create(ctx, m{"n": 1})).UpdateTime
	snap := must[*sdk.DocumentSnapshot](t)(d.Get(ctx))
	if !snap.CreateTime.Equal(created) || !snap.UpdateTime.Equal(created) || snap.ReadTime.Before(created) {
		t.Fatalf("created %v, then create_time %v, update_time %v, read_time %v", created, snap.CreateTime,
			snap.UpdateTime, snap.ReadTime)
	}
	if created.Nanosecond()%1000 != 0 {
		t.Fatalf("%v is not in whole microseconds", created)
	}

	t.Run("a standing clock gives rising times", func(t *testing.T) {
		last := created
		for n := range 3 {
			at := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": n + 10})).UpdateTime
			if !at.After(last) {
				t.Fatalf("%v does not follow %v", at, last)
			}
			last = at
		}
	})
	t.Run("a clock that steps back does too", func(t *testing.T) {
		last := must[*sdk.DocumentSnapshot](t)(d.Get(ctx)).UpdateTime
		now = now.Add(-time.Hour)
		if at := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 99})).UpdateTime; !at.After(last) {
			t.Fatalf("%v does not follow %v", at, last)
		}
	})
	t.Run("a write that changes nothing keeps the update time", func(t *testing.T) {
		before := must[*sdk.DocumentSnapshot](t)(d.Get(ctx)).UpdateTime
		if at := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 99})).UpdateTime; !at.Equal(before) {
			t.Fatalf("the result says %v, want %v", at, before)
		}
		if at := must[*sdk.DocumentSnapshot](t)(d.Get(ctx)).UpdateTime; !at.Equal(before) {
			t.Fatalf("the document says %v, want %v", at, before)
		}
	})
	t.Run("a server timestamp has milliseconds", func(t *testing.T) {
		now = now.Add(24 * time.Hour)
		at := must[*sdk.WriteResult](t)(d.Set(ctx, m{"at": sdk.ServerTimestamp})).UpdateTime
		if got := data(t, d)["at"].(time.Time); !got.Equal(now.Truncate(time.Millisecond)) || got.Equal(at) {
			t.Fatalf("server timestamp %v, update time %v, clock %v", got, at, now)
		}
	})
	t.Run("deleted and created again", func(t *testing.T) {
		_ = must[*sdk.WriteResult](t)(d.Delete(ctx))
		at := must[*sdk.WriteResult](t)(d.Create(ctx, m{"n": 1})).UpdateTime
		if got := must[*sdk.DocumentSnapshot](t)(d.Get(ctx)).CreateTime; !got.Equal(at) {
			t.Fatalf("create_time %v, want %v", got, at)
		}
	})
}

func TestUpdateMask(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, nil)
	base := m{"a": int64(1), "b": m{"x": int64(1), "y.z": int64(2)}, "c": "text"}
	for name, test := range map[string]struct {
		updates []sdk.Update
		want    m
	}{
		"a field": {[]sdk.Update{{Path: "a", Value: 5}}, m{"a": int64(5), "b": base["b"], "c": "text"}},
		"a nested field": {[]sdk.Update{{Path: "b.x", Value: 5}},
			m{"a": int64(1), "b": m{"x": int64(5), "y.z": int64(2)}, "c": "text"}},
		"a name with a dot": {[]sdk.Update{{FieldPath: []string{"b", "y.z"}, Value: 5}},
			m{"a": int64(1), "b": m{"x": int64(1), "y.z": int64(5)}, "c": "text"}},
		"a name with a backtick": {[]sdk.Update{{FieldPath: []string{"`\\"}, Value: 5}},
			m{"a": int64(1), "b": base["b"], "c": "text", "`\\": int64(5)}},
		"a nested removal": {[]sdk.Update{{Path: "b.x", Value: sdk.Delete}},
			m{"a": int64(1), "b": m{"y.z": int64(2)}, "c": "text"}},
		"the last of a map": {[]sdk.Update{{Path: "b.x", Value: sdk.Delete},
			{FieldPath: []string{"b", "y.z"}, Value: sdk.Delete}}, m{"a": int64(1), "b": m{}, "c": "text"}},
		"a removal of nothing": {[]sdk.Update{{Path: "no.such", Value: sdk.Delete}}, base},
		"a map through text": {[]sdk.Update{{Path: "c.d", Value: 5}},
			m{"a": int64(1), "b": base["b"], "c": m{"d": int64(5)}}},
		"a whole map": {[]sdk.Update{{Path: "b", Value: m{"q": 1}}},
			m{"a": int64(1), "b": m{"q": int64(1)}, "c": "text"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.Collection("docs").NewDoc()
			_ = must[*sdk.WriteResult](t)(d.Set(ctx, base))
			_ = must[*sdk.WriteResult](t)(d.Update(ctx, test.updates))
			wantData(t, d, test.want)
		})
	}
	d := c.Doc("docs/merge")
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"a": m{"x": 1}}, sdk.MergeAll)) // creates
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"a": m{"y": 2}}, sdk.MergeAll))
	wantData(t, d, m{"a": m{"x": int64(1), "y": int64(2)}})
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"b": 3}))
	wantData(t, d, m{"b": int64(3)})
}

func TestCommitIsAtomic(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Set(ctx, m{"n": 1}))
	err := plain(t, raw(t, s), set("locks/a", 1), set("locks/b", 2), &pb.Write{
		Operation:       &pb.Write_Delete{Delete: root + "/locks/c"},
		CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: true}},
	})
	wantCode(t, err, codes.NotFound)
	_, err = c.Doc("locks/a").Get(ctx)
	wantCode(t, err, codes.NotFound)
	wantData(t, c.Doc("locks/b"), m{"n": int64(1)})
}

// Later writes of a commit see the earlier ones.
func TestCommitInOrder(t *testing.T) {
	s, c := start(t, nil)
	create := set("locks/a", 1)
	create.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{}}
	again := proto.Clone(create).(*pb.Write)
	wantCode(t, plain(t, raw(t, s), create, again), codes.AlreadyExists)
	drop := &pb.Write{Operation: &pb.Write_Delete{Delete: root + "/locks/a"}}
	wantCode(t, plain(t, raw(t, s), create, drop, again), codes.OK)
	wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
	wantCode(t, plain(t, raw(t, s), drop, set("locks/x", 1),
		&pb.Write{Operation: &pb.Write_Delete{Delete: root + "/locks/x"}}), codes.OK)
	docs := must[[]*sdk.DocumentSnapshot](t)(c.Collection("locks").Documents(t.Context()).GetAll())
	if len(docs) != 0 {
		t.Fatalf("%d documents are left", len(docs))
	}
}

func TestLimits(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	text := func(n int) *pb.Write { // in two fields, each of which stays below its own limit
		w := set("locks/a", 1)
		w.GetUpdate().Fields["t"] = &pb.Value{ValueType: &pb.Value_StringValue{StringValue: strings.Repeat("x", n-100)}}
		w.GetUpdate().Fields["u"] = &pb.Value{ValueType: &pb.Value_StringValue{StringValue: strings.Repeat("x", 100)}}
		return w
	}
	field := func(name string, v *pb.Value) *pb.Write {
		w := set("locks/a", 1)
		w.GetUpdate().Fields[name] = v
		return w
	}
	many := func(n int) []*pb.Write {
		var ws []*pb.Write
		for i := range n {
			ws = append(ws, set(fmt.Sprintf("locks/%d", i), 1))
		}
		return ws
	}
	deep := func(levels int) *pb.Value {
		v := integer(1)
		for range levels {
			v = &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: map[string]*pb.Value{"d": v}}}}
		}
		return v
	}
	array := func(v ...*pb.Value) *pb.Value {
		return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: &pb.ArrayValue{Values: v}}}
	}
	// A document counts its name (5+1 and 1+1 for locks/a, and 16), 32, and its fields: n 1+1+8, t and u 1+1+text+1.
	const room = 1<<20 - (6 + 2 + 16) - 32 - 10 - 3 - 3
	for name, test := range map[string]struct {
		writes []*pb.Write
		code   codes.Code
	}{
		"a document of 1 MiB":            {[]*pb.Write{text(room)}, codes.OK},
		"a document of 1 MiB and a byte": {[]*pb.Write{text(room + 1)}, codes.InvalidArgument},
		"500 writes":                     {many(500), codes.OK},
		"501 writes":                     {many(501), codes.InvalidArgument},
		"no writes":                      {nil, codes.OK},
		"an id of 1500 bytes":            {[]*pb.Write{set("locks/"+strings.Repeat("x", 1500), 1)}, codes.OK},
		"an id of 1501 bytes":            {[]*pb.Write{set("locks/"+strings.Repeat("x", 1501), 1)}, codes.InvalidArgument},
		"a single dot":                   {[]*pb.Write{set("locks/.", 1)}, codes.InvalidArgument},
		"two dots":                       {[]*pb.Write{set("locks/..", 1)}, codes.InvalidArgument},
		"three dots":                     {[]*pb.Write{set("locks/...", 1)}, codes.OK},
		"a reserved id":                  {[]*pb.Write{set("locks/__x__", 1)}, codes.InvalidArgument},
		"almost a reserved id":           {[]*pb.Write{set("locks/__x_", 1)}, codes.OK},
		"a reserved collection":          {[]*pb.Write{set("__x__/a", 1)}, codes.InvalidArgument},
		"an empty id":                    {[]*pb.Write{set("locks/", 1)}, codes.InvalidArgument},
		"a collection's name":            {[]*pb.Write{set("locks", 1)}, codes.InvalidArgument},
		"colons and blanks":              {[]*pb.Write{set("locks/a:b c", 1)}, codes.OK},
		"another alphabet":               {[]*pb.Write{set("locks/風花", 1)}, codes.OK},
		"a reserved field":               {[]*pb.Write{field("__x__", integer(1))}, codes.InvalidArgument},
		"a field without a name":         {[]*pb.Write{field("", integer(1))}, codes.InvalidArgument},
		"a value without a type":         {[]*pb.Write{field("v", &pb.Value{})}, codes.InvalidArgument},
		"an array in an array":           {[]*pb.Write{field("v", array(array()))}, codes.InvalidArgument},
		"an array in a map in an array": {
			[]*pb.Write{
				field("v",
					array(&pb.Value{ValueType: &pb.Value_MapValue{
						MapValue: &pb.MapValue{Fields: map[string]*pb.Value{"a": array()}}}}))}, codes.OK},
		"20 levels": {[]*pb.Write{field("v", deep(20))}, codes.OK},
		"21 levels": {[]*pb.Write{field("v", deep(21))}, codes.InvalidArgument},
		"a text of 1,048,488 bytes": {
			[]*pb.Write{field("v", &pb.Value{ValueType: &pb.Value_StringValue{StringValue: strings.Repeat("x", 1_048_488)}})},
			codes.InvalidArgument},
		"four underscores": {[]*pb.Write{set("locks/____", 1)}, codes.OK},
		"a vector": {
			[]*pb.Write{
				field("v", &pb.Value{ValueType: &pb.Value_MapValue{
					MapValue: &pb.MapValue{Fields: map[string]*pb.Value{"__type__": array()}}}})}, codes.Unimplemented},
		"another database": {
			[]*pb.Write{{Operation: &pb.Write_Delete{Delete: "projects/other/databases/(default)/documents/a/b"}}},
			codes.InvalidArgument},
		"no operation": {[]*pb.Write{{}}, codes.InvalidArgument},
		"a transform":  {[]*pb.Write{{Operation: &pb.Write_Transform{}}}, codes.Unimplemented},
		"an increment": {[]*pb.Write{{Operation: set("locks/a", 1).GetOperation(),
			UpdateTransforms: []*pb.DocumentTransform_FieldTransform{{
				FieldPath: "n", TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: integer(1)}}}}},
			codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, plain(t, stub, test.writes...), test.code) })
	}
	wantCode(t, plain(t, stub, text(room), text(room), text(room), text(room), text(room), text(room), text(room),
		text(room), text(room), text(room), text(room)), codes.InvalidArgument)
	// Names that differ in a byte are different documents.
	for _, path := range []string{"keys/a:b", "keys/a", "keys/ab", "keys/a%3Ab", "keys/A", "keys/a/b/c"} {
		_ = must[*sdk.WriteResult](t)(c.Doc(path).Create(t.Context(), m{"path": path}))
		wantData(t, c.Doc(path), m{"path": path})
	}
}

// What is written after a response has a later server timestamp than what the response is about.
func TestServerTimestampsRise(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	stamp := func(path string) *pb.Write {
		w := set(path, 1)
		w.UpdateTransforms = []*pb.DocumentTransform_FieldTransform{{FieldPath: "at",
			TransformType: &pb.DocumentTransform_FieldTransform_SetToServerValue{
				SetToServerValue: pb.DocumentTransform_FieldTransform_REQUEST_TIME}}}
		return w
	}
	var last time.Time
	for i := range 30 {
		if i%2 == 0 {
			wantCode(t, plain(t, stub, stamp("locks/a")), codes.OK)
		} else {
			tx := begin(t, stub, nil)
			wantCode(t, tx.commit(stamp("locks/a")), codes.OK)
		}
		at := data(t, c.Doc("locks/a"))["at"].(time.Time)
		if !at.After(last) || at.Nanosecond()%int(time.Millisecond) != 0 {
			t.Fatalf("server timestamp %v follows %v", at, last)
		}
		last = at
	}
}
