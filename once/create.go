package once

import "context"

// Creator is a gate of analyses, whose documents exist before they run, that can make one.
type Creator interface {
	Gate

	// Create makes the document of an analysis unless there is one, and reports whether it did.
	Create(ctx context.Context, analysisID string) (created bool, err error)
}

// Creating is a gate that makes the document of an analysis that is asked for and not there: for callers that keep no
// such documents themselves. An analysis that is there costs no request more, one that is not costs two more.
func Creating(g Creator) Gate { return creating{g} }

type creating struct{ Creator }

// Acquire implements [Gate].
func (c creating) Acquire(ctx context.Context, r Acquire) (Grant, error) {
	g, err := c.Creator.Acquire(ctx, r)
	if !unknown(err) || r.GiveUp {
		return g, err
	}
	if _, err := c.Create(ctx, r.RunID); err != nil {
		return Grant{}, err
	}
	return c.Creator.Acquire(ctx, r)
}
