// Package placementsim tests placement as a whole: members and locators of package cluster, each with its own
// connection to a store, while processes are killed, frozen, cut off and replaced, and requests are lost, delayed and
// delivered twice.
//
//	caller ──▶ cluster.Locator ─┐                                              ┌─▶ resource that compares tokens
//	                            ├─▶ commands ──▶ network ──▶ ledger ──▶ store  │
//	host ◀──▶ cluster.Member ───┘   again, late   loses,     who wrote what    │
//	  └── body of an activation: asks whether it still runs, then writes ──────┘
//
// [Run] is one simulation in a bubble of testing/synctest: minutes pass in milliseconds.
//
// # Who says what is right
//
// The ledger stands below the rules. It sees each document that a write left, and knows which process wrote it and what
// the true time is. The [chaos.Referee] judges what the bodies of activations were told and did. Both are written from
// what was promised, and share no code with the rules.
//
// # What must never happen
//
//   - A token is given twice, or a lower one after a higher one.
//   - An activation is taken from an owner whose lease, or whose lock phase, lasts by the true time; or is given to
//     what is not an active member.
//   - A state is written under a token that is not the current one.
//   - Two bodies run under one token, or a body of an activation is told that it runs after a higher token was given.
//   - The resource takes a write under a token below one that it has seen, so that two activations of one identity take
//     effect by turns.
//   - An identity that no process can activate, once the faults are over.
//
// The seed makes the choices, and the same seed makes the same ones. What falls on the same instant happens in any
// order, and the library's own waits are random, so a seed that found something may need to be run again.
package placementsim
