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
// second delivery on: callers that send a new request_id each time would leave places behind that no one claims, and
// the line would wait for each of them. Until then the lock is handed over to others, and the request obtains it only
// if it is free when it comes, and no one waits.
type newcomer struct {
	request string    // the entry of the acquire
	until   time.Time // then it is forgotten
}

// comesOnce reports whether a delivery leaves no one waiting for the lock: its response is not held.
func (c Acquire) comesOnce() bool { return c.unheld && c.WaitSeconds > 0 }

// newcomer notes the first delivery of a request, instead of giving it a place.
func (v *sharedForm) newcomer(c Acquire, w rule.When) {
	v.newcomers = append(v.newcomers, newcomer{
		request: string(c.request().Entry()), until: docstore.TruncateMilli(w.Latest()).Add(PlaceTime),
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

func encodeNewcomers(newcomers []newcomer) docstore.Bytes {
	p := newPacker()
	p.number(int64(len(newcomers)))
	for _, n := range newcomers {
		p.text(n.request)
		p.time(n.until)
	}
	return p.bytes()
}

func decodeNewcomers(b []byte) (newcomers []newcomer, ok bool) {
	u := newUnpacker(b)
	for range u.count() {
		newcomers = append(newcomers, newcomer{request: u.text(), until: u.time()})
	}
	return newcomers, u.done()
}
