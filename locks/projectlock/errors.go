//nolint:errname // codes are errors and have the names of codes, as those of package contracts
package projectlock

import (
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Code says what went wrong, with the names that the browser's project lock uses as well. A code is an error, so that
// errors.Is(err, CodeLockUnavailable) asks what happened.
type Code string

// The codes of a [LockError].
const (
	// CodeWebLockUnsupported: the browser has no Web Locks. This package never returns it.
	CodeWebLockUnsupported Code = "web-lock-unsupported"

	// CodeLockTimeout: there was no answer in time. As the cause of CodeLockUnavailable one try took longer than
	// [TryTimeout]; by itself the context of the caller ended before the lock was acquired, and its cause is that of the
	// context.
	CodeLockTimeout Code = "lock-timeout"

	// CodeLockUnavailable: the last attempt failed, or another attempt would fail in the same way. Never retryable. The
	// cause is the error of the last attempt, contracts.CodeLockHeld if another lease holds the lock.
	CodeLockUnavailable Code = "lock-unavailable"

	// CodeLockRenewalFailed: the lease is lost ([ErrLost]), or could not be renewed. Retryable means: acquire again. It is
	// not retryable if the file may not be written, or the service rejects the request for good.
	CodeLockRenewalFailed Code = "lock-renewal-failed"

	// CodeLockReleaseFailed: the lock could not be released, and then it is tried again before the next acquire; or it was
	// no longer the caller's ([ErrLost]).
	CodeLockReleaseFailed Code = "lock-release-failed"
)

// Error is the code itself.
func (c Code) Error() string { return string(c) }

// LockError is the error of every method of a [Project], other than those of wrong arguments. errors.Is matches its
// Code and its Cause.
type LockError struct {
	Code Code

	// Retryable is false if the caller should stop writing, as a program that goes on read-only, and true if it may
	// acquire the lock again.
	Retryable bool

	Cause error
}

// Error is the code and the cause.
func (e *LockError) Error() string {
	if e.Cause == nil {
		return string(e.Code)
	}
	return fmt.Sprintf("%s: %v", e.Code, e.Cause)
}

// Is reports whether target is the error's code.
func (e *LockError) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Unwrap returns the cause.
func (e *LockError) Unwrap() error { return e.Cause }

// ErrLost marks a lease that is no longer the caller's: it expired by this process's clocks, or the lock is gone or
// another's. It is the cause with which the context of [Project.With] is cancelled.
var ErrLost = lease.Lost("the lease is lost")

// ErrNoToken is the error of [Lease.Token] for a lease that has no fencing token.
var ErrNoToken = errors.New(
	"a lease of a file has no fencing token: use the service, or write without a fence knowingly")
