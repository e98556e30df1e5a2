package suite

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// AmbiguousPlacements is [Ambiguous] for the commands of placement: a caller that retries a command until a response
// arrives gets the right one, and the command has had one effect and has left one event: no false ACTIVATION_LOCKED, no
// false STALE_TOKEN, no epoch or token more than there should be.
func AmbiguousPlacements(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	everyFate(t, newStore, ambiguousPlacement,
		"join", "replace", "beat", "offer", "drain member", "leave", "evict", "sweep",
		"claim", "claim at once", "take over", "activated", "fail", "write", "write with an alarm", "alarm", "fire",
		"fire what is free", "transfer",
		"deactivate")
}

func ambiguousPlacement(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	const ttl = time.Minute
	r := newPlacementRun(store, clock, "prod")
	before := func(c placementCommand) {
		t.Helper()
		if err := r.send(t.Context(), c, PlacementStep{}); err != nil {
			t.Fatalf("%+v to begin with: %v", c, err)
		}
		clock.Advance(time.Second)
	}
	before(placementCommand{do: "join", member: "ann", request: "first", ttl: ttl})
	step := placementCommand{do: do, member: "ann", number: r.oracle.seat("ann").Number, id: "x", request: "r1",
		ttl: ttl, data: "data"}
	claimed := func() {
		t.Helper()
		before(placementCommand{do: "claim", member: "ann", id: "x", request: "r0", ttl: ttl})
		step.token = r.oracle.activation("x").token
	}
	switch do {
	case "join":
		step.member, step.number = "bob", 0
	case "replace":
		step.do, step.member, step.replaces = "join", "bob", step.incarnation()
	case "beat":
		step.seq = 1
	case "offer":
		step.full = true
	case "evict", "sweep", "take over":
		claimed()
		if clock.Advance(2 * ttl); do == "take over" { // it evicts in another step, before the fault
			before(placementCommand{do: "evict"})
			before(placementCommand{do: "join", member: "bob", request: "second", ttl: ttl})
			step.do, step.member = "claim", "bob"
		}
	case "claim at once":
		step.do, step.self = "claim", true
	case "activated", "fail", "write":
		claimed()
	case "write with an alarm":
		claimed()
		step.do, step.alarm, step.at = "write", true, clock.Now().Add(time.Hour)
	case "alarm", "fire", "fire what is free":
		claimed()
		owned := placementCommand{do: "alarm", member: "ann", number: step.number, id: "x", token: step.token,
			at: clock.Now()}
		before(owned)
		if step.alarmVersion, step.at = 1, clock.Now().Add(time.Hour); do == "alarm" {
			break
		}
		if owned.do = "activated"; do == "fire what is free" {
			owned.do = "deactivate"
		}
		step.do = "fire"
		before(owned)
	case "deactivate", "transfer":
		claimed()
		before(placementCommand{do: "activated", member: "ann", number: step.number, id: "x", token: step.token})
		if do == "transfer" {
			before(placementCommand{do: "join", member: "bob", request: "second", ttl: ttl})
			step.to = "bob"
		}
	}

	now := clock.Now()
	var want placementAnswer
	switch step.do {
	case "evict":
		r.oracle.evict(now)
	case "sweep":
		r.oracle.sweep(now)
	case "fire":
		if given := r.oracle.fire(now); len(given) > 0 { // the token is to be learned
			want.Token = anew
		}
	default:
		want = r.oracle.answer(step, now)
	}
	got, err := untilAnswered(t, faults, fate, func(ctx context.Context) (a placementAnswer, err error) {
		switch step.do {
		case "evict":
			_, err = r.via[0].Evict(ctx, r.cluster)
		case "sweep":
			_, err = r.via[0].Sweep(ctx, 0)
		case "fire":
			_, err = r.via[0].FireAlarms(ctx)
		default:
			a, err = sendPlacement(ctx, r.via[0], r.cluster, step)
		}
		return a, err
	})
	if err == nil && want.Token == anew && step.do == "fire" {
		var o placement.Placement
		o, err = r.via[1].Lookup(t.Context(), placement.Lookup{Cluster: r.cluster, Identity: roomOf("x")})
		got.Token = o.Activation.Token
	}
	if err == nil {
		err = r.oracle.learn(step, &want, got, now, r.last)
	}
	want.Replayed = got.Replayed // whether the first sending or a later one did it is the store's affair
	if err != nil || got != want {
		t.Fatalf("after all tries:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
	if err := r.send(t.Context(), step, PlacementStep{Via: 1}); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := r.compare(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.compareEvents(t.Context()); err != nil {
		t.Error(err)
	}
}
