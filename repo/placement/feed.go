package placement

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// ErrCursorExpired is the error of [Service.Events] for a place whose events may have been removed.
var ErrCursorExpired = fmt.Errorf("events after that place were removed: they are kept for %v", keepEvents)

const (
	// EventLag is how long after an event others may still appear that come before it: the ID of an event is drawn a
	// moment before the change is written, and writers do not wait for each other.
	EventLag = 10 * time.Second

	// LookEvery is how often the events of a cluster are read from the store while some follow them.
	LookEvery = time.Second

	lookKept     = 3 * EventLag // how long a look remembers events that are settled, for those who follow a little late
	lookEvents   = 64_000       // events that are read at a time
	strangeShown = 50           // documents in a page that have the name of no event
	feedIdle     = time.Minute  // for which the events of a cluster are remembered that no one asks for
	sumBytes     = 6            // of a sum in a cursor
	cursorSums   = 13           // sums in a cursor: that of late events, ten seconds, and what is ahead of the time
	sumMask      = 1<<(8*sumBytes) - 1
	cursorParts  = "~"
)

// EventQuery selects events for [Service.Events]. The zero value selects the oldest that are kept.
type EventQuery struct {
	After  string // EventPage.Next of the page before, of the same Member, or a time with which IDs begin
	Member string // only events of this member's incarnations, and of what was taken from them; empty for all
	Limit  int    // events in the page, 1 to docstore.MaxLimit; 0 means docstore.DefaultLimit

	// Recent is how long ago the store may have been read: all who follow a cluster share one look at it. 0 reads now.
	Recent time.Duration
}

// EventPage is the result of [Service.Events].
type EventPage struct {
	At      time.Time          // the store's time of the read
	Events  []Event            // in the order of their IDs
	Damaged []docstore.Damaged // those of the page that cannot be read
	More    bool               // there are more: ask again at once
	Next    string             // what to pass as After the next time; never empty
	Age     time.Duration      // how long ago the read began
}

// Due is in how long the read is as old as those who follow let it be; at least a millisecond.
func (p EventPage) Due() time.Duration { return max(LookEvery-p.Age, time.Millisecond) }

// News reports whether the page has something that was not shown.
func (p EventPage) News() bool {
	return len(p.Events) > 0 || slices.ContainsFunc(p.Damaged, func(d docstore.Damaged) bool { return named(d.Key.ID) })
}

// named reports whether an ID is one that an event can have.
func named(id string) bool { return id != "" && checkPlace(id) == nil }

// cursor is how far a caller has read: all events up to a place that it was shown. Where others may still appear before
// the place, it has the time of that read, and what was shown by it, as a sum for each second: an event that appears
// later changes the sum of its second, or is younger than the read. So every event is shown, and again only together
// with one of its second that appeared late.
type cursor struct {
	place string
	read  time.Time // zero if all is settled up to the place
	sums  [cursorSums]uint64
}

func parseCursor(after string) (c cursor, err error) {
	parts := strings.Split(after, cursorParts)
	c.place = parts[0]
	if err := checkPlace(c.place); err != nil || len(parts) == 1 {
		return c, err
	}
	bad := field.Errorf("after", "must be what the page before named as next, or a time")
	if len(parts) != 3 {
		return c, bad
	}
	ms, err := strconv.ParseInt(parts[1], 36, 64)
	sums, err2 := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || err2 != nil || ms <= 0 || len(sums) > sumBytes*cursorSums || len(sums)%sumBytes != 0 {
		return c, bad
	}
	c.read = time.UnixMilli(ms).UTC()
	for i, b := range sums {
		c.sums[i/sumBytes] = c.sums[i/sumBytes]<<8 | uint64(b)
	}
	if c.place < c.from() {
		return c, bad
	}
	return c, nil
}

func (c cursor) String() string {
	if c.read.IsZero() {
		return c.place
	}
	n := cursorSums
	for n > 0 && c.sums[n-1] == 0 {
		n--
	}
	sums := make([]byte, 0, sumBytes*cursorSums)
	for _, s := range c.sums[:n] {
		for i := sumBytes - 1; i >= 0; i-- {
			sums = append(sums, byte(s>>(8*i)&0xff))
		}
	}
	return c.place + cursorParts + strconv.FormatInt(c.read.UnixMilli(), 36) + cursorParts +
		base64.RawURLEncoding.EncodeToString(sums)
}

