package tests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	tfjson "github.com/hashicorp/terraform-json"
	"golang.org/x/mod/modfile"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// What the plans for Google Cloud are for.
const (
	project      = "my-project-1"
	googleRegion = "europe-west1"
	lockDatabase = "locks"
	imageName    = googleRegion + "-docker.pkg.dev/" + project + "/leasehold/leasehold@sha256:" +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// mirrored is where the tests put providers of their own: a mirror, for as long as they run.
var mirrored string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "providers")
	if err != nil {
		panic(err)
	}
	mirrored = folder
	code := m.Run()
	for _, request := range unasked {
		fmt.Fprintln(os.Stderr, request)
		code = 1
	}
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

var buildStub = sync.OnceValues(func() (string, error) {
	below := "hashicorp/google/6.50.0/" + runtime.GOOS + "_" + runtime.GOARCH + "/terraform-provider-google_v6.50.0_x5"
	binary := filepath.Join(mirrored, ofTerraform, below)
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary,
		"./googlestub").CombinedOutput(); err != nil {
		return string(out), err
	}
	same := filepath.Join(mirrored, ofOpenTofu, below)
	return "", cmp.Or(os.MkdirAll(filepath.Dir(same), 0o700), os.Link(binary, same))
})

// stub is a mirror with a stand-in for the provider google, which no mirror has: the command googlestub. It has the
// provider's schema.
func stub(t testing.TB) string {
	t.Helper()
	if out, err := buildStub(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return mirrored
}

// predicting makes plans of the stub say names and addresses that the provider would find out.
const predicting = "GOOGLESTUB_PREDICT=1"

// given are variables, as -var takes them, and settings by the names of theirs.
type given map[string]string

// with returns the variables with changes; null removes one.
func (g given) with(changes given) given {
	g = maps.Clone(g)
	maps.Copy(g, changes)
	maps.DeleteFunc(g, func(_, v string) bool { return v == "" })
	return g
}

func (g given) list() []string {
	all := make([]string, 0, len(g))
	var of []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if strings.HasPrefix(name, "LEASEHOLD_") {
			of = append(of, name+" = "+strconv.Quote(g[name]))
		} else {
			all = append(all, name+"="+g[name])
		}
	}
	if of != nil {
		all = append(all, "settings={"+strings.Join(of, ", ")+"}")
	}
	return all
}

// Variables of the modules that are planned. All deployments have a queue; what has none is in TestGoogleExamples.
var (
	ofDatabase = given{"project": project, "location": "eur3", "name": lockDatabase}
	ofSources  = given{
		"project": project, "region": googleRegion, "database": lockDatabase, "source_archive": "sources.zip",
		"auth_issuer": "https://login.example.com", "auth_audience": "https://locks.example.com",
		"LEASEHOLD_TARGET_URL": "https://target.example.com/run", "target_token_secret": "target-token",
		"LEASEHOLD_TASK_TIMEOUT": "25m",
		"labels":                 `{"application":"leasehold"}`,
	}
	ofImage = ofSources.with(given{"source_archive": "", "image": imageName, "otlp_endpoint": "http://collector:4318",
		"metrics_alerts": "true", "audit_retention_days": "400", "audit_locked": "true"})
	ofToken = ofSources.with(given{"task_auth": "token"})
)

