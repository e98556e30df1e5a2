package suite

import (
	"cmp"
	"slices"
	"time"
)

// gateOracle says what BE-041 demands of one analysis, and what the gate adds to it: a fence, and a sweep. A copy of
// it is another analysis.
type gateOracle struct {
	status   string
	begun    bool     // whether there was a run
	run      run      // the latest
	memory   [4]asked // the requests that are remembered, newest first; what was given up comes behind the latest acquire
	past     int64    // the highest token of documents with this ID that were deleted
	streak   int64    // runs begun since the last that ended with a release or finish
	failures int64
	result   string
	reason   string     // of the last failure
	failed   int64      // token of the run that failed last
	queued   time.Time  // when the latest sweep put it into the queue; zero if it has not since it was last begun
	ended    time.Time  // when a command made it READY or FAILED; zero if none did since it was last begun or retried
	before   time.Time  // the end before that
	retries  [4]retried // newest first
	awaits   bool       // it was retried, and no worker has begun it since
	made     bool       // it is a run, whose document says nothing of it until it has ended
}

// asked is a request for a run that is remembered; the zero value is a place that was never taken.
type asked struct {
	owner, request string
	ttl            int64
	of             string // for which run of a job; of one that removed the record, why
}

// retried is how an administrator let a FAILED analysis run again.
type retried struct {
	by, request, reason string
	at                  time.Time
	do                  string // retry or again
}

// run is one grant. A sweep that gives an analysis up takes a token as well: that is a run without an owner.
type run struct {
	token          int64 // 0: the first of a document, of which only the lowest bound is known
	least          int64 // that bound
	owner, request string
	ttl            int64
	until          time.Time
	garbage        bool // another writer has written nonsense into lockExpiresAt
	over           bool // released, finished or given up, or another writer removed the lock
}

// Answer is what every command of the gate must return.
type Answer struct {
	Code     string
	Token    int64 // of the caller's lease, if the code is OK
	Expires  time.Time
	Holder   string // if the code is ANALYSIS_LOCKED
	Replayed bool
}

// GateAnswer is what a command of the gate must return.
type GateAnswer struct {
	Answer
	Status         string
	Runs, Failures int64 // if the code is OK
	RetryAfter     time.Duration
	RetriedBy      string // if the code is OK, of a retry
	RetryReason    string
	RetriedAt      string
}

// token is the latest token, 0 if there is none.
func (o *gateOracle) token() int64 { return o.run.token }

// learn takes the first token of a document from what the gate returned, if it is one that no earlier document can have
// shown.
func (o *gateOracle) learn(token int64) {
	if o.begun && o.token() == 0 && token >= o.run.least {
		o.run.token = token
	}
}

// next is a new run: its token is the one after the latest, or begins at the time.
func (o *gateOracle) next(r run, now time.Time) {
	if o.begun {
		r.token = o.token() + 1
	} else {
		r.least = max(o.past, now.UnixMicro()) + 1
	}
	o.begun, o.run = true, r
}

// deleted is the analysis after its document was deleted and made again.
func (o *gateOracle) deleted() *gateOracle {
	return &gateOracle{status: "PENDING", past: max(o.past, o.token())}
}

// remembered is the place of a request among the last four, -1 for none, and whether it had the same ttl.
func (o *gateOracle) remembered(s GateStep) (place int, same bool) {
	place = slices.IndexFunc(o.memory[:], func(r asked) bool { return r.owner == s.Owner && r.request == s.Request })
	return place, place >= 0 && o.memory[place].ttl == s.TTL && o.memory[place].of == s.Of
}

// remember puts a request into a place; the oldest is forgotten.
func (o *gateOracle) remember(place int, s GateStep) {
	copy(o.memory[place+1:], o.memory[place:])
	o.memory[place] = asked{owner: s.Owner, request: s.Request, ttl: s.TTL, of: s.Of}
}

// current is the run whose owner is in the document, whether its lock has expired or not.
func (o *gateOracle) current() *run {
	if !o.begun || o.run.over {
		return nil
	}
	return &o.run
}

func (o *gateOracle) finished() bool { return o.status == "READY" || o.status == "FAILED" }

// ok is a grant as the document then shows it.
func (o *gateOracle) ok(replayed bool) GateAnswer {
	a := GateAnswer{Answer: Answer{Code: "OK", Token: o.token(), Replayed: replayed}, Status: o.status,
		Failures: o.failures, Runs: o.streak}
	if r := o.current(); r != nil {
		a.Holder = r.owner
		if !r.garbage {
			a.Expires = r.until
		}
	}
	return a
}

