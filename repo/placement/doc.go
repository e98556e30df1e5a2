// Package placement keeps at most one activation of each identity (a room, a session, a device, a tenant) alive in a
// cluster, on a member that may host it.
//
// # Placing
//
// A cluster is divided into partitions, and an identity belongs to one of them by its hash. Each change of the members
// makes a new epoch, a [Topology]: the members, and a table that says which partition is whose. It never changes, and
// everything that is placed is a function of it: [Topology.Place]. So all who have the same epoch place alike, and who
// has one at hand asks no one.
//
// The table of an epoch is a pure function of the table before and the new members ([Topology.Next]). Members have
// equal shares, or shares by weight, rounded up or down; no more partitions move than must. A member that takes the
// place of another gets exactly its partitions.
//
// The member of its partition may not be able to host an identity: it drains, is full, does not offer the kind, lacks a
// label. Then the identity goes to one that can, by rendezvous hashing. What a member offers is part of the epoch, too.
//
// # Activating
//
// The table says where a new activation goes. It never moves one that exists: what decides where an identity lives is
// its document.
//
//	claim      reads the activation and the epoch, and writes the owner and a higher token, if the activation is still as it was read
//	           and the member as the epoch has it: one step on both
//	activated  ends the lock phase, or failed does, with the reason
//	state      is written while the token is the current one, in one step
//	transfer   makes another member the owner: a claim by the owner itself, in one step
//
// An activation is free for another claim when its owner ended it, when its lock phase is over, and when its owner is
// dead. An incarnation that left an epoch never comes back into a later one, so "it is not in the current epoch" is for
// ever.
//
// # What "one" means
//
// Each claim and transfer gets a higher token than all before, and nothing is accepted under a lower one. A process
// that was stopped and goes on does not know that it lost the identity: whatever it does to other systems must carry
// the token, and they must compare it (see repo/lock.Guard). Clocks only bound how long two processes can both run: a
// member stops when its lease ends, counted from before the heartbeat that it sent.
//
// # Members
//
// A member joins with a new incarnation, and keeps it alive with heartbeats on a document of their own, so that they
// never stand in the way of claims. A member whose lease has ended is evicted by the first caller that needs to know,
// in one step with the next epoch; a heartbeat that comes before it wins. Every change of the members is one step on
// the head of the cluster, so there is one order of epochs.
//
// # Lost responses and late duplicates
//
// As in package lock: every granting command has a request_id, and the documents remember the latest. What an owner
// does is known by its token, a heartbeat by its number.
//
// # Events
//
// Every change of a member or an activation writes its [Event] in the same step.
//
// # What no one asks for
//
// Takeovers wait until someone asks for the identity. [Service.Sweep] does what no one asks for: in all clusters it
// evicts, frees what members had that are gone, and removes what was kept for long enough.
//
// # In a program
//
// [Service] carries out commands, and keeps nothing but epochs. What joins, sends heartbeats and activates is package
// cluster.
package placement
