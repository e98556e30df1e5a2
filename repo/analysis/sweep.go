package analysis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Queue is where the sweep puts analyses that have to run again.
type Queue interface {
	// Enqueue hands an analysis to the workers. Calls with the same name mean the same message, and a queue that knows
	// names takes it once. An error means that nothing was queued, or that it is unknown.
	Enqueue(ctx context.Context, id ID, name string) error
}

// requeue marks an analysis that is due as queued again, so that of several sweeps one does it. The mark expires: a
// sweep that died between the mark and the queue is made good by a later one.
type requeue struct {
	ID
	RequestID string        // of the mark, another for every attempt: a sweep must know its own mark from another's
	Token     int64         // of the lock that was found, or of the retry
	Expiry    string        // of the lock that was found, or of the retry: lockExpiresAt
	Every     time.Duration // the mark expires after this; whole milliseconds
}

// Write applies to an unfinished analysis whose lock is stale and is the one that was found, or that was retried and
// not begun since, if no mark is recent.
func (c requeue) Write() docstore.Write {
	return docstore.Write{
		Key: c.document().Key(),
		If: append(isDue(docstore.Any{hasOwner(), isRetried(c.Expiry)}, c.Token, c.Expiry), docstore.Any{
			docstore.LE{Field: fRequeuedAt, Value: docstore.Now.Add(-c.Every)},
			rule.ImpossibleEnd(fRequeuedAt, 0), // also what is no time
		}),
		Set: map[string]docstore.Value{fRequeuedAt: docstore.Now, fRequeueID: docstore.String(c.RequestID)},
	}
}

// Granted is the marked analysis.
func (c requeue) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal recognises the command's own mark.
func (c requeue) Refusal(s State, w rule.When) Outcome {
	switch code := s.checkDue(s.hasOwner() || s.awaitsRetry(), c.Token, c.Expiry, w.At); {
	case code != OK:
		return analyses.refused(s, code, c.Token, w)
	case s.RequeueID == c.RequestID:
		return s.replayed(w)
	default:
		return analyses.refused(s, NotStale, c.Token, w)
	}
}

// Fallback is Write for a status of null.
func (c requeue) Fallback(s State, _ rule.When) (docstore.Write, bool) {
	return nullable(s, c.Write()), true
}

// unmark removes the mark of an analysis that could not be queued.
func (c requeue) unmark() docstore.Write {
	return docstore.Write{
		Key:   c.document().Key(),
		If:    docstore.Eq{Field: fRequeueID, Value: docstore.String(c.RequestID)},
		Unset: []string{fRequeuedAt, fRequeueID},
	}
}

// abandon turns an analysis FAILED whose workers have died again and again.
type abandon struct {
	ID
	Token  int64  // of the lock that was found
	Expiry string // of the lock that was found: lockExpiresAt
	Reason string // for people
}

// Write applies to an unfinished analysis whose lock is stale and is the one that was found.
func (c abandon) Write() docstore.Write {
	return c.document().giveUp(isDue(hasOwner(), c.Token, c.Expiry), c.Reason, State{})
}

// Fallback is Write for a status of null.
func (c abandon) Fallback(s State, _ rule.When) (docstore.Write, bool) {
	return nullable(s, c.Write()), true
}

// Granted is the failed analysis.
func (c abandon) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal says why the analysis is left alone.
func (c abandon) Refusal(s State, w rule.When) Outcome {
	return analyses.refused(s, s.checkDue(s.hasOwner(), c.Token, c.Expiry, w.At), c.Token, w)
}

// hasOwner holds while the lock is that of an owner. One that is not text may be null, which is none: the next acquire
// judges it.
func hasOwner() docstore.Cond {
	return docstore.All{owned(), docstore.LE{Field: fOwner, Value: lastText}}
}

// isRetried holds while no one has a lock and the expiry is that of the last retry.
func isRetried(expiry string) docstore.Cond {
	return docstore.All{docstore.Not{Cond: owned()}, docstore.Eq{Field: fRetriedAt, Value: docstore.String(expiry)}}
}

