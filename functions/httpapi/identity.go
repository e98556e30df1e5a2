package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Caller is the verified sender of a request.
type Caller struct {
	// Subject is the verified name of the caller and, escaped, the owner of its leases. It is empty in development mode,
	// where the body names the owner.
	Subject string

	// TokenID names the token that the caller sent, for audit events, where an [Identity] has names for them; it is no
	// secret. Empty otherwise.
	TokenID string

	// Tenant is the only tenant that the caller may touch. It is empty in development mode: any.
	Tenant string

	// Rights are what the caller may do beside the ordinary work in its tenant.
	Rights Rights

	// Until is when the credentials expire, where [Identity] would not say so if it were asked again: they were verified
	// by something in front of the process. A request that waits is granted nothing from then on. Zero: not known.
	Until time.Time
}

// Identity authenticates requests. Implementations: [Development], the package functions/oidc, and the entry points of
// platforms that verify callers themselves.
type Identity interface {
	// Identify returns the caller. An error that is [ErrUnauthenticated] means that the request does not say who sent
	// it, or not in a way that can be believed; its text is shown to the caller and says what is wrong, never what the
	// credentials were. [ErrMisconfigured] means that no caller can be verified until the settings, or the issuer, change,
	// and results in INTERNAL. Any other error means that the caller could not be verified just now: UNAVAILABLE.
	// Of the Caller that comes with an error only the TokenID is used, for the audit event.
	//
	// It is called again with the same request while that waits, by another goroutine and with another context. Then it
	// says what holds at that time: whether the credentials have expired or were revoked, and whose they are.
	Identify(r *http.Request) (Caller, error)

	// Challenge is the WWW-Authenticate header of a 401 response: what is accepted. Empty sends none.
	Challenge() string

	// Unverified reports whether callers name themselves. The API then accepts requests from this machine only.
	Unverified() bool
}

// ErrUnauthenticated marks a request without valid credentials.
var ErrUnauthenticated = errors.New("unauthenticated")

// ErrMisconfigured marks an error of an [Identity] that does not pass by itself.
var ErrMisconfigured = errors.New("misconfigured")

// Unauthenticated returns an [ErrUnauthenticated] whose text is the sentence for the caller and nothing more.
func Unauthenticated(format string, args ...any) error {
	return sentence{fmt.Sprintf(format, args...), ErrUnauthenticated}
}

// Misconfigured returns an [ErrMisconfigured] whose text is the sentence for the operator and nothing more.
func Misconfigured(format string, args ...any) error {
	return sentence{fmt.Sprintf(format, args...), ErrMisconfigured}
}

// sentence is an error of a kind that its text does not name.
type sentence struct {
	text string
	kind error
}

// Error is the text.
func (s sentence) Error() string { return s.text }

// Unwrap says what kind of error it is.
func (s sentence) Unwrap() error { return s.kind }

// ErrForbidden marks a request with valid credentials of a caller that is not admitted. Its text is shown to the
// caller.
var ErrForbidden = errors.New("forbidden")

// Development accepts every caller: the body names the owner, every tenant is open, every caller has all rights. A
// server that uses it must not be reachable from outside the machine; [New] additionally rejects what [FromThisMachine]
// rejects.
type Development struct{}

// Identify implements [Identity].
func (Development) Identify(*http.Request) (Caller, error) {
	return Caller{Rights: AllRights}, nil
}

// Challenge implements [Identity].
func (Development) Challenge() string { return "" }

// Unverified implements [Identity].
func (Development) Unverified() bool { return true }

// maxSuffixBytes bounds the part of an owner that tells instances of one subject apart.
const maxSuffixBytes = 64

// MaxSubjectBytes bounds the subject of a caller, whoever verified it: those of GitHub's jobs have up to 290 bytes.
const MaxSubjectBytes = 512

// maxOwnerBytes is how much of an owner is the subject, so that there is room for a suffix.
const maxOwnerBytes = lock.MaxOwnerBytes - 1 - maxSuffixBytes

// owner is the owner of the caller's leases. Without a verified subject it is the body's owner_id. With one it is
// [ownerOf] the subject, plus "#" and the body's owner_id if there is one.
func (c Caller) owner(fromBody string) (string, error) {
	if c.Subject == "" {
		if fromBody == "" {
			return "", field.Errorf("owner_id",
				"is required: this server runs in development mode, where the body names the owner")
		}
		return fromBody, nil
	}
	subject := ownerOf(c.Subject)
	if fromBody == "" {
		return subject, nil
	}
	if len(fromBody) > maxSuffixBytes || strings.Trim(fromBody,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return "", field.Errorf("owner_id",
			"tells instances of your subject apart: 1 to %d letters, digits, '.', '_' and '-', or leave it out", maxSuffixBytes)
	}
	return subject + "#" + fromBody, nil
}

// ownerOf is what a subject is called as the owner of leases: the subject itself, in which "#" is escaped, so that no
// suffix can make a caller another one. Documents have room for 191 bytes of it: a longer one is its begin, "#~" and a
// hash of the whole, which no suffix has.
func ownerOf(subject string) string {
	whole := strings.NewReplacer("%", "%25", "#", "%23").Replace(subject)
	if len(whole) <= maxOwnerBytes {
		return whole
	}
	sum := sha256.Sum256([]byte(subject))
	mark := "#~" + hex.EncodeToString(sum[:16])
	return strings.ToValidUTF8(whole[:maxOwnerBytes-len(mark)], "") + mark
}

// maxTokenBytes bounds the work that an unknown caller can cause. Tokens usually have one or two thousand bytes; with
// the names of 145 groups, as Microsoft sends them, more than eight thousand.
const maxTokenBytes = 32 << 10

// Bearer returns the token of the Authorization header (RFC 6750, section 2.1).
func Bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", Unauthenticated("the request has no Authorization header: send Authorization: Bearer and a token")
	case 1:
	default:
		return "", Unauthenticated("the request has %d Authorization headers: send one", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", Unauthenticated(
			"the Authorization header is not of the scheme Bearer: send Authorization: Bearer and a token")
	case token == "":
		return "", Unauthenticated("the Authorization header has no token after Bearer")
	case len(token) > maxTokenBytes:
		return "", Unauthenticated("the token has %d bytes, %d at most", len(token), maxTokenBytes)
	}
	return token, nil
}
