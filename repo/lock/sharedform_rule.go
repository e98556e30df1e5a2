package lock

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The commands are granted in shared form, too, by a second write.
var (
	_ = []rule.Fallback[State]{Acquire{}, Renew{}, Release{}, ForceRelease{}}
	_ = []rule.FallbackOutcome[State, Outcome]{Acquire{}, Release{}, ForceRelease{}}
	_ = []rule.Retrier{Acquire{}, Renew{}, Release{}, ForceRelease{}}
)

// Tries is how often the second write of an acquire is tried.
func (Acquire) Tries() int { return maxTries }

// Tries is how often the second write of a renewal is tried.
func (Renew) Tries() int { return maxTries }

// Tries is how often the second write of a release is tried.
func (Release) Tries() int { return maxTries }

// Tries is how often the second write of a force-release is tried.
func (ForceRelease) Tries() int { return maxTries }

// comparesExpiry always holds. It asks whether a lease has ended, so that a store without a clock of its own explains a
// refusal by the earliest that its time can be: second writes judge by that.
var comparesExpiry docstore.Cond = docstore.Any{passed, docstore.All{}}

// place is the request's place in line.
func (c Acquire) place(w rule.When) place {
	now := docstore.TruncateMilli(w.Latest())
	return place{
		listener: c.listener(w),
		owner:    c.Owner, leaseID: c.LeaseID, request: string(c.request().Entry()), mode: c.Mode, ttl: c.TTLSeconds,
		delay:    c.LockDelaySeconds,
		metadata: c.Metadata, replaceable: c.Replace, since: now, until: c.until(now), end: c.replacesUntil(),
	}
}

// until is how long the place is kept by a request that is sent at now: not beyond the end of the request.
func (c Acquire) until(now time.Time) time.Time {
	until := now.Add(time.Duration(c.WaitSeconds)*time.Second + PlaceTime)
	if !c.NotAfter.IsZero() && c.NotAfter.Before(until) {
		return c.NotAfter
	}
	return until
}

// firstWrite is the write of an acquire in a mode that the plain form does not have. It applies where there is no lock,
// so that the first one costs one request; its token is the document's.
func (c Acquire) firstWrite() docstore.Write {
	v := &sharedForm{}
	v.setMode(c)
	v.grant(c.place(rule.When{}), 1, rule.When{}, true)
	w := v.write(c.ID, State{}, rule.When{}, c.retention)
	w.If = docstore.All{noRecord, c.request().Unknown(acquires, givenUps), comparesExpiry}
	return w
}

// Details of refusals.
const (
	usedOtherwise = "this request_id was used with other parameters, such as ttl_seconds or metadata; use a new request_id"

	changedMeanwhile = "the lock changed while it was looked at; try again"
)

// decision is what an acquire comes to in a state.
type decision struct {
	after    *sharedForm // to be written; nil if nothing is
	code     Code
	lease    *holder // with OK: the lease that the request has already
	position int64   // in line, 0 if it has no place
	newcomer bool    // it has one when it comes again
	detail   string
}

// tooLarge says that mostBytes are reached.
const tooLarge = "the names and metadata of those who hold the lock or wait for it take as much as they may: use less metadata"

// decide is the rule of an acquire in shared form: a pure function of the state and the time.
func (c Acquire) decide(s State, w rule.When) decision {
	v, r := s.toShared(), c.request()
	v.writer = c.held.process
	if found, ok := c.recognise(s, v, r, w); ok {
		return found
	}
	v.dropExpired(w)
	entry := string(r.Entry())
	before := len(v.granted)
	v.grantWaiting(w, entry)
	if slices.Contains(v.granted[before:], entry) {
		return decision{after: v, code: OK}
	}
	if i, _ := v.placeOf(r); i >= 0 {
		return c.waits(v, w, i)
	}
	if v.isFree(w) {
		v.setMode(c)
	}
	if detail := v.differs(c); detail != "" {
		if v.idleBy(w.Latest()) { // it may take another mode already: that is known soon
			return decision{after: v.worthWriting(), code: Held}
		}
		return decision{after: v.worthWriting(), code: ModeDiffers, detail: detail}
	}
	detail, full := "", func() bool {
		v.makeRoom(w.At)
		return v.bytes() >= mostBytes
	}
	if v.listening(w.At) == 0 || v.comes(entry, w.At) {
		number := v.room(c.Mode, entry, w)
		if number == 0 && c.Replace && !c.mayBeForgotten(s, w) && v.replace(c, w) {
			number = 1
		}
		switch {
		case number > 0 && !full():
			v.grant(c.place(w), number, w, true)
			return decision{after: v, code: OK}
		case number > 0:
			detail = tooLarge
		}
	}
	if c.WaitSeconds == 0 || !c.queues() && s.shared == nil {
		return decision{after: v.worthWriting(), code: Held, detail: detail}
	}
	if waiting := v.listening(w.At); waiting >= cmp.Or(c.MaxWaiting, MaxWaiting) {
		return decision{after: v.worthWriting(), code: QueueFull, detail: fmt.Sprintf("%d wait in line already", waiting)}
	}
	if full() {
		return decision{after: v.worthWriting(), code: QueueFull, detail: tooLarge}
	}
	if i, _ := v.newcomerOf(r); i < 0 && c.comesOnce() {
		v.newcomer(c, w)
		return decision{after: v, code: Held, newcomer: true}
	}
	return decision{after: v, code: Held, position: v.position(v.lineUp(c, w), w.At)}
}

