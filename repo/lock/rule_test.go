package lock

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	genRequest = rapid.SampledFrom([]string{"r1", "r2", "r3"})
	genLeaseID = rapid.SampledFrom([]string{"l1", "l2"})
	genToken   = rapid.Int64Range(1, 18)
	genTTL     = rapid.Int64Range(1, 2)
	genTime    = rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.Int64Range(-2, 2).Draw(t, "ms")) * time.Millisecond)
	})
	genMetadata = rapid.SampledFrom([]map[string]string{{}, {"build": "1"}, {"build": "2"}})
	subject     = ID{Tenant: "acme", Key: "deploy"}
)

// genState draws any state, also those that no sequence of commands leads to.
var genState = rapid.Custom(func(t *rapid.T) State {
	s := State{Phase: rapid.SampledFrom([]Phase{None, Active, Active, Released}).Draw(t, "phase")}
	if rapid.Bool().Draw(t, "forced before") {
		s.Forced = Forced{By: genOwner.Draw(t, "by"), Reason: rapid.SampledFrom([]string{"hangs", "lunch"}).Draw(t, "reason"),
			RequestID: genRequest.Draw(t, "forced request"), At: genTime.Draw(t, "forced at")}
	}
	if s.Phase == None {
		return s
	}
	s.Token = genToken.Draw(t, "token")
	s.Owner = genOwner.Draw(t, "owner")
	s.LeaseID = genLeaseID.Draw(t, "lease")
	s.AcquiredAt = genTime.Draw(t, "acquired")
	s.ExpiresAt = genTime.Draw(t, "expires")
	s.TTLSeconds = genTTL.Draw(t, "ttl")
	s.AcquireTTL = genTTL.Draw(t, "acquire ttl")
	s.AcquireRequest = genRequest.Draw(t, "acquire request")
	s.RenewRequest = rapid.OneOf(genRequest, rapid.Just("")).Draw(t, "renew request")
	s.Metadata = genMetadata.Draw(t, "metadata")
	if s.Phase == Released {
		s.ReleasedAt = genTime.Draw(t, "released")
	}
	for _, token := range rapid.SliceOfN(genToken, 0, 4).Draw(t, "ended") {
		s.Releases[token%remembered] = Ended{Token: token, Owner: genOwner.Draw(t, "ended owner"), RequestID: genRequest.Draw(t, "ended request")}
	}
	return s
})

// genCommand draws one of the four commands.
var genCommand = rapid.Custom(func(t *rapid.T) command {
	owner, request := genOwner.Draw(t, "owner"), genRequest.Draw(t, "request")
	switch rapid.SampledFrom([]string{"acquire", "renew", "release", "force"}).Draw(t, "command") {
	case "acquire":
		return Acquire{ID: subject, Owner: owner, RequestID: request, TTLSeconds: genTTL.Draw(t, "ttl"),
			Metadata: genMetadata.Draw(t, "metadata"), LeaseID: "new"}
	case "renew":
		return Renew{ID: subject, Owner: owner, RequestID: request, TTLSeconds: genTTL.Draw(t, "ttl"), Token: genToken.Draw(t, "token")}
	case "release":
		return Release{ID: subject, Owner: owner, RequestID: request, Token: genToken.Draw(t, "token")}
	default:
		return ForceRelease{ID: subject, By: owner, RequestID: request, Reason: rapid.SampledFrom([]string{"hangs", "lunch"}).Draw(t, "reason"),
			LeaseID: rapid.OneOf(genLeaseID, rapid.Just("")).Draw(t, "lease")}
	}
})

// document is the inverse of [ID.State].
func document(s State) docstore.Doc {
	if s.Token == 0 && s.Forced == (Forced{}) {
		return nil
	}
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
	number(fToken, s.Token)
	text(fState, string(s.Phase))
	text(fOwner, s.Owner)
	text(fLease, s.LeaseID)
	at(fAcquiredAt, s.AcquiredAt)
	at(fExpiresAt, s.ExpiresAt)
	at(fReleasedAt, s.ReleasedAt)
	number(fTTL, s.TTLSeconds)
	number(fAcquireTTL, s.AcquireTTL)
	text(fAcquireRequest, s.AcquireRequest)
	text(fRenewRequest, s.RenewRequest)
	if s.Metadata != nil {
		d[fMetadata] = docstore.Map(s.Metadata)
	}
	for i, e := range s.Releases {
		if e != (Ended{}) {
			d[fRelease(int64(i))] = docstore.Map{"token": strconv.FormatInt(e.Token, 10), "owner_id": e.Owner, "request_id": e.RequestID}
		}
	}
	text(fForcedBy, s.Forced.By)
	text(fForcedReason, s.Forced.Reason)
	text(fForcedRequest, s.Forced.RequestID)
	at(fForcedAt, s.Forced.At)
	return d
}

