package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// lockMode is how many may hold a lock, and who waits. A flag whose least value is 1 is nil unless it is given: an
// empty variable of a script, or 0, must not mean a lock that one holds alone.
type lockMode struct {
	Shared     bool          `xor:"mode" help:"Be a reader: any number hold the lock together. Who asks without --shared is a writer, and holds it alone."`
	Permits    *int64        `xor:"mode" placeholder:"N" help:"Up to N hold the lock at a time, 1 to 100. All who ask for it must give the same N."`
	Rate       *string       `xor:"mode" placeholder:"N/WINDOW" help:"Up to N grants in any window of time, such as 10/min, 5/s, 1000/h or 3/90s. All who ask for the lock must give the same. A grant is used up at once: it is not renewed, released or lost."`
	Replace    bool          `xor:"mode" help:"Take the lock from its holder, if that one gave --replace too."`
	Fair       bool          `help:"Wait in line: first come, first served. --shared, --permits and --rate always do."`
	MaxWaiting *int64        `placeholder:"N" help:"How many may wait in line, 1 to 100, this one included. If as many wait already, it does not wait. Needs --wait, and --fair, --shared, --permits or --rate."`
	LockDelay  time.Duration `placeholder:"DURATION" help:"How long no one gets the lock after this lease expired or was ended by force; whole seconds, at most 1h. A release opens it at once."`
}

// units are how windows of a rate are called.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute,
	"minute": time.Minute,
	"h":      time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
}

// rate reads --rate. It is zero if there is none.
func (m lockMode) rate() (r locks.Rate, err error) {
	if m.Rate == nil {
		return r, nil
	}
	number, window, _ := strings.Cut(*m.Rate, "/")
	limit, err := strconv.Atoi(number)
	var named bool
	if r.Window, named = units[window]; !named {
		r.Window, _ = time.ParseDuration(window)
	}
	switch r.Limit = limit; {
	case err != nil || r.Window == 0:
		return r, usage("--rate %s: must be a number, \"/\" and a window of time, such as 10/min, 5/s, 1000/h or 3/90s",
			*m.Rate)
	case limit < 1 || limit > locks.MaxRate:
		return r, usage("--rate %s: must be 1 to %d in a window", *m.Rate, locks.MaxRate)
	case r.Window < time.Second || r.Window > locks.MaxWindow || r.Window%time.Second != 0:
		return r, usage("--rate %s: the window must have whole seconds, from 1s to 24h", *m.Rate)
	}
	return r, nil
}

// into adds the mode to a request whose lease is to last for ttl, and checks the whole as a server would. wait: the
// command waits.
func (m lockMode) into(r *contracts.AcquireRequest, t ttl, wait bool, tenant, key string) error {
	rate, err := m.rate()
	switch {
	case err != nil:
		return err
	case m.LockDelay < 0 || m.LockDelay > locks.MaxLockDelay || m.LockDelay%time.Second != 0:
		return usage("--lock-delay %v: must be whole seconds, at most 1h", m.LockDelay)
	case rate.Limit > 0 && m.LockDelay > 0:
		return usage("--lock-delay does not belong to --rate, whose grants are not held")
	case m.Permits != nil && (*m.Permits < 1 || *m.Permits > locks.MaxPermits):
		return usage("--permits %d: must be 1 to %d", *m.Permits, locks.MaxPermits)
	case m.MaxWaiting != nil && (*m.MaxWaiting < 1 || *m.MaxWaiting > locks.MaxWaiting):
		return usage("--max-waiting %d: must be 1 to %d", *m.MaxWaiting, locks.MaxWaiting)
	case m.MaxWaiting != nil && !wait:
		return usage("--max-waiting %d: is about those who wait, so add --wait DURATION", *m.MaxWaiting)
	case m.MaxWaiting != nil && !m.Fair && !m.Shared && m.Permits == nil && m.Rate == nil:
		return usage("--max-waiting %d: needs a line, so add --fair", *m.MaxWaiting)
	}
	if r.TTLSeconds, err = t.seconds(); err != nil {
		return err
	}
	r.Fair, r.MaxWaiting, r.Replace, r.LockDelaySeconds = m.Fair, given(m.MaxWaiting), m.Replace,
		int64(m.LockDelay/time.Second)
	switch {
	case m.Shared:
		r.Mode = contracts.LockModeShared
	case m.Permits != nil:
		r.Mode, r.Limit = contracts.LockModePermits, *m.Permits
	case rate.Limit > 0:
		r.Mode, r.Limit, r.WindowSeconds, r.TTLSeconds = contracts.LockModeRate, int64(rate.Limit),
			int64(rate.Window/time.Second), 0
	}
	asked := *r
	asked.RequestID, asked.OwnerID = cmp.Or(asked.RequestID, "x"), cmp.Or(asked.OwnerID, "x")
	command, err := direct.Acquire(lock.ID{Tenant: tenant, Key: key}, asked)
	if err == nil {
		err = command.Validate()
	}
	if err != nil {
		return usage("%w", err)
	}
	return nil
}

