package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// maxTries bounds how often a change of the members, or a claim, is decided again because another came first.
const maxTries = 200

// maxPause bounds the pauses between two tries: as long as 1<<maxPause tries take.
const maxPause = 5

// evictions is how many members one epoch evicts at most: each takes three writes of one step.
const evictions = 30

// sight is what a change of the members is decided on: the documents of the cluster and of the members that it is
// about.
type sight struct {
	at time.Time
	// by it leases must have ended: earlier than at, on a store that turned out not to be sure of the time
	passed time.Time
	head   head      // zero for a cluster without members so far
	top    *Topology // never nil; of epoch 0 then, or that of the removal
	seats  map[string]seat
	leases map[string]LeaseState
}

// lives reports whether the incarnation is in the cluster.
func (v *sight) lives(i Incarnation) bool {
	s := v.seats[i.Member]
	return s.live() && s.number == i.Number
}

// plan is what a change of the members does.
type plan struct {
	// outcome is that of the change, once it is written; its epoch, time and moves are added. A plan without a cause
	// changes nothing.
	outcome MemberOutcome
	cause   string

	members []Member          // of the next epoch
	grows   bool              // it says more about members than before: then the bounds of a cluster count
	heir    map[string]string // see [Topology.Next]
	writes  []docstore.Write  // of seats and leases
	events  []Event
	end     rule.End // of the command
}

// rejected is a plan that changes nothing.
func (v *sight) rejected(o MemberOutcome) plan {
	o.At, o.Epoch = v.at, v.top.Epoch
	return plan{outcome: o}
}

// ended is the outcome of a plan whose command came after its end, or has one that is too far away, unless an earlier
// delivery of it had its effect. refused is the latest write that the store refused: its time counts, too.
func (v *sight) ended(p plan, refused rule.When) (MemberOutcome, bool) {
	o := p.outcome
	if p.cause == "" && (o.Code == OK || o.Code == RequestIDReused || o.Code == LateAnswer) {
		return o, false
	}
	w := rule.When{At: v.at}
	if refused.Latest().After(v.at) {
		w = refused
	}
	code, said := ended(p.end, w)
	return MemberOutcome{Code: code, Incarnation: o.Incarnation, Epoch: v.top.Epoch, At: w.Latest(), Detail: said},
		code != OK
}

// stale is the plan for a command that names an incarnation which does not live.
func (v *sight) stale(i Incarnation) plan {
	s := v.seats[i.Member]
	if s.number == 0 {
		return v.rejected(MemberOutcome{Code: MemberUnknown, Incarnation: i, Detail: "there is no member of this name: join"})
	}
	return v.rejected(MemberOutcome{
		Code: StaleIncarnation, Incarnation: Incarnation{i.Member, s.number}, Status: s.status,
		Detail: "the incarnation is not, or no longer, a member",
	})
}

