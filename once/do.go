package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/contracts"
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
// The input is what the work depends on and runID does not say: any value that JSON has. It is compared with that of
// the run's first call by its [Fingerprint], and handed to no one. Another input under the same name is an error with
// the code RUN_DIFFERS: nothing runs, and the earlier result, which is another input's, is not returned. nil compares
// nothing. For a name of several parts see [Key].
//
// The result is kept as JSON of at most [MaxResultBytes], as clients in other languages keep it; every call, the first
// as well, gets what comes out of it. One that JSON cannot hold makes the run FAILED: the work is done, and must not be
// done again to find that out once more. A run that finished without a result, as a command's does, has the zero value.
//
// If the work was not done the error is an [*Error]. While another worker has the run it is [ErrLocked]; with
// Options.Wait, Do waits for that one's result. Any other error means that nothing ran: the arguments are invalid, or
// the gate did not respond in time, see [Run]. All but [ErrFailed] and RUN_DIFFERS are worth another call, with the
// same name.
func Do[T any](ctx context.Context, gate Gate, runID string, input any,
	work func(ctx context.Context, l Lock) (T, error), o *Options) (T, error) {
	var none, result T
	var s Options
	if o != nil {
		s = *o
	}
	if err := s.about(input); err != nil {
		return none, fmt.Errorf("run once: %w", err)
	}
	var text Work
	if work != nil {
		text = func(ctx context.Context, l Lock) (kept string, err error) {
			made, err := work(ctx, l)
			if err == nil {
				kept, result, err = keep(made)
			}
			return kept, err
		}
	}
	out, err := Run(ctx, gate, runID, text, &s)
	switch {
	case errors.Is(err, contracts.CodeRunDiffers):
		return none, fmt.Errorf("%w: an earlier call of this name had another input, and has that one's result. Make what "+
			"differs part of the name, see once.Key, or leave it out of the input if it does not matter", err)
	case err != nil:
		return none, err
	case out.Status == Ready:
		return result, nil
	case out.Status == Locked:
		out.Err = ErrLocked
	case out.Status == Unknown:
		out.Err = errors.New("there is no such run: its producer makes it, or once.Creating does")
	}
	if out.Status != AlreadyFinished {
		return none, &Error{RunID: runID, Outcome: out}
	}
	if out.Result == "" {
		return none, nil
	}
	if err := json.Unmarshal([]byte(out.Result), &result); err != nil {
		out.Err = fmt.Errorf("its result is no %T in JSON: %w", none, err)
		return none, &Error{RunID: runID, Outcome: out}
	}
	return result, nil
}

// about sets the fingerprint to that of the input.
func (o *Options) about(input any) error {
	switch {
	case o.Fingerprint != "":
		return errors.New("Options.Fingerprint is of once.Run: once.Do compares its input, which may be that text")
	case input == nil:
		return nil
	}
	var err error
	o.Fingerprint, err = Fingerprint(input)
	return err
}

// keep is a result as JSON, and what comes out of that. The methods of its type may panic: the work is done, and their
// panic is no failure of it.
func keep[T any](made T) (kept string, result T, err error) {
	if p := apart("a method of the result", func() {
		var text []byte
		if text, err = json.Marshal(made); err == nil {
			kept, err = string(text), json.Unmarshal(text, &result)
		}
	}); p != nil {
		err = p
	}
	if err != nil {
		return "", result, unkept{fmt.Errorf("the work is done, but its result cannot be kept as JSON: %w", err)}
	}
	return kept, result, nil
}
