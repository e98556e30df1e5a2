package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// placementOracle says what becomes of commands on a cluster, from the requirement. It shares no code with the rules,
// but for the table of an epoch, which has tests of its own: who its members are, it says itself.
type placementOracle struct {
	top         *placement.Topology
	members     map[string]*seatOracle
	activations map[string]*activationOracle
	events      []eventOracle // one for each change
	now         time.Time     // of the command that is carried out

	walked   int64 // the epoch at which a sweep looked through the cluster, and when
	walkedAt time.Time

	retired bool // the cluster was removed; its epoch is that of the removal, which is to be learned
}

type eventOracle struct {
	at   time.Time
	text string
}

// seatOracle is what became of the incarnations of one name.
type seatOracle struct {
	number        int64
	status        string // ACTIVE, DRAINING, LEFT or DEAD
	changed       time.Time
	seq           int64
	ends          time.Time // of its lease; zero if it was ended
	joins, offers memory
}

func (s *seatOracle) live() bool { return s.status == "ACTIVE" || s.status == "DRAINING" }

type activationOracle struct {
	phase          string
	token          int64
	owner          string
	number         int64
	until          time.Time
	failed         bool
	reason, data   string
	version        int64
	changed        time.Time // its phase, owner or token
	claims, writes memory
}

// memory is the last four requests, the newest last.
type memory [][2]string

func (m *memory) add(request, params string) {
	*m = append(*m, [2]string{request, params})
	if len(*m) > 4 {
		*m = (*m)[1:]
	}
}

// find returns how many requests came after the one, -1 if it is forgotten, and whether its parameters are the same.
func (m memory) find(request, params string) (ago int, same bool) {
	for i, known := range slices.Backward(m) {
		if known[0] == request {
			return len(m) - 1 - i, known[1] == params
		}
	}
	return -1, false
}

// placementAnswer is what the caller of a command learns.
type placementAnswer struct {
	Code     string
	Replayed bool

	Number int64 // of the incarnation, also of an activation's owner; anew for one that is to be learned

	// Of commands on members.
	Status string
	Epoch  int64

	// Of lookups, and of what is granted or exists.
	Owner   string
	Token   int64 // anew for one that is to be learned
	Phase   string
	Version int64
	Data    string
	Reason  string
}

// anew is a number that the oracle does not know beforehand.
const anew = -1

func newPlacementOracle(partitions int) *placementOracle {
	return &placementOracle{
		top: placement.NewTopology(partitions), members: map[string]*seatOracle{},
		activations: map[string]*activationOracle{},
	}
}

func (o *placementOracle) seat(name string) *seatOracle {
	if o.members[name] == nil {
		o.members[name] = &seatOracle{}
	}
	return o.members[name]
}

func (o *placementOracle) activation(id string) *activationOracle {
	if o.activations[id] == nil {
		o.activations[id] = &activationOracle{phase: "FREE"}
	}
	return o.activations[id]
}

// begin begins the next epoch. Members whose status changed have it since then.
func (o *placementOracle) begin(now time.Time, heir map[string]string,
	change func([]placement.Member, int64) []placement.Member) {
	epoch := o.top.Epoch + 1
	after, _ := o.top.Next(change(slices.Clone(o.top.Members), epoch), heir, "")
	after.At = now
	for i := range after.Members {
		if after.Members[i].Since == epoch {
			after.Members[i].At = now
		}
	}
	o.top, o.retired = after, false
}

// retire removes the cluster if it has had neither members nor activations for the retention.
func (o *placementOracle) retire(now time.Time) bool {
	for _, a := range o.activations {
		if a.token != 0 {
			return false
		}
	}
	if len(o.top.Members) > 0 || now.Before(o.top.At.Add(oracleRetention)) {
		return false
	}
	epoch := o.top.Epoch
	o.top = placement.NewTopology(o.top.Partitions())
	o.top.Epoch = epoch
	o.members, o.events, o.walked, o.retired = map[string]*seatOracle{}, nil, 0, true
	return true
}