// isDue holds while an unfinished analysis has the token and the expiry, which has passed, if whose holds. Only a time
// that has passed as text counts: the sweep finds analyses by that text. What the text means was judged before.
func isDue(whose docstore.Cond, token int64, expiry string) docstore.All {
	return docstore.All{
		analyses.readable(), unfinished(), whose, sameToken(token),
		docstore.Eq{Field: fExpiresAt, Value: docstore.String(expiry)},
		docstore.LE{Field: fExpiresAt, Value: docstore.Now},
		docstore.Not{Cond: docstore.Eq{Field: fExpiresAt, Value: docstore.String("")}},
	}
}

// hasOwner is [hasOwner] for the state.
func (s State) hasOwner() bool {
	return s.Owner != "" && !s.strangeOwner && s.Owner <= string(lastText)
}

// checkDue says why [isDue] does not hold, or OK.
func (s State) checkDue(whose bool, token int64, expiry string, now time.Time) Code {
	switch {
	case !s.Exists:
		return NotFound
	case s.Status.Finished():
		return AlreadyFinished
	case !whose || s.Token != token || s.Expiry.Text != expiry || expiry == "" ||
		expiry > string(docstore.FormatTime(now)):
		return NotStale
	default:
		return OK
	}
}

// Sweep looks for unfinished analyses whose lock is stale: their worker died. Each is queued again once, or turned
// FAILED if that has happened too often. Any number of sweeps may run at once.
type Sweep struct {
	Queue        Queue
	MaxTakeovers int64 // an analysis that was taken over this often becomes FAILED; 0 means DefaultMaxTakeovers
	// a queued analysis that has not begun is queued again after this, whole milliseconds; 0 means DefaultRequeueEvery
	RequeueEvery time.Duration
	Grace        time.Duration // how long a lock must have been stale: the queue may redeliver by itself; 0 means none
	PageSize     int           // analyses looked at in one request, 1 to docstore.MaxLimit; 0 means docstore.DefaultLimit
	Most         int           // analyses acted on in one sweep, ten times as many looked at; 0 means DefaultMostSwept

	// Behind is told, of each analysis whose lock has expired, for how long it has; nil if no one wants to know.
	Behind func(ctx context.Context, expired time.Duration)
}

// Defaults of [Sweep].
const (
	DefaultMaxTakeovers = 5
	DefaultRequeueEvery = 15 * time.Minute
	DefaultMostSwept    = 10_000
)

// Bounds of [Sweep]: a setting beyond them is a mistake.
const (
	maxRequeueEvery = 366 * 24 * time.Hour
	maxTroubles     = 20 // failures that Sweep returns in words, beside what cannot be read
	looksPerAct     = 10 // how many times Sweep.Most a sweep looks at: what needs no write costs a part of a page
)

// Swept counts what a sweep did.
type Swept struct {
	// analyses found that are due, by a stale lock or a retry: the sum of the next four, and one more if the sweep was cut
	// off
	Stale    int
	Requeued int  // queued again by this sweep
	Failed   int  // turned FAILED by this sweep
	Skipped  int  // queued a short time ago, or another sweep or worker was faster
	Errors   int  // analyses whose document or queue failed; the sweep went on, and a later one tries again
	Damaged  int  // of the Errors, those whose document no sweep can read: they fail again until it is repaired
	More     bool // it ended at a bound or by its time; the next one goes on where it stopped
}

