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
	// Keep is how long the record of a run is kept after the end of the run: whole seconds from a minute to ten years.
	// After that its ID is a new one. 0 leaves what other processes say, a day if none does. Set it before the first use.
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
		KeepSeconds: r.keep(), GiveUp: a.GiveUp, MaxTakeovers: a.MaxTakeovers, EverySeconds: int64(a.Every / time.Second),
	}
	if !a.Due.IsZero() {
		body.DueAt, body.NextDueAt = timeText(a.Due), timeText(a.NextDue)
	}
	g, err := call(ctx, r.client, http.MethodPost, r.path(a.RunID)+"/begin", limited{
		with: func(end string) any { body.NotAfter = end; return &body }, givesUp: a.GiveUp,
	}, isBegun(a))
	if err != nil || a.GiveUp {
		return once.Grant{}, err
	}
	if !g.Acquired {
		return once.Grant{
			Reason: g.skipped.Reason, RetryAfter: milliseconds(g.skipped.RetryAfterMs), Status: string(g.skipped.Status),
			Due: timeIn(g.skipped.DueAt), Now: timeIn(g.skipped.Now),
			Result: once.Result{Failed: g.skipped.Status == contracts.RunFailed, Result: g.skipped.Result,
				Reason: g.skipped.FailureReason},
		}, nil
	}
	end, err := time.Parse(time.RFC3339, g.ExpiresAt)
	if err != nil {
		return once.Grant{}, lease.Invalid(r.client.name, fmt.Errorf("expires_at %q is no time", g.ExpiresAt))
	}
	return once.Grant{
		Acquired: true, Remaining: milliseconds(g.RemainingMs), Due: timeIn(g.DueAt), Runs: g.Runs,
		Failures: g.Failures,
		Lock:     once.Lock{RunID: a.RunID, Owner: g.OwnerID, Token: g.FencingToken, ExpiresAt: end},
	}, nil
}

// Refresh implements [once.Gate].
func (r *Runs) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	got, err := call(ctx, r.client, http.MethodPost, r.path(l.RunID)+"/refresh", contracts.RunRefreshRequest{
		OwnerID: l.Owner, FencingToken: l.Token, TTLSeconds: seconds, KeepSeconds: r.keep(),
	}, func(got contracts.RunLock) error {
		return cmp.Or(sameRun(l.RunID, got.RunID), lease.SameToken(l.Token, got.FencingToken))
	})
	if err != nil {
		return time.Time{}, err
	}
	end, err := time.Parse(time.RFC3339, got.ExpiresAt)
	if err != nil {
		return time.Time{}, lease.Invalid(r.client.name, fmt.Errorf("expires_at %q is no time", got.ExpiresAt))
	}
	return end, nil
}

// Release implements [once.Gate].
func (r *Runs) Release(ctx context.Context, l once.Lock, failed string) error {
	_, err := call(ctx, r.client, http.MethodPost, r.path(l.RunID)+"/release", contracts.RunReleaseRequest{
		OwnerID: l.Owner, FencingToken: l.Token, FailureReason: failed, KeepSeconds: r.keep(),
	}, func(got contracts.RunReleased) error { return sameRun(l.RunID, got.RunID) })
	return err
}

