package projectlock

import (
	"fmt"
	"math"
	"time"
)

// The times of every lease.
const (
	TTL        = 30 * time.Second // from the acquire or the latest renewal to the expiry
	RenewAfter = 20 * time.Second // when a holder renews; With does it by itself
	TryTimeout = 10 * time.Second // of one try to acquire, renew or release
)

// RetryPolicy says when an acquire is tried again. What is 0 has its default, so that a policy may give some of the
// fields only. There is no jitter: the default waits exactly 500, 1000, 2000 and 4000 ms.
type RetryPolicy struct {
	InitialDelay time.Duration // before the second attempt; default 500 ms
	MaxDelay     time.Duration // of any; default 4 s
	Multiplier   float64       // from one delay to the next, 1 or more; default 2
	MaxAttempts  int           // with the first; default 5
}

// withDefaults fills in what is 0 and reports what cannot work.
func (r RetryPolicy) withDefaults() (RetryPolicy, error) {
	if r.InitialDelay == 0 {
		r.InitialDelay = 500 * time.Millisecond
	}
	if r.MaxDelay == 0 {
		r.MaxDelay = 4 * time.Second
	}
	if r.Multiplier == 0 {
		r.Multiplier = 2
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = 5
	}
	switch {
	case r.InitialDelay < 0:
		return r, fmt.Errorf("Retry.InitialDelay is %v: must not be negative; 0 means 500ms", r.InitialDelay)
	case r.MaxDelay < 0:
		return r, fmt.Errorf("Retry.MaxDelay is %v: must not be negative; 0 means 4s", r.MaxDelay)
	case r.Multiplier < 1 || math.IsNaN(r.Multiplier) || math.IsInf(r.Multiplier, 0):
		return r, fmt.Errorf("Retry.Multiplier is %v: must be a number of 1 or more; 0 means 2", r.Multiplier)
	case r.MaxAttempts < 0:
		return r, fmt.Errorf("Retry.MaxAttempts is %d: must not be negative; 0 means 5, 1 tries once", r.MaxAttempts)
	}
	return r, nil
}

// delay is the wait after a failed attempt; attempts count from 1.
func (r RetryPolicy) delay(attempt int) time.Duration {
	d := float64(r.InitialDelay) * math.Pow(r.Multiplier, float64(attempt-1))
	if d >= float64(r.MaxDelay) { // also if it is infinite
		return r.MaxDelay
	}
	return time.Duration(math.Round(d))
}

// renewals is the policy of renewals, which is not settable: the five attempts must fit between RenewAfter and TTL.
var renewals = RetryPolicy{InitialDelay: 500 * time.Millisecond, MaxDelay: 4 * time.Second, Multiplier: 2,
	MaxAttempts: 5}
