package firestoretest_test

import (
	"errors"
	"io"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// openWrites opens a Write stream as the client library for the web does, and returns it with the token of its opening.
func openWrites(t *testing.T, stub pb.FirestoreClient) (pb.Firestore_WriteClient, []byte) {
	t.Helper()
	stream := must[pb.Firestore_WriteClient](t)(stub.Write(t.Context()))
	if err := stream.Send(&pb.WriteRequest{Database: database}); err != nil {
		t.Fatal(err)
	}
	opened := must[*pb.WriteResponse](t)(stream.Recv())
	if opened.GetStreamId() == "" || len(opened.GetStreamToken()) == 0 || len(opened.GetWriteResults()) != 0 {
		t.Fatalf("opened with %v", opened)
	}
	return stream, opened.GetStreamToken()
}

func TestWriteStream(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	stream, token := openWrites(t, stub)
	var last time.Time
	for n := range int64(3) {
		if err := stream.Send(&pb.WriteRequest{StreamToken: token, Writes: []*pb.Write{set("locks/a", n), set("locks/b", n)}}); err != nil {
			t.Fatal(err)
		}
		res := must[*pb.WriteResponse](t)(stream.Recv())
		at := res.GetCommitTime().AsTime()
		if len(res.GetWriteResults()) != 2 || !at.After(last) || len(res.GetStreamToken()) == 0 {
			t.Fatalf("response %v", res)
		}
		token, last = res.GetStreamToken(), at
		wantData(t, c.Doc("locks/b"), m{"n": n})
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the end: %v", err)
	}
}

// A commit that fails ends the stream with its error: the library for the web gives it to the caller and opens another.
func TestWriteStreamFails(t *testing.T) {
	s, c := start(t, &firestoretest.Options{Databases: []string{database}})
	stub := raw(t, s)
	missing := set("locks/missing", 2)
	missing.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: true}}
	for name, test := range map[string]struct {
		req  *pb.WriteRequest
		code codes.Code
	}{
		"a precondition":    {&pb.WriteRequest{Writes: []*pb.Write{set("locks/a", 2), missing}}, codes.NotFound},
		"a bad write":       {&pb.WriteRequest{Writes: []*pb.Write{{}}}, codes.InvalidArgument},
		"a foreign token":   {&pb.WriteRequest{StreamToken: []byte("x")}, codes.InvalidArgument},
		"another database":  {&pb.WriteRequest{Database: "projects/p/databases/d"}, codes.InvalidArgument},
		"labels":            {&pb.WriteRequest{Labels: map[string]string{"a": "b"}}, codes.Unimplemented},
		"a token yet to be": {&pb.WriteRequest{StreamToken: []byte{0, 0, 0, 0, 0, 0, 0, 9}}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			stream, token := openWrites(t, stub)
			if test.req.StreamToken == nil {
				test.req.StreamToken = token
			}
			if err := stream.Send(test.req); err != nil {
				t.Fatal(err)
			}
			_, err := stream.Recv()
			wantCode(t, err, test.code)
			_, err = c.Doc("locks/a").Get(t.Context())
			wantCode(t, err, codes.NotFound) // all or nothing
		})
	}
	for name, test := range map[string]struct {
		req  *pb.WriteRequest
		code codes.Code
	}{
		"no database":         {&pb.WriteRequest{}, codes.InvalidArgument},
		"an unknown database": {&pb.WriteRequest{Database: "projects/p/databases/d"}, codes.NotFound},
		"writes at once":      {&pb.WriteRequest{Database: database, Writes: []*pb.Write{set("locks/a", 1)}}, codes.InvalidArgument},
		"a stream resumed":    {&pb.WriteRequest{Database: database, StreamId: "1", StreamToken: []byte("x")}, codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			stream := must[pb.Firestore_WriteClient](t)(stub.Write(t.Context()))
			if err := stream.Send(test.req); err != nil {
				t.Fatal(err)
			}
			_, err := stream.Recv()
			wantCode(t, err, test.code)
		})
	}
}
