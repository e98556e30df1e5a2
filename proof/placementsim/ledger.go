package placementsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Kinds of documents, as docs/guides/placement.md has them.
const (
	activations = "activations"
	members     = "placement_members"
	leases      = "placement_member_leases"
)

// ledger follows documents from below the rules: it knows each document before and after each write that a store
// applied. It parses them itself.
type ledger struct {
	referee *chaos.Referee

	turn   chan struct{} // one write at a time, so that the ledger is in the store's order; the rest is used with it
	docs   map[docstore.Key]docstore.Doc
	born   map[incarnation]*process  // who joined as it
	ends   map[incarnation]time.Time // when its lease ends, by the true time
	locked map[docstore.Key]time.Time
	wrong  []error
}

// incarnation is a member's name with a number.
type incarnation struct {
	member string
	number int64
}

func newLedger(r *chaos.Referee) *ledger {
	return &ledger{
		referee: r, turn: make(chan struct{}, 1), docs: map[docstore.Key]docstore.Doc{}, born: map[incarnation]*process{},
		ends: map[incarnation]time.Time{}, locked: map[docstore.Key]time.Time{},
	}
}

// watched is a store as one process uses it.
type watched struct {
	docstore.Store

	ledger *ledger
	who    *process
}

// Write implements [docstore.Store].
func (s watched) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	l := s.ledger
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	began := time.Now().Truncate(time.Millisecond) // stores have no finer one
	r, err := s.Store.Write(ctx, writes...)
	if err != nil || !r.Applied {
		return r, err
	}
	var keys []docstore.Key
	// an activation's owner is judged by what the same step made of the members
	for _, kind := range []string{members, leases, activations} {
		for _, w := range writes {
			if w.Key.Kind == kind && (len(w.Set) > 0 || len(w.Unset) > 0) {
				keys = append(keys, w.Key)
			}
		}
	}
	for part := range slices.Chunk(keys, 20) {
		after, err := s.Get(ctx, part...)
		if err != nil {
			return r, fmt.Errorf("the ledger cannot read: %w", err)
		}
		for i, key := range part {
			l.enter(key, s.who, after.Docs[i], began)
		}
	}
	return r, nil
}

// enter takes down what a write made of a document.
func (l *ledger) enter(key docstore.Key, who *process, after docstore.Doc, at time.Time) {
	before := l.docs[key]
	l.docs[key] = after
	var err error
	switch key.Kind {
	case members:
		err = l.member(key, who, before, after, at)
	case leases:
		l.lease(key, before, after, at)
	default:
		err = l.activation(key, who, before, after, at)
	}
	if err != nil {
		l.wrong = append(l.wrong, fmt.Errorf("%s at %v, by %s: %w\nbefore %v\nafter  %v", key, at, who.name,
			err, before, after))
	}
}

func live(d docstore.Doc) bool {
	return text(d, "status") == "ACTIVE" || text(d, "status") == "DRAINING"
}

// member judges a change of a member: an incarnation is expelled only when its lease has ended.
func (l *ledger) member(key docstore.Key, who *process, before, after docstore.Doc, at time.Time) error {
	was, is := incarnation{key.ID, number(before, "incarnation")}, incarnation{key.ID, number(after, "incarnation")}
	switch {
	case is.number < was.number:
		return errors.New("an incarnation after a later one")
	case is.number > was.number:
		l.born[is] = who
		who.sim.tally.Add("members joined", 1)
	}
	expelled := live(before) && (is != was || text(after, "status") == "DEAD")
	if expelled {
		who.sim.tally.Add("members evicted", 1)
	}
	if end := l.ends[was]; expelled && at.Before(end) {
		return fmt.Errorf("evicted %v before its lease ended", end.Sub(at))
	}
	return nil
}

// lease takes down until when an incarnation's lease lasts by the true time: the caller's clock may be wrong.
func (l *ledger) lease(key docstore.Key, before, after docstore.Doc, at time.Time) {
	i := incarnation{key.ID, number(after, "incarnation")}
	if after["expires_at"] != nil && (before["expires_at"] != after["expires_at"] ||
		number(before, "incarnation") != i.number) {
		l.ends[i] = at.Add(time.Duration(number(after, "ttl_ms")) * time.Millisecond)
	}
}

// activation judges a change of an activation.
func (l *ledger) activation(key docstore.Key, who *process, before, after docstore.Doc, at time.Time) error {
	was, is := incarnation{text(before, "member"), number(before, "incarnation")},
		incarnation{text(after, "member"), number(after, "incarnation")}
	had, has := number(before, "token"), number(after, "token")
	phase, next := text(before, "phase"), text(after, "phase")
	owns := l.born[was] == who && was.number > 0
	ended := !at.Before(l.locked[key]) // the lock phase before
	if next == "LOCKED" && has != had {
		l.locked[key] = at.Add(moment(after, "lock_until").Sub(moment(after, "claimed_at")))
	}
	seat := func(i incarnation) docstore.Doc {
		d := l.docs[docstore.Key{Kind: members, Tenant: key.Tenant, ID: i.member}]
		if number(d, "incarnation") != i.number {
			return nil
		}
		return d
	}
	if has != had || is != was || number(before, "rev") > 0 && before["claimed_at"] != after["claimed_at"] {
		dead := !live(seat(was))
		switch {
		case has <= had:
			return fmt.Errorf("token %d was given after %d", has, had)
		case text(seat(is), "status") != "ACTIVE":
			return fmt.Errorf("it was given to %v, which is not an active member", is)
		case before == nil || phase == "FREE" || dead:
		case phase == "LOCKED" && ended:
		case owns && phase != "LOCKED":
		default:
			return fmt.Errorf("it was taken from %v, which has it", was)
		}
		if phase != "FREE" && before != nil && dead {
			who.sim.tally.Add("activations taken over", 1)
		}
		l.referee.Note(chaos.Event{Kind: chaos.Granted, Subject: key.ID, Token: has, At: time.Now(),
			Owner: l.born[is].name, Prepares: next != "ACTIVE"})
		return l.stated(key, before, after, nil)
	}
	if err := l.stated(key, before, after, who); err != nil {
		return err
	}
	if !owns {
		return fmt.Errorf("changed by another process than that of its owner %v", was)
	}
	if phase == "LOCKED" && next == "ACTIVE" {
		if !live(seat(was)) {
			return fmt.Errorf("activated by %v, which is not a member", was)
		}
		l.referee.Note(chaos.Event{Kind: chaos.Activated, Subject: key.ID, Token: has})
	}
	return nil
}

// stated judges the state of an activation: who wrote it has put its token in it.
func (l *ledger) stated(key docstore.Key, before, after docstore.Doc, who *process) error {
	a, _ := before["state"].(docstore.Bytes)
	b, _ := after["state"].(docstore.Bytes)
	if bytes.Equal([]byte(a), []byte(b)) {
		return nil
	}
	token, _, _ := bytes.Cut([]byte(b), []byte(" "))
	if n, err := strconv.ParseInt(string(token), 10, 64); err != nil || who == nil || n != number(after, "token") {
		return fmt.Errorf("%s has a state that was written under token %s", key.ID, token)
	}
	who.sim.tally.Add("states written", 1)
	return nil
}

func (l *ledger) err() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return errors.Join(l.wrong...)
}

func text(d docstore.Doc, field string) string {
	s, _ := d[field].(docstore.String)
	return string(s)
}

func number(d docstore.Doc, field string) int64 {
	n, _ := d[field].(docstore.Int)
	return int64(n)
}

func moment(d docstore.Doc, field string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05.000Z", text(d, field))
	if err != nil {
		return time.Time{}
	}
	return t
}
