package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Rules are proven on the store in memory. That they hold on all stores follows from histories: what concurrent callers
// of a store see of a few documents can be explained by one that carries out one call at a time, also when calls are
// given up, or their requests and responses are lost. That is linearizability (Herlihy and Wing, 1990), and a rule is
// one conditional write.
//
// A history that cannot be explained is shown whole. A seed makes the same choices again, and not the same history.

// checkHistory loses responses of a store and gives calls up while they are carried out.
func checkHistory(ctx context.Context, s docstore.Store) error { return histories(ctx, s, nil) }

// Fate is what becomes of a write between a store and the service behind it.
type Fate string

// The fates of a write.
const (
	LostRequest      Fate = "lost request"           // the service never sees it
	LostResponse     Fate = "lost response"          // it is carried out, and the response is lost
	AppliedThenError Fate = "applied, then an error" // it is carried out, and the service says that it failed
)

// Meet makes the next request with a text in it that writes meet a fate, once, and leaves all others alone.
type Meet func(f Fate, text string)

// RunFaults holds a store to the same when the service behind it fails. newStore returns a fresh, empty store for each
// check, which it closes with the test.
func RunFaults(t *testing.T, newStore func(t *testing.T) (docstore.Store, Meet)) {
	t.Helper()
	s, meet := newStore(t)
	if err := histories(t.Context(), s, meet); err != nil {
		t.Error(err)
	}
}

const (
	clients  = 4
	bursts   = 5 // in a history: all clients begin one at once
	cellKeys = 3
)

// histories plays and judges some: more of them on a store that responds within microseconds.
func histories(ctx context.Context, s docstore.Store, meet Meet) error {
	least, most, begin := uint64(12), uint64(150), time.Now()
	if os.Getenv("LEASEHOLD_TEST_DEEP") == "1" {
		least, most = 100, 1000
	}
	for seed := uint64(0); seed < least || seed < most && time.Since(begin) < 300*time.Millisecond; seed++ {
		if err := newHistory(s, meet, seed).play(ctx); err != nil {
			return fmt.Errorf("history of seed %d: %w", seed, err)
		}
	}
	return nil
}

// history is what happened to a few documents, as those saw it who called.
type history struct {
	store docstore.Store
	meet  Meet // nil if the service cannot fail
	seed  uint64
	begin time.Time

	mu    sync.Mutex
	calls []*call
}

func newHistory(s docstore.Store, meet Meet, seed uint64) *history {
	return &history{store: s, meet: meet, seed: seed, begin: time.Now()}
}

// call is one of Get or of Write, with what its caller learned.
type call struct {
	mark             string // of a write: what it leaves in the documents, and no other
	reads            []int  // numbers of documents
	changes          []change
	called, returned time.Duration

	open    bool // what became of it is not known: it may also be carried out later
	applied bool
	at      string
	docs    []docstore.Doc
	refused []int
}

// change is what a write does to one document.
type change struct {
	number  int
	when    when
	mark    string // for written and not written
	do      do
	lasts   time.Duration // for put: when the time of the document ends; below 0 for no end
	returns []string
}

type (
	when string // a change is made
	do   string // what is done
)

const (
	always     when = "always"
	absent     when = "absent"
	present    when = "present"
	written    when = "written by"
	notWritten when = "not written by"
	free       when = "free" // absent, or its time has ended

	doPut    do = "put"
	doCheck  do = "check"
	doRemove do = "remove"
)

// The fields of the documents.
const (
	byField    = "by"    // the mark of the write that was the last
	wasField   = "was"   // and of the one before, so that few writes go unseen
	countField = "n"     // how many writes there were
	tokenField = "token" // the same, from the store's time on
	endsField  = "ends"
)

func (h *history) key(number int) docstore.Key {
	return docstore.Key{Kind: "history", Tenant: "acme", ID: fmt.Sprintf("%d-%d", h.seed, number)}
}

func (c change) cond() docstore.Cond {
	by := docstore.Eq{Field: byField, Value: docstore.String(c.mark)}
	switch c.when {
	case absent:
		return docstore.Absent{}
	case present:
		return docstore.Has{Field: countField}
	case written:
		return by
	case notWritten:
		return docstore.Not{Cond: by}
	case free:
		return docstore.Any{docstore.Absent{}, docstore.LE{Field: endsField, Value: docstore.Now}}
	default:
		return nil
	}
}

