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
// # A raise that was interrupted
//
// goes on if it has a name: [Options.Name]. Its token is in the store until it has ended, and what has it already is
// not written to again.
//
// Machine IDs are not covered: leases that the store forgot end by themselves. Wait for the longest of them before the
// store is used for IDs again.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
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

// tries bounds the attempts at one document that others write to at the same time, before it is left for a moment.
const tries = 10

// unfinished is how long a raise that was interrupted can go on. The token of an old one says nothing of what was
// granted since.
const unfinished = 24 * time.Hour

// Bounds of [Options].
const (
	DefaultParallel = 64  // documents at once
	MaxParallel     = 256 // for Options.Parallel
	MaxNameBytes    = 128 // for Options.Name
)

// Options are the settings of [RaiseTokens]. The zero value works.
type Options struct {
	DryRun bool // count, and write nothing

	// Name is that of the raise, up to MaxNameBytes of text. A raise that did not end goes on when one of the same name
	// begins within a day: it has the same token, and what was raised is not raised again. That is safe only if the store
	// was not restored again and lost no writes in between, so each restore needs a name of its own. After its end a name
	// is free. Empty is a new one, [Raise].Name.
	Name string

	// Parallel is how many documents are written at once, 1 to MaxParallel; 0 means DefaultParallel.
	Parallel int

	// Damaged receives the documents whose token is not a whole number, and, without a field, those that the store cannot
	// read; nil drops them. They are left as they are. No two of its calls are at once, nor are those of Progress.
	Damaged func(key docstore.Key, field string)

	// Progress is called after each document, with what was done with those of its kind so far; nil drops it.
	Progress func(Report)

	// Retrying is called when the store does not do what it is asked, or is asked too much, and will be asked again; nil
	// drops it. It may be called by several goroutines at once.
	Retrying func(error)
}

