package rule_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// claim takes a seat for a minute: one document, one owner. A seat without a readable expiry is free as well, which its
// condition cannot say: that is its second write.
type claim struct{ owner string }

type seat struct {
	owner, expiry string
}

type outcome struct {
	holder string
	late   bool
}

var (
	_ rule.Command[seat, outcome] = claim{}
	_ rule.Fallback[seat]         = claim{}
	_ rule.Joint[seat, outcome]   = claim{}

	key   = docstore.Key{Kind: "seats", ID: "a1"}
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (c claim) Write() docstore.Write {
	return c.write(docstore.Any{docstore.Absent{}, docstore.LE{Field: "expires_at", Value: docstore.Now}})
}

func (c claim) write(free docstore.Cond) docstore.Write {
	return docstore.Write{Key: key, If: free, Set: map[string]docstore.Value{
		"owner": docstore.String(c.owner), "expires_at": docstore.Now.Add(time.Minute),
	}}
}

func (claim) State(d docstore.Doc) (seat, error) {
	owner, ok := d["owner"].(docstore.String)
	if !ok && d["owner"] != nil {
		return seat{}, docstore.ErrDamaged
	}
	expiry, _ := d["expires_at"].(docstore.String)
	return seat{string(owner), string(expiry)}, nil
}

func (claim) Fallback(s seat, _ rule.When) (docstore.Write, bool) {
	if _, err := docstore.ParseTime(docstore.String(s.expiry)); err == nil {
		return docstore.Write{}, false
	}
	return claim{"second"}.write(docstore.Eq{Field: "expires_at", Value: docstore.String(s.expiry)}), true
}

func (claim) Granted(s seat, w rule.When) outcome {
	end, err := docstore.ParseTime(docstore.String(s.expiry))
	return outcome{s.owner, err != nil || w.Late(end)}
}

func (claim) Refusal(s seat, _ rule.When) outcome { return outcome{holder: s.owner} }

// changed is a store on which another caller writes before each write.
type changed struct {
	docstore.Store
	before []docstore.Doc
}

func (s *changed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if len(s.before) > 0 {
		if _, err := s.Store.Write(ctx, docstore.Write{Key: key, Set: s.before[0]}); err != nil {
			return docstore.Result{}, err
		}
		s.before = s.before[1:]
	}
	return s.Store.Write(ctx, writes...)
}

func expires(text string) docstore.Doc {
	return docstore.Doc{"owner": docstore.String("ann"), "expires_at": docstore.String(text)}
}

// TestRunAndStep: both decide alike, whatever document they meet.
func TestRunAndStep(t *testing.T) {
	for name, c := range map[string]struct {
		found docstore.Doc
		took  time.Duration
		want  outcome
	}{
		"free":                  {nil, 0, outcome{"bob", false}},
		"expired":               {expires("2026-01-01T00:00:00.000Z"), 0, outcome{"bob", false}},
		"held":                  {expires("2026-01-01T00:00:00.001Z"), 0, outcome{"ann", false}},
		"no readable expiry":    {expires("3000"), 0, outcome{"second", false}},
		"in time by a moment":   {nil, time.Minute - 1, outcome{"bob", false}},
		"the response was late": {nil, time.Minute, outcome{"bob", true}},
	} {
		t.Run(name, func(t *testing.T) {
			store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
			if c.found != nil {
				if _, err := store.Write(t.Context(), docstore.Write{Key: key, Set: c.found}); err != nil {
					t.Fatal(err)
				}
			}
			elapsed := time.Duration(0) // the runner looks at its clock before and after the request
			clock := func() time.Time { defer func() { elapsed += c.took }(); return begin.Add(elapsed) }
			got, err := rule.Run(t.Context(), store, clock, claim{"bob"})
			if err != nil || got != c.want {
				t.Errorf("Run: %+v, %v, want %+v", got, err, c.want)
			}
			stored, err := store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			after, got, err := rule.Step(claim{"bob"}, c.found, rule.When{At: begin, Took: c.took})
			if err != nil || got != c.want || !reflect.DeepEqual(after, stored.Docs[0]) {
				t.Errorf("Step: %+v, %v, want %+v\nleft   %v\nstored %v", got, err, c.want, after, stored.Docs[0])
			}
		})
	}
}

// ending is a claim that has an end.
type ending struct {
	claim
	rule.End
}

// wrapped is a command with something beside it.
type wrapped struct{ rule.Command[seat, outcome] }

func (w wrapped) Unwrap() any { return w.Command }

// TestEndOfAWrappedCommand: the end of a command is that of each command around it, however many there are.
func TestEndOfAWrappedCommand(t *testing.T) {
	for late, want := range map[time.Duration]outcome{0: {"bob", false}, time.Millisecond: {}} {
		var c rule.Command[seat, outcome] = ending{claim{"bob"}, rule.End{NotAfter: begin.Add(-late)}}
		for around := range 4 {
			store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
			got, err := rule.Run(t.Context(), store, func() time.Time { return begin }, c)
			if err != nil || got != want {
				t.Errorf("Run %v after its end, %d around it: %+v, %v, want %+v", late, around, got, err, want)
			}
			if _, got, err := rule.Step(c, nil, rule.When{At: begin}); err != nil || got != want {
				t.Errorf("Step %v after its end, %d around it: %+v, %v, want %+v", late, around, got, err, want)
			}
			c = wrapped{c}
		}
	}
}

// TestRunReports: what a runner cannot decide is an error, and the command was not granted.
func TestRunReports(t *testing.T) {
	open := func() docstore.Store {
		return docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
	}
	for name, c := range map[string]struct {
		store docstore.Store
		want  error
	}{
		"a document that cannot be read": {
			&changed{open(), []docstore.Doc{
				{"owner": docstore.Int(1), "expires_at": docstore.String("2027-01-01T00:00:00.000Z")}}}, docstore.ErrDamaged},
		"a change between two writes": {&changed{open(), []docstore.Doc{expires("3000"), expires("4000")}},
			docstore.ErrUnavailable},
		"a store that rejects what the condition grants": {rejecting{open()}, docstore.ErrDamaged},
	} {
		if got, err := rule.Run(t.Context(), c.store, time.Now, claim{"bob"}); !errors.Is(err, c.want) || got != (outcome{}) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.want)
		}
	}
	if after, _, err := rule.Step(claim{"bob"}, docstore.Doc{"owner": docstore.Int(1)},
		rule.When{At: begin}); !errors.Is(err, docstore.ErrDamaged) || len(after) != 1 {
		t.Errorf("Step of a document that cannot be read: %v, %v", after, err)
	}
}

