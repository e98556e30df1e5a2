package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Placements is the client of the placement of one cluster. Each method is one operation of the contract. A response
// that is not about the member or the identity of the request, or not about its incarnation or token, is an error.
//
// Commands with a request_id and no definite response end with an [UnknownOutcomeError]. What an owner does is known by
// its token, a heartbeat by its number, a drain and a leave by the incarnation: those are sent again as they are.
type Placements struct {
	client  *Client
	tenant  string
	cluster string
	base    string // path of the cluster

	topology atomic.Pointer[known[contracts.Topology]]
	members  atomic.Pointer[known[contracts.MemberList]]
}

// known is what was read of the latest epoch, with the name by which the server knows it again.
type known[T any] struct {
	value T
	tag   string
}

var _ cluster.Provider = (*Placements)(nil)

// Placements returns the client of the placement of a tenant's cluster. It is a [cluster.Provider].
func (c *Client) Placements(tenant, name string) *Placements {
	return &Placements{client: c, tenant: tenant, cluster: name,
		base: "/v1/tenants/" + url.PathEscape(tenant) + "/clusters/" + url.PathEscape(name)}
}

// Cluster implements [cluster.Directory].
func (p *Placements) Cluster() string { return p.tenant + "/" + p.cluster }

func (p *Placements) member(name, command string) string {
	return p.base + "/members/" + url.PathEscape(name) + "/" + command
}

func (p *Placements) activation(kind, id, command string) string {
	path := p.base + "/activations/" + url.PathEscape(kind) + "/" + url.PathEscape(id)
	if command != "" {
		path += "/" + command
	}
	return path
}

// Join makes a member, with a new incarnation. An empty RequestID is filled in. The error MEMBER_EXISTS means that a
// member of this name lives, and says until when its lease lasts.
func (p *Placements) Join(ctx context.Context, member string, r contracts.MemberJoinRequest) (contracts.MemberState,
	error) {
	fill(&r.RequestID)
	r.Kinds = listed(r.Kinds)
	got, _, err := command(ctx, p.client, p.member(member, "join"), r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter,
	}, isMember(member, 0))
	return got, err
}

// Replace joins in the place of another member, which drains from then on. An empty RequestID is filled in.
func (p *Placements) Replace(ctx context.Context, member string, r contracts.MemberReplaceRequest) (
	contracts.MemberState, error) {
	fill(&r.RequestID)
	r.Kinds = listed(r.Kinds)
	got, _, err := command(ctx, p.client, p.member(member, "replace"), r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter,
	}, isMember(member, 0))
	return got, err
}

// Heartbeat extends a member's lease. After STALE_INCARNATION and MEMBER_UNKNOWN the member stops what it serves, and
// joins again.
func (p *Placements) Heartbeat(ctx context.Context, member string,
	r contracts.MemberHeartbeatRequest) (contracts.MemberState, error) {
	return call(ctx, p.client, http.MethodPost, p.member(member, "heartbeat"), r, isMember(member, r.Incarnation))
}

// Drain gives a member no new activations, and its partitions to the others.
func (p *Placements) Drain(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState,
	error) {
	return call(ctx, p.client, http.MethodPost, p.member(member, "drain"), r, isMember(member, r.Incarnation))
}

// Leave ends a member. Its activations are free for others from then on.
func (p *Placements) Leave(ctx context.Context, member string, r contracts.MemberRequest) (contracts.MemberState,
	error) {
	return call(ctx, p.client, http.MethodPost, p.member(member, "leave"), r, isMember(member, r.Incarnation))
}

// Evict ends another's member; it needs the administrator's scope.
func (p *Placements) Evict(ctx context.Context, member string, r contracts.MemberEvictRequest) (contracts.MemberState,
	error) {
	return call(ctx, p.client, http.MethodPost, p.member(member, "evict"), r, isMember(member, r.Incarnation))
}

