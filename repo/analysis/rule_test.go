package analysis

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// epoch is the instant around which the documents of these tests live.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// strange is what no rule writes, and other writers may.
var strange = []docstore.Value{
	docstore.String(""), docstore.String("\U0010FFFF"), docstore.String("\U0010FFFFx"), docstore.String(unreadable),
	docstore.Int(0), docstore.Int(-1), docstore.Int(7), docstore.Int(docstore.MaxInt), docstore.Bool(false),
	docstore.Bool(true),
	docstore.Map{}, docstore.Map{"seconds": "1767225600"}, docstore.Opaque{}, docstore.Opaque{Raw: []int{1}},
	docstore.Opaque{Raw: "null", Null: true},
}

// long is a megabyte of text that sorts among the times.
var long = docstore.String("2026-01-01T00:00:00." + strings.Repeat("0", 1<<20) + "Z")

// times is what stands where a time should be: times to the millisecond around epoch, other spellings of them, and
// things that are none.
var times = func() []docstore.Value {
	var all []docstore.Value
	for ms := -2; ms <= 2; ms++ {
		all = append(all, docstore.FormatTime(epoch.Add(time.Duration(ms)*time.Millisecond)))
	}
	for _, s := range []string{
		"soon", "3000", "2", "0", "-", "~", "null", "2026", "2026-01-01", "2026-01-01T00:00", "2026-01-01T00:00:00",
		"1767225600",
		"2025-12-31T23:59:59Z", "2025-12-31T23:59:59.9Z", "2025-12-31T23:59:59.999999999Z", "2025-12-31T23:59:59.9990000001Z",
		"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0Z", "2026-01-01T00:00:00.00Z", "2026-01-01T00:00:00.001000Z",
		"2026-01-01T00:00:00.0005Z", "2026-01-01T00:00:00.0015Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z",
		"2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,001Z", "2026-01-01T00:00:00.001+09:00", "2026-01-01T09:00:00.001+09:00",
		"2025-12-31T19:00:00.001-05:00", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.001z", "2026-01-01t00:00:00.001Z",
		"2026-01-01 00:00:00.001Z", "2026-01-01T0:00:00.001Z", "2026-1-1T00:00:00.001Z", "20260101T000000.001Z",
		" 2026-01-01T00:00:00.001Z",
		"2026-01-01T00:00:00.001Z ", "2026-01-01T00:00:60Z", "2026-01-01T24:00:00Z", "2026-02-30T00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-01-01T00:00+00:00", "2026-01-01T01:00:00.001+01", "20260101T000000Z", "20260101T000000,001+0000",
		"20251231T1900-05", "20260101",
		"2025-12-31T10:00:00.001", "2026-01-01T14:00:00.001", "2025-12-31T12:00", "2025-12-31T23:59:60Z",
		"2025-12-31T24:00:00.000Z",
		"2026-01-01T00:00:00.001+24:00", "2026-01-01T00:00:00.001-00:00", "2026-01-01T00:00:00.001+0530", "1999",
		"2019-12-31", "2027-01-01",
		"+002026-01-01T00:00:00.001Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9Z",
		"9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:60Z", "+010000-01-01T00:00:00.000Z",
		"Thu, 01 Jan 2026 00:00:00 GMT",
	} {
		all = append(all, docstore.String(s))
	}
	for ms := -2; ms <= 2; ms++ { // a store's own type
		all = append(all, docstore.Opaque{Time: epoch.Add(time.Duration(ms)*time.Millisecond - 300*time.Microsecond)})
	}
	return append(all, long)
}()

func oneOf(values ...docstore.Value) *rapid.Generator[docstore.Value] {
	return rapid.SampledFrom(values)
}

// mostly draws what a rule may have written, nothing, or now and then what another writer may have.
func mostly(usual *rapid.Generator[docstore.Value]) *rapid.Generator[docstore.Value] {
	return rapid.OneOf(usual, usual, usual, rapid.Just(docstore.Value(nil)), oneOf(strange...))
}

// entries are the remembered acquires of these tests: what each means. Only their form is that of the rule.
var entries = func() map[docstore.Value]Acquire {
	all := map[docstore.Value]Acquire{}
	for _, owner := range []string{"ann", "bob"} {
		for _, id := range []string{"r1", "r2"} {
			for ttl := int64(1); ttl <= 2; ttl++ {
				c := Acquire{ID: "a1", Owner: owner, RequestID: id, TTLSeconds: ttl}
				r := c.request()
				all[r.Entry()] = c
			}
		}
	}
	return all
}()

// retries are the remembered retries of these tests.
var retries = func() map[docstore.Value]Retry {
	all := map[docstore.Value]Retry{}
	for _, by := range []string{"ann", "bob"} {
		for _, id := range []string{"r1", "r2"} {
			for _, reason := range []string{"more memory", "a new model"} {
				c := Retry{ID: "a1", By: by, RequestID: id, Reason: reason}
				r := c.request()
				all[r.Entry()] = c
			}
		}
	}
	return all
}()

// retryEntry is what is remembered of a retry.
func retryEntry(c Retry) string {
	for e, known := range retries {
		if known.By == c.By && known.RequestID == c.RequestID && known.Reason == c.Reason {
			return string(e.(docstore.String))
		}
	}
	panic(fmt.Sprintf("%+v is not among the retries of these tests", c))
}