// googled is a copy of infra/, with the folder dir of gcp initialized, and an archive of sources in it.
func googled(t testing.TB, mirror, dir string, env ...string) *configuration {
	t.Helper()
	c := configured(t, mirror, filepath.Join("gcp", dir), env...)
	if err := os.WriteFile(filepath.Join(c.dir, "sources.zip"), []byte("sources"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// report collects what is wrong.
type report []string

func (r *report) sayf(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// equal says what two sets do not have in common.
func (r *report) equal(what string, got, want []string) {
	for _, g := range got {
		if !slices.Contains(want, g) {
			r.sayf("%s: %s is too much", what, g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			r.sayf("%s: %s is missing", what, w)
		}
	}
}

// only is the one block of a name in a resource, or an empty one.
func only(v map[string]any, name string) map[string]any {
	if list, _ := v[name].([]any); len(list) == 1 {
		if block, _ := list[0].(map[string]any); block != nil {
			return block
		}
		return map[string]any{}
	}
	return nil
}

// seconds reads 30s.
func seconds(v any) float64 {
	d, err := time.ParseDuration(text(v))
	if err != nil {
		return -1
	}
	return d.Seconds()
}

// checkDatabase compares the plan of a database with the program.
func checkDatabase(p *tfjson.Plan) (r report) {
	databases := slices.Collect(maps.Values(resources(p, "google_firestore_database")))
	if len(databases) != 1 {
		r.sayf("there are %d databases", len(databases))
		return r
	}
	d := databases[0].AttributeValues
	for name, want := range map[string]string{
		"type": "FIRESTORE_NATIVE", "point_in_time_recovery_enablement": "POINT_IN_TIME_RECOVERY_ENABLED",
		"delete_protection_state": "DELETE_PROTECTION_ENABLED",
		"deletion_policy":         "DELETE", "name": lockDatabase, "location_id": "eur3", "project": project,
	} {
		if text(d[name]) != want {
			r.sayf("the database's %s is %q, and must be %q", name, text(d[name]), want)
		}
	}
	if len(resources(p, "google_firestore_backup_schedule")) != 1 {
		r.sayf("there is no schedule of backups")
	}
	var rules struct {
		Indexes        []any `json:"indexes"`
		FieldOverrides []struct {
			CollectionGroup string `json:"collectionGroup"`
			FieldPath       string `json:"fieldPath"`
			TTL             bool   `json:"ttl"`
			Indexes         []any  `json:"indexes"`
		} `json:"fieldOverrides"`
	}
	content, err := os.ReadFile("../../adapters/gcpfirestore/firestore.indexes.json")
	if err != nil {
		r.sayf("%v", err)
		return r
	}
	if err := json.Unmarshal(content, &rules); err != nil {
		r.sayf("%v", err)
		return r
	}
	var got, want []string
	for _, o := range rules.FieldOverrides {
		want = append(want, fmt.Sprintf("%s/%s, time to live %t, %d indexes", o.CollectionGroup, o.FieldPath,
			o.TTL, len(o.Indexes)))
	}
	for _, f := range resources(p, "google_firestore_field") {
		v := f.AttributeValues
		collection, name := text(v["collection"]), text(v["field"])
		config := only(v, "index_config")
		if config == nil {
			r.sayf("%s/%s has no block index_config, and so the indexes that Firestore makes by itself", collection, name)
		}
		indexes, _ := config["indexes"].([]any)
		ttl := only(v, "ttl_config") != nil
		got = append(got, fmt.Sprintf("%s/%s, time to live %t, %d indexes", collection, name, ttl, len(indexes)))
		if ttl && name != "_keep_until" {
			r.sayf("%s/%s is a time to live: Firestore would remove documents that are in use", collection, name)
		}
		if collection == "analyses" && (name == "*" || name == analysis.ExpiryField) {
			r.sayf("%s/%s has no index, which the sweep needs", collection, name)
		}
		if text(v["database"]) != lockDatabase {
			r.sayf("%s/%s is of the database %q", collection, name, text(v["database"]))
		}
	}
	r.equal("rules of the database", got, want)
	return append(r, broken(read("", p))...)
}

// service is one of the functions, or a container of Cloud Run.
type service struct {
	name, entry, account, ingress, uri, runtime string
	env                                         map[string]string
	timeout, max, concurrency                   float64
	latest                                      bool              // an apply sends all requests to what it made
	secrets                                     map[string]string // paths of files by the ID of the secret
}

func services(p *tfjson.Plan) (all []service) {
	environment := func(v any) map[string]string {
		env := map[string]string{}
		m, _ := v.(map[string]any)
		for name, value := range m {
			env[name] = text(value)
		}
		return env
	}
	for _, f := range resources(p, "google_cloudfunctions2_function") {
		v := f.AttributeValues
		build, run := only(v, "build_config"), only(v, "service_config")
		s := service{
			name: text(v["name"]), entry: text(build["entry_point"]), runtime: text(build["runtime"]),
			account: text(run["service_account_email"]),
			ingress: text(run["ingress_settings"]), latest: run["all_traffic_on_latest_revision"] == true, uri: text(run["uri"]),
			env: environment(run["environment_variables"]), timeout: number(run["timeout_seconds"]),
			max: number(run["max_instance_count"]), concurrency: number(run["max_instance_request_concurrency"]),
			secrets: map[string]string{},
		}
		volumes, _ := run["secret_volumes"].([]any)
		for _, volume := range volumes {
			m := volume.(map[string]any)
			s.secrets[text(m["secret"])] = text(m["mount_path"]) + "/" + text(only(m, "versions")["path"])
		}
		all = append(all, s)
	}
	for _, f := range resources(p, "google_cloud_run_v2_service") {
		v := f.AttributeValues
		template := only(v, "template")
		container, scaling := only(template, "containers"), only(template, "scaling")
		s := service{
			name: text(v["name"]), account: text(template["service_account"]), ingress: text(v["ingress"]), uri: text(v["uri"]),
			env: map[string]string{},
			latest: number(only(v, "traffic")["percent"]) == 100 &&
				text(only(v, "traffic")["type"]) == "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", timeout: seconds(template["timeout"]),
			max: number(scaling["max_instance_count"]), concurrency: number(template["max_instance_request_concurrency"]),
			secrets: map[string]string{},
		}
		variables, _ := container["env"].([]any)
		for _, variable := range variables {
			m := variable.(map[string]any)
			s.env[text(m["name"])] = text(m["value"])
		}
		mounts := map[string]string{}
		for _, mount := range container["volume_mounts"].([]any) {
			m := mount.(map[string]any)
			mounts[text(m["name"])] = text(m["mount_path"])
		}
		for _, volume := range template["volumes"].([]any) {
			m := volume.(map[string]any)
			secret := only(m, "secret")
			s.secrets[text(secret["secret"])] = mounts[text(m["name"])] + "/" + text(only(secret, "items")["path"])
		}
		s.entry = map[string]string{"api": "API", "tasks": "Tasks",
			"sweep": "Sweep"}[s.name[strings.LastIndex(s.name, "-")+1:]]
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b service) int { return cmp.Compare(a.name, b.name) })
	return all
}

var entries = map[string]settings.Entry{"API": settings.FunctionAPI, "Tasks": settings.FunctionTasks,
	"Sweep": settings.FunctionSweep}

// registered are the names of the functions that function.go registers.
func registered() (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../function.go", nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "HTTP" {
				name, _ := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				names = append(names, name)
			}
		}
		return true
	})
	return names, nil
}

// permissions are those that calls of Firestore need: https://cloud.google.com/firestore/docs/security/iam
var permissions = map[string][]string{
	"BatchGetDocuments": {"datastore.entities.get"},
	"GetDocument":       {"datastore.entities.get"},
	"RunQuery":          {"datastore.entities.get", "datastore.entities.list"},
	"Listen":            {"datastore.entities.get", "datastore.entities.list"},
	"Commit":            {"datastore.entities.create", "datastore.entities.update", "datastore.entities.delete"},
	"BeginTransaction":  {"datastore.databases.get"},
	"Rollback":          {"datastore.databases.get"},
	"ListCollectionIds": {"datastore.entities.list"},
	"ListDocuments":     {"datastore.entities.get", "datastore.entities.list"},
	"BatchWrite":        {"datastore.entities.create", "datastore.entities.update", "datastore.entities.delete"},
}