// recognise recognises a request that obtained a lease. One from the line is claimed by that.
func (c Acquire) recognise(s State, v *sharedForm, r rule.Request, w rule.When) (decision, bool) {
	if i, _ := s.GivenUp.Find(r); i >= 0 {
		return decision{code: RequestIDReused, detail: "this request was given up; use a new request_id"}, true
	}
	h, same := v.byRequest(r)
	if v.family == Rate {
		h, same = v.rateGrant(r)
	}
	position, sameBefore := s.Acquires.Find(r)
	place, samePlace := v.placeOf(r)
	newcomer, sameNewcomer := v.newcomerOf(r)
	switch {
	case h != nil && !same, h == nil && position >= 0 && !sameBefore, place >= 0 && !samePlace,
		newcomer >= 0 && !sameNewcomer:
		return decision{code: RequestIDReused, detail: usedOtherwise}, true
	case h != nil && v.family == Rate:
		return decision{code: OK, lease: h}, true
	case h != nil && h.grantedInQueue && !w.Ended(h.expires.Time):
		number := h.number
		v.dropExpired(w)
		i := slices.IndexFunc(v.holders, func(h holder) bool { return h.number == number })
		v.extend(&v.holders[i], w)
		v.grantWaiting(w, "")
		return decision{after: v, code: OK}, true
	case h != nil && h.grantedInQueue && h.closes().After(w.At): // it may have ended; if so, the place is there again
		return decision{code: Held, position: 1}, true
	case h != nil && h.grantedInQueue && h.until.After(w.At): // it was not claimed in time: the place is there again
		return decision{}, false
	case h != nil && !w.Ended(h.expires.Time):
		return decision{code: OK, lease: h}, true
	case h != nil || position >= 0 && (place < 0 || !v.line[place].until.After(w.At)):
		return decision{code: RequestIDReused,
			detail: "the lease that this request_id obtained has ended; use a new request_id"}, true
	default:
		return decision{}, false
	}
}

// waits is what a request comes to that is in line at i, and stays there unless it is no longer willing to wait.
func (c Acquire) waits(v *sharedForm, w rule.When, i int) decision {
	if c.WaitSeconds == 0 {
		v.line = slices.Delete(v.line, i, i+1)
		v.grantWaiting(w, "")
		return decision{after: v, code: Held}
	}
	r := decision{after: v.worthWriting(), code: Held, position: v.position(i, w.At)}
	if c.stays(&v.line[i], r.position, w) {
		r.after = v
	}
	return r
}

// setMode gives a lock that is idle the mode of an acquire. Who waited in another one, and does not listen, has lost
// its place.
func (v *sharedForm) setMode(c Acquire) {
	if v.differs(c) != "" {
		v.line, v.cleared = nil, v.cleared || len(v.line) > 0
	}
	v.family, v.limit, v.window = c.Mode.family(), c.Limit, c.WindowSeconds
	v.latest, v.grants = nil, nil
}

// differs says how the mode of the lock differs from that of an acquire, empty if it does not.
func (v *sharedForm) differs(c Acquire) string {
	if v.family == c.Mode.family() && v.limit == c.Limit && v.window == c.WindowSeconds {
		return ""
	}
	switch v.family {
	case Permits:
		return fmt.Sprintf("the lock is held or waited for in mode permits with limit %d", v.limit)
	case Rate:
		return fmt.Sprintf("the lock has grants in mode rate with limit %d and window_seconds %d", v.limit, v.window)
	default:
		return "the lock is held or waited for in mode exclusive or shared"
	}
}

