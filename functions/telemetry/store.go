package telemetry

import (
	"context"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Operation is a method of a store.
type Operation string

// The operations.
const (
	Get   Operation = "get"
	Write Operation = "write"
	List  Operation = "list"
	Due   Operation = "due"
	Walk  Operation = "walk"
	Prune Operation = "prune"
)

// Call is a call of a store.
type Call struct {
	Operation Operation
	Kind      string // of the documents, the first one's if they are of several; empty for Prune
	Documents int    // that are named; 0 for List, Due, Walk and Prune
}

// Answer is how a [Call] ended.
type Answer struct {
	Refused   bool  // a Write whose condition did not hold: an outcome, and no error
	Documents int   // that were read or pruned, without those that do not exist
	Err       error // nil: the call was carried out
}

// Observer is told what is asked of a store, and by which commands. Its methods are called from several goroutines at
// once.
type Observer interface {
	rule.Observer

	// Call is told of a call before it is made. The call has the context that it returns, and end is called once when it
	// has ended.
	Call(ctx context.Context, c Call) (_ context.Context, end func(Answer))
}

// Store returns a store that does what another one does and tells the observers. It has the additional methods of the
// other one ([docstore.Watcher], [docstore.Pruner]). Without observers it is the other one.
func Store(store docstore.Store, observers ...Observer) docstore.Store {
	if len(observers) == 0 {
		return store
	}
	s := &observed{store, observers}
	p, prunes := store.(docstore.Pruner)
	w, watches := store.(docstore.Watcher)
	switch {
	case prunes && watches:
		return struct {
			*observed
			pruner
			docstore.Watcher
		}{s, pruner{s, p}, w}
	case prunes:
		return struct {
			*observed
			pruner
		}{s, pruner{s, p}}
	case watches:
		return struct {
			*observed
			docstore.Watcher
		}{s, w}
	default:
		return s
	}
}

// observed is a store with observers.
type observed struct {
	store     docstore.Store
	observers []Observer
}

var (
	_ docstore.Store     = (*observed)(nil)
	_ docstore.DueLister = (*observed)(nil)
	_ docstore.Walker    = (*observed)(nil)
	_ docstore.Impaired  = (*observed)(nil)
	_ rule.Observer      = (*observed)(nil)
)

// call tells the observers of a call. The last one that learns of its begin is the first that learns of its end.
func (s *observed) call(ctx context.Context, c Call) (context.Context, func(Answer)) {
	if len(s.observers) == 1 {
		return s.observers[0].Call(ctx, c)
	}
	ends := make([]func(Answer), len(s.observers))
	for i, o := range s.observers {
		ctx, ends[i] = o.Call(ctx, c) //nolint:fatcontext // each is within the one before
	}
	return ctx, func(a Answer) {
		for _, end := range slices.Backward(ends) {
			end(a)
		}
	}
}

// Observe implements [rule.Observer].
func (s *observed) Observe(ctx context.Context, command any) (context.Context, func(outcome any, err error)) {
	if len(s.observers) == 1 {
		return s.observers[0].Observe(ctx, command)
	}
	ends := make([]func(any, error), len(s.observers))
	for i, o := range s.observers {
		ctx, ends[i] = o.Observe(ctx, command) //nolint:fatcontext // each is within the one before
	}
	return ctx, func(outcome any, err error) {
		for _, end := range slices.Backward(ends) {
			end(outcome, err)
		}
	}
}

// Get implements [docstore.Store].
func (s *observed) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	c := Call{Operation: Get, Documents: len(keys)}
	if len(keys) > 0 {
		c.Kind = keys[0].Kind
	}
	ctx, end := s.call(ctx, c)
	snap, err := s.store.Get(ctx, keys...)
	a := Answer{Err: err}
	for _, d := range snap.Docs {
		if d != nil {
			a.Documents++
		}
	}
	end(a)
	return snap, err
}

// Write implements [docstore.Store].
func (s *observed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	c := Call{Operation: Write, Documents: len(writes)}
	if len(writes) > 0 {
		c.Kind = writes[0].Key.Kind
	}
	ctx, end := s.call(ctx, c)
	r, err := s.store.Write(ctx, writes...)
	end(Answer{Refused: err == nil && !r.Applied, Err: err})
	return r, err
}

// List implements [docstore.Store].
func (s *observed) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return s.page(ctx, Call{Operation: List, Kind: q.Kind}, func(ctx context.Context) (docstore.Page,
		error) {
		return s.store.List(ctx, q)
	})
}

// Due implements [docstore.DueLister].
func (s *observed) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	d, ok := s.store.(docstore.DueLister)
	if !ok {
		return docstore.Page{}, docstore.ErrNoIndex
	}
	return s.page(ctx, Call{Operation: Due, Kind: q.Kind}, func(ctx context.Context) (docstore.Page,
		error) {
		return d.Due(ctx, q)
	})
}

// Impaired implements [docstore.Impaired].
func (s *observed) Impaired() error {
	if i, ok := s.store.(docstore.Impaired); ok {
		return i.Impaired()
	}
	return nil
}

// Walk implements [docstore.Walker].
func (s *observed) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	w, ok := s.store.(docstore.Walker)
	if !ok {
		return docstore.Page{}, docstore.ErrUnsupported
	}
	return s.page(ctx, Call{Operation: Walk, Kind: q.Kind}, func(ctx context.Context) (docstore.Page,
		error) {
		return w.Walk(ctx, q)
	})
}

// page tells the observers of a call that reads a page.
func (s *observed) page(ctx context.Context, c Call, read func(context.Context) (docstore.Page, error)) (docstore.Page,
	error) {
	ctx, end := s.call(ctx, c)
	p, err := read(ctx)
	end(Answer{Documents: len(p.Entries), Err: err})
	return p, err
}

// Close implements [docstore.Store].
func (s *observed) Close() error { return s.store.Close() }

// pruner is the [docstore.Pruner] of a store with observers.
type pruner struct {
	observed *observed
	inner    docstore.Pruner
}

// Prune implements [docstore.Pruner].
func (p pruner) Prune(ctx context.Context, limit int) (removed int, err error) {
	ctx, end := p.observed.call(ctx, Call{Operation: Prune})
	removed, err = p.inner.Prune(ctx, limit)
	end(Answer{Documents: removed, Err: err})
	return removed, err
}
