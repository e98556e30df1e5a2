package once_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// fake is a gate for one analysis, "a1", with the rule in short: enough for every method, with faults to inject.
type fake struct {
	mu sync.Mutex

	status   string // "", "READY" or "FAILED"
	result   once.Result
	owner    string
	request  string
	print    string
	token    int64
	end      time.Time
	runs     int64
	failures int64

	given   map[string]bool // requests that were given up
	ignores bool            // GiveUp, as a gate that does not know it

	calls []call // in the order of their arrival

	// fault is called before each call. Its error is returned in place of the result, before or after the call took
	// effect.
	fault func(ctx context.Context, c call) (err error, applied bool)
}

type call struct {
	name string
	at   time.Duration // since the bubble began
	n    int           // how many of that name came before
	text string        // the reason or result
	req  string        // the request ID of an acquire
}

var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (f *fake) arrive(ctx context.Context, c call, do func() error) error {
	f.mu.Lock()
	c.at = time.Since(bubble)
	for _, before := range f.calls {
		if before.name == c.name {
			c.n++
		}
	}
	f.calls = append(f.calls, c)
	fault := f.fault
	f.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fault != nil {
		if err, applied := fault(ctx, c); err != nil {
			if applied {
				f.mu.Lock()
				defer f.mu.Unlock()
				_ = do()
			}
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return do()
}

func (f *fake) Acquire(ctx context.Context, r once.Acquire) (g once.Grant, err error) {
	if r.GiveUp && !f.ignores {
		return g, f.arrive(ctx, call{name: "give up", text: r.Owner, req: r.RequestID}, func() error {
			if f.owner == r.Owner && f.request == r.RequestID {
				f.owner, f.runs = "", f.runs-1
			}
			if f.given == nil {
				f.given = map[string]bool{}
			}
			f.given[r.RequestID] = true
			return nil
		})
	}
	err = f.arrive(ctx, call{name: "acquire", text: r.Owner, req: r.RequestID}, func() error {
		now := time.Now()
		locked := f.owner != "" && now.Before(f.end)
		switch {
		case r.RunID != "a1":
			return contracts.CodeNotFound
		case f.given[r.RequestID]:
			return contracts.CodeRequestIDReused
		case r.Fingerprint != "" && f.print != "" && r.Fingerprint != f.print:
			return contracts.Errorf(contracts.CodeRunDiffers, "another fingerprint")
		case f.status != "":
			g = once.Grant{Reason: contracts.SkipAlreadyFinished, Status: f.status, Result: f.result}
			return nil
		case locked && (f.owner != r.Owner || f.request != r.RequestID):
			g = once.Grant{Reason: contracts.SkipLocked, RetryAfter: f.end.Sub(now)}
			return nil
		case !locked:
			f.token++
			f.runs++
			f.print = r.Fingerprint
			f.owner, f.request, f.end = r.Owner, r.RequestID, now.Add(r.TTL)
		}
		g = once.Grant{
			Acquired: true, Lock: once.Lock{RunID: "a1", Owner: f.owner, Token: f.token, ExpiresAt: f.end.Round(0).UTC()},
			Remaining: f.end.Sub(now), Runs: f.runs, Failures: f.failures,
		}
		return nil
	})
	return g, err
}

func (f *fake) held(l once.Lock) bool { return f.owner == l.Owner && f.token == l.Token }

func (f *fake) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (end time.Time, err error) {
	err = f.arrive(ctx, call{name: "refresh"}, func() error {
		if !f.held(l) || !time.Now().Before(f.end) {
			return once.ErrLost
		}
		f.end = time.Now().Add(ttl)
		end = f.end
		return nil
	})
	return end, err
}

func (f *fake) Release(ctx context.Context, l once.Lock, failed string) error {
	return f.arrive(ctx, call{name: "release", text: failed}, func() error {
		switch {
		case f.token == l.Token && f.owner == "":
			return nil
		case !f.held(l):
			return once.ErrLost
		}
		f.owner, f.runs = "", 0
		if failed != "" {
			f.failures++
		}
		return nil
	})
}

func (f *fake) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	return f.arrive(ctx, call{name: "finish", text: r.Result + r.Reason}, func() error {
		status := "READY"
		if r.Failed {
			status = "FAILED"
		}
		switch {
		case f.token == l.Token && f.owner == "" && f.status == status:
			return nil
		case !f.held(l):
			return once.ErrLost
		}
		f.owner, f.runs, f.status, f.result = "", 0, status, r
		return nil
	})
}

// takeOver gives the lock to another worker.
func (f *fake) takeOver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner, f.request, f.end = "another", "another", time.Now().Add(time.Hour)
	f.token++
}

// times are when the calls of a name arrived.
func (f *fake) times(name string) (at []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.name == name {
			at = append(at, c.at)
		}
	}
	return at
}

// names are the calls in order, repeated ones once.
func (f *fake) names() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		names = append(names, c.name)
	}
	return slices.Compact(names)
}

func (f *fake) text(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range slices.Backward(f.calls) {
		if c.name == name {
			return c.text
		}
	}
	return ""
}

var errNetwork = errors.New("connection reset by peer")
