package gcp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// refusal is an [httpapi.ErrUnauthenticated] whose text is the sentence for the caller and nothing more.
type refusal string

// Error is the sentence.
func (r refusal) Error() string { return string(r) }

// Unwrap says what kind of error it is.
func (refusal) Unwrap() error { return httpapi.ErrUnauthenticated }

// nobody is the identity of a function without an issuer: it believes no caller.
type nobody struct{}

// Identify implements [httpapi.Identity].
func (nobody) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{}, refusal("this function believes nobody yet: set LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE for it")
}

// Challenge implements [httpapi.Identity].
func (nobody) Challenge() string { return `Bearer realm="leasehold"` }

// signed says what has happened to tokens whose signature Cloud Run took off. They would be refused without it as well.
type signed struct{ httpapi.Identity }

// Identify implements [httpapi.Identity].
func (i signed) Identify(r *http.Request) (httpapi.Caller, error) {
	if unsigned(r) {
		return httpapi.Caller{}, refusal("Cloud Run has checked this token and taken its signature off: " +
			"send Cloud Run's token in X-Serverless-Authorization, and Leasehold's in Authorization")
	}
	return i.Identity.Identify(r)
}

// unsigned reports whether Cloud Run has taken the signature off a request's token.
func unsigned(r *http.Request) bool {
	return strings.HasSuffix(r.Header.Get("Authorization"), ".SIGNATURE_REMOVED_BY_GOOGLE")
}

// workers are subjects that may run analyses without a scope: Google's tokens have none.
type workers struct {
	httpapi.Identity

	subjects []string
}

// Identify implements [httpapi.Identity].
func (i workers) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := i.Identity.Identify(r)
	if err == nil && slices.Contains(i.subjects, c.Subject) {
		c.Worker = true
	}
	return c, err
}

// fixedTenant puts all callers into one tenant, or those of some subjects and nobody else.
type fixedTenant struct {
	httpapi.Identity

	tenant   string
	subjects []string // nil: all
}

// Identify implements [httpapi.Identity].
func (i fixedTenant) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := i.Identity.Identify(r)
	if err != nil {
		return httpapi.Caller{}, err
	}
	if i.subjects != nil && !slices.Contains(i.subjects, c.Subject) {
		return httpapi.Caller{}, refusal("the token's subject is not among LEASEHOLD_SUBJECTS")
	}
	c.Tenant = i.tenant
	return c, nil
}
