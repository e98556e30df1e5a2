package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/rule"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// epoch is when every world begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tenant is that of all keys.
const tenant = "t"

// kind is what a key is.
type kind uint8

const (
	plain   kind = iota // a lock that one client holds
	fair                // the same, with a line
	permits             // a lock that two hold
	latest              // a lock that each request takes from the one before
	aRun                // runs, one after the other: the next begins when all know that the last has finished
	ids                 // machine IDs
)

// limit is how many may hold a key of the kind at a time.
func (k kind) limit() int {
	if k == permits {
		return 2
	}
	return 1
}

// lines reports whether those who want a key of the kind wait in line.
func (k kind) lines() bool { return k == fair || k == permits }

// op is what a request asks for.
type op uint8

const (
	acquire op = iota
	giveUp
	renew
	release
	write // to the resource that a lock protects, which asks the fence
	finish
)

var opNames = [...]string{"acquire", "give up", "renew", "release", "write", "finish"}

// scene is what a world is made of.
type scene struct {
	keys    []kind
	clients int
	ttl     int64 // of leases, seconds
	// the callers' clocks count: each server has one that is off by up to skew, and knows the time only between two
	// instants; otherwise the store has one clock
	skew  int64 // milliseconds; 0: the store has a clock
	fresh bool  // servers remember nothing between requests
	// how far from the true time the store's clock is set at most, in milliseconds; 0: it goes right. See [granted.least]
	steps    int64
	stepped  fault // which of the faults that is
	settings int   // how often it is set at most; 0: again and again
	// the store comes back older than it was, and knows it: what it forgot is granted again, and no one can say more than
	// that tokens rise, and that all get what they ask for
	older bool
}

// request is a request of a client. Each try is another one.
type request struct {
	op      op
	key     int
	who     int
	call    int       // the number of the try, by client
	id      string    // request_id: the same for every try of one intention
	name    string    // of the lock, the run or the space of machine IDs
	token   int64     //
	expires string    // when the lease expires as far as the client knows
	until   time.Time // not_after
	lease   kazahana.Lease
	at      int64 // the timestamp of a release of a machine ID
	wait    int64 // wait_seconds
	server  int
}

// answer is a response.
type answer struct {
	err   error
	took  int64            // for how long the store's response was on its way
	lease contracts.Lease  // of a lock
	run   analysis.Outcome // of a run
	ids   []kazahana.Lease // of machine IDs
}

// message is a request on its way to a server, or its response on its way back.
type message struct {
	request

	back   bool
	answer *answer // if back
	due    int64   // when it arrives; not in an exploration
	seq    int
	fault  fault // that its execution meets
}

// world is the state of everything. It is copied by an exploration.
type world struct {
	scene   *scene
	now     int64    // milliseconds since epoch
	store   int64    // how far the store's clock is ahead
	set     int      // how often it was set
	forward int64    // when it was set forward last; -1: never
	servers [2]int64 // how far their clocks are ahead, where the callers' clocks count
	docs    *docstore.Memory
	backup  *docstore.Memory // what the store comes back as; nil: nothing yet
	least   int64            // what counters go on from since it came back
	clients []client
	flight  []message
	things  []thing // that are leased, as the judge knows them
	run     []int   // by key: how many runs have finished, as all know
	seq     int
	broken  *Violation

	// of an exploration:
	turn         int    // whose steps are under way, from 1; 0: no one's
	sent         bool   // its last one was to send something
	closing      bool   // nothing more arrives in this second
	copies, sets int    // how many there were
	sum          uint64 // of what the store and the judge know
}

// rig is what carries worlds out: servers, and the store as they see it. One goroutine uses it.
type rig struct {
	w      *world
	scene  *scene
	locks  [2]*lock.Locks
	runs   [2]*runs.Runs
	ids    [2]*machineid.Service
	guard  *lock.Guard
	server int   // that is at work
	calls  int   // of the store, of the command that is carried out
	fault  fault // that the command is to meet
	slow   int64 // for how long the response of the store is on its way, milliseconds
	slept  bool
	again  bool // the store's library sent the write again, after it was applied

	between func() // is called once between two calls of one command
	inside  bool   // it is being called
	handed  []lock.Outcome
	count   *counts
	draw    *rand.Rand // nil in an exploration
	calm    bool       // there are no more faults
	log     *history   // nil: nothing is recorded

	// of an exploration:
	memo     map[uint64]outcome
	answered message // the last answer
	names    []int   // what clients were called when they began; nil: no one asks
}

func newRig(s *scene, c *counts) *rig {
	r := &rig{scene: s, count: c}
	for i := range r.locks {
		r.restart(i)
	}
	r.guard = lock.NewGuard(r, nil)
	return r
}