// from is the place up to which all is settled.
func (c cursor) from() string {
	if c.read.IsZero() {
		return c.place
	}
	return settled(c.read)
}

// ahead reports whether a cursor is a time that has not come.
func (c cursor) ahead(at time.Time) bool {
	return c.read.IsZero() && c.place > at.UTC().Format(eventID)
}

// settled is the place before which no event can appear any more at a time of the store.
func settled(at time.Time) string { return at.Add(-EventLag).UTC().Format(eventID) }

// sum is which of the sums an event belongs to.
func (c cursor) sum(e *entry) int {
	if !e.event.At.Before(c.read) {
		return 0
	}
	return 1 + int(min(max(e.drawn.Sub(c.read.Add(-EventLag))/time.Second, 0), cursorSums-2))
}

// sumsOf are the sums of the events that were shown up to a place.
func (c cursor) sumsOf(all []*entry) (sums [cursorSums]uint64) {
	from := c.from()
	for _, e := range all {
		if e.named && e.key.ID > from && e.key.ID <= c.place {
			i := c.sum(e)
			sums[i] = (sums[i] + e.hash) & sumMask
		}
	}
	return sums
}

// entry is an event of a look.
type entry struct {
	key   docstore.Key
	event Event
	err   error // why it cannot be read
	named bool  // its ID is one that an event can have
	drawn time.Time
	hash  uint64
}

func entryOf(k docstore.Key, d docstore.Doc, err error) *entry {
	e := &entry{key: k, err: err, named: named(k.ID)}
	if err == nil {
		e.event, e.err = eventOf(k, d)
	}
	e.drawn, _ = time.Parse(eventID, k.ID[:min(len(k.ID), len(eventID))]) // the zero time is as good as any
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.ID)) // never fails
	e.hash = h.Sum64() & sumMask
	return e
}

// look is what was read of the events of a cluster.
type look struct {
	seq   int64     // of looks of the process
	began time.Time // by the clock of the process
	at    time.Time // of the store, of the first request
	from  string    // all events after this place
	end   bool      // up to the last one
	all   []*entry  // in the order of IDs

	index sync.Once
	of    map[string][]*entry // by member
}

// entries are those that a member needs, all for an empty name.
func (l *look) entries(member string) []*entry {
	if member == "" {
		return l.all
	}
	l.index.Do(func() {
		l.of = map[string][]*entry{}
		for _, e := range l.all {
			if e.err == nil {
				for _, m := range e.event.concerns() {
					l.of[m] = append(l.of[m], e)
				}
			}
		}
	})
	return l.of[member]
}

// page is what a caller that has read so far is to be shown.
func (l *look) page(c cursor, q EventQuery) EventPage {
	if c.ahead(l.at) {
		return EventPage{At: l.at, Next: c.place}
	}
	all := l.entries(q.Member)
	var beside, late, ahead []*entry // of a second in which one appeared late; written since the read; behind the place
	sums := c.sumsOf(all)
	for _, e := range all[(&look{all: all}).after(c.from()):] {
		switch {
		case e.key.ID > c.place:
			ahead = append(ahead, e)
		case !e.named || c.read.IsZero():
		case c.sum(e) == 0 && sums[0] != c.sums[0]:
			late = append(late, e)
		case sums[c.sum(e)] != c.sums[c.sum(e)]:
			beside = append(beside, e)
		}
	}
	slices.SortStableFunc(late, func(a, b *entry) int { return a.event.At.Compare(b.event.At) })

	p, limit := EventPage{At: l.at}, cmp.Or(q.Limit, docstore.DefaultLimit)
	next, unshown := cursor{place: c.place, read: l.at.Truncate(time.Millisecond)}, false
	switch cut := limit - len(beside); {
	case cut < 0: // from here on in the order of IDs, those that were written since as well
		both := slices.SortedFunc(slices.Values(slices.Concat(beside, late)),
			func(a, b *entry) int { return strings.Compare(a.key.ID, b.key.ID) })
		next.place, p.More = both[limit-1].key.ID, true
		p.show(both[:limit], limit)
	case cut < len(late):
		// By the time of their writes, which all at one time come together. One read of the store has them all.
		next.read, p.More, unshown = late[cut].event.At, true, true
		for cut > 0 && late[cut-1].event.At.Equal(next.read) {
			cut--
		}
		if cut+len(beside) == 0 { // more at one time than a page has
			for cut < len(late) && late[cut].event.At.Equal(next.read) {
				cut++
			}
			next.read = next.read.Add(time.Millisecond)
		}
		p.show(beside, limit)
		p.show(late[:cut], cut)
	default:
		p.show(beside, limit)
		p.show(late, limit)
		if last, more := p.show(ahead, cut-len(late)); more {
			next.place, p.More = max(c.place, last), true
			break
		}
		// all that was read
		for _, e := range slices.Backward(l.all) {
			if e.named {
				next.place = max(next.place, e.key.ID)
				break
			}
		}
		if p.More = !l.end; l.end {
			next.place = max(next.place, settled(l.at))
		}
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return strings.Compare(a.ID, b.ID) })
	if next.place <= next.from() {
		next.read = time.Time{}
	} else if next.sums = next.sumsOf(all); unshown {
		next.sums[0] = 0 // also those that are younger than the read says
	}
	p.Next = next.String()
	return p
}

