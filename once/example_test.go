package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// exampleGate is a server of its own in production; `leasehold serve` runs one. The document of an analysis is made by
// its producer.
func exampleGate(ids ...string) (gate *client.Analyses, stop func()) {
	store := docstore.NewMemory(nil)
	for _, id := range ids {
		w := docstore.Write{Key: docstore.Key{Kind: "analyses", ID: id}, Set: map[string]docstore.Value{
			// a short token, for the output of these examples
			"status": docstore.String("PENDING"), "lockToken": docstore.Int(0),
		}}
		if _, err := store.Write(context.Background(), w); err != nil {
			log.Panic(err)
		}
	}
	server := httptest.NewServer(httpapi.New(store, httpapi.Development{}, nil))
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	return c.Analyses(), server.Close
}

// The first caller makes the invoice; all others get the same one. The name says which invoice it is, and the input what
// it depends on beside.
func ExampleDo() {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}

	type Order struct{ Price int }
	type Invoice struct{ Number string }
	makeInvoice := func(context.Context, once.Lock) (Invoice, error) {
		fmt.Println("made")
		return Invoice{Number: "2026-1107"}, nil
	}
	name := once.Key("invoice", "c17", "2026-11")
	for _, price := range []int{100, 100, 120} {
		invoice, err := once.Do(context.Background(), c.Runs("default"), name, Order{price}, makeInvoice, nil)
		switch {
		case errors.Is(err, contracts.CodeRunDiffers): // the name was given to something else
			fmt.Println("another order")
		case err != nil: // not done: once.ErrLocked if another process makes it now
			log.Panic(err)
		default:
			fmt.Println(invoice.Number)
		}
	}

	// Output:
	// made
	// 2026-1107
	// 2026-1107
	// another order
}

// A queue delivers the same analysis twice; it runs once.
func ExampleRun_queue() {
	gate, stop := exampleGate("a-1024")
	defer stop()

	analyze := func(_ context.Context, l once.Lock) (string, error) {
		fmt.Println("analyzing with token", l.Token)
		return "s3://results/a-1024.json", nil
	}
	for range 2 {
		out, err := gate.Run(context.Background(), "a-1024", analyze, nil)
		if err != nil {
			log.Panic(err) // the gate did not respond: let the queue deliver again
		}
		fmt.Println(out.Status)
	}

	// Output:
	// analyzing with token 1
	// ready
	// already_finished
}

// What to tell the queue, and when an analysis that keeps failing becomes FAILED.
func ExampleRun() {
	gate, stop := exampleGate("a-1025")
	defer stop()

	errTimeout := errors.New("the model did not respond")
	work := func(context.Context, once.Lock) (string, error) { return "", errTimeout }
	for {
		out, err := once.Run(context.Background(), gate, "a-1025", work, &once.Options{TTL: time.Minute, MaxFailures: 3})
		if err != nil {
			log.Panic(err)
		}
		switch out.Status {
		case once.Retry, once.NotStored, once.Locked, once.Lost, once.Stopped:
			fmt.Println("deliver again:", out.Status)
		default:
			fmt.Println("done:", out.Status, out.Err)
			return
		}
	}

	// Output:
	// deliver again: attempt_failed
	// deliver again: attempt_failed
	// done: failed the model did not respond
}

// Work in steps asks before each whether it may go on; also a process that was stopped for longer than its lock then
// finds out before it writes.
func ExampleCheck() {
	gate, stop := exampleGate("a-1026")
	defer stop()

	out, err := gate.Run(context.Background(), "a-1026", func(ctx context.Context, l once.Lock) (string, error) {
		for step := range 3 {
			if err := once.Check(ctx); err != nil {
				return "", err
			}
			fmt.Println("step", step, "under token", l.Token)
		}
		return "", nil
	}, nil)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(out.Status)

	// Output:
	// step 0 under token 1
	// step 1 under token 1
	// step 2 under token 1
	// ready
}