// needed are the permissions that the calls of the adapter need.
func needed() ([]string, error) {
	files, err := filepath.Glob("../../adapters/gcpfirestore/*.go")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no sources: %w", err)
	}
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok {
					for _, p := range permissions[f.Sel.Name] {
						found[p] = true
					}
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// grants are all grants of a plan, each as "member: role on what", with the condition.
func grants(p *tfjson.Plan) (all []string) {
	for kind, on := range map[string][]string{
		"google_project_iam_member":                      {"project"},
		"google_cloud_tasks_queue_iam_member":            {"name"},
		"google_service_account_iam_member":              {"service_account_id"},
		"google_secret_manager_secret_iam_member":        {"secret_id"},
		"google_cloud_run_v2_service_iam_member":         {"name"},
		"google_artifact_registry_repository_iam_member": {"repository"},
	} {
		for _, g := range resources(p, kind) {
			v := g.AttributeValues
			line := fmt.Sprintf("%s: %s on %s", text(v["member"]), text(v["role"]), text(v[on[0]]))
			if c := only(v, "condition"); c != nil {
				line += " if " + text(c["expression"])
			}
			all = append(all, line)
		}
	}
	return all
}

// cron is an expression of five fields within their bounds.
func cron(expression string) error {
	bounds := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}
	fields := strings.Split(expression, " ")
	if len(fields) != len(bounds) {
		return fmt.Errorf("%q has %d fields, and a cron expression five", expression, len(fields))
	}
	for i, f := range fields {
		for _, n := range regexp.MustCompile(`[0-9]+`).FindAllString(f, -1) {
			if v, _ := strconv.Atoi(n); v > bounds[i][1] {
				return fmt.Errorf("%q has %s in field %d", expression, n, i+1)
			}
		}
	}
	return nil
}

// checkGoogleFunctions compares a plan of the functions with the program.
func checkGoogleFunctions(t testing.TB, p *tfjson.Plan, v given) (r report) {
	all := services(p)
	byEntry := map[string]service{}
	names, err := registered()
	if err != nil {
		r.sayf("%v", err)
	}
	var planned []string
	for _, s := range all {
		byEntry[s.entry] = s
		planned = append(planned, s.entry)
		r.environment(s, v)
		r.times(s)
		if s.max < 1 || s.concurrency < 1 {
			r.sayf("%s has no bound of instances or of requests for each", s.name)
		}
		if s.runtime != "" && s.runtime < oldestRuntime(t) {
			r.sayf("%s has the runtime %s, and go.mod needs %s", s.name, s.runtime, oldestRuntime(t))
		}
		if !s.latest {
			r.sayf("%s: requests stay at a revision that was pinned once", s.name)
		}
		inside := strings.Contains(s.ingress, "INTERNAL")
		if inside != (s.entry != "API") {
			r.sayf("%s has the ingress %s", s.name, s.ingress)
		}
		address := "leasehold-" + strings.ToLower(s.entry) + "@" + project + ".iam.gserviceaccount.com"
		if s.account != address {
			r.sayf("%s runs as %q, and must run as %s", s.name, s.account, address)
		}
		want := map[string]string{}
		if s.entry == "Tasks" {
			want[v["target_token_secret"]] = s.env["LEASEHOLD_TARGET_TOKEN_FILE"]
		}
		if !maps.Equal(s.secrets, want) {
			r.sayf("%s has the secrets %v, and must have %v", s.name, s.secrets, want)
		}
	}
	r.equal("functions", planned, names)
	r.queue(t, p, byEntry, v)
	r.access(p, v)
	r.order(p)
	r.watching(p)
	r.measured(p, v)
	return append(r, broken(read("", p))...)
}

// order: a service is made after what it needs. Terraform sees that by itself only where one names the other, and a
// service does not name its grants.
func (r *report) order(p *tfjson.Plan) {
	grants := map[string][]string{
		"api": {"google_project_iam_member.store", "terraform_data.can_build"},
		"tasks": {"google_project_iam_member.store", "terraform_data.can_build",
			"google_secret_manager_secret_iam_member.target_token"},
		"sweep": {
			"google_project_iam_member.store", "terraform_data.can_build", "google_cloud_tasks_queue_iam_member.sweep_enqueues",
			"google_service_account_iam_member.sweep_names_queue",
		},
	}
	for name, call := range p.Config.RootModule.ModuleCalls {
		for _, grant := range append(grants[name], "google_project_service.this") {
			if !slices.Contains(call.DependsOn, grant) {
				r.sayf("the module %s does not wait for %s", name, grant)
			}
		}
	}
	for _, x := range p.Config.RootModule.Resources {
		if x.Address != "terraform_data.can_build" {
			continue
		}
		for _, grant := range p.Config.RootModule.Resources {
			if strings.Contains(grant.Type, "_iam_member") && strings.HasPrefix(grant.Name, "build") &&
				!slices.Contains(x.DependsOn, grant.Address) {
				r.sayf("builds do not wait for %s", grant.Address)
			}
		}
	}
}

