package lock

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// epoch is the instant around which the states of these tests live.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Few different values, so that commands often meet the state they are about.
var (
	genOwner   = rapid.SampledFrom([]string{"ann", "bob"})
	genRequest = rapid.SampledFrom([]string{"r1", "r2", "r3", "r4", "r5"})
	genReason  = rapid.SampledFrom([]string{"hangs", "lunch"})
	genLeaseID = rapid.SampledFrom([]string{"l1", "l2"})
	genToken   = rapid.Int64Range(1, 18)
	genTTL     = rapid.Int64Range(1, 2)
	genTime    = rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.Int64Range(-2, 2).Draw(t, "ms")) * time.Millisecond)
	})
	genMetadata = rapid.SampledFrom([]map[string]string{{}, {"build": "1"}, {"build": "2"}})
	genReplace  = rapid.SampledFrom([]bool{false, false, true})
	genDelay    = rapid.SampledFrom([]int64{0, 0, 0, 1, 2})
	subject     = ID{Tenant: "acme", Key: "deploy"}
)

// sent is a request as its caller sent it.
type sent struct {
	owner, request string
	token          int64             // of a renewal and a release
	ttl            int64             // of an acquire and a renewal
	metadata       map[string]string // of an acquire
	replace        bool              // of an acquire
	delay          int64             // of an acquire
	reason, lease  string            // of a force-release
}

// history is a lock as the oracle knows it: with every request that ever took effect, oldest first.
type history struct {
	token                       int64
	phase                       Phase
	owner, lease                string
	acquired, expires, released time.Time
	ttl                         int64
	metadata                    map[string]string
	forced                      Forced // how the latest lease was ended
	replaceable                 bool
	delay                       int64   // until it is released by its owner
	former                      []ended // the leases before the latest, oldest first

	acquires, renewals, releases, forces []sent
}

// ended is a lease with its end.
type ended struct {
	owner                       string
	acquired, expires, released time.Time
	how                         Ended
	at                          time.Time
	by                          string // the administrator, or who replaced it
}

// genFormer draws the leases before one that was acquired at a time by an owner.
func genFormer(next time.Time, by string) *rapid.Generator[[]ended] {
	return rapid.Custom(func(t *rapid.T) (former []ended) {
		next, by := next, by
		for range rapid.IntRange(0, 3).Draw(t, "former") {
			some := func() time.Duration { return time.Duration(rapid.Int64Range(0, 2).Draw(t, "ms")) * time.Millisecond }
			e := ended{
				owner: genOwner.Draw(t, "owner"), acquired: next.Add(-some()), expires: next.Add(some() - time.Millisecond),
				how: rapid.SampledFrom([]Ended{EndedReleased, EndedExpired, EndedForced, EndedReplaced}).Draw(t, "ended"),
			}
			switch e.how {
			case EndedForced, EndedReleased:
				e.released = next.Add(-some())
				if e.at = e.released; e.how == EndedForced {
					e.by = genOwner.Draw(t, "by")
				}
			case EndedExpired:
				e.expires = next.Add(-some())
				e.at = e.expires
			case EndedReplaced:
				e.expires = next.Add(time.Millisecond + some())
				e.at, e.by = next, by
			}
			former = append([]ended{e}, former...)
			next, by = e.acquired, e.owner
		}
		return former
	})
}

func genSent(token *rapid.Generator[int64]) *rapid.Generator[sent] {
	return rapid.Custom(func(t *rapid.T) sent {
		return sent{
			owner: genOwner.Draw(t, "owner"), request: genRequest.Draw(t, "request"), token: token.Draw(t, "token"),
			ttl:      genTTL.Draw(t, "ttl"),
			metadata: genMetadata.Draw(t, "metadata"), reason: genReason.Draw(t, "reason"),
			lease:   rapid.OneOf(genLeaseID, rapid.Just("")).Draw(t, "lease"),
			replace: genReplace.Draw(t, "replace"), delay: genDelay.Draw(t, "delay"),
		}
	})
}

