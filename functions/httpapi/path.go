package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// segmentNames says how the contract calls the segment of a path that follows another.
var segmentNames = map[string]string{
	"tenants": "tenant_id", "locks": "lock_key", "fences": "resource", "analyses": "analysis_id", "runs": "run_id",
	"lease": "id", "spaces": "space",
	"clusters": "cluster", "members": "member", "placements": "kind", "activations": "kind",
}

// identitySegment is where the ID of an identity stands, behind its kind, in a path that has been split.
const identitySegment = 8

// wholeSegments rejects paths with an empty, ".", ".." or "/" segment, escaped or not: INVALID_ARGUMENT where a name
// belongs, NOT_FOUND elsewhere. The router would clean such a path and redirect, or serve another resource than the one
// that the caller named.
func (f *frame) wholeSegments(next http.Handler) http.Handler {
	return f.respond(func(w http.ResponseWriter, r *http.Request) error {
		if err := noteOf(r).unclear; err != nil {
			return err
		}
		path := r.URL.EscapedPath()
		i := missingSegment(path)
		if i > 0 && r.URL.Path != "/" && !f.folders[path] {
			segments := strings.Split(path, "/")
			name, ok := segmentNames[segments[i-1]]
			if i == identitySegment && segments[4] == "clusters" {
				name, ok = "id", true
			}
			if !ok {
				return f.noPath(r)
			}
			return field.Errorf(name,
				"is empty, \".\", \"..\" or \"/\" in the path: choose another name, and send a \"/\" inside of it as %%2F")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// missingSegment returns which segment of an escaped path is empty, ".", ".." or "/": the first of them, counted from
// 1; 0 if none is.
func missingSegment(path string) (i int) {
	for segment := range strings.SplitSeq(path, "/") {
		plain := segment
		if strings.Contains(segment, "%") {
			plain, _ = url.PathUnescape(segment) // the path is well formed
		}
		switch plain {
		case "", ".", "..", "/":
			if i > 0 { // before the first "/" there is nothing
				return i
			}
		default:
		}
		i++
	}
	return 0
}

// fromThisMachine protects a server in development mode: from web pages only, if it serves any host. Pages of
// Options.Origins are no others.
func (f *frame) fromThisMachine(next http.Handler) http.Handler {
	sites := http.NewCrossOriginProtection()
	for _, origin := range f.origins {
		_ = sites.AddTrustedOrigin(origin) // what is no origin trusts none
	}
	check := fromHere
	if f.anyHost {
		check = fromNoOtherSite
	}
	return f.respond(func(w http.ResponseWriter, r *http.Request) error {
		if err := check(r, sites); err != nil {
			return contracts.Errorf(contracts.CodePermissionDenied, "a server in development mode %v", err)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// proxyHeaders are set by proxies, which can make requests from anywhere look like ones to localhost.
var proxyHeaders = []string{"Forwarded", "Via", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"}

// FromThisMachine rejects requests that may not come from this machine, for servers that do not authenticate callers:
// requests to another host (a page that had its own name pointed at this machine), requests of web pages of other
// sites, and requests that a proxy passed on. The error continues a sentence about the server.
func FromThisMachine(r *http.Request) error { return fromHere(r, crossOrigin) }

var crossOrigin = http.NewCrossOriginProtection()

func fromHere(r *http.Request, sites *http.CrossOriginProtection) error {
	if !Loopback(r.Host) {
		return fmt.Errorf("accepts requests to localhost only, not to %q; configure authentication to serve others", r.Host)
	}
	if err := fromNoOtherSite(r, sites); err != nil {
		return err
	}
	for name := range r.Header {
		if slices.Contains(proxyHeaders, name) || strings.HasPrefix(name, "X-Forwarded-") {
			return fmt.Errorf(
				"takes no requests from a proxy, and this one has the header %s; configure authentication to serve others", name)
		}
	}
	return nil
}

// fromNoOtherSite rejects requests that a browser sends for a web page of another site.
func fromNoOtherSite(r *http.Request, sites *http.CrossOriginProtection) error {
	if err := sites.Check(r); err != nil {
		return errors.New("takes no requests from web pages of other sites")
	}
	return nil
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
