package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// Analyses is the client of a server's analyses. Its caller needs the worker's scope where the server asks for tokens.
type Analyses struct{ client *Client }

var _ once.Gate = (*Analyses)(nil)

// Run is [once.Run] at this server. Options may be nil.
func (a *Analyses) Run(ctx context.Context, analysisID string, work once.Work, o *once.Options) (once.Outcome, error) {
	return once.Run(ctx, a, analysisID, work, o)
}

// Acquire implements [once.Gate].
func (a *Analyses) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	seconds, err := wholeSeconds(r.TTL)
	if err != nil {
		return once.Grant{}, err
	}
	g, err := analysisCall(ctx, a, http.MethodPost, r.AnalysisID, "/lock", contracts.AnalysisLockRequest{
		LockOwner: r.Owner, RequestID: r.RequestID, TTLSec: seconds,
	}, isGrant)
	if err != nil {
		return once.Grant{}, err
	}
	if !g.Acquired {
		return once.Grant{Reason: g.Reason, RetryAfter: milliseconds(g.RetryAfterMs), Status: g.Status}, nil
	}
	end, err := time.Parse(time.RFC3339, g.LockExpiresAt)
	if err != nil {
		return once.Grant{}, fmt.Errorf("invalid response of %s: lockExpiresAt %q is no time", a.client.name, g.LockExpiresAt)
	}
	grant := once.Grant{
		Acquired: true, Status: g.Status, Remaining: milliseconds(g.RemainingMs), Runs: g.Runs,
		Lock: once.Lock{AnalysisID: r.AnalysisID, Owner: g.LockOwner, Token: g.LockToken, ExpiresAt: end},
	}
	if g.Failures != nil {
		grant.Failures = *g.Failures
	}
	return grant, nil
}

// Refresh implements [once.Gate].
func (a *Analyses) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	r, err := analysisCall(ctx, a, http.MethodPost, l.AnalysisID, "/refresh", contracts.AnalysisRefreshRequest{
		LockOwner: l.Owner, LockToken: l.Token, TTLSec: seconds,
	}, func(r contracts.AnalysisLock) bool { return r.LockToken == l.Token })
	if err != nil {
		return time.Time{}, err
	}
	end, err := time.Parse(time.RFC3339, r.LockExpiresAt)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid response of %s: lockExpiresAt %q is no time", a.client.name, r.LockExpiresAt)
	}
	return end, nil
}

// Release implements [once.Gate].
func (a *Analyses) Release(ctx context.Context, l once.Lock, failed string) error {
	_, err := analysisCall(ctx, a, http.MethodPost, l.AnalysisID, "/release", contracts.AnalysisReleaseRequest{
		LockOwner: l.Owner, LockToken: l.Token, FailureReason: failed,
	}, func(r contracts.AnalysisReleased) bool { return r.AnalysisID == l.AnalysisID })
	return err
}

// Finish implements [once.Gate].
func (a *Analyses) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	status := contracts.AnalysisReady
	if r.Failed {
		status = contracts.AnalysisFailed
	}
	_, err := analysisCall(ctx, a, http.MethodPost, l.AnalysisID, "/finish", contracts.AnalysisFinishRequest{
		LockOwner: l.Owner, LockToken: l.Token, Status: status, Result: r.Result, FailureReason: r.Reason,
	}, func(f contracts.AnalysisFinished) bool { return f.Status == status })
	return err
}

// Create makes the document of an analysis unless there is one, and reports whether it did. It is for callers that keep no such
// documents themselves.
func (a *Analyses) Create(ctx context.Context, analysisID string) (created bool, err error) {
	r, err := analysisCall(ctx, a, http.MethodPut, analysisID, "", nil,
		func(r contracts.AnalysisCreated) bool { return r.AnalysisID == analysisID })
	return r.Created, err
}

// Get reads an analysis. If there is none, the error is NOT_FOUND with the field "analysisId".
func (a *Analyses) Get(ctx context.Context, analysisID string) (contracts.Analysis, error) {
	return analysisCall(ctx, a, http.MethodGet, analysisID, "", nil, func(a contracts.Analysis) bool { return a.AnalysisID == analysisID })
}

// analysisCall sends one request about an analysis.
func analysisCall[T any](ctx context.Context, a *Analyses, method, id, command string, body any, valid func(T) bool) (T, error) {
	return call(ctx, a.client, method, "/v1/analyses/"+url.PathEscape(id)+command, body, valid)
}

func isGrant(g contracts.AnalysisGrant) bool {
	if g.Acquired {
		return g.LockToken > 0 && g.RemainingMs > 0
	}
	return g.Reason == contracts.SkipLocked || g.Reason == contracts.SkipAlreadyFinished
}

func wholeSeconds(ttl time.Duration) (int64, error) {
	if ttl < time.Second || ttl%time.Second != 0 {
		e := contracts.Errorf(contracts.CodeInvalidArgument, "ttl %v: must be whole seconds, at least 1s", ttl)
		e.Field = "ttlSec"
		return 0, e
	}
	return int64(ttl / time.Second), nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