// Raise says what [RaiseTokens] did.
type Raise struct {
	Name    string   `json:"name,omitempty"` // to go on with it; empty if nothing was begun, and in a dry run without one
	Token   int64    `json:"token"`          // below it there is none any more
	Resumed bool     `json:"resumed"`        // it went on with one that was interrupted
	Kinds   []Report `json:"kinds"`
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
// conditional on the token that was read, so that servers may run meanwhile; but each raise takes their tokens from
// those who hold leases then.
//
// One read and two writes for the raise, one read for each page, and one write for each document that is raised. What
// the store does not do is asked for again until it has done nothing at all for a minute. When ctx ends, what is under
// way is finished. An error means that not all documents were seen, or that a [docstore.Stopper] was not told of the
// end; the reports count those that were seen. It is a [field.Error] for options out of range.
func RaiseTokens(ctx context.Context, store docstore.Store, o Options) (Raise, error) {
	if o.Parallel = cmp.Or(o.Parallel, DefaultParallel); o.Parallel < 1 || o.Parallel > MaxParallel {
		return Raise{}, field.Errorf("parallel", "is %d: from 1 to %d", o.Parallel, MaxParallel)
	}
	if err := field.OptionalText("name", o.Name, MaxNameBytes); err != nil {
		return Raise{}, err
	}
	walker, ok := store.(docstore.Walker)
	if !ok {
		return Raise{}, ErrNoWalk
	}
	r := &raising{Options: o, store: store, pass: newPass(walker, o.Parallel, o.Retrying)}
	if err := r.begin(ctx); err != nil {
		return r.did, err
	}
	for _, c := range counters {
		report := Report{Kind: c.kind}
		err := r.pass.each(ctx, c.kind, func(k docstore.Key) {
			r.count(&report, k, "", damaged)
		}, func(ctx context.Context, e docstore.Entry) error {
			what, err := r.raise(ctx, c, e)
			if err == nil {
				r.count(&report, e.Key, c.field, what)
			}
			return err
		})
		if r.did.Kinds = append(r.did.Kinds, report); err != nil {
			return r.did, fmt.Errorf("%s: %w", c.kind, err)
		}
	}
	if o.DryRun {
		return r.did, nil
	}
	return r.did, r.end(ctx)
}

// raising is a raise in progress.
type raising struct {
	Options
	store docstore.Store
	pass  *pass
	mu    sync.Mutex // of the reports
	did   Raise
	lost  bool // another program has put something in the place of the mark: this raise cannot go on later
}

// A raise that has not ended has a mark, one for the store.
var (
	markKey = docstore.Key{Kind: "token_raises", ID: "unfinished"}
	timeKey = docstore.Key{Kind: "token_raises", ID: "none"} // never there: its read is of the store's time
)

const (
	fName  = "name"
	fToken = "token"
)

// begin chooses the token: that of the raise to go on with, or a new one, which it writes down.
func (r *raising) begin(ctx context.Context) error {
	var found docstore.Snapshot
	err := r.pass.insist(ctx, func() (err error) {
		found, err = r.store.Get(ctx, markKey)
		if r.lost = errors.Is(err, docstore.ErrDamaged); r.lost {
			found, err = r.store.Get(ctx, timeKey)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	to := found.At.Add(ahead).UnixMicro()
	name, _ := found.Docs[0][fName].(docstore.String)
	token, _ := found.Docs[0][fToken].(docstore.Int)
	if age := to - int64(token); r.Name != "" && r.Name == string(name) && age >= 0 && age < unfinished.Microseconds() {
		r.did.Name, r.did.Token, r.did.Resumed = r.Name, int64(token), true
		return nil
	}
	if r.DryRun {
		r.did.Name, r.did.Token = r.Name, to
		return nil
	}
	name = docstore.String(cmp.Or(r.Name, strconv.FormatInt(to, 10)))
	if !r.lost {
		if err = r.write(ctx, docstore.Write{
			Key: markKey, Set: docstore.Doc{fName: name, fToken: docstore.Int(to)}, Keep: unfinished,
		}); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	r.did.Name, r.did.Token = string(name), to
	return nil
}

// end is for what may be done only when every document of the store was looked at, and all tokens are raised. It comes
// after no dry run, and after none that was interrupted or failed.
func (r *raising) end(ctx context.Context) error {
	if s, ok := r.store.(docstore.Stopper); ok {
		if err := r.pass.insist(ctx, func() error {
			return s.TokensRaised(context.WithoutCancel(ctx), r.did.Token)
		}); err != nil {
			return fmt.Errorf("all tokens were raised; let servers use the store again: %w", err)
		}
	}
	if r.lost {
		return nil
	}
	err := r.write(ctx, docstore.Write{Key: markKey, Delete: true, If: docstore.All{
		docstore.Eq{Field: fName, Value: docstore.String(r.did.Name)},
		docstore.Eq{Field: fToken, Value: docstore.Int(r.did.Token)},
	}})
	if err != nil {
		return fmt.Errorf("all tokens were raised, but the end was not noted: %w", err)
	}
	return nil
}

// write writes a mark. A condition that does not hold is no error: another raise has its own by now.
func (r *raising) write(ctx context.Context, w docstore.Write) error {
	return r.pass.insist(ctx, func() error {
		_, err := r.store.Write(context.WithoutCancel(ctx), w)
		return err
	})
}

// outcome is what came of a document.
type outcome int

const (
	raised outcome = iota
	current
	damaged
)

// count counts a document, and tells of it.
func (r *raising) count(report *Report, k docstore.Key, field string, what outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report.Documents++
	switch what {
	case raised:
		report.Raised++
	case current:
		report.Current++
	case damaged:
		if report.Damaged++; r.Damaged != nil {
			r.Damaged(k, field)
		}
	}
	if r.Progress != nil {
		r.Progress(*report)
	}
}

// missing reports whether there is no value; other programs write null for none.
func missing(v docstore.Value) bool {
	o, ok := v.(docstore.Opaque)
	return v == nil || ok && o.Null
}

// raise sets the token of one document. A write that was begun is not given up when ctx ends.
func (r *raising) raise(ctx context.Context, c counter, e docstore.Entry) (what outcome, err error) {
	to, unsure := r.did.Token, false // unsure: a write without a response may have been carried out
	err = r.pass.insist(ctx, func() error {
		for range tries {
			token, whole := e.Doc[c.field].(docstore.Int)
			switch {
			case whole && int64(token) >= to && unsure:
				what = raised
				return nil
			case missing(e.Doc[c.field]) || whole && int64(token) >= to:
				what = current
				return nil
			case !whole:
				what = damaged
				return nil
			case r.DryRun:
				what = raised
				return nil
			}
			write := docstore.Write{Key: e.Key, If: docstore.Eq{Field: c.field, Value: token},
				Set: map[string]docstore.Value{c.field: docstore.Int(to)}}
			if c.write != nil {
				write = c.write(e, to)
			}
			w, err := r.store.Write(context.WithoutCancel(ctx), write)
			switch {
			case errors.Is(err, docstore.ErrDamaged):
				what = damaged
				return nil
			case err != nil:
				unsure = unsure || !errors.Is(err, docstore.ErrNotWritten)
				return err
			case w.Applied:
				what = raised
				return nil
			}
			e.Doc = w.Docs[0]
		}
		return fmt.Errorf("%w: %s is written to by others all the time; try again", docstore.ErrUnavailable, e.Key)
	})
	return what, err
}
