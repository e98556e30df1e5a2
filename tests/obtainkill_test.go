//go:build unix

package tests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/prove"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestWhatIsFreeIsObtainedOfProcesses (LS-ACQ-002): two processes of `leasehold serve` on one store, and programs of
// callers in all modes. One server is killed by SIGKILL while a hundred requests wait for one lock through it, half of
// them behind a front end that keeps the connections of callers who left; then in half of the programs the other one is
// stopped by SIGTERM. Each caller who is still there is served. When all have gone, one who asks once gets what no one
// holds: each kind of grant, a set of all its keys, a lock after a force-release. What was given up obtains nothing,
// and no two hold a lock at a time. OBTAIN_SEED repeats the choices of a run.
func TestWhatIsFreeIsObtainedOfProcesses(t *testing.T) {
	t.Parallel()
	first := seedOf(t, "OBTAIN_SEED")
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			if name != "sqlite" {
				suite.EveryStore(t)
			}
			t.Parallel()
			for seed := range suite.AtDepth(uint64(1), 4) {
				seed += first
				t.Run(fmt.Sprint("OBTAIN_SEED=", seed), func(t *testing.T) {
					t.Parallel()
					env, args := backend(t)
					c := &crowd{
						t: t, random: rand.New(rand.NewPCG(seed, 0)), begin: time.Now(), one: name != "dynamodb",
						gaveUp: map[string]bool{}, obtained: map[string]bool{},
					}
					for n := range c.servers {
						c.servers[n] = c.serverAt(env, args)
					}
					c.play(t.Context(), c.program())
				})
			}
		})
	}
}

const (
	shortTTL  = 1  // seconds, of those who say nothing more once they have a lock
	longTTL   = 60 // seconds, of those who release it
	shortGap  = 1  // seconds, of a lock delay
	oneTenant = "acme"

	// longest is how long the store may say that what the dead left keeps a lock closed: a place in line, or a lease and
	// its delay, and how far clocks on DynamoDB may be apart.
	longest = lock.MaxWaitSeconds*time.Second + lock.PlaceTime + 2*time.Second

	// mostRefusals bounds how often one who is still there is refused once faults have stopped. The pauses between them
	// make it a time that is far beyond that in which all leases and places of the dead end.
	mostRefusals = 400
)

// manner is a way in which all who want one lock ask for it.
type manner struct {
	name  string
	lines bool                     // they wait in line
	hold  contracts.AcquireRequest // what the first ones have
	ask   func(*rand.Rand) contracts.AcquireRequest
}

func always(r contracts.AcquireRequest) func(*rand.Rand) contracts.AcquireRequest {
	return func(*rand.Rand) contracts.AcquireRequest { return r }
}

// manners are those of a lock with so many permits, and of whose readers one in so many is a writer. After a kill the
// first two are soon free, however many waited, because many hold them together: of the others each has its turn, until
// their places have ended.
func manners(limit int64, writers int) []manner {
	plain, fair := contracts.AcquireRequest{}, contracts.AcquireRequest{Fair: true}
	shared := contracts.AcquireRequest{Mode: contracts.LockModeShared}
	permits := contracts.AcquireRequest{Mode: contracts.LockModePermits, Limit: limit}
	rate := contracts.AcquireRequest{Mode: contracts.LockModeRate, Limit: 2, WindowSeconds: 1}
	replace := contracts.AcquireRequest{Replace: true}
	return []manner{
		{"readers and writers", true, fair, func(r *rand.Rand) contracts.AcquireRequest {
			if r.IntN(writers) == 0 {
				return fair
			}
			return shared
		}},
		{"permits", true, permits, always(permits)},
		{"not in line", false, plain, always(plain)},
		{"in line", true, fair, always(fair)},
		{"a rate", true, rate, always(rate)},
		{"the latest", false, replace, always(replace)},
		{"whatever", true, plain, func(r *rand.Rand) contracts.AcquireRequest {
			all := []contracts.AcquireRequest{plain, fair, shared, permits, replace}
			return all[r.IntN(len(all))]
		}},
	}
}

