// Command pool shows processes that share three connections to a database, which allows no more. Run it with
//
//	go run ./examples/pool
//
// It starts a server in memory and six processes. Three have a connection at a time, the others wait in line. A permit
// of the lock is the number of a connection, so that no two use the same one, and its tokens increase from holder to
// holder. In a shell, the same is
//
//	leasehold lock run reports-db --permits 3 --wait 1h -- sh -c 'report --connection "$LEASEHOLD_PERMIT"'
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/locks"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return job(ctx, args[0], args[1]) })
}

// job uses a connection twice.
func job(ctx context.Context, name, server string) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	holder, err := c.Locks("default", &locks.Options{Owner: name})
	if err != nil {
		return err
	}
	for range 2 {
		err = errors.Join(err, holder.Do(ctx, "reports-db", &locks.LockOptions{Permits: 3},
			func(ctx context.Context, l *locks.Lock) error {
				fmt.Println(name, "has the connection", l.Permit(), "with the token", l.Token())
				select { // the work; it stops when the lock is lost
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				fmt.Println(name, "returns the connection", l.Permit())
				return nil
			}))
	}
	return errors.Join(err, holder.Close(ctx))
}

// show starts the server and the jobs.
func show(ctx context.Context) error {
	url, server, err := start.Server(ctx, start.AnyPort, start.API())
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over
	return start.All(ctx, []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot"}, url)
}
