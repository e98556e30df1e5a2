package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

const (
	tenant  = "acme"
	forLong = 20 // seconds that a request waits, the most that it may
)

// untilHad waits on where a request has waited for as long as it may.
func untilHad(acquire func() (held, error)) (held, error) {
	for {
		if r, err := acquire(); !errors.Is(err, errHeld) {
			return r, err
		}
	}
}

func owner(caller int) string { return "caller-" + strconv.Itoa(caller) }

// storeLocks is Leasehold's rule on a store.
type storeLocks struct {
	store docstore.Store
	locks *lock.Locks
	ttl   int64
}

func onStore(s docstore.Store, ttl time.Duration) *storeLocks {
	return &storeLocks{store: s, locks: lock.New(s, nil), ttl: int64(ttl / time.Second)}
}

func (l *storeLocks) acquire(ctx context.Context, caller int, key string, wait int64) (held, error) {
	id := lock.ID{Tenant: tenant, Key: key}
	o, err := l.locks.Acquire(ctx, lock.Acquire{
		ID: id, Owner: owner(caller), RequestID: client.NewRequestID(), TTLSeconds: l.ttl, WaitSeconds: wait,
	})
	switch {
	case err != nil:
		return held{}, err
	case o.Code == lock.Held:
		return held{}, errHeld
	case o.Code != lock.OK:
		return held{}, fmt.Errorf("acquire: %s", o.Code)
	}
	return held{release: func(ctx context.Context) error {
		o, err := l.locks.Release(ctx, lock.Release{ID: id, Owner: owner(caller), RequestID: client.NewRequestID(),
			Token: o.Lease.Token})
		if err == nil && o.Code != lock.OK {
			err = fmt.Errorf("release: %s", o.Code)
		}
		return err
	}}, nil
}

func (l *storeLocks) try(ctx context.Context, caller int, key string) (held, error) {
	return l.acquire(ctx, caller, key, 0)
}

func (l *storeLocks) wait(ctx context.Context, caller int, key string) (held, error) {
	return untilHad(func() (held, error) { return l.acquire(ctx, caller, key, forLong) })
}

func (l *storeLocks) crash(int) {}

func (l *storeLocks) close() error { return l.store.Close() }

// httpLocks is Leasehold's Go client.
type httpLocks struct {
	transport *http.Transport
	locks     *client.LockAPI
	ttl       int64
}

func openHTTP(_ context.Context, addr string, callers int, ttl time.Duration) (locker, error) {
	t := &http.Transport{MaxIdleConnsPerHost: callers}
	c, err := client.New("http://"+addr, &client.Options{HTTP: &http.Client{Transport: t}})
	if err != nil {
		return nil, err
	}
	return &httpLocks{t, c.LockAPI(), int64(ttl / time.Second)}, nil
}

func (l *httpLocks) acquire(ctx context.Context, caller int, key string, wait int64) (held, error) {
	lease, err := l.locks.Acquire(ctx, tenant, key, contracts.AcquireRequest{OwnerID: owner(caller), TTLSeconds: l.ttl,
		WaitSeconds: wait})
	if errors.Is(err, contracts.CodeLockHeld) {
		return held{}, errHeld
	} else if err != nil {
		return held{}, err
	}
	return held{release: func(ctx context.Context) error {
		_, err := l.locks.Release(ctx, tenant, key, contracts.ReleaseRequest{OwnerID: owner(caller),
			FencingToken: lease.FencingToken})
		return err
	}}, nil
}

func (l *httpLocks) try(ctx context.Context, caller int, key string) (held, error) {
	return l.acquire(ctx, caller, key, 0)
}

func (l *httpLocks) wait(ctx context.Context, caller int, key string) (held, error) {
	return untilHad(func() (held, error) { return l.acquire(ctx, caller, key, forLong) })
}

func (l *httpLocks) crash(int) {}

func (l *httpLocks) close() error {
	l.transport.CloseIdleConnections()
	return nil
}
