// Package lock is the Go client of Leasehold's locks over HTTP: standard library and contract types only.
//
// Each method is one exchange of the contract. Two things are done for the caller: a request_id is made up when there is
// none, and a request whose answer was lost, or that the server could not finish (UNAVAILABLE, DEADLINE_EXCEEDED), is sent
// again with the same request_id until the context ends or the tries are used up. That is safe, because the server knows
// the request_id again and a command takes effect once.
//
// Refusals are an [*Error] with the contract's code; act on the code:
//
//	lease, err := locks.Acquire(ctx, "acme", "deploy-prod", contracts.AcquireRequest{OwnerID: "ci-42", TTLSeconds: 30})
//	if lock.Is(err, contracts.CodeLockHeld) {
//		// somebody else deploys
//	}
package lock

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Client speaks to one server. Its methods may be called from several goroutines at once.
type Client struct {
	base  string
	http  *http.Client
	token func(context.Context) (string, error)
	tries int
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// HTTP sends the requests; nil stands for a client that gives up on a try after 15 s.
	HTTP *http.Client

	// Token returns the bearer token of a request; nil sends none, which a server in development mode accepts.
	Token func(context.Context) (string, error)

	// Tries is how often a request is sent at most while no answer arrives; 0 stands for 4. Between two tries the
	// client waits a random time of up to 200 ms, 400 ms, 800 ms and so on.
	Tries int
}

// Error is a refusal or failure as the server reported it.
type Error struct {
	contracts.Problem
}

// Error is the code and the server's sentence.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Title
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is reports whether err is a server's answer with the code.
func Is(err error, code contracts.Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// New returns a client of the server at base, such as "http://127.0.0.1:8080". Options may be nil.
func New(base string, o *Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server %q: must be a URL like http://127.0.0.1:8080", base)
	}
	c := &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 15 * time.Second}, tries: 4}
	if o != nil {
		if o.HTTP != nil {
			c.http = o.HTTP
		}
		if o.Tries > 0 {
			c.tries = o.Tries
		}
		c.token = o.Token
	}
	return c, nil
}

// NewRequestID returns a name for a new intention: 128 random bits.
func NewRequestID() string { return rand.Text() }

// Acquire takes the lock. LOCK_HELD says who has it and when to come back. An empty RequestID is filled in.
func (c *Client) Acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call[contracts.Lease](ctx, c, http.MethodPost, lockPath(tenant, key)+"/acquire", r)
}

// Renew moves the lease's end to now + TTLSeconds. After LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER the
// caller must stop what the lock protects.
func (c *Client) Renew(ctx context.Context, tenant, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call[contracts.Lease](ctx, c, http.MethodPost, lockPath(tenant, key)+"/renew", r)
}

// Release gives the lease back.
func (c *Client) Release(ctx context.Context, tenant, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	fill(&r.RequestID)
	return call[contracts.EndedLease](ctx, c, http.MethodPost, lockPath(tenant, key)+"/release", r)
}

// ForceRelease ends somebody else's lease; it needs the administrator's scope.
func (c *Client) ForceRelease(ctx context.Context, tenant, key string, r contracts.ForceReleaseRequest) (contracts.Lock, error) {
	fill(&r.RequestID)
	return call[contracts.Lock](ctx, c, http.MethodPost, lockPath(tenant, key)+"/force-release", r)
}

// Get looks at a lock. NOT_FOUND means that it was never held.
func (c *Client) Get(ctx context.Context, tenant, key string) (contracts.Lock, error) {
	return call[contracts.Lock](ctx, c, http.MethodGet, lockPath(tenant, key), nil)
}

// Query selects locks for [Client.List]. The zero Query selects all.
type Query struct {
	Prefix    string          // of the key
	State     contracts.State // empty selects all
	PageSize  int             // 1 to 1000; 0 leaves it to the server
	PageToken string          // LockPage.NextPageToken of the page before
}

// List returns a page of the tenant's locks by ascending bytes of their keys.
func (c *Client) List(ctx context.Context, tenant string, q Query) (contracts.LockPage, error) {
	v := url.Values{}
	for name, s := range map[string]string{"prefix": q.Prefix, "state": string(q.State), "page_token": q.PageToken} {
		if s != "" {
			v.Set(name, s)
		}
	}
	if q.PageSize != 0 {
		v.Set("page_size", strconv.Itoa(q.PageSize))
	}
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/locks"
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	return call[contracts.LockPage](ctx, c, http.MethodGet, path, nil)
}

func lockPath(tenant, key string) string {
	return "/v1/tenants/" + url.PathEscape(tenant) + "/locks/" + url.PathEscape(key)
}

func fill(requestID *string) {
	if *requestID == "" {
		*requestID = NewRequestID()
	}
}

// firstWait bounds the random wait before the second try; it doubles from try to try.
const firstWait = 200 * time.Millisecond

// call sends one request until there is a definite answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			var none T
			return none, fmt.Errorf("encode the request: %w", err)
		}
	}
	for try, wait := 1, firstWait; ; try, wait = try+1, 2*wait {
		answer, again, err := once[T](ctx, c, method, path, payload)
		if err == nil || !again || try == c.tries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(mathrand.N(wait)):
		}
	}
}

// once sends the request a single time. again says that sending it once more is the way to find out how it ended.
func once[T any](ctx context.Context, c *Client, method, path string, payload []byte) (answer T, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return answer, false, err
	}
	if payload != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return answer, false, fmt.Errorf("get a token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return answer, ctx.Err() == nil, err
	}
	defer w.Body.Close() //nolint:errcheck // the body was read to its end, or is not wanted
	const most = 8 << 20 // a page of 1000 locks with all their metadata stays below
	content, err := io.ReadAll(io.LimitReader(w.Body, most))
	if err != nil {
		return answer, ctx.Err() == nil, fmt.Errorf("the answer broke off: %w", err)
	}
	mediaType, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type"))
	switch {
	case w.StatusCode == http.StatusOK && mediaType == "application/json":
		if err := json.Unmarshal(content, &answer); err != nil {
			return answer, false, fmt.Errorf("the answer is not what the contract says: %w", err)
		}
		return answer, false, nil
	case mediaType == "application/problem+json":
		e := &Error{}
		if err := json.Unmarshal(content, &e.Problem); err != nil || e.Code == "" {
			return answer, false, fmt.Errorf("status %d with a problem that cannot be read", w.StatusCode)
		}
		return answer, e.Retryable && w.StatusCode >= http.StatusInternalServerError, e
	default:
		// Something between here and the server answered: a proxy, or another server altogether.
		return answer, w.StatusCode >= http.StatusInternalServerError, fmt.Errorf("%s answered %s with %q, which is not Leasehold",
			c.base, w.Status, mediaType)
	}
}
