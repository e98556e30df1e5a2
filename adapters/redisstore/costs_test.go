package redisstore_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestCosts: a command is one request, whatever becomes of it, but for the first of its shape since the server began; a
// look is one, a list two.
func TestCosts(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		locks := lock.New(open(t, server, &redisstore.Options{Now: clock.Now}), nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		acquire := func(owner, request string) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: 60})
			}
		}
		first := clock.Now().UnixMicro() + 1 // the first token
		renew := func(later int64) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", Token: first + later, RequestID: "n1",
					TTLSeconds: 60})
			}
		}
		release := func(later int64) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: first + later, RequestID: "e1"})
			}
		}
		look := func() (lock.Outcome, error) {
			_, _, err := locks.Get(t.Context(), id)
			return lock.Outcome{Code: lock.OK}, err
		}
		list := func() (lock.Outcome, error) {
			p, err := locks.List(t.Context(), lock.List{Tenant: "acme"})
			if err == nil && len(p.Locks) != 1 {
				err = fmt.Errorf("%d locks", len(p.Locks))
			}
			return lock.Outcome{Code: lock.OK}, err
		}
		steps := []struct {
			name string
			wait time.Duration
			do   func() (lock.Outcome, error)
			code lock.Code
			cost map[string]int
		}{
			{"the first command of all", 0, acquire("ann", "r1"), lock.OK, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"acquire, replayed", 0, acquire("ann", "r1"), lock.OK, nil},
			{"acquire, held", 0, acquire("bob", "r2"), lock.Held, nil},
			{"the first renewal of all", 0, renew(0), lock.OK, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"renew, replayed", 0, renew(0), lock.OK, nil},
			{"renew, replayed again", 0, renew(0), lock.OK, nil},
			{"the first release of all", 0, release(7), lock.LeaseLost, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"release", 0, release(0), lock.OK, nil},
			{"release, replayed", 0, release(0), lock.OK, nil},
			{"acquire, free", 0, acquire("bob", "r3"), lock.OK, nil},
			{"renew, lost", 0, renew(0), lock.LeaseLost, nil},
			{"acquire, expired", time.Hour, acquire("ann", "r4"), lock.OK, nil},
			{"the first look of all", 0, look, lock.OK, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"look", 0, look, lock.OK, nil},
			{"the first list of all", 0, list, lock.OK, map[string]int{"EVALSHA": 2, "EVAL": 1}},
			{"list", 0, list, lock.OK, map[string]int{"EVALSHA": 2}},
		}
		for _, step := range steps {
			if step.cost == nil {
				step.cost = map[string]int{"EVALSHA": 1}
			}
			clock.Advance(step.wait)
			server.ResetCommands()
			if o, err := step.do(); err != nil || o.Code != step.code {
				t.Errorf("%s: %s, error %v, want %s", step.name, o.Code, err, step.code)
			}
			if got := server.Commands(); !maps.Equal(got, step.cost) {
				t.Errorf("%s: sent %v, want %v", step.name, got, step.cost)
			}
		}
	})
}