// ChangeOffer changes what a member offers, from a new epoch on. An empty RequestID is filled in.
func (p *Placements) ChangeOffer(ctx context.Context, member string,
	r contracts.MemberOfferRequest) (contracts.MemberState, error) {
	fill(&r.RequestID)
	r.Kinds = listed(r.Kinds)
	got, _, err := command(ctx, p.client, p.member(member, "offer"), r.RequestID, r, isMember(member, r.Incarnation))
	return got, err
}

// Members reads the members of the current epoch. While the epoch that was read before is the current one, the server
// sends no more than that, and of a later one what changed since. The caller must not change what it returns.
func (p *Placements) Members(ctx context.Context) (contracts.MemberList, error) {
	return current(ctx, p.client, &p.members, p.membersSince, func(l contracts.MemberList) error {
		if l.Members == nil || l.Status == "" {
			return lease.ErrMissing
		}
		return p.sameCluster(l.Cluster)
	}, wholeList)
}

// membersSince is the path of what changed since the list that is known, nil for none.
func (p *Placements) membersSince(before *known[contracts.MemberList]) string {
	if before == nil || before.value.Epoch == 0 || before.value.ChangedAt == "" {
		return p.base + "/members"
	}
	return p.base + "/members?" + url.Values{"since": {strconv.FormatInt(before.value.Epoch, 10)},
		"changed_at": {before.value.ChangedAt}}.Encode()
}

// wholeList is the list that a response makes of the one that was known before: all members, in the order of their
// names, also where the response says what changed.
func wholeList(before *known[contracts.MemberList], got contracts.MemberList) (contracts.MemberList, error) {
	if got.Since == 0 {
		return got, nil
	}
	if before == nil || got.Since != before.value.Epoch {
		return got, fmt.Errorf("it says what changed since epoch %d, for which it was not asked", got.Since)
	}
	changed := make(map[string]bool, len(got.Members)+len(got.Gone))
	for i := range got.Members {
		changed[got.Members[i].Member] = true
	}
	for _, name := range got.Gone {
		changed[name] = true
	}
	for i := range before.value.Members {
		if m := &before.value.Members[i]; !changed[m.Member] {
			got.Members = append(got.Members, *m)
		}
	}
	slices.SortFunc(got.Members, func(a, b contracts.ClusterMember) int { return strings.Compare(a.Member, b.Member) })
	got.Since, got.Gone = 0, nil
	return got, nil
}

// Topology reads the current epoch, with its members and which partition is whose, for callers that place identities by
// themselves. It is sent as [Placements.Members] are.
func (p *Placements) Topology(ctx context.Context) (contracts.Topology, error) {
	path := func(*known[contracts.Topology]) string { return p.base + "/topology" }
	whole := func(_ *known[contracts.Topology], t contracts.Topology) (contracts.Topology, error) { return t, nil }
	return current(ctx, p.client, &p.topology, path, p.isTopology, whole)
}

// Epoch reads an epoch by its number, 1 or more: the current one, or an earlier one, which is kept for a day. One that
// is not is NOT_FOUND.
func (p *Placements) Epoch(ctx context.Context, number int64) (contracts.Topology, error) {
	path := p.base + "/topology?epoch=" + strconv.FormatInt(number, 10)
	return call(ctx, p.client, http.MethodGet, path, nil, func(t contracts.Topology) error {
		if t.Epoch != number {
			return fmt.Errorf("it is epoch %d, not %d", t.Epoch, number)
		}
		return p.isTopology(t)
	})
}

// current reads something of the current epoch, unless it is known: whole makes it of what was known before, for which
// path asks, and of a response that is valid.
func current[T any](ctx context.Context, c *Client, at *atomic.Pointer[known[T]], path func(*known[T]) string,
	check func(T) error, whole func(*known[T], T) (T, error)) (T, error) {
	end := c.callEnd(ctx)
	for retry := 0; ; retry++ {
		trying, cancel := c.try(ctx, retry, end)
		t, unknown, err := currentOnce(trying, c, at, path, check, whole)
		cancel()
		pause := waits.Delay(retry)
		if !unknown || ctx.Err() != nil || retry == c.tries-1 || comesTooLate(ctx, end, pause) ||
			backoff.Sleep(ctx, pause) != nil {
			return t, err
		}
	}
}