// entry is what is remembered of an acquire.
func entry(c Acquire) string {
	for e, known := range entries {
		if known.Owner == c.Owner && known.RequestID == c.RequestID && known.TTLSeconds == c.TTLSeconds {
			return string(e.(docstore.String))
		}
	}
	panic(fmt.Sprintf("%+v is not among the requests of these tests", c))
}

// Few different values, so that commands often meet the document they are about.
var (
	genOwner   = rapid.SampledFrom([]string{"ann", "bob"})
	genRequest = rapid.SampledFrom([]string{"r1", "r2"})
	genToken   = rapid.Int64Range(0, 3)
	genTTL     = rapid.Int64Range(1, 2)
	genNow     = rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.OneOf(rapid.Int64Range(-2, 2),
			rapid.SampledFrom([]int64{-1000, 100, 123, 500, 550, 999, 1000})).Draw(t, "ms")) *
			time.Millisecond)
	})
	genEnd = rapid.SampledFrom([]rule.End{{}, {}, {}, {NotAfter: epoch.Add(-time.Millisecond)}, {NotAfter: epoch},
		{NotAfter: epoch.Add(time.Second)}, {NotAfter: epoch.Add(docstore.MaxAhead)},
		{NotAfter: epoch.Add(docstore.MaxAhead + time.Millisecond)}})
	genEntry  = rapid.SampledFrom(append(slices.Collect(maps.Keys(entries)), nil, nil))
	genRetry  = rapid.SampledFrom(append(slices.Collect(maps.Keys(retries)), nil, nil))
	genCount  = rapid.Map(genToken, func(n int64) docstore.Value { return docstore.Int(n) })
	genTime   = oneOf(times...)
	genFields = map[string]*rapid.Generator[docstore.Value]{
		fStatus: oneOf(nil, nil, docstore.String("RUNNING"), docstore.String(Ready), docstore.String(Failed),
			docstore.String("ready"),
			docstore.String("READY "), docstore.String("")),
		fOwner:       oneOf(docstore.String("ann"), docstore.String("ann"), docstore.String("bob")),
		fExpiresAt:   genTime,
		fHeartbeatAt: genTime,
		fToken:       genCount,
		fRequests[0]: genEntry,
		fRequests[1]: genEntry,
		fRequests[2]: genEntry,
		fRequests[3]: genEntry,
		fFailed:      genCount,
		fRuns:        genCount,
		fFailures:    genCount,
		fRequeuedAt:  genTime,
		fRequeueID:   rapid.Map(genRequest, func(s string) docstore.Value { return docstore.String(s) }),
		fFinishedAt:  genTime,
		fRetriedAt:   genTime,
		fRetriedBy:   oneOf(docstore.String("root")),
		fRetryReason: oneOf(docstore.String("more memory")),
		fRetries[0]:  genRetry,
		fRetries[1]:  genRetry,
		fRetries[2]:  genRetry,
		fRetries[3]:  genRetry,
		fResult:      oneOf(nil, docstore.String("gs://bucket/1")),
		fFingerprint: oneOf(nil, nil, docstore.String("f1"), docstore.String("f2")),
		fReason:      oneOf(nil, docstore.String("no memory")),
		"title":      oneOf(docstore.String("mine"), docstore.Int(1), docstore.Opaque{}), // the user's own
	}
)

// genDoc draws any document, also those that no sequence of commands leads to; nil is none.
var genDoc = rapid.Custom(func(t *rapid.T) docstore.Doc {
	if rapid.IntRange(0, 20).Draw(t, "exists") == 0 {
		return nil
	}
	d := docstore.Doc{}
	for _, f := range slices.Sorted(maps.Keys(genFields)) {
		if v := mostly(genFields[f]).Draw(t, f); v != nil {
			d[f] = v
		}
	}
	if d[fExpiresAt] != nil && rapid.IntRange(0, 3).Draw(t, "retried") == 0 { // what a retry leaves, or a part of it
		d[fRetriedAt] = d[fExpiresAt]
		if rapid.IntRange(0, 3).Draw(t, "with an owner") > 0 {
			delete(d, fOwner)
		}
	}
	return d
})

