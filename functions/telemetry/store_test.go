package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// recorder notes what it is told.
type recorder struct {
	name string
	mu   *sync.Mutex
	said *[]string
}

func newRecorder() *recorder { return &recorder{mu: &sync.Mutex{}, said: &[]string{}} }

func (r *recorder) notef(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.said = append(*r.said, r.name+fmt.Sprintf(format, args...))
}

// within is the key of the innermost thing that a context is of.
type within struct{}

func (r *recorder) Observe(ctx context.Context, command any) (context.Context, func(any, error)) {
	r.notef("begin %T", command)
	return context.WithValue(ctx, within{}, fmt.Sprintf("%T", command)), func(outcome any, err error) {
		r.notef("end %T %T %v", command, outcome, err)
	}
}

func (r *recorder) Call(ctx context.Context, c telemetry.Call) (context.Context, func(telemetry.Answer)) {
	r.notef("call %s %s %d within %v", c.Operation, c.Kind, c.Documents, ctx.Value(within{}))
	return ctx, func(a telemetry.Answer) { r.notef("answer %v %d %v", a.Refused, a.Documents, a.Err) }
}

// TestStoreConformance: a store with observers is a store like the one that it is around.
func TestStoreConformance(t *testing.T) {
	docstoretest.Run(t, func(*testing.T) docstore.Store {
		return telemetry.Store(docstore.NewMemory(nil), newRecorder(), newRecorder())
	})
}

// Stores of each set of additional methods.
type (
	plain    struct{ docstore.Store }
	watching struct {
		docstore.Store
		docstore.Watcher
	}
	pruning struct {
		docstore.Store
		docstore.Pruner
	}
)

// TestAdditionalMethods: a store with observers has those of the other one and no more, or a rule would count on what
// is not there.
func TestAdditionalMethods(t *testing.T) {
	m := docstore.NewMemory(nil)
	for _, s := range []docstore.Store{m, plain{m}, watching{m, m}, pruning{m, m}} {
		got := telemetry.Store(s, newRecorder())
		_, watches := s.(docstore.Watcher)
		_, prunes := s.(docstore.Pruner)
		if _, ok := got.(docstore.Watcher); ok != watches {
			t.Errorf("%T: a watcher: %v, want %v", s, ok, watches)
		}
		if _, ok := got.(docstore.Pruner); ok != prunes {
			t.Errorf("%T: a pruner: %v, want %v", s, ok, prunes)
		}
		if same := telemetry.Store(s); same != s {
			t.Errorf("%T: without observers it is %T", s, same)
		}
	}
	bare := telemetry.Store(plain{m}, newRecorder())
	if _, err := bare.(docstore.DueLister).Due(t.Context(), docstore.DueQuery{}); !errors.Is(err, docstore.ErrNoIndex) {
		t.Errorf("a store without an index: %v", err)
	}
	if _, err := bare.(docstore.Walker).Walk(t.Context(), docstore.WalkQuery{}); !errors.Is(err, docstore.ErrUnsupported) {
		t.Errorf("a store that cannot be walked: %v", err)
	}
}

// TestObservers: they are told of each command and each call, each within the one around it, and the last is told of an
// end first.
func TestObservers(t *testing.T) {
	first := newRecorder()
	second := &recorder{"  ", first.mu, first.said}
	store := telemetry.Store(docstore.NewMemory(nil), first, second)
	locks := lock.New(store, &lock.Options{MaxPerTenant: 2})
	acquire := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", TTLSeconds: 30}
	for _, c := range []struct {
		do   func() error
		want []string
	}{
		// There is no room in hand for a record: that there is none is found out first, and the acquire is carried out in
		// two forms.
		{func() error { _, err := locks.Acquire(t.Context(), acquire); return err }, twice(
			"begin lock.Acquire", "call write locks 1 within lock.Acquire", "answer true 0 <nil>",
			"end lock.Acquire lock.Outcome <nil>",
			"begin census.Take", "call write tallies 1 within census.Take", "answer true 0 <nil>",
			"call write tallies 1 within census.Take", "answer false 0 <nil>", "end census.Take census.Outcome <nil>",
			"begin lock.Acquire", "call write locks 1 within lock.Acquire", "answer false 0 <nil>",
			"end lock.Acquire lock.Outcome <nil>",
		)},
		{func() error {
			_, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "x", ID: "1"},
				If: docstore.Has{Field: "a"}})
			return err
		}, twice("call write x 1 within <nil>", "answer true 0 <nil>")},
		{func() error {
			_, err := store.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"},
				docstore.Key{Kind: "locks", Tenant: "acme", ID: "none"})
			return err
		}, twice("call get locks 2 within <nil>", "answer false 1 <nil>")},
		{func() error {
			_, err := store.(docstore.Pruner).Prune(t.Context(), 5)
			return err
		}, twice("call prune  0 within <nil>", "answer false 0 <nil>")},
	} {
		*first.said = nil
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*first.said, c.want) {
			t.Errorf("got  %q\nwant %q", *first.said, c.want)
		}
	}
}

// twice is what two observers are told.
func twice(said ...string) (all []string) {
	for _, s := range said {
		if strings.HasPrefix(s, "begin") || strings.HasPrefix(s, "call") {
			all = append(all, s, "  "+s)
		} else {
			all = append(all, "  "+s, s)
		}
	}
	return all
}
