// Package hold keeps a lease while something runs under it, for all who hold one: [Insist] sends a request until there
// is an answer, [Keep] renews a lease until it is lost. What a lease is, when it is lost and how long to wait are the
// caller's: the loops are the same for all, the policies are not.
//
//	            due                 renewed
//	granted ───────────▶ Renew ──────────────▶ Renewed, and due again
//	                      │  ▲
//	               failed │  │ after a pause: Pauses, or what the server asks for
//	                      ▼  │
//	                     Failed ───▶ lost: Lost says so, or the term has run out
//
// A server that asks for a pause (Retry-After) is given it, up to a third of the time that is left, because a try that
// comes later may come too late, and up to a minute, because the server may be back sooner than it said. No loop goes
// without a pause. One between renewals is a quarter of what is left at most, and half of it in the last moments, so
// that one more try always comes before the loss: see [Hasten].
//
// A try is short, and each one that has to follow is longer ([TryTime]): what is lost on the way costs two seconds, and
// a server that is slow is waited for all the same.
//
// The time of a lease is that of package term, which notices by itself when it has run out.
package hold

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// longest is how long a server can make a caller wait that has all the time there is.
const longest = time.Minute

// Pause is how long to wait after a request that failed: a caller's own pause, or as long as the server asks for, but
// not more than a third of what is left of the caller's time, nor than a minute.
func Pause(own time.Duration, err error, left time.Duration) time.Duration {
	return max(own, min(contracts.RetryAfter(err), left/3, longest))
}

// Times of tries and calls.
const (
	firstTry = 2 * time.Second

	// LongTry is the time of the longest try.
	LongTry = 15 * time.Second

	// CallTime is for how long a call insists, beside the time that its caller waits for what another has, where the
	// caller has no deadline of its own.
	CallTime = 5 * time.Second

	// AtOnceTime is the same for a caller that does not wait.
	AtOnceTime = 3 * time.Second

	// GraceTime is by how much a call outlives its caller's deadline at most: for what it has to clean up, which goes on
	// in the background after that.
	GraceTime = time.Second
)

// TryTime is the time of a try that follows so many which had no response: 2 s of the first, then twice as long each
// time, up to 15 s.
func TryTime(failed int) time.Duration { return min(LongTry, firstTry<<min(failed, 4)) }

// Within is a caller's context with its deadline, or with one after so long if it has none.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// Tries counts those of one request that had no response.
type Tries int

// Next is the time of the next one.
func (n *Tries) Next() time.Duration {
	*n++
	return TryTime(int(*n) - 1)
}

// Do sends the request once: for as long as the next try may take, most at most. A most of 0 does not bound it. One
// that is answered, or cannot be sent, makes none of those that follow longer.
func (n *Tries) Do(ctx context.Context, most time.Duration, send func(context.Context) error) error {
	if most <= 0 {
		return send(ctx)
	}
	trying, cancel := context.WithTimeout(ctx, min(most, TryTime(int(*n))))
	defer cancel()
	err := send(trying)
	if err != nil && trying.Err() != nil {
		*n++
	}
	return err
}

// last is how long before the loss of a lease the pauses between renewals become parts of what is left that let the
// next try come in any case.
const last = 400 * time.Millisecond

// soonest bounds pauses between renewals from below.
const soonest = 50 * time.Millisecond

// Hasten is a pause before the next renewal of a lease that lasts for so long: a quarter of that at most, but not less
// than 100 ms before the last moments.
func Hasten(pause, left time.Duration) time.Duration {
	return max(soonest, min(pause, max(left/4, min(last/4, left/2))))
}

// shortest bounds the time of a try from below, so that the last one of a lease is sent.
const shortest = 10 * time.Millisecond

// Third is the time of a try when so much is left: a third of it, so that others can follow, and at most so much.
func Third(left, most time.Duration) time.Duration { return min(most, max(left/3, shortest)) }

// Insist sends a request until it succeeds, another try would fail as well, or ctx ends.
type Insist struct {
	Each   time.Duration    // of one try at most: the first ones are shorter, see [TryTime]; 0 does not bound it
	Pauses backoff.Policy   // between tries, unless the server asks for more
	Final  func(error) bool // reports whether another try would fail as well; nil means [lease.Final]
	// what is left of that for which the caller sends it, such as a lease; nil means that only ctx ends it
	Left func() time.Duration
	// is called before each pause, so once for each try that is to be followed by another; may be nil
	Failed func(error)
}

