package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

func clusterOf(r *http.Request) placement.Cluster {
	return placement.Cluster{Tenant: r.PathValue("tenant_id"), Name: r.PathValue("cluster")}
}

// member is the name of a member that the caller acts for. Without a verified subject it is the request's word. With
// one, members belong to the subject that joined them: the name is the subject, or "subject#name", and a request may
// leave the subject out.
func (c Caller) member(name string) (string, error) {
	if c.Subject == "" || name == "" {
		return name, nil // the rules look at it
	}
	whole, err := c.lockOwner(name)
	switch {
	case err == nil:
		return whole, nil
	case strings.Contains(name, "#"):
		return "", contracts.Errorf(contracts.CodePermissionDenied,
			"the member belongs to another subject: yours begin with %q", clip(ownerOf(c.Subject)+"#"))
	default:
		return "", field.Errorf("member",
			"is 1 to %d letters, digits, '.', '_' and '-' after your subject, or that whole name", maxSuffixBytes)
	}
}

// The time to live of members, and that of lock phases, where a body has none.
const (
	defaultSeconds     = int64(placement.DefaultTTL / time.Second)
	defaultLockSeconds = int64(placement.DefaultLockTTL / time.Second)
)

// checkSeconds rejects a time to live of a body that is out of range.
func checkSeconds(name string, n int64) error {
	return field.Range(name, n, int64(placement.MinTTL/time.Second), int64(placement.MaxTTL/time.Second))
}

// checkOffer looks at what a body says that a member offers, where the rules do not see what it said.
func checkOffer(kinds []string, weight int64) error {
	if kinds == nil {
		return field.Errorf("kinds",
			"is required: a list of the kinds of identities that the member hosts, which may be empty")
	}
	return field.Range("weight", weight, 0, placement.MaxWeight)
}

func (a *api) joinCluster(c call, b *contracts.MemberJoinRequest) (state contracts.MemberState, err error) {
	if err := field.Range("partitions", b.Partitions, 0, placement.MaxPartitions); err != nil {
		return state, err
	}
	if err := checkOffer(b.Kinds, b.Weight); err != nil {
		return state, err
	}
	member, err := c.joining(b.TTLSeconds)
	if err != nil {
		return state, err
	}
	command, err := direct.Join(clusterOf(c.Request), member, *b)
	if err != nil {
		return state, err
	}
	o, err := a.placement.Join(c.Context(), command)
	return c.member(o, err)
}

func (a *api) replaceMember(c call, b *contracts.MemberReplaceRequest) (state contracts.MemberState, err error) {
	if b.Replaces.Member == "" || b.Replaces.Incarnation == 0 {
		return state, field.Errorf("replaces",
			"is required: an object with the member and the incarnation that this one replaces")
	}
	if err := c.asMember(&b.Replaces.Member); err != nil {
		return state, err
	}
	if err := checkOffer(b.Kinds, b.Weight); err != nil {
		return state, err
	}
	c.event().Replaces = b.Replaces.Member
	member, err := c.joining(b.TTLSeconds)
	if err != nil {
		return state, err
	}
	command, err := direct.Replace(clusterOf(c.Request), member, *b)
	if err != nil {
		return state, err
	}
	o, err := a.placement.Join(c.Context(), command)
	return c.member(o, err)
}

// joining is the member of the path, which is to join for so many seconds.
func (c call) joining(ttl int64) (member string, err error) {
	member = c.PathValue("member")
	if err := c.asMember(&member); err != nil {
		return "", err
	}
	if err := checkSeconds("ttl_seconds", ttl); err != nil {
		return "", err
	}
	c.event().Owner = member
	return member, nil
}

func (a *api) heartbeatMember(c call, b *contracts.MemberHeartbeatRequest) (state contracts.MemberState, err error) {
	member := c.PathValue("member")
	if err := c.asMember(&member); err != nil {
		return state, err
	}
	if err := checkSeconds("ttl_seconds", b.TTLSeconds); err != nil {
		return state, err
	}
	o, err := a.placement.Heartbeat(c.Context(), direct.Heartbeat(clusterOf(c.Request), member, *b))
	return c.member(o, err)
}

