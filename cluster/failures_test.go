package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestFailingActivationIsPaused: 20 clients ask for an identity that cannot be activated, again and again. It is claimed
// a handful of times, each caller is told when it is due again, and those who ask for another identity are served. Once
// it can be activated, it is, when the pause is over, and a later failure begins with a short pause again.
func TestFailingActivationIsPaused(t *testing.T) {
	for name, ask := range map[string]func(context.Context, joined, *cluster.Locator, cluster.Identity) error{
		"Serve": func(ctx context.Context, m joined, _ *cluster.Locator, id cluster.Identity) error {
			_, err := m.Serve(ctx, id, nil)
			return err
		},
		"Activate": func(ctx context.Context, _ joined, l *cluster.Locator, id cluster.Identity) error {
			_, err := l.Activate(ctx, id, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var works atomic.Bool
				m := w.start("ann", func(_ *cluster.Options, h *host) {
					h.activate = func(_ context.Context, a cluster.Activation) error {
						if strings.HasPrefix(a.ID, "bad") && !works.Load() {
							return errors.New("no disk")
						}
						return nil
					}
				})
				l, lp := w.locator(nil)
				others, op := w.locator(nil)
				claims := func() int { return m.p.count("claim") + lp.count("claim") }
				before, begin := claims(), time.Now()
				var callers sync.WaitGroup
				for range 20 {
					callers.Go(func() {
						for time.Since(begin) < 5*time.Second {
							err := ask(t.Context(), m, l, room("bad"))
							failed, ok := errors.AsType[*cluster.FailedError](err)
							if !ok || failed.After <= 0 || failed.After > 8*time.Second || contracts.RetryAfter(err) != failed.After ||
								!strings.Contains(err.Error(), "no disk") {
								t.Errorf("after %v: %v, %+v", time.Since(begin), err, failed)
							}
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				for i := range 20 {
					started := time.Now()
					err := ask(t.Context(), m, others, room(fmt.Sprint("good-", i)))
					if took := time.Since(started); err != nil || took > 2*time.Second {
						t.Errorf("a good one took %v: %v", took, err)
					}
				}
				callers.Wait()
				given := 0
				for _, a := range m.given {
					if a.ID == "bad" {
						given++
					}
				}
				n := claims() - before
				if op.count("claim") == 0 {
					n -= 20 // those of the others
				}
				t.Logf("%d claims, %d activations", n, given)
				if given < 2 || given > 6 || n > 15*given {
					t.Errorf("it was activated %d times, by %d claims", given, n)
				}
				works.Store(true)
				time.Sleep(8 * time.Second)
				if err := ask(t.Context(), m, l, room("bad")); err != nil {
					t.Error(err)
				}
				if err := m.Member.Deactivate(t.Context(), room("bad"), "done"); err != nil {
					t.Error(err)
				}
				works.Store(false)
				_, err := m.Serve(t.Context(), room("bad"), nil)
				if after := contracts.RetryAfter(err); after <= 0 || after > time.Second {
					t.Errorf("after a success: %v, %v", after, err)
				}
				l.Stop()
				others.Stop()
				w.stop(m)
			})
		})
	}
}

// TestFailingActivationBehindAHandler: 20 clients get 503 with a Retry-After, at the member and through another one.
func TestFailingActivationBehindAHandler(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		ann := w.site(n, "ann", func(_ *cluster.Options, h *host) {
			h.activate = func(context.Context, cluster.Activation) error { return errors.New("no disk") }
		}, cluster.HandlerOptions{})
		front := w.site(n, "front", hostless, cluster.HandlerOptions{})
		begin := time.Now()
		var callers sync.WaitGroup
		for i := range 20 {
			through := []*site{ann, front}[i%2]
			callers.Go(func() {
				for time.Since(begin) < 5*time.Second {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+through.name()+":1/rooms/a", http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					res, err := through.client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					_ = res.Body.Close()
					after, err := strconv.Atoi(res.Header.Get("Retry-After"))
					if res.StatusCode != http.StatusServiceUnavailable || err != nil || after < 1 || after > 8 {
						t.Errorf("%d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		if n := ann.p.count("claim") + front.p.count("claim"); n < 2 || n > 6 {
			t.Errorf("%d claims in 5 s", n)
		}
		front.close()
		ann.close()
	})
}

// TestFailuresThatAreRemembered: of ten thousand identities at most.
func TestFailuresThatAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no pause ends meanwhile
		for failed, want := range map[int]int{10: 10, 10_000: 10_000, 10_001: 9001, 11_000: 10_000, 11_001: 9001} {
			if got := cluster.Remembered(failed); got != want {
				t.Errorf("%d of %d", got, failed)
			}
		}
	})
}

// TestClaimOfAPausedIdentity: a claim of another process does not end the pause at the member: that declines it, with
// the reason of before.
func TestClaimOfAPausedIdentity(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", func(_ *cluster.Options, h *host) {
			h.activate = func(context.Context, cluster.Activation) error { return errors.New("no disk") }
		})
		l, _ := w.locator(nil)
		for range 4 {
			_, err := m.Serve(t.Context(), room("a"), nil)
			time.Sleep(contracts.RetryAfter(err))
		}
		_, _ = m.Serve(t.Context(), room("a"), nil) // it is paused for 8 s at least
		given, _ := m.counts()
		if _, err := l.Activate(t.Context(), room("a"), nil); !errors.Is(err, contracts.CodeActivationFailed) ||
			!strings.Contains(err.Error(), "no disk") {
			t.Error(err)
		}
		if again, _ := m.counts(); again != given || given != 5 {
			t.Errorf("activated %d times, then %d", given, again)
		}
		l.Stop()
		w.stop(m)
	})
}