// genCommand draws one of the commands.
var genCommand = rapid.Custom(func(t *rapid.T) command {
	id := ID("a1")
	owner, found := genOwner.Draw(t, "owner"), genToken.Draw(t, "token") // a sweep finds also what has no token
	token := max(found, 1)
	switch rapid.SampledFrom([]string{"create", "acquire", "refresh", "release", "finish", "retry", "requeue",
		"abandon", "give up"}).Draw(t, "command") {
	case "create":
		return Create{ID: id}
	case "give up":
		return GiveUp{Acquire{
			ID: id, End: genEnd.Draw(t, "end"), Owner: owner, RequestID: genRequest.Draw(t, "request"),
			TTLSeconds: genTTL.Draw(t, "ttl"), Fingerprint: rapid.SampledFrom([]string{"", "f1"}).Draw(t, "fingerprint"),
		}}
	case "acquire":
		return Acquire{
			ID: id, End: genEnd.Draw(t, "end"), Owner: owner, RequestID: genRequest.Draw(t, "request"),
			TTLSeconds:   genTTL.Draw(t, "ttl"),
			MaxTakeovers: rapid.Int64Range(0, 2).Draw(t, "most takeovers"),
			MaxFailures:  rapid.Int64Range(0, 2).Draw(t, "most failures"),
			Create:       rapid.Bool().Draw(t, "create"), Fingerprint: rapid.SampledFrom([]string{"", "f1", "f2"}).Draw(t,
				"fingerprint"),
		}
	case "refresh":
		return Refresh{ID: id, Owner: owner, Token: token, TTLSeconds: genTTL.Draw(t, "ttl")}
	case "release":
		return Release{ID: id, Owner: owner, Token: token, Failed: rapid.SampledFrom([]string{"", "no disk"}).Draw(t,
			"failed")}
	case "finish":
		if rapid.Bool().Draw(t, "ready") {
			return Finish{ID: id, Owner: owner, Token: token, Status: Ready,
				Result: rapid.SampledFrom([]string{"", "gs://bucket/2"}).Draw(t, "result")}
		}
		return Finish{ID: id, Owner: owner, Token: token, Status: Failed,
			Reason: rapid.SampledFrom([]string{"", "no disk"}).Draw(t, "reason")}
	case "retry":
		return Retry{
			ID: id, By: owner, RequestID: genRequest.Draw(t, "request"),
			Reason:     rapid.SampledFrom([]string{"more memory", "a new model"}).Draw(t, "reason"),
			FinishedAt: rapid.SampledFrom([]time.Time{{}, {}, epoch, epoch.Add(time.Millisecond)}).Draw(t, "finished at"),
		}
	case "requeue":
		return requeue{ID: id, RequestID: genRequest.Draw(t, "request"), Token: found, Expiry: foundExpiry.Draw(t, "expiry"),
			Every: 2 * time.Millisecond}
	default:
		return abandon{ID: id, Token: found, Expiry: foundExpiry.Draw(t, "expiry"), Reason: "given up"}
	}
})

// foundExpiry is what a sweep can have found: text, of which it acts on times that have passed only.
var foundExpiry = rapid.Custom(func(t *rapid.T) string {
	text, _ := genTime.Draw(t, "text").(docstore.String)
	return string(text)
})

// foreign is what a document holds beside the gate's fields.
func foreign(d docstore.Doc) docstore.Doc {
	if d == nil {
		return docstore.Doc{} // as much as in a document that was just made
	}
	d = d.Clone()
	maps.DeleteFunc(d, func(f string, _ docstore.Value) bool { return genFields[f] != nil && f != "title" })
	return d
}

// situation is a command that meets a document.
type situation struct {
	command command
	found   docstore.Doc
	when    rule.When
}

// genSituation also draws how long the store took: nothing, or about until locks of these documents expire.
var genSituation = rapid.Custom(func(t *rapid.T) situation {
	command, found := genCommand.Draw(t, "command"), genDoc.Draw(t, "document")
	if text, ok := found[fExpiresAt].(docstore.String); ok && rapid.IntRange(0, 9).Draw(t, "as found") > 0 {
		switch c := command.(type) {
		case requeue:
			c.Expiry = string(text)
			command = c
		case abandon:
			c.Expiry = string(text)
			command = c
		}
	}
	c := situation{command, found, rule.When{
		At:   genNow.Draw(t, "now"),
		Took: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 999, 1000, 1001, 2000}).Draw(t, "took")) * time.Millisecond,
	}}
	// Only refusals have a margin, and only those of a rule that asks whether a time has passed.
	s, err := ID("a1").State(c.found)
	asks := false
	switch c.command.(type) {
	case Acquire, requeue, abandon:
		asks = true
	}
	if asks && err == nil && !oracle(c.command, s, c.found, c.when).granted {
		c.when.Margin = time.Duration(rapid.SampledFrom([]int{0, 1, 2, 1000}).Draw(t, "margin")) * time.Millisecond
	}
	return c
})

// cases is how many situations a test goes through.
const cases = 50_000

// expected is the effect of a command as BE-041 and the gate's documentation have it.
type expected struct {
	state      State // afterwards
	granted    bool
	code       Code
	replayed   bool
	grant      Grant
	retried    Retried
	result     string
	reason     string
	retryAfter time.Duration
}

// layouts are the forms of a time in lockExpiresAt, without and with an offset from UTC, in the words of package time,
// which reads a fraction of the seconds, after a point or a comma, wherever there are seconds.
var layouts = func() (local, global []string) {
	for _, date := range []struct {
		day, minutes, seconds string
	}{{"2006-01-02", "15:04", ":05"}, {"20060102", "1504", "05"}} {
		for _, hours := range []string{date.minutes, date.minutes + date.seconds} {
			local = append(local, date.day+"T"+hours)
			for _, zone := range []string{"Z07:00", "Z0700", "Z07"} {
				global = append(global, date.day+"T"+hours+zone)
			}
		}
	}
	return local, global
}

