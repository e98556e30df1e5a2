package census

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// DefaultLimit is how many documents a [Correct] looks at.
	DefaultLimit = 10_000

	// roundEvery is how often tallies are looked at, and counted again at the most.
	roundEvery = 5 * time.Minute

	// A count of many documents is made less often: they cost a read each. Where the tenant is near its bound, those that
	// were removed make room, and it is made sooner.
	perDocument     = time.Second
	perDocumentNear = 100 * time.Millisecond
	nearBound       = 0.9
	mostBetween     = 24 * time.Hour

	countPage   = 250 // documents in one read: they may be large
	tallyPage   = 100
	saveTimeout = 5 * time.Second
)

// markKey is the document that says how far the round of tallies is.
var markKey = docstore.Key{Kind: "tally_marks", ID: "next"}

// The fields of the mark are fAfter, after which tally the round goes on, empty between two rounds, and fBegan.
const (
	fBegan = "began_at"
	start  = "!" // is before all names of kinds
)

// progress is how far a tenant's documents are counted.
type progress struct {
	rev   int64
	base  int64 // the tally when the count began
	seen  int64 // documents so far
	after string
}

// between is the time from one count to the next.
func (s State) between() time.Duration {
	per := perDocument
	if float64(s.Count) >= nearBound*float64(s.Most) {
		per = perDocumentNear
	}
	return min(max(roundEvery, time.Duration(s.Documents)*per), mostBetween)
}

// ahead reports whether a time that had passed when it was written lies ahead: a clock was wrong, and it counts for
// nothing, see [rule.When.Impossible].
func ahead(written time.Time, at rule.When) bool {
	_, is := at.Impossible(written, 0)
	return is
}

// ahead reports whether the latest count is to be made again whatever it says.
func (s State) ahead(at rule.When) bool { return ahead(s.CountedAt, at) }

// dueAt is when the documents are to be counted again.
func (s State) dueAt() time.Time { return s.CountedAt.Add(s.between()) }

// Corrected is what a [Correct] did.
type Corrected struct {
	Tallies   int  // that were set right
	Documents int  // that were looked at
	Errors    int  // tallies that could not be, beside those that cannot be read
	More      bool // it ended before it was through: the next one goes on
}

// Plus is the sum of two, the second of which went on where the first stopped.
func (c Corrected) Plus(d Corrected) Corrected {
	return Corrected{Tallies: c.Tallies + d.Tallies, Documents: c.Documents + d.Documents, Errors: c.Errors + d.Errors,
		More: d.More}
}

// Correct goes on with counting the documents of all tenants that have a tally, about limit of them (0 means
// [DefaultLimit]), and sets right the tallies of those whose documents are counted. A round over all tallies begins
// every five minutes; what is cut off goes on with the next call where it stopped. Any number may run at once. What
// processes take meanwhile counts twice until the next count, where the count has seen what came of it.
//
// A tally of a tenant without documents is removed. Without tallies it is one read. An error says what could not be
// done; a deadline that ends it is none. Tallies that cannot be read are passed by, see [docstore.Failure].
func Correct(ctx context.Context, store docstore.Store, limit int) (Corrected, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	p := &pass{store: store, left: limit}
	err := p.round(ctx)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		p.done.More, err = true, nil
	}
	return p.done, errors.Join(err, errors.Join(p.failed...), p.unreadable.Err())
}

// pass is one call of [Correct].
type pass struct {
	store      docstore.Store
	left       int
	done       Corrected
	failed     []error
	unreadable docstore.Unreadable
}

// mostFailures bounds the failures that are returned in words.
const mostFailures = 20

func (p *pass) round(ctx context.Context) error {
	q := docstore.Query{Kind: TallyKind, Limit: tallyPage}
	first, err := p.store.List(ctx, q)
	if err != nil || len(first.Entries)+len(first.Damaged) == 0 {
		return err //nolint:wrapcheck // the caller says what was done
	}
	mark, err := p.store.Get(ctx, markKey)
	if _, failed := docstore.Failure(err); failed != nil {
		return fmt.Errorf("%s: %w", markKey, err)
	}
	after := start
	if err == nil {
		d := mark.Docs[0]
		text, _ := d[fAfter].(docstore.String) // what is damaged is as good as nothing
		began, _ := d[fBegan].(docstore.String)
		if after = string(text); after == "" {
			if at, err := docstore.ParseTime(began); err == nil && first.At.Before(at.Add(roundEvery)) &&
				!ahead(at, rule.When{At: first.At, Margin: first.Margin}) {
				return nil
			}
			after = start
			if err := p.mark(ctx, after, true); err != nil {
				return err
			}
		}
	}
	for page := first; ; {
		if after != start {
			q.After = after
			if page, err = p.store.List(ctx, q); err != nil {
				return err //nolint:wrapcheck // as above
			}
		}
		for _, d := range page.Damaged {
			p.unreadable.Take(d.Err)
		}
		for _, e := range page.Entries {
			done, err := p.tally(ctx, e, rule.When{At: page.At, Margin: page.Margin})
			if fatal(err) || err == nil && !done {
				p.done.More = true
				return errors.Join(err, p.mark(ctx, after, false))
			}
			if err != nil {
				if p.done.Errors++; len(p.failed) < mostFailures {
					p.failed = append(p.failed, err)
				}
			}
			after = e.Key.ID
		}
		if page.Next == "" {
			return p.mark(ctx, "", false)
		}
		after = page.Next
	}
}

