package analysis

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The commands are rules in the form of package rule.
var (
	_ rule.Command[State, Outcome] = Acquire{}
	_ rule.Second[State]           = Acquire{}
	_ rule.Command[State, Outcome] = Refresh{}
	_ rule.Command[State, Outcome] = Release{}
	_ rule.Command[State, Outcome] = Finish{}
	_ rule.Command[State, Outcome] = Create{}
	_ rule.Command[State, Outcome] = requeue{}
	_ rule.Command[State, Outcome] = abandon{}
)

// Bounds of the text that a condition can tell apart.
const (
	// lastTime is the last time that [State.ExpiresAt] reads; text that sorts behind it is no time. It has no fraction,
	// because "Z" sorts behind the "." of one.
	lastTime = docstore.String("9999-12-31T23:59:59Z")

	// lastText sorts behind every text that begins with an assigned character. Only text compares with text, so "less than
	// this" is how a condition asks whether a field is text.
	lastText = docstore.String("\U0010FFFF")
)

// readable holds for a document that [ID.State] can read, and for none. It is part of every condition: a write whose outcome
// cannot be reported must not change anything.
func readable() docstore.Cond {
	c := docstore.All{docstore.Any{docstore.Not{Cond: docstore.Has{Field: fStatus}}, docstore.LE{Field: fStatus, Value: lastText}}}
	for _, f := range counts {
		c = append(c, docstore.Any{docstore.Not{Cond: docstore.Has{Field: f}}, docstore.All{
			docstore.LE{Field: f, Value: docstore.Int(docstore.MaxInt)},
			docstore.Not{Cond: docstore.LE{Field: f, Value: docstore.Int(-1)}},
		}})
	}
	return c
}

// unfinished holds for a document that exists and whose status is not finished.
func unfinished() docstore.Cond {
	return docstore.All{
		docstore.Not{Cond: docstore.Absent{}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Ready)}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Failed)}},
	}
}

// owned holds while the lock names an owner, whether it has expired or not.
func owned() docstore.Cond {
	return docstore.All{
		docstore.Has{Field: fOwner},
		docstore.Not{Cond: docstore.Eq{Field: fOwner, Value: docstore.String("")}},
	}
}

// expired holds when the lock has expired, or its expiry cannot be a time: missing, of another type, or text that sorts behind
// all times. Text that is no time and sorts among them is left to [Acquire.Second].
func expired() docstore.Cond {
	return docstore.Any{
		docstore.LE{Field: fExpiresAt, Value: docstore.Now},
		docstore.Not{Cond: docstore.LE{Field: fExpiresAt, Value: lastTime}},
	}
}

// heldBy holds while the document's lock is that of owner and token, whether it has expired or not: no one has taken over.
func heldBy(owner string, token int64) docstore.All {
	return docstore.All{
		readable(),
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	}
}

// checkHolder says why [heldBy] does not hold, or OK. The token is compared first: it alone tells one run from the next.
func (s State) checkHolder(owner string, token int64) Code {
	switch {
	case !s.Exists:
		return NotFound
	case token != s.Token:
		return Lost
	case s.Owner == "":
		return Released
	case owner != s.Owner:
		return NotOwner
	default:
		return OK
	}
}

// unlock lists the fields that are removed with a lock.
func unlock() []string {
	return []string{fOwner, fExpiresAt, fHeartbeatAt, fRequest, fRuns, fRequeuedAt, fRequeueID}
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// Acquire takes the lock of an analysis, to run it: acquireAnalysisLock of BE-041.
type Acquire struct {
	ID
	Owner      string // lockOwner: who runs it, for people and for the conditions of later commands
	RequestID  string // the same for every delivery of the same attempt, another for every attempt
	TTLSeconds int64  // how long the lock lasts without a refresh, 1 to MaxTTLSeconds
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.ID.Validate(), checkOwner(c.Owner), field.Text("request_id", c.RequestID, MaxRequestIDBytes), checkTTL(c.TTLSeconds))
}

