package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// tries is how often a request is sent, at most: with the pauses between them about a second.
const tries = 6

var pauses = backoff.Policy{First: 40 * time.Millisecond, Max: time.Second}

// passing are the server's rejections that pass by themselves: it is loading its data, was or is about to become the
// primary, moves the slot, runs a long script, has too many clients or too few replicas. Nothing was changed.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "max number of clients reached",
}

// retry sends a request, and sends it again by the rules of [mayRepeat].
func (s *Store) retry(ctx context.Context, repeatable bool, request func() (any, error)) (any, error) {
	for try := 1; ; try++ {
		s.sent.Requests.Add(1)
		if try > 1 {
			s.sent.Retries.Add(1)
		}
		reply, err := request()
		if err != nil && sdk.HasErrorPrefix(err, "max number of clients reached") {
			s.sent.Throttled.Add(1)
		}
		if err == nil || try == tries || !mayRepeat(err, repeatable) || pauses.Sleep(ctx, try-1) != nil {
			return reply, err
		}
	}
}

// mayRepeat reports whether a request that failed may be sent again. What was certainly not executed may: no
// connection could be made or was free, or the server rejected it for now. A request whose reply was lost may have been
// executed, and is sent again only if it is repeatable, which reads are.
//
// The library by itself would send everything again. A write of Leasehold that arrives twice is in most cases rejected
// the second time by what the first has done, and the rule recognises it by its request_id; but an Add without a
// condition would be done twice, and the library cannot tell the two apart. The callers can.
func mayRepeat(err error, repeatable bool) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, refused := errors.AsType[sdk.Error](err); refused {
		return isPassing(err)
	}
	return repeatable || unsent(err)
}

// isPassing reports whether the server rejected a request for now.
func isPassing(err error) bool {
	return slices.ContainsFunc(passing, func(p string) bool { return sdk.HasErrorPrefix(err, p) })
}

// unsent reports whether a request that failed never left this process.
func unsent(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	return errors.Is(err, sdk.ErrPoolTimeout) || errors.Is(err, errDial)
}
