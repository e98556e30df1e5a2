package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tally counts what happened.
type Tally struct {
	mu sync.Mutex
	n  map[string]int
}

// Add counts n more.
func (t *Tally) Add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	t.n[what] += n
}

// Of is a count.
func (t *Tally) Of(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[what]
}

// String lists the counts by name.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.n)) {
		fmt.Fprintf(&s, "%7d %s\n", t.n[what], what)
	}
	return s.String()
}
