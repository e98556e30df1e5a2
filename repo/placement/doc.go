// Package placement decides on which member of a cluster an identity lives: a room, a session, a device, a tenant.
//
// # Placing
//
// A cluster is divided into partitions, and an identity belongs to one of them by its hash. Each change of the members makes a new
// epoch, a [Topology]: the members, and a table that says which partition is whose. It never changes, and everything that is
// placed is a function of it: [Topology.Place]. So all who have the same epoch place alike, and who has one at hand asks no one.
//
// The table of an epoch is a pure function of the table before and the new members ([Topology.Next]). Members have equal shares, or
// shares by weight, rounded up or down; no more partitions move than must. A member that takes the place of another gets exactly
// its partitions.
//
// The member of its partition may not be able to host an identity: it drains, is full, does not offer the kind, lacks a label. Then
// the identity goes to one that can, by rendezvous hashing. What a member offers is part of the epoch, too.
package placement