// show adds entries to the page, so many at most, beside those that have the name of no event. It returns the last one
// that has, and whether there are more.
func (p *EventPage) show(all []*entry, most int) (last string, more bool) {
	strange := 0
	for _, e := range all {
		switch {
		case !e.named:
			if strange++; strange > strangeShown {
				continue
			}
		case most == 0:
			return last, true
		default:
			most--
			last = e.key.ID
		}
		if e.err != nil {
			p.Damaged = append(p.Damaged, docstore.Damaged{Key: e.key, Err: e.err})
		} else {
			p.Events = append(p.Events, e.event)
		}
	}
	return last, false
}

// feed is the latest look at the events of a cluster.
type feed struct {
	turn chan struct{} // has room for the one who reads
	seq  atomic.Int64
	look atomic.Pointer[look]
}

type feeds struct {
	mu sync.Mutex
	of map[Cluster]*feed
}

// feed returns that of a cluster, and forgets those that no one asked for.
func (s *Service) feed(c Cluster) *feed {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f := s.feeds.of[c]
	if f == nil {
		for other, f := range s.feeds.of {
			if l := f.look.Load(); l != nil && s.now().Sub(l.began) > feedIdle {
				delete(s.feeds.of, other)
			}
		}
		if f = (&feed{turn: make(chan struct{}, 1)}); s.feeds.of == nil {
			s.feeds.of = map[Cluster]*feed{}
		}
		s.feeds.of[c] = f
	}
	return f
}

// Events returns events of a cluster, those after the Next of a page before. Who follows Next is shown each event,
// however late it was written, and as soon as it can be read: Next advances where others may still appear before it. An
// event is shown again only together with one that appeared beside it late, as can be on stores whose time of a write
// is not that at which others see it. The order is that of IDs, within a page. ErrCursorExpired is the error for a
// place whose events may have been removed.
//
// It is one request to the store for each thousand events that are younger than [EventLag], or none, if others have
// looked just now: see [EventQuery.Recent].
func (s *Service) Events(ctx context.Context, c Cluster, q EventQuery) (EventPage, error) {
	at, err := parseCursor(q.After)
	if q.Member != "" {
		err = first(err, checkMember("member", q.Member))
	}
	if err := first(c.Validate(), checkLimit(q.Limit), err); err != nil {
		return EventPage{}, err
	}
	f := s.feed(c)
	l, err := s.recent(ctx, c, f, at, q)
	if err == nil && at.read.IsZero() && !at.ahead(l.at) && at.place > settled(l.at) && l.from > settled(l.at) {
		// what comes before a place that is a time may be written later
		l, err = s.read(ctx, c, f, at, settled(l.at), q)
	}
	if err != nil {
		return EventPage{}, fmt.Errorf("events of %q: %w", c.Name, err)
	}
	if gone := l.at.Add(-keepEvents).UTC().Format(eventID); at.place != "" && at.from() < gone {
		return EventPage{}, ErrCursorExpired
	}
	p := l.page(at, q)
	p.Age = s.now().Sub(l.began)
	return p, nil
}

