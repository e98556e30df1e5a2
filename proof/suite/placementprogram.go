package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// PlacementStep is one step of a program: time passes, then a command is sent.
type PlacementStep struct {
	Wait    time.Duration
	Do      string // see placementDoes; again sends an earlier command once more
	Member  string
	ID      string
	Request string // empty: one that was never used
	TTL     time.Duration
	Back    int  // the token or incarnation is this many before the latest
	Full    bool // of an offer
	Self    bool // of a claim: the member claims for itself
	Other   string
	Behind  int // of a state: its version is this many before the latest
	Ago     int // of again: which of the commands so far
	Alter   bool
	Via     int  // which of two processes carries it out
	In      int  // of an alarm: in so many milliseconds; negative clears it
	Alarm   bool // of a state: with an alarm
	Knows   bool // of an alarm: the caller knows when the one before is fired

	// Lost is how many responses to this command get lost: each time the caller's library retries the same write.
	Lost int
}

// placementDoes are the commands, as often as they are drawn.
var placementDoes = []string{
	"join", "join", "join", "beat", "beat", "beat", "beat", "drain member", "offer", "leave", "evict", "sweep",
	"late sweep", "lookup", "lookup",
	"claim", "claim", "claim", "claim", "activated", "activated", "activated", "fail", "deactivate", "write",
	"write", "transfer", "transfer", "alarm", "alarm", "fire", "fire",
	"again", "again", "again", "again",
}

// PlacementProgram draws a sequence of steps over few members, identities and requests.
var PlacementProgram = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) PlacementStep {
	members := []string{"ann", "ann", "bob", "cleo"}
	return PlacementStep{
		Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 500, 999, 1000, 1001, 2000}).Draw(t,
			"wait")) * time.Millisecond,
		Do:      rapid.SampledFrom(placementDoes).Draw(t, "do"),
		Member:  rapid.SampledFrom(members).Draw(t, "member"),
		ID:      rapid.SampledFrom([]string{"x", "x", "x", "y/z"}).Draw(t, "id"),
		Request: rapid.SampledFrom([]string{"", "", "", "", "r1", "r2"}).Draw(t, "request"),
		TTL:     time.Duration(rapid.IntRange(1, 3).Draw(t, "ttl")) * time.Second,
		Back:    rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, -1}).Draw(t, "back"),
		Full:    rapid.SampledFrom([]bool{false, false, true}).Draw(t, "full"),
		Self:    rapid.SampledFrom([]bool{false, false, true}).Draw(t, "self"),
		Other:   rapid.SampledFrom([]string{"", "", "", "bob", "cleo"}).Draw(t, "other"),
		Behind:  rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "behind"),
		Ago:     rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3, 4, 6, 8, 12, 20}).Draw(t, "ago"),
		Alter:   rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(t, "alter"),
		Via:     rapid.IntRange(0, 1).Draw(t, "via"),
		In:      rapid.SampledFrom([]int{-1, 0, 1, 999, 1500, 2000, 20_000}).Draw(t, "in"),
		Alarm:   rapid.Bool().Draw(t, "with an alarm"),
		Knows:   rapid.Bool().Draw(t, "knows"),
		Lost:    rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "lost"),
	}
}), 1, 80)

// placementCommand is a command as it is sent.
type placementCommand struct {
	do, member, id, request string
	number                  int64 // of the incarnation
	token, version, seq     int64
	ttl                     time.Duration
	full, self              bool
	replaces                placement.Incarnation
	to, data                string
	alarm                   bool      // of a state: with an alarm
	at, next                time.Time // of an alarm: zero clears it; of the one before, zero if it is not known
	alarmVersion            int64
}

func (c placementCommand) incarnation() placement.Incarnation {
	return placement.Incarnation{Member: c.member, Number: c.number}
}

// by is the member that claims for itself.
func (c placementCommand) by() placement.Incarnation {
	if c.self {
		return c.incarnation()
	}
	return placement.Incarnation{}
}

