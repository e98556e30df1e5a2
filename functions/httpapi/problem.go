package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// refusal is an error that the caller is meant to see as it is.
type refusal struct {
	code       contracts.Code
	detail     string
	field      string        // that names what is not there
	owner      string        // of the lock that is held
	expiresAt  time.Time     // of the lock that is held
	retryAfter time.Duration // until then
	highest    int64         // token of the fence
}

func (e *refusal) Error() string { return string(e.code) + ": " + e.detail }

func refuse(code contracts.Code, format string, args ...any) error {
	return &refusal{code: code, detail: fmt.Sprintf(format, args...)}
}

// Refuse is an error for a [Route]: a refusal that the caller is to see as it is. retryAfter, if above 0, says when another
// try makes sense.
func Refuse(code contracts.Code, retryAfter time.Duration, format string, args ...any) error {
	return &refusal{code: code, detail: fmt.Sprintf(format, args...), retryAfter: retryAfter}
}

// Unidentified is an error for a [Route] that could not find out who the caller is: what an [Identity] answered, and its
// challenge.
func Unidentified(err error, challenge string) error { return &identityError{err, challenge} }

// advised is an error of the store with what the caller should do next, where that is not to send the same again.
type advised struct {
	err    error
	advice string
}

func (e *advised) Error() string { return e.err.Error() }

func (e *advised) Unwrap() error { return e.err }

// identityError is what an Identity answered, with the challenge that goes with it.
type identityError struct {
	err       error
	challenge string
}

func (e *identityError) Error() string { return e.err.Error() }

func (e *identityError) Unwrap() error { return e.err }

// problemOf translates an error into what the caller may know of it. logged is what the operator needs beyond that.
func problemOf(err error) (p contracts.Problem, logged error) {
	var (
		refused  *refusal
		invalid  *field.Error
		identity *identityError
		advised  *advised
	)
	next := sendAgain
	if errors.As(err, &advised) {
		next = advised.advice
	}
	switch {
	case errors.As(err, &refused):
		p = problem(refused.code, refused.detail)
		p.Field = refused.field
		p.OwnerID = refused.owner
		p.ExpiresAt = text(refused.expiresAt)
		p.RetryAfterMs = refused.retryAfter.Milliseconds()
		p.HighestToken = refused.highest
		return p, nil
	case errors.As(err, &invalid):
		p = problem(contracts.CodeInvalidArgument, invalid.Error())
		p.Field = invalid.Name
		return p, nil
	case errors.As(err, &identity):
		if errors.Is(err, ErrUnauthenticated) {
			return problem(contracts.CodeUnauthenticated, err.Error()), nil
		}
		if errors.Is(err, ErrForbidden) {
			return problem(contracts.CodePermissionDenied, err.Error()), nil
		}
		return problem(contracts.CodeUnavailable, "who you are could not be verified just now; try again"), err
	case errors.Is(err, context.DeadlineExceeded):
		return problem(contracts.CodeDeadlineExceeded, next), err
	case errors.Is(err, docstore.ErrClockSkew):
		return problem(contracts.CodeClockSkew, "nothing was changed; try again, another instance may have a better clock"), err
	case errors.Is(err, docstore.ErrUnavailable), errors.Is(err, docstore.ErrClosed), errors.Is(err, context.Canceled):
		return problem(contracts.CodeUnavailable, next), err
	case errors.Is(err, docstore.ErrDamaged):
		return problem(contracts.CodeDocumentDamaged, "the server's log names the document and the field under this request's ID"), err
	default:
		return problem(contracts.CodeInternal, "the server's log has the details under this request's ID"), err
	}
}

const sendAgain = "the command may have been carried out: send the same body again"

func problem(code contracts.Code, detail string) contracts.Problem {
	info, known := code.Info()
	if !known {
		return problem(contracts.CodeInternal, fmt.Sprintf("a rule answered with the unknown code %q", code))
	}
	return contracts.Problem{
		Type: code.TypeURI(), Title: info.Title, Status: info.Status, Code: code, Retryable: info.Retryable, Detail: detail,
	}
}

// fail answers with a problem document and notes what the log line shall say.
func (f *frame) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, cause := problemOf(err)
	p.Instance = "urn:request:" + w.Header().Get(requestIDHeader)
	noteOf(r).code, noteOf(r).err = p.Code, cause
	h := w.Header()
	var identity *identityError
	if errors.As(err, &identity) && identity.challenge != "" && p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", identity.challenge)
	}
	if p.RetryAfterMs > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(p.RetryAfterMs)/1000))))
	}
	if err := sendAs(w, p.Status, "application/problem+json", p); err != nil {
		f.log.ErrorContext(r.Context(), "cannot encode a problem", "err", err)
	}
}