func (o *placementOracle) event(who string, number int64, id, to string) {
	o.events = append(o.events, eventOracle{o.now, fmt.Sprintf("%s/%d %s %s", who, number, id, to)})
}

// answerMember is for the commands on members.
func (o *placementOracle) answerMember(c placementCommand, now time.Time) placementAnswer {
	o.now = now
	s := o.seat(c.member)
	stale := func(name string) placementAnswer {
		s := o.seat(name)
		if s.number == 0 {
			return placementAnswer{Code: "MEMBER_UNKNOWN", Number: c.numberOf(name), Epoch: o.top.Epoch}
		}
		return placementAnswer{Code: "STALE_INCARNATION", Number: s.number, Status: s.status, Epoch: o.top.Epoch}
	}
	lives := s.live() && s.number == c.number
	is := func(code string) placementAnswer {
		return placementAnswer{Code: code, Number: s.number, Status: s.status, Epoch: o.top.Epoch}
	}
	replayed := func() placementAnswer {
		a := is("OK")
		a.Replayed = true
		return a
	}
	set := func(name string, f func(*placement.Member)) func([]placement.Member, int64) []placement.Member {
		return func(all []placement.Member, epoch int64) []placement.Member {
			for i := range all {
				if all[i].Member == name {
					all[i].Since = epoch
					f(&all[i])
				}
			}
			return all
		}
	}
	drop := func(name string) func([]placement.Member, int64) []placement.Member {
		return func(all []placement.Member, _ int64) []placement.Member {
			return slices.DeleteFunc(all, func(m placement.Member) bool { return m.Member == name })
		}
	}
	switch c.do {
	case "join":
		params := fmt.Sprint(c.offer(), c.ttl, c.replaces)
		switch ago, same := s.joins.find(c.request, params); {
		case ago == 0 && same && s.live():
			return replayed()
		case ago >= 0:
			return is("REQUEST_ID_REUSED")
		case s.live() && now.Before(s.ends):
			return is("MEMBER_EXISTS")
		}
		heir := map[string]string{}
		if r := c.replaces; r.Member != "" {
			old := o.seat(r.Member)
			if !old.live() || old.number != r.Number {
				return stale(r.Member)
			}
			heir[r.Member] = c.member
		}
		if s.live() {
			o.event(c.member, s.number, "", "DEAD")
		}
		o.begin(now, heir, func(all []placement.Member, epoch int64) []placement.Member {
			all = append(drop(c.member)(all, epoch), placement.Member{
				Incarnation: placement.Incarnation{Member: c.member, Number: anew}, Offer: c.offer(),
				Status: placement.MemberActive, Since: epoch,
			})
			if old := o.seat(c.replaces.Member); c.replaces.Member != "" && old.status == "ACTIVE" {
				all = set(c.replaces.Member, func(m *placement.Member) { m.Status = placement.MemberDraining })(all, epoch)
			}
			return all
		})
		if old := o.seat(c.replaces.Member); c.replaces.Member != "" && old.status == "ACTIVE" {
			old.status = "DRAINING"
			o.event(c.replaces.Member, old.number, "", "DRAINING")
		}
		s.number, s.status, s.seq, s.ends = anew, "ACTIVE", 0, now.Add(c.ttl)
		s.joins.add(c.request, params)
		o.event(c.member, anew, "", "ACTIVE")
		return is("OK")
	case "beat":
		switch {
		case s.number == 0:
			return placementAnswer{Code: "MEMBER_UNKNOWN", Number: c.number}
		case s.number != c.number || s.ends.IsZero():
			return placementAnswer{Code: "STALE_INCARNATION", Number: s.number}
		case c.seq > s.seq:
			s.seq, s.ends = c.seq, now.Add(c.ttl)
			return placementAnswer{Code: "OK", Number: s.number, Status: s.status}
		case !now.Before(s.ends):
			return placementAnswer{Code: "LEASE_EXPIRED", Number: s.number}
		default:
			return placementAnswer{Code: "OK", Replayed: true, Number: s.number, Status: s.status}
		}
	case "drain member":
		switch {
		case !lives:
			return stale(c.member)
		case s.status == "DRAINING":
			return replayed()
		}
		s.status = "DRAINING"
		o.begin(now, nil, set(c.member, func(m *placement.Member) { m.Status = placement.MemberDraining }))
		o.event(c.member, s.number, "", "DRAINING")
		return is("OK")
	case "offer":
		if !lives {
			return stale(c.member)
		}
		params := fmt.Sprint(c.offer())
		switch ago, same := s.offers.find(fmt.Sprint(c.number, c.request), params); {
		case ago >= 0 && !same:
			return is("REQUEST_ID_REUSED")
		case ago >= 0:
			return replayed()
		}
		s.offers.add(fmt.Sprint(c.number, c.request), params)
		o.begin(now, nil, set(c.member, func(m *placement.Member) { m.Offer = c.offer() }))
		o.event(c.member, s.number, "", s.status)
		return is("OK")
	default: // leave
		if s.number == c.number && s.status == "LEFT" {
			return replayed()
		}
		if !lives {
			return stale(c.member)
		}
		s.status, s.ends, s.changed = "LEFT", time.Time{}, now
		o.begin(now, nil, drop(c.member))
		o.event(c.member, s.number, "", "LEFT")
		return is("OK")
	}
}

