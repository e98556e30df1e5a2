package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// readEvery is about how often the document of a lock is read while requests of this process wait for the lock,
	// however many they are: for what the process does not learn otherwise. It varies by a quarter, so that processes do
	// not read at the same time.
	readEvery = time.Second

	// readWatched is the same where the store says what has changed: then a read only makes sure of that.
	readWatched = 5 * time.Second

	// After a signal of the store the document is read at once if that may be the turn of a request of this process, see
	// [watch.due]; else not more often than this.
	readSignalled = readEvery / 4

	// fruitless is how many reads in a row may find that no one came, went or was granted the lock before signals are read
	// as if it were no turn of this process: holders may renew all the time.
	fruitless = 8

	// Where the store signals nothing, the document is read after a tenth of the time for which its newest lease has
	// lasted: who is next learns of a release that much late. It is not read more often than in readNext for each
	// place up to that of the first request of this process in line, or in readFree if the lock has no line; and as often
	// as in readEvery.
	readNext = 100 * time.Millisecond
	readFree = readEvery / 4

	readLeast   = 50 * time.Millisecond // between two reads, but for those because of a signal
	readTimeout = 5 * time.Second       // of one read

	// turnTime is how long a request may take for its turn before the next one has its own.
	turnTime = 2 * time.Second

	// cutOff is when to ask again for a request whose wait ends because the process stops: another one may keep it, and
	// whether the lock is free by then is another matter. It is the least that a response can say.
	cutOff = time.Millisecond

	// leaveTimeout bounds what is done for a request whose caller has gone.
	leaveTimeout = 5 * time.Second
)

// AcquireWithin is [Locks.Acquire] for a caller that can wait no longer than most, whatever c.WaitSeconds says: 0 sends
// the request once, and it has a place in line from its second delivery on. A place is kept as c.WaitSeconds says, so
// that the request, sent again, has it.
//
// # How requests wait
//
// A request that was refused waits for the lock together with the others of this process. They share one watch: it
// reads the document once in about a second; earlier when the lease ends, or when the store signals a change (see
// [docstore.Watcher]). What other commands of this process find out about the lock, the watch knows without reading. A
// request is sent again only when the document says that it may be granted now, one request at a time, in the order of
// their arrival.
//
// A wait ends with the last refusal (see [Outcome].Position), after the time, when [Options].Stop is closed, or when
// the request has lost its place in line: within a wait no request joins a line twice. With Stop it keeps its place,
// and is to be sent again at once, to a process that goes on. If the context ends, the request gives up its place in
// line.
//
// # How a wait is given up
//
// A delivery with c.WaitSeconds 0 ends the waits of all others of the same owner and request_id in this process,
// because a caller that does not wait any more listens to none of them: in front of the process there may be one that
// does not pass on that a caller has gone. They end with the refusal that they had, and are not sent again. The
// delivery itself is decided after each of them that is being sent. So whatever they have obtained is its outcome, and
// none obtains anything once it is answered.
func (l *Locks) AcquireWithin(ctx context.Context, c Acquire, most time.Duration) (Outcome, error) {
	if c.LeaseID == "" {
		c.LeaseID = l.newLeaseID()
	}
	c.retention, c.recordsRefusals = l.retention, l.refusals.every > 0
	c.observed, c.unheld = l.observed, most <= 0
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	c.known = c.request()
	o, err := l.acquireWithin(ctx, c, most)
	if err == nil {
		l.refusals.record(ctx, c, o)
	}
	return o, err
}

// acquireWithin is AcquireWithin of a command that is complete and valid.
func (l *Locks) acquireWithin(ctx context.Context, c Acquire, most time.Duration) (Outcome, error) {
	most = min(most, time.Duration(c.WaitSeconds)*time.Second)
	c.held = l.holding(most)
	begun := l.now()
	if c.WaitSeconds == 0 {
		l.waits.endWaits(c.delivery())
		return l.send(ctx, c, nil, begun)
	}
	over := make(chan struct{})
	if most > 0 {
		defer time.AfterFunc(most, func() { close(over) }).Stop()
	} else {
		close(over)
	}
	w, x := l.waits.enter(c)
	defer l.waits.leave(w, x)
	o, err := l.first(ctx, w, x, begun, over)
	if errors.Is(err, errGivenUp) {
		return c.givenUp(), nil
	}
	if err == nil && o.waits() && most > 0 {
		o, err = l.seated(ctx, w, x, o, begun, over)
	}
	if err != nil && ctx.Err() != nil {
		l.leaveLine(ctx, w, x)
	}
	return o, err
}

