// Package clustertest tests implementations of what package cluster can be given: the lock under which an activation
// begins, the storage of its owner and state, and the host that runs it.
//
//	func TestLocker(t *testing.T) {
//		clustertest.Locker(t, func(t *testing.T) (cluster.Provider, func(time.Duration)) {
//			server := …
//			return struct {
//				cluster.Membership
//				cluster.Directory
//				cluster.Locker
//				cluster.Storage
//				cluster.Alarms
//			}{server, server, myLocker, server, server}, nil
//		})
//	}
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// Open returns the provider of a cluster that no one has joined, and how to let time pass for it, which can be nil:
// then the tests sleep, for a few seconds in all. It is called for each test, and ends what it began with t.Cleanup.
type Open func(t *testing.T) (p cluster.Provider, wait func(time.Duration))

// What the tests claim.
const kind, id = "room", "lobby"

// fixture is a cluster with one member.
type fixture struct {
	cluster.Provider

	t      *testing.T
	wait   func(time.Duration)
	member contracts.MemberState
}

func (o Open) open(t *testing.T) *fixture {
	t.Helper()
	p, wait := o(t)
	if wait == nil {
		wait = time.Sleep
	}
	m, err := p.Join(patient(t), "ann", contracts.MemberJoinRequest{RequestID: "join", Kinds: []string{kind},
		Partitions: 16, TTLSeconds: 3600})
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	return &fixture{p, t, wait, m}
}

// claim asks for the identity, for a lock of ten seconds.
func (f *fixture) claim(request string) (contracts.Activation, error) {
	f.t.Helper()
	o, err := f.Claim(patient(f.t), kind, id, contracts.ActivationClaimRequest{RequestID: request, LockTTLSeconds: 10})
	return o.Activation, err
}

// claimed is a claim that is granted.
func (f *fixture) claimed(request string) contracts.Activation {
	f.t.Helper()
	a, err := f.claim(request)
	if err != nil || a.Phase != contracts.PhaseLocked || a.FencingToken <= 0 || a.Member != f.member.Member ||
		a.Incarnation != f.member.Incarnation {
		f.t.Fatalf("claim %s: %+v, %v", request, a, err)
	}
	return a
}

func (f *fixture) activated(a contracts.Activation) error {
	_, err := f.Activated(patient(f.t), kind, id, contracts.ActivationHoldRequest{Member: a.Member,
		Incarnation: a.Incarnation, FencingToken: a.FencingToken})
	return err
}

func (f *fixture) failed(a contracts.Activation, reason string) error {
	_, err := f.Failed(patient(f.t), kind, id, contracts.ActivationFailedRequest{
		Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken, Reason: reason,
	})
	return err
}

func (f *fixture) deactivate(a contracts.Activation) error {
	_, err := f.Deactivate(patient(f.t), kind, id, contracts.ActivationEndRequest{Member: a.Member,
		Incarnation: a.Incarnation, FencingToken: a.FencingToken})
	return err
}

// is checks the code of an error; an empty one is no error.
func is(t *testing.T, step string, err error, code contracts.Code) {
	t.Helper()
	if code == "" && err != nil || code != "" && !errors.Is(err, code) {
		t.Errorf("%s: %v, want %q", step, err, code)
	}
}

