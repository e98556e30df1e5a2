package analysis

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// epoch is the instant around which the documents of these tests live.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// strange is what no rule writes, and anybody may.
var strange = []docstore.Value{
	docstore.String(""), docstore.String("\U0010FFFF"), docstore.String("\U0010FFFFx"), docstore.String(unreadable),
	docstore.Int(0), docstore.Int(-1), docstore.Int(7), docstore.Int(docstore.MaxInt), docstore.Bool(false), docstore.Bool(true),
	docstore.Map{}, docstore.Map{"seconds": "1767225600"}, docstore.Opaque{}, docstore.Opaque{Raw: []int{1}},
}

// long is a megabyte of text that sorts among the times.
var long = docstore.String("2026-01-01T00:00:00." + strings.Repeat("0", 1<<20) + "Z")

// times is what stands where a time should be: times to the millisecond around epoch, other spellings of them, and things
// that are none.
var times = func() []docstore.Value {
	var all []docstore.Value
	for ms := -2; ms <= 2; ms++ {
		all = append(all, docstore.FormatTime(epoch.Add(time.Duration(ms)*time.Millisecond)))
	}
	for _, s := range []string{
		"soon", "3000", "2", "0", "-", "~", "null", "2026", "2026-01-01", "2026-01-01T00:00", "2026-01-01T00:00:00", "1767225600",
		"2025-12-31T23:59:59Z", "2025-12-31T23:59:59.9Z", "2025-12-31T23:59:59.999999999Z", "2025-12-31T23:59:59.9990000001Z",
		"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0Z", "2026-01-01T00:00:00.00Z", "2026-01-01T00:00:00.001000Z",
		"2026-01-01T00:00:00.0005Z", "2026-01-01T00:00:00.0015Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z",
		"2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,001Z", "2026-01-01T00:00:00.001+09:00", "2026-01-01T09:00:00.001+09:00",
		"2025-12-31T19:00:00.001-05:00", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.001z", "2026-01-01t00:00:00.001Z",
		"2026-01-01 00:00:00.001Z", "2026-01-01T0:00:00.001Z", "2026-1-1T00:00:00.001Z", "20260101T000000.001Z", " 2026-01-01T00:00:00.001Z",
		"2026-01-01T00:00:00.001Z ", "2026-01-01T00:00:60Z", "2026-01-01T24:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
		"+002026-01-01T00:00:00.001Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9Z",
		"9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:60Z", "+010000-01-01T00:00:00.000Z", "Thu, 01 Jan 2026 00:00:00 GMT",
	} {
		all = append(all, docstore.String(s))
	}
	return append(all, long)
}()

func oneOf(values ...docstore.Value) *rapid.Generator[docstore.Value] {
	return rapid.SampledFrom(values)
}

// mostly draws what a rule may have written, nothing, or now and then what a stranger may have.
func mostly(usual *rapid.Generator[docstore.Value]) *rapid.Generator[docstore.Value] {
	return rapid.OneOf(usual, usual, usual, rapid.Just(docstore.Value(nil)), oneOf(strange...))
}

// Few different values, so that commands often meet the document they are about.
var (
	genOwner   = rapid.SampledFrom([]string{"ann", "bob"})
	genRequest = rapid.SampledFrom([]string{"r1", "r2"})
	genToken   = rapid.Int64Range(0, 3)
	genTTL     = rapid.Int64Range(1, 2)
	genNow     = rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.OneOf(rapid.Int64Range(-2, 2), rapid.SampledFrom([]int64{-1000, 100, 123, 500, 550, 999, 1000})).Draw(t, "ms")) *
			time.Millisecond)
	})
	genCount  = rapid.Map(genToken, func(n int64) docstore.Value { return docstore.Int(n) })
	genTime   = oneOf(times...)
	genFields = map[string]*rapid.Generator[docstore.Value]{
		fStatus: oneOf(nil, nil, docstore.String("RUNNING"), docstore.String(Ready), docstore.String(Failed), docstore.String("ready"),
			docstore.String("READY "), docstore.String("")),
		fOwner:       oneOf(docstore.String("ann"), docstore.String("ann"), docstore.String("bob")),
		fExpiresAt:   genTime,
		fHeartbeatAt: genTime,
		fToken:       genCount,
		fRequest:     rapid.Map(genRequest, func(s string) docstore.Value { return docstore.String(s) }),
		fRuns:        genCount,
		fFailures:    genCount,
		fRequeuedAt:  genTime,
		fRequeueID:   rapid.Map(genRequest, func(s string) docstore.Value { return docstore.String(s) }),
		fResult:      oneOf(nil, docstore.String("gs://bucket/1")),
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
	return d
})

