package restore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// retryTimeout is how long a store may do nothing at all before a pass fails.
const retryTimeout = time.Minute

// pauses are those before a store is asked again. Who pauses asks for nothing else: the more a store refuses, the less
// it is asked.
var pauses = backoff.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second}

// pass walks through the documents of a store, with several of them at once.
type pass struct {
	walker   docstore.Walker
	parallel int
	retrying func(error) // nil: no one is told

	mu   sync.Mutex
	last time.Time // when the store did something the last time
}

func newPass(walker docstore.Walker, parallel int, retrying func(error)) *pass {
	return &pass{walker: walker, parallel: parallel, retrying: retrying, last: time.Now()}
}

// each passes all documents of a kind to do, up to parallel of them at once, and the keys of those that the store
// cannot read to damaged. The first error ends it, and so does ctx; then do is called for no further document, and the
// calls that are under way come to their end.
func (p *pass) each(ctx context.Context, kind string, damaged func(docstore.Key),
	do func(context.Context, docstore.Entry) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	entries := make(chan docstore.Entry)
	var workers sync.WaitGroup
	for range p.parallel {
		workers.Go(func() {
			for e := range entries {
				if err := do(ctx, e); err != nil {
					stop(err)
				}
			}
		})
	}
	if err := p.pages(ctx, kind, damaged, entries); err != nil {
		stop(err)
	}
	close(entries)
	workers.Wait()
	return context.Cause(ctx)
}

// pages sends the documents of all pages.
func (p *pass) pages(ctx context.Context, kind string, damaged func(docstore.Key),
	to chan<- docstore.Entry) error {
	for q := (docstore.WalkQuery{Kind: kind, Limit: docstore.MaxLimit}); ; {
		var page docstore.Page
		err := p.insist(ctx, func() (err error) {
			page, err = p.walker.Walk(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range page.Damaged {
			damaged(d.Key)
		}
		for _, e := range page.Entries {
			if ctx.Err() != nil { // a select would choose either
				return ctx.Err()
			}
			select {
			case to <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// insist does something until the store has done it, ctx ends, or the store has done nothing for any caller for the
// retryTimeout. Only an [docstore.ErrUnavailable] is worth another try.
func (p *pass) insist(ctx context.Context, do func() error) error {
	for failures := 0; ; failures++ {
		err := do()
		if err == nil {
			p.mu.Lock()
			p.last = time.Now()
			p.mu.Unlock()
			return nil
		}
		if !errors.Is(err, docstore.ErrUnavailable) || p.silent() >= retryTimeout {
			return err
		}
		if p.retrying != nil {
			p.retrying(err)
		}
		if err := pauses.Sleep(ctx, failures); err != nil {
			return err
		}
	}
}

// silent is for how long the store has done nothing.
func (p *pass) silent() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.last)
}