// situation is a command that meets a state.
type situation struct {
	command command
	state   State
	when    rule.When
}

// genSituation also draws how long the store took: nothing, or about until leases of these states end.
var genSituation = rapid.Custom(func(t *rapid.T) situation {
	c := situation{genCommand.Draw(t, "command"), genState.Draw(t, "state"), rule.When{
		At:   genTime.Draw(t, "now"),
		Took: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 999, 1000, 1001, 2000}).Draw(t, "took")) * time.Millisecond,
	}}
	// Only refusals have a margin, and only those of a rule that asks whether a time has passed.
	_, asks := c.command.(Acquire)
	if held := c.state.Phase == Active && c.when.At.Before(c.state.ExpiresAt); asks && held {
		c.when.Margin = time.Duration(rapid.SampledFrom([]int{0, 1, 2, 1000}).Draw(t, "margin")) * time.Millisecond
	}
	return c
})

// cases is how many situations a test goes through.
const cases = 30_000

// expected is the effect of a command as the requirement has it.
type expected struct {
	state      State // afterwards
	code       Code
	replayed   bool
	token      int64         // of the lease that is shown
	expires    time.Time     // of the lease that is shown
	retryAfter time.Duration // for Held
}

// oracle says LS-SPEC-001 a second time, for any state. It shares no code with the rules: it has no condition and no patch, and
// computes with times.
func oracle(c command, s State, w rule.When) expected {
	passed := func(at time.Time, end time.Time) bool { return !at.Before(end) }
	latest := w.At.Add(w.Margin)
	held := s.Phase == Active && !passed(w.At, s.ExpiresAt)
	inTime := func(e expected) expected { // what hands out time must leave some of it
		if e.expires.Sub(latest) <= w.Took {
			e.code, e.replayed = LeaseExpired, false
		}
		return e
	}
	same := expected{state: s}
	with := func(code Code) expected { e := same; e.code = code; return e }
	replay := with(OK)
	replay.replayed, replay.token, replay.expires = true, s.Token, s.ExpiresAt
	holder := func(owner string, token int64) Code {
		switch {
		case token != s.Token:
			return LeaseLost
		case owner != s.Owner:
			return NotOwner
		case s.Phase == Released:
			return LeaseReleased
		case !held:
			return LeaseExpired
		}
		return OK
	}
	rejected := func(code Code, token int64) expected {
		e := with(code)
		e.token = token
		if code == LeaseExpired {
			e.expires = s.ExpiresAt
		}
		return e
	}
	switch c := c.(type) {
	case Acquire:
		heldBySomeone := with(Held)
		heldBySomeone.expires, heldBySomeone.retryAfter = s.ExpiresAt, s.ExpiresAt.Sub(w.At)
		switch {
		case held && (s.Owner != c.Owner || s.AcquireRequest != c.RequestID): // LS-ACQ-001, LS-INV-001
			return heldBySomeone
		case held && passed(latest, s.ExpiresAt): // within the margin no one holds it
			return heldBySomeone
		case held && (s.AcquireTTL != c.TTLSeconds || !maps.Equal(s.Metadata, c.Metadata)):
			return with(RequestIDReused)
		case held: // LS-ACQ-004
			return inTime(replay)
		}
		end := w.At.Add(time.Duration(c.TTLSeconds) * time.Second)
		next := State{ // LS-ACQ-002, LS-ACQ-003, LS-INV-002
			Token: s.Token + 1, Phase: Active, Owner: c.Owner, LeaseID: c.LeaseID, AcquiredAt: w.At, ExpiresAt: end,
			TTLSeconds: c.TTLSeconds, AcquireTTL: c.TTLSeconds, AcquireRequest: c.RequestID, Metadata: c.Metadata,
			Releases: s.Releases, Forced: s.Forced,
		}
		return inTime(expected{state: next, code: OK, token: next.Token, expires: end})
	case Renew:
		if code := holder(c.Owner, c.Token); code != OK { // LS-RNW-001, LS-INV-003, LS-INV-004
			return rejected(code, c.Token)
		}
		if s.RenewRequest == c.RequestID && s.TTLSeconds != c.TTLSeconds {
			return rejected(RequestIDReused, c.Token)
		}
		if s.RenewRequest == c.RequestID { // LS-RNW-003
			return inTime(replay)
		}
		s.ExpiresAt = w.At.Add(time.Duration(c.TTLSeconds) * time.Second) // LS-RNW-002
		s.TTLSeconds, s.RenewRequest = c.TTLSeconds, c.RequestID
		return inTime(expected{state: s, code: OK, token: s.Token, expires: s.ExpiresAt})
	case Release:
		code := holder(c.Owner, c.Token)
		record := Ended{Token: c.Token, Owner: c.Owner, RequestID: c.RequestID}
		slot := &s.Releases[c.Token%8]
		switch {
		case code == OK: // LS-REL-001, LS-REL-002
			s.Phase, s.ReleasedAt, *slot = Released, w.At, record
			return expected{state: s, code: OK, token: s.Token, expires: s.ExpiresAt}
		case *slot == record && c.Token == s.Token: // LS-REL-003
			return replay
		case *slot == record:
			e := rejected(OK, c.Token)
			e.replayed = true
			return e
		}
		return rejected(code, c.Token)
	case ForceRelease:
		switch {
		case s.Forced.RequestID == c.RequestID && (s.Forced.By != c.By || s.Forced.Reason != c.Reason):
			return with(RequestIDReused)
		case s.Forced.RequestID == c.RequestID:
			return replay
		case !held:
			e := rejected(NotHeld, s.Token)
			e.expires = s.ExpiresAt
			return e
		case c.LeaseID != "" && c.LeaseID != s.LeaseID:
			return with(LeaseLost)
		}
		s.Phase, s.ReleasedAt = Released, w.At
		s.Forced = Forced{By: c.By, Reason: c.Reason, RequestID: c.RequestID, At: w.At}
		return expected{state: s, code: OK, token: s.Token, expires: s.ExpiresAt}
	default:
		panic(fmt.Sprintf("no oracle for %T", c))
	}
}

