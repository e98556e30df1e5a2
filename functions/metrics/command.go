package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

var _ rule.Observer = (*observer)(nil)

// Observe implements [rule.Observer]: it learns what was granted and what ended, also of commands that no request asked
// for.
func (s *observer) Observe(ctx context.Context, command any) (context.Context, func(outcome any, err error)) {
	return ctx, func(outcome any, err error) {
		if err != nil {
			return
		}
		switch o := outcome.(type) {
		case lock.Outcome:
			s.m.lockEnded(ctx, command, o)
		case lock.SetOutcome:
			s.m.setEnded(ctx, command, o)
		case analysis.Outcome:
			kind, tenant := KindAnalysis, ""
			if r, ok := command.(runs.Command); ok {
				kind, tenant, command = KindRun, r.Run.Tenant, r.Of
			}
			s.m.runEnded(ctx, Lease{Kind: kind, Tenant: tenant}, command, o)
		}
	}
}

// lockEnded is told of the end of a command on a lock.
func (m *Metrics) lockEnded(ctx context.Context, command any, o lock.Outcome) {
	if o.CountedAnew {
		m.countedAnew.Add(ctx, 1, m.kind(KindLock).add...)
	}
	if o.Code != lock.OK || o.Lease.Mode == lock.Rate { // a rate has no leases
		return
	}
	l := LockLease(o.Lease)
	switch command.(type) {
	case lock.Acquire, lock.Renew:
		m.Granted(ctx, l, o.Lease.AcquiredAt, o.At, o.Lease.ExpiresAt)
	case lock.Release, lock.ForceRelease, lock.GiveUp:
		m.Ended(l)
	}
	if o.TookOver {
		m.takeovers.Add(ctx, 1, m.kind(KindLock).add...)
	}
}

// setEnded is told of the end of a command on several locks.
func (m *Metrics) setEnded(ctx context.Context, command any, o lock.SetOutcome) {
	for _, l := range o.Leases {
		switch command.(type) {
		case lock.ReleaseSet, lock.GiveUpSet:
			m.Ended(LockLease(l))
		default:
			if o.Code != lock.OK {
				continue
			}
			m.Granted(ctx, LockLease(l), l.AcquiredAt, o.At, l.ExpiresAt)
		}
	}
	if o.CountedAnew > 0 {
		m.countedAnew.Add(ctx, int64(o.CountedAnew), m.kind(KindLock).add...)
	}
	if n := len(o.TookOver); n > 0 {
		m.takeovers.Add(ctx, int64(n), m.kind(KindLock).add...)
	}
}

// runEnded is told of the end of a command on the lock of an analysis or a run.
func (m *Metrics) runEnded(ctx context.Context, l Lease, command any, o analysis.Outcome) {
	if o.CountedAnew {
		m.countedAnew.Add(ctx, 1, m.kind(l.Kind).add...)
	}
	if o.Code != analysis.OK {
		return
	}
	l.Token = o.Grant.Token
	how := ""
	switch c := command.(type) {
	case analysis.Acquire:
		l.ID = string(c.ID)
		m.Granted(ctx, l, time.Time{}, o.At, o.Grant.ExpiresAt)
		if o.Grant.Runs > 1 && !o.Replayed {
			m.takeovers.Add(ctx, 1, m.kind(l.Kind).add...)
		}
	case analysis.Refresh:
		l.ID = string(c.ID)
		m.Granted(ctx, l, time.Time{}, o.At, o.Grant.ExpiresAt)
	case analysis.GiveUp:
		if l.ID = string(c.Acquire.ID); l.Token > 0 {
			m.Ended(l)
		}
	case analysis.Release:
		l.ID, l.Token = string(c.ID), c.Token
		m.Ended(l)
		if how = "stopped"; c.Failed != "" {
			how = "failed"
		}
	case analysis.Finish:
		l.ID, l.Token = string(c.ID), c.Token
		m.Ended(l)
		if how = "succeeded"; c.Status == analysis.Failed {
			how = "failed"
		}
	}
	if how != "" && !o.Replayed {
		m.runsEnded.Add(ctx, 1, m.ends.get(endKey{l.Kind, how}, func(k endKey) []metric.AddOption {
			return []metric.AddOption{set(attrKind, k.kind, attrOutcome, k.how)}
		})...)
	}
}

// endKey is how a run of a kind ended.
type endKey struct{ kind, how string }
