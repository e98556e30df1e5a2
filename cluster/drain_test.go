package cluster_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// errDrainedText is what the state of a member says that was drained.
const errDrainedText = "the member is drained"

// serves makes a member serve so many rooms.
func (w *world) serves(m joined, n int) {
	w.t.Helper()
	for i := range n {
		if _, err := m.Serve(w.t.Context(), room(strconv.Itoa(i)), nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ann is that member as the cluster has it.
func (w *world) ann() contracts.ClusterMember {
	w.t.Helper()
	top, err := w.provider().Members(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range top.Members {
		if m.Member == "ann" {
			return m
		}
	}
	return contracts.ClusterMember{}
}

// TestDrainedByAnOperator: a member learns by a heartbeat that it is drained. It hands over what it serves, and stays
// in the cluster, serving nothing, until it is stopped.
func TestDrainedByAnOperator(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(o *cluster.Options, _ *host) { o.ServeOnly = true })
		w.serves(m, 40)
		if err := m.WriteState(t.Context(), room("7"), []byte("seven")); err != nil {
			t.Error(err)
		}
		other := w.start("bob", nil)
		if _, err := other.p.Drain(t.Context(), "ann", contracts.MemberRequest{Incarnation: m.Incarnation()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second) // a heartbeat is sent every third of 10 s
		if s := m.Status(); s.State != cluster.Draining || s.Cause == nil || s.Cause.Error() != errDrainedText {
			t.Errorf("%+v", s)
		}
		if _, err := m.Serve(t.Context(), room("new"), nil); !errors.Is(err, cluster.ErrDraining) {
			t.Errorf("serve: %v", err)
		}
		if err := m.Drain(t.Context()); err != nil || len(m.Activations()) != 0 {
			t.Errorf("%v; it serves %v", err, m.Activations())
		}
		time.Sleep(20 * time.Second) // the next owner has learned of them
		if n := len(other.Activations()); n != 40 || string(w.record(room("7")).State) != "seven" {
			t.Errorf("%d are served", n)
		}
		time.Sleep(time.Minute) // longer than several leases: it is kept by heartbeats
		if at := w.ann(); at.Status != contracts.MemberDraining || at.Incarnation != m.Incarnation() {
			t.Errorf("%+v, incarnation %d", at, m.Incarnation())
		}
		w.stop(m)
		if at := w.ann(); at.Member != "" {
			t.Errorf("%+v", at)
		}
		m.went(t, cluster.Starting, cluster.Ready, cluster.Draining, cluster.Stopped)
		w.stop(other)
	})
}

// TestDrain: a member that drains itself does as one that an operator drains; who gives up waiting stops nothing.
func TestDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(_ *cluster.Options, h *host) {
			h.ending = func(cluster.Activation, error) { time.Sleep(2 * time.Second) }
		})
		w.serves(m, 5)
		other := w.start("bob", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := m.Drain(t.Context()); err != nil || len(m.Activations()) != 0 {
			t.Errorf("%v; it serves %v", err, m.Activations())
		}
		for _, reason := range m.ended {
			if reason.Error() != errDrainedText {
				t.Errorf("ended for %q", reason)
			}
		}
		w.stop(m)
		if err := m.Drain(t.Context()); !errors.Is(err, cluster.ErrNotRunning) {
			t.Errorf("after it has stopped: %v", err)
		}
		if err := m.Start(t.Context()); err != nil { // and it can be started again
			t.Fatal(err)
		}
		if s := w.ann(); s.Status != contracts.MemberActive {
			t.Errorf("%+v", s)
		}
		time.Sleep(20 * time.Second) // heartbeats of the new incarnation do not say that it drains
		if s := m.Status(); s.State != cluster.Ready {
			t.Errorf("%+v", s)
		}
		w.stop(m, other)
	})
}

// TestDrainedAndLost: a member that was drained does not join again when it loses its lease; it is stopped as any
// other.
func TestDrainedAndLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m, other := w.start("ann", nil), w.start("bob", nil)
		if err := m.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.p.Leave(t.Context(), "ann", contracts.MemberRequest{Incarnation: m.Incarnation()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it would have joined again by then
		if s := m.Status(); s.State != cluster.Draining || m.Incarnation() != 0 || w.ann().Member != "" {
			t.Errorf("%+v, incarnation %d", s, m.Incarnation())
		}
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.stop(m, other)
		m.went(t, cluster.Starting, cluster.Ready, cluster.Draining, cluster.Stopped)
	})
}

