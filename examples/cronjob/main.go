// Command cronjob shows a job that several machines have in their crontabs, and that must run once a night. Run it with
//
//	go run ./examples/cronjob
//
// It starts a server in memory and three processes, as cron would on three machines in the same minute. One does the
// job, the others skip it. In a shell, the same is one line: see cronjob.sh beside this file.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/once/calendar"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return job(ctx, args[0], args[1]) })
}

// job is what cron starts.
func job(ctx context.Context, name, server string) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	nightly, err := calendar.New(calendar.Day, "02:00", time.UTC)
	if err != nil {
		return err
	}
	out, err := c.Runs("default").Run(ctx, "nightly-report", func(ctx context.Context, l once.Lock) (string, error) {
		fmt.Println(name, "runs the job with the token", l.Token)
		select { // the work; it stops when the lock is lost
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		fmt.Println(name, "is done")
		return "", nil
	}, &once.Options{Owner: name, Schedule: nightly})
	switch {
	case err != nil:
		return err
	case out.Status == once.Locked, out.Status == once.AlreadyFinished:
		fmt.Println(name, "skips it: the job runs elsewhere, or is done")
		return nil
	default:
		return out.Err
	}
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
