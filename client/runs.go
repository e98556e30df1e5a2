package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/once"
)

// Runs is the client of a tenant's runs, which callers name themselves: the first one that begins a run does the work,
// and all later ones get its result. It is the gate of package idempotency.
type Runs struct {
	// Keep is how long the record of a run is kept after the end of the run: whole seconds from a minute to 30 days. After
	// that its ID is a new one. 0 leaves what other processes say, a day if none does. Set it before the first use.
	Keep time.Duration

	client *Client
	tenant string
}

var _ once.Gate = (*Runs)(nil)

// Runs returns the client of the runs of a tenant.
func (c *Client) Runs(tenant string) *Runs { return &Runs{client: c, tenant: tenant} }

// Run is [once.Run] at this server, for a run that the caller names. Options may be nil.
func (r *Runs) Run(ctx context.Context, runID string, work once.Work, o *once.Options) (once.Outcome, error) {
	return once.Run(ctx, r, runID, work, o)
}

// Acquire implements [once.Gate]. A run that is not known is made.
func (r *Runs) Acquire(ctx context.Context, a once.Acquire) (once.Grant, error) {
	seconds, err := wholeSeconds(a.TTL)
	if err != nil {
		return once.Grant{}, err
	}
	body := contracts.RunBeginRequest{
		OwnerID: a.Owner, RequestID: a.RequestID, TTLSeconds: seconds, MaxFailures: a.MaxFailures, Fingerprint: a.Fingerprint,
		KeepSeconds: r.keep(), GiveUp: a.GiveUp,
	}
	g, err := call(ctx, r.client, http.MethodPost, r.path(a.AnalysisID)+"/begin", limited{
		with: func(end string) any { body.NotAfter = end; return &body }, givesUp: a.GiveUp,
	}, isBegun(a))
	if err != nil || a.GiveUp {
		return once.Grant{}, err
	}
	if !g.Acquired {
		return once.Grant{
			Reason: g.skipped.Reason, RetryAfter: milliseconds(g.skipped.RetryAfterMs), Status: string(g.skipped.Status),
			Result: once.Result{Failed: g.skipped.Status == contracts.AnalysisFailed, Result: g.skipped.Result,
				Reason: g.skipped.FailureReason},
		}, nil
	}
	end, err := time.Parse(time.RFC3339, g.ExpiresAt)
	if err != nil {
		return once.Grant{}, fmt.Errorf("invalid response of %s: expires_at %q is no time", r.client.name, g.ExpiresAt)
	}
	return once.Grant{
		Acquired: true, Remaining: milliseconds(g.RemainingMs), Runs: g.Runs, Failures: g.Failures,
		Lock: once.Lock{AnalysisID: a.AnalysisID, Owner: g.OwnerID, Token: g.FencingToken, ExpiresAt: end},
	}, nil
}

// Refresh implements [once.Gate].
func (r *Runs) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	got, err := call(ctx, r.client, http.MethodPost, r.path(l.AnalysisID)+"/refresh", contracts.RunRefreshRequest{
		OwnerID: l.Owner, FencingToken: l.Token, TTLSeconds: seconds, KeepSeconds: r.keep(),
	}, func(got contracts.RunLock) error {
		return cmp.Or(sameRun(l.AnalysisID, got.RunID), lease.SameToken(l.Token, got.FencingToken))
	})
	if err != nil {
		return time.Time{}, err
	}
	end, err := time.Parse(time.RFC3339, got.ExpiresAt)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid response of %s: expires_at %q is no time", r.client.name, got.ExpiresAt)
	}
	return end, nil
}

// Release implements [once.Gate].
func (r *Runs) Release(ctx context.Context, l once.Lock, failed string) error {
	_, err := call(ctx, r.client, http.MethodPost, r.path(l.AnalysisID)+"/release", contracts.RunReleaseRequest{
		OwnerID: l.Owner, FencingToken: l.Token, FailureReason: failed, KeepSeconds: r.keep(),
	}, func(got contracts.RunReleased) error { return sameRun(l.AnalysisID, got.RunID) })
	return err
}

// Finish implements [once.Gate].
func (r *Runs) Finish(ctx context.Context, l once.Lock, result once.Result) error {
	status := contracts.AnalysisReady
	if result.Failed {
		status = contracts.AnalysisFailed
	}
	_, err := call(ctx, r.client, http.MethodPost, r.path(l.AnalysisID)+"/finish", contracts.RunFinishRequest{
		OwnerID: l.Owner, FencingToken: l.Token, Status: status, Result: result.Result, FailureReason: result.Reason,
		KeepSeconds: r.keep(),
	}, func(f contracts.RunFinished) error {
		return errors.Join(sameRun(l.AnalysisID, f.RunID), sameEnd(status, f.Status))
	})
	return err
}

// Get reads a run. If there is none, the error is NOT_FOUND with the field "run_id".
func (r *Runs) Get(ctx context.Context, runID string) (contracts.Run, error) {
	return call(ctx, r.client, http.MethodGet, r.path(runID), nil,
		func(got contracts.Run) error { return sameRun(runID, got.RunID) })
}

func (r *Runs) path(id string) string {
	return "/v1/tenants/" + url.PathEscape(r.tenant) + "/runs/" + url.PathEscape(id)
}

// List returns a page of the tenant's runs whose names begin with a prefix, by ascending bytes of their names, without
// results. pageSize is 1 to 1000, 0 means the server's default; pageToken is the NextPageToken of the page before.
func (r *Runs) List(ctx context.Context, prefix string, pageSize int, pageToken string) (contracts.RunPage, error) {
	path := "/v1/tenants/" + url.PathEscape(r.tenant) + "/runs" +
		listQuery(pageSize, map[string]string{"prefix": prefix, "page_token": pageToken})
	return call(ctx, r.client, http.MethodGet, path, nil,
		complete(func(p contracts.RunPage) bool { return p.Runs != nil }))
}

// keep is Keep in seconds, rounded up; 0 is not sent.
func (r *Runs) keep() int64 { return int64((r.Keep + time.Second - 1) / time.Second) }

// begun is the response to a request for a run, in either shape.
type begun struct {
	contracts.RunGranted
	skipped contracts.RunSkipped
}

// UnmarshalJSON reads the members of both shapes.
func (b *begun) UnmarshalJSON(text []byte) error {
	return cmp.Or(json.Unmarshal(text, &b.RunGranted), json.Unmarshal(text, &b.skipped))
}

// isBegun says what is wrong with a response that should answer a request for a run.
func isBegun(a once.Acquire) func(begun) error {
	return func(b begun) error {
		switch {
		case !b.Acquired && (b.skipped.Reason == contracts.SkipLocked || b.skipped.Reason == contracts.SkipAlreadyFinished):
			return sameRun(a.AnalysisID, b.skipped.RunID)
		case !b.Acquired || b.FencingToken <= 0 || b.RemainingMs <= 0:
			return lease.ErrMissing
		}
		return cmp.Or(sameRun(a.AnalysisID, b.RunID), lease.SameOwner(a.Owner, b.OwnerID))
	}
}

func sameEnd(asked, got contracts.AnalysisEnd) error {
	if got != asked {
		return fmt.Errorf("it ended as %q, not as %q", got, asked)
	}
	return nil
}

func sameRun(asked, got string) error {
	switch got {
	case asked:
		return nil
	case "":
		return lease.ErrMissing
	default:
		return fmt.Errorf("it is about the run %q, not %q", got, asked)
	}
}