// restart is a new process in the place of a server.
func (r *rig) restart(server int) {
	r.locks[server] = lock.New(r, &lock.Options{Now: r.watch, HandedOver: func(_ context.Context, o lock.Outcome) {
		r.handed = append(r.handed, o)
	}})
	o := &runs.Options{}
	o.Now = r.watch
	r.runs[server] = runs.New(r, o)
	if !slices.Contains(r.scene.keys, ids) {
		return
	}
	s := machineid.DefaultService()
	s.BitID, s.BitTs = idBits, s.BitTs+s.BitID-idBits
	s.LeaseDuration = r.scene.ttl * 1000
	service, err := machineid.New(r, []machineid.ServiceConfig{s}, &machineid.Options{Now: r.watch})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	r.ids[server] = service
}

// idBits makes a space of machine IDs that is small enough to be full.
const idBits = 3

// newWorld is a world in which nothing has happened yet.
func (r *rig) newWorld() *world {
	s := r.scene
	w := &world{scene: s, clients: make([]client, s.clients), run: make([]int, len(s.keys)), forward: -1}
	w.docs = docstore.NewMemory(&docstore.MemoryOptions{Now: r.storeTime})
	for i := range w.clients {
		w.clients[i].who = i
	}
	return w
}

// watch is the monotonic clock of the server that is at work.
func (r *rig) watch() time.Time {
	now := r.w.now
	if r.slept {
		now += r.slow
	}
	return at(now)
}

// at is a time of a world.
func at(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// storeTime is the time that the store writes: where the callers' clocks count, the latest that it can be.
func (r *rig) storeTime() time.Time {
	if r.scene.skew > 0 {
		return at(r.w.now + r.w.servers[r.server] + r.scene.skew)
	}
	return at(r.w.now + r.w.store)
}

var _ docstore.Store = (*rig)(nil)

// begun is called before each call of the store.
func (r *rig) begun() error {
	r.calls++
	if r.calls == 2 && r.between != nil {
		between := r.between
		r.between = nil
		between()
	}
	if r.fault == throttled {
		r.fault = none
		r.count.faults[throttled]++
		return fmt.Errorf("%w: %w", docstore.ErrUnavailable, docstore.ErrNotWritten)
	}
	return nil
}

// ended is called after each call of the store.
func (r *rig) ended() { r.slept = r.slow > 0 }

// Get implements [docstore.Store].
func (r *rig) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := r.begun(); err != nil {
		return docstore.Snapshot{}, err
	}
	defer r.ended()
	return r.w.docs.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (r *rig) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := r.begun(); err != nil {
		return docstore.Result{}, err
	}
	defer r.ended()
	if r.fault == resent && r.calls == 1 {
		r.fault, r.again = none, true
		r.count.faults[resent]++
		if _, err := r.write(ctx, writes); err != nil {
			return docstore.Result{}, err
		}
	}
	return r.write(ctx, writes)
}

// write is a write by the clock of the store, or by that of the server that is at work.
func (r *rig) write(ctx context.Context, writes []docstore.Write) (docstore.Result, error) {
	if err := r.behind(ctx, writes); err != nil {
		return docstore.Result{}, err
	}
	if r.scene.skew == 0 {
		return r.w.docs.Write(ctx, writes...)
	}
	margin, timed := 2*time.Duration(r.scene.skew)*time.Millisecond, slices.Clone(writes)
	early := make([]bool, len(writes))
	for i := range timed {
		if timed[i].If != nil {
			timed[i].If = dated(timed[i].If, r.storeTime().Add(-margin), false, &early[i])
		}
	}
	res, err := r.w.docs.Write(ctx, timed...)
	for _, i := range res.Refused {
		if early[i] && res.Margin == 0 {
			res.At, res.Margin = res.At.Add(-margin), margin
		}
	}
	return res, err
}

// behind is the error of writes that would be applied, one of which would increase a counter that is behind.
func (r *rig) behind(ctx context.Context, writes []docstore.Write) error {
	if r.w.least == 0 {
		return nil
	}
	keys := make([]docstore.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Key
	}
	snap, err := r.w.docs.Get(ctx, keys...)
	if err != nil {
		return err
	}
	for i, w := range writes {
		if !w.Holds(snap.Docs[i], snap.At) {
			return nil
		}
	}
	for i, w := range writes {
		if behind := w.Behind(r.w.least, snap.Docs[i]); behind != nil {
			return behind
		}
	}
	return nil
}

