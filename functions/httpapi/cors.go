package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What pages of other origins may send and read. Callers are known by their token, never by a cookie: credentials are
// not allowed.
const (
	corsMethods = "GET, HEAD, POST, PUT, DELETE"
	corsRequest = "Authorization, Content-Type, Idempotency-Key, If-None-Match, " + PathHeader +
		", Traceparent, Tracestate, X-Request-Id"
	corsExposed = "ETag, Retry-After, Www-Authenticate, X-Request-Id"
	corsMaxAge  = "600" // seconds for which a browser remembers it
)

// CheckOrigin reports what is wrong with an origin of [Options].Origins: it must be spelled as browsers send it, such
// as https://app.example.com. The error continues a sentence about it.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	switch {
	case origin == "*":
		return errors.New("would let every web page call: list the origins, such as https://app.example.com")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("must be http:// or https:// and a host, such as https://app.example.com")
	case u.Scheme+"://"+u.Host != origin:
		return fmt.Errorf("must end after the host or its port, such as %s://%s", u.Scheme, strings.ToLower(u.Host))
	case strings.ToLower(origin) != origin || strings.Trim(origin, printable) != "":
		return errors.New("must be in lower case and ASCII, as browsers send it")
	case strings.HasSuffix(u.Host, ":") || u.Scheme == "http" && u.Port() == "80" ||
		u.Scheme == "https" && u.Port() == "443":
		return fmt.Errorf("must leave the scheme's own port out, as browsers do: %s://%s", u.Scheme, u.Hostname())
	case strings.Contains(u.Host, "*"):
		return errors.New("must be one host: wildcards are not supported")
	}
	return nil
}

const printable = "!\"#$%&'()*+,-./0123456789:;<=>?@[]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// withOrigins lets web pages of other origins call the API, if the server allows any: browsers ask before the request
// proper, and show its response to the page only if it names the page's origin. Pages of all other origins get what
// they get without this.
func (f *frame) withOrigins(next http.Handler) http.Handler {
	if len(f.origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !slices.Contains(f.origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsRequest)
			h.Set("Access-Control-Max-Age", corsMaxAge)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", corsExposed)
		next.ServeHTTP(w, r)
	})
}