// insisting is a claim that may be tried again.
type insisting struct{ claim }

func (insisting) Tries() int { return 5 }

// marks is a store that notes which writes are said to be fallbacks.
type marks struct {
	docstore.Store
	seen []bool
}

func (s *marks) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.seen = append(s.seen, rule.IsFallback(ctx))
	return s.Store.Write(ctx, writes...)
}

// TestFallbacksAreKnown: a store learns of each write whether it was decided on the document found. A first write that
// is sent again, because others came in between, was not.
func TestFallbacksAreKnown(t *testing.T) {
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
	store := &marks{Store: &changed{memory, []docstore.Doc{
		expires("3000"), expires("2026-01-01T00:00:00.000Z"), expires("4000"),
	}}}
	got, err := rule.Run(t.Context(), store, time.Now, insisting{claim{"bob"}})
	if want := []bool{false, true, false, true}; err != nil || got.holder != "second" || !slices.Equal(store.seen, want) {
		t.Errorf("%+v, %v, after writes %v; want fallbacks %v", got, err, store.seen, want)
	}
}

// rejecting says of every write that its condition failed.
type rejecting struct{ docstore.Store }

func (rejecting) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{At: begin, Docs: []docstore.Doc{nil}, Refused: []int{0}}, nil
}

// Known: the seat had no document.
func (claim) Known() docstore.Doc { return nil }

// beside is another document, and the condition that it must meet.
var (
	other  = docstore.Key{Kind: "seats", ID: "a2"}
	beside = docstore.Write{Key: other, If: docstore.Absent{}, Set: map[string]docstore.Value{
		"owner": docstore.String("cleo")}}
)

// last is a store that looks at its writes from the last to the first, and stops where a condition fails.
type last struct{ docstore.Store }

func (s last) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	if n := len(r.Refused); n > 1 {
		r.Docs[r.Refused[0]], r.Refused = nil, r.Refused[n-1:]
	}
	return r, err
}

// TestRunJoint: one step, or nothing; the outcome is the command's, and says whether something else stood in its way.
func TestRunJoint(t *testing.T) {
	for name, c := range map[string]struct {
		found, other docstore.Doc
		took         time.Duration
		want         outcome
		free         bool
	}{
		"granted":            {want: outcome{"bob", false}, free: true},
		"granted, and late":  {took: time.Minute, want: outcome{"bob", true}, free: true},
		"held":               {found: expires("2027-01-01T00:00:00.000Z"), want: outcome{"ann", false}, free: true},
		"the other is there": {other: docstore.Doc{}, want: outcome{}, free: false},
		"both stand in the way": {found: expires("2027-01-01T00:00:00.000Z"), other: docstore.Doc{},
			want: outcome{"ann", false}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
			for k, d := range map[docstore.Key]docstore.Doc{key: c.found, other: c.other} {
				if d != nil {
					if _, err := memory.Write(t.Context(), docstore.Write{Key: k, Set: d}); err != nil {
						t.Fatal(err)
					}
				}
			}
			elapsed := time.Duration(0)
			clock := func() time.Time { defer func() { elapsed += c.took }(); return begin.Add(elapsed) }
			got, free, err := rule.RunJoint(t.Context(), last{memory}, clock, claim{"bob"}, beside)
			if err != nil || got != c.want || free != c.free {
				t.Errorf("%+v, %v, %v, want %+v, %v", got, free, err, c.want, c.free)
			}
			stored, err := memory.Get(t.Context(), key, other)
			if err != nil {
				t.Fatal(err)
			}
			granted := c.want.holder == "bob"
			if wrote := stored.Docs[0]["owner"] == docstore.String("bob"); wrote != granted ||
				granted != (stored.Docs[1]["owner"] == docstore.String("cleo")) {
				t.Errorf("it left %v and %v", stored.Docs[0], stored.Docs[1])
			}
		})
	}
	failing := rejecting{docstore.NewMemory(nil)}
	if err := failing.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := rule.RunJoint(t.Context(), failing.Store, time.Now, claim{"bob"}, beside); !errors.Is(err,
		docstore.ErrClosed) {
		t.Errorf("on a closed store: %v", err)
	}
}

