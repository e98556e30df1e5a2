package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/tasks"
)

// Rule is a rule between settings. It applies to each setting of If that the environment or a flag sets.
type Rule struct {
	If      []string // settings
	Needs   string   // setting that must be set too
	NotWith string   // setting that must not be set too
	Entries Entry    // where it applies
	Why     string   // with names of settings like Setting.Help
}

const (
	noIssuer   = "without an issuer no token is accepted"
	byIssuer   = Serve | FunctionAPI // where only an issuer authenticates callers
	twoTenants = "one is the tenant of all callers, the other names the claim with each caller's own"
	mayListen  = "a server that authenticates callers may listen anywhere"
	twoOfTLS   = "TLS needs a certificate and its key"
	twoTokens  = "they are two ways to get the target's token"
)

// Rules lists the rules between settings. [Load] applies them.
var Rules = []Rule{
	{
		If: []string{"LEASEHOLD_AUTH_ISSUER"}, Needs: "LEASEHOLD_AUTH_AUDIENCE", Entries: apis,
		Why: "the name of this server in the claim aud; without it, tokens that were issued for other servers would be accepted",
	},
	{
		If: []string{"LEASEHOLD_AUTH_AUDIENCE", "LEASEHOLD_AUTH_CLIENTS", "LEASEHOLD_AUTH_JWKS_URL",
			"LEASEHOLD_AUTH_LEEWAY", "LEASEHOLD_AUTH_REQUIRED_SCOPE"},
		Needs: "LEASEHOLD_AUTH_ISSUER", Entries: apis, Why: noIssuer,
	},
	{
		If: []string{
			"LEASEHOLD_AUTH_TENANT_CLAIM", "LEASEHOLD_AUTH_TENANT", "LEASEHOLD_AUTH_ADMIN_SCOPE", "LEASEHOLD_AUTH_ADMINS",
			"LEASEHOLD_AUTH_WORKER_SCOPE", "LEASEHOLD_AUTH_WORKERS", "LEASEHOLD_AUTH_ID_SCOPE", "LEASEHOLD_AUTH_ID_SUBJECTS",
		},
		Needs: "LEASEHOLD_AUTH_ISSUER", Entries: byIssuer, Why: noIssuer,
	},
	{
		If: []string{"LEASEHOLD_INSECURE_LISTEN_ANYWHERE"}, NotWith: "LEASEHOLD_AUTH_ISSUER", Entries: Serve,
		Why: mayListen,
	},
	{
		If: []string{"LEASEHOLD_INSECURE_LISTEN_ANYWHERE"}, NotWith: "LEASEHOLD_AUTH_TOKENS", Entries: Serve,
		Why: mayListen,
	},
	{If: []string{"LEASEHOLD_AUDIT_SIZE", "LEASEHOLD_AUDIT_FILES"}, Needs: "LEASEHOLD_AUDIT_LOG", Entries: Serve,
		Why: "without it audit events are in the log"},
	{If: []string{"LEASEHOLD_TLS_CERT"}, Needs: "LEASEHOLD_TLS_KEY", Entries: Serve, Why: twoOfTLS},
	{If: []string{"LEASEHOLD_TLS_KEY"}, Needs: "LEASEHOLD_TLS_CERT", Entries: Serve, Why: twoOfTLS},
	{If: []string{"LEASEHOLD_AUTH_SUBJECTS"}, Needs: "LEASEHOLD_AUTH_TENANT", Entries: apis,
		Why: "it lists the subjects of that tenant"},
	{If: []string{"LEASEHOLD_AUTH_SUBJECTS"}, NotWith: "LEASEHOLD_AUTH_TENANT_CLAIM", Entries: apis, Why: twoTenants},
	{If: []string{"LEASEHOLD_AUTH_TENANT"}, NotWith: "LEASEHOLD_AUTH_TENANT_CLAIM", Entries: byIssuer, Why: twoTenants},
	{
		If:      []string{"LEASEHOLD_TARGET_TOKEN", "LEASEHOLD_TARGET_TOKEN_FILE"},
		NotWith: "LEASEHOLD_TARGET_AUDIENCE", Entries: runsTasks, Why: twoTokens,
	},
	{If: []string{"LEASEHOLD_REDIS_PASSWORD"}, NotWith: "LEASEHOLD_REDIS_PASSWORD_FILE", Entries: onStores,
		Why: "they are two ways to give one password"},
	{If: []string{"LEASEHOLD_TARGET_TOKEN"}, NotWith: "LEASEHOLD_TARGET_TOKEN_FILE", Entries: runsTasks, Why: twoTokens},
	{
		If: []string{"LEASEHOLD_TASK_QUEUE"}, Needs: "LEASEHOLD_TASK_URL", Entries: Serve | FunctionSweep,
		Why: "the URL that the queue delivers to, such as https://worker.example.com/internal/tasks/analysis",
	},
}

