package election_test

import (
	"context"
	"fmt"
	"log"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// One process of several does the work; the others wait until it resigns or is gone.
func ExampleElection_Lead() {
	rule := lock.New(docstore.NewMemory(nil), nil) // in production client.LockAPI.For, or a store of package adapters
	c, err := locks.New(direct.Locks(rule, "default"), &locks.Options{Owner: "node-1"})
	if err != nil {
		log.Panic(err)
	}
	e := election.New(c, "scheduler", nil)
	err = e.Lead(context.Background(), func(ctx context.Context, _ *election.Leader) error {
		now, err := e.Leader(ctx)
		fmt.Println(now.Owner, "leads")
		return err
	})
	fmt.Println(err)

	// Output:
	// node-1 leads
	// <nil>
}