// genHistory draws any lock, also one that no sequence of commands leads to, with more requests than a lock remembers.
var genHistory = rapid.Custom(func(t *rapid.T) history {
	h := history{phase: rapid.SampledFrom([]Phase{None, Active, Active, Released}).Draw(t, "phase")}
	requests := func(kind string, token *rapid.Generator[int64]) []sent {
		return rapid.SliceOfN(genSent(token), 0, 6).Draw(t, kind)
	}
	h.forces = requests("forces", genToken)
	if h.phase == None {
		h.token = rapid.OneOf(rapid.Just(int64(0)), genToken).Draw(t, "counter")
		return h
	}
	h.token = genToken.Draw(t, "token")
	h.owner = genOwner.Draw(t, "owner")
	h.lease = genLeaseID.Draw(t, "lease")
	h.acquired = genTime.Draw(t, "acquired")
	h.replaceable, h.delay = genReplace.Draw(t, "replaceable"), genDelay.Draw(t, "delay")
	// The present is about the end of the lease, or of its lock delay.
	ago := rapid.SampledFrom([]time.Duration{0, time.Duration(h.delay) * time.Second}).Draw(t, "ago")
	h.expires = genTime.Draw(t, "expires").Add(-ago)
	h.ttl = genTTL.Draw(t, "ttl")
	h.metadata = genMetadata.Draw(t, "metadata")
	h.acquires, h.renewals, h.releases = requests("acquires", genToken), requests("renewals", rapid.Just(h.token)),
		requests("releases", genToken)
	h.former = genFormer(h.acquired, h.owner).Draw(t, "former")
	if h.phase == Released {
		h.released = genTime.Draw(t, "released").Add(-ago)
		if rapid.Bool().Draw(t, "forced") {
			h.forced = Forced{By: genOwner.Draw(t, "by"), Reason: genReason.Draw(t, "why"), At: h.released}
		}
	}
	return h
})

// genCommand draws one of the four commands.
var genCommand = rapid.Custom(func(t *rapid.T) command {
	owner, request := genOwner.Draw(t, "owner"), genRequest.Draw(t, "request")
	switch rapid.SampledFrom([]string{"acquire", "renew", "release", "force"}).Draw(t, "command") {
	case "acquire":
		return Acquire{ID: subject, Owner: owner, RequestID: request, TTLSeconds: genTTL.Draw(t, "ttl"),
			Metadata: genMetadata.Draw(t, "metadata"), LeaseID: "new",
			Replace: genReplace.Draw(t, "replace"), LockDelaySeconds: genDelay.Draw(t, "delay")}
	case "renew":
		return Renew{ID: subject, Owner: owner, RequestID: request, TTLSeconds: genTTL.Draw(t, "ttl"),
			Token:     genToken.Draw(t, "token"),
			ExpiresAt: rapid.OneOf(rapid.Just(time.Time{}), genTime).Draw(t, "expires")}
	case "release":
		return Release{ID: subject, Owner: owner, RequestID: request, Token: genToken.Draw(t, "token")}
	default:
		return ForceRelease{ID: subject, By: owner, RequestID: request, Reason: genReason.Draw(t, "reason"),
			LeaseID: rapid.OneOf(genLeaseID, rapid.Just("")).Draw(t, "lease")}
	}
})

