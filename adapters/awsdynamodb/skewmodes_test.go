package awsdynamodb_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestModesWithClocksApart is TestClocksApart for locks with several holders, a line or a rate: by the true time, and
// as holders count their leases, there is never a writer beside another holder, no permit has two holders, and no
// window has more grants than its rate (LS-INV-001). Tokens rise, and who waits in line is served in turn. Each program
// is in a bubble of synctest, where sleeping moves the clock and takes no time.
func TestModesWithClocksApart(t *testing.T) {
	t.Parallel()
	courses := []course{
		{990 * time.Millisecond, false, []time.Duration{time.Second}},
		{990 * time.Millisecond, true, []time.Duration{time.Second}},
		{4900 * time.Millisecond, true, []time.Duration{5 * time.Second, 10 * time.Second}},
	}
	for name, ask := range map[string]func(*rand.Rand) lock.Acquire{
		"a line": func(*rand.Rand) lock.Acquire { return lock.Acquire{TTLSeconds: 4, Fair: true, WaitSeconds: 20} },
		"readers and writers": func(random *rand.Rand) lock.Acquire {
			c := lock.Acquire{TTLSeconds: 4, Fair: true, WaitSeconds: random.Int64N(2) * 20}
			if random.IntN(3) > 0 {
				c.Fair, c.Mode = false, lock.Shared
			}
			return c
		},
		"permits": func(random *rand.Rand) lock.Acquire {
			return lock.Acquire{TTLSeconds: 4, Mode: lock.Permits, Limit: 2, WaitSeconds: random.Int64N(2) * 20}
		},
		"a rate": func(random *rand.Rand) lock.Acquire {
			return lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: apartWindow, WaitSeconds: random.Int64N(2) * 20}
		},
	} {
		for _, c := range courses {
			t.Run(name+", "+c.String(), func(t *testing.T) {
				t.Parallel()
				grants := 0
				seeds := suite.AtDepth(uint64(3), 10)
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) {
						m := newModesApart(t, c, seed, ask)
						m.play()
						grants += m.grants
					})
				}
				if grants < 5*int(seeds) {
					t.Errorf("%d grants only", grants)
				}
			})
		}
	}
}

// modesApart are callers with clocks of their own, and what they know of one lock.
type modesApart struct {
	t       *testing.T
	random  *rand.Rand
	ask     func(*rand.Rand) lock.Acquire
	caller  func(i int) *lock.Locks
	callers int

	asks   []*lock.Acquire // what each caller asks for; nil while it holds the lock or wants nothing
	leases []apartLease    // that may last, by the count of their holders
	line   []string        // requests that are in line, by arrival
	tokens []apartGrant    // all that were granted
	last   int64           // token that a caller was told
	next   int             // request
	grants int
	table  *sdk.Client
	rate   int // grants in a window, if the lock has one
}

const apartWindow = 2 // seconds

// apartGrant is when a token was granted: during a request.
type apartGrant struct {
	token       int64
	after, upTo time.Time
}

type apartLease struct {
	lock.Lease
	by    int // -1 if its holder died
	until time.Time
}

func newModesApart(t *testing.T, c course, seed uint64, ask func(*rand.Rand) lock.Acquire) *modesApart {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	time.Sleep(time.Duration(random.Int64N(int64(time.Second)))) // so that programs begin anywhere in a second
	server := dynamodbtest.New(nil)
	client := dialThrough(slowly{server.RoundTripper(), random})
	offsets := []time.Duration{c.off, -c.off, 0, c.off, -c.off}
	all := make([]*lock.Locks, len(offsets))
	return &modesApart{t: t, random: random, ask: ask, table: dial(server), callers: len(offsets),
		asks: make([]*lock.Acquire, len(offsets)), caller: func(i int) *lock.Locks {
			if all[i] == nil || c.cold {
				all[i] = lock.New(openWith(t, client, awsdynamodb.Options{
					MaxSkew: c.bounds[i%len(c.bounds)], Now: func() time.Time { return time.Now().Add(offsets[i]) },
				}), nil)
			}
			return all[i]
		}}
}