// Write applies to an unfinished analysis without a lock, or whose lock is stale. Of any number of workers one gets the run.
func (c Acquire) Write() docstore.Write {
	return c.write(docstore.Any{docstore.Not{Cond: owned()}, expired()})
}

// Second is Write for a document whose lockExpiresAt is text that sorts among times, after now, and is none, such as "3000".
// The document must still have that text, or be free for Write by now.
func (c Acquire) Second(s State, w rule.When) (docstore.Write, bool) {
	if !s.Exists || s.Status.Finished() || s.Locked(w.At) {
		return docstore.Write{}, false
	}
	same := docstore.Eq{Field: fExpiresAt, Value: docstore.String(s.Expiry)}
	return c.write(docstore.Any{docstore.Not{Cond: owned()}, expired(), same}), true
}

func (c Acquire) write(free docstore.Cond) docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  docstore.All{readable(), unfinished(), free},
		Set: map[string]docstore.Value{
			fOwner:       docstore.String(c.Owner),
			fExpiresAt:   after(c.TTLSeconds),
			fHeartbeatAt: docstore.Now,
			fRequest:     docstore.String(c.RequestID),
		},
		Add:   map[string]int64{fToken: 1, fRuns: 1},
		Unset: []string{fRequeuedAt, fRequeueID},
	}
}

// Granted is the new lock, unless it was over before the response arrived.
func (c Acquire) Granted(s State, w rule.When) Outcome { return s.ok(w).rejectLate(w) }

// Refusal recognises the request that obtained the current lock. A lock that has expired within the margin is not handed out
// again, although another worker cannot take over yet. That the lock was not obtained is an outcome, not an error.
func (c Acquire) Refusal(s State, w rule.When) Outcome {
	end, _ := s.ExpiresAt()
	switch {
	case !s.Exists:
		return Outcome{Code: NotFound, At: w.At, Detail: "there is no document analyses/" + string(c.ID)}
	case s.Status.Finished():
		return Outcome{Code: AlreadyFinished, At: w.At, Grant: Grant{Status: s.Status}}
	case c.Owner != s.Owner || c.RequestID != s.Request || w.Ended(end):
		return Outcome{
			Code: Locked, At: w.At, RetryAfter: end.Sub(w.At),
			Grant: Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: end},
		}
	default:
		return s.replayed(w).rejectLate(w)
	}
}

// Refresh moves the expiry of a lock to now + TTLSeconds: refreshAnalysisLock of BE-041, the heartbeat. Send it every 60 to
// 120 seconds of a lock of 300.
type Refresh struct {
	ID
	Owner      string
	Token      int64
	TTLSeconds int64
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Refresh) Validate() error {
	return first(c.ID.Validate(), checkOwner(c.Owner), checkToken(c.Token), checkTTL(c.TTLSeconds))
}

// Write applies while the lock of an unfinished analysis is held by this owner under this token. An expired lock is never
// refreshed, even if no one has taken over: its holder may have been told already. If READY or FAILED was written into the
// document meanwhile, to stop the work, the holder learns it here.
func (c Refresh) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  append(heldBy(c.Owner, c.Token), unfinished(), docstore.Not{Cond: expired()}),
		Set: map[string]docstore.Value{fExpiresAt: after(c.TTLSeconds), fHeartbeatAt: docstore.Now},
	}
}

// Granted is the refreshed lock, unless it was over before the response arrived.
func (c Refresh) Granted(s State, w rule.When) Outcome { return s.ok(w).rejectLate(w) }

// Refusal says why the lock is not, or no longer, the caller's. A refresh needs no request ID: repeated, it applies again.
func (c Refresh) Refusal(s State, w rule.When) Outcome {
	switch code := s.checkHolder(c.Owner, c.Token); {
	case code != OK:
		return s.refused(code, c.Token, w)
	case s.Status.Finished():
		return s.refused(AlreadyFinished, c.Token, w)
	default:
		return s.refused(Expired, c.Token, w)
	}
}