// change decides and writes, and decides again if another change came first.
func (s *Service) change(ctx context.Context, c Cluster, partitions int, names []string,
	decide func(*sight) plan) (MemberOutcome, error) {
	var refused rule.When // the latest write
	for try := range maxTries {
		begin := s.now()
		v, err := s.look(ctx, c, partitions, names)
		if err != nil {
			return MemberOutcome{}, err
		}
		v.passed = v.at.Add(-refused.Margin)
		p := decide(v)
		if o, over := v.ended(p, refused); over {
			return o, nil
		}
		if p.cause == "" {
			return p.outcome, nil
		}
		next, moved := v.top.Next(p.members, p.heir, p.cause)
		writes, err := s.changeWrites(c, v, p, next, moved)
		if err != nil {
			return MemberOutcome{}, err
		}
		if p.grows && !next.room() {
			made, err := s.evictEnded(ctx, c, 1)
			if err != nil {
				return MemberOutcome{}, err
			}
			if len(made.evicted) > 0 {
				continue // it was full of members that are dead
			}
			return v.rejected(MemberOutcome{
				Code: ClusterFull, Incarnation: p.outcome.Incarnation, RetryAfter: made.next,
				Detail: fmt.Sprintf("a cluster has %d members and %d bytes about them at most, and the leases of all of them last",
					MaxMembers, maxOfferBytes),
			}).outcome, nil
		}
		if v.head.fresh() {
			switch full, err := s.register(ctx, c, p.end); {
			case err != nil:
				return MemberOutcome{}, err
			case full:
				return v.rejected(MemberOutcome{
					Code: Limit, Incarnation: p.outcome.Incarnation, RetryAfter: s.clusters.RetryAfter(c.Tenant),
					Detail: fmt.Sprintf("the tenant has %d clusters, which is the bound of this server: join one of them",
						s.clusters.Most()),
				}).outcome, nil
			}
		}
		before := s.Cached(c)
		r, err := s.store.Write(ctx, writes...)
		if err != nil {
			return MemberOutcome{}, fmt.Errorf("cluster %q: %w", c.Name, err)
		}
		if !r.Applied {
			refused = rule.When{At: r.At, Margin: r.Margin}
			// Another change came first, or this one was applied before: the documents tell. Of many that come at once one is
			// first each time, and the others would only keep each other from it.
			if err := s.pause(ctx, s.now().Sub(begin), try); err != nil {
				return MemberOutcome{}, fmt.Errorf("cluster %q: %w", c.Name, err)
			}
			continue
		}
		// a sweep may have removed the name of a cluster that no one seemed to join
		if v.head.fresh() && s.now().Sub(begin) > maxDelay {
			if _, err := s.name(ctx, c, docstore.Write{}); err != nil {
				return MemberOutcome{}, err
			}
		}
		next.At = r.At
		s.keep(c, next.dated(), before)
		o := p.outcome
		o.Epoch, o.Moved, o.At = next.Epoch, moved, r.At
		if !o.ExpiresAt.IsZero() { // of a lease that began with the change
			o.ExpiresAt = r.At.Add(o.ExpiresAt.Sub(v.at))
			if (rule.When{At: r.At, Took: s.now().Sub(begin)}).Late(o.ExpiresAt) {
				o.Code, o.Detail = LateAnswer, "the store took longer to respond than the lease lasts; send a heartbeat"
			}
		}
		return o, nil
	}
	return MemberOutcome{}, fmt.Errorf("%w: cluster %q: %d other changes of its members came first; try again",
		docstore.ErrUnavailable, c.Name, maxTries)
}

// pause waits after a try that took so long and came too late: for a random time, up to as long as two tries take, then
// four, and up to 32.
func (s *Service) pause(ctx context.Context, took time.Duration, try int) error {
	return s.sleep(ctx, rand.N(1+took<<min(try+1, maxPause)))
}

