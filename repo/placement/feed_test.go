package placement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// lists counts how often events are listed, and can show events later than they were written.
type lists struct {
	docstore.Store

	n    atomic.Int64
	late func(id string) time.Duration // after its time an event is seen; nil: at once
	// early is how long before what it shows a list says that it was made, as on stores that go by the time of a request.
	early time.Duration
}

func (l *lists) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	l.n.Add(1)
	p, err := l.Store.List(ctx, q)
	p.At = p.At.Add(-l.early)
	if err != nil || l.late == nil {
		return p, err
	}
	all := p.Entries
	p.Entries = nil
	for _, e := range all {
		text, _ := e.Doc["at"].(docstore.String)
		at, err := docstore.ParseTime(text)
		if err != nil {
			return p, err
		}
		if !p.At.Before(at.Add(l.late(e.Key.ID))) {
			p.Entries = append(p.Entries, e)
		}
	}
	return p, nil
}

// feed is a cluster whose events are written as they are, in a bubble of virtual time.
type feed struct {
	t     *testing.T
	store *lists
	c     placement.Cluster
	n     int

	mu      sync.Mutex
	written map[string]time.Time
}

func inFeed(t *testing.T, test func(*testing.T, *feed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &feed{t: t, store: &lists{Store: docstore.NewMemory(nil)}, c: placement.Cluster{Tenant: "acme", Name: "chat"},
			written: map[string]time.Time{}})
	})
}

// write writes an event of a member that was drawn some time ago.
func (f *feed) write(member string, ago time.Duration) {
	f.t.Helper()
	f.mu.Lock()
	f.n++
	id := fmt.Sprintf("%s-%08X-X", time.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05.000Z"), f.n)
	f.written[id] = time.Now()
	f.mu.Unlock()
	if _, err := f.store.Write(f.t.Context(), docstore.Write{
		Key: docstore.Key{Kind: "placement_events", Tenant: "acme/chat", ID: id},
		Set: map[string]docstore.Value{"at": docstore.Now, "member": docstore.String(member), "incarnation": docstore.Int(1),
			"kind": docstore.String("room"), "id": docstore.String("r"), "to": docstore.String("LOCKED")},
	}); err != nil {
		f.t.Fatal(err)
	}
}

// follower reads events, and remembers when it saw each.
type follower struct {
	f     *feed
	s     *placement.Service
	q     placement.EventQuery
	seen  map[string]time.Time
	again int // events that it was shown again
}

func (f *feed) follower(member string, limit int) *follower {
	return &follower{f: f, s: placement.New(f.store, nil), seen: map[string]time.Time{},
		q: placement.EventQuery{Member: member, Limit: limit, Recent: placement.LookEvery}}
}

// round reads a page, and then waits as those who follow do.
func (r *follower) round() {
	r.f.t.Helper()
	p, err := r.s.Events(r.f.t.Context(), r.f.c, r.q)
	if err != nil {
		r.f.t.Fatal(err)
	}
	for _, e := range p.Events {
		if _, again := r.seen[e.ID]; again {
			r.again++
		} else {
			r.seen[e.ID] = time.Now()
		}
	}
	if r.q.After = p.Next; len(r.q.After) > 300 {
		r.f.t.Errorf("a place of %d bytes", len(r.q.After))
	}
	if !p.News() {
		time.Sleep(p.Due())
	}
}

func (r *follower) until(end time.Time) {
	for time.Now().Before(end) {
		r.round()
	}
}

// check compares what it saw with what was written by a time.
func (r *follower) check(by time.Time, lag time.Duration, again int) {
	r.f.t.Helper()
	missed, slowest := 0, time.Duration(0)
	for id, at := range r.f.written {
		if at.After(by) {
			continue
		}
		if saw, ok := r.seen[id]; !ok {
			missed++
		} else {
			slowest = max(slowest, saw.Sub(at))
		}
	}
	if missed > 0 || slowest > lag || r.again > again {
		r.f.t.Errorf("%d of %d events missed, the slowest after %v, %d shown again", missed, len(r.f.written), slowest,
			r.again)
	}
}

// TestFollowersKeepUp: a thousand events a second are each seen within a second, and once, also with pages that have
// far fewer events than are young, and where events are written late.
func TestFollowersKeepUp(t *testing.T) {
	for _, limit := range []int{50, 100, 1000} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(limit, late), func(t *testing.T) {
				inFeed(t, func(t *testing.T, f *feed) {
					r := f.follower("", limit)
					end := time.Now().Add(13 * time.Second)
					var wg sync.WaitGroup
					wg.Go(func() {
						for i := 0; time.Now().Before(end); i++ {
							ago := time.Duration(0)
							if late {
								ago = time.Duration(i*7919%5000) * time.Millisecond
							}
							f.write("ann", ago)
							time.Sleep(time.Millisecond)
						}
					})
					time.Sleep(100 * time.Microsecond) // between two events
					r.until(end)
					wg.Wait()
					again := 0
					if late { // the event of the millisecond of each look
						again = 14
					}
					r.check(end.Add(-time.Second), time.Second+time.Millisecond, again)
					if per := float64(f.store.n.Load()) / 13; per > 15 {
						t.Errorf("%.1f lists a second", per)
					}
				})
			})
		}
	}
}

