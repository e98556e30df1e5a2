// Package direct says what the rules do in the types of the contract. It gives programs that have a store at hand what
// others ask a server for: locks, as package locks needs them, fences, as package fence does, the placement of a
// cluster, as package cluster does, and the gate of analyses and of runs, as package once does.
//
//	c, err := direct.NewLocks(store, "acme", nil)
//
//	service := placement.New(store, nil)
//	provider := direct.Cluster(service, placement.Cluster{Tenant: "acme", Name: "chat"})
//	member, err := cluster.NewMember(provider, "worker-1", host, options)
//
// Who has the store may do everything: there are no tenants to keep apart, and no subjects to whom members belong.
//
// The functions that take a request of the contract make the command of a rule out of it, and those that take what a
// rule said make the response, or the rejection as a [contracts.Error]. The HTTP API is made of them, too, so that both
// say the same, in the same words.
package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Cluster is the placement of a cluster on a store.
func Cluster(s *placement.Service, c placement.Cluster) cluster.Provider { return provider{s, c} }

type provider struct {
	service *placement.Service
	cluster placement.Cluster
}

var _ cluster.Provider = provider{}

// Cluster implements [cluster.Provider].
func (p provider) Cluster() string { return p.cluster.Tenant + "/" + p.cluster.Name }

// Join implements [cluster.Provider].
func (p provider) Join(ctx context.Context, member string, r contracts.MemberJoinRequest) (contracts.MemberState,
	error) {
	c, err := Join(p.cluster, member, r)
	if err != nil {
		return contracts.MemberState{}, withCode(err)
	}
	o, err := p.service.Join(ctx, c)
	return said(o, err, MemberState)
}

// Replace implements [cluster.Provider].
func (p provider) Replace(ctx context.Context, member string, r contracts.MemberReplaceRequest) (contracts.MemberState,
	error) {
	c, err := Replace(p.cluster, member, r)
	if err != nil {
		return contracts.MemberState{}, withCode(err)
	}
	o, err := p.service.Join(ctx, c)
	return said(o, err, MemberState)
}

// Heartbeat implements [cluster.Provider].
func (p provider) Heartbeat(ctx context.Context, member string, r contracts.MemberHeartbeatRequest) (
	contracts.MemberState, error) {
	o, err := p.service.Heartbeat(ctx, Heartbeat(p.cluster, member, r))
	return said(o, err, MemberState)
}

// ChangeOffer implements [cluster.Provider].
func (p provider) ChangeOffer(ctx context.Context, member string,
	r contracts.MemberOfferRequest) (contracts.MemberState, error) {
	o, err := p.service.ChangeOffer(ctx, ChangeOffer(p.cluster, member, r))
	return said(o, err, MemberState)
}

// Drain implements [cluster.Provider].
func (p provider) Drain(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error) {
	o, err := p.service.DrainMember(ctx, p.cluster, placement.Incarnation{Member: member, Number: r.Incarnation})
	return said(o, err, MemberState)
}

// Leave implements [cluster.Provider].
func (p provider) Leave(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error) {
	o, err := p.service.Leave(ctx, p.cluster, placement.Incarnation{Member: member, Number: r.Incarnation})
	return said(o, err, MemberState)
}

// Members implements [cluster.Provider].
func (p provider) Members(ctx context.Context) (contracts.MemberList, error) {
	t, err := p.service.Topology(ctx, p.cluster)
	if err != nil {
		return contracts.MemberList{}, withCode(err)
	}
	if t == nil {
		t = placement.NewTopology(placement.DefaultPartitions)
	}
	members := make([]contracts.ClusterMember, len(t.Members))
	for i := range t.Members {
		members[i] = Member(t.Members[i])
	}
	return contracts.MemberList{Cluster: p.cluster.Name, Status: ClusterStatus(t), Epoch: t.Epoch,
		ChangedAt: Time(t.At), Members: members}, nil
}

// Lookup implements [cluster.Provider].
func (p provider) Lookup(ctx context.Context, kind, id string, q cluster.Query) (contracts.Placement, error) {
	i := placement.Identity{Kind: kind, ID: id}
	found, err := p.service.Lookup(ctx, placement.Lookup{
		Cluster: p.cluster, Identity: i, Need: placement.Need{Labels: q.Labels, Prefer: q.Prefer}, Epoch: q.Epoch,
	})
	if err != nil {
		return contracts.Placement{}, withCode(err)
	}
	return Placement(p.latest(), i, found)
}

// Activation implements [cluster.Provider].
func (p provider) Activation(ctx context.Context, kind, id string) (contracts.Activation, error) {
	found, err := p.service.Lookup(ctx, placement.Lookup{Cluster: p.cluster,
		Identity: placement.Identity{Kind: kind, ID: id}})
	if err != nil {
		return contracts.Activation{}, withCode(err)
	}
	return Recorded(p.latest(), found.Activation)
}

