package gcp

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// unconfigured is the identity of a function without an issuer: it rejects all callers.
type unconfigured struct{}

var errUnconfigured = httpapi.Unauthenticated(
	"authentication is not configured: set LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE for this function")

// Identify implements [httpapi.Identity].
func (unconfigured) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{}, errUnconfigured
}

// Challenge implements [httpapi.Identity].
func (unconfigured) Challenge() string { return `Bearer realm="leasehold"` }

// Unverified implements [httpapi.Identity].
func (unconfigured) Unverified() bool { return false }
