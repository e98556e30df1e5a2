package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestKilled kills redis-server with SIGKILL under load, again and again on the same files, with appendonly yes and
// appendfsync always. What it acknowledged must hold afterwards: no token is given twice (LS-INV-002).
func TestKilled(t *testing.T) {
	const (
		rounds  = 3
		clients = 4
		before  = 100 // acknowledgements before the kill
	)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	store := open(t, server, nil)
	if w := store.Warnings(); len(w) != 0 {
		t.Errorf("the server is not what this test is about: %q", w)
	}
	counter := func(n int) docstore.Key {
		return docstore.Key{Kind: "locks", Tenant: "acme", ID: fmt.Sprint("counter ", n)}
	}
	var acknowledged [clients]docstore.Int
	for round := range rounds {
		var (
			done    sync.WaitGroup
			answers = make(chan struct{}, clients*before)
		)
		for n := range clients {
			done.Go(func() {
				for {
					r, err := store.Write(t.Context(), docstore.Write{Key: counter(n), Add: map[string]int64{"token": 1}})
					if err != nil {
						if !errors.Is(err, docstore.ErrUnavailable) {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
					token, _ := r.Docs[0]["token"].(docstore.Int)
					if token <= acknowledged[n] {
						t.Errorf("round %d: token %d after %d", round, token, acknowledged[n])
					}
					acknowledged[n] = token
					select {
					case answers <- struct{}{}:
					default: // enough for this round
					}
				}
			})
		}
		for i := range before {
			select {
			case <-answers:
			case <-time.After(time.Minute):
				t.Fatalf("round %d: only %d acknowledgements in a minute", round, i)
			}
		}
		server.Kill()
		done.Wait()
		server.Restart(t)
		for n, most := range acknowledged {
			snap, err := store.Get(t.Context(), counter(n))
			if err != nil {
				t.Fatal(err)
			}
			// One write may have been applied and its response lost with the server.
			if token, _ := snap.Docs[0]["token"].(docstore.Int); token != most && token != most+1 {
				t.Errorf("round %d: counter %d is %d, acknowledged was %d", round, n, token, most)
			}
		}
	}
}