// fate is what becomes of a caller.
type fate int

const (
	dies    fate = iota // with the server that it waits at
	leaves              // before it is served; the server sees that
	left                // the same behind the front end: the server sees nothing
	givesUp             // behind the front end, and says so
	stays               // until it is served
)

// asker is a caller that waits for a lock.
type asker struct {
	key     string
	request contracts.AcquireRequest
	fate    fate
	server  int  // that it asks first
	behind  bool // the front end of that server
	forgets bool // says nothing more once it is served
}

// contested is a lock that some hold, and more wait for.
type contested struct {
	key, manner string
	holders     []asker // they forget it, or release it, when a server was killed
	askers      []asker
}

// String says for the reports of failures what the lock has been through.
func (l contested) String() string {
	var fates [stays + 1]int
	for _, a := range l.askers {
		fates[a.fate]++
	}
	return fmt.Sprintf("%s (%s: %d died with their server, %d left, %d left behind the front end, %d gave up, %d stayed)",
		l.key, l.manner, fates[dies], fates[leaves], fates[left], fates[givesUp], fates[stays])
}

// program draws what happens to some locks. A hundred callers wait for the first one at the server that is killed.
func (c *crowd) program() []contested {
	var all []contested
	minor := suite.AtDepth(7, 12)
	for n := range 1 + minor {
		dying, others, limit, writers := suite.AtDepth(1+c.random.IntN(2), 3), suite.AtDepth(1, 2), int64(1+c.random.IntN(3)),
			3
		if n == 0 {
			dying, others, limit, writers = 100, suite.AtDepth(0, 4*c.random.IntN(2)), 50, suite.AtDepth(200, 3)
		}
		ways := manners(limit, writers)
		if n == 0 {
			ways = ways[:suite.AtDepth(2, len(ways))]
		}
		// A set that is refused writes nothing, so that no one in line has a turn: it waits until the last place has ended.
		if n >= firstOfSet && suite.AtDepth(true, false) {
			ways = slices.DeleteFunc(ways, func(m manner) bool { return m.lines })
		}
		m := ways[c.random.IntN(len(ways))]
		l := contested{key: fmt.Sprint("k", n), manner: m.name}
		forgotten := c.random.IntN(2) == 0
		for range max(1, m.hold.Limit) {
			h := asker{key: l.key, request: c.named(m.hold, longTTL*60), server: 1, forgets: forgotten}
			l.holders = append(l.holders, h)
		}
		add := func(times int, f fate, server int) {
			for range times {
				a := asker{key: l.key, request: m.ask(c.random), fate: f, server: server}
				a.behind = f == left || f == givesUp || f != leaves && c.random.IntN(2) == 0
				a.forgets = f != stays || c.random.IntN(3) == 0
				ttl := int64(longTTL)
				if a.forgets {
					ttl = shortTTL
				}
				a.request.WaitSeconds = lock.MaxWaitSeconds
				a.request = c.named(a.request, ttl)
				l.askers = append(l.askers, a)
			}
		}
		add(dying, dies, 0)
		add(1+c.random.IntN(2), leaves, 1)
		add(1, left, 1)
		add(1+c.random.IntN(3), givesUp, 1)
		if n%2 == 0 {
			add(others, stays, c.random.IntN(2))
		}
		all = append(all, l)
	}
	return all
}

// named is the request of a new owner.
func (c *crowd) named(r contracts.AcquireRequest, ttl int64) contracts.AcquireRequest {
	c.owners++
	r.OwnerID, r.RequestID = fmt.Sprint("owner ", c.owners), "first"
	if r.Mode != contracts.LockModeRate {
		r.TTLSeconds = ttl
		if c.random.IntN(4) == 0 {
			r.LockDelaySeconds = shortGap
		}
	}
	return r
}

