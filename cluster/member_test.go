package cluster_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

var errNetwork = errors.New("connection reset")

// TestServedAtTheSameTime: of callers that come at the same time one has the identity activated; the others wait for
// that.
func TestServedAtTheSameTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(_ *cluster.Options, h *host) {
			h.activate = func(context.Context, cluster.Activation) error { time.Sleep(2 * time.Second); return nil }
		})
		tokens := make(chan int64)
		for range 10 {
			go func() {
				a, err := m.Serve(t.Context(), room("a"), nil)
				if err != nil {
					t.Error(err)
				}
				tokens <- a.Token
			}()
		}
		first := <-tokens
		for range 9 {
			if token := <-tokens; token != first || token == 0 {
				t.Errorf("token %d and %d", first, token)
			}
		}
		if given, _ := m.counts(); given != 1 || m.p.count("claim") != 1 {
			t.Errorf("activated %d times, after %d claims", given, m.p.count("claim"))
		}
		w.stop(m)
	})
}

// TestMembersThatCannotBe: what cannot work is refused before it begins, and the error names it.
func TestMembersThatCannotBe(t *testing.T) {
	p := direct.Cluster(placement.New(docstore.NewMemory(nil), nil), chat)
	for want, build := range map[string]func() (*cluster.Member, error){
		"Provider":         func() (*cluster.Member, error) { return cluster.NewMember(nil, "ann", &host{}, nil) },
		"Host":             func() (*cluster.Member, error) { return cluster.NewMember(p, "ann", nil, nil) },
		"name of a member": func() (*cluster.Member, error) { return cluster.NewMember(p, "", &host{}, nil) },
		"Options.TTL is 2s: must be whole seconds": func() (*cluster.Member, error) {
			return cluster.NewMember(p, "ann", &host{}, &cluster.Options{TTL: 2 * time.Second})
		},
		"Options.TTL is 3.5s: must be whole seconds": func() (*cluster.Member, error) {
			return cluster.NewMember(p, "ann", &host{}, &cluster.Options{TTL: 3500 * time.Millisecond})
		},
		"Options.TTL is 2h0m0s: must be whole second": func() (*cluster.Member, error) {
			return cluster.NewMember(p, "ann", &host{}, &cluster.Options{TTL: 2 * time.Hour})
		},
	} {
		if _, err := build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestNameIsTaken: a second process under the same name is rejected, and changes nothing.
func TestNameIsTaken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		other := w.member("ann", nil)
		err := other.Start(t.Context())
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeMemberExists || e.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
		if s := other.Status(); s.State != cluster.Stopped || !errors.Is(s.Cause, contracts.CodeMemberExists) {
			t.Errorf("%+v", s)
		}
		if err := other.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Error(err)
		}
		w.stop(m)
	})
}

// TestLostJoin: a member whose first join was carried out joins again when the response never came and what it joined
// as has ended, also in place of another.
func TestLostJoin(t *testing.T) {
	for _, request := range []string{"join", "replace"} {
		t.Run(request, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				old := w.start("ann", nil)
				m := w.member("ann-2", func(o *cluster.Options, _ *host) {
					if o.TTL = 5 * time.Second; request == "replace" {
						o.Replaces = contracts.Incarnation{Member: "ann", Incarnation: old.Incarnation()}
					}
				})
				begin := time.Now()
				m.p.set(func(sent string) (error, bool) {
					if sent == request && time.Since(begin) < 20*time.Second {
						return errNetwork, m.p.count(request) == 1
					}
					return nil, false
				})
				swept := make(chan error, 1)
				go func() {
					time.Sleep(10 * time.Second) // what it joined as has ended
					_, err := w.service.Sweep(t.Context(), 0)
					swept <- err
				}()
				defer w.stop(m, old)
				if err := m.Start(t.Context()); err != nil || m.Status().State != cluster.Ready {
					t.Errorf("%v, %+v", err, m.Status())
				}
				if err := <-swept; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLostHeartbeats: a member that cannot extend its lease stops before it ends, and joins again when it can; each
// step has an event (PLC-LIFE-4).
func TestLostHeartbeats(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		began, first := time.Now(), m.Incarnation()
		m.p.set(func(string) (error, bool) { return errNetwork, false })
		<-m.context(room("a")).Done()
		if at := time.Since(began); at >= 10*time.Second || at < 8*time.Second ||
			!errors.Is(context.Cause(m.context(room("a"))), cluster.ErrLost) {
			t.Errorf("lost after %v: %v", at, context.Cause(m.context(room("a"))))
		}
		synctest.Wait()
		if _, err := m.Serve(t.Context(), room("a"), nil); !errors.Is(err, cluster.ErrNotReady) {
			t.Errorf("serve without a lease: %v", err)
		}
		if _, ended := m.counts(); ended != 1 || !errors.Is(m.ended[0], cluster.ErrLost) || m.Incarnation() != 0 {
			t.Errorf("%d ended", ended)
		}
		if err := m.WriteState(t.Context(), room("a"), nil); !errors.Is(err, cluster.ErrLost) {
			t.Errorf("write without a lease: %v", err)
		}
		time.Sleep(time.Minute) // the old incarnation has ended by then, whatever the cluster knows of it
		m.p.set(nil)
		time.Sleep(10 * time.Second) // tries are 5 s apart at most
		if s := m.Status(); s.State != cluster.Ready || m.Incarnation() <= first {
			t.Errorf("%+v, incarnation %d", s, m.Incarnation())
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Error(err)
		}
		m.went(t, cluster.Starting, cluster.Ready, cluster.NotReady, cluster.Ready)
		if len(m.has(cluster.RequestFailed)) == 0 || len(m.has(cluster.ActivationLost)) != 1 {
			t.Errorf("%+v", m.events)
		}
		w.stop(m)
	})
}

// TestHeartbeatsCountFromTheRequest: the provider may have decided the moment it was asked, however late its response
// is.
func TestHeartbeatsCountFromTheRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		began, n := time.Now(), 0
		m.p.set(func(request string) (error, bool) {
			if request != "heartbeat" {
				return nil, false
			}
			if n++; n > 1 {
				return errNetwork, false
			}
			time.Sleep(1500 * time.Millisecond) // the response to a heartbeat is late
			return nil, false
		})
		<-m.context(room("a")).Done()
		// The first heartbeat was sent at 3.3 s, and the lease of 10 s is served but for its last tenth.
		if at := time.Since(began).Round(time.Second / 10); at != 12300*time.Millisecond {
			t.Errorf("lost after %v", at)
		}
		m.p.set(nil)
		synctest.Wait()
		w.stop(m)
	})
}

