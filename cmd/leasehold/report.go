package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Exit codes, for scripts; "once" and "lock run" have others. They are part of what the command promises; --help and
// docs/reference/cli.md list them.
const (
	exitOK     = 0
	exitFailed = 1 // an error of the server, the network or the store
	exitUsage  = 2 // an error in the command line or in a setting
	// the lock is held, closed for its delay or has a full line, or another worker runs the analysis of a message
	exitHeld = 3
	// the lease is lost, expired, released or not yours, a higher token was seen, or the incarnation has ended
	exitGone = 4
	// the lock, the run, the analysis, the member or the service does not exist, or no member may host the identity
	exitMissing     = 5
	exitNotFailed   = 6   // what is to be retried is not FAILED, or not READY, or has ended again: nothing was changed
	exitInterrupted = 130 // by SIGINT or SIGTERM, before the command was done
)

// Exit codes of "once" and "lock run", beside those of the command that they run and exitInterrupted. They are where
// env and timeout have theirs, as commands seldom do; 124 is left to timeout.
const (
	exitUnavailable  = 118 // the server or the store could not be reached, or failed
	exitWaited       = 119 // the lock was held until the wait was over
	exitOtherHolds   = 120 // another holds the lock, or is at work on the run
	exitLost         = 121 // the lock was lost
	exitNotDue       = 122 // the job is not due by the clock of the server or the store
	exitFailedBefore = 123 // the run was FAILED before
	exitTrouble      = 125 // what has no other code, and is not the command's
	exitNoExec       = 126 // the command cannot be run
	exitNoCommand    = 127 // the command was not found
	exitSignal       = 128 // and the number of the signal that killed the command
)

// exitError is an error with its exit code.
type exitError struct {
	code int
	err  error // nil: the exit code is that of another command, which has said why
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as one of the command line.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// interruption is the error of a command that a signal ended.
func interruption(format string, args ...any) error {
	return &exitError{exitInterrupted, fmt.Errorf(format, args...)}
}

// failure is an error as --json shows it: a problem document with the exit code.
type failure struct {
	contracts.Problem

	ExitCode int `json:"exit_code"`
}

// report writes an error to standard error and returns its exit code. ctx ends with a signal.
func report(ctx context.Context, err error, asJSON bool, s *streams) int {
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		if code = e.code; e.err == nil {
			return code
		}
	} else if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err, code = errors.New("interrupted"), exitInterrupted
	}
	if !asJSON {
		fmt.Fprintln(s.err, "leasehold:", err)
		return code
	}
	e := json.NewEncoder(s.err)
	e.SetEscapeHTML(false)
	//nolint:errchkjson // nothing is left to report that standard error is closed
	_ = e.Encode(failure{problem(err, code), code})
	return code
}

// problem is an error as a problem document: the server's own, or one in its form.
func problem(err error, code int) contracts.Problem {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e.Problem()
	}
	_, unreachable := errors.AsType[*unreachableError](err)
	switch {
	case unreachable, code == exitUnavailable:
		p := contracts.Errorf(contracts.CodeUnavailable, "%v", err).Problem()
		p.Title = "the server cannot be reached"
		return p
	case code == exitLost:
		return contracts.Errorf(contracts.CodeLeaseExpired, "%v", err).Problem()
	case code == exitUsage, code == exitTrouble:
		return contracts.Errorf(contracts.CodeInvalidArgument, "%v", err).Problem()
	case code == exitInterrupted:
		const clientClosed = 499 // nginx's: the client ended the request
		return contracts.Problem{
			Type: "about:blank", Title: "interrupted", Status: clientClosed, Code: "INTERRUPTED", Detail: err.Error(),
			Retryable: true,
		}
	default:
		return contracts.Problem{
			Type: "about:blank", Title: "the command failed", Status: http.StatusInternalServerError, Code: "FAILED",
			Detail: err.Error(),
		}
	}
}
