package settings_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

var update = flag.Bool("update", false, "write docs/reference/settings.md")

// TestDocumentation: docs/reference/settings.md is what the table says.
func TestDocumentation(t *testing.T) {
	const path = "../../docs/reference/settings.md"
	if *update {
		if err := os.WriteFile(path, []byte(settings.Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != settings.Markdown() {
		t.Errorf(
			"docs/reference/settings.md does not agree with functions/settings (%v): run go test ./functions/settings -run TestDocumentation -update", err)
	}
}

// TestTable: each row is complete, and its parts agree.
func TestTable(t *testing.T) {
	var groups []string
	seen := map[string]bool{}
	for _, s := range settings.Table {
		fail := func(format string, args ...any) { t.Helper(); t.Errorf(s.Env+": "+format, args...) }
		if seen[s.Env] || !strings.HasPrefix(s.Env, "LEASEHOLD_") {
			fail("the name is not new, or does not begin with LEASEHOLD_")
		}
		seen[s.Env] = true
		if len(groups) == 0 || groups[len(groups)-1] != s.Group {
			if slices.Contains(groups, s.Group) {
				fail("the group %q is in two places", s.Group)
			}
			groups = append(groups, s.Group)
		}
		if s.Entries == 0 || !s.Entries.Has(s.Required) {
			fail("entries %v, required %v", s.Entries.Names(), s.Required.Names())
		}
		for _, text := range []string{s.Help, s.More} {
			if text != "" && !strings.HasSuffix(text, ".") || strings.Contains(s.FlagHelp(settings.Serve), "{") {
				fail("help %q", text)
			}
		}
		if s.Help == "" {
			fail("no help")
		}
		for _, v := range s.Variants {
			if !s.Entries.Has(v.Entries) {
				fail("a variant for entries that do not take it: %v", v.Entries.Names())
			}
		}
		for _, text := range []string{s.Default, s.Min, s.Max, s.Step} {
			var err error
			switch {
			case text == "":
			case s.Type == settings.Duration:
				_, err = time.ParseDuration(text)
			case s.Type == settings.Number:
				_, err = strconv.ParseInt(text, 10, 64)
			case s.Choices != nil && !slices.Contains(s.Choices, text):
				fail("the default %q is not a choice", text)
			}
			if err != nil {
				fail("%v", err)
			}
		}
	}
	for _, r := range settings.Rules {
		for _, env := range append(r.If, cmp.Or(r.Needs, r.NotWith)) {
			if s, ok := settings.Find(env); !ok || !s.Entries.Has(r.Entries) {
				t.Errorf("the rule %+v names %s, which these entries do not take", r, env)
			}
		}
	}
	for _, v := range settings.ClientVariables {
		if _, ok := settings.Find(v.Instead); seen[v.Name] || v.Instead != "" && !ok {
			t.Errorf("%+v is a setting too, or its alternative is none", v)
		}
	}
}

// least is the least environment with which an entry point starts.
func least(e settings.Entry) []string {
	switch e {
	case settings.LambdaAPI:
		return []string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_FRONT_DOOR=http-api"}
	case settings.LambdaWorker:
		return []string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_TARGET_URL=https://worker.example/run"}
	case settings.LambdaSweep:
		return []string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/1/q"}
	case settings.Worker:
		return []string{"LEASEHOLD_QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/1/q",
			"LEASEHOLD_TARGET_URL=https://worker.example/run"}
	default:
		return nil
	}
}

// TestDefaults: defaults and bounds of the table are those of the packages that the settings are for.
func TestDefaults(t *testing.T) {
	load := func(e settings.Entry) *settings.Config {
		t.Helper()
		c, err := settings.Load(e, least(e), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	serve := load(settings.Serve)
	for name, pair := range map[string][2]any{
		"retention":        {serve.Retention, lock.DefaultRetention},
		"retention, least": {row(t, "LEASEHOLD_RETENTION").Min, strings.TrimSuffix(lock.MinRetention.String(), "0m0s")},
		"retention, off":   {settings.Forever, lock.KeepForever},
		"request timeout":  {serve.RequestTimeout, httpapi.DefaultTimeout},
		"tenant claim":     {serve.AuthTenantClaim, oidc.DefaultTenantClaim},
		"admin scope":      {serve.AuthAdminScope, httpapi.KnownRights[0].Scope},
		"operate scope":    {serve.AuthOperateScope, httpapi.KnownRights[1].Scope},
		"worker scope":     {serve.AuthWorkerScope, httpapi.KnownRights[2].Scope},
		"scope for IDs":    {serve.AuthIDScope, httpapi.KnownRights[3].Scope},
		"leeway":           {serve.AuthLeeway, oidc.DefaultLeeway},
		"leeway, most":     {row(t, "LEASEHOLD_AUTH_LEEWAY").Max, strings.TrimSuffix(oidc.MaxLeeway.String(), "0s")},
		"ttl":              {serve.TTL, analysis.DefaultTTLSeconds * time.Second},
		"ttl, most":        {row(t, "LEASEHOLD_TTL").Max, strconv.Itoa(analysis.MaxTTLSeconds/3600) + "h"},
		"heartbeat":        {row(t, "LEASEHOLD_HEARTBEAT").Min, once.MinHeartbeat.String()},
		"max failures":     {serve.MaxFailures, int64(tasks.DefaultMaxFailures)},
		"task timeout":     {serve.TaskTimeout, tasks.DefaultTimeout},
		"timeout, most":    {row(t, "LEASEHOLD_TASK_TIMEOUT").Max, strings.TrimSuffix(tasks.MaxTimeout.String(), "0s")},
		"task issuer":      {serve.TaskIssuer, oidc.GoogleIssuer},
		"max takeovers":    {serve.MaxTakeovers, int64(analysis.DefaultMaxTakeovers)},
		"requeue every":    {serve.RequeueEvery, analysis.DefaultRequeueEvery},
		"worker timeout":   {load(settings.Worker).TaskTimeout, 12 * time.Hour},
		"worker shutdown":  {load(settings.Worker).ShutdownTimeout, 20 * time.Second},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v in the table, %v in the code", name, pair[0], pair[1])
		}
	}
}

func row(t *testing.T, env string) settings.Setting {
	t.Helper()
	s, ok := settings.Find(env)
	if !ok {
		t.Fatalf("no setting %s", env)
	}
	return s
}

// TestWithoutSecrets: a program that a command starts gets no secret of Leasehold.
func TestWithoutSecrets(t *testing.T) {
	kept := []string{"PATH=/bin", "LEASEHOLD_SERVER=http://x", "LEASEHOLD_AUTH_TOKEN_FILE=/f",
		"LEASEHOLD_REDIS_ADDR=redis:6379", "AUTH_TOKEN=hunter2", "EMPTY"}
	env := append(slices.Clone(kept), "LEASEHOLD_AUTH_TOKEN=hunter2", "LEASEHOLD_EXTERNAL_ID_SECRET=hunter2",
		"LEASEHOLD_REDIS_PASSWORD=hunter2",
		"LEASEHOLD_TARGET_TOKEN=hunter2", "LEASEHOLD_REDIS_ADDR=redis://u:hunter2@redis:6379",
		"LEASEHOLD_SERVER=https://u:hunter2@x")
	if got := settings.WithoutSecrets(env); !slices.Equal(got, kept) {
		t.Errorf("got %q", got)
	}
	for _, s := range settings.Table {
		if s.Secret && len(settings.WithoutSecrets([]string{s.Env + "=x"})) != 0 {
			t.Errorf("%s is passed on", s.Env)
		}
	}
}

// TestLoad: values of each type, from the environment and from flags.
func TestLoad(t *testing.T) {
	const issuer = "LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=leasehold "
	type got = func(c *settings.Config) any
	for _, x := range []struct {
		entry settings.Entry
		env   string
		get   got
		want  any
	}{
		{settings.FunctionAPI, "GOOGLE_CLOUD_PROJECT=p", func(c *settings.Config) any { return c.Project }, "p"},
		{settings.FunctionAPI, "GOOGLE_CLOUD_PROJECT=p LEASEHOLD_PROJECT=q",
			func(c *settings.Config) any { return c.Project }, "q"},
		{settings.FunctionSweep, "LEASEHOLD_DATABASE=d LEASEHOLD_ROOT=a/b",
			func(c *settings.Config) any { return c.Database + " " + c.Root }, "d a/b"},
		{settings.FunctionAPI, issuer + "LEASEHOLD_AUTH_LEEWAY=1m", func(c *settings.Config) any { return c.AuthLeeway },
			time.Minute},
		{settings.Serve, issuer + "LEASEHOLD_AUTH_WORKERS=1,2", func(c *settings.Config) any { return c.AuthWorkers },
			[]string{"1", "2"}},
		{settings.FunctionAPI, issuer + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=1,2",
			func(c *settings.Config) any { return c.AuthSubjects }, []string{"1", "2"}},
		{settings.LambdaAPI,
			"LEASEHOLD_TABLE=x LEASEHOLD_FRONT_DOOR=url LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_TENANT_CLAIM=org", func(
				c *settings.Config) any {
				return c.AuthTenant + " " + c.AuthTenantClaim
			}, "acme org"},
		{settings.LambdaAPI, "LEASEHOLD_TABLE=x LEASEHOLD_FRONT_DOOR=url LEASEHOLD_MAX_SKEW=500ms LEASEHOLD_REGION=r",
			func(c *settings.Config) any {
				return c.Region + " " + c.MaxSkew.String()
			}, "r 500ms"},
		{settings.FunctionTasks, "LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=127.0.0.1:1",
			func(c *settings.Config) any { return c.Development }, true},
		{settings.FunctionTasks, "LEASEHOLD_DEVELOPMENT=0 K_SERVICE=x", func(c *settings.Config) any { return c.Development },
			false},
		{settings.LambdaAPI, `LEASEHOLD_TABLE=x LEASEHOLD_FRONT_DOOR=url LEASEHOLD_ID_SERVICES=[{"serviceId":"default"}]`,
			func(c *settings.Config) any { return c.IDServices }, []machineid.ServiceConfig{machineid.DefaultService()}},
		{settings.Serve, "LEASEHOLD_ID_SERVICES=testdata/services.json", func(c *settings.Config) any { return c.IDServices },
			[]machineid.ServiceConfig{machineid.DefaultService()}},
		{settings.Serve, "LEASEHOLD_RETENTION=off", func(c *settings.Config) any { return c.Retention }, settings.Forever},
		{settings.LambdaAPI, "LEASEHOLD_TABLE=x LEASEHOLD_FRONT_DOOR=url LEASEHOLD_RETENTION=1h",
			func(c *settings.Config) any { return c.Retention }, time.Hour},
		{settings.Serve, "PORT=0", func(c *settings.Config) any { return c.Listen }, "127.0.0.1:0"},
		{settings.Serve, "PORT=80 LEASEHOLD_LISTEN=localhost:1", func(c *settings.Config) any { return c.Listen },
			"localhost:1"},
		{settings.Serve, issuer + "PORT=8081 K_SERVICE=api", func(c *settings.Config) any { return c.Listen }, ":8081"},
		{settings.Serve, "LEASEHOLD_CORS_ORIGINS=https://a.example,http://localhost:5173",
			func(c *settings.Config) any { return c.CORSOrigins }, []string{"https://a.example", "http://localhost:5173"}},
		{settings.Serve, "LEASEHOLD_BASE_PATH=/a/b.c", func(c *settings.Config) any { return c.BasePath }, "/a/b.c"},
		{settings.Serve, "LEASEHOLD_TTL= LEASEHOLD_SWEEP_GRACE=0s LEASEHOLD_HEARTBEAT=150s",
			func(c *settings.Config) any { return c.TTL }, 5 * time.Minute},
		{settings.Serve, "LEASEHOLD_TENANT=mine LEASEHOLD_SERVER=http://127.0.0.1:8080",
			func(c *settings.Config) any { return c.AuthTenant }, ""},
		// settings of others
		{settings.LambdaAPI, "LEASEHOLD_TABLE=x LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TTL=soon LEASEHOLD_TARGET_URL=x",
			func(c *settings.Config) any { return c.TTL }, time.Duration(0)},
		{settings.LambdaWorker,
			"LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=https://worker.example/ LEASEHOLD_TARGET_TOKEN_FILE=/x", func(
				c *settings.Config) any {
				return c.TargetTokenFile
			}, "/x"},
		// Kubernetes
		{settings.Serve,
			"LEASEHOLD_SERVICE_HOST=10.0.0.1 LEASEHOLD_SERVICE_PORT_HTTP=80 LEASEHOLD_PORT=tcp://x LEASEHOLD_PORT_80_TCP_ADDR=x LEASEHOLD_REDIS_PORT=x",
			func(c *settings.Config) any { return c.Listen }, "127.0.0.1:8080"},
	} {
		c, err := settings.Load(x.entry, strings.Fields(x.env), nil)
		if err != nil {
			t.Errorf("%s: %v", x.env, err)
		} else if got := x.get(c); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: got %v, want %v", x.env, got, x.want)
		}
	}
	c, err := settings.Load(settings.Serve, []string{"LEASEHOLD_TTL=soon", "LEASEHOLD_STORE=memory"},
		map[string]string{"ttl": "90s"})
	if err != nil || c.TTL != 90*time.Second || c.Store != "memory" || c.Name("LEASEHOLD_TTL") != "--ttl" ||
		c.Name("LEASEHOLD_STORE") != "LEASEHOLD_STORE" || c.Name("LEASEHOLD_DATA") != "--data" {
		t.Errorf("a flag wins: %+v, %v", c, err)
	}
	// What is wrong with the one that counts is said by the name under which it was set.
	for says, x := range map[string]struct {
		env   string
		flags map[string]string
	}{
		`--ttl is "soon": it must be a duration`: {"LEASEHOLD_TTL=90s", map[string]string{"ttl": "soon"}},
		"LEASEHOLD_TARGET_TOKEN and --target-token-file cannot both be set": {
			"LEASEHOLD_TARGET_URL=https://x LEASEHOLD_TARGET_TOKEN=x", map[string]string{"target-token-file": "f"}},
		"LEASEHOLD_AUTH_TENANT and --auth-tenant-claim cannot both be set": {
			"LEASEHOLD_AUTH_ISSUER=https://x LEASEHOLD_AUTH_AUDIENCE=x LEASEHOLD_AUTH_TENANT=acme",
			map[string]string{"auth-tenant-claim": "hd"}},
	} {
		if _, err := settings.Load(settings.Serve, strings.Fields(x.env), x.flags); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s %v: %v\nwant %s", x.env, x.flags, err, says)
		}
	}
}

// TestClientVariables: commands that call a server reject misspelt variables, as servers do.
func TestClientVariables(t *testing.T) {
	for env, says := range map[string]string{
		"LEASEHOLD_TENANT=x LEASEHOLD_TABLE=y LEASEHOLD_SERVER= PATH=z LEASEHOLD_AUTH_TOKEN=t":                                                          "",
		"LEASEHOLD_KEY_2=a LEASEHOLD_KEY_9=b LEASEHOLD_KEY_10=c LEASEHOLD_FENCING_TOKEN_2=1 LEASEHOLD_FENCING_TOKEN_20=2 LEASEHOLD_FENCING_SUBJECT_3=s": "",
		"LEASEHOLD_KEY_1=a":           "LEASEHOLD_KEY_1 is not a setting",
		"LEASEHOLD_KEY_02=a":          "LEASEHOLD_KEY_02 is not a setting",
		"LEASEHOLD_KEY_21=a":          "LEASEHOLD_KEY_21 is not a setting",
		"LEASEHOLD_PERMIT_2=1":        "LEASEHOLD_PERMIT_2 is not a setting",
		"LEASEHOLD_TENNANT=x":         "LEASEHOLD_TENNANT is not a setting: did you mean LEASEHOLD_TENANT?",
		"LEASEHOLD_EXTERNAL_ID_KEYS=": "did you mean LEASEHOLD_EXTERNAL_ID_KEY?",
		"LEASEHOLD_COLOUR=red":        "no setting has a similar name",
	} {
		if err := settings.CheckClient(strings.Fields(env)); says == "" && err != nil ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", env, err, says)
		}
	}
}

// TestWithoutLock: a command under a lock finds nothing of the locks that an outer command holds.
func TestWithoutLock(t *testing.T) {
	environ := strings.Fields(
		"A=1 LEASEHOLD_KEY=k LEASEHOLD_KEY_2=l LEASEHOLD_FENCING_TOKEN=1 LEASEHOLD_FENCING_TOKEN_20=2 LEASEHOLD_FENCING_SUBJECT=s LEASEHOLD_FENCING_SUBJECT_2=s LEASEHOLD_PERMIT=3 LEASEHOLD_SERVER=s LEASEHOLD_KEY_ID=x")
	if got := settings.WithoutLock(environ); strings.Join(got, " ") != "A=1 LEASEHOLD_SERVER=s LEASEHOLD_KEY_ID=x" ||
		len(environ) != 10 {
		t.Errorf("%q", got)
	}
}

// TestRejected: settings that cannot work, or that would accept callers that were not meant. Each error names what to
// change.
func TestRejected(t *testing.T) {
	const (
		google   = "LEASEHOLD_AUTH_ISSUER=https://accounts.google.com LEASEHOLD_AUTH_AUDIENCE=https://x.run.app "
		actions  = "LEASEHOLD_AUTH_ISSUER=https://token.actions.githubusercontent.com LEASEHOLD_AUTH_AUDIENCE=x "
		public   = "LEASEHOLD_LISTEN=0.0.0.0:8080 "
		issuer   = "LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=x "
		target   = "LEASEHOLD_TARGET_URL=https://worker.example/run "
		token    = target + "LEASEHOLD_TASK_ACCOUNT=q@p.iam.gserviceaccount.com LEASEHOLD_TASK_AUDIENCE=https://x.run.app "
		queue    = "LEASEHOLD_TASK_QUEUE=projects/p/locations/l/queues/q "
		taskURL  = "LEASEHOLD_TASK_URL=https://x.run.app/t "
		table    = "LEASEHOLD_TABLE=x "
		serve    = settings.Serve
		api      = settings.FunctionAPI
		taskFn   = settings.FunctionTasks
		sweep    = settings.FunctionSweep
		lambda   = settings.LambdaAPI
		worker   = settings.LambdaWorker
		sweepFn  = settings.LambdaSweep
		consumer = settings.Worker
	)
	for _, x := range []struct {
		entry settings.Entry
		env   string
		says  string // empty: accepted
	}{
		// Names.
		{serve, "LEASEHOLD_LITSEN=x", "LEASEHOLD_LITSEN is not a setting: did you mean LEASEHOLD_LISTEN?"},
		{serve, "leasehold_listen=x", "leasehold_listen is not a setting: did you mean LEASEHOLD_LISTEN?"},
		{serve, "LEASEHOLD_TENANT_RATE=5 Leasehold_Tenant_Rate=6", "LEASEHOLD_TENANT_RATE is set twice: as Leasehold_Tenant_Rate, too"},
		{serve, "leasehold_colour=red", ""}, // another program's
		{api, "LEASEHOLD_SUBJECTS=x", "did you mean LEASEHOLD_AUTH_SUBJECTS?"},
		{lambda, "LEASEHOLD_WORKERS=x", "did you mean LEASEHOLD_AUTH_WORKERS?"},
		{lambda, table + "LEASEHOLD_TENANT=acme",
			"LEASEHOLD_TENANT is a setting of the commands that call a server, and has no effect here: did you mean LEASEHOLD_AUTH_TENANT?"},
		{api, "LEASEHOLD_AUTH_TOKEN=secret", "did you mean LEASEHOLD_TARGET_TOKEN?"},
		{serve, "LEASEHOLD_A=1 LEASEHOLD_B=2", "\nLEASEHOLD_B is not"},
		{serve, "LEASEHOLD_A=1",
			"LEASEHOLD_A is not a setting, and no setting has a similar name: docs/reference/settings.md lists all"},
		{serve, "LEASEHOLD_FOO=1", "no setting has a similar name"},
		{serve, "LEASEHOLD_FLAVOUR_OF_THE_MONTH=1", "no setting has a similar name"},
		{serve, "LEASEHOLD_OWNR=1", "did you mean LEASEHOLD_OWNER?"},
		{api, "LEASEHOLD_EXTERNAL_ID_KEYS=1", "no setting has a similar name"}, // it takes no variable of a client

		// What sends events to a function that believes them.
		{lambda, table, "LEASEHOLD_FRONT_DOOR is required without LEASEHOLD_AUTH_ISSUER"},
		{lambda, table + issuer, ""},
		{lambda, table + issuer + "LEASEHOLD_FRONT_DOOR=alb", ""},
		{lambda, table + "LEASEHOLD_FRONT_DOOR=url,http-api,rest-api", ""},
		{lambda, table + "LEASEHOLD_FRONT_DOOR=rest-api,alb", "LEASEHOLD_FRONT_DOOR alb needs LEASEHOLD_AUTH_ISSUER"},
		{lambda, table + "LEASEHOLD_FRONT_DOOR=rest",
			`LEASEHOLD_FRONT_DOOR is "rest": it must be a list separated by commas, without empty items, of url, http-api, rest-api, alb`},
		{lambda, table + issuer + "LEASEHOLD_FRONT_DOOR=", "LEASEHOLD_FRONT_DOOR is empty"},

		// Values.
		{serve, "LEASEHOLD_TTL=soon", `LEASEHOLD_TTL is "soon": it must be a duration from 1s to 24h in whole seconds`},
		{serve, "LEASEHOLD_TTL=1500ms", "in whole seconds"},
		{serve, "LEASEHOLD_TTL=25h", "to 24h"},
		{serve, "LEASEHOLD_REQUEST_TIMEOUT=0s", `LEASEHOLD_REQUEST_TIMEOUT is "0s": it must be a duration above 0`},
		{serve, "LEASEHOLD_HEARTBEAT=0s", `LEASEHOLD_HEARTBEAT is "0s": it must be a duration of at least 10ms`},
		{serve, "LEASEHOLD_HEARTBEAT=151s",
			"LEASEHOLD_HEARTBEAT is 2m31s: it must be at most half of LEASEHOLD_TTL, which is 5m0s"},
		{worker, table + target + "LEASEHOLD_TTL=10s LEASEHOLD_HEARTBEAT=6s", "at most half of LEASEHOLD_TTL, which is 10s"},
		{serve, "LEASEHOLD_MAX_FAILURES=many", `LEASEHOLD_MAX_FAILURES is "many": it must be a whole number of at least 1`},
		{sweepFn, table + "LEASEHOLD_QUEUE_URL=x LEASEHOLD_MAX_TAKEOVERS=0", `LEASEHOLD_MAX_TAKEOVERS is "0"`},
		{sweepFn, table + "LEASEHOLD_QUEUE_URL=x LEASEHOLD_SWEEP_GRACE=-1s", `LEASEHOLD_SWEEP_GRACE is "-1s"`},
		{taskFn, "LEASEHOLD_TASK_TIMEOUT=31m", "from 1s to 30m"},
		{consumer, target + "LEASEHOLD_QUEUE_URL=x LEASEHOLD_TASK_TIMEOUT=31m", ""},
		{serve, "LEASEHOLD_CREATE_TABLE=yes", `LEASEHOLD_CREATE_TABLE is "yes": it must be true or false`},
		{serve, "LEASEHOLD_STORE=mongo",
			`LEASEHOLD_STORE is "mongo": it must be sqlite, memory, firestore, dynamodb or redis`},
		{serve, "LEASEHOLD_REDIS_DB=-1", "of at least 0"},
		{serve, issuer + "LEASEHOLD_AUTH_WORKERS=a,,b",
			`LEASEHOLD_AUTH_WORKERS is "a,,b": it must be a list separated by commas`},
		{serve, issuer + "LEASEHOLD_AUTH_LEEWAY=6m", "up to 5m"},
		{serve, `LEASEHOLD_ID_SERVICES={"serviceId":"a"}`, "LEASEHOLD_ID_SERVICES: the ID services must be a JSON list"},
		{lambda, table + `LEASEHOLD_ID_SERVICES=[{"serviceId":"a","bitSeq":9}]`,
			`LEASEHOLD_ID_SERVICES: ID service 1 ("a"): bitReserve + bitTs + bitId + bitSeq must be 64`},
		{api, `LEASEHOLD_ID_SERVICES={"serviceId":"a"}`, `[{"serviceId":"payments"}]: the value must be a list, not object`},
		{api, `LEASEHOLD_ID_SERVICES=[{"serviceId":7}]`, "ID service 1: serviceId must be text, not number"},
		{api, `LEASEHOLD_ID_SERVICES=[{"serviceId":"a","bitSeq":"x"}]`,
			"ID service 1: bitSeq must be a whole number, not string"},
		{api, `LEASEHOLD_ID_SERVICES=[7]`, "ID service 1: the value must be an object, not number"},
		{api, `LEASEHOLD_ID_SERVICES=[{"serviceId":"a","bitSeQQ":9}]`,
			`ID service 1: "bitSeQQ" is not a member: check its spelling, or remove it`},
		{api, `LEASEHOLD_ID_SERVICES=[{"serviceId":"a"`, "not JSON: it ends too early"},
		{api, `LEASEHOLD_ID_SERVICES=[{"serviceId":x}]`, "not JSON at byte 15: invalid character 'x'"},
		{api, "LEASEHOLD_ID_SERVICES=missing.json", "LEASEHOLD_ID_SERVICES: open missing.json"},
		{serve, "LEASEHOLD_BASE_PATH=leasehold", `LEASEHOLD_BASE_PATH is "leasehold": it must begin with "/"`},
		{serve, "LEASEHOLD_BASE_PATH=/a/", `not end with it`},
		{serve, "LEASEHOLD_BASE_PATH=/v1", `LEASEHOLD_BASE_PATH is "/v1": paths of the API begin with /v1`},
		{serve, "LEASEHOLD_BASE_PATH=/internal/leasehold", "paths of the API begin with /internal"},
		{serve, "LEASEHOLD_BASE_PATH=/v12", ""},
		{serve, "LEASEHOLD_CORS_ORIGINS=*", `LEASEHOLD_CORS_ORIGINS: the origin "*" would let every web page call`},
		{serve, "LEASEHOLD_CORS_ORIGINS=null", `the origin "null" must be http:// or https:// and a host`},
		{serve, "LEASEHOLD_CORS_ORIGINS=app.example.com", `the origin "app.example.com" must be http:// or https://`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://", `the origin "https://" must be http:// or https:// and a host`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://a.example,https://b.example/",
			`the origin "https://b.example/" must end after the host or its port, such as https://b.example`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://ann:pw@a.example", `must end after the host`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://App.example",
			`the origin "https://App.example" must be in lower case and ASCII`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://bücher.example", `must be in lower case and ASCII`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://a.example:443",
			`must leave the scheme's own port out, as browsers do: https://a.example`},
		{serve, "LEASEHOLD_CORS_ORIGINS=http://a.example:80", `must leave the scheme's own port out`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://a.example:", `must leave the scheme's own port out`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://*.example.com", `must be one host: wildcards are not supported`},
		{serve, "LEASEHOLD_CORS_ORIGINS=https://a.example,http://localhost:5173,http://[::1]:8080,https://a.example:8443",
			""},
		{api, "LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x LEASEHOLD_CORS_ORIGINS=*", `the origin "*" would`},
		{lambda, table + "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_CORS_ORIGINS=*", `the origin "*" would`},
		{serve, "PORT=http", `PORT is "http"`},
		{serve, "LEASEHOLD_LISTEN=localhost", `LEASEHOLD_LISTEN is "localhost": it must be host:port`},

		// What must be there.
		{lambda, "", "LEASEHOLD_TABLE is required: name of the table"},
		{worker, table, "LEASEHOLD_TARGET_URL is required: URL that runs an analysis"},
		{sweepFn, table, ""}, // clusters alone
		{consumer, "", "--queue-url is required"},
		{serve, "LEASEHOLD_STORE=dynamodb", "LEASEHOLD_STORE dynamodb needs LEASEHOLD_TABLE"},
		{consumer, target + "LEASEHOLD_QUEUE_URL=x LEASEHOLD_STORE=memory", "LEASEHOLD_STORE memory has no analyses"},

		// Who callers are.
		{serve, "LEASEHOLD_AUTH_ISSUER=", "LEASEHOLD_AUTH_ISSUER is empty, which would turn a check of callers off"},
		{lambda, table + "LEASEHOLD_AUTH_ISSUER=", "LEASEHOLD_AUTH_ISSUER is empty"},
		{api, google + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=", "LEASEHOLD_AUTH_SUBJECTS is empty"},
		{serve, "LEASEHOLD_LISTEN=[::]:0", "set LEASEHOLD_AUTH_TOKENS, or LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE"},
		{serve, "LEASEHOLD_LISTEN=:0", "can be reached from other machines"},
		{serve, "LEASEHOLD_LISTEN=:0 LEASEHOLD_INSECURE_LISTEN_ANYWHERE=false", "can be reached from other machines"},
		{serve, "LEASEHOLD_LISTEN=:0 LEASEHOLD_INSECURE_LISTEN_ANYWHERE=true", ""},
		{serve, "LEASEHOLD_LISTEN=:0 LEASEHOLD_INSECURE_LISTEN_ANYWHERE=true K_SERVICE=api", "on Cloud Run"},
		{serve, issuer + "LEASEHOLD_INSECURE_LISTEN_ANYWHERE=true",
			"LEASEHOLD_INSECURE_LISTEN_ANYWHERE and LEASEHOLD_AUTH_ISSUER cannot both be set"},
		{serve, "K_SERVICE=api PORT=8080", "on Cloud Run the server needs LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_DEVELOPMENT=1", "needs FIRESTORE_EMULATOR_HOST"},
		{api, "LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x K_SERVICE=api", "not allowed on Cloud Run"},
		{api, "LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x " + google,
			"cannot be set together with LEASEHOLD_AUTH_ISSUER"},
		{taskFn, "LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x " + google,
			"cannot be set together with LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_AUTH_ISSUER=https://issuer.example", "LEASEHOLD_AUTH_ISSUER needs LEASEHOLD_AUTH_AUDIENCE"},
		{lambda, table + "LEASEHOLD_AUTH_ISSUER=https://issuer.example",
			"LEASEHOLD_AUTH_ISSUER needs LEASEHOLD_AUTH_AUDIENCE"},
		{api, "LEASEHOLD_AUTH_AUDIENCE=x", "needs LEASEHOLD_AUTH_ISSUER"},
		{serve, "LEASEHOLD_AUTH_AUDIENCE=x", "LEASEHOLD_AUTH_AUDIENCE needs LEASEHOLD_AUTH_ISSUER"},
		{lambda, table + "LEASEHOLD_AUTH_AUDIENCE=x", "needs LEASEHOLD_AUTH_ISSUER"},
		{lambda, table + "LEASEHOLD_AUTH_JWKS_URL=x", "needs LEASEHOLD_AUTH_ISSUER"},
		{lambda, table + "LEASEHOLD_AUTH_LEEWAY=1s", "needs LEASEHOLD_AUTH_ISSUER"},
		{lambda, table +
			"LEASEHOLD_FRONT_DOOR=http-api LEASEHOLD_AUTH_TENANT_CLAIM=org LEASEHOLD_AUTH_ADMIN_SCOPE=root LEASEHOLD_AUTH_WORKER_SCOPE=jobs LEASEHOLD_AUTH_ADMINS=arn:a", ""},
		{api, "LEASEHOLD_AUTH_WORKER_SCOPE=jobs", "needs LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_AUTH_ADMIN_SCOPE=jobs", "needs LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_AUTH_TENANT_CLAIM=org", "needs LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_AUTH_WORKERS=1", "needs LEASEHOLD_AUTH_ISSUER"},
		{serve, "LEASEHOLD_AUTH_ADMINS=1", "LEASEHOLD_AUTH_ADMINS needs LEASEHOLD_AUTH_ISSUER"},
		{api, "LEASEHOLD_AUTH_TENANT=acme", "needs LEASEHOLD_AUTH_ISSUER"},
		{api, issuer + "LEASEHOLD_AUTH_SUBJECTS=1", "needs LEASEHOLD_AUTH_TENANT"},
		{api, google + "LEASEHOLD_AUTH_TENANT=acme",
			"needs LEASEHOLD_AUTH_SUBJECTS with the issuer https://accounts.google.com"},
		{serve, google + "LEASEHOLD_AUTH_TENANT=acme",
			"needs LEASEHOLD_AUTH_SUBJECTS with the issuer https://accounts.google.com"},
		{lambda, table + google + "LEASEHOLD_AUTH_TENANT=acme",
			"needs LEASEHOLD_AUTH_SUBJECTS with the issuer https://accounts.google.com"},
		{api, google + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=1 LEASEHOLD_AUTH_TENANT_CLAIM=hd",
			"cannot both be set"},
		{serve, google + "LEASEHOLD_AUTH_TENANT_CLAIM=email",
			"LEASEHOLD_AUTH_TENANT_CLAIM email admits everybody with the issuer https://accounts.google.com"},
		{lambda, table + google + "LEASEHOLD_AUTH_TENANT_CLAIM=sub", "LEASEHOLD_AUTH_TENANT_CLAIM sub admits everybody"},
		{serve, google + "LEASEHOLD_AUTH_TENANT_CLAIM=hd", ""},
		{serve, google + "LEASEHOLD_AUTH_TENANT_CLAIM=email LEASEHOLD_AUTH_REQUIRED_SCOPE=leasehold", ""},
		{serve, google + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=1", ""},
		// any repository may name one acme
		{serve, actions + "LEASEHOLD_AUTH_TENANT_CLAIM=environment",
			"LEASEHOLD_AUTH_TENANT_CLAIM environment admits everybody"},
		{serve, actions + "LEASEHOLD_AUTH_TENANT_CLAIM=hd",
			"Use a claim of an organization (repository_owner, repository_owner_id, enterprise, enterprise_id), or set"},
		{serve, actions + "LEASEHOLD_AUTH_TENANT_CLAIM=repository_owner", ""},
		{serve, actions + "LEASEHOLD_AUTH_TENANT_CLAIM=environment LEASEHOLD_AUTH_REQUIRED_SCOPE=x", ""},
		{serve, "LEASEHOLD_AUTH_ISSUER=https://appleid.apple.com LEASEHOLD_AUTH_AUDIENCE=x LEASEHOLD_AUTH_TENANT_CLAIM=nonce",
			"in it. Set LEASEHOLD_AUTH_TENANT and LEASEHOLD_AUTH_SUBJECTS"},
		{serve, actions + "LEASEHOLD_AUTH_TENANT=acme",
			"needs LEASEHOLD_AUTH_SUBJECTS with the issuer https://token.actions.githubusercontent.com"},
		{serve, issuer + "LEASEHOLD_AUTH_TENANT_CLAIM=email", ""},
		{serve, "LEASEHOLD_RETENTION=59m", `LEASEHOLD_RETENTION is "59m": it must be a duration of at least 1h, or off`},
		{serve, "LEASEHOLD_RETENTION=0", `LEASEHOLD_RETENTION is "0": it must be a duration of at least 1h, or off`},
		{serve, "LEASEHOLD_RETENTION=never", "or off"},
		{serve, "LEASEHOLD_REQUEST_TIMEOUT=off", `LEASEHOLD_REQUEST_TIMEOUT is "off"`},
		{api, "LEASEHOLD_AUTH_REQUIRED_SCOPE=leasehold", "LEASEHOLD_AUTH_REQUIRED_SCOPE needs LEASEHOLD_AUTH_ISSUER"},
		{serve, public + issuer + target + "LEASEHOLD_TASK_AUTH=platform",
			"LEASEHOLD_TASK_AUTH platform on LEASEHOLD_LISTEN 0.0.0.0:8080 lets every caller run tasks"},
		{serve, public + issuer + queue + taskURL + "LEASEHOLD_TASK_AUTH=platform LEASEHOLD_TASK_ACCOUNT=q@p",
			"lets every caller run tasks"},
		{serve, public + issuer + target + "LEASEHOLD_TASK_AUTH=platform K_SERVICE=leasehold", ""},
		{serve, issuer + target + "LEASEHOLD_TASK_AUTH=platform", ""}, // on this machine alone
		{serve, public + issuer + "LEASEHOLD_TASK_AUTH=platform", ""}, // runs no tasks
		{lambda, table + issuer + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_TENANT_CLAIM=hd", "cannot both be set"},
		{lambda, table + "LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=arn:a LEASEHOLD_AUTH_TENANT_CLAIM=hd",
			"cannot both be set"},

		// Tasks and sweeps.
		{taskFn, "", ""}, // the endpoint responds NOT_CONFIGURED
		{taskFn, token, ""},
		{taskFn, target + "LEASEHOLD_TASK_AUTH=platform", ""},
		{taskFn, target, "LEASEHOLD_TASK_ACCOUNT is required"},
		{serve, target, ""}, // development mode
		{serve, issuer + target, "LEASEHOLD_TASK_ACCOUNT is required"},
		{taskFn, target + "LEASEHOLD_TASK_ACCOUNT=q@p", "LEASEHOLD_TASK_AUDIENCE is required"},
		{taskFn, target + "LEASEHOLD_TASK_ACCOUNT=q@p " + taskURL, ""},
		{taskFn, target + "LEASEHOLD_TASK_AUTH=trust", `LEASEHOLD_TASK_AUTH is "trust": it must be token or platform`},
		{taskFn, token + "LEASEHOLD_TASK_AUTH=platform",
			"LEASEHOLD_TASK_AUTH platform and LEASEHOLD_TASK_ACCOUNT cannot both be set"},
		{taskFn, token + "LEASEHOLD_ON_LOCKED=maybe", `LEASEHOLD_ON_LOCKED is "maybe": it must be retry or ack`},
		{taskFn, token + "LEASEHOLD_TARGET_TOKEN=secret LEASEHOLD_TARGET_AUDIENCE=a",
			"LEASEHOLD_TARGET_TOKEN and LEASEHOLD_TARGET_AUDIENCE cannot both be set"},
		{worker, table + target + "LEASEHOLD_TARGET_TOKEN_FILE=f LEASEHOLD_TARGET_AUDIENCE=a", "cannot both be set"},
		{worker, table + target + "LEASEHOLD_TARGET_TOKEN_FILE=f LEASEHOLD_TARGET_TOKEN=secret", "cannot both be set"},
		{taskFn, "LEASEHOLD_TARGET_URL=http://worker.example", "LEASEHOLD_TARGET_URL: target"},
		{worker, table + "LEASEHOLD_TARGET_URL=http://worker.example/run", "must begin with https://"},
		{worker, table + "LEASEHOLD_TARGET_URL=https://a:secret@worker.example/", "must not have a user"},
		{sweep, queue, "LEASEHOLD_TASK_QUEUE needs LEASEHOLD_TASK_URL"},
		{serve, queue, "LEASEHOLD_TASK_QUEUE needs LEASEHOLD_TASK_URL"},
		{sweep, queue + taskURL, "LEASEHOLD_TASK_ACCOUNT is required"},
		{sweep, queue + taskURL + "LEASEHOLD_TASK_ACCOUNT=q@p", ""},
		{sweep, queue + taskURL + "LEASEHOLD_SWEEP_ACCOUNT=q@p", ""},
		{sweep, "LEASEHOLD_SWEEP_ACCOUNT=q@p", "LEASEHOLD_TASK_AUDIENCE is required"}, // clusters alone
		{sweep, "LEASEHOLD_SWEEP_ACCOUNT=q@p LEASEHOLD_TASK_AUDIENCE=a", ""},
		{serve, "LEASEHOLD_SWEEP_ACCOUNT=q@p LEASEHOLD_TASK_AUDIENCE=a", ""},
		{sweep, queue + taskURL + "LEASEHOLD_TASK_AUTH=platform LEASEHOLD_TASK_ACCOUNT=q@p", ""},
	} {
		_, err := settings.Load(x.entry, strings.Fields(x.env), nil)
		switch {
		case x.says == "" && err != nil, x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)):
			t.Errorf("%v %s\ngot  %v\nwant %s", x.entry.Names(), x.env, err, x.says)
		case err != nil && strings.Contains(err.Error(), "machineid."), err != nil && strings.Contains(err.Error(), "Go "):
			t.Errorf("%s: the error has names of Go: %v", x.env, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error has the secret: %v", x.env, err)
		}
	}
	for _, x := range []struct{ env, flags, says string }{
		{"", "auth-audience=x", "--auth-audience needs --auth-issuer"},
		{"LEASEHOLD_AUTH_AUDIENCE=x", "", "LEASEHOLD_AUTH_AUDIENCE needs LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_TTL=10s", "heartbeat=6s", "--heartbeat is 6s: it must be at most half of LEASEHOLD_TTL"},
		{"", "heartbeat=6m", "at most half of --ttl"},
		{"", "listen=:1", "without --auth-tokens or --auth-issuer every caller"},
		{"PORT=80", "listen=:1", "without --auth-tokens or --auth-issuer every caller"},
		{"", "store=dynamodb", "--store dynamodb needs --table"},
		{"", "table=x",
			"--table is a setting of the store dynamodb, and the store is sqlite: remove it, or set --store to dynamodb"},
		{"LEASEHOLD_TABLE=x", "store=redis",
			"LEASEHOLD_TABLE is a setting of the store dynamodb, and the store is redis: remove it, or set --store to dynamodb"},
		{"LEASEHOLD_REDIS_PASSWORD=secret", "",
			"LEASEHOLD_REDIS_PASSWORD is a setting of the store redis, and the store is sqlite: remove it, or set LEASEHOLD_STORE to redis"},
		{"LEASEHOLD_DATA=/x", "store=memory", "LEASEHOLD_DATA is a setting of the store sqlite"},
		{"GOOGLE_CLOUD_PROJECT=x", "", ""}, // set for everything on the machine
		{"LEASEHOLD_PROJECT=x", "", "LEASEHOLD_PROJECT is a setting of the store firestore"},
	} {
		flags := map[string]string{}
		for f := range strings.FieldsSeq(x.flags) {
			name, value, _ := strings.Cut(f, "=")
			flags[name] = value
		}
		_, err := settings.Load(serve, strings.Fields(x.env), flags)
		if x.says == "" && err != nil || x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)) ||
			strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s, flags %s\ngot  %v\nwant %s", x.env, x.flags, err, x.says)
		}
	}
	if _, err := settings.Load(serve, nil, map[string]string{"auth-issuer": ""}); err == nil ||
		!strings.Contains(err.Error(), "--auth-issuer is empty") {
		t.Errorf("an empty flag: %v", err)
	}
}

// TestExamplesAreAllowed: the error of a value that is out of its bounds gives no example that is out of them, too.
func TestExamplesAreAllowed(t *testing.T) {
	_, err := settings.Load(settings.Serve, []string{"LEASEHOLD_STORE=memory", "LEASEHOLD_MAX_WAIT=21s"}, nil)
	const want = `LEASEHOLD_MAX_WAIT is "21s": it must be a duration from 0s to 20s`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestSweeps: a server sweeps for a scheduler where something says who calls it: on Cloud Run, where nothing else sweeps
// between requests, the platform is enough.
func TestSweeps(t *testing.T) {
	const issuer = "LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=x "
	for env, want := range map[string]bool{
		issuer:                                  false,
		issuer + "LEASEHOLD_TASK_AUTH=platform": false, // no platform verifies callers
		issuer + "K_SERVICE=sweep":              false,
		issuer + "K_SERVICE=sweep LEASEHOLD_TASK_AUTH=platform":        true,
		issuer + "LEASEHOLD_SWEEP_ACCOUNT=s LEASEHOLD_TASK_AUDIENCE=x": true,
	} {
		c, err := settings.Load(settings.Serve, strings.Fields(env), nil)
		if err != nil || c.Sweeps() != want {
			t.Errorf("%s: %v, sweeps %t", env, err, c != nil && c.Sweeps())
		}
	}
}
