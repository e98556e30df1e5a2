package firestoretest_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
)

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

// After a lost stream the client comes back with its token. It is told everything again, and shows what has changed.
func TestListenResumes(t *testing.T) {
	ctx := within(t, 60*time.Second)
	s, c := start(t, nil)
	d := c.Doc("locks/a")
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 1}))
	it := d.Snapshots(ctx)
	defer it.Stop()
	if got := must[*sdk.DocumentSnapshot](t)(it.Next()).Data()["n"]; got != int64(1) {
		t.Fatal(got)
	}
	if n := s.DropListeners(codes.Unavailable, "gone"); n != 1 {
		t.Fatalf("%d listeners, want 1", n)
	}
	_ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 2}))
	if got := must[*sdk.DocumentSnapshot](t)(it.Next()).Data()["n"]; got != int64(2) {
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
		if err := stream.Send(&pb.ListenRequest{Database: database, TargetChange: &pb.ListenRequest_AddTarget{
			AddTarget: target}}); err != nil {
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
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Set(t.Context(), m{"n": 1}))
	want("change[1]", "NO_CHANGE[]")
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Delete(t.Context()))
	token := want("delete[1]", "NO_CHANGE[]")
	resumed := documents(3, "locks/a")
	resumed.ResumeType = &pb.Target_ResumeToken{ResumeToken: token}
	add(resumed)
	want("ADD[3]", "RESET[3]", "change[3]", "CURRENT[3]", "NO_CHANGE[]")

	for name, bad := range map[string]*pb.Target{
		"a target in use":     documents(3, "locks/a"),
		"a bad name":          documents(9, "locks"),
		"no documents":        documents(9),
		"nothing":             {TargetId: 9},
		"once":                {TargetId: 9, Once: true},
		"a target without id": documents(0, "locks/a"),
		"a query":             {TargetId: 9, TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{Parent: root}}},
	} {
		add(bad)
		if got, _ := kinds(t, stream); len(got) != 1 || got[0] != fmt.Sprintf("REMOVE[%d]", bad.GetTargetId()) {
			t.Fatalf("%s: %v", name, got)
		}
	}
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
