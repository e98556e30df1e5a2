package clustertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// Events tests the events of a [cluster.Directory], of a server as well as of a client: they are in order, a place goes
// on without a gap in any process, what comes again is recognised, a member is shown what concerns it, and a place that
// is gone, or that there never was, is an error. ann and bob are names that members may have.
func Events(t *testing.T, open Open, ann, bob string) {
	begin := func(t *testing.T, members ...string) *feed {
		t.Helper()
		p, _ := open(t)
		f := &feed{Provider: p, t: t, members: map[string]contracts.MemberState{}}
		for _, name := range members {
			m, err := p.Join(patient(t), name, contracts.MemberJoinRequest{RequestID: "join", Kinds: []string{kind},
				Partitions: 16, TTLSeconds: 3600})
			if err != nil {
				t.Fatalf("join: %v", err)
			}
			f.members[name] = m
		}
		return f
	}
	t.Run("they are in order, each once", func(t *testing.T) {
		f := begin(t, ann)
		for _, id := range []string{"a", "b", "c"} {
			f.end(f.active(id))
		}
		for _, size := range []int{1, 2, 1000} {
			var ids []string
			steps := map[string]string{}
			for _, e := range f.all(cluster.EventQuery{PageSize: size}) {
				ids = append(ids, e.EventID)
				steps[e.ID] += e.From + ">" + e.To + " "
			}
			if len(slices.Compact(slices.Clone(ids))) != 10 || !slices.IsSorted(ids) {
				t.Errorf("pages of %d: %q", size, ids)
			}
			for _, id := range []string{"a", "b", "c"} {
				if steps[id] != "FREE>LOCKED LOCKED>ACTIVE >FREE " {
					t.Errorf("pages of %d: %s went %s", size, id, steps[id])
				}
			}
		}
	})
	t.Run("a place goes on, without a gap", func(t *testing.T) {
		f := begin(t, ann)
		seen := map[string]int{}
		var r *cluster.EventReader
		place := ""
		for i := range 12 {
			a := f.active(strconv.Itoa(i))
			if i%3 == 0 { // another process, which has seen nothing
				r = cluster.NewEventReader(f, cluster.EventQuery{After: place, PageSize: 2})
			}
			for _, e := range f.rest(r) {
				seen[e.EventID]++
			}
			place = r.Place()
			f.end(a)
		}
		for _, e := range f.rest(r) {
			seen[e.EventID]++
		}
		f.same("followed", seen)
	})
	t.Run("what comes beside others is missed by no one", func(t *testing.T) {
		f := begin(t, ann)
		const writers, rooms = 4, 6
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				for i := range rooms {
					f.end(f.active(fmt.Sprint(w, "-", i)))
				}
			})
		}
		over := make(chan struct{})
		go func() {
			work.Wait()
			close(over)
		}()
		seen := map[string]int{}
		r := cluster.NewEventReader(f, cluster.EventQuery{PageSize: 5})
		for ended := false; !ended; {
			select {
			case <-over:
				ended = true
			default:
			}
			for _, e := range f.rest(r) {
				seen[e.EventID]++
			}
		}
		f.same("followed beside the writers", seen)
	})
	t.Run("a member is shown what concerns it", func(t *testing.T) {
		f := begin(t, ann, bob)
		own := map[string]int{} // claims by member
		for i := 0; len(own) < 2 || i < 6; i++ {
			a := f.active(strconv.Itoa(i))
			own[a.Member]++
			if own[a.Member] > 1 {
				continue // each member loses its first one
			}
			to := map[string]string{ann: bob, bob: ann}[a.Member]
			_, err := f.Transfer(patient(t), kind, a.ID, contracts.ActivationTransferRequest{Member: a.Member,
				Incarnation: a.Incarnation, FencingToken: a.FencingToken, RequestID: "t", To: to})
			is(t, "transfer", err, "")
		}
		for name := range own {
			claims, others := 0, 0
			for _, e := range f.all(cluster.EventQuery{Member: name, PageSize: 3}) {
				switch {
				case e.Kind == "":
				case e.Member == name && e.From == string(contracts.PhaseFree):
					claims++
				case e.Member != name:
					others++
				}
			}
			if claims != own[name] || others != 1 {
				t.Errorf("%s is shown %d of its %d claims, and %d events of others instead of the one that took what it had",
					name, claims, own[name], others)
			}
		}
	})
	t.Run("a place that is gone is an error", func(t *testing.T) {
		f := begin(t, ann)
		first := f.all(cluster.EventQuery{})[0]
		at, err := time.Parse(time.RFC3339, first.At)
		is(t, "the time of an event", err, "")
		r := cluster.NewEventReader(f, cluster.EventQuery{After: at.Add(-48 * time.Hour).UTC().Format(contracts.TimeFormat)})
		for range 2 {
			_, _, err = r.Next(patient(t))
			is(t, "two days ago", err, contracts.CodeCursorExpired)
		}
		r.Restart()
		if got := f.rest(r); len(got) != 1 || got[0].EventID != first.EventID {
			t.Errorf("after the restart: %+v", got)
		}
	})
	t.Run("a place that no page gave is an error", func(t *testing.T) {
		f := begin(t)
		for _, after := range []string{"who knows?", "2026-01-01T00:00:00.000Z~x~*", "~"} {
			_, err := f.Events(patient(t), cluster.EventQuery{After: after})
			if !errors.Is(err, contracts.CodeInvalidArgument) || !strings.Contains(err.Error(), "after") {
				t.Errorf("%q: %v, want %s of after", after, err, contracts.CodeInvalidArgument)
			}
		}
	})
}

