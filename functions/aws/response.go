package aws

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// recorder records a response.
type recorder struct {
	header http.Header // the handler's
	sent   http.Header // as it was when the status was sent; nil before
	status int
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*recorder)(nil)

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. As in net/http, the first final status counts, and later changes of the
// header do not. A 1xx status cannot be sent.
func (w *recorder) WriteHeader(status int) {
	if w.sent != nil || status < http.StatusOK {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	if w.sent == nil {
		w.sent = http.Header{}
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// event is the response in payload format 2.0, which HTTP APIs and function URLs share: header lines of one
// name are joined (RFC 9110, section 5.3), except for Set-Cookie, which cannot be.
func (w *recorder) event(method string) events.LambdaFunctionURLResponse {
	w.WriteHeader(http.StatusOK)
	body := w.body.Bytes()
	if len(body) > 0 && w.sent.Get("Content-Type") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(body))
	}
	if method == http.MethodHead {
		body = nil
	}
	response := events.LambdaFunctionURLResponse{
		StatusCode: w.status, Headers: make(map[string]string, len(w.sent)), Cookies: w.sent.Values("Set-Cookie"),
	}
	w.sent.Del("Set-Cookie")
	for name, values := range w.sent {
		response.Headers[name] = strings.Join(values, ", ")
	}
	if utf8.Valid(body) {
		response.Body = string(body)
	} else {
		response.Body, response.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return response
}

// problem is a problem document from this package itself.
func problem(e *contracts.Error) (events.LambdaFunctionURLResponse, error) {
	w := newRecorder()
	err := httpapi.WriteProblem(w, e)
	return w.event(http.MethodGet), err
}