// crowd are the callers of two servers.
type crowd struct {
	t       *testing.T
	random  *rand.Rand // of the test's own goroutine
	begin   time.Time
	one     bool // the store has one clock, to the millisecond
	servers [2]*serverAt
	owners  int
	calm    atomic.Bool // no more faults
	turn    atomic.Int64

	mu               sync.Mutex
	grants           []*grantSeen
	gaveUp, obtained map[string]bool // owners behind a front end: told that it is given up, and granted a lock
}

// serverAt is a server that is ended and started again where it was.
type serverAt struct {
	env, args       []string
	url, metrics    string
	process         *process
	front           *httptest.Server
	direct, through *client.LockAPI // each request is sent once
	commands        *client.LockAPI
	sent, answered  atomic.Int64
}

func (c *crowd) serverAt(env, args []string) *serverAt {
	c.t.Helper()
	address, metrics := fmt.Sprintf("127.0.0.1:%d", freePort(c.t)), fmt.Sprintf("127.0.0.1:%d", freePort(c.t))
	s := &serverAt{
		env: env, url: "http://" + address, metrics: "http://" + metrics + "/metrics",
		args: append([]string{
			"serve", "--listen", address, "--metrics-listen", metrics,
		}, args...),
	}
	s.front = httptest.NewServer(keepsConnections(s.url, c.told))
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	locks := func(url string, tries int) *client.LockAPI {
		cl, err := client.New(url, &client.Options{HTTP: hc, Tries: tries})
		if err != nil {
			c.t.Fatal(err)
		}
		return cl.LockAPI()
	}
	s.direct, s.through, s.commands = locks(s.url, 1), locks(s.front.URL, 1), locks(s.url, 0)
	s.start(c.t)
	return s
}

func (s *serverAt) start(t *testing.T) {
	t.Helper()
	s.process = launch(t, s.env, s.args...)
}

// stop ends the server as its host does, and waits until it is gone.
func (s *serverAt) stop(t *testing.T) {
	t.Helper()
	s.process.terminate(t)
	s.process.stops(t)
}

var requestsWaiting = regexp.MustCompile(`(?m)^leasehold_requests_waiting{[^}]*leasehold_what="locks"[^}]*} (\d+)$`)

// settled waits until that many requests at least were sent to the server, and each of them waits there or was
// answered.
func (s *serverAt) settled(ctx context.Context, t *testing.T, least int64) (waiting int64) {
	t.Helper()
	for ctx.Err() == nil {
		// Those that were answered before are not among those that wait, and none is sent that this does not count.
		answered := s.answered.Load()
		waiting = 0
		if m := requestsWaiting.FindStringSubmatch(page(t, s.metrics)); m != nil {
			waiting, _ = strconv.ParseInt(m[1], 10, 64)
		}
		if sent := s.sent.Load(); sent >= least && answered+waiting >= sent {
			return waiting
		}
		pauseFor(ctx, 20*time.Millisecond)
	}
	t.Fatalf("of %d requests %d were sent, %d were answered, and %d wait", least, s.sent.Load(), s.answered.Load(),
		waiting)
	return 0
}

// told is what a front end saw.
func (c *crowd) told(request, response []byte) {
	var r contracts.AcquireRequest
	var l contracts.Lease
	if json.Unmarshal(request, &r) != nil || json.Unmarshal(response, &l) != nil || r.WaitSeconds == 0 ||
		l.FencingToken == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.obtained[r.OwnerID] = true
}

