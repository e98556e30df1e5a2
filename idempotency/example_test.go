package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// A payment that is carried out once, however often its request is sent.
func Example() { //nolint:testableexamples // it needs a server
	payments := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux := http.NewServeMux()

	c, err := client.New("https://leasehold.example", nil)
	if err != nil {
		log.Fatal(err)
	}
	account := func(r *http.Request) string { return r.Header.Get("X-Account") } // what authentication found
	m, err := idempotency.New(c.Runs("shop"), account, &idempotency.Options{Name: "payments"})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("POST /payments", m.Wrap(payments))
}

// The same gate without a server.
func ExampleNew() {
	account := func(*http.Request) string { return "ann" }
	store := docstore.NewMemory(nil) // or one of adapters/

	m, err := idempotency.New(direct.Runs(runs.New(store, nil), "shop", 0), account,
		&idempotency.Options{Name: "payments"})

	fmt.Println(m != nil, err)
	// Output: true <nil>
}

// A process that ends says what is not stored yet.
func ExampleMiddleware_Shutdown() { //nolint:testableexamples // it needs a server
	var server http.Server
	var m *idempotency.Middleware
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	if err := errors.Join(server.Shutdown(ctx), m.Shutdown(ctx)); err != nil {
		log.Print(err)
	}
}

// A handler says that a request had no effect, and may be carried out again.
func ExampleNothingDone() {
	open := func() bool { return false }
	pay := func(http.ResponseWriter, *http.Request) {}

	handler := func(w http.ResponseWriter, r *http.Request) {
		if !open() { // the bank was not asked for anything
			idempotency.NothingDone(r)
			http.Error(w, "the bank is closed", http.StatusServiceUnavailable)
			return
		}
		pay(w, r)
	}

	m, err := idempotency.New(direct.Runs(runs.New(docstore.NewMemory(nil), nil), "shop", 0),
		func(*http.Request) string { return "ann" }, &idempotency.Options{Name: "payments"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		w := post(m.Wrap(http.HandlerFunc(handler)), "k1", "ten")
		fmt.Println(w.Code, replayed(w))
	}
	// Output:
	// 503 false
	// 503 false
}

// The earlier result of a function.
func Example_function() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	type Order struct{ Price int }
	order := Order{Price: 12}
	makeInvoice := func(context.Context, once.Lock) (string, error) { return "invoice 17", nil }
	c, err := client.New("https://leasehold.example", nil)
	if err != nil {
		log.Fatal(err)
	}

	// Another order under this name is refused (RUN_DIFFERS).
	invoice, err := once.Do(ctx, c.Runs("shop"), once.Key("invoice", "c17", "2026-11"), order, makeInvoice, &once.Options{
		Wait: time.Minute, // for the result of another worker that makes it now
	})
	fmt.Println(invoice, err)
}

// TestPagesShowTheExamples: the code on the pages of documentation is that of the examples, which compile.
func TestPagesShowTheExamples(t *testing.T) {
	var pages []byte
	for _, name := range []string{"tutorials/payment.md", "guides/idempotency.md"} {
		page, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	var sources []byte
	for _, name := range []string{"example_test.go", "../examples/payments/shop.go", "../fence/example_test.go"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, file...)
	}
	code := string(regexp.MustCompile(`(?m)^\s*dies\(.*$`).ReplaceAll(sources, nil)) // without where the example is killed
	flat := func(s string) string { return regexp.MustCompile(`\s+`).ReplaceAllString(s, " ") }
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(pages), -1)
	if len(blocks) != 7 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(flat(code), flat(b[1])) {
			t.Errorf("no example has\n%s", b[1])
		}
	}
}
