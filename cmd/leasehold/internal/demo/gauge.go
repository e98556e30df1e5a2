package demo

import "sync"

// gauge counts those who are inside at the same time. It is the show's own witness: it knows nothing of the server.
type gauge struct {
	mu                    sync.Mutex
	inside, most, entered int
}

// enter counts one more and returns how many have entered so far.
func (g *gauge) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered++
	g.inside++
	g.most = max(g.most, g.inside)
	return g.entered
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

// seen is how many entered in all, and how many were inside at once at most.
func (g *gauge) seen() (entered, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered, g.most
}