// agree compares a step of the rule with the oracle.
func agree(at situation, written docstore.Write) error {
	c, s, w := at.command, at.state, at.when
	found := document(s)
	after, o, err := rule.Step(mutated{c, written}, found, w)
	if err != nil {
		return err
	}
	state, err := subject.State(after)
	if err != nil {
		return err
	}
	want := oracle(c, s, w)
	got := expected{state, o.Code, o.Replayed, o.Lease.Token, o.Lease.ExpiresAt, o.RetryAfter}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%#v on %#v, %+v:\nthe rule:   %#v\nthe oracle: %#v", c, s, w, got, want)
	}
	if reflect.DeepEqual(state, s) && !after.Equal(found) {
		return fmt.Errorf("%#v was not granted and changed the document", c)
	}
	return nil
}

// mutated is a command with another Write.
type mutated struct {
	command
	write docstore.Write
}

func (m mutated) Write() docstore.Write { return m.write }

func TestStateReadsWhatDocumentWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genState.Draw(t, "state")
		got, err := subject.State(document(s))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got  %#v, %v\nwant %#v", got, err, s)
		}
	})
}

// TestStepAgreesWithTheOracle compares each rule with the oracle in all states: LS-ACQ-001..004, LS-RNW-001..003,
// LS-REL-001..003, LS-INV-001..004.
func TestStepAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genSituation.Draw(t, "situation")
		if err := agree(c, c.command.Write()); err != nil {
			t.Fatal(err)
		}
	})
	for seed := range cases { // chance finds some boundaries once in thousands
		c := genSituation.Example(seed)
		if err := agree(c, c.command.Write()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAgreementHasTeeth plants a fault in the write of a rule and shows that the property above notices.
func TestAgreementHasTeeth(t *testing.T) {
	eq := func(f string) func(docstore.Cond) bool {
		return func(c docstore.Cond) bool { e, ok := c.(docstore.Eq); return ok && e.Field == f }
	}
	mutants := map[string]func(docstore.Write) docstore.Write{
		"expiry off by one": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok {
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
		"renewal remembered across leases": func(w docstore.Write) docstore.Write { w.Unset = nil; return w },
	}
	for name, mutate := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range cases {
				c := genSituation.Example(seed)
				if err := agree(c, mutate(c.command.Write())); err != nil {
					return
				}
			}
			t.Fatalf("%d cases did not notice the fault", cases)
		})
	}
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
	whole := document(State{Token: 3, Phase: Active, Owner: "ann", ExpiresAt: epoch})
	for name, damage := range map[string]docstore.Doc{
		"token":       {fToken: docstore.String("3")},
		"state":       {fState: docstore.String("HELD")},
		"owner_id":    {fOwner: docstore.Int(1)},
		"expires_at":  {fExpiresAt: docstore.String("tomorrow")},
		"ttl_seconds": {fTTL: docstore.Opaque{}},
		"metadata":    {fMetadata: docstore.Bool(true)},
		"release_5":   {"release_5": docstore.Map{"token": "five"}},
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
