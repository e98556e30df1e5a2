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
	members     map[string]*seatOracle
	activations map[string]*activationOracle
	now         time.Time // of the command that is carried out

	top    *placement.Topology
	events []eventOracle // one for each change

	walked   int64 // the epoch at which a sweep looked through the cluster, and when
	walkedAt time.Time

	entries map[alarmEntry]bool // of alarms, also of such as were replaced

	retired bool // the cluster was removed; its epoch is that of the removal, which is to be learned
}

type eventOracle struct {
	at   time.Time
	text string
}

// seatOracle is what became of the incarnations of one name. The time of the member is that of its latest status.
type seatOracle struct {
	placement.Member

	seq           int64
	ends          time.Time // of its lease; zero if it was ended
	joins, offers memory
}

func (s *seatOracle) live() bool {
	return s.Status == placement.MemberActive || s.Status == placement.MemberDraining
}

type activationOracle struct {
	phase          string
	token          int64
	owner          placement.Incarnation
	until          time.Time
	failed         bool
	reason, data   string
	version        int64
	changed        time.Time // its phase, owner or token
	alarm          alarmOracle
	claims, writes memory
}

// memory is the last four requests with their parameters, the newest first.
type memory [4][2]string

func (m *memory) add(request, params string) { *m = memory{{request, params}, m[0], m[1], m[2]} }

