package prove

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// small is a world of which all orders are tried. Leases in it last two seconds, and its clocks move by one.
type small struct {
	name    string
	keys    []kind
	clients int
	ticks   int64 // seconds that pass
	sends   int   // requests that all clients send together, of whatever kind
	copies  int   // requests that arrive twice
	sets    int   // of a wall clock, a second back or forth

	all   bool           // orders that differ in nothing are tried, too: for a test
	heard map[string]int // after how many steps each answer is given first; nil: no one asks
}

// smalls are the worlds of [Every]. Each has so few requests and seconds that it can be searched to its end.
var smalls = []small{
	{name: "two locks", keys: []kind{plain, plain}, clients: 3, ticks: 2, sends: 3, sets: 1},
	{name: "two locks, a request more", keys: []kind{plain, plain}, clients: 3, ticks: 2, sends: 4},
	{name: "a lock", keys: []kind{plain}, clients: 2, ticks: 2, sends: 4, copies: 1},
	{name: "a lock, clocks set", keys: []kind{plain}, clients: 2, ticks: 2, sends: 4, sets: 1},
	{name: "a lock with a line", keys: []kind{fair}, clients: 3, ticks: 2, sends: 4},
	{name: "two permits", keys: []kind{permits}, clients: 3, ticks: 2, sends: 4},
	{name: "a run", keys: []kind{aRun}, clients: 2, ticks: 3, sends: 4},
	{name: "a run, three clients", keys: []kind{aRun}, clients: 3, ticks: 2, sends: 4},
}

// Explored is what became of one small world.
type Explored struct {
	World  string     `json:"world"`
	States int        `json:"states"` // different ones
	Moves  int        `json:"moves"`  // from one of them to the next
	Steps  int        `json:"steps"`  // every order of so many was tried; with Broken, those of Path
	Whole  bool       `json:"whole"`  // there are no more
	Path   []string   `json:"path,omitempty"`
	Broken *Violation `json:"broken,omitempty"`
}

// Every tries all orders of the steps of small worlds, the shorter ones first: each message arrives, late or not at
// all, some requests arrive twice, each client goes on or does not, and time passes, at any moment. A client that takes
// no step any more is one that is killed or frozen. A world stops at its first broken promise, and where it has most
// states: no history with fewer steps breaks one there. ctx ends it. progress may be nil, and is called from several
// goroutines at once.
//
// These are left out, because they add nothing:
//
//   - Losses. A message that is lost is one that does not arrive any more.
//   - Responses that no one waits for.
//   - Names. Clients are called in the order in which their first requests arrive, and are equal before that.
//   - Orders that differ only in steps of which neither can tell which was first, see [small.moves].
func Every(ctx context.Context, most int, progress func(world string, states int)) []Explored {
	all := make([]Explored, len(smalls))
	var workers sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range smalls {
		workers.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			all[i] = smalls[i].explore(ctx, most, progress)
		})
	}
	workers.Wait()
	return all
}

// trail is a step of a history: what it was, and the one before it, -1 if there is none.
type trail struct {
	before int
	move   move
}

// move is one step of a small world.
type move struct {
	what byte // a client acts, its clock is set back or forth, a message arrives, arrives and is copied, time passes
	i    int  // the client, or the message
	act  act
	key  int
}

// node is a world that was reached, and its last step in the list of all, -1 if there is none.
type node struct {
	w    *world
	path int
}

func (s *small) explore(ctx context.Context, most int, progress func(string, int)) Explored {
	out := Explored{World: s.name, Whole: true}
	r := s.rig()
	seen := map[uint64]bool{r.w.hash(): true}
	level := []node{{r.w, -1}}
	var (
		trails []trail
		moves  []move
	)
	told := 0
	for ; len(level) > 0; out.Steps++ {
		var next []node
		for i, n := range level {
			if ctx.Err() != nil || len(seen) >= most {
				out.Whole, out.States = false, len(seen)
				return out
			}
			level[i].w = nil // the world itself is of no more use
			moves = s.moves(n.w, moves[:0])
			for _, m := range moves {
				out.Moves++
				w := r.after(n.w, m)
				if s.all {
					w.turn, w.sent, w.closing = 0, false, false
				}
				if m.what == 'a' && s.heard != nil && !n.w.flight[m.i].back {
					s.note(&r.answered, w, out.Steps)
				}
				if w.broken != nil {
					trails = append(trails, trail{n.path, m})
					out.Path, out.Broken = s.tell(trails)
					out.States, out.Whole = len(seen), false
					out.Steps++
					return out
				}
				if h := w.hash(); !seen[h] {
					seen[h] = true
					trails = append(trails, trail{n.path, m})
					next = append(next, node{w, len(trails) - 1})
				}
			}
		}
		level = next
		if progress != nil {
			progress(s.name, len(seen)-told)
			told = len(seen)
		}
	}
	out.States = len(seen)
	return out
}