// stepped sets the store's clock: to the true time, as far off as it is set in this world, or to anything between.
func (r *rig) stepped() {
	w, most := r.w, r.scene.steps
	off := r.draw.Int64N(2*most+1) - most
	switch r.draw.IntN(4) {
	case 0:
		off = most
	case 1:
		off = -most
	case 2:
		if w.set > 0 {
			off = 0
		}
	}
	if w.set++; off > w.store {
		w.forward = w.now
	}
	w.store = off
	r.count.faults[r.scene.stepped]++
	r.log.world(w, fmt.Sprintf("the clock of the store is set: %+.3f s off", float64(off)/1000))
}

// comesBack makes a backup of the store, or lets the store come back as it was at the last one.
func (r *rig) comesBack() (older bool) {
	w := r.w
	if w.backup == nil || r.draw.IntN(2) == 0 {
		w.backup = w.docs.Fork(r.storeTime)
		return false
	}
	w.docs, w.least = w.backup.Fork(r.storeTime), r.storeTime().UnixMicro()
	return true
}

// dated is a condition in which the earliest that the time can be has its value, see [docstore.Instant.Early].
func dated(c docstore.Cond, earliest time.Time, negated bool, early *bool) docstore.Cond {
	each := func(cs []docstore.Cond) []docstore.Cond {
		out := make([]docstore.Cond, len(cs))
		for i, c := range cs {
			out[i] = dated(c, earliest, negated, early)
		}
		return out
	}
	switch c := c.(type) {
	case docstore.Any:
		return docstore.Any(each(c))
	case docstore.All:
		return docstore.All(each(c))
	case docstore.Not:
		return docstore.Not{Cond: dated(c.Cond, earliest, !negated, early)}
	case docstore.LE:
		if i, ok := c.Value.(docstore.Instant); ok && i.Early(negated) {
			*early = true
			return docstore.LE{Field: c.Field, Value: i.At(earliest)}
		}
	}
	return c
}

// List implements [docstore.Store].
func (r *rig) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return r.w.docs.List(ctx, q)
}

// Close implements [docstore.Store].
func (r *rig) Close() error { return nil }

// serve carries a request out at its server, and returns the response.
func (r *rig) serve(m *message) *answer {
	outer := *r
	r.server, r.calls, r.fault, r.slept, r.handed, r.again, r.slow = m.server, 0, m.fault, false, nil, false, 0
	if m.fault == slowStore {
		r.slow = r.scene.ttl * 1200
		r.count.faults[slowStore]++
	}
	if r.scene.fresh {
		r.restart(m.server)
	}
	r.count.operations++
	a := r.carryOut(&m.request)
	a.took = r.slow
	r.server, r.calls, r.fault, r.slept = outer.server, outer.calls, outer.fault, outer.slept
	r.handed, r.between, r.slow, r.again = outer.handed, nil, outer.slow, outer.again
	if m.fault == appliedThenError {
		r.count.faults[appliedThenError]++
		return &answer{err: unavailable}
	}
	return a
}

var unavailable = contracts.Errorf(contracts.CodeUnavailable, "the store failed")

// carryOut calls the rule that a request is for.
func (r *rig) carryOut(q *request) *answer {
	switch r.scene.keys[q.key] {
	case aRun:
		return r.onRun(q)
	case ids:
		return r.onIDs(q)
	default:
		return r.onLock(q)
	}
}

// lock is that of the request.
func (q *request) lock() lock.ID { return lock.ID{Tenant: tenant, Key: q.name} }

// owner is the name of a client.
func owner(who int) string { return "c" + strconv.Itoa(who+1) }

// asks is the acquire of the contract that a client sends.
func (q *request) asks(k kind, ttl int64) contracts.AcquireRequest {
	a := contracts.AcquireRequest{OwnerID: owner(q.who), RequestID: q.id, TTLSeconds: ttl,
		GiveUp: contracts.GiveUp(q.op == giveUp), NotAfter: q.until.Format(contracts.TimeFormat)}
	if k.lines() {
		a.WaitSeconds, a.Fair = q.wait, k == fair
	}
	a.Replace = k == latest
	if k == permits {
		a.Mode, a.Limit = contracts.LockModePermits, int64(k.limit())
	}
	return a
}