// look reads what a change is decided on: one request, and those of [Service.Topology] for an epoch that is not known.
func (s *Service) look(ctx context.Context, c Cluster, partitions int, names []string) (*sight, error) {
	keys := []docstore.Key{c.head()}
	for _, n := range names {
		keys = append(keys, c.member(n), c.lease(n))
	}
	before := s.Cached(c)
	snap, err := s.store.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	s.learn(snap.At)
	v := &sight{at: snap.At, seats: map[string]seat{}, leases: map[string]LeaseState{}}
	if v.head, v.top, err = s.current(ctx, c, snap.Docs[0], before); err != nil {
		return nil, err
	}
	if v.top == nil {
		v.top = NewTopology(partitions)
		v.top.Epoch = v.head.epoch // of a cluster that was removed: the next epoch is higher
	}
	for i, n := range names {
		if v.seats[n], err = c.seatOf(n, snap.Docs[1+2*i]); err != nil {
			return nil, err
		}
		l, err := c.leaseOf(n, snap.Docs[2+2*i])
		if err == nil {
			v.leases[n], err = s.lasting(ctx, c, n, l, rule.When{At: snap.At, Margin: snap.Margin})
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// changeWrites are all writes of a change, in one step: the head, on the condition that it is the one that was read,
// the next epoch, and what the plan says.
func (s *Service) changeWrites(c Cluster, v *sight, p plan, next *Topology, moved int) ([]docstore.Write, error) {
	next.drawn = fmt.Sprintf("%08x", rand.Uint32()) // of one length: so are the documents
	before := v.top
	if v.head.fresh() {
		before = nil
	}
	body, err := next.write(c, before)
	if err != nil {
		return nil, err
	}
	head := docstore.Write{Key: c.head(), If: docstore.Absent{}, Set: map[string]docstore.Value{
		fEpoch: docstore.Int(next.Epoch), fPartitions: docstore.Int(next.Partitions()),
		fHashVersion: docstore.Int(HashVersion),
		fChangedAt:   docstore.Now,
		fDrawn:       docstore.String(next.drawn),
	}, Unset: []string{fRemoved}, Until: p.end.NotAfter} // the step is all or none
	writes := []docstore.Write{head, body}
	if v.head.epoch > 0 {
		writes[0].If = append(v.head.same(), docstore.Not{Cond: docstore.LE{
			Field: fChangedAt, Value: docstore.Now.Add(v.head.changedAt.Sub(v.at) - maxDelay)}})
	}
	if ended := next.Epoch - epochParts; ended >= next.first {
		writes = append(writes, docstore.Write{Key: c.epoch(ended), Keep: keepEpochs})
	}
	writes = append(writes, p.writes...)
	for _, e := range p.events {
		e.Epoch, e.Moved = next.Epoch, moved
		writes = append(writes, e.write(c, v.at))
	}
	return writes, nil
}

// room reports whether a cluster may be so large. Each part of the state must have room in a document: an epoch that
// must be, such as that of an eviction, writes the part whose turn it is.
func (t *Topology) room() bool {
	sum, parts := 0, [epochParts]int{}
	for i := range t.Members {
		b, _ := json.Marshal(&t.Members[i]) //nolint:errchkjson // texts and numbers can always be encoded
		sum += len(b) + 1
		parts[t.slots[i]%epochParts] += len(b) + 1
	}
	return len(t.Members) <= MaxMembers && sum <= maxOfferBytes && slices.Max(parts[:]) <= maxPartBytes
}

// Join makes a member; see [Join]. One read and one write of the store, unless others change the members at the same
// moment; the first of a cluster is one write more, by which sweeps find it. With [Options.JoinDelay] they are those of
// all that wait together. Where the cluster is full, members whose leases have ended are evicted, and it is decided
// again; ClusterFull says when the first lease ends of those that last. The codes of rejections are MemberExists,
// StaleIncarnation and MemberUnknown (of what it replaces), ClusterDiffers, ClusterFull, RequestIDReused, LateAnswer,
// TooLate and TooFar. What comes too late leaves nothing: all that a join writes is one step, which has its end.
func (s *Service) Join(ctx context.Context, c Join) (MemberOutcome, error) {
	if err := c.Validate(); err != nil {
		return MemberOutcome{}, err
	}
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	if o, ok := s.gather(ctx, c); ok {
		return o, nil
	}
	names := []string{c.Member}
	if c.Replaces.Member != "" {
		names = append(names, c.Replaces.Member)
	}
	return s.change(ctx, c.Cluster, c.partitions(), names, c.decide)
}

func (c Join) decide(v *sight) plan {
	p := c.plan(v)
	p.end = c.End
	return p
}

func (c Join) plan(v *sight) plan {
	found, lease := v.seats[c.Member], v.leases[c.Member]
	now := Incarnation{c.Member, found.number}
	switch i, same := found.joins.Find(c.request()); {
	case i == 0 && same && found.live() && !lease.held(v.at):
		return v.rejected(MemberOutcome{Code: LateAnswer, Incarnation: now, Status: found.status,
			Detail: "the lease that this request_id obtained has ended; use a new one"})
	case i == 0 && same && found.live():
		return v.rejected(MemberOutcome{Code: OK, Replayed: true, Incarnation: now, Status: found.status,
			ExpiresAt: lease.ExpiresAt})
	case i >= 0 && !same:
		return v.rejected(MemberOutcome{Code: RequestIDReused, Incarnation: now, Status: found.status,
			Detail: "this request_id was used with other parameters; use a new one"})
	case i >= 0:
		return v.rejected(MemberOutcome{Code: RequestIDReused, Incarnation: now, Status: found.status,
			Detail: "the incarnation that this request_id made has ended; use a new one"})
	case found.live() && lease.held(v.passed):
		return v.rejected(MemberOutcome{
			Code: MemberExists, Incarnation: now, Status: found.status, ExpiresAt: lease.ExpiresAt,
			RetryAfter: lease.ExpiresAt.Sub(v.passed),
			Detail:     "a member of this name lives: give each process a name of its own",
		})
	case !v.head.fresh() && c.Partitions != 0 && c.Partitions != v.head.partitions:
		return v.rejected(MemberOutcome{Code: ClusterDiffers, Incarnation: now, Detail: fmt.Sprintf(
			"the cluster was set up with %d partitions, which can never change, not %d", v.head.partitions, c.Partitions)})
	case c.Replaces.Member != "" && !v.lives(c.Replaces):
		return v.stale(c.Replaces)
	}
	epoch := v.top.Epoch + 1
	born := Incarnation{c.Member, max(found.number+1, firstToken(epoch, v.at))}
	joined := Member{Incarnation: born, Offer: c.Offer, Status: MemberActive, Address: c.Address, Since: epoch}
	p := plan{
		outcome: MemberOutcome{Code: OK, Incarnation: born, Status: MemberActive, ExpiresAt: v.at.Add(c.TTL)},
		cause:   "join of " + c.Member,
		members: append(without(v.top.Members, c.Member), joined), grows: true,
	}
	seat := c.seatWrite(born, found, MemberActive, epoch)
	joins.Remember(seat.Set, c.request())
	p.writes = append(p.writes, seat, c.leaseWrite(born, lease, c.TTL))
	if found.live() { // its lease has ended: this is its eviction, too
		p.events = append(p.events, Event{Member: now, From: string(found.status), To: string(MemberDead),
			Reason: "its lease ended, and it joined again"})
	}
	p.events = append(p.events, Event{Member: born, To: string(MemberActive)})
	if old := c.Replaces; old.Member != "" {
		p.cause = c.Member + " replaces " + old.Member
		p.heir = map[string]string{old.Member: c.Member}
		if v.seats[old.Member].status == MemberActive {
			p.set(v, old, MemberDraining)
			p.writes = append(p.writes, c.seatWrite(old, v.seats[old.Member], MemberDraining, epoch), c.leaseDrains(old))
			p.events = append(p.events, Event{Member: old, From: string(MemberActive), To: string(MemberDraining),
				Reason: "replaced by " + c.Member})
		}
	}
	return p
}

// without are the members but one.
func without(members []Member, name string) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Member == name })
}

