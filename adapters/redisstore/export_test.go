package redisstore

import (
	"errors"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// MostShapes is how many shapes of writes a store compiles.
const MostShapes = mostShapes

// Interpret lets the store interpret every write, as it does with those that are too many or too large to be compiled.
func (s *Store) Interpret() { s.shapes.most = -1 }

// Shapes is how many shapes of writes the store has met that it did not have to interpret.
func (s *Store) Shapes() int {
	s.shapes.mu.RLock()
	defer s.shapes.mu.RUnlock()
	n := 0
	for _, sc := range s.shapes.all {
		if sc != nil {
			n++
		}
	}
	return n
}

// Flights is how many connections requests that are sent together use at once.
const Flights = flights

// Waiting is how many requests wait for a connection of the shard that has the documents of a tenant.
func (s *Store) Waiting(tenant string) int {
	l := &s.keys.of(tenant).line
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// Compiled makes the arguments of a write's own script, and the document of the values that this returns.
func (s *Store) Compiled(w docstore.Write, values ...any) (docstore.Doc, error) {
	if sc, args := s.program([]docstore.Write{w}); sc == writeScript || len(args) == 0 {
		return nil, errors.New("it is not compiled")
	}
	return returned(w, time.Unix(0, 0), values)
}
