package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestWaitPrograms lets callers of three processes wait for one lock at random: with random times to wait, cancelled or
// not, given up by another delivery or not, sent again or not, while holders release, renew or die. Whatever happens:
// the lock is never held by more than it has room for, those in line are served in turn, no one waits longer than its
// time, no one leaves a lock that was free for longer than a read takes to find out, whose caller has gone leaves the
// line, what was given up stays given up, and the store is read no more often than the hints and the ends of leases
// call for. All of it is in a bubble of synctest, where sleeping moves the clock and takes no time: sleeps are what
// requests take, and what callers and holders do.
func TestWaitPrograms(t *testing.T) {
	for name, ask := range waitModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total waitProgram
			for seed := range uint64(25) {
				p := newWaitProgram(seed, ask)
				synctest.Test(t, func(t *testing.T) { p.play(t.Context()) })
				for _, e := range p.errs {
					t.Errorf("seed %d: %s", seed, e)
				}
				total.granted, total.handed, total.missed, total.cancelled = total.granted+p.granted, total.handed+p.handed,
					total.missed+p.missed, total.cancelled+p.cancelled
				total.quit, total.judged = total.quit+p.quit, total.judged+p.judged
				total.reads, total.mayRead = total.reads+p.reads, total.mayRead+p.mayRead
			}
			t.Logf("%d granted, %d after a wait, %d not, %d cancelled, %d given up; %d reads, %d would be right; %d judged",
				total.granted, total.handed, total.missed, total.cancelled, total.quit, total.reads, total.mayRead, total.judged)
			if total.granted < 100 || total.handed < 50 || total.missed < 50 || total.cancelled < 25 || total.quit < 25 ||
				name != "not in line" && total.judged < 10_000 {
				t.Error("the programs do not reach what they are for")
			}
		})
	}
}

var waitModes = map[string]func(*rand.Rand) Acquire{
	"not in line": func(*rand.Rand) Acquire { return Acquire{} },
	"in line":     func(*rand.Rand) Acquire { return Acquire{Fair: true} },
	"readers and writers": func(r *rand.Rand) Acquire {
		if r.IntN(3) == 0 {
			return Acquire{Fair: true}
		}
		return Acquire{Mode: Shared}
	},
	"permits": func(*rand.Rand) Acquire { return Acquire{Mode: Permits, Limit: 2} },
	"a rate":  func(*rand.Rand) Acquire { return Acquire{Mode: Rate, Limit: 2, WindowSeconds: 4} },
}

// waitProgram is a program under way, and the store of its processes.
type waitProgram struct {
	docstore.Store

	seed  uint64
	ask   func(*rand.Rand) Acquire
	truth *Locks // looks at the document itself

	mu     sync.Mutex
	errs   []string
	leases map[int64]*waitLease
	status Status // after the last write
	line   []place
	asks   map[string]Acquire
	calls  map[string]time.Time // the owners whose responses are held, and since when
	silent map[string]time.Time // those of them whose places do not count, and since when
	since  time.Time
	fits   time.Time            // from when on the first in line, or anyone, fits, if nothing is written
	came   map[string]time.Time // those who are or were in line, and since when
	gaveUp []string             // those whose request was given up, without a lease

	granted, handed, missed, cancelled, quit int
	looks, judged                            int

	reads, mayRead int
	busy           []int // calls of each process that wait
	from           []time.Time
}

type waitLease struct {
	owner  string
	mode   Mode
	permit int64
	until  time.Time
}

const (
	waitProcesses = 3
	waitSlack     = 50 * time.Millisecond               // for requests that take a millisecond each, and those before them
	waitFinds     = readEvery*5/4 + waitSlack + stagger // until a change is found out
)

var waitID = ID{Tenant: "acme", Key: "k"}

func newWaitProgram(seed uint64, ask func(*rand.Rand) Acquire) *waitProgram {
	return &waitProgram{seed: seed, ask: ask, leases: map[int64]*waitLease{}, calls: map[string]time.Time{},
		asks: map[string]Acquire{}, silent: map[string]time.Time{}, came: map[string]time.Time{},
		busy: make([]int, waitProcesses), from: make([]time.Time, waitProcesses)}
}

