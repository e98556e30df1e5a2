package observability_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold-dev/leasehold/functions/aws/emf"
	"github.com/leasehold-dev/leasehold/functions/metrics"
)

var update = flag.Bool("update", false, "write the files for the clouds")

const runbook = "https://github.com/leasehold-dev/leasehold/blob/main/docs/guides/runbook.md#"

// alert is one rule of Prometheus.
type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	b, err := os.ReadFile("prometheus/leasehold.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%+v", file)
	}
	return file.Groups[0].Rules
}

// panel is one of a Grafana dashboard.
type panel struct {
	Title, Description, Type string
	Targets                  []struct{ Expr, LegendFormat string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
}

func panels(t *testing.T) []panel {
	t.Helper()
	b, err := os.ReadFile("grafana/leasehold.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct{ Panels []panel }
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(board.Panels, func(p panel) bool { return p.Type == "row" })
}

var (
	selector = regexp.MustCompile(`\b((?:leasehold|http|db)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	grouping = regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`)
	label    = regexp.MustCompile(`\$labels\.([a-z_]+)|\{\{ ?([a-z_]+) ?\}\}`)
)

// others are labels that Prometheus itself adds.
var others = []string{"le", "job", "instance", "__name__"}

// names are the names that instruments have in Prometheus, with the labels of each.
func names() map[string][]string {
	all := map[string][]string{}
	for _, i := range metrics.Table {
		var labels []string
		for _, a := range i.Attributes {
			labels = append(labels, strings.ReplaceAll(a, ".", "_"))
		}
		name := metrics.PrometheusName(i)
		if i.Kind != metrics.Histogram {
			all[name] = labels
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			all[name+suffix] = labels
		}
	}
	return all
}

// check returns what is wrong with an expression and the texts that go with it: metrics and labels that do not exist.
func check(expr string, texts ...string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	known := names()
	var labels []string // of all metrics of the expression
	plain := grouping.ReplaceAllString(expr, "")
	found := selector.FindAllStringSubmatch(regexp.MustCompile(`\{__name__=~"([a-z_|]+)"`).ReplaceAllStringFunc(
		plain, func(s string) string {
			return strings.ReplaceAll(s, "|", " ") + " "
		}), -1)
	metricsFound := 0
	for _, m := range found {
		of, ok := known[m[1]]
		if !ok {
			if !slices.ContainsFunc(metrics.AttributeTable, func(a metrics.Attribute) bool {
				return strings.ReplaceAll(a.Name, ".", "_") == m[1]
			}) {
				say("there is no metric %s", m[1])
			}
			continue
		}
		metricsFound++
		labels = append(labels, of...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(of, l[1]) && !slices.Contains(others, l[1]) {
				say("%s has no label %s", m[1], l[1])
			}
		}
	}
	if metricsFound == 0 {
		say("there is no metric in %s", expr)
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(labels, l) && !slices.Contains(others, l) {
				say("no metric has the label %s", l)
			}
		}
	}
	for _, text := range texts {
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			if l := m[1] + m[2]; !slices.Contains(labels, l) && !slices.Contains(others, l) {
				say("no metric has the label %s", l)
			}
		}
	}
	return wrong
}

// TestNames: each metric and each label of the alerts and the dashboard exists.
func TestNames(t *testing.T) {
	for _, a := range alerts(t) {
		if wrong := check(a.Expr, a.Annotations["summary"]); wrong != nil {
			t.Errorf("%s: %q", a.Alert, wrong)
		}
	}
	for _, p := range panels(t) {
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, x := range p.Targets {
			if wrong := check(strings.ReplaceAll(x.Expr, "$__rate_interval", "5m"), x.LegendFormat); wrong != nil {
				t.Errorf("%s: %q", p.Title, wrong)
			}
		}
	}
}

// TestCheckFindsMistakes: the check of names would notice them.
func TestCheckFindsMistakes(t *testing.T) {
	for _, expr := range []string{
		`sum(rate(leasehold_nothing_total[5m]))`, `sum by (leasehold_key) (leasehold_leases_held)`,
		`leasehold_leases_held{leasehold_tenant="x"}`, `up == 0`,
		`leasehold_operations`,
	} {
		if check(expr) == nil {
			t.Errorf("%s passes", expr)
		}
	}
}

