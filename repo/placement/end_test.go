package placement_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// ended is a command with an end.
type ended struct {
	begin func(w *world) // what the command needs
	send  func(w *world, s *placement.Service, end time.Time) (code placement.Code, replayed bool, at time.Time, err error)
}

func endedJoin(change func(w *world, c *placement.Join)) func(*world, *placement.Service, time.Time) (placement.Code,
	bool, time.Time, error) {
	return func(w *world, s *placement.Service, end time.Time) (placement.Code, bool, time.Time, error) {
		c := placement.Join{Cluster: w.cluster, Member: "bob", RequestID: "ended", TTL: time.Hour,
			Offer: placement.Offer{Kinds: []string{"room"}}}
		c.NotAfter = end
		if change != nil {
			change(w, &c)
		}
		o, err := s.Join(w.Context(), c)
		return o.Code, o.Replayed, o.At, err
	}
}

func endedClaim(self bool) func(*world, *placement.Service, time.Time) (placement.Code, bool, time.Time, error) {
	return func(w *world, s *placement.Service, end time.Time) (placement.Code, bool, time.Time, error) {
		c := placement.Claim{Cluster: w.cluster, Identity: room("hall"), RequestID: "ended"}
		if c.NotAfter = end; self {
			c.By = w.Cached(w.cluster).Find("ann").Incarnation
		} else {
			c.LockTTL = time.Hour
		}
		o, err := s.Claim(w.Context(), c)
		return o.Code, o.Replayed, o.At, err
	}
}

func joinAnn(w *world) { w.join("ann", func(c *placement.Join) { c.TTL = time.Hour }) }

// firstJoinOfBoundedOnes is sent to a process with Options.MaxClusters.
const firstJoinOfBoundedOnes = "the first join of a tenant with a bound"

// endedCommands are all commands that have an end.
var endedCommands = map[string]ended{
	"the first join":       {func(*world) {}, endedJoin(nil)},
	firstJoinOfBoundedOnes: {func(*world) {}, endedJoin(nil)},
	"a join":               {joinAnn, endedJoin(nil)},
	"a join after a death": {func(w *world) {
		joinAnn(w)
		w.join("bob")
		w.clock.Advance(10 * time.Second)
	}, endedJoin(nil)},
	"a replace": {joinAnn, endedJoin(func(w *world, c *placement.Join) {
		c.Replaces = w.Cached(w.cluster).Find("ann").Incarnation
	})},
	"a claim":               {joinAnn, endedClaim(false)},
	"a claim of the member": {joinAnn, endedClaim(true)},
	"a transfer": {func(w *world) {
		joinAnn(w)
		w.active(room("attic"))
		w.join("bob", func(c *placement.Join) { c.TTL = time.Hour })
	}, func(w *world, s *placement.Service, end time.Time) (placement.Code, bool, time.Time, error) {
		found, err := w.Lookup(w.Context(), placement.Lookup{Cluster: w.cluster, Identity: room("attic")})
		if err != nil {
			return "", false, time.Time{}, err
		}
		ann := w.Cached(w.cluster).Find("ann").Incarnation
		token := found.Activation.Token
		if found.Activation.Owner != ann { // it had its effect
			token--
		}
		c := placement.Transfer{Hold: placement.Hold{Cluster: w.cluster, Identity: room("attic"), Owner: ann, Token: token},
			RequestID: "ended", To: "bob", LockTTL: time.Hour}
		c.NotAfter = end
		o, err := s.Transfer(w.Context(), c)
		return o.Code, o.Replayed, o.At, err
	}},
}

// stored is everything that the store has.
func (w *world) stored() string {
	w.Helper()
	var all strings.Builder
	for _, kind := range []string{"placement_registry", "placement_clusters", "placement_epochs", "placement_members",
		"placement_member_leases", "placement_events", placement.ActivationKind} {
		for _, tenant := range []string{"", "acme/prod"} {
			p := must[docstore.Page](w)(w.store.List(w.Context(), docstore.Query{Kind: kind, Tenant: tenant, Limit: 1000}))
			fmt.Fprintln(&all, kind, p.Entries)
		}
	}
	return all.String()
}

// TestEnds (PLC-PLACE-2, PLC-ONE-5): a command has its effect at its end, and not a millisecond later, nor when the
// end is further away than it may be. It may come late, be stopped before any of its writes, or come to a store that
// is not sure of the time. Then it leaves nothing: no member, no epoch, no name of a cluster. What had its effect
// returns that after its end, too.
func TestEnds(t *testing.T) {
	const minute = time.Minute
	for name, c := range endedCommands {
		for _, try := range []struct {
			end    time.Duration // from when the request comes
			stop   time.Duration // before each write
			margin time.Duration // of the store's time
			want   placement.Code
		}{
			{-10 * time.Hour, 0, 0, placement.TooLate}, {-time.Millisecond, 0, 0, placement.TooLate}, {0, 0, 0, placement.OK},
			{time.Millisecond, 0, 0, placement.OK}, {docstore.MaxAhead, 0, 0, placement.OK},
			{docstore.MaxAhead + time.Millisecond, 0, 0, placement.TooFar},
			{10 * docstore.MaxAhead, 0, 0, placement.TooFar},
			{2 * time.Second, 500 * time.Millisecond, 0, placement.OK},
			{2 * time.Second, 2*time.Second + time.Millisecond, 0, placement.TooLate},
			{9 * time.Second, 20 * time.Second, 0, placement.TooLate},
			{minute, minute + time.Millisecond, 0, placement.TooLate}, {minute, 120 * time.Second, 0, placement.TooLate},
			{time.Second, 0, time.Second, placement.OK}, {time.Second, 0, time.Second + time.Millisecond, placement.TooLate},
			{time.Second, 0, 10 * time.Second, placement.TooLate},
		} {
			t.Run(fmt.Sprintf("%s %v before its end, stopped for %v, margin %v", name, try.end, try.stop, try.margin),
				func(t *testing.T) {
					w := newWorld(t)
					c.begin(w)
					store := &suite.Watched{Store: suite.Unsure{Store: w.store.Store, Now: w.clock.Now, Margin: try.margin}}
					store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
						w.clock.Advance(try.stop)
						return apply()
					}
					o := placement.Options{Now: w.clock.Now, Sleep: w.clock.Sleep}
					if name == firstJoinOfBoundedOnes {
						o.MaxClusters = 1
					}
					s := placement.New(store, &o)
					end, before := w.clock.Now().Add(try.end), w.stored()
					code, replayed, at, err := c.send(w, s, end)
					if err != nil || code != try.want || replayed {
						t.Fatalf("%s, %v, want %s", code, err, try.want)
					}
					if n := len(store.Requests()); n > 8 {
						t.Errorf("%d requests", n)
					}
					if code != placement.OK {
						if now := w.stored(); now != before {
							t.Errorf("it left\n%s\nof\n%s", now, before)
						}
						if late := at.After(end); late != (code == placement.TooLate) {
							t.Errorf("the store's time is %v, the end %v", at, end)
						}
						return
					}
					w.clock.Advance(min(minute, max(0, end.Sub(w.clock.Now()))) + 9*time.Second)
					for _, later := range []time.Time{end, {}, w.clock.Now().Add(minute)} {
						if code, replayed, _, err := c.send(w, w.Service, later); err != nil || code != placement.OK || !replayed {
							t.Errorf("delivered again, with the end %v: %s, %v", later, code, err)
						}
					}
				})
		}
	}
}
