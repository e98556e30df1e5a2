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

// document is the inverse of stateOf.
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

// agree holds a command's write against its Decide for one state: the condition holds exactly when Decide grants
// something new, and applying the write gives the state that Decide gives.
func agree(c command, w docstore.Write, s State, now time.Time) error {
	found := document(s)
	next, o := c.Decide(s, now)
	grants := o.Code == OK && !o.Replayed
	if holds := w.Holds(found, now); holds != grants {
		return fmt.Errorf("%#v on %#v: the condition says %v, Decide says %v", c, s, holds, o)
	}
	if !grants {
		if !reflect.DeepEqual(next, s) {
			return fmt.Errorf("%#v was refused and changed the state", c)
		}
		return nil
	}
	after, err := w.Apply(found, now)
	if err != nil {
		return err
	}
	got, err := stateOf(subject.key(), after)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, next) {
		return fmt.Errorf("%#v on %#v:\nthe write gives %#v\nDecide gives    %#v", c, s, got, next)
	}
	return nil
}

func TestStateReadsWhatDocumentWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genState.Draw(t, "state")
		got, err := stateOf(subject.key(), document(s))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got  %#v, %v\nwant %#v", got, err, s)
		}
	})
}

// TestWriteAgreesWithDecide holds the two statements of each rule together over all states: LS-ACQ-001..003, LS-RNW-001,
// LS-RNW-002, LS-REL-001, LS-REL-002, LS-INV-003, LS-INV-004.
func TestWriteAgreesWithDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCommand.Draw(t, "command")
		if err := agree(c, c.Write(), genState.Draw(t, "state"), genTime.Draw(t, "now")); err != nil {
			t.Fatal(err)
		}
	})
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
			for seed := range 20_000 {
				c := genCommand.Example(seed)
				if err := agree(c, mutate(c.Write()), genState.Example(seed+1), genTime.Example(seed+2)); err != nil {
					return
				}
			}
			t.Fatal("20000 cases did not notice the fault")
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

// TestFenceWriteAgreesWithDecide: LS-FENCE-001.
func TestFenceWriteAgreesWithDecide(t *testing.T) {
	for highest := range int64(6) {
		for token := int64(1); token < 6; token++ {
			c := Fence{Tenant: "acme", Resource: "db", Token: token}
			var found docstore.Doc
			if highest > 0 {
				found = docstore.Doc{fToken: docstore.Int(highest)}
			}
			next, o := c.Decide(highest, epoch)
			if holds := c.Write().Holds(found, epoch); holds != o.Passed {
				t.Errorf("token %d after %d: the condition says %v, Decide says %v", token, highest, holds, o.Passed)
			}
			if want := token >= highest; o.Passed != want || o.Highest != max(token, highest) || next != max(token, highest) {
				t.Errorf("token %d after %d: %+v", token, highest, o)
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
			_, err := stateOf(subject.key(), d)
			if !errors.Is(err, docstore.ErrDamaged) {
				t.Fatalf("got %v, want ErrDamaged", err)
			}
			if want := strconv.Quote(name); !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name the field %s", err, want)
			}
		})
	}
}