// hashed is the stored form of what a list of texts says: the first bytes of a SHA-256 over each text after its length.
func hashed(bytes int, texts ...string) string {
	var b strings.Builder
	for _, s := range texts {
		if len(s) > 127 {
			panic("a length of one byte only")
		}
		b.WriteByte(byte(len(s)))
		b.WriteString(s)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return strings.TrimRight(base64.URLEncoding.EncodeToString(sum[:bytes]), "=")
}

// document is the stored form of a lock.
func document(h history) docstore.Doc {
	d := docstore.Doc{}
	text := func(f, v string) {
		if v != "" {
			d[f] = docstore.String(v)
		}
	}
	at := func(f string, v time.Time) {
		if !v.IsZero() {
			d[f] = docstore.FormatTime(v)
		}
	}
	number := func(f string, v int64) {
		if v != 0 {
			d[f] = docstore.Int(v)
		}
	}
	number("token", h.token)
	text("state", string(h.phase))
	text("owner_id", h.owner)
	text("lease_id", h.lease)
	at("acquired_at", h.acquired)
	at("expires_at", h.expires)
	at("released_at", h.released)
	number("ttl_seconds", h.ttl)
	number("lock_delay_seconds", h.delay)
	if h.replaceable {
		d["replaceable"] = docstore.Bool(true)
	}
	if h.metadata != nil {
		d["metadata"] = docstore.Map(h.metadata)
	}
	text("forced_by", h.forced.By)
	text("forced_reason", h.forced.Reason)
	at("forced_at", h.forced.At)
	if h.phase != None { // names are short here, and labels few, so that two leases fit into what is billed
		text("o0", h.owner)
		text("w0", h.forced.By)
		for n := 1; n <= 2; n++ {
			time := func(at time.Time) docstore.String {
				if at.IsZero() {
					return ""
				}
				return docstore.FormatTime(at)
			}
			var e ended
			if n <= len(h.former) {
				e = h.former[len(h.former)-n]
			}
			k := strconv.Itoa(n)
			d["o"+k], d["w"+k] = docstore.String(e.owner), docstore.String("")
			if e.how == EndedForced {
				d["w"+k] = docstore.String(e.by)
			}
			d["b"+k], d["d"+k], d["c"+k] = time(e.acquired), time(e.expires), time(e.released)
		}
	}
	newest := func(name string, all []sent, entry func(sent) string) {
		for i := 0; i < 4 && len(all) > 0; i++ {
			f := name + strconv.Itoa(i+1)
			d[f] = docstore.String("")
			if i < len(all) {
				d[f] = docstore.String(entry(all[len(all)-1-i]))
			}
		}
	}
	newest("a", h.acquires, func(s sent) string {
		var params []string
		for k, v := range s.metadata { // one at most
			params = append(params, k, v)
		}
		params = append(params, strconv.FormatInt(s.ttl, 10))
		policies := ""
		if s.replace {
			policies = "replace "
		}
		if s.delay > 0 {
			policies += "delay=" + strconv.FormatInt(s.delay, 10) + " "
		}
		if policies != "" {
			params = append(params, policies)
		}
		return hashed(8, "acquire", s.owner, s.request) + hashed(3, params...)
	})
	newest("r", h.renewals, func(s sent) string {
		return hashed(8, "renew", s.owner, strconv.FormatInt(s.token, 10), s.request) +
			hashed(3, strconv.FormatInt(s.ttl, 10))
	})
	newest("f", h.forces, func(s sent) string {
		return hashed(8, "force-release", s.owner, s.request) + hashed(3, s.reason, s.lease)
	})
	for _, s := range h.releases {
		d["e"+strconv.FormatInt(s.token%8, 10)] = docstore.String(
			hashed(8, "release", s.owner, strconv.FormatInt(s.token, 10), s.request))
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

// situation is a command that meets a lock.
type situation struct {
	command command
	history history
	when    rule.When
}

// genSituation also draws how long the store took: nothing, or about until leases of these locks end.
var genSituation = rapid.Custom(func(t *rapid.T) situation {
	c := situation{genCommand.Draw(t, "command"), genHistory.Draw(t, "history"), rule.When{
		At:   genTime.Draw(t, "now"),
		Took: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 999, 1000, 1001, 2000}).Draw(t, "took")) * time.Millisecond,
	}}
	if current := c.history.token; current > 0 && rapid.Bool().Draw(t, "current") {
		switch command := c.command.(type) {
		case Renew:
			command.Token = current
			c.command = command
		case Release:
			command.Token = current
			c.command = command
		}
	}
	// Only refusals have a margin, and only those of a rule that asks whether a time has passed.
	acquire, asks := c.command.(Acquire)
	held := c.history.phase == Active && c.when.At.Before(c.history.expires)
	if _, closed := c.history.closed(c.when.At); asks && (held || closed) {
		c.when.Margin = time.Duration(rapid.SampledFrom([]int{0, 1, 2, 1000}).Draw(t, "margin")) * time.Millisecond
		if c.history.replacedBy(acquire, c.when.At) {
			c.when.Margin = 0
		}
	}
	return c
})

// closed is until when the lock delay of the latest lease keeps the lock closed after that lease, and whether it does
// at the time.
func (h history) closed(at time.Time) (until time.Time, closed bool) {
	if h.delay == 0 {
		return time.Time{}, false
	}
	end := h.expires
	if h.phase == Released {
		end = h.released
	}
	until = end.Add(time.Duration(h.delay) * time.Second)
	return until, h.phase != None && (h.phase == Released || !at.Before(end)) && at.Before(until)
}

