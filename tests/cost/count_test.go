package cost

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/internal/price"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// metered is a store that can be asked what it was used for. A store with two editions has two meters.
type metered struct {
	docstore.Store

	watched bool           // it signals changes
	usage   docstore.Meter // the store itself, if it counts what is billed
	clock   *suite.Clock
	reset   func()
	meters  []gauge
}

// meter returns a store with its meters.
func meter(s docstore.Store, clock *suite.Clock, reset func(), gauges ...gauge) *metered {
	_, watched := s.(docstore.Watcher)
	usage, _ := s.(docstore.Meter)
	return &metered{s, watched, usage, clock, reset, gauges}
}

type gauge struct {
	name    string
	bill    *price.Billing
	read    func() Usage
	entries func() Entries // nil: see Counted
}

func sum(of map[string]int) float64 {
	n := 0
	for _, v := range of {
		n += v
	}
	return float64(n)
}

func closing[S interface{ Close() error }](t *testing.T, s S) S {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func onDynamoDB(t *testing.T) *metered {
	t.Helper()
	clock, server := suite.NewClock(), dynamodbtest.Start(t, nil)
	client := sdk.New(sdk.Options{
		Region: "local", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("local",
			"local", ""),
		HTTPClient: http.DefaultClient,
	})
	s, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{
		Client: client, CreateTable: true, Indexes: []string{analysis.ExpiryField}, MaxSkew: awsdynamodb.TrustClock,
		Now: clock.Now, CountUnits: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return meter(closing(t, s), clock, server.ResetCounts, gauge{name: price.DynamoDB.Name, bill: &price.DynamoDB,
		read: func() Usage {
			u := server.Consumed()
			return Usage{sum(server.Requests()), u.Write, u.Read}
		}})
}

// indexed counts the entries of the index of the sweep, which the Enterprise edition bills.
type indexed struct {
	docstore.Store

	entries int
}

// Write implements [docstore.Store].
func (s *indexed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	if r.Applied {
		for _, w := range writes {
			if _, sets := w.Set[analysis.ExpiryField]; w.Key.Kind == analysis.Kind && sets {
				s.entries++
			}
		}
	}
	return r, err
}

func onFirestore(t *testing.T) *metered {
	t.Helper()
	clock := suite.NewClock()
	server := firestoretest.Start(t, &firestoretest.Options{Now: clock.Now})
	s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{Project: "costs",
		ClientOptions: server.ClientOptions()})
	if err != nil {
		t.Fatal(err)
	}
	x := &indexed{Store: closing(t, s)}
	indexes := indexesOf(t, server)
	reset := func() {
		server.ResetCounts()
		x.entries, indexes.n = 0, Entries{}
	}
	m := meter(s, clock, reset,
		gauge{name: price.FirestoreStandard.Name, bill: &price.FirestoreStandard, read: func() Usage {
			reads, writes := server.Billed()
			return Usage{sum(server.Counts()), float64(writes), float64(reads)}
		}, entries: func() Entries { return indexes.n }},
		gauge{name: price.FirestoreEnterprise.Name, bill: &price.FirestoreEnterprise, read: func() Usage {
			reads, writes := server.Units()
			return Usage{sum(server.Counts()), float64(writes + x.entries), float64(reads)}
		}},
	)
	m.Store, m.usage = x, s
	return m
}

func onRedis(t *testing.T) *metered {
	t.Helper()
	clock, server := suite.NewClock(), redistest.StandIn(t)
	s, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: server.URL(), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return meter(closing(t, s), clock, server.ResetCommands, gauge{name: "Redis", read: func() Usage {
		// A script that the server does not know is sent once more, as EVAL: the first write of each shape costs that, and no
		// other.
		return Usage{Requests: float64(server.Commands()["EVALSHA"])}
	}})
}

// commits counts the transactions that write: each is one sync of the file, or a part of one that it shares with
// others.
type commits struct {
	docstore.Store

	n int
}

// Write implements [docstore.Store].
func (s *commits) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	if r.Applied {
		s.n++
	}
	return r, err
}

