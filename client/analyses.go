package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
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
	if err = cmp.Or(err, r.OfAnalysis()); err != nil {
		return once.Grant{}, err
	}
	body := contracts.AnalysisLockRequest{
		OwnerID: r.Owner, RequestID: r.RequestID, TTLSeconds: seconds, MaxFailures: r.MaxFailures, Fingerprint: r.Fingerprint,
		GiveUp: r.GiveUp,
	}
	g, err := analysisCall(ctx, a, http.MethodPost, r.RunID, "/lock", limited{
		with: func(end string) any { body.NotAfter = end; return &body }, givesUp: r.GiveUp,
	}, isGrant(r))
	if err != nil || r.GiveUp {
		return once.Grant{}, err
	}
	if !g.Acquired {
		return once.Grant{Reason: g.skipped.Reason, RetryAfter: milliseconds(g.skipped.RetryAfterMs), Status: g.Status,
			Result: once.Result{
				Failed: g.Status == string(contracts.RunFailed), Result: g.skipped.Result, Reason: g.skipped.FailureReason,
			}}, nil
	}
	end, err := time.Parse(time.RFC3339, g.ExpiresAt)
	if err != nil {
		return once.Grant{}, lease.Invalid(a.client.name, fmt.Errorf("expires_at %q is no time", g.ExpiresAt))
	}
	return once.Grant{
		Acquired: true, Status: g.Status, Remaining: milliseconds(g.RemainingMs), Runs: g.Runs, Failures: g.Failures,
		Lock: once.Lock{RunID: r.RunID, Owner: g.OwnerID, Token: g.FencingToken, ExpiresAt: end},
	}, nil
}

// Refresh implements [once.Gate].
func (a *Analyses) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	r, err := analysisCall(ctx, a, http.MethodPost, l.RunID, "/refresh", contracts.AnalysisRefreshRequest{
		OwnerID: l.Owner, FencingToken: l.Token, TTLSeconds: seconds,
	}, func(got contracts.AnalysisLock) error {
		return cmp.Or(sameAnalysis(l.RunID, got.AnalysisID), lease.SameToken(l.Token, got.FencingToken))
	})
	if err != nil {
		return time.Time{}, err
	}
	end, err := time.Parse(time.RFC3339, r.ExpiresAt)
	if err != nil {
		return time.Time{}, lease.Invalid(a.client.name, fmt.Errorf("expires_at %q is no time", r.ExpiresAt))
	}
	return end, nil
}

// Release implements [once.Gate].
func (a *Analyses) Release(ctx context.Context, l once.Lock, failed string) error {
	_, err := analysisCall(ctx, a, http.MethodPost, l.RunID, "/release", contracts.AnalysisReleaseRequest{
		OwnerID: l.Owner, FencingToken: l.Token, FailureReason: failed,
	}, func(got contracts.AnalysisReleased) error { return sameAnalysis(l.RunID, got.AnalysisID) })
	return err
}

// Finish implements [once.Gate].
func (a *Analyses) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	status := contracts.RunReady
	if r.Failed {
		status = contracts.RunFailed
	}
	_, err := analysisCall(ctx, a, http.MethodPost, l.RunID, "/finish", contracts.AnalysisFinishRequest{
		OwnerID: l.Owner, FencingToken: l.Token, Status: status, Result: r.Result, FailureReason: r.Reason,
	}, func(f contracts.AnalysisFinished) error {
		return errors.Join(sameAnalysis(l.RunID, f.AnalysisID), sameEnd(status, f.Status))
	})
	return err
}

// Create makes the document of an analysis unless there is one, and reports whether it did. It is for callers that keep
// no such documents themselves.
func (a *Analyses) Create(ctx context.Context, analysisID string) (created bool, err error) {
	r, err := analysisCall(ctx, a, http.MethodPut, analysisID, "", nil,
		func(got contracts.AnalysisCreated) error { return sameAnalysis(analysisID, got.AnalysisID) })
	return r.Created, err
}

// Get reads an analysis. If there is none, the error is NOT_FOUND with the field "analysis_id".
func (a *Analyses) Get(ctx context.Context, analysisID string) (contracts.Analysis, error) {
	return analysisCall(ctx, a, http.MethodGet, analysisID, "", nil,
		func(got contracts.Analysis) error { return sameAnalysis(analysisID, got.AnalysisID) })
}