func (o *gateOracle) answer(s GateStep, token int64, now time.Time) GateAnswer {
	switch s.Do {
	case "acquire":
		return o.acquire(s, now)
	case "refresh":
		return o.refresh(s, token, now)
	case "release":
		return o.release(s, token)
	case "give up":
		return o.abandon(s)
	case "retry", "again":
		return o.retry(s, now)
	default:
		return o.finish(s, token, now)
	}
}

func (o *gateOracle) acquire(s GateStep, now time.Time) GateAnswer {
	if o.finished() { // BE-041-RULE-1
		return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
	}
	place, same := o.remembered(s)
	switch r := o.current(); {
	case place == 0 && same && r != nil && !r.garbage && r.until.After(now):
		return o.ok(true)
	case place >= 0: // LS-ACC-04
		return o.refuse("REQUEST_ID_REUSED")
	case s.Ends && s.End < 0:
		return o.refuse("TOO_LATE")
	case s.Ends && s.End > time.Hour:
		return o.refuse("TOO_FAR")
	case r != nil && r.garbage:
		return GateAnswer{Answer: Answer{Code: "LOCK_UNREADABLE", Holder: r.owner}, Status: o.status}
	case r != nil && r.until.After(now): // BE-041-RULE-4
		return GateAnswer{
			Answer: Answer{Code: "ANALYSIS_LOCKED", Holder: r.owner, Expires: r.until}, Status: o.status,
			RetryAfter: r.until.Sub(now),
		}
	case r != nil && s.Once, r != nil && o.streak-1 >= cmp.Or(s.MaxTakeovers, programTakeovers),
		s.MaxFailures > 0 && o.failures >= s.MaxFailures:
		o.giveUp(now)
		return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
	}
	// BE-041-RULE-2: no owner. BE-041-RULE-3: the owner's lock is stale.
	o.next(run{owner: s.Owner, request: s.Request, ttl: s.TTL, until: now.Add(time.Duration(s.TTL) * time.Second)}, now)
	o.remember(0, s)
	o.streak++
	o.queued, o.awaits = time.Time{}, false
	o.notEnded()
	return o.ok(false)
}

// abandon gives a request up. The lock that it has ends, and leaves the count of runs as it found it. Where the
// analysis is finished nothing is written.
func (o *gateOracle) abandon(s GateStep) GateAnswer {
	done := GateAnswer{Answer: Answer{Code: "OK"}, Status: o.status}
	place, same := o.remembered(s)
	switch r := o.current(); {
	case place >= 0 && !same:
		return o.refuse("REQUEST_ID_REUSED")
	case o.finished():
		done.Replayed = true // no delivery obtains anything there
	case place < 0:
		o.remember(1, s)
	case place == 0 && r != nil && r.owner == s.Owner:
		before := o.streak - 1
		o.end()
		o.streak, done.Token = before, o.token()
	default:
		done.Replayed = true
	}
	return done
}

// refusal says why the lock of a token is not the owner's, or "".
func (o *gateOracle) refusal(owner string, token int64) string {
	switch r := o.current(); {
	case token != o.token() || token == 0:
		return "LEASE_LOST"
	case r == nil:
		return "LEASE_RELEASED"
	case r.owner != owner: // BE-041-CONFLICT-1
		return "NOT_OWNER"
	}
	return ""
}

func (o *gateOracle) refuse(code string) GateAnswer { return GateAnswer{Answer: Answer{Code: code}} }

func (o *gateOracle) refresh(s GateStep, token int64, now time.Time) GateAnswer {
	if code := o.refusal(s.Owner, token); code != "" {
		return o.refuse(code)
	}
	r := o.current()
	switch {
	case o.finished():
		return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
	case !r.garbage && !r.until.After(now):
		return o.refuse("LEASE_EXPIRED")
	}
	r.until, r.garbage = now.Add(time.Duration(s.TTL)*time.Second), false
	return o.ok(false)
}

// end takes the lock off: the run has ended by itself.
func (o *gateOracle) end() {
	o.current().over = true
	o.streak, o.queued = 0, time.Time{}
}

