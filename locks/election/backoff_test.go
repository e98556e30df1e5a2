package election_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
)

// failing is a provider that cannot be reached while it is down, and notes when it is asked.
type failing struct {
	*network
	stop context.CancelFunc // after far more requests than there can be: a loop without a wait would go on for ever

	mu       sync.Mutex
	down     bool
	err      error       // while it is down; nil means that there is no connection
	asked    []time.Time // campaigns and looks
	requests int
}

func (f *failing) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// note notes a request; tries of one campaign that begin within a microsecond are one.
func (f *failing) note() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if n := len(f.asked); n == 0 || now.Sub(f.asked[n-1]) > time.Microsecond {
		f.asked = append(f.asked, now)
	}
	if f.requests++; f.requests > 20_000 {
		f.stop()
	}
	if f.down && f.err != nil {
		return f.err
	}
	if f.down { // nothing was sent, so nothing has to be found out later
		return &net.OpError{Op: "dial", Err: errNetwork}
	}
	return nil
}

func (f *failing) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	if err := f.note(); err != nil {
		return contracts.Lease{}, err
	}
	return f.network.Acquire(ctx, key, r)
}

func (f *failing) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return contracts.Lease{}, errNetwork
	}
	return f.network.Renew(ctx, key, r)
}

func (f *failing) Get(ctx context.Context, key string) (contracts.Lock, error) {
	if err := f.note(); err != nil {
		return contracts.Lock{}, err
	}
	return f.network.Get(ctx, key)
}

func (f *failing) candidate(t *testing.T) *election.Election {
	t.Helper()
	c, err := locks.New(f, &locks.Options{Owner: "ann", RetryFor: time.Nanosecond}) // each campaign fails at once
	if err != nil {
		t.Fatal(err)
	}
	return election.New(c, "scheduler", nil)
}

// TestAFailingProviderIsNotAskedAllTheTime: by campaigns and by those who observe: each five seconds on average, after
// a few that come sooner.
func TestAFailingProviderIsNotAskedAllTheTime(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *election.Election){
		"lead": func(ctx context.Context, e *election.Election) {
			_ = e.Lead(ctx, func(context.Context, *election.Leader) error { return nil })
		},
		"observe": func(ctx context.Context, e *election.Election) {
			for range e.Observe(ctx) { // until ctx ends
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				f := &failing{network: open(t), stop: cancel, down: true}
				begin := time.Now()
				ask(ctx, f.candidate(t))
				if took := time.Since(begin); took != time.Hour {
					t.Fatalf("asked %d times in %v", f.requests, took)
				}
				if n := len(f.asked); n < 400 || n > 1100 { // 3600 s by 5.05 s is 713, with a deviation of 15
					t.Errorf("asked %d times in an hour", n)
				}
				for i := range f.asked[1:] {
					if wait := f.asked[i+1].Sub(f.asked[i]); wait < 100*time.Millisecond || wait > bound(i)+time.Microsecond {
						t.Errorf("%v before retry %d, want 100 ms to %v", wait, i, bound(i))
					}
				}
				time.Sleep(time.Minute) // what is under way in the background ends by itself
			})
		})
	}
}

// bound is the longest wait before a retry, which doubles from a second to ten.
func bound(retry int) time.Duration { return min(time.Second<<min(retry, 4), 10*time.Second) }

// TestCampaignsSoonAfterALoss: the waits between campaigns that fail begin anew once this process has led, however long
// the outage before that was.
func TestCampaignsSoonAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := &failing{network: open(t), stop: cancel, down: true}
		var lost []time.Time
		led := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = f.candidate(t).Lead(ctx, func(ctx context.Context, _ *election.Leader) error {
				led <- struct{}{}
				<-ctx.Done()
				lost = append(lost, time.Now())
				return nil
			})
		}()
		for range 5 {
			time.Sleep(3 * time.Minute) // an outage, in which the waits become long
			f.set(false)
			<-led
			f.set(true)
		}
		time.Sleep(3 * time.Minute)
		cancel()
		<-done
		for i, at := range lost[:min(len(lost), 5)] {
			var after []time.Time // of the campaigns that follow
			for _, asked := range f.asked {
				if !asked.Before(at) {
					after = append(after, asked)
				}
			}
			for retry := range 4 {
				if wait := after[retry+1].Sub(after[retry]); wait > bound(retry)+time.Microsecond {
					t.Errorf("after loss %d: %v before retry %d, want %v at most", i, wait, retry, bound(retry))
				}
			}
		}
		if len(lost) != 5 {
			t.Errorf("%d losses, want 5", len(lost))
		}
		time.Sleep(2 * time.Minute) // what is under way in the background ends by itself
	})
}

// TestWaitsAsTheProviderAsks: campaigns and those who observe.
func TestWaitsAsTheProviderAsks(t *testing.T) {
	overloaded := contracts.Errorf(contracts.CodeOverloaded, "")
	overloaded.RetryAfter = time.Minute
	for name, ask := range map[string]func(context.Context, *election.Election){
		"lead": func(ctx context.Context, e *election.Election) {
			_ = e.Lead(ctx, func(context.Context, *election.Leader) error { return nil })
		},
		"observe": func(ctx context.Context, e *election.Election) {
			for range e.Observe(ctx) { // until ctx ends
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour-time.Second, cancel)
				f := &failing{network: open(t), stop: cancel, down: true, err: overloaded}
				ask(ctx, f.candidate(t))
				if n := len(f.asked); n != 60 {
					t.Errorf("asked %d times in an hour, want each minute", n)
				}
				time.Sleep(time.Minute) // what is under way in the background ends by itself
			})
		})
	}
}

// TestLeaveInAnOutage: who observes may leave at the error, and nothing is asked then.
func TestLeaveInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{network: open(t), stop: func() {}, down: true}
		for _, err := range f.candidate(t).Observe(t.Context()) {
			if err == nil {
				t.Error("no error")
			}
			break
		}
		if len(f.asked) != 1 {
			t.Errorf("asked %d times", len(f.asked))
		}
	})
}