func currentOnce[T any](ctx context.Context, c *Client, at *atomic.Pointer[known[T]], path func(*known[T]) string,
	check func(T) error, whole func(*known[T], T) (T, error)) (t T, unknown bool, err error) {
	header := http.Header{}
	before := at.Load()
	if before != nil {
		header.Set("If-None-Match", before.tag)
	}
	//nolint:bodyclose // send has read and closed it
	w, content, unknown, err := c.send(ctx, http.MethodGet, path(before), nil, maxResponse, header)
	if err != nil {
		return t, unknown, err
	}
	mediaType := mediaType(w.Header)
	switch {
	case w.StatusCode == http.StatusNotModified && before != nil:
		return before.value, false, nil
	case w.StatusCode != http.StatusOK || mediaType != "application/json":
		unknown, err = c.rejection(w, content)
		return t, unknown, err
	}
	if t, err = decode(c, content, check); err != nil {
		return t, false, err
	}
	if t, err = whole(before, t); err != nil {
		return t, false, lease.Invalid(c.name, err)
	}
	if tag := w.Header.Get("ETag"); tag != "" {
		at.Store(&known[T]{t, tag})
	}
	return t, false, nil
}

// Lookup says where an identity is, or would be.
func (p *Placements) Lookup(ctx context.Context, kind, id string, q cluster.Query) (contracts.Placement, error) {
	v := url.Values{}
	for name, labels := range map[string]map[string]string{"labels": q.Labels, "prefer": q.Prefer} {
		if len(labels) > 0 {
			b, err := json.Marshal(labels)
			if err != nil {
				return contracts.Placement{}, fmt.Errorf("encode %s: %w", name, err)
			}
			v.Set(name, string(b))
		}
	}
	if q.Epoch != 0 {
		v.Set("epoch", strconv.FormatInt(q.Epoch, 10))
	}
	path := p.base + "/placements/" + url.PathEscape(kind) + "/" + url.PathEscape(id)
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	return call(ctx, p.client, http.MethodGet, path, nil, func(got contracts.Placement) error {
		if got.Epoch <= 0 {
			return lease.ErrMissing
		}
		return sameIdentity(kind, id, got.Kind, got.ID)
	})
}

// Claim asks for the activation of an identity. An empty RequestID is filled in. The error ACTIVATION_EXISTS has the
// activation that there is, ACTIVATION_LOCKED when another claim ends at the latest, ACTIVATION_FAILED the reason of
// the one that this claim began.
func (p *Placements) Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (
	contracts.ActivationOutcome, error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, p.client, p.activation(kind, id, "claim"), r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter,
	},
		func(o contracts.ActivationOutcome) error {
			err := cmp.Or(sameIdentity(kind, id, o.Activation.Kind, o.Activation.ID), owned(o.Activation))
			if err == nil && r.Member != "" {
				err = sameIncarnation(r.Member, r.Incarnation, o.Activation.Member, o.Activation.Incarnation)
			}
			return err
		})
	return got, err
}

// Activated says that the owner serves the identity from now on.
func (p *Placements) Activated(ctx context.Context, kind, id string,
	r contracts.ActivationHoldRequest) (contracts.ActivationOutcome, error) {
	return call(ctx, p.client, http.MethodPost, p.activation(kind, id, "activated"), r, isHeld(kind, id, r))
}

// Failed says that the owner could not activate the identity, and why.
func (p *Placements) Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (
	contracts.ActivationOutcome, error) {
	return call(ctx, p.client, http.MethodPost, p.activation(kind, id, "failed"), r,
		isHeld(kind, id, contracts.ActivationHoldRequest{
			Member: r.Member, Incarnation: r.Incarnation, FencingToken: r.FencingToken,
		}))
}