// find returns how many requests came after the one, -1 if it is forgotten, and whether its parameters are the same.
func (m memory) find(request, params string) (ago int, same bool) {
	ago = slices.IndexFunc(m[:], func(known [2]string) bool { return known[0] == request })
	return ago, ago >= 0 && m[ago][1] == params
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

func newPlacementOracle() *placementOracle {
	return &placementOracle{
		top: placement.NewTopology(oraclePartitions), members: map[string]*seatOracle{},
		activations: map[string]*activationOracle{}, entries: map[alarmEntry]bool{},
	}
}

func (o *placementOracle) seat(name string) *seatOracle {
	if o.members[name] == nil {
		o.members[name] = &seatOracle{Member: placement.Member{Incarnation: placement.Incarnation{Member: name}}}
	}
	return o.members[name]
}

func (o *placementOracle) activation(id string) *activationOracle {
	if o.activations[id] == nil {
		o.activations[id] = &activationOracle{phase: "FREE"}
	}
	return o.activations[id]
}

// become gives members another status, or the same anew, and begins the next epoch with all that live. An heir takes
// the place of another.
func (o *placementOracle) become(status placement.Status, heir map[string]string, changed ...*seatOracle) {
	for _, s := range changed {
		s.Status, s.Since, s.At = status, o.top.Epoch+1, o.now
		if !s.live() {
			s.ends = time.Time{}
		}
		o.event(s.Incarnation, "", string(status))
	}
	var all []placement.Member
	for _, s := range o.members {
		if s.live() {
			all = append(all, s.Member)
		}
	}
	o.top, _ = o.top.Next(all, heir, "")
	o.top.At, o.retired = o.now, false
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
	o.entries = map[alarmEntry]bool{}
	return true
}

func (o *placementOracle) event(who placement.Incarnation, id, to string) {
	o.events = append(o.events, eventOracle{o.now, fmt.Sprintf("%s/%d %s %s", who.Member, who.Number, id, to)})
}

// answer says what becomes of a command that is carried out now.
func (o *placementOracle) answer(c placementCommand, now time.Time) placementAnswer {
	if o.now = now; c.ofMember() {
		return o.answerMember(c)
	}
	return o.answerActivation(c)
}

// answerMember is for the commands on members.
func (o *placementOracle) answerMember(c placementCommand) placementAnswer {
	s := o.seat(c.member)
	stale := func(name string) placementAnswer {
		s := o.seat(name)
		if s.Number == 0 {
			return placementAnswer{Code: "MEMBER_UNKNOWN", Number: c.numberOf(name), Epoch: o.top.Epoch}
		}
		return placementAnswer{Code: "STALE_INCARNATION", Number: s.Number, Status: string(s.Status), Epoch: o.top.Epoch}
	}
	lives := s.live() && s.Number == c.number
	is := func(code string, replayed bool) placementAnswer {
		return placementAnswer{Code: code, Replayed: replayed, Number: s.Number, Status: string(s.Status),
			Epoch: o.top.Epoch}
	}
	switch c.do {
	case "join":
		params := fmt.Sprint(c.offer(), c.ttl, c.replaces)
		switch ago, same := s.joins.find(c.request, params); {
		case ago == 0 && same && s.live() && !o.now.Before(s.ends):
			return is("LEASE_EXPIRED", false)
		case ago == 0 && same && s.live():
			return is("OK", true)
		case ago >= 0:
			return is("REQUEST_ID_REUSED", false)
		case s.live() && o.now.Before(s.ends):
			return is("MEMBER_EXISTS", false)
		}
		heir, old := map[string]string{}, &seatOracle{}
		if r := c.replaces; r.Member != "" {
			if old = o.seat(r.Member); !old.live() || old.Number != r.Number {
				return stale(r.Member)
			}
			heir[r.Member] = c.member
		}
		if s.live() {
			o.event(s.Incarnation, "", "DEAD")
		}
		if old.Status == placement.MemberActive { // the same epoch
			old.Status, old.Since, old.At = placement.MemberDraining, o.top.Epoch+1, o.now
			o.event(old.Incarnation, "", "DRAINING")
		}
		s.Number, s.Offer, s.seq, s.ends = anew, c.offer(), 0, o.now.Add(c.ttl)
		s.joins.add(c.request, params)
		o.become(placement.MemberActive, heir, s)
	case "beat":
		switch {
		case s.Number == 0:
			return placementAnswer{Code: "MEMBER_UNKNOWN", Number: c.number}
		case !lives:
			return placementAnswer{Code: "STALE_INCARNATION", Number: s.Number}
		case c.seq > s.seq:
			s.seq, s.ends = c.seq, o.now.Add(c.ttl)
		case !o.now.Before(s.ends):
			return placementAnswer{Code: "LEASE_EXPIRED", Number: s.Number}
		default:
			return placementAnswer{Code: "OK", Replayed: true, Number: s.Number, Status: string(s.Status)}
		}
		return placementAnswer{Code: "OK", Number: s.Number, Status: string(s.Status)}
	case "drain member":
		switch {
		case !lives:
			return stale(c.member)
		case s.Status == placement.MemberDraining:
			return is("OK", true)
		}
		o.become(placement.MemberDraining, nil, s)
	case "offer":
		request, params := fmt.Sprint(c.number, c.request), fmt.Sprint(c.offer())
		switch ago, same := s.offers.find(request, params); {
		case !lives:
			return stale(c.member)
		case ago >= 0 && !same:
			return is("REQUEST_ID_REUSED", false)
		case ago >= 0:
			return is("OK", true)
		}
		s.offers.add(request, params)
		s.Offer = c.offer()
		o.become(s.Status, nil, s)
	default: // leave
		switch {
		case s.Number == c.number && s.Status == placement.MemberLeft:
			return is("OK", true)
		case !lives:
			return stale(c.member)
		}
		o.become(placement.MemberLeft, nil, s)
	}
	return is("OK", false)
}

// evict ends all leases that are over.
func (o *placementOracle) evict(now time.Time) {
	o.now = now
	var dead []*seatOracle
	for _, s := range o.members {
		if s.live() && !now.Before(s.ends) {
			dead = append(dead, s)
		}
	}
	if len(dead) > 0 {
		o.become(placement.MemberDead, nil, dead...)
	}
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
		if due := a.alarm.next; !due.IsZero() && !now.Before(due.Add(time.Hour)) && !o.abandoned(a, now) {
			o.entries[entryOf(due, id)], a.alarm.entry = true, due // a store may have forgotten the one that there was
		}
		switch {
		case a.phase == "FREE":
			if a.token != 0 && a.data == "" && a.alarm.at.IsZero() && !now.Before(a.changed.Add(oracleRetention)) {
				delete(o.activations, id)
			}
			continue
		case !o.abandoned(a, now):
			continue
		case o.alive(a) == nil:
			reason = "its owner is gone"
		default:
			reason = "its owner did not activate it"
		}
		o.free(id, reason)
	}
	for name, s := range o.members {
		if s.Number != 0 && !s.live() && over(s.At, oracleRetention) {
			delete(o.members, name)
		}
	}
	o.events = slices.DeleteFunc(o.events, func(e eventOracle) bool { return over(e.at, 24*time.Hour) })
}

// abandoned reports whether a sweep frees an activation.
func (o *placementOracle) abandoned(a *activationOracle, now time.Time) bool {
	return a.phase != "FREE" && (o.alive(a) == nil || a.phase == "LOCKED" && !now.Before(a.until.Add(time.Hour)))
}

// free ends an activation.
func (o *placementOracle) free(id, reason string) {
	a := o.activation(id)
	o.event(a.owner, id, "FREE")
	a.phase, a.reason, a.changed = "FREE", reason, o.now
}

