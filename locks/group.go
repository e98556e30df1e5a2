package locks

import (
	"context"
	"sync"
)

// group counts what is under way. Unlike a sync.WaitGroup it may grow while it is waited for.
type group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n becomes 0; nil while it is
}

// begin adds one, until the returned function is called.
func (g *group) begin() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.n--; g.n == 0 {
			close(g.idle)
			g.idle = nil
		}
	}
}

// run does something in a goroutine of its own.
func (g *group) run(do func()) {
	end := g.begin()
	go func() {
		defer end()
		do()
	}()
}

// wait waits until nothing is under way, and reports whether that is so before ctx ends.
func (g *group) wait(ctx context.Context) bool {
	g.mu.Lock()
	idle := g.idle
	g.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
