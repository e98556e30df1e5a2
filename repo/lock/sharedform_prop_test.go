package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// program runs random commands on one lock, and checks after each what must hold of any lock with several leases.
type program struct {
	*rapid.T

	store   docstore.Store
	now     time.Time
	margin  time.Duration
	highest int64                // token that was granted
	grants  []time.Time          // of a rate
	known   map[string]Outcome   // what each acquire obtained last, by owner and request
	waiting []string             // owners in line, as the last status showed them
	came    map[string]time.Time // when each newcomer came last, by owner and request
}

func (p *program) status() Status {
	r, err := p.store.Get(context.Background(), subject.key())
	if err != nil {
		p.Fatal(err)
	}
	s, err := subject.State(r.Docs[0])
	if err != nil {
		p.Fatal(err)
	}
	return subject.status(s, p.now.Add(-p.margin)) // by which leases and places are dropped
}

func (p *program) run(c command) Outcome {
	o, err := rule.Run(context.Background(), p.store, func() time.Time { return p.now }, c)
	if err != nil {
		p.Fatalf("%#v: %v", c, err)
	}
	return o
}

// check is what must hold whatever happened.
func (p *program) check(after string) {
	st := p.status()
	writers, permits := 0, map[int64]bool{}
	for _, h := range st.Holders {
		if h.Mode == Exclusive {
			writers++
		}
		if h.Permit != 0 && permits[h.Permit] {
			p.Fatalf("%s: permit %d twice: %+v", after, h.Permit, st)
		}
		permits[h.Permit] = true
	}
	switch {
	case writers > 1 || writers == 1 && len(st.Holders) > 1:
		p.Fatalf("%s: a writer beside others: %+v", after, st)
	case st.Mode == Permits && int64(len(st.Holders)) > st.Limit:
		p.Fatalf("%s: more than %d holders: %+v", after, st.Limit, st)
	}
	// First come, first served: those who wait keep their order, and new ones come last, but for newcomers.
	var owners []string
	for _, w := range st.Waiting {
		owners = append(owners, w.Owner)
	}
	left := slices.DeleteFunc(slices.Clone(p.waiting), func(o string) bool { return !slices.Contains(owners, o) })
	old := slices.DeleteFunc(slices.Clone(owners), func(o string) bool {
		return !slices.Contains(left, o) && p.cameBefore(o)
	})
	if len(left) > 0 && !slices.Equal(left, old[:len(left)]) {
		p.Fatalf("%s: the line was %v, and is %v", after, p.waiting, owners)
	}
	p.waiting = owners
}

// acquire sends an acquire and checks what it obtained.
func (p *program) acquire(c Acquire) {
	name := c.Owner + " " + c.RequestID
	before, had := p.known[name]
	free := p.status()
	o := p.run(c)
	p.newcomer(c, o, slices.Contains(owners(free.Waiting), c.Owner))
	if o.Code != OK {
		if o.Code == Held && o.Position > 0 && (o.Position > int64(len(p.status().Waiting)) ||
			p.status().Waiting[o.Position-1].Owner != c.Owner) {
			p.Fatalf("%#v: %+v, and the line is %+v", c, o, p.status().Waiting)
		}
		return
	}
	if had {
		if o.Lease.Token != before.Lease.Token {
			p.Fatalf("%#v obtained token %d, and %d before", c, o.Lease.Token, before.Lease.Token)
		}
		return
	}
	p.known[name] = o
	if o.Lease.Token > p.highest {
		p.highest = o.Lease.Token
	}
	for other, k := range p.known {
		if other != name && k.Lease.Token == o.Lease.Token {
			p.Fatalf("%#v and %s both have token %d", c, other, o.Lease.Token)
		}
	}
	if c.WaitSeconds == 0 && len(free.Waiting) > 0 && slices.Contains(owners(p.status().Waiting), free.Waiting[0].Owner) &&
		!slices.Contains(owners(free.Waiting), c.Owner) && free.Waiting[0].Until.After(p.now) && !o.Replayed &&
		p.unserved(free, o) {
		p.Fatalf("%#v passed the line %+v: %+v", c, free.Waiting, o)
	}
	if c.Mode == Rate {
		p.grants = append(p.grants, o.Lease.AcquiredAt)
		slices.SortFunc(p.grants, time.Time.Compare)
		for i, g := range p.grants {
			n := int64(0)
			for _, other := range p.grants[i:] {
				if other.Before(g.Add(time.Duration(c.WindowSeconds) * time.Second)) {
					n++
				}
			}
			if n > c.Limit {
				p.Fatalf("%d grants in a window of %d s: %v", n, c.WindowSeconds, p.grants)
			}
		}
	}
}

