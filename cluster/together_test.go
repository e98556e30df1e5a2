package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// badWay is the way of one process to two servers: for a time responses are lost, joins are slow, and when the process
// is dead nothing passes.
type badWay struct {
	servers [2]http.Handler

	mu       sync.Mutex
	sent     int
	lost     time.Time // until then
	slowJoin time.Duration
	dead     bool
}

var errDead = errors.New("the process is dead")

// RoundTrip implements [http.RoundTripper].
func (b *badWay) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	b.mu.Lock()
	b.sent++
	server, lost, dead, slow := b.servers[b.sent%2], time.Now().Before(b.lost), b.dead, time.Duration(0)
	if strings.HasSuffix(r.URL.Path, "/join") {
		slow = b.slowJoin
	}
	b.mu.Unlock()
	if dead {
		return nil, errDead
	}
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	server.ServeHTTP(w, in)
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	b.mu.Lock()
	dead = b.dead
	b.mu.Unlock()
	switch {
	case dead:
		return nil, errDead
	case lost:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return w.Result(), nil
}

func (b *badWay) set(change func(*badWay)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// account is what all processes have done, by identity.
type account struct {
	t  *testing.T
	mu sync.Mutex

	token   map[string]int64     // the highest under which one was at work
	stored  map[string]int       // the highest number whose write was acknowledged
	at      map[string]time.Time // of the latest acknowledged write
	longest map[string]time.Duration
	writes  int
}

// works notes that a process is at work on an identity, and has a right to be.
func (a *account) works(id string, token int64, who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.token[id] {
		a.t.Errorf("%s is at work on %s under token %d, after another under %d", who, id, token, a.token[id])
	}
	a.token[id] = max(a.token[id], token)
}

func (a *account) wrote(id string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if before, ok := a.at[id]; ok {
		a.longest[id] = max(a.longest[id], now.Sub(before))
	}
	a.at[id], a.stored[id] = now, max(a.stored[id], n)
	a.writes++
}

// has is what the next owner must find at least.
func (a *account) has(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored[id]
}

// process is a member with its way, whose host counts in the state of each identity.
type process struct {
	*cluster.Member

	name    string
	way     *badWay
	all     *account
	release chan struct{} // closed at the end of the test

	mu   sync.Mutex
	hang int // of the next calls so many do not return
}

func (p *process) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang--
	return p.hang >= 0
}

// Activate implements [cluster.Host].
func (p *process) Activate(ctx context.Context, a cluster.Activation) error {
	if p.hangs() {
		<-p.release
		return ctx.Err()
	}
	n, _ := strconv.Atoi(string(a.State))
	if least := p.all.has(a.ID); n < least {
		p.all.t.Errorf("%s has the state %d of %s, and %d was stored", p.name, n, a.ID, least)
	}
	go func() {
		for ctx.Err() == nil && cluster.Check(ctx) == nil {
			p.way.mu.Lock()
			dead := p.way.dead
			p.way.mu.Unlock()
			if dead {
				return
			}
			p.all.works(a.ID, a.Token, p.name)
			if p.WriteState(ctx, a.Identity, []byte(strconv.Itoa(n+1))) == nil {
				n++
				p.all.wrote(a.ID, n)
			}
			time.Sleep(250 * time.Millisecond)
		}
	}()
	return nil
}

// Deactivate implements [cluster.Host].
func (p *process) Deactivate(context.Context, cluster.Activation, error) {
	if p.hangs() {
		<-p.release
	}
}

