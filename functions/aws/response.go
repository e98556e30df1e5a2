package aws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
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

// encode is the response in the shape that the front end of the event reads.
func (w *recorder) encode(e *event) ([]byte, error) {
	w.WriteHeader(http.StatusOK)
	body := w.body.Bytes()
	if len(body) > 0 && w.sent.Get("Content-Type") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(body))
	}
	if e.method == http.MethodHead {
		body = nil
	}
	text, encoded := string(body), false
	if !utf8.Valid(body) {
		text, encoded = base64.StdEncoding.EncodeToString(body), true
	}
	switch e.front {
	case RESTAPI:
		return json.Marshal(events.APIGatewayProxyResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Body: text,
			IsBase64Encoded: encoded})
	case LoadBalancer:
		response := events.ALBTargetGroupResponse{
			StatusCode: w.status, StatusDescription: strings.TrimSpace(strconv.Itoa(w.status) + " " + http.StatusText(w.status)),
			Body: text, IsBase64Encoded: encoded,
		}
		if e.lists {
			response.MultiValueHeaders = w.sent
		} else {
			response.Headers = joined(w.sent)
			if cookies := w.sent.Values("Set-Cookie"); cookies != nil { // lines that cannot be joined, and there is room for one
				response.Headers["Set-Cookie"] = cookies[len(cookies)-1]
			}
		}
		return json.Marshal(response)
	default:
		cookies := w.sent.Values("Set-Cookie")
		w.sent.Del("Set-Cookie") // its lines cannot be joined
		return json.Marshal(events.LambdaFunctionURLResponse{
			StatusCode: w.status, Headers: joined(w.sent), Cookies: cookies, Body: text, IsBase64Encoded: encoded,
		})
	}
}

// joined has the header lines of one name as one (RFC 9110, section 5.3).
func joined(h http.Header) map[string]string {
	all := make(map[string]string, len(h))
	for name, values := range h {
		all[name] = strings.Join(values, ", ")
	}
	return all
}

// problem is the response to an event with a problem document from this package itself.
func problem(e *event, err *contracts.Error) ([]byte, error) {
	w := newRecorder()
	if err := httpapi.WriteProblem(w, err); err != nil {
		return nil, err
	}
	return w.encode(e)
}