func (p *waitProgram) failf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Sprintf(format, args...))
}

// Get is a read, which takes a millisecond.
func (p *waitProgram) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	return p.Store.Get(ctx, keys...)
}

// Write is a write, which takes a millisecond. What it changed is looked at in the same moment.
func (p *waitProgram) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.Store.Write(ctx, writes...)
	if err == nil && r.Applied {
		for _, calls := range p.busy {
			if calls > 0 {
				p.mayRead++ // at the end of the lease, or of the place, that the write brings
			}
		}
		p.look(ctx)
	}
	return r, err
}

// look holds the document after a write against the one before it.
func (p *waitProgram) look(ctx context.Context) {
	now, before, line := time.Now(), p.status, p.line
	r, err := p.Store.Get(ctx, waitID.key())
	if err != nil {
		p.failf("%v", err)
		return
	}
	state, err := waitID.State(r.Docs[0])
	if err != nil {
		p.failf("%v", err)
		return
	}
	after := waitID.status(state, r.At)
	p.status, p.since, p.line = after, now, state.view().line
	p.judge(state, r.At)
	p.hears(now)
	was := func(s Status) (owners []string) {
		for _, h := range s.Holders {
			owners = append(owners, h.Owner)
		}
		if s.Phase == Active && len(s.Holders) == 0 {
			owners = append(owners, s.Owner)
		}
		return owners
	}
	stays := func(owner string) bool {
		return slices.ContainsFunc(p.line, func(q place) bool { return q.owner == owner })
	}
	for _, q := range p.line {
		if _, known := p.came[q.owner]; !known {
			p.came[q.owner] = now
		}
	}
	for _, owner := range was(after) {
		if slices.Contains(was(before), owner) {
			continue
		}
		if slices.Contains(p.gaveUp, owner) {
			p.failf("%s was given up, and gets the lock", owner)
		}
		for _, w := range before.Waiting {
			came, waited := p.came[owner]
			counts := func(q place) bool {
				v := state.view()
				when := rule.When{At: now}
				return q.owner == w.Owner && (v.family == Rate && q.listensAt(now) ||
					v.reaches(q, when, func() time.Duration { return v.readsWithin(when) }))
			}
			// Not if this write found that the process did not claim what another of its requests has had.
			listens := slices.ContainsFunc(line, counts) && slices.ContainsFunc(p.line, counts)
			if w.Owner != owner && stays(w.Owner) && listens && (!waited || p.came[w.Owner].Before(came)) {
				p.failf("%s gets the lock before %s, who came earlier", owner, w.Owner)
			}
		}
	}
	handed := func(owner string) bool { // it has its place again if it does not claim that
		return slices.ContainsFunc(state.view().holders, func(h holder) bool { return h.owner == owner && h.grantedInQueue })
	}
	maps.DeleteFunc(p.came, func(o string, _ time.Time) bool { return !stays(o) && !handed(o) })
	p.fits = room(after, state)
}

// judge holds what an outlook says of each request, whoever looks, against what its own decision says.
func (p *waitProgram) judge(s State, now time.Time) {
	if p.looks++; s.shared == nil || p.looks%8 > 0 {
		return
	}
	writers := map[int64]bool{}
	for _, q := range s.shared.line {
		writers[q.process] = true
	}
	for _, ahead := range []time.Duration{0, stagger, 10 * time.Second} {
		for writer := range writers {
			w := rule.When{At: docstore.TruncateMilli(now.Add(ahead)), Margin: ahead % time.Second / 10}
			shared := newOutlook(s, w, writer)
			for _, c := range p.asks {
				c.known = c.request()
				for _, over := range []bool{false, true} {
					c.held.process, c.held.over = writer, over
					again, next := c.readyInLine(shared)
					want, wantNext := c.readyAlone(s, w)
					if again != want || !again && !next.Equal(wantNext) {
						p.failf("%s, in %v: again %v, next %v; by itself %v, %v", c.Owner, ahead, again, next, want, wantNext)
					}
					p.judged++
				}
			}
		}
	}
}

