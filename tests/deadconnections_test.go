//go:build unix

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// blackHole is a proxy whose connections can go dead as those of a network do that drops packets: nothing that is sent
// on them arrives, nothing comes, and nothing says so.
type blackHole struct {
	listener net.Listener
	to       string
	took     atomic.Int64 // bytes that went nowhere
	left     atomic.Int64 // dead connections that their client has closed
	running  sync.WaitGroup

	mu       sync.Mutex
	ways     []*way // that are open
	all      bool   // connections that are made now are dead, too
	accepted int
}

// way is a client's connection and the server's.
type way struct {
	client, server net.Conn
	dead           atomic.Bool
}

func newBlackHole(t *testing.T, to string) *blackHole {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &blackHole{listener: l, to: to}
	h.running.Go(h.accept)
	t.Cleanup(func() {
		_ = l.Close()
		h.mu.Lock()
		for _, w := range h.ways {
			_, _ = w.client.Close(), w.server.Close()
		}
		h.mu.Unlock()
		h.running.Wait()
	})
	return h
}

func (h *blackHole) addr() string { return h.listener.Addr().String() }

func (h *blackHole) accept() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", h.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		w := &way{client: client, server: server}
		h.mu.Lock()
		w.dead.Store(h.all)
		h.ways = append(h.ways, w)
		h.accepted++
		h.mu.Unlock()
		h.running.Go(func() { h.carry(w, client, server, &h.took) })
		h.running.Go(func() { h.carry(w, server, client, nil) })
	}
}

// carry takes what comes from one side to the other, or nowhere.
func (h *blackHole) carry(w *way, from, to net.Conn, took *atomic.Int64) {
	defer h.drop(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		switch {
		case !w.dead.Load():
			if _, failed := to.Write(buf[:n]); failed != nil {
				return
			}
		case took != nil:
			took.Add(int64(n))
		}
		if err != nil {
			if w.dead.Load() && took != nil {
				h.left.Add(1)
			}
			return
		}
	}
}

// drop closes a connection whose other side has closed it, unless it is dead: then nothing arrives, not even that.
func (h *blackHole) drop(w *way) {
	if w.dead.Load() {
		return
	}
	_, _ = w.client.Close(), w.server.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ways = slices.DeleteFunc(h.ways, func(other *way) bool { return other == w })
}

// swallow lets the connections that are open go dead, and with all those as well that are made before heal.
func (h *blackHole) swallow(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all, h.accepted = all, 0
	h.took.Store(0)
	h.left.Store(0)
	for _, w := range h.ways {
		w.dead.Store(true)
	}
}

// heal lets connections that are made from now on work. Dead ones stay dead.
func (h *blackHole) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = false
}

// made is how many connections were made since swallow.
func (h *blackHole) made() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accepted
}

// throughBlackHole are the stores behind one, with the environment and the arguments of a server.
var throughBlackHole = map[string]func(t *testing.T) (h *blackHole, env, args []string){
	"redis, by its stand-in": func(t *testing.T) (h *blackHole, env, args []string) {
		h = newBlackHole(t, redistest.StandIn(t).Addr())
		return h, nil, []string{"--store", "redis", "--redis-addr", h.addr()}
	},
	"redis": func(t *testing.T) (h *blackHole, env, args []string) {
		h = newBlackHole(t, redistest.Start(t).Addr())
		return h, nil, []string{"--store", "redis", "--redis-addr", h.addr()}
	},
	"dynamodb": func(t *testing.T) (h *blackHole, env, args []string) {
		h = newBlackHole(t, strings.TrimPrefix(dynamodbtest.Start(t, nil).URL, "http://"))
		return h, nil, []string{"--store", "dynamodb", "--table", "locks", "--create-table", "--endpoint",
			"http://" + h.addr()}
	},
	"firestore": func(t *testing.T) (h *blackHole, env, args []string) {
		h = newBlackHole(t, firestoretest.Start(t, nil).Addr())
		return h, []string{"FIRESTORE_EMULATOR_HOST=" + h.addr()}, []string{"--store", "firestore", "--project", "demo"}
	},
}

