package cluster

import (
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// afterFailure are the pauses of an identity between an activation that failed and the next one.
var afterFailure = backoff.Policy{First: time.Second, Max: time.Minute, EqualJitter: true}

// mostFailures is of how many identities it is known that their activations failed.
const mostFailures = 10_000

// FailedError is the error of an activation that failed in its host, and of calls until the next one is due: no request
// is sent for them. [contracts.RetryAfter] says when that is.
type FailedError struct {
	Err   error         // of the host
	After time.Duration // until the next activation is due
}

func (e *FailedError) Error() string { return e.Err.Error() }

// RetryAfter is for [contracts.RetryAfter].
func (e *FailedError) RetryAfter() time.Duration { return e.After }

// Unwrap returns Err.
func (e *FailedError) Unwrap() error { return e.Err }

// failures are the identities whose activations failed.
type failures struct {
	mu  sync.Mutex
	all map[Identity]failure
}

type failure struct {
	times int // one after the other
	until time.Time
	err   error
}

// paused is the error of an identity that is not to be activated yet; nil for others.
func (f *failures) paused(id Identity) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.all[id]; ok {
		if left := time.Until(known.until); left > 0 {
			return &FailedError{known.err, left}
		}
	}
	return nil
}

// failed makes the error of an identity whose activation failed: each time in turn it is paused for longer. In a pause
// it is another caller's that began before.
func (f *failures) failed(id Identity, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	known := f.all[id]
	if left := known.until.Sub(now); left > 0 {
		return &FailedError{err, left}
	}
	if now.Sub(known.until) > afterFailure.Max {
		known = failure{}
	}
	if len(f.all) >= mostFailures {
		f.forget(now)
	}
	pause := afterFailure.Delay(known.times)
	if f.all == nil {
		f.all = map[Identity]failure{}
	}
	f.all[id] = failure{known.times + 1, now.Add(pause), err}
	return &FailedError{err, pause}
}

// forget makes room: of those whose pause is over, and of a tenth at least. The caller holds mu.
func (f *failures) forget(now time.Time) {
	for id, known := range f.all {
		if now.After(known.until) {
			delete(f.all, id)
		}
	}
	for id := range f.all {
		if len(f.all) <= mostFailures*9/10 {
			return
		}
		delete(f.all, id)
	}
}

// succeeded ends what is known of an identity.
func (f *failures) succeeded(id Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, id)
}