// watching reads the dashboard as the service does, and looks for what alerts look for in the sources.
func (r *report) watching(p *tfjson.Plan) {
	dashboards := resources(p, "google_monitoring_dashboard")
	if n := len(dashboards) - len(ofProgram(dashboards)); n != 1 {
		r.sayf("there are %d dashboards of the platform", n)
	}
	for address, d := range dashboards {
		if strings.Contains(address, "program") {
			continue
		}
		var parsed dashboardpb.Dashboard
		if err := protojson.Unmarshal([]byte(text(d.AttributeValues["dashboard_json"])), &parsed); err != nil {
			r.sayf("the dashboard: %v", err)
			continue
		}
		for _, tile := range parsed.GetMosaicLayout().GetTiles() {
			for _, set := range tile.GetWidget().GetXyChart().GetDataSets() {
				r.filter(tile.GetWidget().GetTitle(), set.GetTimeSeriesQuery().GetTimeSeriesFilter().GetFilter())
			}
		}
	}
	program, err := os.ReadFile("../../functions/gcp/function.go")
	if err != nil {
		r.sayf("%v", err)
	}
	for _, a := range resources(p, "google_monitoring_alert_policy") {
		condition := only(a.AttributeValues, "conditions")
		title := text(condition["display_name"])
		if threshold := only(condition, "condition_threshold"); threshold != nil {
			r.filter(title, text(threshold["filter"]))
			aggregations := only(threshold, "aggregations")
			for name, values := range map[string]map[string]int32{
				"per_series_aligner":   dashboardpb.Aggregation_Aligner_value,
				"cross_series_reducer": dashboardpb.Aggregation_Reducer_value,
			} {
				if _, ok := values[text(aggregations[name])]; !ok {
					r.sayf("the alert %q has the %s %q", title, name, text(aggregations[name]))
				}
			}
		}
		for _, message := range regexp.MustCompile(`jsonPayload.message="([^"]*)"`).FindAllStringSubmatch(
			text(only(condition, "condition_matched_log")["filter"]), -1) {
			if !strings.Contains(string(program), strconv.Quote(message[1])) {
				r.sayf("the alert %q waits for %q, which no function logs", title, message[1])
			}
		}
	}
}

// ofProgram are those resources that are about what the program itself measures.
func ofProgram(all map[string]*tfjson.StateResource) map[string]*tfjson.StateResource {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(address string, _ *tfjson.StateResource) bool {
		return !strings.Contains(address, ".program[")
	})
	return all
}

// measured makes sure that the alerts and the dashboard on the program's own metrics are those of observability/, if
// there are any.
func (r *report) measured(p *tfjson.Plan, v given) {
	type policy struct {
		Conditions []struct {
			ConditionPrometheusQueryLanguage struct{ Query, Duration, EvaluationInterval string }
		}
		DisplayName, Combiner, Severity string
		Documentation                   struct{ Content string }
	}
	var policies []policy
	if v["metrics_alerts"] == "true" {
		content, err := os.ReadFile(observability + "/cloudmonitoring/policies.json")
		if err == nil {
			err = json.Unmarshal(content, &policies)
		}
		if err != nil {
			r.sayf("%v", err)
		}
	}
	var want, got []string
	for _, x := range policies {
		c := x.Conditions[0].ConditionPrometheusQueryLanguage
		want = append(want, strings.Join([]string{"Leasehold leasehold: " + x.DisplayName, x.Combiner, x.Severity,
			strings.ReplaceAll(c.Query, `".+"`, `"leasehold-(api|tasks|sweep)"`),
			c.Duration, c.EvaluationInterval, x.Documentation.Content}, ", "))
	}
	for address, x := range ofProgram(resources(p, "google_monitoring_alert_policy")) {
		v := x.AttributeValues
		c := only(only(v, "conditions"), "condition_prometheus_query_language")
		if c["disable_metric_validation"] != true {
			r.sayf("%s cannot be made before its metric is there", address)
		}
		got = append(got, strings.Join([]string{
			text(v["display_name"]), text(v["combiner"]), text(v["severity"]), text(c["query"]), text(c["duration"]),
			text(c["evaluation_interval"]), text(only(v, "documentation")["content"]),
		}, ", "))
	}
	r.equal("alerts on the program's metrics", got, want)
	dashboards := ofProgram(resources(p, "google_monitoring_dashboard"))
	if len(dashboards) != min(1, len(policies)) {
		r.sayf("there are %d dashboards of the program", len(dashboards))
	}
	for address, x := range dashboards {
		var want, got map[string]any
		content, err := os.ReadFile(observability + "/cloudmonitoring/dashboard.json")
		content = bytes.ReplaceAll(content, []byte(`\".+\"`), []byte(`\"leasehold-(api|tasks|sweep)\"`))
		if err := cmp.Or(err, json.Unmarshal(content, &want),
			json.Unmarshal([]byte(text(x.AttributeValues["dashboard_json"])), &got)); err != nil {
			r.sayf("%s: %v", address, err)
		}
		want["displayName"] = "Leasehold leasehold: the program"
		if !reflect.DeepEqual(got, want) {
			r.sayf("%s is not the dashboard of observability/", address)
		}
	}
}

// metricsOfGoogle are those that alerts and charts use, with the resource that has each:
// https://cloud.google.com/monitoring/api/metrics_gcp
var metricsOfGoogle = map[string]string{
	"run.googleapis.com/request_count":                   "cloud_run_revision",
	"run.googleapis.com/request_latencies":               "cloud_run_revision",
	"run.googleapis.com/container/instance_count":        "cloud_run_revision",
	"run.googleapis.com/container/memory/utilizations":   "cloud_run_revision",
	"cloudtasks.googleapis.com/queue/depth":              "cloud_tasks_queue",
	"cloudtasks.googleapis.com/queue/task_attempt_count": "cloud_tasks_queue",
	"firestore.googleapis.com/document/write_ops_count":  "firestore.googleapis.com/Database",
	"firestore.googleapis.com/document/read_ops_count":   "firestore.googleapis.com/Database",
}

// filter checks that a filter of Cloud Monitoring has a metric of the resource that it is about.
func (r *report) filter(of, filter string) {
	value := func(name string) string {
		m := regexp.MustCompile(regexp.QuoteMeta(name) + ` = "([^"]*)"`).FindStringSubmatch(filter)
		if m == nil {
			return ""
		}
		return m[1]
	}
	if kind := metricsOfGoogle[value("metric.type")]; kind == "" || kind != value("resource.type") {
		r.sayf("%q is about the metric %q of a %s", of, value("metric.type"), value("resource.type"))
	}
}

// oldestRuntime is the runtime with the version of Go in go.mod.
func oldestRuntime(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	version := strings.Split(mod.Go.Version, ".")
	return "go" + version[0] + version[1]
}