// TestDeadConnections: calls that are under way when connections go dead succeed within their time limit, each once,
// whether only the connections that there are go dead, or all for a while, or those of a process that was stopped. A
// try takes real time, and an emulator must answer in it: this is for the night, with no other test of this package
// beside it. Each adapter's own TestDeadConnections has the same in virtual time, always.
func TestDeadConnections(t *testing.T) {
	suite.Deep(t)
	for name, begin := range throughBlackHole {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hole, env, args := begin(t)
			p := serve(t, env, args...)
			calls := func(round string) (wait func()) { return callTwenty(t, p.url, round) }
			signal := func(s syscall.Signal) {
				t.Helper()
				if err := p.cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			calls("warm")() // so that there are connections

			hole.swallow(false)
			calls("those that there are")()
			if hole.made() == 0 {
				t.Error("nothing was sent on another connection")
			}

			hole.swallow(true)
			wait := calls("all for a while")
			awaited(t, "the first tries are over", func() bool { return hole.left.Load() > 0 && hole.made() > 0 })
			hole.heal()
			wait()

			wait = onDeadConnections(t, hole, "stopped in the middle", calls)
			signal(syscall.SIGSTOP)
			waitUntilStopped(t, p.cmd.Process.Pid)
			late := calls("sent while it was stopped")
			signal(syscall.SIGCONT)
			wait()
			late()

			signal(syscall.SIGSTOP)
			waitUntilStopped(t, p.cmd.Process.Pid)
			hole.swallow(false)
			wait = calls("dead when it goes on")
			signal(syscall.SIGCONT)
			wait()
			ready := func() int {
				response, err := http.Get(p.url + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				return response.StatusCode
			}
			if status := ready(); status != http.StatusOK {
				t.Errorf("afterwards it is not ready: %d", status)
			}
			// The first probe may be what finds the dead connections, in two to three seconds; the next one must not.
			hole.swallow(false)
			if first, second := ready(), ready(); second != http.StatusOK {
				t.Errorf("with connections that went dead it is not ready: %d, then %d", first, second)
			}
		})
	}
}

// onDeadConnections lets the connections that are open go dead, and returns when one of them has taken something of the
// calls that are made then. Calls that found none open, or none that the server used once more, say nothing: others are
// made.
func onDeadConnections(t *testing.T, hole *blackHole, round string, calls func(string) (wait func())) (wait func()) {
	t.Helper()
	for n := range 20 {
		hole.swallow(false)
		wait, done := calls(fmt.Sprint(round, " ", n)), make(chan struct{})
		go func() {
			defer close(done)
			wait()
		}()
		over := false
		awaited(t, "the hole takes something, or the calls are over", func() bool {
			select {
			case <-done:
				over = true
			default:
			}
			return over || hole.took.Load() > 0
		})
		if hole.took.Load() > 0 {
			return func() { <-done }
		}
	}
	t.Fatal("no call was sent on a dead connection")
	return nil
}

// callTwenty acquires twenty locks at once, each with one request. wait waits for the responses: each is a lease, and
// the same request once more is answered with the same one.
func callTwenty(t *testing.T, url, round string) (wait func()) {
	t.Helper()
	acquire := func(key string) (contracts.Lease, error) {
		body, err := json.Marshal(contracts.AcquireRequest{RequestID: "r", OwnerID: "ann", TTLSeconds: 3600})
		if err != nil {
			return contracts.Lease{}, err
		}
		r, err := http.Post(url+"/v1/tenants/default/locks/"+key+"/acquire", "application/json", bytes.NewReader(body))
		if err != nil {
			return contracts.Lease{}, err
		}
		defer func() { _ = r.Body.Close() }()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return contracts.Lease{}, fmt.Errorf("%d, and then %w", r.StatusCode, err)
		}
		if r.StatusCode != http.StatusOK {
			return contracts.Lease{}, fmt.Errorf("%d %s", r.StatusCode, text)
		}
		var lease contracts.Lease
		return lease, json.Unmarshal(text, &lease)
	}
	began := time.Now()
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			key := fmt.Sprintf("%s-%d", strings.ReplaceAll(round, " ", "-"), i)
			lease, err := acquire(key)
			if err != nil {
				t.Errorf("%s: call %d failed after %v: %v", round, i, time.Since(began), err)
				return
			}
			again, err := acquire(key)
			if err != nil || !again.Replayed || again.LeaseID != lease.LeaseID || again.FencingToken != lease.FencingToken {
				t.Errorf("%s: call %d obtained %+v, and again %+v, %v", round, i, lease, again, err)
			}
		})
	}
	return func() {
		running.Wait()
		t.Logf("%s: %v", round, time.Since(began))
	}
}