// rig is a rig with the world as it begins.
func (s *small) rig() *rig {
	r := newRig(&scene{keys: s.keys, clients: s.clients, ttl: 2, fresh: true}, new(counts))
	r.memo = map[uint64]outcome{}
	r.w = r.newWorld()
	return r
}

// note keeps an answer, without the names of clients and keys.
func (s *small) note(m *message, w *world, steps int) {
	text := fmt.Sprint(w.now, opNames[m.op], " ", m.answer.words(&m.request, s.keys[m.key]))
	if _, ok := s.heard[text]; !ok {
		s.heard[text] = steps
	}
}

// moves are the steps that can be taken from a world.
//
// What a client does by itself or receives changes only that client and what it sends, so that it can be had later in
// the same second, up to the arrival of what it sent or to its own next step, and no one can tell. So each client takes
// its steps in one go: either up to a request that arrives at once, or, when nothing more arrives in this second, up to
// the end of the second, the first client first. A judgement of two clients that hold at once is not lost: it is
// made when the second of them begins to, whichever that is.
func (s *small) moves(w *world, all []move) []move {
	begun, first, sent := true, w.clients[0].intention == 0, 0
	for i := range w.clients {
		sent += w.clients[i].sent
	}
	for i := range w.clients {
		c := &w.clients[i]
		alike := !begun && c.intention == 0 // to those before it that have not begun
		begun = begun && c.intention > 0
		if !s.all && w.turn > i+1 {
			continue
		}
		if w.sets < s.sets {
			all = append(all, move{what: '-', i: i}, move{what: '+', i: i})
		}
		for j := range w.flight {
			if w.flight[j].back && w.flight[j].who == i {
				all = append(all, move{what: 'a', i: j})
			}
		}
		switch {
		case sent >= s.sends || alike:
		case c.phase == idle || c.phase == holding && !w.holds(c):
			for key := range s.keys {
				if !first || s.keys[key] != s.keys[0] || key == 0 { // so are keys
					all = append(all, move{what: 'c', i: i, act: start, key: key})
				}
			}
		default:
			for _, a := range s.acts(c) {
				all = append(all, move{what: 'c', i: i, act: a})
			}
		}
	}
	for i := range w.flight {
		if w.flight[i].back || !s.all && w.turn > 0 && (!w.sent || i < len(w.flight)-1) {
			continue
		}
		all = append(all, move{what: 'a', i: i})
		if w.copies < s.copies {
			all = append(all, move{what: 'd', i: i})
		}
	}
	if w.now < s.ticks*1000 {
		all = append(all, move{what: 't'})
	}
	return all
}

// acts are the steps that a client of a small world takes by itself.
func (s *small) acts(c *client) []act {
	switch {
	case c.phase == asking:
		return []act{again, leave}
	case c.phase != holding:
		return []act{again}
	case c.renewing:
		return []act{end, work, again}
	case s.keys[c.key] == aRun:
		return []act{end, work, extend, fail}
	default:
		return []act{end, work, extend}
	}
}