// Deactivate ends an activation.
func (p *Placements) Deactivate(ctx context.Context, kind, id string,
	r contracts.ActivationEndRequest) (contracts.ActivationOutcome, error) {
	return call(ctx, p.client, http.MethodPost, p.activation(kind, id, "deactivate"), r,
		isHeld(kind, id, contracts.ActivationHoldRequest{
			Member: r.Member, Incarnation: r.Incarnation, FencingToken: r.FencingToken,
		}))
}

// WriteState replaces the state of an activation. An empty RequestID is filled in. The error STATE_CHANGED means that
// the state is not of the version that the request names.
func (p *Placements) WriteState(ctx context.Context, kind, id string,
	r contracts.ActivationStateRequest) (contracts.ActivationOutcome, error) {
	fill(&r.RequestID)
	if r.State == nil {
		r.State = []byte{}
	}
	got, _, err := command(ctx, p.client, p.activation(kind, id, "state"), r.RequestID, r,
		isHeld(kind, id, contracts.ActivationHoldRequest{
			Member: r.Member, Incarnation: r.Incarnation, FencingToken: r.FencingToken,
		}))
	return got, err
}

// SetAlarm sets the alarm of an activation, or clears it. The error STATE_CHANGED means that the alarm is not of the
// version that the request names.
func (p *Placements) SetAlarm(ctx context.Context, kind, id string,
	r contracts.ActivationAlarmRequest) (contracts.ActivationOutcome, error) {
	return call(ctx, p.client, http.MethodPost, p.activation(kind, id, "alarm"), r,
		isHeld(kind, id, contracts.ActivationHoldRequest{
			Member: r.Member, Incarnation: r.Incarnation, FencingToken: r.FencingToken,
		}))
}

// Transfer gives an activation to another member. An empty RequestID is filled in.
func (p *Placements) Transfer(ctx context.Context, kind, id string,
	r contracts.ActivationTransferRequest) (contracts.ActivationOutcome, error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, p.client, p.activation(kind, id, "transfer"), r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter,
	},
		func(o contracts.ActivationOutcome) error {
			switch a := o.Activation; {
			case a.FencingToken <= r.FencingToken:
				return fmt.Errorf("the activation has the fencing token %d, not a higher one than %d", a.FencingToken,
					r.FencingToken)
			case r.To != "" && a.Member != r.To:
				return fmt.Errorf("the activation belongs to %q, not to %q", a.Member, r.To)
			default:
				return cmp.Or(sameIdentity(kind, id, a.Kind, a.ID), owned(a))
			}
		})
	return got, err
}

// Activation reads an activation, with its state. The error NOT_FOUND means that there is no record of it.
func (p *Placements) Activation(ctx context.Context, kind, id string) (contracts.Activation, error) {
	return call(ctx, p.client, http.MethodGet, p.activation(kind, id, ""), nil, func(a contracts.Activation) error {
		if a.Phase == "" {
			return lease.ErrMissing
		}
		return sameIdentity(kind, id, a.Kind, a.ID)
	})
}

// ActivationQuery selects activations for [Placements.Activations]. The zero value selects all.
type ActivationQuery struct {
	Kind      string
	PageSize  int    // 1 to 100; 0 means the server's default
	PageToken string // ActivationPage.NextPageToken of the page before
}

// Activations returns a page of activations, without their states, in the order of kind and ID.
func (p *Placements) Activations(ctx context.Context, q ActivationQuery) (contracts.ActivationPage, error) {
	path := p.base + "/activations" + listQuery(q.PageSize, map[string]string{"kind": q.Kind, "page_token": q.PageToken})
	return call(ctx, p.client, http.MethodGet, path, nil, func(page contracts.ActivationPage) error {
		if page.Activations == nil || page.Status == "" {
			return lease.ErrMissing
		}
		for _, a := range page.Activations {
			if a.Kind == "" || a.ID == "" || a.Phase == "" {
				return lease.ErrMissing
			}
			if q.Kind != "" && a.Kind != q.Kind {
				return fmt.Errorf("it lists an activation of the kind %q, which was not asked for", a.Kind)
			}
		}
		return nil
	})
}

