package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The commands are rules in the form of package rule.
var (
	_ command = Acquire{}
	_ command = GiveUp{}
	_ command = Refresh{}
	_ command = Release{}
	_ command = Finish{}
	_ command = Create{}
	_ command = Retry{}
	_ command = Remove{}
	_ command = requeue{}
	_ command = abandon{}

	_ rule.Fallback[State] = Acquire{}
	_ rule.Fallback[State] = GiveUp{}
	_ rule.Fallback[State] = Refresh{}
	_ rule.Fallback[State] = Release{}
	_ rule.Fallback[State] = Finish{}
	_ rule.Fallback[State] = Retry{}
	_ rule.Fallback[State] = Remove{}
	_ rule.Fallback[State] = requeue{}
	_ rule.Fallback[State] = abandon{}

	_ rule.FallbackOutcome[State, Outcome] = Acquire{}
)

// Bounds of the text that a condition can tell apart.
const (
	// lastText sorts behind every text that begins with an assigned character. Only text compares with text, so "less
	// than this" is how a condition asks whether a field is text.
	lastText = docstore.String("\U0010FFFF")
)

// readable holds for a document that [Document.State] can read, but for a status of null, which a condition cannot tell
// from a number: see [nullable]. It is the first part of every condition, by [Shape.present]: a write whose outcome
// cannot be reported must not change anything.
func (sh *Shape) readable() docstore.All {
	c := docstore.All{docstore.Any{docstore.Not{Cond: docstore.Has{Field: fStatus}},
		docstore.LE{Field: fStatus, Value: lastText}}}
	for _, f := range slices.Concat(fRequests[:], fRetries[:]) {
		c = append(c, docstore.Any{docstore.Not{Cond: docstore.Has{Field: f}}, docstore.LE{Field: f, Value: lastText}})
	}
	for _, f := range counts {
		c = append(c, docstore.Any{docstore.Not{Cond: docstore.Has{Field: f}}, docstore.All{
			docstore.LE{Field: f, Value: docstore.Int(docstore.MaxInt)},
			docstore.Not{Cond: docstore.LE{Field: f, Value: docstore.Int(-1)}},
		}})
	}
	if sh.KeepSeconds == 0 {
		return c
	}
	return append(c,
		docstore.Any{docstore.Not{Cond: docstore.Has{Field: fKeepSeconds}}, docstore.All{
			docstore.LE{Field: fKeepSeconds, Value: docstore.Int(sh.MaxKeepSeconds)},
			docstore.Not{Cond: docstore.LE{Field: fKeepSeconds, Value: docstore.Int(0)}},
		}},
		docstore.Any{docstore.Not{Cond: docstore.Has{Field: fKeptUntil}}, docstore.All{
			docstore.LE{Field: fKeptUntil, Value: lastText},
			docstore.Not{Cond: docstore.LE{Field: fKeptUntil, Value: docstore.String("")}},
		}})
}

// nullable is the second write of a command whose document was found with a status of null: the first one without the
// demand that the status is text.
func nullable(s State, w docstore.Write) docstore.Write {
	all, ok := w.If.(docstore.All)
	if !s.nullStatus || !ok {
		return w
	}
	parts, _ := all[0].(docstore.All) // readable
	w.If = append(docstore.All{parts[1:]}, all[1:]...)
	return w
}

// unfinished holds for a document that exists and whose status is not finished.
func unfinished() docstore.Cond {
	return docstore.All{
		docstore.Not{Cond: docstore.Absent{}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Ready)}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Failed)}},
	}
}

// owned holds while the lock names an owner, whether it has expired or not. null, which a condition cannot tell from
// other types, counts as one here.
func owned() docstore.Cond {
	return docstore.All{
		docstore.Has{Field: fOwner},
		docstore.Not{Cond: docstore.Eq{Field: fOwner, Value: docstore.String("")}},
	}
}

// expired holds when the lock of a holder has certainly expired, as for those who take it over, or its expiry is not
// text, as the gate writes it.
func (sh *Shape) expired() docstore.Cond {
	return docstore.Any{
		docstore.LE{Field: sh.ExpiryField, Value: docstore.Earliest},
		docstore.Not{Cond: docstore.LE{Field: sh.ExpiryField, Value: lastText}},
	}
}

