package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Unidentified is an error for a [Route] that could not identify the caller: err is an [Identity]'s error, challenge
// its WWW-Authenticate header.
func Unidentified(err error, challenge string) error { return &identityError{err, challenge} }

// identityError is an Identity's error, with its challenge.
type identityError struct {
	err       error
	challenge string
}

func (e *identityError) Error() string { return e.err.Error() }

func (e *identityError) Unwrap() error { return e.err }

// advised is an error of the store with the caller's next step, where that is not to send the same request again.
type advised struct {
	err    error
	advice string
}

func (e *advised) Error() string { return e.err.Error() }

func (e *advised) Unwrap() error { return e.err }

const sendAgain = "the command may have been carried out: send the same body again"

// blocked is the cause of an error for people who have the server's machine.
const blocked = "another process on the server's machine keeps the store locked, and the server's log names it"

// notWritten claims nothing about what the command wrote before.
const notWritten = "the store did not accept the write: send the same body again when it is ready"

// problemOf translates an error into the one that the caller sees. Its Cause is what the operator needs beyond that.
func problemOf(err error) *contracts.Error {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*field.Error](err); ok {
		p := contracts.Errorf(contracts.CodeInvalidArgument, "%v", e)
		p.Field = e.Name
		return p
	}
	if _, ok := errors.AsType[*identityError](err); ok {
		switch {
		case errors.Is(err, ErrUnauthenticated):
			return contracts.Errorf(contracts.CodeUnauthenticated, "%v", err)
		case errors.Is(err, ErrForbidden):
			return contracts.Errorf(contracts.CodePermissionDenied, "%v", err)
		case errors.Is(err, ErrMisconfigured):
			return causedBy(err, contracts.CodeInternal, "no caller can be verified as this server is set up; "+seeLog)
		default:
			return causedBy(err, contracts.CodeUnavailable, "the caller could not be verified just now; try again")
		}
	}
	next := sendAgain
	if errors.Is(err, docstore.ErrNotWritten) {
		next = notWritten
	}
	if errors.Is(err, docstore.ErrBlocked) {
		next = blocked + "; " + next
	}
	if a, ok := errors.AsType[*advised](err); ok {
		next = a.advice
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return causedBy(err, contracts.CodeDeadlineExceeded, next)
	case errors.Is(err, docstore.ErrClockSkew):
		return causedBy(err, contracts.CodeClockSkew,
			"nothing was changed; try again, another instance may have a better clock")
	case errors.Is(err, docstore.ErrUnavailable), errors.Is(err, docstore.ErrClosed), errors.Is(err, context.Canceled):
		return causedBy(err, contracts.CodeUnavailable, next)
	case errors.Is(err, docstore.ErrUnsupported):
		return causedBy(err, contracts.CodeInternal,
			"the store of this server cannot read or change several documents in one step, which this needs; nothing was changed")
	case errors.Is(err, docstore.ErrDamaged):
		return causedBy(err, contracts.CodeDocumentDamaged,
			"the server's log names the document and the field under this request's ID")
	default:
		return causedBy(err, contracts.CodeInternal, seeLog)
	}
}

const seeLog = "the server's log has the details under this request's ID"

func causedBy(cause error, code contracts.Code, detail string) *contracts.Error {
	e := contracts.Errorf(code, "%s", detail)
	e.Cause = cause
	return e
}

// WriteProblem writes an error as application/problem+json (RFC 9457), with Retry-After if the error has one. An empty
// RequestID is taken from the response's X-Request-Id. The error is one of encoding; nothing was written then.
func WriteProblem(w http.ResponseWriter, e *contracts.Error) error {
	p := *e
	if p.RequestID == "" {
		p.RequestID = w.Header().Get(requestIDHeader)
	}
	if after := cmp.Or(p.PollAfter, p.RetryAfter); after >= time.Millisecond { // what the body says
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Truncate(time.Millisecond).Seconds()))))
	}
	return sendAs(w, p.Status, "application/problem+json", p.Problem())
}

// fail writes the problem document of an error and notes what the log line says.
func (f *frame) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := problemOf(err)
	if id := telemetry.TraceID(r.Context()); id != "" {
		traced := *e // others may send the same error
		traced.TraceID = id
		e = &traced
	}
	n := noteOf(r)
	n.code, n.detail, n.err, n.problem = e.Code, e.Detail, e.Cause, e
	if e.Code == contracts.CodeDocumentDamaged {
		f.damage.Met(n.operation(), 1)
	}
	if id, ok := errors.AsType[*identityError](err); ok && id.challenge != "" && e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", id.challenge)
	}
	if err := WriteProblem(w, e); err != nil {
		f.log.ErrorContext(r.Context(), "cannot encode a problem", "err", err)
	}
}
