package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLocked is the error of a run that another worker has at the moment.
var ErrLocked = errors.New("another worker has the run")

// Error is the error of [Do] for a run that has no result, or none for this caller. errors.As finds it, and with it the
// status; errors.Is finds what it is about: [ErrLocked], [ErrFailed], [ErrLost], an error of the work, the cause with
// which the caller's context ended.
type Error struct {
	RunID   string
	Outcome Outcome // its Err is what errors.Is looks through
}

// Error says what became of the run, and why.
func (e *Error) Error() string {
	s := fmt.Sprintf("run %q: %s", e.RunID, e.Outcome.Status)
	if e.Outcome.Err != nil {
		s += ": " + e.Outcome.Err.Error()
	}
	return s
}

// Unwrap is why there is no result.
func (e *Error) Unwrap() error { return e.Outcome.Err }

// Do runs the work once under the name runID and returns its result: that of this call, or that of an earlier one,
// which may have been another process. Without an error the work is done, and was done by one worker. [Run] says in an
// [Outcome] what this says in errors. Options may be nil.
//
// The result is kept as JSON of at most [MaxResultBytes], as clients in other languages keep it; both calls get what
// comes out of it. One that JSON cannot hold makes the run FAILED: the work is done, and must not be done again to find
// that out once more. A run that finished without a result, as a command's does, has the zero value.
//
// If the work was not done the error is an [*Error]. While another worker has the run it is [ErrLocked]; with
// Options.Wait, Do waits for that one's result. Any other error means that nothing ran: the arguments are invalid, or
// the gate did not respond in time, see [Run]. All but [ErrFailed] are worth another call, with the same name.
func Do[T any](ctx context.Context, gate Gate, runID string, work func(ctx context.Context, l Lock) (T, error),
	o *Options) (T, error) {
	var none T
	var text Work
	if work != nil {
		text = func(ctx context.Context, l Lock) (string, error) {
			result, err := work(ctx, l)
			if err != nil {
				return "", err
			}
			kept, err := json.Marshal(result)
			if err == nil {
				err = json.Unmarshal(kept, new(T))
			}
			if err != nil {
				return "", Permanent(fmt.Errorf("the work is done, but its result cannot be kept as JSON: %w", err))
			}
			return string(kept), nil
		}
	}
	out, err := Run(ctx, gate, runID, text, o)
	switch {
	case err != nil:
		return none, err
	case out.Status == Locked:
		out.Err = ErrLocked
	case out.Status == Unknown:
		out.Err = errors.New("there is no such run: its producer makes it, or once.Creating does")
	}
	if out.Status != Ready && out.Status != AlreadyFinished {
		return none, &Error{RunID: runID, Outcome: out}
	}
	if out.Result == "" {
		return none, nil
	}
	var result T
	if err := json.Unmarshal([]byte(out.Result), &result); err != nil {
		out.Err = fmt.Errorf("its result is no %T in JSON: %w", none, err)
		return none, &Error{RunID: runID, Outcome: out}
	}
	return result, nil
}