// comparesExpiry always holds. It asks whether the lock has ended, so that a store without a clock of its own explains
// a refusal by the earliest that its time can be: [Acquire.Fallback] judges by that.
func (sh *Shape) comparesExpiry() docstore.Cond {
	return docstore.Any{docstore.LE{Field: sh.ExpiryField, Value: docstore.Now}, docstore.All{}}
}

// heldBy holds while the document's lock is that of owner and token, whether it has expired or not: no one has taken
// over.
func (sh *Shape) heldBy(owner string, token int64) docstore.All {
	return docstore.All{
		sh.present(),
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	}
}

// asFound holds while the lock is the one that was found: a decision that rests on it still stands. A value that is not
// text cannot be compared; it must still be none, and the owner and the token must be the same.
func (sh *Shape) asFound(s State) docstore.All {
	owner := sameText(fOwner, s.Owner)
	if s.strangeOwner {
		owner = docstore.Not{Cond: docstore.LE{Field: fOwner, Value: lastText}}
	}
	return docstore.All{sh.present(), unfinished(), owner, sameText(sh.ExpiryField, s.Expiry.Text), sameToken(s.Token)}
}

func sameText(field, found string) docstore.Cond {
	same := docstore.Cond(docstore.Eq{Field: field, Value: docstore.String(found)})
	if found == "" { // or missing, null, or a time of the store's own type
		same = docstore.Any{same, docstore.Not{Cond: docstore.LE{Field: field, Value: lastText}}}
	}
	return same
}

func sameToken(token int64) docstore.Cond {
	same := docstore.Cond(docstore.Eq{Field: fToken, Value: docstore.Int(token)})
	if token == 0 { // a lock that was taken without the gate has none
		same = docstore.Any{same, docstore.Not{Cond: docstore.Has{Field: fToken}}}
	}
	return same
}

// checkHolder says why [heldBy] does not hold, or OK. The token is compared first: it alone tells one run from the
// next.
func (s State) checkHolder(owner string, token int64, w rule.When) Code {
	switch {
	case !s.At(w.At).Exists:
		return NotFound
	case token != s.Token:
		return Lost
	case s.Owner == "":
		return Released
	case owner != s.Owner:
		return NotOwner
	default:
		return OK
	}
}

// unlock lists the fields that are removed with a lock.
func (sh *Shape) unlock() []string {
	return []string{fOwner, sh.ExpiryField, fHeartbeatAt, fRuns, fRequeuedAt, fRequeueID}
}

// nextToken increases the token. Where the document has none, it starts at the store's time in microseconds, above
// every token of an earlier document with the same ID.
func nextToken(w docstore.Write) docstore.Write {
	w.Add = map[string]int64{fToken: 1}
	w.StartAtNow = []string{fToken}
	return w
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// Acquire takes the lock of an analysis, to run it: acquireAnalysisLock of BE-041.
type Acquire struct {
	ID
	rule.End
	Owner      string // lockOwner: who runs it, for people and for the conditions of later commands
	RequestID  string // the same for every delivery of the same attempt, another for every attempt
	TTLSeconds int64  // how long the lock lasts without a refresh, 1 to MaxTTLSeconds

	// MaxTakeovers and MaxFailures end a poisonous analysis: instead of another run it becomes FAILED, once that many
	// runs were taken over without one that ended by itself, or that many have failed. MaxTakeovers 0 means
	// DefaultMaxTakeovers; MaxFailures 0 means no bound.
	MaxTakeovers, MaxFailures int64

	// NoTakeover makes it FAILED where another worker would take it over: what is begun once is not begun again after a
	// crash.
	NoTakeover bool

	Round Round // for a job that comes round again: which of its runs this one is

	// Create makes the document if there is none, in the same write: for runs that no producer announced.
	Create bool

	// Fingerprint says what the run is about, for callers that name a run themselves: an ID that is used again with
	// another fingerprint is [Differs]. The first acquire that has one stores it. At most MaxFingerprintBytes; empty
	// compares nothing.
	Fingerprint string

	in Document // where the lock is, if it is not in the document of an analysis
}

// In is the command on a document of another shape.
func (c Acquire) In(d Document) Acquire {
	c.ID, c.in = ID(d.ID), d
	return c
}

func (c Acquire) document() Document { return cmp.Or(c.in, c.ID.document()) }

// State reads the document.
func (c Acquire) State(d docstore.Doc) (State, error) { return c.document().State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.document().Validate(), checkOwner(c.Owner), field.Text("request_id", c.RequestID, MaxRequestIDBytes),
		checkTTL(c.TTLSeconds),
		field.Range("max_takeovers", c.MaxTakeovers, 0, docstore.MaxInt),
		field.Range("max_failures", c.MaxFailures, 0, docstore.MaxInt),
		checkFingerprint(c.Fingerprint), c.Round.validate())
}

