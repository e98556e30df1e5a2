package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// balanced has a member rebalance, in a cluster of many partitions.
func balanced(r *cluster.Rebalance) func(*cluster.Options, *host) {
	return func(o *cluster.Options, _ *host) { o.Partitions, o.Rebalance = 4096, r }
}

// load is where rooms are, and where the epoch places them.
func (w *world) load(rooms []string) (has map[string]int, away int) {
	w.t.Helper()
	has = map[string]int{}
	p := w.provider()
	for _, id := range rooms {
		has[w.record(room(id)).Member]++
		placed, err := p.Lookup(w.t.Context(), "room", id, cluster.Query{})
		if err != nil {
			w.t.Fatal(err)
		}
		if placed.Owner == nil || placed.Owner.Member != placed.Placed.Member {
			away++
		}
	}
	return has, away
}

// evenly are rooms of which each of four members is placed as many, give or take one, after three of them joined, were
// restarted in turn, and the fourth joined. So a test sees the rebalancing, and not the chance of a hash.
func (w *world) evenly(n int, a, b, c, d string) (rooms []string) {
	w.t.Helper()
	p := direct.Cluster(w.service, placement.Cluster{Tenant: "acme", Name: "rehearsal"})
	members := map[string]contracts.MemberState{}
	join := func(name, kind string) {
		s, err := p.Join(w.t.Context(), name, contracts.MemberJoinRequest{RequestID: name + strconv.Itoa(len(rooms)) +
			strconv.FormatInt(members[name].Incarnation, 10), Kinds: []string{kind}, TTLSeconds: 10, Partitions: 4096})
		if err != nil {
			w.t.Fatal(err)
		}
		members[name] = s
	}
	join("front", "other")
	for _, name := range []string{a, b, c} {
		join(name, "room")
	}
	for _, name := range []string{a, b, c} {
		if _, err := p.Leave(w.t.Context(), name, contracts.MemberRequest{Incarnation: members[name].Incarnation}); err != nil {
			w.t.Fatal(err)
		}
		join(name, "room")
	}
	join(d, "room")
	left := map[string]int{}
	for i, m := range []string{a, b, c, d} {
		left[m] = n*(i+1)/4 - n*i/4
	}
	for i := 0; len(rooms) < n; i++ {
		placed, err := p.Lookup(w.t.Context(), "room", strconv.Itoa(i), cluster.Query{})
		if err != nil {
			w.t.Fatal(err)
		}
		if left[placed.Placed.Member] > 0 {
			left[placed.Placed.Member]--
			rooms = append(rooms, strconv.Itoa(i))
		}
	}
	return rooms
}

// TestRebalance: 150 rooms, three members that are restarted in turn, and a fourth one that joins, while requests come
// all the time. A minute later the members have as many as the epoch gives them, each room has moved once for that, and
// no request was refused.
func TestRebalance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		front := w.site(n, "front", func(o *cluster.Options, _ *host) { o.Kinds, o.Partitions = []string{"other"}, 4096 }, cluster.HandlerOptions{})
		all := map[string]*site{}
		start := func(name string) {
			all[name] = w.site(n, name, balanced(&cluster.Rebalance{}), cluster.HandlerOptions{})
		}
		for _, name := range []string{"ann", "bob", "cy"} {
			start(name)
		}
		time.Sleep(3 * time.Second)
		rooms := w.evenly(150, "ann", "bob", "cy", "dan")
		for _, id := range rooms {
			front.get(t, "/rooms/"+id)
		}
		var took []time.Duration
		var mu sync.Mutex
		var moving atomic.Bool
		var work sync.WaitGroup
		over := make(chan struct{})
		for c := range 8 {
			work.Go(func() {
				draw := rand.New(rand.NewPCG(1, uint64(c)))
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Duration(draw.IntN(200)) * time.Millisecond):
					}
					start := time.Now()
					got := front.send(t, http.MethodPost, "/rooms/"+rooms[draw.IntN(len(rooms))], strings.NewReader("x"))
					if !strings.HasPrefix(got, "200") {
						t.Error(got)
					}
					mu.Lock()
					if moving.Load() {
						took = append(took, time.Since(start))
					}
					mu.Unlock()
				}
			})
		}
		for _, name := range []string{"ann", "bob", "cy"} {
			time.Sleep(10 * time.Second)
			all[name].close()
			start(name)
		}
		start("dan")
		moving.Store(true)
		moved := func() (sum int) {
			for _, s := range all {
				sum += len(s.has(cluster.ActivationEnded))
			}
			return sum
		}
		had := moved()
		before, away := w.load(rooms)
		time.Sleep(time.Minute)
		after, left := w.load(rooms)
		moving.Store(false)
		close(over)
		work.Wait()
		slices.Sort(took)
		t.Logf("before %v, %d elsewhere; after %v, %d elsewhere; %d requests: p50 %v, p99 %v, most %v", before, away, after,
			left, len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		most, least := 0, len(rooms)
		for name := range all {
			most, least = max(most, after[name]), min(least, after[name])
		}
		if (most-least)*5*4 > len(rooms) {
			t.Errorf("%v: more than a fifth of the mean apart", after)
		}
		if took[len(took)*99/100] > 100*time.Millisecond {
			t.Errorf("p99 is %v", took[len(took)*99/100])
		}
		if left != 0 || moved()-had != away {
			t.Errorf("%d rooms are elsewhere, and %d of %d were moved", left, moved()-had, away)
		}
		for _, s := range all {
			s.close()
		}
		front.close()
	})
}

