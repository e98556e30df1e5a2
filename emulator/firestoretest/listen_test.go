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
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// describe renders a snapshot: the documents in order, and the changes since the one before.
func describe(t *testing.T, it *sdk.QuerySnapshotIterator) string {
	t.Helper()
	snap := must[*sdk.QuerySnapshot](t)(it.Next())
	signs := map[sdk.DocumentChangeKind]string{sdk.DocumentAdded: "+", sdk.DocumentModified: "~", sdk.DocumentRemoved: "-"}
	var out strings.Builder
	for _, c := range snap.Changes {
		out.WriteString(signs[c.Kind] + c.Doc.Ref.ID)
	}
	for _, d := range must[[]*sdk.DocumentSnapshot](t)(snap.Documents.GetAll()) {
		fmt.Fprintf(&out, " %s=%v", d.Ref.ID, d.Data()["n"])
	}
	return out.String()
}

func TestQuerySnapshots(t *testing.T) {
	ctx := within(t, 30*time.Second)
	s, c := start(t, nil)
	stub := raw(t, s)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(ctx, m{"n": 1}))
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/z").Set(ctx, m{"n": 99}))
	it := c.Collection("locks").Where("n", "<", 10).OrderBy("n", sdk.Asc).Limit(3).Snapshots(ctx)
	defer it.Stop()
	for _, test := range []struct {
		name  string
		write []*pb.Write
		want  string
	}{
		{"at first", nil, "+a a=1"},
		{"one more", []*pb.Write{set("locks/b", 2)}, "+b a=1 b=2"},
		{"changed", []*pb.Write{set("locks/a", 3)}, "~a b=2 a=3"},
		{"several in one commit", []*pb.Write{set("locks/c", 4), set("locks/d", 5), set("other/x", 1)}, "+c b=2 a=3 c=4"},
		{"out of the filter", []*pb.Write{set("locks/b", 50)}, "-b+d a=3 c=4 d=5"},
		{"deleted", []*pb.Write{{Operation: &pb.Write_Delete{Delete: root + "/locks/a"}}}, "-a c=4 d=5"},
	} {
		if test.write != nil {
			wantCode(t, plain(t, stub, test.write...), codes.OK)
		}
		if got := describe(t, it); got != test.want {
			t.Fatalf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	s.Reset()
	if got := describe(t, it); got != "-c-d" {
		t.Fatalf("after Reset: %q", got)
	}
}

func TestDocumentSnapshots(t *testing.T) {
	ctx := within(t, 30*time.Second)
	_, c := start(t, nil)
	d := c.Doc("locks/a")
	it := d.Snapshots(ctx)
	defer it.Stop()
	next := func() any {
		t.Helper()
		snap := must[*sdk.DocumentSnapshot](t)(it.Next())
		if !snap.Exists() {
			return nil
		}
		return snap.Data()["n"]
	}
	if got := next(); got != nil {
		t.Fatalf("at first %v, want nothing", got)
	}
	_ = must[*sdk.WriteResult](t)(d.Create(ctx, m{"n": 1}))
	if got := next(); got != int64(1) {
		t.Fatalf("created %v", got)
	}
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/other").Create(ctx, m{"n": 7})) // not seen
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 1}))                       // changes nothing
	_ = must[*sdk.WriteResult](t)(d.Delete(ctx))
	if got := next(); got != nil {
		t.Fatalf("deleted, but %v", got)
	}
}

// After a lost stream the client comes back with its token and receives only what it missed.
func TestListenResumes(t *testing.T) {
	ctx := within(t, 60*time.Second)
	s, c := start(t, nil)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(ctx, m{"n": 1}))
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Set(ctx, m{"n": 2}))
	it := c.Collection("locks").Snapshots(ctx)
	defer it.Stop()
	if got := describe(t, it); got != "+a+b a=1 b=2" {
		t.Fatal(got)
	}
	if n := s.DropListeners(codes.Unavailable, "gone"); n != 1 {
		t.Fatalf("%d listeners, want 1", n)
	}
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Delete(ctx))
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/c").Set(ctx, m{"n": 3}))
	if got := describe(t, it); got != "-a+c b=2 c=3" {
		t.Fatal(got)
	}
	if got := s.Count("Listen"); got != 2 {
		t.Fatalf("%d streams, want 2", got)
	}
	s.DropListeners(codes.PermissionDenied, "no")
	_, err := it.Next()
	wantCode(t, err, codes.PermissionDenied, "no")
}

