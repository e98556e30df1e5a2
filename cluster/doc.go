// Package cluster takes part in a cluster that keeps at most one activation of each identity (a room, a session, a
// device) alive: a [Member] hosts identities, a [Locator] finds them. It needs the standard library and the libraries
// of this module only.
//
// What decides is a [Provider]: client.Placements over HTTP, or functions/direct on a store.
//
//	server, err := client.New("http://127.0.0.1:8080", nil)
//	placements := server.Placements("acme", "chat")
//
//	m, err := cluster.NewMember(placements, "worker-1", host, &cluster.Options{Kinds: []string{"room"}, Address: "10.0.0.5:9000"})
//	err = m.Start(ctx) // MEMBER_EXISTS: another process that lives has this name
//	defer m.Stop(ctx)  // hands everything over, and leaves
//
//	l := cluster.NewLocator(placements, nil)
//	err = l.Start(ctx)
//	where, err := l.Activate(ctx, cluster.Identity{Kind: "room", ID: "lobby"}, nil) // its address, once it is active
//
// # Who starts an activation
//
// A caller that needs the identity claims it; the member on which it is placed activates it. A member learns of it in
// two ways: it follows the events of the cluster, so that a claim needs no connection to it; and a caller that has
// connected to it says so by [Member.Serve], which waits for the activation and costs one request.
//
// # What "one" means
//
// A member serves while its lease lasts, counted from before the heartbeat that extended it was sent, on the monotonic
// clock and the wall clock, whichever has gone further. It stops a tenth of the lease earlier. Then the context of each
// activation ends with [ErrLost], also after the process was frozen: Done, Err and [Check] consult the clocks at each
// call. What an activation does to other systems must carry [Activation.Token] all the same, and they must compare it:
// no clock can stop what is already on its way.
//
// # States
//
//	Stopped ──Start──▶ Starting ──▶ Ready ◀──▶ NotReady
//	   ▲                              │           │
//	   └─Stop── Draining ◀─Drain,Stop─┴───Stop────┘
//
// Requests are accepted while a component is Ready, otherwise the error is a [StateError]. A member is NotReady after
// it lost its incarnation, until it has joined again; a locator while the cluster has no active member, or is out of
// reach for too long. Every change of the state, and what goes wrong, is an [Event] with its time.
package cluster
