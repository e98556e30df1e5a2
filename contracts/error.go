package contracts

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error returns the code itself: a code is an error, so that errors.Is(err, CodeLockHeld) asks what happened.
func (c Code) Error() string { return string(c) }

// ErrLost is what every loss of something that was held is, whichever package says it: [errors.Is] finds it in the
// ErrLost of packages locks, once, cluster and projectlock. Those tell apart what was lost: work that holds a lock
// inside a run can lose either.
var ErrLost = errors.New("lost")

// What there was instead of a response to a request. [errors.Is] finds them in the errors of all clients.
var (
	// ErrNoResponse is that there was none: no connection, none in time, or one that broke off.
	ErrNoResponse = errors.New("no response")

	// ErrInvalidResponse is one of something that is no Leasehold server, such as a proxy, or one that is not about what
	// was asked for.
	ErrInvalidResponse = errors.New("invalid response")
)

// Error is a request that was rejected or failed: what a problem document says, in Go's types. Servers write it and
// clients return it. errors.Is matches it by its [Code].
type Error struct {
	Code   Code
	Title  string // the code in words
	Status int    // of HTTP
	Detail string // what is wrong in this case, and what would be right
	// with INVALID_ARGUMENT the field at fault, or "body"; with NOT_FOUND of an analysis "analysis_id"
	Field      string
	Retryable  bool          // whether the same request may succeed later
	RetryAfter time.Duration // when that may be, in milliseconds; 0 is unknown
	// with LOCK_HELD and LOCK_DELAYED of a request with wait_seconds: when to send it again, because the server holds no
	// response for so long; up to 10 s, 0 if it did
	PollAfter    time.Duration
	LockKey      string    // with commands on several locks: because of which one
	Owner        string    // with LOCK_HELD: the holder; with several, the one whose lease ends first
	Position     int64     // with LOCK_HELD: the caller's place in line, 1 being the next; 0 if it has none
	ExpiresAt    time.Time // with LOCK_HELD, LEASE_CHANGED and MEMBER_EXISTS: when the lease expires
	HighestToken int64     // with STALE_TOKEN: the highest token that was seen
	StoreTime    time.Time // with TOO_LATE, and INVALID_ARGUMENT of not_after: by which the end was judged
	// with rejections of commands on an activation: as it is, as far as it is known, without its state
	Activation *Activation
	Epoch      int64 // with rejections of placement: the current epoch, if it was read
	// with MEMBER_EXISTS and STALE_INCARNATION: the current, or latest, incarnation of the member
	Incarnation int64
	Ineligible  Ineligible // with MEMBER_INELIGIBLE: why
	RequestID   string     // names the exchange in the server's log
	TraceID     string     // of the trace that the exchange is part of; empty if it is of none

	Cause error // what it results from, for logs; it is never sent
}

// Errorf returns an error with the code's title, status and retryability. The format makes the detail.
func Errorf(c Code, format string, args ...any) *Error {
	info, ok := c.Info()
	if !ok {
		return Errorf(CodeInternal, "unknown code %q: "+format, append([]any{string(c)}, args...)...)
	}
	return &Error{Code: c, Title: info.Title, Status: info.Status, Retryable: info.Retryable,
		Detail: fmt.Sprintf(format, args...)}
}

// Error is the code with the detail, or with its title if there is no detail; of several locks also the one at fault,
// and for a lock that is held the holder, and when its lease expires.
func (e *Error) Error() string {
	s := string(e.Code)
	if text := cmp.Or(e.Detail, e.Title); text != "" {
		s += ": " + text
	}
	var more []string
	if e.LockKey != "" {
		more = append(more, e.LockKey)
	}
	if e.Code == CodeLockHeld && e.Owner != "" && !e.ExpiresAt.IsZero() {
		more = append(more, fmt.Sprintf("by %s, until %s unless it renews", e.Owner, e.ExpiresAt.UTC().Format(TimeFormat)))
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, " ") + ")"
	}
	return s
}

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Final reports whether the same request would be rejected again: what is wrong is the request, the caller's rights,
// the stored document or the server's settings, and no wait cures it. The response's own word that a retry may help
// comes first. Without that word a rejection is final; a failure of the server (5xx) is not, but for codes that say so,
// and 501. An error without a status is of no response: its code says it all.
func (e *Error) Final() bool {
	switch {
	case e.Status == 0:
		return e.Code.Final()
	case e.Retryable:
		return false
	default:
		return e.Status < 500 || e.Status == 501 || e.Code.Final()
	}
}

