package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/wire"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

func clusterOf(r *http.Request) placement.Cluster {
	return placement.Cluster{Tenant: r.PathValue("tenant_id"), Name: r.PathValue("cluster")}
}

// member is the name of a member that the caller acts for. Without a verified subject it is the request's word. With one, members belong
// to the subject that joined them: the name is the subject, or "subject#name", and a request may leave the subject out.
func (c Caller) member(name string) (string, error) {
	if c.Subject == "" || name == "" {
		return name, nil // the rules look at it
	}
	whole, err := c.lockOwner(name)
	switch {
	case err == nil:
		return whole, nil
	case strings.Contains(name, "#"):
		return "", contracts.Errorf(contracts.CodePermissionDenied, "the member belongs to another subject: yours begin with %q", clip(escaped(c.Subject)+"#"))
	default:
		return "", field.Errorf("member", "is 1 to %d letters, digits, '.', '_' and '-' after your subject, or that whole name", maxSuffixBytes)
	}
}

// incarnation is the incarnation of a member that the caller acts for.
func (c Caller) incarnation(member string, number int64) (placement.Incarnation, error) {
	name, err := c.member(member)
	return placement.Incarnation{Member: name, Number: number}, err
}

// defaultSeconds is the time to live of members and lock phases where a body has none.
const defaultSeconds = int64(placement.DefaultTTL / time.Second)

// seconds is a time to live of a body.
func seconds(name string, n int64) (time.Duration, error) {
	err := field.Range(name, n, int64(placement.MinTTL/time.Second), int64(placement.MaxTTL/time.Second))
	return time.Duration(n) * time.Second, err
}

// offer is what a body says that a member offers.
func offer(kinds []string, labels contracts.Labels, weight int64, full bool) (placement.Offer, error) {
	if kinds == nil {
		return placement.Offer{}, field.Errorf("kinds", "is required: a list of the kinds of identities that the member hosts, which may be empty")
	}
	return placement.Offer{Kinds: kinds, Labels: labels, Weight: int(weight), Full: full}, field.Range("weight", weight, 0, placement.MaxWeight)
}

func (a *api) joinCluster(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.MemberJoinRequest{TTLSeconds: defaultSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	if err := field.Range("partitions", body.Partitions, 0, placement.MaxPartitions); err != nil {
		return err
	}
	o, err := offer(body.Kinds, body.Labels, body.Weight, body.Full)
	if err != nil {
		return err
	}
	return a.join(w, r, c, body.TTLSeconds, placement.Join{
		Offer: o, Address: body.Address, RequestID: body.RequestID, Partitions: int(body.Partitions),
	})
}

func (a *api) replaceMember(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.MemberReplaceRequest{TTLSeconds: defaultSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	old := body.Replaces
	if old.Member == "" || old.Incarnation == 0 {
		return field.Errorf("replaces", "is required: an object with the member and the incarnation that this one replaces")
	}
	replaces, err := c.incarnation(old.Member, old.Incarnation)
	if err != nil {
		return err
	}
	o, err := offer(body.Kinds, body.Labels, body.Weight, body.Full)
	if err != nil {
		return err
	}
	auditNote(r, slog.String("replaces", replaces.Member))
	return a.join(w, r, c, body.TTLSeconds, placement.Join{Offer: o, Address: body.Address, RequestID: body.RequestID, Replaces: replaces})
}

// join makes the member of the path.
func (a *api) join(w http.ResponseWriter, r *http.Request, c Caller, ttl int64, command placement.Join) error {
	var err error
	if command.Member, err = c.member(r.PathValue("member")); err != nil {
		return err
	}
	if command.TTL, err = seconds("ttl_seconds", ttl); err != nil {
		return err
	}
	command.Cluster = clusterOf(r)
	auditNote(r, slog.String("owner", command.Member))
	o, err := a.placement.Join(r.Context(), command)
	return sendMember(w, r, o, err)
}

func (a *api) heartbeatMember(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.MemberHeartbeatRequest{TTLSeconds: defaultSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	i, err := c.incarnation(r.PathValue("member"), body.Incarnation)
	if err != nil {
		return err
	}
	ttl, err := seconds("ttl_seconds", body.TTLSeconds)
	if err != nil {
		return err
	}
	o, err := a.placement.Heartbeat(r.Context(), placement.Heartbeat{Cluster: clusterOf(r), Incarnation: i, Seq: body.Seq, TTL: ttl})
	return sendMember(w, r, o, err)
}

// ofMember handles a command that names an incarnation of the path's member and nothing else. An administrator may name any member, by
// its whole name.
func (a *api) ofMember(anyone bool, do func(context.Context, placement.Cluster, placement.Incarnation) (placement.MemberOutcome, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		var body contracts.MemberRequest
		if err := decode(w, r, MaxBodyBytes, &body); err != nil {
			return err
		}
		i := placement.Incarnation{Member: r.PathValue("member"), Number: body.Incarnation}
		if !anyone || !c.Admin || !strings.Contains(i.Member, "#") {
			var err error
			if i.Member, err = c.member(i.Member); err != nil {
				return err
			}
		}
		auditNote(r, slog.String("owner", i.Member))
		o, err := do(r.Context(), clusterOf(r), i)
		return sendMember(w, r, o, err)
	}
}

func (a *api) evictMember(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "evicting a member needs the administrator's scope")
	}
	var body contracts.MemberEvictRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	i := placement.Incarnation{Member: r.PathValue("member"), Number: body.Incarnation}
	auditNote(r, slog.String("owner", i.Member), slog.String("reason", body.Reason))
	o, err := a.placement.Expel(r.Context(), placement.Expel{Cluster: clusterOf(r), Incarnation: i, Reason: body.Reason})
	return sendMember(w, r, o, err)
}

func (a *api) removeCluster(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "removing a cluster needs the administrator's scope")
	}
	var body contracts.ClusterRemoveRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	command := placement.RemoveCluster{Cluster: clusterOf(r), Epoch: body.Epoch, Reason: body.Reason}
	auditNote(r, slog.Int64("epoch", body.Epoch), slog.String("reason", body.Reason))
	o, err := a.placement.RemoveCluster(r.Context(), command)
	switch {
	case err != nil:
		return err
	case o.Code == placement.OK:
		factsOf(r).Replayed = o.Replayed
		return send(w, contracts.ClusterRemoved{
			TenantID: command.Tenant, Cluster: command.Name, Epoch: command.Epoch, Identities: int64(o.Identities), Replayed: o.Replayed,
		})
	default:
		e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
		e.Epoch, e.RetryAfter = o.Epoch, o.RetryAfter
		return e
	}
}

