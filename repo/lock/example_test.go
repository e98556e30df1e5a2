package lock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Two builds want to deploy. The second is told who deploys, and until when if nothing happens.
func ExampleLocks() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return noon }})
	locks := lock.New(store, nil)
	ctx := context.Background()
	deploy := lock.ID{Tenant: "acme", Key: "deploy-prod"}

	first, err := locks.Acquire(ctx, lock.Acquire{ID: deploy, Owner: "ci-42", RequestID: "7f1c0d52", TTLSeconds: 30})
	if err != nil {
		log.Panic(err) // the outcome is unknown: send it again with the same RequestID
	}
	fmt.Println(first.Code, first.Lease.Owner, "token", first.Lease.Token)

	second, err := locks.Acquire(ctx, lock.Acquire{ID: deploy, Owner: "ci-43", RequestID: "0b6e55d1", TTLSeconds: 30})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(second.Code, "by", second.Lease.Owner, "for", second.RetryAfter)

	ended, err := locks.Release(ctx, lock.Release{ID: deploy, Owner: "ci-42", Token: first.Lease.Token,
		RequestID: "5a0f91c3"})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(ended.Code, ended.Lease.Phase)

	second, err = locks.Acquire(ctx, lock.Acquire{ID: deploy, Owner: "ci-43", RequestID: "0b6e55d1", TTLSeconds: 30})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(second.Code, second.Lease.Owner, "token", second.Lease.Token)

	// Output:
	// OK ci-42 token 1767268800000001
	// LOCK_HELD by ci-42 for 30s
	// OK RELEASED
	// OK ci-43 token 1767268800000002
}

// A holder that slept through the end of its lease comes back with an old token.
func ExampleGuard() {
	guard := lock.NewGuard(docstore.NewMemory(nil), nil)
	for _, token := range []int64{1, 2, 1} {
		o, err := guard.Check(context.Background(), lock.Fence{Tenant: "acme", Resource: "deploy-prod",
			Lease: fence.Lease{Subject: "lock/deploy-prod", Token: token}})
		if err != nil {
			log.Panic(err) // not passed
		}
		fmt.Println("token", token, "passed:", o.Passed)
	}
	// Output:
	// token 1 passed: true
	// token 2 passed: true
	// token 1 passed: false
}

// The account compares the token in the same step as it takes the new balance: no pause can come between the two.
func ExampleFenceCond() {
	store := docstore.NewMemory(nil)
	setBalance := func(lease fence.Lease, balance docstore.Int) {
		set := lock.FenceSet("fence", lease)
		set["balance"] = balance
		r, err := store.Write(context.Background(), docstore.Write{
			Key: docstore.Key{Kind: "accounts", Tenant: "acme", ID: "main"},
			If:  lock.FenceCond("fence", lease),
			Set: set,
		})
		if err != nil {
			log.Panic(err)
		}
		fmt.Println("token", lease.Token, "sets", balance, "applied:", r.Applied, "balance now:", r.Docs[0]["balance"])
	}
	under := func(token int64) fence.Lease { return fence.Lease{Subject: "lock/main", Token: token} } // of a lock: l.Lease()
	setBalance(under(1), 100)
	setBalance(under(2), 80)
	setBalance(under(1), 120)
	// Output:
	// token 1 sets 100 applied: true balance now: 100
	// token 2 sets 80 applied: true balance now: 80
	// token 1 sets 120 applied: false balance now: 80
}