// Events returns the events after a place. One of the last ten seconds can come again. What it is to wait for them
// must be less than the client waits for a response.
func (p *Placements) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	wait := ""
	if s := int64(q.Wait / time.Second); s > 0 {
		wait = strconv.FormatInt(s, 10)
	}
	path := p.base + "/events" + listQuery(q.PageSize, map[string]string{"after": q.After, "member": q.Member,
		"wait_seconds": wait})
	return call(ctx, p.client.waiting(q.Wait), http.MethodGet, path, nil, func(page contracts.EventPage) error {
		if page.Events == nil || page.Next == "" {
			return lease.ErrMissing
		}
		for _, e := range page.Events {
			if e.EventID == "" || e.Member == "" && e.Kind == "" || e.To == "" {
				return lease.ErrMissing
			}
		}
		return nil
	})
}

// listed is a list that is sent even if it is empty.
func listed(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// isMember says what is wrong with a response that should be about an incarnation; 0 is one that has joined.
func isMember(member string, incarnation int64) func(contracts.MemberState) error {
	return func(s contracts.MemberState) error {
		return sameIncarnation(member, incarnation, s.Member, s.Incarnation)
	}
}

// sameIncarnation compares a member with that of the request: its name is that, or ends with it after the subject of
// the token.
func sameIncarnation(member string, incarnation int64, gotMember string, got int64) error {
	switch {
	case gotMember == "" || got <= 0:
		return lease.ErrMissing
	case gotMember != member && !strings.HasSuffix(gotMember, "#"+member) || got != incarnation && incarnation != 0:
		return fmt.Errorf("it is about incarnation %d of the member %q, not %d of %q", got, gotMember, incarnation, member)
	}
	return nil
}

func (p *Placements) sameCluster(got string) error {
	if got != p.cluster {
		return fmt.Errorf("it is about the cluster %q, not %q", got, p.cluster)
	}
	return nil
}

func sameIdentity(kind, id, gotKind, gotID string) error {
	switch {
	case gotKind == "" && gotID == "":
		return lease.ErrMissing
	case gotKind != kind || gotID != id:
		return fmt.Errorf("it is about %q of the kind %q, not %q of %q", gotID, gotKind, id, kind)
	}
	return nil
}

// owned says what is missing from an activation that someone should own.
func owned(a contracts.Activation) error {
	switch {
	case a.FencingToken <= 0 || a.Member == "" || a.Incarnation <= 0 || a.Phase == "":
		return lease.ErrMissing
	case a.Phase == contracts.PhaseFree:
		return errors.New("it is about an activation that is free")
	}
	return nil
}

// isHeld says what is wrong with the response to a command of an owner.
func isHeld(kind, id string, h contracts.ActivationHoldRequest) func(contracts.ActivationOutcome) error {
	return func(o contracts.ActivationOutcome) error {
		a := o.Activation
		if a.Phase == "" {
			return lease.ErrMissing
		}
		if a.FencingToken != h.FencingToken {
			return fmt.Errorf("the activation has the fencing token %d, not %d", a.FencingToken, h.FencingToken)
		}
		return cmp.Or(sameIdentity(kind, id, a.Kind, a.ID), sameIncarnation(h.Member, h.Incarnation, a.Member, a.Incarnation))
	}
}

// isTopology says what is wrong with a response that should be the current epoch.
func (p *Placements) isTopology(t contracts.Topology) error {
	if t.Members == nil || t.Status == "" || len(t.Table) == 0 {
		return lease.ErrMissing
	}
	for i, m := range t.Table {
		if m < -1 || m >= len(t.Members) {
			return fmt.Errorf("it gives partition %d to member %d of %d", i, m, len(t.Members))
		}
	}
	return p.sameCluster(t.Cluster)
}