// Final reports whether an error says that the same request would be rejected again: [Error.Final], [Code.Final] of a
// code alone, or what another error says that has a method Final. One without is not final: there was no response, or
// one that is not of a Leasehold server, such as the page of a proxy.
func Final(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Final()
	}
	if e, ok := errors.AsType[interface {
		error
		Final() bool
	}](err); ok {
		return e.Final()
	}
	return false
}

// RetryAfter is how long the server, or what stands before it, asks to wait before the same request is sent again; 0 if
// it does not say. That is the time of an [*Error], and of any other error that has a method RetryAfter.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	if e, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		return e.RetryAfter()
	}
	return 0
}

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Cause }

// TimeFormat is the layout of all times but those of machine IDs; they are in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

const instancePrefix = "urn:request:"

// Problem returns the body that says this error.
func (e *Error) Problem() Problem {
	p := Problem{
		Type: e.Code.TypeURI(), Title: e.Title, Status: e.Status, Code: e.Code, Retryable: e.Retryable,
		Detail: e.Detail, Field: e.Field,
		LockKey: e.LockKey, OwnerID: e.Owner, Position: e.Position, RetryAfterMs: e.RetryAfter.Milliseconds(),
		PollAfterMs: e.PollAfter.Milliseconds(), HighestToken: e.HighestToken,
		Activation: e.Activation, Epoch: e.Epoch, Incarnation: e.Incarnation, Ineligible: e.Ineligible, TraceID: e.TraceID,
	}
	if !e.ExpiresAt.IsZero() {
		p.ExpiresAt = e.ExpiresAt.UTC().Format(TimeFormat)
	}
	if !e.StoreTime.IsZero() {
		p.StoreTime = e.StoreTime.UTC().Format(TimeFormat)
	}
	if e.RequestID != "" {
		p.Instance = instancePrefix + e.RequestID
	}
	return p
}

// Err returns the error that the body says. A time that cannot be read is left out, a wait is cut to a day, and what is
// to be sent again comes after 10 s at the latest.
func (p Problem) Err() *Error {
	const most = int64(24 * time.Hour / time.Millisecond) // a longer wait is as good as none, and must not overflow
	const mostPoll = int64(10 * time.Second / time.Millisecond)
	e := &Error{
		Code: p.Code, Title: p.Title, Status: p.Status, Retryable: p.Retryable, Detail: p.Detail, Field: p.Field,
		LockKey: p.LockKey, Owner: p.OwnerID, Position: p.Position,
		RetryAfter: time.Duration(max(0, min(p.RetryAfterMs, most))) * time.Millisecond,
		PollAfter:  time.Duration(max(0, min(p.PollAfterMs, mostPoll))) * time.Millisecond, HighestToken: p.HighestToken,
		Activation: p.Activation, Epoch: p.Epoch, Incarnation: p.Incarnation, Ineligible: p.Ineligible, TraceID: p.TraceID,
	}
	if t, err := time.Parse(time.RFC3339, p.ExpiresAt); err == nil {
		e.ExpiresAt = t
	}
	if t, err := time.Parse(time.RFC3339, p.StoreTime); err == nil {
		e.StoreTime = t
	}
	if id, ok := strings.CutPrefix(p.Instance, instancePrefix); ok {
		e.RequestID = id
	}
	return e
}