// set changes the status of a member of the next epoch.
func (p *plan) set(v *sight, i Incarnation, status Status) {
	for n := range p.members {
		if p.members[n].Member == i.Member {
			p.members[n].Status, p.members[n].Since = status, v.top.Epoch+1
		}
	}
}

// DrainMember gives a member no new activations, and its partitions to the others. It keeps the activations that it
// has, until it learns of it by its next heartbeat and hands them over. Draining it again changes nothing.
func (s *Service) DrainMember(ctx context.Context, c Cluster, i Incarnation) (MemberOutcome, error) {
	if err := first(c.Validate(), i.Validate()); err != nil {
		return MemberOutcome{}, err
	}
	return s.change(ctx, c, DefaultPartitions, []string{i.Member}, func(v *sight) plan {
		found := v.seats[i.Member]
		switch {
		case !v.lives(i):
			return v.stale(i)
		case found.status == MemberDraining:
			return v.rejected(MemberOutcome{Code: OK, Replayed: true, Incarnation: i, Status: MemberDraining})
		}
		p := plan{
			outcome: MemberOutcome{Code: OK, Incarnation: i, Status: MemberDraining}, cause: i.Member + " drains",
			members: slices.Clone(v.top.Members),
			writes:  []docstore.Write{c.seatWrite(i, found, MemberDraining, v.top.Epoch+1), c.leaseDrains(i)},
			events:  []Event{{Member: i, From: string(MemberActive), To: string(MemberDraining)}},
		}
		p.set(v, i, MemberDraining)
		return p
	})
}

// ChangeOffer changes what a member offers, from the next epoch on: kinds, labels, weight, and whether it is full.
type ChangeOffer struct {
	Cluster
	Offer

	Incarnation Incarnation
	Address     string // for those who look the member up; empty: it stays as it is
	RequestID   string // the same for every delivery of the same intention
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c ChangeOffer) Validate() error {
	return first(c.Cluster.Validate(), c.Incarnation.Validate(), checkRequestID(c.RequestID), c.Offer.Validate(),
		checkAddress(c.Address))
}

