package suite

import "time"

// gateOracle says what BE-041 demands of one analysis, and what the gate adds to it: a fence, and a sweep. It keeps every
// run in a list, newest last, instead of one document.
type gateOracle struct {
	status   string
	runs     []*run
	streak   int64 // runs begun since the last that ended with a release or finish
	failures int64
	queued   time.Time // when the latest sweep put it into the queue; zero if it has not since it was last begun
}

// run is one grant. A sweep that gives an analysis up takes a token as well: that is a run without an owner.
type run struct {
	owner, request string
	until          time.Time
	garbage        bool // another writer has written nonsense into lockExpiresAt
	over           bool // released, finished or given up, or another writer removed the lock
}

// GateAnswer is what a command of the gate must return.
type GateAnswer struct {
	Answer
	Status         string
	Runs, Failures int64 // if the code is OK
	RetryAfter     time.Duration
}

func (o *gateOracle) token() int64 { return int64(len(o.runs)) }

// current is the run whose owner is in the document, whether its lock has expired or not.
func (o *gateOracle) current() *run {
	if n := len(o.runs); n > 0 && !o.runs[n-1].over {
		return o.runs[n-1]
	}
	return nil
}

func (o *gateOracle) finished() bool { return o.status == "READY" || o.status == "FAILED" }

// ok is a grant as the document then shows it.
func (o *gateOracle) ok(replayed bool) GateAnswer {
	a := GateAnswer{Answer: Answer{Code: "OK", Token: o.token(), Replayed: replayed}, Status: o.status, Failures: o.failures, Runs: o.streak}
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
	default:
		return o.finish(s, token)
	}
}

func (o *gateOracle) acquire(s GateStep, now time.Time) GateAnswer {
	if o.finished() { // BE-041-RULE-1
		return GateAnswer{Answer: Answer{Code: "ALREADY_FINISHED"}, Status: o.status}
	}
	if r := o.current(); r != nil && !r.garbage && r.until.After(now) { // BE-041-RULE-4
		if r.owner == s.Owner && r.request == s.Request {
			return o.ok(true)
		}
		return GateAnswer{
			Answer: Answer{Code: "ANALYSIS_LOCKED", Holder: r.owner, Expires: r.until}, Status: o.status, RetryAfter: r.until.Sub(now),
		}
	}
	// BE-041-RULE-2: no owner. BE-041-RULE-3: the owner's lock is stale.
	o.runs = append(o.runs, &run{owner: s.Owner, request: s.Request, until: now.Add(time.Duration(s.TTL) * time.Second)})
	o.streak++
	o.queued = time.Time{}
	return o.ok(false)
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
	switch code := o.refusal(s.Owner, token); code {
	case "":
		o.end()
		if s.Failed {
			o.failures++
		}
		return o.ok(false)
	case "LEASE_RELEASED":
		return o.ok(true)
	default:
		return o.refuse(code)
	}
}

func (o *gateOracle) finish(s GateStep, token int64) GateAnswer {
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
			return o.ok(true)
		}
	}
	if code != "" {
		return o.refuse(code)
	}
	o.status = status
	o.end()
	return o.ok(false)
}

// sweep says what a sweep does about the analysis: "requeued", "failed", "skipped", or nothing.
func (o *gateOracle) sweep(now time.Time, takeovers int64, every time.Duration) string {
	r := o.current()
	switch {
	case o.finished() || r == nil || r.garbage || r.until.After(now):
		return ""
	case o.streak-1 >= takeovers:
		o.runs = append(o.runs, &run{over: true})
		o.status, o.streak, o.queued = "FAILED", 0, time.Time{}
		return "failed"
	case !o.queued.IsZero() && o.queued.Add(every).After(now):
		return "skipped"
	}
	o.queued = now
	return "requeued"
}
