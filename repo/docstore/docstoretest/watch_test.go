package docstoretest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// watching is a sound store whose watches have a fault.
type watching struct {
	*docstore.Memory
	watch func(context.Context, *docstore.Memory, docstore.Key) (docstore.Watch, error)
}

func (s watching) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	return s.watch(ctx, s.Memory, k)
}

// relayed passes on those signals of a sound watch that keep wants, over a channel with room for some.
func relayed(room int, keep func(n int) bool) func(context.Context, *docstore.Memory, docstore.Key) (docstore.Watch,
	error) {
	return func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch, error) {
		w, err := m.Watch(ctx, k)
		if err != nil {
			return w, err
		}
		out := make(chan struct{}, room)
		go func() {
			for n := 0; ; n++ {
				select {
				case <-w.Changed:
				case <-ctx.Done():
					return
				}
				if keep(n) {
					select {
					case out <- struct{}{}:
					default:
					}
				}
			}
		}()
		return docstore.Watch{Changed: out}, nil
	}
}

// TestPlantedFaultsOfWatches demands that the check finds each fault.
func TestPlantedFaultsOfWatches(t *testing.T) {
	all := func(int) bool { return true }
	for name, watch := range map[string]func(context.Context, *docstore.Memory, docstore.Key) (docstore.Watch, error){
		"says nothing when it begins": relayed(1, func(n int) bool { return n > 0 }),
		"loses a change":              relayed(1, func(n int) bool { return n != 3 }),
		"loses what is not waited for": func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch,
			error) {
			return relayed(0, all)(ctx, m, k)
		},
		"tells the first one only": func() func(context.Context, *docstore.Memory, docstore.Key) (docstore.Watch, error) {
			seen := map[docstore.Key]bool{}
			return func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch, error) {
				w, err := m.Watch(ctx, k)
				if err == nil && seen[k] {
					w.Changed = make(chan struct{})
				}
				seen[k] = true
				return w, err
			}
		}(),
		"sees one document of a step": func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch, error) {
			if k.ID == "b" {
				return relayed(1, func(n int) bool { return n == 0 })(ctx, m, k)
			}
			return m.Watch(ctx, k)
		},
		"takes any key": func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch, error) {
			w, err := m.Watch(ctx, k)
			if errors.Is(err, docstore.ErrInvalid) {
				err = nil
			}
			return w, err
		},
		"begins in a context that has ended": func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch,
			error) {
			return m.Watch(context.WithoutCancel(ctx), k)
		},
		"begins after Close": func(ctx context.Context, m *docstore.Memory, k docstore.Key) (docstore.Watch, error) {
			w, err := m.Watch(ctx, k)
			if errors.Is(err, docstore.ErrClosed) {
				err = nil
			}
			return w, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := checkWatch(t.Context(), watching{docstore.NewMemory(nil), watch}); err == nil {
					t.Error("the check finds nothing")
				} else {
					t.Log(err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if err := checkWatch(t.Context(), watching{docstore.NewMemory(nil), relayed(1, all)}); err != nil {
			t.Errorf("a sound store: %v", err)
		}
	})
}

// TestPlantedFaultsOfSharedData demands that the check of two stores on the same data finds each fault.
func TestPlantedFaultsOfSharedData(t *testing.T) {
	always, never := func() bool { return true }, func() bool { return false }
	own := func(complete func() bool) docstore.Store { // signals nothing that another makes, but that it has begun
		return watching{docstore.NewMemory(nil), func(ctx context.Context, m *docstore.Memory, k docstore.Key) (
			docstore.Watch, error) {
			w, err := relayed(1, func(n int) bool { return n == 0 })(ctx, m, k)
			w.Complete = complete
			return w, err
		}}
	}
	for name, c := range map[string]struct {
		here  docstore.Store
		knows bool
		fine  bool
	}{
		"knows all":                 {docstore.NewMemory(nil), true, true},
		"knows its own, and says":   {own(never), false, true},
		"knows its own":             {own(always), false, false},
		"says that it does not":     {own(never), true, false},
		"has nothing to say of all": {own(nil), true, false},
		"signals nothing":           {struct{ docstore.Store }{docstore.NewMemory(nil)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := Watched(t.Context(), c.here, c.here, c.knows); (err == nil) != c.fine {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