// TestClaimedBeforeItDrains: what was claimed for a member that drains before it learned of it is free for the next
// claim at once.
func TestClaimedBeforeItDrains(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member("ann", nil)
		drains := make(chan struct{})
		m.p.alter(func(page contracts.EventPage) contracts.EventPage { // it learns of the claim later
			<-drains
			return page
		})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := m.p.Claim(t.Context(), "room", "a", contracts.ActivationClaimRequest{RequestID: "r", LockTTLSeconds: 600})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(drains)
		other := w.start("bob", nil)
		l, _ := w.locator(nil)
		began := time.Now()
		where, err := l.Activate(t.Context(), room("a"), nil)
		if err != nil || where.Member != "bob" || where.Token <= o.Activation.FencingToken ||
			time.Since(began) > 5*time.Second {
			t.Errorf("%+v, %v after %v", where, err, time.Since(began))
		}
		if given, _ := m.counts(); given != 0 {
			t.Errorf("%d were activated", given)
		}
		l.Stop()
		w.stop(m, other)
	})
}

// TestChangeOffer: a member changes its labels, its kinds and its address without leaving; it joins again with what it
// offered last.
func TestChangeOffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m, other := w.member("ann", nil), w.start("bob", nil)
		offer := cluster.Offer{Kinds: []string{"room", "device"}, Labels: map[string]string{"gpu": "yes"},
			Weight: 3, Address: "ann:2"}
		if err := m.ChangeOffer(t.Context(), offer); !errors.Is(err, cluster.ErrNotRunning) {
			t.Errorf("before it was started: %v", err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := ""
		for i := 0; a == ""; i++ { // a room that is placed here
			if _, err := m.Serve(t.Context(), room(strconv.Itoa(i)), nil); err == nil {
				a = strconv.Itoa(i)
			}
		}
		l, p := w.locator(nil)
		if where, err := l.Locate(t.Context(), room(a), nil); err != nil || where.Address != "ann:1" {
			t.Errorf("%+v, %v", where, err)
		}
		first := m.Incarnation()
		m.p.set(func(request string) (error, bool) { // the first responses are lost
			if request == "offer" && m.p.count("offer") <= 2 {
				return errNetwork, true
			}
			return nil, false
		})
		if err := m.ChangeOffer(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
		m.p.set(nil)
		offered := func() {
			t.Helper()
			if is := w.ann(); !maps.Equal(is.Labels, offer.Labels) || len(is.Kinds) != 2 || is.Weight != 3 ||
				is.Address != "ann:2" {
				t.Errorf("%+v", is)
			}
		}
		offered()
		time.Sleep(5 * time.Second) // the locator reads the epoch every 2 s
		if where, err := l.Locate(t.Context(), room(a), nil); err != nil || where.Address != "ann:2" ||
			p.count("lookup") != 1 {
			t.Errorf("%+v, %v after %d lookups", where, err, p.count("lookup"))
		}
		l.Stop()
		if m.Incarnation() != first || cluster.Check(m.context(room(a))) != nil || m.p.count("join") != 1 {
			t.Errorf("incarnation %d after %d", m.Incarnation(), first)
		}
		if where, err := m.p.Lookup(t.Context(), "device", "d",
			cluster.Query{Labels: map[string]string{"gpu": "yes"}}); err != nil || where.Placed.Member != "ann" {
			t.Errorf("%+v, %v", where, err)
		}
		if err := m.ChangeOffer(t.Context(), cluster.Offer{Kinds: []string{"not a kind"}}); !errors.Is(err,
			contracts.CodeInvalidArgument) {
			t.Errorf("an offer that cannot be: %v", err)
		}
		offer.Address = "" // it stays as it is
		offer.Weight = 2
		if err := m.ChangeOffer(t.Context(), offer); err != nil || w.ann().Address != "ann:2" || w.ann().Weight != 2 {
			t.Errorf("%v: %+v", err, w.ann())
		}
		offer.Weight = 3
		if err := m.ChangeOffer(t.Context(), offer); err != nil {
			t.Error(err)
		}
		w.freeze(11 * time.Second) // it loses its lease, and joins again
		synctest.Wait()
		time.Sleep(20 * time.Second) // it has joined again, and heartbeats have been sent
		offered()
		if m.Incarnation() <= first {
			t.Errorf("incarnation %d after %d", m.Incarnation(), first)
		}
		w.stop(m, other)
	})
}