// kinds reads messages up to and with the one that makes a snapshot.
func kinds(t *testing.T, stream pb.Firestore_ListenClient) (out []string, token []byte) {
	t.Helper()
	for {
		res := must[*pb.ListenResponse](t)(stream.Recv())
		switch r := res.GetResponseType().(type) {
		case *pb.ListenResponse_TargetChange:
			out = append(out, fmt.Sprintf("%v%v", r.TargetChange.GetTargetChangeType(), r.TargetChange.GetTargetIds()))
			if r.TargetChange.GetTargetChangeType() == pb.TargetChange_NO_CHANGE || r.TargetChange.GetCause() != nil {
				return out, r.TargetChange.GetResumeToken()
			}
		case *pb.ListenResponse_DocumentChange:
			out = append(out, fmt.Sprint("change", r.DocumentChange.GetTargetIds()))
		case *pb.ListenResponse_DocumentDelete:
			out = append(out, fmt.Sprint("delete", r.DocumentDelete.GetRemovedTargetIds()))
		case *pb.ListenResponse_DocumentRemove:
			out = append(out, fmt.Sprint("remove", r.DocumentRemove.GetRemovedTargetIds()))
		}
	}
}

// The messages themselves, with several targets on one stream.
func TestListenMessages(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(t.Context(), m{"n": 1}))
	stream := must[pb.Firestore_ListenClient](t)(stub.Listen(within(t, 30*time.Second)))
	documents := func(id int32, paths ...string) *pb.Target {
		d := &pb.Target_DocumentsTarget{}
		for _, p := range paths {
			d.Documents = append(d.Documents, root+"/"+p)
		}
		return &pb.Target{TargetId: id, TargetType: &pb.Target_Documents{Documents: d}}
	}
	add := func(target *pb.Target) {
		t.Helper()
		if err := stream.Send(&pb.ListenRequest{Database: database, TargetChange: &pb.ListenRequest_AddTarget{AddTarget: target}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...string) []byte {
		t.Helper()
		got, token := kinds(t, stream)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		return token
	}
	add(documents(1, "locks/a", "locks/b"))
	want("ADD[1]", "delete[1]", "change[1]", "CURRENT[1]", "NO_CHANGE[]")
	query := &pb.Target{TargetId: 2, TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{Parent: root,
		QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
			From:    []*pb.StructuredQuery_CollectionSelector{{CollectionId: "locks"}},
			OrderBy: []*pb.StructuredQuery_Order{{Field: &pb.StructuredQuery_FieldReference{FieldPath: "n"}}}}}}}}
	add(query)
	token := want("ADD[2]", "change[2]", "CURRENT[2]", "NO_CHANGE[]")
	if err := stream.Send(&pb.ListenRequest{Database: database, TargetChange: &pb.ListenRequest_RemoveTarget{RemoveTarget: 1}}); err != nil {
		t.Fatal(err)
	}
	if res := must[*pb.ListenResponse](t)(stream.Recv()); res.GetTargetChange().GetTargetChangeType() != pb.TargetChange_REMOVE {
		t.Fatalf("%v, want REMOVE", res)
	}
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(t.Context(), m{"o": 1})) // leaves the order, still exists
	want("remove[2]", "NO_CHANGE[]")
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Set(t.Context(), m{"n": 1}))
	want("change[2]", "NO_CHANGE[]")
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Delete(t.Context()))
	want("delete[2]", "NO_CHANGE[]")

	query.TargetId, query.ResumeType = 3, &pb.Target_ResumeToken{ResumeToken: token}
	add(query)
	want("ADD[3]", "remove[3]", "CURRENT[3]", "NO_CHANGE[]")
	query.TargetId, query.ExpectedCount = 5, wrapperspb.Int32(1) // as many as there were
	add(query)
	want("ADD[5]", "remove[5]", "CURRENT[5]", "NO_CHANGE[]")
	query.TargetId, query.ExpectedCount = 6, wrapperspb.Int32(7) // the client has lost track
	add(query)
	want("ADD[6]", "RESET[6]", "CURRENT[6]", "NO_CHANGE[]")
	query.ExpectedCount = nil

	for name, bad := range map[string]*pb.Target{
		"a target in use":     documents(3, "locks/a"),
		"a bad name":          documents(9, "locks"),
		"no documents":        documents(9),
		"nothing":             {TargetId: 9},
		"once":                {TargetId: 9, Once: true},
		"a target without id": documents(0, "locks/a"),
	} {
		add(bad)
		if got, _ := kinds(t, stream); len(got) != 1 || got[0] != fmt.Sprintf("REMOVE[%d]", bad.GetTargetId()) {
			t.Fatalf("%s: %v", name, got)
		}
	}
	s.Reset()
	query.TargetId = 4
	add(query) // its token is from before the Reset
	want("ADD[4]", "RESET[4]", "CURRENT[4]", "NO_CHANGE[]")
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return
		}
	}
}