// environment has the program read the environment of a service.
func (r *report) environment(s service, v given) {
	entry, ok := entries[s.entry]
	if !ok {
		return
	}
	if v["image"] != "" {
		entry = settings.Serve
	}
	var environ []string
	for name, value := range s.env {
		environ = append(environ, name+"="+value)
		set, known := settings.Find(name)
		switch {
		case !strings.HasPrefix(name, "LEASEHOLD_"):
			if name != "GOMEMLIMIT" && (!strings.HasPrefix(name, "OTEL_") || entry != settings.Serve) {
				r.sayf("%s has the variable %s, which nothing reads", s.name, name)
			}
		case !known:
			r.sayf("%s has the variable %s, which is no setting", s.name, name)
		case !set.Entries.Has(entry):
			r.sayf("%s has the variable %s, which it does not take", s.name, name)
		case set.Secret:
			r.sayf("%s has the secret %s in its environment", s.name, name)
		}
	}
	environ = append(environ, "K_SERVICE="+s.name, "PORT=8080")
	c, err := settings.Load(entry, environ, nil)
	if err != nil {
		r.sayf("%s cannot start: %v", s.name, err)
		return
	}
	if c.Project != project || c.Database != lockDatabase {
		r.sayf("%s uses the database %s of %s", s.name, c.Database, c.Project)
	}
	if entry == settings.Serve && (c.Store != "firestore" || c.Log != "cloud-logging") {
		r.sayf("%s uses the store %s and writes its log as %s", s.name, c.Store, c.Log)
	}
	switch s.entry {
	case "API":
		if c.AuthIssuer != v["auth_issuer"] || c.AuthAudience != v["auth_audience"] {
			r.sayf("%s accepts tokens of %q for %q", s.name, c.AuthIssuer, c.AuthAudience)
		}
		if c.TargetURL != "" || c.TaskQueue != "" {
			r.sayf("%s has endpoints that are for %s", s.name, "Tasks and Sweep")
		}
	case "Tasks":
		if !c.RunsTasks() || c.TargetURL != v["LEASEHOLD_TARGET_URL"] {
			r.sayf("%s does not run tasks", s.name)
		}
	case "Sweep":
		if !c.Sweeps() {
			r.sayf("%s does not sweep", s.name)
		}
	}
	if s.entry != "API" && c.TaskAuth != cmp.Or(v["task_auth"], "platform") {
		r.sayf("%s verifies callers by %s", s.name, c.TaskAuth)
	}
}

// times compares the limits of Cloud Run with those of the program, which must end a request first.
func (r *report) times(s service) {
	c := func(name string) time.Duration {
		set, _ := settings.Find(name)
		d, _ := time.ParseDuration(cmp.Or(s.env[name], set.Default))
		return d
	}
	least := map[string]time.Duration{
		"API":   c("LEASEHOLD_REQUEST_TIMEOUT") + 20*time.Second, // a wait for events, and the response
		"Tasks": c("LEASEHOLD_TASK_TIMEOUT") + 2*tasks.Margin,
		"Sweep": tasks.DefaultSweepTimeout + 2*tasks.Margin,
	}[s.entry]
	if s.timeout < least.Seconds() || s.timeout > 3600 {
		r.sayf("%s is cut off after %v s: the program needs %v, and Cloud Run allows 3600 s", s.name, s.timeout, least)
	}
}

// queue checks how messages and calls of the scheduler come to the functions.
func (r *report) queue(t testing.TB, p *tfjson.Plan, byEntry map[string]service, v given) {
	t.Helper()
	queues, jobs := slices.Collect(maps.Values(resources(p, "google_cloud_tasks_queue"))),
		slices.Collect(maps.Values(resources(p, "google_cloud_scheduler_job")))
	if len(queues) != 1 || len(jobs) != 1 {
		r.sayf("there are %d queues and %d jobs of the scheduler", len(queues), len(jobs))
		return
	}
	token := v["task_auth"] == "token"
	sweep, worker := byEntry["Sweep"], byEntry["Tasks"]
	c, err := settings.Load(settings.FunctionSweep, []string{
		"LEASEHOLD_TASK_QUEUE=" + sweep.env["LEASEHOLD_TASK_QUEUE"], "LEASEHOLD_TASK_URL=" + sweep.env["LEASEHOLD_TASK_URL"],
		"K_SERVICE=sweep",
		"LEASEHOLD_TASK_ACCOUNT=" + sweep.env["LEASEHOLD_TASK_ACCOUNT"], "LEASEHOLD_TASK_AUDIENCE=" +
			sweep.env["LEASEHOLD_TASK_AUDIENCE"],
		"LEASEHOLD_TASK_TIMEOUT=" + sweep.env["LEASEHOLD_TASK_TIMEOUT"],
	}, nil)
	if err != nil {
		r.sayf("%s cannot queue: %v", sweep.name, err)
		return
	}
	if c.TaskTimeout.String() != func() string {
		d, _ := time.ParseDuration(worker.env["LEASEHOLD_TASK_TIMEOUT"])
		return d.String()
	}() {
		r.sayf("%s believes that a run takes %v, and %s allows %s", sweep.name, c.TaskTimeout, worker.name,
			worker.env["LEASEHOLD_TASK_TIMEOUT"])
	}
	deadline := min(c.TaskTimeout+2*tasks.Margin, gcpcloudtasks.MaxDeadline)
	opened, err := gcpcloudtasks.Open(t.Context(), c.TaskQueue, c.TaskURL, &gcpcloudtasks.Options{
		Account: c.TaskAccount, Audience: c.TaskAudience, Deadline: deadline, Emulator: "127.0.0.1:1",
	})
	if err != nil {
		r.sayf("%s cannot queue: %v", sweep.name, err)
	} else if err := opened.Close(); err != nil {
		r.sayf("%v", err)
	}
	q := queues[0].AttributeValues
	rates, retries := only(q, "rate_limits"), only(q, "retry_config")
	audience := func(of service) string {
		if token {
			return "leasehold-tasks"
		}
		return of.uri
	}
	for what, pair := range map[string][2]string{
		"the queue that Sweep uses":          {c.TaskQueue, text(q["id"])},
		"the URL that the queue delivers to": {c.TaskURL, worker.uri + tasks.TaskPath},
		"the audience of the queue's tokens": {c.TaskAudience, audience(worker)},
		"the account of the queue's tokens":  {c.TaskAccount, "leasehold-queue@" + project + ".iam.gserviceaccount.com"},
	} {
		if pair[0] != pair[1] {
			r.sayf("%s is %q and must be %q", what, pair[0], pair[1])
		}
	}
	if limit := number(rates["max_concurrent_dispatches"]); limit < 1 || limit > worker.max*worker.concurrency {
		r.sayf("the queue delivers %v messages at once, and %s takes %v", limit, worker.name, worker.max*worker.concurrency)
	}
	if n := number(retries["max_attempts"]); n != -1 && n < 5 {
		r.sayf("the queue gives up after %v attempts", n)
	}
	if low, high := seconds(retries["min_backoff"]), seconds(retries["max_backoff"]); low <= 0 || high < low {
		r.sayf("the queue waits from %v to %v s between attempts", low, high)
	}

	j := jobs[0].AttributeValues
	target := only(j, "http_target")
	oidcToken := only(target, "oidc_token")
	for what, pair := range map[string][2]string{
		"the URL that the scheduler calls":       {text(target["uri"]), sweep.uri + tasks.SweepPath},
		"the method of the scheduler":            {text(target["http_method"]), "POST"},
		"the audience of the scheduler's tokens": {text(oidcToken["audience"]), audience(sweep)},
		"the account of the scheduler's tokens": {text(oidcToken["service_account_email"]),
			"leasehold-scheduler@" + project + ".iam.gserviceaccount.com"},
		"the time zone": {text(j["time_zone"]), "Etc/UTC"},
	} {
		if pair[0] != pair[1] {
			r.sayf("%s is %q and must be %q", what, pair[0], pair[1])
		}
	}
	if err := cron(text(j["schedule"])); err != nil {
		r.sayf("%v", err)
	}
	if wait := seconds(j["attempt_deadline"]); wait < sweep.timeout || wait > 1800 {
		r.sayf("the scheduler waits for %v s, and %s has %v s", wait, sweep.name, sweep.timeout)
	}
}

