package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/bearer"
	"github.com/leasehold-dev/leasehold/internal/reread"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Headers of a request to a target.
const (
	FenceHeader   = "X-Leasehold-Fence"   // the lock's token, as in the body
	AttemptHeader = "X-Leasehold-Attempt" // the queue's number or name for this delivery of the message
	MessageHeader = "X-Leasehold-Message" // the queue's name for the message
)

// Target is work that is done behind a URL. It sends one POST for a run:
//
//	POST <URL>
//	X-Leasehold-Fence: 7
//	traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//	{"analysis_id":"a1","fencing_token":7,"owner_id":"task-1#0","deadline":"2026-01-01T00:10:00Z"}
//
// (traceparent only if the run is part of a trace: W3C Trace Context) and the response decides how the run ended:
//
//	2xx                READY. Of a JSON body (by its Content-Type), the member result is the result.
//	422                FAILED, for good. Of a JSON body, the member failure_reason is the reason.
//	3xx 401 429 503    the work has not begun, see [NotBegunError]; its Retry-After counts. So has it where there is no
//	                   connection: refused, no such name, no TLS, no token
//	everything else    the run failed and may be tried again: other codes, a connection that ends without a response
//
// A 2xx whose JSON has no usable result (text of at most 256 KiB, or none) is FAILED: trying again would give the same.
//
// While the target works, the lock is kept alive. If the lock is lost, or the delivery's time runs out, the connection
// is closed; deadline is the latter time, and missing if it is unknown. Whatever the target writes elsewhere should
// carry fencing_token, and be rejected there if a higher one was seen.
type Target struct {
	url    string
	token  *bearer.Source // nil: requests have none
	client *http.Client
	traces *telemetry.Traces
}

// Token gets the bearer token for a target, for each request anew, and again when the target responds 401: if it is
// another one then, the same request is sent with that. Runs that begin while it is called share what it returns, so
// its context has no values of a run.
type Token func(ctx context.Context) (string, error)

// StaticToken is a token that never changes.
func StaticToken(token string) Token {
	return func(context.Context) (string, error) { return token, nil }
}

// FileToken is the token in a file, read anew for each request: what puts it there may replace it, and while that is
// half done, the one of before is used. Space around it does not count.
func FileToken(path string) Token {
	var (
		mu   sync.Mutex
		file *reread.File[string]
	)
	open := func() (*reread.File[string], error) {
		mu.Lock()
		defer mu.Unlock()
		if file == nil {
			first, err := reread.Token(path)
			if err != nil {
				return nil, fmt.Errorf("the target's token: %w", err)
			}
			file = first
		}
		return file, nil
	}
	return func(context.Context) (string, error) {
		f, err := open()
		if err != nil {
			return "", err
		}
		return f.Again(), nil
	}
}

// TargetOptions are the settings of [NewTarget]. The zero value works.
type TargetOptions struct {
	Token Token // nil sends no Authorization header
	// its redirects are not followed, whatever it says; nil means a client that waits for a response without a bound, and
	// for a connection less than 10 s
	Client *http.Client

	// Traces makes a span of each request; nil means none. The trace that a run is part of is named to the target without
	// it, too.
	Traces *telemetry.Traces
}

// NewTarget returns the target behind a URL. It must be an https:// one, unless it is on this machine: fences and
// tokens travel there. Options may be nil.
func NewTarget(target string, o *TargetOptions) (*Target, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		shown := fmt.Sprintf(" %q", target)
		if strings.Contains(target, "@") {
			shown = "" // it may have a password
		}
		return nil, fmt.Errorf("target%s is not a URL: it must look like https://worker.example.com/run", shown)
	case u.User != nil:
		return nil, errors.New("target must not have a user or a password: use a token")
	case u.Scheme == "http" && !httpapi.Loopback(u.Host):
		return nil, fmt.Errorf("target %q must begin with https:// (http:// is accepted only for this machine itself)",
			u.Scheme+"://"+u.Host)
	}
	t := &Target{url: target, client: &http.Client{Transport: transport()}}
	if o != nil {
		if t.traces = o.Traces; o.Token != nil {
			t.token = bearer.New(o.Token)
		}
		if o.Client != nil {
			c := *o.Client
			t.client = &c
		}
	}
	// A redirect could lead away from TLS, and would turn the POST into a GET.
	t.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return t, nil
}

// transport is the default one with bounds for the time until there is a connection: together less than [probeTime].
func transport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has put another one there
		return http.DefaultTransport
	}
	t := base.Clone()
	t.DialContext = (&net.Dialer{Timeout: probeTime / 2}).DialContext
	t.TLSHandshakeTimeout = probeTime/2 - time.Second
	return t
}

// runRequest is the body of a request to a target.
type runRequest struct {
	AnalysisID   string `json:"analysis_id"`
	FencingToken int64  `json:"fencing_token"`
	OwnerID      string `json:"owner_id"`
	Deadline     string `json:"deadline,omitempty"`
}

