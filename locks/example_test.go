package locks_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// exampleServer is a server of its own in production; `leasehold serve` runs one.
func exampleServer() (url string, stop func()) {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	return server.URL, server.Close
}

// Work under a lock: it is renewed while the work runs, and released when it returns.
func ExampleClient_Do() {
	url, stop := exampleServer()
	defer stop()

	server, err := client.New(url, nil)
	if err != nil {
		log.Panic(err)
	}
	c, err := server.Locks("default", nil)
	if err != nil {
		log.Panic(err)
	}
	defer c.Close(context.Background()) // what could not be released expires

	err = c.Do(context.Background(), "deploy-prod", nil, func(ctx context.Context, l *locks.Lock) error {
		for _, step := range []string{"build", "upload", "switch"} {
			if err := locks.Check(ctx); err != nil { // the lock is lost, or about to be
				return err
			}
			fmt.Println(step, l.Token() > 0) // pass the token on to what the step writes to
		}
		return nil
	})
	fmt.Println(err)

	// Output:
	// build true
	// upload true
	// switch true
	// <nil>
}

// A job that is to be skipped while it runs elsewhere, on a store without a server.
func ExampleClient_TryLock() {
	store := docstore.NewMemory(nil) // one of package adapters in production
	ctx := context.Background()
	for _, owner := range []string{"host-1", "host-2"} {
		c, err := direct.NewLocks(store, "default", &locks.Options{Owner: owner})
		if err != nil {
			log.Panic(err)
		}
		l, err := c.TryLock(ctx, "nightly-report", &locks.LockOptions{MaxHold: time.Hour})
		if errors.Is(err, contracts.CodeLockHeld) {
			fmt.Println(owner, "skips it")
			continue
		}
		if err != nil {
			log.Panic(err)
		}
		defer l.Unlock(ctx) // otherwise the lease expires
		fmt.Println(owner, "runs it")
	}

	// Output:
	// host-1 runs it
	// host-2 skips it
}
