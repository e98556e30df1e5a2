package placement_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
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

// TestResponsesThatCameTooLate: what was over before its response arrived is no grant, and neither is its second
// delivery.
func TestResponsesThatCameTooLate(t *testing.T) {
	t.Run("heartbeat", func(t *testing.T) {
		w := newWorld(t)
		beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: w.join("ann"), Seq: 1, TTL: 10 * time.Second}
		w.want(must[placement.MemberOutcome](w)(w.slow(10*time.Second-time.Millisecond).Heartbeat(t.Context(), beat)).Code,
			placement.OK)
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.OK)
		w.clock.Advance(time.Millisecond)
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.LateAnswer)
		beat.Seq = 2
		w.want(must[placement.MemberOutcome](w)(w.slow(10*time.Second).Heartbeat(t.Context(), beat)).Code,
			placement.LateAnswer)
	})
	t.Run("join", func(t *testing.T) {
		w := newWorld(t)
		w.join("ann")
		for member, c := range map[string]struct {
			took time.Duration
			want placement.Code
		}{"bob": {10*time.Second - time.Millisecond, placement.OK}, "cid": {10 * time.Second, placement.LateAnswer}} {
			join := placement.Join{
				Cluster: w.cluster, Member: member, RequestID: "1", TTL: 10 * time.Second,
				Offer: placement.Offer{Kinds: []string{"room"}},
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

// TestHeartbeatBeforeAnEviction: a heartbeat that arrives after the lease was read, and before the eviction is written,
// keeps the member.
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

// TestDrainingIsTold: a member learns with its next heartbeat that it drains, however that began, and its next life
// does not.
func TestDrainingIsTold(t *testing.T) {
	w := newWorld(t)
	seq := int64(0)
	tells := func(i placement.Incarnation, want placement.Status) {
		t.Helper()
		seq++
		beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: i, Seq: seq, TTL: time.Minute}
		if o := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)); o.Code != placement.OK || o.Status != want {
			t.Errorf("%+v, want %s", o, want)
		}
	}
	ann := w.join("ann")
	tells(ann, placement.MemberActive)
	must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, ann))
	tells(ann, placement.MemberDraining)
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
	ann = w.join("ann")
	tells(ann, placement.MemberActive)
	w.join("bob", func(j *placement.Join) { j.Replaces = ann })
	tells(ann, placement.MemberDraining)
}

// TestRequestsOfMembersAreToldApart: a request_id that comes again has no second effect, and with other parameters it
// is refused.
func TestRequestsOfMembersAreToldApart(t *testing.T) {
	w := newWorld(t)
	join := placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "j",
		Offer: placement.Offer{Kinds: []string{"room"}}}
	first := must[placement.MemberOutcome](w)(w.Join(t.Context(), join))
	again := must[placement.MemberOutcome](w)(w.Join(t.Context(), join))
	if again.Code != placement.OK || !again.Replayed || again.Incarnation != first.Incarnation {
		t.Errorf("join: %+v, then %+v", first, again)
	}
	join.Address = "elsewhere"
	w.want(must[placement.MemberOutcome](w)(w.Join(t.Context(), join)).Code, placement.RequestIDReused)

	offer := placement.ChangeOffer{Cluster: w.cluster, Incarnation: first.Incarnation, RequestID: "o",
		Offer: placement.Offer{Full: true}}
	one := must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), offer))
	two := must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), offer))
	if one.Code != placement.OK || one.Replayed || two.Code != placement.OK || !two.Replayed || two.Epoch != one.Epoch {
		t.Errorf("offer: %+v, then %+v", one, two)
	}
	offer.Full = false
	w.want(must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), offer)).Code, placement.RequestIDReused)
}