// TestRebalanceIsBounded: nothing moves before the epoch has been the same for long enough, nor faster than the options
// say; a member without the option moves nothing, and one that is asked for nothing reads no epoch.
func TestRebalanceIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		r     cluster.Rebalance
		takes time.Duration
	}{
		"at once":    {cluster.Rebalance{PerSecond: 5, AtOnce: 3, Calm: 10 * time.Second}, time.Second},
		"per second": {cluster.Rebalance{PerSecond: 5, AtOnce: 16, Calm: 10 * time.Second}, 0},
	} {
		t.Run(name, func(t *testing.T) { boundsOfRebalance(t, c.r, c.takes) })
	}
}

func boundsOfRebalance(t *testing.T, r cluster.Rebalance, takes time.Duration) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		at, most := 0, 0
		slow := func(cluster.Activation, error) {
			mu.Lock()
			at++
			most = max(most, at)
			mu.Unlock()
			time.Sleep(takes)
			mu.Lock()
			at--
			mu.Unlock()
		}
		ann := w.start("ann", func(o *cluster.Options, h *host) {
			o.Rebalance = &r
			h.ending = slow
		})
		still := w.start("still", func(o *cluster.Options, _ *host) { o.Kinds = []string{"still"} })
		for i := range 60 {
			if _, err := ann.Serve(t.Context(), room(strconv.Itoa(i)), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := still.Serve(t.Context(), cluster.Identity{Kind: "still", ID: strconv.Itoa(i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		var others []joined
		for i := range 3 { // a new epoch each eight seconds
			others = append(others, w.start(fmt.Sprint("member", i), func(o *cluster.Options, _ *host) {
				o.Kinds = []string{"room", "still"}
			}))
			time.Sleep(8 * time.Second)
		}
		if n := len(ann.has(cluster.ActivationEnded)); n != 0 {
			t.Errorf("%d moved while the members changed", n)
		}
		time.Sleep(time.Minute)
		ended := ann.has(cluster.ActivationEnded)
		for _, e := range ended {
			if e.Err != nil || !strings.HasPrefix(e.Peer, "member") {
				t.Errorf("%+v", e)
			}
			in := 0
			for _, o := range ended {
				if d := o.At.Sub(e.At); d >= 0 && d < time.Second {
					in++
				}
			}
			if in > r.PerSecond {
				t.Errorf("%d were handed over in a second", in)
			}
		}
		if len(ended) < 30 || most > r.AtOnce {
			t.Errorf("%d of 60 moved, %d at a time", len(ended), most)
		}
		if n := len(still.has(cluster.ActivationEnded)); n != 0 || still.p.count("members") != 0 {
			t.Errorf("%d moved of a member without the option, which read %d epochs", n, still.p.count("members"))
		}
		for _, r := range []cluster.Rebalance{{PerSecond: -1}, {PerSecond: 1001}, {AtOnce: -1}, {AtOnce: 17}, {Calm: -1}} {
			if _, err := cluster.NewMember(w.provider(), "x", ann.host, &cluster.Options{Rebalance: &r}); err == nil {
				t.Errorf("%+v", r)
			}
		}
		w.stop(append(others, ann, still)...)
	})
}

// TestRebalanceOfWhatMustStay: an identity that this member alone may have stays. If its member does not know what it
// needs, it is tried once in an epoch.
func TestRebalanceOfWhatMustStay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann := w.start("ann", func(o *cluster.Options, _ *host) {
			o.Rebalance, o.Labels = &cluster.Rebalance{Calm: time.Second}, map[string]string{"disk": "fast"}
		})
		need := &cluster.Need{Labels: map[string]string{"disk": "fast"}}
		l, _ := w.locator(nil)
		for i := range 20 {
			if _, err := ann.Serve(t.Context(), room("known"+strconv.Itoa(i)), need); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Activate(t.Context(), room("unknown"+strconv.Itoa(i)), need); err != nil {
				t.Fatal(err)
			}
		}
		bob := w.start("bob", nil)
		time.Sleep(10 * time.Second)
		again, _ := w.locator(nil)
		for i := range 20 { // what was freed is asked for again
			if _, err := again.Activate(t.Context(), room("unknown"+strconv.Itoa(i)), need); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		ended := ann.has(cluster.ActivationEnded)
		for i, e := range ended {
			if !strings.HasPrefix(e.Identity.ID, "unknown") || slices.ContainsFunc(ended[:i], func(o cluster.Event) bool {
				return o.Identity == e.Identity
			}) {
				t.Errorf("%+v", e)
			}
		}
		if given, _ := bob.counts(); given != 0 || len(ended) == 0 || len(ann.Activations()) != 40 {
			t.Errorf("bob has %d, %d ended, ann has %d", given, len(ended), len(ann.Activations()))
		}
		l.Stop()
		again.Stop()
		w.stop(ann, bob)
	})
}
