package client_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

func placements(t *testing.T, base string, transport http.RoundTripper) *client.Placements {
	t.Helper()
	c, err := client.New(base, &client.Options{HTTP: &http.Client{Transport: transport, Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Placements("acme", "chat")
}

// TestLifeOfACluster goes over a real connection through the real handler: every operation of placement, in one story.
func TestLifeOfACluster(t *testing.T) {
	base, clock := serve(t)
	p, ctx := placements(t, base, nil), t.Context()
	fails := func(err error, code contracts.Code) *contracts.Error {
		t.Helper()
		e, ok := errors.AsType[*contracts.Error](err)
		if !ok || e.Code != code {
			t.Fatalf("got %v, want %s", err, code)
		}
		return e
	}
	if top, err := p.Topology(ctx); err != nil || top.Epoch != 0 || top.Status != contracts.ClusterUndetermined {
		t.Errorf("before the first member: %+v, %v", top, err)
	}
	_, err := p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{})
	fails(err, contracts.CodeTopologyUndetermined)

	ann, err := p.Join(ctx, "ann", contracts.MemberJoinRequest{Kinds: []string{"room"}, Partitions: 16,
		Address: "ann:1", TTLSeconds: 10})
	if err != nil || ann.Epoch != 1 || ann.RemainingMs != 10_000 || ann.Moved != 16 {
		t.Fatalf("%+v, %v", ann, err)
	}
	_, err = p.Join(ctx, "ann", contracts.MemberJoinRequest{Kinds: []string{"room"}})
	if e := fails(err, contracts.CodeMemberExists); e.RetryAfter != 10*time.Second || e.Incarnation != ann.Incarnation {
		t.Errorf("%+v", e)
	}
	clock.Advance(3 * time.Second)
	if s, err := p.Heartbeat(ctx, "ann", contracts.MemberHeartbeatRequest{Incarnation: ann.Incarnation, Seq: 1,
		TTLSeconds: 20}); err != nil || s.RemainingMs != 20_000 {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = p.Heartbeat(ctx, "ann", contracts.MemberHeartbeatRequest{Incarnation: ann.Incarnation - 1, Seq: 1})
	fails(err, contracts.CodeStaleIncarnation)
	_, err = p.Heartbeat(ctx, "bob", contracts.MemberHeartbeatRequest{Incarnation: 1, Seq: 1})
	fails(err, contracts.CodeMemberUnknown)
	_, err = p.Activation(ctx, "room", "a/b")
	fails(err, contracts.CodeNotFound)

	claimed, err := p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{})
	if err != nil || claimed.Activation.Phase != contracts.PhaseLocked || claimed.Activation.Member != "ann" ||
		claimed.Activation.Address != "ann:1" {
		t.Fatalf("%+v, %v", claimed, err)
	}
	hold := contracts.ActivationHoldRequest{Member: "ann", Incarnation: ann.Incarnation,
		FencingToken: claimed.Activation.FencingToken}
	_, err = p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{})
	if e := fails(err, contracts.CodeActivationLocked); e.RetryAfter <= 0 {
		t.Errorf("%+v", e)
	}
	if _, err := p.Failed(ctx, "room", "a/b", contracts.ActivationFailedRequest{
		Member: hold.Member, Incarnation: hold.Incarnation, FencingToken: hold.FencingToken, Reason: "no disk",
	}); err != nil {
		t.Error(err)
	}
	_, err = p.Activated(ctx, "room", "a/b", hold)
	fails(err, contracts.CodeWrongPhase)
	if claimed, err = p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{}); err != nil {
		t.Fatal(err)
	}
	stale := hold
	hold.FencingToken = claimed.Activation.FencingToken
	if o, err := p.Activated(ctx, "room", "a/b", hold); err != nil || o.Activation.Phase != contracts.PhaseActive {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = p.Activated(ctx, "room", "a/b", stale)
	fails(err, contracts.CodeStaleToken)
	_, err = p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{})
	if e := fails(err, contracts.CodeActivationExists); e.Activation == nil || e.Activation.Member != "ann" {
		t.Errorf("%+v", e)
	}
	write := contracts.ActivationStateRequest{Member: hold.Member, Incarnation: hold.Incarnation,
		FencingToken: hold.FencingToken, State: []byte("one")}
	if o, err := p.WriteState(ctx, "room", "a/b", write); err != nil || o.Activation.StateVersion != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = p.WriteState(ctx, "room", "a/b", write)
	fails(err, contracts.CodeStateChanged)

	bob, err := p.Join(ctx, "bob", contracts.MemberJoinRequest{Kinds: []string{}, TTLSeconds: 600})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Transfer(ctx, "room", "a/b", contracts.ActivationTransferRequest{
		Member: hold.Member, Incarnation: hold.Incarnation, FencingToken: hold.FencingToken, To: "bob",
	})
	if e := fails(err, contracts.CodeMemberIneligible); e.Ineligible != contracts.LacksKind {
		t.Errorf("%+v", e)
	}
	_, err = p.Lookup(ctx, "room", "a/b", cluster.Query{Epoch: 1})
	if e := fails(err, contracts.CodeStaleEpoch); e.Epoch != 2 {
		t.Errorf("%+v", e)
	}
	if s, err := p.ChangeOffer(ctx, "bob", contracts.MemberOfferRequest{Incarnation: bob.Incarnation,
		Kinds: []string{"room"}, Labels: contracts.Labels{"zone": "b&c"}}); err != nil || s.Epoch != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if where, err := p.Lookup(ctx, "room", "a/b", cluster.Query{Labels: map[string]string{"zone": "b&c"},
		Epoch: 3}); err != nil ||
		where.Placed == nil || where.Placed.Member != "bob" || where.Owner == nil || where.Owner.Member != "ann" ||
		string(where.Activation.State) != "one" {
		t.Errorf("%+v, %v", where, err)
	}
	moved, err := p.Transfer(ctx, "room", "a/b", contracts.ActivationTransferRequest{
		Member: hold.Member, Incarnation: hold.Incarnation, FencingToken: hold.FencingToken, To: "bob",
	})
	if err != nil || moved.Activation.Member != "bob" || moved.Activation.FencingToken != hold.FencingToken+1 {
		t.Fatalf("%+v, %v", moved, err)
	}
	if _, err := p.Deactivate(ctx, "room", "a/b", contracts.ActivationEndRequest{
		Member: "bob", Incarnation: bob.Incarnation, FencingToken: moved.Activation.FencingToken, Reason: "empty",
	}); err != nil {
		t.Error(err)
	}
	if a, err := p.Activation(ctx, "room", "a/b"); err != nil || a.Phase != contracts.PhaseFree || a.Reason != "empty" ||
		string(a.State) != "one" {
		t.Errorf("%+v, %v", a, err)
	}
	if page, err := p.Activations(ctx, client.ActivationQuery{Kind: "room", PageSize: 1}); err != nil ||
		len(page.Activations) != 1 || page.Epoch != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	if s, err := p.Drain(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation}); err != nil ||
		s.Status != contracts.MemberDraining || s.Epoch != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := p.Leave(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation}); err != nil ||
		s.Status != contracts.MemberLeft {
		t.Errorf("%+v, %v", s, err)
	}
	cleo, err := p.Replace(ctx, "cleo", contracts.MemberReplaceRequest{
		Kinds: []string{"room"}, TTLSeconds: 600, Replaces: contracts.Incarnation{
			Member: "bob", Incarnation: bob.Incarnation},
	})
	if err != nil || cleo.Moved != 16 {
		t.Errorf("%+v, %v", cleo, err)
	}
	if s, err := p.Evict(ctx, "bob", contracts.MemberEvictRequest{Incarnation: bob.Incarnation,
		Reason: "hangs"}); err != nil || s.Status != contracts.MemberDead {
		t.Errorf("%+v, %v", s, err)
	}
	if l, err := p.Members(ctx); err != nil || len(l.Members) != 1 || l.Members[0].Member != "cleo" ||
		l.Status != contracts.ClusterReady {
		t.Errorf("%+v, %v", l, err)
	}
	for range 2 { // the second time it is not sent again
		if top, err := p.Topology(ctx); err != nil || len(top.Table) != 16 || top.Table[15] != 0 {
			t.Errorf("%+v, %v", top, err)
		}
	}
	if first, err := p.Epoch(ctx, 1); err != nil || first.Epoch != 1 || len(first.Table) != 16 {
		t.Errorf("%+v, %v", first, err)
	}
	if _, err := p.Epoch(ctx, 1000); !errors.Is(err, contracts.CodeNotFound) {
		t.Errorf("an epoch that has not been: %v", err)
	}
	page, err := p.Events(ctx, cluster.EventQuery{After: "2026-01-01T00:00:00.000Z"})
	if err != nil || len(page.Events) < 14 || page.Events[0].Member != "ann" || page.Next == "" {
		t.Errorf("%d events, %v", len(page.Events), err)
	}
}
