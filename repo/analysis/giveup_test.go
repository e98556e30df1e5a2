package analysis

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// shapes are the documents of both kinds: that of the user, and one that the first acquire makes.
var shapes = map[string]Document{
	"analysis": ID("a1").document(),
	"run": {Shape: &Shape{Kind: "runs", Thing: "run", IDField: "run_id", ExpiryField: "expiresAt", Made: true,
		KeepSeconds: 3600, MaxKeepSeconds: 86_400}, Tenant: "acme", ID: "a1"},
}

// stage is a document on which commands are carried out.
type stage struct {
	t   *testing.T
	in  Document
	doc docstore.Doc
	at  time.Time
}

func stageOf(t *testing.T, in Document) *stage {
	t.Helper()
	s := &stage{t: t, in: in, at: epoch}
	if !in.Made {
		s.doc = docstore.Doc{fStatus: docstore.String("PENDING")}
	}
	return s
}

func (s *stage) acquire(owner, request string) Acquire {
	return Acquire{Owner: owner, RequestID: request, TTLSeconds: 10, MaxTakeovers: 2, Create: s.in.Made}.In(s.in)
}

func (s *stage) do(c rule.Command[State, Outcome], margin time.Duration) Outcome {
	s.t.Helper()
	after, o, err := rule.Step(c, s.doc, rule.When{At: s.at, Margin: margin})
	if err != nil {
		s.t.Fatal(err)
	}
	s.doc = after
	return o
}

func (s *stage) gets(c rule.Command[State, Outcome], code Code, replayed bool) Outcome {
	s.t.Helper()
	o := s.do(c, 0)
	if o.Code != code || o.Replayed != replayed {
		s.t.Fatalf("%+v: got %s %q, replayed %t; want %s, %t", c, o.Code, o.Detail, o.Replayed, code, replayed)
	}
	return o
}

