package placement_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// refusals are the events of claims that were refused, without the order of those at one time.
func (w *world) refusals() (all []string) {
	w.Helper()
	for _, e := range w.events() {
		if e.To == placement.Refused {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Identity.ID, e.Member.Member, e.Reason)))
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) wantRefusals(want ...string) {
	w.Helper()
	if got := w.refusals(); !slices.Equal(got, want) {
		w.Errorf("refusals %q, want %q", got, want)
	}
}

// TestRefusedClaimsAreEvents: a claim that leaves its identity without a member is an event, again after longer and
// longer pauses, with how many there were; a claim of what is active, or placed on another member, is none
// (PLC-LIFE-4).
func TestRefusedClaimsAreEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := func(id placement.Identity, want placement.Code, change ...func(*placement.Claim)) {
		t.Helper()
		w.want(w.claim(id, change...).Code, want)
	}
	hall := placement.Identity{Kind: "hall", ID: "a"}
	claim(room("early"), placement.Undetermined) // there is no such cluster
	ann := w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	claim(hall, placement.NoEligibleMember)
	byAnn := func(c *placement.Claim) { c.By = ann }
	claim(placement.Identity{Kind: "hall", ID: "b"}, placement.MemberIneligible, byAnn)
	w.wantRefusals("a  NO_ELIGIBLE_MEMBER", "b ann MEMBER_INELIGIBLE")
	w.active(room("lobby"))
	claim(room("lobby"), placement.Exists)
	w.claim(room("slow"))
	claim(room("slow"), placement.Locking)
	w.wantRefusals("a  NO_ELIGIBLE_MEMBER", "b ann MEMBER_INELIGIBLE")
	w.clock.Advance(11 * time.Second)
	claim(room("slow"), placement.Locking) // it should be active by now
	w.wantRefusals("a  NO_ELIGIBLE_MEMBER", "b ann MEMBER_INELIGIBLE", "slow  ACTIVATION_LOCKED")

	// A claim that is sent ten times a second for an hour: the pauses are 1 s, 2 s, 4 s and so on, then 10 minutes.
	for range 36_000 {
		w.clock.Advance(100 * time.Millisecond)
		claim(hall, placement.NoEligibleMember)
	}
	told, counted := 0, 0
	for _, e := range w.refusals() {
		var n int
		if _, err := fmt.Sscanf(e, "a  NO_ELIGIBLE_MEMBER, %d times", &n); err == nil {
			told, counted = told+1, counted+n
		}
	}
	if told != 13 || counted < 34_000 {
		t.Errorf("%d events of %d claims", told, counted)
	}
}

// TestRefusedClaimsDoNotFillTheFeed: whatever identities callers ask for, a cluster has ten events of refused claims in
// ten seconds at most, and a process remembers a bounded number of them.
func TestRefusedClaimsDoNotFillTheFeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	for i := range 25_000 {
		w.want(w.claim(placement.Identity{Kind: "hall", ID: strconv.Itoa(i)}).Code, placement.NoEligibleMember)
		w.clock.Advance(time.Millisecond)
	}
	if got := len(w.refusals()); got != 30 {
		t.Errorf("%d events in 25 s, want 30", got)
	}
	if got := placement.RefusalsKept(w.Service); got > 10_000 {
		t.Errorf("%d are remembered", got)
	}
}

// TestAlarmThatFailedIsAnEvent: the owner alone says that it could not carry an alarm out, of the alarm that it has:
// that changes nothing but the feed.
func TestAlarmThatFailedIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	w.want(w.alarm(h, 0, time.Minute).Code, placement.OK)
	before := w.lookup(room("lobby")).Activation
	report := func(h placement.Hold, version int64, why string) (placement.Outcome, error) {
		return w.ReportAlarm(t.Context(), placement.ReportAlarm{Hold: h, Version: version, Reason: why})
	}
	stranger := h
	stranger.Token--
	for name, c := range map[string]struct {
		hold    placement.Hold
		version int64
		want    placement.Code
	}{"owner": {h, 1, placement.OK}, "stranger": {stranger, 1, placement.StaleToken},
		"another alarm": {h, 2, placement.StateChanged}} {
		if o := must[placement.Outcome](w)(report(c.hold, c.version, "no disk")); o.Code != c.want {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if _, err := report(h, 1, ""); err == nil {
		t.Error("without a reason")
	}
	var told []placement.Event
	for _, e := range w.events() {
		if e.To == placement.AlarmFailed {
			told = append(told, e)
		}
	}
	if len(told) != 1 || told[0].Reason != "no disk" || told[0].Token != h.Token || told[0].Member.Member != "ann" {
		t.Errorf("%+v", told)
	}
	after := w.lookup(room("lobby")).Activation
	if after.AlarmAt != before.AlarmAt || after.AlarmVersion != before.AlarmVersion || after.Phase != before.Phase {
		t.Errorf("%+v, and before %+v", after, before)
	}
}