func (o *gateOracle) release(s GateStep, token int64) GateAnswer {
	switch code := o.refusal(s.Owner, token); {
	case code == "":
		o.end()
		if s.Failed {
			o.fail(s, token)
		}
		return o.ok(false)
	case code == "LEASE_RELEASED" && (!s.Failed || o.failed == token && o.reason == s.reason()):
		return o.ok(true)
	case code == "LEASE_RELEASED" && o.finished(): // the failure is not counted, and that is said
		return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
	default:
		return o.refuse(code)
	}
}

// fail counts a failed run.
func (o *gateOracle) fail(s GateStep, token int64) {
	o.failures++
	o.failed, o.reason = token, s.reason()
}

func (o *gateOracle) finish(s GateStep, token int64, now time.Time) GateAnswer {
	status := "READY"
	if s.Failed {
		status = "FAILED"
	}
	code := o.refusal(s.Owner, token)
	if code == "" || code == "LEASE_RELEASED" {
		if o.finished() && o.status != status {
			return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
		}
		if code != "" && o.finished() {
			if s.Failed && o.reason != s.reason() || !s.Failed && o.result != s.Result && s.Result != "" {
				return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status} // the first result stays
			}
			return o.ok(true)
		}
	}
	if code != "" {
		return o.refuse(code)
	}
	o.status, o.reason, o.ended, o.before = status, "", now, o.ended
	o.end()
	if s.Failed {
		o.fail(s, token)
	} else if s.Result != "" {
		o.result = s.Result
	}
	return o.ok(false)
}

// giveUp ends the analysis as FAILED. It takes a token, so that a worker that was only slow is fenced off.
func (o *gateOracle) giveUp(now time.Time) {
	o.next(run{over: true}, now)
	o.status, o.streak, o.queued, o.reason = "FAILED", 0, time.Time{}, "given up"
	o.ended, o.before, o.awaits = now, o.ended, false
}

// retry lets a FAILED analysis run again. A worker that still runs it, because another writer wrote FAILED, is fenced
// off.
func (o *gateOracle) retry(s GateStep, now time.Time) GateAnswer {
	shown := func(replayed bool) GateAnswer {
		a, last := o.ok(replayed), o.retries[0]
		a.RetriedBy, a.RetryReason, a.RetriedAt = last.by, last.reason, last.at.UTC().Format("2006-01-02T15:04:05.000Z")
		return a
	}
	for _, r := range o.retries {
		if r.by == s.Owner && r.request == s.Request && r.do == s.Do {
			if r.reason != s.Reason {
				return o.refuse("REQUEST_ID_REUSED")
			}
			return shown(true)
		}
	}
	if s.Do == "again" && o.status != "READY" {
		return GateAnswer{Answer: Answer{Code: "NOT_READY"}, Status: o.status}
	}
	if s.Do == "retry" && o.status != "FAILED" {
		return GateAnswer{Answer: Answer{Code: "NOT_FAILED"}, Status: o.status}
	}
	if !s.FinishedAt.IsZero() && !s.FinishedAt.Equal(o.ended) {
		return GateAnswer{Answer: Answer{Code: "END_CHANGED"}, Status: o.status}
	}
	if r := o.current(); r != nil {
		r.over = true
	}
	o.next(run{over: true}, now)
	copy(o.retries[1:], o.retries[:])
	o.retries[0] = retried{s.Owner, s.Request, s.Reason, now, s.Do}
	if o.status, o.awaits = "PENDING", true; o.made {
		o.status, o.awaits = "", false
	}
	if s.Do == "again" {
		o.result = ""
	}
	o.streak, o.failures, o.failed, o.queued = 0, 0, 0, time.Time{}
	o.notEnded()
	return shown(false)
}

// notEnded is the analysis as it begins again.
func (o *gateOracle) notEnded() {
	if !o.ended.IsZero() {
		o.ended, o.before = time.Time{}, o.ended
	}
}

// sweep says what a sweep does about the analysis: "requeued", "failed", "skipped", or nothing.
func (o *gateOracle) sweep(now time.Time, takeovers int64, every time.Duration) string {
	r := o.current()
	switch {
	case o.finished() || !o.awaits && (r == nil || r.garbage || r.until.After(now)):
		return ""
	case !o.awaits && o.streak-1 >= takeovers:
		o.giveUp(now)
		return "failed"
	case !o.queued.IsZero() && o.queued.Add(every).After(now):
		return "skipped"
	}
	o.queued = now
	return "requeued"
}