// replacedBy reports whether both agreed that an acquire may take the lock from its holder. A holder whose lock delay
// begins is gone.
func (h history) replacedBy(c Acquire, at time.Time) bool {
	return c.Replace && h.replaceable && h.phase == Active && (h.delay == 0 || at.Before(h.expires))
}

// end is the latest lease as one that has ended when the next one is acquired.
func (h history) end(next time.Time, by string) ended {
	e := ended{owner: h.owner, acquired: h.acquired, expires: h.expires, released: h.released}
	switch {
	case h.forced != (Forced{}):
		e.how, e.at, e.by = EndedForced, h.released, h.forced.By
	case h.phase == Released:
		e.how, e.at = EndedReleased, h.released
	case next.Before(h.expires):
		e.how, e.at, e.by = EndedReplaced, next, by
	default:
		e.how, e.at = EndedExpired, h.expires
	}
	return e
}

// past is what the lock shows of leases that have ended: two, and the latest.
func (h history) past(now time.Time) (past []Past) {
	all, last, most := h.former, h.token-1, 2
	if h.phase == Released || h.phase == Active && !now.Before(h.expires) {
		all, last, most = append(slices.Clone(all), h.end(h.expires, "")), h.token, 3
	}
	for i := range min(len(all), most) {
		e := all[len(all)-1-i]
		past = append(past, Past{Owner: e.owner, Token: last - int64(i), AcquiredAt: e.acquired, EndedAt: e.at,
			Ended: e.how, By: e.by})
	}
	return past
}

// cases is how many situations a test goes through.
const cases = 30_000

