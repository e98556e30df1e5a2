package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A deployment that must run alone. The token goes along with whatever the lock protects.
func ExampleLocks() {
	// In production this is a server of its own; `leasehold serve` runs one.
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()

	ctx := context.Background()
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	locks := c.LockAPI()
	lease, err := locks.Acquire(ctx, "acme", "deploy-prod", contracts.AcquireRequest{OwnerID: "ci-42", TTLSeconds: 30})
	if err != nil {
		log.Panic(err)
	}
	token := lease.FencingToken
	fmt.Println("ci-42 deploys with a token:", token > 0)

	_, err = locks.Acquire(ctx, "acme", "deploy-prod", contracts.AcquireRequest{OwnerID: "ci-43", TTLSeconds: 30})
	if held, ok := errors.AsType[*contracts.Error](err); ok && errors.Is(err, contracts.CodeLockHeld) {
		fmt.Println("ci-43 has to wait for", held.Owner)
	}

	// Longer work renews well before the lease expires, and stops when a renewal is rejected.
	if _, err = locks.RenewLease(ctx, lease, 30); err != nil {
		log.Panic(err)
	}
	ended, err := locks.Release(ctx, "acme", "deploy-prod", contracts.ReleaseRequest{
		OwnerID: "ci-42", FencingToken: token})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("ci-42's lease is", ended.State)

	lease, err = locks.Acquire(ctx, "acme", "deploy-prod", contracts.AcquireRequest{OwnerID: "ci-43", TTLSeconds: 30})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("ci-43 deploys with a larger token:", lease.FencingToken > token)

	// Output:
	// ci-42 deploys with a token: true
	// ci-43 has to wait for ci-42
	// ci-42's lease is RELEASED
	// ci-43 deploys with a larger token: true
}
