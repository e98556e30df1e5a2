package lock

import (
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// mostNewcomers is how many newcomers a lock remembers: the last ones.
const mostNewcomers = MaxWaiting

// secondDelivery tells a newcomer what it needs for a place in line.
const secondDelivery = "send the request again, with the same request_id, for a place in line"

// newcomer is a request for a place in line that came once, and whose response was not held. It has a place from its
// second delivery on, before those who came after it: callers that send a new request_id each time would leave places
// behind that no one claims, and the line would wait for each of them. Until then the lock is handed over to others,
// and the request obtains it only if it is free when it comes, and no one waits.
type newcomer struct {
	request string    // the entry of the acquire
	since   time.Time // it is forgotten PlaceTime later
}

// comesOnce reports whether a delivery leaves no one waiting for the lock: its response is not held.
func (c Acquire) comesOnce() bool { return c.unheld && c.WaitSeconds > 0 }

// newcomer notes the first delivery of a request, instead of giving it a place.
func (v *sharedForm) newcomer(c Acquire, w rule.When) {
	v.newcomers = append(v.newcomers, newcomer{
		request: string(c.request().Entry()), since: docstore.TruncateMilli(w.Latest()),
	})
	v.newcomers = v.newcomers[max(0, len(v.newcomers)-mostNewcomers):]
}

// newcomerOf returns where an acquire is among the newcomers, -1 if it is not, and whether its parameters are the same.
func (v *sharedForm) newcomerOf(r rule.Request) (i int, same bool) {
	for i, n := range v.newcomers {
		if is, same := r.Is(n.request); is {
			return i, same
		}
	}
	return -1, false
}

// forget forgets a newcomer: it has a place or a lease, or gave up.
func (v *sharedForm) forget(entry string) {
	v.newcomers = slices.DeleteFunc(v.newcomers, func(n newcomer) bool { return n.request == entry })
}

// lineUp gives an acquire a place in line: the last one, or, to a newcomer, that before those who came later. It
// returns which, from 0 on.
func (v *sharedForm) lineUp(c Acquire, w rule.When) int {
	p, at := c.place(w), len(v.line)
	if i, _ := v.newcomerOf(c.request()); i >= 0 {
		p.since = v.newcomers[i].since
		for at > 0 && v.line[at-1].since.After(p.since) {
			at--
		}
		v.newcomers = slices.Delete(v.newcomers, i, i+1)
	}
	v.line = slices.Insert(v.line, at, p)
	c.listenAt(&v.line[at], v.position(at, w.At), w)
	return at
}

// over reports whether a newcomer is forgotten.
func (n newcomer) over(at time.Time) bool { return !n.since.Add(PlaceTime).After(at) }

func encodeNewcomers(newcomers []newcomer) docstore.Bytes {
	p := newPacker()
	p.number(int64(len(newcomers)))
	for _, n := range newcomers {
		p.text(n.request)
		p.time(n.since)
	}
	return p.bytes()
}

func decodeNewcomers(b []byte) (newcomers []newcomer, ok bool) {
	u := newUnpacker(b)
	for range u.count() {
		newcomers = append(newcomers, newcomer{request: u.text(), since: u.time()})
	}
	return newcomers, u.done()
}
