package placement

import (
	"cmp"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Code says how a command ended. Rejections are outcomes, not errors, and change nothing.
type Code string

// The outcomes of the commands.
const (
	OK Code = "OK"

	Undetermined     Code = "TOPOLOGY_UNDETERMINED" // the cluster has no active member: nothing is placed
	NoEligibleMember Code = "NO_ELIGIBLE_MEMBER"    // no member may host the identity
	// MemberIneligible:
	// the member that was named may not host it: Outcome.Ineligible says why
	MemberIneligible Code = "MEMBER_INELIGIBLE"
	// StaleEpoch:
	// the caller placed by an epoch that is over: Outcome.Epoch is the current one
	StaleEpoch Code = "STALE_EPOCH"

	Exists Code = "ACTIVATION_EXISTS" // the identity is active: Outcome.Activation says where
	// Locking:
	// another claim is being carried out: Outcome.RetryAfter is when its lock ends, or 10 s, in which its owner would have
	// completed it or died
	Locking Code = "ACTIVATION_LOCKED"
	// ActivationFailed:
	// the activation that this claim began failed: Outcome.Activation.Reason says why
	ActivationFailed Code = "ACTIVATION_FAILED"
	// StaleToken:
	// the token is not the current one: the activation has ended or was taken over
	StaleToken   Code = "STALE_TOKEN"
	NotOwner     Code = "NOT_OWNER"     // the activation belongs to another member or incarnation
	WrongPhase   Code = "WRONG_PHASE"   // the activation is not in a phase in which this can be done
	StateChanged Code = "STATE_CHANGED" // the state is not of the version that was named
	// MemberExists:
	// a member of that name lives: Outcome.RetryAfter is when its lease ends, if it does nothing
	MemberExists     Code = "MEMBER_EXISTS"
	MemberUnknown    Code = "MEMBER_UNKNOWN"    // there is no member of that name
	StaleIncarnation Code = "STALE_INCARNATION" // the incarnation is not the current one, or has ended
	// ClusterFull:
	// the cluster has as many members, or as much about them, as an epoch can hold; MemberOutcome.RetryAfter is when the
	// first lease ends
	ClusterFull     Code = "CLUSTER_FULL"
	ClusterDiffers  Code = "CLUSTER_DIFFERS"   // the cluster was set up otherwise than the caller asks for
	ClusterUnknown  Code = "NOT_FOUND"         // there is no such cluster to remove
	Limit           Code = "PLACEMENT_LIMIT"   // as many identities or clusters as there may be: see [Options]
	LateAnswer      Code = "LEASE_EXPIRED"     // the lease was over when the store responded
	RequestIDReused Code = "REQUEST_ID_REUSED" // the request_id was used for something else, or for what has ended since
	TooLate         Code = rule.TooLate        // the command came after its end, see [rule.End]
	TooFar          Code = rule.TooFar         // the end of the command is further away than it may be
)

// ended is the code, and the sentence, of a command that came after its end, or whose end is too far away; OK for one
// that came in time. It is asked of commands that had no effect before: an earlier delivery is recognised first.
func ended(e rule.End, w rule.When) (Code, string) {
	code, why := e.Refuses(w)
	return cmp.Or(Code(code), OK), why
}

// Outcome is the result of a command on an activation.
type Outcome struct {
	Code     Code
	Replayed bool // the command had been carried out before; nothing was changed now

	// Activation is the identity's activation, as far as the command learned of it: whole after a claim, a transfer or a
	// rejection, and otherwise what the command says and changes.
	Activation Activation

	// TakenFrom is from whom a claim took the activation over, because its owner was dead or its lock phase over; not of a
	// replayed one.
	TakenFrom Incarnation

	Epoch      int64         // by which the command was decided; 0 if it does not depend on one
	At         time.Time     // the store's time of the decision
	RetryAfter time.Duration // for Locking and Limit
	Ineligible Ineligible    // for MemberIneligible
	Detail     string        // a sentence for people, may be empty
}

// MemberOutcome is the result of a command on a member.
type MemberOutcome struct {
	Code     Code
	Replayed bool // the command had been carried out before; nothing was changed now

	Incarnation Incarnation // that the command made or named; for a rejection, the current one
	Status      Status      // of it
	ExpiresAt   time.Time   // of its lease; zero if it has none

	Epoch      int64         // that the command began, or the current one
	Moved      int           // partitions that changed hands with the epoch
	At         time.Time     // the store's time of the decision
	RetryAfter time.Duration // for MemberExists and ClusterFull
	Detail     string        // a sentence for people, may be empty
}
