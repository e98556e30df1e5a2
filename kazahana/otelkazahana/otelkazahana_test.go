package otelkazahana

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leasehold-dev/leasehold/kazahana"
)

var update = flag.Bool("update", false, "write the part on IDs of docs/reference/metrics.md")

// full are counters of which each number is another one.
func full(t *testing.T) kazahana.Stats {
	t.Helper()
	st := kazahana.Stats{ServiceID: "orders"}
	v := reflect.ValueOf(&st).Elem()
	for i := range v.NumField() {
		switch f, n := v.Field(i), 10+i; f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(n))
		case reflect.Uint64:
			f.SetUint(uint64(n))
		case reflect.String:
		default:
			t.Fatalf("%s: a field of another kind", v.Type().Field(i).Name)
		}
	}
	st.LastBackward = 1500 * time.Millisecond
	return st
}

// exported are the metrics that a reader gets.
func exported(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != Scope {
			t.Errorf("scope %s", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// TestEveryFieldIsExported: each number of Stats is one metric of the table, what only grows is monotonic, and nothing
// else is exported.
func TestEveryFieldIsExported(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	st := full(t)
	registration, err := Register(sdk.NewMeterProvider(sdk.WithReader(reader)), func() kazahana.Stats { return st },
		attribute.String("shard", "b"))
	if err != nil {
		t.Fatal(err)
	}
	found := exported(t, reader)
	rows := map[string]instrument{}
	for _, row := range table {
		rows[row.field] = row
	}
	v := reflect.ValueOf(st)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		row := rows[name]
		m, ok := found[row.name]
		if name == "ServiceID" {
			continue // the attribute
		} else if !ok {
			t.Errorf("%s is not exported", name)
			continue
		}
		want := 1.0 // of a bool
		switch {
		case f.CanUint():
			want = float64(f.Uint())
		case name == "ThroughputPerMs":
			want = 1000 * float64(f.Int())
		case name == "LastBackward":
			want = 1.5
		case f.CanInt():
			want = float64(f.Int())
		}
		var points []metricdata.DataPoint[float64]
		kind := gauge
		switch d := m.Data.(type) {
		case metricdata.Sum[float64]:
			points = d.DataPoints
			if kind = upDown; d.IsMonotonic {
				kind = counter
			}
		case metricdata.Gauge[float64]:
			points = d.DataPoints
		}
		if len(points) != 1 || points[0].Value != want {
			t.Errorf("%s, %s: %+v, want %v", name, m.Name, points, want)
			continue
		}
		if (kind == counter) != f.CanUint() || kind != row.kind || m.Unit != row.unit || m.Description != row.help {
			t.Errorf("%s, %s: a %s with unit %s: %s", name, m.Name, kind, m.Unit, m.Description)
		}
		got := points[0].Attributes
		if service, _ := got.Value(attrService); service.AsString() != "orders" || !got.HasValue("shard") || got.Len() != 2 {
			t.Errorf("%s: attributes %v", m.Name, got.MarshalLog())
		}
		delete(found, m.Name)
	}
	if len(found) > 0 || len(table) != v.NumField()-1 {
		t.Errorf("%d rows for %d fields; no field has %v", len(table), v.NumField(), found)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if found := exported(t, reader); len(found) != 0 {
		t.Errorf("after its end: %v", found)
	}
}

// TestNoService: an attribute without a value is none.
func TestNoService(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	ids, err := kazahana.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Register(sdk.NewMeterProvider(sdk.WithReader(reader)), ids.Stats); err != nil {
		t.Fatal(err)
	}
	sum, _ := exported(t, reader)["leasehold.ids.issued"].Data.(metricdata.Sum[float64])
	if len(sum.DataPoints) != 1 || sum.DataPoints[0].Attributes.Len() != 0 {
		t.Errorf("%+v", sum)
	}
}

// TestNil: what is missing is said at once, not when an exporter asks.
func TestNil(t *testing.T) {
	t.Parallel()
	if _, err := Register(sdk.NewMeterProvider(), nil); err == nil {
		t.Error("without stats")
	}
	if _, err := Register(nil, func() kazahana.Stats { return kazahana.Stats{} }); err == nil {
		t.Error("without a provider")
	}
}

// inPrometheus are the names that the instruments have there, by what is said of them.
func inPrometheus(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	st := full(t)
	if _, err = Register(sdk.NewMeterProvider(sdk.WithReader(exporter)), func() kazahana.Stats { return st }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, f := range families {
		names[f.GetHelp()] = f.GetName()
	}
	return names
}

// inTypeScript and inPython are the names that a field of Stats has there. Both say the size of a step in milliseconds.
func inTypeScript(field string) string {
	switch field {
	case "IDs":
		return "ids"
	case "LastBackward":
		return "lastBackwardMs"
	}
	return strings.ToLower(field[:1]) + strings.ReplaceAll(field[1:], "IDs", "Ids")
}

func inPython(field string) string {
	var b strings.Builder
	for _, r := range inTypeScript(field) {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// TestDocumentation: docs/reference/metrics.md ends with the table.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	const path = "../../docs/reference/metrics.md"
	const mark = "\n<!-- Generated from kazahana/otelkazahana. " +
		"To write it again: go test ./kazahana/otelkazahana -run TestDocumentation -update -->\n"
	names := inPrometheus(t)
	var b strings.Builder
	b.WriteString(`
## IDs

What a program that makes IDs measures of its generator. In Go:

` + "```go" + `
registration, err := otelkazahana.Register(otel.GetMeterProvider(), ids.Stats)
` + "```" + `

In TypeScript and Python the program gives what ` + "`ids.stats` and `ids.stats()`" + ` have to instruments of these names and units, multiplied as the column says. The attribute ` +
		"`" + attrService + "`" + ` is the service of the generator; it is missing where that is the server's default.

| instrument | in Prometheus | kind, unit | Go | TypeScript | Python | what it is | question |
|---|---|---|---|---|---|---|---|
`)
	times := map[string]string{"ThroughputPerMs": " × 1000", "LastBackward": " ÷ 1000"}
	for _, i := range table {
		inGo := "`" + i.field + "`"
		if i.kind != gauge {
			inGo += times[i.field]
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s, `%s` | %s | `%s`%s | `%s`%s | %s | %s |\n", i.name, names[i.help], i.kind, i.unit,
			inGo, inTypeScript(i.field), times[i.field], inPython(i.field), times[i.field], i.help, i.question)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	server, got, found := strings.Cut(string(page), mark)
	if want := b.String(); *update {
		if err := os.WriteFile(path, []byte(server+mark+want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if !found || got != want {
		t.Error("docs/reference/metrics.md does not agree: run go test ./kazahana/otelkazahana -run TestDocumentation -update")
	}
}

// TestOtherLanguages: the clients in TypeScript and Python have each counter, and say which instrument it is.
func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	for path, pattern := range map[string]func(instrument) string{
		"../../sdk/typescript/src/machineids.ts": func(i instrument) string {
			return "/\\*\\* [^\n]*`" + regexp.QuoteMeta(i.name) + "`[^\n]* \\*/\n  readonly " + inTypeScript(i.field) + ": "
		},
		"../../sdk/python/src/leasehold/machineids.py": func(i instrument) string {
			return "\n    " + inPython(i.field) + ": [^\n]*\n    \"\"\"[^\"]*``" + regexp.QuoteMeta(i.name) + "``"
		},
	} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range table {
			if !regexp.MustCompile(pattern(i)).Match(source) {
				t.Errorf("%s: %s with the instrument %s is missing", path, i.field, i.name)
			}
		}
	}
}
