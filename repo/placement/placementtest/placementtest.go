// Package placementtest holds implementations of the contracts of package placement to what a component relies on: the lock under which
// an activation begins, the storage of owner and state, and what runs identities in a process.
package placementtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Cluster is a cluster with one member, for one test.
type Cluster struct {
	placement.Membership
	placement.Locker
	placement.Storage

	Name   placement.Cluster
	Member placement.Incarnation
}

// identity is what the tests claim.
var identity = placement.Identity{Kind: "room", ID: "lobby"}

// Open returns implementations that share one store, which is empty.
type Open func(*testing.T) (placement.Membership, placement.Locker, placement.Storage)

// open is a cluster that one member has joined.
func (o Open) open(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{Name: placement.Cluster{Tenant: "acme", Name: "prod"}}
	c.Membership, c.Locker, c.Storage = o(t)
	m, err := c.Join(t.Context(), placement.Join{
		Cluster: c.Name, Member: "ann", RequestID: "join", Offer: placement.Offer{Kinds: []string{identity.Kind}},
	})
	if err != nil || m.Code != placement.OK {
		t.Fatalf("join: %+v, %v", m, err)
	}
	c.Member = m.Incarnation
	return c
}

func (c *Cluster) claim(t *testing.T, request string) placement.Outcome {
	t.Helper()
	o, err := c.Claim(t.Context(), placement.Claim{Cluster: c.Name, Identity: identity, RequestID: request})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (c *Cluster) hold(o placement.Outcome) placement.Hold {
	return placement.Hold{Cluster: c.Name, Identity: identity, Owner: c.Member, Token: o.Activation.Token}
}

func want(t *testing.T, step string, o placement.Outcome, err error, code placement.Code) {
	t.Helper()
	if err != nil || o.Code != code {
		t.Errorf("%s: %+v, %v; want %s", step, o, err, code)
	}
}

// Locker tests a [placement.Locker]: it is granted to one claim at a time, and ends with Activated or Fail.
func Locker(t *testing.T, open Open) {
	t.Run("of many claims one is granted", func(t *testing.T) {
		c := open.open(t)
		outcomes := make(chan placement.Outcome)
		const callers = 20
		for n := range callers {
			go func() {
				o, err := c.Claim(context.WithoutCancel(t.Context()), placement.Claim{Cluster: c.Name, Identity: identity, RequestID: fmt.Sprint("r", n)})
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			}()
		}
		granted := 0
		for range callers {
			switch o := <-outcomes; o.Code {
			case placement.OK:
				granted++
			case placement.Locking:
				if o.Activation.Owner != c.Member || o.RetryAfter <= 0 {
					t.Errorf("refused without saying who has it and for how long: %+v", o)
				}
			default:
				t.Errorf("%+v", o)
			}
		}
		if granted != 1 {
			t.Errorf("%d claims were granted", granted)
		}
	})
	t.Run("it ends with activated", func(t *testing.T) {
		c := open.open(t)
		first := c.claim(t, "r1")
		o, err := c.Activated(t.Context(), placement.Activated{Hold: c.hold(first)})
		want(t, "activated", o, err, placement.OK)
		want(t, "a claim of what is active", c.claim(t, "r2"), nil, placement.Exists)
	})
	t.Run("it ends with a failure", func(t *testing.T) {
		c := open.open(t)
		first := c.claim(t, "r1")
		o, err := c.Fail(t.Context(), placement.Fail{Hold: c.hold(first), Reason: "no space"})
		want(t, "failed", o, err, placement.OK)
		if o := c.claim(t, "r1"); o.Code != placement.ActivationFailed || o.Activation.Reason != "no space" {
			t.Errorf("the claim that failed: %+v", o)
		}
		second := c.claim(t, "r2")
		want(t, "a claim after the failure", second, nil, placement.OK)
		if second.Activation.Token <= first.Activation.Token {
			t.Errorf("token %d after %d", second.Activation.Token, first.Activation.Token)
		}
		o, err = c.Activated(t.Context(), placement.Activated{Hold: c.hold(first)})
		want(t, "activated under the token that failed", o, err, placement.StaleToken)
	})
}

// Storage tests a [placement.Storage]: it has the owner from the lock to the end, and keeps what the owner writes.
func Storage(t *testing.T, open Open) {
	owner := func(t *testing.T, c *Cluster, step string, phase placement.Phase) placement.Activation {
		t.Helper()
		p, err := c.Lookup(t.Context(), placement.Lookup{Cluster: c.Name, Identity: identity})
		if err != nil || p.Code != placement.OK || p.Activation.Phase != phase || (p.Owner != nil) != (phase != placement.Free) ||
			p.Owner != nil && p.Owner.Incarnation != c.Member {
			t.Errorf("%s: %+v, %v; want it %s", step, p, err, phase)
		}
		return p.Activation
	}
	t.Run("it has the owner from the lock to the end", func(t *testing.T) {
		c := open.open(t)
		owner(t, c, "before", placement.Free)
		o := c.claim(t, "r1")
		owner(t, c, "while it is locked", placement.Locked)
		a, err := c.Activated(t.Context(), placement.Activated{Hold: c.hold(o)})
		want(t, "activated", a, err, placement.OK)
		owner(t, c, "while it is active", placement.Active)
		d, err := c.Deactivate(t.Context(), placement.Deactivate{Hold: c.hold(o)})
		want(t, "deactivated", d, err, placement.OK)
		owner(t, c, "after", placement.Free)
	})
	t.Run("it keeps the state, and takes it from the owner alone", func(t *testing.T) {
		c := open.open(t)
		hold := c.hold(c.claim(t, "r1"))
		write := func(step string, h placement.Hold, version int64, data string, code placement.Code) {
			t.Helper()
			o, err := c.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: step, Version: version, Data: []byte(data)})
			want(t, step, o, err, code)
		}
		write("a first state", hold, 0, "one\x00\xff", placement.OK)
		write("a state of an old version", hold, 0, "lost", placement.StateChanged)
		stale := hold
		stale.Token--
		write("a state under another token", stale, 1, "stolen", placement.StaleToken)
		other := hold
		other.Owner.Number++
		write("a state of another incarnation", other, 1, "stolen", placement.NotOwner)
		d, err := c.Deactivate(t.Context(), placement.Deactivate{Hold: hold})
		want(t, "deactivated", d, err, placement.OK)
		if a := owner(t, c, "after", placement.Free); string(a.State) != "one\x00\xff" || a.StateVersion != 1 {
			t.Errorf("it kept %q of version %d", a.State, a.StateVersion)
		}
	})
}

// Activator tests a [placement.Activator]: an activation can be ended and begun again, and an error says why. open returns an empty
// one; broken is an identity that it cannot activate, none if its ID is empty.
func Activator(t *testing.T, open func(*testing.T) placement.Activator, broken placement.Identity) {
	t.Run("it begins and ends", func(t *testing.T) {
		a := open(t)
		for token := range int64(3) {
			of := placement.Activation{Identity: identity, Phase: placement.Locked, Token: token + 1}
			if err := errors.Join(a.Activate(t.Context(), of), a.Deactivate(t.Context(), of)); err != nil {
				t.Errorf("activation %d: %v", token, err)
			}
		}
	})
	if broken.ID == "" {
		return
	}
	t.Run("its error has a reason", func(t *testing.T) {
		if err := open(t).Activate(t.Context(), placement.Activation{Identity: broken, Phase: placement.Locked, Token: 1}); err == nil || err.Error() == "" {
			t.Errorf("the error is %v", err)
		}
	})
}
