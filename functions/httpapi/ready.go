package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	// ReadyKind is the kind of the documents that /readyz writes. They hold nothing but the time.
	ReadyKind = "leasehold_ready"

	readyFor     = 2 * time.Second // how long a result of /readyz is given to other requests
	readyTimeout = 5 * time.Second // for the write, less than most probes wait
	readyKeep    = time.Hour       // after which the store may remove the document
	readyShards  = 16              // documents that processes share, so that none is written to by all of them
)

// errLeaving is the cause of a response that says that the server is about to stop, which is no fault.
var errLeaving = errors.New("the server is about to stop")

// readiness finds out whether a write can be made: reading works on a full disk, and on a store that lost its primary.
type readiness struct {
	store docstore.Store
	clock term.Clock // both: on an instance that is frozen the monotonic one may stand still
	write docstore.Write

	mu      sync.Mutex
	running chan struct{} // closed when the write that is under way has ended; nil if none is
	fresh   term.Moment   // until when the result of the last one is given; zero if there was none
	err     error         // of the last one
}

// clockOf reads both clocks by a function that reads the time; nil is the system's.
func clockOf(now func() time.Time) term.Clock {
	if now == nil {
		return term.Now
	}
	return func() term.Moment { return term.Of(now()) }
}

func newReadiness(store docstore.Store, now func() time.Time) *readiness {
	return &readiness{store: store, clock: clockOf(now), write: readyWrite()}
}

// readyWrite is a write to one of the documents, the same for the life of a process.
func readyWrite() docstore.Write {
	return docstore.Write{
		Key:  docstore.Key{Kind: ReadyKind, ID: strconv.Itoa(rand.IntN(readyShards))},
		Set:  map[string]docstore.Value{"checked_at": docstore.Now},
		Keep: readyKeep,
	}
}

// TryWrite makes the write by which /readyz finds out whether locks can be granted, for programs that have the store.
func TryWrite(ctx context.Context, store docstore.Store) error {
	_, err := store.Write(ctx, readyWrite())
	return err
}

// check returns the error of a write that began less than readyFor ago, or of a new one. Requests that wait for it
// share one; a caller that leaves does not end it.
func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	if r.clock().Until(r.fresh) > 0 {
		defer r.mu.Unlock()
		return r.err
	}
	if r.running == nil {
		r.running = make(chan struct{})
		go r.probe(context.WithoutCancel(ctx), r.clock().Add(readyFor))
	}
	done := r.running
	r.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *readiness) probe(ctx context.Context, fresh term.Moment) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := r.try(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh, r.err = fresh, err
	close(r.running)
	r.running = nil
}

// try makes a write. A panic is an error: it is in a goroutine of its own, where it would end the process, which anyone
// could ask for.
func (r *readiness) try(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	_, err = r.store.Write(ctx, r.write)
	return err
}

// readyz reports whether locks can be granted. Callers are not authenticated: the reason is a class, the log has the
// rest.
func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	if closed(a.leaving) {
		return causedBy(errLeaving, contracts.CodeUnavailable,
			"not ready: this server is about to stop; it serves what still comes")
	}
	err := a.ready.check(r.Context())
	switch {
	case err == nil:
		return send(w, contracts.Health{Status: "ok"})
	case errors.Is(err, docstore.ErrClockSkew):
		return causedBy(err, contracts.CodeUnavailable,
			"not ready: this machine's clock is off, and requests fail with CLOCK_SKEW")
	case errors.Is(err, docstore.ErrFull):
		return causedBy(err, contracts.CodeUnavailable, "not ready: the store is full; reading works, writing does not")
	case errors.Is(err, context.DeadlineExceeded):
		return causedBy(err, contracts.CodeUnavailable, "not ready: the store did not complete a write in time")
	default:
		return causedBy(err, contracts.CodeUnavailable, "not ready: a write failed; the server's log has the reason")
	}
}