// play carries out a program.
func (c *crowd) play(test context.Context, program []contested) {
	t := c.t
	ctx, end := context.WithTimeout(test, failAfter)
	leaving, leave := context.WithCancel(ctx)
	var dying, leavers, staying sync.WaitGroup
	defer func() { // with the servers, so that no connection is kept
		end()
		for _, s := range c.servers {
			_ = s.process.cmd.Process.Kill()
			s.front.Close()
		}
		dying.Wait()
		leavers.Wait()
		staying.Wait()
	}()
	killed, alive := c.servers[0], c.servers[1]

	held := map[string][]*grantSeen{} // nil: of a rate whose window had passed when the response arrived
	for _, l := range program {
		for _, h := range l.holders {
			lease, err := alive.commands.Acquire(ctx, oneTenant, h.key, h.request)
			switch {
			case err == nil:
				held[l.key] = append(held[l.key], c.granted(h, lease))
			case h.request.Mode == contracts.LockModeRate && errors.Is(err, contracts.CodeLeaseExpired):
				held[l.key] = append(held[l.key], nil)
			default:
				t.Fatal(err)
			}
		}
	}
	var asked [2]int64
	for _, l := range program {
		for _, a := range l.askers {
			asked[a.server]++
			switch a.fate {
			case dies:
				dying.Go(func() { c.waits(ctx, a) })
			case stays:
				staying.Go(func() { c.isServed(ctx, a) })
			default:
				leavers.Go(func() {
					c.waits(leaving, a)
					if a.fate == givesUp {
						c.saysSo(ctx, a)
					}
				})
			}
		}
	}
	waiting := []int64{killed.settled(ctx, t, asked[0]), alive.settled(ctx, t, asked[1])}
	leave()
	leavers.Wait()

	killed.process.kill(t)
	dying.Wait()
	for _, l := range program {
		for n, h := range l.holders {
			c.ends(ctx, h, held[l.key][n])
		}
	}
	killed.start(t)
	if c.random.IntN(2) == 0 {
		alive.stop(t)
		alive.start(t)
	}
	c.calm.Store(true)
	staying.Wait()
	t.Logf("%v waited; all who stayed were served", waiting)

	// Every process of before ends, so that nothing is under way any more.
	for _, s := range c.servers {
		s.stop(t)
		s.front.Close()
	}
	for owner := range c.gaveUp {
		if c.obtained[owner] {
			t.Errorf("%s was told that its request is given up, and obtained the lock afterwards", owner)
		}
	}
	for _, s := range c.servers {
		s.start(t)
	}
	c.judges()
	c.obtainsAll(ctx, program)
}

// locks are those of the server or of its front end, for a request that is sent once.
func (s *serverAt) locks(a asker) *client.LockAPI {
	if a.behind {
		return s.through
	}
	return s.direct
}

// acquire sends the request of a caller once.
func (c *crowd) acquire(ctx context.Context, a asker) (client.Lease, error) {
	s := c.servers[a.server]
	s.sent.Add(1)
	defer s.answered.Add(1)
	return s.locks(a).Acquire(ctx, oneTenant, a.key, a.request)
}

// waits lets a caller ask, once. If it obtains the lock it says nothing more.
func (c *crowd) waits(ctx context.Context, a asker) {
	if lease, err := c.acquire(ctx, a); err == nil {
		c.granted(a, lease)
	}
}

// saysSo gives up a request whose caller has left: by a delivery that does not wait. That ends what came before it, and
// nothing that comes later, so that the request must have waited at the server, see [serverAt.settled].
func (c *crowd) saysSo(ctx context.Context, a asker) {
	a.request.WaitSeconds = 0
	lease, err := c.servers[a.server].through.Acquire(ctx, oneTenant, a.key, a.request)
	for errors.Is(err, contracts.CodeUnavailable) && ctx.Err() == nil { // it asks for the same request once more
		lease, err = c.servers[a.server].through.Acquire(ctx, oneTenant, a.key, a.request)
	}
	switch e := rejection(err); {
	case err == nil:
		c.granted(a, lease)
	case e == nil:
		c.t.Errorf("%s gives up: %v", a.request.OwnerID, err)
	case e.Code != contracts.CodeRequestIDReused && e.Code != contracts.CodeLeaseExpired: // those have had the lock before
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gaveUp[a.request.OwnerID] = true
	}
}

// rejection is what the service says, nil if it could not be asked.
func rejection(err error) *contracts.Error {
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Status < http.StatusInternalServerError {
		return e
	}
	return nil
}

