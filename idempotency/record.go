package idempotency

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/once"
)

// recorder keeps what a handler writes.
type recorder struct {
	header http.Header // as the handler changes it
	status int         // 0 until it is written
	sent   http.Header // as it was then
	body   bytes.Buffer

	trailer http.Header // what the handler set of its trailers, by the names that net/http sends
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter]. Informational responses are dropped.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	}
	if r.status != 0 || status < 200 {
		return
	}
	r.status, r.sent = status, r.header.Clone()
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.status == http.StatusNoContent || r.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return r.body.Write(b)
}

// end is what follows from the return of a handler that has written something.
func (r *recorder) end() {
	_, named := r.sent["Content-Type"]
	if !named && r.sent.Get("Content-Encoding") == "" && r.body.Len() > 0 { // as net/http does, for later callers too
		r.sent.Set("Content-Type", http.DetectContentType(r.body.Bytes()))
	}
	r.trailer = trailers(r.sent, r.header)
}

// trailers are those of a header that were set after it was sent: the announced ones, and those with
// [http.TrailerPrefix].
func trailers(sent, after http.Header) http.Header {
	t := http.Header{}
	for _, list := range sent.Values("Trailer") {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v := after.Values(name); len(v) > 0 {
				t[name] = v
			}
		}
	}
	for name, v := range after {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			t[name] = v
		}
	}
	return t
}

// send writes the response as the handler wrote it.
func (r *recorder) send(w http.ResponseWriter) {
	h := w.Header()
	clear(h)
	maps.Copy(h, r.sent)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // a caller that hung up asks again
	maps.Copy(h, r.trailer)
}

// record is a response as it is stored.
type record struct {
	Version int    `json:"v"`
	Status  int    `json:"status"`
	Header  string `json:"header,omitempty"` // as in a URL's query, which takes any bytes
	Trailer string `json:"trailer,omitempty"`
	Form    form   `json:"body"`
	Bytes   int    `json:"bytes"` // of the body
	// of the request's fingerprint, what the gate does not compare
	Parts map[string]string `json:"parts,omitempty"`
	body  []byte
}

// form is how a body is stored.
type form string

const (
	asText   form = "text"
	asBase64 form = "base64"
	notKept  form = "none" // it is too large
)

// version of the stored form.
const version = 1

// newRecord is a response for later requests: the header fields of these names, and the body. text is what is stored of
// it; whole is false if there is no room for header and body. parts are those of the request's fingerprint.
func newRecord(r *recorder, names []string, parts map[string]string) (text string, kept record, whole bool) {
	h := url.Values{}
	for _, name := range names {
		if v := r.sent.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	if len(r.trailer) > 0 {
		h["Trailer"] = r.sent.Values("Trailer")
	}
	kept = record{Version: version, Status: r.status, Header: h.Encode(), Trailer: url.Values(r.trailer).Encode(),
		Form: asText, Bytes: r.body.Len(),
		Parts: parts, body: r.body.Bytes()}
	body := r.body.String()
	if !utf8.ValidString(body) || strings.ContainsRune(body, 0) {
		kept.Form, body = asBase64, base64.StdEncoding.EncodeToString(kept.body)
	}
	if text = kept.line() + body; len(text) <= once.MaxResultBytes {
		return text, kept, true
	}
	cut := kept
	cut.Header, cut.Trailer, cut.Form, cut.body = "", "", notKept, nil
	return cut.line(), kept, false
}

func (r record) line() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers and text
	}
	return string(b) + "\n"
}

// readRecord reads what newRecord wrote.
func readRecord(text string) (r record, err error) {
	line, body, found := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(line), &r); err != nil || !found || r.Version != version || r.Status < 200 ||
		r.Status > 999 {
		return record{}, errors.New("the stored text is no response of this middleware, or of a later version of it")
	}
	switch r.Form {
	case asText:
		r.body = []byte(body)
	case asBase64:
		if r.body, err = base64.StdEncoding.DecodeString(body); err != nil {
			return record{}, fmt.Errorf("the stored body cannot be read: %w", err)
		}
	case notKept:
		return r, nil
	default:
		return record{}, fmt.Errorf("the stored body has the unknown form %q", r.Form)
	}
	if len(r.body) != r.Bytes {
		return record{}, fmt.Errorf("the stored body has %d bytes, and had %d", len(r.body), r.Bytes)
	}
	for _, fields := range []string{r.Header, r.Trailer} {
		if _, err := url.ParseQuery(fields); err != nil {
			return record{}, fmt.Errorf("the stored header cannot be read: %w", err)
		}
	}
	return r, nil
}

// replay sends a stored response.
func (r record) replay(w http.ResponseWriter) {
	if r.Form == notKept {
		problem{
			Status: http.StatusConflict, Code: CodeNotStored, Title: "response was not stored",
			Detail: fmt.Sprintf(
				"the request was carried out before, with the status %d; its response of %d bytes was too large to be stored",
				r.Status, r.Bytes),
		}.send(w)
		return
	}
	fields, _ := url.ParseQuery(r.Header) // readRecord and newRecord have seen it
	for name, values := range fields {
		w.Header()[name] = slices.Clone(values)
	}
	w.Header().Set(ReplayedHeader, "true")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.body)
	trailer, _ := url.ParseQuery(r.Trailer)
	for name, values := range trailer {
		w.Header()[name] = slices.Clone(values)
	}
}