// TestRunbook: each alert has its place in the runbook, and there is no place without an alert.
func TestRunbook(t *testing.T) {
	b, err := os.ReadFile("../../docs/guides/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(b), -1) {
		headings = append(headings, m[1])
	}
	for i, a := range alerts(t) {
		if i >= len(headings) || headings[i] != a.Alert {
			t.Fatalf("heading %d of the runbook is not %s", i, a.Alert)
		}
		if want := runbook + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want || a.Labels["severity"] == "" ||
			a.Annotations["summary"] == "" || a.For == "" {
			t.Errorf("%+v", a)
		}
	}
	if n := len(alerts(t)); len(headings) != n {
		t.Errorf("the runbook has %d headings, and there are %d alerts", len(headings), n)
	}
	for _, word := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
		if n := bytes.Count(b, []byte(word)); n != len(headings) {
			t.Errorf("%d of %d places say %s", n, len(headings), word)
		}
	}
}

// TestPromtool: the rules are ones, and fire when they should.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is not installed: apt-get install prometheus")
		}
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "leasehold.rules.yaml"},
		{"test", "rules", "leasehold.rules.test.yaml"}} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = "prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tested, err := os.ReadFile("prometheus/leasehold.rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		if !strings.Contains(string(tested), "alertname: "+a.Alert+"\n        exp_alerts:\n") {
			t.Errorf("no test shows that %s fires", a.Alert)
		}
	}
}

// TestGenerated: the files for the clouds say what those for Prometheus and Grafana say.
func TestGenerated(t *testing.T) {
	for path, content := range map[string]any{
		"cloudmonitoring/policies.json": policies(t), "cloudmonitoring/dashboard.json": googleDashboard(t),
		"cloudwatch/alarms.json": alarms(t), "cloudwatch/dashboard.json": awsDashboard(),
	} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(content); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Errorf("%s is out of date (%v): go test ./infra/observability -update", path, err)
		}
	}
}

type object = map[string]any

// ofMembers reports whether an expression has metrics of members and locators: of programs that take part in a cluster,
// as no function does. An alert on them would be for nothing there.
func ofMembers(expr string) bool { return strings.Contains(expr, "leasehold_cluster_") }

// TestMembersAreNoFunctions: there are alerts and panels on the metrics of members, and the files for the clouds, of
// which the Terraform modules make alerts for functions, have none of them.
func TestMembersAreNoFunctions(t *testing.T) {
	if !slices.ContainsFunc(alerts(t), func(a alert) bool { return ofMembers(a.Expr) }) ||
		!slices.ContainsFunc(panels(t), func(p panel) bool { return ofMembers(p.Targets[0].Expr) }) {
		t.Error("no alert or no panel is on the metrics of members")
	}
	for _, content := range []any{policies(t), googleDashboard(t), alarms(t), awsDashboard()} {
		b, err := json.Marshal(content)
		if err != nil || regexp.MustCompile(`leasehold[._]cluster[._]`).Match(b) {
			t.Errorf("a file for a cloud has a metric of members: %v\n%s", err, b)
		}
	}
}

// policies are the alerts as policies of Cloud Monitoring.
func policies(t *testing.T) (all []object) {
	t.Helper()
	severity := map[string]string{"critical": "CRITICAL", "warning": "WARNING", "info": ""}
	for _, a := range alerts(t) {
		if ofMembers(a.Expr) {
			continue
		}
		seconds := map[byte]int{'m': 60, 'h': 3600}
		n := 0
		if _, err := fmt.Sscanf(a.For, "%d", &n); err != nil {
			t.Fatal(a.For, err)
		}
		p := object{
			"displayName": a.Alert, "combiner": "OR",
			"conditions": []object{{"displayName": a.Alert, "conditionPrometheusQueryLanguage": object{
				"query": ofJob(a.Expr), "duration": fmt.Sprintf("%ds", n*seconds[a.For[len(a.For)-1]]), "evaluationInterval": "60s",
			}}},
			"documentation": object{"mimeType": "text/markdown", "content": summary(a) + "\n\n" + a.Annotations["runbook_url"]},
			"userLabels":    object{"product": "leasehold"},
		}
		if s := severity[a.Labels["severity"]]; s != "" {
			p["severity"] = s
		}
		all = append(all, p)
	}
	return all
}

