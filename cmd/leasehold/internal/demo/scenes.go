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
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// tenant is whose locks the scenes use.
const tenant = "demo"

// scene is what is done to processes, and what must hold.
type scene struct {
	title, about string
	play         func(*play, context.Context) error
}

var scenes = []scene{
	{"1. Two workers want one lock",
		"POST /v1/tenants/demo/locks/report/acquire, from both at once, three times each", (*play).contend},
	{"2. A task is delivered five times",
		"POST /internal/tasks/analysis, five times at once; the work is a URL that takes its time", (*play).deliver},
	{"3. A worker is killed, and its run is taken over",
		fmt.Sprintf("analysis %s, a lock of %v with heartbeats; the workers are processes of their own", killed, workerTTL),
		(*play).kill},
	{"4. A room lives on one member at a time",
		"POST /v1/tenants/demo/clusters/chat/…: five callers claim it at once; then its member dies, and another takes over",
		(*play).place},
}

// play is what the scenes are played on: a server on the embedded store, and what looks behind it.
type play struct {
	*record

	url        string
	executable string // this program, for worker processes
	analyses   *analysis.Analyses
	rooms      *placement.Service
	office     *office
}

// ErrBroken says that a promise did not hold.
var ErrBroken = errors.New("a promise did not hold")

// Check plays all scenes and writes to out what happens. The error is [ErrBroken] if a promise did not hold, and
// something else if they could not go on.
func Check(ctx context.Context, out io.Writer, o Options) (err error) {
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

	d := newPlay(&record{begin: time.Now(), json: o.JSON, out: out}, store)
	d.executable = o.Executable
	closeAll, err := d.serve(ctx, o.Listen, store)
	defer closeAll()
	if err != nil {
		return err
	}
	if !o.JSON {
		fmt.Fprintf(out, "Leasehold on %s, with its SQLite file in %s for as long as this takes.\n", d.url, dir)
	}
	for _, s := range scenes {
		d.open(s)
		err := s.play(d, ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever failed because of that
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	if !d.summary() {
		return ErrBroken
	}
	return nil
}

func newPlay(r *record, store docstore.Store) *play {
	d := &play{record: r, analyses: analysis.New(store, nil), rooms: placement.New(store, nil)}
	d.office = &office{d: d}
	return d
}

// serve starts the server, and the office whose work it guards, both on this machine only.
func (d *play) serve(ctx context.Context, address string, store docstore.Store) (closeAll func(), err error) {
	var servers []*server
	closeAll = func() {
		for _, s := range servers {
			s.close()
		}
	}
	start := func(address string, h http.Handler) (string, error) {
		s, err := listen(ctx, address)
		if err != nil {
			return "", err
		}
		servers = append(servers, s)
		s.serve(h)
		return s.url, nil
	}
	work, err := start(AnyPort, d.office)
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
	d.url, err = start(address,
		httpapi.New(store, httpapi.Development{}, &httpapi.Options{Routes: []httpapi.Route{endpoint}}))
	return closeAll, err
}

// response is what the server says to a request of a scene: a problem, or what became of a task.
type response struct {
	contracts.Problem

	Outcome contracts.TaskOutcome `json:"outcome"`
}

// post sends one request to the server.
func (d *play) post(ctx context.Context, path, body string, header http.Header) (status int, a response, err error) {
	status, err = post(ctx, http.DefaultClient, d.url+path, header, json.RawMessage(body), &a)
	return status, a, err
}

// gauge counts those who are inside at the same time. It is the scenes' own witness: it knows nothing of the server.
type gauge struct {
	mu                    sync.Mutex
	inside, most, entered int
}

// enter counts one more and returns how many have entered so far.
func (g *gauge) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered++
	g.inside++
	g.most = max(g.most, g.inside)
	return g.entered
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

// seen is how many entered in all, and how many were inside at once at most.
func (g *gauge) seen() (entered, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered, g.most
}