func onSQLite(t *testing.T) *metered {
	t.Helper()
	clock := suite.NewClock()
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "costs.db"), &sqlitestore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := &commits{Store: closing(t, s)}
	m := meter(s, clock, func() { c.n = 0 },
		gauge{name: "SQLite", read: func() Usage { return Usage{Requests: float64(c.n)} }})
	m.Store = c
	return m
}

// stores are those that are counted, in the order of the tables.
var stores = []func(*testing.T) *metered{onDynamoDB, onFirestore, onRedis, onSQLite}

// program is what is counted: a tenant, keys and owners as they are in production, and UUIDs as request IDs.
type program struct {
	t        *testing.T
	s        *metered
	locks    *lock.Locks
	requests int
}

const (
	tenant = "acme-production"
	owner  = "ci-runner-7f3d9c2b"
	other  = "ci-runner-51ab08e4"
)

func key(name string) lock.ID { return lock.ID{Tenant: tenant, Key: "deploy/" + name} }

func (p *program) request() string {
	p.requests++
	return fmt.Sprintf("%08d-3b1f-4c55-9d2e-8a6f00c1d2e3", p.requests)
}

func (p *program) must(o lock.Outcome, err error, want lock.Code) lock.Outcome {
	p.t.Helper()
	if err != nil || o.Code != want {
		p.t.Fatalf("%s %v, want %s", o.Code, err, want)
	}
	return o
}

func (p *program) acquire(name, who string, with lock.Acquire, want lock.Code) lock.Outcome {
	p.t.Helper()
	with.ID, with.Owner, with.RequestID, with.TTLSeconds = key(name), who, p.request(), 60
	o, err := p.locks.Acquire(p.t.Context(), with)
	return p.must(o, err, want)
}

func (p *program) release(name, who string, token int64) {
	p.t.Helper()
	o, err := p.locks.Release(p.t.Context(), lock.Release{ID: key(name), Owner: who, RequestID: p.request(), Token: token})
	p.must(o, err, lock.OK)
}

func (p *program) renew(name, who string, o lock.Outcome) lock.Outcome {
	p.t.Helper()
	o, err := p.locks.Renew(p.t.Context(), lock.Renew{
		ID: key(name), Owner: who, RequestID: p.request(), Token: o.Lease.Token, TTLSeconds: 60, ExpiresAt: o.Lease.ExpiresAt,
	})
	return p.must(o, err, lock.OK)
}

func (p *program) look(name string) {
	p.t.Helper()
	if _, found, err := p.locks.Get(p.t.Context(), key(name)); err != nil || !found {
		p.t.Fatal(found, err)
	}
}

// used uses a lock until it remembers as much as it can.
func (p *program) used(name string, with lock.Acquire) {
	p.t.Helper()
	for range 12 {
		p.s.clock.Advance(time.Second)
		o := p.acquire(name, owner, with, lock.OK)
		for range 5 {
			o = p.renew(name, owner, o)
		}
		p.release(name, owner, o.Lease.Token)
	}
}

// measured counts a step.
func (p *program) measured(into []Counted, operation string, step func()) {
	p.t.Helper()
	var before docstore.Billed
	if p.s.usage != nil {
		before = p.s.usage.Usage().Billed
	}
	p.s.reset()
	step()
	if before.Known { // what operators see must be what is on this page
		after, bill := p.s.usage.Usage().Billed, p.s.meters[0].read()
		if reads, writes := after.Reads-before.Reads, after.Writes-before.Writes; reads != bill.Reads ||
			writes != bill.Writes {
			p.t.Errorf("%s, %s: the store counts %v reads and %v writes, the service bills %v and %v", p.s.meters[0].name,
				operation, reads, writes, bill.Reads, bill.Writes)
		}
	}
	for i, m := range p.s.meters {
		into[i].Usage[operation] = m.read()
		if m.entries != nil {
			into[i].Entries[operation] = m.entries()
		}
	}
}

