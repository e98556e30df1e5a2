// Command ratelimit shows processes that together call an API of someone else no more often than it allows: four times
// in any two seconds. Run it with
//
//	go run ./examples/ratelimit
//
// It starts a server in memory, an API that prints when it is called, and three processes that call it four times each.
// Who has to wait waits in line. In a shell, the same is
//
//	leasehold lock run mail-api --rate 4/2s --wait 1m -- curl -s https://api.example.com/send
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

// asCaller is the variable by which a process learns that it calls the API: its name and the address of the server,
// which is that of the API, too.
const asCaller = "RATELIMIT_CALLER"

func main() {
	ctx := context.Background()
	var err error
	if c := os.Getenv(asCaller); c != "" {
		name, server, _ := strings.Cut(c, " ")
		err = caller(ctx, name, server)
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ratelimit:", err)
		os.Exit(1)
	}
}

// caller calls the API four times, each time with a grant.
func caller(ctx context.Context, name, server string) error {
	taker, err := client.NewLocks(server, "default", &client.LocksOptions{Locks: locks.Options{Owner: name}})
	if err != nil {
		return err
	}
	for range 4 {
		if _, err := taker.Take(ctx, "mail-api", locks.Rate{Limit: 4, Window: 2 * time.Second}, nil); err != nil {
			return err
		}
		if err := call(ctx, server+"/send?from="+name); err != nil {
			return err
		}
	}
	return taker.Close(ctx)
}

// call calls the API once.
func call(ctx context.Context, url string) error {
	//nolint:gosec // the address of this program
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // the address of this program
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing is read
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// show starts the server with the API, and the callers.
func show(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	begin := time.Now()
	paths := http.NewServeMux()
	paths.Handle("/", httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	paths.HandleFunc("POST /send", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Printf("%d ms: %s calls\n", time.Since(begin).Milliseconds(), r.FormValue("from"))
	})
	server := &http.Server{Handler: paths, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close() //nolint:errcheck // the example is over

	self, err := os.Executable()
	if err != nil {
		return err
	}
	callers := []string{"alpha", "bravo", "charlie"}
	errs := make([]error, len(callers))
	var wait sync.WaitGroup
	for i, name := range callers {
		process := exec.CommandContext(ctx, self) //nolint:gosec // this program
		process.Env = append(os.Environ(), asCaller+"="+name+" http://"+listener.Addr().String())
		process.Stderr = os.Stderr
		wait.Go(func() { errs[i] = process.Run() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
