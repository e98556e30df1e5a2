package tests

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// googleMistake is a change of a module that must be found.
type googleMistake struct {
	name      string
	of        string // database, sources or image: which plan
	file      string // below infra/gcp
	old, made string
	want      string // what is said about it
	with      int    // those of one number do not hide each other, and share a plan; 0: a plan of its own
}

// googleMistakes are changes of the kind that people make. Terraform finds some by the schema of the provider, and the
// rest the comparison with the program.
var googleMistakes = []googleMistake{
	{"an argument that there is none of", "database", "database/main.tf", "location_id =", "location =",
		"Unsupported argument", 0},
	{"a value that there is none of", "database", "database/main.tf", `"FIRESTORE_NATIVE"`, `"NATIVE"`,
		"must be one of", 0},
	{"the other mode of the database", "database", "database/main.tf", `"FIRESTORE_NATIVE"`, `"DATASTORE_MODE"`,
		"the database's type", 1},
	{"no protection", "database", "database/main.tf", `? "DELETE_PROTECTION_ENABLED" :`,
		`? "DELETE_PROTECTION_DISABLED" :`, "delete_protection_state", 1},
	{"no recovery", "database", "database/main.tf", `var.point_in_time_recovery ? "POINT_IN_TIME_RECOVERY_ENABLED"`,
		`var.point_in_time_recovery ? "POINT_IN_TIME_RECOVERY_DISABLED"`, "point_in_time_recovery_enablement", 1},
	{"a database that is forgotten when it is destroyed", "database", "database/main.tf", `deletion_policy = "DELETE"`,
		`deletion_policy = "ABANDON"`, "deletion_policy", 1},
	{"no time to live", "database", "database/main.tf", "each.value.ttl, false", "each.value.expires, false", "is missing",
		1},
	{"time to live on a field in use", "database", "database/firestore.indexes.json",
		`"locks", "fieldPath": "_keep_until"`, `"locks", "fieldPath": "expires_at"`, "in use", 2},
	{"time to live that a field should have", "database", "database/main.tf", "try(each.value.ttl, false) ? [1] : []",
		"each.value.collectionGroup == \"runs\" ? [] : [1]", "what expires has a time to live of its own: it has none", 0},
	{"time to live for all fields", "database", "database/main.tf", "try(each.value.ttl, false) ? [1] : []",
		"[1]", "in use", 0},
	{"no index for the sweep", "database", "database/firestore.indexes.json", `"collectionGroup": "fences"`,
		`"collectionGroup": "analyses"`, "which the sweep needs", 1},
	{"indexes that are not turned off", "database", "database/main.tf", "  index_config {}\n", "", "no block index_config",
		2},
	{"rules in the database of everybody", "database", "database/main.tf",
		"database   = google_firestore_database.this.name\n  collection", "collection", "is of the database", 2},

	{"a function that is not registered", "sources", "functions/main.tf", `entry_point = "Tasks"`, `entry_point = "Task"`,
		"functions: Task", 0},
	{"a variable that is no setting", "sources", "functions/main.tf", "LEASEHOLD_DATABASE = var",
		"LEASEHOLD_DATABASE_ID = var", "LEASEHOLD_DATABASE_ID", 0},
	{"a variable of another function", "sources", "functions/main.tf", "local.settings.api, local.auth",
		"local.settings.tasks, local.auth", "does not take", 5},
	{"a secret in the environment", "sources", "functions/main.tf", `{ LEASEHOLD_TARGET_TOKEN_FILE = "`,
		`{ LEASEHOLD_TARGET_TOKEN = "`, "the secret LEASEHOLD_TARGET_TOKEN", 3},
	{"a secret in another folder", "sources", "functions/main.tf", "folder = local.target_folder", `folder = "/secrets"`,
		"has the secrets", 4},
	{"an API without an audience", "sources", "functions/main.tf", "LEASEHOLD_AUTH_AUDIENCE = var",
		"LEASEHOLD_AUTH_ADMINS = var", "cannot start", 0},
	{"development mode", "sources", "functions/main.tf", "{ LEASEHOLD_PROJECT = var.project,",
		`{ LEASEHOLD_DEVELOPMENT = "true", LEASEHOLD_PROJECT = var.project,`, "not allowed on Cloud Run", 0},
	{"a worker that is cut off", "sources", "functions/main.tf", "local.seconds.task + 2 * local.margin",
		"local.seconds.task", "is cut off", 3},
	{"minutes that count as seconds", "sources", "functions/settings.tf", "m = 60000000000,", "m = 1000000000,",
		"is cut off", 4},
	{"a path that is not served", "sources", "functions/main.tf", `"/internal/tasks/analysis"`, `"/internal/tasks"`,
		"the URL that the queue delivers to", 3},
	{"a sweep that is not served", "sources", "functions/main.tf", `"/internal/sweep"`, `"/internal/sweeps"`,
		"the URL that the scheduler calls", 3},
	{"tokens for another audience", "sources", "functions/main.tf",
		"local.task_audience : module.tasks[0].uri\n    } : {}",
		`local.task_audience : "${module.tasks[0].uri}${local.task_path}"` + "\n    } : {}",
		"the audience of the queue's tokens", 4},
	{"a scheduler that reads", "sources", "functions/queue.tf", `http_method = "POST"`, `http_method = "GET"`,
		"the method of the scheduler", 3},
	{"a scheduler that gives up early", "sources", "functions/queue.tf", `"${local.sweep_timeout}s"`, `"30s"`,
		"the scheduler waits", 3},
	{"a schedule of another cloud", "sources", "functions/queue.tf", "= var.sweep_schedule", `= "rate(1 minute)"`,
		"cron expression", 3},
	{"another queue than the one that is made", "sources", "functions/main.tf",
		"= google_cloud_tasks_queue.analyses[0].id\n      LEASEHOLD_TASK_URL",
		`= "projects/${var.project}/locations/${var.region}/queues/analyses"` + "\n      LEASEHOLD_TASK_URL",
		"the queue that Sweep uses", 4},
	{"a queue that gives up", "sources", "functions/variables.tf", "max_attempts   = optional(number, -1)",
		"max_attempts   = optional(number, 1)", "queue.max_attempts", 0},
	{"workers for everybody", "sources", "functions/main.tf", `? local.everybody : { queue =`,
		`? local.everybody : { everybody = "allUsers", queue =`, "allUsers: roles/run.invoker on leasehold-tasks is too much",
		3},
	{"a worker on the internet", "sources", "functions/main.tf", "ingress         = var.task_ingress",
		"ingress         = var.api_ingress", "has the ingress", 3},
	{"a queue that may not call", "sources", "functions/main.tf",
		`{ queue = google_service_account.this["queue"].member }`, "{}", "roles/run.invoker on leasehold-tasks is missing",
		4},
	{"one account for two functions", "sources", "functions/main.tf", `this["sweep"].email`, `this["tasks"].email`,
		"runs as", 4},
	{"a role for all databases", "sources", "functions/identities.tf",
		`projects/${var.project}/databases/${var.database}\""`, `projects/${var.project}/databases/\" || true"`, "is missing",
		3},
	{"a role that can do everything", "sources", "functions/identities.tf",
		"role    = google_project_iam_custom_role.store.name", `role    = "roles/datastore.owner"`, "roles/datastore.owner",
		4},
	{"a permission too many", "sources", "functions/identities.tf", `"datastore.entities.update",`,
		`"datastore.entities.update", "datastore.databases.delete",`, "datastore.databases.delete is too much", 3},
	{"a permission too few", "sources", "functions/identities.tf", `    "datastore.entities.list",` + "\n", "",
		"datastore.entities.list is missing", 4},
	{"a sweep that may not name the queue's account", "sources", "functions/identities.tf", "roles/iam.serviceAccountUser",
		"roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountUser", 3},
	{"instances without a bound", "sources", "functions/service/main.tf",
		"    max_instance_count               = var.scaling.max_instances\n", "", "no bound of instances", 4},
	{"a type that does not fit", "sources", "functions/service/main.tf",
		"timeout_seconds                  = var.timeout_seconds",
		`timeout_seconds                  = "${var.timeout_seconds}s"`, "a number is required", 0},
	{"an output of another resource", "sources", "functions/outputs.tf", "module.api.uri", "module.api.url",
		"Unsupported attribute", 0},
	{"an address that is needed too early", "sources", "functions/service/main.tf", "for_each = var.invokers",
		"for_each = toset(values(var.invokers))", "Invalid for_each", 0},

	{"a function before its grants", "sources", "functions/main.tf",
		"depends_on = [google_project_iam_member.store, google_project_service.this, terraform_data.can_build]",
		"depends_on = [google_project_service.this, terraform_data.can_build]",
		"the module api does not wait for google_project_iam_member.store", 3},
	{"a build before its grants", "sources", "functions/build.tf", ", google_project_iam_member.build_sources]", "]",
		"builds do not wait for google_project_iam_member.build_sources", 3},
	{"a chart of another form", "sources", "functions/observability.tf", "timeSeriesFilter =", "timeSeries =",
		"the dashboard", 3},
	{"an alert on a metric of another resource", "sources", "functions/observability.tf",
		`${local.of_queue} AND metric.type = \"cloudtasks.googleapis.com/queue/depth\""` + "\n      aligner",
		`${local.of_api} AND metric.type = \"cloudtasks.googleapis.com/queue/depth\""` + "\n      aligner",
		"is about the metric", 3},
	{"an alert on a line that is not logged", "sources", "functions/observability.tf",
		`jsonPayload.message=\"cannot start\"`, `jsonPayload.message=\"cannot begin\"`, "which no function logs", 3},

	{"a container without its store", "image", "functions/main.tf", `LEASEHOLD_STORE = "firestore", `, "",
		"the store is sqlite", 0},
	{"a container without an issuer", "image", "functions/main.tf", "var.image == null ? {} : local.authentication", "{}",
		"on Cloud Run the server needs", 0},
	{"a rollback that stays", "image", "functions/service/main.tf", `"TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"`,
		`"TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"`, "that was pinned once", 6},
	{"an alert for a moment", "image", "functions/observability.tf",
		"= conditions.value.conditionPrometheusQueryLanguage.duration", `= "0s"`, "alerts on the program's metrics", 6},
	{"an alert before its metric", "image", "functions/observability.tf", "disable_metric_validation = true",
		"disable_metric_validation = false", "before its metric is there", 6},
	{"another dashboard", "image", "functions/observability.tf", `{ displayName = "Leasehold ${var.name}: the program" }`,
		`{ displayName = "Leasehold" }`, "is not the dashboard of observability", 6},
	{"an alert on the queue of others", "image", "functions/observability.tf",
		`queue_id = \"${var.name}-analyses\""`, `queue_id = \"${var.name}-tasks\""`, "there is no leasehold-tasks", 6},
	{"a threshold that nothing reaches", "image", "functions/observability.tf", `threshold = 0.1
      duration  = "300s"`, `threshold = 100
      duration  = "300s"`, "request_count 100 for 300 s", 6},
	{"a schedule that is paused", "image", "functions/queue.tf", `  http_target {`, "  paused = true\n\n  http_target {",
		"nothing is turned off", 6},
	{"alerts on all deployments", "image", "functions/observability.tf",
		`query, "job=~\".+\"", local.jobs)`, `query, "jobs", local.jobs)`, "it is about other deployments, too", 6},
	{"a time without its unit", "image", "functions/service/main.tf", `"${var.timeout_seconds}s"`, "var.timeout_seconds",
		"is cut off", 6},
	{"a sink that takes nothing", "image", "functions/audit.tf", `jsonPayload.message=\"audit\"`,
		`jsonPayload.msg=\"audit\"`, "audit events are passed on: only", 6},
	{"a sink of the API alone", "image", "functions/audit.tf", `-(api|tasks|sweep)$`, `-api$`,
		"audit events are passed on: only", 6},
	{"audit events that can be removed", "image", "functions/audit.tf", `locked         = var.audit_locked`, `locked = false`,
		"audit events are locked where that was asked for: locked is", 6},
	{"audit events for a month", "image", "functions/audit.tf", `retention_days = each.value`, `retention_days = 30`,
		"audit events are kept as long as was asked for", 6},
	{"an image by its tag", "image", "functions/service/main.tf", "image = var.image\n",
		"image = \"${split(\"@\", var.image)[0]}:v1\"\n", "can move", 7},
	{"alerts on a metric that there is none of", "image", "../observability/cloudmonitoring/policies.json",
		"http_server_request_duration_seconds_count", "http_server_request_duration_count",
		"the program has no http_server_request_duration_count", 7},
	{"another image than the one that is given", "image", "functions/service/main.tf", "image = var.image\n",
		"image = \"${split(\"@\", var.image)[0]}@sha256:${strrev(split(\":\", var.image)[1])}\"\n", "by its hash: it is ", 6},
	{"one account for two containers", "image", "functions/main.tf", `this["sweep"].email`, `this["tasks"].email`,
		"it has the account", 7},
	{"restarts while the database is away", "image", "functions/service/main.tf", `failure_threshold = 3
        http_get {
          path = "/healthz"`, `failure_threshold = 3
        http_get {
          path = "/readyz"`, "its liveness_probe asks for /readyz", 7},
	{"no alert on messages that nothing takes", "image", "functions/observability.tf", "/queue/depth", "/queue/size",
		"google_cloud_tasks_queue.analyses[0]: no alarm is about calls", 7},
	{"a queue of another region", "image", "functions/queue.tf", `  location = var.region
  name     = "${var.name}-analyses"`, `  location = "us-central1"
  name     = "${var.name}-analyses"`, "it is in us-central1", 7},
	{"a class of responses that is none", "image", "functions/observability.tf", `response_code_class = \"5xx\"`,
		`response_code_class = \"500\"`, "no class of responses is 500", 7},
	{"no alert on a scheduler that is paused", "image", "functions/observability.tf", "var.alerts && local.sweep_minutes",
		"var.alerts && var.image == null && local.sweep_minutes", "no alarm is about calls that are missing", 7},
	{"a role for the whole project", "image", "functions/identities.tf",
		`
  condition {
    title       = "Leasehold's database"
    description = "The role is for one database of the project."
    expression  = "resource.name == \"projects/${var.project}/databases/${var.database}\""
  }
`, "", "a role is for less than the project", 7},
	{"a token for a path", "image", "functions/queue.tf", "local.task_audience : module.sweep.uri\n",
		"local.task_audience : \"${module.sweep.uri}${local.sweep_path}\"\n",
		"a token is for the service that is called", 7},
	{"a sweep that is not waited for", "image", "functions/queue.tf", `"${local.sweep_timeout}s"`, `"30s"`,
		"it waits for 30s", 7},
	{"a sweep on the internet", "image", "functions/main.tf", `  ingress         = var.task_ingress
  invokers        = local.verifies_tokens ? local.everybody : { scheduler`, `  ingress         = "all"
  invokers        = local.verifies_tokens ? local.everybody : { scheduler`, "takes requests from everywhere", 7},
	{"a time limit below that of a run", "image", "functions/service/main.tf", `"${var.timeout_seconds}s"`, `"60s"`,
		"nothing is cut off", 7},
	{"a variable that nothing reads", "image", "functions/main.tf", "LEASEHOLD_TASK_QUEUE ", "LEASEHOLD_TASKS_QUEUE ",
		"LEASEHOLD_TASKS_QUEUE is no setting", 7},
	{"a field that no line has", "image", "functions/audit.tf", "jsonPayload.audit.schema>=1", "jsonPayload.schema>=1",
		"no line has schema", 7},
	{"a worker's container on the internet", "image", "functions/service/main.tf",
		`internal = "INGRESS_TRAFFIC_INTERNAL_ONLY"`, `internal = "INGRESS_TRAFFIC_ALL"`, "has the ingress", 6},
}