// first sends a request for the first time. While its process leaves the lock to others it waits for that first, beside
// those that were refused.
func (l *Locks) first(ctx context.Context, w *watch, x *waiter, begun time.Time, over <-chan struct{}) (Outcome,
	error) {
	if o, ok := l.waits.leaves(w, x); ok {
		if o, err := l.seated(ctx, w, x, o, begun, over); err != nil || !o.unsent {
			return o, err
		}
	}
	return l.send(ctx, x.acquire, x, begun)
}

// seated lets a request wait that was refused with the outcome o, if there is room for one more that waits.
func (l *Locks) seated(ctx context.Context, w *watch, x *waiter, o Outcome, begun time.Time,
	over <-chan struct{}) (Outcome, error) {
	if l.seat != nil {
		leave, ok := l.seat(ctx, x.acquire.Tenant)
		if !ok {
			return o, nil
		}
		defer leave()
	}
	return l.wait(ctx, w, x, o, begun, over)
}

// send sends an acquire to the store, once. x is its wait, nil if it does not wait, and begun is when that began.
func (l *Locks) send(ctx context.Context, c Acquire, x *waiter, begun time.Time) (o Outcome, err error) {
	var waited time.Duration
	err = l.inTurn(ctx, c, func(ctx context.Context) (err error) {
		if x != nil && !l.waits.sendable(x) {
			return errGivenUp
		}
		waited = l.now().Sub(begun)
		c.held.left = max(0, c.held.most-waited)
		c.held.resent = x != nil && x.sent
		if x != nil && x.placed {
			o, err = rule.Run(ctx, l.store, l.now, l.noted(ctx, c.ID, inLine{c}))
		} else {
			o, err = l.acquire(ctx, c)
		}
		return err
	})
	if c.WaitSeconds > 0 {
		o.Waited = waited
	}
	if x != nil {
		x.sent = true
		x.placed = err == nil && o.Position > 0 || err != nil && x.placed
	}
	if err == nil && o.Code == OK && !o.Replayed && !c.queues() {
		l.waits.granted(c.ID, o.Lease.Token, x)
	}
	return o, err
}

// inTurn carries out a step of a delivery of an acquire, after those that came before it, see [deliveries].
func (l *Locks) inTurn(ctx context.Context, c Acquire, step func(context.Context) error) error {
	do := func(ctx context.Context) error {
		if err := l.deliveries.enter(ctx, c.delivery()); err != nil {
			return fmt.Errorf("%s: another delivery of the request is under way: %w", c.key(), err)
		}
		defer l.deliveries.leave(c.delivery())
		return step(ctx)
	}
	if l.working == nil {
		return do(ctx)
	}
	return l.working(ctx, c.Tenant, do)
}

// ending signals the end of the request, by the store's time of its refusal; never if it has none.
func (c Acquire) ending(o Outcome) (ended <-chan time.Time, stop func()) {
	if c.NotAfter.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(c.NotAfter.Sub(o.At) + time.Millisecond)
	return t.C, func() { t.Stop() }
}

// wait sends an acquire again when it has its turn. o is its refusal.
func (l *Locks) wait(ctx context.Context, w *watch, x *waiter, o Outcome, begun time.Time,
	over <-chan struct{}) (Outcome, error) {
	l.waits.begin(w, x)
	refused := time.Now()
	ended, stop := x.acquire.ending(o)
	defer stop()
	for {
		select {
		case err := <-x.turn:
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && isOver(over) && !l.waits.mayObtain(w, x) { // it would only be counted in line once more
				l.waits.done(w, x)
				return l.waits.refused(w, x, o), nil
			}
			found := o
			if err == nil {
				found, err = l.send(ctx, x.acquire, x, begun)
			}
			l.waits.done(w, x)
			switch {
			case errors.Is(err, errGivenUp):
				return l.waits.refused(w, x, o), nil
			case err != nil || !found.waits() || found.lost:
				return found, err
			}
			o = found
		case <-x.end:
			return l.waits.refused(w, x, o), nil
		case <-over:
			if _, ok := l.waits.leaves(w, x); ok { // it is free, and others did not come
				found, err := l.send(ctx, x.acquire, x, begun)
				if err == nil && found.waits() || errors.Is(err, errGivenUp) {
					return l.waits.refused(w, x, o), nil
				}
				return found, err
			}
			return l.waits.refused(w, x, o), nil
		case <-ended:
			return x.acquire.ended(o, rule.When{At: docstore.TruncateMilli(o.At.Add(time.Since(refused)))}), nil
		case <-l.waits.stop:
			o = l.waits.refused(w, x, o)
			o.RetryAfter = min(o.RetryAfter, cutOff)
			return o, nil
		case <-ctx.Done():
			return Outcome{}, fmt.Errorf("%s: waiting: %w", x.acquire.key(), ctx.Err())
		}
	}
}

