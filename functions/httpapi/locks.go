package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/page"
)

func lockID(r *http.Request) lock.ID {
	return lock.ID{Tenant: r.PathValue("tenant_id"), Key: r.PathValue("lock_key")}
}

// acquire works like other requests if it does not wait, and so does giving up. One that waits has more time, and takes
// a slot for each of its steps, see [lock.Options].Working: when it is sent to the store. It is one of those that wait,
// which are bounded, from its first refusal on.
func (a *api) acquire(w http.ResponseWriter, r *http.Request, c Caller) error {
	body, err := acquireBody(w, r)
	if err != nil {
		return err
	}
	said := body.OwnerID
	if body.OwnerID, err = c.owner(body.OwnerID); err != nil {
		return err
	}
	n := noteOf(r)
	n.body, n.ownerID, n.event.Owner = &body, said, body.OwnerID
	command, err := direct.Acquire(lockID(r), body)
	switch {
	case err != nil:
		return err
	case body.GiveUp:
		n.action = "lock." + actionGiveUp
		command.WaitSeconds = 0
		o, err := answer(a, r, func() (lock.Outcome, error) {
			return a.locks.GiveUp(r.Context(), lock.GiveUp{Acquire: command})
		})
		n.lock(o, err)
		n.ended(o.At)
		return sendGaveUp(w, r, c, o, err)
	case command.WaitSeconds == 0:
		o, err := answer(a, r, func() (lock.Outcome, error) { return a.locks.Acquire(r.Context(), command) })
		return sendLease(w, r, c, o, 0, err)
	}
	if err := command.Validate(); err != nil {
		return err
	}
	ctx, cancel := n.within(lock.MaxWaitSeconds*time.Second + a.timeout)
	defer cancel()
	ctx, waits := a.credentials.begin(ctx, r, c)
	defer waits.ended()
	most := a.longest(ctx, time.Duration(command.WaitSeconds)*time.Second)
	begin := time.Now()
	o, err := a.locks.AcquireWithin(context.WithValue(ctx, partyKey{}, n.party), command, most)
	factsOf(r).Waits, factsOf(r).Waited = true, o.Waited
	if why := waits.rejected(); why != nil && (err != nil || o.Code != lock.OK) {
		return why
	}
	return sendLease(w, r, c, o, command.PollAfter(o, time.Since(begin)), err)
}

// sendLease sends what became of an acquire, and when it is to come again if it still waits.
func sendLease(w http.ResponseWriter, r *http.Request, c Caller, o lock.Outcome, again time.Duration, err error) error {
	noteOf(r).lock(o, err)
	noteOf(r).tooLate(o, err)
	lease, err := reply(call{r, c, noteOf(r)}, o, o.Replayed, err, func(o lock.Outcome) (contracts.Lease, error) {
		lease, err := direct.Lease(o)
		if e, ok := errors.AsType[*contracts.Error](err); ok {
			e.PollAfter = again
		}
		return lease, err
	})
	if err != nil {
		return err
	}
	return send(w, lease)
}

// sendGaveUp sends what became of an acquire that was given up.
func sendGaveUp(w http.ResponseWriter, r *http.Request, c Caller, o lock.Outcome, err error) error {
	nothing, err := reply(call{r, c, noteOf(r)}, o, o.Replayed, err, func(o lock.Outcome) (any, error) {
		return nil, direct.GaveUp(o)
	})
	if err != nil {
		return err
	}
	return send(w, nothing)
}

// partyKey is the key of whom a request that waits, and its steps, count for.
type partyKey struct{}

// step carries out a step of a request that waits for a lock: if its caller is still who it was, in a slot, and within
// a time limit of its own. A request that does not wait has all that.
func (a *api) step(ctx context.Context, _ string, do func(context.Context) error) error {
	by, waits := ctx.Value(partyKey{}).(party)
	if !waits {
		return do(ctx)
	}
	w, _ := ctx.Value(waitKey{}).(*wait)
	return w.step(ctx, func() error {
		return a.admission.slots.with(ctx, by, func() error {
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			return do(ctx)
		})
	})
}

// seat makes room for a request that was refused and is to wait.
func (a *api) seat(ctx context.Context, _ string) (leave func(), ok bool) {
	by, _ := ctx.Value(partyKey{}).(party)
	if a.lockWaiters.try(by, 1) != nil {
		return nil, false
	}
	return func() { a.lockWaiters.leave(by, 1) }, true
}

// acquireBody reads the body of an acquire. Which members it must have depends on its mode, so [decode] cannot say what
// is missing. And the rule takes 0 and "" for a member that was left out, which the contract does not.
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

func (a *api) renew(c call, b *contracts.RenewRequest) (lease contracts.Lease, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return lease, err
	}
	command, err := direct.Renew(lockID(c.Request), *b)
	if err != nil {
		return lease, err
	}
	o, err := a.locks.Renew(c.Context(), command)
	return reply(c, o, o.Replayed, err, direct.Lease)
}

func (a *api) release(c call, b *contracts.ReleaseRequest) (ended contracts.EndedLease, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return ended, err
	}
	o, err := a.locks.Release(c.Context(), direct.Release(lockID(c.Request), *b))
	c.event().Owner = b.OwnerID
	c.note.lock(o, err)
	c.note.ended(endOf(o))
	return reply(c, o, o.Replayed, err, direct.EndedLease)
}

func (a *api) forceRelease(c call, b *contracts.ForceReleaseRequest) (ended contracts.ForceReleased, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return ended, err
	}
	o, err := a.locks.ForceRelease(c.Context(), lock.ForceRelease{
		ID: lockID(c.Request), By: b.OwnerID, RequestID: b.RequestID, Reason: b.Reason, LeaseID: b.LeaseID,
	})
	c.note.lock(o, err)
	c.note.ended(endOf(o))
	c.event().AllLeases = b.LeaseID == "" && c.event().FencingToken != 0
	return reply(c, o, o.Replayed, err, direct.ForceReleased)
}

