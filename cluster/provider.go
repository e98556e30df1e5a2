package cluster

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Provider is the placement of one cluster: a client of a server, or the rules themselves on a store. Its methods may be called from several
// goroutines at once, and return soon after their context ends.
//
// Its errors carry a [contracts.Code], as errors.Is finds it, and where the code asks for more they are a [contracts.Error] with it. An error
// that is not retryable would come again; after any other the outcome is unknown or nothing was changed, and the same request with the
// same request_id is sent again.
type Provider interface { //nolint:interfacebloat // one method for each request of the API that members and locators send
	Join(ctx context.Context, member string, r contracts.MemberJoinRequest) (contracts.MemberState, error)
	Replace(ctx context.Context, member string, r contracts.MemberReplaceRequest) (contracts.MemberState, error)
	Heartbeat(ctx context.Context, member string, r contracts.MemberHeartbeatRequest) (contracts.MemberState, error)
	Drain(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error)
	Leave(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState, error)

	Topology(ctx context.Context) (contracts.Topology, error)
	Lookup(ctx context.Context, kind, id string, q Query) (contracts.Placement, error)
	Activation(ctx context.Context, kind, id string) (contracts.Activation, error)
	Events(ctx context.Context, q EventQuery) (contracts.EventPage, error)

	Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (contracts.ActivationOutcome, error)
	Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (contracts.ActivationOutcome, error)
	Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (contracts.ActivationOutcome, error)
	Deactivate(ctx context.Context, kind, id string, r contracts.ActivationEndRequest) (contracts.ActivationOutcome, error)
	WriteState(ctx context.Context, kind, id string, r contracts.ActivationStateRequest) (contracts.ActivationOutcome, error)
	Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (contracts.ActivationOutcome, error)
}

// Identity names what is activated at most once.
type Identity struct {
	Kind string // letters, digits, '.', '_' and '-'
	ID   string
}

// Query says for whom [Provider.Lookup] asks. The zero value asks for anyone.
type Query struct {
	Labels map[string]string // the member must have all of them
	Prefer map[string]string // members that have more of them come first
	Epoch  int64             // by which the caller placed the identity, if not 0; the error STALE_EPOCH says that it is over
}

// EventQuery selects events of the cluster. The zero value selects the oldest.
type EventQuery struct {
	After    string        // EventPage.Next of the page before, or a time like 2026-01-01T00:00:00.000Z
	Wait     time.Duration // for something new, in whole seconds; a provider may return earlier, and without events
	PageSize int           // 1 to 1000; 0 means the provider's default
}