// replace ends the lease of the one holder if it was acquired with replace, too, and has not expired: then its lock
// delay lasts.
func (v *sharedForm) replace(c Acquire, w rule.When) bool {
	if len(v.holders) != 1 {
		return false
	}
	h := v.holders[0]
	if !h.replaceable || h.mode != Exclusive || !h.lasts(w.At) {
		return false
	}
	v.removeHeld(h, EndedReplaced, w, c.Owner)
	return true
}

// Fallback is the write of an acquire on a lock in shared form, on one that gets it, and on one that leaves it.
func (c Acquire) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if s.Phase == None && (c.Mode != Exclusive || s.Forgotten.IsZero()) {
		return docstore.Write{}, false
	}
	if s.shared == nil && (s.Phase == None || !c.queues()) {
		return c.afterDelay(s, w)
	}
	d := c.decide(s, w)
	if d.after == nil {
		return docstore.Write{}, false
	}
	if w, ok := c.join(s, d, w); ok {
		return w, true
	}
	if w, ok := c.again(s, d, w); ok {
		return w, true
	}
	return c.unlessGivenUp(d.after.write(c.ID, s, w, c.retention), s), true
}

// unlessGivenUp adds to a write that leaves the plain form that the request was not given up meanwhile: what
// [State.asFound] compares does not tell. In shared form the revision does.
func (c Acquire) unlessGivenUp(w docstore.Write, s State) docstore.Write {
	if found, ok := w.If.(docstore.All); ok && s.shared == nil {
		w.If = append(slices.Clip(found), givenUps.Lacks(c.request()))
	}
	return w
}

// GrantedFallback is what the request has after its second write: the lease, a place in line, or the refusal that the
// write went with.
func (c Acquire) GrantedFallback(found, s State, decided, w rule.When) Outcome {
	plain := found.shared == nil && !c.queues()
	if !plain {
		if d := c.decide(found, decided); d.code != OK && d.position == 0 {
			o := c.turnedAway(d, s, w)
			o.CountedAnew = found.impossible(decided)
			return o
		}
	}
	if i, same := s.view().placeOf(c.request()); i >= 0 && !same { // another delivery has joined meanwhile
		return c.reused(w, 0, usedOtherwise)
	}
	if h, _ := s.view().byRequest(c.request()); h != nil && h.grantedInQueue { // meanwhile; it is to be claimed
		return c.busy(s, w, 1, "")
	}
	o := c.outcomeOf(s, w)
	if o.CountedAnew = found.impossible(decided); o.CountedAnew && o.Code != OK {
		o.Detail = cmp.Or(o.Detail, countedAnew)
	}
	o.TookOver = o.Code == OK && c.observed && c.takesOver(found, s, decided)
	o.Replaced = o.Code == OK && c.Replace && s.replacedBy(o.Lease.Token-1) != ""
	return o
}

// takesOver reports whether the lease before had expired and was not released: the write that grants the lock clears
// it, or, if the request claims what it obtained in line, the write cleared it that handed the lock over. A permit is
// taken over from the one who had the same, and from readers when none is left.
func (c Acquire) takesOver(found, after State, w rule.When) bool {
	v := found.view()
	if h, _ := v.byRequest(c.request()); h != nil {
		return slices.ContainsFunc(found.past, func(p Past) bool { return p.Token == h.token-1 && p.Ended == EndedExpired })
	}
	granted, _ := after.view().byRequest(c.request())
	took := false
	for _, h := range v.holders {
		switch {
		case h.ended || v.family == Permits && granted != nil && h.number != granted.number:
		case h.expires.After(w.At):
			return false
		default:
			took = true
		}
	}
	return took
}

// outcomeOf is what the request has in a state: the lease, a place in line, or nothing.
func (c Acquire) outcomeOf(s State, w rule.When) Outcome {
	v, r := s.view(), c.request()
	h, _ := v.byRequest(r)
	if v.family == Rate {
		h, _ = v.rateGrant(r)
	}
	if h == nil {
		i, _ := v.placeOf(r)
		if i >= 0 {
			return c.busy(s, w, v.position(i, w.At), "")
		}
		return c.busy(s, w, 0, "")
	}
	if v.family == Rate && w.Took > GrantTime {
		return c.spent(h, w)
	}
	return c.obtained(v, h, w)
}

