package tasks

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// Guard authenticates requests to internal endpoints: they come from the queue or the scheduler. The account of
// functions/oidc is one; [Platform] and [Development] are the others.
type Guard interface {
	// Verify lets a request in, and returns the subject of its caller if it was verified, also that of a caller that it
	// keeps out: the audit event names it. An error that is [httpapi.ErrUnauthenticated] or [httpapi.ErrForbidden] keeps
	// it out, with a text for the caller; any other error means that the caller could not be verified just now.
	Verify(r *http.Request) (subject string, err error)

	// Challenge is the WWW-Authenticate header of a 401 response. Empty sends none.
	Challenge() string
}

// Platform admits every request that the platform has admitted: a Cloud Run service without public access, where IAM
// decides who may invoke it. A request does not show that, so choose it only there.
type Platform struct{}

// Verify implements [Guard].
func (Platform) Verify(*http.Request) (string, error) { return "", nil }

// Challenge implements [Guard].
func (Platform) Challenge() string { return "" }

// Development admits every caller on this machine, except web pages of other sites.
type Development struct{}

// Verify implements [Guard].
func (Development) Verify(r *http.Request) (string, error) {
	if !httpapi.Loopback(r.RemoteAddr) {
		return "", fmt.Errorf("%w: in development mode the internal endpoints accept callers on this machine only",
			httpapi.ErrForbidden)
	}
	if err := httpapi.FromThisMachine(r); err != nil {
		return "", fmt.Errorf("%w: in development mode the server %w", httpapi.ErrForbidden, err)
	}
	return "", nil
}

// Challenge implements [Guard].
func (Development) Challenge() string { return "" }

// admit asks a guard.
func admit(g Guard, r *http.Request) error {
	subject, err := g.Verify(r)
	httpapi.AuditSubject(r, subject)
	if err != nil {
		return httpapi.Unidentified(err, g.Challenge())
	}
	return nil
}

// errNoGuard is the error of endpoints that would admit every caller.
var errNoGuard = errors.New("a Guard is required: who may enter")