// oracle says LS-SPEC-001 a second time, for any lock: it returns the lock afterwards and the outcome without its
// Detail. It shares no code with the rules: it has no condition, no patch and no hash, computes with times and looks
// requests up in lists.
func oracle(c command, h history, w rule.When) (history, Outcome) {
	passed := func(at time.Time, end time.Time) bool { return !at.Before(end) }
	latest := w.At.Add(w.Margin)
	held := h.phase == Active && !passed(w.At, h.expires)
	named := func(token int64) Lease { return Lease{Token: token, Status: Status{Tenant: "acme", Key: "deploy"}} }
	shown := func(h history, at time.Time) Lease {
		l := Lease{Token: h.token, Status: Status{
			Tenant: "acme", Key: "deploy", Phase: h.phase, LeaseID: h.lease, Owner: h.owner, AcquiredAt: h.acquired,
			ExpiresAt:  h.expires,
			ReleasedAt: h.released, TTLSeconds: h.ttl, Metadata: h.metadata, Forced: h.forced,
		}}
		if h.phase == Active && passed(at, h.expires) {
			l.Phase = Expired // LS-EXP-001
		}
		if until, closed := h.closed(at); closed {
			l.FreeAt = until
		}
		return l
	}
	granted := func(h history) Outcome { return Outcome{Code: OK, At: latest, Lease: shown(h, latest)} }
	replay := granted(h)
	replay.Replayed = true
	inTime := func(o Outcome) Outcome { // what hands out time must leave some of it
		if end := o.Lease.ExpiresAt; end.Sub(latest) <= w.Took {
			o = Outcome{Code: LeaseExpired, At: latest, Lease: named(o.Lease.Token)}
			o.Lease.ExpiresAt = end
		}
		return o
	}
	gone := func(code Code, token int64) Outcome {
		o := Outcome{Code: code, At: latest, Lease: named(token)}
		switch code {
		case LeaseReleased:
			o.Lease.ReleasedAt = h.released
		case LeaseExpired, LeaseChanged:
			o.Lease.ExpiresAt = h.expires
		default: // the others show no time
		}
		return o
	}
	holder := func(owner string, token int64) Code {
		switch {
		case token != h.token || h.phase == None: // LS-INV-003
			return LeaseLost
		case h.phase == Released: // LS-INV-004, every caller gets the same
			return LeaseReleased
		case !held:
			return LeaseExpired
		case owner != h.owner:
			return NotOwner
		}
		return OK
	}
	// among the last four requests of a kind, the latest that match, or nil; and whether it is the very latest
	known := func(all []sent, match func(sent) bool) (*sent, bool) {
		for i := len(all) - 1; i >= 0 && i >= len(all)-4; i-- {
			if match(all[i]) {
				return &all[i], i == len(all)-1
			}
		}
		return nil, false
	}
	switch c := c.(type) {
	case Acquire:
		earlier, newest := known(h.acquires, func(s sent) bool { return s.owner == c.Owner && s.request == c.RequestID })
		switch {
		case earlier != nil && (earlier.ttl != c.TTLSeconds || !maps.Equal(earlier.metadata, c.Metadata)),
			earlier != nil && (earlier.replace != c.Replace || earlier.delay != c.LockDelaySeconds):
			return h, gone(RequestIDReused, 0)
		case earlier != nil && (!newest || !held || passed(latest, h.expires)): // LS-ACC-04: nothing is acquired twice
			return h, gone(RequestIDReused, 0)
		case earlier != nil: // LS-ACQ-004
			return h, inTime(replay)
		case h.replacedBy(c, w.At): // no one's business but that of the two
		case held: // LS-ACQ-001, LS-INV-001
			l := shown(h, w.At)
			l.Token = 0
			return h, Outcome{Code: Held, At: w.At, Lease: l, RetryAfter: h.expires.Sub(w.At) +
				time.Duration(h.delay)*time.Second}
		default:
			if until, closed := h.closed(w.At); closed {
				l := shown(h, w.At)
				l.Token = 0
				return h, Outcome{Code: Delayed, At: w.At, Lease: l, RetryAfter: until.Sub(w.At)}
			}
		}
		if h.token == 0 {
			h.token = w.At.UnixMicro()
		}
		if h.phase != None {
			h.former = append(slices.Clone(h.former), h.end(w.At, c.Owner))
		}
		h.token++ // LS-ACQ-002, LS-ACQ-003, LS-INV-002
		h.phase, h.owner, h.lease, h.metadata, h.ttl = Active, c.Owner, c.LeaseID, c.Metadata, c.TTLSeconds
		h.acquired, h.expires, h.released, h.forced = w.At, w.At.Add(time.Duration(c.TTLSeconds)*time.Second),
			time.Time{}, Forced{}
		h.replaceable, h.delay = c.Replace, c.LockDelaySeconds
		h.acquires = append(slices.Clone(h.acquires), sent{
			owner: c.Owner, request: c.RequestID, ttl: c.TTLSeconds, metadata: c.Metadata, replace: c.Replace,
			delay: c.LockDelaySeconds,
		})
		h.renewals = nil
		return h, inTime(granted(h))
	case Renew:
		if code := holder(c.Owner, c.Token); code != OK { // LS-RNW-001
			return h, gone(code, c.Token)
		}
		earlier, _ := known(h.renewals, func(s sent) bool {
			return s.owner == c.Owner && s.request == c.RequestID && s.token == c.Token
		})
		switch {
		case earlier != nil && earlier.ttl != c.TTLSeconds:
			return h, gone(RequestIDReused, c.Token)
		case earlier != nil: // LS-RNW-003
			return h, inTime(replay)
		case !c.ExpiresAt.IsZero() && !c.ExpiresAt.Equal(h.expires):
			return h, gone(LeaseChanged, c.Token)
		}
		h.expires, h.ttl = w.At.Add(time.Duration(c.TTLSeconds)*time.Second), c.TTLSeconds // LS-RNW-002
		h.renewals = append(slices.Clone(h.renewals), sent{owner: c.Owner, request: c.RequestID, token: c.Token,
			ttl: c.TTLSeconds})
		return h, inTime(granted(h))
	case Release:
		code := holder(c.Owner, c.Token)
		var last *sent // the latest release of this token or one that took its place
		for i := range h.releases {
			if h.releases[i].token%8 == c.Token%8 {
				last = &h.releases[i]
			}
		}
		again := last != nil && last.token == c.Token && last.owner == c.Owner && last.request == c.RequestID
		switch {
		case code == OK: // LS-REL-001, LS-REL-002
			h.phase, h.released, h.delay = Released, w.At, 0
			h.releases = append(slices.Clone(h.releases), sent{owner: c.Owner, request: c.RequestID, token: c.Token})
			return h, granted(h)
		case again && c.Token == h.token: // LS-REL-003
			return h, replay
		case again:
			o := Outcome{Code: OK, Replayed: true, At: latest, Lease: named(c.Token)}
			o.Lease.Owner, o.Lease.Phase = c.Owner, Released
			return h, o
		}
		return h, gone(code, c.Token)
	case ForceRelease:
		earlier, newest := known(h.forces, func(s sent) bool { return s.owner == c.By && s.request == c.RequestID })
		_, closed := h.closed(w.At)
		switch {
		case earlier != nil && (earlier.reason != c.Reason || earlier.lease != c.LeaseID):
			return h, gone(RequestIDReused, 0)
		case earlier != nil && newest && h.forced.By == c.By && h.forced.Reason == c.Reason:
			// it ended the latest lease, or could have
			return h, replay
		case earlier != nil: // a later lease is neither touched nor shown
			o := Outcome{Code: OK, Replayed: true, At: latest, Lease: named(0)}
			o.Lease.Phase = Released
			return h, o
		case !held && c.LeaseID == "" && closed: // it ends the lock delay
			o := granted(h)
			o.Lease.Phase, o.Lease.FreeAt, o.Lease.ReleasedAt = Released, time.Time{}, w.At
			o.Lease.Forced = Forced{By: c.By, Reason: c.Reason, At: w.At}
			h.delay = 0
			h.forces = append(slices.Clone(h.forces), sent{owner: c.By, request: c.RequestID, reason: c.Reason,
				lease: c.LeaseID})
			return h, o
		case !held:
			return h, Outcome{Code: NotHeld, At: latest, Lease: shown(h, latest)}
		case c.LeaseID != "" && c.LeaseID != h.lease:
			return h, gone(LeaseLost, 0)
		}
		h.phase, h.released, h.forced = Released, w.At, Forced{By: c.By, Reason: c.Reason, At: w.At}
		h.forces = append(slices.Clone(h.forces), sent{owner: c.By, request: c.RequestID, reason: c.Reason, lease: c.LeaseID})
		return h, granted(h)
	default:
		panic(fmt.Sprintf("no oracle for %T", c))
	}
}

