package rule

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Impossible ends.
//
// What lasts for most at the longest ends at most that long after the store's time. An end further ahead was written
// while the store's clock was ahead, or the clock was set back since. Nothing stays closed for as long as a clock was
// off: who looks at such an end counts it from that look, and writes that down, so that whoever looks next goes on from
// there and the end does not move with each look. That is safe, because a holder counts its term by its own clocks from
// before the request that was granted, and that was before the look.
//
// [When.Impossible] is the rule, wherever something ends; [ImpossibleEnd] is the same for a store, as a condition of
// the write that counts an end anew.

// EndTolerance is by how much more than it can an end may lie ahead and still count as it stands. Callers of a store
// without a clock of its own know its time about a second apart, and what is closed for a second longer needs no write.
const EndTolerance = time.Second

// Impossible reports whether an end of what lasts for most at the longest lies so far ahead that a clock was wrong when
// it was written. counts is the end that counts: end itself, or most after the latest that the store's time can be. A
// most of 0 is for times that have passed when they are written.
func (w When) Impossible(end time.Time, most time.Duration) (counts time.Time, is bool) {
	latest := docstore.TruncateMilli(w.Latest()).Add(most)
	if !end.After(latest.Add(EndTolerance)) {
		return end, false
	}
	return latest, true
}

// ImpossibleEnd holds where [When.Impossible] does for the time in a field, and where the field is no text: what a
// condition has beside it must rule that out.
func ImpossibleEnd(field string, most time.Duration) docstore.Cond {
	return docstore.Not{Cond: docstore.LE{Field: field, Value: docstore.Latest.Add(most + EndTolerance)}}
}