// judge says when a lock ends, a second time: between which times, or that the field does not say.
func judge(v docstore.Value) (from, to time.Time, plain bool) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	up := func(t time.Time) time.Time {
		if t = t.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond).UTC(); t.After(last) {
			return last
		}
		return t
	}
	if o, ok := v.(docstore.Opaque); ok && (o.Null || !o.Time.IsZero()) {
		if o.Null {
			return time.Time{}, time.Time{}, true
		}
		return up(o.Time), up(o.Time), true
	}
	text, ok := v.(docstore.String)
	if s := string(text); v == nil || s == "" && ok {
		return time.Time{}, time.Time{}, true
	} else if !ok || len(s) > 80 {
		return time.Time{}, time.Time{}, false
	}
	s, later := string(text), time.Duration(0)
	if i := strings.IndexByte(s, 'T'); i > 0 && !regexp.MustCompile(`^T[0-9]{2}:?[0-9]{2}`).MatchString(s[i:]) {
		return time.Time{}, time.Time{}, false // package time takes an hour of one digit
	}
	if m := regexp.MustCompile(`[.,][0-9]{9}([0-9]+)`).FindStringSubmatch(s); m != nil && strings.Trim(m[1], "0") != "" {
		later = time.Nanosecond // it drops what is less than a nanosecond
	}
	if t, ok := strings.CutPrefix(s, "+00"); ok { // years of six digits
		s = t
	} else if strings.HasPrefix(s, "+0") {
		return last, last, true
	}
	if strings.Contains(s, ":60Z") || strings.Contains(s, ":60.") { // a leap second
		s, later = strings.Replace(s, ":60", ":59", 1), later+time.Second
	}
	if regexp.MustCompile(`T24:?00(:?00([.,]0+)?)?(Z|$)`).MatchString(s) { // the end of a day
		s, later = strings.Replace(s, "T24", "T00", 1), later+24*time.Hour
	}
	local, global := layouts()
	for _, l := range global {
		if t, err := time.Parse(l, s); err == nil && !strings.Contains(s, "+24") {
			t = up(t.Add(later))
			return t, t, true
		}
	}
	for _, l := range local {
		if t, err := time.Parse(l, s); err == nil {
			return up(t.Add(later - 14*time.Hour)), up(t.Add(later + 12*time.Hour)), true
		}
	}
	for _, l := range []string{"2006-01-02", "20060102"} {
		if t, err := time.Parse(l, s); err == nil {
			return t.Add(-14 * time.Hour), t.Add(36 * time.Hour), true
		}
	}
	return time.Time{}, time.Time{}, false
}