// Locker tests the lock under which activations begin: it is granted to one claim at a time, and ends as it should.
func Locker(t *testing.T, open Open) {
	t.Run("of many claims one is granted", func(t *testing.T) {
		f := open.open(t)
		const callers = 20
		outcomes := make(chan error)
		for n := range callers {
			go func() {
				_, err := f.Claim(context.WithoutCancel(patient(t)), kind, id, contracts.ActivationClaimRequest{
					RequestID: fmt.Sprint("r", n), LockTTLSeconds: 10})
				outcomes <- err
			}()
		}
		granted := 0
		for range callers {
			err := <-outcomes
			if err == nil {
				granted++
				continue
			}
			if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeActivationLocked ||
				e.RetryAfter <= 0 {
				t.Errorf("a claim beside another: %v, want %s with the time after which to try again", err,
					contracts.CodeActivationLocked)
			}
		}
		if granted != 1 {
			t.Errorf("%d claims were granted", granted)
		}
	})
	t.Run("a claim that is sent again is the same", func(t *testing.T) {
		f := open.open(t)
		if first, again := f.claimed("r1"), f.claimed("r1"); first.FencingToken != again.FencingToken {
			t.Errorf("token %d, and then %d", first.FencingToken, again.FencingToken)
		}
	})
	t.Run("it ends with activated", func(t *testing.T) {
		f := open.open(t)
		a := f.claimed("r1")
		is(t, "activated", f.activated(a), "")
		is(t, "activated, sent again", f.activated(a), "")
		_, err := f.claim("r2")
		is(t, "a claim of what is active", err, contracts.CodeActivationExists)
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Activation == nil ||
			e.Activation.FencingToken != a.FencingToken {
			t.Errorf("it does not say which activation exists: %v", err)
		}
	})
	t.Run("it ends with a failure", func(t *testing.T) {
		f := open.open(t)
		a := f.claimed("r1")
		is(t, "failed", f.failed(a, "the disk is full"), "")
		_, err := f.claim("r1")
		is(t, "the claim that failed", err, contracts.CodeActivationFailed)
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Activation == nil ||
			e.Activation.Reason != "the disk is full" {
			t.Errorf("it does not say why: %v", err)
		}
		if next := f.claimed("r2"); next.FencingToken <= a.FencingToken {
			t.Errorf("token %d after %d", next.FencingToken, a.FencingToken)
		}
		is(t, "activated under the token that failed", f.activated(a), contracts.CodeStaleToken)
	})
	t.Run("it expires", func(t *testing.T) {
		f := open.open(t)
		o, err := f.Claim(patient(t), kind, id, contracts.ActivationClaimRequest{RequestID: "r1", LockTTLSeconds: 1})
		is(t, "claim", err, "")
		_, err = f.claim("r2")
		is(t, "a claim before that", err, contracts.CodeActivationLocked)
		f.wait(1100 * time.Millisecond)
		next := f.claimed("r2")
		if next.FencingToken <= o.Activation.FencingToken {
			t.Errorf("token %d after %d", next.FencingToken, o.Activation.FencingToken)
		}
		is(t, "activated too late", f.activated(o.Activation), contracts.CodeStaleToken)
		is(t, "activated by the next", f.activated(next), "")
	})
	t.Run("a transfer is a lock of the next owner", func(t *testing.T) {
		f := open.open(t)
		bob, err := f.Join(patient(t), "bob", contracts.MemberJoinRequest{RequestID: "join", Kinds: []string{kind},
			TTLSeconds: 3600})
		is(t, "join", err, "")
		o, err := f.Claim(patient(t), kind, id, contracts.ActivationClaimRequest{RequestID: "r1"})
		is(t, "claim", err, "")
		a, to := o.Activation, bob
		if a.Member == bob.Member {
			to = f.member
		}
		is(t, "activated", f.activated(a), "")
		o, err = f.Transfer(patient(t), kind, id, contracts.ActivationTransferRequest{
			Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken, RequestID: "r2", To: to.Member,
		})
		is(t, "transfer", err, "")
		if b := o.Activation; b.Phase != contracts.PhaseLocked || b.Member != to.Member || b.Incarnation != to.Incarnation ||
			b.FencingToken <= a.FencingToken {
			t.Errorf("%+v after %+v", b, a)
		}
		is(t, "what the owner before does", f.deactivate(a), contracts.CodeStaleToken)
		is(t, "activated by the next owner", f.activated(o.Activation), "")
	})
}