// TestFrozen: a process that was stopped for longer than its lease does not take another step when it goes on, although
// no timer has fired and no one has told it; what it had is another's, with a higher token.
func TestFrozen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		a, err := m.Serve(t.Context(), room("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := m.context(room("a"))
		w.freeze(11 * time.Second)
		if err := cluster.Check(ctx); !errors.Is(err, cluster.ErrLost) {
			t.Errorf("the first step after the thaw: %v", err)
		}
		if ctx.Err() == nil || m.Incarnation() != 0 {
			t.Error("the activation lives")
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); !errors.Is(err, cluster.ErrNotReady) {
			t.Errorf("serve: %v", err)
		}
		synctest.Wait()
		other := w.start("bob", nil)
		time.Sleep(time.Minute) // the first member's lease has ended
		l, _ := w.locator(nil)
		where, err := l.Activate(t.Context(), room("a"), nil)
		if err != nil || where.Token <= a.Token {
			t.Errorf("%+v, %v; the token was %d", where, err, a.Token)
		}
		l.Stop()
		w.stop(m, other)
	})
}

// TestEvicted: a member that is evicted while its own clock says that it may serve learns of it with its next
// heartbeat, or when it writes.
func TestEvicted(t *testing.T) {
	for name, learn := range map[string]func(m joined) error{
		"by a heartbeat": func(m joined) error { <-m.context(room("a")).Done(); return context.Cause(m.context(room("a"))) },
		"by a write":     func(m joined) error { return m.WriteState(context.Background(), room("a"), []byte("zombie")) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", nil)
				a, err := m.Serve(t.Context(), room("a"), nil)
				if err != nil {
					t.Fatal(err)
				}
				// Another process ends the incarnation and has the identity.
				p := w.provider()
				if _, err := p.Leave(t.Context(), "ann", contracts.MemberRequest{Incarnation: m.Incarnation()}); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Join(t.Context(), "bob", contracts.MemberJoinRequest{RequestID: "r1", Kinds: []string{"room"},
					TTLSeconds: 600}); err != nil {
					t.Fatal(err)
				}
				if o, err := p.Claim(t.Context(), "room", "a", contracts.ActivationClaimRequest{RequestID: "r2"}); err != nil ||
					o.Activation.FencingToken <= a.Token {
					t.Fatalf("%+v, %v", o, err)
				}
				if err := learn(m); !errors.Is(err, cluster.ErrLost) {
					t.Errorf("%v", err)
				}
				time.Sleep(20 * time.Second) // it has noticed, and has joined again
				if r := w.record(room("a")); r.Member != "bob" || r.State != nil {
					t.Errorf("%+v", r)
				}
				if s := m.Status(); s.State != cluster.Ready {
					t.Errorf("%+v", s)
				}
				w.stop(m)
			})
		})
	}
}