// lock is how long the lock phase of a claim lasts. A member that claims for itself has none.
func (c placementCommand) lock() time.Duration {
	if c.self {
		return 0
	}
	return c.ttl
}

func (c placementCommand) offer() placement.Offer {
	return placement.Offer{Kinds: []string{"room"}, Full: c.full}
}

// ofMember reports whether the command is about a member, not about an activation.
func (c placementCommand) ofMember() bool {
	return slices.Contains([]string{"join", "beat", "drain member", "offer", "leave"}, c.do)
}

func (c placementCommand) numberOf(name string) int64 {
	if c.replaces.Member == name {
		return c.replaces.Number
	}
	return c.number
}

// placementRun is a program that is being carried out.
type placementRun struct {
	clock   *Clock
	cluster placement.Cluster
	via     [2]*placement.Service
	lossy   *lossyStore
	oracle  *placementOracle
	sent    []placementCommand
	numbers map[string][]int64 // incarnations of a member, and tokens of an identity, as they were given
	last    map[string]int64
	begun   time.Time
}

const (
	oraclePartitions = placement.MinPartitions
	oracleRetention  = placement.MinRetention
	oracleOverdue    = 48 * time.Hour // after which a sweep removes what the store was to remove
)

// oneCluster is a store of which sweeps, and looks for alarms, see one cluster: programs on one store are kept apart.
type oneCluster struct {
	through

	id string
}

func (s oneCluster) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if q.Kind != "placement_registry" && q.Kind != "placement_alarm_clusters" {
		return s.through.List(ctx, q)
	}
	q.Prefix = s.id
	p, err := s.through.List(ctx, q)
	p.Next = ""
	p.Entries = slices.DeleteFunc(p.Entries, func(e docstore.Entry) bool { return e.Key.ID != s.id })
	return p, err
}

// RunPlacement carries out a program on a store whose clock is clock and returns the first difference from the oracle.
// The name keeps programs on one store apart.
func RunPlacement(ctx context.Context, store docstore.Store, clock *Clock, name string, program []PlacementStep) error {
	r := newPlacementRun(store, clock, strings.ReplaceAll(name, " ", "-"))
	for i, s := range program {
		clock.Advance(s.Wait)
		c, ok := r.command(i, s)
		if !ok {
			continue
		}
		if err := r.send(ctx, c, s); err != nil {
			return fmt.Errorf("step %d %+v: %+v at %s: %w", i, s, c, written(clock.Now()), err)
		}
		if err := r.compare(ctx); err != nil {
			return fmt.Errorf("after step %d %+v: %+v: %w", i, s, c, err)
		}
	}
	return r.compareEvents(ctx)
}

// newPlacementRun is a program of which nothing was carried out yet, on a cluster of that name.
func newPlacementRun(store docstore.Store, clock *Clock, name string) *placementRun {
	r := &placementRun{
		clock: clock, lossy: &lossyStore{through: through{store}}, cluster: placement.Cluster{Tenant: "acme", Name: name},
		oracle: newPlacementOracle(), numbers: map[string][]int64{}, last: map[string]int64{}, begun: clock.Now(),
	}
	for i := range r.via {
		r.via[i] = placement.New(oneCluster{through{r.lossy}, "acme/" + name},
			&placement.Options{Now: clock.Now, Sleep: clock.Sleep, Retention: oracleRetention})
	}
	return r
}

// learnRemoval reads at which epoch a cluster was removed: above the one before, and above all tokens that were given
// by then.
func (r *placementRun) learnRemoval(ctx context.Context, now time.Time) error {
	snap, err := r.lossy.Get(ctx, docstore.Key{Kind: "placement_clusters", Tenant: "acme/" + r.cluster.Name, ID: "head"})
	if err != nil {
		return err
	}
	epoch, _ := snap.Docs[0]["epoch"].(docstore.Int)
	known := r.oracle.top.Epoch
	if snap.Docs[0]["removed_from"] == nil || int64(epoch) < known || known < 1<<20 &&
		int64(epoch)<<20 <= now.UnixMicro() {
		return fmt.Errorf("the cluster was to be removed after epoch %d, and its head is %v", known, snap.Docs[0])
	}
	r.oracle.top.Epoch = int64(epoch)
	return nil
}