// given is the value of a flag, 0 if it was left out.
func given(flag *int64) int64 {
	if flag == nil {
		return 0
	}
	return *flag
}

// options are the mode as those of package locks.
func (m lockMode) options() locks.LockOptions {
	return locks.LockOptions{
		Shared: m.Shared, Permits: int(given(m.Permits)), Fair: m.Fair, MaxWaiting: int(given(m.MaxWaiting)),
		Replace: m.Replace, LockDelay: m.LockDelay,
	}
}

// modeOf is the mode of a lock in one word.
func modeOf(l contracts.Lock) string {
	switch l.Mode {
	case contracts.LockModePermits:
		return fmt.Sprintf("permits=%d", l.Limit)
	case contracts.LockModeRate:
		return fmt.Sprintf("rate=%d/%s", l.Limit, lock.Window(l.WindowSeconds))
	default:
		return string(cmp.Or(l.Mode, contracts.LockModeExclusive))
	}
}

// several reports whether a lock has more to say than who holds it: a mode, holders or a line.
func several(l contracts.Lock) bool {
	return l.Mode != "" && l.Mode != contracts.LockModeExclusive || len(l.Holders) > 0 || len(l.Waiting) > 0
}

// holding is how many hold the lock.
func holding(l contracts.Lock) int {
	switch {
	case len(l.Holders) > 0:
		return len(l.Holders)
	case l.State == contracts.StateActive && l.Mode != contracts.LockModeRate:
		return 1
	default:
		return 0
	}
}

// details are what is known of a lock beside its line in a table: who holds it and who waits, what was before, and why
// it is closed. It is empty if there is nothing.
func details(l contracts.Lock, now time.Time, text func(string) string) string {
	var b strings.Builder
	part := func(head string, rows int, row func(w *tabwriter.Writer, i int)) {
		if rows == 0 {
			return
		}
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\n%s\n", head)
		for i := range rows {
			row(w, i)
			fmt.Fprintln(w)
		}
		_ = w.Flush() // a strings.Builder takes everything
	}
	part("HOLDER\tMODE\tPERMIT\tAGE\tUNTIL\tMETADATA", len(l.Holders), func(w *tabwriter.Writer, i int) {
		h := l.Holders[i]
		permit := "-"
		if h.Permit > 0 {
			permit = strconv.FormatInt(h.Permit, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s", text(h.OwnerID), h.Mode, permit, age(h.AcquiredAt, now), h.ExpiresAt,
			labels(h.Metadata, text))
	})
	part("WAITING\tPLACE\tMODE\tSINCE\tUNTIL", len(l.Waiting), func(w *tabwriter.Writer, i int) {
		q := l.Waiting[i]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s", text(q.OwnerID), i+1, q.Mode, q.Since, q.Until)
	})
	part("BEFORE\tTOKEN\tACQUIRED\tENDED\tHOW", len(l.History), func(w *tabwriter.Writer, i int) {
		p := l.History[i]
		how := string(p.Ended)
		if p.EndedBy != "" {
			how += " by " + text(p.EndedBy)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s", text(p.OwnerID), p.FencingToken, p.AcquiredAt, p.EndedAt, how)
	})
	if f := l.ForceRelease; f != nil {
		fmt.Fprintf(&b, "\nended by %s at %s: %s\n", text(f.By), f.At, quoted(f.Reason))
	}
	switch {
	case l.FreeAt == "":
	case l.Mode == contracts.LockModeRate:
		fmt.Fprintf(&b, "\nused up: the next grant is possible at %s\n", l.FreeAt)
	default:
		fmt.Fprintf(&b, "\nclosed until %s, after a lease that was lost\n", l.FreeAt)
	}
	if l.Refused != nil {
		fmt.Fprintf(&b, "\nrefused last: %s, at %s\n", text(l.Refused.OwnerID), l.Refused.At)
	}
	return trimmed(b.String())
}
