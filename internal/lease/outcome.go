package lease

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/leasehold-dev/leasehold/contracts"
)

// goneCodes say that a lease is the caller's no more.
var goneCodes = []contracts.Code{contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased,
	contracts.CodeNotOwner}

// Gone reports whether an error says that the lease is the caller's no more.
func Gone(err error) bool { return isAny(err, goneCodes) }

// Final reports whether the same request would be rejected again: see [contracts.Final]. Codes are those which are
// final for the caller besides, such as the refusal of a lock that it does not want to wait for.
func Final(err error, codes ...contracts.Code) bool { return contracts.Final(err) || isAny(err, codes) }

// isAny reports whether an error has one of the codes.
func isAny(err error, codes []contracts.Code) bool {
	return slices.ContainsFunc(codes, func(c contracts.Code) bool { return errors.Is(err, c) })
}

// NeverSent reports whether there was no connection for a request: none could be made, or it did not become one by TLS
// with the server that was meant. Or the error says so itself, such as that of a token that could not be had.
func NeverSent(err error) bool {
	if e, ok := errors.AsType[interface {
		error
		NeverSent() bool
	}](err); ok {
		return e.NeverSent()
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return distrusted || errors.Is(err, http.ErrSchemeMismatch)
}

// Meeting counts the tries of one request to a server that has never answered as a server of Leasehold does. Those of
// other requests do not count: many that are sent at once would have no second one.
type Meeting int

// firstTries is how often a request is sent to a server that has never answered, while no connection to it can be made
// or what answers is another server: its address is wrong, rather than that it is away for a while. With the pauses
// between them that is less than a second.
const firstTries = 3

// Unmet counts an error, and reports whether by now the address of the server may be wrong, so that another try in the
// next seconds is of no use.
func (m *Meeting) Unmet(err error) bool {
	e, ok := errors.AsType[interface {
		error
		Unmet() int // tries that say so
	}](err)
	if ok {
		*m += Meeting(e.Unmet())
	}
	return ok && *m >= firstTries
}

// Unsettled reports whether a request that failed may have been carried out, or may still be.
func Unsettled(err error) bool {
	if NeverSent(err) {
		return false
	}
	code, info, ok := meaning(err)
	switch code {
	case contracts.CodeOverloaded, contracts.CodeRateLimited, contracts.CodeUnauthenticated, contracts.CodeDocumentDamaged,
		contracts.CodeNotConfigured:
		return false // it was not begun, or cannot be
	default:
		return !ok || info.Status >= http.StatusInternalServerError
	}
}

// Settles reports whether an error says what became of earlier tries of the same request: the lease was looked at.
func Settles(err error) bool {
	_, info, ok := meaning(err)
	return ok && info.Status < http.StatusInternalServerError && info.Status != http.StatusUnauthorized &&
		info.Status != http.StatusTooManyRequests
}

// meaning is what the code of an error means; a server may say more than the code. ok is false for an error without
// one.
func meaning(err error) (code contracts.Code, info contracts.CodeInfo, ok bool) {
	if e, is := errors.AsType[*contracts.Error](err); is {
		return e.Code, contracts.CodeInfo{Status: e.Status, Retryable: e.Retryable, Title: e.Title}, true
	}
	code, _ = errors.AsType[contracts.Code](err)
	info, ok = code.Info()
	return code, info, ok
}