// access compares the grants with what each account needs.
func (r *report) access(p *tfjson.Plan, v given) {
	member := func(name string) string {
		return "serviceAccount:leasehold-" + name + "@" + project + ".iam.gserviceaccount.com"
	}
	role := "projects/" + project + "/roles/leasehold_store"
	want := []string{
		member("sweep") + ": roles/cloudtasks.enqueuer on leasehold-analyses",
		member("sweep") + ": roles/iam.serviceAccountUser on projects/" + project + "/serviceAccounts/leasehold-queue@" +
			project + ".iam.gserviceaccount.com",
		member("tasks") + ": roles/secretmanager.secretAccessor on " + v["target_token_secret"],
		"allUsers: roles/run.invoker on leasehold-api",
	}
	for _, name := range []string{"api", "tasks", "sweep"} {
		want = append(want, fmt.Sprintf(`%s: %s on %s if resource.name == "projects/%[3]s/databases/%s"`, member(name), role,
			project, lockDatabase))
	}
	if v["task_auth"] == "token" {
		want = append(want, "allUsers: roles/run.invoker on leasehold-tasks",
			"allUsers: roles/run.invoker on leasehold-sweep")
	} else {
		want = append(want, member("queue")+": roles/run.invoker on leasehold-tasks", member("scheduler")+
			": roles/run.invoker on leasehold-sweep")
	}
	if v["image"] == "" {
		want = append(want, member("build")+": roles/artifactregistry.writer on leasehold-functions",
			member("build")+": roles/logging.logWriter on "+project,
			member("build")+": roles/storage.objectViewer on "+project+
				` if resource.name.startsWith("projects/_/buckets/gcf-v2-sources-")`)
	}
	r.equal("grants", grants(p), want)

	roles := slices.Collect(maps.Values(resources(p, "google_project_iam_custom_role")))
	if len(roles) != 1 {
		r.sayf("there are %d roles", len(roles))
		return
	}
	var has []string
	for _, permission := range roles[0].AttributeValues["permissions"].([]any) {
		has = append(has, text(permission))
	}
	want, err := needed()
	if err != nil {
		r.sayf("%v", err)
	}
	r.equal("permissions of the role", has, want)
}

// TestGoogle plans the modules for Google Cloud, and compares the plans with the code of the program. The provider is a
// stand-in with its schema.
func TestGoogle(t *testing.T) {
	t.Parallel()
	program(t)
	mirror := stub(t)
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		p, refused := googled(t, mirror, "database", predicting).plan(ofDatabase.list()...)
		if p == nil {
			t.Fatal(refused)
		}
		for _, problem := range checkDatabase(p) {
			t.Error(problem)
		}
	})
	for name, v := range map[string]given{"sources": ofSources, "image": ofImage, "token mode": ofToken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := googled(t, mirror, "functions", predicting)
			p, refused := c.plan(v.list()...)
			if p == nil {
				t.Fatal(refused)
			}
			for _, problem := range checkGoogleFunctions(t, p, v) {
				t.Error(problem)
			}
			// With the provider, names and addresses are not known before an apply: nothing may need them in a plan.
			c.env = nil
			if p, refused := c.plan(v.list()...); p == nil {
				t.Error(refused)
			}
		})
	}
}