// endOf is when the lease of an outcome was ended; zero if that is not remembered.
func endOf(o lock.Outcome) time.Time {
	if o.Lease.ReleasedAt.IsZero() && !o.Replayed {
		return o.At
	}
	return o.Lease.ReleasedAt
}

func (a *api) getLock(c call) (contracts.Lock, error) {
	s, found, err := a.locks.Get(c.Context(), lockID(c.Request))
	switch {
	case err != nil:
		return contracts.Lock{}, err
	case !found:
		return contracts.Lock{}, direct.NoLock()
	default:
		return direct.Lock(s), nil
	}
}

func (a *api) listLocks(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "state", "owner_id", "urgent", "page_size", "page_token")
	if err != nil {
		return err
	}
	list := lock.List{
		Tenant: r.PathValue("tenant_id"), Prefix: q["prefix"], Phase: lock.Phase(q["state"]), Owner: q["owner_id"],
		PageToken: q["page_token"],
	}
	if list.PageSize, list.Urgent, err = selection(q); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	return sendList(a, w, r, "locks", direct.Lock, func(ctx context.Context) ([]lock.Status, any, page.Cost, error) {
		p, err := a.locks.List(ctx, list)
		rest := pageOfLocks{At: direct.Time(p.At), Counts: lockCounts(p.Looked), nextPage: nextPage{p.Next}}
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
	Counts     contracts.LockCounts       `json:"counts"`
	nextPage
}

func lockCounts(l lock.Looked) contracts.LockCounts {
	return contracts.LockCounts{
		Documents: int64(l.Documents), Active: int64(l.Active), Released: int64(l.Released), Expired: int64(l.Expired),
		WaitedFor: int64(l.Waited), Ending: int64(l.Ending),
	}
}

func (a *api) getFence(c call) (contracts.Fence, error) {
	body := contracts.Fence{TenantID: c.PathValue("tenant_id"), Resource: c.PathValue("resource")}
	highest, err := a.guard.Highest(c.Context(), body.TenantID, body.Resource)
	if err == nil && highest.Token == 0 {
		err = noFence()
	}
	body.HighestToken, body.Subject = highest.Token, highest.Subject
	return body, err
}

func noFence() error {
	return contracts.Errorf(contracts.CodeNotFound, "no token of this resource is remembered")
}

func (a *api) checkFence(c call, b *contracts.FenceRequest) (passed contracts.FencePassed, err error) {
	command := lock.Fence{Tenant: c.PathValue("tenant_id"), Resource: c.PathValue("resource"),
		Lease: fencing.Lease{Subject: b.Subject, Token: b.FencingToken}}
	o, err := a.guard.Check(c.Context(), command)
	if err == nil {
		err = direct.FenceRejection(command, o)
	}
	return contracts.FencePassed{TenantID: command.Tenant, Resource: command.Resource, FencingToken: b.FencingToken,
		Subject: b.Subject}, err
}

func (a *api) resetFence(c call, b *contracts.FenceResetRequest) (reset contracts.FenceReset, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return reset, err
	}
	command := lock.FenceReset{
		Tenant: c.PathValue("tenant_id"), Resource: c.PathValue("resource"), Highest: b.HighestToken, By: b.OwnerID,
		Reason: b.Reason,
	}
	c.event().HighestToken = b.HighestToken
	o, err := a.guard.Reset(c.Context(), command)
	c.event().Replayed = o.Replayed
	return reply(c, o, o.Replayed, err, func(o lock.FenceResetOutcome) (contracts.FenceReset, error) {
		switch {
		case o.Reset:
			return contracts.FenceReset{
				TenantID: command.Tenant, Resource: command.Resource, ResetToken: command.Highest, Replayed: o.Replayed,
			}, nil
		case o.Highest == 0:
			return reset, noFence()
		default:
			return reset, otherHighest(o.Highest, "resetting")
		}
	})
}

func (a *api) removeFence(c call, b *contracts.FenceRemoveRequest) (removed contracts.FenceRemoved, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return removed, err
	}
	command := lock.FenceRemove{
		Tenant: c.PathValue("tenant_id"), Resource: c.PathValue("resource"), Highest: b.HighestToken, By: b.OwnerID,
		Reason: b.Reason,
	}
	c.event().HighestToken = b.HighestToken
	o, err := a.guard.Remove(c.Context(), command)
	c.event().Replayed = o.Replayed
	return reply(c, o, o.Replayed, err, func(o lock.FenceRemoveOutcome) (contracts.FenceRemoved, error) {
		if !o.Removed {
			return removed, otherHighest(o.Highest, "removing")
		}
		return contracts.FenceRemoved{
			TenantID: command.Tenant, Resource: command.Resource, RemovedToken: command.Highest, Replayed: o.Replayed,
		}, nil
	})
}

// otherHighest rejects a command of an administrator that named another token than the highest.
func otherHighest(highest int64, doing string) error {
	e := contracts.Errorf(contracts.CodeStaleToken, "another token is the highest by now: look again before %s the fence",
		doing)
	e.HighestToken = highest
	return e
}

// selection is the page_size and the urgent of a query.
func selection(q map[string]string) (size int, urgent bool, err error) {
	if size, err = pageSize(q); err != nil {
		return 0, false, err
	}
	switch q["urgent"] {
	case "", "false":
		return size, false, nil
	case "true":
		return size, true, nil
	default:
		return 0, false, field.Errorf("urgent", "must be true or false")
	}
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