// ofMember is a command that names an incarnation of the path's member and nothing else. An administrator and an
// operator may name any member, by its whole name, if anyone's may be named.
func (a *api) ofMember(anyone bool, do func(context.Context, placement.Cluster,
	placement.Incarnation) (placement.MemberOutcome, error)) handler {
	return command(a, func(c call, b *contracts.MemberRequest) (state contracts.MemberState, err error) {
		i := placement.Incarnation{Member: c.PathValue("member"), Number: b.Incarnation}
		if !anyone || !c.caller.May(Admin|Operate) || !strings.Contains(i.Member, "#") {
			if err := c.asMember(&i.Member); err != nil {
				return state, err
			}
		}
		c.event().Owner = i.Member
		o, err := do(c.Context(), clusterOf(c.Request), i)
		return c.member(o, err)
	})
}

func (a *api) evictMember(c call, b *contracts.MemberEvictRequest) (contracts.MemberState, error) {
	i := placement.Incarnation{Member: c.PathValue("member"), Number: b.Incarnation}
	c.event().Owner = i.Member
	o, err := a.placement.Expel(c.Context(), placement.Expel{Cluster: clusterOf(c.Request), Incarnation: i,
		Reason: b.Reason})
	return c.member(o, err)
}

func (a *api) removeCluster(c call, b *contracts.ClusterRemoveRequest) (contracts.ClusterRemoved, error) {
	command := placement.RemoveCluster{Cluster: clusterOf(c.Request), Epoch: b.Epoch, Reason: b.Reason}
	o, err := a.placement.RemoveCluster(c.Context(), command)
	c.event().Epoch, c.event().Replayed = b.Epoch, o.Replayed
	return reply(c, o, o.Replayed, err, func(o placement.Removal) (contracts.ClusterRemoved, error) {
		if o.Code != placement.OK {
			e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
			e.Epoch, e.RetryAfter = o.Epoch, o.RetryAfter
			return contracts.ClusterRemoved{}, e
		}
		return contracts.ClusterRemoved{
			TenantID: command.Tenant, Cluster: command.Name, Epoch: command.Epoch, Identities: int64(o.Identities),
			Replayed: o.Replayed,
		}, nil
	})
}

func (a *api) changeOffer(c call, b *contracts.MemberOfferRequest) (state contracts.MemberState, err error) {
	member := c.PathValue("member")
	if err := c.asMember(&member); err != nil {
		return state, err
	}
	if err := checkOffer(b.Kinds, b.Weight); err != nil {
		return state, err
	}
	o, err := a.placement.ChangeOffer(c.Context(), direct.ChangeOffer(clusterOf(c.Request), member, *b))
	return c.member(o, err)
}

// member replies to a command on a member.
func (c call) member(o placement.MemberOutcome, err error) (contracts.MemberState, error) {
	if o.Code == placement.OK && !o.Replayed {
		c.note.facts.Moved = o.Moved
	}
	if e := c.event(); err == nil && o.Code == placement.OK {
		e.Incarnation, e.Epoch, e.Replayed = o.Incarnation.Number, o.Epoch, o.Replayed
		atStore(e, o.At)
	}
	return reply(c, o, o.Replayed, err, direct.MemberState)
}

// epochBody is what a response says about an epoch beside its members.
type epochBody struct {
	Cluster   string                  `json:"cluster"`
	Status    contracts.ClusterStatus `json:"status"`
	Epoch     int64                   `json:"epoch"`
	ChangedAt contracts.Time          `json:"changed_at,omitempty"`
}

func bodyOf(c placement.Cluster, t *placement.Topology) epochBody {
	return epochBody{Cluster: c.Name, Status: direct.ClusterStatus(t), Epoch: t.Epoch, ChangedAt: direct.Time(t.At)}
}

// tableBody is what follows the members of a topology.
type tableBody struct {
	epochBody

	Cause       string `json:"cause,omitempty"`
	HashVersion int64  `json:"hash_version"`
	Partitions  int    `json:"partitions"`
	Table       []int  `json:"table"`
}

// changesBody is what follows the members of an epoch, or those that changed since an earlier one.
type changesBody struct {
	epochBody

	Since int64    `json:"since,omitempty"`
	Gone  []string `json:"gone,omitempty"`
}

func (a *api) listClusters(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "page_size", "page_token")
	if err != nil {
		return err
	}
	list := placement.Clusters{Tenant: r.PathValue("tenant_id"), After: q["page_token"]}
	size, err := number(q, "page_size", 1, docstore.MaxLimit)
	if err != nil {
		return err
	}
	list.Limit = int(size)
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	show := func(name string) contracts.ClusterListed { return contracts.ClusterListed{Cluster: name} }
	return sendList(a, w, r, "clusters", show, func(ctx context.Context) ([]string, any, page.Cost, error) {
		names, next, err := a.placement.Clusters(ctx, list)
		return names, nextPage{next}, page.Cost{Kept: len(names) * placement.MaxClusterBytes}, err
	})
}

