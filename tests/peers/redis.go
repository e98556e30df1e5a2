package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
)

// again is how often a peer asks that has no other way to wait.
const again = time.Millisecond

// redislockLocks is bsm/redislock.
type redislockLocks struct {
	client *redis.Client
	locks  *redislock.Client
	ttl    time.Duration
}

func openRedislock(_ context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	return &redislockLocks{c, redislock.New(c), ttl}, nil
}

func (l *redislockLocks) obtain(ctx context.Context, key string, o *redislock.Options) (release, error) {
	held, err := l.locks.Obtain(ctx, "redislock:"+key, l.ttl, o)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errHeld
	} else if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func (l *redislockLocks) try(ctx context.Context, _ int, key string) (release, error) {
	return l.obtain(ctx, key, nil)
}

func (l *redislockLocks) wait(ctx context.Context, _ int, key string) (release, error) {
	return l.obtain(ctx, key, &redislock.Options{RetryStrategy: redislock.LinearBackoff(again)})
}

func (l *redislockLocks) crash(int) {}

func (l *redislockLocks) close() error { return l.client.Close() }

// redsyncLocks is redsync on one server.
type redsyncLocks struct {
	client *redis.Client
	locks  *redsync.Redsync
	ttl    time.Duration
}

func openRedsync(_ context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	return &redsyncLocks{c, redsync.New(goredis.NewPool(c)), ttl}, nil
}

func (l *redsyncLocks) mutex(key string, more ...redsync.Option) *redsync.Mutex {
	return l.locks.NewMutex("redsync:"+key, append(more, redsync.WithExpiry(l.ttl))...)
}

func unlock(m *redsync.Mutex) release {
	return func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}
}

func (l *redsyncLocks) try(ctx context.Context, _ int, key string) (release, error) {
	m := l.mutex(key)
	err := m.TryLockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, errHeld
	}
	return unlock(m), err
}

func (l *redsyncLocks) wait(ctx context.Context, _ int, key string) (release, error) {
	m := l.mutex(key, redsync.WithTries(int(time.Hour/again)), redsync.WithRetryDelay(again))
	return unlock(m), m.LockContext(ctx)
}

func (l *redsyncLocks) crash(int) {}

func (l *redsyncLocks) close() error { return l.client.Close() }

func openRedis(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := redisstore.Open(ctx, &redisstore.Options{Addr: addr})
	return onStore(s, ttl), err
}
