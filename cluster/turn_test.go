package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
)

// TestTurns: of those who ask for the turn of an activation one has it at a time, in the order in which they asked; one
// that gives up waiting is passed over, and one that is lost waits no longer.
func TestTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann := w.start("ann", nil)
		held, err := ann.Hold(t.Context(), room("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release()
		first, err := held.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		at := 0
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				ctx := t.Context()
				if i%5 == 4 {
					short, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					ctx = short
				}
				end, err := held.Turn(ctx)
				if i%5 == 4 {
					if busy, ok := errors.AsType[*cluster.BusyError](err); !ok || busy.Identity != room("a") ||
						!errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if at++; at != 1 {
					t.Errorf("%d have the turn", at)
				}
				order = append(order, i)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				at--
				mu.Unlock()
				end()
				end() // counts once
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		if len(order) != 0 {
			t.Errorf("%v came before their turn", order)
		}
		first()
		work.Wait()
		if !slices.IsSorted(order) || len(order) != 16 {
			t.Errorf("in the order %v", order)
		}
		other, err := ann.Hold(t.Context(), room("b"), nil)
		if err != nil {
			t.Fatal(err)
		}
		end, err := held.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		endOther, err := other.Turn(t.Context()) // of another identity: at once
		if err != nil {
			t.Fatal(err)
		}
		endOther()
		other.Release()
		lost := make(chan error, 1)
		go func() {
			_, err := held.Turn(t.Context())
			lost <- err
		}()
		synctest.Wait()
		w.freeze(time.Minute) // the lease ends
		time.Sleep(10 * time.Second)
		if _, ok := errors.AsType[*cluster.NotHereError](<-lost); !ok {
			t.Error("one that waits for a turn of what is lost goes on")
		}
		end()
		held.Release()
		w.stop(ann)
	})
}

// serves has a site serve with a function.
func (s *site) serves(f http.HandlerFunc) { s.inner.Store(&f) }

