package direct_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestAsOverHTTP: what a program is told is the same over HTTP and on a store, results and rejections alike.
func TestAsOverHTTP(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(&docstore.MemoryOptions{Now: now}), httpapi.Development{},
		&httpapi.Options{Now: now}))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: now})
	both := []cluster.Provider{
		c.Placements("acme", "chat"), direct.Cluster(placement.New(store, &placement.Options{Now: now}),
			placement.Cluster{Tenant: "acme", Name: "chat"}),
	}

	var ann, bob contracts.MemberState
	var token int64
	ctx := t.Context()
	claim := func(id, request string) func(cluster.Provider) (any, error) {
		return func(p cluster.Provider) (any, error) {
			return p.Claim(ctx, "room", id, contracts.ActivationClaimRequest{RequestID: request})
		}
	}
	lookup := func(kind, id string, epoch int64) func(cluster.Provider) (any, error) {
		return func(p cluster.Provider) (any, error) { return p.Lookup(ctx, kind, id, cluster.Query{Epoch: epoch}) }
	}
	write := func(owner *contracts.MemberState, token *int64, state string) func(cluster.Provider) (any, error) {
		return func(p cluster.Provider) (any, error) {
			o, err := p.WriteState(ctx, "room", "a", contracts.ActivationStateRequest{
				RequestID: "w" + state, Member: owner.Member, Incarnation: owner.Incarnation, FencingToken: *token,
				State: []byte(state),
			})
			o.Activation.State = nil // the server does not send it back
			return o, err
		}
	}
	none := int64(1)
	for _, step := range []struct {
		name string
		do   func(cluster.Provider) (any, error)
		code contracts.Code // of the rejection
	}{
		{"members of a cluster without", func(p cluster.Provider) (any, error) { return p.Members(ctx) }, ""},
		{"lookup without members", lookup("room", "a", 0), contracts.CodeTopologyUndetermined},
		{"claim without members", claim("a", "r0"), contracts.CodeTopologyUndetermined},
		{"join", func(p cluster.Provider) (s any, err error) {
			ann, err = p.Join(ctx, "ann", contracts.MemberJoinRequest{RequestID: "j", Kinds: []string{"room"}, Partitions: 16,
				Address: "ann:1", TTLSeconds: 60})
			return ann, err
		}, ""},
		{"a member that hosts nothing", func(p cluster.Provider) (s any, err error) {
			bob, err = p.Join(ctx, "bob", contracts.MemberJoinRequest{RequestID: "j", Kinds: []string{}, Partitions: 16,
				TTLSeconds: 60})
			return bob, err
		}, ""},
		{"the name is taken", func(p cluster.Provider) (any, error) {
			return p.Join(ctx, "ann", contracts.MemberJoinRequest{RequestID: "k", Kinds: []string{"room"},
				Partitions: 16, TTLSeconds: 60})
		}, contracts.CodeMemberExists},
		{"heartbeat", func(p cluster.Provider) (any, error) {
			return p.Heartbeat(ctx, "ann", contracts.MemberHeartbeatRequest{Incarnation: ann.Incarnation,
				Seq: 1, TTLSeconds: 60})
		}, ""},
		{"heartbeat of a stale incarnation", func(p cluster.Provider) (any, error) {
			return p.Heartbeat(ctx, "ann", contracts.MemberHeartbeatRequest{Incarnation: 1, Seq: 1, TTLSeconds: 60})
		}, contracts.CodeStaleIncarnation},
		{"heartbeat of an unknown member", func(p cluster.Provider) (any, error) {
			return p.Heartbeat(ctx, "zoe", contracts.MemberHeartbeatRequest{Incarnation: 1, Seq: 1, TTLSeconds: 60})
		}, contracts.CodeMemberUnknown},
		{"members", func(p cluster.Provider) (any, error) { return p.Members(ctx) }, ""},
		{"lookup", lookup("room", "a", 0), ""},
		{"lookup by an epoch that is over", lookup("room", "a", 1), contracts.CodeStaleEpoch},
		{"lookup of a kind that no member hosts", lookup("device", "a", 0), contracts.CodeNoEligibleMember},
		{"activation that was never claimed", func(p cluster.Provider) (any, error) { return p.Activation(ctx, "room", "a") },
			contracts.CodeNotFound},
		{"claim", func(p cluster.Provider) (any, error) {
			o, err := p.Claim(ctx, "room", "a", contracts.ActivationClaimRequest{RequestID: "r1"})
			token = o.Activation.FencingToken
			return o, err
		}, ""},
		{"claim, replayed", claim("a", "r1"), ""},
		{"claim beside another", claim("a", "r2"), contracts.CodeActivationLocked},
		{"failed", func(p cluster.Provider) (any, error) {
			return p.Failed(ctx, "room", "a", contracts.ActivationFailedRequest{Member: "ann", Incarnation: ann.Incarnation,
				FencingToken: token, Reason: "the disk is full"})
		}, ""},
		{"claim that failed", claim("a", "r1"), contracts.CodeActivationFailed},
		{"claim by the member itself", func(p cluster.Provider) (any, error) {
			o, err := p.Claim(ctx, "room", "a", contracts.ActivationClaimRequest{RequestID: "r3", Member: "ann",
				Incarnation: ann.Incarnation})
			token = o.Activation.FencingToken
			return o, err
		}, ""},
		{"claim for a member that may not", func(p cluster.Provider) (any, error) {
			return p.Claim(ctx, "room", "b", contracts.ActivationClaimRequest{RequestID: "r4", Member: "bob",
				Incarnation: bob.Incarnation})
		}, contracts.CodeMemberIneligible},
		{"claim of what is active", claim("a", "r5"), contracts.CodeActivationExists},
		{"state", write(&ann, &token, "one"), ""},
		{"state under an old token", write(&ann, &none, "two"), contracts.CodeStaleToken},
		{"state of another", write(&bob, &token, "three"), contracts.CodeNotOwner},
		{"lookup of what is active", lookup("room", "a", 0), ""},
		{"activation", func(p cluster.Provider) (any, error) { return p.Activation(ctx, "room", "a") }, ""},
		{"activated twice", func(p cluster.Provider) (any, error) {
			return p.Activated(ctx, "room", "a", contracts.ActivationHoldRequest{Member: "ann", Incarnation: ann.Incarnation,
				FencingToken: token})
		}, ""},
		{"transfer to a member that may not", func(p cluster.Provider) (any, error) {
			return p.Transfer(ctx, "room", "a", contracts.ActivationTransferRequest{
				RequestID: "t", Member: "ann", Incarnation: ann.Incarnation, FencingToken: token, To: "bob",
			})
		}, contracts.CodeMemberIneligible},
		{"deactivate", func(p cluster.Provider) (any, error) {
			return p.Deactivate(ctx, "room", "a", contracts.ActivationEndRequest{Member: "ann", Incarnation: ann.Incarnation,
				FencingToken: token, Reason: "empty"})
		}, ""},
		{"lookup of what is free", lookup("room", "a", 0), ""},
		{"drain", func(p cluster.Provider) (any, error) {
			return p.Drain(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation})
		}, ""},
		{"leave", func(p cluster.Provider) (any, error) {
			return p.Leave(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation})
		}, ""},
	} {
		var said [2]string
		for i, p := range both {
			result, err := step.do(p)
			if (step.code == "") != (err == nil) || step.code != "" && !errors.Is(err, step.code) {
				t.Errorf("%s, provider %d: %v, want %q", step.name, i, err, step.code)
			}
			said[i] = told(t, result, err)
		}
		if said[0] != said[1] {
			t.Errorf("%s:\nover HTTP  %s\non a store %s", step.name, said[0], said[1])
		}
		at = at.Add(time.Millisecond)
	}
}

// told is everything that a caller learns, but for the ID of the request.
func told(t *testing.T, result any, err error) string {
	t.Helper()
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		result = map[string]any{
			"code": e.Code, "detail": e.Detail, "retry_after": e.RetryAfter, "expires_at": e.ExpiresAt,
			"highest_token": e.HighestToken,
			"activation":    e.Activation, "epoch": e.Epoch, "incarnation": e.Incarnation, "ineligible": e.Ineligible,
		}
	}
	b, jsonErr := json.Marshal(result)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	return string(b)
}
