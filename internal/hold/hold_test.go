package hold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/term"
)

var (
	errDown = errors.New("no route to host")
	errLost = errors.New("the lease is lost")
)

// each is a policy whose pauses are all of one length.
func each(d time.Duration) backoff.Policy { return backoff.Policy{First: d, Max: d, Min: d} }

// later is an error that asks for a pause.
func later(d time.Duration) error {
	e := contracts.Errorf(contracts.CodeUnavailable, "")
	e.RetryAfter = d
	return e
}

// s are seconds.
func s(seconds ...float64) (all []time.Duration) {
	for _, n := range seconds {
		all = append(all, time.Duration(n*float64(time.Second)))
	}
	return all
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// TestInsist: when it sends, and what of that it tells.
func TestInsist(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration
		errs   []error // of the tries; the last one is that of all that follow
		limit  time.Duration
		want   error
		at     []time.Duration
		failed int
	}{
		"succeeds":            {time.Second, []error{nil}, 0, nil, s(0), 0},
		"succeeds in the end": {time.Second, []error{errDown, errDown, nil}, 0, nil, s(0, 1, 2), 2},
		"final": {time.Second, []error{contracts.CodePermissionDenied}, 0,
			contracts.CodePermissionDenied, s(0), 0},
		"final after a failure": {time.Second, []error{errDown, contracts.CodeNotConfigured}, 0,
			contracts.CodeNotConfigured, s(0, 1), 1},
		"until the context ends": {time.Second, []error{errDown}, 2500 * time.Millisecond, errDown, s(0, 1, 2), 3},
		"as the server asks": {time.Second, []error{later(10 * time.Second), later(time.Minute), nil}, 0,
			nil, s(0, 10, 70), 2},
		"a minute at most": {time.Second, []error{later(time.Hour), nil}, 0, nil, s(0, 60), 1},
		"not sooner than its own": {time.Second, []error{later(time.Millisecond), later(time.Millisecond), nil}, 0,
			nil, s(0, 1, 2), 2},
		"a third of what is left": {time.Second, []error{later(time.Hour), later(time.Hour), nil}, 90 * time.Second,
			nil, s(0, 30, 50), 2},
		"its own, if that is too soon": {time.Second, []error{later(time.Hour)}, 2500 * time.Millisecond,
			contracts.CodeUnavailable, s(0, 1, 2), 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, begin := t.Context(), time.Now()
				if c.limit > 0 {
					bounded, cancel := context.WithTimeout(ctx, c.limit)
					defer cancel()
					ctx = bounded
				}
				var at []time.Duration
				failed := 0
				err := hold.Insist{Pauses: each(c.pause), Failed: func(error) { failed++ }}.Do(ctx, func(context.Context) error {
					at = append(at, time.Since(begin))
					return c.errs[min(len(at), len(c.errs))-1]
				})
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				want(t, "tries", at, c.at)
				want(t, "told of", failed, c.failed)
			})
		})
	}
}

// TestGiveUp: a request is given up until that is carried out, or rejected for good. When the lock that another one
// holds will be free is no matter of it; when the server asks to come again is.
func TestGiveUp(t *testing.T) {
	held := func(code contracts.Code) error {
		e := contracts.Errorf(code, "")
		e.RetryAfter = 30 * time.Second
		return e
	}
	for name, c := range map[string]struct {
		errs []error // of the requests
		want error
		took time.Duration // at most: its own pauses have a part of chance
	}{
		"carried out": {[]error{nil}, nil, 0},
		"held":        {[]error{held(contracts.CodeLockHeld), nil}, nil, 200 * time.Millisecond},
		"held, again": {[]error{held(contracts.CodeLockHeld), held(contracts.CodeLockHeld), nil}, nil,
			600 * time.Millisecond},
		"delayed":            {[]error{held(contracts.CodeLockDelayed), nil}, nil, 200 * time.Millisecond},
		"the server is away": {[]error{later(2 * time.Second), nil}, nil, 2 * time.Second},
		"it has ended":       {[]error{contracts.Errorf(contracts.CodeRequestIDReused, "")}, nil, 0},
		"away, and not allowed": {[]error{later(2 * time.Second), contracts.CodePermissionDenied},
			contracts.CodePermissionDenied, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, n := time.Now(), 0
				err := hold.GiveUp(t.Context(), func(context.Context) error { n++; return c.errs[n-1] })
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || n != len(c.errs) {
					t.Errorf("%v after %d requests, want %v after %d", err, n, c.want, len(c.errs))
				}
				if took := time.Since(begin); took > c.took || c.took >= time.Second && took < c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// TestInsistForALease: what is left of the lease for which a request is sent bounds the pauses, too.
func TestInsistForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		end := begin.Add(30 * time.Second)
		var at []time.Duration
		insist := hold.Insist{Pauses: each(time.Second), Left: func() time.Duration { return time.Until(end) }}
		err := insist.Do(t.Context(), func(context.Context) error {
			if at = append(at, time.Since(begin)); len(at) == 3 {
				end = time.Now() // it has run out
			}
			if len(at) == 5 {
				return nil
			}
			return later(time.Hour)
		})
		want(t, "error", err, nil)
		want(t, "tries", at, []time.Duration{0, 10 * time.Second, 10*time.Second + 20*time.Second/3,
			11*time.Second + 20*time.Second/3, 12*time.Second + 20*time.Second/3})
	})
}

