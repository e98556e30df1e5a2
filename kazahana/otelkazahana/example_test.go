package otelkazahana_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/otelkazahana"
)

// The counters of a generator, read as an exporter reads them.
func Example() {
	ctx := context.Background()
	reader := sdk.NewManualReader() // a program has the reader of its exporter here
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))

	ids, err := kazahana.New(nil, &kazahana.Options{ServiceID: "payments"})
	if err != nil {
		log.Panic(err)
	}
	defer ids.Close(ctx)
	registration, err := otelkazahana.Register(provider, ids.Stats)
	if err != nil {
		log.Panic(err)
	}
	defer registration.Unregister()

	if err := ids.NextIDs(ctx, make([]kazahana.ID, 42)); err != nil {
		log.Panic(err)
	}

	var read metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &read); err != nil {
		log.Panic(err)
	}
	for _, m := range read.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[float64]); ok && m.Unit == "{id}" {
			service, _ := sum.DataPoints[0].Attributes.Value("leasehold.service")
			fmt.Println(service.AsString(), m.Name, sum.DataPoints[0].Value)
		}
	}
	// Output:
	// payments leasehold.ids.issued 42
	// payments leasehold.ids.issued.fallback 42
}
