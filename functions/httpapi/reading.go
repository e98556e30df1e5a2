package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
)

// PathHeader is the header of a request that has its path as the client sent it, from /v1 on and without the query.
// Clients send it where escapes may be lost on the way. A request whose path is not the same, escapes aside, is
// rejected.
const PathHeader = "Leasehold-Path"

// withSlash are the names in paths that may have a "/", as the patterns of routes call them.
var withSlash = map[string]bool{"tenant_id": true, "lock_key": true, "resource": true, "member": true, "id": true}

type unescapedKey struct{}

// Unescaped says in a request's context that what handed the request over has resolved the escapes of its path, and
// which front end that is, for people. [New] then finds the names in such a path again, where it can be read in one way
// only.
func Unescaped(ctx context.Context, front string) context.Context {
	return context.WithValue(ctx, unescapedKey{}, front)
}

// meant is the request with the path that its sender meant. The error is AMBIGUOUS_PATH where that cannot be known; the
// request is as it was then.
func (f *frame) meant(r *http.Request) (*http.Request, error) {
	if sent := r.Header[PathHeader]; len(sent) > 0 && strings.HasPrefix(r.URL.Path, "/v1/") {
		return asSent(r, sent)
	}
	front, unescaped := r.Context().Value(unescapedKey{}).(string)
	if !unescaped || !strings.HasPrefix(r.URL.Path, tenants) {
		return r, nil
	}
	found := f.readings(r.Method, r.URL.Path)
	switch len(found) {
	case 0:
		return r, nil
	case 1:
		return withPath(r, found[0].path()), nil
	}
	c, err := f.caller(r)
	if err != nil {
		return r, err
	}
	for _, one := range found {
		// All others are of tenants that this caller may not touch. But a name with a "/" is taken only where nothing else
		// can be meant.
		if one.names[0] == c.Tenant && !strings.Contains(strings.Join(one.names[1:], ""), "/") {
			return withPath(r, one.path()), nil
		}
	}
	return r, contracts.Errorf(contracts.CodeAmbiguousPath,
		"%s resolves the escapes of paths, and this one can be read in several ways: send it as it is meant in the header %s, "+
			"or use a front end that keeps escapes", front, PathHeader)
}

// asSent takes the path that the client says it sent, if it is the path that arrived, escapes aside.
func asSent(r *http.Request, sent []string) (*http.Request, error) {
	asMeant := withPath(r, sent[0])
	if len(sent) > 1 || asMeant.URL.EscapedPath() != sent[0] { // it is not that of this path, or not well formed
		changes := "something between the client and this server changes paths"
		if front, unescaped := r.Context().Value(unescapedKey{}).(string); unescaped {
			changes = front + " changes paths: it resolves escapes, and cuts a name at a \"?\""
		}
		return r, contracts.Errorf(contracts.CodeAmbiguousPath, "the path arrived as %s and was sent as %s: %s",
			r.URL.EscapedPath(), strings.Join(sent, ", "), changes)
	}
	return asMeant, nil
}

// withPath is a request with another spelling of its path.
func withPath(r *http.Request, escaped string) *http.Request {
	if escaped == r.URL.EscapedPath() {
		return r
	}
	changed, u := *r, *r.URL
	u.RawPath, changed.URL = escaped, &u
	return &changed
}

// noPath is the error for a path that no route has. Where escapes were resolved, or where the path would be that of a
// route if a name had a "/", that must not look like a lock that was never held.
func (f *frame) noPath(r *http.Request) error {
	front, unescaped := r.Context().Value(unescapedKey{}).(string)
	switch {
	case unescaped && strings.HasPrefix(r.URL.Path, "/v1/"):
		return contracts.Errorf(contracts.CodeAmbiguousPath,
			"there is no such path as it arrived, and %s resolves escapes: is there a \"/\" in a name that cannot have one?", front)
	case !strings.HasPrefix(r.URL.Path, tenants) || len(f.readings(r.Method, r.URL.Path)) == 0:
		return errNoPath
	}
	return contracts.Errorf(contracts.CodeAmbiguousPath,
		"there is no such path, but there is one with a \"/\" in a name, which is sent as %%2F; if it was, a proxy in front of "+
			"this server resolves it: let the proxy pass paths on as they are, or send the path in the header %s too", PathHeader)
}

// reading is a way to read a path without escapes.
type reading struct {
	pattern string
	names   []string // the first is the tenant
}

// path is the path with escapes.
func (o reading) path() string {
	var b strings.Builder
	next := 0
	for segment := range strings.SplitSeq(strings.TrimPrefix(o.pattern, "/"), "/") {
		b.WriteByte('/')
		if strings.HasPrefix(segment, "{") {
			segment = url.PathEscape(o.names[next])
			next++
		}
		b.WriteString(segment)
	}
	return b.String()
}

const (
	tenants     = "/v1/tenants/" // where the names begin that may have a "/"
	tenantBytes = 256            // more than the name of any tenant has
)

// readings are the ways to read a path without escapes as that of a route with this method.
func (f *frame) readings(method, path string) (all []reading) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range f.routes {
		if r.Method == method && strings.HasPrefix(r.Path, tenants) {
			read(r.Path[1:], path[1:], nil, func(names []string) { all = append(all, reading{r.Path, names}) })
		}
	}
	return all
}

// read hands over the names of each way to read a path by a pattern, both without their first "/".
func read(pattern, path string, names []string, found func(names []string)) {
	head, pattern, more := strings.Cut(pattern, "/")
	name, named := strings.CutPrefix(head, "{")
	slashes := withSlash[strings.TrimSuffix(name, "}")]
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' {
			continue
		}
		with := names
		if named && end > 0 {
			with = append(slices.Clone(names), path[:end])
		}
		switch whole := end == len(path); {
		case named && end == 0, !named && path[:end] != head, more == whole:
		case whole:
			found(with)
		default:
			read(pattern, path[end+1:], with, found)
		}
		if !slashes || len(names) == 0 && end > tenantBytes {
			return
		}
	}
}
