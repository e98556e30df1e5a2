package once

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold-dev/leasehold/internal/rest"
	"github.com/leasehold-dev/leasehold/contracts"
)

// Client is the [Gate] of a Leasehold server, over HTTP. Its methods may be called from several goroutines at once.
type Client struct{ rest *rest.Client }

var _ Gate = (*Client)(nil)

// ClientOptions are the settings of [New]. The zero value works.
type ClientOptions struct {
	// HTTP sends the requests; nil stands for a client that gives up on a try after 15 s.
	HTTP *http.Client

	// Token returns the bearer token of a request, whose scopes must make the caller a worker; nil sends none, which a server
	// in development mode accepts.
	Token func(context.Context) (string, error)

	// Tries is how often a request is sent at most while no answer arrives; 0 stands for 4. Between two tries the client
	// waits a random time of up to 200 ms, 400 ms and so on.
	Tries int
}

// New returns a client of the server at base, such as "http://127.0.0.1:8080". Options may be nil.
func New(base string, o *ClientOptions) (*Client, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	c, err := rest.New(base, rest.Options(*o))
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Run is [Run] at this gate. Options may be nil.
func (c *Client) Run(ctx context.Context, analysisID string, work Work, o *Options) (Outcome, error) {
	return Run(ctx, c, analysisID, work, o)
}

// Error is a refusal or failure as the server reported it. Its code says whether it is an [ErrLost], [ErrUnknown] or
// [ErrRefused].
type Error struct {
	contracts.Problem
}

// Error is the code and the server's sentence.
func (e *Error) Error() string { return rest.Sentence(e.Problem) }

// Unwrap is what the code means to the holder of a lock; nil if asking again may help.
func (e *Error) Unwrap() error {
	switch e.Code {
	case contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeAlreadyFinished,
		contracts.CodeNotOwner:
		return ErrLost
	case contracts.CodeNotFound:
		if e.Field == "analysisId" {
			return ErrUnknown
		}
		return ErrRefused // no such path: another server, or an older one
	case contracts.CodeDocumentDamaged:
		return ErrRefused
	default:
		if e.Status >= http.StatusInternalServerError || e.Retryable {
			return nil
		}
		return ErrRefused
	}
}

// Acquire implements [Gate].
func (c *Client) Acquire(ctx context.Context, r Acquire) (Grant, error) {
	seconds, err := wholeSeconds(r.TTL)
	if err != nil {
		return Grant{}, err
	}
	g, err := call(ctx, c, http.MethodPost, r.AnalysisID, "/lock", contracts.AnalysisLockRequest{
		LockOwner: r.Owner, RequestID: r.RequestID, TTLSec: seconds,
	}, isGrant)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && e.Code == contracts.CodeLeaseExpired {
			return Grant{}, fmt.Errorf("the lock was over before the server could answer: %s", e.Title) // nothing was held, and so nothing lost
		}
		return Grant{}, err
	}
	if !g.Acquired {
		return Grant{Reason: Reason(g.Reason), RetryAfter: milliseconds(g.RetryAfterMs), Status: g.Status}, nil
	}
	end, err := time.Parse(time.RFC3339, g.LockExpiresAt)
	if err != nil {
		return Grant{}, fmt.Errorf("the answer is not what the contract says: lockExpiresAt %q is no time", g.LockExpiresAt)
	}
	grant := Grant{
		Acquired: true, Status: g.Status, Remaining: milliseconds(g.RemainingMs), Runs: g.Runs,
		Lock: Lock{AnalysisID: r.AnalysisID, Owner: g.LockOwner, Token: g.LockToken, ExpiresAt: end},
	}
	if g.Failures != nil {
		grant.Failures = *g.Failures
	}
	return grant, nil
}

// Refresh implements [Gate].
func (c *Client) Refresh(ctx context.Context, l Lock, ttl time.Duration) (time.Time, error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	r, err := call(ctx, c, http.MethodPost, l.AnalysisID, "/refresh", contracts.AnalysisRefreshRequest{
		LockOwner: l.Owner, LockToken: l.Token, TTLSec: seconds,
	}, func(r contracts.AnalysisLock) bool { return r.LockToken == l.Token })
	if err != nil {
		return time.Time{}, err
	}
	end, err := time.Parse(time.RFC3339, r.LockExpiresAt)
	if err != nil {
		return time.Time{}, fmt.Errorf("the answer is not what the contract says: lockExpiresAt %q is no time", r.LockExpiresAt)
	}
	return end, nil
}

// Release implements [Gate].
func (c *Client) Release(ctx context.Context, l Lock, failed string) error {
	_, err := call(ctx, c, http.MethodPost, l.AnalysisID, "/release", contracts.AnalysisReleaseRequest{
		LockOwner: l.Owner, LockToken: l.Token, FailureReason: failed,
	}, func(r contracts.AnalysisReleased) bool { return r.AnalysisID == l.AnalysisID })
	return err
}

// Finish implements [Gate].
func (c *Client) Finish(ctx context.Context, l Lock, r Result) error {
	status := contracts.AnalysisReady
	if r.Failed {
		status = contracts.AnalysisFailed
	}
	_, err := call(ctx, c, http.MethodPost, l.AnalysisID, "/finish", contracts.AnalysisFinishRequest{
		LockOwner: l.Owner, LockToken: l.Token, Status: status, Result: r.Result, FailureReason: r.Reason,
	}, func(f contracts.AnalysisFinished) bool { return f.Status == status })
	return err
}

// Create makes the document of an analysis, unless there is one: created says which. For those who keep no such document
// anyway.
func (c *Client) Create(ctx context.Context, analysisID string) (created bool, err error) {
	a, err := call(ctx, c, http.MethodPut, analysisID, "", nil, func(a contracts.AnalysisCreated) bool { return a.AnalysisID == analysisID })
	return a.Created, err
}

// Get looks at an analysis. [ErrUnknown] if there is none.
func (c *Client) Get(ctx context.Context, analysisID string) (contracts.Analysis, error) {
	return call(ctx, c, http.MethodGet, analysisID, "", nil, func(a contracts.Analysis) bool { return a.AnalysisID == analysisID })
}

// call does one exchange of the contract about an analysis.
func call[T any](ctx context.Context, c *Client, method, id, command string, body any, whole func(T) bool) (T, error) {
	answer, err := rest.Call(ctx, c.rest, method, "/v1/analyses/"+url.PathEscape(id)+command, body, whole)
	if p, ok := errors.AsType[*rest.ProblemError](err); ok {
		return answer, &Error{p.Problem}
	}
	return answer, err
}

func isGrant(g contracts.AnalysisGrant) bool {
	if g.Acquired {
		return g.LockToken > 0 && g.RemainingMs > 0
	}
	return g.Reason == contracts.SkipLocked || g.Reason == contracts.SkipAlreadyFinished
}

func wholeSeconds(ttl time.Duration) (int64, error) {
	if ttl < time.Second || ttl%time.Second != 0 {
		return 0, fmt.Errorf("%w: the ttl is %v, and must be whole seconds, 1 at least", ErrRefused, ttl)
	}
	return int64(ttl / time.Second), nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
