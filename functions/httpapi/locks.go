package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/wire"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/page"
)

func lockID(r *http.Request) lock.ID {
	return lock.ID{Tenant: r.PathValue("tenant_id"), Key: r.PathValue("lock_key")}
}

// acquire works like other requests if it does not wait. One that waits has more time, and takes a slot for each of its steps, see
// [lock.Options].Working: when it is sent to the store. It is one of those that wait, which are bounded, from its first refusal on.
func (a *api) acquire(w http.ResponseWriter, r *http.Request, c Caller) error {
	var command lock.Acquire
	err := a.working(func(w http.ResponseWriter, r *http.Request, c Caller) error {
		body, err := acquireBody(w, r)
		if err != nil {
			return err
		}
		owner, err := c.owner(body.OwnerID)
		if err != nil {
			return err
		}
		auditNote(r, slog.String("owner", owner))
		if command = wire.Acquire(lockID(r), owner, body); command.WaitSeconds != 0 {
			return command.Validate()
		}
		o, err := a.locks.Acquire(r.Context(), command)
		return sendOutcome(w, r, o, err, func() any { return wire.Lease(o) })
	})(w, r, c)
	if err != nil || command.WaitSeconds == 0 {
		return err
	}
	ctx, cancel := noteOf(r).within(lock.MaxWaitSeconds*time.Second + a.timeout)
	defer cancel()
	most := a.longest(ctx, time.Duration(command.WaitSeconds)*time.Second)
	o, err := a.locks.AcquireWithin(context.WithValue(ctx, payerKey{}, payer(r, c)), command, most)
	factsOf(r).Waits, factsOf(r).Waited = true, o.Waited
	return sendOutcome(w, r, o, err, func() any { return wire.Lease(o) })
}

// payerKey is the key of the tenant for which the steps of a request that waits count.
type payerKey struct{}

// step carries out a step of a request that waits for a lock: in a slot, and with its own time limit. A request that does not wait has both.
func (a *api) step(ctx context.Context, _ string, do func(context.Context) error) error {
	tenant, waits := ctx.Value(payerKey{}).(string)
	if !waits {
		return do(ctx)
	}
	return a.admission.slots.with(ctx, tenant, func() error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return do(ctx)
	})
}

// seat makes room for a request that was refused and is to wait.
func (a *api) seat(tenant string) (leave func(), ok bool) {
	if err := a.lockWaiters.enter(tenant); err != nil {
		return nil, false
	}
	return func() { a.lockWaiters.leave(tenant) }, true
}

// acquireBody reads the body of an acquire. Which members it must have depends on its mode, so [decode] cannot say what is missing. And the rule takes
// 0 and "" for a member that was left out, which the contract does not.
func acquireBody(w http.ResponseWriter, r *http.Request) (body contracts.AcquireRequest, err error) {
	raw, err := readBody(w, r, MaxBodyBytes)
	if err != nil {
		return body, err
	}
	if err := parse(raw, &body); err != nil {
		return body, err
	}
	var given map[string]bool // made for the few bodies that need it
	has := func(name string) bool {
		if !bytes.Contains(raw, []byte(name)) {
			return false
		}
		if given == nil {
			given = members(raw)
		}
		return given[name]
	}
	if body.Mode == "" && has("mode") {
		return body, field.Errorf("mode", "must be exclusive, shared, permits or rate")
	}
	rate, permits := body.Mode == contracts.LockModeRate, body.Mode == contracts.LockModePermits
	for _, n := range []struct {
		name   string
		value  int64
		needed bool
	}{
		{"ttl_seconds", body.TTLSeconds, !rate},
		{"limit", body.Limit, rate || permits},
		{"window_seconds", body.WindowSeconds, rate},
		{"max_waiting", body.MaxWaiting, false},
	} {
		switch {
		case n.value != 0:
		case n.needed && !has(n.name):
			return body, missing(n.name)
		case !n.needed && has(n.name):
			return body, field.Errorf(n.name, "must not be 0: leave it out")
		}
	}
	return body, nil
}

