package docstore

import "fmt"

// BehindError is the error of a write that would increase a counter (see [Write.StartAtNow]) which is lower than
// counters go on from: the store has come back older, or its server is another one, so that it may have forgotten how
// far the counter had come. Nothing was changed. Who knows what else of the document goes by the counter sets it to
// Least, under the condition that the document is still the one found, and then writes again; [BehindError.Raise] does
// so where nothing does. It wraps [ErrUnavailable] and [ErrNotWritten].
type BehindError struct {
	Key   Key
	Found Doc
	Least int64 // at the least, what the counter must be before it is increased
}

// Error implements error.
func (e *BehindError) Error() string {
	return fmt.Sprintf("%v: %s: a counter is below %d, from which counters go on since the store came back, "+
		"perhaps without its latest writes", ErrUnavailable, e.Key, e.Least)
}

// Unwrap implements the interface of package errors.
func (e *BehindError) Unwrap() []error { return []error{ErrUnavailable, ErrNotWritten} }

// Raise sets the counters of a write that was refused with the error, where they are behind.
func (e *BehindError) Raise(refused Write) Write {
	w := Write{Key: e.Key, Set: map[string]Value{}}
	var found All
	for _, f := range refused.StartAtNow {
		if below(e.Found[f], e.Least) {
			found = append(found, Eq{Field: f, Value: e.Found[f]})
			w.Set[f] = Int(e.Least)
		}
	}
	w.If = found
	return w
}

// Behind is the error of a write to the document found, on a store whose counters go on from least, 0 for anything; nil
// if none of them is behind. A counter that is missing starts, see [Write.StartFrom].
func (w Write) Behind(least int64, found Doc) *BehindError {
	for _, f := range w.StartAtNow {
		if below(found[f], least) {
			return &BehindError{w.Key, found.Clone(), least}
		}
	}
	return nil
}

// below reports whether a value is a number below least.
func below(v Value, least int64) bool {
	n, whole := v.(Int)
	return whole && int64(n) < least && least > 0
}
