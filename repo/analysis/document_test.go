package analysis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// charge is a document of another shape.
var charge = Document{
	Shape: &Shape{Kind: "charges", Thing: "charge", IDField: "charge_id", ExpiryField: "until", KeepSeconds: 60,
		MaxKeepSeconds: 3600},
	Tenant: "acme", ID: "a1", KeepSeconds: 3600,
}

// inCharge says of a charge what a text says of an analysis.
var inCharge = strings.NewReplacer(
	"analyses//a1", "charges/acme/a1", "analyses/a1", "charges/a1", "analysis_id", "charge_id", "analysis", "charge",
	fExpiresAt, "until",
)

// renamed is a document with the field from under the name to.
func renamed(d docstore.Doc, from, to string) docstore.Doc {
	if d = d.Clone(); d[from] != nil {
		d[to] = d[from]
		delete(d, from)
	}
	return d
}

// TestOneRuleForAllShapes: a command on a document of another shape leaves the same document and has the same outcome,
// in the names of that shape, and each of its writes keeps the document for as long as it says, in the document too.
func TestOneRuleForAllShapes(t *testing.T) {
	granted, refused, damaged := 0, 0, 0
	for seed := range cases / 5 {
		s := genSituation.Example(seed)
		var other command
		switch c := s.command.(type) {
		case Acquire:
			other = c.In(charge)
		case Refresh:
			other = c.In(charge)
		case Release:
			other = c.In(charge)
		case Finish:
			other = c.In(charge)
		default: // of analyses alone
			continue
		}
		found := renamed(s.found, fExpiresAt, charge.ExpiryField)
		after, o, err := rule.Step(s.command, s.found, s.when)
		otherAfter, otherO, otherErr := rule.Step(other, found, s.when)
		if err != nil {
			if damaged++; otherErr == nil || otherErr.Error() != inCharge.Replace(err.Error()) {
				t.Fatalf("%T on %v: %v; want %v in other names", other, found, otherErr, err)
			}
			continue
		}
		if o.Detail = inCharge.Replace(o.Detail); otherErr != nil || o != otherO {
			t.Fatalf("%T on %v: %+v, %v; want %+v", other, found, otherO, otherErr, o)
		}
		keeps := time.Hour
		if o.CountedAnew { // for one who is refused: that leaves what the document says
			keeps = time.Minute
		}
		want := renamed(after, fExpiresAt, charge.ExpiryField)
		if changed := !reflect.DeepEqual(after, s.found); changed {
			want[fKeepSeconds], want[fKeptUntil] = docstore.Int(keeps/time.Second), otherAfter[fKeptUntil]
		}
		if !reflect.DeepEqual(want, otherAfter) {
			t.Fatalf("%T on %v leaves %v; want %v", other, found, otherAfter, want)
		}
		writes := []docstore.Write{other.Write()}
		state, _ := other.State(found)
		if w, ok := other.(rule.Fallback[State]).Fallback(state, s.when); ok {
			writes = append(writes, w)
		}
		for i, w := range writes {
			if i == 0 {
				keeps = time.Hour
			} else if o.CountedAnew {
				keeps = time.Minute
			}
			until, _ := w.Set[fKeptUntil].(docstore.Instant)
			lock := time.Duration(0)
			if end, ok := w.Set[charge.ExpiryField].(docstore.Instant); ok {
				lock = end.Offset()
			}
			if w.Key != charge.Key() || w.Keep != keeps+lock || until.Offset() != w.Keep ||
				strings.Contains(fmt.Sprintf("%+v", w), fExpiresAt) {
				t.Fatalf("%T writes %+v", other, w)
			}
		}
		if o.Code == OK {
			granted++
		} else {
			refused++
		}
	}
	if min(granted, refused, damaged) < 100 {
		t.Errorf("%d granted, %d refused, %d damaged", granted, refused, damaged)
	}
}
