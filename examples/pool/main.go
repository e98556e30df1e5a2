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
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// asJob is the variable by which a process learns that it is a job: its name and the server.
const asJob = "POOL_JOB"

func main() {
	ctx := context.Background()
	var err error
	if j := os.Getenv(asJob); j != "" {
		name, server, _ := strings.Cut(j, " ")
		err = job(ctx, name, server)
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

// job uses a connection twice.
func job(ctx context.Context, name, server string) error {
	holder, err := client.NewLocks(server, "default", &client.LocksOptions{Locks: locks.Options{Owner: name}})
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
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil),
		ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close() //nolint:errcheck // the example is over

	self, err := os.Executable()
	if err != nil {
		return err
	}
	jobs := []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot"}
	errs := make([]error, len(jobs))
	var wait sync.WaitGroup
	for i, name := range jobs {
		process := exec.CommandContext(ctx, self) //nolint:gosec // this program
		process.Env = append(os.Environ(), asJob+"="+name+" http://"+listener.Addr().String())
		process.Stdout, process.Stderr = os.Stdout, os.Stderr
		wait.Go(func() { errs[i] = process.Run() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