func (s *stage) state() State {
	s.t.Helper()
	state, err := s.in.State(s.doc)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// TestEndOfAnAcquire: in both shapes, and whatever was before, an acquire has its effect at its end and not a
// millisecond later, nor when its end is further away than it may be; and a later delivery of one that had its effect
// returns that.
func TestEndOfAnAcquire(t *testing.T) {
	for name, in := range shapes {
		for _, before := range []string{"new", "free", "stale", "run too often", "locked"} {
			t.Run(name+" that is "+before, func(t *testing.T) {
				s := stageOf(t, in)
				want := OK
				switch before {
				case "free":
					first := s.gets(s.acquire("ann", "r0"), OK, false)
					s.gets(Release{Owner: "ann", Token: first.Grant.Token}.In(in), OK, false)
				case "run too often":
					for n := range 3 {
						s.gets(s.acquire("ann", fmt.Sprint("r", n)), OK, false)
						s.at = s.at.Add(time.Minute)
					}
					want = AlreadyFinished
				case "stale":
					s.gets(s.acquire("ann", "r0"), OK, false)
					s.at = s.at.Add(time.Minute)
				case "locked":
					s.gets(s.acquire("ann", "r0"), OK, false)
					want = Locked
				}
				c, found := s.acquire("bob", "r9"), s.doc
				for _, try := range []struct {
					end, margin time.Duration // from the time
					want        Code
				}{
					{-10 * time.Hour, 0, TooLate}, {-time.Millisecond, 0, TooLate}, {0, 0, want}, {time.Millisecond, 0, want},
					{0, time.Millisecond, TooLate}, {time.Second, time.Second, want}, {docstore.MaxAhead, 0, want},
					{docstore.MaxAhead + time.Millisecond, 0, TooFar}, {10 * docstore.MaxAhead, 0, TooFar},
					{docstore.MaxAhead + time.Millisecond, time.Second, want},
				} {
					s.doc, c.NotAfter = found, s.at.Add(try.end)
					if o := s.do(c, try.margin); o.Code != try.want {
						t.Fatalf("%v to the end, margin %v: %s %s, want %s", try.end, try.margin, o.Code, o.Detail, try.want)
					} else if (o.Code == TooLate || o.Code == TooFar) && (fmt.Sprint(s.doc) != fmt.Sprint(found) || o.Detail == "" ||
						!o.At.Equal(s.at.Add(try.margin))) {
						t.Errorf("%v to the end: %+v, and %v", try.end, o, s.doc)
					}
				}
				if want == Locked {
					return
				}
				s.doc, c.NotAfter = found, s.at
				first := s.gets(c, want, false)
				s.at = s.at.Add(5 * time.Second)
				if again := s.gets(c, want, want == OK); again.Grant.Token != first.Grant.Token {
					t.Errorf("a later delivery: %+v, want %+v", again, first)
				}
			})
		}
	}
}

// TestGiveUp: the lock of a request that is given up ends without a trace in what is counted, whether the request came
// before or comes after, once or twice; a later copy obtains nothing, and no other holder notices: BE-041-CONFLICT-1.
func TestGiveUp(t *testing.T) {
	for name, in := range shapes {
		t.Run(name, func(t *testing.T) {
			s := stageOf(t, in)
			none := GiveUp{s.acquire("ann", "r0")} // it arrives first
			s.gets(none, OK, false)
			s.gets(none, OK, true)
			s.gets(none.Acquire, RequestIDReused, false)
			if state := s.state(); state.Exists != !in.Made || state.Token != 0 || state.Fingerprint != "" {
				t.Errorf("nothing was obtained: %+v", state)
			}
			ghost := s.acquire("ann", "r1")
			first := s.gets(ghost, OK, false)
			if first.Grant.Runs != 1 {
				t.Errorf("the first: %+v", first.Grant)
			}
			if o := s.gets(GiveUp{ghost}, OK, false); o.Grant.Token != first.Grant.Token || s.state().Locked(s.at) {
				t.Errorf("given up: %+v, %+v", o, s.state())
			}
			s.gets(GiveUp{ghost}, OK, true)
			s.gets(ghost, RequestIDReused, false)
			s.gets(Finish{Owner: "ann", Token: first.Grant.Token, Status: Ready}.In(in), Released, false)

			crashes := s.acquire("bob", "r2")
			s.gets(crashes, OK, false)
			s.gets(GiveUp{s.acquire("cy", "r3")}, OK, false)
			s.gets(crashes, OK, true) // the holder is not disturbed
			other := s.acquire("bob", "r2")
			other.TTLSeconds++
			s.gets(GiveUp{other}, RequestIDReused, false)
			s.at = s.at.Add(time.Minute)
			before := s.state()
			for n := range 4 { // more than the bound on takeovers
				late := s.acquire("ann", fmt.Sprint("ghost ", n))
				if o := s.gets(late, OK, false); o.Grant.Runs != before.Runs+1 {
					t.Errorf("ghost %d: %+v", n, o.Grant)
				}
				if n%2 == 1 {
					s.at = s.at.Add(time.Minute) // it has expired meanwhile
				}
				s.gets(GiveUp{late}, OK, false)
				s.gets(GiveUp{late}, OK, true)
				if got := s.state(); got.Takeovers() != before.Takeovers() || got.Runs != before.Runs ||
					got.Failures != before.Failures || got.Status != before.Status || got.Owner != "" {
					t.Errorf("after ghost %d: %+v, want the counts of %+v", n, got, before)
				}
			}
			for n := range 2 {
				s.gets(s.acquire("dee", fmt.Sprint("next ", n)), OK, false)
				s.at = s.at.Add(time.Minute)
			}
			s.gets(s.acquire("dee", "last"), AlreadyFinished, false) // its two takeovers were real
			end := maps.Clone(s.doc)
			s.gets(GiveUp{s.acquire("ann", "r5")}, OK, true)
			s.gets(s.acquire("ann", "r5"), AlreadyFinished, false)
			if !maps.Equal(end, s.doc) {
				t.Errorf("what has ended is %v, and was %v", s.doc, end)
			}
		})
	}
	analysis := stageOf(t, shapes["analysis"])
	analysis.doc = nil
	analysis.gets(GiveUp{analysis.acquire("ann", "r0")}, OK, true)
	if analysis.doc != nil {
		t.Errorf("an analysis was made: %v", analysis.doc)
	}
	late := analysis.acquire("ann", "r0") // its end plays no part
	late.NotAfter = analysis.at.Add(-time.Hour)
	analysis = stageOf(t, shapes["analysis"])
	analysis.gets(GiveUp{late}, OK, false)
	analysis.doc[fStatus] = docstore.Opaque{Null: true}
	analysis.gets(GiveUp{analysis.acquire("ann", "r1")}, OK, false)
	analysis.gets(analysis.acquire("ann", "r1"), RequestIDReused, false)
}