// readyAlone is [Acquire.readyInLine] of a request that has no one to share an outlook with: it decides, and looks at
// the line as the next write of its process would find and leave it.
func (c Acquire) readyAlone(s State, w rule.When) (again bool, next time.Time) {
	soon, last := s.endsAround(w.At)
	if d := c.decide(s, w); d.code != Held || d.position == 0 {
		return d.after != nil || d.code != Held, soon
	}
	v := s.toShared()
	v.writer = c.held.process
	if own, _ := v.placeOf(c.request()); own < 0 {
		return true, time.Time{}
	}
	v.dropExpired(w)
	own, _ := v.placeOf(c.request())
	if own < 0 || !c.held.over && !v.line[own].listensAt(w.At) {
		return true, time.Time{}
	}
	others := map[int64]bool{}
	for _, q := range v.line[:own] {
		if q.process != v.writer && q.listensAt(w.At) {
			others[q.process] = true
		}
	}
	v.grantWaiting(w, "")
	if v.worthWriting() == nil {
		return false, soonest(soon, v.turns.next)
	}
	due := last.Add(time.Duration(min(len(others), 8)) * stagger)
	if !last.IsZero() && due.After(w.At) {
		return false, soonest(due, v.turns.next)
	}
	return true, time.Time{}
}

// hears makes sure that the places of requests whose responses are held count, or do so soon.
func (p *waitProgram) hears(now time.Time) {
	for _, q := range p.line {
		held, is := p.calls[q.owner]
		since, silent := p.silent[q.owner]
		switch {
		case !is || q.listensAt(now):
			delete(p.silent, q.owner)
		case !silent || since.Before(held):
			p.silent[q.owner] = now
		case now.Sub(since) > waitFinds:
			p.failf("%s waits, and its place has not counted for %v", q.owner, now.Sub(since))
		}
	}
}

// listens is who is the first in line that is not passed over.
func (p *waitProgram) listens(at time.Time) string {
	for _, q := range p.line {
		if q.listensAt(at) {
			return q.owner
		}
	}
	return ""
}