// spent is the outcome of an acquire whose grant of a rate came too late: the window that counts it has begun without
// its caller, who would act beside those of the next one.
func (c Acquire) spent(h *holder, w rule.When) Outcome {
	l := c.named(h.token)
	l.ExpiresAt = h.expires.Time
	return Outcome{Code: LeaseExpired, At: w.Latest(), Lease: l, Detail: fmt.Sprintf(
		"the store took %v to respond: the grant counts from before that and is spent; ask again with a new request_id",
		w.Took.Round(time.Millisecond))}
}

// obtained is the lease that the request has.
func (c Acquire) obtained(v *sharedForm, h *holder, w rule.When) Outcome {
	if v.family == Rate {
		g := *h
		g.owner, g.metadata = c.Owner, c.Metadata
		return Outcome{Code: OK, Lease: v.lease(c.ID, g, Active), At: w.Latest()}
	}
	o := Outcome{Code: OK, Lease: v.lease(c.ID, *h, Active), At: w.Latest()}
	return o.rejectLate(w)
}

// lease is a lease as its holder sees it.
func (v *sharedForm) lease(id ID, h holder, phase Phase) Lease {
	l := Lease{Token: h.token, Status: Status{
		Tenant: id.Tenant, Key: id.Key, Phase: phase, LeaseID: h.leaseID, Owner: h.owner, AcquiredAt: h.acquired,
		ExpiresAt:  h.expires.Time,
		TTLSeconds: h.ttl, Metadata: h.metadata, Mode: h.mode, Limit: v.limit, WindowSeconds: v.window,
	}}
	if v.family == Permits {
		l.Permit = h.number
	}
	return l
}

// turnedAway is the outcome of a decision by which the request obtains nothing, in the state that it leaves.
func (c Acquire) turnedAway(d decision, s State, w rule.When) Outcome {
	switch d.code {
	case OK:
		if d.lease == nil {
			return c.busy(s, w, 0, changedMeanwhile)
		}
		o := c.obtained(s.view(), d.lease, w)
		o.Replayed = o.Code == OK
		return o
	case RequestIDReused:
		return c.reused(w, 0, d.detail)
	case ModeDiffers:
		v := s.view()
		o := Outcome{Code: ModeDiffers, At: w.At, Lease: c.named(0), Detail: d.detail +
			"; ask for that, or wait until it is free"}
		o.Lease.Mode, o.Lease.Limit, o.Lease.WindowSeconds = v.family, v.limit, v.window
		return o
	case QueueFull:
		o := c.busy(s, w, 0, d.detail)
		o.Code = QueueFull
		return o
	default:
		o := c.busy(s, w, d.position, d.detail)
		if d.newcomer {
			o.Newcomer, o.Detail = true, strings.TrimPrefix(o.Detail+"; "+secondDelivery, "; ")
		}
		return o
	}
}

// busy says why the lock cannot be had now: who holds it, or that it is closed by a lock delay.
func (c Acquire) busy(s State, w rule.When, position int64, detail string) Outcome {
	v := s.view()
	o := Outcome{Code: Held, At: w.At, Position: position, Detail: detail, Lease: c.named(0)}
	o.Lease.Mode, o.Lease.Limit, o.Lease.WindowSeconds = v.family, v.limit, v.window
	if v.family == Rate {
		used, leaves := v.counts(w)
		if v.latest != nil {
			o.Lease.Owner = v.latest.owner
		}
		if o.Detail == "" {
			o.Detail = v.usedUp(used, leaves, v.listening(w.At), position)
		}
		if !leaves.IsZero() {
			o.Lease.Phase, o.Lease.ExpiresAt, o.RetryAfter = Active, leaves, leaves.Sub(w.At)
			return o
		}
	}
	shown, opens := v.shownOf(w.At)
	switch {
	case shown != nil:
		held := c.heldRefusal(s.leaseOf(shown.token), w)
		held.RetryAfter, held.Position, held.Detail = opens.Sub(w.At), position, cmp.Or(detail, held.Detail)
		return held
	case v.reserved.keeps(w.At):
		kept := v.reserved.kept()
		o.Lease.Owner, o.RetryAfter = v.reserved.owner, kept.Sub(w.At)
		if o.Detail == "" {
			o.Detail = "no one holds the lock: it is kept until " + string(docstore.FormatTime(kept)) +
				" for a request for several locks"
		}
	case len(v.line) > 0:
		next := max(0, slices.IndexFunc(v.line, func(p place) bool { return p.listensAt(w.At) }))
		o.Lease.Owner, o.RetryAfter = v.line[next].owner, ClaimTime
		if o.Detail == "" {
			o.Detail = "no one holds the lock, and " + v.line[next].owner + " is the next in line"
		}
	}
	return o
}