// alive is the member that has an activation, nil if it is free or its owner is gone.
func (o *placementOracle) alive(a *activationOracle) *seatOracle {
	if s := o.find(a.owner.Member); a.phase != "FREE" && s != nil && s.Number == a.owner.Number {
		return s
	}
	return nil
}

// find is the member of a name, nil if there is none.
func (o *placementOracle) find(member string) *seatOracle {
	if s := o.members[member]; s != nil && s.live() {
		return s
	}
	return nil
}

// place is the member on which an identity is placed. That all agree on it is asked each time.
func (o *placementOracle) place(id string) *seatOracle {
	if m := o.top.Place(roomOf(id), placement.Need{}); o.ready() && m != nil {
		return o.members[m.Member]
	}
	return nil
}

func (o *placementOracle) ready() bool {
	for _, s := range o.members {
		if s.Status == placement.MemberActive {
			return true
		}
	}
	return false
}

// settle evicts, if the outcome of a command on an identity depends on a member whose lease is over.
func (o *placementOracle) settle(id string) {
	for {
		s := o.alive(o.activation(id))
		if s == nil {
			s = o.place(id)
		}
		if s == nil || o.now.Before(s.ends) {
			return
		}
		o.evict(o.now)
	}
}

// answerActivation is for the commands on activations.
func (o *placementOracle) answerActivation(c placementCommand) placementAnswer {
	a, now := o.activation(c.id), o.now
	if slices.Contains([]string{"lookup", "claim", "transfer"}, c.do) {
		o.settle(c.id)
	}
	alive, placed := o.alive(a), o.place(c.id)
	shown := func(code string) placementAnswer {
		return placementAnswer{
			Code: code, Number: a.owner.Number, Owner: a.owner.Member, Token: a.token, Phase: a.phase, Version: a.version,
			Data: a.data, Reason: a.reason,
		}
	}
	grant := func(to *seatOracle, phase string, until time.Time) placementAnswer {
		a.token = anew // it is at least the time, also where the store has come back older
		a.owner, a.phase, a.until, a.failed, a.reason, a.changed = to.Incarnation, phase, until, false, "", now
		o.event(a.owner, c.id, phase)
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
		case ago > 0 || a.phase == "FREE":
			return shown("REQUEST_ID_REUSED"), true
		case a.phase == "LOCKED" && !now.Before(a.until) || alive == nil:
			return shown("LEASE_EXPIRED"), true
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
		case c.incarnation() != a.owner:
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
		o.event(a.owner, c.id, to)
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
		switch by := o.find(c.member); {
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
			to = o.find(c.to)
		}
		switch code := held("ACTIVE"); {
		case code != "OK":
			return shown(code)
		case !o.ready():
			return shown("TOPOLOGY_UNDETERMINED")
		case to == nil && c.to == "":
			return shown("NO_ELIGIBLE_MEMBER")
		case to == nil || to.Incarnation == c.incarnation() || to.Status != placement.MemberActive || to.Full:
			return shown("MEMBER_INELIGIBLE")
		}
		a.claims.add(fmt.Sprint("transfer ", c.token, c.request), params)
		return grant(to, "LOCKED", now.Add(c.ttl))
	case "activated":
		if held("LOCKED") == "OK" && alive == nil {
			return placementAnswer{Code: "MEMBER_INELIGIBLE"}
		}
		return own("ACTIVE", a.phase == "ACTIVE", "LOCKED")
	case "fail":
		r := own("FREE", a.phase == "FREE" && a.failed, "LOCKED")
		if r.Code == "OK" && !r.Replayed {
			a.failed, a.reason = true, "it fails"
		}
		return r
	case "alarm":
		return o.setAlarm(a, c, held("LOCKED", "ACTIVE"))
	case "deactivate":
		return own("FREE", a.phase == "FREE" && !a.failed, "LOCKED", "ACTIVE")
	default: // write
		request := fmt.Sprint(c.token, c.request)
		code := held("LOCKED", "ACTIVE")
		params := fmt.Sprint(c.version, c.data)
		if c.alarm {
			params += fmt.Sprint(c.alarmVersion, c.at)
		}
		ago, same := a.writes.find(request, params)
		switch {
		case code == "STALE_TOKEN" || code == "NOT_OWNER":
			return placementAnswer{Code: code}
		case code == "OK" && c.version == a.version && (!c.alarm || c.alarmVersion == a.alarm.version):
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
		a.writes.add(request, params)
		if c.alarm {
			o.set(a, c)
		}
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
		want.Number, o.members[c.member].Number = got.Number, got.Number
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