// Write applies to an unfinished analysis that no one runs, unless too many runs have failed, or the request is
// remembered: it had the lock before. Of any number of workers one gets the run. For a run that is due at a time it
// applies never: whether it is due is judged by the store's time, in [Acquire.Fallback].
func (c Acquire) Write() docstore.Write {
	open := unfinished()
	if !c.Round.Due.IsZero() {
		return c.write(docstore.All{c.document().present(), docstore.Not{Cond: docstore.All{}}}, State{})
	}
	if c.Create {
		open = docstore.Any{docstore.Absent{}, open}
	}
	free := docstore.All{c.document().present(), open, docstore.Not{Cond: owned()}}
	if c.MaxFailures > 0 {
		free = append(free, docstore.Any{
			docstore.Not{Cond: docstore.Has{Field: fFailures}},
			docstore.LE{Field: fFailures, Value: docstore.Int(c.MaxFailures - 1)},
		})
	}
	return c.write(free, State{})
}

// Fallback is Write for a lock that has certainly ended, or that names null as its owner: what a time means, a
// condition cannot judge. An end that a wrong clock has written it counts anew, see [rule.When.Impossible]. If there
// were too many runs already, it ends the analysis instead. Of a document that is kept no longer it makes a new one,
// and of the run before of a job that comes round again the next one.
func (c Acquire) Fallback(s State, w rule.When) (docstore.Write, bool) {
	var end docstore.Write
	switch d := c.document(); {
	case c.Round.notDue(w):
		return end, false
	case s.gone(w.At):
		end = c.anew(s)
	case c.renews(s, w):
		end = c.renew(s)
	case !s.Exists || s.Status.Finished() || s.Owner != "" && !s.Expiry.passed(w.At) || c.differs(s):
		again, ok := c.impossible(s, w)
		return nullable(s, again), ok
	default:
		end = c.write(d.asFound(s), s)
		if reason := c.exhausted(s); reason != "" {
			end = d.giveUp(end.If, reason, s)
		}
	}
	return nullable(s, end), true
}

// exhausted says why an analysis without a living lock must not run again; empty if it may.
func (c Acquire) exhausted(s State) string {
	switch most := cmp.Or(c.MaxTakeovers, DefaultMaxTakeovers); {
	case s.Owner != "" && c.NoTakeover:
		return "its worker died, or lost its lock, and it must not be begun again"
	case s.Owner != "" && s.Takeovers() >= most:
		return tooManyTakeovers(s.Takeovers())
	case c.MaxFailures > 0 && s.Failures >= c.MaxFailures:
		return fmt.Sprintf(givenUp+"%d failed runs", s.Failures)
	default:
		return ""
	}
}

// givenUp reports whether what is FAILED is so because of the number of its runs: no worker has failed it for good.
func (c Acquire) givenUp(s State) bool {
	return s.Status == Failed &&
		(strings.HasPrefix(s.Reason, givenUp) || c.MaxFailures > 0 && s.Failures >= c.MaxFailures)
}

// giveUp ends an analysis, or what else runs once, as FAILED. It takes the next token, so that a worker that was only
// slow learns that it lost the lock.
func (d Document) giveUp(holds docstore.Cond, reason string, s State) docstore.Write {
	return nextToken(d.keep(s, 0, docstore.Write{
		Key: d.Key(),
		If:  holds,
		Set: map[string]docstore.Value{fStatus: docstore.String(Failed), fReason: docstore.String(reason),
			fFinishedAt: docstore.Now},
		Unset: d.unlock(),
	}))
}

// givenUp begins the reason of what no worker has failed.
const givenUp = "given up after "

func tooManyTakeovers(n int64) string {
	return fmt.Sprintf(givenUp+"%d takeovers: its workers died, or lost their locks, again and again", n)
}