// Plus is the sum of two sweeps, the second of which went on where the first stopped.
func (s Swept) Plus(t Swept) Swept {
	return Swept{
		Stale: s.Stale + t.Stale, Requeued: s.Requeued + t.Requeued, Failed: s.Failed + t.Failed,
		Skipped: s.Skipped + t.Skipped,
		Errors:  s.Errors + t.Errors, Damaged: s.Damaged + t.Damaged, More: t.More,
	}
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

// Sweep does one sweep; see [Sweep]. What it does not reach, because of Sweep.Most or of the time that ctx leaves it,
// the next one does: where it stopped is kept in the store. So analyses that no sweep can help keep none behind them
// from being found, however many they are.
//
// An error means that it ended early, or that single analyses failed (Swept.Errors); what Swept counts was done all the
// same. A deadline that ends it after it did something is no error. Documents that cannot be read are no failure: they
// are passed by, and a [docstore.Unreadable] says which, see [docstore.Failure].
//
// One read for the time and the place, one request of [docstore.Due] for each page, and for each stale analysis that
// was not queued a short time ago one write, and another if it could not be queued. A sweep that stops before the end
// writes where, and the one that goes on from there to the end writes that, too.
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
	s := &sweep{Sweep: c, analyses: a, name: rand.Text()}
	snap, err := a.store.Get(ctx, placeKey)
	if s.lost = s.unreadable.Take(err); s.lost { // it begins with the first analysis
		snap, err = a.store.Get(ctx, timeKey)
	}
	if err != nil {
		return Swept{}, fmt.Errorf("sweep: %w", err)
	}
	s.upTo, s.began = snap.At.Add(-c.Grace), placeOf(snap.Docs[0])
	s.at = s.began
	err = s.pages(ctx)
	if err != nil && ctx.Err() != nil {
		if s.done.More = true; s.looked > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = nil
		} else {
			err = ctx.Err() // however the store says it
		}
	}
	if err != nil {
		err = fmt.Errorf("sweep: %w", err)
	}
	return s.done, errors.Join(err, s.keep(ctx), s.troubles, s.unreadable.Err())
}

// sweep is a [Sweep] in progress.
type sweep struct {
	Sweep
	analyses *Analyses
	name     string    // of this sweep, in its marks
	upTo     time.Time // what expired later is not looked for
	began    sweepPlace
	at       sweepPlace // behind what was looked at; the zero place after the last page
	looked   int
	acted    int
	done     Swept
	troubles error // the first of them

	unreadable docstore.Unreadable
	lost       bool // another program has put something in the place of the place: none can be kept
}

// sweepPlace is where a sweep stopped. The zero place is the beginning.
type sweepPlace struct {
	after string // docstore.DueQuery.After of the page
	last  string // the ID of the last analysis of that page that was looked at; empty for none
}

// placeKey is of one document for the store. It is also read where there is none: for the store's time.
var placeKey = docstore.Key{Kind: "analysis_sweeps", ID: "next"}

// timeKey is of a document that is never there: its read is of the store's time.
var timeKey = docstore.Key{Kind: "analysis_sweeps", ID: "none"}

const (
	fAfter = "after"
	fLast  = "last"

	// keepPlace is how long a place is of use. A sweep long after it begins anew.
	keepPlace = 30 * 24 * time.Hour
)

// placeOf reads a place. What is damaged is as good as nothing.
func placeOf(d docstore.Doc) sweepPlace {
	after, _ := d[fAfter].(docstore.String)
	last, _ := d[fLast].(docstore.String)
	return sweepPlace{after: string(after), last: string(last)}
}

// keep writes where the next sweep begins, also when the time of this one is over.
func (s *sweep) keep(ctx context.Context) error {
	if s.at == s.began || s.lost {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_, err := s.analyses.store.Write(ctx, docstore.Write{
		Key:  placeKey,
		Set:  map[string]docstore.Value{fAfter: docstore.String(s.at.after), fLast: docstore.String(s.at.last)},
		Keep: keepPlace,
	})
	if err != nil {
		return fmt.Errorf("where the next sweep begins: %w", err)
	}
	return nil
}

// pages looks at pages until the last, or until a bound is reached.
func (s *sweep) pages(ctx context.Context) error {
	for {
		if s.full() {
			s.done.More = true
			return nil
		}
		p, err := s.page(ctx)
		if err != nil {
			return err
		}
		for _, d := range p.Damaged {
			s.done.Stale++
			s.looked++
			s.trouble(d.Err)
		}
		// The last that was looked at may not be on the page any more: then all of it is looked at again, which has no second
		// effect.
		behind := slices.IndexFunc(p.Entries, func(e docstore.Entry) bool { return e.Key.ID == s.at.last }) + 1
		for _, e := range p.Entries[behind:] {
			if s.full() {
				s.done.More = true
				return nil
			}
			if err := s.one(ctx, e, rule.When{At: p.At, Margin: p.Margin}); err != nil {
				if ctx.Err() != nil {
					if s.looked == 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
						// It took all the time, and must not take that of the next sweep as well.
						s.trouble(err)
						s.looked, s.at.last = 1, e.Key.ID
					}
					return err
				}
				s.trouble(err)
			}
			s.looked++
			s.at.last = e.Key.ID
		}
		if s.at = (sweepPlace{after: p.Next}); p.Next == "" {
			return nil
		}
	}
}

