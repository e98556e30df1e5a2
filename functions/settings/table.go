package settings

// Groups of settings, in the order of help and documentation.
const (
	groupServer     = "Server"
	groupTelemetry  = "Telemetry"
	groupStore      = "Store"
	groupSQLite     = "Store sqlite"
	groupFirestore  = "Store firestore"
	groupDynamoDB   = "Store dynamodb"
	groupRedis      = "Store redis"
	groupAuth       = "Authentication"
	groupIDs        = "Machine IDs"
	groupTasks      = "Analyses from a queue"
	groupTaskAuth   = "Callers of the internal endpoints"
	groupSweep      = "Sweep"
	defaultListen   = "127.0.0.1:8080"
	onStores        = Serve | Worker | Maintain | Directly
	onFirestore     = onStores | functions
	onDynamoDB      = onStores | lambdas
	runsTasks       = Serve | Worker | FunctionTasks | LambdaWorker
	internalCallers = Serve | FunctionTasks | FunctionSweep
	sweeps          = Serve | FunctionSweep | LambdaSweep
)

// Table lists all settings.
var Table = []Setting{
	{
		Env: "LEASEHOLD_LISTEN", Group: groupServer, Type: Text, Default: defaultListen, Placeholder: "HOST:PORT",
		Entries: Serve,
		Help: "Address to listen on; port 0 takes a free one. An address that other machines can reach needs {AUTH_TOKENS} or {AUTH_ISSUER}. " +
			"If only the variable PORT is set, that port: on all addresses with one of them, otherwise on 127.0.0.1.",
		field: func(c *Config) any { return &c.Listen },
	},
	{
		Env: "LEASEHOLD_INSECURE_LISTEN_ANYWHERE", Group: groupServer, Type: Switch, Entries: Serve,
		Help: "Let development mode, which accepts every caller, listen on an address that other machines can reach, under any host name. " +
			"Only for containers on a development machine.",
		More:  "The internal endpoints still accept callers on the same machine only. [containers.md](../guides/containers.md) has recipes.",
		field: func(c *Config) any { return &c.InsecureListenAnywhere },
	},
	{
		Env: "LEASEHOLD_BASE_PATH", Group: groupServer, Type: Text, Placeholder: "PATH", Entries: apis | functions,
		Help: "Path under which callers reach the server, such as /leasehold: it is removed from the front of request paths. " +
			"Paths without it work as well.",
		More:  "On Lambda: what a custom domain of API Gateway maps to the API.",
		field: func(c *Config) any { return &c.BasePath },
	},
	{
		Env: "LEASEHOLD_CONSOLE", Group: groupServer, Type: Switch, Default: "true", Entries: apis,
		Help: "Serve the console, a web page for people who operate the server, at /console/, and remember for it how the last requests to the " +
			"process ended.",
		More:     "See [console.md](../guides/console.md).",
		Variants: []Variant{{Entries: FunctionAPI | LambdaAPI, Default: "false"}},
		field:    func(c *Config) any { return &c.Console },
	},
	{
		Env: "LEASEHOLD_FRONT_DOOR", Group: groupServer, Type: List, Choices: []string{"url", "http-api", "rest-api", "alb"},
		Entries: LambdaAPI, NotEmpty: true,
		Help: "What hands requests to the function: a function URL, an HTTP API, a REST API, an Application Load Balancer, or several. Events of other " +
			"kinds are rejected. Required without {AUTH_ISSUER}, because the function then believes what events say about callers. With it the default is all.",
		field: func(c *Config) any { return &c.FrontDoor },
	},
	{
		Env: "LEASEHOLD_CORS_ORIGINS", Group: groupServer, Type: List, Placeholder: "ORIGIN,...", Entries: apis,
		Help:  "Origins whose web pages may call the API, such as https://app.example.com. Without it only pages of the server's own origin may.",
		More:  "No path, no wildcards. Leave it out where an API Gateway answers for it.",
		field: func(c *Config) any { return &c.CORSOrigins },
	},
	{
		Env: "LEASEHOLD_REQUEST_TIMEOUT", Group: groupServer, Type: Duration, Default: "10s", Entries: apis,
		Help:  "Time limit of one request.",
		field: func(c *Config) any { return &c.RequestTimeout },
	},
	{
		Env: "LEASEHOLD_MAX_CONCURRENT", Group: groupServer, Type: Number, Default: "256", Min: "0", Placeholder: "N",
		Entries: apis,
		Help: "Requests of authenticated callers, other than lists, that one process works on at once. A tenant has three quarters of them, and a subject " +
			"half. As many more wait for half a second at most, and tenants take turns; the rest is OVERLOADED. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxConcurrent },
	},
	{
		Env: "LEASEHOLD_MAX_WAIT", Group: groupServer, Type: Duration, Default: "20s", Min: "0s", Max: "20s", Entries: apis,
		Variants: []Variant{{Entries: FunctionAPI | LambdaAPI, Default: "0s", Max: "20s"}},
		Help: "How long a response is held for a caller that waits, for a lock or for events, whatever it asks for. One that would wait for longer is told " +
			"when to come again, and keeps its place in line until then. 0s holds no response.",
		More:  "An instance that serves one request at a time keeps others waiting meanwhile; raise it where instances serve many: [gcp.md](../guides/gcp.md#waiting).",
		field: func(c *Config) any { return &c.MaxWait },
	},
	{
		Env: "LEASEHOLD_MAX_WAITING", Group: groupServer, Type: Number, Default: "1024", Min: "0", Placeholder: "N",
		Entries: apis,
		Help: "Responses that one process holds at once for callers that wait, for locks and for events each. A tenant has a quarter of them, and a subject half " +
			"of its tenant's. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxWaiting },
	},
	{
		Env: "LEASEHOLD_TENANT_RATE", Group: groupServer, Type: Number, Default: "0", Min: "0", Placeholder: "N",
		Entries: apis,
		Help: "Requests a second that all processes together accept for one tenant; more is RATE_LIMITED. Two seconds' worth may come at once. " +
			"A page of a list counts as one request for each 64 KiB that are read for it. 0 is no bound.",
		field: func(c *Config) any { return &c.TenantRate },
	},
	{
		Env: "LEASEHOLD_SUBJECT_RATE", Group: groupServer, Type: Number, Default: "0", Min: "0", Placeholder: "N",
		Entries: apis,
		Help:    "The same for one subject of a tenant.",
		field:   func(c *Config) any { return &c.SubjectRate },
	},
	{
		Env: "LEASEHOLD_RATE_WITHOUT_STORE", Group: groupServer, Type: Text, Default: "accept",
		Choices: []string{"accept", "refuse"}, Entries: apis,
		Help: "What becomes of requests while the store cannot be asked for the rate of their callers: \"accept\" holds callers to the rate in " +
			"each process by itself, \"refuse\" responds UNAVAILABLE.",
		field: func(c *Config) any { return &c.RateWithoutStore },
	},
	{
		Env: "LEASEHOLD_MAX_LOCKS_PER_TENANT", Group: groupServer, Type: Number, Default: "0", Min: "0",
		Placeholder: "N", Entries: apis,
		Help: "Locks that one tenant may have, also free ones that are still kept; another one is LOCK_LIMIT. The same for its fences. " +
			"All processes share one tally, which the sweep corrects. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxLocksPerTenant },
	},
	{
		Env: "LEASEHOLD_MAX_RUNS_PER_TENANT", Group: groupServer, Type: Number, Default: "0", Min: "0",
		Placeholder: "N", Entries: apis,
		Help: "Runs that one tenant may have a record of, as each Idempotency-Key is one, also those that have finished and are still kept; another one is " +
			"RUN_LIMIT. All processes share one tally, which the sweep corrects. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxRunsPerTenant },
	},
	{
		Env: "LEASEHOLD_MAX_CLUSTERS_PER_TENANT", Group: groupServer, Type: Number, Default: "0", Min: "0",
		Placeholder: "N", Entries: apis,
		Help: "Clusters of placement that one tenant can set up; the join to another one is PLACEMENT_LIMIT. " +
			"All processes share one tally, which the sweep corrects. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxClustersPerTenant },
	},
	{
		Env: "LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER", Group: groupServer, Type: Number, Default: "0", Min: "0",
		Placeholder: "N", Entries: apis,
		Help: "Identities that one cluster of placement may have, also free ones that are still kept; the claim of another one is " +
			"PLACEMENT_LIMIT. All processes share one tally, which the sweep corrects. 0 is no bound.",
		field: func(c *Config) any { return &c.MaxIdentitiesPerCluster },
	},
	{
		Env: "LEASEHOLD_SHUTDOWN_DELAY", Group: groupServer, Type: Duration, Default: "0s", Min: "0s", Entries: Serve,
		Help: "Time after SIGTERM or Ctrl-C in which the server is not ready but still serves, so that a load balancer sends requests elsewhere before it stops. " +
			"A second signal ends it.",
		More:  "Longer than the balancer needs to notice ([kubernetes.md](../guides/kubernetes.md#how-a-server-stops)).",
		field: func(c *Config) any { return &c.ShutdownDelay },
	},
	{
		Env: "LEASEHOLD_SHUTDOWN_TIMEOUT", Group: groupServer, Type: Duration, Default: "8s", Entries: Serve | Worker,
		Variants: []Variant{{Entries: Worker, Default: "20s"}},
		Help:     "Time for requests or runs in flight after SIGTERM or Ctrl-C; what is left then is cancelled.",
		More:     "It must be shorter than the platform waits before it kills: 10 s on Cloud Run and with `docker stop`, 30 s on Kubernetes and ECS. Runs of `leasehold serve` are cancelled at once.",
		field:    func(c *Config) any { return &c.ShutdownTimeout },
	},
	{
		Env: "LEASEHOLD_LOG", Group: groupServer, Type: Text, Default: "text",
		Choices: []string{"text", "json", "cloud-logging"}, Entries: Serve | Worker | Maintain,
		Help:  "Log format on standard error; cloud-logging is JSON as Google Cloud's Cloud Logging reads it.",
		More:  "Cloud Functions always write the latter, Lambda functions what AWS_LAMBDA_LOG_FORMAT says ([logs.md](../guides/logs.md)).",
		field: func(c *Config) any { return &c.Log },
	},
	{
		Env: "LEASEHOLD_LOG_LEVEL", Group: groupServer, Type: Text, Default: "info",
		Choices: []string{"info", "warn", "error", "none"},
		Entries: Serve | Worker | Maintain | functions | lambdas,
		Help:    "Lines of a lower level are not written. Audit events are, whatever this is.",
		More:    "Leave AWS_LAMBDA_LOG_LEVEL at INFO: a higher one drops audit events and metrics.",
		field:   func(c *Config) any { return &c.LogLevel },
	},
	{
		Env: "LEASEHOLD_LOG_SAMPLE", Group: groupServer, Type: Number, Default: "1", Min: "0", Max: "1000000",
		Placeholder: "N", Entries: apis,
		Help: "One in this many requests that were carried out has a line in the log, by chance; 0 is none. Requests that were rejected or failed always " +
			"have one, and so do audit events.",
		field: func(c *Config) any { return &c.LogSample },
	},
	{
		Env: "LEASEHOLD_TLS_CERT", Group: groupServer, Type: File, Placeholder: "FILE", Entries: Serve,
		Help:  "Certificate of the server, with those of its issuers, in PEM: the server then speaks TLS. It is read again when it changes.",
		field: func(c *Config) any { return &c.TLSCert },
	},
	{
		Env: "LEASEHOLD_TLS_KEY", Group: groupServer, Type: File, Placeholder: "FILE", Guarded: true, Entries: Serve,
		Help:  "Key of the certificate, in PEM.",
		field: func(c *Config) any { return &c.TLSKey },
	},
	{
		Env: "LEASEHOLD_AUDIT_LOG", Group: groupServer, Type: File, Placeholder: "FILE", Guarded: true, Entries: Serve,
		Help: "File that audit events are appended to, each a line of JSON. Without it they are in the log. It is made with access for its owner alone.",
		More: "An event that the file does not take is in the log. Those of requests that were rejected before it was known who sent them are in FILE.rejected, " +
			"of four files of 16 MiB, so that strangers push out no other. Each server has files of its own; keep them off the file system of the store " +
			"([logs.md](../guides/logs.md#where-audit-events-are-kept)).",
		field: func(c *Config) any { return &c.AuditLog },
	},
	{
		Env: "LEASEHOLD_AUDIT_SIZE", Group: groupServer, Type: Number, Default: "64", Min: "0", Max: "65536", Placeholder: "MIB",
		Entries: Serve,
		Help: "MiB that the file of {AUDIT_LOG} has at most: then it becomes FILE.1, that one FILE.2 and so on. 0 is no bound, for a program that rotates it; " +
			"a file that was renamed is made anew within a second.",
		field: func(c *Config) any { return &c.AuditSize },
	},
	{
		Env: "LEASEHOLD_AUDIT_FILES", Group: groupServer, Type: Number, Default: "16", Min: "1", Max: "1000", Placeholder: "N",
		Entries: Serve,
		Help:    "Files of {AUDIT_LOG} that are kept, with the one that is written to; the oldest is removed.",
		field:   func(c *Config) any { return &c.AuditFiles },
	},

	{
		Env: "LEASEHOLD_METRICS_LISTEN", Group: groupTelemetry, Type: Text, Placeholder: "HOST:PORT", Entries: Serve | Worker,
		Help:  "Address of a page for Prometheus, GET /metrics, such as 127.0.0.1:9464. Without it there is none.",
		More:  "It has no authentication: choose an address that only the scraper reaches.",
		field: func(c *Config) any { return &c.MetricsListen },
	},
	{
		Env: "LEASEHOLD_METRICS_TENANTS", Group: groupTelemetry, Type: Switch, Entries: Serve,
		Help:  "Count operations by tenant, too. Each tenant is then some time series more.",
		field: func(c *Config) any { return &c.MetricsTenants },
	},
	{
		Env: "LEASEHOLD_METRICS_EMF", Group: groupTelemetry, Type: Switch, Entries: lambdas,
		Help:  "Write metrics as lines of the log, in the embedded metric format, after each invocation: CloudWatch makes metrics of them in the namespace Leasehold/TABLE, that of the table.",
		More:  "CloudWatch bills the lines, and each combination of dimensions: [metrics.md](metrics.md#cloudwatch).",
		field: func(c *Config) any { return &c.MetricsEMF },
	},
	{
		Env: "LEASEHOLD_METRICS_SURVEY", Group: groupTelemetry, Type: Duration, Default: "0s", Min: "0s", Entries: Serve,
		Help:  "Count machine IDs, analyses and members in the store about once in this time, for metrics. 0s is never.",
		More:  "It reads all pages of machine IDs, up to 100 000 analyses, and members of up to 1000 clusters, which DynamoDB and Firestore bill. One process of several is enough.",
		field: func(c *Config) any { return &c.MetricsSurvey },
	},

	{
		Env: "LEASEHOLD_STORE", Group: groupStore, Type: Text, Default: "sqlite", Entries: onStores,
		Choices:  []string{"sqlite", "memory", "firestore", "dynamodb", "redis"},
		Help:     "Where locks are stored. The store memory is lost when the server ends.",
		More:     "`leasehold lock run` and `once` call a server unless the flag `--store` says otherwise; the variable alone does not.",
		Variants: []Variant{{Entries: Directly, Help: "Open this store, instead of calling a server. The variable alone does not."}},
		field:    func(c *Config) any { return &c.Store },
	},
	{
		Env: "LEASEHOLD_RETENTION", Group: groupStore, Type: Duration, Default: "720h", Min: "1h", Off: true,
		Entries: apis | FunctionSweep | LambdaSweep,
		Help: "How long a lock is kept after its lease has ended, and of placement an activation that is free and a member that is gone; then " +
			"the store may remove it. Tokens of what comes back are higher all the same. The value off keeps them for ever. " +
			"An activation with a state stays; see LEASEHOLD_STATE_RETENTION.",
		More:  "DynamoDB and Firestore need time to live set up for it: see [stores.md](../guides/stores.md#what-is-kept-and-for-how-long).",
		field: func(c *Config) any { return &c.Retention },
	},
	{
		Env: "LEASEHOLD_STATE_RETENTION", Group: groupStore, Type: Duration, Min: "1h", Off: true,
		Entries: apis | FunctionSweep | LambdaSweep,
		Help: "How long the state of an identity is kept in placement once no member has it; then the store may remove it. " +
			"Without it, or with the value off, states are kept for ever, unless they are empty. What is shorter than LEASEHOLD_RETENTION is as long as that.",
		field: func(c *Config) any { return &c.StateRetention },
	},
	{
		Env: "LEASEHOLD_PLACEMENT_JOIN_DELAY", Group: groupStore, Type: Duration, Default: "0s", Min: "0s", Max: "2s",
		Entries: Serve,
		Help: "How long a member that joins a cluster of placement waits for others that come to the same process, so that one epoch has up to 24 " +
			"of them. One that replaces a member does not wait, nor one whose lease lasts for less than four times as long, or whose request for less " +
			"than twice as long. 0s is not at all.",
		More:  "See [placement.md](../guides/placement.md#sizing).",
		field: func(c *Config) any { return &c.PlacementJoinDelay },
	},
	{
		Env: "LEASEHOLD_RECORD_REFUSALS", Group: groupStore, Type: Duration, Default: "0s", Min: "0s", Entries: apis,
		Help: "Keep with each lock who was refused it last, and when. That costs a write when a request is refused, for each lock once in this time at " +
			"the most, by each process. 0s records nothing.",
		field: func(c *Config) any { return &c.RecordRefusals },
	},
	{
		Env: "LEASEHOLD_DATA", Group: groupSQLite, Type: File, Placeholder: "DIR", Entries: onStores,
		Help:  "Folder of the database file. The default is Leasehold's folder in the user's data folder.",
		field: func(c *Config) any { return &c.Data },
	},
	{
		Env: "LEASEHOLD_BESIDE", Group: groupSQLite, Type: Switch, Entries: Serve,
		Help:  "Start although another server runs on the same database: both share it. Without it, such a server does not start.",
		field: func(c *Config) any { return &c.Beside },
	},
	{
		Env: "LEASEHOLD_PROJECT", Group: groupFirestore, Type: Text, Placeholder: "ID", Also: "GOOGLE_CLOUD_PROJECT",
		Entries: onFirestore,
		Help:    "Google Cloud project of the database. Without it: GOOGLE_CLOUD_PROJECT, then the project of the credentials.",
		field:   func(c *Config) any { return &c.Project },
	},
	{
		Env: "LEASEHOLD_DATABASE", Group: groupFirestore, Type: Text, Default: "(default)", Placeholder: "ID",
		Entries: onFirestore,
		Help:    "Database of the project. FIRESTORE_EMULATOR_HOST is honored.",
		field:   func(c *Config) any { return &c.Database },
	},
	{
		Env: "LEASEHOLD_ROOT", Group: groupFirestore, Type: Text, Placeholder: "PATH", Entries: onFirestore,
		Help:  "Document below which everything is kept, such as leasehold/v1. The default is the top level.",
		field: func(c *Config) any { return &c.Root },
	},
	{
		Env: "LEASEHOLD_FIRESTORE_INDEX_SHARDS", Group: groupFirestore, Type: Number, Default: "0", Min: "0", Max: "64",
		Placeholder: "N", Entries: onFirestore,
		Help:  "Shards that analyses are spread over in the index of the sweep, from 8 to 64, or 0 for none: for more than some 500 writes a second.",
		More:  "[stores.md](../guides/stores.md#firestore) says what else it takes. It can be raised at any time, in one process after the other.",
		field: func(c *Config) any { return &c.FirestoreIndexShards },
	},
	{
		Env: "LEASEHOLD_TABLE", Group: groupDynamoDB, Type: Text, Placeholder: "NAME", Entries: onDynamoDB, Required: lambdas,
		Help:  "Name of the table.",
		field: func(c *Config) any { return &c.Table },
	},
	{
		Env: "LEASEHOLD_CREATE_TABLE", Group: groupDynamoDB, Type: Switch, Entries: Serve | Worker,
		Help:  "Create the table if it is missing, for development.",
		field: func(c *Config) any { return &c.CreateTable },
	},
	{
		Env: "LEASEHOLD_REGION", Group: groupDynamoDB, Type: Text, Placeholder: "NAME", Entries: onDynamoDB,
		Help:  "AWS region of the table. Without it: AWS_REGION, then the shared AWS configuration.",
		field: func(c *Config) any { return &c.Region },
	},
	{
		Env: "LEASEHOLD_ENDPOINT", Group: groupDynamoDB, Type: Text, Placeholder: "URL", Entries: onDynamoDB,
		Help:  "Endpoint of DynamoDB, such as an emulator. The default is the region's.",
		field: func(c *Config) any { return &c.Endpoint },
	},
	{
		Env: "LEASEHOLD_MAX_SKEW", Group: groupDynamoDB, Type: Duration, Default: "1s", Entries: onDynamoDB,
		Help:  "How far this machine's clock may be from DynamoDB's before requests fail with CLOCK_SKEW.",
		field: func(c *Config) any { return &c.MaxSkew },
	},
	{
		Env: "LEASEHOLD_INDEX_SHARDS", Group: groupDynamoDB, Type: Number, Default: "8", Min: "8", Max: "64",
		Placeholder: "N", Entries: onDynamoDB,
		Help:  "Shards that analyses are spread over in the table's index. Each takes some 500 acquires a second.",
		More:  "It can be raised at any time, in one process after the other; a sweep sends a request for each shard of the highest number that was ever used.",
		field: func(c *Config) any { return &c.IndexShards },
	},
	{
		Env: "LEASEHOLD_REDIS_ADDR", Group: groupRedis, Type: Text, Default: "127.0.0.1:6379", Placeholder: "HOST:PORT",
		Entries: onStores,
		Help: "The server, or any member of a cluster. A URL works too: redis://user:password@host:6379/0, rediss:// for TLS. " +
			"Set a URL with a password in the environment: other users can read command lines.",
		field: func(c *Config) any { return &c.RedisAddr },
	},
	{
		Env: "LEASEHOLD_REDIS_SENTINEL_MASTER", Group: groupRedis, Type: Text, Placeholder: "NAME", Entries: onStores,
		NotEmpty: true,
		Help:     "Name by which Redis Sentinels know the primary.",
		More: "{REDIS_ADDR} is then the HOST:PORT of the Sentinels, with commas between them. Leasehold asks them for the primary, and follows a " +
			"failover by itself. {REDIS_TLS} is for the connections with them, too.",
		field: func(c *Config) any { return &c.RedisSentinelMaster },
	},
	{
		Env: "LEASEHOLD_REDIS_SENTINEL_USER", Group: groupRedis, Type: Text, Placeholder: "NAME", Entries: onStores,
		Help:  "User to log in as at the Sentinels, if they ask for one.",
		field: func(c *Config) any { return &c.RedisSentinelUser },
	},
	{
		Env: "LEASEHOLD_REDIS_SENTINEL_PASSWORD", Group: groupRedis, Type: Text, Secret: true, Entries: onStores,
		Help:  "Password for the Sentinels.",
		field: func(c *Config) any { return &c.RedisSentinelPassword },
	},
	{
		Env: "LEASEHOLD_REDIS_USER", Group: groupRedis, Type: Text, Placeholder: "NAME", Entries: onStores,
		Help:  "User to log in as. The password is in {REDIS_PASSWORD}, in the file {REDIS_PASSWORD_FILE} or in the URL.",
		field: func(c *Config) any { return &c.RedisUser },
	},
	{
		Env: "LEASEHOLD_REDIS_PASSWORD", Group: groupRedis, Type: Text, Secret: true, Entries: onStores,
		Help:  "Password of the user.",
		field: func(c *Config) any { return &c.RedisPassword },
	},
	{
		Env: "LEASEHOLD_REDIS_PASSWORD_FILE", Group: groupRedis, Type: File, Placeholder: "FILE", Guarded: true, Entries: onStores,
		Help:  "File with the password instead, read again for each new connection: what replaces it needs no restart.",
		field: func(c *Config) any { return &c.RedisPasswordFile },
	},
	{
		Env: "LEASEHOLD_REDIS_TLS", Group: groupRedis, Type: Switch, Entries: onStores,
		Help:  "Connect with TLS.",
		field: func(c *Config) any { return &c.RedisTLS },
	},
	{
		Env: "LEASEHOLD_REDIS_DB", Group: groupRedis, Type: Number, Default: "0", Min: "0", Placeholder: "N",
		Entries: onStores,
		Help:    "Number of the database. A cluster has only 0.",
		field:   func(c *Config) any { return &c.RedisDB },
	},
	{
		Env: "LEASEHOLD_REDIS_PREFIX", Group: groupRedis, Type: Text, Default: "leasehold", Placeholder: "NAME",
		Entries: onStores,
		Help:    "Prefix of every key, in braces.",
		field:   func(c *Config) any { return &c.RedisPrefix },
	},
	{
		Env: "LEASEHOLD_REDIS_SHARDS", Group: groupRedis, Type: Number, Default: "1", Min: "1", Max: "64", Placeholder: "N",
		Entries: onStores,
		Help:    "Parts that the documents are spread over by their tenant, each in a hash slot of its own, for a cluster.",
		More:    "Decide before the first document is written: with another number Leasehold does not start.",
		field:   func(c *Config) any { return &c.RedisShards },
	},
	{
		Env: "LEASEHOLD_REDIS_ALLOW_EVICTION", Group: groupRedis, Type: Switch, Entries: onStores,
		Help: "Use a server that may evict documents when its memory is short (maxmemory with a maxmemory-policy of allkeys-*).",
		More: "An evicted lock is free before its time. Without this Leasehold does not start on such a server, and stops granting on one that " +
			"becomes such a server; with it, `/readyz` fails while the server evicts.",
		field: func(c *Config) any { return &c.RedisAllowEviction },
	},

	{
		Env: "LEASEHOLD_AUTH_ISSUER", Group: groupAuth, Type: Text, Placeholder: "URL", Entries: apis, NotEmpty: true,
		Help: "OpenID Connect issuer whose tokens are accepted.",
		More: "Without it, `leasehold serve` runs in development mode, for callers on the same machine only; a Cloud Function rejects all " +
			"callers; a Lambda function accepts the callers that API Gateway or IAM has verified, as {FRONT_DOOR} says.",
		field: func(c *Config) any { return &c.AuthIssuer },
	},
	{
		Env: "LEASEHOLD_AUTH_TOKENS", Group: groupAuth, Type: File, Placeholder: "FILE", Guarded: true, Entries: Serve,
		Help: "File of tokens that are accepted, as leasehold token new makes it: for servers without an issuer, or beside one. " +
			"It is read again when it changes.",
		More: "It has hashes of the tokens, and for each its subject, tenant, rights and end: see " +
			"[authentication.md](../guides/authentication.md#tokens-in-a-file).",
		field: func(c *Config) any { return &c.AuthTokens },
	},
	{
		Env: "LEASEHOLD_AUTH_AUDIENCE", Group: groupAuth, Type: Text, Placeholder: "NAME", Entries: apis,
		Help:  "Audience that tokens must be meant for. Required with {AUTH_ISSUER}.",
		field: func(c *Config) any { return &c.AuthAudience },
	},
	{
		Env: "LEASEHOLD_AUTH_CLIENTS", Group: groupAuth, Type: List, Placeholder: "CLIENT,…", Entries: apis, NotEmpty: true,
		Help: "Clients whose tokens are accepted without an audience, by the claim client_id. The default is none.",
		More: "For Amazon Cognito, whose access tokens have no audience. A token that has one must be meant for {AUTH_AUDIENCE}, whatever " +
			"its client.",
		field: func(c *Config) any { return &c.AuthClients },
	},
	{
		Env: "LEASEHOLD_AUTH_JWKS_URL", Group: groupAuth, Type: Text, Placeholder: "URL", Entries: apis,
		Help:  "URL of the issuer's keys. The default is the one in its discovery document.",
		field: func(c *Config) any { return &c.AuthJWKSURL },
	},
	{
		Env: "LEASEHOLD_AUTH_TENANT_CLAIM", Group: groupAuth, Type: Text, Default: "tenant_id", Placeholder: "CLAIM",
		Entries: apis,
		Help:    "Claim with the caller's tenant.",
		field:   func(c *Config) any { return &c.AuthTenantClaim },
	},
	{
		Env: "LEASEHOLD_AUTH_TENANT", Group: groupAuth, Type: Text, Placeholder: "TENANT", Entries: apis,
		Help: "Tenant of all callers, if their tokens have no claim for it.",
		More: "Lambda api without an issuer: the tenant of IAM callers; with {AUTH_SUBJECTS}, of all callers that it lists, whatever " +
			"their tokens claim.",
		field: func(c *Config) any { return &c.AuthTenant },
	},
	{
		Env: "LEASEHOLD_AUTH_SUBJECTS", Group: groupAuth, Type: List, Placeholder: "SUBJECT,…", Entries: apis, NotEmpty: true,
		Help: "Subjects that belong to {AUTH_TENANT}; all others are rejected. The default is all. Required with a public issuer, " +
			"such as https://accounts.google.com.",
		More:  "The subject of an IAM caller is its ARN; that of a role is without the session name.",
		field: func(c *Config) any { return &c.AuthSubjects },
	},
	{
		Env: "LEASEHOLD_AUTH_REQUIRED_SCOPE", Group: groupAuth, Type: Text, Placeholder: "SCOPE", Entries: apis,
		Help:  "Scope that every token must have. The default is none.",
		More:  "For an issuer that gives tokens to accounts which Leasehold is not meant for.",
		field: func(c *Config) any { return &c.AuthRequiredScope },
	},
	{
		Env: "LEASEHOLD_AUTH_ADMIN_SCOPE", Group: groupAuth, Type: Text, Default: "leasehold:admin", Placeholder: "SCOPE",
		Entries: apis,
		Help:    "Scope of administrators, who may do everything in their tenant.",
		field:   func(c *Config) any { return &c.AuthAdminScope },
	},
	{
		Env: "LEASEHOLD_AUTH_ADMINS", Group: groupAuth, Type: List, Placeholder: "SUBJECT,…", Entries: apis,
		Help:  "Subjects that are administrators of their tenant without that scope.",
		More:  "The subject of an IAM caller is its ARN.",
		field: func(c *Config) any { return &c.AuthAdmins },
	},
	{
		Env: "LEASEHOLD_AUTH_OPERATE_SCOPE", Group: groupAuth, Type: Text, Default: "leasehold:operate", Placeholder: "SCOPE",
		Entries: apis,
		Help:    "Scope of operators, who may mend what belongs to no tenant, and see the clusters and the audit of all tenants.",
		field:   func(c *Config) any { return &c.AuthOperateScope },
	},
	{
		Env: "LEASEHOLD_AUTH_OPERATORS", Group: groupAuth, Type: List, Placeholder: "SUBJECT,…", Entries: apis,
		Help:  "Subjects that are operators without that scope.",
		More:  "The subject of an IAM caller is its ARN.",
		field: func(c *Config) any { return &c.AuthOperators },
	},
	{
		Env: "LEASEHOLD_AUTH_WORKER_SCOPE", Group: groupAuth, Type: Text, Default: "leasehold:worker", Placeholder: "SCOPE",
		Entries: apis,
		Help:    "Scope of callers that may run analyses.",
		field:   func(c *Config) any { return &c.AuthWorkerScope },
	},
	{
		Env: "LEASEHOLD_AUTH_WORKERS", Group: groupAuth, Type: List, Placeholder: "SUBJECT,…", Entries: apis,
		Help:  "Subjects that may run analyses without that scope.",
		More:  "The subject of an IAM caller is its ARN.",
		field: func(c *Config) any { return &c.AuthWorkers },
	},
	{
		Env: "LEASEHOLD_AUTH_ID_SCOPE", Group: groupAuth, Type: Text, Default: "leasehold:ids", Placeholder: "SCOPE",
		Entries: apis,
		Help:    "Scope of callers that may lease machine IDs.",
		field:   func(c *Config) any { return &c.AuthIDScope },
	},
	{
		Env: "LEASEHOLD_AUTH_ID_SUBJECTS", Group: groupAuth, Type: List, Placeholder: "SUBJECT,…", Entries: apis,
		Help:  "Subjects that may lease machine IDs without that scope.",
		More:  "The subject of an IAM caller is its ARN.",
		field: func(c *Config) any { return &c.AuthIDSubjects },
	},
	{
		Env: "LEASEHOLD_AUTH_LEEWAY", Group: groupAuth, Type: Duration, Default: "30s", Max: "5m", Entries: apis,
		Help:  "How far the issuer's clock may be from this machine's.",
		field: func(c *Config) any { return &c.AuthLeeway },
	},
	{
		Env: "LEASEHOLD_DEVELOPMENT", Group: groupAuth, Type: Switch, Entries: functions,
		Help: "Accept every caller from this machine without authentication. Works only with FIRESTORE_EMULATOR_HOST, without " +
			"{AUTH_ISSUER}, and not on Cloud Run.",
		field: func(c *Config) any { return &c.Development },
	},

	{
		Env: "LEASEHOLD_ID_SERVICES", Group: groupIDs, Type: JSON, Placeholder: "FILE", Entries: apis,
		Help:  "Layouts of services that lease machine IDs: a JSON list, or a file with one. The default is one service, default.",
		field: func(c *Config) any { return &c.IDServices },
	},
	{
		Env: "LEASEHOLD_ID_SERVICES_CLOSED", Group: groupIDs, Type: Switch, Entries: apis,
		Help:  "Reject services that {ID_SERVICES} does not name. Otherwise they lease as the service default does, if there is one.",
		field: func(c *Config) any { return &c.IDServicesClosed },
	},
	{
		Env: "LEASEHOLD_ID_MAX_LEASES", Group: groupIDs, Type: Number, Default: "64", Min: "1", Max: "32768",
		Placeholder: "N", Entries: apis,
		Help:  "Leases of machine IDs that one request gets at most.",
		field: func(c *Config) any { return &c.IDMaxLeases },
	},
	{
		Env: "LEASEHOLD_ID_MAX_LEASES_PER_SUBJECT", Group: groupIDs, Type: Number, Default: "2048", Min: "1", Max: "32768",
		Placeholder: "N", Entries: apis,
		Help:  "Leases of machine IDs that one authenticated subject has at most; each server process counts those that it granted.",
		field: func(c *Config) any { return &c.IDMaxLeasesPerSubject },
	},

	{
		Env: "LEASEHOLD_QUEUE_URL", Group: groupTasks, Type: Text, Placeholder: "URL", Entries: Worker | LambdaSweep,
		Required: Worker,
		Help: "SQS queue of the analyses. The region is that of the URL; a URL outside of AWS is the queue of an emulator. Lambda sweep " +
			"without it sweeps the clusters of placement alone.",
		field: func(c *Config) any { return &c.QueueURL },
	},
	{
		Env: "LEASEHOLD_QUEUE_TENANT_SEPARATOR", Group: groupTasks, Type: Text, Placeholder: "TEXT", Entries: LambdaSweep,
		Help: "What ends the tenant in the ID of an analysis, such as : in acme:report-7: the tenant becomes the message group, and a standard queue a fair " +
			"one, which delivers the messages of quiet tenants first. The default is none.",
		field: func(c *Config) any { return &c.QueueTenantSeparator },
	},
	{
		Env: "LEASEHOLD_CONCURRENCY", Group: groupTasks, Type: Number, Default: "4", Min: "1", Placeholder: "N",
		Entries: Worker,
		Help:    "Number of messages that are worked on at once.",
		field:   func(c *Config) any { return &c.Concurrency },
	},
	{
		Env: "LEASEHOLD_TARGET_URL", Group: groupTasks, Type: Text, Placeholder: "URL", Entries: runsTasks,
		Required: Worker | LambdaWorker,
		Help:     "URL that runs an analysis: it receives a POST for each run. It begins with https://, unless it is on this machine.",
		More:     "Without it, the endpoint for tasks of `leasehold serve` and of the function Tasks responds NOT_CONFIGURED.",
		field:    func(c *Config) any { return &c.TargetURL },
	},
	{
		Env: "LEASEHOLD_TARGET_TOKEN", Group: groupTasks, Type: Text, Secret: true, Entries: runsTasks,
		Help:  "Bearer token for the target.",
		field: func(c *Config) any { return &c.TargetToken },
	},
	{
		Env: "LEASEHOLD_TARGET_TOKEN_FILE", Group: groupTasks, Type: File, Placeholder: "FILE", Guarded: true, Entries: runsTasks,
		Help:  "File with the bearer token for the target, read for each run. {TARGET_TOKEN} holds the token itself.",
		field: func(c *Config) any { return &c.TargetTokenFile },
	},
	{
		Env: "LEASEHOLD_TARGET_AUDIENCE", Group: groupTasks, Type: Text, Placeholder: "NAME", Entries: runsTasks,
		Help:  "Audience of an ID token for the target, instead of a bearer token.",
		More:  "The token comes from Google Cloud's metadata server; for `leasehold worker` and the Lambda worker from AWS STS (`sts:GetWebIdentityToken`).",
		field: func(c *Config) any { return &c.TargetAudience },
	},
	{
		Env: "LEASEHOLD_TTL", Group: groupTasks, Type: Duration, Default: "5m", Min: "1s", Max: "24h", Step: "1s",
		Entries: runsTasks,
		Help:    "How long the lock of a run lasts without a heartbeat, in whole seconds.",
		field:   func(c *Config) any { return &c.TTL },
	},
	{
		Env: "LEASEHOLD_HEARTBEAT", Group: groupTasks, Type: Duration, Min: "10ms", Entries: runsTasks,
		Help:  "Time between heartbeats, at most half of {TTL}. The default is a fifth of it.",
		field: func(c *Config) any { return &c.Heartbeat },
	},
	{
		Env: "LEASEHOLD_MAX_FAILURES", Group: groupTasks, Type: Number, Default: "5", Min: "1", Placeholder: "N",
		Entries: runsTasks,
		Help:    "Failed runs after which an analysis becomes FAILED.",
		field:   func(c *Config) any { return &c.MaxFailures },
	},
	{
		Env: "LEASEHOLD_TASK_GRACE", Group: groupTasks, Type: Duration, Default: "10m", Min: "1s", Entries: runsTasks,
		Help: "How long a message is retried whose analysis does not exist yet, or whose document cannot be read. Then it goes to the " +
			"dead-letter queue. Cloud Tasks has none and drops it; an SQS queue without one keeps it until its retention period ends.",
		field: func(c *Config) any { return &c.TaskGrace },
	},
	{
		Env: "LEASEHOLD_ON_LOCKED", Group: groupTasks, Type: Text, Default: "retry", Choices: []string{"retry", "ack"},
		Entries: runsTasks,
		Help: "What to do with a message whose analysis is already running: retry or ack. After ack, no message is left to " +
			"retry the analysis if that run fails.",
		field: func(c *Config) any { return &c.OnLocked },
	},
	{
		Env: "LEASEHOLD_CREATE_ANALYSES", Group: groupTasks, Type: Switch, Entries: runsTasks,
		Help: "Make the document of an analysis that a message names and that is not there, instead of waiting for it: for " +
			"queues whose senders keep no such documents.",
		field: func(c *Config) any { return &c.CreateAnalyses },
	},
	{
		Env: "LEASEHOLD_TASK_TIMEOUT", Group: groupTasks, Type: Duration, Default: "10m", Min: "1s", Max: "30m",
		Entries:  internalCallers | Worker,
		Variants: []Variant{{Entries: Worker, Default: "12h"}},
		Help:     "Time limit of one run. A run that exceeds it is cancelled and counts as failed.",
		field:    func(c *Config) any { return &c.TaskTimeout },
	},

	{
		Env: "LEASEHOLD_TASK_AUTH", Group: groupTaskAuth, Type: Text, Default: "token",
		Choices: []string{"token", "platform"}, Entries: internalCallers,
		Help: "What verifies callers of the endpoints for tasks and sweeps: token, or platform if Cloud Run does (IAM) and " +
			"Leasehold must not.",
		field: func(c *Config) any { return &c.TaskAuth },
	},
	{
		Env: "LEASEHOLD_TASK_ISSUER", Group: groupTaskAuth, Type: Text, Default: "https://accounts.google.com",
		Placeholder: "URL", Entries: internalCallers,
		Help:  "Issuer of the tokens of the queue and of the scheduler.",
		field: func(c *Config) any { return &c.TaskIssuer },
	},
	{
		Env: "LEASEHOLD_TASK_AUDIENCE", Group: groupTaskAuth, Type: Text, Placeholder: "NAME", Entries: internalCallers,
		Help:  "Audience of these tokens. The default is {TASK_URL}.",
		field: func(c *Config) any { return &c.TaskAudience },
	},
	{
		Env: "LEASEHOLD_TASK_ACCOUNT", Group: groupTaskAuth, Type: Text, Placeholder: "EMAIL", Entries: internalCallers,
		Help:  "Service account of the queue's tokens. Required with {TASK_AUTH} token, except in development mode.",
		field: func(c *Config) any { return &c.TaskAccount },
	},
	{
		Env: "LEASEHOLD_SWEEP_ACCOUNT", Group: groupTaskAuth, Type: Text, Placeholder: "EMAIL",
		Entries: Serve | FunctionSweep,
		Help:    "Service account of the scheduler's tokens. The default is {TASK_ACCOUNT}.",
		field:   func(c *Config) any { return &c.SweepAccount },
	},

	{
		Env: "LEASEHOLD_TASK_QUEUE", Group: groupSweep, Type: Text, Placeholder: "NAME", Entries: internalCallers,
		Help: "Cloud Tasks queue that receives stale analyses, projects/P/locations/L/queues/Q. CLOUD_TASKS_EMULATOR_HOST is honored. " +
			"If it is not set, the endpoint for sweeps leaves analyses alone; with {SWEEP_ACCOUNT}, it sweeps the clusters of placement.",
		field: func(c *Config) any { return &c.TaskQueue },
	},
	{
		Env: "LEASEHOLD_TASK_URL", Group: groupSweep, Type: Text, Placeholder: "URL", Entries: internalCallers,
		Help:  "URL that the queue delivers to: /internal/tasks/analysis of this server, as the queue reaches it.",
		field: func(c *Config) any { return &c.TaskURL },
	},
	{
		Env: "LEASEHOLD_MAX_TAKEOVERS", Group: groupSweep, Type: Number, Default: "5", Min: "1", Placeholder: "N",
		Entries: sweeps | runsTasks | FunctionAPI | LambdaAPI,
		Help:    "Takeovers after which an analysis becomes FAILED, by the next acquire or by a sweep.",
		field:   func(c *Config) any { return &c.MaxTakeovers },
	},
	{
		Env: "LEASEHOLD_REQUEUE_EVERY", Group: groupSweep, Type: Duration, Default: "15m", Entries: sweeps,
		Help:  "Time after which a queued analysis that no worker has started is queued again.",
		field: func(c *Config) any { return &c.RequeueEvery },
	},
	{
		Env: "LEASEHOLD_SWEEP_GRACE", Group: groupSweep, Type: Duration, Default: "0s", Min: "0s", Entries: sweeps,
		Help:  "How long a lock must have been expired, so that the queue can redeliver first.",
		field: func(c *Config) any { return &c.SweepGrace },
	},
}