// TestGoogleWithoutTarget: without a target there are the API and a sweep that has no queue.
func TestGoogleWithoutTarget(t *testing.T) {
	t.Parallel()
	program(t)
	c := googled(t, stub(t), "functions", predicting)
	for _, v := range []given{ofSources, ofImage} {
		const want = "API Sweep"
		v = v.with(given{"LEASEHOLD_TARGET_URL": "", "target_token_secret": "", "LEASEHOLD_TASK_TIMEOUT": ""})
		p, refused := c.plan(v.list()...)
		if p == nil {
			t.Fatal(refused)
		}
		var problems report
		var names []string
		for _, s := range services(p) {
			names = append(names, s.entry)
			problems.environment(s, v)
			problems.times(s)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the functions are %s, and must be %s", got, want)
		}
		if n := len(resources(p, "google_cloud_tasks_queue")); n != 0 {
			t.Errorf("there are %d queues", n)
		}
		for _, grant := range grants(p) {
			if strings.Contains(grant, "leasehold-tasks") || strings.Contains(grant, "leasehold-queue") {
				t.Errorf("%s is for what does not exist", grant)
			}
		}
		for _, problem := range problems {
			t.Error(problem)
		}
	}
}

// TestGoogleIssuers: the module knows the issuers that everybody can get a token of, as the program does.
func TestGoogleIssuers(t *testing.T) {
	t.Parallel()
	program(t)
	c := googled(t, stub(t), "functions")
	out, err := c.console(ofSources, `jsonencode([local.public_issuers, local.organizations])`)
	if err != nil {
		t.Fatal(err, out)
	}
	var issuers []string
	organizations := map[string][]string{}
	if err := json.Unmarshal([]byte(out), &[]any{&issuers, &organizations}); err != nil {
		t.Fatal(err, out)
	}
	var problems report
	problems.equal("public issuers", issuers, slices.Collect(maps.Keys(oidc.PublicIssuers)))
	for issuer, claims := range oidc.PublicIssuers {
		problems.equal("claims of "+issuer, organizations[issuer], claims)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	// What lets an issuer of this kind pass.
	for _, accepted := range []given{
		{"auth_issuer": oidc.GoogleIssuer, "LEASEHOLD_AUTH_TENANT": "default", "LEASEHOLD_AUTH_SUBJECTS": "123"},
		{"auth_issuer": "https://gitlab.com", "LEASEHOLD_AUTH_TENANT_CLAIM": "namespace_id"},
		{"auth_issuer": "https://appleid.apple.com", "LEASEHOLD_AUTH_REQUIRED_SCOPE": "leasehold"},
	} {
		if p, refused := c.plan(ofSources.with(accepted).list()...); p == nil {
			t.Errorf("%v is refused: %s", accepted, refused)
		}
	}
}

// console returns the text that an expression in the folder has with variables.
func (c *configuration) console(v given, expression string) (string, error) {
	args := []string{"console"}
	for _, x := range v.list() {
		args = append(args, "-var", x)
	}
	cmd := c.command(args...)
	cmd.Stdin = strings.NewReader(expression)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return strconv.Unquote(strings.TrimSpace(string(out)))
}

// TestGoogleBadInput: what cannot work is refused before anything is made, with a message that begins with the name of
// the variable.
func TestGoogleBadInput(t *testing.T) {
	t.Parallel()
	program(t)
	mirror := stub(t)
	database, functions := googled(t, mirror, "database"), googled(t, mirror, "functions")
	var plans []*refused
	for name, x := range map[string]struct {
		of      *configuration
		changes given
		want    string
	}{
		"no project":              {functions, given{"project": ""}, `variable "project"`},
		"no region":               {functions, given{"region": ""}, `variable "region"`},
		"no issuer":               {functions, given{"auth_issuer": ""}, `variable "auth_issuer"`},
		"an empty issuer":         {functions, given{"auth_issuer": " "}, "auth_issuer must be the URL"},
		"no audience":             {functions, given{"auth_audience": ""}, `variable "auth_audience"`},
		"the number of a project": {functions, given{"project": "123456789012"}, "project must be the ID"},
		"a zone": {functions, given{"region": "europe-west1-b"},
			"region must be one region"},
		"several regions":    {functions, given{"region": "eur3"}, "region must be one region"},
		"a name in capitals": {functions, given{"name": "Leasehold"}, "name must have 2 to 20"},
		"a name that is too long": {functions, given{"name": "leasehold-of-everybody"},
			"name must have 2 to 20"},
		"the database of everybody": {functions, given{"database": "(default)"}, "database must be the ID"},
		"labels in capitals":        {functions, given{"labels": `{"Team":"a"}`}, "labels must have"},
		"neither sources nor image": {functions, given{"source_archive": ""}, "Set either image"},
		"sources and image":         {functions, given{"image": imageName}, "Set either image"},
		"an archive that is not there": {functions, given{"source_archive": "other.zip"},
			"source_archive must be a .zip file"},
		"an image without a version": {functions,
			given{"source_archive": "", "image": "example.com/leasehold"}, "image must name"},
		"an image that changes": {functions,
			given{"source_archive": "", "image": "example.com/leasehold:v1.2.3"}, "image must name"},
		"an old runtime": {functions, given{"runtime": "go125"}, "runtime must be go126"},
		"a public issuer for everybody": {functions, given{"auth_issuer": oidc.GoogleIssuer},
			"auth_issuer gives tokens to every account"},
		"no caller": {functions, given{"api_public": "false"},
			"api_invokers must have members"},
		"everybody and some": {functions, given{"api_invokers": `["user:a@example.com"]`},
			"api_invokers has no effect"},
		"everybody as a member": {functions,
			given{"api_public": "false", "api_invokers": `["allUsers"]`}, "api_invokers must be members"},
		"no mode of authentication": {functions, given{"task_auth": "none"},
			"task_auth must be platform or token"},
		"a public listener that trusts the platform": {functions, given{"task_ingress": "all"},
			"task_ingress all needs task_auth token"},
		"two tokens for the target": {functions, given{"LEASEHOLD_TARGET_AUDIENCE": "x"},
			"target_token_secret and LEASEHOLD_TARGET_AUDIENCE"},
		"a token for nothing": {functions, given{"LEASEHOLD_TARGET_URL": ""},
			"target_token_secret needs LEASEHOLD_TARGET_URL"},
		"producers without a queue": {functions, given{"LEASEHOLD_TARGET_URL": "", "target_token_secret": "",
			"producers": `["user:a@example.com"]`}, "producers needs LEASEHOLD_TARGET_URL"},
		"the name of a secret's version": {functions,
			given{"target_token_secret": "projects/1/secrets/x/versions/1"}, "target_token_secret must be"},
		"more at once than instances take": {functions, given{"queue": "{max_concurrent=200}"},
			"queue.max_concurrent must be"},
		"a queue that gives up": {functions, given{"queue": "{max_attempts=1}"},
			"queue.max_attempts must be"},
		"times in another form": {functions, given{"queue": `{min_backoff="5 s"}`},
			"queue.min_backoff and queue.max_backoff"},
		"a rate of another cloud": {functions, given{"sweep_schedule": "rate(5 minutes)"},
			"sweep_schedule must be"},
		"no instances": {functions, given{"api_scaling": "{max_instances=0}"},
			"api_scaling must have"},
		"a channel's number": {functions, given{"notification_channels": `["123"]`},
			"notification_channels must be"},
		"metrics of functions": {functions, given{"otlp_endpoint": "http://collector:4318"},
			"otlp_endpoint needs image"},
		"a collector that is no URL": {functions, given{"source_archive": "", "image": imageName,
			"otlp_endpoint": "collector:4318"}, "otlp_endpoint must be a URL"},
		"alerts without metrics": {functions, given{"metrics_alerts": "true"},
			"metrics_alerts needs otlp_endpoint"},
		"no location":             {database, given{"location": ""}, `variable "location"`},
		"a location that is none": {database, given{"location": "europe"}, "location must be"},
		"a short name":            {database, given{"name": "abc"}, "name must have 4 to 63"},
		"the default database":    {database, given{"name": "(default)"}, "name must have 4 to 63"},
		"backups for ever": {database, given{"backup_retention_days": "365"},
			"backup_retention_days must be"},
	} {
		v := ofSources
		if x.of == database {
			v = ofDatabase
		}
		// A plan says all that is wrong with variables. What concerns several of them has one of its own.
		alone := slices.ContainsFunc(slices.Collect(maps.Keys(x.changes)), func(changed string) bool {
			return x.changes[changed] == "" || slices.Contains([]string{
				"api_public", "api_invokers", "source_archive", "image", "otlp_endpoint", "task_ingress", "task_auth",
				"auth_issuer", "LEASEHOLD_TARGET_AUDIENCE",
			}, changed)
		})
		i := slices.IndexFunc(plans, func(p *refused) bool {
			return p.of == x.of && !p.alone && !alone && !slices.ContainsFunc(slices.Collect(maps.Keys(x.changes)),
				func(changed string) bool { return p.changed[changed] })
		})
		if i < 0 {
			i = len(plans)
			plans = append(plans, &refused{of: x.of, alone: alone, given: v, changed: map[string]bool{},
				want: map[string]string{}})
		}
		plans[i].given = plans[i].given.with(x.changes)
		plans[i].want[name] = x.want
		for changed := range x.changes {
			plans[i].changed[changed] = true
		}
	}
	for _, p := range plans {
		out, err := p.of.refusal(p.given)
		for name, want := range p.want {
			if err == nil || !strings.Contains(words(out), want) {
				t.Errorf("%s: %v, and must say %q:\n%s", name, err, want, out)
			}
		}
	}
}

// refused is a plan that is refused for several reasons: what must be said for each.
type refused struct {
	of      *configuration
	alone   bool
	given   given
	changed map[string]bool
	want    map[string]string
}

// refusal is what a plan that is not kept says.
func (c *configuration) refusal(v given) (string, error) {
	args := []string{"plan", "-input=false", "-no-color", "-refresh=false", "-lock=false"}
	for _, x := range v.list() {
		args = append(args, "-var", x)
	}
	return c.run(args...)
}

// words is a text without the lines that Terraform breaks it into.
func words(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "│", " ")), " ")
}

