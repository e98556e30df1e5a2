package kazahana

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// HTTPProvider leases machine IDs from a server: POST {endpoint}/lease acquires, DELETE {endpoint}/lease/{id} releases. It
// sends each request once: the [Generator] tries again in its own time, and leases whose answer was lost run out.
type HTTPProvider struct {
	endpoint string
	name     string // the endpoint in errors, without its password
	http     *http.Client
	token    func(context.Context) (string, error)
}

var _ LeaseProvider = (*HTTPProvider)(nil)

// HTTPOptions are the settings of [NewHTTPProvider]. The zero value works.
type HTTPOptions struct {
	// HTTP sends the requests; nil stands for a client that gives up after 10 s.
	HTTP *http.Client

	// Token returns the bearer token of a request; nil sends none, which a server in development mode accepts.
	Token func(context.Context) (string, error)
}

// NewHTTPProvider returns a provider that speaks to the endpoint; Leasehold's is https://host/v1/machine-ids. Options may be
// nil.
func NewHTTPProvider(endpoint string, o *HTTPOptions) (*HTTPProvider, error) {
	u, err := url.Parse(endpoint)
	const like = "must be a URL like https://id.example.com/v1/machine-ids"
	switch {
	case err != nil:
		return nil, errors.New("endpoint: " + like) // what it holds, and the parser would repeat, may be a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(endpoint, "?#"):
		return nil, fmt.Errorf("endpoint %q: %s", u.Redacted(), like)
	}
	p := &HTTPProvider{
		endpoint: strings.TrimRight(endpoint, "/"), name: u.Redacted(), http: &http.Client{Timeout: 10 * time.Second},
	}
	if o != nil {
		if o.HTTP != nil {
			p.http = o.HTTP
		}
		p.token = o.Token
	}
	return p, nil
}

// HTTPError is a refusal or failure as the server reported it, in the form of RFC 9457.
type HTTPError struct {
	Status     int           // of HTTP
	Code       string        // for programs
	Title      string        // the code in words
	Detail     string        // this case in words
	Retryable  bool          // whether the same request may succeed later
	RetryAfter time.Duration // when that may be; 0 is unknown
}

// Error is the code and the server's sentence.
func (e *HTTPError) Error() string {
	s := e.Code + ": " + e.Title
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// The codes that mean something here.
const (
	codeExhausted = "MACHINE_IDS_EXHAUSTED"
	codeNotFound  = "NOT_FOUND"
)

// Acquire is POST {endpoint}/lease. Where machine IDs have run out, the error is an [ExhaustedError]; other refusals are an
// [HTTPError].
func (p *HTTPProvider) Acquire(ctx context.Context, o AcquireOptions) (AcquireResponse, error) {
	content, err := p.exchange(ctx, http.MethodPost, "/lease", o)
	if err != nil {
		if e, ok := errors.AsType[*HTTPError](err); ok && e.Code == codeExhausted {
			return AcquireResponse{}, &ExhaustedError{RetryAfter: e.RetryAfter}
		}
		return AcquireResponse{}, err
	}
	var r AcquireResponse
	if err := json.Unmarshal(content, &r); err != nil {
		return AcquireResponse{}, fmt.Errorf("the answer of %s is no lease: %w", p.name, err)
	}
	if len(r.Leases) == 0 {
		return AcquireResponse{}, fmt.Errorf("the answer of %s holds no leases", p.name)
	}
	return r, nil
}

// Release is DELETE {endpoint}/lease/{id}. A lease that the server does not know any more counts as released.
func (p *HTTPProvider) Release(ctx context.Context, o ReleaseOptions) error {
	body := struct {
		ServiceID string `json:"serviceId,omitempty"`
		Signature string `json:"signature"`
		Timestamp int64  `json:"timestamp"`
	}{o.ServiceID, o.Signature, o.Timestamp}
	_, err := p.exchange(ctx, http.MethodDelete, "/lease/"+strconv.FormatInt(o.ID, 10), body)
	if e, ok := errors.AsType[*HTTPError](err); ok && e.Code == codeNotFound {
		return nil
	}
	return err
}

// exchange sends a request and returns the body of a good answer.
func (p *HTTPProvider) exchange(ctx context.Context, method, path string, body any) ([]byte, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.endpoint+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if p.token != nil {
		token, err := p.token(ctx)
		if err != nil {
			return nil, fmt.Errorf("get a token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := p.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()  //nolint:errcheck // the body was read to its end, or is not wanted
	const most = 16 << 20 // 8192 leases with their layouts are 2 MiB
	content, err := io.ReadAll(io.LimitReader(w.Body, most))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	mediaType, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type"))
	switch {
	case w.StatusCode == http.StatusOK && mediaType == "application/json":
		return content, nil
	case method == http.MethodDelete && len(content) == 0 && (w.StatusCode == http.StatusOK || w.StatusCode == http.StatusNoContent):
		return nil, nil
	case mediaType == "application/problem+json":
		return nil, problem(w.StatusCode, content)
	default:
		// Something between here and the server answered: a proxy, or another server altogether.
		return nil, fmt.Errorf("%s answered %s with %q, which is no lease server", p.name, w.Status, mediaType)
	}
}

// problem reads a problem document.
func problem(status int, content []byte) error {
	var p struct {
		Code         string `json:"code"`
		Title        string `json:"title"`
		Detail       string `json:"detail"`
		Retryable    bool   `json:"retryable"`
		RetryAfterMs int64  `json:"retry_after_ms"`
	}
	if err := json.Unmarshal(content, &p); err != nil || p.Code == "" {
		return fmt.Errorf("status %d with a problem that cannot be read", status)
	}
	const most = int64(24 * time.Hour / time.Millisecond) // what is further off is as good as never, and must not overflow
	return &HTTPError{
		Status: status, Code: p.Code, Title: p.Title, Detail: p.Detail, Retryable: p.Retryable,
		RetryAfter: time.Duration(max(0, min(p.RetryAfterMs, most))) * time.Millisecond,
	}
}