func (m *modesApart) play() {
	if c := m.ask(m.random); c.Mode == lock.Rate {
		m.rate = int(c.Limit)
	}
	for range 150 {
		time.Sleep(time.Duration(m.random.Int64N(int64(200 * time.Millisecond)))) // the time between two commands
		begin, by := time.Now(), m.random.IntN(m.callers)
		switch i := slices.IndexFunc(m.leases, func(l apartLease) bool { return l.by == by }); {
		case i >= 0:
			m.hold(i)
		default:
			m.acquire(by)
		}
		m.look(begin)
	}
}

// look finds out what was granted since begin, also to callers that do not know of it yet.
func (m *modesApart) look(begin time.Time) {
	r, err := m.table.Scan(m.t.Context(), &sdk.ScanInput{TableName: aws.String("leasehold"),
		ConsistentRead: aws.Bool(true)})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, item := range r.Items {
		number, ok := item["token"].(*types.AttributeValueMemberN)
		if !ok {
			continue
		}
		token, err := strconv.ParseInt(number.Value, 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		first := token
		if n := len(m.tokens); n > 0 {
			first = m.tokens[n-1].token + 1
		}
		for ; first <= token; first++ {
			m.tokens = append(m.tokens, apartGrant{first, begin, time.Now()})
		}
	}
	if m.rate == 0 {
		return
	}
	for i := m.rate; i < len(m.tokens); i++ {
		if apart := m.tokens[i].upTo.Sub(m.tokens[i-m.rate].after); apart < apartWindow*time.Second {
			m.t.Errorf("%d grants within %v", m.rate+1, apart)
		}
	}
}

var apartID = lock.ID{Tenant: "acme", Key: "k"}

// acquire asks for the lock, or asks again.
func (m *modesApart) acquire(by int) {
	if m.asks[by] == nil {
		c := m.ask(m.random)
		m.next++
		c.ID, c.Owner, c.RequestID = apartID, fmt.Sprint("caller ", by), fmt.Sprint("r", m.next)
		m.asks[by] = &c
	}
	c := *m.asks[by]
	begin := time.Now()
	o, err := m.caller(by).AcquireWithin(m.t.Context(), c, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	switch {
	case o.Code == lock.OK:
		m.granted(by, c, o, begin)
	case o.Code == lock.Held && o.Position > 0:
		if !slices.Contains(m.line, c.RequestID) {
			m.line = append(m.line, c.RequestID)
		}
		return
	case o.Code == lock.Held:
		return
	case o.Code != lock.RequestIDReused && o.Code != lock.LeaseExpired: // it was granted, and is over or nearly so
		m.t.Fatalf("%+v", o)
	}
	m.asks[by] = nil
	m.line = slices.DeleteFunc(m.line, func(r string) bool { return r == c.RequestID })
}

// granted holds a grant against the leases that last as their holders count.
func (m *modesApart) granted(by int, c lock.Acquire, o lock.Outcome, begin time.Time) {
	m.grants++
	now := time.Now()
	if c.Mode == lock.Rate { // see look
		return
	}
	m.leases = slices.DeleteFunc(m.leases, func(l apartLease) bool { return !now.Before(l.until) && l.by < 0 })
	for _, l := range m.leases {
		overlap := l.until.Sub(now)
		switch {
		case overlap <= 0:
		case l.Mode == lock.Exclusive || c.Mode == lock.Exclusive:
			m.t.Errorf("%q of %q is held by two for up to %v: %q has it", c.Mode, c.Owner, overlap, l.Owner)
		case c.Mode == lock.Permits && l.Permit == o.Lease.Permit:
			m.t.Errorf("permit %d is held by two for up to %v", l.Permit, overlap)
		}
	}
	if c.Mode == lock.Permits && (o.Lease.Permit < 1 || o.Lease.Permit > c.Limit) {
		m.t.Errorf("permit %d of %d", o.Lease.Permit, c.Limit)
	}
	if c.Mode == lock.Exclusive {
		if len(m.line) > 0 && m.line[0] != c.RequestID {
			i := slices.Index(m.line, c.RequestID)
			if !m.waits(m.line[0]) || i < 0 && c.WaitSeconds > 0 {
				m.t.Errorf("%s passes %s", c.RequestID, m.line)
			}
		}
		if o.Lease.Token <= m.last { // others that share the lock may learn of their grants in any order
			m.t.Errorf("token %d after %d", o.Lease.Token, m.last)
		}
	}
	m.last = max(m.last, o.Lease.Token)
	m.leases = append(m.leases, apartLease{o.Lease, by, begin.Add(time.Duration(c.TTLSeconds) * time.Second)})
}

// waits reports whether a caller still sends the request.
func (m *modesApart) waits(request string) bool {
	return slices.ContainsFunc(m.asks, func(c *lock.Acquire) bool { return c != nil && c.RequestID == request })
}

// hold lets a holder renew, release, die or go on.
func (m *modesApart) hold(i int) {
	l := &m.leases[i]
	m.next++
	request, begin, owner := fmt.Sprint("h", m.next), time.Now(), l.Owner
	switch m.random.IntN(6) {
	case 0:
		l.by = -1
	case 1, 2:
		l.until = begin // it stops its work first
		o, err := m.caller(l.by).Release(m.t.Context(), lock.Release{ID: apartID, Owner: owner, Token: l.Token,
			RequestID: request})
		if err != nil || o.Code != lock.OK && o.Code != lock.LeaseExpired && o.Code != lock.LeaseLost {
			m.t.Fatalf("%+v, %v", o, err)
		}
		l.by = -1
	case 3:
		o, err := m.caller(l.by).Renew(m.t.Context(), lock.Renew{ID: apartID, Owner: owner, Token: l.Token,
			RequestID: request, TTLSeconds: 4})
		switch {
		case err != nil:
			m.t.Fatal(err)
		case o.Code == lock.OK:
			l.until = begin.Add(4 * time.Second)
		default:
			l.by = -1
		}
	}
}

// TestModeWithinTheMargin: while it is not sure whether the last lease in another mode has ended, a lock is held, and
// not in another mode for good: those who ask again get it. The document of a free lock keeps its last lease in plain
// form, as if it had been exclusive.
func TestModeWithinTheMargin(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		permit := func(l *lock.Locks, request string, ttl int64) lock.Outcome {
			t.Helper()
			o, err := l.Acquire(t.Context(), lock.Acquire{ID: apartID, Owner: "ann", RequestID: request, TTLSeconds: ttl,
				Mode: lock.Permits, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		first, second := permit(locks, "r1", 600), permit(locks, "r2", 60)
		for time.Until(second.Lease.ExpiresAt) > time.Second {
			// not whole seconds: requests at other fractions of one narrow the interval in which this process knows the time
			time.Sleep(730 * time.Millisecond)
			if _, _, err := locks.Get(t.Context(), apartID); err != nil {
				t.Fatal(err)
			}
		}
		// it has ended for this process, and perhaps not for one that knows less
		time.Sleep(time.Until(second.Lease.ExpiresAt.Add(200 * time.Millisecond)))
		o, err := locks.Release(t.Context(), lock.Release{ID: apartID, Owner: "ann", Token: first.Lease.Token,
			RequestID: "e1"})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		cold := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		if o := permit(cold, "r3", 60); o.Code != lock.Held || o.RetryAfter <= 0 || o.RetryAfter > 1020*time.Millisecond {
			t.Errorf("in a process that knows the time to a second: %+v", o)
		}
		time.Sleep(1020 * time.Millisecond) // as long as the refusal says at most
		if o := permit(cold, "r3", 60); o.Code != lock.OK || o.Lease.Permit != 1 {
			t.Errorf("later: %+v", o)
		}
	})
}
