// Command payments shows payments that are made once: while a caller clicks many times, and while the processes that
// carry them out are killed at each step.
//
//	go run ./examples/payments            a page to click, on 127.0.0.1
//	go run ./examples/payments --walk     one case after the other, here in the terminal
//	go run ./examples/payments --storm    many at once, processes killed at random steps; then the ledger is counted
//
// shop.go is what to copy: a handler behind the middleware, and how it calls a bank. Two processes run it, on one
// SQLite file. bank.go is the bank with its ledger, front.go starts the shop's processes again when they were killed,
// and caller.go is a caller that retries.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/examples/internal/start"
)

const help = `Payments that are made once, while processes are killed.

  go run ./examples/payments            a page to click
  go run ./examples/payments --walk     one case after the other, in the terminal
  go run ./examples/payments --storm    many payments at once, then the ledger is counted

A caller sends each payment with a key (the header Idempotency-Key), and sends
it again, with the same key, until it has a response. Two processes of a shop
carry payments out. They are killed at one of these steps:

  before    before the bank is asked
  after     after the bank has paid, before the response is stored
  stored    after the response is stored, before it is sent

The recipient chooses the bank:

  bob       knows keys: a payment that it has made it does not make again
  carol     is closed when it is first asked
  dave      pays, and does not say so
  erin      does not look at keys: after a kill at the step "after" it pays twice

--storm ends with 1 if a payment that was answered with 201 was made twice or
not at all, or if any was made twice. With --to erin it finds some.

`

//go:embed page.html
var page []byte

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return serveShop(ctx, args[0], args[1]) })
}

// show opens everything, and does with it what the flags say.
func show(ctx context.Context) error {
	walks := flag.Bool("walk", false, "show one case after the other")
	storms := flag.Bool("storm", false, "send many payments, kill processes, and count the ledger")
	keys := flag.Int("keys", 24, "with --storm: how many payments")
	clients := flag.Int("clients", 8, "with --storm: how many callers send each payment at once")
	seed := flag.Uint64("seed", 1, "with --storm: chooses the steps at which processes are killed")
	to := flag.String("to", "bob", "with --storm: who is paid")
	listen := flag.String("listen", "127.0.0.1:8090", "where the page is")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()

	if *walks || *storms {
		*listen = start.AnyPort
	}
	w, err := open(ctx, *listen)
	if err == nil {
		switch {
		case *walks:
			err = w.walk(ctx)
		case *storms:
			err = w.storm(ctx, storm{keys: *keys, clients: *clients, seed: *seed, to: *to})
		default:
			fmt.Printf("open %s in a browser; the ledger is %s; Ctrl-C ends it\n", w.url, w.bank.file.Name())
			<-ctx.Done()
		}
		err = errors.Join(err, w.close())
	}
	return err
}

// world is all that runs: the bank, the shop's processes, and a server in front of them.
type world struct {
	url    string
	dir    string // of the ledger and the shop's SQLite file
	bank   *bank
	front  *front
	server *http.Server
}

// open starts everything, in a new directory.
func open(ctx context.Context, listen string) (*world, error) {
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	w.url = "http://" + listener.Addr().String()
	if w.bank, err = openBank(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	mux := http.NewServeMux()
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	mux.Handle("POST /bank/payments", w.bank) // another company's, in truth
	mux.HandleFunc("GET /ledger", w.ledger)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	if w.front, err = openFront(ctx, dir, w.url+"/bank/payments"); err != nil {
		return nil, errors.Join(err, w.close())
	}
	mux.Handle("POST /payments", w.front)
	go func() { _ = w.server.Serve(listener) }()
	return w, nil
}

// close ends everything, and removes the directory.
func (w *world) close() error {
	if w.front != nil {
		w.front.close()
	}
	return errors.Join(w.server.Close(), w.bank.file.Close(), os.RemoveAll(w.dir))
}

// ledger responds with the lines of the ledger that have a key.
func (w *world) ledger(rw http.ResponseWriter, r *http.Request) {
	lines, err := w.bank.lines()
	mine := []line{}
	for _, l := range lines {
		if l.Key == bankKey(accountOf(r), r.URL.Query().Get("key")) {
			mine = append(mine, l)
		}
	}
	body, bad := json.Marshal(struct {
		Lines  []line `json:"lines"`
		All    int    `json:"all"`
		Killed int64  `json:"killed"`
	}{mine, len(lines), w.front.killed.Load()})
	if err := errors.Join(err, bad); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(body)
}

// text is what a response says.
func text(r *http.Response) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	return strings.TrimSpace(string(b)), errors.Join(err, r.Body.Close())
}
