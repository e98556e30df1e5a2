// Package prove looks for a broken promise: it lets clients, servers and a store work in virtual time while messages
// are lost, late or doubled, clocks are wrong and processes stop, and judges all that happens.
//
// The rules are the real ones: repo/lock, repo/runs and repo/machineid, carried out on the in-memory store. Clients
// judge as the client libraries do: internal/lease says what a response means, internal/term how long a lease lasts on
// the two clocks of a process, internal/ends when a request ends. What is made here is what is between them:
//
//	client ──request──▶ network ──▶ server ──▶ rule ──▶ store
//	client ◀─response── network ◀── server ◀── outcome
//
// One world (world.go) is used twice. [Random] draws programs, faults and delays from a seed, so that a seed is a
// history that can be had again. [Every] tries all orders of a small world, breadth first, so that the first history
// that breaks a promise is a shortest one. Both do the same steps and are judged by the same judge (judge.go), which
// knows no rule of Leasehold: it only compares what was granted, what was answered, and what each client knows.
//
// Which leases may last together, and that tokens rise, is stated in leases.go alone: tests judge what programs and
// processes know of their leases by the same [OneLease] and [TokensRise].
package prove