// agree compares a step of the rule, whose writes are changed, with the oracle.
func agree(at situation, change func(docstore.Write) docstore.Write) error {
	found := document(at.history)
	after, o, err := rule.Step(mutated{at.command, change}, found, at.when)
	if err != nil {
		return err
	}
	history, want := oracle(at.command, at.history, at.when)
	if o.Detail = ""; !reflect.DeepEqual(o, want) {
		return fmt.Errorf("%#v on %#v, %+v:\nthe rule:   %+v\nthe oracle: %+v", at.command, at.history, at.when, o, want)
	}
	if d := document(history); !after.Equal(d) {
		return fmt.Errorf("%#v on %#v, %+v leaves\n%v, want\n%v", at.command, at.history, at.when, after, d)
	}
	s, err := subject.State(after)
	if err != nil {
		return err
	}
	if got, want := s.ended(at.when.At), history.past(at.when.At); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%#v on %#v, %+v shows\n%+v, want\n%+v", at.command, at.history, at.when, got, want)
	}
	return nil
}

// mutated is a command with other writes.
type mutated struct {
	command
	change func(docstore.Write) docstore.Write
}

func (m mutated) Write() docstore.Write { return m.change(m.command.Write()) }

func (m mutated) Fallback(s State, w rule.When) (docstore.Write, bool) {
	second, ok := m.command.(rule.Fallback[State])
	if !ok {
		return docstore.Write{}, false
	}
	write, ok := second.Fallback(s, w)
	if !ok {
		return docstore.Write{}, false
	}
	return m.change(write), true
}

func (m mutated) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	if second, ok := m.command.(rule.FallbackOutcome[State, Outcome]); ok {
		return second.GrantedFallback(found, after, decided, w)
	}
	return m.Granted(after, w)
}

// unchanged is no fault.
func unchanged(w docstore.Write) docstore.Write { return w }

