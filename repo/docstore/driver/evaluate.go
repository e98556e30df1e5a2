package driver

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Evaluation is the decision of [Evaluate] about a group of writes.
type Evaluation struct {
	Applied bool
	At      time.Time
	Refused []int          // indexes of the writes whose condition does not hold
	Found   []docstore.Doc // the documents as they are
	After   []docstore.Doc // the documents as they must become; nil unless Applied
}

// Evaluate decides a group of writes at the instant now. It reads the document of every write through get, in order, and
// evaluates all conditions; if all hold it computes the documents after the change. It stores nothing: a store calls it
// inside its own transaction or lock and then stores Evaluation.After. The error is that of get, or
// [docstore.ErrDamaged].
func Evaluate(writes []docstore.Write, now time.Time, get func(docstore.Key) (docstore.Doc, error)) (Evaluation, error) {
	e := Evaluation{At: now, Found: make([]docstore.Doc, len(writes))}
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
	for i, w := range writes {
		after, err := w.Apply(e.Found[i], now)
		if err != nil {
			return Evaluation{}, err
		}
		e.After[i] = after
	}
	e.Applied = true
	return e, nil
}

// Result is the result of [docstore.Store.Write] for the evaluation. Its documents are copies.
func (e Evaluation) Result() docstore.Result {
	r := docstore.Result{Applied: e.Applied, At: e.At, Refused: e.Refused, Docs: make([]docstore.Doc, len(e.Found))}
	if e.Applied && len(e.After) == 1 {
		r.Docs[0] = e.After[0].Clone()
	}
	for _, i := range e.Refused {
		r.Docs[i] = e.Found[i].Clone()
	}
	return r
}