// TestGoogleModuleTests runs the modules' own tests, with terraform test.
func TestGoogleModuleTests(t *testing.T) {
	t.Parallel()
	program(t)
	mirror := stub(t)
	c := googled(t, mirror, "database")
	for _, c := range []*configuration{c, c.in(mirror, "gcp/functions")} {
		if out, err := c.run("test", "-no-color"); err != nil || !strings.Contains(out, "0 failed") {
			t.Errorf("%s: %v\n%s", c.dir, err, out)
		}
	}
}

// TestGoogleExamples plans the examples, with the values that they come with.
func TestGoogleExamples(t *testing.T) {
	t.Parallel()
	program(t)
	mirror := stub(t)
	c := googled(t, mirror, "examples/minimal", predicting)
	minimal := given{"project": project, "region": googleRegion, "source_archive": "sources.zip", "callers": `["123"]`}
	p, refused := c.plan(minimal.list()...)
	if p == nil {
		t.Fatal(refused)
	}
	var names []string
	for _, s := range services(p) {
		names = append(names, s.name)
	}
	if !slices.Equal(names, []string{"leasehold-api", "leasehold-sweep"}) {
		t.Errorf("the example without a target has the functions %v", names)
	}
	for _, part := range []string{"database", "functions"} {
		// a plan with it would ask for its bucket
		c.change("gcp/examples/production/"+part+"/main.tf", `backend "gcs" {}`, "")
		c := c.in(mirror, "gcp/examples/production/"+part)
		for _, environment := range []string{"production", "staging"} {
			out, err := c.run("plan", "-input=false", "-no-color", "-refresh=false", "-lock=false",
				"-var-file=../environments/"+environment+"."+part+".tfvars")
			if err != nil {
				t.Errorf("%s of %s: %v\n%s", part, environment, err, out)
			}
		}
	}
}