// leaveLine gives up the place in line of a request whose connection has ended, unless that was sent again; it may be
// sent again later, too, and is not remembered as used. It may fail: the place is then given up by the time.
func (l *Locks) leaveLine(ctx context.Context, w *watch, x *waiter) {
	c := x.acquire
	if again := l.waits.again(w, x); again || !c.queues() && !l.waits.hasLine(w) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_, _ = l.run(ctx, c.ID, GiveUp{Acquire: c, gone: true})
}

// hasLine reports whether the lock had a line when it was seen last.
func (s *waits) hasLine(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.seen.state.shared != nil
}

// again notes that the caller of a request has gone, and reports whether another delivery of the request has one.
func (s *waits) again(w *watch, x *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.gone = true
	return slices.ContainsFunc(w.waiters, func(other *waiter) bool {
		return !other.gone && !other.givenUp && other.acquire.delivery() == x.acquire.delivery()
	})
}

// waits reports whether a request that was refused so may be granted later, if it waits.
func (o Outcome) waits() bool { return o.Code == Held || o.Code == Delayed }

// ready reports whether sending the request again, by the document as it stood at a time, may change its outcome; and
// when that may be so without anyone's write, zero if never.
func (c Acquire) ready(s State, w rule.When) (again bool, next time.Time) {
	at := w.At
	switch {
	case s.shared != nil:
		return c.readyInLine(newOutlook(s, w, c.held.process))
	case c.queues():
		d := c.decide(s, w)
		next, _ = s.endsAround(at)
		return d.after != nil || d.code != Held, next
	}
	used, _ := s.Acquires.Find(c.request())
	if givenUp, _ := s.GivenUp.Find(c.request()); used >= 0 || givenUp >= 0 {
		return true, time.Time{}
	}
	if c.mayReplace(s, rule.When{At: at}) && s.PhaseAt(at) == Active {
		return true, time.Time{}
	}
	if free := s.FreeAt(); at.Before(free) && !s.impossible(w) {
		return false, free
	}
	return true, time.Time{}
}

// waits are what requests of a process wait with.
type waits struct {
	store docstore.Store
	stop  <-chan struct{} // when it is closed, no request waits any more; nil: never

	mu   sync.Mutex
	of   map[ID]*watch
	took time.Duration  // about what a read of the store takes
	says bool           // the store signals every change, as was known last
	own  map[ID]*spells // see [spells]
	// the tokens of the latest grants to requests that did not wait, of locks that are not in own
	alone map[ID]int64
}

// watch is what is known of a lock for which requests wait. waits.mu guards it.
type watch struct {
	id      ID
	waiters []*waiter // by arrival
	turn    *waiter   // whose request is under way; nil if none is
	turnEnd time.Time // when the next one may go all the same
	spells  *spells   // nil if there are none

	seen    observation
	version int      // how many observations there were
	outlook *outlook // of what was seen; nil until someone asks for it

	follows  bool // a goroutine follows the lock
	end      context.CancelFunc
	kick     chan struct{} // has an entry when there may be something to decide
	complete bool          // the store signals every change
	signals  int           // how many the store has given since the last read
	signal   time.Time     // when it gave the last one
	ask      time.Time     // when to read because of them: by chance, so that no process is always the first one
	same     int           // how many reads in a row found the same
	read     time.Time     // when the last read began
	rest     time.Time     // until when there is none, after one that failed
	early    float64       // by how much the next read comes earlier than a quarter after it is due, by chance
}