func (c *Config) checkRules() error {
	for _, r := range Rules {
		if !r.Entries.Has(c.Entry) {
			continue
		}
		for _, env := range r.If {
			near := func(other string) string { return c.NameBeside(other, env) }
			switch {
			case !c.Given(env):
			case r.Needs != "" && !c.Given(r.Needs):
				return fmt.Errorf("%s needs %s: %s", c.Name(env), near(r.Needs), expand(r.Why, near))
			case r.NotWith != "" && c.Given(r.NotWith):
				return fmt.Errorf("%s and %s cannot both be set: %s", c.Name(env), c.Name(r.NotWith), expand(r.Why, near))
			}
		}
	}
	return nil
}

// check applies the rules that look at values or at the platform.
func (c *Config) check(env map[string]string) error {
	c.CloudRun = env["K_SERVICE"] != ""
	for _, check := range []func(map[string]string) error{
		c.checkListen, c.checkDevelopment, c.checkTenant, c.checkFrontDoor, c.checkBasePath, c.checkOrigins, c.checkStore,
		c.checkTarget, c.checkTimes, c.checkTaskCallers,
	} {
		if err := check(env); err != nil {
			return err
		}
	}
	return nil
}

// checkListen applies PORT, and rejects development mode where other machines could reach it.
func (c *Config) checkListen(env map[string]string) error {
	const listen = "LEASEHOLD_LISTEN"
	if c.Entry != Serve {
		return nil
	}
	if port := env["PORT"]; port != "" && !c.Given(listen) {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("PORT is %q: it must be a whole number from 0 to 65535", port)
		} else if port = strconv.FormatUint(n, 10); c.Authenticates() {
			c.Listen = ":" + port
		} else {
			c.Listen = net.JoinHostPort("127.0.0.1", port)
		}
		c.origins[listen] = "PORT"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q: it must be host:port, such as %s", c.Name(listen), c.Listen, defaultListen)
	case c.Authenticates():
		return nil
	case c.CloudRun:
		return errors.New(
			"on Cloud Run the server needs LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE: development mode, which accepts every caller, is for one machine")
	case !httpapi.Loopback(host) && !c.InsecureListenAnywhere:
		issuer, audience := c.NameBeside("LEASEHOLD_AUTH_ISSUER", listen), c.NameBeside("LEASEHOLD_AUTH_AUDIENCE", listen)
		tokens := c.NameBeside("LEASEHOLD_AUTH_TOKENS", listen)
		return fmt.Errorf(
			"%s %s can be reached from other machines, and without %s or %s every caller there could take and release locks.\n"+
				"Listen on 127.0.0.1, or set %s, or %s and %s; docs/guides/containers.md says what to do in containers of a development machine",
			c.Name(listen), c.Listen, tokens, issuer, tokens, issuer, audience)
	}
	return nil
}

// checkDevelopment keeps development mode of the Cloud Functions to emulators.
func (c *Config) checkDevelopment(env map[string]string) error {
	const accepts = "LEASEHOLD_DEVELOPMENT accepts every caller: "
	switch {
	case !c.Development:
		return nil
	case c.CloudRun:
		return errors.New(accepts + "it is not allowed on Cloud Run")
	case env["FIRESTORE_EMULATOR_HOST"] == "":
		return errors.New(accepts + "it needs FIRESTORE_EMULATOR_HOST")
	case env["LEASEHOLD_AUTH_ISSUER"] != "": // also where the function does not take it
		return errors.New(accepts + "it cannot be set together with LEASEHOLD_AUTH_ISSUER")
	}
	return nil
}