// Storage tests the storage of owner and state: it has the owner from the lock to the end, and takes states from the
// owner alone.
func Storage(t *testing.T, open Open) {
	shows := func(f *fixture, step string, phase contracts.Phase, token int64) contracts.Activation {
		f.t.Helper()
		a, err := f.Activation(patient(f.t), kind, id)
		if err != nil || a.Phase != phase || a.FencingToken != token || a.Member != f.member.Member ||
			a.Incarnation != f.member.Incarnation {
			f.t.Errorf("%s: %+v, %v; want it %s", step, a, err, phase)
		}
		return a
	}
	t.Run("it has the owner from the lock to the end", func(t *testing.T) {
		f := open.open(t)
		_, err := f.Activation(patient(t), kind, id)
		is(t, "before the first claim", err, contracts.CodeNotFound)
		a := f.claimed("r1")
		shows(f, "while it is locked", contracts.PhaseLocked, a.FencingToken)
		is(t, "activated", f.activated(a), "")
		shows(f, "while it is active", contracts.PhaseActive, a.FencingToken)
		is(t, "deactivate", f.deactivate(a), "")
		is(t, "deactivate, sent again", f.deactivate(a), "")
		shows(f, "after the end", contracts.PhaseFree, a.FencingToken)
		b := f.claimed("r2")
		is(t, "the end of another activation", f.deactivate(a), contracts.CodeStaleToken)
		shows(f, "while it is locked again", contracts.PhaseLocked, b.FencingToken)
	})
	t.Run("it keeps the state, and takes it from the owner alone", func(t *testing.T) {
		f := open.open(t)
		a := f.claimed("r1")
		write := func(step string, a contracts.Activation, version int64, state string, code contracts.Code) {
			t.Helper()
			_, err := f.WriteState(patient(t), kind, id, contracts.ActivationStateRequest{
				RequestID: step, Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken, StateVersion: version,
				State: []byte(state),
			})
			is(t, step, err, code)
		}
		write("a first state", a, 0, "one\x00\xff", "")
		write("a first state", a, 0, "one\x00\xff", "") // sent again
		write("a state of an old version", a, 0, "lost", contracts.CodeStateChanged)
		stale, other := a, a
		stale.FencingToken--
		write("a state under another token", stale, 1, "stolen", contracts.CodeStaleToken)
		other.Incarnation++
		write("a state of another incarnation", other, 1, "stolen", contracts.CodeNotOwner)
		is(t, "activated", f.activated(a), "")
		is(t, "deactivate", f.deactivate(a), "")
		write("a state after the end", a, 1, "late", contracts.CodeWrongPhase)
		if got := shows(f, "after the end", contracts.PhaseFree, a.FencingToken); string(got.State) != "one\x00\xff" ||
			got.StateVersion != 1 {
			t.Errorf("it kept %q of version %d", got.State, got.StateVersion)
		}
		b := f.claimed("r2")
		write("a state of the next owner", b, 1, "two", "")
		if got := shows(f, "of the next owner", contracts.PhaseLocked, b.FencingToken); string(got.State) != "two" ||
			got.StateVersion != 2 {
			t.Errorf("it has %q of version %d", got.State, got.StateVersion)
		}
	})
}

// Host tests what runs activations: one can be ended and begun again, an error says why, and the end of a context is
// respected. open returns a host that serves nothing. serves is an identity that it can activate; broken one that it
// cannot, or none if its ID is empty.
func Host(t *testing.T, open func(*testing.T) cluster.Host, serves, broken cluster.Identity) {
	t.Run("it begins and ends", func(t *testing.T) {
		h := open(t)
		for token := range int64(3) {
			a := cluster.Activation{Identity: serves, Token: token + 1}
			ctx, cancel := context.WithCancelCause(patient(t))
			if err := h.Activate(ctx, a); err != nil {
				t.Errorf("activation %d: %v", token+1, err)
			}
			reason := errors.New("the test ends it")
			cancel(reason)
			h.Deactivate(patient(t), a, reason)
		}
	})
	t.Run("it returns when the context has ended", func(t *testing.T) {
		h, returned := open(t), make(chan error, 1)
		ctx, cancel := context.WithCancelCause(patient(t))
		cancel(cluster.ErrLost)
		a := cluster.Activation{Identity: serves, Token: 1}
		go func() { returned <- h.Activate(ctx, a) }()
		select {
		case err := <-returned:
			if err == nil {
				h.Deactivate(patient(t), a, cluster.ErrLost)
			}
		case <-time.After(time.Minute):
			t.Error("it does not return")
		}
	})
	if broken.ID == "" {
		return
	}
	t.Run("its error has a reason", func(t *testing.T) {
		if err := open(t).Activate(patient(t), cluster.Activation{Identity: broken, Token: 1}); err == nil ||
			err.Error() == "" {
			t.Errorf("the error is %v", err)
		}
	})
}

// patient is the context of calls that are judged by what they do: a machine that others use may take long for each.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}
