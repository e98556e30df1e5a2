package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// takes makes a host take a time for each activation, unless the context ends before.
func takes(d time.Duration) func(*cluster.Options, *host) {
	return func(_ *cluster.Options, h *host) {
		h.activate = func(ctx context.Context, _ cluster.Activation) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// TestSlowActivation: an activation that takes six times as long as a lease completes on the first claim, under its
// token, and so does one that is handed over: no other claim gets the identity while its owner lives (PLC-LOCK-3).
func TestSlowActivation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", takes(time.Minute))
		l, _ := w.locator(nil)
		where, err := l.Activate(t.Context(), room("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := w.record(room("a")); r.Phase != contracts.PhaseActive || r.FencingToken != where.Token ||
			r.Member != "ann" || len(m.given) != 1 || m.given[0].Token != where.Token {
			t.Errorf("located at %+v, recorded %+v, given %+v", where, r, m.given)
		}
		next := w.start("bob", takes(time.Minute))
		w.stop(m)
		l.Stop()
		l, _ = w.locator(nil)
		begin := time.Now()
		after, err := l.Activate(t.Context(), room("a"), nil)
		if err != nil || after.Token <= where.Token || after.Member != "bob" || len(next.given) != 1 {
			t.Errorf("handed over to %+v after %v, given %+v: %v", after, where, next.given, err)
		}
		if took := time.Since(begin); took < 58*time.Second || took > 75*time.Second {
			t.Errorf("it took %v", took)
		}
		l.Stop()
		w.stop(next)
	})
}

// TestOwnerDiesWhileItActivates: the lock of a slow activation ends with the lease of its owner.
func TestOwnerDiesWhileItActivates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", takes(5*time.Minute))
		l, _ := w.locator(nil)
		done := make(chan error, 1)
		begin := time.Now()
		go func() {
			where, err := l.Activate(t.Context(), room("a"), nil)
			if err == nil && where.Member != "bob" {
				err = errors.New(where.Member)
			}
			done <- err
		}()
		time.Sleep(5 * time.Second)
		m.p.set(func(string) (error, bool) { return errNetwork, false }) // it is as good as dead
		next := w.start("bob", nil)
		if err := <-done; err != nil || time.Since(begin) > 25*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		m.p.set(nil)
		l.Stop()
		w.stop(m, next)
	})
}

// TestActivationThatHangs: the time of a host is bounded. The identity is free then, with the reason, also if the host
// returns as if nothing was wrong.
func TestActivationThatHangs(t *testing.T) {
	for name, is := range map[string]error{"that says so": errors.New("stopped"), "that does not": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", func(o *cluster.Options, h *host) {
					o.ActivateWithin = 5 * time.Second
					h.activate = func(ctx context.Context, _ cluster.Activation) error {
						<-ctx.Done()
						return is
					}
				})
				l, _ := w.locator(nil)
				_, err := l.Activate(t.Context(), room("a"), nil)
				if !errors.Is(err, contracts.CodeActivationFailed) || !strings.Contains(err.Error(), "did not return in time: 5s") {
					t.Error(err)
				}
				if r := w.record(room("a")); r.Phase != contracts.PhaseFree || !strings.Contains(r.Reason, "in time") {
					t.Errorf("%+v", r)
				}
				if _, err := m.Serve(t.Context(), room("b"), nil); err == nil || !strings.Contains(err.Error(), "in time: 5s") {
					t.Error(err) // one that is active from the claim on
				}
				if r := w.record(room("b")); r.Phase != contracts.PhaseFree || !strings.Contains(r.Reason, "in time") {
					t.Errorf("%+v", r)
				}
				if _, ended := m.counts(); (ended == 2) != (is == nil) || len(m.Activations()) != 0 {
					t.Errorf("ended %d times, and it serves %v", ended, m.Activations())
				}
				l.Stop()
				w.stop(m)
			})
		})
	}
	for _, d := range []time.Duration{-1, 9*time.Minute + 1} {
		if _, err := cluster.NewMember((&world{}).provider(), "ann", &host{},
			&cluster.Options{ActivateWithin: d}); err == nil {
			t.Errorf("ActivateWithin %v was accepted", d)
		}
	}
}

// TestRestart: a process that died and was started again under its name waits until the lease that it had ends, and is
// a member then.
func TestRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		time.Sleep(7 * time.Second)
		m.p.set(func(string) (error, bool) { return errNetwork, false }) // it is as good as dead
		time.Sleep(2 * time.Second)
		begin := time.Now()
		again := w.start("ann", nil)
		if took := time.Since(begin); took < 4*time.Second || took > 10*time.Second || again.Incarnation() == 0 {
			t.Errorf("it took %v, and is incarnation %d", took, again.Incarnation())
		}
		m.p.set(nil)
		w.stop(again, m)
	})
}

// TestRefusedClaims: a claim that is refused is an event, of the member or of the locator that sent it; one that is
// refused again and again for the same reason is one (PLC-LIFE-4).
func TestRefusedClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		events := &journal{}
		l, _ := w.locator(&cluster.LocatorOptions{Observe: events.add})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hall := cluster.Identity{Kind: "hall", ID: "a"}
		if _, err := l.Activate(ctx, hall, nil); !errors.Is(err, contracts.CodeNoEligibleMember) {
			t.Error(err)
		}
		if _, err := m.Serve(t.Context(), hall, nil); !errors.Is(err, contracts.CodeMemberIneligible) {
			t.Error(err)
		}
		for who, c := range map[string]struct {
			refused []cluster.Event
			code    contracts.Code
		}{
			"locator": {events.has(cluster.ClaimRefused), contracts.CodeNoEligibleMember},
			"member":  {m.has(cluster.ClaimRefused), contracts.CodeMemberIneligible},
		} {
			if len(c.refused) != 1 || c.refused[0].Identity != hall || !errors.Is(c.refused[0].Err, c.code) ||
				c.refused[0].At.IsZero() {
				t.Errorf("%s: %+v", who, c.refused)
			}
		}
		if _, err := l.Activate(t.Context(), room("a"), nil); err != nil || len(events.has(cluster.ClaimRefused)) > 1 {
			t.Errorf("%v, %+v", err, events.has(cluster.ClaimRefused)) // to wait for a member is no refusal
		}
		l.Stop()
		w.stop(m)
	})
}
