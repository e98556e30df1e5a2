// Command cronjob shows a job that several machines have in their crontabs, and that must not run twice at once. Run it
// with
//
//	go run ./examples/cronjob
//
// It starts a server in memory and three processes, as cron would on three machines in the same minute. One gets the
// lock and does the job, the others skip it. In a shell, the same is one line: see cronjob.sh beside this file.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/locks"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return job(ctx, args[0], args[1]) })
}

// job is what cron starts.
func job(ctx context.Context, name, server string) error {
	holder, err := client.NewLocks(server, "default", &client.LocksOptions{Locks: locks.Options{Owner: name}})
	if err != nil {
		return err
	}
	err = holder.Do(ctx, "nightly-report", &locks.LockOptions{NoWait: true},
		func(ctx context.Context, l *locks.Lock) error {
			fmt.Println(name, "runs the job with the token", l.Token())
			select { // the work; it stops when the lock is lost
			case <-time.After(time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			fmt.Println(name, "is done")
			return nil
		})
	if errors.Is(err, contracts.CodeLockHeld) {
		fmt.Println(name, "skips it: the job runs elsewhere")
		err = nil
	}
	return errors.Join(err, holder.Close(ctx))
}

// show starts the server and the machines.
func show(ctx context.Context) error {
	url, server, err := start.Server(ctx, start.AnyPort, start.API())
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over
	return start.All(ctx, []string{"alpha", "bravo", "charlie"}, url)
}