func (c *Config) checkTenant(map[string]string) error {
	const anyone = "every account of the world can get a token of it for any audience"
	claims, public := oidc.PublicIssuers[c.AuthIssuer]
	public = public && c.AuthSubjects == nil && c.AuthRequiredScope == ""
	switch {
	case public && c.AuthTenant != "":
		return fmt.Errorf("%s needs %s with the issuer %s: %s", c.Name("LEASEHOLD_AUTH_TENANT"),
			c.NameBeside("LEASEHOLD_AUTH_SUBJECTS", "LEASEHOLD_AUTH_TENANT"), c.AuthIssuer, anyone)
	case public && c.Given("LEASEHOLD_AUTH_TENANT_CLAIM") && !slices.Contains(claims, c.AuthTenantClaim):
		use := "Set"
		if claims != nil {
			use = "Use a claim of an organization (" + strings.Join(claims, ", ") + "), or set"
		}
		return fmt.Errorf("%s %s admits everybody with the issuer %s: %s, and has a tenant of its choice in it. %s %s and %s",
			c.Name("LEASEHOLD_AUTH_TENANT_CLAIM"), c.AuthTenantClaim, c.AuthIssuer, anyone, use,
			c.NameBeside("LEASEHOLD_AUTH_TENANT", "LEASEHOLD_AUTH_TENANT_CLAIM"),
			c.NameBeside("LEASEHOLD_AUTH_SUBJECTS", "LEASEHOLD_AUTH_TENANT_CLAIM"))
	case c.AuthTenant != "" && c.AuthIssuer != "" && c.Given("LEASEHOLD_AUTH_TENANT_CLAIM"):
		return fmt.Errorf("%s and %s cannot both be set: %s", c.Name("LEASEHOLD_AUTH_TENANT"),
			c.Name("LEASEHOLD_AUTH_TENANT_CLAIM"), twoTenants)
	}
	return nil
}

// checkFrontDoor makes sure that a Lambda function that believes events knows which ones.
func (c *Config) checkFrontDoor(map[string]string) error {
	const front = "LEASEHOLD_FRONT_DOOR"
	switch {
	case c.Entry != LambdaAPI || c.AuthIssuer != "":
		return nil
	case c.FrontDoor == nil:
		return errors.New(
			front +
				" is required without LEASEHOLD_AUTH_ISSUER: the function believes what its events say about callers, and must know " +
				"what sends them: url, http-api, rest-api, or several with commas between them")
	case slices.Contains(c.FrontDoor, "alb"):
		return errors.New(
			front +
				" alb needs LEASEHOLD_AUTH_ISSUER: a load balancer's events name no verified caller, so that the function must verify tokens itself")
	}
	return nil
}

var basePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)
})

func (c *Config) checkBasePath(map[string]string) error {
	if c.BasePath != "" && !basePath().MatchString(c.BasePath) {
		return fmt.Errorf(
			`%s is %q: it must begin with "/", not end with it, and consist of letters, digits, ".", "_", "~" and "-", such as /leasehold`,
			c.Name("LEASEHOLD_BASE_PATH"), c.BasePath)
	}
	// Paths without the base path work as well, so that it must not be the beginning of one.
	if first, _, _ := strings.Cut(strings.TrimPrefix(c.BasePath, "/"), "/"); first == "v1" || first == "internal" {
		return fmt.Errorf("%s is %q: paths of the API begin with /%s, with and without a base path: choose another one",
			c.Name("LEASEHOLD_BASE_PATH"), c.BasePath, first)
	}
	return nil
}

func (c *Config) checkOrigins(map[string]string) error {
	for _, origin := range c.CORSOrigins {
		if err := httpapi.CheckOrigin(origin); err != nil {
			return fmt.Errorf("%s: the origin %q %w", c.Name("LEASEHOLD_CORS_ORIGINS"), origin, err)
		}
	}
	return nil
}

func (c *Config) checkStore(map[string]string) error {
	const store, table = "LEASEHOLD_STORE", "LEASEHOLD_TABLE"
	switch {
	case c.Store == "dynamodb" && c.Table == "":
		return fmt.Errorf("%s dynamodb needs %s: the name of the table", c.Name(store), c.NameBeside(table, store))
	case c.Entry == Worker && c.Store == "memory":
		return fmt.Errorf("%s memory has no analyses: choose the store that they are in", c.Name(store))
	case c.Entry == Directly && c.Store == "memory":
		return fmt.Errorf("%s memory is seen by no other process: choose the store that all of them use",
			c.Name(store))
	case c.Store == "":
		return nil // an entry point with one store
	}
	for _, s := range Of(c.Entry) {
		origin := c.origins[s.Env]
		if of := s.Store(); of != "" && of != c.Store && origin != "" && origin != s.Also {
			return fmt.Errorf("%s is a setting of the store %s, and the store is %s: remove it, or set %s to %s",
				origin, of, c.Store, c.NameBeside(store, s.Env), of)
		}
	}
	return nil
}

