package locks

import (
	"context"
	"slices"
	"sync"
)

// queues let one goroutine of a client at a time ask for a key, or hold it. The others wait here: they do not fight
// over the network.
type queues struct {
	mu   sync.Mutex
	keys map[string]*queue
}

// queue is those who wait for a key that is taken, in the order of their arrival.
type queue struct {
	waiting []chan struct{}
}

// enter takes the place of a key, and waits for it unless that is not wanted. leave must be called once; it may be
// called again. ok is false if the place is taken and the caller does not wait, or if ctx ended.
func (q *queues) enter(ctx context.Context, key string, wait bool) (leave func(), ok bool) {
	q.mu.Lock()
	if q.keys == nil {
		q.keys = map[string]*queue{}
	}
	k, taken := q.keys[key]
	if !taken {
		q.keys[key] = &queue{}
		q.mu.Unlock()
		return sync.OnceFunc(func() { q.next(key) }), true
	}
	if !wait {
		q.mu.Unlock()
		return nil, false
	}
	turn := make(chan struct{})
	k.waiting = append(k.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return sync.OnceFunc(func() { q.next(key) }), true
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(k.waiting, turn)
	if i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // its turn came meanwhile
		q.next(key)
	}
	return nil, false
}

// next gives the place of a key to the one that waits longest.
func (q *queues) next(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[key]
	if len(k.waiting) == 0 {
		delete(q.keys, key)
		return
	}
	close(k.waiting[0])
	k.waiting = k.waiting[1:]
}