// newcomer checks what becomes of an acquire whose response is not held: it has a place in line from its second
// delivery on, if that comes within PlaceTime.
func (p *program) newcomer(c Acquire, o Outcome, waited bool) {
	name := c.Owner + " " + c.RequestID
	at, came := p.came[name]
	again := came && p.now.Before(at.Add(PlaceTime))
	switch {
	case o.Newcomer && (!c.unheld || c.WaitSeconds == 0 || again || waited || !o.waits() || o.Position != 0):
		p.Fatalf("%#v came once: %+v", c, o)
	case o.Newcomer && slices.Contains(owners(p.status().Waiting), c.Owner):
		p.Fatalf("%#v came once, and is in line: %+v", c, p.status().Waiting)
	case o.Position > 0 && c.unheld && !waited && !came:
		p.Fatalf("%#v has a place the first time: %+v", c, o)
	}
	if o.Newcomer {
		p.came[name] = p.now
	}
}

// cameBefore reports whether an owner was a newcomer.
func (p *program) cameBefore(owner string) bool {
	for name := range p.came {
		if strings.HasPrefix(name, owner+" ") {
			return true
		}
	}
	return false
}

// unserved reports whether the lease is none that was handed over before.
func (p *program) unserved(before Status, o Outcome) bool {
	return !slices.ContainsFunc(before.Holders, func(h Holder) bool { return h.Owner == o.Lease.Owner })
}

func owners(line []Waiter) (names []string) {
	for _, w := range line {
		names = append(names, w.Owner)
	}
	return names
}

// TestSeveralNeverBreak runs programs of commands in one family of modes, with owners who come again, die and return.
func TestSeveralNeverBreak(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &program{T: rt, now: epoch, known: map[string]Outcome{}, came: map[string]time.Time{}}
		p.store = docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return p.now }})
		if p.margin = rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(rt, "margin"); p.margin > 0 {
			p.store = Uncertain{Store: p.store, Margin: p.margin}
		}
		family := rapid.SampledFrom([]Mode{Exclusive, Permits, Rate}).Draw(rt, "family")
		limit := rapid.Int64Range(1, 3).Draw(rt, "limit")
		request := 0
		last := map[string]Acquire{}
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				n := rapid.IntRange(1, 6).Draw(t, "request")
				owner := fmt.Sprint("o", max(1, request+2-n)) // one of the last five, or a new one
				c, again := last[owner]
				if !again {
					request++
					c = Acquire{ID: subject, Owner: owner, RequestID: strconv.Itoa(request), LeaseID: fmt.Sprint("l", request),
						Mode: family}
					if family == Exclusive && rapid.Bool().Draw(t, "shared") {
						c.Mode = Shared
					}
					if family != Exclusive {
						c.Limit = limit
					}
					if family == Rate {
						c.WindowSeconds = 5
					} else {
						c.TTLSeconds = rapid.Int64Range(1, 30).Draw(t, "ttl")
						c.LockDelaySeconds = rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "delay")
					}
					if c.Mode == Exclusive {
						c.Fair = rapid.Bool().Draw(t, "fair")
						c.Replace = rapid.Bool().Draw(t, "replace")
					}
				}
				c.WaitSeconds = rapid.SampledFrom([]int64{0, 2, 20}).Draw(t, "wait")
				c.unheld = rapid.Bool().Draw(t, "unheld")
				last[owner] = c
				p.acquire(c)
				p.check("acquire")
			},
			"renew": func(t *rapid.T) {
				if o, ok := p.some(t); ok {
					c := Renew{ID: subject, Owner: o.Lease.Owner, Token: o.Lease.Token,
						RequestID: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "r"), TTLSeconds: 9}
					if o := p.run(c); o.Code == OK && o.Lease.Token != c.Token {
						p.Fatalf("%#v: %+v", c, o)
					}
					p.check("renew")
				}
			},
			"release": func(t *rapid.T) {
				if o, ok := p.some(t); ok {
					c := Release{ID: subject, Owner: o.Lease.Owner, Token: o.Lease.Token, RequestID: "e1"}
					p.run(c)
					before := p.status()
					if again := p.run(c); again.Code == OK && (!again.Replayed || !sameStatus(before, p.status())) {
						p.Fatalf("%#v again: %+v", c, again)
					}
					p.check("release")
				}
			},
			"force": func(*rapid.T) {
				request++
				if o := p.run(ForceRelease{ID: subject, By: "root", Reason: "x",
					RequestID: fmt.Sprint("f", request)}); o.Code == OK {
					p.grants = nil // of a rate: they are forgotten
				}
				p.check("force")
			},
			"leave": func(t *rapid.T) {
				owner := fmt.Sprint("o", rapid.IntRange(max(1, request-5), request+1).Draw(t, "owner"))
				if c, ok := last[owner]; ok {
					p.run(GiveUp{Acquire: c, gone: true})
					p.check("leave")
				}
			},
			"pass": func(t *rapid.T) {
				p.now = p.now.Add(time.Duration(rapid.SampledFrom([]int{1, 999, 1000, 2500, 5000, 11_000}).Draw(t,
					"ms")) * time.Millisecond)
				p.waiting = owners(p.status().Waiting)
			},
		})
	})
}

