package suite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// modesTally is what the callers of one lock know together: their leases. It knows nothing of rules, only what must
// never be: more current leases than the lock has room for, a writer beside a reader, more grants in a window than its
// rate, tokens that come twice or in another order than the grants.
type modesTally struct {
	leases []modesKnown // by token
	least  int64        // tokens of a lock that is acquired again after its removal are higher

	givenUp []modesCommand // acquires, in their order

	inAnyOrder bool // the times of acquired are those at which callers knew, which may come in another order
}

// modesKnown is a lease as its caller knows it.
type modesKnown struct {
	token, permit     int64
	id, owner, mode   string
	kind              modesKind
	acquired, expires moment
	isOver            bool   // ended before it expired
	over              moment // when, if so
	gone              bool   // of a lock that was removed
	request           string // that obtained it
	replace           bool
}

// modesKnew is what the caller of an acquire knows by its outcome.
func modesKnew(c modesCommand, o lock.Outcome) modesKnown {
	return modesKnown{
		token: o.Lease.Token, permit: o.Lease.Permit, id: o.Lease.LeaseID, owner: o.Lease.Owner, mode: c.mode, kind: c.kind(),
		acquired: momentOf(o.Lease.AcquiredAt), expires: momentOf(o.Lease.ExpiresAt), request: c.request, replace: c.replace,
	}
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
	y.givenUp = nil
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
		y.replaced(o.Lease.Token, at)
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
	switch c.do {
	case "acquire":
		known := modesKnew(c, o)
		if i >= 0 {
			old := y.leases[i]
			if old.owner != known.owner || old.id != known.id || old.acquired != known.acquired {
				return fmt.Errorf("token %d is that of %+v and of %+v", known.token, old, known)
			}
			y.leases[i].expires = known.expires
			return nil
		}
		if c.replace {
			y.replaced(known.token, known.acquired)
		}
		y.leases = append(y.leases, known)
		slices.SortFunc(y.leases, func(a, b modesKnown) int { return cmp.Compare(a.token, b.token) })
	case "renew":
		if i >= 0 {
			y.leases[i].expires = momentOf(o.Lease.ExpiresAt)
		}
	case "give up":
		for j := range y.leases {
			if l := &y.leases[j]; l.owner == c.owner && l.request == c.request && l.kind.family != modeRate &&
				l.acquired <= at && at < l.ends() {
				l.isOver, l.over = true, at
			}
		}
	case "release":
		if i >= 0 && !y.leases[i].isOver { // also if it is replayed: the first response may have got lost
			y.leases[i].isOver, y.leases[i].over = true, at
		}
	default:
		for j := range y.leases {
			if l := &y.leases[j]; (c.lease == "" || c.lease == l.id) && l.acquired <= at && at < l.ends() {
				l.isOver, l.over = true, at
			}
		}
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

// replaced ends the leases that another took the lock from.
func (y *modesTally) replaced(by int64, at moment) {
	for j := range y.leases {
		if l := &y.leases[j]; at < l.ends() && l.token < by {
			l.isOver, l.over = true, at
		}
	}
}

// check reports what must not be among the leases. What is current is asked for at each grant: more cannot be between
// two.
func (y *modesTally) check() error {
	for i, l := range y.leases {
		if l.gone {
			continue
		}
		if i > 0 && (l.token == y.leases[i-1].token || l.acquired < y.leases[i-1].acquired && !y.inAnyOrder) {
			return fmt.Errorf("tokens do not rise: %+v, then %+v", y.leases[i-1], l)
		}
		var beside []modesKnown
		for _, b := range y.leases {
			if !b.gone && b.acquired <= l.acquired && l.acquired < b.ends() && l.acquired < l.ends() {
				beside = append(beside, b)
			}
		}
		if err := modesTogether(beside); err != nil {
			return fmt.Errorf("%w at %d: %+v", err, l.acquired, beside)
		}
	}
	return nil
}

// modesTogether reports leases that cannot be current at the same time.
func modesTogether(leases []modesKnown) error {
	var writers int
	permits := map[int64]int{}
	for _, l := range leases {
		if l.kind != leases[0].kind {
			return errors.New("leases of two modes")
		}
		if l.mode == modeExclusive {
			writers++
		}
		permits[l.permit]++
		if l.mode == modePermits && (permits[l.permit] > 1 || l.permit < 1 || l.permit > l.kind.limit) {
			return fmt.Errorf("permit %d is not one holder's", l.permit)
		}
	}
	switch n := len(leases); {
	case writers > 0 && n > 1:
		return errors.New("a writer beside another holder")
	case n > 0 && leases[0].kind.limit > 0 && int64(n) > leases[0].kind.limit:
		return fmt.Errorf("%d of %d", n, leases[0].kind.limit) // of a rate: the leases last as long as the window
	default:
		return nil
	}
}

// holds reports whether what everyone may see of the lock is impossible.
func (y *modesTally) holds(s lock.Status, at moment) error {
	var all []modesKnown
	for _, h := range s.Holders {
		all = append(all, modesKnown{
			owner: h.Owner, mode: modeName(h.Mode), permit: h.Permit, kind: modesKind{limit: s.Limit},
			acquired: momentOf(h.AcquiredAt), expires: momentOf(h.ExpiresAt),
		})
		if momentOf(h.ExpiresAt) <= at {
			return fmt.Errorf("%+v is shown as a holder at %d", h, at)
		}
	}
	if err := modesTogether(all); err != nil {
		return fmt.Errorf("%w: %+v", err, s)
	}
	return nil
}