func (a *api) changeOffer(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.MemberOfferRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	i, err := c.incarnation(r.PathValue("member"), body.Incarnation)
	if err != nil {
		return err
	}
	offered, err := offer(body.Kinds, body.Labels, body.Weight, body.Full)
	if err != nil {
		return err
	}
	o, err := a.placement.ChangeOffer(r.Context(), placement.ChangeOffer{
		Cluster: clusterOf(r), Incarnation: i, RequestID: body.RequestID, Offer: offered, Address: body.Address,
	})
	return sendMember(w, r, o, err)
}

// sendMember sends the outcome of a command on a member.
func sendMember(w http.ResponseWriter, r *http.Request, o placement.MemberOutcome, err error) error {
	moved(r, o)
	if err != nil {
		return err
	}
	body, err := wire.MemberState(o)
	if err != nil {
		return err
	}
	return send(w, body)
}

// epochBody is what a response says about an epoch beside its members.
type epochBody struct {
	Cluster   string                  `json:"cluster"`
	Status    contracts.ClusterStatus `json:"status"`
	Epoch     int64                   `json:"epoch"`
	ChangedAt contracts.Time          `json:"changed_at,omitempty"`
}

func bodyOf(c placement.Cluster, t *placement.Topology) epochBody {
	return epochBody{Cluster: c.Name, Status: wire.Status(t), Epoch: t.Epoch, ChangedAt: wire.Time(t.At)}
}

// tableBody is what follows the members of a topology.
type tableBody struct {
	epochBody

	Cause       string `json:"cause,omitempty"`
	HashVersion int64  `json:"hash_version"`
	Partitions  int    `json:"partitions"`
	Table       []int  `json:"table"`
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
	return sendList(a, w, r, "members", wire.Member, func(ctx context.Context) ([]placement.Member, any, page.Cost, error) {
		t, err := a.topology(ctx, clusterOf(r))
		if err != nil {
			return nil, nil, page.Cost{}, err
		}
		return slices.Clone(t.Members), bodyOf(clusterOf(r), t), page.Cost{Kept: len(t.Members) * memberBytes}, nil
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
	err = sendList(a, w, r, "members", wire.Member, func(ctx context.Context) ([]placement.Member, any, page.Cost, error) {
		c := clusterOf(r)
		t, err := a.epoch(ctx, c, epoch)
		if err != nil {
			return nil, nil, page.Cost{}, err
		}
		tag := entityTag(t)
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, no-cache") // to be kept, and asked for again
		if hasTag(r.Header.Get("If-None-Match"), tag) {
			return nil, nil, page.Cost{}, errNotModified
		}
		table := t.Table()
		return slices.Clone(t.Members), tableBody{bodyOf(c, t), t.Cause, placement.HashVersion, len(table), table},
			page.Cost{Kept: len(t.Members)*memberBytes + len(table)*12}, nil // the table, and its JSON
	})
	if errors.Is(err, errNotModified) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
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
		return nil, contracts.Errorf(contracts.CodeNotFound, "this epoch has not been, or is kept no longer: earlier epochs are for a day")
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