// isServed lets a caller ask until it has the lock, of one server or the other.
func (c *crowd) isServed(ctx context.Context, a asker) {
	refusals, used := 0, 0
	for {
		lease, err := c.acquire(ctx, a)
		e := rejection(err)
		switch {
		case err == nil:
			g := c.granted(a, lease)
			if !a.forgets && a.request.Mode != contracts.LockModeRate {
				c.release(ctx, a, g)
			}
			return
		case ctx.Err() != nil || refusals == mostRefusals:
			c.t.Errorf("%s is refused %d times after the faults, at last with %v", a.request.OwnerID, refusals, err)
			return
		case e == nil:
			a.server = 1 - a.server
			pauseFor(ctx, 50*time.Millisecond)
		case e.Code == contracts.CodeRequestIDReused || e.Code == contracts.CodeLeaseExpired:
			used++
			a.request.RequestID = fmt.Sprint("again ", used)
		default:
			if c.calm.Load() {
				refusals++
			}
			pauseFor(ctx, max(200*time.Millisecond, min(e.RetryAfter, time.Second)))
		}
	}
}

// ends ends the lease of one who holds a lock from the beginning.
func (c *crowd) ends(ctx context.Context, h asker, g *grantSeen) {
	if h.request.Mode == contracts.LockModeRate {
		return
	}
	if !h.forgets {
		c.release(ctx, h, g)
		return
	}
	before := time.Now()
	lease, err := c.servers[1].commands.Renew(ctx, oneTenant, h.key, contracts.RenewRequest{
		OwnerID: h.request.OwnerID, FencingToken: g.here.Token, TTLSeconds: shortTTL,
	})
	switch {
	case err == nil:
		c.over(g, storeTime(c.t, lease.ExpiresAt), time.Now().Add(lease.Remaining()))
	case errors.Is(err, contracts.CodeLeaseExpired): // the response took longer than the lease lasted
		c.over(g, g.byStore.From, before.Add(shortTTL*time.Second))
	case !g.here.Replace:
		c.t.Errorf("%s renews: %v", h.request.OwnerID, err)
	}
}

// release releases a lease.
func (c *crowd) release(ctx context.Context, a asker, g *grantSeen) {
	before := time.Now()
	r := contracts.ReleaseRequest{RequestID: "release", OwnerID: a.request.OwnerID, FencingToken: g.here.Token}
	for {
		ended, err := c.servers[a.server].commands.Release(ctx, oneTenant, a.key, r)
		e := rejection(err)
		switch {
		case err == nil:
			c.over(g, storeTime(c.t, ended.ReleasedAt), before)
			return
		case e == nil && ctx.Err() == nil:
			a.server = 1 - a.server
			continue
		case e == nil || !g.here.Replace && e.Code != contracts.CodeLeaseExpired:
			c.t.Errorf("%s releases: %v", a.request.OwnerID, err)
		}
		return
	}
}

// grantSeen is a lease as its holder knew it, by the store's times, and by the clock of this process.
type grantSeen struct {
	key           string
	byStore, here prove.Lease
}

// since is a time by the clock of this process.
func (c *crowd) since(at time.Time) int64 { return at.Sub(c.begin).Milliseconds() }

func storeTime(t *testing.T, s string) int64 {
	at, err := time.Parse(contracts.TimeFormat, s)
	if err != nil {
		t.Error(err)
	}
	return at.UnixMilli()
}

// over makes a lease end earlier than it was to.
func (c *crowd) over(g *grantSeen, byStore int64, here time.Time) {
	g.byStore.Until, g.here.Until = byStore, min(g.here.Until, c.since(here))
}

