package gcpfirestore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "cloud.google.com/go/firestore"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// A lock in Firestore. With credentials, `firestore.Open(ctx, nil)` finds project and database by itself.
func Example() {
	server, err := firestoretest.Listen("", &firestoretest.Options{Now: func() time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	store, err := gcpfirestore.Open(ctx, &gcpfirestore.Options{
		Project: "my-project", Root: "leasehold/v1", ClientOptions: server.ClientOptions(),
	})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	locks := lock.New(store, nil)
	id := lock.ID{Tenant: "acme", Key: "deploy/prod"}
	o, err := locks.Acquire(ctx, lock.Acquire{ID: id, Owner: "ci-42", RequestID: "r1", TTLSeconds: 30})
	if err != nil {
		panic(err)
	}
	fmt.Println(o.Code, "token", o.Lease.Token, "until", o.Lease.ExpiresAt.Format(time.TimeOnly))

	// What the console shows:
	client, err := sdk.NewClient(ctx, "my-project", server.ClientOptions()...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	doc, err := client.Doc("leasehold/v1/tenants/acme/locks/deploy.／prod").Get(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(doc.Data()["state"], doc.Data()["owner_id"], doc.Data()["expires_at"])
	// Output:
	// OK token 1767225600000001 until 00:00:30
	// ACTIVE ci-42 2026-01-01T00:00:30.000Z
}

// An ordinary transaction of one's own that commits only while a lease is held.
func ExampleFence() {
	server, err := firestoretest.Listen("", nil)
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	const root = "leasehold/v1"
	store, err := gcpfirestore.Open(ctx, &gcpfirestore.Options{Project: "my-project", Root: root,
		ClientOptions: server.ClientOptions()})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	client, err := sdk.NewClient(ctx, "my-project", server.ClientOptions()...)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	locks := lock.New(store, nil)
	id := lock.ID{Tenant: "acme", Key: "invoices"}
	lease, err := locks.Acquire(ctx, lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 60})
	if err != nil {
		panic(err)
	}
	bill := func(amount int) error {
		return client.RunTransaction(ctx, func(_ context.Context, tx *sdk.Transaction) error {
			if err := gcpfirestore.Fence(client, tx, root, lock.WhileHeld(id, "ann", lease.Lease.Token)); err != nil {
				return err
			}
			return tx.Set(client.Doc("invoices/7"), map[string]any{"amount": amount})
		})
	}
	fmt.Println("held:", bill(100))

	// An administrator ends the lease, and another caller takes the lock.
	if _, err := locks.ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "ann hangs",
		RequestID: "f1"}); err != nil {
		panic(err)
	}
	if _, err := locks.Acquire(ctx, lock.Acquire{ID: id, Owner: "bob", RequestID: "r2", TTLSeconds: 60}); err != nil {
		panic(err)
	}
	err = bill(200)
	if fenced, ok := errors.AsType[*gcpfirestore.FenceError](err); ok {
		fmt.Println("fenced: the lock is now", fenced.Found["owner_id"])
	}
	invoice, err := client.Doc("invoices/7").Get(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("amount:", invoice.Data()["amount"])
	// Output:
	// held: <nil>
	// fenced: the lock is now bob
	// amount: 100
}
