package runs

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// expiryField is what a run has in place of [analysis.ExpiryField].
const expiryField = "expiresAt"

// view shows the rule of analyses the document of one run.
type view struct {
	docstore.Store
	key  docstore.Key
	keep time.Duration // of each write
}

// Command is a command on the lock of a run, for a [rule.Observer]: one of those of package analysis.
type Command struct {
	Run ID
	Of  any
}

// Observe implements [rule.Observer]: that of the store, if it has one, is told that the command is on a run.
func (v view) Observe(ctx context.Context, command any) (context.Context, func(any, error)) {
	if o, ok := v.Store.(rule.Observer); ok {
		return o.Observe(ctx, Command{ID{v.key.Tenant, v.key.ID}, command})
	}
	return ctx, func(any, error) {}
}

// Get implements [docstore.Store].
func (v view) Get(ctx context.Context, _ ...docstore.Key) (docstore.Snapshot, error) {
	s, err := v.Store.Get(ctx, v.key)
	return docstore.Snapshot{At: s.At, Docs: shown(s.Docs)}, err
}

// Write implements [docstore.Store].
func (v view) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	w := writes[0] // the rule writes to one document at a time
	w.Key, w.Keep, w.If = v.key, v.keep, condition(w.If)
	set := make(map[string]docstore.Value, len(w.Set))
	for f, value := range w.Set {
		set[stored(f)] = value
	}
	unset := make([]string, len(w.Unset))
	for i, f := range w.Unset {
		unset[i] = stored(f)
	}
	w.Set, w.Unset = set, unset
	r, err := v.Store.Write(ctx, w)
	r.Docs = shown(r.Docs)
	return r, err
}

// stored is the name of a field in the store.
func stored(f string) string {
	if f == analysis.ExpiryField {
		return expiryField
	}
	return f
}

// shown is documents as the rule knows them.
func shown(docs []docstore.Doc) []docstore.Doc {
	for _, d := range docs {
		delete(d, analysis.ExpiryField)
		if end, ok := d[expiryField]; ok {
			d[analysis.ExpiryField] = end
			delete(d, expiryField)
		}
	}
	return docs
}

// condition is a condition on the fields in the store.
func condition(c docstore.Cond) docstore.Cond {
	switch c := c.(type) {
	case docstore.Has:
		return docstore.Has{Field: stored(c.Field)}
	case docstore.Eq:
		return docstore.Eq{Field: stored(c.Field), Value: c.Value}
	case docstore.LE:
		return docstore.LE{Field: stored(c.Field), Value: c.Value}
	case docstore.Any:
		return docstore.Any(conditions(c))
	case docstore.All:
		return docstore.All(conditions(c))
	case docstore.Not:
		return docstore.Not{Cond: condition(c.Cond)}
	default: // Absent
		return c
	}
}

func conditions(cs []docstore.Cond) []docstore.Cond {
	out := make([]docstore.Cond, len(cs))
	for i, c := range cs {
		out[i] = condition(c)
	}
	return out
}