// feed is a cluster whose events are read.
type feed struct {
	cluster.Provider

	t       *testing.T
	members map[string]contracts.MemberState
}

// active is an identity that its member has activated.
func (f *feed) active(id string) contracts.Activation {
	o, err := f.Claim(patient(f.t), kind, id, contracts.ActivationClaimRequest{RequestID: "r"})
	a := o.Activation
	if err == nil {
		_, err = f.Activated(patient(f.t), kind, id, contracts.ActivationHoldRequest{Member: a.Member,
			Incarnation: a.Incarnation, FencingToken: a.FencingToken})
	}
	if err != nil {
		f.t.Errorf("activation of %s: %v", id, err)
	}
	return a
}

func (f *feed) end(a contracts.Activation) {
	if _, err := f.Deactivate(patient(f.t), kind, a.ID, contracts.ActivationEndRequest{Member: a.Member,
		Incarnation: a.Incarnation, FencingToken: a.FencingToken}); err != nil {
		f.t.Errorf("the end of %s: %v", a.ID, err)
	}
}

// all are the events of a query, from the first one on.
func (f *feed) all(q cluster.EventQuery) []contracts.PlacementEvent {
	f.t.Helper()
	return f.rest(cluster.NewEventReader(f, q))
}

// rest are the events that a reader has not read yet. It fails if one comes again.
func (f *feed) rest(r *cluster.EventReader) (all []contracts.PlacementEvent) {
	f.t.Helper()
	for {
		page, more, err := r.Next(patient(f.t))
		if err != nil {
			f.t.Fatal(err)
		}
		if all = append(all, page.Events...); !more {
			return all
		}
	}
}

// same compares what was seen with all events.
func (f *feed) same(what string, seen map[string]int) {
	f.t.Helper()
	all := f.all(cluster.EventQuery{PageSize: 1000})
	for _, e := range all {
		if seen[e.EventID] != 1 {
			f.t.Errorf("%s: %s was seen %d times", what, e.EventID, seen[e.EventID])
		}
	}
	if len(seen) != len(all) {
		f.t.Errorf("%s: %d events of %d", what, len(seen), len(all))
	}
}
