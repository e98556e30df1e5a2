package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A fingerprint says what a request is about. It has two parts, because programs of one service may be configured
// differently for a while, as in a rolling deployment, and must not refuse each other's retries:
//
//   - The gate compares what every program knows: method, path, query, host, and the body; of a form the fields and
//     files as they are parsed: each sending of a multipart form may have another boundary, and middleware of some of
//     the programs may have parsed it before.
//   - A stored response has hashes of each field of Options.Headers. A program compares those that it knows too.
type fingerprint struct {
	gate  string
	parts map[string]string
}

// printVersion begins what the gate compares. A program that changes how it is made has another one, and must also ask
// for the one before: the gate says RUN_DIFFERS of both a request that differs and a version that does.
const printVersion = "1."

// headerPart begins the names of the parts that are compared with a stored response.
const headerPart = "header "

// hostOf is the host of a request, without a port that is the default of HTTP or HTTPS; empty if it is not compared.
func (m *Middleware) hostOf(r *http.Request) string {
	if m.o.IgnoreHost {
		return ""
	}
	host := strings.ToLower(r.Host)
	for _, port := range []string{":80", ":443"} {
		if name, ok := strings.CutSuffix(host, port); ok {
			return name
		}
	}
	return host
}

// ErrBodyConsumed is what Options.Warn receives if middleware outside has read the body of a request, or some of
// it, and has not put it back: requests that differ could not be told apart. One that has parsed a form is fine.
var ErrBodyConsumed = errors.New(
	"idempotency: the request's body was read before, by middleware outside, and is not there")

// ErrEmptyScope is what Options.Warn receives if the scope of a request is empty: one caller would get the response to
// another one.
var ErrEmptyScope = errors.New("idempotency: the scope of the request is empty")

// ErrNoResponse is what Options.Warn receives if a handler returned and wrote nothing to its [http.ResponseWriter]. Of
// a framework that is a response which went past the middleware, such as an error that a handler of echo returns:
// docs/guides/idempotency.md has what to put in place. A handler that has nothing to say writes a status, such as 204.
var ErrNoResponse = errors.New("idempotency: the handler returned and wrote nothing: its response is not known, and is " +
	"not taken for a success; see IDEMPOTENT_RESPONSE_MISSING in docs/guides/idempotency.md")

// newPrint is the fingerprint of a request whose body, as far as it was there, is body.
func (m *Middleware) newPrint(r *http.Request, body []byte) (fingerprint, error) {
	if consumed(r, body) {
		return fingerprint{}, ErrBodyConsumed
	}
	parts := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, m.hostOf(r)}
	form, err := formOf(r, body)
	switch {
	case err != nil:
		return fingerprint{}, fmt.Errorf("read the parsed form: %w", err)
	case m.o.Payload != nil:
		asked := r.WithContext(r.Context())
		asked.Body = reader(body)
		if r.MultipartForm == nil {
			defer removeFiles(asked)
		}
		parts = append(parts, "chosen", string(m.o.Payload(asked, body)))
	case form != nil:
		parts = append(append(parts, "form"), form...)
	default:
		parts = append(parts, "bytes", string(body))
	}
	p := fingerprint{gate: printVersion + hash(parts...), parts: make(map[string]string)}
	for _, name := range m.o.Headers {
		p.parts[headerPart+name] = hash(r.Header.Values(name)...)
	}
	return p, nil
}

// all is one text for both parts, for requests that one program compares.
func (p fingerprint) all() string {
	parts := []string{p.gate}
	for _, name := range slices.Sorted(maps.Keys(p.parts)) {
		parts = append(parts, name, p.parts[name])
	}
	return hash(parts...)
}

// differs reports whether a request with the same key and equal for the gate is another one than that of a stored
// response.
func (p fingerprint) differs(stored map[string]string) bool {
	for name, h := range stored {
		if own, known := p.parts[name]; known && own != h {
			return true
		}
	}
	return false
}

// consumed reports whether the body is not all there. Of a body of unknown length, one that has a type and no bytes is
// taken for one that was read.
func consumed(r *http.Request, body []byte) bool {
	n := int64(len(body))
	switch {
	case n == 0 && parsed(r):
		return false
	case n == 0:
		return r.ContentLength > 0 || r.ContentLength < 0 && r.Header.Get("Content-Type") != ""
	default: // what middleware has decompressed has another length
		return n < r.ContentLength && r.Header.Get("Content-Encoding") == ""
	}
}

