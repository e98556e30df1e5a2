package lock

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The lists of a document in shared form are stored as bytes: a number for the form, then numbers as varints, text
// after its length, and times in milliseconds since 1970. A reader that meets another number, or bytes that are left,
// says that the document is damaged.
const codecForm = 1

// packer writes such bytes.
type packer struct{ b []byte }

func newPacker() *packer { return &packer{b: []byte{codecForm}} }

func (p *packer) bytes() docstore.Bytes { return docstore.Bytes(p.b) }

func (p *packer) number(n int64) { p.b = binary.AppendVarint(p.b, n) }

func (p *packer) text(s string) {
	p.number(int64(len(s)))
	p.b = append(p.b, s...)
}

// time writes a time; the zero time is 0.
func (p *packer) time(t time.Time) {
	if t.IsZero() {
		p.number(0)
		return
	}
	p.number(t.UnixMilli())
}

func (p *packer) table(m map[string]string) {
	p.number(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		p.text(k)
		p.text(m[k])
	}
}

// flags writes up to eight booleans.
func (p *packer) flags(flags ...bool) {
	var b byte
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	p.b = append(p.b, b)
}

// unpacker reads them again. What does not fit is remembered as damage.
type unpacker struct {
	b       []byte
	damaged bool
}

func newUnpacker(b []byte) *unpacker {
	u := &unpacker{b: b}
	if len(b) == 0 || b[0] != codecForm {
		u.fail()
		return u
	}
	u.b = b[1:]
	return u
}

func (u *unpacker) fail() { u.b, u.damaged = nil, true }

// done reports whether everything was read, and nothing is left.
func (u *unpacker) done() bool { return !u.damaged && len(u.b) == 0 }

func (u *unpacker) number() int64 {
	n, used := binary.Varint(u.b)
	if used <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[used:]
	return n
}

// count reads how many elements follow, each of one byte at least.
func (u *unpacker) count() int {
	n := u.number()
	if n < 0 || n > int64(len(u.b)) {
		u.fail()
		return 0
	}
	return int(n)
}

