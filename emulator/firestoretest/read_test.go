package firestoretest_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

func TestGetAll(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(ctx, m{"n": 1}))
	s.ResetCounts()
	snaps := must[[]*sdk.DocumentSnapshot](t)(c.GetAll(ctx, []*sdk.DocumentRef{c.Doc("locks/b"), c.Doc("locks/a"), c.Doc("locks/a")}))
	var exist []bool
	for _, snap := range snaps {
		exist = append(exist, snap.Exists())
	}
	if want := []bool{false, true, true}; !reflect.DeepEqual(exist, want) {
		t.Fatalf("exist %v, want %v", exist, want)
	}
	if got, want := s.Counts(), (map[string]int{"BatchGetDocuments": 1}); !reflect.DeepEqual(got, want) {
		t.Fatalf("requests %v, want %v", got, want)
	}
}

func TestEveryTypeComesBack(t *testing.T) {
	_, c := start(t, nil)
	d := c.Doc("docs/a")
	want := m{
		"null": nil, "bool": true, "int": int64(-7), "double": 1.5, "text": "風\x01花", "bytes": []byte{0, 255},
		"time": time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC), "array": []any{int64(1), "a", nil},
		"map": m{"a b": m{"c": false}}, "empty": m{}, "none": []any{},
	}
	_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), want))
	wantData(t, d, want)
	_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), m{"t": time.Date(2026, 1, 1, 0, 0, 0, 1_999, time.UTC), "ref": c.Doc("a/b")}))
	if got := data(t, d)["t"].(time.Time).Nanosecond(); got != 1_000 {
		t.Fatalf("a stored time has %d ns, want whole microseconds", got)
	}
	if got := data(t, d)["ref"].(*sdk.DocumentRef).Path; got != root+"/a/b" {
		t.Fatalf("reference %s", got)
	}
}

