package httpapi

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// call is a request of a caller that was let in, on its way through an endpoint.
type call struct {
	*http.Request
	caller Caller
	note   *exchangeLog
}

// command is the endpoint that carries out what a body of the type B asks for, and responds with an R. The body is read
// before there is a slot for the work, and the response is written after it. do says in whose
// name, see [call.asOwner] and those beside it, makes the command of a rule out of the body and has it carried out, and
// says what became of it, see [reply]. An R that is any may be nil: then the response has no body, see [send].
func command[B, R any](a *api, do func(call, *B) (R, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		var body B
		if err := decode(w, r, begin(&body), &body); err != nil {
			return err
		}
		n := noteOf(r)
		n.body = &body
		response, err := answer(a, r, func() (R, error) { return do(call{r, c, n}, &body) })
		if err != nil {
			return err
		}
		return send(w, response)
	}
}

// begin gives a body what its members mean if they are left out, where that is not their zero, and returns how many
// bytes it has at most.
func begin(body any) (most int64) {
	switch b := body.(type) {
	case *contracts.AnalysisLockRequest:
		b.TTLSeconds = analysis.DefaultTTLSeconds
	case *contracts.AnalysisRefreshRequest:
		b.TTLSeconds = analysis.DefaultTTLSeconds
	case *contracts.AnalysisReleaseRequest:
		b.FailureReason = notGiven
	case *contracts.AnalysisFinishRequest:
		b.FailureReason = notGiven
		return maxFinishBytes
	case *contracts.RunBeginRequest:
		b.TTLSeconds, b.KeepSeconds, b.EverySeconds = runs.DefaultTTLSeconds, secondsNotGiven, secondsNotGiven
	case *contracts.RunRefreshRequest:
		b.TTLSeconds, b.KeepSeconds = runs.DefaultTTLSeconds, secondsNotGiven
	case *contracts.RunReleaseRequest:
		b.FailureReason, b.KeepSeconds = notGiven, secondsNotGiven
	case *contracts.RunFinishRequest:
		b.FailureReason, b.KeepSeconds = notGiven, secondsNotGiven
		return maxFinishBytes
	case *contracts.MemberJoinRequest:
		b.TTLSeconds = defaultSeconds
	case *contracts.MemberReplaceRequest:
		b.TTLSeconds = defaultSeconds
	case *contracts.MemberHeartbeatRequest:
		b.TTLSeconds = defaultSeconds
	case *contracts.ActivationClaimRequest:
		b.Member = notGiven
	case *contracts.ActivationAlarmRequest:
		b.Failed = notGiven
	case *contracts.ActivationTransferRequest:
		b.To, b.LockTTLSeconds = notGiven, defaultLockSeconds
	default: // a member that is left out is its zero
	}
	return MaxBodyBytes
}

// look is the endpoint that responds with an R, which the work in a slot finds out, and changes nothing.
func look[R any](a *api, do func(call) (R, error)) handler {
	return glance(func(c call) (R, error) {
		return answer(a, c.Request, func() (R, error) { return do(c) })
	})
}

// glance is a look that asks no store, and takes no slot.
func glance[R any](do func(call) (R, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		response, err := do(call{r, c, noteOf(r)})
		if err != nil {
			return err
		}
		return send(w, response)
	}
}

// asOwner puts the owner of the caller's leases, see [Caller.owner], in the place of what a body says.
func (c call) asOwner(name *string) (err error) {
	c.note.ownerID = *name
	*name, err = c.caller.owner(*name)
	return err
}

// asHolder is asOwner for analyses and runs, see [Caller.lockOwner].
func (c call) asHolder(name *string) (err error) {
	c.note.ownerID = *name
	*name, err = c.caller.lockOwner(*name)
	return err
}

// asMember puts the member that the caller acts for, see [Caller.member], in the place of what a body or a path says.
func (c call) asMember(name *string) (err error) {
	c.note.ownerID = *name
	*name, err = c.caller.member(*name)
	return err
}

// reply is what a rule said, or its error. say puts the first into the types of the contract, or rejects the command.
// The metrics are told whether the command had been carried out before.
func reply[O, R any](c call, o O, replayed bool, err error, say func(O) (R, error)) (R, error) {
	c.note.facts.Replayed = replayed
	if err != nil {
		return *new(R), err
	}
	return say(o)
}
