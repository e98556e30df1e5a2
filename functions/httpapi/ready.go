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
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// ReadyKind is the kind of the documents that /readyz writes. They hold nothing but the highest time that was seen.
	ReadyKind = "leasehold_ready"

	readyFor     = 2 * time.Second     // how long a result of /readyz is given to other requests
	readyTimeout = 5 * time.Second     // for the write, less than most probes wait
	readyKeep    = 30 * 24 * time.Hour // after which the store may remove the document
	readyShards  = 16                  // documents that processes share, so that none is written to by all of them
)

// errLeaving is the cause of a response that says that the server is about to stop, which is no fault.
var errLeaving = errors.New("the server is about to stop")

// errImpaired is the cause of a response that says that the store may be losing documents.
var errImpaired = errors.New("the store may be losing documents")

// readiness finds out whether a write can be made: reading works on a full disk, and on a store that lost its primary.
type readiness struct {
	store docstore.Store
	clock term.Clock // both: on an instance that is frozen the monotonic one may stand still
	write docstore.Write
	// by how much the store's time is behind the highest, after each write; nil: no one is
	told func(behind time.Duration)

	mu      sync.Mutex
	running chan struct{} // closed when the write that is under way has ended; nil if none is
	fresh   term.Moment   // until when the result of the last one is given; zero if there was none
	err     error         // of the last one
	behind  time.Duration // see told
}

// clockOf reads both clocks by a function that reads the time; nil is the system's.
func clockOf(now func() time.Time) term.Clock {
	if now == nil {
		return term.Now
	}
	return func() term.Moment { return term.Of(now()) }
}

func newReadiness(store docstore.Store, now func() time.Time, told func(time.Duration)) *readiness {
	return &readiness{store: store, clock: clockOf(now), write: readyWrite(), told: told}
}

// Fields of a document that /readyz writes.
const (
	fHighest = "checked_at" // the highest time that was seen: of the latest check, unless the clock was set back since
	fTried   = "tried_at"   // of a check that was made at a time below it
)

func readyKey(shard int) docstore.Key {
	return docstore.Key{Kind: ReadyKind, ID: strconv.Itoa(shard)}
}

// readyWrite is a write to one of the documents, the same for the life of a process. It applies unless the document
// says that the store's time was higher before.
func readyWrite() docstore.Write {
	return docstore.Write{
		Key: readyKey(rand.IntN(readyShards)),
		If: docstore.Any{docstore.Not{Cond: docstore.Has{Field: fHighest}},
			docstore.Not{Cond: rule.ImpossibleEnd(fHighest, 0)}},
		Set:  map[string]docstore.Value{fHighest: docstore.Now},
		Keep: readyKeep,
	}
}

// TryWrite makes the write by which /readyz finds out whether locks can be granted, for programs that have the store.
func TryWrite(ctx context.Context, store docstore.Store) error {
	_, err := tryWrite(ctx, store, readyWrite())
	return err
}

// tryWrite makes the write, and another one if the store's time is behind the highest that the document has.
func tryWrite(ctx context.Context, store docstore.Store, w docstore.Write) (behind time.Duration, err error) {
	r, err := store.Write(ctx, w)
	if err != nil || r.Applied {
		return 0, err
	}
	behind = behindOf(rule.When{At: r.At, Margin: r.Margin}, r.Docs)
	_, err = store.Write(ctx,
		docstore.Write{Key: w.Key, Set: map[string]docstore.Value{fTried: docstore.Now}, Keep: w.Keep})
	return behind, err
}

// behindOf is by how much a time is behind the highest that documents have, 0 if it is not or by no more than a second.
func behindOf(at rule.When, docs []docstore.Doc) (most time.Duration) {
	for _, d := range docs {
		text, _ := d[fHighest].(docstore.String)
		highest, err := docstore.ParseTime(text)
		if err != nil {
			continue
		}
		if _, is := at.Impossible(highest, 0); is {
			most = max(most, highest.Sub(at.Latest()))
		}
	}
	return most
}

// StoreBehind says by how much the store's time, at, is behind the highest that health checks have seen of it; 0 if it
// is not. Then the store's clock was ahead, or is behind now: ends that were written meanwhile count from now on,
// tokens go on rising, and nothing stays closed for it. One read.
func StoreBehind(ctx context.Context, store docstore.Store) (behind time.Duration, at time.Time, err error) {
	keys := make([]docstore.Key, readyShards)
	for i := range keys {
		keys[i] = readyKey(i)
	}
	snap, err := store.Get(ctx, keys...)
	if err != nil {
		return 0, time.Time{}, err
	}
	return behindOf(rule.When{At: snap.At, Margin: snap.Margin}, snap.Docs), snap.At, nil
}

