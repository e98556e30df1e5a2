package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// later is an error that asks for a pause.
func later(d time.Duration) error {
	e := contracts.Errorf(contracts.CodeRateLimited, "")
	e.RetryAfter = d
	return e
}

// TestPermanentErrorsEndTheStart: of a member and of a locator, with one request, although the status of some of them
// is 500 or more.
func TestPermanentErrorsEndTheStart(t *testing.T) {
	for _, code := range []contracts.Code{
		contracts.CodePermissionDenied, contracts.CodeInvalidArgument, contracts.CodeDocumentDamaged,
		contracts.CodeNotConfigured,
	} {
		t.Run(string(code), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				m := w.member("ann", nil)
				m.p.set(func(string) (error, bool) { return contracts.Errorf(code, ""), false })
				if err := m.Start(ctx); !errors.Is(err, code) || ctx.Err() != nil {
					t.Errorf("member: %v, %v", err, ctx.Err())
				}
				if n := m.p.count("join"); n != 1 {
					t.Errorf("%d joins in 2 minutes, want 1", n)
				}
				m.went(t, cluster.Starting, cluster.Stopped)
				p, j := w.provider(), &journal{}
				p.set(func(string) (error, bool) { return contracts.Errorf(code, ""), false })
				if err := cluster.NewLocator(p, &cluster.LocatorOptions{Observe: j.add}).Start(ctx); !errors.Is(err, code) ||
					ctx.Err() != nil {
					t.Errorf("locator: %v, %v", err, ctx.Err())
				}
				if n, told := p.count("members"), len(j.has(cluster.RequestFailed)); n != 1 || told != 1 {
					t.Errorf("%d readings of the epoch and %d events, want 1", n, told)
				}
			})
		})
	}
}

// TestPermanentErrorAfterALostJoin: it ends the start as well. What the member had joined as has ended meanwhile.
func TestPermanentErrorAfterALostJoin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		m := w.member("ann", nil)
		m.p.set(func(string) (error, bool) {
			if m.p.count("join") == 1 {
				return contracts.CodeRequestIDReused, false
			}
			return contracts.CodeNotConfigured, false
		})
		if err := m.Start(ctx); !errors.Is(err, contracts.CodeNotConfigured) || m.p.count("join") != 2 {
			t.Errorf("%v after %d joins", err, m.p.count("join"))
		}
	})
}

// asked notes when the requests of a name are sent, from now on, and makes them fail.
func asked(p *faulty, request string, err error) *[]time.Duration {
	var at []time.Duration
	begin := time.Now()
	p.set(func(sent string) (error, bool) {
		if sent != request {
			return nil, false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		at = append(at, time.Since(begin))
		return err, false
	})
	return &at
}

// within is how many times lie in the time after the first.
func within(at []time.Duration, d time.Duration) (n int) {
	for _, t := range at {
		if t-at[0] < d {
			n++
		}
	}
	return n
}

// TestHeartbeatsWaitAsTheProviderAsks: for as long as it asks, but not for more than a third of what is left; the lease
// is lost when it is over, no sooner.
func TestHeartbeatsWaitAsTheProviderAsks(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		after time.Duration
		most  int // heartbeats in 30 s
	}{
		"long lease":  {2 * time.Minute, 10 * time.Second, 4},
		"short lease": {30 * time.Second, 10 * time.Second, 14},
		"for an hour": {2 * time.Minute, time.Hour, 2},
		"not asked":   {2 * time.Minute, 0, 30},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", func(o *cluster.Options, _ *host) { o.TTL = c.ttl })
				l := m.Incarnation()
				at := asked(m.p, "heartbeat", later(c.after))
				time.Sleep(c.ttl*9/10 - time.Second)
				if m.Incarnation() != l {
					t.Error("it lost its lease before it ended")
				}
				time.Sleep(time.Second)
				m.p.set(nil)
				if n := within(*at, 30*time.Second); n > c.most || n < 2 {
					t.Errorf("%d heartbeats in 30 s, want %d at most: %v", n, c.most, *at)
				}
				for i := range (*at)[1:] {
					last, pause := (*at)[i], (*at)[i+1]-(*at)[i]
					if least := min(c.after, (c.ttl*9/10-last)/3); pause < least-time.Millisecond && least > time.Second {
						t.Errorf("%v after the heartbeat at %v, want %v", pause, last, least)
					}
				}
				w.stop(m)
			})
		})
	}
}