// observation is what the document of a lock said.
type observation struct {
	state          State
	at             time.Time     // the store's time
	margin         time.Duration // how far that may lie beyond at, see [rule.When]
	begun, arrived time.Time     // of the request that found it
}

// when is the store's time so long after the observation.
func (o observation) when(passed time.Duration) rule.When {
	return rule.When{At: docstore.TruncateMilli(o.at.Add(passed)), Margin: o.margin}
}

// waiter is a request that waits.
type waiter struct {
	acquire Acquire
	waiting bool       // it was refused
	busy    bool       // it is being sent
	gone    bool       // its caller is
	tried   int        // the version after it was sent last
	turn    chan error // nil: it is to be sent again

	sent    bool          // before; only its own goroutine uses it
	placed  bool          // it had a place in line when it was sent last; only its own goroutine uses it
	givenUp bool          // a later delivery of the request does not wait
	end     chan struct{} // is closed then

	judged int       // the version of which again, next and ahead are
	again  bool      // see Acquire.ready
	next   time.Time // see Acquire.ready
	ahead  int       // see Acquire.ahead
}

// ready is [Acquire.ready] of the document as it was seen last. waits.mu is held.
func (x *waiter) ready(w *watch) (again bool, next time.Time) {
	if x.judged != w.version {
		x.judge(w)
	}
	return x.again, x.next
}

// judge finds what the document as it was seen last means to a request. What it means to all who wait is found once.
func (x *waiter) judge(w *watch) {
	c := x.acquire
	x.judged, x.ahead = w.version, 0
	if w.seen.state.shared == nil {
		x.again, x.next = c.ready(w.seen.state, w.seen.when(0))
		return
	}
	if w.outlook == nil || w.outlook.writer != c.held.process {
		w.outlook = newOutlook(w.seen.state, w.seen.when(0), c.held.process)
	}
	x.again, x.next = c.readyInLine(w.outlook)
	x.ahead = w.outlook.ahead(c.request())
}

// enter notes a request that may wait, before it is sent: what others find out from then on is not missed.
func (s *waits) enter(c Acquire) (*watch, *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[c.ID]
	if w == nil {
		w = &watch{id: c.ID, kick: make(chan struct{}, 1), end: func() {}, spells: s.own[c.ID]}
		s.of[c.ID] = w
	}
	x := &waiter{acquire: c, turn: make(chan error, 1), end: make(chan struct{})}
	w.waiters = append(w.waiters, x)
	return w, x
}

// begin lets a request that was refused wait.
func (s *waits) begin(w *watch, x *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.waiting = true
	if !w.follows {
		w.follows = true
		var ctx context.Context
		ctx, w.end = context.WithCancel(context.Background())
		go s.follow(ctx, w)
	}
	w.wake()
}

// leave ends the wait of a request.
func (s *waits) leave(w *watch, x *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.waiters = slices.DeleteFunc(w.waiters, func(other *waiter) bool { return other == x })
	if len(w.waiters) == 0 {
		w.end()
		delete(s.of, w.id)
		return
	}
	if w.turn == x {
		w.turn = nil
	}
	w.wake()
}

// done ends the turn of a request.
func (s *waits) done(w *watch, x *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.busy, x.tried = false, w.version
	if w.turn == x {
		w.turn = nil
	}
	w.wake()
}

// note tells those who wait for a lock what its document says.
func (s *waits) note(id ID, o observation) {
	o.arrived = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[id]
	if w != nil && w.version > 0 && !o.follows(w.seen) {
		return
	}
	s.own[id].see(o, s.letting())
	if w != nil {
		if o.begun.After(w.signal) {
			w.signals = 0 // it has what the signals were about
		}
		if w.version == 0 || o.differs(w.seen) {
			w.same = 0
		}
		w.seen, w.version, w.outlook = o, w.version+1, nil
		w.early = rand.Float64() / 2
		w.wake()
	}
}

// changed says that others of this process have changed the documents of locks, in a way that is to be read.
func (s *waits) changed(ids ...ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if w := s.of[id]; w != nil {
			w.signalled(0)
			w.wake()
		}
	}
}

