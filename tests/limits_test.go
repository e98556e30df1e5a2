package tests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// TestLimitsOfATenant: a tenant has as many locks and runs as the server allows, also after a restart; those that it
// has work as before.
func TestLimitsOfATenant(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "sqlite"} {
		t.Run(store, func(t *testing.T) {
			args := []string{"--store", store, "--max-locks-per-tenant", "3", "--max-runs-per-tenant", "1"}
			if store == "sqlite" {
				args = append(args, "--data", t.TempDir())
			}
			p := start(t, args...)
			acquire := func(tenant, key, request string) (client.Lease, error) {
				t.Helper()
				c, err := client.New(p.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				return c.LockAPI().Acquire(unhurried(t), tenant, key, contracts.AcquireRequest{RequestID: request, OwnerID: "ann",
					TTLSeconds: 3600})
			}
			limited := func(tenant, key string) {
				t.Helper()
				var e *contracts.Error
				if _, err := acquire(tenant, key, "r1"); !errors.As(err, &e) || e.Code != contracts.CodeLockLimit ||
					e.Status != 429 || e.RetryAfter <= 0 {
					t.Errorf("%s of %s: %v", key, tenant, err)
				}
			}
			begin := func(id string) error {
				t.Helper()
				c, err := client.New(p.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Runs("acme").Acquire(unhurried(t), once.Acquire{RunID: id, Owner: "ann", RequestID: "r1",
					TTL: time.Hour})
				return err
			}
			if err := begin("a"); err != nil {
				t.Fatal(err)
			}
			runLimited := func() {
				t.Helper()
				var e *contracts.Error
				if err := begin("b"); !errors.As(err, &e) || e.Code != contracts.CodeRunLimit || e.Status != 429 ||
					e.RetryAfter <= 0 {
					t.Errorf("a second run: %v", err)
				}
				if err := begin("a"); err != nil {
					t.Errorf("a retry of the first: %v", err)
				}
			}
			runLimited()
			for _, key := range []string{"a", "b", "c"} {
				if _, err := acquire("acme", key, "r1"); err != nil {
					t.Fatal(err)
				}
			}
			limited("acme", "d")
			if _, err := acquire("acmf", "d", "r1"); err != nil {
				t.Errorf("another tenant: %v", err)
			}
			if l, err := acquire("acme", "c", "r1"); err != nil || !l.Replayed {
				t.Errorf("a retry: %+v, %v", l, err)
			}
			if _, err := acquire("acme", "c", "r2"); !errors.Is(err, contracts.CodeLockHeld) {
				t.Errorf("a lock that is held: %v", err)
			}
			if store == "memory" {
				return
			}
			p.kill(t)
			p = start(t, args...)
			limited("acme", "d")
			runLimited()
			for i := range 2 {
				if _, err := acquire("acmf", fmt.Sprint("e", i), "r1"); err != nil {
					t.Errorf("another tenant after a restart: %v", err)
				}
			}
			limited("acmf", "f")
		})
	}
}
