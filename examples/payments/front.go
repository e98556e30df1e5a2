package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/idempotency"
)

// shops is how many processes the shop has.
const shops = 2

// front is what a platform does: it passes requests on to the processes in turn, and starts one again that has ended.
type front struct {
	httputil.ReverseProxy

	addresses [shops]atomic.Pointer[string]
	turn      atomic.Uint32
	killed    atomic.Int64 // processes
	died      sync.Map     // the keys of requests whose process was killed
	stop      context.CancelFunc
	running   sync.WaitGroup
}

func openFront(ctx context.Context, dir, bank string) (*front, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &front{stop: stop}
	f.Transport = &http.Transport{DialContext: f.dial, DisableKeepAlives: true} // each request has its turn
	f.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "shop"})
		if _, ok := f.died.Load(r.In.Header.Get(idempotency.Header)); ok {
			r.Out.Header.Del(killHeader) // those who wait would have one process after the other killed
		}
		r.Out.Host = r.In.Host // the host is a part of what is compared: the same request has the same one everywhere
	}
	f.ErrorHandler = func(w http.ResponseWriter, r *http.Request, _ error) {
		f.died.Store(r.Header.Get(idempotency.Header), true)
		http.Error(w, "the process was killed", http.StatusBadGateway)
	}
	for i := range f.addresses {
		process, err := begin(ctx, dir, bank, &f.addresses[i])
		if err != nil {
			f.close()
			return nil, err
		}
		f.running.Go(func() {
			for {
				_ = process.Wait()
				if ctx.Err() != nil {
					return
				}
				f.killed.Add(1)
				if process, err = begin(ctx, dir, bank, &f.addresses[i]); err != nil {
					if ctx.Err() == nil {
						fmt.Fprintln(os.Stderr, "payments: a process of the shop does not start again:", err)
					}
					return
				}
			}
		})
	}
	return f, nil
}

// dial connects to the process whose turn it is, or to another one while that is not back. If none is, it waits.
func (f *front) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for tries := 1; ; tries++ {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, *f.addresses[f.turn.Add(1)%shops].Load())
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		if tries%shops == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// begin starts a process of the shop, and notes where it listens. It ends when this process does.
func begin(ctx context.Context, dir, bank string, address *atomic.Pointer[string]) (*start.Process, error) {
	process, err := start.Start(ctx, dir, bank)
	if err != nil {
		return nil, err
	}
	said, err := process.First()
	if err != nil {
		return nil, err
	}
	address.Store(&said)
	return process, nil
}

// close ends the processes.
func (f *front) close() {
	f.stop()
	f.running.Wait()
}
