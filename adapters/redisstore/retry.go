package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	sdk "github.com/redis/go-redis/v9"
)

const (
	// tries is how often a request is sent, at most: with the pauses between them about a second.
	tries = 6

	// The pause before a request is sent again is drawn from [0, firstPause·2ⁿ], lastPause at most ("full jitter":
	// Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// passing are the server's refusals that pass by themselves: it is loading its data, was or is about to become the
// primary, moves the slot, runs a long script, has too many clients or too few replicas. Nothing was changed.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "max number of clients reached",
}

// patiently sends a request, and sends it again by the rules of [mayRepeat].
func patiently(ctx context.Context, repeatable bool, request func() (any, error)) (any, error) {
	for try := 1; ; try++ {
		reply, err := request()
		if err == nil || try == tries || !mayRepeat(err, repeatable) || pause(ctx, try) != nil {
			return reply, err
		}
	}
}

// mayRepeat reports whether a request that failed may be sent again. What was surely not carried out may: no connection
// could be made or was free, or the server refused it for the moment. What has gone astray may have been carried
// out, and is sent again only if it is repeatable, which reads are.
//
// The library by itself would send everything again. A write of Leasehold that arrives twice is in most cases refused the
// second time by what the first has done, and the rule above knows it again by its request_id; but an Add without a
// condition would be done twice, and the library cannot tell one from the other. The callers can, and do.
func mayRepeat(err error, repeatable bool) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, refused := errors.AsType[sdk.Error](err); refused {
		return slices.ContainsFunc(passing, func(p string) bool { return sdk.HasErrorPrefix(err, p) })
	}
	return repeatable || unsent(err)
}

// unsent reports whether a request that failed never left this process.
func unsent(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	return errors.Is(err, sdk.ErrPoolTimeout)
}

// pause waits for a random time, longer after each try. The error is the context's.
func pause(ctx context.Context, try int) error {
	wait := time.NewTimer(rand.N(min(firstPause<<try, lastPause)))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