// TestStopHandsOver: what a member serves goes to others in one step each, with its last state; no one else is asked
// (PLC-LIFE-2).
func TestStopHandsOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var m joined
		m = w.start("ann", func(_ *cluster.Options, h *host) {
			h.ending = func(a cluster.Activation, reason error) {
				if err := m.WriteState(context.Background(), a.Identity, []byte("last of "+a.ID)); err != nil ||
					errors.Is(reason, cluster.ErrLost) {
					w.t.Errorf("%v after %v", err, reason)
				}
			}
		})
		tokens := map[string]int64{}
		for i := range 40 {
			id := strconv.Itoa(i)
			a, err := m.Serve(t.Context(), room(id), nil)
			if err != nil {
				t.Fatal(err)
			}
			tokens[id] = a.Token
		}
		other := w.start("bob", nil)
		w.stop(m)
		time.Sleep(20 * time.Second) // the next owner has learned of them
		for id, token := range tokens {
			if r := w.record(room(id)); r.Phase != contracts.PhaseActive || r.Member != "bob" || r.FencingToken != token+1 ||
				string(r.State) != "last of "+id {
				t.Errorf("%+v", r)
			}
		}
		if n := len(other.Activations()); n != 40 {
			t.Errorf("%d are served", n)
		}
		for _, a := range other.given {
			if string(a.State) != "last of "+a.ID {
				t.Errorf("%+v", a)
			}
		}
		w.stop(other)
	})
}

// TestStopWhileActivating: an activation that is not over need not be begun, and those who wait for it are told
// (PLC-LIFE-2).
func TestStopWhileActivating(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(_ *cluster.Options, h *host) {
			h.activate = func(ctx context.Context, _ cluster.Activation) error { <-ctx.Done(); return ctx.Err() }
		})
		l, _ := w.locator(nil)
		direct, claimed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := m.Serve(t.Context(), room("a"), nil); direct <- err }()
		go func() { _, err := l.Activate(t.Context(), room("b"), nil); claimed <- err }()
		time.Sleep(3 * time.Second) // the claim has reached the member
		w.stop(m)
		if err := <-direct; !errors.Is(err, cluster.ErrNotRunning) && !errors.Is(err, cluster.ErrDraining) {
			t.Errorf("the caller: %v", err)
		}
		if err := <-claimed; !errors.Is(err, contracts.CodeActivationFailed) ||
			!strings.Contains(err.Error(), "the member stops") {
			t.Errorf("the claimant: %v", err)
		}
		for _, id := range []string{"a", "b"} {
			if r := w.record(room(id)); r.Phase != contracts.PhaseFree {
				t.Errorf("%+v", r)
			}
		}
		l.Stop()
	})
}

// TestStopInTime: a Stop whose context ends drops what is left, and says so; nothing remains (PLC-LIFE-2).
func TestStopInTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		m.p.set(func(string) (error, bool) { return errNetwork, false })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := m.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if s := m.Status(); s.State != cluster.Stopped || m.context(room("a")).Err() == nil {
			t.Errorf("%+v", s)
		}
	})
}

// TestStopWhileStarting: a Start that cannot reach the provider ends.
func TestStopWhileStarting(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member("ann", nil)
		m.p.set(func(string) (error, bool) { return errNetwork, false })
		started := make(chan error, 1)
		go func() { started <- m.Start(t.Context()) }()
		time.Sleep(time.Minute) // it tries again and again
		if _, err := m.Serve(t.Context(), room("a"), nil); !errors.Is(err, cluster.ErrNotRunning) ||
			m.Status().State != cluster.Starting {
			t.Errorf("serve: %v", err)
		}
		w.stop(m)
		if err := <-started; !errors.Is(err, errNetwork) {
			t.Errorf("start: %v", err)
		}
		m.went(t, cluster.Starting, cluster.Stopped)
	})
}