func (c ChangeOffer) request() rule.Request {
	return rule.Identify("offer", c.Incarnation.Member, strconv.FormatInt(c.Incarnation.Number, 10),
		c.RequestID).With(c.text(), c.Address)
}

// ChangeOffer changes what a member offers; see [ChangeOffer]. It costs what a join costs. The codes of rejections are
// MemberUnknown, StaleIncarnation, ClusterFull and RequestIDReused.
func (s *Service) ChangeOffer(ctx context.Context, c ChangeOffer) (MemberOutcome, error) {
	if err := c.Validate(); err != nil {
		return MemberOutcome{}, err
	}
	return s.change(ctx, c.Cluster, DefaultPartitions, []string{c.Incarnation.Member}, c.decide)
}

func (c ChangeOffer) decide(v *sight) plan {
	i := c.Incarnation
	found := v.seats[i.Member]
	if !v.lives(i) {
		return v.stale(i)
	}
	o := MemberOutcome{Code: OK, Incarnation: i, Status: found.status}
	if n, same := found.offers.Find(c.request()); n >= 0 {
		if o.Replayed = true; !same {
			o.Code, o.Replayed, o.Detail = RequestIDReused, false, "this request_id made another offer; use a new one"
		}
		return v.rejected(o)
	}
	p := plan{
		outcome: o, cause: "offer of " + i.Member, members: slices.Clone(v.top.Members), grows: true,
		events: []Event{{Member: i, From: string(found.status), To: string(found.status), Reason: "another offer"}},
	}
	seat := c.seatWrite(i, found, found.status, v.top.Epoch+1)
	offers.Remember(seat.Set, c.request())
	p.writes = append(p.writes, seat)
	p.set(v, i, found.status)
	for n := range p.members {
		if p.members[n].Member == i.Member {
			p.members[n].Offer, p.members[n].Address = c.Offer, cmp.Or(c.Address, p.members[n].Address)
		}
	}
	return p
}

// Leave ends an incarnation. Its activations are free for others from then on, so a member leaves when it serves
// nothing any more. Leaving again changes nothing.
func (s *Service) Leave(ctx context.Context, c Cluster, i Incarnation) (MemberOutcome, error) {
	if err := first(c.Validate(), i.Validate()); err != nil {
		return MemberOutcome{}, err
	}
	return s.change(ctx, c, DefaultPartitions, []string{i.Member}, func(v *sight) plan {
		found := v.seats[i.Member]
		switch {
		case found.number == i.Number && found.status == MemberLeft:
			return v.rejected(MemberOutcome{Code: OK, Replayed: true, Incarnation: i, Status: MemberLeft})
		case !v.lives(i):
			return v.stale(i)
		}
		seat := ending(c.seatWrite(i, found, MemberLeft, v.top.Epoch+1), s.retention)
		return plan{
			outcome: MemberOutcome{Code: OK, Incarnation: i, Status: MemberLeft}, cause: i.Member + " leaves",
			members: without(v.top.Members, i.Member),
			writes:  []docstore.Write{seat, c.leaseEnd(i, false, s.retention)},
			events:  []Event{{Member: i, From: string(found.status), To: string(MemberLeft)}},
		}
	})
}

// Evict evicts the members whose leases have ended, all that there are in one epoch (30 at most in each). Anyone may
// call it, as often as they like: it asks the store for the leases, and a heartbeat that comes first wins. It returns
// whom it evicted, as far as the store responded. Members whose documents cannot be read are passed by: the error is a
// [docstore.Unreadable] that names them, after the others were evicted.
func (s *Service) Evict(ctx context.Context, c Cluster) (evicted []Incarnation, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	done, err := s.evictEnded(ctx, c, MaxMembers)
	return done.evicted, errors.Join(err, done.damaged.Err())
}

// evicted is what became of a pass over the leases of a cluster.
type evicted struct {
	evicted []Incarnation
	damaged docstore.Unreadable

	// next is how long it takes until the first lease of another member ends, 0 if there is none. A store that is not sure
	// of the time can evict none of those that have just ended: then it is a second.
	next time.Duration
}