// recent is a look at all events behind a cursor, or at a page of them, that is as recent as a query asks for.
func (s *Service) recent(ctx context.Context, c Cluster, f *feed, at cursor, q EventQuery) (*look, error) {
	asked := f.seq.Load()
	known := func() (l *look, ok bool) {
		l = f.look.Load()
		return l, l != nil && l.from <= at.from() &&
			(l.seq > asked || q.Recent > 0 && s.now().Sub(l.began) < q.Recent)
	}
	if l, ok := known(); ok {
		return l, nil
	} else if l != nil && l.from > at.from() {
		return s.read(ctx, c, f, at, at.from(), q)
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, ok := known()
	switch {
	case ok:
		return l, nil
	case l == nil || l.from > at.from() || s.now().Sub(l.began) > lookKept:
		return s.read(ctx, c, f, at, at.from(), q)
	}
	young, err := s.list(ctx, c, f, settled(l.at), "", EventQuery{Limit: lookEvents})
	if err != nil {
		return nil, err
	}
	n := l.after(young.from)
	young.from, young.all = l.from, slices.Concat(l.all[:n], young.all)
	f.keep(young)
	return young, nil
}

// after is the index of the first entry behind a place.
func (l *look) after(place string) int {
	n, _ := slices.BinarySearchFunc(l.all, place, func(e *entry, place string) int {
		if e.key.ID > place {
			return 1
		}
		return -1
	})
	return n
}

// keep remembers the young part of a look, for others.
func (f *feed) keep(l *look) {
	if !l.end {
		return
	}
	if oldest := l.at.Add(-lookKept).UTC().Format(eventID); oldest > l.from {
		l = &look{seq: l.seq, began: l.began, at: l.at, end: true, from: oldest, all: slices.Clone(l.all[l.after(oldest):])}
	}
	f.look.Store(l)
}

// read is list, and remembers what was read for others.
func (s *Service) read(ctx context.Context, c Cluster, f *feed, at cursor, from string, q EventQuery) (*look, error) {
	l, err := s.list(ctx, c, f, from, at.place, q)
	if err == nil {
		f.keep(l)
	}
	return l, err
}

// list reads events: all after a place, or, of those that are settled, as many behind another place as a page has.
func (s *Service) list(ctx context.Context, c Cluster, f *feed, from, beyond string, q EventQuery) (*look, error) {
	l := &look{seq: f.seq.Add(1), began: s.now(), from: from}
	size, fit, limit := docstore.MaxLimit, 0, cmp.Or(q.Limit, docstore.DefaultLimit)
	if q.Member == "" {
		size = min(size, limit)
	}
	for at := from; ; {
		p, err := s.store.List(ctx, docstore.Query{Kind: eventKind, Tenant: c.space(), After: at, Limit: size})
		if err != nil {
			return nil, err
		}
		if l.at.IsZero() {
			l.at = p.At
		}
		last := ""
		for found, err := range p.All() {
			e := entryOf(found.Key, found.Doc, err)
			if l.all = append(l.all, e); !e.named {
				continue
			}
			last = e.key.ID
			if last > beyond && (q.Member == "" || slices.Contains(e.event.concerns(), q.Member)) {
				fit++
			}
		}
		if at = p.Next; at == "" {
			l.end = true
			return l, nil
		}
		full := fit >= limit || len(l.all) >= lookEvents
		if size = docstore.MaxLimit; full && last > beyond && last < settled(l.at) || len(l.all) >= 2*lookEvents {
			return l, nil
		}
	}
}

func checkPlace(place string) error {
	if len(place) > MaxIDBytes || strings.Trim(place, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-:.") != "" {
		return field.Errorf("after", "must be what the page before named as next, or a time")
	}
	return nil
}

func checkLimit(n int) error {
	if n < 0 || n > docstore.MaxLimit {
		return field.Errorf("limit", "is %d: from 1 to %d, or 0 for %d", n, docstore.MaxLimit, docstore.DefaultLimit)
	}
	return nil
}

// takenFrom is the reason in the event of an activation that its owner lost to another.
func takenFrom(member string) string { return takenOver + member }

const takenOver = "taken over from "

// concerns are the members that need to know of the event: whose it is, and who lost the identity by it.
func (e Event) concerns() []string {
	if lost, ok := strings.CutPrefix(e.Reason, takenOver); ok && e.Identity.Kind != "" && lost != e.Member.Member {
		return []string{e.Member.Member, lost}
	}
	return []string{e.Member.Member}
}