// TestInsistGrows: the pauses are those of the policy.
func TestInsistGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = hold.Insist{Pauses: backoff.Policy{First: time.Second, Max: 8 * time.Second, EqualJitter: true}}.Do(
			ctx, func(context.Context) error {
				at = append(at, time.Now())
				return errDown
			})
		for i, bound := range s(1, 2, 4, 8, 8) {
			if pause := at[i+1].Sub(at[i]); pause <= bound/2 || pause > bound {
				t.Errorf("%v before retry %d, want up to %v", pause, i, bound)
			}
		}
	})
}

// TestTryTime: a try that follows others waits longer, so that a slow server is waited for in the end.
func TestTryTime(t *testing.T) {
	var n hold.Tries
	for i, seconds := range s(2, 4, 8, 15, 15, 15) {
		want(t, fmt.Sprintf("try %d", i), n.Next(), seconds)
	}
	want(t, "after many", hold.TryTime(1000), 15*time.Second)
}

// TestOutages: a lease survives an outage that begins just before a renewal is due and lasts nearly until its holder
// gives it up, whether requests of that time fail at once or have no answer.
func TestOutages(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for _, ttl := range s(1, 5, 10, 30, 300, 86400) {
			synctest.Test(t, func(t *testing.T) {
				margin, due := ttl/10, ttl/3
				outage := ttl - margin - due - min(ttl/10, 150*time.Millisecond)
				begin := time.Now()
				k := hold.Keep{
					Term:  term.New(t.Context(), term.Now, term.Of(begin).Add(ttl-margin), func(error) error { return errLost }),
					Clock: term.Now, Each: func(left time.Duration) time.Duration { return hold.Third(left, 15*time.Second) },
					Pauses: backoff.Policy{First: min(time.Second, ttl/24), Max: min(10*time.Second, ttl/6), Min: min(time.Second,
						ttl/24) / 2},
					Lost: func(error) error { return nil }, Failed: func(error) {},
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				tries := 0
				k.Renew = func(ctx context.Context) error {
					tries++
					if since := time.Since(begin); since >= due+outage {
						return nil
					}
					if hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return errDown
				}
				k.Renewed = func(asked term.Moment) (end, due term.Moment) {
					stop()
					return asked.Add(ttl - margin), asked.Add(ttl / 3)
				}
				k.Run(ctx, term.Of(begin).Add(due))
				if err := k.Term.Check(); err != nil {
					t.Errorf("ttl %v, hangs %v: it does not survive %v: %v", ttl, hangs, outage, err)
				}
				if ttl <= 30*time.Second && tries > 40 {
					t.Errorf("ttl %v, hangs %v: %d renewals are too many", ttl, hangs, tries)
				}
			})
		}
	}
}

// TestEachTryHasItsTime: one that hangs is not the last.
func TestEachTryHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, tries := time.Now(), 0
		err := hold.Insist{Each: 5 * time.Second, Pauses: each(time.Second)}.Do(t.Context(), func(ctx context.Context) error {
			if tries++; tries == 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		want(t, "error", err, nil)
		want(t, "after", time.Since(begin), 8*time.Second) // 2 s, 1 s, 4 s, 1 s
	})
}

// kept is a lease of 30 s that is due every 10 s, and what became of it.
type kept struct {
	hold.Keep
	run      func()
	stop     context.CancelFunc
	begin    time.Time
	at       []time.Duration // renewals
	told     []error         // of Failed
	extended int
}