func (u *unpacker) text() string {
	n := u.count()
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

// farthest is the year 9999 in milliseconds: times beyond it have no stored form.
const farthest = 253_402_300_799_999

func (u *unpacker) time() time.Time {
	switch ms := u.number(); {
	case ms == 0:
		return time.Time{}
	case ms < 0 || ms > farthest:
		u.fail()
		return time.Time{}
	default:
		return time.UnixMilli(ms).UTC()
	}
}

func (u *unpacker) table() map[string]string {
	n := u.count()
	m := make(map[string]string, n)
	for range n {
		k := u.text()
		m[k] = u.text()
	}
	return m
}

func (u *unpacker) flags(flags ...*bool) {
	if len(u.b) == 0 || u.b[0]>>len(flags) != 0 {
		u.fail()
		return
	}
	for i, f := range flags {
		*f = u.b[0]&(1<<i) != 0
	}
	u.b = u.b[1:]
}

// Fields of the shared form. A holder has a number k, with permits that of its permit: h<k> is its lease, and x<k> when
// it expires.
const (
	fRevision = "rev"
	fMode     = "mode" // of the lock: "rw", "permits" or "rate"
	fLimit    = "limit"
	fWindow   = "window"
	fLine     = "q"
	fPast     = "z"
	fGranted  = "g" // with rate: the time of the latest grant, whose lease is h1
	fGrants   = "o" // with rate: the grants before it
	fReserved = "w" // what a request for several locks has reserved

	fNewcomers = "n" // in both forms: see [newcomer]
)

// shared is the phase that a document in shared form stores. begun stands for it where a request has begun a line and
// no one has written since: the lease is there as in plain form, see [State.withLine].
const (
	shared Phase = "SHARED"
	begun  Phase = "BEGUN"
)

// families are the names of the modes of a lock, exclusive and shared being one.
var families = map[Mode]docstore.String{Exclusive: "rw", Permits: "permits", Rate: "rate"}

func (h holder) encode() docstore.Bytes {
	p := newPacker()
	p.flags(h.mode == Shared, h.grantedInQueue, h.replaceable, h.ended, h.grantedInQueue && h.told)
	p.number(h.token)
	p.text(h.owner)
	p.text(h.leaseID)
	p.text(h.request)
	remembered := slices.IndexFunc(h.renewals[:], func(e string) bool { return e == "" })
	if remembered < 0 {
		remembered = len(h.renewals)
	}
	p.number(int64(remembered))
	for _, e := range h.renewals[:remembered] {
		p.text(e)
	}
	p.time(h.acquired)
	p.number(h.ttl)
	p.number(h.delay)
	p.table(h.metadata)
	if h.grantedInQueue {
		p.number(h.claim.Milliseconds())
		p.times(h.since, h.until, h.listens)
		p.listener(h.listener)
	}
	return p.bytes()
}

func decodeHolder(b []byte) (h holder, ok bool) {
	u := newUnpacker(b)
	var reader bool
	u.flags(&reader, &h.grantedInQueue, &h.replaceable, &h.ended, &h.told)
	if reader {
		h.mode = Shared
	}
	h.token = u.number()
	h.owner = u.text()
	h.leaseID = u.text()
	h.request = u.text()
	n := u.count()
	if n > len(h.renewals) {
		u.fail()
		n = 0
	}
	for i := range n {
		h.renewals[i] = u.text()
	}
	h.acquired = u.time()
	h.ttl = u.number()
	h.delay = u.number()
	h.metadata = u.table()
	if h.grantedInQueue {
		h.claim = time.Duration(u.number()) * time.Millisecond
		h.since, h.until, h.listens = u.times()
		u.listener(&h.listener)
	}
	return h, u.done()
}

// neverListens is stored instead of how long before its end a place stops to listen.
const neverListens = -1

// times writes those of a place: when it began, how much later it ends, and how long before that it stops to listen.
func (p *packer) times(since, until, listens time.Time) {
	p.time(since)
	p.number(until.UnixMilli() - since.UnixMilli())
	if listens.IsZero() {
		p.number(neverListens)
		return
	}
	p.number(until.Sub(listens).Milliseconds())
}

func (u *unpacker) times() (since, until, listens time.Time) {
	since = u.time()
	lasts, silent := u.number(), u.number()
	if lasts < -farthest || lasts > farthest-max(0, since.UnixMilli()) {
		u.fail()
		return since, since, listens
	}
	until = time.UnixMilli(since.UnixMilli() + lasts).UTC()
	if silent >= 0 && silent <= farthest {
		listens = until.Add(-time.Duration(silent) * time.Millisecond)
	}
	return since, until, listens
}

// listener writes who listens for a place, except for listener.told, which is one of the flags beside it.
func (p *packer) listener(l listener) {
	p.number(l.process)
	p.number(int64(l.took / tookStep))
	p.number(l.missed)
}

func (u *unpacker) listener(l *listener) {
	l.process = u.number()
	steps := u.number()
	if steps < 0 || steps > int64(claimFar/claimTook/tookStep) {
		u.fail()
	}
	l.took = time.Duration(steps) * tookStep
	l.missed = u.number()
}

func encodeLine(line []place) docstore.Bytes {
	p := newPacker()
	p.number(int64(len(line)))
	for _, w := range line {
		p.flags(w.mode == Shared, w.replaceable, w.deaf, w.told, w.again)
		p.text(w.owner)
		p.text(w.leaseID)
		p.text(w.request)
		p.number(w.ttl)
		p.number(w.delay)
		p.table(w.metadata)
		p.times(w.since, w.until, w.listens)
		p.listener(w.listener)
		if w.replaceable {
			p.time(w.end)
		}
	}
	return p.bytes()
}

func decodeLine(b []byte) (line []place, ok bool) {
	u := newUnpacker(b)
	for range u.count() {
		var w place
		var reader bool
		u.flags(&reader, &w.replaceable, &w.deaf, &w.told, &w.again)
		if reader {
			w.mode = Shared
		}
		w.owner = u.text()
		w.leaseID = u.text()
		w.request = u.text()
		w.ttl = u.number()
		w.delay = u.number()
		w.metadata = u.table()
		w.since, w.until, w.listens = u.times()
		u.listener(&w.listener)
		if w.replaceable {
			w.end = u.time()
		}
		line = append(line, w)
	}
	return line, u.done()
}

// hows are how leases end, by their number in the stored form.
var hows = []Ended{EndedReleased, EndedExpired, EndedForced, EndedReplaced}

func encodePast(past []Past) docstore.Bytes {
	p := newPacker()
	p.number(int64(len(past)))
	for _, e := range past {
		p.number(e.Token)
		p.text(e.Owner)
		p.time(e.AcquiredAt)
		p.time(e.EndedAt)
		p.number(int64(slices.Index(hows, e.Ended)))
		p.text(e.By)
	}
	return p.bytes()
}

func decodePast(b []byte) (past []Past, ok bool) {
	u := newUnpacker(b)
	for range u.count() {
		e := Past{Token: u.number(), Owner: u.text(), AcquiredAt: u.time(), EndedAt: u.time()}
		if i := u.number(); i >= 0 && i < int64(len(hows)) {
			e.Ended = hows[i]
		} else {
			u.fail()
		}
		e.By = u.text()
		past = append(past, e)
	}
	return past, u.done()
}

// encodeGrants writes the grants of a rate before the latest one. One without a time is of the same instant as the
// latest.
func encodeGrants(grants []grant) docstore.Bytes {
	p := newPacker()
	p.number(int64(len(grants)))
	for _, g := range grants {
		if g.now {
			g.at = time.Time{}
		}
		p.time(g.at)
		p.text(g.request)
	}
	return p.bytes()
}

func decodeGrants(b []byte) (grants []grant, ok bool) {
	u := newUnpacker(b)
	for range u.count() {
		grants = append(grants, grant{at: u.time(), request: u.text()})
	}
	return grants, u.done()
}

// readShared reads the fields of the shared form.
func readShared(r *rule.Reader, d docstore.Doc, token int64) *sharedForm {
	v := &sharedForm{limit: r.Number(fLimit), window: r.Number(fWindow)}
	name := docstore.String(r.Text(fMode))
	known := false
	for family, n := range families {
		if n == name {
			v.family, known = family, true
		}
	}
	if !known {
		r.Fail(fMode, "rw, permits or rate")
	}
	for f := range d {
		if n, ok := numbered(f, "h"); ok {
			v.holders = append(v.holders, readHolder(r, n, v.family, token))
		}
	}
	slices.SortFunc(v.holders, func(a, b holder) int { return int(a.number - b.number) })
	part(r, fLine, "a line", &v.line, decodeLine)
	part(r, fReserved, "a reservation", &v.reserved, decodeReservation)
	if v.family == Rate {
		readGrants(r, v)
	}
	readJoined(r, v)
	for i := range v.line {
		if v.family != Exclusive {
			v.line[i].mode = v.family
		}
	}
	return v
}

// part reads what is stored as bytes.
func part[T any](r *rule.Reader, field, want string, into *T, decode func([]byte) (T, bool)) {
	b := r.Bytes(field)
	if b == nil {
		return
	}
	found, ok := decode(b)
	if !ok {
		r.Fail(field, want)
	}
	*into = found
}

func readHolder(r *rule.Reader, number int64, family Mode, token int64) holder {
	k := suffix(number)
	h, ok := decodeHolder(r.Bytes("h" + k))
	if !ok {
		r.Fail("h"+k, "a lease")
	}
	h.number = number
	h.expires, h.field = storedTime{Time: r.Time("x" + k)}, "x"+k
	if h.token == 0 { // the first grant of the document, whose token the store counted
		h.token = token
	}
	if family != Exclusive {
		h.mode = family
	}
	if family == Rate {
		return h
	}
	if h.expires.IsZero() {
		r.Fail("x"+k, "a time")
	}
	if h.acquired.IsZero() {
		h.acquired, h.derived = h.expires.Add(-h.span()), true
	}
	return h
}

// readGrants reads the grants of a rate.
func readGrants(r *rule.Reader, v *sharedForm) {
	part(r, fGrants, "a list of grants", &v.grants, decodeGrants)
	if len(v.holders) == 0 {
		if len(v.grants) > 0 {
			r.Fail("h1", "a grant")
		}
		return
	}
	h := v.holders[0]
	v.holders = nil
	at := r.Time(fGranted)
	if at.IsZero() || h.number != 1 {
		r.Fail(fGranted, "a time")
	}
	h.acquired, h.derived = at, true
	h.expires = storedTime{Time: at.Add(v.span())}
	v.latest = &h
	for i := range v.grants {
		if v.grants[i].at.IsZero() {
			v.grants[i].at = at
		}
	}
}