// evict ends all leases that are over.
func (o *placementOracle) evict(now time.Time) {
	o.now = now
	var dead []string
	for name, s := range o.members {
		if s.live() && !s.ends.IsZero() && !now.Before(s.ends) {
			dead = append(dead, name)
		}
	}
	if len(dead) == 0 {
		return
	}
	for _, name := range dead {
		s := o.members[name]
		s.status, s.ends, s.changed = "DEAD", time.Time{}, now
		o.event(name, s.number, "", "DEAD")
	}
	o.begin(now, nil, func(all []placement.Member, _ int64) []placement.Member {
		return slices.DeleteFunc(all, func(m placement.Member) bool { return slices.Contains(dead, m.Member) })
	})
}

// sweep evicts, and looks through a cluster whose members changed since the last time, or once a day: activations of
// owners that are gone, and of those that let an hour pass after their lock, are free; what has ended is removed after
// its time.
func (o *placementOracle) sweep(now time.Time) {
	if o.evict(now); o.top.Epoch == 0 || o.retired || o.retire(now) || o.walked == o.top.Epoch &&
		now.Before(o.walkedAt.Add(24*time.Hour)) {
		return
	}
	o.walked, o.walkedAt = o.top.Epoch, now
	over := func(at time.Time, keep time.Duration) bool { return !now.Before(at.Add(keep + oracleOverdue)) }
	for id, a := range o.activations {
		var reason string
		switch {
		case a.phase == "FREE":
			if a.token != 0 && a.data == "" && !now.Before(a.changed.Add(oracleRetention)) {
				delete(o.activations, id)
			}
			continue
		case o.alive(a) == nil:
			reason = "its owner is gone"
		case a.phase == "LOCKED" && !now.Before(a.until.Add(time.Hour)):
			reason = "its owner did not activate it"
		default:
			continue
		}
		o.event(a.owner, a.number, id, "FREE")
		a.phase, a.reason, a.changed = "FREE", reason, now
	}
	for name, s := range o.members {
		if s.number != 0 && !s.live() && over(s.changed, oracleRetention) {
			delete(o.members, name)
		}
	}
	o.events = slices.DeleteFunc(o.events, func(e eventOracle) bool { return over(e.at, 24*time.Hour) })
}

// alive is the member that has an activation, nil if it is free or its owner is gone.
func (o *placementOracle) alive(a *activationOracle) *placement.Member {
	if m := o.top.Find(a.owner); a.phase != "FREE" && m != nil && m.Number == a.number {
		return m
	}
	return nil
}

// place is the member on which an identity is placed. That all agree on it is asked each time.
func (o *placementOracle) place(id string) *placement.Member {
	if !o.ready() {
		return nil
	}
	return o.top.Place(roomOf(id), placement.Need{})
}

