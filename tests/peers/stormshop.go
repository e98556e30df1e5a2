package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// stormTTL is how long a run outlives its process, in the middleware and in Powertools.
const stormTTL = 2 * time.Second

// tell tells the runner of the storm what a handler does, and waits for as long as the runner wants it to.
func tell(ctx context.Context, what, key string) error {
	where := fmt.Sprintf("%s/%s?key=%s&pid=%d", os.Getenv("RUNNER"), what, url.QueryEscape(key), os.Getpid())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, where, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", what, response.Status)
	}
	return nil
}

// order is the body of a request: what is to come of it.
type order struct {
	Outcome string `json:"outcome"` // a status, or thrown
}

// orders is the handler that is behind the middleware: powertools.mjs has the same one.
func orders(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Header.Get(idempotency.Header)
	if err := tell(context.WithoutCancel(r.Context()), "before", key); err != nil {
		panic(err)
	}
	if err := tell(r.Context(), "effect", key); err != nil { // not if the lock is lost: the context says so
		panic(err)
	}
	if err := tell(context.WithoutCancel(r.Context()), "after", key); err != nil {
		panic(err)
	}
	status, err := strconv.Atoi(o.Outcome)
	if err != nil {
		panic("the handler fails")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s for %s", o.Outcome, key)
}

// told tells the runner of a response that is about to be sent: it is stored.
type told struct {
	http.ResponseWriter

	r *http.Request
}

func (w told) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		_ = tell(context.WithoutCancel(w.r.Context()), "stored", w.r.Header.Get(idempotency.Header))
	}
	w.ResponseWriter.WriteHeader(status)
}

// stormShop serves until its standard input ends.
func stormShop(ctx context.Context) error {
	store, err := awsdynamodb.Open(ctx, "leasehold",
		&awsdynamodb.Options{Client: dynamo(strings.TrimPrefix(os.Getenv("STORE"), "http://")), CreateTable: true})
	if err != nil {
		return err
	}
	m, err := idempotency.New(direct.Runs(runs.New(store, nil), tenant, 0),
		func(*http.Request) string { return "one" }, &idempotency.Options{Name: "payments", Required: true, TTL: stormTTL})
	if err != nil {
		return err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	h := m.Wrap(http.HandlerFunc(orders))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(told{w, r}, r)
	}), ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}