// count counts every operation on a store.
func count(t *testing.T, s *metered) []Counted {
	t.Helper()
	var into []Counted
	for _, m := range s.meters {
		c := Counted{Store: m.name, Bill: m.bill, Usage: map[string]Usage{}}
		if m.entries != nil {
			c.Entries = map[string]Entries{}
		}
		into = append(into, c)
	}
	p := &program{t: t, s: s, locks: lock.New(s, nil)}
	plain, shared := lock.Acquire{}, lock.Acquire{Mode: lock.Shared}

	p.used("web", plain)
	p.measured(into, Cycle, func() { p.release("web", owner, p.acquire("web", owner, plain, lock.OK).Lease.Token) })
	held := p.acquire("web", owner, plain, lock.OK)
	p.measured(into, Renew, func() { p.renew("web", owner, held) })
	p.measured(into, Held, func() { p.acquire("web", other, plain, lock.Held) })
	p.measured(into, Look, func() { p.look("web") })
	s.clock.Advance(2 * time.Minute)
	p.measured(into, Expired, func() { held = p.acquire("web", other, plain, lock.OK) })

	beside := p.acquire("dataset", other, shared, lock.OK)
	p.measured(into, SharedCycle, func() {
		p.release("dataset", owner, p.acquire("dataset", owner, shared, lock.OK).Lease.Token)
	})
	p.measured(into, SharedRenew, func() { p.renew("dataset", other, beside) })
	p.measured(into, SharedHeld, func() { p.acquire("dataset", owner, plain, lock.Held) })

	p.countSets(into)
	p.countRuns(into)
	p.countMachineIDs(into)
	return into
}

func (p *program) countSets(into []Counted) {
	p.t.Helper()
	names := []string{"a", "b", "c"}
	var keys []string
	for _, n := range names {
		p.used(n, lock.Acquire{})
		keys = append(keys, key(n).Key)
	}
	p.measured(into, SetCycle, func() {
		o, err := p.locks.AcquireSet(p.t.Context(), lock.AcquireSet{Tenant: tenant, Keys: keys, Owner: owner,
			RequestID: p.request(), TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			p.t.Fatal(o, err)
		}
		var leases []lock.SetLease
		for _, l := range o.Leases {
			leases = append(leases, lock.SetLease{Key: l.Key, Token: l.Token})
		}
		o, err = p.locks.ReleaseSet(p.t.Context(), lock.ReleaseSet{Tenant: tenant, Leases: leases, Owner: owner,
			RequestID: p.request()})
		if err != nil || o.Code != lock.OK {
			p.t.Fatal(o, err)
		}
	})
}

func (p *program) countRuns(into []Counted) {
	p.t.Helper()
	analyses := analysis.New(p.s, nil)
	done := func(o analysis.Outcome, err error, want analysis.Code) analysis.Outcome {
		p.t.Helper()
		if err != nil || o.Code != want {
			p.t.Fatalf("%s %v, want %s", o.Code, err, want)
		}
		return o
	}
	next := func() analysis.ID { return analysis.ID(p.request()) }
	create := func(id analysis.ID) {
		p.t.Helper()
		o, err := analyses.Create(p.t.Context(), analysis.Create{ID: id})
		done(o, err, analysis.OK)
	}
	acquire := func(id analysis.ID, want analysis.Code) analysis.Outcome {
		p.t.Helper()
		o, err := analyses.Acquire(p.t.Context(), analysis.Acquire{ID: id, Owner: owner, RequestID: p.request(),
			TTLSeconds: 300})
		return done(o, err, want)
	}
	finish := func(id analysis.ID, token int64) {
		p.t.Helper()
		o, err := analyses.Finish(p.t.Context(), analysis.Finish{ID: id, Owner: owner, Token: token, Status: analysis.Ready})
		done(o, err, analysis.OK)
	}
	id := next()
	create(id)
	p.measured(into, Run, func() { finish(id, acquire(id, analysis.OK).Grant.Token) })
	p.measured(into, Finished, func() { acquire(id, analysis.AlreadyFinished) })
	id = next()
	create(id)
	g := acquire(id, analysis.OK).Grant
	p.s.clock.Advance(time.Minute)
	p.measured(into, Refresh, func() {
		o, err := analyses.Refresh(p.t.Context(), analysis.Refresh{ID: id, Owner: owner, Token: g.Token, TTLSeconds: 300})
		done(o, err, analysis.OK)
	})
	p.measured(into, Running, func() { acquire(id, analysis.Locked) })
}

// countMachineIDs counts a lease of a space of which each page has one machine ID left: pages are as large as they
// become, and whichever an acquire chooses, it finds one there. With fewer leased the requests are the same; with more,
// an acquire may have to look at all pages.
func (p *program) countMachineIDs(into []Counted) {
	p.t.Helper()
	ids := machineid.NewDefault(p.s, nil)
	lease := func(n int64) []kazahana.Lease {
		p.t.Helper()
		r, err := ids.Acquire(p.t.Context(), kazahana.AcquireOptions{
			ThroughputPerMs: n * kazahana.DefaultLayout().Throughput()})
		if err != nil {
			p.t.Fatal(err)
		}
		return r.Leases
	}
	const page = 128
	last := make(map[int64]kazahana.Lease)
	for leased, all := int64(0), 1+kazahana.DefaultLayout().MaxMachineID(); leased < all; {
		for _, l := range lease(page / 2) {
			last[l.ID/page] = l
			leased++
		}
		p.s.clock.Advance(time.Second) // they are not all of one moment
	}
	for _, l := range last {
		at := p.s.clock.Now().UnixMilli()
		if err := ids.Release(p.t.Context(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: at,
			Signature: kazahana.Sign(l.Secret, l.ID, at)}); err != nil {
			p.t.Fatal(err)
		}
	}
	p.s.clock.Advance(time.Second)
	p.measured(into, MachineIDs, func() { lease(1) })
}

// How often something is sent to a store, at most. The intervals vary at random.
const (
	leasesAnHour   = 8  // of machine IDs, by one generator
	readsAMinute   = 60 // while requests wait for one lock on one server
	watchedAMinute = 12 // the same on a store that signals changes
)

// counting counts calls that read.
type counting struct {
	docstore.Store

	gets, writes atomic.Int64
}

// Get implements [docstore.Store].
func (s *counting) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (s *counting) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.writes.Add(1)
	return s.Store.Write(ctx, writes...)
}

