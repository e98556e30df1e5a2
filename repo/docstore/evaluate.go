package docstore

import "time"

// Evaluation is what [Evaluate] found out about a group of writes.
type Evaluation struct {
	Applied bool
	At      time.Time
	Refused []int // indexes of the writes whose condition does not hold
	Found   []Doc // the documents as they are
	After   []Doc // the documents as they shall be; nil unless Applied
}

// Evaluate decides a group of writes at the instant now: it reads the document of every write through get, then either
// finds the conditions that do not hold or computes all documents after the change. It stores nothing: a store that
// evaluates in Go calls it inside its own transaction or lock and then puts Evaluation.After. The error is that of get,
// or [ErrDamaged].
func Evaluate(writes []Write, now time.Time, get func(Key) (Doc, error)) (Evaluation, error) {
	e := Evaluation{At: now, Found: make([]Doc, len(writes))}
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
	e.After = make([]Doc, len(writes))
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

// Result is the answer that [Store.Write] gives for the evaluation. Its documents are copies.
func (e Evaluation) Result() Result {
	r := Result{Applied: e.Applied, At: e.At, Refused: e.Refused, Docs: make([]Doc, len(e.Found))}
	if e.Applied && len(e.After) == 1 {
		r.Docs[0] = e.After[0].Clone()
	}
	for _, i := range e.Refused {
		r.Docs[i] = e.Found[i].Clone()
	}
	return r
}