func (o *placementOracle) ready() bool {
	return slices.ContainsFunc(o.top.Members, func(m placement.Member) bool { return m.Status == placement.MemberActive })
}

// settle evicts, if the outcome of a command on an identity depends on a member whose lease is over.
func (o *placementOracle) settle(id string, now time.Time) {
	for {
		m := o.alive(o.activation(id))
		if m == nil {
			m = o.place(id)
		}
		if m == nil || now.Before(o.members[m.Member].ends) {
			return
		}
		o.evict(now)
	}
}

// answer is for the commands on activations.
func (o *placementOracle) answer(c placementCommand, now time.Time) placementAnswer {
	o.now = now
	a := o.activation(c.id)
	if slices.Contains([]string{"lookup", "claim", "transfer"}, c.do) {
		o.settle(c.id, now)
	}
	alive, placed := o.alive(a), o.place(c.id)
	shown := func(code string) placementAnswer {
		return placementAnswer{
			Code: code, Number: a.number, Owner: a.owner, Token: a.token, Phase: a.phase, Version: a.version, Data: a.data,
			Reason: a.reason,
		}
	}
	grant := func(to *placement.Member, phase string, until time.Time) placementAnswer {
		if a.token++; a.token == 1 {
			a.token = anew
		}
		a.owner, a.number, a.phase, a.until, a.failed, a.reason, a.changed = to.Member, to.Number, phase,
			until, false, "", now
		o.event(a.owner, a.number, c.id, phase)
		return shown("OK")
	}
	remembered := func(request, params string) (placementAnswer, bool) {
		switch ago, same := a.claims.find(request, params); {
		case ago < 0:
			return placementAnswer{}, false
		case !same:
			return shown("REQUEST_ID_REUSED"), true
		case ago == 0 && a.phase == "FREE" && a.failed:
			r := shown("ACTIVATION_FAILED")
			r.Replayed = true
			return r, true
		case ago > 0 || a.phase == "FREE" || a.phase == "LOCKED" && !now.Before(a.until) || alive == nil:
			return shown("REQUEST_ID_REUSED"), true
		default:
			r := shown("OK")
			r.Replayed = true
			return r, true
		}
	}
	// held says why the activation is not the caller's, or that it is.
	held := func(phases ...string) string {
		switch {
		case c.token != a.token:
			return "STALE_TOKEN"
		case c.member != a.owner || c.number != a.number:
			return "NOT_OWNER"
		case !slices.Contains(phases, a.phase):
			return "WRONG_PHASE"
		default:
			return "OK"
		}
	}
	// own is a change of the phase by the owner; done is what its second delivery finds.
	own := func(to string, done bool, from ...string) placementAnswer {
		switch code := held(from...); {
		case code == "WRONG_PHASE" && done:
			return placementAnswer{Code: "OK", Replayed: true, Token: c.token, Phase: a.phase}
		case code != "OK":
			return placementAnswer{Code: code}
		}
		a.phase, a.changed = to, now
		o.event(a.owner, a.number, c.id, to)
		return placementAnswer{Code: "OK", Token: c.token, Phase: to}
	}
	switch c.do {
	case "lookup":
		switch {
		case !o.ready():
			return shown("TOPOLOGY_UNDETERMINED")
		case alive == nil && placed == nil:
			return shown("NO_ELIGIBLE_MEMBER")
		default:
			return shown("OK")
		}
	case "claim":
		params := fmt.Sprint(c.lock(), c.by())
		if r, known := remembered("claim "+c.request, params); known {
			return r
		}
		switch by := o.top.Find(c.member); {
		case !o.ready():
			return shown("TOPOLOGY_UNDETERMINED")
		case alive != nil && a.phase == "LOCKED" && now.Before(a.until):
			return shown("ACTIVATION_LOCKED")
		case alive != nil && a.phase != "LOCKED":
			return shown("ACTIVATION_EXISTS")
		case c.self && (by == nil || by.Number != c.number || by != placed):
			return shown("MEMBER_INELIGIBLE")
		case placed == nil:
			return shown("NO_ELIGIBLE_MEMBER")
		}
		a.claims.add("claim "+c.request, params)
		if c.self {
			return grant(placed, "ACTIVE", time.Time{})
		}
		return grant(placed, "LOCKED", now.Add(c.ttl))
	case "transfer":
		params := fmt.Sprint(c.ttl, c.to)
		if r, known := remembered(fmt.Sprint("transfer ", c.token, c.request), params); known {
			return r
		}
		to := placed
		if c.to != "" {
			to = o.top.Find(c.to)
		}
		switch code := held("ACTIVE"); {
		case code != "OK":
			return shown(code)
		case !o.ready():
			return shown("TOPOLOGY_UNDETERMINED")
		case to == nil && c.to == "":
			return shown("NO_ELIGIBLE_MEMBER")
		case to == nil || to.Member == c.member && to.Number == c.number || to.Status != placement.MemberActive || to.Full ||
			len(to.Kinds) == 0:
			return shown("MEMBER_INELIGIBLE")
		}
		a.claims.add(fmt.Sprint("transfer ", c.token, c.request), params)
		return grant(to, "LOCKED", now.Add(c.ttl))
	case "activated":
		if s := o.seat(c.member); held("LOCKED") == "OK" && (!s.live() || s.number != c.number) {
			return placementAnswer{Code: "MEMBER_INELIGIBLE"}
		}
		return own("ACTIVE", a.phase == "ACTIVE", "LOCKED")
	case "fail":
		r := own("FREE", a.phase == "FREE" && a.failed, "LOCKED")
		if r.Code == "OK" && !r.Replayed {
			a.failed, a.reason = true, "it fails"
		}
		return r
	case "deactivate":
		return own("FREE", a.phase == "FREE" && !a.failed, "LOCKED", "ACTIVE")
	default: // write
		request := fmt.Sprint(c.token, c.request)
		code := held("LOCKED", "ACTIVE")
		ago, same := a.writes.find(request, fmt.Sprint(c.version, c.data))
		switch {
		case code == "STALE_TOKEN" || code == "NOT_OWNER":
			return placementAnswer{Code: code}
		case code == "OK" && c.version == a.version:
		case ago >= 0 && same:
			return placementAnswer{Code: "OK", Replayed: true, Token: c.token, Phase: a.phase}
		case ago >= 0:
			return placementAnswer{Code: "REQUEST_ID_REUSED"}
		case code == "OK":
			return placementAnswer{Code: "STATE_CHANGED"}
		default:
			return placementAnswer{Code: code}
		}
		a.version, a.data = c.version+1, c.data
		a.writes.add(request, fmt.Sprint(c.version, c.data))
		return placementAnswer{Code: "OK", Token: c.token, Phase: a.phase}
	}
}

