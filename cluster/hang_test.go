package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// hangingHost is a host whose calls do not return before the end of a test, of identities that begin so.
type hangingHost struct {
	activates, deactivates string // prefixes; empty: none
	over                   chan struct{}

	mu    sync.Mutex
	ended int
}

func (h *hangingHost) hang(prefix string, id cluster.Identity) {
	if prefix != "" && strings.HasPrefix(id.ID, prefix) {
		<-h.over
	}
}

func (h *hangingHost) Activate(_ context.Context, a cluster.Activation) error {
	h.hang(h.activates, a.Identity)
	return nil
}

func (h *hangingHost) Deactivate(_ context.Context, a cluster.Activation, _ error) {
	h.hang(h.deactivates, a.Identity)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended++
}

// stuckMember is a member with such a host.
func (w *world) stuckMember(t *testing.T, h *hangingHost, change func(*cluster.Options)) (*cluster.Member, *journal) {
	t.Helper()
	h.over = make(chan struct{})
	j := &journal{}
	o := &cluster.Options{Kinds: []string{"room"}, Partitions: 16, ServeOnly: true, DeactivateWithin: 5 * time.Second,
		Grace: time.Second, Observe: j.add}
	change(o)
	m, err := cluster.NewMember(w.provider(), "ann", h, o.WithClock(w.now))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, j
}

// TestObserverThatHangs: an observer that does not return keeps no one, neither heartbeats nor requests, for longer
// than a second. When it returns it gets what happened, in its order, and learns of how many events were dropped.
func TestObserverThatHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		j := &journal{}
		release, hangs := make(chan struct{}), true
		ann := w.start("ann", func(o *cluster.Options, _ *host) {
			o.Observe = func(e cluster.Event) {
				if j.add(e); hangs {
					hangs = false
					<-release
				}
			}
		})
		for n := range 1200 {
			asked := time.Now()
			if _, err := ann.Serve(t.Context(), room(strconv.Itoa(n)), nil); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took > 1100*time.Millisecond {
				t.Fatalf("served after %v", took)
			}
			synctest.Wait() // its event is there
		}
		first := ann.Incarnation()
		time.Sleep(10 * time.Minute)
		if got := ann.Incarnation(); got != first {
			t.Errorf("incarnation %d, and before %d: heartbeats waited", got, first)
		}
		if n := len(j.has("")) + len(j.has(cluster.Activated)); n != 0 {
			t.Errorf("%d events came to one that hangs", n)
		}
		close(release)
		time.Sleep(time.Second)
		w.stop(ann)
		served := j.has(cluster.Activated)
		if len(served) != 999 { // and that it is Ready
			t.Errorf("%d events of activations", len(served))
		}
		for n, e := range served {
			if e.Identity != room(strconv.Itoa(n)) || e.Dropped != 0 {
				t.Fatalf("event %d: %+v", n, e)
			}
		}
		if e := j.has(cluster.StateChanged); len(e) < 3 || e[2].To != cluster.Draining || e[2].Dropped != 201 {
			t.Errorf("%+v", e)
		}
	})
}