// request is what the analysis remembers of the acquire.
func (c Acquire) request() rule.Request {
	return rule.Identify("acquire", c.Owner, c.RequestID).With(strconv.FormatInt(c.TTLSeconds, 10) + c.Round.key())
}

// differs reports whether the document is about something else than the command. That of an earlier run of a job may
// be.
func (c Acquire) differs(s State) bool {
	return c.Fingerprint != "" && s.Fingerprint != "" && c.Fingerprint != s.Fingerprint && !c.Round.Due.After(s.Due)
}

// alike holds while the document has this fingerprint, or none.
func alike(fingerprint string) docstore.Cond {
	return docstore.Any{
		docstore.Not{Cond: docstore.Has{Field: fFingerprint}},
		docstore.Eq{Field: fFingerprint, Value: docstore.String(fingerprint)},
	}
}

// write is the write of a document that is free, as was found if that is known.
func (c Acquire) write(free docstore.All, s State) docstore.Write {
	if c.Fingerprint != "" {
		free = append(free, alike(c.Fingerprint))
	}
	w := c.begin(free, s)
	w.Add[fRuns] = 1
	return w
}

// anew is the write of a document that is kept no longer, as if there were none; but its token goes on, and its
// requests stay remembered, so that no late one begins a run.
func (c Acquire) anew(s State) docstore.Write {
	d := c.document()
	d.KeepSeconds = cmp.Or(d.KeepSeconds, d.Shape.KeepSeconds)
	return c.In(d).fresh(docstore.All{d.readable(), d.gone()}, s)
}

// fresh is the write of a document of whose runs nothing counts any more.
func (c Acquire) fresh(holds docstore.All, s State) docstore.Write {
	w := c.begin(holds, s)
	w.Set[fRuns] = docstore.Int(1)
	w.Unset = append(w.Unset, fStatus, fResult, fReason, fFailures, fFailed)
	if c.Fingerprint == "" {
		w.Unset = append(w.Unset, fFingerprint)
	}
	c.Round.mark(&w)
	return w
}

// begin is a write that begins a run.
func (c Acquire) begin(holds docstore.All, s State) docstore.Write {
	d := c.document()
	w := nextToken(d.keep(s, c.TTLSeconds, docstore.Write{
		Key: d.Key(),
		If:  append(holds, fRequests.Lacks(c.request()), d.comparesExpiry()),
		Set: map[string]docstore.Value{
			fOwner:        docstore.String(c.Owner),
			d.ExpiryField: after(c.TTLSeconds),
			fHeartbeatAt:  docstore.Now,
		},
		Unset: []string{fRequeuedAt, fRequeueID, fFinishedAt},
	}))
	if c.Fingerprint != "" {
		w.Set[fFingerprint] = docstore.String(c.Fingerprint)
	}
	if c.Round != (Round{}) {
		w.Set[fBegunAt] = docstore.Now
	}
	fRequests.Remember(w.Set, c.request())
	return w
}

// Granted is the new lock, unless it was over before the response arrived; or that the analysis was ended.
func (c Acquire) Granted(s State, w rule.When) Outcome {
	if s.Status.Finished() {
		o := s.over(w.Latest())
		o.Detail, o.GivenUp = s.Reason, c.givenUp(s)
		return o
	}
	return s.ok(w).rejectLate(w)
}

// Refusal says how the analysis ended, with its result. It recognises the request that obtained the current lock. A
// remembered request whose lock has ended, or may have by the margin, obtains nothing again. That the lock was not
// obtained is an outcome, not an error.
func (c Acquire) Refusal(s State, w rule.When) Outcome {
	o := c.refusal(s, w)
	_, anew := c.impossible(s, w)
	return c.ended(o, w, anew)
}

// ended is a refusal of a command that came after its end: it says that, unless the request had its effect before, or
// would have had none in time either. anew says that in time it would have counted an end anew.
func (c Acquire) ended(o Outcome, w rule.When, anew bool) Outcome {
	code, why := c.Refuses(w)
	if code == "" || o.Code != Locked && o.Code != Unreadable && !anew {
		return o
	}
	return Outcome{Code: Code(code), At: w.Latest(), Detail: why}
}