// learn fills in what the oracle could not know: a number that is larger than all before.
func (o *placementOracle) learn(c placementCommand, want *placementAnswer, got placementAnswer, now time.Time,
	last map[string]int64) error {
	least := func(what string, n int64) error {
		if n <= last[what] || n <= now.Add(-time.Second).UnixMicro() {
			return fmt.Errorf("%s has number %d after %d at %s", what, n, last[what], written(now))
		}
		last[what] = n
		return nil
	}
	if want.Number == anew {
		if err := least("member "+c.member, got.Number); err != nil {
			return err
		}
		want.Number, o.members[c.member].number = got.Number, got.Number
		for i := range o.top.Members {
			if o.top.Members[i].Member == c.member {
				o.top.Members[i].Number = got.Number
			}
		}
	}
	if want.Token == anew {
		if err := least("activation "+c.id, got.Token); err != nil {
			return err
		}
		want.Token, o.activations[c.id].token = got.Token, got.Token
	}
	for i, e := range o.events { // of what was just learned
		o.events[i].text = strings.Replace(e.text, fmt.Sprintf("%s/%d ", c.member, anew),
			fmt.Sprintf("%s/%d ", c.member, got.Number), 1)
	}
	return nil
}

func roomOf(id string) placement.Identity { return placement.Identity{Kind: "room", ID: id} }
