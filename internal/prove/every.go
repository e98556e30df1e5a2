package prove

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/leasehold-dev/leasehold/internal/term"
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
	{"a lock", scene{keys: []kind{plain}, clients: 3, ttl: 2, fresh: true}, 3, 1, 0, 11},
	{"two locks", scene{keys: []kind{plain, plain}, clients: 3, ttl: 2, fresh: true}, 2, 1, 0, 8},
	{"a lock, clocks set", scene{keys: []kind{plain}, clients: 3, ttl: 2, fresh: true}, 3, 0, 1, 9},
	{"a lock with a line", scene{keys: []kind{fair}, clients: 3, ttl: 2, fresh: true}, 2, 1, 0, 9},
	{"a run", scene{keys: []kind{aRun}, clients: 3, ttl: 2, fresh: true}, 3, 1, 0, 11},
}

// Explored is what became of one small world.
type Explored struct {
	World  string     `json:"world"`
	States int        `json:"states"` // different ones
	Steps  int        `json:"steps"`  // of the longest history
	Whole  bool       `json:"whole"`  // every order of that many steps was tried
	Path   []string   `json:"path,omitempty"`
	Broken *Violation `json:"broken,omitempty"`
}

// Every tries all orders of the steps of small worlds, the shorter ones first: each message arrives, is lost or arrives
// twice, each client goes on or does not, and time passes, at any moment. A client that takes no step any more is one
// that was killed or is frozen. Worlds have most states each, at the most; ctx ends it. It stops at the first broken
// promise: no history with fewer steps breaks one in that world.
func Every(ctx context.Context, most int, progress func(world string, states int)) []Explored {
	var all []Explored
	for i := range smalls {
		e := smalls[i].explore(ctx, most, progress)
		all = append(all, e)
		if e.Broken != nil || ctx.Err() != nil {
			break
		}
	}
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
		level = next
		if progress != nil {
			progress(s.name, len(seen))
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
	h := fnv.New64a()
	fmt.Fprint(h, w.now, spent, w.run)
	for _, c := range w.clients {
		asked, end := c.asked, c.end
		c.asked, c.end, c.wake, c.served, c.sent, c.name = term.Moment{}, term.Moment{}, 0, 0, 0, ""
		if c.phase != asking && c.phase != ending && c.phase != leaving && c.phase != holding {
			c.call = 0
		}
		fmt.Fprint(h, c, ms(asked.Time()), ms(asked.Wall()), ms(end.Time()), ms(end.Wall()))
	}
	sum := h.Sum64()
	for _, m := range w.flight { // in whatever order
		f := fnv.New64a()
		fmt.Fprint(f, m.op, m.key, m.who, m.call, m.id, m.token, m.expires, ms(m.until), m.back)
		if m.back {
			fmt.Fprint(f, m.answer.err, m.answer.lease, m.answer.run)
		}
		sum += f.Sum64()
	}
	for _, t := range w.things {
		f := fnv.New64a()
		fmt.Fprint(f, t)
		sum += 3 * f.Sum64()
	}
	for _, kind := range []string{lock.Kind, runs.Kind, lock.FenceKind} {
		page, err := w.docs.List(context.Background(), docstore.Query{Kind: kind, Tenant: tenant})
		if err != nil {
			panic(err) // the query is a constant
		}
		for _, e := range page.Entries {
			f := fnv.New64a()
			for _, name := range slices.Sorted(maps.Keys(e.Doc)) {
				fmt.Fprint(f, name, e.Doc[name])
			}
			sum += 5 * f.Sum64()
		}
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], sum)
	last := fnv.New64a()
	_, _ = last.Write(b[:]) // it never fails
	return last.Sum64()
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
