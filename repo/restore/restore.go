// Package restore makes a store safe to use again after a backup was restored to it, or after it lost writes that it
// had acknowledged (a failover of Redis).
//
// Such a store has forgotten its latest grants: its next token would be one that was granted before. [RaiseTokens]
// moves the token of every lock, analysis, run, fence and activation to the present. The store's time in microseconds
// is above every token that was ever granted, because counters of tokens start at that time and are increased less
// often than once a microsecond.
//
// # What it means for those who hold a lease
//
// A lease that was held according to the backup has a new token, which no one knows: renewals fail with LEASE_LOST, and
// fences reject the old token. The lock is not released: it stays held until the lease expires, because its holder may
// still be at work. A force-release ends it earlier.
//
// An activation has a new token as well: what its owner does is refused, and a lookup shows it the token. Incarnations
// of members that the store forgot are told so by their next heartbeat, and join again; a new one is always numbered
// above all others.
//
// Tokens are set a minute ahead. A lock without a record starts at the present, so one that is new within that minute
// has tokens below the fences that were raised: let the servers wait for it.
//
// Machine IDs are not covered: leases that the store forgot end by themselves. Wait for the longest of them before the
// store is used for IDs again.
package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// counter is the field of the documents of a kind that has their token.
type counter struct {
	kind, field string

	// write sets the token to one that is at least to; nil for a write of this field alone.
	write func(e docstore.Entry, to int64) docstore.Write
}

// counters are the documents with tokens. An analysis without the field starts at the present anyway.
var counters = []counter{
	{lock.Kind, "token", func(e docstore.Entry, to int64) docstore.Write {
		return lock.Raise(lock.ID{Tenant: e.Key.Tenant, Key: e.Key.ID}, e.Doc, to)
	}},
	{analysis.Kind, "lockToken", nil},
	{runs.Kind, "lockToken", nil},
	{lock.FenceKind, "token", nil},
	{placement.ActivationKind, "token", nil},
}

// ahead is how far above the store's time tokens are set: more than callers' clocks may differ where the store has no
// clock.
const ahead = time.Minute

// tries bounds the attempts at one document that others write to at the same time.
const tries = 10

// Options are the settings of [RaiseTokens]. The zero value works.
type Options struct {
	DryRun bool // count, and write nothing

	// Damaged receives the documents whose token is not a whole number, and, without a field, those that the store cannot
	// read; nil drops them. They are left as they are.
	Damaged func(key docstore.Key, field string)
}

// Report says what [RaiseTokens] found and did for the documents of one kind.
type Report struct {
	Kind      string `json:"kind"`
	Documents int    `json:"documents"`
	Raised    int    `json:"raised"`  // to be raised, in a dry run
	Current   int    `json:"current"` // as high already, or without a token
	Damaged   int    `json:"damaged"`
}

// ErrNoWalk is the error for a store that cannot list the documents of all tenants.
var ErrNoWalk = errors.New("this store cannot list the documents of all tenants")

// RaiseTokens sets every token that is lower to the store's time in microseconds, a minute ahead: all to the same one,
// that of the beginning, because a fence that is raised above its lock would reject each later holder. Each write is
// conditional on the token that was read, so that servers may run meanwhile; but each run takes their tokens from those
// who hold leases then. An error means that not all documents were seen, or that a [docstore.Stopper] was not told; the
// reports count those that were.
func RaiseTokens(ctx context.Context, store docstore.Store, o Options) ([]Report, error) {
	walker, ok := store.(docstore.Walker)
	if !ok {
		return nil, ErrNoWalk
	}
	var reports []Report
	var to int64 // the same for all documents
	for _, c := range counters {
		r := Report{Kind: c.kind}
		err := walk(ctx, walker, c.kind, func(k docstore.Key) {
			r.Documents++
			r.damaged(o, k, "")
		}, func(e docstore.Entry, at time.Time) error {
			if to == 0 {
				to = at.Add(ahead).UnixMicro()
			}
			r.Documents++
			return c.raise(ctx, store, o, e, to, &r)
		})
		if reports = append(reports, r); err != nil {
			return reports, fmt.Errorf("%s: %w", c.kind, err)
		}
	}
	return reports, ended(ctx, store, o, to)
}

// ended lets processes use a store again that had stopped because it lost writes, now that all tokens are raised.
func ended(ctx context.Context, store docstore.Store, o Options, to int64) error {
	s, ok := store.(docstore.Stopper)
	if !ok || o.DryRun {
		return nil
	}
	if err := s.TokensRaised(ctx, to); err != nil {
		return fmt.Errorf("let servers use the store again: %w", err)
	}
	return nil
}

// walk passes all documents of a kind to do, with the store's time.
func walk(ctx context.Context, store docstore.Walker, kind string, damaged func(docstore.Key),
	do func(docstore.Entry, time.Time) error) error {
	for q := (docstore.WalkQuery{Kind: kind, Limit: docstore.MaxLimit}); ; {
		p, err := store.Walk(ctx, q)
		if err != nil {
			return err
		}
		for _, d := range p.Damaged {
			damaged(d.Key)
		}
		for _, e := range p.Entries {
			if err := do(e, p.At); err != nil {
				return err
			}
		}
		if q.After = p.Next; q.After == "" {
			return nil
		}
	}
}

// missing reports whether there is no value; other programs write null for none.
func missing(v docstore.Value) bool {
	o, ok := v.(docstore.Opaque)
	return v == nil || ok && o.Null
}

// damaged counts a document that is left as it is.
func (r *Report) damaged(o Options, k docstore.Key, field string) {
	if r.Damaged++; o.Damaged != nil {
		o.Damaged(k, field)
	}
}

// raise sets the token of one document, and counts what came of it.
func (c counter) raise(ctx context.Context, store docstore.Store, o Options, e docstore.Entry,
	to int64, r *Report) error {
	for range tries {
		token, whole := e.Doc[c.field].(docstore.Int)
		switch {
		case missing(e.Doc[c.field]) || whole && int64(token) >= to:
			r.Current++
			return nil
		case !whole:
			r.damaged(o, e.Key, c.field)
			return nil
		case o.DryRun:
			r.Raised++
			return nil
		}
		raised := docstore.Write{Key: e.Key, If: docstore.Eq{Field: c.field, Value: token},
			Set: map[string]docstore.Value{c.field: docstore.Int(to)}}
		if c.write != nil {
			raised = c.write(e, to)
		}
		w, err := store.Write(ctx, raised)
		if errors.Is(err, docstore.ErrDamaged) {
			r.damaged(o, e.Key, c.field)
			return nil
		}
		if err != nil {
			return err
		}
		if w.Applied {
			r.Raised++
			return nil
		}
		e.Doc = w.Docs[0]
	}
	return fmt.Errorf("%w: %s is written to by others all the time; try again", docstore.ErrUnavailable, e.Key)
}