// after is the world after a step.
func (r *rig) after(before *world, m move) *world {
	w := before.copied()
	r.w, r.between, r.handed = w, nil, nil
	turn, seq := 0, w.seq
	switch m.what {
	case 't':
		w.now += 1000
		r.log.world(w, "a second passes")
	case 'c':
		turn = m.i + 1
		r.act(&w.clients[m.i], m.act, m.key)
	case '-', '+':
		turn = m.i + 1
		w.sets++
		if w.clients[m.i].wall -= 1000; m.what == '+' {
			w.clients[m.i].wall += 2000
		}
		r.log.note(w, &w.clients[m.i], fmt.Sprintf("its wall clock is set to %+d s", w.clients[m.i].wall/1000))
	default:
		if w.flight[m.i].back {
			turn = w.flight[m.i].who + 1
			r.deliver(m.i)
			break
		}
		r.introduce(m.i)
		if m.what == 'd' {
			w.copies++
			again := w.flight[m.i]
			r.log.twice(w, &again)
			w.flight = append(w.flight, again)
		}
		r.decide(m.i)
	}
	w.closing = turn > 0 && (w.closing || w.turn > 0 && w.turn != turn)
	w.turn, w.sent = turn, turn > 0 && w.seq > seq && !w.closing
	w.flight = slices.DeleteFunc(w.flight, func(m message) bool {
		c := &w.clients[m.who]
		return m.back && (!c.open || c.call != m.call)
	})
	return w
}

// outcome is what became of what the store and the judge know, after a request.
type outcome struct {
	docs   *docstore.Memory
	things []thing
	sum    uint64
	answer *answer
	broken *Violation
}

// decide lets a request arrive. The same request at the same time has the same outcome on the same documents:
// the rules carry it out once.
func (r *rig) decide(i int) {
	w := r.w
	m := w.flight[i]
	var d digest
	d.add(w.now, int64(w.sum), int64(m.who)) //nolint:gosec // all of its bits
	d.request(&m)
	key := d.sum()
	o, known := r.memo[key]
	if known && r.log == nil {
		w.docs, w.things, w.sum, w.broken = o.docs, o.things, o.sum, o.broken
		w.flight = slices.Delete(w.flight, i, i+1)
		r.put(message{request: m.request, back: true, answer: o.answer})
	} else {
		w.docs, w.things = w.docs.Fork(r.storeTime), slices.Clone(w.things)
		for j := range w.things {
			w.things[j].leases, w.things[j].asked = slices.Clone(w.things[j].leases), slices.Clone(w.things[j].asked)
		}
		r.deliver(i)
		w.sum = w.kept()
		o = outcome{w.docs, w.things, w.sum, w.flight[len(w.flight)-1].answer, w.broken}
		r.memo[key] = o
	}
	r.answered = w.flight[len(w.flight)-1]
}

// introduce gives the sender of a message the next name, if it is the first one of it that arrives. A history that is
// told leaves the names as they are.
func (r *rig) introduce(i int) {
	w := r.w
	a := w.flight[i].who
	if w.clients[a].known || r.log != nil {
		return
	}
	b := slices.IndexFunc(w.clients, func(c client) bool { return !c.known })
	w.clients[a], w.clients[b] = w.clients[b], w.clients[a]
	w.clients[a].who, w.clients[b].who = a, b
	w.clients[b].known = true
	for j := range w.flight {
		m := &w.flight[j]
		if to, ok := map[int]int{a: b, b: a}[m.who]; ok {
			m.id, m.who = owner(to)+m.id[len(owner(m.who)):], to
		}
	}
	if r.names != nil {
		r.names[a], r.names[b] = r.names[b], r.names[a]
	}
}

// copied is a world that changes without the other one.
func (w *world) copied() *world {
	c := *w
	c.clients, c.flight, c.things = slices.Clone(w.clients), slices.Clone(w.flight), slices.Clip(w.things)
	return &c
}

// hash is that of all that decides what can follow.
func (w *world) hash() uint64 {
	d := make(digest, 0, 512)
	d.add(w.now, int64(w.copies), int64(w.sets), int64(w.sum), int64(w.turn), //nolint:gosec // all of its bits
		bits(w.sent, w.closing))
	sum := d.sum()
	var room [8]uint64
	own := append(room[:0], make([]uint64, len(w.clients))...)
	for i := range w.flight { // in whatever order
		m := &w.flight[i]
		d = d[:0]
		d.request(m)
		if m.back {
			d.text(fmt.Sprint(m.answer.err))
			d.add(m.answer.lease.FencingToken, m.answer.lease.RemainingMs, m.answer.run.Grant.Token,
				ms(m.answer.run.Grant.ExpiresAt), ms(m.answer.run.At))
			d.text(m.answer.lease.ExpiresAt)
			d.text(string(m.answer.run.Code) + m.answer.run.Result)
		}
		own[m.who] += d.sum()
	}
	for i := range w.clients {
		c := &w.clients[i]
		d = d[:0]
		d.add(int64(own[i]), int64(c.phase), int64(c.sent), int64(c.intention), //nolint:gosec // all of its bits
			c.wall, bits(c.open, c.known))
		if c.known {
			d.add(int64(i))
		}
		if c.phase != idle {
			d.add(int64(c.key), c.token, int64(c.renewal), bits(c.unsure, c.renewing, c.failing, c.placed))
			d.text(c.name)
			d.text(c.expires)
		}
		if c.open {
			d.add(ms(c.asked.Time()), ms(c.asked.Wall()))
		}
		d.add(ms(c.then), ms(c.learned), int64(c.took))
		if c.phase == holding {
			d.add(ms(c.end.Time()), ms(c.end.Wall()))
		}
		sum += d.sum()
	}
	return sum
}

