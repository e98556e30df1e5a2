package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestIdle: an identity that nothing uses is ended after the time that the host chose, with its last state stored
// before it is free; one that is used, or held, is not.
func TestIdle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var m joined
		m = w.start("ann", func(o *cluster.Options, h *host) {
			o.IdleAfter = time.Minute
			h.ending = func(a cluster.Activation, reason error) {
				if !errors.Is(reason, cluster.ErrIdle) {
					return
				}
				if err := m.WriteState(t.Context(), a.Identity, fmt.Appendf(nil, "last of %s", a.ID)); err != nil {
					t.Error(err)
				}
				if w.record(a.Identity).Phase != contracts.PhaseActive {
					t.Error("it is free before its state is stored")
				}
			}
		})
		w.serves(m, 40)
		held, err := m.Hold(t.Context(), room("1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := held.Context(t.Context())
		defer cancel()
		for range 4 {
			time.Sleep(20 * time.Second)
			if _, err := m.Serve(t.Context(), room("0"), nil); err != nil {
				t.Error(err)
			}
		}
		if all := m.Activations(); len(all) != 2 || cluster.Check(ctx) != nil {
			t.Errorf("%+v, %v", all, cluster.Check(ctx))
		}
		if a := w.record(room("2")); a.Phase != contracts.PhaseFree || string(a.State) != "last of 2" ||
			a.Reason != cluster.ErrIdle.Error() {
			t.Errorf("%+v", a)
		}
		held.Release()
		held.Release()
		time.Sleep(59 * time.Second)
		if all := m.Activations(); len(all) != 2 {
			t.Errorf("%+v", all)
		}
		time.Sleep(17 * time.Second)
		if all := m.Activations(); len(all) != 0 || cluster.Check(ctx) == nil {
			t.Errorf("%+v", all)
		}
		if again, err := m.Serve(t.Context(), room("1"), nil); err != nil || string(again.State) != "last of 1" {
			t.Errorf("%+v, %v", again, err)
		}
		w.stop(m)
	})
}

// TestNoRequestIsLostToIdleness: requests come at all times around the end of an idle identity, also while its last
// state is being stored. Each is served by an activation that has the state of all before.
func TestNoRequestIsLostToIdleness(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var m joined
		var seen atomic.Int64 // what the present activation has counted
		m = w.start("ann", func(o *cluster.Options, h *host) {
			o.IdleAfter = time.Second
			h.activate = func(_ context.Context, a cluster.Activation) error {
				n, _ := strconv.Atoi(string(a.State))
				seen.Store(int64(n))
				return nil
			}
			h.ending = func(a cluster.Activation, _ error) {
				state := strconv.AppendInt(nil, seen.Load(), 10)
				time.Sleep(50 * time.Millisecond)
				if err := m.WriteState(t.Context(), a.Identity, state); err != nil {
					t.Error(err)
				}
				seen.Store(-1000)
			}
		})
		var work sync.WaitGroup
		sent := int64(0)
		for step := range int64(200) {
			time.Sleep(time.Second + time.Duration(step)*7*time.Millisecond/4)
			sent += 2
			for range 2 {
				work.Go(func() {
					held, err := m.Hold(t.Context(), room("a"), nil)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					seen.Add(1)
					held.Release()
				})
			}
		}
		work.Wait()
		given, _ := m.counts()
		if got := seen.Load(); got != sent || given < 50 {
			t.Errorf("%d of %d requests were counted, by %d activations", got, sent, given)
		}
		w.stop(m)
	})
}

// TestGraceEndsWithTheLastHolder: a member that gives an identity away waits for the last one who holds it, and not
// for the rest of the grace.
func TestGraceEndsWithTheLastHolder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(o *cluster.Options, _ *host) { o.Grace = time.Hour })
		for i := range 3 {
			held, err := m.Hold(t.Context(), room("a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Duration(i)*time.Second, held.Release)
		}
		start := time.Now()
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the drain took %v, want 2s", took)
		}
		w.stop(m)
	})
}

// TestGrace (PLC-LIFE-2): a member that gives an identity away waits for those who hold it, who learn of it at once,
// all at the same time, and not for longer than the grace. What is lost ends at once.
func TestGrace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(o *cluster.Options, _ *host) { o.Grace = 10 * time.Second })
		const rooms = 40 // more than are handed over at a time
		var work sync.WaitGroup
		start := time.Now()
		for i := range rooms {
			held, err := m.Hold(t.Context(), room(strconv.Itoa(i)), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := held.Context(t.Context())
			defer cancel()
			work.Go(func() {
				defer held.Release()
				<-held.Ending()
				if at := time.Since(start); at > time.Second || cluster.Check(ctx) != nil {
					t.Errorf("it learns of it after %v: %v", at, cluster.Check(ctx))
				}
				if i%2 == 0 {
					time.Sleep(2 * time.Second)
					if err := cluster.Check(ctx); err != nil {
						t.Error(err)
					}
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				if at := time.Since(start); at < 10*time.Second || at > 11*time.Second {
					t.Errorf("its context ends after %v", at)
				}
			})
		}
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("the drain took %v", took)
		}
		work.Wait()
		w.stop(m)

		m = w.start("ann", nil)
		held, err := m.Hold(t.Context(), room("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := held.Context(t.Context())
		defer cancel()
		w.freeze(11 * time.Second)
		if err := cluster.Check(ctx); !errors.Is(err, cluster.ErrLost) {
			t.Errorf("after its lease: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, ended := m.counts(); ended != 1 {
			t.Error("what is lost waits for those who hold it")
		}
		held.Release()
		w.stop(m)
	})
}