func TestReadTime(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, c := start(t, &firestoretest.Options{Now: func() time.Time { return now }})
	d := c.Doc("locks/a")
	var times []time.Time
	for n := range 3 {
		now = now.Add(time.Second)
		times = append(times, must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": n})).UpdateTime)
	}
	now = now.Add(time.Second)
	_ = must[*sdk.WriteResult](t)(d.Delete(ctx))
	now = now.Add(time.Second)
	deleted := now
	for n, at := range times {
		snap := must[*sdk.DocumentSnapshot](t)(d.WithReadOptions(sdk.ReadTime(at)).Get(ctx))
		if got := snap.Data()["n"]; got != int64(n) || !snap.ReadTime.Equal(at) {
			t.Fatalf("at %v: n = %v at %v, want %d", at, got, snap.ReadTime, n)
		}
	}
	_, err := d.WithReadOptions(sdk.ReadTime(times[0].Add(-time.Microsecond))).Get(ctx)
	wantCode(t, err, codes.NotFound)
	_, err = d.WithReadOptions(sdk.ReadTime(deleted)).Get(ctx)
	wantCode(t, err, codes.NotFound)
	_, err = d.WithReadOptions(sdk.ReadTime(now.Add(time.Minute))).Get(ctx)
	wantCode(t, err, codes.InvalidArgument)
	now = now.Add(2 * time.Hour)
	_, err = d.WithReadOptions(sdk.ReadTime(times[0])).Get(ctx)
	wantCode(t, err, codes.FailedPrecondition, "The requested snapshot version is too old.")
}

// A busy document forgets its oldest versions and says so.
func TestReadTimeOfABusyDocument(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	d, stub := c.Doc("locks/a"), raw(t, s)
	first := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": -1})).UpdateTime
	for n := range int64(1000) {
		wantCode(t, plain(t, stub, set("locks/a", n)), codes.OK)
	}
	_, err := d.WithReadOptions(sdk.ReadTime(first)).Get(ctx)
	wantCode(t, err, codes.FailedPrecondition)
}

func TestListDocuments(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	for _, path := range []string{"locks/b", "locks/a", "locks/c", "locks/missing/sub/x", "other/a", "locks/c/sub/y"} {
		_ = must[*sdk.WriteResult](t)(c.Doc(path).Set(ctx, m{"n": 1}))
	}
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/gone/sub/x").Set(ctx, m{"n": 1}))
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/gone/sub/x").Delete(ctx))
	t.Run("the client lists missing documents too", func(t *testing.T) {
		var got []string
		for _, ref := range must[[]*sdk.DocumentRef](t)(c.Collection("locks").DocumentRefs(ctx).GetAll()) {
			got = append(got, ref.ID)
		}
		if want := []string{"a", "b", "c", "missing"}; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	t.Run("pages", func(t *testing.T) {
		for order, want := range map[string][]string{"": {"a", "b", "c"}, "__name__ desc": {"c", "b", "a"}} {
			var got []string
			req := &pb.ListDocumentsRequest{Parent: root, CollectionId: "locks", PageSize: 1, OrderBy: order,
				Mask: &pb.DocumentMask{FieldPaths: []string{"n"}}}
			for {
				res := must[*pb.ListDocumentsResponse](t)(raw(t, s).ListDocuments(ctx, req))
				for _, d := range res.GetDocuments() {
					got = append(got, d.GetName()[len(root+"/locks/"):])
					if d.GetFields()["n"].GetIntegerValue() != 1 || d.GetUpdateTime() == nil {
						t.Fatalf("document %v", d)
					}
				}
				if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
					break
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: %v, want %v", order, got, want)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, test := range []struct {
			req  *pb.ListDocumentsRequest
			code codes.Code
		}{
			{&pb.ListDocumentsRequest{Parent: root}, codes.Unimplemented},
			{&pb.ListDocumentsRequest{Parent: root, CollectionId: "locks", OrderBy: "n"}, codes.Unimplemented},
			{&pb.ListDocumentsRequest{Parent: root, CollectionId: "locks", PageSize: -1}, codes.InvalidArgument},
			{&pb.ListDocumentsRequest{Parent: root, CollectionId: "locks", PageToken: "?"}, codes.InvalidArgument},
			{&pb.ListDocumentsRequest{Parent: root, CollectionId: "locks", OrderBy: "__name__", ShowMissing: true}, codes.InvalidArgument},
			{&pb.ListDocumentsRequest{Parent: root + "/locks", CollectionId: "locks"}, codes.InvalidArgument},
		} {
			_, err := raw(t, s).ListDocuments(ctx, test.req)
			wantCode(t, err, test.code)
		}
	})
}

func TestListCollectionIDs(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	for _, path := range []string{"b/x", "a/x", "a/x/deep/y", "only/missing/sub/z"} {
		_ = must[*sdk.WriteResult](t)(c.Doc(path).Set(ctx, m{"n": 1}))
	}
	ids := func(it *sdk.CollectionIterator) (out []string) {
		for {
			ref, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ref.ID)
		}
	}
	if got, want := fmt.Sprint(ids(c.Collections(ctx))), "[a b only]"; got != want {
		t.Fatalf("%v, want %v", got, want)
	}
	if got, want := fmt.Sprint(ids(c.Doc("a/x").Collections(ctx))), "[deep]"; got != want {
		t.Fatalf("%v, want %v", got, want)
	}
	page := must[*pb.ListCollectionIdsResponse](t)(raw(t, s).ListCollectionIds(ctx, &pb.ListCollectionIdsRequest{Parent: root, PageSize: 2}))
	rest := must[*pb.ListCollectionIdsResponse](t)(raw(t, s).ListCollectionIds(ctx,
		&pb.ListCollectionIdsRequest{Parent: root, PageSize: 2, PageToken: page.GetNextPageToken()}))
	if got, want := fmt.Sprint(page.GetCollectionIds(), rest.GetCollectionIds())+rest.GetNextPageToken(), "[a b] [only]"; got != want {
		t.Fatalf("%v, want %v", got, want)
	}
}

// What the Go client never sends.
func TestSingleDocumentMethods(t *testing.T) {
	ctx := t.Context()
	s, _ := start(t, nil)
	stub := raw(t, s)
	fields := map[string]*pb.Value{"n": integer(1), "o": integer(2)}
	mask := &pb.DocumentMask{FieldPaths: []string{"n"}}
	created := must[*pb.Document](t)(stub.CreateDocument(ctx, &pb.CreateDocumentRequest{
		Parent: root, CollectionId: "locks", DocumentId: "a", Document: &pb.Document{Fields: fields}, Mask: mask}))
	if created.GetName() != root+"/locks/a" || len(created.GetFields()) != 1 || created.GetCreateTime() == nil {
		t.Fatalf("created %v", created)
	}
	_, err := stub.CreateDocument(ctx, &pb.CreateDocumentRequest{Parent: root, CollectionId: "locks", DocumentId: "a"})
	wantCode(t, err, codes.AlreadyExists)
	if auto := must[*pb.Document](t)(stub.CreateDocument(ctx, &pb.CreateDocumentRequest{Parent: root, CollectionId: "locks"})); len(auto.GetName()) != len(root+"/locks/")+20 {
		t.Fatalf("automatic name %q", auto.GetName())
	}
	updated := must[*pb.Document](t)(stub.UpdateDocument(ctx, &pb.UpdateDocumentRequest{
		Document: &pb.Document{Name: created.GetName(), Fields: map[string]*pb.Value{"n": integer(5)}}, UpdateMask: mask}))
	if updated.GetFields()["n"].GetIntegerValue() != 5 || updated.GetFields()["o"].GetIntegerValue() != 2 {
		t.Fatalf("updated %v", updated)
	}
	got := must[*pb.Document](t)(stub.GetDocument(ctx, &pb.GetDocumentRequest{Name: created.GetName(), Mask: &pb.DocumentMask{FieldPaths: []string{"o"}}}))
	if len(got.GetFields()) != 1 || got.GetFields()["o"].GetIntegerValue() != 2 {
		t.Fatalf("got %v", got)
	}
	old := must[*pb.Document](t)(stub.GetDocument(ctx, &pb.GetDocumentRequest{Name: created.GetName(),
		ConsistencySelector: &pb.GetDocumentRequest_ReadTime{ReadTime: created.GetUpdateTime()}}))
	if old.GetFields()["n"].GetIntegerValue() != 1 {
		t.Fatalf("old %v", old)
	}
	_, err = stub.DeleteDocument(ctx, &pb.DeleteDocumentRequest{Name: created.GetName(),
		CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: timestamppb.New(time.UnixMicro(1))}}})
	wantCode(t, err, codes.FailedPrecondition)
	if _, err := stub.DeleteDocument(ctx, &pb.DeleteDocumentRequest{Name: created.GetName()}); err != nil {
		t.Fatal(err)
	}
	_, err = stub.GetDocument(ctx, &pb.GetDocumentRequest{Name: created.GetName()})
	wantCode(t, err, codes.NotFound)
}
