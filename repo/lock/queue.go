package lock

import (
	"context"
	"sync"
	"time"
)

// queue lets the second writes of a process on one lock take turns, in the order in which they come: each rests on the
// document that it found, so that of several at the same time all but one would be refused, sent again, and at last
// given up. The zero value is ready for use.
type queue struct {
	mu sync.Mutex
	of map[ID]*queued
}

// queued are the writes on one lock.
type queued struct {
	turn  chan struct{} // has an entry while one has the turn
	users int
}

// turn waits for the turn: for turnTime at most, because the store may not answer the write that has it.
func (q *queue) turn(ctx context.Context, id ID) (done func()) {
	w := q.enter(id)
	wait := time.NewTimer(turnTime)
	defer wait.Stop()
	select {
	case w.turn <- struct{}{}:
		return func() {
			<-w.turn
			q.leave(id, w)
		}
	case <-wait.C:
	case <-ctx.Done():
	}
	return func() { q.leave(id, w) }
}

func (q *queue) enter(id ID) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.of[id]
	if w == nil {
		if q.of == nil {
			q.of = map[ID]*queued{}
		}
		w = &queued{turn: make(chan struct{}, 1)}
		q.of[id] = w
	}
	w.users++
	return w
}

func (q *queue) leave(id ID, w *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(q.of, id)
	}
}
