package placement_test

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// A member joins, a caller claims a room, and the member activates it and keeps its state.
func Example() {
	ctx := context.Background()
	s := placement.New(docstore.NewMemory(nil), nil)
	cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
	lobby := placement.Identity{Kind: "room", ID: "lobby"}

	member, err := s.Join(ctx, placement.Join{
		Cluster: cluster, Member: "worker-1", RequestID: "start-1", Address: "http://10.0.0.7:9000",
		Offer: placement.Offer{Kinds: []string{"room"}},
	})
	fmt.Println(member.Code, err)

	claim, err := s.Claim(ctx, placement.Claim{Cluster: cluster, Identity: lobby, RequestID: "visit-1"})
	fmt.Println(claim.Code, claim.Activation.Owner.Member, err)

	// In worker-1, which got the claim: the token goes along with all that it does for the room.
	hold := placement.Hold{Cluster: cluster, Identity: lobby, Owner: claim.Activation.Owner, Token: claim.Activation.Token}
	active, err := s.Activated(ctx, placement.Activated{Hold: hold})
	fmt.Println(active.Code, err)
	stored, err := s.WriteState(ctx, placement.WriteState{Hold: hold, RequestID: "move-1", Data: []byte(`{"guests":1}`)})
	fmt.Println(stored.Code, err)

	where, err := s.Lookup(ctx, placement.Lookup{Cluster: cluster, Identity: lobby})
	fmt.Println(where.Owner.Address, string(where.Activation.State), err)

	// Output:
	// OK <nil>
	// OK worker-1 <nil>
	// OK <nil>
	// OK <nil>
	// http://10.0.0.7:9000 {"guests":1} <nil>
}
