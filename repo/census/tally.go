package census

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TallyKind is the kind of the tallies, which belong to no tenant, so that a sweep finds them all.
const TallyKind = "tallies"

// Fields of a tally.
const (
	fCount      = "count"       // documents, and those that are reserved
	fMost       = "most"        // the bound of the latest take
	fValidUntil = "valid_until" // when the tally refuses nothing any more, because nothing corrects it
	fRev        = "rev"         // of the counting
	fNamed      = "named"       // where the documents are, see [NewNamed]

	// of the latest count
	fDocuments = "documents"
	fCountedAt = "counted_at"

	// of the count that is under way
	fBase  = "base"  // the tally when it began
	fSeen  = "seen"  // documents so far
	fAfter = "after" // the last one
)

// overdue is for how long a tally refuses that should have been corrected.
const overdue = 24 * time.Hour

func tallyKey(kind, tenant string) docstore.Key {
	return docstore.Key{Kind: TallyKind, ID: kind + "/" + tenant}
}

// Take is the command that reserves documents of a kind.
type Take struct {
	Kind, Tenant string
	Named        bool // see [NewNamed]
	Need, Want   int  // places: at least and at most
	Most         int  // the bound
}

// State is what a tally says.
type State struct {
	Found                 bool  // there is a number
	Count                 int64 // documents, and those that are reserved
	Most                  int64 // the bound of the latest take
	ValidUntil, CountedAt time.Time
	Documents             int64 // of the latest count

	walk progress
}

// Outcome is what a [Take] got.
type Outcome struct {
	Granted int           // places; 0 if there are not as many as are needed
	Wait    time.Duration // about how long until the tally is corrected, if none were granted
}

// Key is the key of the tally.
func (c Take) Key() docstore.Key { return tallyKey(c.Kind, c.Tenant) }

// take adds places under a condition.
func (c Take) take(n int, cond docstore.Cond) docstore.Write {
	w := docstore.Write{Key: c.Key(), If: cond, Add: map[string]int64{fCount: int64(n)},
		Set: map[string]docstore.Value{fMost: docstore.Int(c.Most)}, Return: []string{fCount}}
	if c.Named {
		w.Set[fNamed] = docstore.Bool(true)
	}
	return w
}

func (c Take) room(n int) docstore.Cond {
	return docstore.LE{Field: fCount, Value: docstore.Int(c.Most - n)}
}

// Write takes as much as is wanted.
func (c Take) Write() docstore.Write { return c.take(c.Want, c.room(c.Want)) }

// State reads a tally.
func (c Take) State(d docstore.Doc) (State, error) { return stateOf(c.Key(), d), nil }

// Granted is all that was wanted.
func (c Take) Granted(State, rule.When) Outcome { return Outcome{Granted: c.Want} }

// plan is how much is granted of a tally, and whether that is because nothing corrects it.
func (c Take) plan(s State, w rule.When) (n int, unchecked bool) {
	n = c.Want
	if s.Found {
		n = int(min(int64(c.Want), int64(c.Most)-s.Count))
	}
	n = min(n, c.Most)
	if n >= c.Need {
		return n, false
	}
	if s.Found && !s.ValidUntil.IsZero() && !w.At.Before(s.ValidUntil) {
		return c.Want, true
	}
	return 0, false
}

// Fallback begins a tally, takes what is left of one, or takes of one that nothing corrects.
func (c Take) Fallback(s State, w rule.When) (docstore.Write, bool) {
	n, unchecked := c.plan(s, w)
	switch {
	case n <= 0:
		return c.countAnew(s, w)
	case unchecked:
		return c.take(n, docstore.LE{Field: fValidUntil, Value: docstore.Now}), true
	case s.Found:
		return c.take(n, c.room(n)), true
	}
	// also where what is there is no number
	created := c.take(n, docstore.Not{Cond: docstore.LE{Field: fCount, Value: docstore.Int(docstore.MaxInt)}})
	created.Add, created.Set[fCount] = nil, docstore.Int(n)
	created.Set[fValidUntil] = docstore.Now.Add(overdue)
	return created, true
}

// countAnew takes nothing: it is the write that counts the time anew until which the tally refuses, if that is
// impossible, see [rule.When.Impossible]. A tally that is corrected gets another one with that.
func (c Take) countAnew(s State, w rule.When) (docstore.Write, bool) {
	const most = mostBetween + overdue
	_, is := w.Impossible(s.ValidUntil, most)
	return docstore.Write{Key: c.Key(), Return: []string{fCount},
		If:  docstore.All{docstore.Has{Field: fValidUntil}, rule.ImpossibleEnd(fValidUntil, most)},
		Set: map[string]docstore.Value{fValidUntil: docstore.Now.Add(overdue)}}, is
}

// Tries implements [rule.Retrier].
func (c Take) Tries() int { return 20 }

// GrantedFallback is what was taken.
func (c Take) GrantedFallback(found, _ State, decided, _ rule.When) Outcome {
	n, _ := c.plan(found, decided)
	if n <= 0 {
		return c.Refusal(found, decided)
	}
	return Outcome{Granted: n}
}

// Refusal says when the tally is corrected.
func (c Take) Refusal(s State, w rule.When) Outcome {
	if s.CountedAt.IsZero() || s.ahead(w) {
		return Outcome{Wait: roundEvery}
	}
	return Outcome{Wait: max(0, s.dueAt().Sub(w.At))}
}

// stateOf reads a tally. What is not what it should be is as good as nothing: the next correction puts it right.
func stateOf(k docstore.Key, d docstore.Doc) State {
	var s State
	if n, ok := d[fCount].(docstore.Int); ok {
		s.Found, s.Count = true, int64(n)
	}
	r := rule.Read(k, d)
	s.Most, s.Documents = r.Number(fMost), r.Number(fDocuments)
	s.ValidUntil, s.CountedAt = r.Time(fValidUntil), r.Time(fCountedAt)
	s.walk = progress{rev: r.Number(fRev), base: r.Number(fBase), seen: r.Number(fSeen), after: r.Text(fAfter)}
	return s
}