// TestLateDuplicates: events come again and again, and responses get lost after the request was carried out; nothing is
// activated twice, or freed that was not to be.
func TestLateDuplicates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		late := map[string]contracts.PlacementEvent{} // every page has all that ever were, once more
		m.p.alter(func(page contracts.EventPage) contracts.EventPage {
			for _, e := range page.Events {
				e.EventID += "/late"
				late[e.EventID] = e
			}
			for _, e := range late {
				page.Events = append(page.Events, e)
			}
			return page
		})
		m.p.set(func(request string) (error, bool) {
			if m.p.count(request) <= 2 && request != "heartbeat" && request != "events" && request != "claim" {
				return errNetwork, true
			}
			return nil, false
		})
		l, _ := w.locator(nil)
		if _, err := l.Activate(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		if err := m.Member.Deactivate(t.Context(), room("a"), "done"); err != nil {
			t.Fatal(err)
		}
		a, err := m.Serve(t.Context(), room("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // every duplicate has arrived
		if given, ended := m.counts(); given != 2 || ended != 1 || len(m.Activations()) != 1 ||
			w.record(room("a")).FencingToken != a.Token {
			t.Errorf("activated %d times, ended %d times", given, ended)
		}
		// A claim that was carried out, and whose response was lost, is sent again, and finds itself.
		claims := m.p.count("claim")
		m.p.set(func(request string) (error, bool) {
			if request == "claim" && m.p.count("claim") == claims+1 {
				return errNetwork, true
			}
			return nil, false
		})
		if b, err := m.Serve(t.Context(), room("b"), nil); err != nil || b.Token != w.record(room("b")).FencingToken ||
			m.p.count("claim") != claims+2 {
			t.Errorf("%+v, %v", b, err)
		}
		l.Stop()
		w.stop(m)
	})
}

// TestWriteState: a state is stored also if responses are lost; if it is unknown whether one was stored, the next one
// takes its place. Those of several goroutines are stored one after the other.
func TestWriteState(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		w.serves(m, 1)
		id := room("0")
		m.p.set(func(request string) (error, bool) {
			if request == "write" && m.p.count("write") <= 2 {
				return errNetwork, true
			}
			return nil, false
		})
		if err := m.WriteState(t.Context(), id, []byte("one")); err != nil {
			t.Error(err)
		}
		m.p.set(func(string) (error, bool) { return errNetwork, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.WriteState(ctx, id, []byte("two")); !errors.Is(err, errNetwork) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		m.p.set(nil)
		if r := w.record(id); string(r.State) != "two" || r.StateVersion != 2 {
			t.Errorf("%+v", r)
		}
		for _, state := range []string{"three", "four"} {
			if err := m.WriteState(t.Context(), id, []byte(state)); err != nil {
				t.Error(err)
			}
		}
		m.p.set(func(string) (error, bool) { time.Sleep(100 * time.Millisecond); return nil, false })
		var writers sync.WaitGroup
		for i := range 10 {
			writers.Go(func() {
				if err := m.WriteState(t.Context(), id, []byte(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if r := w.record(id); r.StateVersion != 14 || string(r.State) != string(m.Activations()[0].State) {
			t.Errorf("%+v", r)
		}
		w.stop(m)
	})
}

// TestAStateOfALostResponse: a state was stored and the response lost, and the next try of the same request is rejected
// for good. The next state takes its place all the same.
func TestAStateOfALostResponse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		w.serves(m, 1)
		id := room("0")
		m.p.set(func(request string) (error, bool) {
			switch {
			case request != "write":
				return nil, false
			case m.p.count("write") == 1:
				return errNetwork, true
			default:
				return contracts.CodePermissionDenied, false
			}
		})
		if err := m.WriteState(t.Context(), id, []byte("one")); !errors.Is(err, contracts.CodePermissionDenied) {
			t.Errorf("%v", err)
		}
		m.p.set(nil)
		if err := m.WriteState(t.Context(), id, []byte("two")); err != nil {
			t.Error(err)
		}
		if r := w.record(id); string(r.State) != "two" || r.StateVersion != 2 {
			t.Errorf("%+v", r)
		}
		w.stop(m)
	})
}

// TestNotHere: a member does not serve what is elsewhere, and says where it is.
func TestNotHere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		other := w.start("bob", nil)
		_, err := other.Serve(t.Context(), room("a"), nil)
		if e, ok := errors.AsType[*cluster.NotHereError](err); !ok || e.Where.Member != "ann" || e.Where.Address != "ann:1" ||
			e.Where.Token == 0 {
			t.Errorf("%v", err)
		}
		_, err = other.Serve(t.Context(), cluster.Identity{Kind: "device", ID: "a"}, nil)
		if _, ok := errors.AsType[*cluster.NotHereError](err); !ok || !errors.Is(err, contracts.CodeMemberIneligible) {
			t.Errorf("a kind that it does not host: %v", err)
		}
		w.stop(other, m)
	})
}

// TestReplace: a new process takes the place of an old one, which hands over to it without being asked.
func TestReplace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		for i := range 10 {
			if _, err := m.Serve(t.Context(), room(strconv.Itoa(i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		next := w.start("ann-2", func(o *cluster.Options, _ *host) {
			o.Replaces = contracts.Incarnation{Member: "ann", Incarnation: m.Incarnation()}
		})
		time.Sleep(20 * time.Second) // the old one has learned of it, and the next owner of what it has
		if n := len(next.Activations()); n != 10 || m.Status().State != cluster.Draining {
			t.Errorf("%d were handed over by %+v", n, m.Status())
		}
		w.stop(m, next)
	})
}
