package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/owner"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Rate is how often something may be done: in any window of time that is as long as Window, Limit times at most, by the
// provider's clock.
type Rate struct {
	Limit  int           // 1 to MaxRate
	Window time.Duration // whole seconds, 1 s to MaxWindow
}

// TakeOptions are the settings of [Client.Take]. The zero value works. Those that LockOptions have, too, mean the same.
type TakeOptions struct {
	Wait       *time.Duration
	Poll       time.Duration
	MaxWaiting int
	Metadata   map[string]string
}

// Take waits until what a key names may be done once more: at the given rate, by all who take from the key together. It
// returns the grant's token, which is higher than that of every earlier one. TakeOptions may be nil.
//
// A grant is not held: there is nothing to renew, to lose or to release, and it is used up when it is given, also if
// nothing is done then. How long what is done takes, or waits on its way, is not bounded: where that matters, take a
// lock with LockOptions.Permits as well.
//
// All who take from a key must say the same rate; otherwise the error is LOCK_MODE_DIFFERS until the grants of the last
// window are over. With a TakeOptions.Wait of 0 the error is LOCK_HELD, with the time until the next grant in
// RetryAfter. Who waits, waits in line.
func (c *Client) Take(ctx context.Context, key string, r Rate, o *TakeOptions) (token int64, err error) {
	defer c.underway.begin()()
	s, err := r.settings(key, o)
	if err != nil {
		return 0, fmt.Errorf("rate of %q: %w", key, err)
	}
	request := s.request(c.o.Owner)
	request.Fair = false // it always is
	request.TTLSeconds, request.Mode, request.Limit, request.WindowSeconds = 0, contracts.LockModeRate, int64(r.Limit),
		int64(r.Window/time.Second)
	a := &acquisition{
		client: c, provider: c.provider, ctx: context.WithoutCancel(ctx), key: key, o: s, request: request,
		leave:           func() {},
		skipsLocalQueue: s.MaxWaiting > 0, isRate: true,
	}
	err = a.run(ctx, func(_ context.Context, _ term.Moment, got contracts.Lease) error {
		token = got.FencingToken
		c.events.emit(Event{What: Taken, Key: key, Token: token})
		return nil
	})
	return token, err
}

// settings are TakeOptions as those of a lock.
func (r Rate) settings(key string, o *TakeOptions) (LockOptions, error) {
	s := TakeOptions{}
	if o != nil {
		s = *o
	}
	switch {
	case r.Limit < 1 || r.Limit > MaxRate:
		return LockOptions{}, fmt.Errorf("Rate.Limit is %d: must be 1 to %d", r.Limit, MaxRate)
	case r.Window < time.Second || r.Window > MaxWindow || r.Window%time.Second != 0:
		return LockOptions{}, fmt.Errorf("Rate.Window is %v: must be whole seconds from 1s to %v", r.Window, MaxWindow)
	}
	l := LockOptions{
		TTL: DefaultTTL, Wait: cmp.Or(s.Wait, new(Forever)), Poll: cmp.Or(s.Poll, defaultPoll), MaxWaiting: s.MaxWaiting,
		Metadata: maps.Clone(s.Metadata), Fair: true,
	}
	return l, errors.Join(owner.CheckText("the key", key, 256), l.checkWait("TakeOptions"))
}
