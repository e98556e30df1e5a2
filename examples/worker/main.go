//go:build unix

// Command worker shows a worker that stops when it loses its lock, even if it was asleep when that happened. Run it
// with
//
//	go run ./examples/worker
//
// It starts a server of locks, and a ledger that compares fencing tokens. A worker holds the lock and books into the
// ledger. Then it is stopped (SIGSTOP), as a debugger, a frozen container or a closed laptop would do, until another
// worker has the lock and has booked. When it goes on (SIGCONT), the first thing that it is told is that the lock is
// lost. What it books in spite of that is rejected by the ledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/locks"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return work(ctx, args[0], args[1]) })
}

// work is one worker: it books again and again while it holds the lock.
func work(ctx context.Context, name, server string) error {
	// short, so that it does not take long to see
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	holder, err := c.Locks("default", &locks.Options{Owner: name, TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	for {
		var mine fence.Lease
		err := holder.Do(ctx, "ledger", nil, func(ctx context.Context, l *locks.Lock) error {
			mine = l.Lease()
			for {
				if err := locks.Check(ctx); err != nil { // before each step: it knows of the loss also after a sleep
					return err
				}
				if err := book(ctx, server); err != nil {
					return err
				}
				fmt.Println(name, "booked")
				time.Sleep(100 * time.Millisecond) // the pace at which it books
			}
		})
		if !errors.Is(err, locks.ErrLost) {
			return err
		}
		fmt.Println(name, "was told: the lock is lost")
		switch err := book(fence.With(ctx, mine), server); {
		case errors.Is(err, contracts.CodeStaleToken):
			fmt.Println(name, "booked in spite of that, and was rejected")
			return nil
		case err != nil:
			return err
		}
		fmt.Println(name, "begins again, for no one else has booked meanwhile") // on a machine that was busy for two seconds
	}
}

// book sends an entry to the ledger, with the token of the lock in whose context it is called.
func book(ctx context.Context, server string) error {
	web := http.Client{Transport: &fence.Transport{}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/ledger", nil)
	if err != nil {
		return err
	}
	response, err := web.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is empty
	switch response.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusConflict:
		return contracts.CodeStaleToken
	default:
		return errors.New(response.Status)
	}
}

// show starts the server, the ledger and two workers.
func show(ctx context.Context) error {
	entry := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux := http.NewServeMux()
	mux.Handle("/ledger", fence.NewHandler(entry, fence.NewMemory(nil), func(*http.Request) string { return "ledger" },
		nil))
	mux.Handle("/", start.API())
	url, server, err := start.Server(ctx, start.AnyPort, mux)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over

	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	first, said, err := begin(ctx, "alpha", url)
	if err != nil {
		return err
	}
	if err := until(ctx, said, "booked"); err != nil {
		return err
	}
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	fmt.Println("alpha is stopped; its lease ends")
	second, then, err := begin(ctx, "bravo", url)
	if err != nil {
		return err
	}
	if err := until(ctx, then, "booked"); err != nil {
		return err
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	fmt.Println("alpha goes on")
	if err := until(ctx, said, "rejected"); err != nil {
		return err
	}
	_ = second.Process.Kill()
	_ = second.Wait()
	return first.Wait()
}

// until prints what a worker says, until it says that.
func until(ctx context.Context, said <-chan string, that string) error {
	for last := ""; ; {
		select {
		case line, ok := <-said:
			if !ok {
				return errors.New("the worker ended")
			}
			if line != last {
				fmt.Println(line)
			}
			if last = line; strings.HasSuffix(line, that) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin starts a worker. What it says is received until it ends.
func begin(ctx context.Context, name, server string) (*start.Process, <-chan string, error) {
	p, err := start.Start(ctx, name, server)
	if err != nil {
		return nil, nil, err
	}
	said := make(chan string, 1000)
	go func() {
		defer close(said)
		for p.Out.Scan() {
			said <- p.Out.Text()
		}
	}()
	return p, said, nil
}
