package suite

import (
	"context"
	"slices"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// through is what a store in front of another one begins with: it keeps the power of [docstore.DueLister].
type through struct{ docstore.Store }

// Due implements [docstore.DueLister].
func (s through) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	return docstore.Due(ctx, s.Store, q)
}

// Watched is a store that notes which requests it gets and lets a test come between a write and its response.
type Watched struct {
	docstore.Store

	// OnWrite, if set, stands between the caller and the store.
	OnWrite func(apply func() (docstore.Result, error)) (docstore.Result, error)

	// Err, if set, is the error of every call.
	Err error

	mu       sync.Mutex
	requests []string
}

var _ docstore.DueLister = (*Watched)(nil)

// Requests are the names of the methods that were called, in order.
func (s *Watched) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Forget makes Requests begin anew.
func (s *Watched) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *Watched) note(request string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	return s.Err
}

// Get implements [docstore.Store].
func (s *Watched) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := s.note("Get"); err != nil {
		return docstore.Snapshot{}, err
	}
	return s.Store.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (s *Watched) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := s.note("Write"); err != nil {
		return docstore.Result{}, err
	}
	apply := func() (docstore.Result, error) { return s.Store.Write(ctx, writes...) }
	if s.OnWrite != nil {
		return s.OnWrite(apply)
	}
	return apply()
}

// List implements [docstore.Store].
func (s *Watched) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := s.note("List"); err != nil {
		return docstore.Page{}, err
	}
	return s.Store.List(ctx, q)
}

// Due implements [docstore.DueLister].
func (s *Watched) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := s.note("Due"); err != nil {
		return docstore.Page{}, err
	}
	return docstore.Due(ctx, s.Store, q)
}
