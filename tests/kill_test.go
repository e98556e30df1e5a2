package tests

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestKillNine kills a server with SIGKILL under load, again and again on one file. Whatever it acknowledged must hold
// afterwards: no lease is lost, no token is given twice (LS-INV-002).
func TestKillNine(t *testing.T) {
	t.Parallel()
	const (
		rounds  = 4
		clients = 8
		before  = 60 // acknowledgements before the kill
	)
	k := &killed{dir: t.TempDir(), highest: map[string]int64{}}
	for round := range rounds {
		p, locks := k.restart(t)
		acknowledged := make(chan struct{}, before)
		var done sync.WaitGroup
		for n := range clients {
			done.Go(func() { k.load(t, locks, round, n, acknowledged) })
		}
		for i := range before {
			select {
			case <-acknowledged:
			case <-time.After(failAfter):
				t.Fatalf("round %d: only %d acknowledgements\n%s", round, i, p.stderr.Bytes())
			}
		}
		p.kill(t)
		done.Wait()
	}
	_, locks := k.restart(t)
	for key, most := range k.highest {
		l, err := locks.Acquire(t.Context(), "acme", key, contracts.AcquireRequest{OwnerID: "last", TTLSeconds: 60})
		if err != nil || l.FencingToken <= most {
			t.Errorf("%s: token %d after %d, %v", key, l.FencingToken, most, err)
		}
	}
	if len(k.held) < rounds*before || len(k.highest) == 0 {
		t.Errorf("only %d leases were acknowledged, on %d shared locks", len(k.held), len(k.highest))
	}
}

// killed is what the clients of a server that is killed know for sure.
type killed struct {
	dir string

	mu      sync.Mutex
	held    []client.Lease   // acknowledged and not released
	highest map[string]int64 // token acknowledged of each shared lock
}

// hold asks for a lock that is then kept for ever.
func hold(key, owner string) contracts.AcquireRequest {
	return contracts.AcquireRequest{RequestID: "hold " + key, OwnerID: owner, TTLSeconds: 3600}
}

// restart starts the server again and looks at what was acknowledged before: asking again must give the same leases.
// Shared locks whose holders were cut off are ended by force.
func (k *killed) restart(t *testing.T) (*process, *client.LockAPI) {
	t.Helper()
	p := start(t, "--data", k.dir)
	c, err := client.New(p.url, &client.Options{Tries: 1,
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}})
	if err != nil {
		t.Fatal(err)
	}
	locks := c.LockAPI()
	for _, l := range k.held {
		got, err := locks.Acquire(t.Context(), "acme", l.LockKey, hold(l.LockKey, l.OwnerID))
		if err != nil || got.FencingToken != l.FencingToken || got.LeaseID != l.LeaseID || !got.Replayed {
			t.Fatalf("%s was granted with token %d, lease %s; now %+v, %v", l.LockKey, l.FencingToken, l.LeaseID, got, err)
		}
	}
	for key := range k.highest {
		_, err := locks.ForceRelease(t.Context(), "acme", key, contracts.ForceReleaseRequest{
			OwnerID: "admin", Reason: "its holder was cut off"})
		if err != nil && !errors.Is(err, contracts.CodeLockNotHeld) {
			t.Fatal(err)
		}
	}
	return p, locks
}

// load takes locks until the server is gone: in each turn one that is kept, and one that several clients fight for.
func (k *killed) load(t *testing.T, locks *client.LockAPI, round, n int, acknowledged chan<- struct{}) {
	owner, shared := fmt.Sprint("owner ", n), fmt.Sprint("shared ", n%4)
	for turn := 0; ; turn++ {
		key := fmt.Sprintf("kept %d.%d.%d", round, n, turn)
		kept, err := locks.Acquire(t.Context(), "acme", key, hold(key, owner))
		if err != nil {
			return
		}
		k.mu.Lock()
		k.held = append(k.held, kept)
		k.mu.Unlock()

		won, err := locks.Acquire(t.Context(), "acme", shared, contracts.AcquireRequest{OwnerID: owner, TTLSeconds: 3600})
		switch {
		case err == nil:
			// No other client can get the lock before this one releases it, so the order here is that of the grants.
			k.mu.Lock()
			if won.FencingToken <= k.highest[shared] {
				t.Errorf("round %d: %s was granted with token %d after %d", round, shared, won.FencingToken, k.highest[shared])
			}
			k.highest[shared] = won.FencingToken
			k.mu.Unlock()
			if _, err = locks.Release(t.Context(), "acme", shared, contracts.ReleaseRequest{
				OwnerID: owner, FencingToken: won.FencingToken}); err != nil {
				return
			}
		case !errors.Is(err, contracts.CodeLockHeld):
			return
		}
		select {
		case acknowledged <- struct{}{}:
		default: // enough for this round
		}
	}
}