// Events implements [cluster.Provider]. All who wait for events of a cluster, by one Service, share one look at the
// store a second.
func (p provider) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	ask := placement.EventQuery{After: q.After, Member: q.Member, Limit: q.PageSize}
	if q.Wait > 0 {
		ask.Recent = placement.LookEvery
	}
	for left := q.Wait; ; {
		page, err := p.service.Events(ctx, p.cluster, ask)
		if err != nil {
			return contracts.EventPage{}, withCode(err)
		}
		if page.News() || left <= 0 {
			return events(page), nil
		}
		ask.After = page.Next // so that the latest look serves the next one, too
		pause := min(left, page.Due())
		select {
		case <-ctx.Done():
			return contracts.EventPage{}, ctx.Err()
		case <-time.After(pause):
			left -= pause
		}
	}
}

func events(page placement.EventPage) contracts.EventPage {
	got := contracts.EventPage{Events: make([]contracts.PlacementEvent, len(page.Events)), Next: page.Next}
	for i, e := range page.Events {
		got.Events[i] = Event(e)
	}
	return got
}

// Claim implements [cluster.Provider].
func (p provider) Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (
	contracts.ActivationOutcome, error) {
	c, err := Claim(p.cluster, placement.Identity{Kind: kind, ID: id}, r)
	if err != nil {
		return contracts.ActivationOutcome{}, withCode(err)
	}
	o, err := p.service.Claim(ctx, c)
	return said(o, err, p.outcome)
}

func (p provider) hold(kind, id, member string, incarnation, token int64) placement.Hold {
	return placement.Hold{
		Cluster: p.cluster, Identity: placement.Identity{Kind: kind, ID: id},
		Owner: placement.Incarnation{Member: member, Number: incarnation}, Token: token,
	}
}

// Activated implements [cluster.Provider].
func (p provider) Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (
	contracts.ActivationOutcome, error) {
	o, err := p.service.Activated(ctx, placement.Activated{
		Hold: p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken)})
	return said(o, err, p.outcome)
}

// Failed implements [cluster.Provider].
func (p provider) Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (
	contracts.ActivationOutcome, error) {
	o, err := p.service.Fail(ctx, placement.Fail{Hold: p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken),
		Reason: r.Reason})
	return said(o, err, p.outcome)
}

// Deactivate implements [cluster.Provider].
func (p provider) Deactivate(ctx context.Context, kind, id string,
	r contracts.ActivationEndRequest) (contracts.ActivationOutcome, error) {
	o, err := p.service.Deactivate(ctx, placement.Deactivate{
		Hold: p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken), Reason: r.Reason})
	return said(o, err, p.outcome)
}

// WriteState implements [cluster.Provider].
func (p provider) WriteState(ctx context.Context, kind, id string,
	r contracts.ActivationStateRequest) (contracts.ActivationOutcome, error) {
	c, err := WriteState(p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken), r)
	if err != nil {
		return contracts.ActivationOutcome{}, withCode(err)
	}
	o, err := p.service.WriteState(ctx, c)
	return said(o, err, p.outcome)
}

// SetAlarm implements [cluster.Provider].
func (p provider) SetAlarm(ctx context.Context, kind, id string,
	r contracts.ActivationAlarmRequest) (contracts.ActivationOutcome, error) {
	o, err := Alarm(ctx, p.service, p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken), r)
	return said(o, err, p.outcome)
}

// Transfer implements [cluster.Provider].
func (p provider) Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (
	contracts.ActivationOutcome, error) {
	c, err := Transfer(p.hold(kind, id, r.Member, r.Incarnation, r.FencingToken), r)
	if err != nil {
		return contracts.ActivationOutcome{}, withCode(err)
	}
	o, err := p.service.Transfer(ctx, c)
	return said(o, err, p.outcome)
}

// said is what a rule said, in the types of the contract, or its error with a code.
func said[O, R any](o O, err error, say func(O) (R, error)) (R, error) {
	if err != nil {
		return *new(R), withCode(err)
	}
	return say(o)
}

// outcome is that of a command on an activation.
func (p provider) outcome(o placement.Outcome) (contracts.ActivationOutcome, error) {
	return ActivationOutcome(p.latest(), o)
}

// latest is the latest epoch that was seen here.
func (p provider) latest() *placement.Topology { return p.service.Cached(p.cluster) }

// withCode gives errors that a retry would meet again their code: an invalid command, and a document that must be
// repaired first.
func withCode(err error) error {
	if _, invalid := errors.AsType[*field.Error](err); invalid {
		return fmt.Errorf("%w: %w", contracts.CodeInvalidArgument, err)
	}
	if errors.Is(err, docstore.ErrDamaged) {
		return fmt.Errorf("%w: %w", contracts.CodeDocumentDamaged, err)
	}
	if errors.Is(err, placement.ErrCursorExpired) {
		return fmt.Errorf("%w: %w", contracts.CodeCursorExpired, err)
	}
	return err
}