// TestHandlerTurns: requests for one identity are served one after the other, in the order in which they arrive, here
// and by way of another member; so what the activation has needs no lock, and its state is written in turn. Those for
// another identity do not wait.
func TestHandlerTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		count := 0 // without a lock
		var order []string
		bob.serves(func(rw http.ResponseWriter, r *http.Request) {
			call, _ := cluster.CallOf(r.Context())
			if call.ID != there {
				fmt.Fprint(rw, "another")
				return
			}
			if was, _ := strconv.Atoi(string(call.State)); was != count {
				t.Errorf("the call knows the state %d, of %d", was, count)
			}
			was := count
			order = append(order, r.URL.RawQuery)
			time.Sleep(100 * time.Millisecond)
			count = was + 1
			if err := bob.WriteState(r.Context(), call.Identity, []byte(strconv.Itoa(count))); err != nil {
				t.Error(err)
			}
			fmt.Fprint(rw, count)
		})
		var work sync.WaitGroup
		for i := range 30 {
			work.Go(func() {
				if got := []*site{ann, bob}[i%2].get(t, fmt.Sprintf("/rooms/%s?%02d", there, i)); got != fmt.Sprint("200 ", i+1) {
					t.Errorf("%d: %s", i, got)
				}
			})
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		for i := range 1000 {
			if where, _ := ann.l.Locate(t.Context(), room(strconv.Itoa(i)), nil); where.Member == "bob" && where.ID != there {
				if got := ann.get(t, "/rooms/"+where.ID); got != "200 another" || time.Since(start) > 10*time.Millisecond {
					t.Errorf("another identity: %s after %v", got, time.Since(start))
				}
				break
			}
		}
		work.Wait()
		if !slices.IsSorted(order) || len(order) != 30 || string(w.record(room(there)).State) != "30" {
			t.Errorf("%v; state %q", order, w.record(room(there)).State)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerQueue: a request that finds as many others waiting as may, or waits for as long as it may, is refused
// without having been begun, also by way of another member, and is not tried again. Each is an event.
func TestHandlerQueue(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{Queue: 2, Wait: 5 * time.Second})
		there := bob.at(t, ann.l)
		bob.serves(func(http.ResponseWriter, *http.Request) { time.Sleep(9 * time.Second) })
		busy := func(after time.Duration) {
			t.Helper()
			start := time.Now()
			res := httptest.NewRecorder()
			ann.server.Handler.ServeHTTP(res, request(t, "/rooms/"+there, nil))
			if res.Code != http.StatusServiceUnavailable || res.Header().Get("Retry-After") != "1" ||
				!strings.Contains(res.Body.String(), "busy") || time.Since(start) != after {
				t.Errorf("%d %v %s after %v", res.Code, res.Header(), res.Body, time.Since(start))
			}
		}
		var work sync.WaitGroup
		work.Go(func() { ann.get(t, "/rooms/"+there) })
		synctest.Wait()
		work.Go(func() { busy(5 * time.Second) })
		work.Go(func() { busy(5 * time.Second) })
		synctest.Wait()
		busy(0)
		work.Wait()
		if n := bob.calls.Load(); n != 1 {
			t.Errorf("%d requests were begun", n)
		}
		failed := bob.events.has(cluster.RequestFailed)
		for _, e := range failed {
			if busy, ok := errors.AsType[*cluster.BusyError](e.Err); !ok || busy.Identity != room(there) {
				t.Errorf("%+v", e)
			}
		}
		if len(failed) != 3 {
			t.Errorf("%+v", failed)
		}
		for _, o := range []cluster.HandlerOptions{{Queue: -1}, {CallWithin: -1}} {
			o.Identity, o.Secret = identity, secret
			if _, err := cluster.NewHandler(nil, ann.l, nil, o); err == nil {
				t.Errorf("%+v", o)
			}
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerOfItself: a request that asks for its own identity waits for itself, until that is given up; then it goes
// on.
func TestHandlerOfItself(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		bob.serves(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				fmt.Fprint(rw, "inner: ", ann.get(t, "/rooms/"+there+"?again"))
			}
		})
		start := time.Now()
		if got := ann.get(t, "/rooms/"+there); !strings.HasPrefix(got, "200 inner: 503") ||
			time.Since(start) != 15*time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerStreamsAndTurns: an upgraded connection does not keep the turn of its identity, nor does a stream that has
// ended it. Both can have another one.
func TestHandlerStreamsAndTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		messages := 0 // without a lock
		var streams sync.WaitGroup
		bob.serves(func(rw http.ResponseWriter, r *http.Request) {
			call, _ := cluster.CallOf(r.Context())
			switch {
			case r.Header.Get("Upgrade") != "":
				conn, both, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				for {
					if _, err := both.ReadString('\n'); err != nil {
						return
					}
					end, err := call.Turn(r.Context())
					if err != nil {
						t.Error(err)
						return
					}
					was := messages
					time.Sleep(10 * time.Millisecond)
					messages = was + 1
					end()
					fmt.Fprintln(conn, was)
				}
			case r.URL.RawQuery == "stream":
				streams.Add(1)
				defer streams.Done()
				rw.(http.Flusher).Flush() // it has its turn still
				if end, err := call.Turn(r.Context()); err != nil {
					t.Error(err)
				} else {
					end() // of nothing
				}
				was := messages
				time.Sleep(10 * time.Millisecond)
				messages = was + 1
				call.EndTurn()
				call.EndTurn()
				<-r.Context().Done()
			default:
				was := messages
				time.Sleep(10 * time.Millisecond)
				messages = was + 1
			}
		})
		conn, lines := ann.upgrade(t, there)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 3 {
			work.Go(func() {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://ann:1/rooms/"+there+"?stream", nil)
				res, err := ann.client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				_, _ = io.Copy(io.Discard, res.Body)
			})
			work.Go(func() {
				if got := ann.get(t, "/rooms/"+there); !strings.HasPrefix(got, "200") {
					t.Error(got)
				}
			})
		}
		for range 5 {
			fmt.Fprintln(conn, "line")
			if _, err := lines.ReadString('\n'); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Minute) // longer than a request may have its turn: the streams last
		if got := ann.get(t, "/rooms/"+there); !strings.HasPrefix(got, "200") || messages != 12 {
			t.Errorf("%s, %d messages of 12", got, messages)
		}
		if n := len(bob.has(cluster.Abandoned)); n != 0 {
			t.Errorf("%d calls were given up", n)
		}
		cancel()
		_ = conn.Close()
		work.Wait()
		streams.Wait()
		if _, err := (cluster.Call{}).Turn(t.Context()); err == nil {
			t.Error("a call of no handler has a turn")
		}
		(cluster.Call{}).EndTurn()
		ann.close()
		bob.close()
	})
}

