package setup

import (
	"net/http"
	"strings"
)

// BasePath returns a handler that removes a path, such as /leasehold, from the front of request paths. Paths without it
// stay as they are. An empty path changes nothing.
func BasePath(path string, next http.Handler) http.Handler {
	if path == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, path+"/")
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		inner, u := *r, *r.URL
		u.Path = "/" + rest
		// RawPath is the path with its escapes, if it is not the usual one. The base path has no character that is escaped.
		if raw, ok := strings.CutPrefix(u.RawPath, path+"/"); ok {
			u.RawPath = "/" + raw
		} else if u.RawPath != "" {
			next.ServeHTTP(w, r) // a base path with escapes is another path
			return
		}
		inner.URL = &u
		next.ServeHTTP(w, &inner)
	})
}
