package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Bounds of the patience with a gate that does not answer.
const (
	tryTime     = 15 * time.Second // for one request; less when the lock is shorter
	acquireTime = 30 * time.Second // for asking for a run
	graceTime   = 5 * time.Second  // for what there is to do after the caller's context has ended
	endingTime  = 10 * time.Second // at least, for writing the end of a run
)

// insist calls do until it succeeds, fails in a way that asking again cannot change, or the context ends; then the error is
// that of the last try. Between two tries it waits a random time of up to 200 ms, 400 ms and so on, 5 s at most.
func insist(ctx context.Context, each time.Duration, do func(context.Context) error) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := try(ctx, each, do)
		if err == nil || definite(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(wait)):
		}
	}
}

// try is one request with a time of its own.
func try(ctx context.Context, each time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	return do(ctx)
}

// definite reports whether asking again gives the same answer.
func definite(err error) bool { return gone(err) || errors.Is(err, ErrRefused) }

// gone reports whether the gate says that there is no lock of ours.
func gone(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) }

// graced returns a context that outlives ctx by graceTime, and ends after limit at the latest.
func graced(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(graceTime):
			cancel()
		}
	})
	return late, func() { stop(); cancel() }
}
