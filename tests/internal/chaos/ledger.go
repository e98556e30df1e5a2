package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// ledger follows the documents of analyses from below the gate: each write that a store applied changes one document
// to the next, and the requirement says which actor may make which change. It parses documents itself.
type ledger struct {
	referee *Referee
	tally   *Tally

	mu    sync.Mutex
	docs  map[string]docstore.Doc  // as the last applied write left them
	turns map[string]chan struct{} // one write at a time on a document, so that the ledger is in the store's order
	wrong []error
}

func newLedger(r *Referee, t *Tally) *ledger {
	return &ledger{referee: r, tally: t, docs: map[string]docstore.Doc{}, turns: map[string]chan struct{}{}}
}

// actor is who writes: one delivery of a message, or a sweep.
type actor struct {
	sweeps bool
	tokens map[int64]bool // that it was granted; only under ledger.mu
}

// ledgerStore is a store as one actor uses it.
type ledgerStore struct {
	docstore.Store

	ledger *ledger
	actor  *actor
}

func (l *ledger) under(s docstore.Store, a *actor) docstore.Store {
	a.tokens = map[int64]bool{}
	return ledgerStore{s, l, a}
}

// Due implements [docstore.DueLister].
func (s ledgerStore) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	return docstore.Due(ctx, s.Store, q)
}

// Write implements [docstore.Store]. The gate writes one document at a time.
func (s ledgerStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	id := writes[0].Key.ID
	turn := s.ledger.turn(id)
	turn <- struct{}{}
	defer func() { <-turn }()
	r, err := s.Store.Write(ctx, writes...)
	if err == nil {
		s.ledger.enter(id, s.actor, r)
	}
	return r, err
}

func (l *ledger) turn(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns[id] == nil {
		l.turns[id] = make(chan struct{}, 1)
	}
	return l.turns[id]
}

// enter writes the outcome of a write down.
func (l *ledger) enter(id string, who *actor, r docstore.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !r.Applied {
		if n := number(r.Docs[0]); len(who.tokens) > 0 && !who.tokens[n] {
			l.tally.Add("writes under an old token rejected", 1)
		}
		return
	}
	before, after := l.docs[id], r.Docs[0]
	l.docs[id] = after
	if err := l.step(id, who, before, after, r.At); err != nil {
		l.wrong = append(l.wrong, fmt.Errorf("analysis %s at %v: %w\nbefore %v\nafter  %v", id, r.At, err, before, after))
	}
}

// step checks that an actor may make a change of a document.
func (l *ledger) step(id string, who *actor, before, after docstore.Doc, at time.Time) error {
	had, has := number(before), number(after)
	free := before["lockOwner"] == nil || !expiry(before).After(at)
	switch {
	case before == nil: // made by its owner
	case finished(before):
		if !maps.Equal(before, after) {
			return errors.New("it was changed after it had ended")
		}
	case finished(after) && who.sweeps:
		l.referee.Note(Event{Kind: Finished, Analysis: id, Token: has, At: at, Status: status(after)})
		l.tally.Add("failed by the sweep", 1)
		if !free || has != had+1 {
			return errors.New("the sweep gave a run up that is not stale")
		}
	case finished(after):
		l.referee.Note(Event{Kind: Finished, Analysis: id, Token: has, At: at, Status: status(after)})
		l.tally.Add(status(after), 1)
		if !who.tokens[had] || has != had || after["lockOwner"] != nil {
			return fmt.Errorf("finished by a holder of %v", who.tokens)
		}
	case has == had+1:
		l.referee.Note(Event{Kind: Granted, Analysis: id, Token: has, At: at, Until: expiry(after)})
		l.tally.Add("runs granted", 1)
		if before["lockOwner"] != nil {
			l.tally.Add("takeovers", 1)
		}
		who.tokens[has] = true
		if !free || after["lockOwner"] == nil {
			return errors.New("granted while it was held")
		}
	case has != had:
		return errors.New("the token changed in another way")
	case before["lockOwner"] != nil && after["lockOwner"] == nil:
		if !who.tokens[had] {
			return fmt.Errorf("released by a holder of %v", who.tokens)
		}
	case before["lockExpiresAt"] != after["lockExpiresAt"]:
		l.referee.Note(Event{Kind: Extended, Analysis: id, Token: has, At: at, Until: expiry(after)})
		l.tally.Add("heartbeats", 1)
		if !who.tokens[had] || free || before["lockOwner"] != after["lockOwner"] {
			return fmt.Errorf("extended by a holder of %v", who.tokens)
		}
	default:
		// A sweep leaves its mark, and removes it. No other change is allowed.
		marks := func(f string, _ docstore.Value) bool { return who.sweeps && strings.HasPrefix(f, "lockRequeue") }
		before, after = maps.Clone(before), maps.Clone(after)
		maps.DeleteFunc(before, marks)
		maps.DeleteFunc(after, marks)
		if !maps.Equal(before, after) {
			return errors.New("changed by an actor that must not")
		}
	}
	return nil
}

// unfinished are the analyses that have not ended.
func (l *ledger) unfinished() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, d := range l.docs {
		if !finished(d) {
			ids = append(ids, id)
		}
	}
	return ids
}

// err joins the changes that are not allowed.
func (l *ledger) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.wrong...)
}

func finished(d docstore.Doc) bool { s := status(d); return s == "READY" || s == "FAILED" }

func status(d docstore.Doc) string {
	s, _ := d["status"].(docstore.String)
	return string(s)
}

func number(d docstore.Doc) int64 {
	n, _ := d["lockToken"].(docstore.Int)
	return int64(n)
}

// expiry is zero if there is none.
func expiry(d docstore.Doc) time.Time {
	s, _ := d["lockExpiresAt"].(docstore.String)
	t, err := time.Parse("2006-01-02T15:04:05.000Z", string(s))
	if err != nil {
		return time.Time{}
	}
	return t
}
