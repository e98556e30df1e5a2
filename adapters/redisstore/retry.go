package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// tries is how often a request is sent, at most, whose failures are told at once: with the pauses between them about a
// second. Where a connection or a response did not come in time, the next try follows for as long as retryTimeout says.
const (
	tries        = 6
	retryTimeout = 4 * conns.TryTimeout
)

var pauses = backoff.Policy{First: 40 * time.Millisecond, Max: time.Second}

// passing are the server's rejections that pass by themselves: it is loading its data, was or is about to become the
// primary, moves the slot, runs a long script, has too many clients or too few replicas. Nothing was changed.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "max number of clients reached",
}

// retry sends a request, and sends it again by the rules of [mayRepeat]. It is of writes, or of none: then it only
// reads, or does the same when it is done twice.
func (s *Store) retry(ctx context.Context, writes []docstore.Write, request func() (any, error)) (any, error) {
	began, failed := time.Now(), 0
	for try := 1; ; try++ {
		s.sent.Requests.Add(1)
		if try > 1 {
			s.sent.Retries.Add(1)
		}
		reply, err := request()
		if err == nil {
			return reply, nil
		}
		if sdk.HasErrorPrefix(err, "max number of clients reached") {
			s.sent.Throttled.Add(1)
		}
		switch {
		case silent(err):
			s.conns.Leave()
		case errors.Is(err, conns.ErrLeft): // the pool may have more of them
			if docstore.Gone(ctx) == nil {
				continue
			}
		default:
			failed++
		}
		if docstore.Gone(ctx) != nil || failed == tries || time.Since(began) >= retryTimeout || !mayRepeat(err, writes) ||
			pauses.Sleep(ctx, try-1) != nil {
			return nil, err
		}
	}
}

// mayRepeat reports whether a request that failed may be sent again. What was certainly not executed may: no
// connection could be made or was free, or the server rejected it for now. A request whose reply was lost may have been
// executed, and is sent again only if that changes nothing once more: a read, and a step with a write that rejects what
// arrives twice. The rule then recognises its own effect in the document found, by its request_id.
//
// The library by itself would send everything again, and an Add without a condition would be done twice.
func mayRepeat(err error, writes []docstore.Write) bool {
	if _, refused := errors.AsType[sdk.Error](err); refused {
		return isPassing(err)
	}
	return len(writes) == 0 || unsent(err) || slices.ContainsFunc(writes, rejectsRepeat)
}

// rejectsRepeat is [driver.RejectsRepeat] for a write that arrives again later. The server's clock goes on meanwhile: a
// time that has passed stays passed, and of one that has not nothing is known.
func rejectsRepeat(w docstore.Write) bool {
	return driver.RejectsRepeat(w, func(c docstore.Cond, after docstore.Doc, _ bool) driver.Truth {
		var compared docstore.Value
		switch c := c.(type) {
		case docstore.Eq:
			compared = c.Value
		case docstore.LE:
			compared = c.Value
		}
		_, byNow := compared.(docstore.Instant)
		for f, v := range after {
			_, timed := v.(docstore.Instant)
			if le, ok := c.(docstore.LE); ok && byNow && timed {
				at := time.Unix(0, 0)
				if le.Holds(docstore.Doc{f: driver.Resolve(v, at)}, at) {
					return driver.Yes
				}
			}
			if compared != nil && (byNow || timed) {
				return driver.Maybe
			}
		}
		return driver.TruthOf(c.Holds(after, time.Time{}))
	})
}

// silent reports whether a connection or a response did not come in time.
func silent(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// isPassing reports whether the server rejected a request for now.
func isPassing(err error) bool { return begins(err, passing) }

// begins reports whether an error of the server begins with one of these.
func begins(err error, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return sdk.HasErrorPrefix(err, p) })
}

// unsent reports whether a request that failed never left this process.
func unsent(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	return errors.Is(err, sdk.ErrPoolTimeout) || errors.Is(err, errDial)
}