// refusal is [Acquire.Refusal] of a command in time.
func (c Acquire) refusal(s State, w rule.When) Outcome {
	d := c.document()
	s = s.At(w.At)
	end, _ := s.ExpiresAt()
	position, same := s.Requests.Find(c.request())
	switch {
	case !s.Exists && position < 0 && !c.Create:
		return Outcome{Code: NotFound, At: w.At, Detail: "there is no document " + d.Kind + "/" + d.ID}
	case position < 0 && c.Round.notDue(w):
		return c.Round.refusal(s, w)
	case position < 0 && c.renews(s, w): // it is late: see [Acquire.ended]
		return Outcome{Code: Locked, At: w.At, Due: s.Due}
	case c.differs(s):
		return Outcome{
			Code: Differs, At: w.At,
			Detail: "this " + d.IDField + " was used before with another fingerprint: use a new one for something else",
		}
	case s.Status.Finished():
		o := c.Round.over(s, w)
		o.GivenUp = o.Code == AlreadyFinished && c.givenUp(s)
		return o
	case position == 0 && same && c.Owner == s.Owner && !w.Ended(s.Expiry.Earliest):
		return s.replayed(w).rejectLate(w)
	case position >= 0 && !same:
		return Outcome{Code: RequestIDReused, At: w.At,
			Detail: "this request_id was used before with another ttl_seconds or due time: use a new one"}
	case position >= 0:
		return Outcome{Code: RequestIDReused, At: w.At,
			Detail: "this request_id obtained the lock before, and that has ended, or it was given up: use a new one"}
	case s.Expiry.ahead(w.At):
		return Outcome{
			Code: Locked, At: w.At, RetryAfter: end.Sub(w.At), Due: s.Due,
			Grant: Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: end},
		}
	default:
		return Outcome{
			Code: Unreadable, At: w.At, Detail: d.unjudged(s.Expiry),
			Grant: Grant{Status: s.Status, Owner: s.Owner, ExpiresAt: end},
		}
	}
}

// unjudged says why it cannot be judged whether the lock has ended.
func (sh *Shape) unjudged(e Expiry) string {
	text := e.Text
	if len(text) > maxISO {
		text = strings.ToValidUTF8(text[:maxISO], "") + "…"
	}
	why := `must be text such as "2026-01-01T00:05:00.000Z":`
	switch {
	case text == "":
	case e.Unclear:
		why = fmt.Sprintf(`is %q, and no time of ISO 8601 such as "2026-01-01T00:05:00.000Z":`, text)
	default:
		why = fmt.Sprintf("is %q, without an offset from UTC: it may have passed, depending on the place;", text)
	}
	return fmt.Sprintf("%s %s correct it, or remove %s if no one runs the %s", sh.ExpiryField, why, fOwner, sh.Thing)
}

// Refresh moves the expiry of a lock to now + TTLSeconds: refreshAnalysisLock of BE-041, the heartbeat. Send it every
// 60 to 120 seconds of a lock of 300.
type Refresh struct {
	ID
	Owner      string
	Token      int64
	TTLSeconds int64

	in Document // where the lock is, if it is not in the document of an analysis
}

// In is the command on a document of another shape.
func (c Refresh) In(d Document) Refresh {
	c.ID, c.in = ID(d.ID), d
	return c
}

func (c Refresh) document() Document { return cmp.Or(c.in, c.ID.document()) }

// State reads the document.
func (c Refresh) State(d docstore.Doc) (State, error) { return c.document().State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Refresh) Validate() error {
	return first(c.document().Validate(), checkOwner(c.Owner), checkToken(c.Token), checkTTL(c.TTLSeconds))
}

// Write applies while the lock of an unfinished analysis is held by this owner under this token. An expired lock is
// never refreshed, even if no one has taken over: its holder may have been told already. If READY or FAILED was written
// into the document meanwhile, to stop the work, the holder learns it here. It moves no expiry back: the time of a
// write that comes late is an old one.
func (c Refresh) Write() docstore.Write {
	latest := docstore.Latest.Add(time.Duration(c.TTLSeconds) * time.Second)
	return c.write(docstore.LE{Field: c.document().ExpiryField, Value: latest}, State{})
}