// TestStepAgreesWithTheOracle compares each rule with the oracle in all states: LS-ACQ-001..004, LS-RNW-001..003,
// LS-REL-001..003, LS-INV-001..004.
func TestStepAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genSituation.Draw(t, "situation")
		if err := agree(c, unchanged); err != nil {
			t.Fatal(err)
		}
	})
	for seed := range cases { // chance finds some boundaries once in thousands
		c := genSituation.Example(seed)
		if err := agree(c, unchanged); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAgreementHasTeeth plants a fault in the write of a rule and shows that the property above notices.
func TestAgreementHasTeeth(t *testing.T) {
	eq := func(f string) func(docstore.Cond) bool {
		return func(c docstore.Cond) bool { e, ok := c.(docstore.Eq); return ok && e.Field == f }
	}
	// The part of a condition on a remembered request that does not hold where there is none.
	le := func(f string) func(docstore.Cond) bool {
		return func(c docstore.Cond) bool {
			e, ok := c.(docstore.LE)
			return ok && e.Field == f && !strings.HasSuffix(string(e.Value.(docstore.String)), "~")
		}
	}
	mutants := map[string]func(docstore.Write) docstore.Write{
		"expiry off by one": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok && le.Field == fExpiresAt {
					le.Value = docstore.Now.Add(-time.Millisecond)
					return le
				}
				return c
			})
			return w
		},
		"token not increased": func(w docstore.Write) docstore.Write { w.Add = nil; return w },
		"owner not compared":  func(w docstore.Write) docstore.Write { w.If = without(w.If, eq(fOwner)); return w },
		"token not compared":  func(w docstore.Write) docstore.Write { w.If = without(w.If, eq(fToken)); return w },
		"state not compared":  func(w docstore.Write) docstore.Write { w.If = without(w.If, eq(fState)); return w },
		"metadata inherited": func(w docstore.Write) docstore.Write {
			w.Set = maps.Clone(w.Set)
			delete(w.Set, fMetadata)
			return w
		},
		"the end of an earlier lease left": func(w docstore.Write) docstore.Write { w.Unset = nil; return w },
		"an acquire granted again": func(w docstore.Write) docstore.Write {
			w.If = without(w.If, le("a3"))
			return w
		},
		"a renewal granted again": func(w docstore.Write) docstore.Write {
			w.If = without(w.If, le("r4"))
			return w
		},
		"a force-release granted again": func(w docstore.Write) docstore.Write {
			w.If = without(w.If, le("f2"))
			return w
		},
		"expires_at not compared": func(w docstore.Write) docstore.Write {
			w.If = without(w.If, eq(fExpiresAt))
			return w
		},
		"a request forgotten early": func(w docstore.Write) docstore.Write {
			w.Set = maps.Clone(w.Set)
			for _, f := range []string{"a4", "r4", "f4"} {
				delete(w.Set, f)
			}
			return w
		},
		"first token from zero": func(w docstore.Write) docstore.Write { w.StartAtNow = nil; return w },
		"a holder replaced that did not agree": func(w docstore.Write) docstore.Write {
			w.If = without(w.If, eq("replaceable"))
			return w
		},
		"replaced in its lock delay": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if has, ok := c.(docstore.Has); ok && has.Field == "lock_delay_seconds" {
					return docstore.Any{}
				}
				return c
			})
			return w
		},
		"lock delay off by one": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok && le.Value != docstore.Value(docstore.Now) {
					if at, timed := le.Value.(docstore.Instant); timed {
						le.Value = at.Add(time.Millisecond)
						return le
					}
				}
				return c
			})
			return w
		},
		"leases forgotten":                func(w docstore.Write) docstore.Write { return setNot(w, "d2") },
		"a name kept for the next lease":  func(w docstore.Write) docstore.Write { return setNot(w, "o0") },
		"who ended an earlier lease left": func(w docstore.Write) docstore.Write { return keepField(w, "w0") },
		"who ended it forgotten":          func(w docstore.Write) docstore.Write { return setNot(w, "w0") },
		"the end of another lease remembered": func(w docstore.Write) docstore.Write {
			w = setNot(w, "")
			if _, acquires := w.Set["c1"]; acquires {
				w.Set["c1"] = docstore.Before("acquired_at")
			}
			return w
		},
		"the lock delay left by a release": func(w docstore.Write) docstore.Write {
			return keepField(w, "lock_delay_seconds")
		},
		"replaceable inherited": func(w docstore.Write) docstore.Write {
			return keepField(w, "replaceable")
		},
		"the lock delay forgotten by a new lease": func(w docstore.Write) docstore.Write {
			return setNot(w, "lock_delay_seconds")
		},
		"the consent forgotten by a new lease": func(w docstore.Write) docstore.Write { return setNot(w, "replaceable") },
		"a lock delay asked of the wrong end": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok && le.Field == "released_at" {
					le.Field = "expires_at"
					return le
				}
				return c
			})
			return w
		},
	}
	for name, mutate := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range cases {
				c := genSituation.Example(seed)
				if err := agree(c, mutate); err != nil {
					return
				}
			}
			t.Fatalf("%d cases did not notice the fault", cases)
		})
	}
}

