package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcdLocks is etcd with its package concurrency: a session for each caller, a mutex for each lock.
type etcdLocks struct {
	client   *etcd.Client
	sessions []*concurrency.Session
	sent     atomic.Int64
	faults   injector
}

func openEtcd(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error) {
	l := &etcdLocks{}
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		l.sent.Add(1)
		return l.faults.call(ctx, method, func(ctx context.Context) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		})
	}
	var err error
	l.client, err = etcd.New(etcd.Config{
		Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(), Context: ctx,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
	})
	if err != nil {
		return nil, err
	}
	for range callers {
		s, err := concurrency.NewSession(l.client, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			return nil, errors.Join(err, l.client.Close())
		}
		l.sessions = append(l.sessions, s)
	}
	return l, nil
}

func (l *etcdLocks) try(ctx context.Context, caller int, key string) (held, error) {
	m := concurrency.NewMutex(l.sessions[caller], "/locks/"+key)
	if err := m.TryLock(ctx); errors.Is(err, concurrency.ErrLocked) {
		return held{}, errHeld
	} else if err != nil {
		return held{}, fmt.Errorf("try: %w", err)
	}
	return l.held(m, caller), nil
}

func (l *etcdLocks) wait(ctx context.Context, caller int, key string) (held, error) {
	m := concurrency.NewMutex(l.sessions[caller], "/locks/"+key)
	if err := m.Lock(ctx); err != nil {
		return held{}, err
	}
	return l.held(m, caller), nil
}

func (l *etcdLocks) held(m *concurrency.Mutex, caller int) held {
	return held{release: m.Unlock, token: m.Header().GetRevision(), mine: func() bool {
		select {
		case <-l.sessions[caller].Done():
			return false
		default:
			return true
		}
	}}
}

func (l *etcdLocks) crash(caller int) { l.sessions[caller].Orphan() }

func (l *etcdLocks) requests() int64 { return l.sent.Load() }

func (l *etcdLocks) close() error { return l.client.Close() }
