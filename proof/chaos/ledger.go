package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
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

// step checks that an actor may make a change of a document. What two of
// them mean together is for the referee.
func (l *ledger) step(id string, who *actor, before, after docstore.Doc, at time.Time) error {
	had, has := number(before), number(after)
	free := before["lockOwner"] == nil || !expiry(before).After(at)
	held, mine := after["lockOwner"] != nil, has == had && who.tokens[had]
	next := has == had+1
	// the first token is the store's time; counters of the same instant follow each other
	if _, counts := before["lockToken"]; !counts {
		next = has > at.UnixMicro() && has <= at.UnixMicro()+1e6
	}
	note := func(k EventKind, what string) {
		l.referee.Note(Event{Kind: k, Subject: id, Token: has, At: at, Until: expiry(after)})
		l.tally.Add(what, 1)
	}
	may := true
	switch {
	case before == nil: // made by its owner
	case finished(before):
		may = maps.Equal(before, after)
	case finished(after) && who.sweeps:
		note(Finished, "failed by the sweep")
		may = free && next
	case finished(after) && next: // by an acquire, instead of another run
		note(Finished, "failed by an acquire")
		runs, _ := before["lockRuns"].(docstore.Int)
		failures, _ := before["lockFailures"].(docstore.Int)
		takenOver := before["lockOwner"] != nil && runs > analysis.DefaultMaxTakeovers
		may = free && status(after) == "FAILED" && !held && (takenOver || failures >= maxFailures)
	case finished(after):
		note(Finished, status(after))
		may = mine && !held
	case next:
		note(Granted, "runs granted")
		if before["lockOwner"] != nil {
			l.tally.Add("takeovers", 1)
		}
		who.tokens[has] = true
		may = free && held
	case before["lockOwner"] != nil && !held:
		may = mine
	case before["lockExpiresAt"] != after["lockExpiresAt"]:
		note(Extended, "heartbeats")
		may = mine && !free && before["lockOwner"] == after["lockOwner"]
	case remembers(before, after) && !who.sweeps: // a request that was given up, perhaps beside another's run
		l.tally.Add("given up and remembered", 1)
	default:
		// A sweep leaves its mark, and removes it. No other change is allowed.
		marks := func(f string, _ docstore.Value) bool { return who.sweeps && strings.HasPrefix(f, "lockRequeue") }
		before, after = maps.Clone(before), maps.Clone(after)
		maps.DeleteFunc(before, marks)
		maps.DeleteFunc(after, marks)
		may = maps.Equal(before, after)
	}
	if !may {
		return fmt.Errorf("changed by one who must not: a holder of %v", who.tokens)
	}
	return nil
}

// remembers reports whether a change remembers one request behind that of the latest run, and does nothing else.
func remembers(before, after docstore.Doc) bool {
	want := maps.Clone(before)
	want["lockRequest2"], want["lockRequest3"], want["lockRequest4"] = after["lockRequest2"], before["lockRequest2"],
		before["lockRequest3"]
	for _, f := range []string{"lockRequest3", "lockRequest4"} {
		if want[f] == nil {
			want[f] = docstore.String("")
		}
	}
	return after["lockRequest2"] != before["lockRequest2"] && maps.Equal(want, after)
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

// tokens are those of an analysis to try, in order: the latest and all that were granted, and of those that were not,
// because tokens begin at the store's time, the one below each and the lowest there is.
func (l *ledger) tokens(id string, latest int64) []int64 {
	all := []int64{1, latest}
	for _, e := range l.referee.Of(Granted) {
		if e.Subject == id {
			all = append(all, e.Token-1, e.Token)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(token int64) bool { return token < 1 })
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