// oracle says the rules of the gate a second time, for any state of a document found. It shares no code with them: it
// has no condition and no patch.
func oracle(c command, s State, found docstore.Doc, w rule.When) expected { //nolint:gocyclo // one rule after the other
	const stamp = "2006-01-02T15:04:05.000Z"
	now, latest := w.At.Format(stamp), w.At.Add(w.Margin)
	from, to, plain := judge(found[fExpiresAt])
	held := s.Owner != "" && plain && w.At.Before(from)
	free := s.Owner == "" || plain && !w.At.Before(to)
	// No lock lasts for longer than a day, nor for longer than the gate gave it with its last heartbeat.
	lasts := 24 * time.Hour
	if beat, ok := found[fHeartbeatAt].(docstore.String); ok && len(beat) == len(stamp) {
		given := time.Duration(0)
		if t, err := time.Parse(stamp, string(beat)); err == nil {
			given = to.Sub(t)
		}
		if given >= time.Second && given < lasts {
			lasts = given
		}
	}
	const otherClocks = time.Second
	impossible := held && from.Sub(latest) > lasts+otherClocks
	no := func(code Code) expected {
		e := expected{state: s, code: code}
		if code == AlreadyFinished {
			e.grant.Status = s.Status
		}
		return e
	}
	yes := func(s State) expected {
		e := expected{state: s, code: OK, grant: Grant{Status: s.Status, Owner: s.Owner, Token: s.Token, Runs: s.Runs,
			Failures: s.Failures}}
		if s.Owner != "" {
			e.grant.ExpiresAt = s.Expiry.Latest
		}
		return e
	}
	again := func() expected { e := yes(s); e.replayed = true; return e }
	granted := func(s State) expected { e := yes(s); e.granted = true; return e }
	inTime := func(e expected) expected { // what hands out time must leave some of it
		if !e.grant.ExpiresAt.After(latest.Add(w.Took)) {
			e.code, e.replayed, e.grant = Expired, false, Grant{}
		}
		return e
	}
	unlocked := func(s State) State {
		s.Owner, s.Expiry, s.Runs, s.Requeued, s.RequeueID = "", Expiry{}, 0, "", ""
		return s
	}
	until := func(ttl int64) Expiry {
		end := w.At.Add(time.Duration(ttl) * time.Second)
		return Expiry{Text: end.Format(stamp), Earliest: end, Latest: end}
	}
	next := func(s State) State {
		if found[fToken] == nil { // the document shows no token: another one with its name may have
			s.Token = w.At.UnixMicro()
		}
		s.Token++
		return s
	}
	end := func(s State, reason string) State {
		s = next(unlocked(s))
		s.Status, s.Reason, s.Finished = "FAILED", reason, now
		return s
	}
	finished := s.Status == "READY" || s.Status == "FAILED"
	holder := func(owner string, token int64) Code {
		switch {
		case !s.Exists:
			return NotFound
		case token != s.Token:
			return Lost
		case s.Owner == "":
			return Released
		case owner != s.Owner:
			return NotOwner
		}
		return OK
	}
	owned := s.Owner != "" && !s.strangeOwner && s.Owner <= "\U0010FFFF"
	stale := func(whose bool, token int64, expiry string) Code { // by text: that is how the sweep's index finds it
		switch {
		case !s.Exists:
			return NotFound
		case finished:
			return AlreadyFinished
		case !whose || s.Token != token || s.Expiry.Text == "" || s.Expiry.Text != expiry || s.Expiry.Text > now:
			return NotStale
		}
		return OK
	}
	switch c := c.(type) {
	case Create:
		if s.Exists {
			e := no(OK)
			e.replayed, e.grant = true, Grant{Status: s.Status}
			return e
		}
		return granted(State{Exists: true, Status: "PENDING"})
	case GiveUp:
		done := no(OK)
		done.replayed, done.grant = true, Grant{Status: s.Status}
		if !s.Exists {
			return done
		}
		for i, e := range s.Requests {
			k, ok := entries[docstore.String(e)]
			switch {
			case !ok || k.Owner != c.Acquire.Owner || k.RequestID != c.Acquire.RequestID:
				continue
			case k.TTLSeconds != c.Acquire.TTLSeconds:
				return no(RequestIDReused)
			case i > 0 || s.Owner != k.Owner || finished:
				return done
			}
			after := unlocked(s)
			after.Runs = max(0, s.Runs-1)
			e := granted(after)
			e.grant = Grant{Status: s.Status, Token: s.Token}
			return e
		}
		if finished {
			return done
		}
		s.Requests = rule.Requests{s.Requests[0], entry(c.Acquire), s.Requests[1], s.Requests[2]}
		e := granted(s)
		e.grant = Grant{Status: s.Status}
		return e
	case Acquire:
		if end := c.NotAfter; !end.IsZero() && (latest.After(end) || end.Sub(latest) > time.Hour) {
			c.End = rule.End{}
			switch e := oracle(c, s, found, w); {
			case !e.granted && e.code != Locked && e.code != Unreadable:
				return e // it had its effect, or has none in time either
			case latest.After(end):
				return no(TooLate)
			}
			return no(TooFar)
		}
		first, known := false, false // whether the request obtained the latest lock, or a remembered one
		for i, e := range s.Requests {
			if k, ok := entries[docstore.String(e)]; ok && k.Owner == c.Owner && k.RequestID == c.RequestID {
				first, known = !known && i == 0 && k.TTLSeconds == c.TTLSeconds && k.Owner == s.Owner, true
				break
			}
		}
		most := c.MaxTakeovers
		if most == 0 {
			most = 5
		}
		about := ""
		if v := found[fFingerprint]; v != nil {
			about = fmt.Sprintf("%T %v", v, v)
		}
		mine := fmt.Sprintf("%T %v", docstore.String(""), c.Fingerprint)
		switch {
		case !s.Exists && !c.Create:
			return no(NotFound)
		case c.Fingerprint != "" && about != "" && about != mine:
			return no(Differs)
		case finished: // BE-041-RULE-1
			e := no(AlreadyFinished)
			if s.Status == "READY" {
				e.result = s.Result
			} else {
				e.reason = s.Reason
			}
			return e
		case first && !free && plain && latest.Before(from):
			return inTime(again())
		case known:
			return no(RequestIDReused)
		case impossible: // a clock was wrong: it lasts from now on
			end := w.At.Add(lasts)
			s.Expiry = Expiry{Text: end.Format(stamp), Earliest: end, Latest: end}
			e := granted(s)
			e.code, e.grant = Locked, Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: end}
			e.retryAfter = lasts
			return e
		case held: // BE-041-RULE-4
			e := no(Locked)
			e.grant, e.retryAfter = Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: to}, to.Sub(w.At)
			return e
		case !free:
			e := no(Unreadable)
			e.grant = Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: to}
			return e
		case s.Owner != "" && s.Runs > most:
			e := granted(
				end(s, fmt.Sprintf("given up after %d takeovers: its workers died, or lost their locks, again and again",
					s.Runs-1)))
			e.code, e.grant, e.reason = AlreadyFinished, Grant{Status: "FAILED"}, e.state.Reason
			return e
		case c.MaxFailures > 0 && s.Failures >= c.MaxFailures:
			e := granted(end(s, fmt.Sprintf("given up after %d failed runs", s.Failures)))
			e.code, e.grant, e.reason = AlreadyFinished, Grant{Status: "FAILED"}, e.state.Reason
			return e
		}
		s = next(s) // BE-041-RULE-2, BE-041-RULE-3
		s.Owner, s.Expiry, s.Runs = c.Owner, until(c.TTLSeconds), s.Runs+1
		s.Requests = rule.Requests{entry(c), s.Requests[0], s.Requests[1], s.Requests[2]}
		s.Requeued, s.RequeueID, s.Finished, s.Exists = "", "", "", true
		if c.Fingerprint != "" {
			s.Fingerprint = c.Fingerprint
		}
		return inTime(granted(s))
	case Refresh:
		switch code := holder(c.Owner, c.Token); {
		case code != OK: // BE-041-CONFLICT-1
			return no(code)
		case finished:
			return no(AlreadyFinished)
		case s.Expiry.Text == "" || s.Expiry.Text > "\U0010FFFF" || s.Expiry.Text <= now:
			return no(Expired)
		}
		s.Expiry = until(c.TTLSeconds)
		return inTime(granted(s))
	case Release:
		switch code := holder(c.Owner, c.Token); {
		case code == Released && (c.Failed == "" || s.Failed == c.Token && s.Reason == c.Failed):
			return again()
		case code == Released && finished:
			return no(AlreadyFinished)
		case code != OK:
			return no(code)
		}
		s = unlocked(s)
		if c.Failed != "" {
			s.Failures, s.Reason, s.Failed = s.Failures+1, c.Failed, c.Token
		}
		return granted(s)
	case Finish:
		switch code := holder(c.Owner, c.Token); {
		case code == Released && s.Status == c.Status:
			if c.Result != "" && c.Result != s.Result || c.Reason != "" && c.Reason != s.Reason {
				return no(AlreadyFinished)
			}
			return again()
		case code != OK && code != Released:
			return no(code)
		case finished && s.Status != c.Status:
			return no(AlreadyFinished)
		case code == Released:
			return no(Released)
		}
		s = unlocked(s)
		s.Status, s.Reason, s.Finished = c.Status, c.Reason, now
		if c.Status == "FAILED" {
			s.Failures, s.Failed = s.Failures+1, c.Token
		}
		if c.Result != "" {
			s.Result = c.Result
		}
		return granted(s)
	case Retry:
		if !s.Exists {
			return no(NotFound)
		}
		for _, e := range s.Retries {
			k, ok := retries[docstore.String(e)]
			switch {
			case !ok || k.By != c.By || k.RequestID != c.RequestID:
			case k.Reason != c.Reason:
				return no(RequestIDReused)
			default:
				e := again()
				e.retried = s.Retried
				return e
			}
		}
		if s.Status != "FAILED" {
			e := no(NotFailed)
			e.grant.Status = s.Status
			return e
		}
		if at := c.FinishedAt; !at.IsZero() && found[fFinishedAt] != docstore.Value(docstore.String(at.Format(stamp))) {
			e := no(Changed)
			e.grant.Status = s.Status
			return e
		}
		s = next(unlocked(s))
		s.Status, s.Failures, s.Failed, s.Finished = "PENDING", 0, 0, ""
		s.Expiry, s.Retried = until(0), Retried{At: now, By: c.By, Reason: c.Reason}
		s.Retries = rule.Requests{retryEntry(c), s.Retries[0], s.Retries[1], s.Retries[2]}
		e := granted(s)
		e.retried = s.Retried
		return e
	case requeue:
		retried := s.Owner == "" && !null(found[fOwner]) && found[fRetriedAt] == docstore.Value(docstore.String(c.Expiry))
		switch code := stale(owned || retried, c.Token, c.Expiry); {
		case code != OK:
			return no(code)
		case s.Requeued == "" || s.Requeued <= w.At.Add(-c.Every).Format(stamp),
			s.Requeued > latest.Add(otherClocks).Format(stamp): // no time, or none that a mark can have had
		case s.RequeueID == c.RequestID:
			return again()
		default:
			return no(NotStale)
		}
		s.Requeued, s.RequeueID = now, c.RequestID
		return granted(s)
	case abandon:
		if code := stale(owned, c.Token, c.Expiry); code != OK {
			return no(code)
		}
		return granted(end(s, c.Reason))
	default:
		panic(fmt.Sprintf("no oracle for %T", c))
	}
}

