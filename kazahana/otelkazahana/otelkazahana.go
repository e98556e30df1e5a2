// Package otelkazahana exports the counters of a generator of IDs as metrics of OpenTelemetry.
//
//	registration, err := otelkazahana.Register(otel.GetMeterProvider(), ids.Stats)
//
// docs/reference/metrics.md#ids lists the instruments. The package imports the interface of OpenTelemetry alone: which
// SDK and which exporter there is, the program decides. It is apart from package kazahana, which has the standard
// library only.
package otelkazahana

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// Scope is the name of the meter.
const Scope = "github.com/leasehold-dev/leasehold/kazahana/otelkazahana"

// attrService has the Stats.ServiceID.
const attrService = "leasehold.service"

// kind is the kind of an instrument, in the words of docs/reference/metrics.md.
type kind string

// The kinds. Values of generators add up, but for the gauge's.
const (
	counter kind = "counter, observed" // only grows
	upDown  kind = "up-down counter, observed"
	gauge   kind = "gauge, observed"
)

// instrument is one row of the table.
type instrument struct {
	field    string // of kazahana.Stats
	name     string
	kind     kind
	unit     string // of UCUM, as OpenTelemetry wants it
	help     string // what is counted or measured, for exporters
	question string // that it answers
	value    func(kazahana.Stats) float64
}

// table has a row for each number of [kazahana.Stats].
var table = []instrument{
	{
		field: "ActiveLeases", name: "leasehold.ids.leases", kind: upDown, unit: "{lease}",
		help:     "Leases of machine IDs whose interval contains the present.",
		question: "Are there as many as were asked for?",
		value:    func(st kazahana.Stats) float64 { return float64(st.ActiveLeases) },
	},
	{
		field: "ThroughputPerMs", name: "leasehold.ids.throughput", kind: upDown, unit: "{id}/s",
		help:     "IDs that can be made in a second under the active leases: 1000 times what a millisecond has.",
		question: "How near is the rate of `leasehold.ids.issued` to it?",
		value:    func(st kazahana.Stats) float64 { return 1000 * float64(st.ThroughputPerMs) },
	},
	{
		field: "Fallback", name: "leasehold.ids.fallback", kind: upDown, unit: "{generator}",
		help:     "Generators that make IDs without a lease now: 0 or 1 of each generator.",
		question: "Is one without a lease although it has a provider?",
		value: func(st kazahana.Stats) float64 {
			if st.Fallback {
				return 1
			}
			return 0
		},
	},
	{
		field: "AcquireAttempts", name: "leasehold.ids.acquire.attempts", kind: counter, unit: "{attempt}",
		help:     "Attempts to acquire leases.",
		question: "What do the failures relate to?",
		value:    func(st kazahana.Stats) float64 { return float64(st.AcquireAttempts) },
	},
	{
		field: "AcquireFailures", name: "leasehold.ids.acquire.failures", kind: counter, unit: "{attempt}",
		help:     "Attempts to acquire leases that failed.",
		question: "Which part of the attempts fails: is the provider unavailable, or are its machine IDs exhausted?",
		value:    func(st kazahana.Stats) float64 { return float64(st.AcquireFailures) },
	},
	{
		field: "LeasesRejected", name: "leasehold.ids.leases.rejected", kind: counter, unit: "{lease}",
		help:     "Leases that were granted, but rejected by the generator.",
		question: "Is it above zero? The log says what is wrong with them.",
		value:    func(st kazahana.Stats) float64 { return float64(st.LeasesRejected) },
	},
	{
		field: "EpochMismatches", name: "leasehold.ids.epoch.mismatches", kind: counter, unit: "{lease}",
		help: "Leases with another epoch than the IDs before: rejected, but for the first lease after fallback IDs, " +
			"if its epoch is earlier.",
		question: "Do the program and the server have the same epoch?",
		value:    func(st kazahana.Stats) float64 { return float64(st.EpochMismatches) },
	},
	{
		field: "IDs", name: "leasehold.ids.issued", kind: counter, unit: "{id}",
		help:     "IDs that were issued, with those without a lease.",
		question: "How many IDs does a service use?",
		value:    func(st kazahana.Stats) float64 { return float64(st.IDs) },
	},
	{
		field: "FallbackIDs", name: "leasehold.ids.issued.fallback", kind: counter, unit: "{id}",
		help:     "IDs that were issued without a lease. Each also counts in `leasehold.ids.issued`.",
		question: "Which part of the IDs is unique by likelihood only?",
		value:    func(st kazahana.Stats) float64 { return float64(st.FallbackIDs) },
	},
	{
		field: "SequenceWaits", name: "leasehold.ids.sequence.waits", kind: counter, unit: "{wait}",
		help:     "Waits for the next millisecond, because the IDs of this one were used up.",
		question: "Does it rise steadily? Then ask for more throughput.",
		value:    func(st kazahana.Stats) float64 { return float64(st.SequenceWaits) },
	},
	{
		field: "ClockBackward", name: "leasehold.ids.clock.backward", kind: counter, unit: "{step}",
		help:     "Steps back of the wall clock by a millisecond or more.",
		question: "Does it rise? Look at NTP; prefer slewing.",
		value:    func(st kazahana.Stats) float64 { return float64(st.ClockBackward) },
	},
	{
		field: "LastBackward", name: "leasehold.ids.clock.backward.last", kind: gauge, unit: "s",
		help:     "The size of the last step back of the wall clock.",
		question: "Is it near what the generator waits for?",
		value:    func(st kazahana.Stats) float64 { return st.LastBackward.Seconds() },
	},
	{
		field: "ClockForward", name: "leasehold.ids.clock.forward", kind: counter, unit: "{step}",
		help:     "Jumps forward of the wall clock by a second or more, such as after suspension. Leases are replaced then.",
		question: "How often do processes stand still?",
		value:    func(st kazahana.Stats) float64 { return float64(st.ClockForward) },
	},
}

