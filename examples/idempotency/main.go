// Command idempotency shows a payment that is sent many times and carried out once. Run it with
//
//	go run ./examples/idempotency
//
// It starts a Leasehold server in memory and two web servers of a shop, and sends 64 requests with one Idempotency-Key
// to both at once; then the same key with another amount; then a payment that the bank does not accept the first time;
// then one of which no one knows whether it was made.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func main() {
	if err := show(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "idempotency:", err)
		os.Exit(1)
	}
}

// bank counts what was paid.
type bank struct {
	payments, closed atomic.Int64
}

// ServeHTTP carries out a payment. The bank is closed for the first one to "carol", and makes the one to "dave" without
// saying so.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(300 * time.Millisecond) // the bank takes its time
	if strings.Contains(string(order), "carol") && b.closed.Add(1) == 1 {
		idempotency.NothingDone(r) // the key is free for another try
		http.Error(w, "the bank is closed", http.StatusServiceUnavailable)
		return
	}
	n := b.payments.Add(1)
	if strings.Contains(string(order), "dave") { // it was paid, and the handler does not know
		http.Error(w, "the bank does not respond", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "payment %d: %s", n, order)
}

// serve starts a server on a free port, and returns its URL.
func serve(ctx context.Context, h http.Handler) (url string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
}

// shop is one of several web servers that share a Leasehold server.
func shop(leasehold string, payments http.Handler) (http.Handler, error) {
	c, err := client.New(leasehold, nil)
	if err != nil {
		return nil, err
	}
	// what authentication found, in a real shop
	account := func(r *http.Request) string { return r.Header.Get("X-Account") }
	m, err := idempotency.New(c.Runs("default"), account, nil)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", m.Wrap(payments))
	return mux, nil
}

// response is what a caller sees.
type response struct {
	text     string
	replayed bool
}

func pay(ctx context.Context, url, key, order string) (response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/payments", strings.NewReader(order))
	if err != nil {
		return response{}, err
	}
	r.Host = "shop.example" // what the caller asks for; which of the servers gets it is the balancer's choice
	r.Header.Set(idempotency.Header, key)
	r.Header.Set("X-Account", "ann")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return response{}, err
	}
	defer w.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(w.Body)
	return response{fmt.Sprintf("%d %s", w.StatusCode, strings.TrimSpace(string(body))),
		w.Header.Get(idempotency.ReplayedHeader) == "true"}, err
}

func show(ctx context.Context) error {
	leasehold, stop, err := serve(ctx, httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	if err != nil {
		return err
	}
	defer stop()
	var b bank
	var shops [2]string
	for i := range shops {
		h, err := shop(leasehold, &b)
		if err != nil {
			return err
		}
		if shops[i], stop, err = serve(ctx, h); err != nil {
			return err
		}
		defer stop()
	}

	var all sync.WaitGroup
	var got [64]response
	var errs [64]error
	for i := range got {
		all.Go(func() { got[i], errs[i] = pay(ctx, shops[i%2], "order-1024", "10 euros to bob") })
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	equal, replayed := 0, 0
	for _, r := range got {
		if r.text == got[0].text {
			equal++
		}
		if r.replayed {
			replayed++
		}
	}
	fmt.Printf("64 requests, %d payment, %d equal responses, %d of them replayed: %s\n", b.payments.Load(), equal,
		replayed, got[0].text)

	other, err := pay(ctx, shops[0], "order-1024", "99 euros to bob")
	if err != nil {
		return err
	}
	status, _, _ := strings.Cut(other.text, " ")
	fmt.Printf("the same key with another amount: %s, %d payment\n", status, b.payments.Load())

	for _, s := range shops {
		r, err := pay(ctx, s, "order-1025", "5 euros to carol")
		if err != nil {
			return err
		}
		fmt.Printf("a bank that is closed the first time: %s\n", r.text)
	}
	for _, s := range shops {
		r, err := pay(ctx, s, "order-1026", "7 euros to dave")
		if err != nil {
			return err
		}
		fmt.Printf("a bank that pays and does not say so: %s, %d payments\n", r.text, b.payments.Load())
	}
	return nil
}
