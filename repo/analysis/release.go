package analysis

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Release gives a lock back with the analysis unfinished: releaseAnalysisLock of BE-041. Only its holder can; whoever calls
// it treats a failure as a warning, because the lock ends by itself.
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

// Decide frees the analysis for the next run (BE-041-DOD-4), if the lock is still this owner's under this token
// (BE-041-CONFLICT-1, BE-041-TEST-5).
func (c Release) Decide(s State, now time.Time) (State, Outcome) {
	switch code := s.standing(c.Owner, c.Token); code {
	case OK:
	case Released:
		return s, Outcome{Code: OK, Replayed: true, At: now, Grant: s.grant()}
	default:
		return s, s.refused(code, c.Token, now)
	}
	s = s.unlocked()
	if c.Failed != "" {
		s.Failures++
		s.Reason = c.Failed
	}
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Release) Write() docstore.Write {
	w := docstore.Write{Key: c.key(), If: held(c.Owner, c.Token), Unset: unlock()}
	if c.Failed != "" {
		w.Set = map[string]docstore.Value{fReason: docstore.String(c.Failed)}
		w.Add = map[string]int64{fFailures: 1}
	}
	return w
}

// Finish ends an analysis for ever, and its lock in the same step. Only the holder can, and only while nobody has taken
// over: a zombie can neither finish nor fail somebody else's run.
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
		return field.Errorf("result", "belongs to READY: with FAILED send failureReason")
	case c.Status == Ready && c.Reason != "":
		return field.Errorf("failure_reason", "belongs to FAILED: with READY send result")
	case len(c.Result) > MaxResultBytes:
		return field.Errorf("result", "has %d bytes, %d at most: keep it elsewhere and send where it is", len(c.Result), MaxResultBytes)
	}
	return first(c.ID.Validate(), checkOwner(c.Owner), checkToken(c.Token), validText("result", c.Result), checkReason(c.Reason))
}

// Decide ends the analysis if the lock is still this owner's under this token. If the document says already that the
// analysis ended the same way, the holder itself wrote that, and its lock is taken off; an analysis that ended the other
// way stays as it is.
func (c Finish) Decide(s State, now time.Time) (State, Outcome) {
	code := s.standing(c.Owner, c.Token)
	switch {
	case code == Released && s.Status == c.Status:
		return s, Outcome{Code: OK, Replayed: true, At: now, Grant: s.grant()}
	case (code == OK || code == Released) && s.Status.Finished() && s.Status != c.Status:
		return s, s.refused(AlreadyFinished, c.Token, now)
	case code != OK:
		return s, s.refused(code, c.Token, now)
	}
	s = s.unlocked()
	s.Status, s.Reason = c.Status, c.Reason
	if c.Result != "" {
		s.Result = c.Result
	}
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Finish) Write() docstore.Write {
	w := docstore.Write{
		Key:   c.key(),
		If:    append(held(c.Owner, c.Token), docstore.Any{unfinished(), docstore.Eq{Field: fStatus, Value: docstore.String(c.Status)}}),
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

func checkReason(s string) error {
	if len(s) > MaxReasonBytes {
		return field.Errorf("failure_reason", "has %d bytes, %d at most", len(s), MaxReasonBytes)
	}
	return validText("failure_reason", s)
}