// onLock carries out a request about a lock.
func (r *rig) onLock(q *request) *answer {
	var (
		ctx = context.Background()
		l   = r.locks[q.server]
		k   = r.scene.keys[q.key]
		o   lock.Outcome
		err error
	)
	switch q.op {
	case acquire, giveUp:
		var c lock.Acquire
		if c, err = direct.Acquire(q.lock(), q.asks(k, r.scene.ttl)); err != nil {
			break
		}
		if c.LeaseID = q.id; q.op == giveUp {
			if o, err = l.GiveUp(ctx, lock.GiveUp{Acquire: c}); err == nil {
				err = direct.GaveUp(o)
				r.gaveUp(q, o)
			}
			return &answer{err: err}
		}
		if o, err = l.AcquireWithin(ctx, c, 0); err == nil {
			r.acquired(q, c, o)
		}
	case renew:
		var c lock.Renew
		if c, err = direct.Renew(q.lock(), contracts.RenewRequest{OwnerID: owner(q.who), RequestID: q.id,
			FencingToken: q.token, TTLSeconds: r.scene.ttl, ExpiresAt: q.expires}); err != nil {
			break
		}
		if o, err = l.Renew(ctx, c); err == nil {
			r.renewed(q, o)
		}
	case release, finish:
		o, err = l.Release(ctx, direct.Release(q.lock(), contracts.ReleaseRequest{OwnerID: owner(q.who), RequestID: q.id,
			FencingToken: q.token}))
		if err == nil {
			r.released(q, o)
			_, err = direct.EndedLease(o)
		}
		return &answer{err: coded(err)}
	case write:
		c := lock.Fence{Tenant: tenant, Resource: q.name, Lease: fencing.OfLock(q.name, 0, q.token)}
		o, err := r.guard.Check(ctx, c)
		if err == nil {
			r.wrote(q, o.Passed)
			err = direct.FenceRejection(c, o)
		}
		return &answer{err: coded(err)}
	}
	if err != nil {
		return &answer{err: coded(err)}
	}
	got, err := direct.Lease(o)
	return &answer{lease: got, err: err}
}

// coded is an error as a client gets it from a server.
func coded(err error) error {
	switch {
	case errors.Is(err, docstore.ErrUnavailable):
		return fmt.Errorf("%w: %w", contracts.CodeUnavailable, err)
	case errors.Is(err, docstore.ErrDamaged):
		return fmt.Errorf("%w: %w", contracts.CodeDocumentDamaged, err)
	default:
		return err
	}
}

// onRun carries out a request about a run.
func (r *rig) onRun(q *request) *answer {
	var (
		ctx = context.Background()
		id  = runs.ID{Tenant: tenant, ID: q.name}
		s   = r.runs[q.server]
		o   analysis.Outcome
		err error
	)
	switch q.op {
	case acquire, giveUp:
		c := runs.Begin{ID: id, End: rule.End{NotAfter: q.until}, Owner: owner(q.who), RequestID: q.id,
			TTLSeconds: r.scene.ttl}
		if q.op == giveUp {
			o, err = s.GiveUp(ctx, c)
		} else {
			o, err = s.Begin(ctx, c)
		}
	case renew:
		o, err = s.Refresh(ctx, runs.Refresh{ID: id, Owner: owner(q.who), Token: q.token, TTLSeconds: r.scene.ttl})
	case release:
		o, err = s.Release(ctx, runs.Release{ID: id, Owner: owner(q.who), Token: q.token})
	case finish:
		o, err = s.Finish(ctx, runs.Finish{ID: id, Owner: owner(q.who), Token: q.token, Status: analysis.Ready,
			Result: strconv.FormatInt(q.token, 10)})
	case write: // what a run writes to has a fence, too
		c := lock.Fence{Tenant: tenant, Resource: q.name, Lease: fencing.OfRun(q.name, q.token)}
		f, err := r.guard.Check(ctx, c)
		if err == nil {
			r.wrote(q, f.Passed)
			err = direct.FenceRejection(c, f)
		}
		return &answer{err: coded(err)}
	}
	if err != nil {
		return &answer{err: coded(err)}
	}
	r.ran(q, o)
	if a := (&answer{run: o}); o.Code == analysis.OK || o.Code == analysis.Locked && q.op == acquire ||
		o.Code == analysis.AlreadyFinished && q.op == acquire {
		return a
	}
	return &answer{run: o, err: direct.NoRun(o, "run_id")}
}

// onIDs carries out a request about machine IDs.
func (r *rig) onIDs(q *request) *answer {
	ctx, s := context.Background(), r.ids[q.server]
	if q.op == acquire {
		got, err := s.Acquire(ctx, kazahana.AcquireOptions{NotAfter: q.until})
		r.leased(q, got.Leases, err)
		return &answer{ids: got.Leases, err: coded(err)}
	}
	end, err := s.End(ctx, kazahana.ReleaseOptions{ID: q.lease.ID, Timestamp: q.at,
		Signature: kazahana.Sign(q.lease.Secret, q.lease.ID, q.at)})
	if err == nil {
		r.returned(q, end)
	}
	return &answer{err: coded(err)}
}