// Run is the [once.Work] that has the target do it.
func (t *Target) Run(ctx context.Context, l once.Lock) (string, error) {
	var (
		a    *http.Response
		body []byte
	)
	err := t.token.Send(ctx, func(token string) (rejected bool, err error) {
		a, body, err = t.send(ctx, l, token) //nolint:bodyclose // it has read and closed it
		return err == nil && a.StatusCode == http.StatusUnauthorized, err
	})
	if wrong, ok := errors.AsType[*bearer.Error](err); ok {
		// the deployment is at fault, not the analysis
		return "", &NotBegunError{Err: fmt.Errorf("get a token for the target: %w", wrong.Err)}
	}
	if err != nil {
		return "", err
	}
	return responded(a, body)
}

// send sends the request once, and returns the response and its body.
func (t *Target) send(ctx context.Context, l once.Lock, token string) (*http.Response, []byte, error) {
	r, err := t.request(ctx, l, token)
	if err != nil {
		return nil, nil, err
	}
	r, end := t.traces.Send(r)
	var known, connected atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { known.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	a, err := t.client.Do(r)
	if err != nil {
		end(0, err)
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the URL may have a secret in its query
		}
		if unreached(err, known.Load(), connected.Load()) {
			return nil, nil, &NotBegunError{Err: fmt.Errorf("the target cannot be reached: %w", err)}
		}
		return nil, nil, fmt.Errorf("the target did not respond: %w", err)
	}
	defer end(a.StatusCode, nil)
	defer func() { _ = a.Body.Close() }() // what was needed of it has been read
	body, err := io.ReadAll(io.LimitReader(a.Body, maxResponseBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("the target's response %s ended before it was whole: %w", status(a), err)
	}
	return a, body, nil
}

// responded is the result of a run that its response says, or its error.
func responded(a *http.Response, body []byte) (string, error) {
	switch {
	case a.StatusCode >= 200 && a.StatusCode <= 299:
		result, err := textMember(a, body, "result", analysis.MaxResultBytes)
		if err != nil {
			return "", once.Permanent(fmt.Errorf("the target responded %s with a body that cannot be used: %w", status(a), err))
		}
		return result, nil
	case a.StatusCode == http.StatusUnprocessableEntity:
		// A reason that cannot be read is none: that the run failed for good stands whatever it says.
		if why, err := textMember(a, body, "failure_reason", maxResponseBytes); err == nil && why != "" {
			return "", once.Permanent(errors.New(why))
		}
		return "", once.Permanent(fmt.Errorf("the target responded %s", status(a)))
	case a.StatusCode >= 300 && a.StatusCode <= 399, a.StatusCode == http.StatusUnauthorized,
		a.StatusCode == http.StatusTooManyRequests, a.StatusCode == http.StatusServiceUnavailable:
		return "", &NotBegunError{RetryAfter: asked(a.Header.Get("Retry-After"), time.Now()),
			Err: fmt.Errorf("the target responded %s", status(a))}
	default:
		return "", fmt.Errorf("the target responded %s", status(a))
	}
}

func (t *Target) request(ctx context.Context, l once.Lock, token string) (*http.Request, error) {
	body := runRequest{AnalysisID: l.RunID, FencingToken: l.Token, OwnerID: l.Owner}
	if end, ok := ctx.Deadline(); ok {
		body.Deadline = end.UTC().Format(time.RFC3339)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request to the target: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("make the request to the target: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "leasehold")
	r.Header.Set(FenceHeader, strconv.FormatInt(l.Token, 10))
	if m, ok := ctx.Value(messageKey{}).(Message); ok {
		r.Header.Set(AttemptHeader, visible(m.Try, 64))
		r.Header.Set(MessageHeader, visible(m.ID, analysis.MaxOwnerBytes))
	}
	if t.token != nil {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

// maxResponseBytes bounds what is read of a target's response: in JSON, a byte of text takes up to six.
const maxResponseBytes = 6*analysis.MaxResultBytes + 4<<10

// textMember returns a member of a JSON body, "" if there is none or the body is something else.
func textMember(a *http.Response, body []byte, name string, most int) (string, error) {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")) // one that cannot be read is none
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return "", nil
	}
	if len(body) > maxResponseBytes {
		return "", fmt.Errorf("it has more than %d bytes: keep the result elsewhere, and return where it is",
			maxResponseBytes)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return "", nil
	}
	var members map[string]any
	if err := jsonv2.Unmarshal(body, &members); err != nil {
		return "", fmt.Errorf(`it must be a JSON object such as {%q:"…"}: %w`, name, err)
	}
	v, ok := members[name]
	text, isText := v.(string)
	switch {
	case !ok || v == nil:
		return "", nil
	case !isText:
		return "", fmt.Errorf("its member %s must be text", name)
	case len(text) > most:
		return "", fmt.Errorf("its member %s has %d bytes, %d at most: keep the result elsewhere, and return where it is",
			name, len(text), most)
	}
	return text, nil
}

// status is the code of a response in words, without what the target may have put there itself.
func status(a *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(a.StatusCode) + " " + http.StatusText(a.StatusCode))
}
