package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Provider is the placement of one cluster: a client of a server, or the rules themselves on a store. Its parts can
// come from several implementations, as fields of one struct:
//
//	struct {
//		cluster.Membership
//		cluster.Directory
//		cluster.Locker
//		cluster.Storage
//		cluster.Alarms
//	}{server, server, myLocker, server, server}
//
// Package clustertest tests implementations of a [Locker], a [Storage] and a [Host].
//
// The methods may be called from several goroutines at once, and return soon after their context ends. Their errors
// carry a [contracts.Code], as errors.Is finds it, and where the code asks for more they are a [contracts.Error] with
// it. An error that is not retryable would come again; after any other the outcome is unknown or nothing was changed,
// and the same request with the same request_id is sent again.
type Provider interface {
	Membership
	Directory
	Locker
	Storage
	Alarms
}

// Membership keeps members in the cluster: each incarnation has a lease, which its heartbeats extend.
//
// A join, and a replace, that has a NotAfter in the past changes nothing. Where an earlier request with its RequestID
// had made an incarnation, it returns that; otherwise its error is TOO_LATE. So a member that gave up a join learns
// whether it is in the cluster, and leaves.
type Membership interface {
	Join(ctx context.Context, member string, r contracts.MemberJoinRequest) (contracts.MemberState, error)
	Replace(ctx context.Context, member string, r contracts.MemberReplaceRequest) (contracts.MemberState, error)
	Heartbeat(ctx context.Context, member string, r contracts.MemberHeartbeatRequest) (contracts.MemberState, error)
	ChangeOffer(ctx context.Context, member string, r contracts.MemberOfferRequest) (contracts.MemberState, error)
	Drain(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error)
	Leave(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error)
}

// Directory says who the members are, where an identity is, or would be, and what changed.
type Directory interface {
	// Cluster names the cluster, behind its tenant, such as acme/chat: members of another one are not believed.
	Cluster() string

	Members(ctx context.Context) (contracts.MemberList, error)
	Lookup(ctx context.Context, kind, id string, q Query) (contracts.Placement, error)
	Events(ctx context.Context, q EventQuery) (contracts.EventPage, error)
}

// Locker is the lock under which an activation begins. Claim obtains it, or Transfer for another member; it ends with
// Activated or Failed, or when it expires. At most one is granted for an identity at a time, and each has a higher
// fencing token than all before. Without one nothing is activated.
//
// What a Locker grants, the [Storage] shows. One that keeps its locks elsewhere obtains the lock there, and then passes
// the request on to the Locker of the storage. States are asked of the Storage alone.
type Locker interface {
	Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (contracts.ActivationOutcome, error)
	Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (contracts.ActivationOutcome,
		error)
	Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (contracts.ActivationOutcome, error)
	Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (contracts.ActivationOutcome, error)
}

// Storage keeps the owner of an identity, from the grant of the lock to the end of the activation, and its state. It
// takes a state from the owner alone, under the current fencing token, and with it a change of the alarm, both or
// neither, where it is the [Alarms] as well: [Member.WriteStateAndAlarm] needs that.
type Storage interface {
	Activation(ctx context.Context, kind, id string) (contracts.Activation, error)
	WriteState(ctx context.Context, kind, id string, r contracts.ActivationStateRequest) (contracts.ActivationOutcome,
		error)
	Deactivate(ctx context.Context, kind, id string, r contracts.ActivationEndRequest) (contracts.ActivationOutcome, error)
}

// Alarms keeps the alarm of an identity. It takes one from the owner alone, under the current fencing token, in place
// of the one of a version; without a time it clears it. What it has, the [Storage] shows. At the time it tells the
// owner by an event from ACTIVE to ACTIVE, or claims the identity if no one has it, and again until the alarm is
// cleared. A request with Failed changes nothing, and should be an event: why the call for the alarm failed.
type Alarms interface {
	SetAlarm(ctx context.Context, kind, id string, r contracts.ActivationAlarmRequest) (contracts.ActivationOutcome, error)
}

// Identity names what is activated at most once.
type Identity struct {
	Kind string // letters, digits, '.', '_' and '-'
	ID   string
}

// Need is what an identity needs of the member that hosts it. nil is nothing. Where an identity is active already, that
// is where it is, whatever a caller needs.
type Need struct {
	Labels map[string]string // the member must have all of them
	Prefer map[string]string // members that have more of them come first
}

// key is a need as a text: different for different needs, empty for none.
func (n *Need) key() string {
	if n == nil || len(n.Labels)+len(n.Prefer) == 0 {
		return ""
	}
	var b strings.Builder
	for _, labels := range []map[string]string{n.Labels, n.Prefer} {
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			fmt.Fprintf(&b, "%q=%q ", k, labels[k])
		}
		b.WriteByte(';')
	}
	return b.String()
}

// labels are both, as requests have them.
func (n *Need) labels() (labels, prefer map[string]string) {
	if n == nil {
		return nil, nil
	}
	return n.Labels, n.Prefer
}

// Query says for whom [Directory.Lookup] asks. The zero value asks for anyone.
type Query struct {
	Labels map[string]string // the member must have all of them
	Prefer map[string]string // members that have more of them come first
	// by which the caller placed the identity, if not 0; the error STALE_EPOCH says that it is over
	Epoch int64
}

// EventQuery selects events of the cluster. The zero value selects the oldest.
type EventQuery struct {
	// Member leaves out what does not concern the member of this name: it gets what became of it and of its activations,
	// and who took one from it. A provider may return others as well.
	Member   string
	After    string        // EventPage.Next of the page before, or a time like 2026-01-01T00:00:00.000Z
	Wait     time.Duration // for something new, in whole seconds; a provider may return earlier, and without events
	PageSize int           // 1 to 1000; 0 means the provider's default
}