// shownOf is the lease that a refusal tells of, nil if none counts: of those that are held the one that ends first, or,
// if none is, the one whose lock delay does. opens is when the first of all that count no longer does.
func (v *sharedForm) shownOf(at time.Time) (shown *holder, opens time.Time) {
	for i := range v.holders {
		h := &v.holders[i]
		closes := h.closes()
		if !closes.After(at) {
			continue
		}
		if opens.IsZero() || closes.Before(opens) {
			opens = closes
		}
		switch {
		case shown == nil, h.lasts(at) && !shown.lasts(at):
			shown = h
		case h.lasts(at) && h.expires.Before(shown.expires.Time), !shown.lasts(at) && closes.Before(shown.closes()):
			shown = h
		}
	}
	return shown, opens
}

// usedUp says when the next grant of a rate is possible, and for whom. ahead is how many in line listen, position the
// caller's place in line, 0 if it has none.
func (v *sharedForm) usedUp(used int64, leaves time.Time, ahead, position int64) string {
	if position > 0 {
		ahead = position - 1
	}
	before := fmt.Sprintf("in line before this request: %d", ahead)
	if used < v.limit || leaves.IsZero() {
		return before
	}
	next := fmt.Sprintf("the rate of %d in %s is used up; the next grant is possible at %s", v.limit, Window(v.window),
		docstore.FormatTime(leaves))
	if ahead > 0 {
		next += "; " + before
	}
	return next
}

// Window is a window of a rate in words: 10s, 1m30s, 1h.
func Window(seconds int64) string {
	s := (time.Duration(seconds) * time.Second).String()
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}

// leaseOf is the state as it looks to the holder of a token: with its lease, or how that ended. So the rules know one
// lease only, as the plain form has it.
func (s State) leaseOf(token int64) State {
	v := s.shared
	if v == nil {
		return s
	}
	one := State{Token: token, Acquires: s.Acquires, Forces: s.Forces, Releases: s.Releases, Forgotten: s.Forgotten}
	for _, h := range v.holders {
		if h.token != token {
			continue
		}
		one.Owner, one.LeaseID, one.AcquiredAt, one.TTLSeconds, one.Metadata = h.owner, h.leaseID, h.acquired, h.ttl,
			h.metadata
		one.Replaceable, one.LockDelaySeconds = h.replaceable, int64(h.closed()/time.Second)
		one.mode, one.limit, one.window = h.mode, v.limit, v.window
		if v.family == Permits {
			one.permit = h.number
		}
		if h.ended { // by whom, the leases that have ended say
			one.Phase, one.ReleasedAt = Released, h.expires.Time
			break
		}
		one.Phase, one.ExpiresAt, one.Renewals = Active, h.expires.Time, h.renewals
		return one
	}
	i := slices.IndexFunc(s.past, func(p Past) bool { return p.Token == token })
	switch {
	case i < 0 && one.Phase == Released:
		return one
	case i < 0:
		one.Token = s.Token
		if token == s.Token {
			one.Token = token + 1 // it has ended, so long ago that no more is known of it
		}
		one.Phase = Released
		return one
	}
	p := s.past[i]
	one.Owner, one.AcquiredAt = cmp.Or(one.Owner, p.Owner), p.AcquiredAt
	switch p.Ended {
	case EndedExpired:
		// for good: the time of this command may lie before that of the one that saw it
		one.Phase, one.ExpiresAt = Expired, p.EndedAt
	case EndedReplaced:
		one.Phase, one.Token = Released, token+1
	default:
		if one.Phase == None {
			one.Phase, one.ReleasedAt = Released, p.EndedAt
		}
		if p.Ended == EndedForced {
			one.EndedBy = p.By
			if s.latestForce(p) {
				one.Forced = Forced{By: p.By, Reason: s.Forced.Reason, At: one.ReleasedAt}
			}
		}
	}
	return one
}