func (c *Config) checkTarget(map[string]string) error {
	if c.TargetURL == "" {
		return nil
	}
	if _, err := tasks.NewTarget(c.TargetURL, nil); err != nil {
		return fmt.Errorf("%s: %w", c.Name("LEASEHOLD_TARGET_URL"), err)
	}
	return nil
}

func (c *Config) checkTimes(map[string]string) error {
	if c.Heartbeat > c.TTL/2 {
		return fmt.Errorf(
			"%s is %v: it must be at most half of %s, which is %v, so that the lock survives a heartbeat that fails",
			c.Name("LEASEHOLD_HEARTBEAT"), c.Heartbeat, c.NameBeside("LEASEHOLD_TTL", "LEASEHOLD_HEARTBEAT"), c.TTL)
	}
	return nil
}

// checkTaskCallers makes sure that endpoints for tasks and sweeps that do something know their callers.
func (c *Config) checkTaskCallers(map[string]string) error {
	host, _, _ := net.SplitHostPort(c.Listen) // checkListen has looked at it
	if c.Entry == Serve && c.TaskAuth == "platform" && (c.RunsTasks() || c.Sweeps()) && !c.CloudRun &&
		!httpapi.Loopback(host) {
		return fmt.Errorf(
			"%s platform on %s %s lets every caller run tasks: it is for Cloud Run, which verifies callers, and for this machine alone.\n"+
				"Set %s, or listen on 127.0.0.1", c.Name("LEASEHOLD_TASK_AUTH"), c.Name("LEASEHOLD_LISTEN"), c.Listen,
			c.NameBeside("LEASEHOLD_TASK_ACCOUNT", "LEASEHOLD_TASK_AUTH"))
	}
	if c.RunsTasks() {
		if err := c.checkTaskAccount(c.TaskAccount); err != nil {
			return err
		}
	}
	if c.Sweeps() {
		return c.checkTaskAccount(c.SweepCaller())
	}
	return nil
}

func (c *Config) checkTaskAccount(account string) error {
	cause := "LEASEHOLD_TARGET_URL"
	switch {
	case c.RunsTasks():
	case c.TaskQueue == "":
		cause = "LEASEHOLD_SWEEP_ACCOUNT"
	default:
		cause = "LEASEHOLD_TASK_QUEUE"
	}
	auth, who, audience := c.NameBeside("LEASEHOLD_TASK_AUTH", cause), c.NameBeside("LEASEHOLD_TASK_ACCOUNT", cause),
		c.NameBeside("LEASEHOLD_TASK_AUDIENCE", cause)
	switch {
	case c.TaskAuth == "platform" && account != "" && c.TaskQueue == "":
		return fmt.Errorf("%s platform and %s cannot both be set: the platform decides which accounts may call", auth, who)
	case c.TaskAuth == "platform", account == "" && c.InDevelopment():
		return nil
	case account == "":
		return fmt.Errorf("%s is required: the service account of the queue's tokens. "+
			"Only if the platform verifies callers, as Cloud Run does without public access, set %s to platform", who, auth)
	case c.TokenAudience() == "":
		return fmt.Errorf(
			"%s is required: the audience of the queue's tokens, which is the task's URL unless the task says otherwise",
			audience)
	}
	return nil
}

// InDevelopment reports whether callers are not authenticated.
func (c *Config) InDevelopment() bool { return c.Development || c.Entry == Serve && !c.Authenticates() }

// RunsTasks reports whether the endpoint for tasks is configured.
func (c *Config) RunsTasks() bool { return c.TaskAuth != "" && c.TargetURL != "" }

// Sweeps reports whether the endpoint for sweeps is configured: it has a queue for analyses, or a caller of its own, or
// the platform verifies callers.
func (c *Config) Sweeps() bool {
	switch c.Entry {
	case Serve:
		return c.TaskQueue != "" || c.SweepAccount != "" || c.TaskAuth == "platform" && c.CloudRun
	case FunctionSweep:
		return c.TaskQueue != "" || c.SweepAccount != "" || c.TaskAuth == "platform" || c.Development
	default:
		return false
	}
}

// TokenAudience is the audience of the tokens of the queue and of the scheduler.
func (c *Config) TokenAudience() string { return cmp.Or(c.TaskAudience, c.TaskURL) }

// SweepCaller is the account of the scheduler's tokens.
func (c *Config) SweepCaller() string { return cmp.Or(c.SweepAccount, c.TaskAccount) }
