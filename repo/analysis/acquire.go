package analysis

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Acquire asks for the right to run an analysis: acquireAnalysisLock of BE-041.
type Acquire struct {
	ID
	Owner      string // lockOwner: who runs it, for people and for the conditions of what follows
	RequestID  string // the same for every sending of the same attempt, another for every attempt
	TTLSeconds int64  // how long the lock lasts without a refresh, 1 to MaxTTLSeconds
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.ID.Validate(), checkOwner(c.Owner), field.Text("request_id", c.RequestID, MaxRequestIDBytes), checkTTL(c.TTLSeconds))
}

// Decide grants the run of an unfinished analysis that nobody runs at the time now, or whose lock is stale
// (BE-041-RULE-1 to BE-041-RULE-4, BE-041-TTL). Not granting is an outcome, not an error (BE-041-CONFLICT-3).
func (c Acquire) Decide(s State, now time.Time) (State, Outcome) {
	switch {
	case !s.Exists:
		return s, Outcome{Code: NotFound, At: now, Detail: "there is no document analyses/" + string(c.ID)}
	case s.Status.Finished(): // BE-041-RULE-1, BE-041-DOD-2, BE-041-TEST-4
		return s, Outcome{Code: AlreadyFinished, At: now, Grant: Grant{Status: s.Status}}
	case s.Locked(now): // BE-041-RULE-4
		end, _ := s.ExpiresAt()
		if c.Owner == s.Owner && c.RequestID == s.Request {
			return s, Outcome{Code: OK, Replayed: true, At: now, Grant: s.grant()}
		}
		return s, Outcome{
			Code: Locked, At: now, RetryAfter: end.Sub(now),
			Grant: Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: end},
		}
	}
	s.Owner, s.Request, s.Expiry = c.Owner, c.RequestID, deadline(now, c.TTLSeconds) // BE-041-RULE-2, BE-041-RULE-3, BE-041-DOD-3
	s.Token++
	s.Runs++
	s.Requeued, s.RequeueID = "", ""
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide: one atomic step, so that of any number of workers one gets the run
// (BE-041-DOD-1, BE-041-TEST-1, BE-041-TEST-2, BE-041-TEST-3).
func (c Acquire) Write() docstore.Write {
	return c.write(docstore.Any{docstore.Not{Cond: owned()}, ended()})
}

// WriteOver is Write for a document whose lockExpiresAt is text that the store's comparison takes for a time to come and
// that is none, such as "3000" or one with a fraction that ends early. The document must still have it.
func (c Acquire) WriteOver(expiry string) docstore.Write {
	return c.write(docstore.Any{docstore.Not{Cond: owned()}, ended(), docstore.Eq{Field: fExpiresAt, Value: docstore.String(expiry)}})
}

func (c Acquire) write(free docstore.Cond) docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  docstore.All{legible(), unfinished(), free},
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

// Refresh moves the end of a lock to now + TTLSeconds: refreshAnalysisLock of BE-041, the heartbeat. Send it every 60 to
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

// Decide grants more time to whoever still holds the lock of an unfinished analysis. A lock that has ended is not brought
// back to life, even if nobody has taken over yet: its holder may have been told so already. If somebody has written READY
// or FAILED into the document meanwhile, to stop the work for one, the holder hears of it here.
func (c Refresh) Decide(s State, now time.Time) (State, Outcome) {
	code := s.standing(c.Owner, c.Token)
	switch {
	case code != OK:
		return s, s.refused(code, c.Token, now)
	case s.Status.Finished():
		return s, s.refused(AlreadyFinished, c.Token, now)
	case s.Expiry == "" || s.Expiry > string(lastTime) || s.Expiry <= string(docstore.FormatTime(now)):
		return s, s.refused(Expired, c.Token, now)
	}
	s.Expiry = deadline(now, c.TTLSeconds)
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Refresh) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  append(held(c.Owner, c.Token), unfinished(), docstore.Not{Cond: ended()}),
		Set: map[string]docstore.Value{fExpiresAt: after(c.TTLSeconds), fHeartbeatAt: docstore.Now},
	}
}
