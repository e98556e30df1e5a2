package prove

import (
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

// small is a world of which all orders are tried.
type small struct {
	name  string
	scene scene
	ticks int64 // seconds that pass
	lost  int   // messages that are lost or arrive twice
	steps int   // of a wall clock, a second back or forth
	grows int   // how many steps a history has at most
}

// smalls are the worlds of [Every]: three clients each, a ttl of two seconds, and a clock that moves by one.
var smalls = []small{
	{"a lock", scene{keys: []kind{plain}, clients: 3, ttl: 2, fresh: true}, 3, 1, 0, 8},
	{"two locks", scene{keys: []kind{plain, plain}, clients: 3, ttl: 2, fresh: true}, 2, 1, 0, 7},
	{"a lock, clocks set", scene{keys: []kind{plain}, clients: 3, ttl: 2, fresh: true}, 3, 0, 1, 8},
	{"a lock with a line", scene{keys: []kind{fair}, clients: 3, ttl: 2, fresh: true}, 2, 1, 0, 8},
	{"a run", scene{keys: []kind{aRun}, clients: 3, ttl: 2, fresh: true}, 3, 1, 0, 8},
}

// Explored is what became of one small world.
type Explored struct {
	World  string     `json:"world"`
	States int        `json:"states"` // different ones
	Steps  int        `json:"steps"`  // every order of so many steps was tried; with Broken, those of Path
	Whole  bool       `json:"whole"`  // those are as many as the world is for: states did not run out
	Path   []string   `json:"path,omitempty"`
	Broken *Violation `json:"broken,omitempty"`
}

// Every tries all orders of the steps of small worlds, the shorter ones first: each message arrives, is lost or arrives
// twice, each client goes on or does not, and time passes, at any moment. A client that takes no step any more is one
// that was killed or is frozen. Worlds have most states each, at the most; ctx ends it. A world
// stops at its first broken promise: no history with fewer steps breaks one there. progress may be nil, and is called
// from several goroutines at once.
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

// node is a world that was reached, and how.
type node struct {
	w     *world
	path  int // of its last step in the list of all
	spent budget
}

// budget is what has happened of what may happen only so often.
type budget struct {
	lost, steps int
}

// trail is a step of a history: what it was, and the one before it, -1 if there is none.
type trail struct {
	before int
	move   move
}

// move is one step of a small world.
type move struct {
	what    byte // a client acts, a message arrives, is lost, arrives and stays on its way, time passes, a clock is set
	i       int
	act     act
	key     int
	forward bool
}

func (s *small) explore(ctx context.Context, most int, progress func(string, int)) Explored {
	out := Explored{World: s.name, Whole: true}
	var c counts
	r := newRig(&s.scene, &c)
	r.w = r.newWorld()
	seen := map[uint64]bool{r.w.hash(budget{}): true}
	level := []node{{w: r.w, path: -1}}
	var trails []trail
	told := 0
	for ; len(level) > 0 && out.Steps < s.grows; out.Steps++ {
		var next []node
		for _, n := range level {
			if ctx.Err() != nil || len(seen) >= most {
				out.Whole = false
				break
			}
			for _, m := range s.moves(n) {
				w, spent := r.after(n, m)
				if w.broken != nil {
					trails = append(trails, trail{n.path, m})
					out.Path, out.Broken, out.States = s.tell(trails, len(trails)-1), w.broken, len(seen)
					out.Steps++
					return out
				}
				if h := w.hash(spent); !seen[h] {
					seen[h] = true
					trails = append(trails, trail{n.path, m})
					next = append(next, node{w, len(trails) - 1, spent})
				}
			}
		}
		if !out.Whole {
			break
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

// moves are the steps that can be taken from a world.
func (s *small) moves(n node) []move {
	var all []move
	w := n.w
	for i := range w.clients {
		c := &w.clients[i]
		// Clients are alike: the first begins first.
		if c.phase == idle && c.intention == 0 && (i == 0 || w.clients[i-1].intention > 0) {
			for key := range w.scene.keys {
				all = append(all, move{what: 'c', i: i, act: start, key: key})
			}
		}
		for _, a := range s.acts(w, c) {
			all = append(all, move{what: 'c', i: i, act: a})
		}
		if n.spent.steps < s.steps {
			all = append(all, move{what: 'w', i: i}, move{what: 'w', i: i, forward: true})
		}
	}
	for i := range w.flight {
		all = append(all, move{what: 'a', i: i})
		if n.spent.lost < s.lost {
			all = append(all, move{what: 'l', i: i})
			if !w.flight[i].back {
				all = append(all, move{what: 'd', i: i})
			}
		}
	}
	if w.now < s.ticks*1000 {
		all = append(all, move{what: 't'})
	}
	return all
}

// acts are the steps that a client of a small world takes by itself.
func (s *small) acts(w *world, c *client) []act {
	switch c.phase {
	case asking:
		if c.tries < 3 {
			return []act{again, leave}
		}
	case leaving, ending:
		if c.tries < 2 {
			return []act{again}
		}
	case holding:
		if !w.holds(c) {
			return nil
		}
		acts := []act{end}
		if c.works < 1 {
			acts = append(acts, work)
		}
		switch {
		case c.renewing && c.tries < 2:
			acts = append(acts, again)
		case !c.renewing && c.renewal < 1:
			acts = append(acts, extend)
		}
		return acts
	default:
	}
	return nil
}

// after is the world after a step.
func (r *rig) after(n node, m move) (*world, budget) {
	w, spent := n.w.copied(r), n.spent
	r.w, r.between, r.handed = w, nil, nil
	switch m.what {
	case 'c':
		r.act(&w.clients[m.i], m.act, m.key)
	case 'w':
		spent.steps++
		if w.clients[m.i].wall -= 1000; m.forward {
			w.clients[m.i].wall += 2000
		}
		r.log.note(w, &w.clients[m.i], fmt.Sprintf("its wall clock is set to %+d s", w.clients[m.i].wall/1000))
	case 'l':
		spent.lost++
		r.log.lost(w, &w.flight[m.i])
		w.flight = slices.Delete(w.flight, m.i, m.i+1)
	case 'd':
		spent.lost++
		again := w.flight[m.i]
		r.log.twice(w, &again)
		w.flight = append(w.flight, again)
		r.deliver(m.i)
	case 't':
		w.now += 1000
		r.log.world(w, "a second passes")
	default:
		r.deliver(m.i)
	}
	return w, spent
}

// copied is a world that changes without the other one.
func (w *world) copied(r *rig) *world {
	c := *w
	c.docs = w.docs.Fork(r.storeTime)
	c.clients, c.flight, c.run, c.things = slices.Clone(w.clients), slices.Clone(w.flight), slices.Clone(w.run),
		slices.Clone(w.things)
	for i := range c.things {
		c.things[i].leases, c.things[i].asked = slices.Clone(c.things[i].leases), slices.Clone(c.things[i].asked)
	}
	return &c
}

// hash is that of all that decides what can follow.
func (w *world) hash(spent budget) uint64 {
	h := make(digest, 0, 512)
	h.add(w.now, int64(spent.lost), int64(spent.steps))
	for _, n := range w.run {
		h.add(int64(n))
	}
	for i := range w.clients {
		c := &w.clients[i]
		call := int64(c.call)
		if c.phase == idle {
			call = 0
		}
		h.add(int64(c.phase), int64(c.key), c.wall, int64(c.intention), int64(c.renewal), call, int64(c.tries),
			int64(c.works), c.token, ms(c.asked.Time()), ms(c.asked.Wall()), ms(c.end.Time()), ms(c.end.Wall()),
			c.then.UnixMilli(), c.learned.UnixMilli(), int64(c.took), bits(c.open, c.placed, c.unsure, c.renewing, c.failing))
		h.text(c.expires)
	}
	sum := h.sum()
	for i := range w.flight { // in whatever order
		m := &w.flight[i]
		h = h[:0]
		h.add(int64(m.op), int64(m.key), int64(m.who), int64(m.call), m.token, ms(m.until), bits(m.back))
		h.text(m.id)
		h.text(m.expires)
		if m.back {
			h.text(fmt.Sprint(m.answer.err))
			h.add(m.answer.lease.FencingToken, m.answer.lease.RemainingMs, m.answer.run.Grant.Token,
				ms(m.answer.run.Grant.ExpiresAt), ms(m.answer.run.At))
			h.text(m.answer.lease.ExpiresAt)
			h.text(string(m.answer.run.Code) + m.answer.run.Result)
		}
		sum += h.sum()
	}
	for i := range w.things {
		t := &w.things[i]
		h = h[:0]
		h.text(t.name)
		h.add(t.top, t.passed, int64(t.grants), int64(t.given), bits(t.ended))
		h.text(t.result)
		for _, g := range t.leases {
			h.text(g.request)
			h.add(g.token, g.ends)
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
	h = h[:0]
	h.add(int64(sum)) //nolint:gosec // all of its bits
	return h.sum()
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

// tell is the history that ends with a step, as lines.
func (s *small) tell(trails []trail, last int) []string {
	var moves []move
	for i := last; i >= 0; i = trails[i].before {
		moves = append(moves, trails[i].move)
	}
	slices.Reverse(moves)
	var c counts
	var lines []string
	r := newRig(&s.scene, &c)
	r.log = &history{}
	r.w = r.newWorld()
	n := node{w: r.w}
	for i, m := range moves {
		from := len(r.log.events)
		n.w, n.spent = r.after(n, m)
		for j, e := range r.log.events[from:] {
			number := "   "
			if j == 0 {
				number = fmt.Sprintf("%2d.", i+1)
			}
			lines = append(lines, number+e.String())
		}
	}
	return lines
}
