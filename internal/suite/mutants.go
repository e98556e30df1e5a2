package suite

import (
	"context"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// mutant changes every write on its way to the store.
type mutant struct {
	through
	change func(context.Context, docstore.Write) docstore.Write
}

func (m mutant) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	changed := make([]docstore.Write, len(writes))
	for i, w := range writes {
		changed[i] = m.change(ctx, w)
	}
	return m.Store.Write(ctx, changed...)
}

// rewrite applies f to the leaves of a condition.
func rewrite(c docstore.Cond, f func(docstore.Cond) docstore.Cond) docstore.Cond {
	switch c := c.(type) {
	case docstore.Any:
		return docstore.Any(rewriteEach(c, f))
	case docstore.All:
		return docstore.All(rewriteEach(c, f))
	case docstore.Not:
		return docstore.Not{Cond: rewrite(c.Cond, f)}
	default:
		return f(c)
	}
}

func rewriteEach(cs []docstore.Cond, f func(docstore.Cond) docstore.Cond) []docstore.Cond {
	out := make([]docstore.Cond, len(cs))
	for i, c := range cs {
		out[i] = rewrite(c, f)
	}
	return out
}