// AnalysisQuery selects analyses for [Analyses.List]. The zero value selects all.
type AnalysisQuery struct {
	Prefix    string              // of the ID
	Status    string              // such as "FAILED", in upper or lower case; empty selects all
	State     contracts.WorkState // empty selects all
	Owner     string              // of the lock, also of one that has expired; empty selects all
	Urgent    bool                // only those that are FAILED or STALE, or PENDING after a run that failed
	PageSize  int                 // 1 to 1000; 0 means the server's default
	PageToken string              // AnalysisPage.NextPageToken of the page before
}

// List returns a page of analyses by ascending bytes of their IDs, for workers and administrators. A page can be short,
// or even empty, and still have a NextPageToken. Documents that the server cannot read are in Unreadable, whatever the
// status that was asked for.
func (a *Analyses) List(ctx context.Context, q AnalysisQuery) (contracts.AnalysisPage, error) {
	path := "/v1/analyses" + listQuery(q.PageSize, map[string]string{"prefix": q.Prefix, "status": q.Status,
		"state": string(q.State), "owner_id": q.Owner, "urgent": ifTrue(q.Urgent), "page_token": q.PageToken})
	return call(ctx, a.client, http.MethodGet, path, nil, isAnalysisPage(q))
}

// Retry lets a FAILED analysis run again; it needs the administrator's scope. An empty RequestID is filled in. With the
// FinishedAt that the analysis showed, the request is for that failure alone: the error END_CHANGED means that it
// failed again. The error NOT_FAILED means that there is nothing to retry; after an [UnknownOutcomeError],
// send the same request with its RequestID again.
func (a *Analyses) Retry(ctx context.Context, analysisID string, r contracts.AnalysisRetryRequest) (
	contracts.AnalysisRetried, error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, a.client, analysisPath(analysisID)+"/retry", r.RequestID, r,
		func(got contracts.AnalysisRetried) error { return sameAnalysis(analysisID, got.AnalysisID) })
	return got, err
}

func analysisPath(id string) string { return "/v1/analyses/" + url.PathEscape(id) }

// isAnalysisPage says what is wrong with a response that should be a page of analyses.
func isAnalysisPage(q AnalysisQuery) func(contracts.AnalysisPage) error {
	return func(p contracts.AnalysisPage) error {
		if p.Analyses == nil {
			return lease.ErrMissing
		}
		for _, a := range p.Analyses {
			if a.AnalysisID == "" {
				return lease.ErrMissing
			}
			if !strings.HasPrefix(a.AnalysisID, q.Prefix) || q.Status != "" && !strings.EqualFold(a.Status, q.Status) {
				return fmt.Errorf("it lists the analysis %q with the status %q, which was not asked for", a.AnalysisID, a.Status)
			}
		}
		return nil
	}
}

// analysisCall sends one request about an analysis.
func analysisCall[T any](ctx context.Context, a *Analyses, method, id, command string, body any,
	valid func(T) error) (T, error) {
	return call(ctx, a.client, method, analysisPath(id)+command, body, valid)
}

// grant is the response to a request for a run, in either shape.
type grant struct {
	contracts.AnalysisGranted
	skipped contracts.AnalysisSkipped
}

// UnmarshalJSON reads the members of both shapes.
func (g *grant) UnmarshalJSON(b []byte) error {
	return cmp.Or(json.Unmarshal(b, &g.AnalysisGranted), json.Unmarshal(b, &g.skipped))
}

// isGrant says what is wrong with a response that should answer a request for a run.
func isGrant(r once.Acquire) func(grant) error {
	return func(g grant) error {
		switch {
		case !g.Acquired && (g.skipped.Reason == contracts.SkipLocked || g.skipped.Reason == contracts.SkipAlreadyFinished):
			return sameAnalysis(r.RunID, g.skipped.AnalysisID)
		case !g.Acquired || g.FencingToken <= 0 || g.RemainingMs <= 0:
			return lease.ErrMissing
		}
		return cmp.Or(sameAnalysis(r.RunID, g.AnalysisID), lease.SameOwner(r.Owner, g.OwnerID))
	}
}

func sameAnalysis(asked, got string) error {
	switch got {
	case asked:
		return nil
	case "":
		return lease.ErrMissing
	default:
		return fmt.Errorf("it is about the analysis %q, not %q", got, asked)
	}
}

func wholeSeconds(ttl time.Duration) (int64, error) {
	if ttl < time.Second || ttl%time.Second != 0 {
		e := contracts.Errorf(contracts.CodeInvalidArgument, "ttl %v: must be whole seconds, at least 1s", ttl)
		e.Field = "ttl_seconds"
		return 0, e
	}
	return int64(ttl / time.Second), nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