// Release ends a lock with the analysis unfinished: releaseAnalysisLock of BE-041. Only its holder can; callers treat a
// failure as a warning, because the lock expires by itself.
type Release struct {
	ID
	Owner  string
	Token  int64
	Failed string // why the run failed, counted and kept in the document; empty if it did not fail, but was stopped
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Release) Validate() error {
	return first(c.ID.Validate(), checkOwner(c.Owner), checkToken(c.Token), checkReason(c.Failed))
}

// Write applies while the lock is this owner's under this token, expired or not. The analysis is free for the next run.
func (c Release) Write() docstore.Write {
	w := docstore.Write{Key: c.key(), If: heldBy(c.Owner, c.Token), Unset: unlock()}
	if c.Failed != "" {
		w.Set = map[string]docstore.Value{fReason: docstore.String(c.Failed)}
		w.Add = map[string]int64{fFailures: 1}
	}
	return w
}

// Granted is the analysis without the lock.
func (c Release) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal recognises that the lock of this token has been released.
func (c Release) Refusal(s State, w rule.When) Outcome {
	code := s.checkHolder(c.Owner, c.Token)
	if code == Released {
		return s.replayed(w)
	}
	return s.refused(code, c.Token, w)
}

// Finish ends an analysis for ever, and its lock in the same step.
type Finish struct {
	ID
	Owner  string
	Token  int64
	Status Status // Ready or Failed
	Result string // with Ready: the result or where it is; empty leaves the document's as it is
	Reason string // with Failed: why
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Finish) Validate() error {
	switch {
	case !c.Status.Finished():
		return field.Errorf("status", "must be READY or FAILED")
	case c.Status == Failed && c.Result != "":
		return field.Errorf("result", "belongs to READY: with FAILED send failure_reason")
	case c.Status == Ready && c.Reason != "":
		return field.Errorf("failure_reason", "belongs to FAILED: with READY send result")
	case len(c.Result) > MaxResultBytes:
		return field.Errorf("result", "has %d bytes, %d at most: keep it elsewhere and send where it is", len(c.Result), MaxResultBytes)
	}
	return first(c.ID.Validate(), checkOwner(c.Owner), checkToken(c.Token), validText("result", c.Result), checkReason(c.Reason))
}

// Write applies while the lock is this owner's under this token, expired or not, so that a worker that was taken over can
// neither finish nor fail the run of another. If the document says already that the analysis ended the same way, the holder
// itself wrote that, and its lock is removed; an analysis that ended the other way stays as it is.
func (c Finish) Write() docstore.Write {
	w := docstore.Write{
		Key:   c.key(),
		If:    append(heldBy(c.Owner, c.Token), docstore.Any{unfinished(), docstore.Eq{Field: fStatus, Value: docstore.String(c.Status)}}),
		Set:   map[string]docstore.Value{fStatus: docstore.String(c.Status)},
		Unset: unlock(),
	}
	if c.Result != "" {
		w.Set[fResult] = docstore.String(c.Result)
	}
	if c.Reason != "" {
		w.Set[fReason] = docstore.String(c.Reason)
	} else {
		w.Unset = append(w.Unset, fReason)
	}
	return w
}

// Granted is the finished analysis.
func (c Finish) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal recognises that the run of this token has finished the same way.
func (c Finish) Refusal(s State, w rule.When) Outcome {
	switch code := s.checkHolder(c.Owner, c.Token); {
	case code == Released && s.Status == c.Status:
		return s.replayed(w)
	case code == OK, code == Released && s.Status.Finished():
		return s.refused(AlreadyFinished, c.Token, w)
	default:
		return s.refused(code, c.Token, w)
	}
}

// Pending is the status that [Create] sets. Users who create their documents themselves may use another word.
const Pending Status = "PENDING"

// Create creates the document of an analysis, for users who do not keep one of their own.
type Create struct{ ID }

// Write applies if there is no document.
func (c Create) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{fStatus: docstore.String(Pending)},
	}
}

// Granted is the new analysis.
func (c Create) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal takes any existing document for the command's own effect.
func (c Create) Refusal(s State, w rule.When) Outcome {
	return Outcome{Code: OK, Replayed: true, At: w.At, Grant: Grant{Status: s.Status}}
}
