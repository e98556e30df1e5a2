package lock

import (
	"context"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Names of the fields that say who was refused last, if that is recorded.
const (
	fRefusedOwner = "refused_owner"
	fRefusedAt    = "refused_at"
)

const (
	// mostRefusals is for how many locks a process knows when it recorded a refusal.
	mostRefusals = 10_000

	// recordTimeout bounds how much later a refused caller gets its response.
	recordTimeout = time.Second
)

// refusals records who was refused a lock: once in a time for each lock, at the cost of one write.
type refusals struct {
	every time.Duration // 0: never
	store docstore.Store
	now   func() time.Time

	mu   sync.Mutex
	last map[docstore.Key]time.Time
}

// record writes who was refused, unless that was done lately. What comes of the write does not matter: the caller was
// refused.
func (r *refusals) record(ctx context.Context, c Acquire, o Outcome) {
	if r.every == 0 || o.Code != Held && o.Code != Delayed && o.Code != QueueFull || !r.due(c.key()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	_, _ = r.store.Write(ctx, c.refusedWrite())
}

// refusedWrite applies where there is a record of the lock, in whatever form. It touches nothing that a command rests
// on.
func (c Acquire) refusedWrite() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  docstore.Has{Field: fState},
		Set: map[string]docstore.Value{fRefusedOwner: docstore.String(cut(c.Owner)), fRefusedAt: docstore.Now},
	}
}

// due reports whether the next refusal of a lock is to be recorded, and takes it for done. A process that knows of too
// many locks records those that it does not know of later.
func (r *refusals) due(k docstore.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if last, known := r.last[k]; known && now.Sub(last) < r.every {
		return false
	}
	if len(r.last) >= mostRefusals {
		for k, last := range r.last {
			if now.Sub(last) >= r.every {
				delete(r.last, k)
			}
		}
	}
	if len(r.last) >= mostRefusals {
		return false
	}
	r.last[k] = now
	return true
}

// readRefused reads who was refused last.
func readRefused(r *rule.Reader) Refused {
	return Refused{Owner: r.Text(fRefusedOwner), At: r.Time(fRefusedAt)}
}
