package gcpfirestore

import (
	"testing"
	"testing/synctest"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/internal/conns/connstest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// empty is a database without documents.
type empty struct {
	pb.UnimplementedFirestoreServer
}

// BatchGetDocuments implements [pb.FirestoreServer].
func (empty) BatchGetDocuments(r *pb.BatchGetDocumentsRequest, stream pb.Firestore_BatchGetDocumentsServer) error {
	for _, name := range r.GetDocuments() {
		err := stream.Send(&pb.BatchGetDocumentsResponse{ReadTime: timestamppb.Now(),
			Result: &pb.BatchGetDocumentsResponse_Missing{Missing: name}})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDeadConnections: calls leave connections that have gone dead, although they share them.
func TestDeadConnections(t *testing.T) {
	t.Setenv(emulatorVariable, "firestore.example:8080")
	synctest.Test(t, func(t *testing.T) {
		n := connstest.New()
		server := grpc.NewServer()
		pb.RegisterFirestoreServer(server, empty{})
		go server.Serve(n)
		defer server.Stop()
		s, err := Open(t.Context(), &Options{Project: "demo", dial: n.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		connstest.Calls(t, n, func() error {
			_, err := s.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"})
			return err
		})
	})
}