// parsed reports whether a form was parsed that had fields.
func parsed(r *http.Request) bool {
	return len(r.PostForm) > 0 || r.MultipartForm != nil && len(r.MultipartForm.Value)+len(r.MultipartForm.File) > 0
}

// formOf is the form of a request as it is parsed: by middleware outside, or here. nil means that there is none, or
// that it cannot be parsed whole; then its bytes are compared.
func formOf(r *http.Request, body []byte) ([]string, error) {
	if len(body) == 0 {
		if !parsed(r) {
			return nil, nil
		}
		return fields(r)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form := &http.Request{Method: r.Method, URL: &url.URL{}, Header: r.Header, Body: reader(body)}
	switch {
	case err != nil:
		return nil, nil // it is no form
	case kind == "application/x-www-form-urlencoded":
		err = form.ParseForm()
	case kind == "multipart/form-data":
		err = form.ParseMultipartForm(int64(len(body)))
		defer removeFiles(form)
	}
	if err != nil || !parsed(form) {
		return nil, nil // its bytes are compared
	}
	return fields(form)
}

// fields lists the fields of a parsed form, and hashes of its files.
func fields(r *http.Request) ([]string, error) {
	var list []string
	add := func(kind string, values map[string][]string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			list = append(append(list, kind, name, strconv.Itoa(len(values[name]))), values[name]...)
		}
	}
	add("field", r.PostForm)
	if r.MultipartForm == nil {
		return list, nil
	}
	add("part", r.MultipartForm.Value)
	for _, name := range slices.Sorted(maps.Keys(r.MultipartForm.File)) {
		for _, file := range r.MultipartForm.File[name] {
			content, err := file.Open()
			if err != nil {
				return nil, err
			}
			h := sha256.New()
			_, err = io.Copy(h, content)
			if err = errors.Join(err, content.Close()); err != nil {
				return nil, err
			}
			list = append(list, "file", name, file.Filename, string(h.Sum(nil)))
			add("header", file.Header)
		}
	}
	return list, nil
}

// removeFiles removes what a form that was parsed here has on disk.
func removeFiles(r *http.Request) {
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll()
	}
}

// scoped asks whose request it is. What scope reads and parses is not missing for the handler.
func (m *Middleware) scoped(r *http.Request, body []byte) string {
	asked := r.WithContext(r.Context())
	asked.Body = reader(body)
	if r.MultipartForm == nil {
		defer removeFiles(asked)
	}
	return m.scope(asked)
}

// reader is a request's body once more.
func reader(body []byte) io.ReadCloser {
	if len(body) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(body))
}

// RunID is the ID of the run of a request, to look at its record: the scope is what New's function returned for it, the
// key is that of its header field, with quotes or without, the name is Options.Name. The error says what is wrong with
// the key.
func RunID(name, scope, idempotencyKey string) (string, error) {
	k, _, err := key(http.Header{Header: {idempotencyKey}})
	if err != nil {
		return "", fmt.Errorf("%s %w", Header, err)
	}
	return runID(name, scope, k), nil
}

// runID is the ID of the run of a key.
func runID(name, scope, key string) string { return hash(name, scope, key) }

// hash is a SHA-256 in base64url. Each part is preceded by its length, so that no two lists of parts are hashed alike.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// incomparable are header fields that are not in a request's header when it comes to a handler, or are about its
// connection or its form, and why they cannot be in Options.Headers.
var incomparable = map[string]string{
	"Host":                "the host of a request is always compared",
	Header:                "it is the key",
	"Content-Length":      "the body is always compared",
	"Transfer-Encoding":   "it is not in the header that a handler sees",
	"Trailer":             "it is not in the header that a handler sees",
	"Connection":          "it is about one connection",
	"Keep-Alive":          "it is about one connection",
	"Proxy-Authorization": "it is about one connection",
	"Proxy-Connection":    "it is about one connection",
	"Te":                  "it is about one connection",
	"Upgrade":             "it is about one connection",
	"Expect":              "it is about one connection",
}

// checkHeaders reports by an error which header fields of requests cannot be compared. The names are canonical.
func checkHeaders(names []string) error {
	for _, name := range names {
		if why, cannot := incomparable[name]; cannot {
			return fmt.Errorf("idempotency: Options.Headers has %s: %s", name, why)
		}
		if name == "" || strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
		}) {
			return fmt.Errorf("idempotency: Options.Headers has %q, which is no name of a header field", name)
		}
	}
	return nil
}
