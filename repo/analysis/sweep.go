package analysis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Queue is where the sweep puts analyses that somebody has to run again.
type Queue interface {
	// Enqueue hands an analysis to the workers. Calls with the same name mean the same message, and a queue that knows names
	// takes it once. An error means that nothing was queued, or that nobody knows.
	Enqueue(ctx context.Context, id ID, name string) error
}

// Requeue marks a stale analysis as queued again, so that of several sweeps one does it. The mark wears off: a sweep that
// died between mark and queue is made good by a later one.
type Requeue struct {
	ID
	RequestID string        // of the mark, another for every attempt: a sweep must know its own mark from another's
	Token     int64         // of the lock that was found
	Every     time.Duration // after this the mark counts no more; whole milliseconds
}

// Decide marks an unfinished analysis whose lock is stale and is the one that was found. A mark of the same request is
// the command's own, whose answer got lost.
func (c Requeue) Decide(s State, now time.Time) (State, Outcome) {
	if code := c.stale(s, c.Token, now); code != OK {
		return s, s.refused(code, c.Token, now)
	}
	if s.Requeued != "" && s.Requeued > string(docstore.FormatTime(now.Add(-c.Every))) && s.Requeued <= string(lastTime) {
		if s.RequeueID == c.RequestID {
			return s, Outcome{Code: OK, Replayed: true, At: now, Grant: s.grant()}
		}
		return s, s.refused(NotStale, c.Token, now)
	}
	s.Requeued, s.RequeueID = string(docstore.FormatTime(now)), c.RequestID
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Requeue) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If: append(c.isStale(c.Token), docstore.Any{
			docstore.LE{Field: fRequeuedAt, Value: docstore.Now.Add(-c.Every)},
			docstore.Not{Cond: docstore.LE{Field: fRequeuedAt, Value: lastTime}},
		}),
		Set: map[string]docstore.Value{fRequeuedAt: docstore.Now, fRequeueID: docstore.String(c.RequestID)},
	}
}

// unmark takes the mark of a [Requeue] back whose analysis could not be queued.
func (c Requeue) unmark() docstore.Write {
	return docstore.Write{
		Key:   c.key(),
		If:    docstore.Eq{Field: fRequeueID, Value: docstore.String(c.RequestID)},
		Unset: []string{fRequeuedAt, fRequeueID},
	}
}

// Abandon turns an analysis FAILED whose workers have died again and again. It takes the next token, so that a worker that
// was only slow is told that it lost the lock.
type Abandon struct {
	ID
	Token  int64  // of the lock that was found
	Reason string // for people
}

// Decide fails an unfinished analysis whose lock is stale and is the one that was found.
func (c Abandon) Decide(s State, now time.Time) (State, Outcome) {
	if code := c.stale(s, c.Token, now); code != OK {
		return s, s.refused(code, c.Token, now)
	}
	s = s.unlocked()
	s.Status, s.Reason = Failed, c.Reason
	s.Token++
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Abandon) Write() docstore.Write {
	return docstore.Write{
		Key:   c.key(),
		If:    c.isStale(c.Token),
		Set:   map[string]docstore.Value{fStatus: docstore.String(Failed), fReason: docstore.String(c.Reason)},
		Add:   map[string]int64{fToken: 1},
		Unset: unlock(),
	}
}

// stale says whether the analysis still has the stale lock that a sweep found. Only a time that has passed counts: what
// is no time is no business of the sweep, which finds analyses by that time.
func (ID) stale(s State, token int64, now time.Time) Code {
	switch {
	case !s.Exists:
		return NotFound
	case s.Status.Finished():
		return AlreadyFinished
	case s.Token != token || s.Owner == "" || s.Expiry == "" || s.Expiry > string(docstore.FormatTime(now)):
		return NotStale
	default:
		return OK
	}
}

// isStale is [ID.stale] as a condition.
func (ID) isStale(token int64) docstore.All {
	same := docstore.Cond(docstore.Eq{Field: fToken, Value: docstore.Int(token)})
	if token == 0 { // a lock that was taken without the gate has none
		same = docstore.Any{same, docstore.Not{Cond: docstore.Has{Field: fToken}}}
	}
	return docstore.All{
		legible(), unfinished(), owned(), same,
		docstore.LE{Field: fExpiresAt, Value: docstore.Now},
		docstore.Not{Cond: docstore.Eq{Field: fExpiresAt, Value: docstore.String("")}},
	}
}

// Sweep looks for unfinished analyses whose lock is stale: their worker died. Each is queued again once, or turned FAILED if
// that has happened too often. Any number of sweeps may run at once.
type Sweep struct {
	Queue        Queue
	MaxTakeovers int64         // an analysis that was taken over this often becomes FAILED; 0 stands for DefaultMaxTakeovers
	RequeueEvery time.Duration // a queued analysis that nobody has begun is queued again after this, whole milliseconds; 0 stands for DefaultRequeueEvery
	Grace        time.Duration // how long a lock must have been stale: the queue may deliver by itself; 0 stands for none
	PageSize     int           // analyses looked at in one request, 1 to docstore.MaxLimit; 0 stands for docstore.DefaultLimit
	Most         int           // stale analyses looked at in one sweep; 0 stands for DefaultMostSwept
}

// Defaults of [Sweep].
const (
	DefaultMaxTakeovers = 5
	DefaultRequeueEvery = 15 * time.Minute
	DefaultMostSwept    = 10_000
)

// Bounds of [Sweep]: beyond them a setting is a slip.
const (
	maxRequeueEvery = 366 * 24 * time.Hour
	maxTroubles     = 20 // that Sweep tells in words
)

