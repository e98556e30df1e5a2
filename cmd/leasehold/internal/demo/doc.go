// Package demo shows what Leasehold promises, live: a server on the embedded store, real HTTP, and workers that
// contend, repeat themselves and die. Each act ends with a check that can fail.
//
// # What is shown
//
//  1. two workers contend for one lock; one of them is paused beyond its lease, and its stale token is rejected
//  2. a queue delivers one task five times at once, and it runs once
//  3. a worker process is killed with SIGKILL in the middle of its work, and another takes the work over
//  4. a room that five callers ask for is active once; its member dies, and another serves it
//
// # Who decides
//
// What an act shows comes from the server's responses. What it checks comes from elsewhere: counters in the work
// itself, and the documents of the store. So an act fails if the server lies.
package demo