// full reports whether a bound of the sweep is reached.
func (s *sweep) full() bool { return s.acted >= s.Most || s.looked/looksPerAct >= s.Most }

// page is the page at the place. A place that is not of this index is none: the store has made another one since.
func (s *sweep) page(ctx context.Context) (docstore.Page, error) {
	q := docstore.DueQuery{Kind: Kind, Field: ExpiryField, UpTo: s.upTo, Limit: s.PageSize, After: s.at.after}
	p, err := docstore.Due(ctx, s.analyses.store, q)
	if errors.Is(err, docstore.ErrInvalid) && s.at == s.began && q.After != "" {
		s.at, q.After = sweepPlace{}, ""
		p, err = docstore.Due(ctx, s.analyses.store, q)
	}
	return p, err
}

// trouble counts an analysis that failed, or whose document cannot be read.
func (s *sweep) trouble(err error) {
	s.done.Errors++
	if s.unreadable.Take(err) {
		s.done.Damaged++
	} else if s.done.Errors-s.done.Damaged <= maxTroubles {
		s.troubles = errors.Join(s.troubles, err)
	}
}

// hopeless is the error with an analysis that no sweep can help until its document is repaired: a
// [docstore.ErrDamaged], whatever it says.
type hopeless struct{ error }

func (e hopeless) Unwrap() error { return e.error }

// Is implements the interface that [errors.Is] looks for.
func (hopeless) Is(target error) bool { return target == docstore.ErrDamaged }

// one does what there is to do about one analysis. An index gave it as it was at a time, and may be older than its
// document.
func (s *sweep) one(ctx context.Context, e docstore.Entry, w rule.When) error {
	at := w.At
	id := ID(e.Key.ID)
	found, err := id.State(e.Doc)
	if err == nil {
		err = id.Validate()
	}
	switch {
	case err != nil:
		s.done.Stale++
		return hopeless{fmt.Errorf("analysis %s: %w", id, err)}
	case found.Status.Finished() || found.Owner == "" && !found.awaitsRetry():
		return nil // a document of another writer, with a time and without a lock
	}
	s.done.Stale++
	if s.Behind != nil && found.Expiry.passed(at) {
		s.Behind(ctx, at.Sub(found.Expiry.Latest))
	}
	switch {
	case found.Expiry.Unclear:
		return hopeless{fmt.Errorf("analysis %s: %s: %s", id, Unreadable, analyses.unjudged(found.Expiry))}
	case !found.Expiry.passed(at): // it only sorts among the times that have
		s.done.Skipped++
		return nil
	case found.Owner != "" && found.Takeovers() >= s.MaxTakeovers:
		s.acted++
		o, err := rule.Run(ctx, s.analyses.store, s.analyses.now, abandon{
			ID: id, Token: found.Token, Expiry: found.Expiry.Text, Reason: tooManyTakeovers(found.Takeovers()),
		})
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
	mark := requeue{ID: id, RequestID: s.name, Token: found.Token, Expiry: found.Expiry.Text, Every: s.RequeueEvery}
	_, o, err := rule.Step(mark, e.Doc, w) // saves a write that would only be refused
	if err == nil && o.Code == OK {
		s.acted++
		o, err = rule.Run(ctx, s.analyses.store, s.analyses.now, mark)
	}
	if err != nil {
		return err
	}
	if o.Code != OK {
		s.done.Skipped++
		return nil
	}
	if err := s.Queue.Enqueue(ctx, id, fmt.Sprintf("%s-%d-%s", id, found.Token, s.name)); err != nil {
		// The mark would keep the analysis from the next sweep. If it cannot be removed either, it expires.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_, undoErr := s.analyses.store.Write(undo, mark.unmark())
		return fmt.Errorf("analysis %s: queue it again: %w", id, errors.Join(err, undoErr))
	}
	s.done.Requeued++
	return nil
}

// undoTimeout bounds the removal of a mark, for which the sweep's own context may have ended.
const undoTimeout = 5 * time.Second
