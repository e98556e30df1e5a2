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
var again = time.Millisecond

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

func (l *redislockLocks) obtain(ctx context.Context, key string, o *redislock.Options) (held, error) {
	got, err := l.locks.Obtain(ctx, "redislock:"+key, l.ttl, o)
	if errors.Is(err, redislock.ErrNotObtained) {
		return held{}, errHeld
	} else if err != nil {
		return held{}, err
	}
	renew := func(ctx context.Context) error { return got.Refresh(ctx, l.ttl, nil) }
	return held{release: got.Release, renew: renew}, nil
}

func (l *redislockLocks) try(ctx context.Context, _ int, key string) (held, error) {
	return l.obtain(ctx, key, nil)
}

func (l *redislockLocks) wait(ctx context.Context, _ int, key string) (held, error) {
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

func redsyncHeld(m *redsync.Mutex) held {
	return held{
		release: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		},
		renew: func(ctx context.Context) error {
			_, err := m.ExtendContext(ctx)
			return err
		},
		mine: func() bool { return time.Now().Before(m.Until()) },
	}
}

func (l *redsyncLocks) try(ctx context.Context, _ int, key string) (held, error) {
	m := l.mutex(key)
	err := m.TryLockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return held{}, errHeld
	}
	return redsyncHeld(m), err
}

func (l *redsyncLocks) wait(ctx context.Context, _ int, key string) (held, error) {
	m := l.mutex(key, redsync.WithTries(int(time.Hour/again)), redsync.WithRetryDelay(again))
	return redsyncHeld(m), m.LockContext(ctx)
}

func (l *redsyncLocks) crash(int) {}

func (l *redsyncLocks) close() error { return l.client.Close() }

func openRedis(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := redisstore.Open(ctx, &redisstore.Options{Addr: addr})
	return onStore(s, ttl), err
}