// TestFaultsTogether: members are killed, their joins are slow, responses are lost to them and to the callers, and
// calls of their hosts hang, all in the same seconds, over HTTP with two servers. No state that was stored is lost, and
// no two are at work on one identity at a time (PLC-ONE-5, PLC-LOCK-4). The longest time without a stored state is
// within what the bounds add up to.
func TestFaultsTogether(t *testing.T) {
	rounds, seeds := suite.AtDepth(4, 60), suite.AtDepth(uint64(2), 10)
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { faultsTogether(t, w, rounds, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func faultsTogether(t *testing.T, w *world, rounds int, r *rand.Rand) {
	const (
		ttl, within, grace = 6 * time.Second, 2 * time.Second, time.Second
		lost, slow         = 2 * time.Second, 1500 * time.Millisecond
		// A member dies, and the claim of the next one is given to one whose responses are lost; its host hangs at
		// Activate, which is paused then, and so does that of the next one.
		hanging = within + within + time.Second + time.Second // ActivateWithin, DeactivateWithin, the pause, and the caller's
		bound   = ttl + lost + time.Second + 2*hanging
	)
	servers := [2]http.Handler{}
	for i := range servers {
		servers[i] = httpapi.New(w.store, httpapi.Development{}, &httpapi.Options{Now: w.now})
	}
	all := &account{t: t, token: map[string]int64{}, stored: map[string]int{}, at: map[string]time.Time{},
		longest: map[string]time.Duration{}}
	provider := func() (cluster.Provider, *badWay) {
		way := &badWay{servers: servers}
		c, err := client.New("http://localhost", &client.Options{HTTP: &http.Client{Transport: way}})
		if err != nil {
			t.Fatal(err)
		}
		return c.Placements(chat.Tenant, chat.Name), way
	}
	release := make(chan struct{})
	var gone []*process
	start := func(name string, slowJoin time.Duration) *process {
		from, way := provider()
		way.slowJoin = slowJoin
		p := &process{name: name, way: way, all: all, release: release}
		m, err := cluster.NewMember(from, name, p, (&cluster.Options{Kinds: []string{"room"}, Partitions: 64, TTL: ttl,
			ActivateWithin: within, DeactivateWithin: within, Grace: grace}).WithClock(w.now))
		if err != nil {
			t.Fatal(err)
		}
		p.Member = m
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var members []*process
	for i := range 4 {
		members = append(members, start(fmt.Sprint("m", i), 0))
	}
	from, callers := provider()
	l := cluster.NewLocator(from, nil)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for i := range 12 {
		asking.Go(func() { // who asks for a room all the time, wherever it is
			for ctx.Err() == nil {
				trying, cancel := context.WithTimeout(ctx, time.Second)
				if where, err := l.Activate(trying, room(strconv.Itoa(i)), nil); err == nil {
					l.Forget(where)
				}
				cancel()
				select {
				case <-time.After(500 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	time.Sleep(5 * time.Second)
	for round := range rounds {
		victim := r.IntN(len(members))
		for i, m := range members {
			if i != victim && r.IntN(2) == 0 {
				m.way.set(func(b *badWay) { b.lost = time.Now().Add(lost) })
			}
			if i != victim && r.IntN(2) == 0 {
				m.mu.Lock()
				m.hang = 1
				m.mu.Unlock()
			}
		}
		callers.set(func(b *badWay) { b.lost = time.Now().Add(time.Duration(r.IntN(int(time.Second)))) })
		dead := members[victim]
		if r.IntN(4) > 0 {
			dead.way.set(func(b *badWay) { b.dead = true })
			gone = append(gone, dead)
		} else { // it is stopped, in the middle of it
			stopping, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := dead.Stop(stopping); err != nil {
				t.Error(err)
			}
			cancel()
		}
		members[victim] = start(fmt.Sprint("m", victim, "-", round), slow)
		time.Sleep(bound)
	}
	all.mu.Lock()
	longest := time.Duration(0)
	for id, d := range all.longest {
		t.Logf("%s: %v without a stored state at most, of %v", id, d, bound)
		if longest = max(longest, d); d > bound {
			t.Errorf("%s had no service for %v, more than %v", id, d, bound)
		}
		if since := time.Since(all.at[id]); since > time.Second {
			t.Errorf("%s has no service at the end, for %v", id, since)
		}
	}
	t.Logf("%d writes of %d identities, %d members killed; the longest time without service is %v, of %v", all.writes,
		len(all.at), len(gone), longest, bound)
	if len(all.at) != 12 || len(gone) == 0 {
		t.Error("this shows nothing")
	}
	all.mu.Unlock()
	end()
	asking.Wait()
	close(release)
	l.Stop()
	for _, m := range members {
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, m := range gone {
		stopping, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = m.Stop(stopping) // what is dead hands nothing over
		cancel()
	}
	time.Sleep(5 * time.Minute) // until what was given up has ended
}