// genCommand draws one of the commands.
var genCommand = rapid.Custom(func(t *rapid.T) command {
	id := ID("a1")
	owner, found := genOwner.Draw(t, "owner"), genToken.Draw(t, "token") // a sweep finds also what has no token
	token := max(found, 1)
	switch rapid.SampledFrom([]string{"create", "acquire", "refresh", "release", "finish", "requeue", "abandon"}).Draw(t, "command") {
	case "create":
		return Create{ID: id}
	case "acquire":
		return Acquire{ID: id, Owner: owner, RequestID: genRequest.Draw(t, "request"), TTLSeconds: genTTL.Draw(t, "ttl")}
	case "refresh":
		return Refresh{ID: id, Owner: owner, Token: token, TTLSeconds: genTTL.Draw(t, "ttl")}
	case "release":
		return Release{ID: id, Owner: owner, Token: token, Failed: rapid.SampledFrom([]string{"", "no disk"}).Draw(t, "failed")}
	case "finish":
		if rapid.Bool().Draw(t, "ready") {
			return Finish{ID: id, Owner: owner, Token: token, Status: Ready, Result: rapid.SampledFrom([]string{"", "gs://bucket/2"}).Draw(t, "result")}
		}
		return Finish{ID: id, Owner: owner, Token: token, Status: Failed, Reason: rapid.SampledFrom([]string{"", "no disk"}).Draw(t, "reason")}
	case "requeue":
		return Requeue{ID: id, RequestID: genRequest.Draw(t, "request"), Token: found, Every: 2 * time.Millisecond}
	default:
		return Abandon{ID: id, Token: found, Reason: "given up"}
	}
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

// agree holds a command's write against its Decide for one document and time.
//
//   - What cannot be read is not written to.
//   - Nobody takes an analysis over whose lock ends later, in any spelling of that time that can be read.
//   - The condition holds exactly when Decide grants something new. Acquire may say no where its lockExpiresAt is no time
//     but sorts behind now; then WriteOver holds.
//   - Applying the write gives Decide's state and leaves all that is not the gate's as it was. What was refused changes nothing.
func agree(c command, w docstore.Write, found docstore.Doc, now time.Time) error {
	key := docstore.Key{Kind: Kind, ID: "a1"}
	if err := w.Validate(); err != nil {
		return err
	}
	s, err := stateOf(key, found)
	holds := w.Holds(found, now)
	if err != nil {
		if holds {
			_, err = w.Apply(found, now)
		}
		if !errors.Is(err, docstore.ErrDamaged) {
			return fmt.Errorf("%#v writes to the damaged document %v", c, found)
		}
		return nil
	}
	next, o := c.Decide(s, now)
	if end, ok := s.ExpiresAt(); ok && s.Owner != "" && now.Before(end) {
		switch c.(type) {
		case Acquire, Requeue, Abandon:
			if holds || o.grants() {
				return fmt.Errorf("%#v at %v takes %v, which is locked", c, now, found)
			}
		}
	}
	if o.grants() && !holds {
		acquire, ok := c.(Acquire)
		if ok && s.Expiry != "" {
			w = acquire.WriteOver(s.Expiry)
			holds = w.Holds(found, now)
		}
	}
	if holds != o.grants() {
		return fmt.Errorf("%#v at %v on %v: the condition says %v, Decide says %+v", c, now, found, holds, o)
	}
	if !holds {
		if !reflect.DeepEqual(next, s) {
			return fmt.Errorf("%#v was refused and changed the state", c)
		}
		return nil
	}
	after, err := w.Apply(found, now)
	full := next.Token > docstore.MaxInt || next.Runs > docstore.MaxInt || next.Failures > docstore.MaxInt
	if damaged := errors.Is(err, docstore.ErrDamaged); full || err != nil {
		if full != damaged { // a number that cannot grow is the store's to refuse, and nothing else is
			return fmt.Errorf("%#v on %v: %w", c, found, err)
		}
		return nil
	}
	got, err := stateOf(key, after)
	if err != nil || !reflect.DeepEqual(got, next) {
		return fmt.Errorf("%#v on %v:\nthe write gives %+v, %w\nDecide gives    %+v", c, found, got, err, next)
	}
	if !foreign(after).Equal(foreign(found)) {
		return fmt.Errorf("%#v on %v leaves %v", c, found, after)
	}
	if locked, ok := after[fHeartbeatAt]; s.Owner != next.Owner && ok && locked != docstore.Value(docstore.FormatTime(now)) {
		return fmt.Errorf("%#v on %v keeps the heartbeat of an earlier lock: %v", c, found, after)
	}
	return nil
}

// TestWriteAgreesWithDecide holds the two statements of each rule together over all documents: BE-041-RULE-1, BE-041-RULE-2,
// BE-041-RULE-3, BE-041-RULE-4, BE-041-CONFLICT-1.
func TestWriteAgreesWithDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCommand.Draw(t, "command")
		if err := agree(c, c.Write(), genDoc.Draw(t, "document"), genNow.Draw(t, "now")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEveryExpiryAtEveryTime goes through all expiries and times with a lock on it, which chance might miss.
func TestEveryExpiryAtEveryTime(t *testing.T) {
	commands := []command{
		Acquire{ID: "a1", Owner: "bob", RequestID: "r2", TTLSeconds: 1},
		Acquire{ID: "a1", Owner: "ann", RequestID: "r1", TTLSeconds: 1},
		Refresh{ID: "a1", Owner: "ann", Token: 1, TTLSeconds: 1},
		Finish{ID: "a1", Owner: "ann", Token: 1, Status: Ready},
		Requeue{ID: "a1", RequestID: "r1", Token: 1, Every: time.Minute},
		Abandon{ID: "a1", Token: 1},
	}
	nows := []time.Time{time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), time.Unix(0, 0).UTC()}
	for _, ms := range []int{-1000, -100, -2, -1, 0, 1, 2, 99, 100, 101, 122, 123, 124, 499, 500, 501, 599, 600, 999, 1000, 60_000} {
		nows = append(nows, epoch.Add(time.Duration(ms)*time.Millisecond))
	}
	for _, expiry := range append(append([]docstore.Value{nil}, times...), strange...) {
		d := docstore.Doc{fOwner: docstore.String("ann"), fToken: docstore.Int(1), fRuns: docstore.Int(1), fRequest: docstore.String("r1")}
		if expiry != nil {
			d[fExpiresAt] = expiry
		}
		for _, now := range nows {
			for _, c := range commands {
				if err := agree(c, c.Write(), d, now); err != nil {
					t.Errorf("%.300s", err)
				}
			}
		}
	}
}

// TestExpiresAt: which text is a time.
func TestExpiresAt(t *testing.T) {
	for text, want := range map[string]time.Duration{ // since epoch
		"2026-01-01T00:00:00.001Z":           time.Millisecond,
		"2026-01-01T00:00:00Z":               0,
		"2026-01-01T00:00:00.5Z":             500 * time.Millisecond,
		"2026-01-01T00:00:00.123456Z":        123 * time.Millisecond,
		"2026-01-01T00:00:00.1239999999999Z": 123 * time.Millisecond,
		"2025-12-31T23:59:59.999Z":           -time.Millisecond,
	} {
		if got, ok := (State{Expiry: text}).ExpiresAt(); !ok || got.Sub(epoch) != want {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "soon", "3000", "2026-01-01T00:00:00", "2026-01-01T00:00:00+09:00", "2026-01-01T00:00:00.000-05:00", "2026-01-01T00:00:00,500Z",
		"2026-01-01T0:00:00.000Z", "2026-01-01T00:00:00.Z", "2026-02-30T00:00:00.000Z", "2026-01-01 00:00:00.000Z", string(long[:len(long)-1]),
	} {
		if got, ok := (State{Expiry: text}).ExpiresAt(); ok {
			t.Errorf("%.40q is %v", text, got)
		}
	}
}

// TestAgreementHasTeeth plants a fault in the write of a rule and shows that the property above notices.
func TestAgreementHasTeeth(t *testing.T) {
	without := func(match func(docstore.Cond) bool) func(docstore.Write) docstore.Write {
		return func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if match(c) {
					return docstore.All{}
				}
				return c
			})
			return w
		}
	}
	eq := func(f string) func(docstore.Cond) bool {
		return func(c docstore.Cond) bool { e, ok := c.(docstore.Eq); return ok && e.Field == f }
	}
	is := func(want docstore.Cond) func(docstore.Cond) bool {
		return func(c docstore.Cond) bool { return reflect.DeepEqual(c, want) }
	}
	later := func(by time.Duration) func(docstore.Write) docstore.Write {
		return func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok && le.Field == fExpiresAt && le.Value == docstore.Value(docstore.Now) {
					le.Value = docstore.Now.Add(by)
					return le
				}
				return c
			})
			return w
		}
	}
	mutants := map[string]func(docstore.Write) docstore.Write{
		"< for <=":                later(-time.Millisecond),
		"a millisecond too early": later(time.Millisecond),
		"blind":                   func(w docstore.Write) docstore.Write { w.If = nil; return w },
		"status not looked at":    without(is(unfinished())),
		"token not compared":      without(eq(fToken)),
		"owner not compared":      without(eq(fOwner)),
		"legible not asked":       without(is(legible())),
		"end of time with a fraction": func(w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if le, ok := c.(docstore.LE); ok && le.Field == fExpiresAt && le.Value == docstore.Value(lastTime) {
					le.Value = docstore.String("9999-12-31T23:59:59.999Z")
					return le
				}
				return c
			})
			return w
		},
		"token not increased":      func(w docstore.Write) docstore.Write { w.Add = nil; return w },
		"lock not taken off":       func(w docstore.Write) docstore.Write { w.Unset = nil; return w },
		"request not remembered":   dropSet(fRequest),
		"expiry not moved":         dropSet(fExpiresAt),
		"heartbeat not moved":      dropSet(fHeartbeatAt),
		"mark without a name":      dropSet(fRequeueID),
		"document replaced, alike": func(w docstore.Write) docstore.Write { w.Unset = append(slices.Clone(w.Unset), "title"); return w },
	}
	for name, mutate := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := range 50_000 {
				c := genCommand.Example(seed)
				if err := agree(c, mutate(c.Write()), genDoc.Example(seed+1), genNow.Example(seed+2)); err != nil {
					return
				}
			}
			t.Fatal("50000 cases did not notice the fault")
		})
	}
}