// granted notes a lease, which its holder may be told of more than once.
func (c *crowd) granted(a asker, l client.Lease) *grantSeen {
	r, now := a.request, time.Now()
	here := prove.Lease{
		Token: l.FencingToken, Holder: r.OwnerID, Mode: lock.Mode(r.Mode), Limit: r.Limit, Window: r.WindowSeconds,
		Permit: l.Permit, Replace: r.Replace, From: c.since(now), Until: c.since(now.Add(l.Remaining())),
	}
	byStore := here
	byStore.From, byStore.Until = storeTime(c.t, l.AcquiredAt), storeTime(c.t, l.ExpiresAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.grants {
		if g.key == a.key && g.here.Token == here.Token && g.here.Holder == here.Holder {
			return g
		}
	}
	c.grants = append(c.grants, &grantSeen{a.key, byStore, here})
	return c.grants[len(c.grants)-1]
}

// judges makes sure that no two held a lock at a time who may not, and that each had a token of its own.
func (c *crowd) judges() {
	here, byStore := map[string][]prove.Lease{}, map[string][]prove.Lease{}
	for _, g := range c.grants {
		here[g.key], byStore[g.key] = append(here[g.key], g.here), append(byStore[g.key], g.byStore)
	}
	for key, leases := range here {
		broken := []*prove.Violation{prove.OneLease(leases)}
		if c.one {
			broken = append(broken, prove.OneLease(byStore[key]), prove.TokensRise(byStore[key]))
		}
		for _, v := range broken {
			if v != nil {
				c.t.Errorf("%s: %v", key, v)
			}
		}
	}
}

// alone is how many of askedOnce, the first ones, need a lock for themselves.
const alone = 6

// askedOnce are the kinds of grants that one who asks once gets.
var askedOnce = []contracts.AcquireRequest{
	{TTLSeconds: longTTL},
	{TTLSeconds: longTTL, Fair: true},
	{TTLSeconds: longTTL, Replace: true},
	{TTLSeconds: longTTL, LockDelaySeconds: lock.MaxLockDelaySeconds},
	{TTLSeconds: longTTL, Mode: contracts.LockModePermits, Limit: 1},
	{Mode: contracts.LockModeRate, Limit: 1, WindowSeconds: lock.MaxWindowSeconds},
	{TTLSeconds: longTTL, Mode: contracts.LockModeShared},
	{TTLSeconds: longTTL, Mode: contracts.LockModePermits, Limit: lock.MaxPermits},
}

// The locks of a program, by what is asked of them once no one is left.
const (
	firstForced = 3 // the locks before are acquired
	firstOfSet  = 5
)

// obtainsAll asks for all locks once no one is left: for some in each kind, for some after force, for the others
// together.
func (c *crowd) obtainsAll(ctx context.Context, program []contested) {
	var all sync.WaitGroup
	for n, l := range program[:firstOfSet] {
		kinds := slices.Clone(askedOnce)
		c.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		if n == 0 { // while any of a hundred holds it, the lock is not that of another
			kinds = append([]contracts.AcquireRequest{askedOnce[c.random.IntN(alone)]}, kinds...)
		}
		all.Go(func() {
			if n >= firstForced && !c.opens(ctx, l) {
				return
			}
			for i, r := range kinds {
				r.OwnerID, r.RequestID = "one who asks once", fmt.Sprint("once ", i)
				if !c.obtains(ctx, r, []contested{l}, func(locks *client.LockAPI) error {
					lease, err := locks.Acquire(ctx, oneTenant, l.key, r)
					return cmp.Or(err, c.newest(l.key, lease.FencingToken))
				}) || !c.opens(ctx, l) {
					return
				}
			}
		})
	}
	set := contracts.LockSetAcquireRequest{RequestID: "once", OwnerID: "one who asks once", TTLSeconds: longTTL}
	for _, l := range program[firstOfSet:] {
		set.LockKeys = append(set.LockKeys, l.key)
	}
	all.Go(func() {
		c.obtains(ctx, set, program[firstOfSet:], func(locks *client.LockAPI) error {
			got, err := locks.AcquireSet(ctx, oneTenant, set)
			for _, l := range got.Leases {
				err = cmp.Or(err, c.newest(l.LockKey, l.FencingToken))
			}
			return err
		})
	})
	all.Wait()
}

// newest makes sure that the token of a lease is higher than all before it.
func (c *crowd) newest(key string, token int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.grants {
		if g.key == key && g.here.Token >= token && token > 0 {
			return fmt.Errorf("token %d after %d", token, g.here.Token)
		}
	}
	c.grants = append(c.grants, &grantSeen{key: key, here: prove.Lease{Token: token}})
	return nil
}

// commands are the locks of one server or the other.
func (c *crowd) commands() *client.LockAPI { return c.servers[c.turn.Add(1)%2].commands }

// obtains asks for locks until they are granted. If no one holds them, that is at once; otherwise the refusal, or the
// locks themselves, say when to ask again.
func (c *crowd) obtains(ctx context.Context, what any, of []contested, ask func(*client.LockAPI) error) bool {
	most := 10
	for _, l := range of {
		most += len(l.askers) // one after the other has its turn
	}
	for refusals := 0; ; refusals++ {
		var busy []contracts.Lock
		for _, l := range of {
			if seen, free := c.looks(ctx, l); !free {
				busy = append(busy, seen)
			}
		}
		err := ask(c.commands())
		if err == nil {
			return true
		}
		e := rejection(err)
		if e == nil || len(busy) == 0 && c.one || refusals == most {
			c.t.Errorf("%+v of %v gets, after %d refusals, %v; those that were not free: %+v", what, of, refusals, err, busy)
			return false
		}
		wait := e.RetryAfter
		if wait == 0 { // in another mode: the lock says it, as the refusal has left it
			wait = c.soonest(ctx, of)
		}
		if wait > longest {
			c.t.Errorf("%+v of %v is to wait for %v: %v; those that were not free: %+v", what, of, wait, err, busy)
			return false
		}
		if !c.one { // it may have ended, but not for sure
			wait = max(wait, time.Second)
		}
		pauseFor(ctx, max(wait, time.Millisecond))
	}
}

// looks reads a lock, and reports whether it is free.
func (c *crowd) looks(ctx context.Context, l contested) (contracts.Lock, bool) {
	seen, err := c.commands().Get(ctx, oneTenant, l.key)
	if errors.Is(err, contracts.CodeNotFound) {
		return seen, true
	}
	if err != nil {
		c.t.Errorf("%v: %v", l, err)
	}
	held := seen.State == contracts.StateActive || len(seen.Holders) > 0
	return seen, err == nil && !held && len(seen.Waiting) == 0 && seen.FreeAt == ""
}

// soonest is how long it takes until one of what keeps locks closed ends.
func (c *crowd) soonest(ctx context.Context, of []contested) time.Duration {
	var ends []time.Duration
	add := func(at string) {
		if at != "" {
			if d := time.Until(time.UnixMilli(storeTime(c.t, at))); d > 0 {
				ends = append(ends, d)
			}
		}
	}
	for _, l := range of {
		seen, _ := c.looks(ctx, l)
		if seen.State == contracts.StateActive { // one that was released says until when it was to last
			add(seen.ExpiresAt)
		}
		add(seen.FreeAt)
		for _, h := range seen.Holders {
			add(h.ExpiresAt)
		}
		for _, w := range seen.Waiting {
			add(w.Until)
		}
	}
	if len(ends) == 0 {
		return 0
	}
	return slices.Min(ends)
}

// opens ends by force what closes a lock: leases, lock delays, grants of a rate, and what those in line get instead,
// until the lock is free.
func (c *crowd) opens(ctx context.Context, l contested) bool {
	for n := 0; ; n++ {
		r := contracts.ForceReleaseRequest{OwnerID: "root", Reason: "it hangs"}
		_, err := c.commands().ForceRelease(ctx, oneTenant, l.key, r)
		if err != nil && !errors.Is(err, contracts.CodeLockNotHeld) && !errors.Is(err, contracts.CodeNotFound) {
			c.t.Errorf("a force-release of %v: %v", l, err)
			return false
		}
		seen, free := c.looks(ctx, l)
		if free {
			return true
		}
		if n == 10+2*len(l.askers) {
			c.t.Errorf("after %d force-releases %v is not free: %+v", n, l, seen)
			return false
		}
	}
}