// TestFollowersGoOn: a place is good in another process, while events are young and when they are old; none is missed
// and none is shown again.
func TestFollowersGoOn(t *testing.T) {
	for _, away := range []time.Duration{0, 3 * time.Second, 9 * time.Second, 12 * time.Second, time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			inFeed(t, func(_ *testing.T, f *feed) {
				r := f.follower("", 100)
				for i := range 3000 {
					if f.write("ann", time.Duration(i%3000)*time.Millisecond); i%20 == 0 {
						r.round()
					}
					if i == 1500 {
						time.Sleep(away)
					}
					if i%500 == 250 || i == 1500 {
						r.s = placement.New(f.store, nil)
					}
					time.Sleep(1700 * time.Microsecond)
				}
				end := time.Now()
				r.until(end.Add(2 * time.Second))
				r.check(end, time.Hour, 0)
			})
		})
	}
}

// TestEventsThatAppearLate: where others see a write some time after the time that it has, none is missed, also those
// that were drawn some time before, and if a page does not hold what comes again; what was seen may come again beside
// it.
func TestEventsThatAppearLate(t *testing.T) {
	for _, limit := range []int{20, 100, 1000} {
		for _, drawn := range []time.Duration{time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(limit, drawn), func(t *testing.T) {
				inFeed(t, func(t *testing.T, f *feed) {
					f.store.late = func(id string) time.Duration {
						return time.Duration(id[len(id)-3]%5) * 900 * time.Millisecond
					}
					r := f.follower("", limit)
					for i := range 3000 {
						if f.write("ann", time.Duration(i*7919%int(drawn/time.Millisecond))*time.Millisecond); i%limit == 0 {
							r.round()
						}
						time.Sleep(3 * time.Millisecond)
					}
					end := time.Now()
					r.until(end.Add(20 * time.Second))
					r.check(end, 20*time.Second, 1<<30)
					before := r.again
					r.until(end.Add(time.Minute))
					if r.again != before {
						t.Errorf("%d events again when all were seen", r.again-before)
					}
				})
			})
		}
	}
}

// TestEventsBesideMoreThanAPage: an event that was drawn early and written late is not missed where more appear again
// beside another one than a page holds.
func TestEventsBesideMoreThanAPage(t *testing.T) {
	inFeed(t, func(_ *testing.T, f *feed) {
		const young, limit = 30, 20
		f.store.late = func(id string) time.Duration {
			if strings.HasSuffix(id, "-00000001-X") {
				return time.Second // it appears beside those that were shown
			}
			return 0
		}
		r := f.follower("", limit)
		for range young + 1 {
			f.write("ann", 0)
		}
		time.Sleep(time.Millisecond)
		for range 3 { // the last one waits for the next look
			r.round()
		}
		f.write("ann", 1500*time.Millisecond) // and this one before them
		r.until(time.Now().Add(20 * time.Second))
		r.check(time.Now(), 5*time.Second, 2*young)
	})
}

// TestEventsYoungerThanTheRead: events that are as young as the read that shows them, or younger, are not missed where
// they are more than a page holds.
func TestEventsYoungerThanTheRead(t *testing.T) {
	inFeed(t, func(_ *testing.T, f *feed) {
		const limit = 5
		r := f.follower("", limit)
		write := func(ago time.Duration) {
			for range 2*limit - 1 {
				f.write("ann", ago)
				time.Sleep(time.Millisecond)
			}
		}
		write(0)
		for range 3 { // the last one waits for the next look
			r.round()
		}
		write(1500 * time.Millisecond) // before those that were shown
		f.store.early = 20 * time.Millisecond
		r.until(time.Now().Add(20 * time.Second))
		r.check(time.Now(), 5*time.Second, 0)
	})
}

