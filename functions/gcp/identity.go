package gcp

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// unconfigured is the identity of a function without an issuer: it rejects all callers.
type unconfigured struct{}

// Identify implements [httpapi.Identity].
func (unconfigured) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{}, errUnconfigured
}

// Challenge implements [httpapi.Identity].
func (unconfigured) Challenge() string { return `Bearer realm="leasehold"` }

// unauthenticated is an [httpapi.ErrUnauthenticated] whose text is the sentence for the caller and nothing more.
type unauthenticated string

const errUnconfigured unauthenticated = "authentication is not configured: set LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE for this function"

// Error is the sentence.
func (u unauthenticated) Error() string { return string(u) }

// Unwrap says what kind of error it is.
func (unauthenticated) Unwrap() error { return httpapi.ErrUnauthenticated }
