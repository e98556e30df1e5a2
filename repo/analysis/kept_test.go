package analysis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestKeptNoLonger: a document counts as none from the time on until which it is kept, if that has certainly passed.
// All commands and all readers say the same.
func TestKeptNoLonger(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) docstore.String { return docstore.FormatTime(at.Add(d)) }
	ended := func(kept, finished time.Duration) docstore.Doc {
		return docstore.Doc{"status": docstore.String("READY"), "result": docstore.String("paid"),
			"lockToken": docstore.Int(7), "lockFinishedAt": in(finished),
			"lockRequest1": rule.Identify("acquire", "ann", "r1").With("60").Entry(),
			"keepSeconds":  docstore.Int(60), "keptUntil": in(kept), "lockFingerprint": docstore.String("f1"),
			"lockFailures": docstore.Int(3)}
	}
	held := func(kept, lock time.Duration) docstore.Doc {
		return docstore.Doc{"lockOwner": docstore.String("ann"), "lockToken": docstore.Int(7), "expiresAt": in(lock),
			"lockRuns": docstore.Int(2), "keepSeconds": docstore.Int(60), "keptUntil": in(kept)}
	}
	const minute, ms = time.Minute, time.Millisecond
	without := func(d docstore.Doc, f string) docstore.Doc { delete(d, f); return d }
	usual := func(d docstore.Doc) docstore.Doc { d[fKeepSeconds] = docstore.Int(3600); return d }
	for name, c := range map[string]struct {
		doc    docstore.Doc
		margin time.Duration
		gone   bool
	}{
		"at its time":                             {ended(0, -minute), 0, true},
		"a millisecond before":                    {ended(ms, -minute), 0, false},
		"long after":                              {ended(-10*minute, -11*minute), 0, true},
		"perhaps, where the time is not known":    {ended(ms, -minute), 2 * time.Second, false},
		"certainly, where the time is not known":  {ended(0, -minute), 2 * time.Second, true},
		"its time is not known":                   {without(ended(0, -minute), "keptUntil"), 0, false},
		"its lock has ended":                      {held(0, -minute), 0, true},
		"its lock has ended, and it is kept":      {held(ms, -minute), 0, false},
		"released":                                {without(without(held(0, 0), "lockOwner"), "expiresAt"), 0, true},
		"released, and kept":                      {without(without(held(ms, 0), "lockOwner"), "expiresAt"), 0, false},
		"perhaps, and its holder may end it":      {held(ms, -minute), 2 * time.Second, false},
		"released, for the usual time":            {usual(without(without(held(0, 0), "lockOwner"), "expiresAt")), 0, true},
		"its lock lasts, until when is not known": {without(held(-10*minute, ms), "keptUntil"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, w := shapes["run"], rule.When{At: at, Margin: c.margin}
			s, err := d.State(c.doc)
			if err != nil || s.At(at).Exists == c.gone {
				t.Errorf("read as %+v, %v", s.At(at), err)
			}
			next := Acquire{Owner: "bob", RequestID: "r2", TTLSeconds: 60, Create: true, Fingerprint: "f2"}.In(d)
			after, o, err := rule.Step(next, c.doc, w)
			isNew := o.Code == OK && o.Grant.Token == 8 && o.Grant.Runs == 1 && o.Grant.Failures == 0
			if err != nil || isNew != c.gone {
				t.Errorf("a begin: %+v, %v", o, err)
			}
			if c.gone {
				for _, f := range []string{"status", "result", "lockFinishedAt", "lockFailures"} {
					if after[f] != nil {
						t.Errorf("%s is left: %v", f, after[f])
					}
				}
				if after["keepSeconds"] != docstore.Value(docstore.Int(3600)) ||
					after["lockFingerprint"] != docstore.Value(docstore.String("f2")) {
					t.Errorf("the new run: %v", after)
				}
				if _, o, err := rule.Step(Acquire{Owner: "ann", RequestID: "r1", TTLSeconds: 60, Create: true}.In(d),
					after, w); err != nil || o.Code == OK {
					t.Errorf("the earlier begin, in the new run: %+v, %v", o, err)
				}
			}
			if c.gone && c.doc["lockRequest1"] != nil {
				old := Acquire{Owner: "ann", RequestID: "r1", TTLSeconds: 60, Create: true}.In(d)
				if _, o, err := rule.Step(old, c.doc, w); err != nil || o.Code != RequestIDReused {
					t.Errorf("the earlier begin: %+v, %v", o, err)
				}
			}
			for what, held := range map[string]rule.Command[State, Outcome]{
				"refresh": Refresh{Owner: "ann", Token: 7, TTLSeconds: 60}.In(d),
				"release": Release{Owner: "ann", Token: 7}.In(d),
				"finish":  Finish{Owner: "ann", Token: 7, Status: Ready, Result: "paid"}.In(d),
			} {
				_, o, err := rule.Step(held, c.doc, w)
				if err != nil || c.gone != (o.Code == NotFound) {
					t.Errorf("%s: %+v, %v", what, o, err)
				}
				if c.doc["lockOwner"] != nil && !c.gone && what != "refresh" && o.Code != OK {
					t.Errorf("%s by the holder: %+v", what, o)
				}
			}
		})
	}
}