// latestForce reports whether a lease was ended by the force-release whose reason the document has: the latest one, at
// most.
func (s State) latestForce(p Past) bool {
	if s.Forced.By == "" {
		return false
	}
	for _, q := range s.past {
		if q.Ended == EndedForced {
			return p.EndedAt.Equal(q.EndedAt) && p.By == q.By
		}
	}
	return false
}

// replacedBy is who replaced the lease of a token, empty if no one did.
func (s State) replacedBy(token int64) string {
	for _, p := range s.history() {
		if p.Token == token && p.Ended == EndedReplaced {
			return p.By
		}
	}
	return ""
}

// notHeld is the refusal of a command about one lease of a lock whose grants are not held.
func (id ID) notHeld(token int64, s State, w rule.When) (Outcome, bool) {
	if s.shared == nil || s.shared.family != Rate || token > s.Token {
		return Outcome{}, false
	}
	o := Outcome{Code: ModeDiffers, At: w.Latest(), Lease: id.named(token),
		Detail: "grants of a rate are not held, renewed or released"}
	o.Lease.Mode, o.Lease.Limit, o.Lease.WindowSeconds = Rate, s.shared.limit, s.shared.window
	return o, true
}

// Fallback is the write of a renewal that moves the expiry back, and that of one of several leases. It is decided on
// the document found, so that no other renewal has come in between.
func (c Renew) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if s.shared == nil && s.Phase == Active && c.ExpiresAt.IsZero() {
		c.ExpiresAt = s.ExpiresAt
		return c.Write(), true
	}
	if s.shared == nil || s.shared.family == Rate {
		return docstore.Write{}, false
	}
	one, r := s.leaseOf(c.Token), c.request()
	if i, _ := one.Renewals.Find(r); i >= 0 || one.checkHolder(c.Owner, c.Token, w.At) != OK {
		return docstore.Write{}, false
	}
	if !c.ExpiresAt.IsZero() && !c.ExpiresAt.Equal(one.ExpiresAt) {
		return docstore.Write{}, false
	}
	v := s.toShared()
	v.dropExpired(w)
	h := v.byToken(c.Token)
	if h == nil {
		return docstore.Write{}, false
	}
	h.ttl = c.TTLSeconds
	v.extend(h, w)
	copy(h.renewals[1:], one.Renewals[:])
	h.renewals[0] = string(r.Entry())
	v.grantWaiting(w, "")
	return v.write(c.ID, s, w, c.retention), true
}

// Fallback is the write of a release of one of several leases. It hands the lock over.
func (c Release) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if s.shared == nil || s.shared.family == Rate {
		return docstore.Write{}, false
	}
	if s.leaseOf(c.Token).checkHolder(c.Owner, c.Token, w.At) != OK {
		return docstore.Write{}, false
	}
	v := s.toShared()
	v.dropExpired(w)
	h := v.byToken(c.Token)
	if h == nil {
		return docstore.Write{}, false
	}
	v.removeHeld(*h, EndedReleased, w, "")
	v.sets = map[string]docstore.Value{released(c.Token): c.request().Entry()}
	v.grantWaiting(w, "")
	return v.write(c.ID, s, w, c.retention), true
}

// removeHeld is remove of a lease that is held: the store is asked whether it has not expired yet, unless this write
// grants it.
func (v *sharedForm) removeHeld(h holder, how Ended, w rule.When, by string) {
	if h.field != "" {
		v.asks = append(v.asks, notPassed(h.field))
	}
	v.remove(h, how, w, by)
}

// remove ends a lease now.
func (v *sharedForm) remove(h holder, how Ended, w rule.When, by string) {
	v.end(h, how, storeTimePlus(w, 0), by)
	v.holders = slices.DeleteFunc(v.holders, func(o holder) bool { return o.number == h.number })
}

// GrantedFallback is the released lease.
func (c Release) GrantedFallback(found, _ State, _, w rule.When) Outcome {
	v := found.toShared()
	o := Outcome{Code: OK, At: w.Latest(), Lease: c.named(c.Token)}
	if h := v.byToken(c.Token); h != nil {
		o.Lease = v.lease(c.ID, *h, Released)
		o.Lease.ReleasedAt = w.At
	}
	return o
}

