package lock

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Times of the line.
const (
	// ClaimTime is how long a lease lasts at most that was granted to a request in line, or its ttl_seconds if those are
	// less, unless the request is sent again by then: that claims the lease, which then lasts for its ttl_seconds from
	// that moment. So the lock waits no longer for a caller that has gone, see [sharedForm.claimTime].
	ClaimTime = 10 * time.Second

	// PlaceTime is how long a place in line is kept beyond the wait_seconds of the request that was sent last. It counts
	// for less long, see [place.listensAt].
	PlaceTime = 10 * time.Second

	// GrantTime is how long the store may take to respond to a grant of a rate: a later one is spent. A caller acts so
	// much later than its grant counts, so that this is by how much a window can be too short for those who watch.
	GrantTime = time.Second

	// placeStep is by how much the end of a place must move before it is written again.
	placeStep = 3 * time.Second

	// stagger is by how much later each in line looks after the line, so that the first one does it for all.
	stagger = 250 * time.Millisecond
)

// Bounds of the shared form.
const (
	// mostBytes is what the leases and places of a document may take when another one is added.
	mostBytes = 128 << 10

	// rememberedPast is how many leases that have ended the document remembers; and how many of them when it goes back to
	// plain form.
	rememberedPast = 8
	plainPast      = 3

	// rememberedGrants is how many grants of a rate are remembered with their requests.
	rememberedGrants = 100

	// rememberedRoom is how long a grant that has left the window is remembered while requests are in line: so it is known
	// since when there is room.
	rememberedRoom = 2 * time.Second

	// maxTries is how many times a command is tried on a document that others change as well: for some two seconds, by
	// the pauses between them.
	maxTries = 48
)

// sharedForm is what a document in shared form says, and what a write is going to make of it. The commands change it by
// pure functions of State and When, and [sharedForm.write] says the difference as one conditional write.
type sharedForm struct {
	revision      int64 // of the document
	family        Mode  // Exclusive (with Shared), Permits or Rate
	limit, window int64 // window in seconds
	token         int64 // of the latest grant
	holders       []holder
	line          []place
	past          []Past // the latest first
	latest        *holder
	grants        []grant // of a rate, before the latest, oldest first
	reserved      *reservation
	newcomers     []newcomer // the latest last
	writer        int64      // the process that decides, see listener; 0: none that holds responses

	roomSince time.Time // since when a rate has room; zero if it has none, or if the document does not say it
	turns     turns     // in the line of a rate

	// As found, see [Acquire.join].
	waiting int64
	joined  int // how many of the fields are taken, or may not be

	// What the write brings.
	granted  []string    // requests of the new grants, oldest first
	until    []time.Time // their ends, if they may replace others
	cleared  bool        // leases or places that have ended are left out, or ends are counted anew
	anew     bool        // ends are counted anew
	over     *holder     // of those leases the one that closes last
	asked    bool        // whether the latest grant has left the window
	asks     docstore.All
	finished *finished                 // the lease with the latest token, if it ends now
	forced   *Forced                   // how an administrator ends leases
	sets     map[string]docstore.Value // further fields
}

// holder is a lease.
type holder struct {
	number         int64 // from 1; with permits that of the permit
	token          int64
	owner          string
	leaseID        string
	request        string        // the entry of the acquire
	renewals       rule.Requests // the latest first
	mode           Mode
	acquired       time.Time
	derived        bool  // acquired is span before expires: so it is the store's own time, until the expiry is moved
	ttl, delay     int64 // seconds
	metadata       map[string]string
	grantedInQueue bool // granted from the line, and its request was not sent again since
	replaceable    bool
	ended          bool // by force; only its lock delay lasts

	// While it is grantedInQueue: how long it waits for its claim, and the place that it came of.
	claim                 time.Duration
	since, until, listens time.Time
	listener

	expires storedTime
	field   string // where the document found has expires
}

// span is how long the lease lasts from its grant on.
func (h holder) span() time.Duration {
	span := longest(h.ttl)
	if h.grantedInQueue {
		span = min(span, h.claim)
	}
	return span
}

// closed is how long the lock stays closed after the lease. A lease that was not claimed has no lock delay: no one
// worked under it.
func (h holder) closed() time.Duration {
	if h.grantedInQueue {
		return 0
	}
	return time.Duration(h.delay) * time.Second
}

