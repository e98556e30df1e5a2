package firestoretest_test

import (
	"context"
	"fmt"
	"runtime"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// A create whose response is lost is sent again by the generated client code, and then fails on its own first attempt.
// Who grants a lock by Create has to recognize its own document.
func Example() {
	server, err := firestoretest.Listen("", nil) // in a test: firestore.Start(t, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()
	client, err := sdk.NewClient(ctx, "my-project", server.ClientOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	server.Inject(firestoretest.Fault{
		Method: "Commit",
		Times:  1,
		Effect: firestoretest.ApplyThenFail{Code: codes.Unavailable},
	})
	lock := client.Doc("locks/deploy")
	_, err = lock.Create(ctx, map[string]any{"owner": "me"})
	fmt.Println(status.Code(err), "after", server.Count("Commit"), "commits")

	snap, err := lock.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held by", snap.Data()["owner"])
	// Output:
	// AlreadyExists after 2 commits
	// held by me
}

// A transaction that reads a document keeps others from writing it until it ends.
func ExampleServer_Waiting() {
	server, err := firestoretest.Listen("", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()
	client, err := sdk.NewClient(ctx, "my-project", server.ClientOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	doc := client.Doc("counters/a")
	done := make(chan error)
	err = client.RunTransaction(ctx, func(_ context.Context, tx *sdk.Transaction) error {
		if _, err := tx.Get(doc); status.Code(err) != codes.NotFound {
			return fmt.Errorf("the document should be missing: %w", err)
		}
		go func() {
			_, err := doc.Set(ctx, map[string]any{"by": "outsider"})
			done <- err
		}()
		for server.Waiting() == 0 { // until the outsider waits for this transaction
			runtime.Gosched()
		}
		return tx.Set(doc, map[string]any{"by": "transaction"})
	})
	fmt.Println("transaction:", err)
	fmt.Println("outsider:", <-done)
	// Output:
	// transaction: <nil>
	// outsider: <nil>
}
