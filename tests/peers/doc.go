// Command peers measures Leasehold beside the programs that people pick for the same work: etcd, bsm/redislock, redsync
// and dynamolock. One run, one machine, the same keys, each program with the server that it needs.
//
//	go -C tests/peers run .                                         print the tables
//	go -C tests/peers run . -write ../../docs/internals/performance.md        put them into the page
//	go -C tests/peers run . -only 'etcd|sqlite'
//	go -C tests/peers run . -faults -write ../../docs/internals/faults.md     put faults to them, and to Powertools
//
// Peers take turns: each slice of time of one is followed by one of the next, in another order each round, so that what
// else the machine does meets all of them. Compare the lines of one table with each other, not with those of another
// machine.
//
// It needs etcd and redis-server (Debian: etcd-server, redis-server). A peer whose server is missing is skipped, and
// the page names it. Some faults need node, and Powertools for AWS Lambda
// (TypeScript), which .ci/run tools installs.
package main
