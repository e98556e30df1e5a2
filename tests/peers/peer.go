package main

import (
	"context"
	"errors"
	"time"
)

// errHeld is the error of a try for a lock that another holds.
var errHeld = errors.New("another holds the lock")

// locker is a peer's client, in the hands of several callers at once, each with a number of its own.
type locker interface {
	// try asks once. The error is errHeld if another caller has the lock.
	try(ctx context.Context, caller int, key string) (held, error)

	// wait asks until it has the lock, by the means that the peer has for it; where those are to ask again and again, each
	// millisecond.
	wait(ctx context.Context, caller int, key string) (held, error)

	// crash lets the leases of a caller expire, as if its process had ended.
	crash(caller int)

	close() error
}

// held is a lock that a client has.
type held struct {
	release func(context.Context) error
	// renew has the lease last longer; nil where the client does that by itself, or nothing does.
	renew func(context.Context) error
	// mine is what the client says without asking: that it still has the lock. nil: it says nothing of it.
	mine  func() bool
	token int64 // what a resource can compare; 0 is nothing
}

// counter is a locker that counts its requests by itself, because they cannot be told apart on its connections.
type counter interface{ requests() int64 }

// peer is one of the programs that are compared.
type peer struct {
	name   string
	server string // what its name in servers is
	fence  string // whether a resource can tell an earlier holder from a later one
	kept   string // what survives the end of the server, and the loss of power
	lease  string // how long a lock is held, and who renews it

	// open connects so many callers with the server. ttl is how long a lease lasts, in whole seconds.
	open func(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error)
}

var peers = []peer{
	{"etcd 3.4, one node", "etcd", "revision", "each write is synced", "session, renewed by the client in the background",
		openEtcd},
	{"Leasehold, HTTP on SQLite", "http-sqlite", "token", "each write is synced", "lease, renewed on request", openHTTP},
	{"Leasehold, HTTP on memory", "http-memory", "token", "nothing", "lease, renewed on request", openHTTP},
	{"bsm/redislock", "redis", "no", "each write is synced", "expiry of the key, renewed on request", openRedislock},
	{"redsync, one server", "redis", "no", "each write is synced", "expiry of the key, renewed on request", openRedsync},
	{"Leasehold on Redis", "redis", "token", "each write is synced", "lease, renewed on request", openRedis},
	{"Leasehold, HTTP on Redis", "http-redis", "token", "each write is synced", "lease, renewed on request", openHTTP},
	{"dynamolock 2.0", "dynamodb", "no", "nothing, in the emulator", "lease, taken over after it was watched for as long",
		openDynamolock},
	{"Leasehold on DynamoDB", "dynamodb", "token", "nothing, in the emulator", "lease, renewed on request", openDynamoDB},
}