func (c Refresh) write(expires docstore.Cond, s State) docstore.Write {
	d := c.document()
	return d.keep(s, c.TTLSeconds, docstore.Write{
		Key: d.Key(),
		If:  append(d.heldBy(c.Owner, c.Token), unfinished(), docstore.Not{Cond: d.expired()}, expires),
		Set: map[string]docstore.Value{d.ExpiryField: after(c.TTLSeconds), fHeartbeatAt: docstore.Now},
	})
}

// Fallback is Write for a smaller TTLSeconds, which moves the expiry back from the one found, so that no other refresh
// has come in between; and for a status of null.
func (c Refresh) Fallback(s State, _ rule.When) (docstore.Write, bool) {
	if !s.Exists || s.Expiry.Text == "" {
		return docstore.Write{}, false
	}
	w := c.write(sameText(c.document().ExpiryField, s.Expiry.Text), s)
	return nullable(s, w), true
}

// Granted is the refreshed lock, unless it was over before the response arrived.
func (c Refresh) Granted(s State, w rule.When) Outcome { return s.ok(w).rejectLate(w) }

// Refusal says why the lock is not, or no longer, the caller's. A refresh needs no request ID: repeated, it applies
// again.
func (c Refresh) Refusal(s State, w rule.When) Outcome {
	d := c.document()
	switch code := s.checkHolder(c.Owner, c.Token, w); {
	case code != OK:
		return d.refused(s, code, c.Token, w)
	case s.Status.Finished():
		return d.refused(s, AlreadyFinished, c.Token, w)
	default:
		return d.refused(s, Expired, c.Token, w)
	}
}

// Release ends a lock with the analysis unfinished: releaseAnalysisLock of BE-041. Only its holder can; callers treat a
// failure as a warning, because the lock expires by itself.
type Release struct {
	ID
	Owner  string
	Token  int64
	Failed string // why the run failed, counted and kept in the document; empty if it did not fail, but was stopped

	in Document // where the lock is, if it is not in the document of an analysis
}

// In is the command on a document of another shape.
func (c Release) In(d Document) Release {
	c.ID, c.in = ID(d.ID), d
	return c
}

func (c Release) document() Document { return cmp.Or(c.in, c.ID.document()) }

// State reads the document.
func (c Release) State(d docstore.Doc) (State, error) { return c.document().State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Release) Validate() error {
	return first(c.document().Validate(), checkOwner(c.Owner), checkToken(c.Token), checkReason(c.Failed))
}

// Write applies while the lock is this owner's under this token, expired or not. The analysis is free for the next run.
func (c Release) Write() docstore.Write { return c.write(State{}) }

func (c Release) write(s State) docstore.Write {
	d := c.document()
	w := d.keep(s, 0, docstore.Write{Key: d.Key(), If: d.heldBy(c.Owner, c.Token), Unset: d.unlock(),
		Set: map[string]docstore.Value{}})
	if c.Failed != "" {
		w.Set[fReason], w.Set[fFailed] = docstore.String(c.Failed), docstore.Int(c.Token)
		w.Add = map[string]int64{fFailures: 1}
	}
	return w
}

// Fallback is Write for a status of null, and for a document that is kept for as long as it says.
func (c Release) Fallback(s State, _ rule.When) (docstore.Write, bool) {
	return nullable(s, c.write(s)), true
}

// Granted is the analysis without the lock.
func (c Release) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal recognises that the lock of this token has been released. A failure that was not counted then is not dropped
// in silence.
func (c Release) Refusal(s State, w rule.When) Outcome {
	d := c.document()
	code := s.checkHolder(c.Owner, c.Token, w)
	switch {
	case code != Released:
		return d.refused(s, code, c.Token, w)
	case c.Failed == "" || s.Failed == c.Token && s.Reason == c.Failed:
		return s.replayed(w)
	case s.Status.Finished():
		o := d.refused(s, AlreadyFinished, c.Token, w)
		o.Detail += "; this failure_reason was not stored"
		return o
	default:
		o := d.refused(s, Released, c.Token, w)
		o.Detail = "the lock was released before, without this failure_reason, which was not stored"
		return o
	}
}

// Finish ends an analysis, and its lock in the same step.
type Finish struct {
	ID
	Owner  string
	Token  int64
	Status Status // Ready or Failed
	Result string // with Ready: the result or where it is; empty leaves the document's as it is
	Reason string // with Failed: why

	in Document // where the lock is, if it is not in the document of an analysis
}