// evictEnded goes through the leases once and evicts members whose leases have ended, until it has evicted enough of
// them. What could not be evicted, because a heartbeat came first or its document is damaged, keeps none behind it.
func (s *Service) evictEnded(ctx context.Context, c Cluster, enough int) (done evicted, err error) {
	for q := (docstore.Query{Kind: leaseKind, Tenant: c.space(), Limit: docstore.MaxLimit}); ; {
		p, err := s.store.List(ctx, q)
		if err != nil {
			return done, fmt.Errorf("leases of %q: %w", c.Name, err)
		}
		done.damaged.AddPage(p)
		var ended []string
		for _, e := range p.Entries {
			l, err := c.leaseOf(e.Key.ID, e.Doc)
			switch {
			case err != nil:
				done.damaged.Take(err)
			case l.ExpiresAt.IsZero(): // it was ended
			case l.held(p.At):
				if l, err = s.lasting(ctx, c, e.Key.ID, l, rule.When{At: p.At, Margin: p.Margin}); err != nil {
					return done, err
				}
				done.comes(l.ExpiresAt.Sub(p.At))
			default:
				ended = append(ended, e.Key.ID)
			}
		}
		for names := range slices.Chunk(ended, evictions) {
			dead, err := s.evictEach(ctx, c, names, &done.damaged)
			if done.evicted = append(done.evicted, dead...); err != nil || len(done.evicted) >= enough {
				return done, err
			}
			if len(dead) < len(names) {
				done.comes(time.Second)
			}
		}
		if q.After = p.Next; p.Next == "" {
			return done, nil
		}
	}
}

// comes notes that a lease ends in a while.
func (e *evicted) comes(in time.Duration) {
	if e.next == 0 || in < e.next {
		e.next = in
	}
}

// evictEach is [Service.evict], by halves where one of the members has a document that cannot be read.
func (s *Service) evictEach(ctx context.Context, c Cluster, names []string,
	damaged *docstore.Unreadable) (dead []Incarnation, err error) {
	dead, err = s.evict(ctx, c, names)
	switch {
	case !errors.Is(err, docstore.ErrDamaged):
		return dead, err
	case len(names) == 1:
		if damaged.Take(err) {
			err = nil
		}
		return nil, err
	}
	for half := range slices.Chunk(names, (len(names)+1)/2) {
		some, err := s.evictEach(ctx, c, half, damaged)
		if dead = append(dead, some...); err != nil {
			return dead, err
		}
	}
	return dead, nil
}

// evict evicts those of the named members whose leases have ended.
func (s *Service) evict(ctx context.Context, c Cluster, names []string) (dead []Incarnation, err error) {
	var expired []time.Duration
	o, err := s.change(ctx, c, DefaultPartitions, names, func(v *sight) plan {
		dead, expired = nil, nil
		p := plan{outcome: MemberOutcome{Code: OK, Status: MemberDead}, members: slices.Clone(v.top.Members)}
		for _, n := range names {
			found, lease := v.seats[n], v.leases[n]
			i := Incarnation{n, found.number}
			if !found.live() || lease.Number != found.number || lease.ExpiresAt.IsZero() || lease.held(v.passed) {
				continue
			}
			dead, expired = append(dead, i), append(expired, v.at.Sub(lease.ExpiresAt))
			p.cause, p.outcome.Incarnation = "the leases of members ended", i
			p.members = without(p.members, n)
			seat := ending(c.seatWrite(i, found, MemberDead, v.top.Epoch+1), s.retention)
			p.writes = append(p.writes, seat, c.leaseEnd(i, true, s.retention))
			p.events = append(p.events, Event{Member: i, From: string(found.status), To: string(MemberDead),
				Reason: "its lease ended"})
		}
		if p.cause == "" {
			return v.rejected(p.outcome)
		}
		return p
	})
	if err != nil {
		return nil, err
	}
	if s.evicted != nil && len(expired) > 0 {
		s.evicted(ctx, expired, o.Moved)
	}
	return dead, nil
}

// Heartbeat keeps a member alive; see [Heartbeat]. One request to the store. The codes of rejections are MemberUnknown,
// StaleIncarnation and LateAnswer.
func (s *Service) Heartbeat(ctx context.Context, c Heartbeat) (MemberOutcome, error) {
	if err := c.Validate(); err != nil {
		return MemberOutcome{}, err
	}
	return rule.Run(ctx, s.store, s.now, c)
}
