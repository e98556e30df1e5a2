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
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// asMachine is the variable by which a process learns that it is the job on a machine: its name and the server.
const asMachine = "CRONJOB_MACHINE"

func main() {
	ctx := context.Background()
	var err error
	if m := os.Getenv(asMachine); m != "" {
		name, server, _ := strings.Cut(m, " ")
		err = job(ctx, name, server)
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cronjob:", err)
		os.Exit(1)
	}
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
	machines := []string{"alpha", "bravo", "charlie"}
	errs := make([]error, len(machines))
	var wait sync.WaitGroup
	for i, name := range machines {
		machine := exec.CommandContext(ctx, self) //nolint:gosec // this program
		machine.Env = append(os.Environ(), asMachine+"="+name+" http://"+listener.Addr().String())
		machine.Stdout, machine.Stderr = os.Stdout, os.Stderr
		wait.Go(func() { errs[i] = machine.Run() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