func (a *api) renew(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.RenewRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	command := lock.Renew{
		ID: lockID(r), Owner: owner, RequestID: body.RequestID, Token: body.FencingToken, TTLSeconds: body.TTLSeconds,
	}
	if body.ExpiresAt != "" {
		if command.ExpiresAt, err = docstore.ParseTime(docstore.String(body.ExpiresAt)); err != nil {
			return field.Errorf("expires_at", "must be the time that the lease showed, like %q", contracts.TimeFormat)
		}
	}
	o, err := a.locks.Renew(r.Context(), command)
	return sendOutcome(w, r, o, err, func() any { return wire.Lease(o) })
}

func (a *api) release(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.ReleaseRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.locks.Release(r.Context(), lock.Release{
		ID: lockID(r), Owner: owner, RequestID: body.RequestID, Token: body.FencingToken,
	})
	return sendOutcome(w, r, o, err, func() any { return wire.EndedLease(o) })
}

func (a *api) forceRelease(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "ending another owner's lease needs the administrator's scope")
	}
	var body contracts.ForceReleaseRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	by, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.locks.ForceRelease(r.Context(), lock.ForceRelease{
		ID: lockID(r), By: by, RequestID: body.RequestID, Reason: body.Reason, LeaseID: body.LeaseID,
	})
	auditNote(r, slog.String("owner", o.Lease.Owner), slog.String("reason", body.Reason))
	return sendOutcome(w, r, o, err, func() any { return forcedBody(o) })
}

func (a *api) getLock(w http.ResponseWriter, r *http.Request, _ Caller) error {
	s, found, err := a.locks.Get(r.Context(), lockID(r))
	if err != nil {
		return err
	}
	if !found {
		return wire.NoLock()
	}
	return send(w, wire.Lock(s))
}

func (a *api) listLocks(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "state", "page_size", "page_token")
	if err != nil {
		return err
	}
	list := lock.List{
		Tenant: r.PathValue("tenant_id"), Prefix: q["prefix"], Phase: lock.Phase(q["state"]), PageToken: q["page_token"],
	}
	if list.PageSize, err = pageSize(q); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	return sendList(a, w, r, "locks", wire.Lock, func(ctx context.Context) ([]lock.Status, any, page.Cost, error) {
		p, err := a.locks.List(ctx, list)
		rest := pageOfLocks{At: wire.Time(p.At), nextPage: nextPage{p.Next}}
		for _, d := range p.Damaged {
			rest.Unreadable = append(rest.Unreadable, contracts.UnreadableLock{LockKey: d.Key.ID, Code: problemOf(d.Err).Code})
		}
		a.passed(r, "locks", p.Damaged)
		return p.Locks, rest, p.Cost, err
	})
}

// pageOfLocks is what follows the locks of a page.
type pageOfLocks struct {
	Unreadable []contracts.UnreadableLock `json:"unreadable,omitempty"`
	At         contracts.Time             `json:"at"`
	nextPage
}

func (a *api) getFence(w http.ResponseWriter, r *http.Request, _ Caller) error {
	body := contracts.Fence{TenantID: r.PathValue("tenant_id"), Resource: r.PathValue("resource")}
	highest, err := a.guard.Highest(r.Context(), body.TenantID, body.Resource)
	switch {
	case err != nil:
		return err
	case highest == 0:
		return noFence()
	}
	body.HighestToken = highest
	return send(w, body)
}

func noFence() error {
	return contracts.Errorf(contracts.CodeNotFound, "no token of this resource is remembered")
}

func (a *api) checkFence(w http.ResponseWriter, r *http.Request, _ Caller) error {
	var body contracts.FenceRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	c := lock.Fence{Tenant: r.PathValue("tenant_id"), Resource: r.PathValue("resource"), Token: body.FencingToken}
	o, err := a.guard.Check(r.Context(), c)
	if err != nil {
		return err
	}
	if err := wire.FenceRejection(o); err != nil {
		return err
	}
	return send(w, contracts.FencePassed{TenantID: c.Tenant, Resource: c.Resource, FencingToken: c.Token})
}