func dropSet(f string) func(docstore.Write) docstore.Write {
	return func(w docstore.Write) docstore.Write {
		w.Set = maps.Clone(w.Set)
		delete(w.Set, f)
		return w
	}
}

// rewrite applies f to a condition and to every part of it.
func rewrite(c docstore.Cond, f func(docstore.Cond) docstore.Cond) docstore.Cond {
	if changed := f(c); !reflect.DeepEqual(changed, c) {
		return changed
	}
	each := func(cs []docstore.Cond) []docstore.Cond {
		out := make([]docstore.Cond, len(cs))
		for i := range cs {
			out[i] = rewrite(cs[i], f)
		}
		return out
	}
	switch c := c.(type) {
	case docstore.Any:
		return docstore.Any(each(c))
	case docstore.All:
		return docstore.All(each(c))
	case docstore.Not:
		return docstore.Not{Cond: rewrite(c.Cond, f)}
	default:
		return c
	}
}

func TestDamagedDocuments(t *testing.T) {
	for name, damage := range map[string]docstore.Value{
		fStatus: docstore.Int(1), fToken: docstore.String("3"), fRuns: docstore.Opaque{}, fFailures: docstore.Int(-1),
	} {
		_, err := stateOf(docstore.Key{Kind: Kind, ID: "a1"}, docstore.Doc{name: damage})
		if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "analyses//a1") || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