// Swept counts what a sweep did.
type Swept struct {
	Stale    int  // analyses found with a stale lock: the sum of the next four, and one more if the sweep was cut off
	Requeued int  // queued again by this sweep
	Failed   int  // turned FAILED by this sweep
	Skipped  int  // queued already a short time ago, or somebody else was quicker: another sweep, or a worker
	Errors   int  // analyses whose document or queue made trouble; the sweep went on, and the next one tries again
	More     bool // it ended after Sweep.Most, and there may be more
}

// Validate reports whether the settings can work. The error is a [field.Error].
func (c Sweep) Validate() error {
	switch {
	case c.Queue == nil:
		return field.Errorf("queue", "is required: where stale analyses are queued again")
	case c.MaxTakeovers < 0:
		return field.Errorf("maxTakeovers", "must not be negative")
	case c.RequeueEvery < 0 || c.RequeueEvery > maxRequeueEvery || c.RequeueEvery%time.Millisecond != 0:
		return field.Errorf("requeueEvery", "must be whole milliseconds, a year at most")
	case c.Grace < 0 || c.Grace > maxRequeueEvery:
		return field.Errorf("grace", "must be from 0 to a year")
	case c.PageSize < 0 || c.PageSize > docstore.MaxLimit:
		return field.Errorf("pageSize", "must be from 1 to %d", docstore.MaxLimit)
	case c.Most < 0:
		return field.Errorf("most", "must not be negative")
	}
	return nil
}

// Sweep does one sweep; see [Sweep]. An error means that it ended early, or that single analyses made trouble (Swept.Errors):
// what Swept counts was done all the same.
//
// One read for the time, one request of [docstore.Due] for each page, and for each stale analysis that was not queued a short
// time ago one write, and another if it could not be queued.
func (a *Analyses) Sweep(ctx context.Context, c Sweep) (Swept, error) {
	if err := c.Validate(); err != nil {
		return Swept{}, err
	}
	if c.MaxTakeovers == 0 {
		c.MaxTakeovers = DefaultMaxTakeovers
	}
	if c.RequeueEvery == 0 {
		c.RequeueEvery = DefaultRequeueEvery
	}
	if c.Most == 0 {
		c.Most = DefaultMostSwept
	}
	upTo, err := a.time(ctx)
	if err != nil {
		return Swept{}, fmt.Errorf("sweep: %w", err)
	}
	s := sweep{Sweep: c, analyses: a, name: rand.Text()}
	q := docstore.DueQuery{Kind: Kind, Field: ExpiryField, UpTo: upTo.Add(-c.Grace), Limit: c.PageSize}
	for {
		p, err := docstore.Due(ctx, a.store, q)
		if err != nil {
			return s.done, fmt.Errorf("sweep: %w", errors.Join(err, s.troubles))
		}
		for _, e := range p.Entries {
			if s.done.Stale == c.Most {
				s.done.More = true
				return s.done, s.troubles
			}
			if err := s.one(ctx, e, p.At); err != nil {
				if ctx.Err() != nil {
					return s.done, fmt.Errorf("sweep: %w", errors.Join(ctx.Err(), s.troubles))
				}
				if s.done.Errors++; s.done.Errors <= maxTroubles {
					s.troubles = errors.Join(s.troubles, err)
				}
			}
		}
		if q.After = p.Next; q.After == "" {
			return s.done, s.troubles
		}
	}
}

// sweep is a [Sweep] under way.
type sweep struct {
	Sweep
	analyses *Analyses
	name     string // of this sweep, in its marks
	done     Swept
	troubles error
}

// one does what there is to do about one analysis. An index gave it as it was at a time, and may be older than its document.
func (s *sweep) one(ctx context.Context, e docstore.Entry, at time.Time) error {
	id := ID(e.Key.ID)
	found, err := stateOf(e.Key, e.Doc)
	if err == nil {
		err = id.Validate()
	}
	switch {
	case err != nil:
		s.done.Stale++
		return fmt.Errorf("analysis %s: %w", id, err)
	case found.Status.Finished() || found.Owner == "":
		return nil // a document that somebody else wrote, with a time and without a lock
	}
	s.done.Stale++
	if found.Takeovers() >= s.MaxTakeovers {
		o, err := s.analyses.do(ctx, Abandon{
			ID: id, Token: found.Token,
			Reason: fmt.Sprintf("given up after %d takeovers: its workers died, or lost their locks, again and again", found.Takeovers()),
		}, id)
		switch {
		case err != nil:
			return err
		case o.Code == OK:
			s.done.Failed++
		default:
			s.done.Skipped++
		}
		return nil
	}
	mark := Requeue{ID: id, RequestID: s.name, Token: found.Token, Every: s.RequeueEvery}
	_, o := mark.Decide(found, at) // saves the write that would only be refused
	if o.Code == OK {
		if o, err = s.analyses.do(ctx, mark, id); err != nil {
			return err
		}
	}
	if o.Code != OK {
		s.done.Skipped++
		return nil
	}
	if err := s.Queue.Enqueue(ctx, id, fmt.Sprintf("%s-%d-%s", id, found.Token, s.name)); err != nil {
		// The mark would keep the analysis from the next sweep. If it cannot be taken back either, it wears off.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_, undoErr := s.analyses.store.Write(undo, mark.unmark())
		return fmt.Errorf("analysis %s: queue it again: %w", id, errors.Join(err, undoErr))
	}
	s.done.Requeued++
	return nil
}

// undoTimeout bounds the taking back of a mark after the sweep's own time may be over.
const undoTimeout = 5 * time.Second
