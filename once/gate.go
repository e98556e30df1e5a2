package once

import (
	"context"
	"errors"
	"time"
)

// Gate is where analyses are locked: a [Client] over HTTP, or the rule itself over a store. Its methods may be called from
// several goroutines at once, and return soon after their context ends. After an error that is none of those named here the
// method is called again as it is, unless the error is [ErrRefused].
type Gate interface {
	// Acquire asks for the run of an analysis. Not getting it is an answer, not an error: Grant.Reason says why.
	// [ErrUnknown] if there is no such analysis.
	Acquire(ctx context.Context, r Acquire) (Grant, error)

	// Refresh moves the lock's end to now + ttl and returns the new end. [ErrLost] if the lock is no longer the caller's.
	Refresh(ctx context.Context, l Lock, ttl time.Duration) (end time.Time, err error)

	// Release gives the lock back with the analysis unfinished. failed says why the run failed, and counts; empty if it did
	// not fail but was stopped. [ErrLost] if the lock is no longer the caller's.
	Release(ctx context.Context, l Lock, failed string) error

	// Finish ends the analysis for ever. [ErrLost] if the lock is no longer the caller's.
	Finish(ctx context.Context, l Lock, r Result) error
}

// Acquire is what a worker says when it asks for a run.
type Acquire struct {
	AnalysisID string
	Owner      string        // who runs it, for people; the gate may have a better name
	RequestID  string        // the same for every sending of this attempt, another for every attempt
	TTL        time.Duration // whole seconds
}

// Reason says why a run was not granted.
type Reason string

// The reasons, as BE-041 spells them.
const (
	AlreadyFinished Reason = "already_finished" // READY or FAILED
	Locked          Reason = "locked"           // somebody runs it now
)

// Grant is the answer to [Acquire].
type Grant struct {
	Acquired   bool
	Reason     Reason        // unless Acquired
	RetryAfter time.Duration // with Locked: when the lock ends, if its holder does nothing
	Status     string        // of the analysis, as far as the gate says
	Lock       Lock          // if Acquired
	Remaining  time.Duration // if Acquired: how long the lock lasts, measured when the gate decided
	Runs       int64         // runs begun since the last that ended by itself, with this one; above 1 it is a takeover
	Failures   int64         // runs that failed before this one
}

// Lock is a lock that was granted.
type Lock struct {
	AnalysisID string
	Owner      string
	Token      int64 // the fence: pass it on to whatever the run writes to
	ExpiresAt  time.Time
}

// Result is what a run came to.
type Result struct {
	Failed bool
	Result string // unless Failed: the result or where it is, stored in the analysis' document; may be empty
	Reason string // if Failed
}

var (
	// ErrUnknown marks an analysis that has no document.
	ErrUnknown = errors.New("there is no such analysis")

	// ErrRefused marks an answer that asking again would not change: the caller lacks a right, the request is malformed, or
	// the analysis' document is damaged.
	ErrRefused = errors.New("the gate refuses this request")

	// ErrLost marks a lock that is no longer the caller's: it ended, or somebody took over, or the analysis is finished. It is
	// also the cause with which the context of a run is cancelled.
	ErrLost = errors.New("the analysis' lock is lost")
)
