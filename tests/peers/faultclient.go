package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"cirello.io/dynamolock/v2"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
)

// asFaultClient is the variable by which a process learns that it is a client of a program, and of which; its address
// and its ttl are in two more.
const asFaultClient, faultAddr, faultTTL = "PEERS_FAULT_CLIENT", "PEERS_FAULT_ADDR", "PEERS_FAULT_TTL"

// leaseholdLocks is what programs use of Leasehold: package locks, which renews a lock and says when it is lost.
type leaseholdLocks struct{ client *locks.Client }

func (l leaseholdLocks) had(h *locks.Lock, err error) (held, error) {
	if errors.Is(err, contracts.CodeLockHeld) {
		return held{}, errHeld
	} else if err != nil {
		return held{}, err
	}
	return held{release: h.Unlock, token: h.Token(), mine: func() bool { return h.Context().Err() == nil }}, nil
}

func (l leaseholdLocks) try(ctx context.Context, _ int, key string) (held, error) {
	return l.ask(ctx, key, l.client.TryLock)
}

func (l leaseholdLocks) wait(ctx context.Context, _ int, key string) (held, error) {
	return l.ask(ctx, key, l.client.Lock)
}

// ask asks until the context ends; a lock that it got is held for longer.
func (l leaseholdLocks) ask(ctx context.Context, key string,
	lock func(context.Context, string, *locks.LockOptions) (*locks.Lock, error)) (held, error) {
	return l.had(lock(ctx, key, nil))
}

func (leaseholdLocks) crash(int) {}

func (l leaseholdLocks) close() error { return nil }

func leaseholdHTTP(_ context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	server, err := client.New("http://"+addr, nil)
	if err != nil {
		return nil, err
	}
	c, err := server.Locks(tenant, &locks.Options{TTL: ttl})
	return leaseholdLocks{c}, err
}

func leaseholdRedis(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := redisstore.Open(ctx, &redisstore.Options{Addr: addr})
	if err != nil {
		return nil, err
	}
	c, err := direct.NewLocks(s, tenant, &locks.Options{TTL: ttl})
	return leaseholdLocks{c}, err
}

func leaseholdDynamoDB(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := awsdynamodb.Open(ctx, "leasehold", &awsdynamodb.Options{Client: dynamo(addr), CreateTable: true})
	if err != nil {
		return nil, err
	}
	c, err := direct.NewLocks(s, tenant, &locks.Options{TTL: ttl})
	return leaseholdLocks{c}, err
}

// dynamolockBeating is dynamolock with the heartbeat that it has by default, at the same part of the lease.
func dynamolockBeating(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error) {
	return dynamolockWith(ctx, addr, callers, ttl, dynamolock.WithHeartbeatPeriod(ttl/4))
}

// faultClient does what its standard input says, line by line: a number, a command and its arguments. The response has
// the same number. Commands run side by side, as those that send what was held back must.
func faultClient(ctx context.Context) error {
	again = 20 * time.Millisecond
	lease, err := time.ParseDuration(os.Getenv(faultTTL))
	if err != nil {
		return err
	}
	var l locker
	for _, p := range programs {
		if p.name == os.Getenv(asFaultClient) {
			l, err = p.open(ctx, os.Getenv(faultAddr), 1, lease)
		}
	}
	fmt.Println("0", said(held{}, err))
	var (
		mu sync.Mutex
		h  held
		f  *fault
	)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		number, command, most := words[0], words[1], time.Minute
		if len(words) > 3 {
			most, _ = time.ParseDuration(words[3])
		}
		switch command {
		case "mine": // at once, in this goroutine: it is what a program does that was stopped
			mu.Lock()
			text := "no"
			if h.release != nil && (h.mine == nil || h.mine()) {
				text = "yes " + strconv.FormatInt(h.token, 10)
			}
			mu.Unlock()
			fmt.Println(number, text)
			continue
		case "fault":
			f = newFault(kind(words[2]), "/etcdserverpb.KV/", "etcdserver: too many requests")
			l.(*etcdLocks).faults.arm(f) //nolint:forcetypeassert // others meet faults on their connections
			fmt.Println(number, "ok")
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			var err error
			var got held
			switch command {
			case "try", "wait":
				ask := l.try
				if command == "wait" {
					ask = l.wait
				}
				if got, err = ask(ctx, 0, words[2]); err == nil {
					mu.Lock()
					h = got
					mu.Unlock()
				}
			case "release":
				err = h.release(ctx)
			case "renew":
				if err = errItself; h.renew != nil {
					err = h.renew(ctx)
				}
			case "met":
				<-f.met
			case "send":
				close(f.goOn)
				<-f.sent
			}
			fmt.Println(number, said(got, err))
		}()
	}
	return nil
}

var errItself = errors.New("renews by itself")

// said is a result as one line.
func said(h held, err error) string {
	switch {
	case errors.Is(err, errHeld):
		return "held"
	case err != nil:
		return "error " + strings.Join(strings.Fields(err.Error()), " ")
	}
	return "ok " + strconv.FormatInt(h.token, 10)
}
