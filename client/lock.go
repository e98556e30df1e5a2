// Package client is the Go client of Leasehold's locks over HTTP: standard library and contract types only.
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
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/leasehold-dev/leasehold/internal/rest"
	"github.com/leasehold-dev/leasehold/contracts"
)

// Client speaks to one server. Its methods may be called from several goroutines at once.
type Client struct{ rest *rest.Client }

// Options are the settings of [New]. The zero value works.
type Options struct {
	// HTTP sends the requests; nil stands for a client that gives up on a try after 15 s.
	HTTP *http.Client

	// Token returns the bearer token of a request; nil sends none, which a server in development mode accepts.
	Token func(context.Context) (string, error)

	// Tries is how often a request is sent at most while no answer arrives; 0 stands for 4. Between two tries the
	// client waits a random time of up to 200 ms, 400 ms, 800 ms and so on, 10 s at most.
	Tries int
}

// Error is a refusal or failure as the server reported it.
type Error struct {
	contracts.Problem
}

// Error is the code and the server's sentence.
func (e *Error) Error() string { return rest.Sentence(e.Problem) }

// Is reports whether err is a server's answer with the code.
func Is(err error, code contracts.Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// New returns a client of the server at base, such as "http://127.0.0.1:8080". Options may be nil.
func New(base string, o *Options) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	c, err := rest.New(base, rest.Options(*o))
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// NewRequestID returns a name for a new intention: 128 random bits.
func NewRequestID() string { return rand.Text() }

// Acquire takes the lock. LOCK_HELD says who has it and when to come back. An empty RequestID is filled in.
func (c *Client) Acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call(ctx, c, http.MethodPost, lockPath(tenant, key)+"/acquire", r, isLease)
}

// Renew moves the lease's end to now + TTLSeconds. After LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER the
// caller must stop what the lock protects.
func (c *Client) Renew(ctx context.Context, tenant, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call(ctx, c, http.MethodPost, lockPath(tenant, key)+"/renew", r, isLease)
}

// Release gives the lease back.
func (c *Client) Release(ctx context.Context, tenant, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	fill(&r.RequestID)
	return call(ctx, c, http.MethodPost, lockPath(tenant, key)+"/release", r, isEndedLease)
}

// ForceRelease ends somebody else's lease; it needs the administrator's scope.
func (c *Client) ForceRelease(ctx context.Context, tenant, key string, r contracts.ForceReleaseRequest) (contracts.Lock, error) {
	fill(&r.RequestID)
	return call(ctx, c, http.MethodPost, lockPath(tenant, key)+"/force-release", r, isLock)
}

// Get looks at a lock. NOT_FOUND means that it was never held.
func (c *Client) Get(ctx context.Context, tenant, key string) (contracts.Lock, error) {
	return call(ctx, c, http.MethodGet, lockPath(tenant, key), nil, isLock)
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
	return call(ctx, c, http.MethodGet, path, nil, isLockPage)
}

func lockPath(tenant, key string) string {
	return "/v1/tenants/" + url.PathEscape(tenant) + "/locks/" + url.PathEscape(key)
}

func fill(requestID *string) {
	if *requestID == "" {
		*requestID = NewRequestID()
	}
}

// call does one exchange of the contract. whole says whether an answer is what the contract says.
func call[T any](ctx context.Context, c *Client, method, path string, body any, whole func(T) bool) (T, error) {
	answer, err := rest.Call(ctx, c.rest, method, path, body, whole)
	if p, ok := errors.AsType[*rest.ProblemError](err); ok {
		return answer, &Error{p.Problem}
	}
	return answer, err
}

func isLease(l contracts.Lease) bool { return l.FencingToken > 0 }

func isEndedLease(l contracts.EndedLease) bool { return l.FencingToken > 0 }

func isLock(l contracts.Lock) bool { return l.LeaseID != "" }

func isLockPage(p contracts.LockPage) bool { return p.Locks != nil }