func (a *api) listMembers(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "since", "changed_at")
	if err != nil {
		return err
	}
	since, err := number(q, "since", 1, docstore.MaxInt)
	if err != nil {
		return err
	}
	began, err := time.Parse(time.RFC3339, cmp.Or(q["changed_at"], "0001-01-01T00:00:00Z"))
	if err != nil || (since == 0) != began.IsZero() {
		return field.Errorf("changed_at", "is the changed_at of the response that has the epoch since: send both, or none")
	}
	c := clusterOf(r)
	read := func(ctx context.Context) (*placement.Topology, error) { return a.topology(ctx, c) }
	return a.sendEpoch(w, r, read, func(t *placement.Topology) ([]placement.Member, any, int) {
		if changed, gone, ok := t.Since(since, began); ok && since > 0 {
			return changed, changesBody{bodyOf(c, t), since, gone}, len(gone) * memberBytes
		}
		return t.Members, changesBody{epochBody: bodyOf(c, t)}, 0
	})
}

// memberBytes is about what a member takes.
const memberBytes = 256

// errNotModified is a topology that the caller has.
var errNotModified = errors.New("not modified")

func (a *api) getTopology(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "epoch")
	if err != nil {
		return err
	}
	epoch, err := number(q, "epoch", 0, docstore.MaxInt)
	if err != nil {
		return err
	}
	c := clusterOf(r)
	read := func(ctx context.Context) (*placement.Topology, error) { return a.epoch(ctx, c, epoch) }
	return a.sendEpoch(w, r, read, func(t *placement.Topology) ([]placement.Member, any, int) {
		table := t.Table()
		body := tableBody{bodyOf(c, t), t.Cause, placement.HashVersion, len(table), table}
		return t.Members, body, len(table) * 12 // and its JSON
	})
}

// sendEpoch sends what say makes of an epoch: members, and what else there is, so many bytes: unless the caller has the
// epoch, and compressed for one that can read that.
func (a *api) sendEpoch(w http.ResponseWriter, r *http.Request, read func(context.Context) (*placement.Topology, error),
	say func(*placement.Topology) ([]placement.Member, any, int)) error {
	z := &compressed{ResponseWriter: w, wanted: takesGzip(r.Header.Get("Accept-Encoding"))}
	err := sendList(a, z, r, "members", direct.Member, func(ctx context.Context) ([]placement.Member, any,
		page.Cost, error) {
		t, err := read(ctx)
		if err != nil {
			return nil, nil, page.Cost{}, err
		}
		tag := entityTag(t)
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, no-cache") // to be kept, and asked for again
		w.Header().Add("Vary", "Accept-Encoding")
		if hasTag(r.Header.Get("If-None-Match"), tag) {
			return nil, nil, page.Cost{}, errNotModified
		}
		members, rest, size := say(t)
		z.wanted = z.wanted && len(members) >= compressFrom
		return slices.Clone(members), rest, page.Cost{Kept: len(members)*memberBytes + size}, nil
	})
	if errors.Is(err, errNotModified) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	z.close()
	return err
}

// topology is the current epoch of a cluster, one without members before the first.
func (a *api) topology(ctx context.Context, c placement.Cluster) (*placement.Topology, error) {
	t, err := a.placement.Topology(ctx, c)
	if t == nil && err == nil {
		t = placement.NewTopology(placement.DefaultPartitions)
	}
	return t, err
}

// epoch is an epoch of a cluster by its number; 0 is the current one.
func (a *api) epoch(ctx context.Context, c placement.Cluster, number int64) (*placement.Topology, error) {
	if number == 0 {
		return a.topology(ctx, c)
	}
	t, err := a.placement.Epoch(ctx, c, number)
	if t == nil && err == nil {
		return nil, contracts.Errorf(contracts.CodeNotFound,
			"this epoch has not been, or is kept no longer: earlier epochs are for a day")
	}
	return t, err
}

// entityTag names an epoch. A store that was set back can begin an epoch again, at another time.
func entityTag(t *placement.Topology) string {
	if t.Epoch == 0 {
		return `"0"`
	}
	return fmt.Sprintf(`"%d-%d"`, t.Epoch, t.At.UnixMilli())
}

// hasTag reports whether an If-None-Match header has the tag.
func hasTag(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(t), "W/") == tag {
			return true
		}
	}
	return false
}