// some is an outcome of an acquire.
func (p *program) some(t *rapid.T) (Outcome, bool) {
	if len(p.known) == 0 {
		return Outcome{}, false
	}
	names := slices.Sorted(maps.Keys(p.known))
	return p.known[rapid.SampledFrom(names).Draw(t, "lease")], true
}

func sameStatus(a, b Status) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestSeveralAtOnce: many commands at once on one document all come through, each once.
func TestSeveralAtOnce(t *testing.T) {
	store := docstore.NewMemory(nil)
	var all sync.WaitGroup
	const callers = 32
	var mu sync.Mutex
	tokens := map[int64]int64{}
	for i := range callers {
		all.Go(func() {
			c := Acquire{ID: subject, Owner: fmt.Sprint("o", i), RequestID: "r1", LeaseID: fmt.Sprint("l", i), TTLSeconds: 600,
				Mode: Permits, Limit: MaxPermits}
			var o Outcome
			err := docstore.ErrUnavailable
			for errors.Is(err, docstore.ErrUnavailable) {
				o, err = rule.Run(t.Context(), store, time.Now, c)
			}
			if err != nil || o.Code != OK {
				t.Errorf("%+v, %v", o, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if other, twice := tokens[o.Lease.Token]; twice {
				t.Errorf("token %d is of permits %d and %d", o.Lease.Token, other, o.Lease.Permit)
			}
			tokens[o.Lease.Token] = o.Lease.Permit
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, permit := range tokens {
		seen[permit] = true
	}
	if len(seen) != callers {
		t.Errorf("%d permits for %d callers", len(seen), callers)
	}
}

// unlucky loses requests or responses, by a list that says what happens to each write: ' ' nothing, 'q' the request is
// lost, 'r' the response, 'd' it is delivered twice.
type unlucky struct {
	docstore.Store

	fate string
}

func (u *unlucky) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	fate := byte(' ')
	if len(u.fate) > 0 {
		fate, u.fate = u.fate[0], u.fate[1:]
	}
	switch fate {
	case 'q':
		return docstore.Result{}, docstore.ErrUnavailable
	case 'r':
		if _, err := u.Store.Write(ctx, w...); err != nil {
			return docstore.Result{}, err
		}
		return docstore.Result{}, docstore.ErrUnavailable
	case 'd':
		if _, err := u.Store.Write(ctx, w...); err != nil {
			return docstore.Result{}, err
		}
	}
	return u.Store.Write(ctx, w...)
}

// TestSeveralLoseRequestsAndResponses: whatever is lost, a command that is sent again has its effect once.
func TestSeveralLoseRequestsAndResponses(t *testing.T) {
	for _, fate := range []string{"q", "r", " q", " r", "d", " d", "rr", " rq", " rr"} {
		for name, c := range map[string]struct {
			command command
			effect  func(st Status) bool
		}{
			"acquire": {try("eve", Permits), func(st Status) bool { return len(st.Holders) == 2 && len(st.Waiting) == 0 }},
			"wait":    {wait("bob", Exclusive), func(st Status) bool { return len(st.Holders) == 1 && len(st.Waiting) == 1 }},
			"renew": {extend("ann", 1, "n1"), func(st Status) bool {
				return st.Holders[0].ExpiresAt.Equal(epoch.Add(61 * time.Second))
			}},
			"release": {give("ann", 1), func(st Status) bool { return st.Phase == Released && len(st.Holders) == 0 }},
			"force": {ForceRelease{ID: subject, By: "root", Reason: "x", RequestID: "f1"},
				func(st Status) bool { return st.Phase == Released }},
		} {
			t.Run(fate+" "+name, func(t *testing.T) {
				s := newStage(t)
				if name == "wait" {
					s.granted(try("ann", Shared), 1, 1)
				} else {
					s.granted(try("ann", Permits), 1, 1)
				}
				s.pass(time.Second)
				u := &unlucky{Store: s.store, fate: fate}
				var o Outcome
				err := docstore.ErrUnavailable
				for tries := 0; err != nil; tries++ {
					if !errors.Is(err, docstore.ErrUnavailable) || tries > 5 {
						t.Fatal(err)
					}
					o, err = rule.Run(t.Context(), u, func() time.Time { return s.now }, c.command)
				}
				if want := OK; o.Code != want && (name != "wait" || o.Code != Held || o.Position != 1) {
					t.Errorf("got %+v", o)
				}
				st := s.status()
				if !c.effect(st) {
					t.Errorf("got %+v", st)
				}
				if again := s.send(c.command); again.Code != o.Code || !sameStatus(st, s.status()) {
					t.Errorf("again: %+v, %+v", again, s.status())
				}
			})
		}
	}
}

// TestAnotherCommandInBetween: the second write rests on the document found; where that has changed, it is decided
// anew.
func TestAnotherCommandInBetween(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Permits), 1, 1)
	meanwhile := func(c command) func() {
		n := 0
		return func() {
			if n++; n == 2 {
				s.before = nil
				s.send(c)
				s.writes = 2
			}
		}
	}
	s.before = meanwhile(try("bob", Permits))
	s.gets(try("eve", Permits), Held, 2) // bob has the last permit
	s.before = meanwhile(give("bob", 2))
	if o := s.gets(extend("ann", 1, "n1"), OK, 3); o.Lease.Token != token(1) {
		t.Fatalf("got %+v", o)
	}
	s.before = meanwhile(give("ann", 1))
	s.granted(try("kim", Permits), 3, 3) // of a lock that is free again
}

// TestDocumentsThatCannotBeRead: no byte that is missing or wrong makes a panic, or a free lock.
func TestDocumentsThatCannotBeRead(t *testing.T) {
	s := newStage(t)
	ann := try("ann", Permits)
	ann.Metadata = map[string]string{"build": "7"}
	s.granted(ann, 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.waits(wait("eve", Permits), 1, 2)
	s.waits(wait("kim", Permits), 2, 2)
	s.gets(give("bob", 2), OK, 2)
	r, err := s.store.Get(t.Context(), subject.key())
	if err != nil {
		t.Fatal(err)
	}
	found := r.Docs[0]
	damaged := func(f string, v docstore.Value) {
		t.Helper()
		d := found.Clone()
		d[f] = v
		if v == nil {
			delete(d, f)
		}
		st, err := subject.State(d)
		if err != nil && !errors.Is(err, docstore.ErrDamaged) {
			t.Fatal(err)
		}
		if err == nil && v == nil && f != fLine && f != fPast && f != fLimit && f[0] != 'a' && f[0] != 'e' && f[0] != 'h' &&
			f != fRevision && f != fToken && f != fState && f != fWaiting {
			t.Errorf("without %s: %+v", f, st)
		}
	}
	for f, v := range found {
		damaged(f, nil)
		damaged(f, docstore.Bool(true))
		b, ok := v.(docstore.Bytes)
		if !ok {
			continue
		}
		for i := range b {
			d := found.Clone()
			d[f] = b[:i]
			if _, err := subject.State(d); i > 0 && !errors.Is(err, docstore.ErrDamaged) {
				t.Errorf("%s cut to %d bytes: %v", f, i, err)
			}
			for _, x := range []byte{1, 0x80, 0xff} {
				changed := []byte(b)
				changed[i] ^= x
				damaged(f, docstore.Bytes(changed))
			}
		}
		d := found.Clone()
		d[f] = b + "x"
		if _, err := subject.State(d); !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%s with a byte more: %v", f, err)
		}
	}
}

// TestSeveralOnAnUncertainClock: a lease is over when it is by the earliest that the time can be: until then it can be
// renewed and released, and nothing is granted.
func TestSeveralOnAnUncertainClock(t *testing.T) {
	s := newStage(t)
	s.store = Uncertain{Store: s.store, Margin: time.Second}
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.waits(wait("eve", Permits), 1, 2)
	s.pass(time.Minute + time.Second - time.Millisecond)
	s.gets(try("kim", Permits), Held, 2) // it clears the line
	s.gets(extend("bob", 2, "n1"), OK, 2)
	s.pass(time.Millisecond)
	s.gets(extend("ann", 1, "n1"), LeaseExpired, 1)
	s.gets(give("ann", 1), LeaseExpired, 1)
	s.granted(try("kim", Permits), 3, 2)

	r := newStage(t)
	r.store = Uncertain{Store: r.store, Margin: time.Second}
	r.granted(try("ann", Rate), 1, 1)
	r.granted(try("bob", Rate), 2, 2)
	r.pass(11*time.Second - time.Millisecond)
	r.gets(try("eve", Rate), Held, 1)
	r.pass(time.Millisecond)
	r.granted(try("eve", Rate), 3, 2)
}

// TestTimePassesBetweenTheWrites: what the first response says of the time is not enough. The store is asked again
// whether a lease that is renewed or released still lasts, and whether one that is dropped has ended.
func TestTimePassesBetweenTheWrites(t *testing.T) {
	s := newStage(t)
	shift := func(d time.Duration) {
		n := 0
		s.before = func() {
			if n++; n == 2 {
				s.pass(d)
			}
		}
	}
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.pass(time.Minute - time.Millisecond)
	shift(time.Millisecond)
	s.gets(extend("ann", 1, "n1"), LeaseExpired, 2)
	s.pass(-time.Millisecond)
	shift(time.Millisecond)
	s.gets(give("ann", 1), LeaseExpired, 2)
	shift(-time.Millisecond)
	s.gets(try("eve", Permits), Held, 2)
	s.pass(time.Millisecond)
	s.before = nil
	s.granted(try("eve", Permits), 3, 2)

	r := newStage(t)
	r.granted(try("ann", Rate), 1, 1)
	r.granted(try("bob", Rate), 2, 2)
	r.pass(10 * time.Second)
	n := 0
	r.before = func() {
		if n++; n == 2 {
			r.pass(-time.Millisecond)
		}
	}
	r.gets(try("eve", Rate), Held, 2)
}

// TestAHandOverThatIsNotClaimedHasNoLockDelay: no one worked under it.
func TestAHandOverThatIsNotClaimedHasNoLockDelay(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	bob := wait("bob", Exclusive)
	bob.LockDelaySeconds = 60
	s.waits(bob, 1, 2)
	s.gets(give("ann", 1), OK, 2)
	s.pass(ClaimTime)
	s.granted(try("eve", Shared), 3, 2)
}