// given is a number before the latest that was given, or one that never was.
func (r *placementRun) given(what string, back int) int64 {
	n := r.numbers[what]
	switch {
	case len(n) == 0:
		return 1
	case back < 0:
		return n[len(n)-1] + 1
	default:
		return n[max(0, len(n)-1-back)]
	}
}

// command is what a step sends; false if there is nothing to send again.
func (r *placementRun) command(number int, s PlacementStep) (placementCommand, bool) {
	if s.Do == "again" {
		if len(r.sent) == 0 {
			return placementCommand{}, false
		}
		c := r.sent[len(r.sent)-1-s.Ago%len(r.sent)]
		if s.Alter {
			c.ttl, c.full, c.data = 4*time.Second-c.ttl, !c.full, "altered"
		}
		return c, true
	}
	c := placementCommand{
		do: s.Do, member: s.Member, id: s.ID, request: s.Request, ttl: s.TTL, full: s.Full && s.Do == "offer", self: s.Self,
		number: r.given("member "+s.Member, s.Back), data: fmt.Sprint("data ", number),
	}
	if c.request == "" {
		c.request = fmt.Sprint("request ", number)
	}
	a := r.oracle.activation(s.ID)
	switch s.Do {
	case "join":
		if s.Other != "" && s.Other != s.Member {
			c.replaces = placement.Incarnation{Member: s.Other, Number: r.given("member "+s.Other, s.Back)}
		}
	case "beat":
		c.seq = r.oracle.seat(s.Member).seq + 1
	case "activated", "fail", "deactivate", "write", "transfer", "alarm":
		c.token, c.version = r.given("activation "+s.ID, s.Back), max(0, a.version-int64(s.Behind))
		if s.Back == 0 && a.owner.Member != "" && number%8 != 0 { // few programs would get anywhere otherwise
			c.member, c.number = a.owner.Member, a.owner.Number
		}
		if c.to = s.Other; s.Do != "transfer" {
			c.to = ""
		}
		if c.alarm = s.Do == "alarm" || s.Do == "write" && s.Alarm; c.alarm {
			c.alarmVersion = max(0, a.alarm.version-int64(s.Behind))
			if s.In >= 0 {
				c.at = r.clock.Now().Add(time.Duration(s.In) * time.Millisecond)
			}
			if s.Knows {
				c.next = a.alarm.next
			}
		}
	}
	r.sent = append(r.sent, c)
	return c, true
}

