package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// slowJoins is a provider whose responses to joins take a time.
type slowJoins struct {
	cluster.Provider

	take func() time.Duration
	less bool // it does not say what it need not
}

func (p slowJoins) Join(ctx context.Context, name string, r contracts.MemberJoinRequest) (contracts.MemberState, error) {
	s, err := p.Provider.Join(ctx, name, r)
	select {
	case <-time.After(p.take()):
	case <-ctx.Done():
		return contracts.MemberState{}, ctx.Err()
	}
	if p.less {
		s.Status, s.Epoch, s.Moved, s.ExpiresAt, s.RemainingMs = "", 0, 0, "", 0
	}
	return s, err
}

func (p slowJoins) Heartbeat(ctx context.Context, name string, r contracts.MemberHeartbeatRequest) (
	contracts.MemberState, error) {
	s, err := p.Provider.Heartbeat(ctx, name, r)
	if p.less {
		s.Status, s.Epoch, s.Moved, s.ExpiresAt, s.RemainingMs = "", 0, 0, "", 0
	}
	return s, err
}

// TestSlowJoinLosesNoLease: a member whose join took most of its lease sends its first heartbeat in time, also where
// the response is that to a repeated request, or says no more than it must (PLC-LIFE-1).
func TestSlowJoinLosesNoLease(t *testing.T) {
	for _, take := range []time.Duration{0, time.Second, 5 * time.Second, 8500 * time.Millisecond} {
		for _, less := range []bool{false, true} {
			t.Run(fmt.Sprint(take, less), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					begin := time.Now()
					slow := slowJoins{w.provider(), func() time.Duration { return max(0, take-time.Since(begin)) }, less}
					j := &journal{}
					m, err := cluster.NewMember(slow, "ann", &host{w: w}, (&cluster.Options{Observe: j.add}).WithClock(w.now))
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begin); took < take || took > take+time.Second {
						t.Errorf("it joined after %v", took)
					}
					number := m.Incarnation()
					time.Sleep(time.Minute)
					if m.Incarnation() != number {
						t.Errorf("incarnation %d, then %d", number, m.Incarnation())
					}
					j.went(t, cluster.Starting, cluster.Ready)
					if err := m.Stop(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestBackWithTheNetwork: a member that had no network for longer than its lease, and whose join had its effect without
// a response, is in the cluster again within a second of it.
func TestBackWithTheNetwork(t *testing.T) {
	for i := range 30 {
		out := 15*time.Second + time.Duration(i*i)*370*time.Millisecond
		t.Run(out.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", nil)
				begin := time.Now()
				m.p.set(func(request string) (error, bool) { return errNetwork, request == "join" })
				time.Sleep(out)
				m.p.set(nil)
				for m.Incarnation() == 0 && time.Since(begin) < out+time.Minute {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				if late := time.Since(begin) - out; late > 1100*time.Millisecond {
					t.Errorf("back %v after the network", late)
				}
				w.stop(m)
			})
		})
	}
}

// TestManyJoinsAtOnce: 100 members join at the same moment on a store that is 10 ms away through one server, or 50 by
// themselves; in a deep run 300 and 100. None is told that its name is taken, none loses its lease, and none waits for long.
func TestManyJoinsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		alone   bool
	}{"through a server": {suite.AtDepth(100, 300), false}, "by themselves": {suite.AtDepth(50, 100), true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				far := suite.NewFar(w.store, 10*time.Millisecond, 1)
				service := func() *placement.Service { return placement.New(far, &placement.Options{Now: w.now}) }
				one, j := service(), &journal{}
				all := make([]*cluster.Member, c.members)
				for i := range all {
					s := one
					if c.alone {
						s = service()
					}
					m, err := cluster.NewMember(direct.Cluster(s, chat), fmt.Sprint("m", i), &host{w: w}, (&cluster.Options{
						Kinds: []string{"room"}, ServeOnly: true, Partitions: 1024, Observe: j.add}).WithClock(w.now))
					if err != nil {
						t.Fatal(err)
					}
					all[i] = m
				}
				each := func(do func(*cluster.Member) error) (took time.Duration) {
					begin := time.Now()
					var done sync.WaitGroup
					for _, m := range all {
						done.Go(func() {
							if err := do(m); err != nil {
								t.Error(err)
							}
						})
					}
					done.Wait()
					return time.Since(begin)
				}
				took := each(func(m *cluster.Member) error { return m.Start(t.Context()) })
				time.Sleep(20 * time.Second)
				failed := j.has(cluster.RequestFailed)
				t.Logf("%v, and %d tries failed", took, len(failed))
				if took > 15*time.Second {
					t.Errorf("the last has joined after %v", took)
				}
				for _, e := range failed {
					if errors.Is(e.Err, contracts.CodeMemberExists) {
						t.Errorf("%s: %v", e.Member, e.Err)
					}
				}
				for _, e := range j.has(cluster.StateChanged) {
					if e.To == cluster.NotReady {
						t.Errorf("%s: %v", e.Member, e.Err)
					}
				}
				each(func(m *cluster.Member) error { return m.Stop(t.Context()) })
			})
		})
	}
}