// keep begins such a lease; answer is that of the nth renewal.
func keep(t *testing.T, answer func(ctx context.Context, n int) error) *kept {
	t.Helper()
	k := &kept{begin: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	k.stop, k.run = stop, func() { k.Run(ctx, term.Of(k.begin).Add(10*time.Second)) }
	k.Keep = hold.Keep{
		Term: term.New(t.Context(), term.Now, term.Now().Add(30*time.Second), func(trouble error) error {
			return fmt.Errorf("%w: it ran out: %w", errLost, trouble)
		}),
		Clock: term.Now, Each: func(left time.Duration) time.Duration {
			return hold.Third(left, 5*time.Second)
		}, Pauses: each(time.Second),
		Renew: func(ctx context.Context) error {
			k.at = append(k.at, time.Since(k.begin))
			return answer(ctx, len(k.at)-1)
		},
		Renewed: func(asked term.Moment) (end, due term.Moment) {
			return asked.Add(30 * time.Second), asked.Add(10 * time.Second)
		},
		Extended: func(context.Context, term.Moment) { k.extended++ },
		Lost: func(err error) error {
			if errors.Is(err, contracts.CodeLeaseLost) {
				return fmt.Errorf("%w: %w", errLost, err)
			}
			return nil
		},
		Failed: func(err error) { k.told = append(k.told, err) },
	}
	return k
}

// TestKeep: when it renews, what it tells, and how it ends.
func TestKeep(t *testing.T) {
	for name, c := range map[string]struct {
		errs  map[int]error // by the number of the renewal
		rest  error         // of all others
		stop  time.Duration // of ctx
		again bool
		at    []time.Duration
		told  int
		lost  error // nil: it is not
	}{
		"renewed": {stop: 45 * time.Second, at: s(10, 20, 30, 40)},
		"one fails": {errs: map[int]error{1: errDown}, stop: 45 * time.Second,
			at: s(10, 20, 21, 31, 41), told: 1},
		"lost": {errs: map[int]error{1: contracts.CodeLeaseLost}, at: s(10, 20),
			lost: contracts.CodeLeaseLost},
		"lost after failures": {errs: map[int]error{0: errDown, 1: errDown, 2: contracts.CodeLeaseLost},
			at: s(10, 11, 12), told: 2, lost: contracts.CodeLeaseLost},
		"until it runs out": {rest: later(7 * time.Second), at: nil, told: -1, lost: contracts.CodeUnavailable},
		"as the server asks": {errs: map[int]error{0: later(3 * time.Second)}, stop: 15 * time.Second,
			at: s(10, 13), told: 1},
		"a third of what is left": {errs: map[int]error{0: later(time.Hour), 1: later(time.Hour)},
			stop: 22 * time.Second, at: append(s(10), 16666666666, 21111111110), told: 2},
		"at once, once": {errs: map[int]error{0: errDown, 1: errDown, 2: errDown}, again: true,
			stop: 15 * time.Second, at: s(10, 10, 11, 12), told: 2},
		"at once after each success": {errs: map[int]error{0: errDown, 2: errDown}, again: true, stop: 25 * time.Second,
			at: s(10, 10, 20, 20), told: 0},
		"stopped before the first is due": {stop: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				renewed := 0
				k := keep(t, func(_ context.Context, n int) error {
					err, ok := c.errs[n]
					if !ok {
						err = c.rest
					}
					if err == nil {
						renewed++
					}
					return err
				})
				if c.again {
					k.Again = func(error) bool { return true }
				}
				if c.stop > 0 {
					time.AfterFunc(c.stop, k.stop)
				}
				k.run()
				k.stop()
				cause := k.Term.Check()
				if (c.lost == nil) != (cause == nil) || !errors.Is(cause, c.lost) || cause != nil && !errors.Is(cause, errLost) {
					t.Errorf("the cause is %v, want %v", cause, c.lost)
				}
				if c.at != nil {
					want(t, "renewals", k.at, c.at)
				}
				want(t, "extended", k.extended, renewed)
				if c.told >= 0 {
					want(t, "told of", len(k.told), c.told)
				} else {
					want(t, "told of", len(k.told), len(k.at))
				}
				if cause != nil && c.told == -1 && time.Since(k.begin) > 31*time.Second {
					t.Errorf("it ended after %v", time.Since(k.begin))
				}
			})
		})
	}
}

// TestRenewalsHaveAPause: also if each is due at once, or was due before its response came.
func TestRenewalsHaveAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(context.Context, int) error { return nil })
		k.Renewed = func(asked term.Moment) (end, due term.Moment) { return asked.Add(30 * time.Second), asked }
		time.AfterFunc(14500*time.Millisecond, k.stop)
		k.run()
		want(t, "renewals", slices.Compact(k.at), s(10, 11, 12, 13, 14))
	})
}

// TestLateRenewal: a response that comes after the end of the term, or of ctx, extends nothing, and is told of as
// nothing.
func TestLateRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		stop bool
		err  error
	}{
		"granted after the term": {false, nil}, "granted after ctx": {true, nil},
		"lost after ctx": {true, contracts.CodeLeaseLost}, "failed after ctx": {true, errDown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k *kept
				k = keep(t, func(context.Context, int) error {
					if c.stop {
						k.stop()
					} else {
						time.Sleep(time.Minute)
					}
					return c.err
				})
				k.run()
				k.stop()
				want(t, "extended", k.extended, 0)
				want(t, "told of", len(k.told), 0)
				want(t, "lost", k.Term.Check() != nil, !c.stop)
			})
		})
	}
}

// TestEachRenewalHasItsTime: a third of what is left, so that three fit, and not more than the most.
func TestEachRenewalHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		k.run()
		if n := len(k.at); n < 6 || k.at[1] != 13*time.Second || k.at[2] != 18*time.Second { // 2 s, 4 s, and a pause each
			t.Errorf("renewals at %v", k.at)
		}
	})
}