// storeBehind logs that the store's time is behind what it was, once for each time that this begins, and measures it.
func (f *frame) storeBehind() func(behind time.Duration) {
	var said atomic.Bool
	return func(behind time.Duration) {
		f.metrics.StoreBehind(behind)
		if before := said.Swap(behind > 0); behind > 0 && !before {
			f.log.Warn(BehindText(behind))
		}
	}
}

// unread is what there is to say of documents that cannot be read; nil if there were none.
func (f *frame) unread() *contracts.HealthUnreadable {
	met := f.damage.Last()
	if met.Count == 0 {
		return nil
	}
	return &contracts.HealthUnreadable{Count: met.Count, Operation: met.Operation, At: direct.Time(met.At)}
}

// unreadable counts documents that an operation passed by because they cannot be read.
func (a *api) unreadable(r *http.Request, n int) {
	operation := noteOf(r).operation()
	a.metrics.Unreadable(r.Context(), operation, n)
	a.damage.Met(operation, n)
}

// BehindText says for people that the store's time is behind what it was.
func BehindText(behind time.Duration) string {
	return fmt.Sprintf("the store's time is %v behind the highest that it has shown: its clock was ahead, or is behind now; "+
		"synchronise it. Leases that were written meanwhile count from the first look at them, and tokens go on rising",
		behind.Round(time.Millisecond))
}

// check returns the error of a write that began less than readyFor ago, or of a new one, and by how much the store's
// time is behind what it was. Requests that wait for it share one; a caller that leaves does not end it.
func (r *readiness) check(ctx context.Context) (behind time.Duration, err error) {
	r.mu.Lock()
	if r.clock().Until(r.fresh) > 0 {
		defer r.mu.Unlock()
		return r.behind, r.err
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
		return 0, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.behind, r.err
}

func (r *readiness) probe(ctx context.Context, fresh term.Moment) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	behind, err := r.try(ctx)
	if err == nil && r.told != nil {
		r.told(behind)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh, r.err, r.behind = fresh, err, behind
	close(r.running)
	r.running = nil
}

// try makes a write. A panic is an error: it is in a goroutine of its own, where it would end the process, which anyone
// could ask for.
func (r *readiness) try(ctx context.Context) (behind time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if behind, err = tryWrite(ctx, r.store, r.write); err != nil {
		return behind, err
	}
	if i, ok := r.store.(docstore.Impaired); ok {
		if err := i.Impaired(); err != nil {
			return behind, fmt.Errorf("%w: %w", errImpaired, err)
		}
	}
	return behind, nil
}

// readyz reports whether locks can be granted. Callers are not authenticated: the reason is a class, the log has the
// rest.
func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	if closed(a.leaving) {
		return causedBy(errLeaving, contracts.CodeUnavailable,
			"not ready: this server is about to stop; it serves what still comes")
	}
	behind, err := a.ready.check(r.Context())
	switch {
	case err == nil && behind > 0:
		return send(w, contracts.Health{Status: "ok", Warning: BehindText(behind), Unreadable: a.unread()})
	case err == nil:
		return send(w, contracts.Health{Status: "ok", Unreadable: a.unread()})
	case errors.Is(err, docstore.ErrClockSkew):
		return causedBy(err, contracts.CodeUnavailable,
			"not ready: this machine's clock is off, and requests fail with CLOCK_SKEW")
	case errors.Is(err, errImpaired):
		return causedBy(err, contracts.CodeUnavailable,
			"not ready: the store may be losing documents; the server's log has the reason")
	case errors.Is(err, docstore.ErrFull):
		return causedBy(err, contracts.CodeUnavailable, "not ready: the store is full; reading works, writing does not")
	case errors.Is(err, docstore.ErrBlocked):
		return causedBy(err, contracts.CodeUnavailable, "not ready: "+blocked)
	case errors.Is(err, context.DeadlineExceeded):
		return causedBy(err, contracts.CodeUnavailable, "not ready: the store did not complete a write in time")
	default:
		return causedBy(err, contracts.CodeUnavailable, "not ready: a write failed; the server's log has the reason")
	}
}