// room is from when on there is room for the next one, if nothing is written.
func room(s Status, state State) (at time.Time) {
	var ends []time.Time
	next := Exclusive
	for _, q := range slices.Backward(state.view().line) {
		if q.listensAt(time.Now()) {
			next = q.mode
		}
	}
	switch {
	case s.Mode == Rate:
		v := state.toShared()
		for _, g := range v.grants {
			ends = append(ends, g.at.Add(v.span()))
		}
		if v.latest != nil {
			ends = append(ends, v.latest.acquired.Add(v.span()))
		}
		if n := len(ends); n >= int(v.limit) {
			return ends[n-int(v.limit)]
		}
		return at
	case len(s.Holders) == 0 && s.Phase == Active:
		return s.ExpiresAt
	}
	for _, h := range s.Holders {
		if next != Shared || h.Mode == Exclusive {
			ends = append(ends, h.ExpiresAt)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	switch n := len(ends); {
	case n == 0, s.Mode == Permits && n < 2:
		return at
	case s.Mode == Permits:
		return ends[0]
	default:
		return ends[n-1]
	}
}

func (p *waitProgram) play(ctx context.Context) {
	const callers = 9
	memory := docstore.NewMemory(nil)
	p.Store, p.truth = memory, New(memory, nil)
	var done sync.WaitGroup
	var all []*Locks
	for range waitProcesses {
		all = append(all, New(p, nil))
	}
	for n := range callers {
		r := rand.New(rand.NewPCG(p.seed, uint64(n)))
		done.Go(func() {
			for round := range 4 {
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				p.call(ctx, all, n%waitProcesses, r, fmt.Sprintf("%d.%d", n, round))
			}
		})
	}
	done.Wait()
	time.Sleep(time.Minute) // what others left behind in the bubble ends
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reads > p.mayRead {
		p.failf("%d reads, where %d would be right", p.reads, p.mayRead)
	}
}

// call lets one caller get the lock or not, and hold it.
func (p *waitProgram) call(ctx context.Context, all []*Locks, process int, r *rand.Rand, owner string) {
	c := p.ask(r)
	c.ID, c.Owner, c.RequestID, c.WaitSeconds = waitID, owner, "r", []int64{0, 1, 3, 20}[r.IntN(4)]
	if c.Mode != Rate {
		c.TTLSeconds = 1 + r.Int64N(4)
	}
	for {
		asking, cancel := ctx, func() {}
		if r.IntN(4) == 0 {
			asking, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		}
		most := time.Duration(1+r.IntN(20)) * time.Second
		quits := time.Hour
		if r.IntN(3) == 0 {
			quits = time.Duration(200+r.IntN(3000)) * time.Millisecond
		}
		begun := time.Now()
		p.enter(process)
		p.mu.Lock()
		p.calls[owner], p.asks[owner] = begun, c
		p.mu.Unlock()
		done := make(chan waitResult, 1)
		go func() {
			o, err := all[process].AcquireWithin(asking, c, most)
			p.mu.Lock()
			delete(p.calls, owner)
			p.mu.Unlock()
			done <- waitResult{o, err}
		}()
		var got waitResult
		select {
		case got = <-done:
		case <-time.After(quits):
			p.giveUp(ctx, all, process, r, c, done)
			p.leave(process)
			cancel()
			return
		}
		p.leave(process)
		o, err := got.o, got.err
		took := time.Since(begun)
		cancel()
		p.mu.Lock()
		if most = min(most, time.Duration(c.WaitSeconds)*time.Second); took > most+waitSlack {
			p.failf("%s waited for %v, and wanted to for %v", owner, took, most)
		}
		switch {
		case err != nil && (!errors.Is(err, context.DeadlineExceeded) || asking.Err() == nil):
			p.failf("%s: %v", owner, err)
		case err != nil:
			p.cancelled++
			if st, _, err := p.truth.Get(ctx, waitID); err != nil ||
				slices.ContainsFunc(st.Waiting, func(w Waiter) bool { return w.Owner == owner }) {
				p.failf("%s has gone, and is still in line: %v", owner, err)
			}
		case o.Code == OK:
			p.got(c, o, begun, took)
		case o.Code == Held:
			p.missed++
			p.refused(c, begun, took)
		case o.Code == RequestIDReused || o.Code == LeaseExpired:
			// it had the lock between two calls, and did not ask in time
		default:
			p.failf("%s: %+v", owner, o)
		}
		p.mu.Unlock()
		if o.Code == OK && c.Mode != Rate {
			p.hold(ctx, all[process], r, o.Lease)
		}
		if err != nil || o.Code != Held || c.WaitSeconds == 0 || r.IntN(3) == 0 {
			return
		}
	}
}

type waitResult struct {
	o   Outcome
	err error
}

// giveUp gives up a request behind something that keeps the connection of its caller: by another delivery, which does
// not wait. In line it may go to another process. What it obtains is released. done is what becomes of the first
// delivery.
func (p *waitProgram) giveUp(ctx context.Context, all []*Locks, process int, r *rand.Rand, c Acquire,
	done <-chan waitResult) {
	at := process
	if c.queues() {
		at = r.IntN(len(all))
	}
	c.WaitSeconds = 0
	begun := time.Now()
	var got waitResult
	got.o, got.err = all[at].Acquire(ctx, c)
	took := time.Since(begun)
	p.mu.Lock()
	p.quit++
	switch {
	case got.err != nil:
		p.failf("%s: giving up: %v", c.Owner, got.err)
	case took > waitSlack:
		p.failf("%s: giving up took %v", c.Owner, took)
	case got.o.Code == OK:
		p.granted++
	case got.o.Code == Held || got.o.Code == RequestIDReused || got.o.Code == LeaseExpired:
		p.gaveUp = append(p.gaveUp, c.Owner)
	default:
		p.failf("%s: giving up: %+v", c.Owner, got.o)
	}
	p.mu.Unlock()
	if got.o.Code == OK && c.Mode != Rate {
		_, _ = all[at].Release(ctx, Release{ID: waitID, Owner: c.Owner, Token: got.o.Lease.Token, RequestID: "e"})
	}
	answered := time.Now()
	first := <-done
	p.mu.Lock()
	defer p.mu.Unlock()
	if late := time.Since(answered); at == process && late > waitSlack {
		p.failf("%s was given up, and its wait goes on for %v", c.Owner, late)
	}
	if first.err == nil && first.o.Code == OK && (got.o.Code != OK || got.o.Lease.Token != first.o.Lease.Token) {
		p.failf("%s was given up, and gets the lock: %+v after %+v", c.Owner, first.o, got.o)
	}
}

// enter and leave count for how long a process has reason to read.
func (p *waitProgram) enter(process int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[process]++; p.busy[process] == 1 {
		p.from[process] = time.Now()
	}
}

func (p *waitProgram) leave(process int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[process]--; p.busy[process] == 0 {
		p.mayRead += 1 + int(time.Since(p.from[process])/(readNext*3/4))
	}
}

// got holds a grant against what others have. p.mu is held.
func (p *waitProgram) got(c Acquire, o Outcome, begun time.Time, took time.Duration) {
	p.granted++
	if took > waitSlack {
		p.handed++
	}
	now := time.Now()
	if waited := now.Sub(later(o.Lease.AcquiredAt, begun)); waited > waitFinds {
		p.failf("%s was granted %v before its request returned", c.Owner, waited)
	}
	if c.Mode == Rate {
		return
	}
	held := 0
	for token, l := range p.leases {
		switch {
		case !now.Before(l.until):
		case token == o.Lease.Token:
			p.failf("%s and %s have the token %d", l.owner, c.Owner, token)
		case l.mode == Exclusive || c.Mode == Exclusive:
			p.failf("%s holds the lock beside %s", c.Owner, l.owner)
		case c.Mode == Permits && l.permit == o.Lease.Permit:
			p.failf("%s and %s have the permit %d", l.owner, c.Owner, l.permit)
		default:
			held++
		}
	}
	if c.Mode == Permits && held >= int(c.Limit) {
		p.failf("%s has a permit beside %d", c.Owner, held)
	}
	p.leases[o.Lease.Token] = &waitLease{c.Owner, c.Mode, o.Lease.Permit, o.Lease.ExpiresAt}
}

// refused reports a wait that ended although the lock was free for the request, and had been for long. p.mu is held.
func (p *waitProgram) refused(c Acquire, begun time.Time, took time.Duration) {
	if took <= waitSlack {
		return
	}
	now := time.Now()
	first := p.listens(p.since)
	if first != c.Owner && (first != "" || c.queues()) {
		return
	}
	if free := now.Sub(later(later(p.fits, p.since), begun)); free > waitFinds {
		p.failf("%s does not get the lock, which was free for %v", c.Owner, free)
	}
}

// hold lets a holder renew, and release or die.
func (p *waitProgram) hold(ctx context.Context, l *Locks, r *rand.Rand, lease Lease) {
	until := func(at time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leases[lease.Token].until = at
	}
	if r.IntN(3) == 0 {
		time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
		o, err := l.Renew(ctx, Renew{ID: waitID, Owner: lease.Owner, Token: lease.Token, RequestID: "n", TTLSeconds: 2})
		if err == nil && o.Code == OK {
			until(o.Lease.ExpiresAt)
		}
	}
	if r.IntN(3) == 0 {
		return // it dies
	}
	time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	p.mu.Lock()
	over := !time.Now().Before(p.leases[lease.Token].until)
	p.mu.Unlock()
	if !over {
		until(time.Now())
	}
	_, _ = l.Release(ctx, Release{ID: waitID, Owner: lease.Owner, Token: lease.Token, RequestID: "e"})
}