// TestRequestsWaitAsTheProviderAsks: every request that is sent again.
func TestRequestsWaitAsTheProviderAsks(t *testing.T) {
	const after, outage = 7 * time.Second, time.Minute
	for request, begin := range map[string]func(context.Context, *world, joined){
		"join":   func(ctx context.Context, _ *world, m joined) { _ = m.Start(ctx) },
		"events": func(ctx context.Context, _ *world, m joined) { _ = m.Start(ctx) },
		"offer": func(ctx context.Context, _ *world, m joined) {
			_ = m.Start(ctx)
			_ = m.ChangeOffer(ctx, cluster.Offer{})
		},
		"drain": func(ctx context.Context, _ *world, m joined) { _ = m.Start(ctx); _ = m.Drain(ctx) },
		"leave": func(ctx context.Context, _ *world, m joined) { _ = m.Start(ctx); _ = m.Stop(ctx) },
		"activated": func(ctx context.Context, w *world, m joined) {
			_ = m.Start(ctx)
			if _, err := m.p.Claim(ctx, "room", "a", contracts.ActivationClaimRequest{RequestID: "r",
				LockTTLSeconds: 600}); err != nil {
				w.t.Error(err)
			}
		},
		"members": func(ctx context.Context, _ *world, m joined) {
			l := cluster.NewLocator(m.p, nil)
			_ = l.Start(ctx)
			l.Stop()
		},
		"members again": func(ctx context.Context, w *world, m joined) {
			fault := m.p.fault
			m.p.set(nil)
			l := cluster.NewLocator(m.p, &cluster.LocatorOptions{MaxStale: 10 * time.Minute})
			if err := l.Start(ctx); err != nil {
				w.t.Error(err)
			}
			m.p.set(fault)
			time.Sleep(2 * outage)
			l.Stop()
		},
		"claim": func(ctx context.Context, w *world, m joined) {
			if err := m.Start(ctx); err != nil {
				w.t.Error(err)
			}
			l := cluster.NewLocator(m.p, nil)
			if err := l.Start(ctx); err != nil {
				w.t.Error(err)
			}
			_, _ = l.Activate(ctx, room("a"), nil)
			l.Stop()
		},
	} {
		t.Run(request, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.member("ann", func(o *cluster.Options, _ *host) { o.TTL = time.Hour })
				name, _, _ := strings.Cut(request, " ")
				at := asked(m.p, name, later(after))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					begin(ctx, w, m)
				}()
				time.Sleep(outage)
				m.p.set(nil)
				if n := len(*at); n < 7 || n > 9 {
					t.Errorf("sent %d times in %v, at %v", n, outage, *at)
				}
				for i := range len(*at) - 1 {
					if pause := (*at)[i+1] - (*at)[i]; pause < after {
						t.Errorf("%v after the one at %v, want %v", pause, (*at)[i], after)
					}
				}
				time.Sleep(2 * outage)
				cancel()
				<-done
				w.stop(m)
			})
		})
	}
}

// TestNoPauseOutlastsWhatIsLeft: a server that asks for an hour and is back at once keeps no member from what was
// claimed for it, and no locator from the epoch.
func TestNoPauseOutlastsWhatIsLeft(t *testing.T) {
	once := func(p *faulty, request string) {
		failed := false
		p.set(func(sent string) (error, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if sent != request || failed {
				return nil, false
			}
			failed = true
			return later(time.Hour), false
		})
	}
	t.Run("events", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.start("ann", func(o *cluster.Options, _ *host) { o.TTL = 30 * time.Second })
			once(m.p, "events")
			time.Sleep(10 * time.Second) // the reading that waits ends, and the next one fails
			read := m.p.count("events")
			time.Sleep(11 * time.Second)
			if m.p.count("events") == read {
				t.Errorf("no events were read in 11 s of a lease of 30")
			}
			w.stop(m)
		})
	})
	t.Run("members", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.start("ann", nil)
			l, p := w.locator(&cluster.LocatorOptions{MaxStale: 12 * time.Second})
			asked(p, "members", later(time.Hour))
			before := p.count("members")
			time.Sleep(time.Minute)
			if n := p.count("members") - before; n < 12 {
				t.Errorf("the epoch was asked for %d times in a minute", n)
			}
			p.set(nil)
			time.Sleep(5 * time.Second) // a third of MaxStale, and the pause of a locator
			if s := l.Status(); s.State != cluster.Ready {
				t.Errorf("%+v", s)
			}
			l.Stop()
			w.stop(m)
		})
	})
}