// Fallback is the write of a force-release in shared form: of the lease named, or of all that are held. The store is
// not asked whether each has expired meanwhile: DynamoDB takes no condition about a hundred. Where no lease is held it
// ends what closes the lock: lock delays, or the grants of a rate. Where there is nothing to end, it clears what has
// ended.
func (c ForceRelease) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if i, _ := s.Forces.Find(c.request()); i >= 0 || s.Phase == None {
		return docstore.Write{}, false
	}
	if s.shared == nil {
		return c.endDelay(s, w)
	}
	v := s.toShared()
	v.dropExpired(w)
	if c.LeaseID == "" && v.reserved.keeps(w.At) {
		v.reserved, v.cleared = nil, true
	}
	targets, closing := c.targets(v.holders, w), c.opens(s, w)
	for _, h := range targets {
		if h.delay == 0 || h.grantedInQueue {
			v.remove(h, EndedForced, w, c.By)
			continue
		}
		v.end(h, EndedForced, storeTimePlus(w, 0), c.By)
		i := slices.IndexFunc(v.holders, func(o holder) bool { return o.number == h.number })
		v.holders[i].ended, v.holders[i].derived = true, false
		v.holders[i].expires = storeTimePlus(w, 0)
	}
	ends := len(targets)+len(closing) > 0
	if ends {
		v.sets = map[string]docstore.Value{}
		forces.Remember(v.sets, c.request())
	}
	if len(targets) > 0 || v.family == Rate && ends {
		v.forced = &Forced{By: c.By, Reason: c.Reason}
	}
	v.reopen(closing)
	v.grantWaiting(w, "")
	if !ends && v.worthWriting() == nil {
		return docstore.Write{}, false
	}
	return v.write(c.ID, s, w, c.retention), true
}

// opens are the leases that close a lock which no one holds, by their lock delays, or the latest grant of a rate that
// is not over: a force-release ends those, unless it names a lease.
func (c ForceRelease) opens(s State, w rule.When) (closing []holder) {
	v := s.toShared()
	if c.LeaseID != "" {
		return nil
	}
	if n, _ := v.counts(w); v.family == Rate && n > 0 {
		return []holder{*v.latest}
	}
	for _, h := range v.holders {
		switch {
		case !h.ended && h.expires.After(w.At): // as far as is known: the store is asked about none that may last
			return nil
		case h.closes().After(w.At):
			closing = append(closing, h)
		}
	}
	return closing
}

// reopen ends what closes the lock. The store is asked whether the leases have expired, by the one that expires last.
func (v *sharedForm) reopen(closing []holder) {
	if len(closing) == 0 {
		return
	}
	if v.family == Rate {
		v.latest, v.grants = nil, nil
		return
	}
	var last *holder
	for i, h := range closing {
		v.holders = slices.DeleteFunc(v.holders, func(o holder) bool { return o.number == h.number })
		if h.ended {
			continue
		}
		v.end(h, EndedExpired, h.expires, "")
		if last == nil || h.expires.After(last.expires.Time) {
			last = &closing[i]
		}
	}
	if last != nil {
		v.asks = append(v.asks, docstore.LE{Field: last.field, Value: docstore.Now})
	}
}

// endDelay is the write of a force-release in plain form, of a lock that is closed by the lock delay of its latest
// lease.
func (c ForceRelease) endDelay(s State, w rule.When) (docstore.Write, bool) {
	if c.LeaseID != "" || s.closedUntil(w.At).IsZero() {
		return docstore.Write{}, false
	}
	cond := append(s.asFound(), docstore.Eq{Field: fDelay, Value: docstore.Int(s.LockDelaySeconds)})
	if s.Phase == Active {
		cond = append(cond, passed)
	}
	wr := docstore.Write{Key: c.key(), If: cond, Set: map[string]docstore.Value{}, Unset: []string{fDelay},
		Keep: keep(0, c.retention)}
	forces.Remember(wr.Set, c.request())
	return wr, true
}

// targets are the leases that a force-release ends.
func (c ForceRelease) targets(holders []holder, w rule.When) (targets []holder) {
	for _, h := range holders {
		if h.lasts(w.At) && (c.LeaseID == "" || c.LeaseID == h.leaseID) {
			targets = append(targets, h)
		}
	}
	return targets
}

