package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/stage"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// tenant is whose locks the show uses.
const tenant = "demo"

// demo is the theatre: a server on the embedded store, and what looks behind it.
type demo struct {
	*terminal

	url        string
	executable string // this program, for worker processes
	analyses   *analysis.Analyses
	rooms      *placement.Service
	office     *office
}

// Options are the settings of [Run].
type Options struct {
	Executable string // the program that [Work] is run in, as "demo --worker …"
	JSON       bool   // one JSON object a line, for machines
}

// ErrBroken says that a promise did not hold.
var ErrBroken = errors.New("a promise did not hold")

// Run plays the whole show and writes it to out. The error is [ErrBroken] if a promise did not hold, and something else
// if the show could not go on.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	dir, err := os.MkdirTemp("", "leasehold-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "leasehold.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	d := &demo{
		terminal: &terminal{begin: time.Now(), json: o.JSON, out: out}, executable: o.Executable,
		analyses: analysis.New(store, nil),
		rooms:    placement.New(store, nil),
	}
	d.office = &office{d: d}
	closeAll, err := d.serve(ctx, store)
	if err != nil {
		return err
	}
	defer closeAll()
	if !o.JSON {
		fmt.Fprintf(out, "Leasehold on %s, with its SQLite file in %s for as long as this takes.\n", d.url, dir)
	}
	for _, act := range []func(context.Context) error{d.contend, d.deliver, d.kill, d.place} {
		err := act(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever failed because of that
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.act, err)
		}
	}
	if !d.summary() {
		return ErrBroken
	}
	return nil
}

// serve starts the server and the office whose work it guards, both on this machine only.
func (d *demo) serve(ctx context.Context, store docstore.Store) (closeAll func(), err error) {
	var servers []*stage.Server
	closeAll = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	start := func(h http.Handler) (string, error) {
		s, err := stage.Listen(ctx, stage.AnyPort)
		if err != nil {
			return "", err
		}
		servers = append(servers, s)
		s.Serve(h)
		return s.URL, nil
	}
	work, err := start(d.office)
	if err != nil {
		return closeAll, err
	}
	target, err := tasks.NewTarget(work, nil)
	if err != nil {
		return closeAll, err
	}
	endpoint, err := tasks.Endpoint{
		Guard: tasks.Development{}, Worker: &tasks.Worker{Gate: direct.Analyses(d.analyses), Work: target.Run},
	}.Route(ctx)
	if err != nil {
		return closeAll, err
	}
	d.url, err = start(httpapi.New(store, httpapi.Development{}, &httpapi.Options{Routes: []httpapi.Route{endpoint}}))
	return closeAll, err
}

// response is what the server says to a request of the demonstration: a problem, or what became of a task.
type response struct {
	contracts.Problem

	Outcome contracts.TaskOutcome `json:"outcome"`
}

// post sends one request to the server.
func (d *demo) post(ctx context.Context, path, body string, header http.Header) (status int, a response, err error) {
	status, err = stage.Post(ctx, http.DefaultClient, d.url+path, header, json.RawMessage(body), &a)
	return status, a, err
}