// send sends a command, of which the first responses get lost, and compares its outcome with what the oracle says.
func (r *placementRun) send(ctx context.Context, c placementCommand, s PlacementStep) error {
	now := r.clock.Now()
	switch c.do {
	case "fire":
		return r.fire(ctx, s)
	case "evict":
		r.oracle.evict(now)
		r.lossy.lose = s.Lost
		_, err := r.via[s.Via].Evict(ctx, r.cluster)
		r.lossy.lose = 0
		return err
	case "late sweep":
		r.clock.Advance(oracleRetention + oracleOverdue)
		now = r.clock.Now()
		fallthrough
	case "sweep":
		r.oracle.sweep(now)
		r.lossy.lose = s.Lost
		swept, err := r.via[s.Via].Sweep(ctx, 0)
		r.lossy.lose = 0
		if swept.Errors > 0 || swept.More {
			return fmt.Errorf("swept %+v", swept)
		}
		if err == nil && r.oracle.retired {
			err = r.learnRemoval(ctx, now)
		}
		return err
	}
	epoch, fresh := r.oracle.top.Epoch, r.oracle.top.Epoch == 0 || r.oracle.retired
	want := r.oracle.answer(c, now)
	if again := want.Code == "OK" && s.Lost > 0 && !want.Replayed; again && c.do != "lookup" {
		// A command that evicts on its way loses the response to that.
		// The first join of a cluster loses that to the write by which sweeps find it.
		want.Replayed = c.ofMember() && !fresh || !c.ofMember() && epoch == r.oracle.top.Epoch
	}
	r.lossy.lose = s.Lost
	got, err := sendPlacement(ctx, r.via[s.Via], r.cluster, c)
	r.lossy.lose = 0
	if err != nil {
		return err
	}
	if c.alarm && s.Lost > 0 && want.Code == "OK" { // the first has another write before it, which can lose them
		want.Replayed = got.Replayed
	}
	if err := r.oracle.learn(c, &want, got, now, r.last); err != nil {
		return err
	}
	if c.do == "join" && got.Code == "OK" {
		r.note("member "+c.member, got.Number)
	}
	if (c.do == "claim" || c.do == "transfer") && got.Code == "OK" {
		r.note("activation "+c.id, got.Token)
	}
	if got != want {
		return fmt.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	return nil
}

func (r *placementRun) note(what string, n int64) {
	if all := r.numbers[what]; len(all) == 0 || all[len(all)-1] < n {
		r.numbers[what] = append(all, n)
	}
}

// sendPlacement carries out one command.
func sendPlacement(ctx context.Context, s *placement.Service, cluster placement.Cluster,
	c placementCommand) (answer placementAnswer, err error) {
	var (
		m    placement.MemberOutcome
		o    placement.Outcome
		hold = placement.Hold{Cluster: cluster, Identity: roomOf(c.id), Owner: c.incarnation(), Token: c.token}
	)
	switch c.do {
	case "join":
		m, err = s.Join(ctx, placement.Join{
			Cluster: cluster, Member: c.member, RequestID: c.request, TTL: c.ttl, Partitions: oraclePartitions, Offer: c.offer(),
			Replaces: c.replaces,
		})
	case "beat":
		m, err = s.Heartbeat(ctx, placement.Heartbeat{Cluster: cluster, Incarnation: c.incarnation(), Seq: c.seq, TTL: c.ttl})
	case "drain member":
		m, err = s.DrainMember(ctx, cluster, c.incarnation())
	case "offer":
		m, err = s.ChangeOffer(ctx, placement.ChangeOffer{Cluster: cluster, Incarnation: c.incarnation(),
			RequestID: c.request, Offer: c.offer()})
	case "leave":
		m, err = s.Leave(ctx, cluster, c.incarnation())
	case "lookup":
		var p placement.Placement
		p, err = s.Lookup(ctx, placement.Lookup{Cluster: cluster, Identity: roomOf(c.id)})
		o = p.Outcome
	case "claim":
		o, err = s.Claim(ctx, placement.Claim{Cluster: cluster, Identity: roomOf(c.id), RequestID: c.request,
			LockTTL: c.lock(), By: c.by()})
	case "transfer":
		o, err = s.Transfer(ctx, placement.Transfer{Hold: hold, RequestID: c.request, LockTTL: c.ttl, To: c.to})
	case "activated":
		o, err = s.Activated(ctx, placement.Activated{Hold: hold})
	case "fail":
		o, err = s.Fail(ctx, placement.Fail{Hold: hold, Reason: "it fails"})
	case "deactivate":
		o, err = s.Deactivate(ctx, placement.Deactivate{Hold: hold})
	case "write":
		write := placement.WriteState{Hold: hold, RequestID: c.request, Version: c.version, Data: []byte(c.data)}
		if c.alarm {
			write.Alarm = &placement.AlarmChange{Version: c.alarmVersion, At: c.at, Next: c.next}
		}
		o, err = s.WriteState(ctx, write)
	case "alarm":
		o, err = s.SetAlarm(ctx, placement.SetAlarm{Hold: hold,
			AlarmChange: placement.AlarmChange{Version: c.alarmVersion, At: c.at, Next: c.next}})
	default:
		err = errors.New("no such command")
	}
	if m.Code != "" {
		return placementAnswer{
			Code: string(m.Code), Replayed: m.Replayed, Number: m.Incarnation.Number, Status: string(m.Status), Epoch: m.Epoch,
		}, err
	}
	a := o.Activation
	answer = placementAnswer{Code: string(o.Code)}
	if o.Code == placement.OK {
		answer.Replayed, answer.Token, answer.Phase = o.Replayed, a.Token, string(a.Phase)
	}
	if slices.Contains([]string{"lookup", "claim", "transfer"}, c.do) {
		answer = placementAnswer{
			Code: string(o.Code), Replayed: o.Replayed, Number: a.Owner.Number, Owner: a.Owner.Member, Token: a.Token,
			Phase:   string(a.Phase),
			Version: a.StateVersion, Data: string(a.State), Reason: a.Reason,
		}
	}
	return answer, err
}

// compare looks at the cluster from outside: every reader sees the same epoch (I5), its table is even (I6), and each
// activation is as the oracle has it (I1 to I3).
func (r *placementRun) compare(ctx context.Context) error {
	reader := placement.New(r.lossy.Store, nil)
	s, err := reader.Snapshot(ctx, r.cluster, placement.Query{})
	if err != nil {
		return err
	}
	want := r.oracle.top
	if want.Epoch == 0 || r.oracle.retired {
		if s.Ready || s.Topology.Epoch != 0 {
			return fmt.Errorf("epoch %d before anyone joined", s.Topology.Epoch)
		}
	} else if got := s.Topology; got.Epoch != want.Epoch || !slices.Equal(got.Table(), want.Table()) ||
		s.Ready != r.oracle.ready() ||
		fmt.Sprintf("%+v", got.Members) != fmt.Sprintf("%+v", want.Members) || !got.At.Equal(want.At) {
		return fmt.Errorf("the store has epoch %d\n%+v %v at %v\nwant %d\n%+v %v at %v",
			got.Epoch, got.Members, got.Table(), got.At, want.Epoch, want.Members, want.Table(), want.At)
	}
	var shares []int
	for n, m := range s.Topology.Members {
		if m.Status == placement.MemberActive {
			shares = append(shares, len(slices.DeleteFunc(s.Topology.Table(), func(i int) bool { return i != n })))
		}
	}
	if len(shares) > 0 && slices.Max(shares)-slices.Min(shares) > 1 {
		return fmt.Errorf("members have %v partitions", shares)
	}
	seen := 0
	for _, a := range s.Activations {
		w := r.oracle.activation(a.ID)
		seen++
		if string(a.Phase) != w.phase || a.Token != w.token || a.Owner != w.owner || a.Failed != w.failed ||
			a.Reason != w.reason || string(a.State) != w.data || a.StateVersion != w.version || a.ChangedAt.Before(r.begun) ||
			a.Phase == placement.Locked && !a.LockUntil.Equal(w.until) {
			return fmt.Errorf("the store has %+v, want %+v", a, w)
		}
		if err := r.compareAlarms(a); err != nil {
			return err
		}
	}
	for _, w := range r.oracle.activations {
		if w.token != 0 {
			seen--
		}
	}
	if seen != 0 {
		return fmt.Errorf("the store has %d activations more than were claimed", seen)
	}
	return nil
}

// compareEvents: each change has one event, with the time of the store (I9, PLC-LIFE-4, PLC-LIFE-5).
func (r *placementRun) compareEvents(ctx context.Context) error {
	var got []string
	after := ""
	r.clock.Advance(2 * placement.EventLag)
	for {
		p, err := r.via[0].Events(ctx, r.cluster, placement.EventQuery{After: after, Limit: 100})
		if err != nil {
			return err
		}
		for _, e := range p.Events {
			if e.At.Before(r.begun) || e.At.After(r.clock.Now()) {
				return fmt.Errorf("event %+v is of another time", e)
			}
			if e.To == placement.Refused { // some of those that were refused
				continue
			}
			got = append(got, fmt.Sprintf("%s/%d %s %s", e.Member.Member, e.Member.Number, e.Identity.ID, e.To))
		}
		if after = p.Next; len(p.Events) < 100 {
			break
		}
	}
	var want []string
	for _, e := range r.oracle.events {
		want = append(want, e.text)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("events\n%q\nwant\n%q", got, want)
	}
	return nil
}
