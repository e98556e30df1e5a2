package lock

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// A request joins a line that there is without saying what the document was: of a lock that changes hands quickly, it
// has changed again by the time that the write of a server far from the store arrives. So the place is written into a
// field of its own, one of j1 to j8, and whatever is written next takes it over into the line.
const (
	mostJoined      = 8
	mostJoinedBytes = 4 << 10 // of such a place; a larger one is written with the line, whose size is known then

	// joinTime is how long after the document was found the write may be applied. One that comes later is decided anew.
	joinTime = 2 * time.Second

	fWaiting = "qn" // how many wait, those who joined included; only if any do
)

// joined are the fields of the places behind the line, in their order.
var joined = [mostJoined]string{"j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8"}

// inSharedForm holds for a document in shared form.
var inSharedForm docstore.Cond = docstore.Any{docstore.Eq{Field: fState, Value: docstore.String(shared)},
	docstore.Eq{Field: fState, Value: docstore.String(begun)}}

// join is the write by which an acquire takes the last place in a line, where that is all that a decision comes to: ok
// is false if it is not. It applies as long as not too many wait, the lock has the same mode and does not know the
// request, and no one has joined behind the place that it names. Where no one waits it begins the line, also of a lock
// in plain form, whoever holds that by then. One whose response is held does so where no one holds it, too: it learns
// of that, and is sent again.
func (c Acquire) join(s State, d decision, at rule.When) (w docstore.Write, ok bool) {
	v := s.view()
	most := cmp.Or(c.MaxWaiting, MaxWaiting)
	if v.waiting != int64(len(v.line)) || d.position == 0 || v.waiting >= most || !d.after.onlyJoined(v) ||
		d.after.bytes() > mostBytes/2 {
		return w, false
	}
	place := encodeLine(d.after.line[v.waiting:])
	free := joined[v.joined:]
	// A newcomer is to be forgotten as one.
	if i, _ := v.newcomerOf(c.request()); i >= 0 || len(free) == 0 || len(place) > mostJoinedBytes {
		return w, false
	}
	w = docstore.Write{Key: c.key(), Set: map[string]docstore.Value{free[0]: place},
		Add: map[string]int64{fRevision: 1, fWaiting: 1}, Until: docstore.TruncateMilli(at.At).Add(joinTime)}
	cond := docstore.All{c.request().Unknown(acquires, givenUps), comparesExpiry}
	noLine := docstore.Not{Cond: docstore.Has{Field: fWaiting}}
	if s.shared == nil {
		// It may replace the one who holds the lock by then; and a document that was free for long is soon removed.
		if c.Replace || s.PhaseAt(at.At) != Active {
			return w, false
		}
		plain := docstore.Cond(docstore.All{active, coming})
		if c.held.process != 0 {
			plain = plainForm
		}
		cond = append(cond, plain)
		w.Set[fState] = docstore.String(begun)
	} else {
		cond = append(cond,
			// No limit, one, and one with a window: that tells the modes apart, too.
			counted(fLimit, v.limit), counted(fWindow, v.window),
			docstore.Any{docstore.LE{Field: fWaiting, Value: docstore.Int(most - 1)}, docstore.All{inSharedForm, noLine}})
	}
	for _, f := range free {
		cond = append(cond, docstore.Not{Cond: docstore.Has{Field: f}})
	}
	w.If = cond
	return w, true
}

// onlyJoined reports whether a change is one more place in the line and nothing else that others see.
func (v *sharedForm) onlyJoined(found *sharedForm) bool {
	return v.worthWriting() == nil && len(v.line) == len(found.line)+1 &&
		slices.EqualFunc(v.line[:len(found.line)], found.line, func(a, b place) bool { return a.request == b.request })
}

// readJoined reads the places of those who joined. A request that has a place already, or the lock, has joined twice:
// its deliveries met different servers.
func readJoined(r *rule.Reader, v *sharedForm) {
	v.waiting = r.Number(fWaiting)
	for i, field := range joined {
		var places []place
		if part(r, field, "a place in line", &places, decodeLine); len(places) > 0 {
			v.joined = i + 1
		}
		for _, p := range places {
			switch {
			case p.again:
				v.says(p)
			case !v.has(p.request):
				v.line = append(v.line, p)
			}
		}
	}
}

// has reports whether a request, by its entry, has the lock, a grant or a place.
func (v *sharedForm) has(entry string) bool {
	return slices.ContainsFunc(v.line, func(p place) bool { return rule.SameRequest(p.request, entry) }) ||
		slices.ContainsFunc(v.holders, func(h holder) bool { return !h.ended && rule.SameRequest(h.request, entry) }) ||
		slices.ContainsFunc(v.grants, func(g grant) bool { return rule.SameRequest(g.request, entry) }) ||
		v.latest != nil && rule.SameRequest(v.latest.request, entry)
}
