package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The systems that stores are on, as the semantic conventions of databases name them.
const (
	SystemMemory    = "memory"
	SystemSQLite    = "sqlite"
	SystemRedis     = "redis"
	SystemFirestore = "gcp.firestore"
	SystemDynamoDB  = "aws.dynamodb"
)

// Store returns a store that measures the calls of another one, which has the same abilities: [docstore.Pruner], [docstore.Watcher],
// [docstore.DueLister], [docstore.Walker]. A nil *Metrics returns the store as it is.
func (m *Metrics) Store(store docstore.Store, system string) docstore.Store {
	if m == nil {
		return store
	}
	s := &measured{Store: store, m: m, system: system}
	p, prunes := store.(docstore.Pruner)
	w, watches := store.(docstore.Watcher)
	switch {
	case prunes && watches:
		return struct {
			*measured
			pruner
			docstore.Watcher
		}{s, pruner{s, p}, w}
	case prunes:
		return struct {
			*measured
			pruner
		}{s, pruner{s, p}}
	case watches:
		return struct {
			*measured
			docstore.Watcher
		}{s, w}
	default:
		return s
	}
}

// measured is a store whose calls are measured.
type measured struct {
	docstore.Store

	m      *Metrics
	system string
	calls  series[callKey, []metric.RecordOption]
	writes series[writeKey, []metric.AddOption]
}

var (
	_ docstore.DueLister = (*measured)(nil)
	_ docstore.Walker    = (*measured)(nil)
)

// callKey is what the attributes of a call are made of.
type callKey struct{ operation, kind, failed string }

type writeKey struct{ kind, outcome string }

// Get implements [docstore.Store].
func (s *measured) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	begin := time.Now()
	r, err := s.Store.Get(ctx, keys...)
	kind := ""
	if len(keys) > 0 {
		kind = keys[0].Kind
	}
	s.called(ctx, "get", kind, begin, err)
	return r, err
}

// Write implements [docstore.Store].
func (s *measured) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	begin := time.Now()
	r, err := s.Store.Write(ctx, writes...)
	kind := ""
	if len(writes) > 0 {
		kind = writes[0].Key.Kind
	}
	s.called(ctx, "write", kind, begin, err)
	outcome := "applied"
	switch {
	case err != nil && certain(err):
		outcome = "not_applied"
	case err != nil:
		outcome = "unknown"
	case !r.Applied:
		outcome = "refused"
	}
	s.m.storeWrites.Add(ctx, 1, s.writes.get(writeKey{kind, outcome}, func(k writeKey) []metric.AddOption {
		return []metric.AddOption{set(attrSystem, s.system, attrCollection, k.kind, attrOutcome, k.outcome)}
	})...)
	return r, err
}

// certain reports whether an error says that nothing was changed.
func certain(err error) bool {
	for _, is := range []error{
		docstore.ErrInvalid, docstore.ErrDamaged, docstore.ErrClosed, docstore.ErrClockSkew, docstore.ErrUnsupported, docstore.ErrNotWritten,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// List implements [docstore.Store].
func (s *measured) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	begin := time.Now()
	p, err := s.Store.List(ctx, q)
	s.called(ctx, "list", q.Kind, begin, err)
	return p, err
}

// Due implements [docstore.DueLister].
func (s *measured) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	d, ok := s.Store.(docstore.DueLister)
	if !ok {
		return docstore.Page{}, docstore.ErrNoIndex
	}
	begin := time.Now()
	p, err := d.Due(ctx, q)
	if !errors.Is(err, docstore.ErrNoIndex) {
		s.called(ctx, "due", q.Kind, begin, err)
	}
	return p, err
}

// Walk implements [docstore.Walker].
func (s *measured) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	w, ok := s.Store.(docstore.Walker)
	if !ok {
		return docstore.Page{}, docstore.ErrUnsupported
	}
	begin := time.Now()
	p, err := w.Walk(ctx, q)
	s.called(ctx, "walk", q.Kind, begin, err)
	return p, err
}

// pruner is a store that removes documents.
type pruner struct {
	s *measured
	p docstore.Pruner
}

// Prune implements [docstore.Pruner].
func (p pruner) Prune(ctx context.Context, limit int) (int, error) {
	begin := time.Now()
	n, err := p.p.Prune(ctx, limit)
	p.s.called(ctx, "prune", "", begin, err)
	return n, err
}

func (s *measured) called(ctx context.Context, operation, kind string, begin time.Time, err error) {
	s.m.storeDuration.Record(ctx, time.Since(begin).Seconds(), s.calls.get(callKey{operation, kind, failure(err)}, func(k callKey) []metric.RecordOption {
		return []metric.RecordOption{set(attrSystem, s.system, attrDBOp, k.operation, attrCollection, k.kind, attrError, k.failed)}
	})...)
}

// failure is a word for an error of a store; empty for none.
func failure(err error) string {
	if err == nil {
		return ""
	}
	for _, f := range failures {
		if errors.Is(err, f.is) {
			return f.word
		}
	}
	return "_OTHER"
}

// failures are looked at in order: an error can be several.
var failures = []struct {
	is   error
	word string
}{
	{docstore.ErrFull, "full"},
	{docstore.ErrClockSkew, "clock_skew"},
	{docstore.ErrDamaged, "damaged"},
	{docstore.ErrInvalid, "invalid"},
	{docstore.ErrUnsupported, "unsupported"},
	{docstore.ErrClosed, "closed"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{docstore.ErrUnavailable, "unavailable"},
}