// Do sends the request until ctx ends. The error is that of the last try.
func (i Insist) Do(ctx context.Context, send func(context.Context) error) error {
	var tries Tries
	for retry := 0; ; retry++ {
		err := tries.Do(ctx, i.Each, send)
		if err == nil || i.IsFinal(err) || ctx.Err() != nil {
			return err
		}
		if i.Failed != nil {
			i.Failed(err)
		}
		left := Left(ctx)
		if i.Left != nil {
			left = min(left, i.Left())
		}
		if backoff.Sleep(ctx, Pause(i.Pauses.Delay(retry), err, left)) != nil {
			return err
		}
	}
}

// givingUp are the pauses between requests that give another one up.
var givingUp = backoff.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second, Min: 10 * time.Millisecond}

// GiveUp sends a request that gives another one up until that is carried out, or rejected for good, or ctx ends. No
// other answer says that nothing comes of the other request any more: also not that a lock is held, and for how long.
// The error REQUEST_ID_REUSED says that what it obtained has ended already, and so is none.
func GiveUp(ctx context.Context, send func(context.Context) error) error {
	err := Insist{Pauses: givingUp}.Do(ctx, func(ctx context.Context) error {
		err := send(ctx)
		if e, ok := errors.AsType[*contracts.Error](err); ok && e.Status == http.StatusConflict {
			now := *e
			now.RetryAfter = 0 // of the lock, not of the server
			return &now
		}
		return err
	})
	if errors.Is(err, contracts.CodeRequestIDReused) {
		return nil
	}
	return err
}

// IsFinal reports whether another try would fail as one did.
func (i Insist) IsFinal(err error) bool {
	if i.Final == nil {
		return lease.Final(err)
	}
	return i.Final(err)
}

// Left is the time until a context ends, [Forever] if it has no deadline.
func Left(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return Forever
}

// Forever is what is left without a bound.
const Forever time.Duration = math.MaxInt64

// Keep renews a lease.
type Keep struct {
	Term  *term.Term // is extended by each renewal, and lost when the lease is
	Clock term.Clock
	// of one try at most when the term lasts for so long: the first ones are shorter, see [TryTime]; nil leaves it to
	// Renew
	Each func(left time.Duration) time.Duration
	// after renewals that failed; First also after one that succeeded, however soon the next is due
	Pauses backoff.Policy

	Renew func(context.Context) error // sends the request once
	// until when the term lasts of which the renewal was sent at asked, and when to renew it again
	Renewed func(asked term.Moment) (end, due term.Moment)
	// why the lease is lost; nil if the error does not say that it is
	Lost func(error) error
	// reports that a failure needs no pause, because the next try is another one: once after each success; may be nil
	Again  func(error) bool
	Failed func(error) // is called for each renewal that is to be tried again

	// Extended is called after the term was extended, and the next renewal waits for it; may be nil.
	Extended func(ctx context.Context, asked term.Moment)
}

// Run renews the lease from due on, until it is lost or ctx ends. A response that comes after that extends nothing.
func (k *Keep) Run(ctx context.Context, due term.Moment) {
	var tries Tries
	for failed, again := 0, false; k.Clock.Sleep(ctx, due) == nil && k.Term.Check() == nil; {
		asked := k.Clock()
		each := time.Duration(0)
		if k.Each != nil {
			each = k.Each(k.Term.Left())
		}
		err := tries.Do(ctx, each, k.Renew)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if k.Term.Check() != nil {
				return
			}
			var end term.Moment
			if end, due = k.Renewed(asked); !k.Term.Extend(end) {
				return
			}
			if tries, failed, again = 0, 0, false; k.Extended != nil {
				k.Extended(ctx, asked)
			}
			if soon := k.Clock(); soon.Until(due) < k.Pauses.First {
				due = soon.Add(k.Pauses.First)
			}
			continue
		}
		if cause := k.Lost(err); cause != nil {
			k.Term.Lose(cause)
			return
		}
		if failed++; !again && k.Again != nil && k.Again(err) {
			again = true
			continue
		}
		k.Term.Failed(err)
		k.Failed(err)
		left := k.Term.Left()
		due = k.Clock().Add(Pause(Hasten(k.Pauses.Delay(failed-1), left), err, left))
	}
}
