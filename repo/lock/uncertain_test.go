package lock

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Uncertain is a store without a clock of its own: its callers know the time to within a margin. It does what adapters
// do: see [docstore.Instant.Early].
type Uncertain struct {
	docstore.Store

	Margin time.Duration
}

// Write asks for what has passed by the earliest end.
func (s Uncertain) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	asks := false
	var early func(c docstore.Cond, negated bool) docstore.Cond
	each := func(cs []docstore.Cond, negated bool) (out []docstore.Cond) {
		for _, c := range cs {
			out = append(out, early(c, negated))
		}
		return out
	}
	early = func(c docstore.Cond, negated bool) docstore.Cond {
		switch c := c.(type) {
		case docstore.LE:
			if at, timed := c.Value.(docstore.Instant); timed && at.Early(negated) {
				asks, c.Value = true, at.Add(-s.Margin)
			}
			return c
		case docstore.Any:
			return docstore.Any(each(c, negated))
		case docstore.All:
			return docstore.All(each(c, negated))
		case docstore.Not:
			return docstore.Not{Cond: early(c.Cond, !negated)}
		default:
			return c
		}
	}
	writes = slices.Clone(writes)
	writes[0].If = early(writes[0].If, false)
	r, err := s.Store.Write(ctx, writes...)
	if err == nil && !r.Applied && asks {
		r.At, r.Margin = r.At.Add(-s.Margin), s.Margin
	}
	return r, err
}
