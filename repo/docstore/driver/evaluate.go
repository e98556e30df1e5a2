package driver

import (
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Evaluation is the decision of [Evaluate] about a group of writes.
type Evaluation struct {
	Applied bool
	At      time.Time
	Refused []int          // indexes of the writes whose condition does not hold
	Found   []docstore.Doc // the documents as they are
	After   []docstore.Doc // the documents as they must become, nil for one to delete; nil unless Applied

	// Reached is the highest number that a counter with a start has reached by these writes, 0 if there is none. See
	// [docstore.Write.StartFrom].
	Reached int64

	writes []docstore.Write
}

// Evaluate decides a group of writes at the instant now. It reads the document of every write through get, in order,
// and evaluates all conditions; if all hold it computes the documents after the change. It stores nothing: a store
// calls it inside its own transaction or lock and then stores Evaluation.After. The error is that of get, or
// [docstore.ErrDamaged].
func Evaluate(writes []docstore.Write, now time.Time, get func(docstore.Key) (docstore.Doc, error)) (Evaluation,
	error) {
	return EvaluateFrom(writes, now, nothing{}, get)
}

// Counters is what a store remembers of how far counters have come, see [docstore.Write.StartAtNow].
type Counters interface {
	// Floor is what counters start above. It is asked once at most, and if one starts.
	Floor() (int64, error)

	// Least is what a counter of the write to the document found must be to be increased, see [docstore.BehindError].
	Least(w docstore.Write, found docstore.Doc) (int64, error)
}

// nothing is remembered.
type nothing struct{}

func (nothing) Floor() (int64, error) { return 0, nil }

func (nothing) Least(docstore.Write, docstore.Doc) (int64, error) { return 0, nil }

// EvaluateFrom is [Evaluate] for a store that remembers how far counters have come. Errors of that are returned, and
// so is a [docstore.BehindError].
func EvaluateFrom(writes []docstore.Write, now time.Time, counters Counters,
	get func(docstore.Key) (docstore.Doc, error)) (Evaluation, error) {
	e := Evaluation{At: now, Found: make([]docstore.Doc, len(writes)), writes: writes}
	for i, w := range writes {
		found, err := get(w.Key)
		if err != nil {
			return Evaluation{}, err
		}
		e.Found[i] = found
		if !w.Holds(found, now) {
			e.Refused = append(e.Refused, i)
		}
	}
	if len(e.Refused) > 0 {
		return e, nil
	}
	e.After = make([]docstore.Doc, len(writes))
	from := int64(-1)
	for i, w := range writes {
		var err error
		if len(w.StartAtNow) > 0 {
			least, err := counters.Least(w, e.Found[i])
			if err != nil {
				return Evaluation{}, err
			}
			if behind := w.Behind(least, e.Found[i]); behind != nil {
				return Evaluation{}, behind
			}
		}
		if from < 0 && starts(w, e.Found[i]) {
			if from, err = counters.Floor(); err != nil {
				return Evaluation{}, err
			}
		}
		if e.After[i], err = w.StartFrom(from, e.Found[i], now).Apply(e.Found[i], now); err != nil {
			return Evaluation{}, err
		}
		e.Reached = max(e.Reached, w.Reached(e.After[i]))
	}
	e.Applied = true
	return e, nil
}

// starts reports whether the write starts a counter.
func starts(w docstore.Write, found docstore.Doc) bool {
	return slices.ContainsFunc(w.StartAtNow, func(field string) bool { _, there := found[field]; return !there })
}

// Result is the result of [docstore.Store.Write] for the evaluation. Its documents are copies.
func (e Evaluation) Result() docstore.Result {
	r := docstore.Result{Applied: e.Applied, At: e.At, Refused: e.Refused, Docs: make([]docstore.Doc, len(e.Found))}
	for i, d := range e.After {
		r.Docs[i] = e.writes[i].Returned(d)
	}
	for _, i := range e.Refused {
		r.Docs[i] = e.Found[i].Clone()
	}
	return r
}
