package lock

import (
	"context"
	"time"
)

// LineUp is an acquire whose process dies as soon as it was refused: it has a place in line, and does not come again.
func (l *Locks) LineUp(ctx context.Context, c Acquire) (Outcome, error) {
	c.LeaseID, c.retention, c.observed = l.newLeaseID(), l.retention, l.observed
	c.held = l.holding(time.Duration(c.WaitSeconds) * time.Second)
	return l.send(ctx, c, nil, l.now())
}

// How often the document of a lock is read at most, while requests wait for the lock.
const (
	ReadSignalled = readSignalled // because the store signals changes
	SetRest       = setRest
	ReadLeast     = readLeast // for any reason
)
