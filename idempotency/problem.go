package idempotency

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The codes of the problem documents that the middleware sends itself (RFC 9457, member "code").
const (
	CodeKeyRequired = "IDEMPOTENCY_KEY_REQUIRED"       // 400: Options.Required, and there is no key
	CodeKeyInvalid  = "IDEMPOTENCY_KEY_INVALID"        // 400: the header field cannot be read
	CodeKeyReused   = "IDEMPOTENCY_KEY_REUSED"         // 422: the key was used before for another request
	CodeRunning     = "IDEMPOTENT_REQUEST_RUNNING"     // 409, retryable: the first request with the key is not over
	CodeNotStored   = "IDEMPOTENT_RESPONSE_NOT_STORED" // 409: it was carried out, and its response was too large
	// CodeGivenUp:
	// 500: its handlers died again and again; the key does not run any more
	CodeGivenUp = "IDEMPOTENT_REQUEST_GIVEN_UP"
	// CodeFailed:
	// 500: its handler panicked; retryable unless that is stored
	CodeFailed = "IDEMPOTENT_REQUEST_FAILED"
	// CodeMissing:
	// 500: its handler returned and wrote nothing, see [ErrNoResponse]; retryable unless that is stored
	CodeMissing = "IDEMPOTENT_RESPONSE_MISSING"
	// CodeLost:
	// 503, retryable: its lock went to another process while its handler ran, and that one left no response
	CodeLost       = "IDEMPOTENT_REQUEST_INTERRUPTED"
	CodeTooLarge   = "PAYLOAD_TOO_LARGE" // 413: the request's body exceeds Options.MaxBody
	CodeIncomplete = "BODY_INCOMPLETE"   // 400: the request's body ended before it was whole
	// CodeBodyConsumed:
	// 500: middleware of this server has read the body, see [ErrBodyConsumed]
	CodeBodyConsumed = "IDEMPOTENCY_BODY_CONSUMED"
	// CodeScopeEmpty:
	// 500: this server does not know whose request it is, see [ErrEmptyScope]
	CodeScopeEmpty = "IDEMPOTENCY_SCOPE_EMPTY"
	// CodeUnavailable:
	// 503, retryable: the gate does not respond, and the handler did not run
	CodeUnavailable = "IDEMPOTENCY_UNAVAILABLE"
	// CodeInternal:
	// 500: the gate refuses this program, or a stored response cannot be read
	CodeInternal = "IDEMPOTENCY_FAULT"
)

// docs explains the codes.
const docs = "https://github.com/leasehold-dev/leasehold/blob/main/docs/guides/idempotency.md#"

// problem is a response of the middleware itself.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Detail    string `json:"detail"`

	retryAfter time.Duration // at least a second, if it is retryable
}

func (p problem) send(w http.ResponseWriter) {
	p.Type = docs + strings.ToLower(p.Code)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Retryable {
		h.Set("Retry-After", strconv.Itoa(int((max(p.retryAfter, time.Second)+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // text and numbers
	}
	_, _ = w.Write(append(body, '\n')) // a caller that hung up asks again
}