// closes is when the lease no longer counts.
func (h holder) closes() time.Time { return h.expires.Add(h.closed()) }

// lasts reports whether the lease is held at a time.
func (h holder) lasts(now time.Time) bool { return !h.ended && now.Before(h.expires.Time) }

// storedTime is a time: as found in the document, or one that the store resolves when it writes. Then Time is a good
// guess.
type storedTime struct {
	time.Time
	store  bool
	offset time.Duration // from the store's now
}

// storeTimePlus is d after the store's time of the write.
func storeTimePlus(w rule.When, d time.Duration) storedTime {
	return storedTime{Time: docstore.TruncateMilli(w.Latest()).Add(d), store: true, offset: d}
}

func (m storedTime) value() docstore.Value {
	if m.store {
		return docstore.Now.Add(m.offset)
	}
	return docstore.FormatTime(m.Time)
}

// place is a request that waits in line.
type place struct {
	owner, leaseID, request string
	mode                    Mode
	ttl, delay              int64
	metadata                map[string]string
	replaceable             bool
	since, until            time.Time
	listens                 time.Time // until then its request does
	end                     time.Time // of a request that may replace others
	deaf                    bool      // its process did not claim what was granted to another of its places
	again                   bool      // stored by itself: see [Acquire.again]
	listener
}

// grant is a grant of a rate.
type grant struct {
	at      time.Time
	now     bool   // of the same write as the latest
	request string // empty if it is no longer remembered
}

// finished is the lease with the latest token, that ended.
type finished struct {
	holder

	at  storedTime
	how Ended
}

func suffix(number int64) string { return strconv.FormatInt(number, 10) }

