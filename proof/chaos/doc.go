// Package chaos tests the run-once gate as a whole: a queue that delivers at least once, workers that crash at any
// point, a network that loses and delays, and a gate that must not let one analysis run twice at once (BE-041).
//
//	queue ──▶ tasks.Worker.Deliver ──▶ network ──▶ gate ──▶ ledger ──▶ store
//	               │    loses, delays, delivers late          │ who wrote what
//	               ▼                                          ▼
//	             body ──────── steps with their token ────▶ Referee
//
// [Run] is a simulation in a bubble of testing/synctest: minutes pass in milliseconds, so that there can be many. The
// test of processes that are killed by signals has a queue and workers of its own, and the same [Referee].
//
// # Who says what is right
//
// The [Referee] records what workers learn and do, and package prove judges the leases that follow from it; those of
// placement, too. The ledger sees every document that a write left, and knows who wrote it. Neither shares code with
// the gate: they are written from what was promised.
//
// # What can go wrong
//
// The seed makes the choices, and the same seed makes the same ones. What falls on the same instant happens in any
// order, and the waits between two tries in once are random, so a seed that found something may need to be run again.
package chaos