// fatal reports whether other tallies would meet the same error.
func fatal(err error) bool {
	return errors.Is(err, docstore.ErrUnavailable) || errors.Is(err, docstore.ErrClosed) ||
		errors.Is(err, docstore.ErrClockSkew) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// mark notes how far the round is, also when the time of this call is over. began says that it begins.
func (p *pass) mark(ctx context.Context, after string, began bool) error {
	w := docstore.Write{Key: markKey, Set: map[string]docstore.Value{fAfter: docstore.String(after)}, Return: []string{}}
	if began {
		w.Set[fBegan] = docstore.Now
	}
	if _, err := p.save(ctx, w); err != nil {
		return fmt.Errorf("%s: %w", markKey, err)
	}
	return nil
}

func (p *pass) save(ctx context.Context, w docstore.Write) (docstore.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	return p.store.Write(ctx, w) //nolint:wrapcheck // its callers do
}

// tally counts the documents of a tally, if they are to be counted; done says that it is through with them.
func (p *pass) tally(ctx context.Context, e docstore.Entry, at rule.When) (done bool, err error) {
	kind, tenant, ok := strings.Cut(e.Key.ID, "/")
	s := stateOf(e.Key, e.Doc)
	counting := e.Doc[fBase] != nil
	if !ok || !counting && !s.CountedAt.IsZero() && at.At.Before(s.dueAt()) && !s.ahead(at) {
		return true, nil
	}
	if !counting {
		s.walk.base, s.walk.seen, s.walk.after = s.Count, 0, ""
	}
	q := docstore.Query{Kind: kind, Tenant: tenant, Limit: countPage}
	named := e.Doc[fNamed] == docstore.Bool(true)
	if named {
		q.Tenant, q.Prefix = "", tenant+"/"
	}
	for moved := false; ; moved = true {
		if p.left <= 0 {
			return false, p.progress(ctx, e.Key, s, moved)
		}
		q.After = s.walk.after
		page, err := p.store.List(ctx, q)
		if err != nil {
			return false, errors.Join(fmt.Errorf("%s: %w", e.Key, err), p.progress(ctx, e.Key, s, moved))
		}
		n := len(page.Entries) + len(page.Damaged)
		s.walk.seen, s.walk.after = s.walk.seen+int64(n), page.Next
		if named {
			for e := range page.All() { //nolint:errcheck // it counts, also if it cannot be read
				if strings.Contains(strings.TrimPrefix(e.Key.ID, q.Prefix), "/") {
					s.walk.seen-- // of a tenant whose name is longer
				}
			}
		}
		p.left, p.done.Documents = p.left-max(1, n), p.done.Documents+n
		if page.Next == "" {
			return true, p.finish(ctx, e.Key, s)
		}
	}
}

// unchanged holds while no other pass has counted on.
func (s State) unchanged() docstore.Cond {
	if s.walk.rev == 0 {
		return docstore.All{docstore.Not{Cond: docstore.Absent{}}, docstore.Not{Cond: docstore.Has{Field: fRev}}}
	}
	return docstore.Eq{Field: fRev, Value: docstore.Int(s.walk.rev)}
}

// progress notes how far the count is.
func (p *pass) progress(ctx context.Context, k docstore.Key, s State, moved bool) error {
	if !moved {
		return nil
	}
	_, err := p.save(ctx, docstore.Write{
		Key: k, If: s.unchanged(), Add: map[string]int64{fRev: 1}, Return: []string{},
		Set: map[string]docstore.Value{fBase: docstore.Int(s.walk.base), fSeen: docstore.Int(s.walk.seen),
			fAfter: docstore.String(s.walk.after), fValidUntil: docstore.Now.Add(overdue)},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	return nil
}

// finish sets a tally right: what was taken since the count began stays in it.
func (p *pass) finish(ctx context.Context, k docstore.Key, s State) error {
	w := docstore.Write{Key: k, If: s.unchanged(), Return: []string{}}
	if s.walk.seen == 0 && s.Found && s.walk.base == s.Count {
		w.If, w.Delete = docstore.All{w.If, docstore.Eq{Field: fCount, Value: docstore.Int(s.Count)}}, true
		r, err := p.save(ctx, w)
		if err != nil || r.Applied {
			p.done.Tallies++
			return err
		}
		w.If, w.Delete = s.unchanged(), false
	}
	next := s
	next.Count, next.Documents = s.Count+s.walk.seen-s.walk.base, s.walk.seen
	w.Add = map[string]int64{fCount: s.walk.seen - s.walk.base, fRev: 1}
	w.Set = map[string]docstore.Value{
		fDocuments: docstore.Int(s.walk.seen), fCountedAt: docstore.Now,
		fValidUntil: docstore.Now.Add(next.between() + overdue),
	}
	if !s.Found {
		delete(w.Add, fCount)
		w.Set[fCount] = docstore.Int(s.walk.seen)
	}
	w.Unset = []string{fBase, fSeen, fAfter}
	if _, err := p.save(ctx, w); err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	p.done.Tallies++
	return nil
}
