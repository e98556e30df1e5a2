package projectlock

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Scope is what a lease is for. With the file both scopes share one lock; with the service each has its own.
type Scope string

// The scopes.
const (
	Autosave Scope = "autosave" // the default
	History  Scope = "history"
)

// Backend is what keeps the lock.
type Backend string

// The backends. In the browser there is a third one, "web".
const (
	Fallback Backend = "fallback" // the file .lock in the project's folder
	Service  Backend = "service"  // a Leasehold service or a store, if Options.Service is set
)

// Reach is how far a lease excludes others.
type Reach string

// The reaches of leases.
const (
	ReachFile    Reach = "file"    // all processes that see the same project folder, on one machine or a shared filesystem
	ReachService Reach = "service" // all callers of the service
)

// Lease is the right to write to the project until it expires or is released. It is read-only: [Project.Renew] returns
// a new one. The zero Lease is none.
type Lease struct {
	held      *held
	expiresAt time.Time
}

// ID is the UUID of the lease, the same in all its renewals.
func (l Lease) ID() string {
	if l.held == nil {
		return ""
	}
	return l.held.id
}

// Backend is what keeps the lock.
func (l Lease) Backend() Backend {
	if l.held == nil {
		return ""
	}
	return l.held.project.backend.name()
}

// Reach is how far the lease excludes others.
func (l Lease) Reach() Reach {
	switch l.Backend() {
	case Fallback:
		return ReachFile
	case Service:
		return ReachService
	default:
		return ""
	}
}

// Scope is what the lease is for.
func (l Lease) Scope() Scope {
	if l.held == nil {
		return ""
	}
	return l.held.scope
}

// AcquiredAt is when the lease was acquired by this process's wall clock, in whole milliseconds of UTC.
func (l Lease) AcquiredAt() time.Time {
	if l.held == nil {
		return time.Time{}
	}
	return l.held.acquiredAt
}

// TTLExpiresAt is when the lease expires unless it is renewed, by this process's wall clock, in whole milliseconds of
// UTC.
func (l Lease) TTLExpiresAt() time.Time { return l.expiresAt }

// Remaining is how long the lease lasts from now on, with the renewals that it had since; 0 or less means that it
// expired, was released or is lost. It consults the monotonic clock and the wall clock at each call, and believes the
// one that went further, so that it is right after the process was stopped or the machine slept.
func (l Lease) Remaining() time.Duration {
	if l.held == nil || l.held.isReleased() || l.held.term.Check() != nil {
		return 0
	}
	return l.held.term.Left()
}

// Token is the fencing token of the lease: what is written to can reject the writes of older leases by it. A lease of
// the file has none; the error is then [ErrNoToken]. A caller that accepts writes without a fence asks errors.Is(err,
// ErrNoToken) and leaves the check out.
func (l Lease) Token() (int64, error) {
	if l.held == nil || l.held.token == 0 {
		return 0, ErrNoToken
	}
	return l.held.token, nil
}

// MarshalJSON has the names and the units of the browser's lease, with times in ms since 1970, and the reach.
func (l Lease) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		record
		Reach Reach `json:"reach"`
	}{record{l.ID(), l.Backend(), l.Scope(), l.AcquiredAt().UnixMilli(), l.expiresAt.UnixMilli()}, l.Reach()})
}

// held is a lease that was granted, as this process knows it.
type held struct {
	project    *Project
	id         string
	scope      Scope
	acquiredAt time.Time
	token      int64           // of the service; 0 is none
	service    contracts.Lease // the service's latest, guarded by turn
	term       *term.Term

	ctx    context.Context //nolint:containedctx // ends renewals when the lease is released
	cancel context.CancelFunc
	turn   chan struct{} // holds one element while a renewal or a release is under way

	unsure    bool  // a renewal since the latest that succeeded had no response; guarded by turn
	elsewhere error // the lease is renewed from elsewhere, and not to be released; guarded by turn

	mu        sync.Mutex
	begin     term.Moment // before the request of the latest grant
	lasts     time.Duration
	expiresAt time.Time
	released  bool // a release has begun
	ended     bool // and is over, or nothing is left to release
}

// set notes a grant.
func (h *held) set(g grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin, h.lasts, h.expiresAt = g.begin, g.lasts, g.expiresAt
}

// lease is the lease as it is now.
func (h *held) lease() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Lease{held: h, expiresAt: h.expiresAt}
}

// due is when the lease is to be renewed: when two thirds of it have passed, RenewAfter of TTL. A request to the
// service that was repeated finds its lease with less left.
func (h *held) due() term.Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begin.Due(RenewAfter, h.lasts, TTL)
}

func (h *held) isReleased() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released
}

// release ends the lease for its holder: it is not renewed any more.
func (h *held) release() {
	h.mu.Lock()
	h.released = true
	h.mu.Unlock()
	h.cancel()
}

// over is why the lease cannot be renewed, an ErrLost; nil if it can.
func (h *held) over() error {
	if h.isReleased() {
		return errReleased
	}
	return h.term.Check()
}

// enter waits for the renewals and releases that are under way. The error is the cause of a context that ended before.
func (h *held) enter(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *held) leave() { <-h.turn }

// expired is the cause of a lease that expired by this process's clocks.
func expired(trouble error) error {
	if trouble != nil {
		return fmt.Errorf("%w: it expired, after renewals that failed: %w", ErrLost, trouble)
	}
	return fmt.Errorf("%w: it expired", ErrLost)
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