// TestWhen: margin and lateness at their bounds.
func TestWhen(t *testing.T) {
	w := rule.When{At: begin, Margin: time.Second, Took: 2 * time.Second}
	for _, c := range []struct {
		end         time.Duration
		ended, late bool
	}{{time.Second, true, true}, {time.Second + 1, false, true}, {3 * time.Second, false, true},
		{3*time.Second + 1, false, false}} {
		if end := begin.Add(c.end); w.Ended(end) != c.ended || w.Late(end) != c.late {
			t.Errorf("end after %v: ended %v, late %v", c.end, w.Ended(end), w.Late(end))
		}
	}
}

// asking is a claim under a condition.
type asking struct {
	claim
	cond docstore.Cond
}

func (c asking) Write() docstore.Write { return c.write(c.cond) }

func (asking) Fallback(seat, rule.When) (docstore.Write, bool) { return docstore.Write{}, false }

// TestStepByAnUncertainTime: where the time lies between two instants, a comparison with Now must be certain. Earliest
// and Latest are what they say, in a Not as well.
func TestStepByAnUncertainTime(t *testing.T) {
	const f = "expires_at"
	passed := func(i docstore.Instant) docstore.Cond { return docstore.LE{Field: f, Value: i} }
	only := func(ends ...time.Duration) []time.Duration { return ends }
	not := func(c docstore.Cond) docstore.Cond { return docstore.Not{Cond: c} }
	w := rule.When{At: begin, Margin: time.Second}
	before, early, between, late, after := -time.Millisecond, time.Duration(0), 500*time.Millisecond, time.Second,
		time.Second+time.Millisecond
	for name, c := range map[string]struct {
		cond   docstore.Cond
		grants []time.Duration
	}{
		"has passed":                   {passed(docstore.Now), only(before, early)},
		"has not passed yet":           {not(passed(docstore.Now)), only(after)},
		"is not sure to have passed":   {not(passed(docstore.Earliest)), only(between, late, after)},
		"may have passed":              {passed(docstore.Latest), only(before, early, between, late)},
		"not not":                      {not(not(passed(docstore.Now))), only(before, early)},
		"may have passed, less a time": {passed(docstore.Latest.Add(-time.Second)), only(before, early)},
	} {
		for _, end := range []time.Duration{before, early, between, late, after} {
			found := docstore.Doc{"owner": docstore.String("ann"), f: docstore.FormatTime(begin.Add(end))}
			_, o, err := rule.Step(asking{claim{"bob"}, c.cond}, found, w)
			if err != nil || (o.holder == "bob") != slices.Contains(c.grants, end) {
				t.Errorf("%s, at %v: %+v, %v", name, end, o, err)
			}
		}
	}
}

// tried is a store that says of its responses what the tries before the last one took, and what was lost.
type tried struct {
	docstore.Store
	before, lost time.Duration
}

func (s tried) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	r.Before, r.Lost = s.before, s.lost
	return r, err
}

// TestHowLongAWriteTook: from the last try on, and with the time that the caller's clock does not know of.
func TestHowLongAWriteTook(t *testing.T) {
	for _, c := range []struct {
		took, before, lost time.Duration
		late               bool
	}{{time.Minute - 1, 0, 0, false}, {time.Minute, 0, 0, true}, {2*time.Minute - 1, time.Minute, 0, false},
		{2 * time.Minute, time.Minute, 0, true}, {time.Second, 0, 59 * time.Second, true}} {
		now := begin
		store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return begin }})
		times := 0
		o, err := rule.Run(t.Context(), tried{store, c.before, c.lost}, func() time.Time {
			times++
			if times == 2 {
				now = now.Add(c.took)
			}
			return now
		}, claim{"ann"})
		if err != nil || o.late != c.late {
			t.Errorf("%+v: %+v, %v", c, o, err)
		}
	}
}
