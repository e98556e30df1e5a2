package cluster_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// prompt holds no response, and says when to come again.
type prompt struct {
	cluster.Provider

	asked *atomic.Int64
}

func (p prompt) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	p.asked.Add(1)
	q.Wait = 0
	page, err := p.Provider.Events(ctx, q)
	if len(page.Events) == 0 {
		page.PollAfterMs = 2000
	}
	return page, err
}

// TestProviderThatHoldsNoResponse: a member asks for events when the provider says, and learns of a claim soon.
func TestProviderThatHoldsNoResponse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := &host{w: w, name: "ann", contexts: map[cluster.Identity]context.Context{}}
		p := prompt{direct.Cluster(w.service, chat), new(atomic.Int64)}
		m, err := cluster.NewMember(p, "ann", h, &cluster.Options{Kinds: []string{"room"}, Partitions: 16})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20100 * time.Millisecond) // its own events are old, and it asks at another time
		before := p.asked.Load()
		time.Sleep(time.Minute)
		if n := p.asked.Load() - before; n != 30 {
			t.Errorf("asked for events %d times in a minute, want 30", n)
		}
		l, _ := w.locator(nil)
		began := time.Now()
		if _, err := l.Activate(t.Context(), room("a"), nil); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		l.Stop()
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestMoreEventsThanAPage: a claim is found at once also behind more young events than a page has.
func TestMoreEventsThanAPage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := &host{w: w, name: "ann", contexts: map[cluster.Identity]context.Context{}}
		m, err := cluster.NewMember(direct.Cluster(w.service, chat), "ann", h,
			&cluster.Options{Kinds: []string{"room"}, Partitions: 16})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 1100 {
			if _, err := m.Serve(t.Context(), room(strconv.Itoa(i)), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // each event in a millisecond of its own
		}
		time.Sleep(2 * time.Second) // they were all shown
		l, _ := w.locator(nil)
		began := time.Now()
		if _, err := l.Activate(t.Context(), room("a"), nil); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		l.Stop()
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// claim claims a room for the member on which it is placed, for a time.
func (w *world) claim(id string, lock time.Duration) contracts.Activation {
	w.t.Helper()
	o, err := w.provider().Claim(w.t.Context(), "room", id, contracts.ActivationClaimRequest{
		RequestID: "claim of " + id, LockTTLSeconds: int64(lock / time.Second)})
	if err != nil {
		w.t.Fatal(err)
	}
	return o.Activation
}

// active checks that a member serves rooms, and no others.
func (w *world) active(m joined, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if r := w.record(room(id)); r.Phase != contracts.PhaseActive || r.Incarnation != m.Incarnation() {
			w.t.Errorf("%s: %+v", id, r)
		}
	}
	if all := m.Activations(); len(all) != len(ids) {
		w.t.Errorf("it serves %+v", all)
	}
}

// TestClaimedBeforeItHasJoined: the response to a join is lost for minutes, and others claim for the new incarnation
// meanwhile, also before another epoch begins.
func TestClaimedBeforeItHasJoined(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member("ann", func(o *cluster.Options, _ *host) { o.TTL = time.Hour })
		m.p.set(func(request string) (error, bool) { return errNetwork, request == "join" })
		started := make(chan error)
		go func() { started <- m.Start(t.Context()) }()
		time.Sleep(2 * time.Second) // the first join was carried out
		w.claim("a", time.Hour)
		time.Sleep(5 * time.Minute) // longer than events are read back by
		w.claim("b", time.Hour)
		if _, err := w.provider().Join(t.Context(), "bob", contracts.MemberJoinRequest{RequestID: "r", Kinds: []string{},
			TTLSeconds: 3600}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // and again, so that the response is that of a join long ago
		w.claim("c", time.Hour)
		m.p.set(nil)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // it reads events every 250 ms
		w.active(m, "a", "b", "c")
		w.stop(m)
	})
}