// ofJob is an expression with a selector of the job in each selector of a metric, in place of which a deployment puts
// its own.
func ofJob(expr string) string {
	known := names()
	return regexp.MustCompile(`[a-z_]+\b(\{|)`).ReplaceAllStringFunc(expr, func(found string) string {
		name, braced := strings.CutSuffix(found, "{")
		switch _, metric := known[name]; {
		case !metric:
			return found
		case braced:
			return name + "{" + anyJob + ","
		default:
			return name + "{" + anyJob + "}"
		}
	})
}

// anyJob selects the metrics of all programs.
const anyJob = `job=~".+"`

// summary is that of an alert, with labels in the words of Cloud Monitoring.
func summary(a alert) string {
	return regexp.MustCompile(`\{\{ \$labels\.([a-z_]+) \}\}`).ReplaceAllString(a.Annotations["summary"],
		"$${metric.label.$1}")
}

// googleDashboard is the dashboard for Cloud Monitoring.
func googleDashboard(t *testing.T) object {
	t.Helper()
	const width = 16
	var tiles []object
	all := slices.DeleteFunc(panels(t), func(p panel) bool { return ofMembers(p.Targets[0].Expr) })
	for i, p := range all {
		var sets []object
		for _, x := range p.Targets {
			expr := regexp.MustCompile(`job=~"\$job",?`).ReplaceAllString(x.Expr, anyJob+",")
			expr = strings.NewReplacer("{}", "", ",}", "}", "$__rate_interval", "${__interval}", "$__interval",
				"${__interval}").Replace(expr)
			sets = append(sets, object{"plotType": "LINE", "targetAxis": "Y1",
				"timeSeriesQuery": object{"prometheusQuery": expr}})
		}
		tiles = append(tiles, object{
			"xPos": i % 3 * width, "yPos": i / 3 * 12, "width": width, "height": 12,
			"widget": object{"title": p.Title, "xyChart": object{"dataSets": sets}},
		})
	}
	return object{"displayName": "Leasehold", "mosaicLayout": object{"columns": 3 * width, "tiles": tiles}}
}

// anyTable is the table in the files for CloudWatch: the default of the module table.
const anyTable = "leasehold"

