package lock

import (
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// What a lock has forgotten may take what is free, never what is held.
//
// A lock remembers four acquires that were granted, and four that were given up. A copy of an earlier one that comes
// before its end is a new request to it. It may take a free lock; but with Replace it would end the lease of one that
// was asked for later. So beside each request that may replace others the document has its end, and, when such a
// request is forgotten, the latest of their ends: [State].Forgotten. Until that has passed, an acquire whose end is not
// later may be one of them, and replaces no one: it is refused, or waits, as one without Replace. One whose end is
// later is not, and neither is one without an end, which nothing tells from a copy.
//
// The end that is forgotten is the oldest one of a shift register, so that a grant does not read first. What one write
// cannot say is which of two times is the later one. So first writes ask that Forgotten has passed, and put the oldest
// end in its place; while it has not, there is a second write, which knows both.

// ends are those of the requests of a register, the newest first; zero for a request that replaces no one.
type ends [rule.Remembered]time.Time

var (
	acquireEnds = rule.Register{"s1", "s2", "s3", "s4"}
	givenUpEnds = rule.Register{"t1", "t2", "t3", "t4"}
)

const (
	fForgotten = "m" // the latest end of requests that are forgotten, if it may be ahead

	// unnamedEnd is how long after it was given up a copy of a request may come of which the give-up names no end: longer
	// than a client waits for the response to a delivery that waits for MaxWaitSeconds.
	unnamedEnd = (MaxWaitSeconds + 20) * time.Second
)

// noneForgotten holds while no request that may replace others is forgotten before its end: Forgotten has passed, is
// missing, or lies further ahead than an end can. A request has its effect at its end, too.
var noneForgotten docstore.Cond = docstore.Any{
	docstore.LE{Field: fForgotten, Value: docstore.Now.Add(-time.Millisecond)},
	rule.ImpossibleEnd(fForgotten, docstore.MaxAhead),
}

// oldestEnd and laterEnds are what a grant moves from one field to another: made once, as it does it each time.
var (
	oldestEnd docstore.Value = docstore.Before(acquireEnds[len(acquireEnds)-1])
	laterEnds                = func() (values [len(acquireEnds) - 1]docstore.Value) {
		for i := range values {
			values[i] = docstore.Before(acquireEnds[i])
		}
		return values
	}()
)

// oldest is the end that a write pushes out.
func (e ends) oldest() time.Time { return e[len(e)-1] }

func readEnds(r *rule.Reader, fields rule.Register) (e ends) {
	for i, f := range fields {
		e[i] = r.Time(f)
	}
	return e
}

// endText is the stored form of an end.
func endText(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return string(docstore.FormatTime(end))
}

// replacesUntil is the end until which a copy of the request may replace others; zero if none does, or if there is
// none.
func (c Acquire) replacesUntil() time.Time {
	if !c.Replace {
		return time.Time{}
	}
	return c.NotAfter
}

// rememberEnd adds the end of an acquire to the write that grants it.
func (c Acquire) rememberEnd(set map[string]docstore.Value, forgotten docstore.Value) {
	set[acquireEnds[0]], set[fForgotten] = docstore.String(endText(c.replacesUntil())), forgotten
	for i, v := range laterEnds {
		set[acquireEnds[i+1]] = v
	}
}

// isEnd reports whether a request can have the end now: not one that a wrong clock has named.
func isEnd(end time.Time, w rule.When) bool {
	_, impossible := w.Impossible(end, docstore.MaxAhead)
	return !impossible
}

// forgets is Forgotten after requests with these ends are forgotten, too.
func (s State) forgets(w rule.When, more ...time.Time) docstore.String {
	var latest time.Time
	for _, end := range append(more, s.Forgotten) {
		if isEnd(end, w) {
			latest = later(latest, end)
		}
	}
	return docstore.String(endText(latest))
}

// mayReplace reports whether the request replaces the latest lease, if that lasts: not if the request may be one that
// is forgotten.
func (c Acquire) mayReplace(s State, w rule.When) bool {
	return c.Replace && s.Replaceable && !c.mayBeForgotten(s, w)
}

// mayBeForgotten does not ask whether Forgotten has passed: then the end of the request has, too, which is never later.
func (c Acquire) mayBeForgotten(s State, w rule.When) bool {
	return isEnd(s.Forgotten, w) && !c.NotAfter.IsZero() && !c.NotAfter.After(s.Forgotten)
}

// forgottenDetail says why a request replaces no one.
func (s State) forgottenDetail() string {
	return "it may be a late copy of a request that is no longer remembered, so that it replaces no one; one whose " +
		"not_after is later than " + endText(s.Forgotten) + " does"
}

// rememberGivenUp adds a request that is given up to a first write, which asks that none is forgotten.
func (c GiveUp) rememberGivenUp(set map[string]docstore.Value) {
	givenUps.Remember(set, c.Acquire.request())
	var end docstore.Value = docstore.String("")
	switch {
	case !c.Acquire.Replace:
	case c.Acquire.NotAfter.IsZero(), c.Acquire.NotAfter.UnixMilli() > farthest: // what has no stored form is none
		end = docstore.Now.Add(unnamedEnd)
	default:
		end = docstore.FormatTime(c.Acquire.NotAfter)
	}
	givenUpEnds.Shift(set, end)
	set[fForgotten] = docstore.Before(givenUpEnds[len(givenUpEnds)-1])
}

// rememberGivenUpOf is the same for a second write, to a document as it was found.
func (c GiveUp) rememberGivenUpOf(s State, w rule.When, set map[string]docstore.Value) {
	c.rememberGivenUp(set)
	set[fForgotten] = s.forgets(w, s.GivenUpEnds.oldest())
}

// rememberedAsFound holds while the lock remembers the requests that were given up, and has forgotten those, that were
// found.
func (s State) rememberedAsFound() docstore.All {
	return docstore.All{same(givenUps[0], s.GivenUp[0]), same(fForgotten, endText(s.Forgotten))}
}

// rememberGranted adds the requests of new grants to a write, the oldest first, with their ends.
func (s State) rememberGranted(wr *docstore.Write, w rule.When, granted []string, until []time.Time) {
	entries, all := slices.Clone(granted), slices.Clone(until)
	slices.Reverse(entries)
	slices.Reverse(all)
	for i, e := range append(entries, s.Acquires[:]...)[:len(acquires)] {
		if e != "" {
			wr.Set[acquires[i]] = docstore.String(e)
		}
	}
	all = append(all, s.AcquireEnds[:]...)
	for i, end := range all[:len(acquireEnds)] {
		if end != s.AcquireEnds[i] {
			wr.Set[acquireEnds[i]] = docstore.String(endText(end))
		}
	}
	forgotten := all[len(acquireEnds):]
	if _, more := wr.Set[fForgotten]; more { // that of a request which is given up in the same write
		forgotten = append(forgotten, s.GivenUpEnds.oldest())
	}
	if text := s.forgets(w, forgotten...); string(text) != endText(s.Forgotten) {
		wr.Set[fForgotten] = text
	}
}