// TestWriterThatPauses: a claim is written long after its caller decided on it. Its event has a place among those of
// then, which members have read already: such a claim must not be.
func TestWriterThatPauses(t *testing.T) {
	for _, pause := range []time.Duration{4 * time.Second, 9 * time.Second, 15 * time.Second, 50 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", nil)
				time.Sleep(time.Minute) // events of its join are too old to be read again then
				slow := &pausing{Store: w.store, pause: pause, others: func() { w.claim("b", time.Minute) }}
				p := direct.Cluster(placement.New(slow, &placement.Options{Now: w.now}), chat)
				o, err := p.Claim(t.Context(), "room", "a", contracts.ActivationClaimRequest{RequestID: "r", LockTTLSeconds: 600})
				if err != nil || o.Activation.Phase != contracts.PhaseLocked || slow.pause != 0 {
					t.Fatalf("%+v, %v", o, err)
				}
				time.Sleep(3 * time.Second) // it reads events every 250 ms
				w.active(m, "a", "b")
				w.stop(m)
			})
		})
	}
}

// pausing is a store that is reached late by one write. What others do comes first.
type pausing struct {
	docstore.Store

	pause  time.Duration
	others func()
}

func (p *pausing) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if d := p.pause; d > 0 {
		p.pause = 0
		time.Sleep(time.Second) // a claim of another comes in between
		p.others()
		time.Sleep(d - time.Second) // the rest of the pause
	}
	return p.Store.Write(ctx, w...)
}

// TestEventsThatWereRemoved: a member cannot read events for longer than they are kept. What was claimed meanwhile has
// expired long since, and the next claim reaches it. The same holds for one that was away.
func TestEventsThatWereRemoved(t *testing.T) {
	for name, away := range map[string]func(w *world, d time.Duration){
		"it reads no events": func(_ *world, d time.Duration) { time.Sleep(d) },
		"it is frozen":       func(w *world, d time.Duration) { w.freeze(d); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", func(o *cluster.Options, _ *host) { o.TTL = time.Hour })
				l, _ := w.locator(nil)
				back := make(chan struct{})
				m.p.set(func(request string) (error, bool) {
					if request == "events" {
						<-back
					}
					return nil, false
				})
				time.Sleep(10 * time.Second) // it is away before the claim
				missed := w.claim("a", 10*time.Second)
				away(w, 25*time.Hour)
				if _, err := w.store.(docstore.Pruner).Prune(t.Context(), 1000); err != nil {
					t.Fatal(err)
				}
				close(back)
				time.Sleep(10 * time.Second) // it has joined again, if it must
				page, err := w.provider().Events(t.Context(), cluster.EventQuery{PageSize: 1000})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Events {
					if e.FencingToken == missed.FencingToken {
						t.Errorf("the event is there: %+v", e)
					}
				}
				where, err := l.Activate(t.Context(), room("a"), nil)
				if err != nil || where.Token <= missed.FencingToken {
					t.Errorf("%+v, %v", where, err)
				}
				w.active(m, "a")
				l.Stop()
				w.stop(m)
			})
		})
	}
}

// TestClaimBesideServe: a claim that others make while the member's own is under way, and fails, is served from the
// events.
func TestClaimBesideServe(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann := w.start("ann", nil)
		ann.p.set(func(request string) (error, bool) {
			if request == "claim" {
				time.Sleep(2 * time.Second) // long enough for the other claim to come in between
				return contracts.CodeUnavailable, false
			}
			return nil, false
		})
		served := make(chan error, 1)
		go func() {
			_, err := ann.Serve(t.Context(), room("a"), nil)
			served <- err
		}()
		time.Sleep(500 * time.Millisecond) // the claim of Serve is on its way
		if _, err := w.provider().Claim(t.Context(), "room", "a", contracts.ActivationClaimRequest{
			RequestID: "other"}); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err == nil {
			t.Error("served")
		}
		time.Sleep(5 * time.Second) // it reads events every 250 ms: by then it is the member that serves the room
		if a := w.record(room("a")); a.Phase != contracts.PhaseActive {
			t.Errorf("no one carried out the claim: %+v", a)
		}
		w.stop(ann)
	})
}