func (c change) write(k docstore.Key, mark string) docstore.Write {
	w := docstore.Write{Key: k, If: c.cond()}
	switch c.do {
	case doCheck:
	case doRemove:
		w.Delete = true
	default:
		w.Set = docstore.Doc{byField: docstore.String(mark), wasField: docstore.Before(byField)}
		w.Return = c.returns
		w.Add, w.StartAtNow = map[string]int64{countField: 1, tokenField: 1}, []string{tokenField}
		if c.lasts < 0 {
			w.Unset = []string{endsField}
		} else {
			w.Set[endsField] = docstore.Now.Add(c.lasts)
		}
	}
	return w
}

// play lets clients call a store, and judges what they saw.
func (h *history) play(ctx context.Context) error {
	all := make([]*historian, clients)
	for i := range all {
		all[i] = &historian{history: h, number: i, random: rand.New(rand.NewPCG(h.seed, uint64(i)))}
	}
	random := rand.New(rand.NewPCG(h.seed, clients))
	for range bursts {
		var done sync.WaitGroup
		start, calls, failed := make(chan struct{}), 1+random.IntN(3), make([]error, clients)
		for i, c := range all {
			done.Go(func() {
				<-start
				for n := 0; n < calls && failed[i] == nil; n++ {
					failed[i] = c.call(ctx)
				}
			})
		}
		close(start)
		done.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
	}
	every := make([]int, cellKeys)
	for i := range every {
		every[i] = i
	}
	if err := all[0].read(ctx, every); err != nil {
		return err
	}
	return h.judge()
}

// historian is one of the clients.
type historian struct {
	*history

	number int
	random *rand.Rand
	sent   int
	seen   [cellKeys]string // the mark in each document, when it was seen last
	took   time.Duration    // the last call
}

func (c *historian) one(of ...string) string { return of[c.random.IntN(len(of))] }

// call reads some documents, or writes some.
func (c *historian) call(ctx context.Context) error {
	numbers := c.random.Perm(cellKeys)
	if n := c.random.IntN(16); n < 7 {
		numbers = numbers[:1]
	} else if n < 12 {
		numbers = numbers[:2]
	}
	if c.random.IntN(4) == 0 {
		return c.read(ctx, numbers)
	}
	changes := make([]change, len(numbers))
	for i, n := range numbers {
		changes[i] = c.change(n, len(numbers))
	}
	return c.write(ctx, changes)
}

// change is a random one to a document, of several that are changed together.
func (c *historian) change(number, of int) change {
	ch := change{number: number, mark: c.seen[number], do: doPut, lasts: []time.Duration{-1, 0, 2 * time.Millisecond,
		20 * time.Millisecond}[c.random.IntN(4)]}
	ch.when = when(c.one(string(always), string(absent), string(free), string(free), string(written), string(written),
		string(written), string(notWritten)))
	switch n := c.random.IntN(8); {
	case n == 0 && c.meet == nil: // a write that is sent again may not find out that it was there before a removal
		ch.do, ch.when = doRemove, when(c.one(string(present), string(written)))
	case n == 1 && of > 1:
		ch.do, ch.when = doCheck, when(c.one(string(present), string(written)))
	case n == 2:
		ch.returns = []string{tokenField}
	}
	// A write that is sent again because its response was lost rejects itself as long as no other changes the document.
	// Rules remember requests for that; here, no other may make its condition hold again.
	if c.meet != nil && ch.when == free {
		ch.when = written
	}
	if ch.mark == "" { // it has seen none
		switch ch.when {
		case written:
			ch.when = absent
		case notWritten:
			ch.when = always
		default: // says nothing of the mark
		}
		if ch.do != doPut {
			ch.when = present
		}
	}
	return ch
}

