package cluster_test

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// greeter is a host: what a program does with the identities that it is given.
type greeter struct{}

func (greeter) Activate(_ context.Context, a cluster.Activation) error {
	fmt.Printf("%s opens, after %q\n", a.ID, a.State)
	return nil
}

func (greeter) Deactivate(_ context.Context, a cluster.Activation, reason error) {
	fmt.Printf("%s closes: %v\n", a.ID, reason)
}

// A member hosts rooms, and a caller finds them. Here both are one program with a store in memory; over HTTP the
// provider is client.Placements.
func Example() {
	ctx := context.Background()
	provider := direct.Cluster(placement.New(docstore.NewMemory(nil), nil),
		placement.Cluster{Tenant: "acme", Name: "chat"})

	m, err := cluster.NewMember(provider, "worker-1", greeter{},
		&cluster.Options{Kinds: []string{"room"}, Address: "10.0.0.5:9000"})
	if err != nil {
		panic(err)
	}
	if err := m.Start(ctx); err != nil {
		panic(err)
	}
	l := cluster.NewLocator(provider, nil)
	if err := l.Start(ctx); err != nil {
		panic(err)
	}

	lobby := cluster.Identity{Kind: "room", ID: "lobby"}
	where, err := l.Locate(ctx, lobby, nil) // where it would be: the caller goes there, and the member serves it
	fmt.Println(where.Member, where.Address, err)
	_, err = m.Serve(ctx, lobby, nil)
	fmt.Println(err, m.WriteState(ctx, lobby, []byte("two guests")))

	l.Stop()
	fmt.Println(m.Stop(ctx)) // with no other member to take it over, the room is free, and keeps its state

	// Output:
	// worker-1 10.0.0.5:9000 <nil>
	// lobby opens, after ""
	// <nil> <nil>
	// lobby closes: the member stops
	// <nil>
}
