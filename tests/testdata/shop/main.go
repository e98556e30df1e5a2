// Command shop is a web server whose payments are made once, by package idempotency. TestNeighbours builds it with the
// libraries of this version and of the one before. Its argument is the URL of a Leasehold server.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/idempotency"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func serve() error {
	c, err := client.New(os.Args[1], nil)
	if err != nil {
		return err
	}
	m, err := idempotency.New(c.Runs("shop"), func(*http.Request) string { return "ann" },
		&idempotency.Options{Name: "payments"})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on http://" + l.Addr().String())
	s := http.Server{ReadHeaderTimeout: time.Minute, Handler: m.Wrap(http.HandlerFunc(pay))}
	return s.Serve(l)
}

// pay is a payment. Each process calls it otherwise.
func pay(w http.ResponseWriter, r *http.Request) {
	order, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"order":%q,"by":%d}`, order, os.Getpid())
}