// numbered reads the number of a field like h12.
func numbered(field, prefix string) (int64, bool) {
	digits, ok := strings.CutPrefix(field, prefix)
	if !ok || digits == "" || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// family is the mode of a lock on which a lease of the mode can be.
func (m Mode) family() Mode {
	if m == Shared {
		return Exclusive
	}
	return m
}

// span is the window.
func (v *sharedForm) span() time.Duration { return time.Duration(v.window) * time.Second }

// view is the state in shared form, whatever the form of the document, to be read only.
func (s State) view() *sharedForm {
	if s.shared != nil {
		return s.shared
	}
	return &sharedForm{token: s.Token, holders: s.holders(), newcomers: s.newcomers}
}

// toShared is the state in shared form, whatever the form of the document, to be changed.
func (s State) toShared() *sharedForm {
	v := &sharedForm{revision: s.revision, token: s.Token, past: s.history(), newcomers: slices.Clone(s.newcomers)}
	if s.shared != nil {
		found := s.shared
		v.family, v.limit, v.window = found.family, found.limit, found.window
		v.holders, v.line, v.grants = slices.Clone(found.holders), slices.Clone(found.line), slices.Clone(found.grants)
		if found.latest != nil {
			latest := *found.latest
			v.latest = &latest
		}
		if found.reserved != nil {
			reserved := *found.reserved
			v.reserved = &reserved
		}
		return v
	}
	v.holders = s.holders()
	return v
}

// holders are the leases of a document in plain form: one that is held or has expired, or that was ended by force and
// has a lock delay.
func (s State) holders() []holder {
	switch {
	case s.Phase == Active:
		return []holder{s.holder()}
	case s.Phase == Released && s.LockDelaySeconds > 0:
		h := s.holder()
		h.ended, h.expires, h.field = true, storedTime{Time: s.ReleasedAt}, fReleasedAt
		return []holder{h}
	default:
		return nil
	}
}

// holder is the lease of a document in plain form.
func (s State) holder() holder {
	return holder{
		number: 1, token: s.Token, owner: s.Owner, leaseID: s.LeaseID, request: s.Acquires[0], renewals: s.Renewals,
		acquired: s.AcquiredAt,
		ttl:      s.TTLSeconds, delay: s.LockDelaySeconds, metadata: s.Metadata, replaceable: s.Replaceable,
		expires: storedTime{Time: s.ExpiresAt}, field: fExpiresAt,
	}
}

// dropExpired drops leases and places that have ended, by the earliest that the store's time can be: every command does
// it first. However many they are, the write asks the store about the lease that closes last only: it applies to the
// document found, so that the others have ended when that one has.
func (v *sharedForm) dropExpired(w rule.When) {
	var missed []holder
	v.countAnew(w)
	v.holders = slices.DeleteFunc(v.holders, func(h holder) bool {
		if h.closes().After(w.At) {
			return false
		}
		v.cleared = true
		if v.over == nil || h.closes().After(v.over.closes()) {
			v.over = &h
		}
		if !h.ended {
			v.end(h, EndedExpired, h.expires, "")
		}
		if h.grantedInQueue && !h.ended {
			missed = append(missed, h)
		}
		return true
	})
	for _, h := range missed {
		v.miss(h)
	}
	v.line = slices.DeleteFunc(v.line, func(p place) bool {
		over := !p.until.After(w.At)
		v.cleared = v.cleared || over
		return over
	})
	v.newcomers = slices.DeleteFunc(v.newcomers, func(n newcomer) bool { return n.over(w.At) })
	if v.reserved != nil && v.reserved.over(w.At) {
		v.reserved = nil
	}
	if v.family == Rate {
		v.dropGrants(w)
	}
}

// worthWriting is the same change, or nil if it changes nothing for others: a refusal is written only then.
func (v *sharedForm) worthWriting() *sharedForm {
	if v.cleared || len(v.granted) > 0 {
		return v
	}
	return nil
}

// dropGrants drops the grants that have left the window. The last ones are kept for a while, so that a request which
// waited in line learns of its grant however short the window is. The times need not be in the order of the grants: the
// store's clock may step back, and callers know it within other margins. The token of a grant follows from its place
// before the latest, so that the requests of those before one that is dropped are forgotten.
func (v *sharedForm) dropGrants(w rule.When) {
	if v.latest == nil {
		return
	}
	remembered := ClaimTime
	if len(v.line) > 0 {
		v.roomSince = v.findRoom(w)
		remembered = max(remembered, v.span()+rememberedRoom)
	}
	kept := func(later int, at time.Time) bool {
		return v.inWindow(at, w) || later < rememberedGrants && at.Add(remembered).After(w.At)
	}
	var grants []grant
	for i, g := range v.grants {
		if kept(len(v.grants)-i, g.at) {
			grants = append(grants, g)
			continue
		}
		for before := range grants {
			grants[before].request = ""
		}
	}
	v.grants = grants
	if !v.latest.expires.store && !v.inWindow(v.latest.acquired, w) && !v.asked {
		v.asks, v.asked = append(v.asks, docstore.LE{Field: fGranted, Value: docstore.Now.Add(-v.span())}), true
	}
	if len(grants) == 0 && !kept(0, v.latest.acquired) {
		v.latest = nil
	}
}

// inWindow reports whether a grant counts: it is less than a window ago.
func (v *sharedForm) inWindow(at time.Time, w rule.When) bool { return at.Add(v.span()).After(w.At) }

// counts is how many grants are in the window, and when the oldest of them leaves it.
func (v *sharedForm) counts(w rule.When) (n int64, leaves time.Time) {
	count := func(at time.Time) {
		if !v.inWindow(at, w) {
			return
		}
		n++
		if end := at.Add(v.span()); leaves.IsZero() || end.Before(leaves) {
			leaves = end
		}
	}
	for _, g := range v.grants {
		count(g.at)
	}
	if v.latest != nil {
		count(v.latest.acquired)
	}
	return n, leaves
}

// isFree reports whether no one holds the lock or listens in its line, and nothing keeps it closed: it can take any
// mode.
func (v *sharedForm) isFree(w rule.When) bool {
	n, _ := v.counts(w)
	return len(v.holders) == 0 && v.listening(w.At) == 0 && n == 0 && !v.reserved.keeps(w.At)
}

// idleBy reports whether all of it is over by a time, also what is not dropped yet.
func (v *sharedForm) idleBy(at time.Time) bool {
	n, _ := v.counts(rule.When{At: at})
	return n == 0 && !v.reserved.keeps(at) && !slices.ContainsFunc(v.holders,
		func(h holder) bool { return h.closes().After(at) }) &&
		v.listening(at) == 0
}

// room returns the number that a lease of the mode would get, 0 if there is no room for it, or if the lock is kept for
// another request than the one whose entry it is.
func (v *sharedForm) room(m Mode, entry string, w rule.When) int64 {
	if v.reserved.keeps(w.At) && v.reserved.request != entry {
		return 0
	}
	most := int64(MaxHolders)
	switch v.family {
	case Rate:
		if n, _ := v.counts(w); n >= v.limit {
			return 0
		}
		return 1
	case Permits:
		most = v.limit
	default:
		for _, h := range v.holders {
			if m == Exclusive || h.mode == Exclusive {
				return 0
			}
		}
	}
	for n := int64(1); n <= most; n++ {
		if !slices.ContainsFunc(v.holders, func(h holder) bool { return h.number == n }) {
			return n
		}
	}
	return 0
}

// grantWaiting grants the lock to those at the head of the line who listen, as long as there is room: every command
// does it last, so that a release hands the lock over in the same write. The others keep their places, and are passed
// over; in the line of a rate not before they had their turn, see [sharedForm.passes]. A lease is not claimed unless it
// is that of the request here, which is being sent.
func (v *sharedForm) grantWaiting(w rule.When, here string) {
	v.turns = turns{}
	reads := sync.OnceValue(func() time.Duration { return v.readsWithin(w) }) // what is granted here changes nothing in it
	for i := 0; i < len(v.line); {
		next := v.line[i]
		reached := next.request == here || v.reaches(next, w, reads)
		if !reached && (v.family != Rate || !next.listensAt(w.At)) {
			i++
			continue
		}
		number := v.room(next.mode, next.request, w)
		switch {
		case number == 0, !reached && !v.passes(next, w):
			return
		case !reached:
			i++
			continue
		}
		v.line = slices.Delete(v.line, i, i+1)
		v.silence()
		v.grant(next, number, w, next.request == here)
	}
	if len(v.turns.passed) > 0 { // whoever asks
		v.silence()
		v.cleared = true
	}
}

// grant grants a lease. Its token is one more than the one before it.
func (v *sharedForm) grant(p place, number int64, w rule.When, claimed bool) {
	v.granted, v.until = append(v.granted, p.request), append(v.until, p.end)
	v.forget(p.request)
	if v.reserved != nil && v.reserved.request == p.request {
		v.reserved = nil
	}
	if v.token > 0 {
		v.token++
	}
	h := holder{
		number: number, token: v.token, owner: p.owner, leaseID: p.leaseID, request: p.request, mode: p.mode,
		ttl: p.ttl, delay: p.delay,
		metadata: p.metadata, replaceable: p.replaceable, grantedInQueue: !claimed,
		acquired: docstore.TruncateMilli(w.Latest()), derived: true,
		claim: v.claimTime(p, w), since: p.since, until: p.until, listens: p.listens,
		listener: p.listener,
	}
	if v.family == Rate {
		if v.latest != nil {
			v.grants = append(v.grants, grant{at: v.latest.acquired, now: v.latest.expires.store, request: v.latest.request})
		}
		h.grantedInQueue, h.leaseID = false, grantID(h.request)
		h.expires = storeTimePlus(w, v.span())
		v.latest = &h
		return
	}
	h.expires = storeTimePlus(w, h.span())
	v.holders = append(v.holders, h)
	slices.SortFunc(v.holders, func(a, b holder) int { return int(a.number - b.number) })
}

// extend lets the lease last for its ttl_seconds from now on. The store is asked whether it has not ended yet.
func (v *sharedForm) extend(h *holder, w rule.When) {
	h.grantedInQueue, h.derived = false, false
	v.asks = append(v.asks, notPassed(h.field))
	h.expires = storeTimePlus(w, h.span())
}

// end remembers a lease that ends.
func (v *sharedForm) end(h holder, how Ended, at storedTime, by string) {
	v.past = append([]Past{{
		Owner: cut(h.owner), Token: h.token, AcquiredAt: h.acquired, EndedAt: docstore.TruncateMilli(at.Time),
		Ended: how, By: cut(by),
	}}, v.past...)
	if h.token == v.token {
		v.finished = &finished{holder: h, at: at, how: how}
	}
}

// cut cuts a name to what a Past keeps, between two characters.
func cut(name string) string {
	if len(name) <= MaxPastBytes {
		return name
	}
	n := MaxPastBytes
	for name[n]&0xC0 == 0x80 {
		n--
	}
	return name[:n]
}

// byToken returns the lease of a token, nil if there is none.
func (v *sharedForm) byToken(token int64) *holder {
	for i := range v.holders {
		if v.holders[i].token == token && !v.holders[i].ended {
			return &v.holders[i]
		}
	}
	return nil
}

// byRequest returns the lease that an acquire obtained, nil if there is none, and whether its parameters are the same.
func (v *sharedForm) byRequest(r rule.Request) (h *holder, same bool) {
	for i := range v.holders {
		if is, same := r.Is(v.holders[i].request); is && !v.holders[i].ended {
			return &v.holders[i], same
		}
	}
	return nil, false
}

// placeOf returns the place of an acquire in line, -1 if it has none, and whether its parameters are the same.
func (v *sharedForm) placeOf(r rule.Request) (i int, same bool) {
	for i := range v.line {
		if is, same := r.Is(v.line[i].request); is {
			return i, same
		}
	}
	return -1, false
}

// rateGrant returns the lease of a grant that an acquire obtained, and whether its parameters are the same.
func (v *sharedForm) rateGrant(r rule.Request) (h *holder, same bool) {
	if v.latest == nil {
		return nil, false
	}
	if is, same := r.Is(v.latest.request); is {
		return v.latest, same
	}
	for i, g := range v.grants {
		if is, same := r.Is(g.request); is {
			return v.earlier(i), same
		}
	}
	return nil, false
}

// earlier is the lease of one of the grants of a rate before the latest.
func (v *sharedForm) earlier(i int) *holder {
	g := v.grants[i]
	return &holder{
		token: v.latest.token - int64(len(v.grants)-i), leaseID: grantID(g.request), mode: Rate,
		acquired: g.at, expires: storedTime{Time: g.at.Add(v.span())},
	}
}

// grantID is the lease_id of a grant of a rate, which is made from its request: so it need not be stored.
func grantID(request string) string { return string(rule.Identify("grant", request).Entry()) }

// bytes is about what the leases and places take.
func (v *sharedForm) bytes() int {
	n := len(encodeLine(v.line))
	for _, h := range v.holders {
		n += len(h.encode())
	}
	return n
}

// asFound holds while the document is the one that was found. Every write in shared form increases the revision, every
// grant the token. The plain form keeps the revision until the next grant, so that the two are never the same again,
// however often a lock changes its form.
func (s State) asFound() docstore.All {
	state := docstore.Value(docstore.String(s.Phase))
	if s.shared != nil {
		state = s.found[fState]
	}
	found := docstore.All{docstore.Eq{Field: fState, Value: state}, counted(fToken, s.Token),
		counted(fRevision, s.revision)}
	if s.Phase == Active {
		found = append(found, docstore.Eq{Field: fExpiresAt, Value: docstore.FormatTime(s.ExpiresAt)},
			same(renewals[0], s.Renewals[0]))
	}
	return found
}

// counted holds while a field has the number that was found; 0 is none.
func counted(field string, n int64) docstore.Cond {
	if n == 0 {
		return docstore.Not{Cond: docstore.Has{Field: field}}
	}
	return docstore.Eq{Field: field, Value: docstore.Int(n)}
}

// same holds while a field has the text that was found; empty is none.
func same(field, text string) docstore.Cond {
	if text == "" {
		return docstore.Any{docstore.Not{Cond: docstore.Has{Field: field}},
			docstore.Eq{Field: field, Value: docstore.String("")}}
	}
	return docstore.Eq{Field: field, Value: docstore.String(text)}
}

// plainFields are those of a lease in plain form.
var plainFields = append([]string{
	fState, fOwner, fLease, fAcquiredAt, fExpiresAt, fReleasedAt, fTTL, fMetadata, fForcedBy, fForcedReason, fForcedAt,
	fReplaceable, fDelay,
}, renewals[:]...)

// ours reports whether a write of the shared form says what a field is: the others are counters, and what the lock
// remembers of requests.
func ours(field string) bool {
	switch field {
	case fRevision, fMode, fLimit, fWindow, fLine, fWaiting, fPast, fGranted, fGrants, fReserved, fNewcomers:
		return true
	}
	for _, prefix := range []string{"h", "x"} {
		if _, ok := numbered(field, prefix); ok {
			return true
		}
	}
	return slices.Contains(joined[:], field) || slices.Contains(plainFields, field) || ofHistory(field)
}

// write is the difference to the state found as one write. It applies only to the document found.
func (v *sharedForm) write(id ID, s State, w rule.When, retention time.Duration) docstore.Write {
	cond := append(s.asFound(), v.asks...)
	if v.over != nil {
		cond = append(cond, docstore.LE{Field: v.over.field, Value: docstore.Now.Add(-v.over.closed())})
	}
	wr := docstore.Write{Key: id.key(), If: cond, Set: map[string]docstore.Value{}, Keep: v.keep(w, retention)}
	after := v.document(s)
	for _, f := range slices.Sorted(maps.Keys(after)) {
		if found, ok := s.found[f]; !ok || !equalValues(found, after[f]) {
			wr.Set[f] = after[f]
		}
	}
	for _, f := range slices.Sorted(maps.Keys(s.found)) {
		if _, stays := after[f]; ours(f) && !stays {
			wr.Unset = append(wr.Unset, f)
		}
	}
	maps.Copy(wr.Set, v.sets)
	if n := len(v.granted); n > 0 {
		wr.Add, wr.StartAtNow = map[string]int64{fToken: int64(n)}, []string{fToken}
		s.rememberGranted(&wr, w, v.granted, v.until)
		if s.shared == nil { // otherwise the revision says it
			wr.If = docstore.All{wr.If, same(fForgotten, endText(s.Forgotten))}
		}
	}
	return wr
}

// equalValues compares two values of a document.
func equalValues(a, b docstore.Value) bool {
	switch a := a.(type) {
	case docstore.Map:
		b, ok := b.(docstore.Map)
		return ok && maps.Equal(a, b)
	case docstore.Opaque:
		return false
	default:
		if _, table := b.(docstore.Map); table {
			return false
		}
		return a == b
	}
}

// keep is how long the store keeps the document: until the last lease, place or grant is over, and for the retention.
func (v *sharedForm) keep(w rule.When, retention time.Duration) time.Duration {
	end := w.At
	for _, h := range v.holders {
		if at := h.closes(); at.After(end) {
			end = at
		}
	}
	for _, p := range v.line {
		if p.until.After(end) {
			end = p.until
		}
	}
	if v.latest != nil && v.latest.expires.After(end) {
		end = v.latest.expires.Time
	}
	if v.reserved != nil && v.reserved.until.After(end) {
		end = v.reserved.until
	}
	return end.Sub(w.At).Truncate(time.Millisecond) + keep(0, retention)
}

// document is the part of the document that [ours] names.
func (v *sharedForm) document(s State) docstore.Doc {
	d := v.content(s)
	d[fRevision] = docstore.Int(v.revision + 1)
	if len(v.newcomers) > 0 {
		d[fNewcomers] = encodeNewcomers(v.newcomers)
	}
	return d
}

// content is that part without the revision.
func (v *sharedForm) content(s State) docstore.Doc {
	switch {
	case v.reserved != nil: // only the shared form says that
	case v.family != Rate && len(v.holders) == 0 && len(v.line) == 0, v.family == Rate && v.latest == nil &&
		len(v.line) == 0:
		return v.plainFree()
	case v.plainHeld(s):
		return v.plain(v.holders[0], storedTime{})
	}
	d := docstore.Doc{fState: docstore.String(shared), fMode: families[v.family]}
	if v.family != Exclusive {
		d[fLimit] = docstore.Int(v.limit)
	}
	if v.family == Rate {
		d[fWindow] = docstore.Int(v.window)
		if h := v.latest; h != nil {
			d["h1"], d[fGranted] = h.stored(), docstore.FormatTime(h.acquired)
			if h.expires.store {
				d[fGranted] = docstore.Now
			}
		}
		if len(v.grants) > 0 {
			d[fGrants] = v.storedGrants()
		}
	}
	for _, h := range v.holders {
		k := suffix(h.number)
		d["h"+k], d["x"+k] = h.stored(), h.expires.value()
	}
	if len(v.line) > 0 {
		d[fLine], d[fWaiting] = encodeLine(v.line), docstore.Int(len(v.line))
	}
	if v.reserved != nil {
		d[fReserved] = v.reserved.encode()
	}
	v.rememberPast(d, rememberedPast)
	v.rememberForce(d, s)
	return d
}

// stored is the lease as the document has it. When it was acquired follows from its expiry until that is moved.
func (h holder) stored() docstore.Bytes {
	if h.derived {
		h.acquired = time.Time{}
	}
	return h.encode()
}

// storedGrants are the grants before the latest; only the last ones with their requests.
func (v *sharedForm) storedGrants() docstore.Bytes {
	grants := slices.Clone(v.grants)
	for i := range len(grants) - rememberedGrants {
		grants[i].request = ""
	}
	return encodeGrants(grants)
}

func (v *sharedForm) rememberPast(d docstore.Doc, most int) {
	if len(v.past) > 0 {
		d[fPast] = encodePast(v.past[:min(most, len(v.past))])
	}
}

// rememberForce keeps how the latest lease was ended by force.
func (v *sharedForm) rememberForce(d docstore.Doc, s State) {
	f, at := s.Forced, docstore.Value(docstore.FormatTime(s.Forced.At))
	if v.forced != nil {
		f, at = *v.forced, docstore.Now
	}
	if f.By != "" {
		d[fForcedBy], d[fForcedReason], d[fForcedAt] = docstore.String(f.By), docstore.String(f.Reason), at
	}
}

// plainHeld reports whether the plain form says everything: one exclusive lease, that has the latest token, and no
// line.
func (v *sharedForm) plainHeld(s State) bool {
	if v.family != Exclusive || len(v.line) > 0 || len(v.holders) != 1 {
		return false
	}
	h := v.holders[0]
	latest := s.Acquires[0]
	if n := len(v.granted); n > 0 {
		latest = v.granted[n-1]
	}
	return h.mode == Exclusive && h.token == v.token && v.token > 0 && h.request == latest && !h.grantedInQueue && !h.ended
}

// plain is a lease in plain form.
func (v *sharedForm) plain(h holder, released storedTime) docstore.Doc {
	d := docstore.Doc{
		fState: docstore.String(Active), fOwner: docstore.String(h.owner), fLease: docstore.String(h.leaseID),
		fExpiresAt: h.expires.value(), fTTL: docstore.Int(h.ttl), fMetadata: docstore.Map(h.metadata),
	}
	switch {
	case h.derived && h.expires.store:
		d[fAcquiredAt] = docstore.Now.Add(h.expires.offset - h.span())
	case !h.acquired.IsZero():
		d[fAcquiredAt] = docstore.FormatTime(h.acquired)
	}
	if h.owner != "" {
		d[fOwnerCut] = docstore.String(cut(h.owner))
	}
	if !released.IsZero() {
		d[fState], d[fReleasedAt] = docstore.String(Released), released.value()
	}
	if h.replaceable {
		d[fReplaceable] = docstore.Bool(true)
	}
	if h.delay > 0 && released.IsZero() {
		d[fDelay] = docstore.Int(h.delay)
	}
	for i, e := range h.renewals {
		if e != "" {
			d[renewals[i]] = docstore.String(e)
		}
	}
	v.rememberPast(d, plainPast)
	return d
}

// plainFree is a free lock in plain form, with what is known of the lease that has the latest token.
func (v *sharedForm) plainFree() docstore.Doc {
	var last Past
	if i := slices.IndexFunc(v.past, func(p Past) bool { return p.Token == v.token }); i >= 0 {
		last = v.past[i]
		v.past = slices.Delete(slices.Clone(v.past), i, i+1)
	}
	at := storedTime{Time: last.EndedAt}
	if v.finished != nil {
		v.finished.delay = 0 // it has passed
	}
	switch f := v.finished; {
	case f != nil && f.token == v.token && f.how == EndedExpired:
		return v.plain(f.holder, storedTime{})
	case f != nil && f.token == v.token:
		d := v.plain(f.holder, f.at)
		if f.how == EndedForced && v.forced != nil {
			v.rememberForce(d, State{})
			d[fByCut] = docstore.String(cut(v.forced.By))
		}
		return d
	case last.Ended == EndedExpired:
		return v.plain(holder{owner: last.Owner, acquired: last.AcquiredAt, expires: at}, storedTime{})
	case last.Ended != "":
		d := v.plain(holder{owner: last.Owner, acquired: last.AcquiredAt, expires: at}, at)
		if last.Ended == EndedForced {
			d[fByCut] = docstore.String(last.By)
		}
		return d
	default:
		d := docstore.Doc{fState: docstore.String(Released), fReleasedAt: docstore.Now}
		if v.forced != nil { // the grants of a rate
			v.rememberForce(d, State{})
		}
		v.rememberPast(d, plainPast)
		return d
	}
}
