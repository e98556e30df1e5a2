package placement_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestExpel: a member whose lease lasts is evicted, once; it learns of it with its next heartbeat, and what it had is
// free for others.
func TestExpel(t *testing.T) {
	w := newWorld(t)
	ann := w.join("ann")
	held := w.active(room("lobby"))
	bob := w.join("bob")
	expel := func(i placement.Incarnation) placement.MemberOutcome {
		t.Helper()
		return must[placement.MemberOutcome](w)(
			w.Expel(t.Context(), placement.Expel{Cluster: w.cluster, Incarnation: i, Reason: "hangs"}))
	}
	if o := expel(ann); o.Code != placement.OK || o.Replayed || o.Status != placement.MemberDead || o.Epoch != 3 {
		t.Errorf("%+v", o)
	}
	if o := expel(ann); o.Code != placement.OK || !o.Replayed || o.Epoch != 3 {
		t.Errorf("again: %+v", o)
	}
	beat := must[placement.MemberOutcome](w)(
		w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1}))
	w.want(beat.Code, placement.StaleIncarnation)
	o := w.claim(room("lobby"))
	if w.want(o.Code, placement.OK); o.TakenFrom != ann || o.Activation.Owner != bob || o.Activation.Token <= held.Token {
		t.Errorf("%+v", o)
	}
	w.want(expel(placement.Incarnation{Member: "bob", Number: 1}).Code, placement.StaleIncarnation)
	w.want(expel(placement.Incarnation{Member: "zoe", Number: 1}).Code, placement.MemberUnknown)
	for _, e := range w.events() {
		if e.Member == ann && e.To == string(placement.MemberDead) && e.Reason == "hangs" {
			return
		}
	}
	t.Errorf("no event of it: %+v", w.events())
}
