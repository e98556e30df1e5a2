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
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/locks"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return caller(ctx, args[0], args[1]) })
}

// caller calls the API four times, each time with a grant. The API is on the server, too.
func caller(ctx context.Context, name, server string) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	taker, err := c.Locks("default", &locks.Options{Owner: name})
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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
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
	begin := time.Now()
	paths := http.NewServeMux()
	paths.Handle("/", start.API())
	paths.HandleFunc("POST /send", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Printf("%d ms: %s calls\n", time.Since(begin).Milliseconds(), r.FormValue("from"))
	})
	url, server, err := start.Server(ctx, start.AnyPort, paths)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over
	return start.All(ctx, []string{"alpha", "bravo", "charlie"}, url)
}
