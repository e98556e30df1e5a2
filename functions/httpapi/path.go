package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// segmentNames says how the contract calls the segment of a path that follows another.
var segmentNames = map[string]string{
	"tenants": "tenant_id", "locks": "lock_key", "fences": "resource", "analyses": "analysis_id", "lease": "id",
}

// wholeSegments rejects paths with an empty, ".", ".." or "/" (%2F) segment: INVALID_ARGUMENT where a name belongs, NOT_FOUND
// elsewhere. The router would clean such a path and redirect, or serve another resource than the one that the caller named.
func (f *frame) wholeSegments(next http.Handler) http.Handler {
	return f.respond(func(w http.ResponseWriter, r *http.Request) error {
		segments := strings.Split(r.URL.EscapedPath(), "/")
		for i := 1; i < len(segments); i++ {
			switch segments[i] {
			case "", ".", "..", "%2F", "%2f":
			default:
				continue
			}
			if r.URL.Path == "/" {
				continue
			}
			name, ok := segmentNames[segments[i-1]]
			if !ok {
				return errNoPath
			}
			return field.Errorf(name, "is empty, \".\", \"..\" or \"/\" in the path: choose another name, and send a \"/\" inside of it as %%2F")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// fromThisMachine protects a server in development mode from web pages: one that sends requests across origins, and one
// that had its own name pointed at this machine (DNS rebinding).
func (f *frame) fromThisMachine(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return f.respond(func(w http.ResponseWriter, r *http.Request) error {
		if !Loopback(r.Host) {
			return contracts.Errorf(contracts.CodePermissionDenied,
				"a server in development mode accepts requests to localhost only, not to %q; configure authentication to serve others", r.Host)
		}
		if err := crossOrigin.Check(r); err != nil {
			return contracts.Errorf(contracts.CodePermissionDenied, "a server in development mode takes no requests from web pages of other sites")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// Loopback reports whether a host, with or without a port, names this machine itself: localhost, 127.0.0.0/8 or ::1.
func Loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
