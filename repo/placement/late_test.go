package placement_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// slow is a service on a store that takes a time to respond to each write.
func (w *world) slow(d time.Duration) *placement.Service {
	store := &suite.Watched{Store: w.store}
	store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		r, err := apply()
		w.clock.Advance(d)
		return r, err
	}
	return placement.New(store, &placement.Options{Now: w.clock.Now})
}

// TestResponsesThatCameTooLate: what was over before its response arrived is no grant, and neither is its second delivery.
func TestResponsesThatCameTooLate(t *testing.T) {
	t.Run("heartbeat", func(t *testing.T) {
		w := newWorld(t)
		beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: w.join("ann"), Seq: 1, TTL: 10 * time.Second}
		w.want(must[placement.MemberOutcome](w)(w.slow(10*time.Second-time.Millisecond).Heartbeat(t.Context(), beat)).Code, placement.OK)
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.OK)
		w.clock.Advance(time.Millisecond)
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.LateAnswer)
		beat.Seq = 2
		w.want(must[placement.MemberOutcome](w)(w.slow(10*time.Second).Heartbeat(t.Context(), beat)).Code, placement.LateAnswer)
	})
	t.Run("join", func(t *testing.T) {
		w := newWorld(t)
		w.join("ann")
		for member, c := range map[string]struct {
			took time.Duration
			want placement.Code
		}{"bob": {10*time.Second - time.Millisecond, placement.OK}, "cid": {10 * time.Second, placement.LateAnswer}} {
			join := placement.Join{
				Cluster: w.cluster, Member: member, RequestID: "1", TTL: 10 * time.Second, Offer: placement.Offer{Kinds: []string{"room"}},
			}
			w.want(must[placement.MemberOutcome](w)(w.slow(c.took).Join(t.Context(), join)).Code, c.want)
		}
	})
	t.Run("claim", func(t *testing.T) {
		w := newWorld(t)
		w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
		for id, c := range map[string]struct {
			took time.Duration
			want placement.Code
		}{"lobby": {time.Second - time.Millisecond, placement.OK}, "attic": {time.Second, placement.LateAnswer}} {
			claim := placement.Claim{Cluster: w.cluster, Identity: room(id), RequestID: "1", LockTTL: time.Second}
			w.want(must[placement.Outcome](w)(w.slow(c.took).Claim(t.Context(), claim)).Code, c.want)
		}
	})
}

// TestHeartbeatBeforeAnEviction: a heartbeat that arrives after the lease was read, and before the eviction is written, keeps the member.
func TestHeartbeatBeforeAnEviction(t *testing.T) {
	w := newWorld(t)
	ann := w.join("ann")
	w.clock.Advance(10 * time.Second)
	store := &suite.Watched{Store: w.store}
	store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		store.OnWrite = nil
		beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1, TTL: 10 * time.Second}
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.OK)
		return apply()
	}
	dead, err := placement.New(store, &placement.Options{Now: w.clock.Now}).Evict(t.Context(), w.cluster)
	if err != nil || len(dead) > 0 {
		t.Errorf("evicted %v, %v", dead, err)
	}
	if top := must[*placement.Topology](w)(w.Topology(t.Context(), w.cluster)); !top.Live(ann) {
		t.Errorf("members: %+v", top.Members)
	}
}
