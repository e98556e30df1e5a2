package metrics

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Request is what is known of an exchange when it has ended.
type Request struct {
	Method    string
	TLS       bool
	Route     string // pattern of the path; empty if no endpoint has it
	Operation string // empty if it is none that is counted
	Tenant    string // counted only if Options.Tenants says so
	Status    int
	Outcome   string // ok, the code of the error, or another word of the documentation
	Aborted   bool   // the connection was cut
	Took      time.Duration

	Facts
}

// Facts are what an endpoint knows of a request beyond its response.
type Facts struct {
	Replayed bool   // the command had been carried out before
	Takeover string // kind of the lease that was taken over from a holder that let it expire; empty if none was
	Waits    bool   // the caller was ready to wait for the lock
	Waited   time.Duration
	Moved    int // partitions that a change of the members of a cluster moved
}

// requestKey is what the attributes of a request are made of.
type requestKey struct {
	method, route, operation, tenant, outcome string
	status                                    int
	tls, failed                               bool
}

type requestSeries struct {
	http      []metric.RecordOption
	operation []metric.AddOption
	replayed  []metric.AddOption // without the outcome
}

// Kinds of leases.
const (
	KindLock       = "lock"
	KindAnalysis   = "analysis"
	KindRun        = "run"
	KindActivation = "activation"
)

// Begin counts a request that begins. Its end is told to [Metrics.End].
func (m *Metrics) Begin(ctx context.Context, method string, tls bool) {
	if m != nil {
		m.active.Add(ctx, 1, m.activeSeries(method, tls)...)
	}
}

// End counts a request that has ended.
func (m *Metrics) End(ctx context.Context, r *Request) {
	if m == nil {
		return
	}
	m.active.Add(ctx, -1, m.activeSeries(r.Method, r.TLS)...)
	k := requestKey{method: known(r.Method), route: r.Route, operation: r.Operation, outcome: r.Outcome,
		status: r.Status, tls: r.TLS}
	k.failed = r.Aborted || r.Status >= http.StatusInternalServerError
	if m.tenants {
		k.tenant = r.Tenant
	}
	s := m.requests.get(k, func(k requestKey) requestSeries {
		for _, a := range alarming {
			if a.operation == k.operation && k.tenant != "" {
				m.operations.Add(ctx, 0, set(attrOperation, a.operation, attrOutcome, a.outcome, attrTenant, k.tenant))
			}
		}
		return requestAttributes(k)
	})
	m.requestDuration.Record(ctx, r.Took.Seconds(), s.http...)
	if r.Operation == "" {
		return
	}
	m.operations.Add(ctx, 1, s.operation...)
	if r.Replayed {
		m.replays.Add(ctx, 1, s.replayed...)
	}
	if r.Takeover != "" {
		m.takeovers.Add(ctx, 1, m.kind(r.Takeover).add...)
	}
	if r.Moved > 0 {
		m.moves.Add(ctx, int64(r.Moved), s.replayed...)
	}
	if r.Waits {
		m.lockWait.Record(ctx, r.Waited.Seconds(), m.outcomes.get(r.Outcome, func(outcome string) []metric.RecordOption {
			return []metric.RecordOption{set(attrOutcome, outcome)}
		})...)
	}
}

func requestAttributes(k requestKey) requestSeries {
	attrs := []attribute.KeyValue{
		attribute.String(attrMethod, k.method), attribute.String(attrScheme, scheme(k.tls)),
		attribute.Int(attrStatus, k.status),
	}
	if k.route != "" {
		attrs = append(attrs, attribute.String(attrRoute, k.route))
	}
	if k.failed {
		attrs = append(attrs, attribute.String(attrError, k.outcome))
	}
	return requestSeries{
		http:      []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))},
		operation: []metric.AddOption{set(attrOperation, k.operation, attrOutcome, k.outcome, attrTenant, k.tenant)},
		replayed:  []metric.AddOption{set(attrOperation, k.operation)},
	}
}

// begunKey is what the attributes of a request are made of that has begun.
type begunKey struct {
	method string
	tls    bool
}

func (m *Metrics) activeSeries(method string, tls bool) []metric.AddOption {
	return m.begun.get(begunKey{known(method), tls}, func(k begunKey) []metric.AddOption {
		return []metric.AddOption{set(attrMethod, k.method, attrScheme, scheme(k.tls))}
	})
}

// known is a method, if HTTP defines it: anyone can send others.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect,
		http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "_OTHER"
	}
}

func scheme(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// operationKey is an operation and how it ended.
type operationKey struct{ operation, outcome string }

// Audited counts an audit event.
func (m *Metrics) Audited(ctx context.Context, operation, outcome string) {
	if m == nil {
		return
	}
	m.audited.Add(ctx, 1, m.auditedAs.get(operationKey{operation, outcome}, func(k operationKey) []metric.AddOption {
		return []metric.AddOption{set(attrOperation, k.operation, attrOutcome, k.outcome)}
	})...)
}

// Waiting reads how many requests wait for something when an exporter asks.
func (m *Metrics) Waiting(of map[string]func() int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = of
}