// follows reports whether an observation is not older than another. Requests of one process overtake each other.
func (o observation) follows(other observation) bool {
	switch {
	case !o.begun.Before(other.arrived):
		return true // whatever the store's clock does
	case !o.at.Equal(other.at):
		return o.at.After(other.at)
	case o.state.Token != other.state.Token:
		return o.state.Token > other.state.Token
	case o.state.revision != other.state.revision:
		return o.state.revision > other.state.revision
	default:
		return o.state.Phase != Active || other.state.Phase == Active
	}
}

// wake gives the turn to a request that may be granted now, and lets the goroutine that follows the lock see what has
// changed. waits.mu is held.
func (w *watch) wake() {
	w.giveTurn(time.Now())
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// giveTurn gives the turn to the first request that may be granted now and was not sent since the document was seen,
// unless another has it. waits.mu is held.
func (w *watch) giveTurn(now time.Time) {
	if w.turn != nil && now.Before(w.turnEnd) || w.version == 0 {
		return
	}
	for _, x := range w.waiters {
		if !x.waiting || x.busy || x.givenUp || x.tried == w.version || w.lets(x, now) {
			continue
		}
		if again, _ := x.ready(w); again {
			w.turn, w.turnEnd, x.busy = x, now.Add(turnTime), true
			x.turn <- nil
			return
		}
	}
}

func isOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// mayObtain reports whether a request whose wait is over may still obtain the lock, as that was seen last.
func (s *waits) mayObtain(w *watch, x *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := x.acquire
	c.held.over = true
	again, _ := c.ready(w.seen.state, w.seen.when(time.Since(w.seen.arrived)))
	return again
}

// refused is the refusal of a request whose wait is over: as the lock was seen last, if that was after the request was
// sent.
func (s *waits) refused(w *watch, x *waiter, o Outcome) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := w.seen.when(time.Since(w.seen.arrived))
	c := x.acquire
	c.held.over = true
	if again, _ := c.ready(w.seen.state, at); again || at.At.Before(o.At) {
		return o
	}
	if now := c.Refusal(w.seen.state, at); now.waits() {
		now.Waited = o.Waited
		return now
	}
	return o
}

// follow lets those who wait for a lock go when it may be free, and reads its document when there is nothing else to
// learn from.
func (s *waits) follow(ctx context.Context, w *watch) {
	var watched docstore.Watch
	if store, ok := s.store.(docstore.Watcher); ok {
		watched, _ = store.Watch(ctx, w.id.key()) // without it, reads are all there is
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		next.Reset(time.Until(s.decide(w, time.Now())))
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		case <-watched.Changed:
			s.mu.Lock()
			w.complete = watched.Complete != nil && watched.Complete()
			s.says = w.complete
			w.signalled(s.chance())
			s.mu.Unlock()
		case <-next.C:
			if s.due(w, time.Now()) {
				s.look(ctx, w)
			}
		}
	}
}

// decide gives the turn to a request that may be granted now, and returns when to look at the lock again.
func (s *waits) decide(w *watch, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.giveTurn(now)
	if w.turn != nil && now.Before(w.turnEnd) {
		return w.turnEnd
	}
	next := w.nextRead()
	if w.spells != nil && now.Before(w.spells.until) {
		next = earlier(next, w.spells.until)
	}
	return next
}

// due reports whether it is time to read.
func (s *waits) due(w *watch, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (w.turn == nil || !now.Before(w.turnEnd)) && !now.Before(w.nextRead())
}

// nextRead is when the document is to be read. Whatever the clocks show, the store's time is then not before that for
// which a request waits. waits.mu is held.
func (w *watch) nextRead() time.Time {
	rhythm := w.rhythm()
	next := w.seen.arrived.Add(time.Duration((1.25 - w.early) * float64(rhythm)).Truncate(time.Millisecond))
	for _, x := range w.waiters {
		if !x.waiting {
			continue
		}
		if again, ends := x.ready(w); !again && !ends.IsZero() {
			next = earlier(next, w.seen.arrived.Add(max(0, ends.Sub(w.seen.at))))
		}
	}
	next = later(next, w.read.Add(readLeast))
	if w.signals > 0 {
		at := w.read.Add(readSignalled)
		if w.signals > w.ahead() && w.same < fruitless {
			at = w.ask
		}
		next = earlier(next, at)
	}
	return later(next, w.rest)
}