// TestFollowersShareLooks: what the store is asked does not depend on how many follow, and each is shown what concerns
// it alone.
func TestFollowersShareLooks(t *testing.T) {
	count := func(n int) (looks int64) {
		inFeed(t, func(t *testing.T, f *feed) {
			s := placement.New(f.store, nil)
			all := make([]*follower, n)
			end := time.Now().Add(20 * time.Second)
			var wg sync.WaitGroup
			for i := range all {
				all[i] = f.follower(fmt.Sprint("m", i), 100)
				all[i].s, all[i].q.After = s, time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
				wg.Go(func() { all[i].until(end) })
			}
			written := map[string]int{}
			for i := 0; time.Now().Before(end.Add(-2 * time.Second)); i++ {
				member := fmt.Sprint("m", i%7*n/7)
				written[member]++
				f.write(member, 0)
				time.Sleep(10 * time.Millisecond)
			}
			wg.Wait()
			for i, r := range all {
				if want := written[fmt.Sprint("m", i)]; len(r.seen) != want || r.again > 0 {
					t.Errorf("member %d of %d saw %d events, and %d again; want %d", i, n, len(r.seen), r.again, want)
				}
			}
			looks = f.store.n.Load()
		})
		return looks
	}
	if one, many := count(1), count(300); many > one+10 || many > 60 {
		t.Errorf("%d lists for one member, %d for 300", one, many)
	}
}

// TestMembersSeeWhatTheyLose: a member is shown that another one took its identity.
func TestMembersSeeWhatTheyLose(t *testing.T) {
	w := newWorld(t)
	ann := w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	bob := w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	o := must[placement.Outcome](w)(w.Transfer(t.Context(), placement.Transfer{Hold: h, To: bob.Member, RequestID: "t"}))
	w.want(o.Code, placement.OK)
	for _, c := range []struct {
		member string
		want   int
	}{{ann.Member, 4}, {bob.Member, 2}, {"eve", 0}, {"", 5}} {
		p := must[placement.EventPage](w)(w.Events(t.Context(), w.cluster, placement.EventQuery{Member: c.member}))
		if len(p.Events) != c.want {
			t.Errorf("%q is shown %+v, want %d", c.member, p.Events, c.want)
		}
	}
}

// TestPlacesThatAreGone: a place whose events may have been removed is an error, and no other one is.
func TestPlacesThatAreGone(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	first := must[placement.EventPage](w)(w.Events(t.Context(), w.cluster, placement.EventQuery{}))
	if strings.Count(first.Next, "~") != 2 {
		t.Errorf("%q does not say what was shown of the latest seconds", first.Next)
	}
	for _, step := range []struct {
		wait time.Duration
		gone bool
	}{{24*time.Hour - 20*time.Second, false}, {10 * time.Second, false}, {time.Second, true}} {
		w.clock.Advance(step.wait)
		for _, after := range []string{first.Next, "2025-12-31T23:59:50.000Z"} {
			p, err := w.another().Events(t.Context(), w.cluster, placement.EventQuery{After: after})
			if errors.Is(err, placement.ErrCursorExpired) != step.gone || !step.gone && (err != nil || len(p.Events) > 1) {
				t.Errorf("after %v, %s: %+v, %v", step.wait, after, p, err)
			}
		}
	}
	if _, err := w.Events(t.Context(), w.cluster, placement.EventQuery{}); err != nil {
		t.Errorf("the oldest that are kept: %v", err)
	}
}

// TestPlacesThatNoPageGave are refused.
func TestPlacesThatNoPageGave(t *testing.T) {
	w := newWorld(t)
	for _, after := range []string{"now?", "~", "A~", "A~0123456789abcdeX", "A~1~", "A~-1~", "2026~x~*",
		"2026~mjuptjk0~AAA", "2026-01-01T00:00:00.000Z~0123456789abcdef",
		"2026-01-01T00:00:00.000Z~mjuptjk0~" + strings.Repeat("A", 200)} {
		if _, err := w.Events(t.Context(), w.cluster, placement.EventQuery{After: after}); err == nil ||
			!strings.Contains(err.Error(), "after") {
			t.Errorf("%q: %v", after, err)
		}
	}
}