// agree compares a step of the rule with the oracle, for one document, by any writer.
//
//   - A document that cannot be read is not written to.
//   - No one takes an analysis over whose lock expires later, in any spelling of that time that can be read.
//   - The rule and the oracle have the same outcome and the same state.
//   - A grant leaves all that is not the gate's as it was. A rejection changes nothing.
func agree(at situation) error {
	c, found, w := at.command, at.found, at.when
	written := c.Write()
	if err := written.Validate(); err != nil {
		return err
	}
	after, o, stepErr := rule.Step(c, found, w)
	s, err := ID("a1").State(found)
	if err != nil {
		if !errors.Is(stepErr, docstore.ErrDamaged) || !after.Equal(found) {
			return fmt.Errorf("%#v writes to the damaged document %v", c, found)
		}
		return nil
	}
	want := oracle(c, s, found, w)
	if _, acquires := c.(Acquire); acquires && s.Owner != "" {
		anew := want.code == Locked && reflect.DeepEqual(after[fOwner], found[fOwner]) &&
			reflect.DeepEqual(after[fToken], found[fToken])
		if _, to, plain := judge(found[fExpiresAt]); (!plain || w.At.Before(to)) && (!after.Equal(found) || want.granted) &&
			!anew {
			return fmt.Errorf("%#v at %v takes %v, which is locked", c, w.At, found)
		}
	}
	full := want.state.Token > docstore.MaxInt || want.state.Runs > docstore.MaxInt ||
		want.state.Failures > docstore.MaxInt
	if damaged := errors.Is(stepErr, docstore.ErrDamaged); full || stepErr != nil {
		if full != damaged { // a number that cannot grow is the store's to refuse, and nothing else is
			return fmt.Errorf("%#v on %v: %w", c, found, stepErr)
		}
		return nil
	}
	state, err := ID("a1").State(after)
	if err != nil {
		return err
	}
	state.nullStatus, state.strangeOwner, state.Heartbeat = want.state.nullStatus, want.state.strangeOwner,
		want.state.Heartbeat
	got := expected{state, want.granted, o.Code, o.Replayed, o.Grant, o.Retried, o.Result, o.Reason, o.RetryAfter}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%#v on %v, %+v:\nthe rule:   %+v\nthe oracle: %+v", c, found, w, got, want)
	}
	if !want.granted {
		if !after.Equal(found) {
			return fmt.Errorf("%#v was rejected and made %v of %v", c, after, found)
		}
		return nil
	}
	if !written.Holds(found, w.At) && s.Owner == "" && !null(found[fOwner]) && !null(found[fStatus]) && o.Code == OK {
		return fmt.Errorf("%#v at %v on %v needs a second write, and no one holds the lock", c, w.At, found)
	}
	if !foreign(after).Equal(foreign(found)) {
		return fmt.Errorf("%#v on %v leaves %v", c, found, after)
	}
	if _, retries := c.(Retry); retries && after[fHeartbeatAt] != nil {
		return fmt.Errorf("%#v on %v keeps the heartbeat of a lock that it took: %v", c, found, after)
	}
	if at, ok := after[fHeartbeatAt]; (s.Owner != state.Owner || o.CountedAnew) && ok && at != docstore.Value(docstore.FormatTime(w.At)) {
		return fmt.Errorf("%#v on %v keeps the heartbeat of an earlier lock: %v", c, found, after)
	}
	return nil
}

