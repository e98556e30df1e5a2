package kazahana_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// idServer stands in for `leasehold serve` in the examples.
func idServer() *httptest.Server {
	return httptest.NewServer(serve(newTable(64, 10*time.Minute, time.Now)))
}

// Without a provider: for development and for small services.
func Example_standalone() {
	ids, err := kazahana.New(nil, nil)
	if err != nil {
		log.Panic(err)
	}
	first, err := ids.NextID(context.Background())
	if err != nil {
		log.Panic(err)
	}
	second, err := ids.NextID(context.Background())
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(first < second, ids.Layout().Decode(first).Fallback)
	// Output: true true
}

// Machine IDs from a server, with a token if it asks for one.
func Example() {
	server := idServer()
	defer server.Close()

	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	ids, err := kazahana.New(c.MachineIDs(), &kazahana.Options{ServiceID: "payment-service"})
	if err != nil {
		log.Panic(err)
	}
	defer ids.Close(context.Background())

	id, err := ids.NextID(context.Background())
	if err != nil {
		log.Panic(err)
	}
	parts := ids.Layout().Decode(id)
	fmt.Println(time.Since(parts.Time) < time.Minute, parts.Fallback, parts.MachineID, parts.Sequence)
	// Output: true false 0 0
}

// At the end the leases go back, so that their machine IDs are free at once and not after ten minutes.
func ExampleGenerator_Close() {
	server := idServer()
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	ids, err := kazahana.New(c.MachineIDs(), nil)
	if err != nil {
		log.Panic(err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() { // work, until someone ends it
		_, _ = ids.NextID(ctx)
		stop()
	}()
	<-ctx.Done()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := ids.Close(ctx); err != nil {
		log.Print(err) // they run out by themselves
	}
	_, err = ids.NextID(ctx)
	fmt.Println(errors.Is(err, kazahana.ErrClosed))
	// Output: true
}

// Up to 1024 IDs in a millisecond: four leases of the default layout. A batch is the cheapest way to many.
func ExampleGenerator_NextIDs() {
	server := idServer()
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	ids, err := kazahana.New(c.MachineIDs(), &kazahana.Options{MaxThroughputPerMs: 1024})
	if err != nil {
		log.Panic(err)
	}
	defer ids.Close(context.Background())

	batch := make([]kazahana.ID, 1000)
	if err := ids.NextIDs(context.Background(), batch); err != nil {
		log.Panic(err)
	}
	fmt.Println(batch[0] < batch[999], ids.Stats().ActiveLeases)
	// Output: true 4
}

// In a virtual machine whose clock is set every now and then: wait for it, however long that takes.
func ExampleOptions_virtualMachine() {
	server := idServer()
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		log.Panic(err)
	}
	ids, err := kazahana.New(c.MachineIDs(), &kazahana.Options{MaxBackwardMs: new(int64(-1))})
	if err != nil {
		log.Panic(err)
	}
	defer ids.Close(context.Background())
	_, err = ids.NextID(context.Background())
	fmt.Println(err)
	// Output: <nil>
}

// Where a duplicate must never happen: no ID without a lease, none from a clock that was set back. When the provider is
// away, there are no IDs, and the caller has to live with that.
func ExampleOptions_strict() {
	server := idServer()
	url := server.URL
	server.Close() // an outage

	c, err := client.New(url, nil)
	if err != nil {
		log.Panic(err)
	}
	ids, err := kazahana.New(c.MachineIDs(), &kazahana.Options{MaxBackwardMs: new(int64(0)), DisableFallback: true})
	if err != nil {
		log.Panic(err)
	}
	defer ids.Close(context.Background())

	_, err = ids.NextID(context.Background())
	if _, ok := errors.AsType[*kazahana.LeaseAcquisitionError](err); ok {
		fmt.Println("no ID for now")
	}
	// Output: no ID for now
}
