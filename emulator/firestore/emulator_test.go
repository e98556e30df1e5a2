package firestore_test

import (
	"context"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/leasehold-dev/leasehold/emulator/firestore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	project  = "test-project"
	database = "projects/test-project/databases/(default)"
	root     = database + "/documents"
)

// client connects the real client library with a server.
func client(t *testing.T, s *firestore.Server) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(t.Context(), project, s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// start starts a server and connects a client.
func start(t *testing.T, o *firestore.Options) (*firestore.Server, *sdk.Client) {
	t.Helper()
	s := firestore.Start(t, o)
	return s, client(t, s)
}

// raw connects the generated stub, for what the client library never sends.
func raw(t *testing.T, s *firestore.Server) pb.FirestoreClient {
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
