package firestoretest_test

import (
	"context"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

const (
	project  = "test-project"
	database = "projects/test-project/databases/(default)"
	root     = database + "/documents"
)

// client connects the real client library with a server.
func client(t *testing.T, s *firestoretest.Server) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(t.Context(), project, s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// start starts a server and connects a client.
func start(t *testing.T, o *firestoretest.Options) (*firestoretest.Server, *sdk.Client) {
	t.Helper()
	s := firestoretest.Start(t, o)
	return s, client(t, s)
}

// raw connects the generated stub, for what the client library never sends.
func raw(t *testing.T, s *firestoretest.Server) pb.FirestoreClient {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewFirestoreClient(conn)
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode fails the test unless the error has the code, and the message if one is given.
func wantCode(t *testing.T, err error, code codes.Code, message ...string) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Fatalf("code %v (%v), want %v", got, err, code)
	}
	if len(message) > 0 && status.Convert(err).Message() != message[0] {
		t.Fatalf("message %q, want %q", status.Convert(err).Message(), message[0])
	}
}

type m = map[string]any

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A txn drives one transaction through the stub, step by step.
type txn struct {
	t  *testing.T
	c  pb.FirestoreClient
	id []byte
}

func begin(t *testing.T, c pb.FirestoreClient, o *pb.TransactionOptions) txn {
	t.Helper()
	res := must[*pb.BeginTransactionResponse](t)(
		c.BeginTransaction(t.Context(), &pb.BeginTransactionRequest{Database: database, Options: o}))
	return txn{t, c, res.GetTransaction()}
}

// get reads the integer n of a document; −1 means a missing document.
func (x txn) get(path string) (int64, error) {
	stream, err := x.c.BatchGetDocuments(x.t.Context(), &pb.BatchGetDocumentsRequest{
		Database:            database,
		Documents:           []string{root + "/" + path},
		ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: x.id},
	})
	if err != nil {
		return 0, err
	}
	res, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	if res.GetFound() == nil {
		return -1, nil
	}
	return res.GetFound().GetFields()["n"].GetIntegerValue(), nil
}

func (x txn) mustGet(path string, want int64) {
	x.t.Helper()
	if got := must[int64](x.t)(x.get(path)); got != want {
		x.t.Fatalf("%s has n = %d, want %d", path, got, want)
	}
}

func (x txn) commit(writes ...*pb.Write) error {
	_, err := x.c.Commit(x.t.Context(), &pb.CommitRequest{Database: database, Transaction: x.id, Writes: writes})
	return err
}

func (x txn) rollback() error {
	_, err := x.c.Rollback(x.t.Context(), &pb.RollbackRequest{Database: database, Transaction: x.id})
	return err
}

// set is a write that makes n the only field of a document.
func set(path string, n int64) *pb.Write {
	return &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{
		Name: root + "/" + path, Fields: map[string]*pb.Value{"n": integer(n)},
	}}}
}

func integer(n int64) *pb.Value { return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: n}} }

// plain commits without a transaction.
func plain(t *testing.T, c pb.FirestoreClient, writes ...*pb.Write) error {
	return txn{t: t, c: c}.commit(writes...)
}

// fresh starts a server and a client for one random case.
func fresh(t *rapid.T, o *firestoretest.Options) (*sdk.Client, func()) {
	s, err := firestoretest.Listen("", o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sdk.NewClient(context.Background(), project, s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { _, _ = c.Close(), s.Close() }
}