// TestGoogleMistakes makes one mistake after the other in the modules for Google Cloud. At least 95 of 100 must be
// found.
func TestGoogleMistakes(t *testing.T) {
	t.Parallel()
	planted(t)
	program(t)
	mirror := stub(t)
	of := map[string]*configuration{}
	for _, dir := range []string{"database", "functions"} {
		of[dir] = googled(t, mirror, dir)
	}
	var plans [][]googleMistake
	for _, m := range googleMistakes {
		if i := slices.IndexFunc(plans, func(p []googleMistake) bool { return m.with != 0 && p[0].with == m.with }); i >= 0 {
			plans[i] = append(plans[i], m)
		} else {
			plans = append(plans, []googleMistake{m})
		}
	}
	var found atomic.Int64
	t.Run("plans", func(t *testing.T) {
		for _, made := range plans {
			t.Run(made[0].name, func(t *testing.T) {
				t.Parallel()
				dir, v := "functions", ofSources
				switch made[0].of {
				case "database":
					dir, v = "database", ofDatabase
				case "image":
					v = ofImage
				}
				c := of[dir].clone(t)
				for _, m := range made {
					c.change("gcp/"+m.file, m.old, m.made)
				}
				problems := problemsOf(t, c, v)
				for _, m := range made {
					if slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, m.want) }) {
						found.Add(1)
					} else {
						t.Logf("NOT FOUND: %s: nothing says %q:\n%s", m.name, m.want, strings.Join(problems, "\n"))
					}
				}
			})
		}
	})
	t.Logf("%d of %d mistakes are found", found.Load(), len(googleMistakes))
	if found.Load()*100 < 95*int64(len(googleMistakes)) {
		t.Errorf("only %d of %d mistakes are found", found.Load(), len(googleMistakes))
	}
}

// problemsOf is all that is found in a configuration: by plans with and without what only the provider knows, and by
// the comparison with the program.
func problemsOf(t *testing.T, c *configuration, v given) report {
	t.Helper()
	c.env = []string{predicting}
	p, refused := c.plan(v.list()...)
	if p == nil {
		return report{words(refused)}
	}
	var problems report
	if v["location"] != "" {
		problems = checkDatabase(p)
	} else {
		problems = checkGoogleFunctions(t, p, v)
	}
	if problems == nil {
		c.env = nil
		if out, err := c.refusal(v); err != nil {
			return report{words(out)}
		}
	}
	return problems
}