// watching is the same on a store that signals changes.
type watching struct {
	*counting
	docstore.Watcher
}

// TestRepeated: what is sent while time passes, which the tables multiply, is sent that often at most, and not much
// less often.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(suite.Epoch)) // a bubble begins in 2000
		memory := docstore.NewMemory(nil)
		leases, read, watched := &counting{Store: memory}, &counting{Store: memory}, &counting{Store: memory}
		g, err := kazahana.New(machineid.NewDefault(leases, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		leases.writes.Store(0)
		time.Sleep(24 * time.Hour) // in the bubble
		for _, c := range []struct {
			what      string
			got, most int64
		}{
			{"leases of machine IDs in a day", leases.writes.Load(), 24 * leasesAnHour},
			{"reads of a lock in an hour", waiting(t, read, read), 60 * readsAMinute},
			{"reads of a lock in an hour, on a store that signals changes", waiting(t, watching{watched, memory}, watched),
				60 * watchedAMinute},
		} {
			t.Logf("%s: %d", c.what, c.got)
			if c.got > c.most || 10*c.got < 7*c.most {
				t.Errorf("%s: %d, want %d at most, and not much less", c.what, c.got, c.most)
			}
		}
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// waiting lets ten requests wait for a lock for an hour, and returns how many reads that took.
func waiting(t *testing.T, store docstore.Store, counted *counting) int64 {
	t.Helper()
	locks := lock.New(store, nil)
	id := lock.ID{Tenant: tenant, Key: fmt.Sprintf("%T", store)}
	if o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: "r",
		TTLSeconds: 7200}); err != nil || o.Code != lock.OK {
		t.Fatal(o, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	for i := range 10 {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = locks.AcquireWithin(ctx, lock.Acquire{
					ID: id, Owner: other, RequestID: fmt.Sprint("w", i, "-", n), TTLSeconds: 60, WaitSeconds: lock.MaxWaitSeconds,
				}, time.Hour)
			}
		}()
	}
	time.Sleep(time.Minute)
	counted.gets.Store(0)
	time.Sleep(time.Hour)
	reads := counted.gets.Load()
	stop()
	synctest.Wait()
	return reads
}