// GrantedFallback is the lease that was ended, or whose lock delay was, the latest of several; or the refusal that the
// write went with.
func (c ForceRelease) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	if i, _ := after.Forces.Find(c.request()); i < 0 {
		o := c.Refusal(found, decided)
		o.At = w.Latest()
		return o
	}
	v := found.toShared()
	o := Outcome{Code: OK, At: w.Latest(), Lease: c.named(0)}
	if found.shared == nil {
		o.Lease = c.lease(found, w.Latest())
		o.Lease.Phase, o.Lease.FreeAt = Released, time.Time{}
		o.Lease.ReleasedAt, o.Lease.Forced = w.At, Forced{By: c.By, Reason: c.Reason, At: w.At}
		return o
	}
	for _, h := range append(c.targets(v.holders, decided), c.opens(found, decided)...) {
		if h.token > o.Lease.Token {
			o.Lease = v.lease(c.ID, h, Released)
		}
	}
	o.Lease.ReleasedAt, o.Lease.Forced = w.At, Forced{By: c.By, Reason: c.Reason, At: w.At}
	return o
}

// soonest is the earlier of two times, of which either may be zero: never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ends are the times at which something in the state ends without a write.
func (s State) ends() (ends []time.Time) {
	v := s.view()
	for _, h := range v.holders {
		ends = append(ends, h.closes())
	}
	for _, p := range v.line {
		ends = append(ends, p.until)
	}
	for _, g := range v.grants {
		ends = append(ends, g.at.Add(v.span()))
	}
	if v.latest != nil {
		ends = append(ends, v.latest.acquired.Add(v.span()))
	}
	if kept := v.reserved.kept(); !kept.IsZero() {
		ends = append(ends, kept)
	}
	if end := v.letsBy(); !end.IsZero() {
		ends = append(ends, end)
	}
	return ends
}

// endsAround is when something ends next, and when something ended last; zero if nothing does, or did.
func (s State) endsAround(at time.Time) (next, last time.Time) {
	for _, end := range s.ends() {
		switch {
		case !end.After(at):
			last = later(last, end)
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return next, last
}

// status is the lock in shared form as everyone in its tenant may see it.
func (v *sharedForm) status(id ID, s State, now time.Time) Status {
	st := Status{Tenant: id.Tenant, Key: id.Key, Phase: Released, Mode: v.family, Limit: v.limit, WindowSeconds: v.window}
	var top *holder
	slices.SortFunc(v.holders, func(a, b holder) int { return cmp.Compare(a.token, b.token) })
	for i := range v.holders {
		h := &v.holders[i]
		if !h.lasts(now) {
			if end := h.closes(); end.After(now) && end.After(st.FreeAt) {
				st.FreeAt = end
			}
			if !h.ended && (top == nil || !top.lasts(now)) {
				top = h
			}
			continue
		}
		st.Holders = append(st.Holders, v.holder(*h))
		if top == nil || !top.lasts(now) || h.token > top.token {
			top = h
		}
	}
	if v.family == Rate {
		top = v.latest
		if used, leaves := v.counts(rule.When{At: now}); used >= v.limit {
			st.FreeAt = leaves
		}
	}
	if top != nil {
		l := v.lease(id, *top, Active)
		st.LeaseID, st.Owner, st.AcquiredAt, st.ExpiresAt = l.LeaseID, l.Owner, l.AcquiredAt, l.ExpiresAt
		st.TTLSeconds, st.Metadata, st.Phase, st.Mode = l.TTLSeconds, l.Metadata, Active, l.Mode
		if !now.Before(l.ExpiresAt) {
			st.Phase = Expired
		}
	} else if len(s.past) > 0 {
		p := s.past[0]
		st.Owner, st.AcquiredAt, st.ExpiresAt, st.ReleasedAt = p.Owner, p.AcquiredAt, p.EndedAt, p.EndedAt
		if p.Ended == EndedExpired {
			st.Phase, st.ReleasedAt = Expired, time.Time{}
		}
	}
	if v.reserved.keeps(now) && len(st.Holders) == 0 {
		st.FreeAt = later(st.FreeAt, v.reserved.kept())
	}
	for _, p := range v.line {
		if p.listensAt(now) {
			st.Waiting = append(st.Waiting, Waiter{Owner: p.owner, Mode: p.mode, Since: p.since, Until: p.until})
		}
	}
	return st
}

// holder is a lease as everyone may see it.
func (v *sharedForm) holder(h holder) Holder {
	l := Holder{
		LeaseID: h.leaseID, Owner: h.owner, Mode: h.mode, AcquiredAt: h.acquired, ExpiresAt: h.expires.Time,
		TTLSeconds: h.ttl,
		Metadata:   maps.Clone(h.metadata),
	}
	if v.family == Permits {
		l.Permit = h.number
	}
	return l
}