// TestEventOfAWrongClock: a process whose clock is wrong writes no event where those who follow have been, whatever it
// does; and what it was asked to do is done.
func TestEventOfAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Minute, -25 * time.Hour, 25 * time.Hour, 30 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			w := newWorld(t)
			w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
			for i, do := range map[string]func(s *placement.Service, h placement.Hold) (placement.Outcome, error){
				"activated": func(s *placement.Service, h placement.Hold) (placement.Outcome, error) {
					return s.Activated(t.Context(), placement.Activated{Hold: h})
				},
				"failed": func(s *placement.Service, h placement.Hold) (placement.Outcome, error) {
					return s.Fail(t.Context(), placement.Fail{Hold: h, Reason: "x"})
				},
				"ended": func(s *placement.Service, h placement.Hold) (placement.Outcome, error) {
					return s.Deactivate(t.Context(), placement.Deactivate{Hold: h})
				},
			} {
				h := w.hold(w.claim(room(i)))
				w.clock.Advance(time.Minute)
				before := len(w.events())
				s := placement.New(w.store, &placement.Options{Now: func() time.Time { return w.clock.Now().Add(off) }})
				w.want(must[placement.Outcome](w)(do(s, h)).Code, placement.OK)
				all := w.events()
				if len(all) != before+1 {
					t.Fatalf("%s: %d events, want %d", i, len(all), before+1)
				}
				for _, e := range all {
					drawn, err := time.Parse("2006-01-02T15:04:05.000Z", e.ID[:24])
					if d := e.At.Sub(drawn); err != nil || d > placement.EventLag/2 || d < -time.Hour {
						t.Errorf("%s: event %s of %v, %v", i, e.ID, e.At, err)
					}
				}
			}
		})
	}
}

// TestRemovalBesideANewLife: a removal that a join comes before removes nothing, and one that a join comes after
// nothing of the new life.
func TestRemovalBesideANewLife(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, w.join("ann")))
			var bob placement.Incarnation
			var held placement.Hold
			store := &suite.Watched{Store: w.store}
			store.OnWrite = func(apply func() (docstore.Result, error)) (r docstore.Result, err error) {
				store.OnWrite = nil
				if !before {
					r, err = apply()
				}
				w.Service = w.another()
				bob = w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
				held = w.active(room("lobby"))
				if before {
					r, err = apply()
				}
				return r, err
			}
			remove := placement.RemoveCluster{Cluster: w.cluster, Epoch: 2, Reason: "x"}
			o := must[placement.Removal](w)(placement.New(store, &placement.Options{Now: w.clock.Now}).RemoveCluster(t.Context(),
				remove))
			if want := map[bool]placement.Code{true: placement.StaleEpoch, false: placement.OK}[before]; o.Code != want ||
				o.Identities != 0 {
				t.Errorf("%+v, want %s", o, want)
			}
			w.Service = w.another()
			if p := w.lookup(room("lobby")); p.Owner == nil || p.Owner.Incarnation != bob || p.Activation.Token != held.Token {
				t.Errorf("%+v", p)
			}
			beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: bob, Seq: 1}
			w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.OK)
			w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, bob)).Code, placement.OK)
		})
	}
}

// TestStateOfAnEarlierVersion: a state replaces the version that it names, and no other.
func TestStateOfAnEarlierVersion(t *testing.T) {
	w := newWorld(t)
	w.join("ann")
	h := w.active(room("lobby"))
	stores := func(request string, version int64, want placement.Code) {
		t.Helper()
		c := placement.WriteState{Hold: h, RequestID: request, Version: version, Data: []byte(request)}
		w.want(must[placement.Outcome](w)(w.WriteState(t.Context(), c)).Code, want)
	}
	stores("a", 1, placement.StateChanged)
	stores("a", 0, placement.OK)
	stores("b", 0, placement.StateChanged)
	stores("b", 1, placement.OK)
	stores("c", 1, placement.StateChanged)
	if a := w.lookup(room("lobby")).Activation; string(a.State) != "b" || a.StateVersion != 2 {
		t.Errorf("%+v", a)
	}
}

// TestAMemberClaimsWhatIsPlacedOnIt: of two members only the one on which an identity is placed can claim it for
// itself; the other is told where it is.
func TestAMemberClaimsWhatIsPlacedOnIt(t *testing.T) {
	w := newWorld(t)
	members := []placement.Incarnation{w.join("ann"), w.join("bob")}
	for i := range 10 {
		id := room(fmt.Sprint("room ", i))
		on := w.lookup(id).Placed.Incarnation
		for _, m := range slices.Backward(members) {
			o := w.claim(id, func(c *placement.Claim) { c.By = m })
			switch {
			case m == on && (o.Code != placement.OK || o.Activation.Owner != m):
				t.Errorf("%s claims what is placed on it: %+v", m.Member, o)
			case m != on && o.Code == placement.OK:
				t.Errorf("%s claims what is placed on %s: %+v", m.Member, on.Member, o)
			case m != on && o.Code == placement.MemberIneligible && o.Ineligible != placement.PlacedOnOther:
				t.Errorf("%s is told %+v", m.Member, o)
			}
		}
	}
}