// request adds what a message says, but for the name of its client.
func (d *digest) request(m *message) {
	d.add(int64(m.op), int64(m.key), m.token, ms(m.until), bits(m.back))
	d.text(m.name)
	d.text(m.id[len(owner(m.who)):])
	d.text(m.expires)
}

// kept is the hash of what the store and the judge know.
func (w *world) kept() (sum uint64) {
	h := make(digest, 0, 512)
	for i := range w.things {
		t := &w.things[i]
		h = h[:0]
		h.text(t.name)
		h.add(t.top, t.passed, int64(t.grants), int64(t.given), bits(t.ended))
		h.text(t.result)
		for _, g := range t.leases {
			h.text(g.request)
			h.add(g.token, g.permit, g.ends)
		}
		for _, a := range t.asked {
			h.text(a.id)
			h.add(a.token, a.since, a.first, a.placed, int64(a.grants), int64(a.given), bits(a.over))
		}
		sum += 3 * h.sum()
	}
	for _, kind := range []string{lock.Kind, runs.Kind, lock.FenceKind} {
		page, err := w.docs.List(context.Background(), docstore.Query{Kind: kind, Tenant: tenant})
		if err != nil {
			panic(err) // the query is a constant
		}
		for _, e := range page.Entries {
			for name, v := range e.Doc { // in whatever order
				h = h[:0]
				h.text(kind)
				h.text(e.Key.ID)
				h.text(name)
				switch v := v.(type) {
				case docstore.String:
					h.text(string(v))
				case docstore.Int:
					h.add(int64(v))
				case docstore.Bytes:
					h.text(string(v))
				default:
					h.text(fmt.Sprint(v))
				}
				sum += 5 * h.sum()
			}
		}
	}
	return sum
}

// digest is what is hashed.
type digest []byte

func (d *digest) add(numbers ...int64) {
	for _, n := range numbers {
		*d = binary.AppendVarint(*d, n)
	}
}

func (d *digest) text(s string) { *d = append(append(*d, s...), 0) }

func (d *digest) sum() uint64 { return maphash.Bytes(seed, *d) }

// seed is that of all hashes of the process.
var seed = maphash.MakeSeed()

// bits are truths as one number.
func bits(truths ...bool) (n int64) {
	for _, t := range truths {
		n *= 2
		if t {
			n++
		}
	}
	return n
}

// tell is the history that ends with the last step, as lines, and what it breaks.
func (s *small) tell(trails []trail) (lines []string, broken *Violation) {
	var moves []move
	for i := len(trails) - 1; i >= 0; i = trails[i].before {
		moves = append(moves, trails[i].move)
	}
	slices.Reverse(moves)
	named, r := s.rig(), s.rig()
	r.log = &history{}
	for i := range s.clients {
		named.names = append(named.names, i)
	}
	v, w := named.w, r.w
	for i, m := range moves {
		from := len(r.log.events)
		here := m
		if m.what == 'c' || m.what == '-' || m.what == '+' {
			here.i = named.names[m.i]
		}
		v, w = named.after(v, m), r.after(w, here)
		for j, e := range r.log.events[from:] {
			number := "   "
			if j == 0 {
				number = fmt.Sprintf("%2d.", i+1)
			}
			lines = append(lines, number+e.String())
		}
	}
	from := len(r.log.events)
	for i := range w.flight {
		r.log.lost(w, &w.flight[i])
	}
	for _, e := range r.log.events[from:] {
		lines = append(lines, "   "+e.String())
	}
	return lines, cmp.Or(w.broken, v.broken)
}