// add adds what a caller saw.
func (h *history) add(c *call, called time.Time) {
	c.called, c.returned = called.Sub(h.begin), time.Since(h.begin)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

func (c *historian) read(ctx context.Context, numbers []int) error {
	keys := make([]docstore.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = c.key(n)
	}
	begin := time.Now()
	snap, err := c.store.Get(ctx, keys...)
	if err != nil || len(snap.Docs) != len(keys) {
		return fmt.Errorf("get of %d documents: %d, %w", len(keys), len(snap.Docs), err)
	}
	c.add(&call{reads: numbers, docs: snap.Docs}, begin)
	for i, n := range numbers {
		c.learn(n, snap.Docs[i])
	}
	return nil
}

// learn keeps whose write was seen last.
func (c *historian) learn(number int, d docstore.Doc) {
	if by, ok := d[byField].(docstore.String); ok {
		c.seen[number] = string(by)
	}
}

func (c *historian) write(ctx context.Context, changes []change) error {
	c.sent++
	w := &call{mark: fmt.Sprintf("%d of %d in %d.", c.sent, c.number, c.seed), changes: changes}
	writes := make([]docstore.Write, len(changes))
	for i, ch := range changes {
		writes[i] = ch.write(c.key(ch.number), w.mark)
	}
	giveUp, lost := c.random.IntN(8) == 0, c.random.IntN(12) == 0
	limit := time.Duration(c.random.Int64N(int64(c.took)*3/2 + 1))
	puts := slices.ContainsFunc(changes, func(ch change) bool { return ch.do == doPut })
	if c.meet != nil && puts && c.random.IntN(6) == 0 {
		c.meet(Fate(c.one(string(LostRequest), string(LostResponse), string(AppliedThenError))), w.mark)
		giveUp, lost = false, false
	}
	sent := ctx
	if giveUp {
		var cancel context.CancelFunc
		sent, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	begin := time.Now()
	r, err := c.store.Write(sent, writes...)
	switch {
	case errors.Is(err, docstore.ErrNotWritten):
		return nil
	case err != nil && !giveUp && (c.meet == nil || !errors.Is(err, docstore.ErrUnavailable)):
		return fmt.Errorf("%s: %w", w, err)
	case err != nil || lost:
		w.open = true
		c.add(w, begin)
		return nil
	}
	c.took = time.Since(begin)
	w.applied, w.at, w.docs, w.refused = r.Applied, string(docstore.FormatTime(r.At)), r.Docs, r.Refused
	if len(r.Docs) != len(writes) || r.Applied == (len(r.Refused) > 0) {
		return fmt.Errorf("%s: %d documents", w, len(r.Docs))
	}
	c.add(w, begin)
	// where a service fails, it may have been sent again, and have found what it had done itself; so may others that were
	// sent together with one
	if c.meet != nil && !w.applied {
		first := *w
		first.open = true
		c.add(&first, begin)
	}
	for i, ch := range changes {
		c.learn(ch.number, r.Docs[i])
	}
	return nil
}

// cell is a document as the model knows it. It shares no code with the stores.
type cell struct {
	there   bool
	by, was string
	n       int64
	token   int64  // unseen if it began in a write without a response
	ends    string // empty for none
}

type cells [cellKeys]cell

// unseen stands for what the store has chosen and no one has seen yet.
const (
	unseen     = -1
	unseenEnds = "unseen"
)

// shows reports whether a document that a store returned is this one. Of the named fields none may be missing, nil for
// all. What had not been seen is known then.
func (c cell) shows(d docstore.Doc, named []string) (cell, bool) {
	if d == nil || !c.there {
		return c, d == nil && !c.there
	}
	for field, v := range d {
		same := false
		switch field {
		case byField:
			same = v == docstore.Value(docstore.String(c.by))
		case wasField:
			same = v == docstore.Value(docstore.String(c.was))
		case countField:
			same = v == docstore.Value(docstore.Int(c.n))
		case tokenField:
			if n, ok := v.(docstore.Int); ok && c.token == unseen {
				c.token = int64(n)
			}
			same = v == docstore.Value(docstore.Int(c.token))
		case endsField:
			if s, ok := v.(docstore.String); ok && c.ends == unseenEnds {
				c.ends = string(s)
			}
			same = c.ends != "" && v == docstore.Value(docstore.String(c.ends))
		}
		if !same {
			return c, false
		}
	}
	if named == nil {
		named = []string{byField, wasField, countField, tokenField, endsField}
	}
	for _, field := range named {
		if _, ok := d[field]; !ok && (field != endsField || c.ends != "") {
			return c, false
		}
	}
	return c, true
}

// may reports whether a change may be made to a document at the store's time, which is empty if it is not known.
func (c change) may(on cell, at string) bool {
	switch c.when {
	case absent:
		return !on.there
	case present:
		return on.there
	case written:
		return on.there && on.by == c.mark
	case notWritten:
		return !on.there || on.by != c.mark
	case free:
		return !on.there || on.ends != "" && (on.ends == unseenEnds || at == "" || on.ends <= at)
	default:
		return true
	}
}

// made is what a change makes of a document.
func (c change) made(on cell, mark, at string) cell {
	switch {
	case c.do == doRemove:
		return cell{}
	case c.do == doCheck:
		return on
	case !on.there:
		on.token = unseen
	case on.token != unseen:
		on.token++
	}
	on.there, on.by, on.was, on.n = true, mark, on.by, on.n+1
	switch {
	case c.lasts < 0:
		on.ends = ""
	case at == "":
		on.ends = unseenEnds
	default:
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			panic(err)
		}
		on.ends = string(docstore.FormatTime(t.Add(c.lasts)))
	}
	return on
}

// follow is the model: the documents after a call, false if it could not have had its outcome. A write whose outcome is
// not known is made if it may be: one that was never made is the last of all calls, and no one has seen what it did.
func (c *call) follow(s cells) (bool, cells) {
	var ok bool
	for i, number := range c.reads {
		if s[number], ok = s[number].shows(c.docs[i], nil); !ok {
			return false, s
		}
	}
	if c.reads != nil {
		return true, s
	}
	for _, i := range c.refused {
		if c.open {
			break
		}
		ch := c.changes[i]
		if s[ch.number], ok = s[ch.number].shows(c.docs[i], nil); !ok || ch.may(s[ch.number], c.at) {
			return false, s
		}
	}
	if !c.open && !c.applied {
		return true, s
	}
	at := c.at
	if c.open {
		at = ""
	}
	for _, ch := range c.changes {
		if !ch.may(s[ch.number], at) {
			return c.open, s
		}
	}
	// a store may return none of several documents
	shown := !c.open && (len(c.docs) == 1 || slices.ContainsFunc(c.docs, func(d docstore.Doc) bool { return d != nil }))
	for i, ch := range c.changes {
		s[ch.number] = ch.made(s[ch.number], c.mark, at)
		if !shown {
			continue
		}
		if s[ch.number], ok = s[ch.number].shows(c.docs[i], ch.returns); !ok {
			return false, s
		}
	}
	return true, s
}

// mostSteps is how many steps of the model the check of a history may take. Most take some hundreds.
const mostSteps = 1_000_000

// judge looks for an order of the calls that explains what was seen: first without those of unknown outcome of which no
// one saw anything, since each of them doubles what there is to try.
func (h *history) judge() error {
	seen := map[string]bool{}
	for _, c := range h.calls {
		for _, d := range c.docs {
			for _, field := range []string{byField, wasField} {
				if mark, ok := d[field].(docstore.String); ok {
					seen[string(mark)] = true
				}
			}
		}
	}
	for _, whole := range []bool{false, true} {
		var operations []porcupine.Operation
		for i, c := range h.calls {
			o := porcupine.Operation{ClientId: i, Input: c, Call: c.called.Nanoseconds(), Return: c.returned.Nanoseconds()}
			if c.open {
				o.Return = math.MaxInt64
			}
			if whole || !c.open || seen[c.mark] {
				operations = append(operations, o)
			}
		}
		steps := 0
		if porcupine.CheckOperations(porcupine.Model{
			Init: func() any { return cells{} },
			Step: func(state, in, _ any) (bool, any) {
				ok, s := in.(*call).follow(state.(cells))
				steps++
				return ok && steps < mostSteps, s
			},
		}, operations) {
			return nil
		}
	}
	slices.SortFunc(h.calls, func(a, b *call) int { return int(a.called - b.called) })
	var b strings.Builder
	for _, c := range h.calls {
		fmt.Fprintf(&b, "\n%8d-%8d us %s", c.called.Microseconds(), c.returned.Microseconds(), c)
	}
	return fmt.Errorf("no order of these calls explains what they saw:%s", b.String())
}

// String is the call for people.
func (c *call) String() string {
	if c.reads != nil {
		return fmt.Sprintf("get %v: %v", c.reads, c.docs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "write %q", c.mark)
	for _, ch := range c.changes {
		fmt.Fprintf(&b, " [%s %d when %s %s]", ch.do, ch.number, ch.when, ch.mark)
	}
	if c.open {
		b.WriteString(": outcome unknown")
	} else {
		fmt.Fprintf(&b, ": applied %v, refused %v at %s: %v", c.applied, c.refused, c.at, c.docs)
	}
	return b.String()
}