// Register makes the instruments with a meter of the provider, which reads stats, such as the method Stats of a
// generator, when an exporter asks. Each value has the attribute leasehold.service, if the generator has a ServiceID,
// and the attributes that are given. Generators with equal attributes add up in some SDKs and hide each other in
// others: where one service has several in a process, give each an attribute of its own.
//
// Unregister of the result ends it, for a generator that is closed before the program ends. The error is one of the
// provider's, or says that an argument is nil.
func Register(
	provider metric.MeterProvider, stats func() kazahana.Stats, attrs ...attribute.KeyValue,
) (metric.Registration, error) {
	if provider == nil || stats == nil {
		return nil, errors.New("otelkazahana: the provider and stats must not be nil")
	}
	meter := provider.Meter(Scope)
	made := make([]metric.Float64Observable, len(table))
	all := make([]metric.Observable, len(table))
	var problem error
	for i, row := range table {
		var err error
		unit, help := metric.WithUnit(row.unit), metric.WithDescription(row.help)
		switch row.kind {
		case counter:
			made[i], err = meter.Float64ObservableCounter(row.name, unit, help)
		case upDown:
			made[i], err = meter.Float64ObservableUpDownCounter(row.name, unit, help)
		case gauge:
			made[i], err = meter.Float64ObservableGauge(row.name, unit, help)
		}
		all[i], problem = made[i], errors.Join(problem, err)
	}
	if problem != nil {
		return nil, problem
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := stats()
		attrs := slices.Clone(attrs)
		if st.ServiceID != "" {
			attrs = append(attrs, attribute.String(attrService, st.ServiceID))
		}
		set := metric.WithAttributeSet(attribute.NewSet(attrs...))
		for i, row := range table {
			o.ObserveFloat64(made[i], row.value(st), set)
		}
		return nil
	}, all...)
}
