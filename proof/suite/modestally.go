package suite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/proof/prove"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// modesTally is what the callers of one lock know together: their leases, which package prove judges. It knows nothing
// of rules.
type modesTally struct {
	leases []modesKnown // by token
	least  int64        // tokens of a lock that is acquired again after its removal are higher

	givenUp []modesCommand // acquires, in their order
	ended   []modesCommand // acquires with an end that were granted or given up: what comes again is a copy
}

// modesKnown is a lease as its caller knows it.
type modesKnown struct {
	token, permit     int64
	id, owner         string
	by                modesCommand
	acquired, expires moment
	isOver            bool   // ended before it expired
	over              moment // when, if so
	gone              bool   // of a lock that was removed
}

// ends is when the lease is known to be over.
func (l modesKnown) ends() moment {
	if l.isOver {
		return min(l.over, l.expires)
	}
	return l.expires
}

// pick is a lease that was granted before the latest; its token is one that was never granted if back is -1 or nothing
// was granted.
func (y *modesTally) pick(back int) modesKnown {
	n := len(y.leases)
	switch {
	case n == 0:
		return modesKnown{token: 1}
	case back < 0:
		return modesKnown{token: y.leases[n-1].token + 1000}
	default:
		return y.leases[max(0, n-1-back)]
	}
}

// removed forgets the leases of a lock whose document was removed.
func (y *modesTally) removed() {
	if n := len(y.leases); n > 0 {
		y.least = y.leases[n-1].token
	}
	for i := range y.leases {
		y.leases[i].gone = true
	}
	y.givenUp, y.ended = nil, nil
}

// starts returns the token before the first of a lock, which starts at the store's time in microseconds.
func (y *modesTally) starts(token int64, at moment) (int64, error) {
	if least := max(y.least, timeOf(at).UnixMicro()); token <= least || token > least+1e6 {
		return 0, fmt.Errorf("tokens start at %d, %d at least", token, least+1)
	}
	return token - 1, nil
}

// saw adds an outcome, and reports what must not be.
func (y *modesTally) saw(c modesCommand, o lock.Outcome, at moment) error {
	if o.Code == lock.LeaseExpired && c.do == "acquire" && c.replace { // granted, and over when the response arrived
		y.end(at, func(l modesKnown) bool { return l.token < o.Lease.Token })
	}
	if o.Code != lock.OK {
		for j := range y.leases {
			if l := &y.leases[j]; o.Code == lock.LeaseExpired && l.token == c.token && !o.Lease.ExpiresAt.IsZero() {
				l.expires = min(l.expires, momentOf(o.Lease.ExpiresAt)) // a renewal may have made it shorter, and been late
			}
		}
		return nil
	}
	i := slices.IndexFunc(y.leases, func(l modesKnown) bool { return l.token == o.Lease.Token })
	if err := y.stays(c, o.Lease.Token); err != nil {
		return err
	}
	if c.until != 0 && (c.do == "acquire" || c.do == "give up") {
		defer func() { y.ended = append(y.ended, c) }()
	}
	switch c.do {
	case "acquire":
		known := modesKnown{token: o.Lease.Token, permit: o.Lease.Permit, id: o.Lease.LeaseID, owner: o.Lease.Owner, by: c,
			acquired: momentOf(o.Lease.AcquiredAt), expires: momentOf(o.Lease.ExpiresAt)}
		if i >= 0 {
			old := y.leases[i]
			if old.owner != known.owner || old.id != known.id || old.acquired != known.acquired {
				return fmt.Errorf("token %d is that of %+v and of %+v", known.token, old, known)
			}
			y.leases[i].expires = known.expires
			return nil
		}
		if err := y.late(known); err != nil {
			return err
		}
		if c.replace {
			y.end(known.acquired, func(l modesKnown) bool { return l.token < known.token })
		}
		y.leases = append(y.leases, known)
		slices.SortFunc(y.leases, func(a, b modesKnown) int { return cmp.Compare(a.token, b.token) })
	case "renew":
		if i >= 0 {
			y.leases[i].expires = momentOf(o.Lease.ExpiresAt)
		}
	case "give up":
		y.end(at, func(l modesKnown) bool { return l.by.is(c) && l.by.mode != modeRate })
	case "release": // also if it is replayed: the first response may have got lost
		y.end(at, func(l modesKnown) bool { return l.token == o.Lease.Token })
	default:
		y.end(at, func(l modesKnown) bool { return c.lease == "" || c.lease == l.id })
	}
	return y.check()
}

// stays reports a request that obtained the lease of a token after it was given up, while the lock remembers that; and
// notes what is given up.
func (y *modesTally) stays(c modesCommand, token int64) error {
	givenUp := slices.ContainsFunc(lastOf(y.givenUp, knownRequests), c.is)
	switch {
	case c.do == "give up" && !givenUp:
		y.givenUp = append(y.givenUp, c)
	case c.do == "acquire" && givenUp:
		return fmt.Errorf("%q by %q was given up, and obtained token %d", c.request, c.owner, token)
	}
	return nil
}

// late reports a lease that was obtained by a copy of a request, however many others came in between, while another
// lasted: a copy may take what is free, and ends no one's lease.
func (y *modesTally) late(copied modesKnown) error {
	c := copied.by
	if !slices.ContainsFunc(y.ended, func(d modesCommand) bool { return d.is(c) && d.until >= c.until && c.until != 0 }) {
		return nil
	}
	for _, l := range y.leases {
		if l.token < copied.token && !l.gone && !l.by.is(c) && l.acquired <= copied.acquired && copied.acquired < l.ends() {
			return fmt.Errorf("a copy of %q by %q, which was granted or given up before, ended token %d", c.request, c.owner,
				l.token)
		}
	}
	return nil
}

// end ends leases that last.
func (y *modesTally) end(at moment, which func(modesKnown) bool) {
	for j := range y.leases {
		if l := &y.leases[j]; l.acquired <= at && at < l.ends() && which(*l) {
			l.isOver, l.over = true, at
		}
	}
}

// check reports what must not be among the leases.
func (y *modesTally) check() error {
	var leases []prove.Lease
	for _, l := range y.leases {
		if !l.gone {
			leases = append(leases, prove.Lease{
				Token: l.token, Holder: l.owner, Mode: modesAcquire(lock.ID{}, l.by).Mode, Limit: l.by.limit, Window: l.by.window,
				Permit: l.permit, From: int64(l.acquired), Until: int64(l.ends()),
			})
		}
	}
	if v := cmp.Or(prove.TokensRise(leases), prove.OneLease(leases)); v != nil {
		return errors.New(v.String())
	}
	return nil
}

// holds reports whether what everyone may see of the lock is impossible.
func (y *modesTally) holds(s lock.Status, at moment) error {
	var all []prove.Lease
	for _, h := range s.Holders {
		all = append(all, prove.Lease{Holder: h.Owner, Mode: h.Mode, Permit: h.Permit, Limit: s.Limit})
		if momentOf(h.ExpiresAt) <= at {
			return fmt.Errorf("%+v is shown as a holder at %d", h, at)
		}
	}
	if err := prove.Together(all...); err != nil {
		return fmt.Errorf("%w: %+v", err, s)
	}
	return nil
}