func (a *api) resetFence(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "resetting a fence needs the administrator's scope")
	}
	var body contracts.FenceResetRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	by, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	command := lock.FenceReset{
		Tenant: r.PathValue("tenant_id"), Resource: r.PathValue("resource"), Highest: body.HighestToken, By: by, Reason: body.Reason,
	}
	auditNote(r, slog.String("reason", body.Reason))
	o, err := a.guard.Reset(r.Context(), command)
	switch {
	case err != nil:
		return err
	case o.Reset:
		factsOf(r).Replayed = o.Replayed
		return send(w, contracts.FenceReset{
			TenantID: command.Tenant, Resource: command.Resource, ResetToken: command.Highest, Replayed: o.Replayed,
		})
	case o.Highest == 0:
		return noFence()
	default:
		e := contracts.Errorf(contracts.CodeStaleToken, "another token is the highest by now: look again before resetting the fence")
		e.HighestToken = o.Highest
		return e
	}
}

func (a *api) removeFence(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "removing a fence needs the administrator's scope")
	}
	var body contracts.FenceRemoveRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	by, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	command := lock.FenceRemove{
		Tenant: r.PathValue("tenant_id"), Resource: r.PathValue("resource"), Highest: body.HighestToken, By: by, Reason: body.Reason,
	}
	auditNote(r, slog.Int64("highest_token", body.HighestToken), slog.String("reason", body.Reason))
	o, err := a.guard.Remove(r.Context(), command)
	switch {
	case err != nil:
		return err
	case o.Removed:
		factsOf(r).Replayed = o.Replayed
		return send(w, contracts.FenceRemoved{
			TenantID: command.Tenant, Resource: command.Resource, RemovedToken: command.Highest, Replayed: o.Replayed,
		})
	default:
		e := contracts.Errorf(contracts.CodeStaleToken, "another token is the highest by now: look again before removing the fence")
		e.HighestToken = o.Highest
		return e
	}
}

// sendOutcome sends the outcome of a lock command: the body if it is OK, else the error of the same code.
func sendOutcome(w http.ResponseWriter, r *http.Request, o lock.Outcome, err error, body func() any) error {
	factsOf(r).Replayed = o.Replayed
	switch {
	case err != nil:
		return err
	case o.Code == lock.OK:
		return send(w, body())
	}
	return wire.LockRejection(o)
}

func forcedBody(o lock.Outcome) contracts.ForceReleased {
	s := o.Lease.Status
	return contracts.ForceReleased{
		TenantID: s.Tenant, LockKey: s.Key, LeaseID: s.LeaseID, OwnerID: s.Owner,
		State: contracts.State(s.Phase), AcquiredAt: text(s.AcquiredAt), ExpiresAt: text(s.ExpiresAt), ReleasedAt: text(s.ReleasedAt),
		TTLSeconds: s.TTLSeconds, Metadata: s.Metadata, ForceRelease: wire.Forced(s), Replayed: o.Replayed,
	}
}

// text is a time as the contract writes it; the zero time, which means none, is left out.
func text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(docstore.FormatTime(t))
}

// pageSize is the page_size of a query, 0 if it has none.
func pageSize(q map[string]string) (int, error) {
	s, given := q["page_size"]
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n == 0 {
		return 0, field.Errorf("page_size", "must be a whole number from 1 to %d", page.MaxSize)
	}
	return n, nil
}

// query returns the query's parameters, each of which may be given once and must be one of known.
func query(r *http.Request, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, field.Errorf("query", "cannot be read: escape it as in a URL")
	}
	q := make(map[string]string, len(known))
	for _, name := range known {
		if v := values[name]; len(v) > 1 {
			return nil, field.Errorf(name, "is given %d times, once at most", len(v))
		} else if len(v) == 1 {
			q[name] = v[0]
		}
		delete(values, name)
	}
	for name := range values {
		return nil, field.Errorf(name, "is not a parameter of this path: it takes %s", strings.Join(known, ", "))
	}
	return q, nil
}
