package placementsim

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// referee is the resource behind the activations, which compares tokens, and keeps what their bodies were told and did.
type referee struct {
	mu     sync.Mutex
	ids    map[string]*record
	wrong  []error
	writes int // that the resource took
	stale  int // that it rejected
}

// record is what is known of one identity.
type record struct {
	token     int64 // the latest that was given
	given     map[int64]*process
	active    map[int64]bool     // its owner has reported that it serves
	running   map[int64]*process // bodies
	seen      int64              // the highest token that the resource has seen
	took      int64              // the token of the latest write that it took
	effective int                // activations of which it took a write
}

func newReferee() *referee { return &referee{ids: map[string]*record{}} }

func (r *referee) of(id string) *record {
	if r.ids[id] == nil {
		r.ids[id] = &record{given: map[int64]*process{}, active: map[int64]bool{}, running: map[int64]*process{}}
	}
	return r.ids[id]
}

func (r *referee) failf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf(format, args...))
}

// granted notes that a token was given to a process.
func (r *referee) granted(id string, token int64, to *process, active bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of(id)
	if _, twice := a.given[token]; twice {
		r.failf("%s: token %d was given twice", id, token)
	}
	a.token, a.given[token], a.active[token] = max(a.token, token), to, active
}

// activated notes that the owner has reported that it serves.
func (r *referee) activated(id string, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(id).active[token] = true
}

// begun notes that the body of an activation runs.
func (r *referee) begun(id string, token int64, p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of(id)
	if a.given[token] != p {
		r.failf("%s: a body of %s runs under token %d, which it was not given", id, p.name, token)
	}
	if other := a.running[token]; other != nil {
		r.failf("%s: bodies of %s and %s run under token %d", id, other.name, p.name, token)
	}
	a.running[token] = p
}

// over notes that it does not.
func (r *referee) over(id string, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of(id).running, token)
}

// told notes that a body asked whether it still runs, and was told yes. While the owner prepares an activation, its
// lock phase may end.
func (r *referee) told(id string, token int64, p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.of(id); a.active[token] && a.token > token {
		r.failf("%s at %v: the body of %s was told that it runs under token %d, after token %d was given", id, time.Now(),
			p.name, token, a.token)
	}
}

// write is a write of a body to the resource.
func (r *referee) write(id string, token int64) (took bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of(id)
	if token < a.seen {
		r.stale++
		return false
	}
	a.seen = max(a.seen, token)
	if token < a.took {
		r.failf("%s: two activations took effect by turns: a write under token %d after one under %d", id, token, a.took)
	}
	if token != a.took {
		a.effective++
	}
	a.took = token
	r.writes++
	return true
}

// serving is the process whose body runs under the latest token, nil if there is none.
func (r *referee) serving(id string) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of(id)
	return a.running[a.token]
}

func (r *referee) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.wrong...)
}