// In is the command on a document of another shape.
func (c Finish) In(d Document) Finish {
	c.ID, c.in = ID(d.ID), d
	return c
}

func (c Finish) document() Document { return cmp.Or(c.in, c.ID.document()) }

// State reads the document.
func (c Finish) State(d docstore.Doc) (State, error) { return c.document().State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Finish) Validate() error {
	switch {
	case !c.Status.Finished():
		return field.Errorf("status", "must be READY or FAILED")
	case c.Status == Failed && c.Result != "":
		return field.Errorf("result", "belongs to READY: with FAILED send failure_reason")
	case c.Status == Ready && c.Reason != "":
		return field.Errorf("failure_reason", "belongs to FAILED: with READY send result")
	case len(c.Result) > MaxResultBytes:
		return field.Errorf("result", "has %d bytes, %d at most: keep it elsewhere and send where it is",
			len(c.Result), MaxResultBytes)
	}
	return first(c.document().Validate(), checkOwner(c.Owner), checkToken(c.Token), validText("result", c.Result),
		checkReason(c.Reason))
}

// Write applies while the lock is this owner's under this token, expired or not, so that a worker that was taken over
// can neither finish nor fail the run of another. If the document says already that the analysis ended the same way,
// the holder itself wrote that, and its lock is removed; an analysis that ended the other way stays as it is.
func (c Finish) Write() docstore.Write { return c.write(State{}) }

func (c Finish) write(s State) docstore.Write {
	d := c.document()
	w := d.keep(s, 0, docstore.Write{
		Key: d.Key(),
		If: append(d.heldBy(c.Owner, c.Token), docstore.Any{unfinished(),
			docstore.Eq{Field: fStatus, Value: docstore.String(c.Status)}}),
		Set:   map[string]docstore.Value{fStatus: docstore.String(c.Status), fFinishedAt: docstore.Now},
		Unset: d.unlock(),
	})
	if c.Result != "" {
		w.Set[fResult] = docstore.String(c.Result)
	}
	if c.Reason != "" {
		w.Set[fReason] = docstore.String(c.Reason)
	} else {
		w.Unset = append(w.Unset, fReason)
	}
	if c.Status == Failed {
		w.Set[fFailed] = docstore.Int(c.Token)
		w.Add = map[string]int64{fFailures: 1}
	}
	return w
}

// Fallback is Write for a status of null, and for a document that is kept for as long as it says.
func (c Finish) Fallback(s State, _ rule.When) (docstore.Write, bool) {
	return nullable(s, c.write(s)), true
}

// Granted is the finished analysis.
func (c Finish) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal recognises that the run of this token has finished the same way. One that has finished with another result or
// reason is told apart: the first stays.
func (c Finish) Refusal(s State, w rule.When) Outcome {
	d := c.document()
	code := s.checkHolder(c.Owner, c.Token, w)
	switch {
	case code == Released && s.Status == c.Status && (c.Result == "" || c.Result == s.Result) &&
		(c.Reason == "" || c.Reason == s.Reason):
		return s.replayed(w)
	case code == Released && s.Status == c.Status:
		o := d.refused(s, AlreadyFinished, c.Token, w)
		o.Detail = "the " + d.Thing + " is already " + string(s.Status) +
			" with another result or failure_reason, which stays"
		return o
	case code == OK, code == Released && s.Status.Finished():
		return d.refused(s, AlreadyFinished, c.Token, w)
	default:
		return d.refused(s, code, c.Token, w)
	}
}

// Pending is the status that [Create] sets. Users who create their documents themselves may use another word.
const Pending Status = "PENDING"

// Create creates the document of an analysis, for users who do not keep one of their own.
type Create struct{ ID }

// Write applies if there is no document.
func (c Create) Write() docstore.Write {
	return docstore.Write{
		Key: c.document().Key(),
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{fStatus: docstore.String(Pending)},
	}
}

// Granted is the new analysis.
func (c Create) Granted(s State, w rule.When) Outcome { return s.ok(w) }

// Refusal takes any existing document for the command's own effect.
func (c Create) Refusal(s State, w rule.When) Outcome {
	return Outcome{Code: OK, Replayed: true, At: w.At, Grant: Grant{Status: s.Status}}
}