// TestHandlerConcurrent: requests for one identity are served at the same time if that is asked for. They can have
// turns of their own.
func TestHandlerConcurrent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{Concurrent: true})
		there := bob.at(t, ann.l)
		bob.serves(func(_ http.ResponseWriter, r *http.Request) {
			call, _ := cluster.CallOf(r.Context())
			time.Sleep(time.Second)
			end, err := call.Turn(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(10 * time.Millisecond)
			end()
		})
		start := time.Now()
		var work sync.WaitGroup
		for range 10 {
			work.Go(func() { ann.get(t, "/rooms/"+there) })
		}
		work.Wait()
		if took := time.Since(start); took != 1100*time.Millisecond {
			t.Errorf("%v", took)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerCallThatHangs: a request that does not return keeps its identity from others until its time is over, and
// no other identity at all. Then the identity has another activation, with a higher token.
func TestHandlerCallThatHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{CallWithin: 20 * time.Second, Wait: time.Second})
		there := bob.at(t, ann.l)
		release := make(chan struct{})
		var hung, long atomic.Int64
		bob.serves(func(rw http.ResponseWriter, r *http.Request) {
			call, _ := cluster.CallOf(r.Context())
			switch r.URL.RawQuery {
			case "hang": // it sees no context
				<-release
				hung.Store(call.Token)
			case "long":
				<-r.Context().Done() // it returns when its time is over
				long.Add(1)
			default:
				fmt.Fprint(rw, call.Token)
			}
		})
		start := time.Now()
		ann.get(t, "/rooms/"+there+"?long")
		if time.Since(start) != 20*time.Second || long.Load() != 1 {
			t.Errorf("a request that returns with its context: after %v", time.Since(start))
		}
		first := ann.get(t, "/rooms/"+there)
		start = time.Now()
		go ann.get(t, "/rooms/"+there+"?hang")
		synctest.Wait()
		var served time.Duration
		for served == 0 {
			got := ann.get(t, "/rooms/"+there)
			switch {
			case strings.HasPrefix(got, "200") && got != first:
				served = time.Since(start)
			case !strings.HasPrefix(got, "503"):
				t.Fatal(got)
			}
			if other := ann.get(t, "/rooms/other"); !strings.HasPrefix(other, "200") {
				t.Errorf("another identity: %s", other)
			}
		}
		// its turn, the time that a host has, and the grace for all who hold the activation
		if served < 35*time.Second || served > 37*time.Second {
			t.Errorf("served after %v", served)
		}
		if e := bob.has(cluster.Abandoned); len(e) != 1 || e[0].Identity != room(there) || e[0].Token == 0 {
			t.Errorf("%+v", e)
		}
		close(release)
		synctest.Wait()
		if "200 "+strconv.FormatInt(hung.Load(), 10) != first {
			t.Errorf("the call that hung had token %d, the identity %s", hung.Load(), first)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerQueueOfARoomThatMoves: requests that wait for their turn when their identity is handed over are served by
// its next member, each once; they are not waited for.
func TestHandlerQueueOfARoomThatMoves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		slow := func(_ http.ResponseWriter, _ *http.Request) { time.Sleep(300 * time.Millisecond) }
		ann.serves(slow)
		bob.serves(slow)
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				if got := []*site{ann, bob}[i%2].send(t, http.MethodPost, "/rooms/"+there, strings.NewReader("x")); got != "200 " {
					t.Error(got)
				}
			})
		}
		time.Sleep(time.Second)
		start := time.Now()
		if err := bob.Drain(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		work.Wait()
		if a, b := ann.calls.Load(), bob.calls.Load(); a+b != 20 || b > 4 {
			t.Errorf("served %d and %d times", a, b)
		}
		ann.close()
		bob.close()
	})
}