// TestNoLoopWithoutAPause: a provider that says of a state that it lasts for another millisecond, again and again, is
// not asked a thousand times a second.
func TestNoLoopWithoutAPause(t *testing.T) {
	soon := func(code contracts.Code) error {
		e := contracts.Errorf(code, "")
		e.RetryAfter = time.Millisecond
		return e
	}
	t.Run("MEMBER_EXISTS", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.start("ann", nil)
			m.p.set(func(request string) (error, bool) {
				switch request {
				case "heartbeat":
					return contracts.CodeStaleIncarnation, false
				case "join":
					return soon(contracts.CodeMemberExists), false
				default:
					return nil, false
				}
			})
			time.Sleep(5 * time.Second) // it has lost its incarnation
			before := m.p.count("join")
			time.Sleep(time.Minute)
			if n := m.p.count("join") - before; n < 60 || n > 200 { // half a second on average
				t.Errorf("%d joins in a minute", n)
			}
			m.p.set(nil)
			time.Sleep(15 * time.Second)
			if m.Incarnation() == 0 {
				t.Errorf("%+v", m.Status())
			}
			w.stop(m)
		})
	})
	t.Run("ACTIVATION_LOCKED", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.start("ann", nil)
			l, p := w.locator(nil)
			p.set(func(request string) (error, bool) {
				if request == "claim" {
					return soon(contracts.CodeActivationLocked), false
				}
				return nil, false
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := l.Activate(ctx, room("a"), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if n := p.count("claim"); n > 201 { // every 50 ms
				t.Errorf("%d claims in 10 s", n)
			}
			l.Stop()
			w.stop(m)
		})
	})
}

// TestEachFailedRequestIsOneEvent: no more, also when it is given up while it waits for the next try, and no less.
func TestEachFailedRequestIsOneEvent(t *testing.T) {
	errDown := errors.New("no route to host")
	for request, begin := range map[string]func(context.Context, joined) error{
		"join":      func(ctx context.Context, m joined) error { return m.Start(ctx) },
		"events":    func(ctx context.Context, m joined) error { return m.Start(ctx) },
		"heartbeat": func(ctx context.Context, m joined) error { return m.Start(ctx) },
		"drain":     func(ctx context.Context, m joined) error { return errors.Join(m.Start(ctx), m.Drain(ctx)) },
		"leave":     func(ctx context.Context, m joined) error { return errors.Join(m.Start(ctx), m.Stop(ctx)) },
		"members": func(ctx context.Context, m joined) error {
			l := cluster.NewLocator(m.p, &cluster.LocatorOptions{Observe: m.add})
			err := l.Start(ctx)
			time.Sleep(5 * time.Minute)
			l.Stop()
			return err
		},
	} {
		for name, c := range map[string]struct {
			outage, limit time.Duration
			err           error
		}{
			"once":                      {0, time.Hour, errDown},
			"for a while":               {20 * time.Second, time.Hour, errDown},
			"for good":                  {time.Hour, time.Hour, contracts.CodePermissionDenied},
			"given up while it waits":   {time.Hour, 17 * time.Second, errDown},
			"while it waits for longer": {time.Hour, 17 * time.Second, later(time.Minute)},
		} {
			t.Run(request+" "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					m := w.member("ann", nil)
					began, failed := time.Now(), 0
					m.p.set(func(sent string) (error, bool) {
						if sent != request || time.Since(began) > c.outage && failed > 0 {
							return nil, false
						}
						m.p.mu.Lock()
						defer m.p.mu.Unlock()
						failed++
						return c.err, false
					})
					ctx, cancel := context.WithTimeout(t.Context(), c.limit)
					defer cancel()
					err := begin(ctx, m)
					time.Sleep(time.Minute)
					m.p.set(nil)
					synctest.Wait() // one that fails at this instant is told, too
					told := 0
					for _, e := range m.has(cluster.RequestFailed) {
						if errors.Is(e.Err, c.err) {
							told++
						}
					}
					if request == "join" && m.Incarnation() == 0 && errors.Is(c.err, contracts.CodePermissionDenied) {
						told++ // it is the error of Start
					}
					if told != failed || failed == 0 {
						t.Errorf("%d events of %d failed requests: %v", told, failed, err)
					}
					w.stop(m)
				})
			})
		}
	}
}

// TestLossByHeartbeat: a heartbeat that says that the incarnation has ended is the loss, at once, and no failure that
// is to be tried again.
func TestLossByHeartbeat(t *testing.T) {
	for _, code := range []contracts.Code{contracts.CodeStaleIncarnation, contracts.CodeMemberUnknown} {
		t.Run(string(code), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.start("ann", func(o *cluster.Options, _ *host) { o.TTL = 12 * time.Second })
				if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
					t.Fatal(err)
				}
				began, ctx := time.Now(), m.context(room("a"))
				at := asked(m.p, "heartbeat", contracts.Errorf(code, ""))
				<-ctx.Done()
				if took := time.Since(began); took != 4*time.Second || !errors.Is(context.Cause(ctx), cluster.ErrLost) ||
					!errors.Is(context.Cause(ctx), code) {
					t.Errorf("lost after %v: %v", took, context.Cause(ctx))
				}
				m.p.set(nil)
				synctest.Wait()
				if told := m.has(cluster.RequestFailed); len(*at) != 1 || len(told) != 0 {
					t.Errorf("%d heartbeats, events %+v", len(*at), told)
				}
				w.stop(m)
			})
		})
	}
}
