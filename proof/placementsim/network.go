package placementsim

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var (
	// final, so that what belongs to a dead process ends
	errGone    = fmt.Errorf("%w: the process has ended", contracts.CodePermissionDenied)
	errNetwork = fmt.Errorf("%w: the network lost it", docstore.ErrUnavailable)
	errAborted = fmt.Errorf("%w: aborted", docstore.ErrUnavailable)
)

// giveUp is how long a request is waited for whose response does not come.
const giveUp = 5 * time.Second

// line is the network between a process and the store.
type line struct {
	docstore.Store

	p *process
}

// Get implements [docstore.Store].
func (l line) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	return send(ctx, l.p, false, func(ctx context.Context) (docstore.Snapshot, error) { return l.Store.Get(ctx, keys...) })
}

// List implements [docstore.Store].
func (l line) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return send(ctx, l.p, false, func(ctx context.Context) (docstore.Page, error) { return l.Store.List(ctx, q) })
}

// Write implements [docstore.Store].
func (l line) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	return send(ctx, l.p, true, func(ctx context.Context) (docstore.Result,
		error) {
		return l.Store.Write(ctx, writes...)
	})
}

func send[T any](ctx context.Context, p *process, writes bool, call func(context.Context) (T, error)) (result T,
	err error) {
	p.still() // a frozen process sends when it continues, even if its deadline has passed
	p.latency()
	carry := context.WithoutCancel(ctx)
	t := p.sim.tally
	switch {
	case p.gone():
		return result, errGone
	case p.unreachable() || p.chance(40):
		t.Add("requests lost", 1)
		if p.chance(2) {
			wait(ctx, giveUp)
		}
		return result, errNetwork
	case p.chance(60):
		t.Add("requests aborted", 1)
		return result, errAborted
	case writes && p.chance(40):
		t.Add("writes that arrived after their caller gave up", 1)
		p.later(func() { _, _ = call(carry) })
		wait(ctx, giveUp)
		return result, errNetwork
	}
	got, err := call(carry)
	if writes && p.chance(40) {
		t.Add("writes that arrived twice", 1)
		p.later(func() { _, _ = call(carry) })
	}
	p.latency()
	p.still()
	switch {
	case p.gone():
		return result, errGone
	case p.unreachable() || p.chance(40):
		t.Add("responses lost", 1)
		return result, errNetwork
	case ctx.Err() != nil:
		return result, ctx.Err()
	}
	return got, err
}

// commands are the requests of a process, some of which are delivered again, by another server and late, or only late.
type commands struct {
	cluster.Provider

	server cluster.Provider // what delivers late: it is behind the process's network
	p      *process
}

func (c commands) count() { c.p.sim.operations.Add(1) }

// command sends a command that changes something.
func command[T any](ctx context.Context, c commands, do func(context.Context, cluster.Provider) (T, error)) (result T,
	err error) {
	c.count()
	if c.p.gone() {
		return result, errGone
	}
	again := func() {
		c.count()
		_, _ = do(context.WithoutCancel(ctx), c.server)
	}
	if c.p.chance(40) {
		c.p.sim.tally.Add("commands delivered again, late", 1)
		c.p.later(again)
	} else if c.p.chance(40) {
		c.p.sim.tally.Add("commands that arrived after their caller gave up", 1)
		c.p.later(again)
		wait(ctx, giveUp)
		return result, errNetwork
	}
	return do(ctx, c.Provider)
}

// Members implements [cluster.Provider].
func (c commands) Members(ctx context.Context) (contracts.MemberList, error) {
	c.count()
	return c.Provider.Members(ctx)
}

// Lookup implements [cluster.Provider].
func (c commands) Lookup(ctx context.Context, kind, id string, q cluster.Query) (contracts.Placement, error) {
	c.count()
	return c.Provider.Lookup(ctx, kind, id, q)
}

// Activation implements [cluster.Provider].
func (c commands) Activation(ctx context.Context, kind, id string) (contracts.Activation, error) {
	c.count()
	return c.Provider.Activation(ctx, kind, id)
}

// Events implements [cluster.Provider].
func (c commands) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	c.count()
	return c.Provider.Events(ctx, q)
}

// Join implements [cluster.Provider].
func (c commands) Join(ctx context.Context, m string, r contracts.MemberJoinRequest) (contracts.MemberState, error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (contracts.MemberState,
		error) {
		return p.Join(ctx, m, r)
	})
}

// Replace implements [cluster.Provider].
func (c commands) Replace(ctx context.Context, m string, r contracts.MemberReplaceRequest) (contracts.MemberState,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (contracts.MemberState, error) {
		return p.Replace(ctx, m, r)
	})
}

// Heartbeat implements [cluster.Provider].
func (c commands) Heartbeat(ctx context.Context, m string, r contracts.MemberHeartbeatRequest) (contracts.MemberState,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (contracts.MemberState, error) {
		return p.Heartbeat(ctx, m, r)
	})
}

// Drain implements [cluster.Provider].
func (c commands) Drain(ctx context.Context, m string, r contracts.MemberRequest) (contracts.MemberState, error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (contracts.MemberState, error) {
		return p.Drain(ctx, m, r)
	})
}

// Leave implements [cluster.Provider].
func (c commands) Leave(ctx context.Context, m string, r contracts.MemberRequest) (contracts.MemberState, error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (contracts.MemberState, error) {
		return p.Leave(ctx, m, r)
	})
}

type activationOutcome = contracts.ActivationOutcome

// Claim implements [cluster.Provider].
func (c commands) Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (activationOutcome,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.Claim(ctx, kind, id, r)
	})
}

// Activated implements [cluster.Provider].
func (c commands) Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (activationOutcome,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.Activated(ctx, kind, id, r)
	})
}

// Failed implements [cluster.Provider].
func (c commands) Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (activationOutcome,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.Failed(ctx, kind, id, r)
	})
}

// Deactivate implements [cluster.Provider].
func (c commands) Deactivate(ctx context.Context, kind, id string, r contracts.ActivationEndRequest) (activationOutcome,
	error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.Deactivate(ctx, kind, id, r)
	})
}

// WriteState implements [cluster.Provider].
func (c commands) WriteState(ctx context.Context, kind, id string,
	r contracts.ActivationStateRequest) (activationOutcome, error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.WriteState(ctx, kind, id, r)
	})
}

// Transfer implements [cluster.Provider].
func (c commands) Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (
	activationOutcome, error) {
	return command(ctx, c, func(ctx context.Context, p cluster.Provider) (activationOutcome, error) {
		return p.Transfer(ctx, kind, id, r)
	})
}
