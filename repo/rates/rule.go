// Package rates holds callers to a number of requests a second, whatever process they ask.
//
// # The rule
//
// A document has one number: the theoretical arrival time, at which everything that was granted has been paid for at
// the rate. That is the generic cell rate algorithm (ITU-T I.371, annex A, the virtual scheduling form). A [Take] of n
// requests moves it by the time of n requests, if it then lies no further ahead of the store's time than the burst. If
// it has passed, it counts as now: what was not used is not saved beyond the burst.
//
//	store's time ──┬─────────── burst ───────────┐
//	               now          TAT              now + burst
//	               ├── taken ───┼──── room ──────┤
//
// # Slices
//
// A process ([Rates]) takes slices: what it needs for about a second, or ten requests while more than half of the
// burst is left. With a slice in hand it asks no more. A slice ends, so that a process that was frozen does not come
// back with an old one, and one that ends loses no more than it has in hand.
package rates

import (
	"math"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Kind is the kind of the documents, one for each caller that is held to a rate.
const Kind = "rates"

// fTAT is the theoretical arrival time, in microseconds since 1970.
const fTAT = "tat_us"

const (
	burst = 2 * time.Second // how much of the rate may come at once
	least = 10              // requests in a slice, while more than half of the burst is left

	// keep is how long a document is kept that is not written. It says nothing once its time has passed, 2 s later.
	keep = time.Hour

	// fresh is how long the store's time that is known may have passed. A take that begins anew counts from there.
	fresh = 500 * time.Millisecond

	// maxTries bounds the second writes of a take, beside others that take what is left. Then they have got it.
	maxTries = 3
)

// Take is the command that takes a part of a rate.
type Take struct {
	Key  docstore.Key // of the document
	Rate float64      // requests a second, above 0
	Want int64        // requests, 1 or more; fewer are granted if no more are left

	// At is a store's time that certainly has come, and TAT the theoretical arrival time of then. With them most takes
	// are one write; where they are not known, or no longer true, it is one more.
	At, TAT time.Time

	tries *int // how many second writes there were; nil: they are not counted
}

// State is what the document says.
type State struct {
	TAT time.Time // zero: nothing was ever taken
}

// Outcome is what a [Take] got.
type Outcome struct {
	Granted int64         // requests; 0 if none are left
	At, TAT time.Time     // the store's time of the decision, and the theoretical arrival time after it
	Wait    time.Duration // from At until there is one, if none was granted
	Took    time.Duration // how long the latest write took
}

// Burst is how many requests of a rate may come at once.
func Burst(rate float64) int64 { return max(1, int64(math.Ceil(burst.Seconds()*rate))) }

// cost is the time of n requests, in whole microseconds, rounded up.
func (c Take) cost(n int64) time.Duration {
	return time.Duration(math.Ceil(float64(n)*1e6/c.Rate-1e-6)) * time.Microsecond
}

// depth is the time of a full burst.
func (c Take) depth() time.Duration { return c.cost(Burst(c.Rate)) }

// impossible reports whether an arrival time lies further ahead than a take can have brought it: a clock was wrong.
// Then a whole burst counts as taken now, see [rule.When.Impossible], and n requests are none.
func (c Take) impossible(tat time.Time, at rule.When) (counts time.Time, is bool) {
	return at.Impossible(tat, c.depth())
}

// plan is what is granted at a time. anew says that the arrival time counts as the time.
func (c Take) plan(tat time.Time, w rule.When) (n int64, anew bool) {
	if _, is := c.impossible(tat, w); is {
		return 0, false
	}
	at := w.At
	anew = !tat.After(at)
	room := Burst(c.Rate)
	if !anew {
		left := at.Add(c.depth()).Sub(tat)
		if room = int64(float64(left.Microseconds()) * c.Rate / 1e6); c.cost(room+1) <= left {
			room++ // it was rounded
		}
	}
	half := Burst(c.Rate) / 2
	n = max(1, c.Want)
	if few := min(least, half); n < few && room-few >= half {
		n = few
	}
	return min(n, max(0, room)), anew
}

// write takes n requests at a time, if as many are left.
func (c Take) write(n int64, anew bool, at time.Time) docstore.Write {
	w := docstore.Write{Key: c.Key, Keep: keep, Return: []string{fTAT}}
	le := func(t time.Time) docstore.Cond { return docstore.LE{Field: fTAT, Value: micros(t)} }
	if anew {
		w.If = docstore.Any{le(at), docstore.Not{Cond: docstore.LE{Field: fTAT, Value: docstore.Int(docstore.MaxInt)}}}
		w.Set = map[string]docstore.Value{fTAT: micros(at.Add(c.cost(n)))}
		return w
	}
	// It adds, so that of several takes at once none fails that has room.
	w.If = docstore.All{docstore.Not{Cond: le(at)}, le(at.Add(c.depth() - c.cost(n)))}
	w.Add = map[string]int64{fTAT: c.cost(n).Microseconds()}
	return w
}

// countAnew takes nothing: it writes the arrival time that counts for one that is impossible.
func (c Take) countAnew(counts, at time.Time) docstore.Write {
	const tolerance = rule.EndTolerance - time.Millisecond // a time that is cut to milliseconds has decided
	return docstore.Write{
		Key: c.Key, Keep: keep, Return: []string{fTAT}, Set: map[string]docstore.Value{fTAT: micros(counts)},
		If: docstore.All{docstore.LE{Field: fTAT, Value: docstore.Int(docstore.MaxInt)},
			docstore.Not{Cond: docstore.LE{Field: fTAT, Value: micros(at.Add(c.depth() + tolerance))}}},
	}
}

func micros(t time.Time) docstore.Int { return docstore.Int(t.UnixMicro()) }

// Write applies what is known of the document and of the time. It does not apply long after that time.
func (c Take) Write() docstore.Write {
	if c.At.IsZero() {
		return docstore.Write{Key: c.Key, If: docstore.Any{}} // never applied: the document found will tell
	}
	n, anew := c.first()
	w := c.write(n, anew, c.At)
	w.Until = c.At.Add(fresh).Truncate(time.Millisecond)
	return w
}

func (c Take) first() (n int64, anew bool) {
	if n, anew = c.plan(c.TAT, rule.When{At: c.At}); n == 0 {
		n = 1
	}
	return n, anew
}

// State reads the document. What is no number counts as none: the next take puts one in its place.
func (c Take) State(d docstore.Doc) (State, error) {
	if v, ok := d[fTAT].(docstore.Int); ok {
		return State{TAT: time.UnixMicro(int64(v)).UTC()}, nil
	}
	return State{}, nil
}

// Granted is what the first write took.
func (c Take) Granted(s State, w rule.When) Outcome {
	n, _ := c.first()
	return Outcome{Granted: n, At: w.At, TAT: s.TAT, Took: w.Took}
}

// Fallback takes what is left of the document found.
func (c Take) Fallback(s State, w rule.When) (docstore.Write, bool) {
	n, anew := c.plan(s.TAT, w)
	if c.tries != nil {
		*c.tries++
	}
	if counts, is := c.impossible(s.TAT, w); is {
		return c.countAnew(counts, w.Latest()), true
	}
	if n == 0 || c.tries != nil && *c.tries > maxTries {
		return docstore.Write{}, false
	}
	return c.write(n, anew, w.At), true
}

// Tries implements [rule.Retrier]. One more than are sent: after the last one the document found says more than an
// error.
func (c Take) Tries() int { return maxTries + 1 }

// GrantedFallback is what that took.
func (c Take) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	n, _ := c.plan(found.TAT, decided)
	if n == 0 {
		return c.Refusal(after, w)
	}
	return Outcome{Granted: n, At: w.At, TAT: after.TAT, Took: w.Took}
}

// Refusal says when there is one request again.
func (c Take) Refusal(s State, w rule.When) Outcome {
	tat, _ := c.impossible(s.TAT, w)
	wait := max(0, tat.Add(c.cost(1)-c.depth()).Sub(w.At))
	return Outcome{At: w.At, TAT: s.TAT, Wait: wait, Took: w.Took}
}
