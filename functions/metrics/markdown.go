package metrics

import (
	"fmt"
	"strings"
)

// Markdown is the documentation of all instruments, docs/reference/metrics.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated from functions/metrics. To write it again: go test ./functions/metrics -run TestDocumentation -update -->

What a server measures, and which question each number answers. Nothing is measured without an exporter.

## Exporters

| | how |
|---|---|
| Prometheus | ` + "`leasehold serve --metrics-listen 127.0.0.1:9464`" + ` has the page ` + "`GET /metrics`" + `, without authentication. |
| OTLP | ` +
		"`OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318`" + `, or ` +
		"`OTEL_METRICS_EXPORTER=otlp`" + ` for a collector on the same machine. ` +
		"`OTEL_EXPORTER_OTLP_PROTOCOL`" + ` is ` +
		"`http/protobuf` or `grpc`" + `; ` +
		"`OTEL_METRIC_EXPORT_INTERVAL`" + `, ` +
		"`OTEL_EXPORTER_OTLP_HEADERS`" + `, ` +
		"`OTEL_RESOURCE_ATTRIBUTES`" + ` and the others work as in every SDK of OpenTelemetry. ` +
		"`OTEL_SDK_DISABLED=true` and `OTEL_METRICS_EXPORTER=none`" + ` turn it off. |
| CloudWatch | Lambda functions write lines of the log: [below](#cloudwatch). |
| Cloud Monitoring | ` + "`leasehold serve`" + ` on Cloud Run sends OTLP to a collector beside it, such as Google's own, which has the credentials for ` + "`telemetry.googleapis.com`" + `; Managed Prometheus reads the page. |
| Cloud Functions | The same OTLP, if the function was built for it: [below](#cloud-functions). |

[observability](../../infra/observability/README.md) has alerts and dashboards, the [runbook](../guides/runbook.md) what to do. Both can be on at once. Prometheus changes names: dots are underscores, counters end in ` + "`_total`" + `, and units are part of the name, so that ` + "`" + nameRequestDuration + "`" + ` is
` + "`" + PrometheusName(Table[0]) + "`" + `. The column says how.

No key, owner or subject is an attribute; the tenant is one of ` + "`" + nameOperations + "`" + ` with ` + "`LEASEHOLD_METRICS_TENANTS`" + `. A process has some hundred time series, however many locks there are.
`)
	group := ""
	for _, i := range Table {
		if i.Group != group {
			group = i.Group
			fmt.Fprintf(
				&b, "\n## %s\n\n| instrument | in Prometheus | kind, unit | attributes | what it is | question |\n|---|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s, `%s` | %s | %s | %s |\n", i.Name, PrometheusName(i), i.Kind, i.Unit,
			listed(i.Attributes), i.Help, i.Question)
	}
	b.WriteString("\n## Attributes\n\n| attribute | values |\n|---|---|\n")
	for _, a := range AttributeTable {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.Name, a.Values)
	}
	b.WriteString(
		"\n## CloudWatch\n\nLambda functions write metrics into their log with `LEASEHOLD_METRICS_EMF=true`, after each invocation, in the namespace `Leasehold/TABLE`, which all deployments on that table share. Each " +
			"combination of dimensions is billed as a metric, so few attributes are dimensions; the others are in the lines. What one instance alone " +
			"knows is left out.\n\n| metric | dimensions |\n|---|---|\n")
	for _, i := range Table {
		if i.CloudWatch != nil {
			fmt.Fprintf(&b, "| `%s` | %s |\n", i.Name, listed(i.CloudWatch))
		}
	}
	b.WriteString(
		"\n## Cloud Functions\n\nThe SDK of OpenTelemetry makes a function 1.9 MB larger (of 26.4 MB), so it is linked only with the build tag " +
			"`leasehold.otlp`: exchange the two lines of `.gcloudignore` that name it, and build with `GOFLAGS=-tags=leasehold.otlp`. A function without it that finds `OTEL_EXPORTER_OTLP_ENDPOINT` says so in its log. " +
			"What is due is sent during the next request, which does not wait for it, and within 2 s when the platform ends the instance. An instance that is killed loses what it measured since its last export.\n\nEach process has its own " +
			"`service.instance.id`.\n")
	b.WriteString("\n## Operations\n\n`" + strings.Join(Operations, "`, `") + "`.\n")
	return b.String()
}

// listed are names in a cell of a table.
func listed(names []string) string {
	if len(names) == 0 {
		return "—"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// PrometheusName is the name that an instrument has in Prometheus; of a histogram without _bucket, _sum and _count.
func PrometheusName(i Instrument) string {
	name := strings.ReplaceAll(i.Name, ".", "_")
	switch i.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	case "1":
		if i.Kind == Gauge { // the exporter adds it to no histogram
			name += "_ratio"
		}
	}
	if i.Kind == Counter || i.Kind == ObservedCounter {
		name += "_total"
	}
	return name
}