// signalled notes that the document may have changed. chance is how long to wait before it is read, if others contend
// for the lock. waits.mu is held.
func (w *watch) signalled(chance time.Duration) {
	w.signals++
	w.signal = time.Now()
	if !w.contended() {
		chance = 0
	}
	if w.signals == 1 || chance == 0 {
		w.ask = w.signal.Add(chance)
	}
}

// ahead is about how many others are granted the lock before the first of those who wait here. As many changes at
// least, and as many signals where the store gives one for each, come before its turn. waits.mu is held.
func (w *watch) ahead() int {
	least := MaxWaiting
	for _, x := range w.waiters {
		if x.waiting {
			_, _ = x.ready(w)
			least = min(least, x.ahead)
		}
	}
	return least
}

// rhythm is how long after an observation the document is read, if nothing else makes that happen. waits.mu is held.
func (w *watch) rhythm() time.Duration {
	switch {
	case w.complete:
		return readWatched
	case w.seen.state.shared != nil && w.seen.state.shared.family == Rate:
		return readEvery // it is time that brings the next grant
	}
	least := readFree
	if !w.contended() {
		least = readNext * time.Duration(1+w.ahead())
	}
	return min(max(w.seen.lasted()/10, least), readEvery)
}

// look reads the document. An error that another read would meet again is that of everyone who waits.
func (s *waits) look(ctx context.Context, w *watch) {
	begun := time.Now()
	s.mu.Lock()
	if w.signals > 0 {
		w.same++
	}
	w.read, w.signals = begun, 0
	s.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := s.store.Get(reading, w.id.key())
	var state State
	if err == nil {
		state, err = w.id.State(r.Docs[0])
	}
	switch {
	case err == nil:
		s.mu.Lock()
		s.took = (3*s.took + time.Since(begun)) / 4
		s.mu.Unlock()
		s.note(w.id, observation{state: state, at: r.At, margin: r.Margin, begun: begun})
	case errors.Is(err, docstore.ErrDamaged) || errors.Is(err, docstore.ErrClosed):
		s.fail(w, fmt.Errorf("%s: waiting: %w", w.id.key(), err))
	default: // the next read may find out
		s.mu.Lock()
		defer s.mu.Unlock()
		w.rest = time.Now().Add(readEvery)
	}
}

// fail ends all waits.
func (s *waits) fail(w *watch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range w.waiters {
		if x.waiting && !x.busy {
			x.busy = true
			x.turn <- err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// noted is a command that tells those who wait for its lock what it found.
type noted struct {
	command

	id    ID
	begun time.Time
	waits *waits
	queue *queue
	told  func(Outcome) // of what the command handed over; nil: no one is
}

func (l *Locks) noted(ctx context.Context, id ID, c command) noted {
	return noted{c, id, time.Now(), l.waits, &l.queue, l.toldIn(ctx)}
}

// Unwrap implements [rule.Wrapper].
func (c noted) Unwrap() any { return c.command }

// Turn lets the second writes of this process on the lock take turns.
func (c noted) Turn(ctx context.Context) (done func()) { return c.queue.turn(ctx, c.id) }

// Granted is that of the command.
func (c noted) Granted(s State, w rule.When) Outcome {
	c.waits.note(c.id, observation{state: s, at: w.At, margin: w.Margin, begun: c.begun})
	return c.command.Granted(s, w)
}

// Refusal is that of the command.
func (c noted) Refusal(s State, w rule.When) Outcome {
	c.waits.note(c.id, observation{state: s, at: w.At, margin: w.Margin, begun: c.begun})
	return c.command.Refusal(s, w)
}

// Fallback is that of the command, if it has one.
func (c noted) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if second, ok := c.command.(rule.Fallback[State]); ok {
		return second.Fallback(s, w)
	}
	return docstore.Write{}, false
}

// Tries is that of the command.
func (c noted) Tries() int {
	if r, ok := c.command.(rule.Retrier); ok {
		return r.Tries()
	}
	return 1
}

// GrantedFallback is that of the command, if it has one.
func (c noted) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	c.waits.note(c.id, observation{state: after, at: w.At, margin: w.Margin, begun: c.begun})
	tellHandedOver(c.told, c.id, c.command, found, after, w)
	if second, ok := c.command.(rule.FallbackOutcome[State, Outcome]); ok {
		return second.GrantedFallback(found, after, decided, w)
	}
	return c.command.Granted(after, w)
}
