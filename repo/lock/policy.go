package lock

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// policies are the parameters of the request besides its lease's, none if there are no others. They are one text, so
// that they are never taken for labels.
func (c Acquire) policies() []string {
	text := ""
	if c.Mode != Exclusive {
		text += fmt.Sprintf("mode=%s/%d/%d ", c.Mode, c.Limit, c.WindowSeconds)
	}
	if c.Replace {
		text += "replace "
	}
	if c.LockDelaySeconds > 0 {
		text += fmt.Sprintf("delay=%d ", c.LockDelaySeconds)
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

// setPolicies stores the policies of the new lease, and removes those of the one before it.
func (c Acquire) setPolicies(w *docstore.Write) {
	if c.Replace {
		w.Set[fReplaceable] = docstore.Bool(true)
	} else {
		w.Unset = append(w.Unset, fReplaceable)
	}
	if c.LockDelaySeconds > 0 {
		w.Set[fDelay] = docstore.Int(c.LockDelaySeconds)
	} else {
		w.Unset = append(w.Unset, fDelay)
	}
}

// replaceable holds while there is a lease that another acquire may replace. It does not ask whether the lease has
// expired: it may be taken in either case, unless it has a lock delay.
func replaceable() docstore.All {
	return docstore.All{
		docstore.Eq{Field: fState, Value: docstore.String(Active)},
		docstore.Eq{Field: fReplaceable, Value: docstore.Bool(true)},
	}
}

// delay is the lock delay of the latest lease.
func (s State) delay() time.Duration { return time.Duration(s.LockDelaySeconds) * time.Second }

// FreeAt is when the lock is free if no one does anything: when the latest lease expires, or now if it was ended, and a
// lock delay later if it has one. It is zero if the lock is free whatever the time is.
func (s State) FreeAt() time.Time {
	switch {
	case s.Phase == Active:
		return s.ExpiresAt.Add(s.delay())
	case s.Phase == Released && s.LockDelaySeconds > 0:
		return s.ReleasedAt.Add(s.delay())
	default:
		return time.Time{}
	}
}

// closedUntil is FreeAt of a lock whose latest lease has ended, while its lock delay lasts; otherwise it is zero.
func (s State) closedUntil(now time.Time) time.Time {
	if free := s.FreeAt(); s.LockDelaySeconds > 0 && s.PhaseAt(now) != Active && now.Before(free) {
		return free
	}
	return time.Time{}
}

// afterDelay is [Acquire.Fallback] in plain form: it takes what Write does not know how to take. That is a lock whose
// latest lease has a lock delay, once that has passed since the lease expired or was ended by force; and one that has
// forgotten requests whose end is still ahead, see [State].Forgotten. With Replace it also takes one whose lease is
// held, unless the request may be one of those. The condition asks the store whether it is so, about a document with
// that delay and those requests.
func (c Acquire) afterDelay(s State, w rule.When) (docstore.Write, bool) {
	remembered, _ := s.Acquires.Find(c.request())
	replaces := c.mayReplace(s, w) && s.Phase == Active
	if remembered >= 0 {
		return docstore.Write{}, false
	}
	if w, ok := c.countAnew(s, w, c.retention); ok && !replaces {
		return w, true
	}
	if s.LockDelaySeconds == 0 && s.Forgotten.IsZero() {
		return docstore.Write{}, false
	}
	passed := func(f string) docstore.Cond { return docstore.LE{Field: f, Value: docstore.Now.Add(-s.delay())} }
	found := docstore.All{same(fState, string(s.Phase)), counted(fDelay, s.LockDelaySeconds),
		counted(fToken, s.Token), same(fForgotten, endText(s.Forgotten))}
	switch {
	case replaces && s.ExpiresAt.After(w.At):
		found = append(append(found, replaceable()...), coming)
	case s.Phase == Active:
		found = append(found, passed(fExpiresAt))
	case s.LockDelaySeconds > 0:
		found = append(found, passed(fReleasedAt))
	}
	return c.grantWrite(found, s.forgets(w, s.AcquireEnds.oldest())), true
}

// delayedDetail says why a lock is closed that no one holds.
func (s State) delayedDetail() string {
	how := "expired at " + string(docstore.FormatTime(s.ExpiresAt))
	if s.Phase == Released {
		how = "was ended by force at " + string(docstore.FormatTime(s.ReleasedAt))
	}
	return fmt.Sprintf("the lease of %s %s; its lock delay of %d s keeps the lock closed until %s",
		s.Owner, how, s.LockDelaySeconds, docstore.FormatTime(s.FreeAt()))
}