// alarms are those of CloudWatch, on what Lambda functions write. A metric that is not written is no data, which is
// fine.
func alarms(t *testing.T) (all []object) {
	t.Helper()
	known := alerts(t)
	for _, a := range []struct {
		alert, metric, statistic, comparison string
		dimensions                           object
		threshold                            float64
		periods                              int
	}{
		{"LeaseholdRequestsFail", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "UNAVAILABLE"}, 5, 3},
		{"LeaseholdRequestsFail", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "INTERNAL"}, 0, 1},
		{"LeaseholdStoreSlow", "db.client.operation.duration", "p99", ">", object{"db.operation.name": "write"}, 0.5, 3},
		{"LeaseholdStoreThrottled", "leasehold.store.throttled", "Sum", ">", nil, 0, 3},
		{"LeaseholdWritesAmbiguous", "leasehold.store.writes", "Sum", ">", object{"leasehold.outcome": "unknown"}, 10, 3},
		{"LeaseholdClockOff", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "CLOCK_SKEW"}, 0, 1},
		{"LeaseholdTakeovers", "leasehold.takeovers", "Sum", ">", object{"leasehold.kind": "lock"}, 5, 1},
		{"LeaseholdTokensStale", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "STALE_TOKEN"}, 0, 1},
		{"LeaseholdTokensStale", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "LEASE_LOST"}, 0, 1},
		{"LeaseholdOverloaded", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "OVERLOADED"}, 0, 1},
		{"LeaseholdLimitsHit", "leasehold.operations", "Sum", ">", object{"leasehold.outcome": "RATE_LIMITED"}, 0, 3},
		{"LeaseholdCallersRejected", "leasehold.audit.events", "Sum", ">", object{"leasehold.outcome": "UNAUTHENTICATED"}, 30,
			3},
		{"LeaseholdMachineIDsExhausted", "leasehold.operations", "Sum", ">",
			object{"leasehold.outcome": "MACHINE_IDS_EXHAUSTED"}, 0, 1},
		{"LeaseholdRunsFail", "leasehold.runs.ended", "Sum", ">",
			object{"leasehold.kind": "analysis", "leasehold.outcome": "failed"}, 5, 3},
		{"LeaseholdSweepStopped", "leasehold.sweeps", "Sum", "<",
			object{"leasehold.what": "analyses", "leasehold.outcome": "ok"}, 1, 6},
		{"LeaseholdSweepLate", "leasehold.sweep.lag", "p90", ">", nil, 600, 1},
		{"LeaseholdDocumentsUnreadable", "leasehold.documents.unreadable", "Sum", ">", nil, 0, 1},
		{"LeaseholdMembersDie", "leasehold.placement.evictions", "Sum", ">", nil, 0, 1},
	} {
		i := slices.IndexFunc(known, func(k alert) bool { return k.Alert == a.alert })
		m := slices.IndexFunc(metrics.Table, func(i metrics.Instrument) bool { return i.Name == a.metric })
		if i < 0 || m < 0 || metrics.Table[m].CloudWatch == nil {
			t.Fatalf("%+v: no such alert or metric", a)
		}
		name, dimensions := []string{a.alert}, []object{}
		for _, d := range metrics.Table[m].CloudWatch {
			value, ok := a.dimensions[d]
			if !ok {
				t.Fatalf("%+v lacks the dimension %s", a, d)
			}
			dimensions = append(dimensions, object{"Name": d, "Value": value})
			if v := fmt.Sprint(value); strings.ToUpper(v) == v {
				name = append(name, v)
			}
		}
		alarm := object{
			"AlarmName": strings.Join(name, "-"), "AlarmDescription": known[i].Annotations["runbook_url"],
			"Namespace": emf.Namespace(anyTable), "MetricName": a.metric, "Dimensions": dimensions,
			"Period": 300, "EvaluationPeriods": a.periods, "Threshold": a.threshold, "TreatMissingData": "notBreaching",
			"ComparisonOperator": "GreaterThanThreshold",
		}
		if a.comparison == "<" {
			alarm["ComparisonOperator"], alarm["TreatMissingData"] = "LessThanThreshold", "breaching"
		}
		if a.statistic == "Sum" {
			alarm["Statistic"] = a.statistic
		} else {
			alarm["ExtendedStatistic"] = a.statistic
		}
		all = append(all, alarm)
	}
	return all
}

// awsDashboard is a dashboard of CloudWatch with all that Lambda functions write.
func awsDashboard() object {
	var widgets []object
	for _, i := range metrics.Table {
		if i.CloudWatch == nil {
			continue
		}
		statistic := "Sum"
		switch i.Kind {
		case metrics.Histogram:
			statistic = "p99"
		case metrics.Gauge:
			statistic = "Maximum"
		default: // counters
		}
		schema := `{"` + emf.Namespace(anyTable) + `"`
		if len(i.CloudWatch) > 0 {
			schema += `,"` + strings.Join(i.CloudWatch, `","`) + `"`
		}
		n := len(widgets)
		widgets = append(widgets, object{"type": "metric", "x": n % 3 * 8, "y": n / 3 * 6, "width": 8, "height": 6,
			"properties": object{
				"title": i.Name + ", " + statistic, "view": "timeSeries", "region": "us-east-1",
				"metrics": [][]object{
					{{"expression": fmt.Sprintf(`SEARCH('%s} MetricName="%s"', '%s', 300)`, schema, i.Name, statistic),
						"id": fmt.Sprintf("e%d", n)}}},
			}})
	}
	return object{"widgets": widgets}
}
