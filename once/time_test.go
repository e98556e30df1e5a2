package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// lostAt runs work that waits for the loss of its lock of ten seconds, refreshed every five, and returns when that was.
func lostAt(t *testing.T, gate *fake) time.Duration {
	t.Helper()
	var at time.Duration
	out, err := once.Run(t.Context(), gate, "a1", func(ctx context.Context, _ once.Lock) (string, error) {
		<-ctx.Done()
		at = time.Since(bubble)
		return "", ctx.Err()
	}, &once.Options{TTL: 10 * time.Second, Heartbeat: 5 * time.Second})
	if err != nil || out.Status != once.Lost || !errors.Is(out.Err, once.ErrLost) {
		t.Fatalf("%+v, %v", out, err)
	}
	return at
}

// TestRefreshCountsFromTheRequest: the gate may have decided the moment it was asked, however late its response is.
func TestRefreshCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &fake{fault: func(_ context.Context, c call) (error, bool) {
			switch {
			case c.name != "refresh":
				return nil, false
			case c.n > 0:
				return errNetwork, false
			}
			time.Sleep(3 * time.Second) // of the first refresh, which was sent at 5 s
			return nil, false
		}}
		if at := lostAt(t, gate); at > 15*time.Second || at < 14*time.Second {
			t.Errorf("lost after %v, want 15s: ten from the request, not from the response", at)
		}
	})
}

// TestReplayedGrantHasWhatIsLeft: an acquire whose response was lost finds its own lock, of which some time has passed.
func TestReplayedGrantHasWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &fake{fault: func(_ context.Context, c call) (error, bool) {
			switch {
			case c.name == "acquire" && c.n == 0:
				return errNetwork, true
			case c.name == "acquire" && c.n == 1:
				time.Sleep(3 * time.Second)
				return errNetwork, false
			case c.name == "refresh":
				return errNetwork, false
			}
			return nil, false
		}}
		if at := lostAt(t, gate); at > 10*time.Second || at < 9*time.Second {
			t.Errorf("lost after %v, want 10s: the lock was granted at 0s", at)
		}
	})
}

// TestFinishOfADeletedAnalysis: there is nothing to finish, and nothing to retry.
func TestFinishOfADeletedAnalysis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &fake{fault: func(_ context.Context, c call) (error, bool) {
			if c.name != "finish" {
				return nil, false
			}
			e := contracts.Errorf(contracts.CodeNotFound, "there is no such analysis")
			e.Field = "analysis_id"
			return e, false
		}}
		out, err := once.Run(t.Context(), gate, "a1", func(context.Context, once.Lock) (string, error) { return "done", nil },
			nil)
		if err != nil || out.Status != once.Lost || !errors.Is(out.Err, contracts.CodeNotFound) {
			t.Errorf("%+v, %v", out, err)
		}
		want(t, "calls", gate.names(), []string{"acquire", "finish"})
		if n := len(gate.times("finish")); n != 1 {
			t.Errorf("%d requests to finish", n)
		}
	})
}

// TestSpentRequest: a lock that expired before its response arrived was never held. Its request obtains nothing more,
// and the next try is another one; a request ID that the caller chose is not changed.
func TestSpentRequest(t *testing.T) {
	for name, chosen := range map[string]string{"made up": "", "chosen": "r1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &fake{fault: func(_ context.Context, c call) (error, bool) {
					switch {
					case c.name != "acquire":
						return nil, false
					case c.n == 0:
						return contracts.Errorf(contracts.CodeLeaseExpired, "too late"), false
					case c.req == "r1", c.n == 1:
						return contracts.Errorf(contracts.CodeRequestIDReused, "spent"), false
					}
					return nil, false
				}}
				out, err := once.Run(t.Context(), gate, "a1", func(context.Context, once.Lock) (string, error) { return "", nil },
					&once.Options{RequestID: chosen})
				if chosen != "" {
					if !errors.Is(err, contracts.CodeRequestIDReused) || len(gate.times("acquire")) != 2 {
						t.Errorf("%+v, %v", out, err)
					}
					return
				}
				if err != nil || out.Status != once.Ready {
					t.Errorf("%+v, %v", out, err)
				}
				seen := map[string]bool{}
				for _, c := range gate.calls {
					if c.name == "acquire" {
						seen[c.req] = true
					}
				}
				if len(seen) != 3 {
					t.Errorf("%d request IDs in three tries", len(seen))
				}
			})
		})
	}
}