// TestGivenUpWhereARecordIsLeft: that is remembered for as long as where there is none, and no copy begins a run.
func TestGivenUpWhereARecordIsLeft(t *testing.T) {
	d := shapes["run"]
	w := rule.When{At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	doc := docstore.Doc{"status": docstore.String("READY"), "lockToken": docstore.Int(7), "keepSeconds": docstore.Int(60),
		"keptUntil": docstore.FormatTime(w.At)}
	acquire := Acquire{Owner: "ann", RequestID: "r1", TTLSeconds: 60, Create: true}.In(d)
	s, err := d.State(doc)
	if err != nil {
		t.Fatal(err)
	}
	if write, ok := (GiveUp{acquire}).Fallback(s, w); !ok || write.Keep != KeepGivenUp || write.Set[fKeptUntil] != nil {
		t.Errorf("%+v, %v", write, ok)
	}
	after, o, err := rule.Step(GiveUp{acquire}, doc, w)
	if err != nil || o.Code != OK || o.Replayed || o.Grant != (Grant{}) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, o, err := rule.Step(acquire, after, w); err != nil || o.Code != RequestIDReused {
		t.Errorf("a copy: %+v, %v", o, err)
	}
	if s, err := d.State(after); err != nil || s.At(w.At).Exists {
		t.Errorf("it is seen: %+v, %v", s, err)
	}
	if _, o, err := rule.Step(GiveUp{acquire}, after, w); err != nil || o.Code != OK || !o.Replayed {
		t.Errorf("once more: %+v, %v", o, err)
	}
}

// TestDamagedKeep: what says how long a document is kept is read as the condition asks. Fields of the same names are
// the user's own in a document of another shape.
func TestDamagedKeep(t *testing.T) {
	w := rule.When{At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		field   string
		value   docstore.Value
		damaged bool
	}{
		"the least": {fKeepSeconds, docstore.Int(1), false}, "none": {fKeepSeconds, docstore.Int(0), true},
		"less": {fKeepSeconds, docstore.Int(-60), true}, "the most": {fKeepSeconds, docstore.Int(86_400), false},
		"more": {fKeepSeconds, docstore.Int(86_401), true}, "ten times more": {fKeepSeconds, docstore.Int(864_000), true},
		"text": {fKeepSeconds, docstore.String("60"), true}, "null": {fKeepSeconds, docstore.Opaque{Null: true}, true},
		"a number": {fKeptUntil, docstore.Int(1), true}, "no text": {fKeptUntil, docstore.String(""), true},
		"not said":    {fFingerprint, docstore.String("f1"), false},
		"beyond text": {fKeptUntil, docstore.String("\U0010FFFF~"), true},
	} {
		doc := docstore.Doc{"lockOwner": docstore.String("ann"), "lockToken": docstore.Int(7), "status": docstore.String("x"),
			"expiresAt": docstore.FormatTime(w.At.Add(time.Minute)), c.field: c.value}
		_, o, err := rule.Step(Finish{Owner: "ann", Token: 7, Status: Ready}.In(shapes["run"]), doc, w)
		if c.damaged {
			if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
		} else if err != nil || o.Code != OK {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		doc[fExpiresAt] = doc["expiresAt"]
		after, o, err := rule.Step(Finish{ID: "a1", Owner: "ann", Token: 7, Status: Ready}, doc, w)
		if err != nil || o.Code != OK || after[c.field] != c.value {
			t.Errorf("%s, of the user's: %+v, %v, %v", name, o, err, after)
		}
	}
}
