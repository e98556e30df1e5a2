// Command chat is a page with chat rooms. Each room lives in one of two processes, which are replaced and killed by the
// press of a button, and no one in a room sees an error.
//
//	go run ./examples/chat
//
// room.go is what to copy: a process that hosts rooms behind a cluster.Handler. This file starts a server in memory,
// the processes, and the front, which has the page and no rooms: it forwards WebSockets to where the room is.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
)

//go:embed page.html
var page []byte

func main() {
	listen := flag.String("listen", "127.0.0.1:8082", "address of the page")
	ttl := flag.Duration("ttl", 3*time.Second, "lease of a process: so long after a kill its rooms are without one")
	flag.Parse()
	start.Main(func(ctx context.Context) error { return front(ctx, *listen, *ttl) },
		func(_ context.Context, a []string) error { return host(a[0], a[1], a[2], a[3], a[4:]) }) // the front stops it
}

// identity is the room of a request: /rooms/NAME.
func identity(r *http.Request) (cluster.Identity, bool) {
	name, ok := strings.CutPrefix(r.URL.Path, "/rooms/")
	return cluster.Identity{Kind: "room", ID: name}, ok && name != ""
}

// front is the process with the page.
func front(ctx context.Context, listen string, ttl time.Duration) error {
	url, server, err := start.Server(ctx, start.AnyPort, start.API())
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // over
	f := &fleet{server: url, secret: rand.Text() + rand.Text(), ttl: ttl,
		all: map[string]*process{}}
	defer f.end()
	for range 2 {
		if err := f.start(ctx, nil); err != nil {
			return err
		}
	}
	c, err := client.New(f.server, nil)
	if err != nil {
		return err
	}
	l := cluster.NewLocator(c.Placements("default", "chat"), &cluster.LocatorOptions{Observe: failures("the front")})
	if err := l.Start(ctx); err != nil {
		return err
	}
	defer l.Stop()
	// After a kill a room is without a process for as long as the lease lasts, and on a busy machine a while longer.
	rooms, err := cluster.NewHandler(nil, l, nil, cluster.HandlerOptions{Identity: identity, Secret: []byte(f.secret),
		Wait: ttl + time.Minute, Tries: 1000})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/rooms/", rooms)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("POST /processes/{name}/{what}", func(w http.ResponseWriter, r *http.Request) {
		if err := f.change(ctx, r.PathValue("name"), r.PathValue("what")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	at, public, err := start.Server(ctx, listen, http.NewCrossOriginProtection().Handler(mux))
	if err != nil {
		return err
	}
	defer public.Close() //nolint:errcheck // over
	fmt.Printf("Open %s in two windows. End it with Ctrl+C.\n", at)
	<-ctx.Done()
	return nil
}

// fleet is the processes that host rooms.
type fleet struct {
	server, secret string
	ttl            time.Duration

	mu   sync.Mutex
	last int
	all  map[string]*process
}

// process is one of them.
type process struct {
	name, incarnation string
	*start.Process
}

// start starts a process and waits until it hosts rooms, in the place of another one if that is not nil.
func (f *fleet) start(ctx context.Context, replaces *process) error {
	f.mu.Lock()
	f.last++
	p := &process{name: "process-" + strconv.Itoa(f.last)}
	f.mu.Unlock()
	is := []string{p.name, f.server, f.secret, f.ttl.String()}
	if replaces != nil {
		is = append(is, replaces.name, replaces.incarnation)
	}
	var err error
	if p.Process, err = start.Start(context.WithoutCancel(ctx), is...); err != nil { // stop ends it
		return err
	}
	if p.incarnation, err = p.First(); err != nil {
		return fmt.Errorf("%s does not start: %w", p.name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[p.name] = p
	return nil
}

// take takes a process out of the fleet.
func (f *fleet) take(name string) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.all[name]
	if p == nil {
		return nil, fmt.Errorf("there is no %s", name) //nolint:err113 // for people
	}
	delete(f.all, name)
	return p, nil
}

// change replaces a process by another one, or kills it and starts another one.
func (f *fleet) change(ctx context.Context, name, what string) error {
	p, err := f.take(name)
	if err != nil {
		return err
	}
	if what == "kill" {
		err := p.Cmd.Process.Kill()
		_ = p.Wait() // it says that the process was killed
		started := f.start(ctx, nil)
		return errors.Join(err, started)
	}
	started := f.start(ctx, p)
	return errors.Join(started, p.stop())
}

// stop ends a process: it hands its rooms over first.
func (p *process) stop() error {
	_ = p.In.Close()
	return p.Wait()
}

// end stops all.
func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.all {
		_ = p.stop()
	}
}
