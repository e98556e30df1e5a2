package placement

import "context"

// The contracts behind a [Component]. [Service] is the implementation of all but the last, over any store; each can be replaced by
// another one, which placementtest holds to the same rules.
type (
	// Membership keeps a member in its cluster, and knows the epochs.
	Membership interface {
		Join(context.Context, Join) (MemberOutcome, error)
		Heartbeat(context.Context, Heartbeat) (MemberOutcome, error)
		DrainMember(context.Context, Cluster, Incarnation) (MemberOutcome, error)
		Leave(context.Context, Cluster, Incarnation) (MemberOutcome, error)
		Topology(context.Context, Cluster) (*Topology, error)
	}

	// Locker is the lock under which an activation begins: Claim obtains it, and it ends with Activated or Fail. At most one claim of an
	// identity is granted at a time, and each grant has a higher token than all before. Without a grant, nothing may be activated.
	Locker interface {
		Claim(context.Context, Claim) (Outcome, error)
		Activated(context.Context, Activated) (Outcome, error)
		Fail(context.Context, Fail) (Outcome, error)
	}

	// Storage keeps who owns an identity, and its state. It shows the owner from the grant of the lock to the end of the activation, and
	// takes what an owner writes only under the current token.
	Storage interface {
		Lookup(context.Context, Lookup) (Placement, error)
		WriteState(context.Context, WriteState) (Outcome, error)
		Deactivate(context.Context, Deactivate) (Outcome, error)
	}

	// Activator runs identities in this process. A Component calls Activate only under a granted lock, and Deactivate once for each
	// Activate that succeeded: when the identity is to end, and also when it was lost.
	Activator interface {
		// Activate prepares an identity. The error's text is the reason that those who asked for the activation get.
		Activate(context.Context, Activation) error

		// Deactivate ends what Activate prepared. It must not return before nothing is done for the identity any more.
		Deactivate(context.Context, Activation) error
	}
)

var (
	_ Membership = (*Service)(nil)
	_ Locker     = (*Service)(nil)
	_ Storage    = (*Service)(nil)
)