// TestDeactivationThatHangs: however many calls of Deactivate never return, and why ever an activation ends, each
// identity is free, or another member's, when two times DeactivateWithin have passed, those whose host returns as well;
// there is an event for each call, and the member serves what it is asked for (PLC-LIFE-2, PLC-LIFE-4).
func TestDeactivationThatHangs(t *testing.T) {
	const within = 5 * time.Second
	for _, many := range []int{1, 40, 300} {
		for name, c := range map[string]struct {
			change func(*cluster.Options)
			end    func(*testing.T, *cluster.Member, cluster.Identity)
			again  bool // the member can have them again
		}{
			"idle": {func(o *cluster.Options) { o.IdleAfter = time.Minute },
				func(*testing.T, *cluster.Member, cluster.Identity) { time.Sleep(76 * time.Second) }, true},
			"by hand": {func(*cluster.Options) {}, func(t *testing.T, m *cluster.Member, id cluster.Identity) {
				if err := m.Deactivate(t.Context(), id, "by hand"); err != nil {
					t.Error(err)
				}
			}, true},
			"drain": {func(*cluster.Options) {}, func(t *testing.T, m *cluster.Member, _ cluster.Identity) {
				if err := m.Drain(t.Context()); err != nil && !errors.Is(err, &cluster.StateError{}) {
					t.Error(err)
				}
			}, false},
			"stop": {func(*cluster.Options) {}, func(t *testing.T, m *cluster.Member, _ cluster.Identity) {
				if err := m.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}, false},
		} {
			t.Run(fmt.Sprint(name, " ", many), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					h := &hangingHost{deactivates: "stuck"}
					m, j := w.stuckMember(t, h, c.change)
					var ids []cluster.Identity
					for i := range many {
						ids = append(ids, room(fmt.Sprint("stuck-", i)), room(fmt.Sprint("quick-", i)))
					}
					for _, id := range ids {
						if _, err := m.Serve(t.Context(), id, nil); err != nil {
							t.Fatal(err)
						}
					}
					begin := time.Now()
					var ends sync.WaitGroup
					for _, id := range ids {
						ends.Go(func() { c.end(t, m, id) })
					}
					limit := 2*within + 2*time.Second
					if name == "idle" {
						limit += 76 * time.Second
					}
					for _, id := range ids {
						for w.record(id).Phase != contracts.PhaseFree && time.Since(begin) < limit {
							time.Sleep(100 * time.Millisecond)
						}
						if r := w.record(id); r.Phase != contracts.PhaseFree {
							t.Fatalf("%s is %s after %v", id.ID, r.Phase, time.Since(begin))
						}
					}
					ends.Wait()
					if n := len(j.has(cluster.Abandoned)); n != many {
						t.Errorf("%d events, want %d", n, many)
					}
					if c.again {
						if _, err := m.Serve(t.Context(), ids[0], nil); err != nil {
							t.Error(err)
						}
					}
					begin = time.Now()
					if err := m.Stop(t.Context()); err != nil || time.Since(begin) > within+2*time.Second {
						t.Errorf("stopped after %v: %v", time.Since(begin), err)
					}
					close(h.over)
				})
			})
		}
	}
}

// TestStopInTimeOfAHostThatHangs: Stop returns when its context ends.
func TestStopInTimeOfAHostThatHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := &hangingHost{deactivates: "stuck"}
		m, _ := w.stuckMember(t, h, func(*cluster.Options) {})
		for i := range 20 {
			if _, err := m.Serve(t.Context(), room(fmt.Sprint("stuck-", i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		if err := m.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		time.Sleep(9 * time.Second) // the last four get their turn after 4 s
		if s := m.Status(); s.State != cluster.Stopped {
			t.Errorf("%+v", s)
		}
		close(h.over)
	})
}

// TestActivationThatNeverReturns: it keeps its identity for no longer than its time and that of a Deactivate, by
// whatever it is ended, and what it begins too late is ended (PLC-LOCK-5).
func TestActivationThatNeverReturns(t *testing.T) {
	for name, end := range map[string]func(*cluster.Member) error{
		"by its time": func(*cluster.Member) error { return nil },
		"by Drain":    func(m *cluster.Member) error { return m.Drain(context.Background()) },
		"by Stop":     func(m *cluster.Member) error { return m.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := &hangingHost{activates: "stuck"}
				m, j := w.stuckMember(t, h, func(o *cluster.Options) { o.ActivateWithin = 5 * time.Second })
				begin := time.Now()
				var calls sync.WaitGroup
				for i := range 40 {
					calls.Go(func() {
						_, err := m.Serve(t.Context(), room(fmt.Sprint("stuck-", i)), nil)
						if err == nil || time.Since(begin) > 11*time.Second {
							t.Errorf("%v after %v", err, time.Since(begin))
						}
					})
				}
				time.Sleep(time.Second)
				if _, err := m.Serve(t.Context(), room("quick"), nil); err != nil {
					t.Error(err)
				}
				if err := end(m); err != nil || time.Since(begin) > 11*time.Second {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
				calls.Wait()
				for i := range 40 {
					if r := w.record(room(fmt.Sprint("stuck-", i))); r.Phase != contracts.PhaseFree {
						t.Errorf("%+v", r)
					}
				}
				if n := len(j.has(cluster.Abandoned)); n != 40 {
					t.Errorf("%d events", n)
				}
				if err := m.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				close(h.over)
				time.Sleep(time.Second)
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.ended != 41 {
					t.Errorf("%d were ended", h.ended)
				}
			})
		})
	}
}
