package settings

import (
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Config holds the settings of one entry point, checked, with their defaults. Fields that the entry point does not take
// are empty. Each field is named after its variable.
type Config struct {
	Entry    Entry
	CloudRun bool // this is Cloud Run, or Cloud Functions

	Listen                         string
	InsecureListenAnywhere         bool
	Beside                         bool
	BasePath                       string
	Console                        bool
	FrontDoor                      []string
	CORSOrigins                    []string
	RequestTimeout                 time.Duration
	ShutdownDelay, ShutdownTimeout time.Duration
	MaxConcurrent                  int64
	MaxWait                        time.Duration // 0: none is held
	MaxWaiting                     int64
	TenantRate, SubjectRate        int64
	RateWithoutStore               string
	MaxLocksPerTenant              int64
	MaxRunsPerTenant               int64
	MaxClustersPerTenant           int64
	MaxIdentitiesPerCluster        int64
	Log, LogLevel                  string
	LogSample                      int64
	AuditLog                       string
	AuditSize                      int64 // MiB; 0: no bound
	AuditFiles                     int64
	MetricsListen                  string
	MetricsTenants, MetricsEMF     bool
	MetricsSurvey                  time.Duration // 0: never

	Store                   string
	Retention               time.Duration // Forever: off
	StateRetention          time.Duration // Forever: off
	PlacementJoinDelay      time.Duration // 0: off
	RecordRefusals          time.Duration // 0: off
	Data                    string
	Project, Database, Root string
	Table                   string
	CreateTable             bool
	Region, Endpoint        string
	MaxSkew                 time.Duration
	IndexShards             int64
	FirestoreIndexShards    int64
	RedisAddr, RedisUser    string
	RedisPassword           string
	RedisPasswordFile       string
	RedisSentinelMaster     string
	RedisSentinelUser       string
	RedisSentinelPassword   string
	RedisTLS                bool
	RedisDB                 int64
	RedisPrefix             string
	RedisShards             int64
	RedisAllowEviction      bool

	AuthTokens, TLSCert, TLSKey           string
	AuthIssuer, AuthAudience, AuthJWKSURL string
	AuthClients                           []string
	AuthTenantClaim, AuthTenant           string
	AuthSubjects, AuthAdmins, AuthWorkers []string
	AuthOperators                         []string
	AuthAdminScope, AuthWorkerScope       string
	AuthOperateScope                      string
	AuthIDScope                           string
	AuthIDSubjects                        []string
	AuthRequiredScope                     string
	AuthLeeway                            time.Duration
	Development                           bool

	IDServices            []machineid.ServiceConfig // nil: the default service
	IDServicesClosed      bool
	IDMaxLeases           int64
	IDMaxLeasesPerSubject int64

	QueueURL                                string
	QueueTenantSeparator                    string
	Concurrency                             int64
	TargetURL                               string
	TargetToken, TargetTokenFile            string
	TargetAudience                          string
	TTL, Heartbeat                          time.Duration // a Heartbeat of 0 is a fifth of TTL
	MaxFailures                             int64
	TaskGrace                               time.Duration
	CreateAnalyses                          bool
	OnLocked                                string
	TaskTimeout                             time.Duration
	TaskAuth, TaskIssuer                    string
	TaskAudience, TaskAccount, SweepAccount string
	TaskQueue, TaskURL                      string
	MaxTakeovers                            int64
	RequeueEvery, SweepGrace                time.Duration

	origins map[string]string // what set a setting, by its variable: the variable, another one, or a flag
}

// Level is the lowest level of lines in the log.
func (c *Config) Level() slog.Level {
	switch c.LogLevel {
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "none":
		return math.MaxInt
	default:
		return slog.LevelInfo
	}
}

// Authentication says in words who authenticates callers. otherwise is what does without an issuer and tokens.
func (c *Config) Authentication(otherwise string) string {
	switch {
	case c.AuthIssuer != "" && c.AuthTokens != "":
		return "tokens of " + c.AuthIssuer + " and of " + c.AuthTokens
	case c.AuthIssuer != "":
		return "tokens of " + c.AuthIssuer
	case c.AuthTokens != "":
		return "tokens of " + c.AuthTokens
	default:
		return otherwise
	}
}

// Authenticates reports whether callers must say who they are: by tokens of an issuer, or of a file.
func (c *Config) Authenticates() bool { return c.AuthIssuer != "" || c.AuthTokens != "" }

// GuardedFile is a file that grants rights or holds a secret.
type GuardedFile struct{ Name, Path string } // the name is what set it, see [Config.Name]

// GuardedFiles are those that the settings name.
func (c *Config) GuardedFiles() (files []GuardedFile) {
	for _, s := range Of(c.Entry) {
		if !s.Guarded {
			continue
		}
		if path, ok := s.field(c).(*string); ok && *path != "" {
			files = append(files, GuardedFile{c.Name(s.Env), *path})
		}
	}
	return files
}

// Forever is the duration of a setting that is off: longer than anything that is measured with it.
const Forever = 100 * 365 * 24 * time.Hour

// Given reports whether the environment or a flag set the setting of a variable.
func (c *Config) Given(env string) bool { return c.origins[env] != "" }

// Name is how an error calls the setting of a variable: what set it, or else the flag of a command and the variable of
// a function.
func (c *Config) Name(env string) string {
	if o := c.origins[env]; o != "" {
		return o
	}
	if s, ok := Find(env); ok && c.Entry.command() && s.Entries.Has(c.Entry) && !s.Secret {
		return "--" + s.Flag()
	}
	return env
}

// NameBeside is how an error about the setting of the variable at calls another one, env: what set it, or else as at
// was set, by a flag or by a variable.
func (c *Config) NameBeside(env, at string) string {
	if o := c.origins[at]; o != "" && !strings.HasPrefix(o, "--") && !c.Given(env) {
		return env
	}
	return c.Name(env)
}
