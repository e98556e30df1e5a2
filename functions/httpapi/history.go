package httpapi

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// HistoryQuery is about what leases were of.
type HistoryQuery struct {
	Kind      string // lock, run, analysis, machine_ids, activation
	Tenant    string // of locks, runs and identities
	Key       string // of a machine ID its service
	Cluster   string // of an identity
	MachineID *int64
	At        time.Time // zero: all leases are asked for
}

// mostPastLeases is how many leases a response without a time lists.
const mostPastLeases = 100

// How many bytes the names of what is asked for may have; none that has leases has more.
const (
	maxHistoryKey = 1024
	maxHistoryOf  = 128 // of its tenant and its cluster
)

// getHistory says who had something, as the audit events of this server tell.
func (a *api) getHistory(c call) (contracts.LeaseHistory, error) {
	q, err := historyQuery(c)
	if err != nil {
		return contracts.LeaseHistory{}, err
	}
	if a.history == nil {
		return contracts.LeaseHistory{}, contracts.Errorf(contracts.CodeNotConfigured,
			"this process writes its audit events to the log, not to a file: set LEASEHOLD_AUDIT_LOG, or ask leasehold audit")
	}
	var h contracts.LeaseHistory
	err = a.admission.histories.with(c.Context(), c.note.party, func() (err error) {
		h, err = a.history(c.Context(), q)
		return err
	})
	if n := len(h.Leases) - mostPastLeases; n > 0 {
		h.Leases, h.LeftOff = h.Leases[n:], int64(n)
	}
	return h, err
}

// historyQuery reads what a request asks for. An administrator asks about its tenant; what belongs to none, and the
// other tenants, are for operators.
func historyQuery(c call) (HistoryQuery, error) {
	given, err := query(c.Request, "kind", "key", "tenant_id", "cluster", "machine_id", "at")
	if err != nil {
		return HistoryQuery{}, err
	}
	q := HistoryQuery{Kind: given["kind"], Tenant: given["tenant_id"], Key: given["key"], Cluster: given["cluster"]}
	if err := errors.Join(field.OptionalText("tenant_id", q.Tenant, maxHistoryOf),
		field.OptionalText("cluster", q.Cluster, maxHistoryOf)); err != nil {
		return q, err
	}
	n, err := number(given, "machine_id", 0, math.MaxInt64)
	if err != nil {
		return q, err
	}
	if at, ok := given["at"]; ok {
		if q.At, err = time.Parse(time.RFC3339Nano, at); err != nil || q.At.IsZero() {
			return q, field.Errorf("at", "must be a time such as 2026-01-01T03:12:00Z")
		}
	}
	if err := field.Text("key", q.Key, maxHistoryKey); err != nil {
		return q, err
	}
	if !slices.Contains([]string{"lock", "run", "analysis", "machine_ids", "activation"}, q.Kind) {
		return q, field.Errorf("kind", "must be one of lock, run, analysis, machine_ids, activation")
	}
	if q.Kind == "machine_ids" {
		q.MachineID = &n
	}
	for _, f := range []struct {
		name string
		of   bool
	}{
		{"tenant_id", q.Kind != "analysis" && q.Kind != "machine_ids"}, {"cluster", q.Kind == "activation"},
		{"machine_id", q.Kind == "machine_ids"},
	} {
		if is := given[f.name] != ""; f.of && !is {
			return q, field.Errorf(f.name, "is missing: a question about %s has one", q.Kind)
		} else if !f.of && is {
			return q, field.Errorf(f.name, "is given, but a question about %s has none", q.Kind)
		}
	}
	switch {
	case c.caller.May(Operate):
	case q.Tenant == "":
		return q, lacks(Operate, "a question about "+q.Kind+", which belongs to no tenant,")
	case q.Tenant != c.caller.Tenant && c.caller.Tenant != "":
		return q, contracts.Errorf(contracts.CodePermissionDenied, "your token is for tenant %q, tenant_id is %q",
			c.caller.Tenant, clip(q.Tenant))
	}
	return q, nil
}