// TestStepAgreesWithTheOracle compares each rule with the oracle for all documents: BE-041-RULE-1, BE-041-RULE-2,
// BE-041-RULE-3, BE-041-RULE-4, BE-041-CONFLICT-1.
func TestStepAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genSituation.Draw(t, "situation")
		if err := agree(c); err != nil {
			t.Fatal(err)
		}
	})
	for seed := range cases { // chance finds some boundaries once in thousands
		c := genSituation.Example(seed)
		if err := agree(c); err != nil {
			t.Fatalf("%.2000s", err)
		}
	}
}

// TestEveryExpiryAtEveryTime goes through all expiries and times with a lock on it, which chance might miss.
func TestEveryExpiryAtEveryTime(t *testing.T) {
	nows := []time.Time{time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), time.Unix(0, 0).UTC()}
	for _, ms := range []int{-1000, -100, -2, -1, 0, 1, 2, 99, 100, 101, 122, 123, 124, 499, 500, 501, 599, 600,
		999, 1000, 60_000} {
		nows = append(nows, epoch.Add(time.Duration(ms)*time.Millisecond))
	}
	// A time without a zone lies within a day of what it says, a day alone within one more: around those hours.
	for _, hours := range []int{-37, -36, -35, -25, -24, -23, -15, -14, -13, -12, -11, -9, -5, -1, 0, 1, 5, 9, 11, 12, 13,
		14, 15, 23, 24, 25, 35, 36, 37} {
		nows = append(nows, epoch.Add(time.Duration(hours)*time.Hour),
			epoch.Add(time.Duration(hours)*time.Hour-time.Millisecond))
	}
	for _, expiry := range append(append([]docstore.Value{nil}, times...), strange...) {
		first := Acquire{ID: "a1", Owner: "ann", RequestID: "r1", TTLSeconds: 1}
		d := docstore.Doc{fOwner: docstore.String("ann"), fToken: docstore.Int(1), fRuns: docstore.Int(1),
			fRequests[0]: docstore.String(entry(first))}
		if expiry != nil {
			d[fExpiresAt] = expiry
		}
		commands := []command{
			first,
			Acquire{ID: "a1", Owner: "bob", RequestID: "r2", TTLSeconds: 1},
			Refresh{ID: "a1", Owner: "ann", Token: 1, TTLSeconds: 1},
			Finish{ID: "a1", Owner: "ann", Token: 1, Status: Ready},
			Retry{ID: "a1", By: "ann", RequestID: "r1", Reason: "more memory"},
			requeue{ID: "a1", RequestID: "r1", Token: 1, Expiry: text(d, fExpiresAt), Every: time.Minute},
			abandon{ID: "a1", Token: 1, Expiry: text(d, fExpiresAt)},
		}
		for _, now := range nows {
			for _, c := range commands {
				if err := agree(situation{c, d, rule.When{At: now}}); err != nil {
					t.Fatalf("%.2000s", err)
				}
			}
		}
	}
}