// ClientVariables are the variables of the commands that call a server, and those that such a command sets for others.
// Entry points know them and read none of them.
var ClientVariables = []Variable{
	{Name: "LEASEHOLD_SERVER", Help: "URL of the server."},
	{Name: "LEASEHOLD_TENANT", Help: "The caller's own tenant. Set by leasehold once for its command.", Instead: "LEASEHOLD_AUTH_TENANT"},
	{Name: "LEASEHOLD_OWNER", Help: "Owner of the caller's leases."},
	{Name: "LEASEHOLD_AUTH_TOKEN", Secret: true, Help: "The caller's bearer token.", Instead: "LEASEHOLD_TARGET_TOKEN"},
	{Name: "LEASEHOLD_AUTH_TOKEN_FILE", Help: "File with the caller's bearer token.",
		Instead: "LEASEHOLD_TARGET_TOKEN_FILE"},
	{Name: "LEASEHOLD_SERVICE", Help: "ID service of leasehold id."},
	{Name: "LEASEHOLD_EXTERNAL_ID_ENTITY", Help: "Entity of public IDs."},
	{Name: "LEASEHOLD_EXTERNAL_ID_KEY", Help: "Number of the secret of public IDs."},
	{Name: "LEASEHOLD_EXTERNAL_ID_SECRET", Secret: true, Help: "Secret of public IDs."},
	{Name: "LEASEHOLD_EXTERNAL_ID_SECRET_FILE", Help: "File with the secret of public IDs."},
	{Name: "LEASEHOLD_KEY", Help: "Set by leasehold lock run for its command: the lock."},
	{Name: "LEASEHOLD_FENCING_TOKEN",
		Help: "Set by leasehold lock run and once for their command: the fencing token. leasehold fence check takes it."},
	{Name: "LEASEHOLD_FENCING_SUBJECT",
		Help: "Set by leasehold lock run and once for their command: what the fencing token is one of. leasehold fence check takes it."},
	{Name: "LEASEHOLD_KEY_2",
		Help: "Set by leasehold lock run --also for its command: the second lock; _3 to _20 instead of _2 are the others."},
	{Name: "LEASEHOLD_FENCING_TOKEN_2",
		Help: "Set by leasehold lock run --also for its command: the fencing token of the second lock; _3 to _20 instead of _2 are those of the others."},
	{Name: "LEASEHOLD_FENCING_SUBJECT_2",
		Help: "Set by leasehold lock run --also for its command: what that token is one of."},
	{Name: "LEASEHOLD_PERMIT", Help: "Set by leasehold lock run --permits for its command: which permit it has, from 1."},
	{Name: "LEASEHOLD_RUN_ID", Help: "Set by leasehold once for its command: the run."},
	{Name: "LEASEHOLD_DUE_AT",
		Help: "Set by leasehold once for its command, by a calendar: the time for which the run is due."},
	{Name: "LEASEHOLD_RESULT", Help: "Set by leasehold once for its command: the file for the result."},
}

// PlatformVariables are variables of platforms and SDKs that entry points read.
var PlatformVariables = []Variable{
	{Name: "PORT", Help: "Port to listen on, as Cloud Run sets it: see LEASEHOLD_LISTEN."},
	{Name: "K_SERVICE", Help: "Set by Cloud Run. Development mode is an error there."},
	{Name: "_HANDLER", Help: "Set by Lambda from the function's handler name: api, worker or sweep."},
	{Name: "GOOGLE_CLOUD_PROJECT", Help: "Project, without LEASEHOLD_PROJECT."},
	{Name: "FIRESTORE_EMULATOR_HOST", Help: "Host and port of a Firestore emulator."},
	{Name: "CLOUD_TASKS_EMULATOR_HOST", Help: "Host and port of a Cloud Tasks emulator."},
	{Name: "AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …",
		Help: "Region and credentials, as for every AWS SDK."},
	{Name: "AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS", Help: "Endpoints of emulators, as for every AWS SDK."},
	{
		Name: "OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_METRICS_EXPORTER, OTEL_RESOURCE_ATTRIBUTES, …",
		Help: "Where `leasehold serve` and `leasehold worker` send telemetry, as for every SDK of OpenTelemetry: [metrics.md](metrics.md#exporters).",
	},
}