// Finish implements [once.Gate].
func (r *Runs) Finish(ctx context.Context, l once.Lock, result once.Result) error {
	status := contracts.RunReady
	if result.Failed {
		status = contracts.RunFailed
	}
	_, err := call(ctx, r.client, http.MethodPost, r.path(l.RunID)+"/finish", contracts.RunFinishRequest{
		OwnerID: l.Owner, FencingToken: l.Token, Status: status, Result: result.Result, FailureReason: result.Reason,
		KeepSeconds: r.keep(),
	}, func(f contracts.RunFinished) error {
		return errors.Join(sameRun(l.RunID, f.RunID), sameEnd(status, f.Status))
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

// RunQuery selects runs for [Runs.List]. The zero value selects all.
type RunQuery struct {
	Prefix string              // of the ID
	State  contracts.WorkState // empty selects all
	Owner  string              // of the lock, also of one that has expired; empty selects all
	Urgent bool                // only those that are FAILED or STALE, or PENDING after an attempt that failed

	// ChangedAfter and ChangedBefore select those that began, were refreshed or ended in this span; the zero time is no
	// bound.
	ChangedAfter, ChangedBefore time.Time

	PageSize  int    // 1 to 1000; 0 means the server's default
	PageToken string // RunPage.NextPageToken of the page before
}

// List returns a page of the tenant's runs by ascending bytes of their IDs, without results. A page can be short, or
// even empty, and still have a NextPageToken.
func (r *Runs) List(ctx context.Context, q RunQuery) (contracts.RunPage, error) {
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return timeText(t)
	}
	path := "/v1/tenants/" + url.PathEscape(r.tenant) + "/runs" +
		listQuery(q.PageSize, map[string]string{"prefix": q.Prefix, "state": string(q.State), "owner_id": q.Owner,
			"urgent": ifTrue(q.Urgent), "changed_after": text(q.ChangedAfter), "changed_before": text(q.ChangedBefore),
			"page_token": q.PageToken})
	return call(ctx, r.client, http.MethodGet, path, nil,
		complete(func(p contracts.RunPage) bool { return p.Runs != nil }))
}

// Retry lets a FAILED run be begun once more. An empty RequestID is filled in. With the FinishedAt that the run showed,
// the request is for that failure alone: the error END_CHANGED means that it failed again. The error NOT_FAILED means
// that there is nothing to retry; after an [UnknownOutcomeError], send the same request with its RequestID again.
func (r *Runs) Retry(ctx context.Context, runID string, q contracts.RunRetryRequest) (contracts.RunRetried, error) {
	return r.retry(ctx, runID, "/retry", q)
}

// Again lets a run that is READY be begun once more, and forgets its result. It is else as [Runs.Retry]; the error
// NOT_READY means that there is nothing to do again.
func (r *Runs) Again(ctx context.Context, runID string, q contracts.RunRetryRequest) (contracts.RunRetried, error) {
	return r.retry(ctx, runID, "/again", q)
}

func (r *Runs) retry(ctx context.Context, runID, path string, q contracts.RunRetryRequest) (contracts.RunRetried,
	error) {
	fill(&q.RequestID)
	got, _, err := command(ctx, r.client, r.path(runID)+path, q.RequestID, q,
		func(got contracts.RunRetried) error { return sameRun(runID, got.RunID) })
	return got, err
}

// Remove removes the record of a run, whose ID is a new one from then on: who begins it does the work again. An empty
// RequestID is filled in. The error RUN_IN_PROGRESS means that a worker runs it, NOT_FOUND with the field "run_id" that
// there is none.
func (r *Runs) Remove(ctx context.Context, runID string, q contracts.RunRemoveRequest) (contracts.RunRemoved, error) {
	fill(&q.RequestID)
	got, _, err := command(ctx, r.client, r.path(runID)+"/remove", q.RequestID, q,
		func(got contracts.RunRemoved) error { return sameRun(runID, got.RunID) })
	return got, err
}

// timeText is a time as the contract writes it; timeIn reads one, and is the zero time if there is none.
func timeText(t time.Time) string { return t.UTC().Format(contracts.TimeFormat) }

func timeIn(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
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
		case !b.Acquired && b.skipped.Reason == contracts.SkipNotDue && !a.Due.IsZero() && !timeIn(b.skipped.Now).IsZero():
			return sameRun(a.RunID, b.skipped.RunID)
		case !b.Acquired && (b.skipped.Reason == contracts.SkipLocked || b.skipped.Reason == contracts.SkipAlreadyFinished):
			return sameRun(a.RunID, b.skipped.RunID)
		case !b.Acquired || b.FencingToken <= 0 || b.RemainingMs <= 0:
			return lease.ErrMissing
		}
		return cmp.Or(sameRun(a.RunID, b.RunID), lease.SameOwner(a.Owner, b.OwnerID))
	}
}

func sameEnd(asked, got contracts.RunEnd) error {
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
