package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// payment is what a caller orders.
type payment struct {
	To    string `json:"to"`
	Euros int    `json:"euros"`
}

// shop carries payments out.
type shop struct {
	bank string // its URL
}

// pay is the handler. The middleware sees to it that it does not run for a key that has a response, nor twice at once.
func (s shop) pay(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.Euros <= 0 || p.To == "" {
		http.Error(w, "a payment has a recipient and at least one euro", http.StatusBadRequest)
		return
	}
	dies(r, "before")
	// The key goes on to the bank. If this process dies behind this line, no one knows whether the bank has paid, and the
	// handler runs again: it is the bank that must recognise the key then, or the payment is made twice.
	status, receipt, err := s.ask(r.Context(), bankKey(accountOf(r), r.Header.Get(idempotency.Header)), p)
	dies(r, "after")
	switch {
	case err == nil && status == http.StatusCreated:
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintln(w, receipt)
	case err == nil && status == http.StatusServiceUnavailable: // the bank says that it did nothing
		idempotency.NothingDone(r) // the key is free for another try
		http.Error(w, "the bank is closed", http.StatusServiceUnavailable)
	default: // it may have paid: this response is stored, and no retry pays again
		http.Error(w, "the bank does not respond", http.StatusBadGateway)
	}
}

// ask asks the bank for a payment.
func (s shop) ask(ctx context.Context, key string, p payment) (status int, receipt string, err error) {
	body, err := json.Marshal(p)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.bank, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set(idempotency.Header, key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	receipt, err = text(response)
	return response.StatusCode, receipt, err
}

// accountOf is whose request it is: what authentication found, in a real shop.
func accountOf(r *http.Request) string { return r.Header.Get("X-Account") }

// bankKey is the key for the bank. Two accounts may make up the same key, and a key is the same with quotes and without
// them.
func bankKey(account, key string) string { return account + "/" + strings.Trim(key, `"`) }

// handler is the shop: the handler behind the middleware, on a store in a file that all processes of the shop share.
func handler(ctx context.Context, dir, bank string) (http.Handler, error) {
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		return nil, err
	}
	m, err := idempotency.New(direct.Runs(runs.New(store, nil), "shop", 0), accountOf, &idempotency.Options{
		Name:     "payments",
		Required: true,
		TTL:      2 * time.Second, // how long a payment waits after its process died; so short that it is easy to see
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", dying(m.Wrap(http.HandlerFunc(shop{bank}.pay))))
	return mux, nil
}

// What follows is no part of a shop: it makes a process of it that kills itself where a request says so.

// killHeader of a request is the step at which the process that carries it out kills itself.
const killHeader = "X-Kill"

// serveShop serves until its standard input ends: when the process that started it does.
func serveShop(ctx context.Context, dir, bank string) error {
	h, err := handler(ctx, dir, bank)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return (&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}).Serve(listener)
}

// dies kills this process (SIGKILL) if the request asks for that at this step.
func dies(r *http.Request, step string) {
	if r.Header.Get(killHeader) != step {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal arrives
}

// dying is a handler around the middleware: what reaches its response writer is stored already.
func dying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&writer{w, r}, r)
	})
}

type writer struct {
	http.ResponseWriter

	r *http.Request
}

func (w *writer) WriteHeader(status int) {
	dies(w.r, "stored")
	w.ResponseWriter.WriteHeader(status)
}