// TestExpiry: what lockExpiresAt says, in any form of ISO 8601 that is read; what is none cannot be judged.
func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{ // since epoch
		"2026-01-01T00:00:00.001Z":           time.Millisecond,
		"2026-01-01T00:00:00Z":               0,
		"2026-01-01T00:00Z":                  0,
		"2026-01-01T00:00:00.5Z":             500 * time.Millisecond,
		"2026-01-01T00:00:00,5Z":             500 * time.Millisecond,
		"2026-01-01T00:00:00.123456Z":        124 * time.Millisecond, // up: it has not ended before
		"2026-01-01T00:00:00.1230000000001Z": 124 * time.Millisecond,
		"2026-01-01T00:00:00.9999Z":          time.Second,
		"2025-12-31T23:59:59.999Z":           -time.Millisecond,
		"2026-01-01T09:00:00.000+09:00":      0,
		"2026-01-01T09:00:00+0900":           0,
		"2026-01-01T09:00+09":                0,
		"2025-12-31T19:00:00-05:00":          0,
		"2026-01-01T05:30:00+05:30":          0,
		"2026-01-01T00:00:00-00:00":          0,
		"20260101T000000Z":                   0,
		"20260101T0000Z":                     0,
		"20260101T090000,25+0900":            250 * time.Millisecond,
		"2025-12-31T24:00:00Z":               0,
		"2025-12-31T23:59:60Z":               0,
		"+002026-01-01T00:00:00.000Z":        0,
		"2024-02-29T00:00:00Z":               -(306 + 366) * day,
	} {
		if got := expiry(docstore.String(text)); got.Unclear || !got.Latest.Equal(epoch.Add(want)) ||
			!got.Earliest.Equal(got.Latest) || got.Text != text {
			if want != -(306+366)*day || !got.Latest.Equal(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%q is %+v", text, got)
			}
		}
	}
	for text, want := range map[string][2]time.Duration{
		"2026-01-01T00:00:00":     {-14 * time.Hour, 12 * time.Hour},
		"2026-01-01T00:00:00.001": {-14*time.Hour + time.Millisecond, 12*time.Hour + time.Millisecond},
		"20260101T0000":           {-14 * time.Hour, 12 * time.Hour},
		"2026-01-01":              {-14 * time.Hour, 36 * time.Hour},
		"20260101":                {-14 * time.Hour, 36 * time.Hour},
	} {
		if got := expiry(docstore.String(text)); got.Unclear || !got.Earliest.Equal(epoch.Add(want[0])) ||
			!got.Latest.Equal(epoch.Add(want[1])) {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if got := expiry(docstore.String("+010000-01-01T00:00:00.000Z")); got.Unclear || got.Earliest.Year() != 9999 {
		t.Errorf("the year 10000 is %+v", got)
	}
	if got := expiry(docstore.Opaque{Time: epoch.Add(time.Microsecond)}); got.Unclear ||
		!got.Earliest.Equal(epoch.Add(time.Millisecond)) || got.Text != "" {
		t.Errorf("a timestamp is %+v", got)
	}
	for _, missing := range []docstore.Value{nil, docstore.String(""), docstore.Opaque{Null: true}} {
		if got := expiry(missing); got != (Expiry{}) || !got.passed(time.Time{}) || got.ahead(time.Time{}) {
			t.Errorf("%#v is %+v", missing, got)
		}
	}
	for _, v := range []docstore.Value{docstore.Int(1767225600000), docstore.Bool(false), docstore.Map{"seconds": "1"},
		docstore.Opaque{}} {
		if got := expiry(v); got != (Expiry{Unclear: true}) || got.passed(epoch.AddDate(100, 0, 0)) ||
			got.ahead(time.Time{}) {
			t.Errorf("%#v is %+v", v, got)
		}
	}
	for _, text := range []string{
		"soon", "3000", "2026-01", "1767225600", "2026-W01-1", "2026-001", "2026-01-01T00", "2026-01-01T0:00:00.000Z",
		"2026-01-01T00:00:00.Z",
		"2026-02-30T00:00:00.000Z", "2025-02-29", "2026-13-01", "2026-01-00", "2026-01-01 00:00:00.000Z",
		"2026-01-01t00:00:00.000Z",
		"2026-01-01T00:00:00.000z", "2026-01-01T24:00:01Z", "2026-01-01T24:00:00.1Z", "2026-01-01T25:00:00Z",
		"2026-01-01T00:60:00Z",
		"2026-01-01T00:00:61Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+09:60", "2026-01-01T00:00:00+9",
		"-000000-01-01T00:00:00Z",
		"2026-01-01Z", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "Thu, 01 Jan 2026 00:00:00 GMT", string(long),
		string(long[:len(long)-1]),
	} {
		if got := expiry(docstore.String(text)); got != (Expiry{Text: text, Unclear: true}) {
			t.Errorf("%.40q is %.200v", text, got)
		}
	}
}

func TestDamagedDocuments(t *testing.T) {
	for name, damage := range map[string]docstore.Value{
		fStatus: docstore.Int(1), fToken: docstore.String("3"), fRuns: docstore.Opaque{}, fFailures: docstore.Int(-1),
	} {
		_, err := ID("a1").State(docstore.Doc{name: damage})
		if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "analyses//a1") ||
			!strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMarkOfAnotherSweep: a sweep that finds a young mark knows whether that is its own, whose response was lost, or
// that of another sweep, which has queued the analysis.
func TestMarkOfAnotherSweep(t *testing.T) {
	expired := string(docstore.FormatTime(epoch))
	d := docstore.Doc{fStatus: docstore.String("RUNNING"), fOwner: docstore.String("ann"), fToken: docstore.Int(3),
		fExpiresAt: docstore.String(expired), fRequeuedAt: docstore.FormatTime(epoch.Add(time.Second)),
		fRequeueID: docstore.String("mine")}
	for by, want := range map[string]Outcome{"mine": {Code: OK, Replayed: true}, "another": {Code: NotStale}} {
		c := requeue{ID: "a1", RequestID: by, Token: 3, Expiry: expired, Every: time.Minute}
		after, o, err := rule.Step(c, d, rule.When{At: epoch.Add(2 * time.Second)})
		if err != nil || o.Code != want.Code || o.Replayed != want.Replayed || !maps.Equal(after, d) {
			t.Errorf("%s: %+v, %v, %v; want %+v", by, o, after, err, want)
		}
	}
}