// keepField is a write that does not remove a field.
func keepField(w docstore.Write, name string) docstore.Write {
	w.Unset = slices.DeleteFunc(slices.Clone(w.Unset), func(f string) bool { return f == name })
	return w
}

// setNot is a write that does not set a field.
func setNot(w docstore.Write, name string) docstore.Write {
	w.Set = maps.Clone(w.Set)
	delete(w.Set, name)
	return w
}

// rewrite applies f to every part of a condition.
func rewrite(c docstore.Cond, f func(docstore.Cond) docstore.Cond) docstore.Cond {
	switch c := c.(type) {
	case docstore.Any:
		out := make(docstore.Any, len(c))
		for i := range c {
			out[i] = rewrite(c[i], f)
		}
		return out
	case docstore.All:
		out := make(docstore.All, len(c))
		for i := range c {
			out[i] = rewrite(c[i], f)
		}
		return out
	case docstore.Not:
		return docstore.Not{Cond: rewrite(c.Cond, f)}
	default:
		return f(c)
	}
}

// without replaces the parts of a condition that match by one that always holds.
func without(c docstore.Cond, match func(docstore.Cond) bool) docstore.Cond {
	return rewrite(c, func(c docstore.Cond) docstore.Cond {
		if match(c) {
			return docstore.All{}
		}
		return c
	})
}

// TestFence: LS-FENCE-001.
func TestFence(t *testing.T) {
	for highest := range int64(6) {
		for token := int64(1); token < 6; token++ {
			c := Fence{Tenant: "acme", Resource: "db", Token: token}
			var found docstore.Doc
			if highest > 0 {
				found = docstore.Doc{fToken: docstore.Int(highest)}
			}
			after, o, err := rule.Step(c, found, rule.When{At: epoch})
			want := FenceOutcome{Passed: token >= highest, Highest: max(token, highest)}
			if err != nil || o != want || after[fToken] != docstore.Int(want.Highest) {
				t.Errorf("token %d after %d: %+v with %v, %v", token, highest, o, after, err)
			}
		}
	}
}

func TestDamagedDocumentsAreNotFreeLocks(t *testing.T) {
	whole := document(history{token: 3, phase: Active, owner: "ann", expires: epoch})
	for name, damage := range map[string]docstore.Doc{
		"token":              {fToken: docstore.String("3")},
		"state":              {fState: docstore.String("HELD")},
		"owner_id":           {fOwner: docstore.Int(1)},
		"expires_at":         {fExpiresAt: docstore.String("tomorrow")},
		"ttl_seconds":        {fTTL: docstore.Opaque{}},
		"replaceable":        {fReplaceable: docstore.Int(1)},
		"lock_delay_seconds": {fDelay: docstore.Int(-1)},
		"metadata":           {fMetadata: docstore.Bool(true)},
		"e5":                 {"e5": docstore.Map{"token": "five"}},
		"a4":                 {"a4": docstore.Int(1)},
		"o1":                 {"o1": docstore.Int(1)},
		"b2":                 {"b2": docstore.String("then")},
		"w2":                 {"w2": docstore.Bool(true)},
		"refused_at":         {fRefusedAt: docstore.String("now")},
		"r1":                 {"r1": docstore.Bool(true)},
		"f2":                 {"f2": docstore.Opaque{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := whole.Clone()
			maps.Copy(d, damage)
			_, err := subject.State(d)
			if !errors.Is(err, docstore.ErrDamaged) {
				t.Fatalf("got %v, want ErrDamaged", err)
			}
			if want := strconv.Quote(name); !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name the field %s", err, want)
			}
		})
	}
}
