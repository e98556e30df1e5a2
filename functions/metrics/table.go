package metrics

// Kind is the kind of an instrument.
type Kind string

// The kinds. Those that are observed are read when an exporter asks; the others are told of each event.
const (
	Counter         Kind = "counter"
	UpDown          Kind = "up-down counter"
	Histogram       Kind = "histogram"
	ObservedCounter Kind = "counter, observed"
	Gauge           Kind = "gauge, observed"
)

// Instrument is one row of the table.
type Instrument struct {
	Name       string
	Group      string
	Unit       string // of UCUM, as OpenTelemetry wants it
	Kind       Kind
	Attributes []string  // of AttributeTable
	Buckets    []float64 // upper bounds of a histogram, but for the last, which has none
	// attributes that are dimensions there, where each combination is billed; nil: it is not written there, see package
	// emf
	CloudWatch []string
	Help       string // what is counted or measured, for exporters
	Question   string // that it answers
}

// Names of the attributes.
const (
	attrMethod     = "http.request.method"
	attrRoute      = "http.route"
	attrStatus     = "http.response.status_code"
	attrScheme     = "url.scheme"
	attrError      = "error.type"
	attrOperation  = "leasehold.operation"
	attrTenant     = "leasehold.tenant"
	attrKind       = "leasehold.kind"
	attrOutcome    = "leasehold.outcome"
	attrWhat       = "leasehold.what"
	attrSpace      = "leasehold.space"
	attrState      = "leasehold.state"
	attrSystem     = "db.system.name"
	attrDBOp       = "db.operation.name"
	attrCollection = "db.collection.name"
)

// Attribute is an attribute of instruments.
type Attribute struct {
	Name, Values string
}

// AttributeTable lists all attributes.
var AttributeTable = []Attribute{
	{attrMethod, "the method of the request, or `_OTHER` for one that HTTP does not define"},
	{
		attrRoute, "the path with the names of its parameters, such as `/v1/tenants/{tenant_id}/locks/{lock_key}/acquire`; missing if no endpoint has the path"},
	{attrStatus, "the status of the response"},
	{attrScheme, "`http` or `https`, as the process was called; behind a proxy that terminates TLS it is `http`"},
	{attrError, "why it failed: the outcome of a request whose status is 500 or above, or that was cut off; of a store `unavailable`, `full`, `clock_skew`, " +
		"`timeout`, `canceled`, `damaged`, `invalid`, `unsupported`, `closed` or `_OTHER`. Missing where it did not"},
	{attrOperation, "what was asked for, such as `lock.acquire`: the table of [operations](#operations)"},
	{attrTenant, "the tenant, only with `LEASEHOLD_METRICS_TENANTS`"},
	{attrKind, "what a lease is of: `lock`, `analysis`, `run` or `activation`"},
	{attrOutcome, "how it ended: of requests `ok`, the [code](errors.md) of the error, `locked` or `already_finished` for a run that was not granted, `aborted` for a " +
		"response that was cut off; for the others the values are in the meaning of the instrument"},
	{attrWhat, "what is counted; the values are in the meaning of the instrument"},
	{attrSpace, "the namespace of machine IDs, as the configuration names it"},
	{attrState, "the state of what is counted; the values are in the meaning of the instrument"},
	{attrSystem, "the store: `sqlite`, `redis`, `gcp.firestore`, `aws.dynamodb` or `memory`"},
	{attrDBOp, "`get`, `write`, `list`, `due`, `walk` or `prune`"},
	{attrCollection, "the kind of the documents, such as `locks`; missing for `prune`"},
}

// Groups of instruments, in the order of the documentation.
const (
	groupRequests = "Requests"
	groupLeases   = "Leases"
	groupRuns     = "Runs and placement"
	groupCluster  = "Members and locators"
	groupSweep    = "Queue and sweep"
	groupSurvey   = "Survey"
	groupStore    = "Store"
)

// Names of the instruments.
const (
	nameRequestDuration = "http.server.request.duration"
	nameActiveRequests  = "http.server.active_requests"
	nameOperations      = "leasehold.operations"
	nameReplays         = "leasehold.operations.replayed"
	nameAuditEvents     = "leasehold.audit.events"
	nameWaiting         = "leasehold.requests.waiting"

	nameTakeovers     = "leasehold.takeovers"
	nameCountedAnew   = "leasehold.leases.counted_anew"
	nameLockWait      = "leasehold.lock.wait.duration"
	nameHeld          = "leasehold.leases.held"
	nameOldest        = "leasehold.leases.oldest.age"
	nameUntracked     = "leasehold.leases.untracked"
	nameRenewalMargin = "leasehold.lease.renewal.margin"

	nameRunsEnded = "leasehold.runs.ended"
	nameMoves     = "leasehold.placement.moves"
	nameEvictions = "leasehold.placement.evictions"
	nameMissed    = "leasehold.placement.eviction.delay"
	nameAlarmLag  = "leasehold.placement.alarm.lag"

	nameClusterActivations = "leasehold.cluster.activations"
	nameClusterActivation  = "leasehold.cluster.activation.duration"
	nameClusterLag         = "leasehold.cluster.event.lag"
	nameClusterForwards    = "leasehold.cluster.forwards"
	nameClusterFailover    = "leasehold.cluster.failover.duration"

	nameDeliveries = "leasehold.deliveries"
	nameTargetAway = "leasehold.target.away"
	nameSweeps     = "leasehold.sweeps"
	nameSwept      = "leasehold.sweep.documents"
	nameSweepLag   = "leasehold.sweep.lag"
	nameUnreadable = "leasehold.documents.unreadable"

	nameMachineIDs = "leasehold.machine_ids"
	nameAnalyses   = "leasehold.analyses"
	nameMembers    = "leasehold.placement.members"
	nameClusters   = "leasehold.placement.clusters"
	nameImbalance  = "leasehold.placement.imbalance"
	nameSurveyed   = "leasehold.survey.age"

	nameStoreDuration    = "db.client.operation.duration"
	nameStoreWrites      = "leasehold.store.writes"
	nameStoreDocuments   = "leasehold.store.documents"
	nameStoreJoint       = "leasehold.store.writes.joint"
	nameStoreFallback    = "leasehold.store.writes.fallback"
	nameStoreRequests    = "leasehold.store.requests"
	nameStoreRetries     = "leasehold.store.retries"
	nameStoreBilled      = "leasehold.store.billed"
	nameStoreThrottled   = "leasehold.store.throttled"
	nameStoreWarnings    = "leasehold.store.warnings"
	nameStoreLogSize     = "leasehold.store.log.size"
	nameClockOffset      = "leasehold.store.clock.offset"
	nameClockUncertainty = "leasehold.store.clock.uncertainty"
	nameClockBehind      = "leasehold.store.clock.behind"
)

// seconds are the bounds of short durations, those that the semantic conventions of HTTP advise, and some below them
// for stores in the same process or the same room.
var seconds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// waits are the bounds of the durations of waiting for a lock.
var waits = []float64{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// lags are the bounds of how late a sweep is.
var lags = []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}

// shares are the bounds of parts of a whole.
var shares = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}

// Table lists all instruments.
var Table = []Instrument{
	{
		Name: nameRequestDuration, Group: groupRequests, Unit: "s", Kind: Histogram, Buckets: seconds,
		Attributes: []string{attrMethod, attrScheme, attrRoute, attrStatus, attrError},
		CloudWatch: []string{},
		Help:       "Time from the beginning of a request to the end of its response.",
		Question:   "How long do callers wait, and how many requests fail?",
	},
	{
		Name: nameActiveRequests, Group: groupRequests, Unit: "{request}", Kind: UpDown,
		Attributes: []string{attrMethod, attrScheme},
		Help:       "Requests that have begun and whose response has not ended.",
		Question:   "Is the process saturated?",
	},
	{
		Name: nameOperations, Group: groupRequests, Unit: "{operation}", Kind: Counter,
		Attributes: []string{attrOperation, attrOutcome, attrTenant},
		CloudWatch: []string{attrOutcome},
		Help:       "Requests by what was asked for and how they ended.",
		Question: "What is granted, what is refused and why: contention (LOCK_HELD), stale tokens (STALE_TOKEN, LEASE_LOST), limits (RATE_LIMITED, OVERLOADED, " +
			"LOCK_LIMIT, RUN_LIMIT, MACHINE_ID_LIMIT, PLACEMENT_LIMIT), exhausted machine IDs (MACHINE_IDS_EXHAUSTED)?",
	},
	{
		Name: nameReplays, Group: groupRequests, Unit: "{operation}", Kind: Counter, Attributes: []string{attrOperation},
		CloudWatch: []string{},
		Help:       "Requests that had been carried out before and were recognised: nothing was done twice.",
		Question:   "How many writes whose response was lost were healed?",
	},
	{
		Name: nameAuditEvents, Group: groupRequests, Unit: "{event}", Kind: Counter,
		Attributes: []string{attrOperation, attrOutcome},
		CloudWatch: []string{attrOutcome},
		Help:       "Audit events; requests that share one, whose senders were not identified, count each.",
		Question:   "Who changes rights, how often are callers rejected, and does the log have every event?",
	},
	{
		Name: nameWaiting, Group: groupRequests, Unit: "{request}", Kind: Gauge, Attributes: []string{attrWhat},
		Help:     "Requests that wait now, for `locks` or for `events` of placement.",
		Question: "How many callers wait, and are they near the bound of a process (1024 of each)?",
	},
	{
		Name: nameTakeovers, Group: groupLeases, Unit: "{lease}", Kind: Counter, Attributes: []string{attrKind},
		CloudWatch: []string{attrKind},
		Help: "Leases that were granted after the one before had expired without a release, by themselves or as one of a set. Of locks, where the record of the lock shows " +
			"the lease before.",
		Question: "Do holders die, or lose their leases?",
	},
	{
		Name: nameCountedAnew, Group: groupLeases, Unit: "{lease}", Kind: Counter, Attributes: []string{attrKind},
		Help: "Refusals because of an end that lay further ahead than it can, which counts from then on: the clock was wrong by which it was written, of an " +
			"analysis also that of another program.",
		Question: "Was the clock of the store ahead, or set back? Does another program write ends of locks that are too late?",
	},
	{
		Name: nameLockWait, Group: groupLeases, Unit: "s", Kind: Histogram, Buckets: waits, Attributes: []string{attrOutcome},
		CloudWatch: []string{attrOutcome},
		Help:       "Time that acquires with wait_seconds waited.",
		Question:   "How long do callers wait for locks, and how many give up?",
	},
	{
		Name: nameHeld, Group: groupLeases, Unit: "{lease}", Kind: Gauge, Attributes: []string{attrKind},
		Help: "Leases that this process granted or renewed last and that have neither expired nor been released by it.",
		Question: "How much is held now? With several processes, a lease that is renewed by one after the other counts for each until its earlier end. After a start " +
			"the number is right once every holder has renewed.",
	},
	{
		Name: nameOldest, Group: groupLeases, Unit: "s", Kind: Gauge, Attributes: []string{attrKind},
		Help:     "Time since the oldest of the held leases was acquired.",
		Question: "Is something stuck, but goes on renewing?",
	},
	{
		Name: nameUntracked, Group: groupLeases, Unit: "{lease}", Kind: Counter, Attributes: []string{attrKind},
		Help:     "Leases that were granted and are not among the held ones, because this process remembers as many as it may.",
		Question: "Are the numbers of held leases complete?",
	},
	{
		Name: nameRenewalMargin, Group: groupLeases, Unit: "1", Kind: Histogram, Buckets: shares,
		Attributes: []string{attrKind},
		CloudWatch: []string{attrKind},
		Help:       "Part of a lease that was left when it was renewed, if this process granted or renewed it before.",
		Question:   "Are holders close to losing their leases? Well below a half means that they renew too late.",
	},
	{
		Name: nameRunsEnded, Group: groupRuns, Unit: "{run}", Kind: Counter, Attributes: []string{attrKind, attrOutcome},
		CloudWatch: []string{attrKind, attrOutcome},
		Help:       "Runs of analyses and runs that callers name, by how they ended: `succeeded`, `failed`, or `stopped`, which is a release without a failure.",
		Question:   "How much of the work fails?",
	},
	{
		Name: nameMoves, Group: groupRuns, Unit: "{partition}", Kind: Counter, Attributes: []string{attrOperation},
		CloudWatch: []string{attrOperation},
		Help:       "Partitions that moved because the members of a cluster changed, by what changed them; `placement.evict` is also what a sweep or a lookup evicts.",
		Question:   "How much is moved, and how much of it by evictions, which no one wanted?",
	},
	{
		Name: nameEvictions, Group: groupRuns, Unit: "{member}", Kind: Counter,
		CloudWatch: []string{},
		Help:       "Members that were evicted because their leases had expired, by a sweep or by a request that needed what they had.",
		Question:   "How many members die?",
	},
	{
		Name: nameMissed, Group: groupRuns, Unit: "s", Kind: Histogram, Buckets: lags,
		CloudWatch: []string{},
		Help:       "How long the lease of a member had expired when it was evicted.",
		Question:   "How long does no one have what a dead member had, beyond its lease?",
	},
	{
		Name: nameAlarmLag, Group: groupRuns, Unit: "s", Kind: Histogram, Buckets: lags,
		CloudWatch: []string{},
		Help:       "How long an alarm of an identity had been due when it was fired for the first time, by the server that found it.",
		Question:   "How many alarms are there, and how late are they?",
	},
	{
		Name: nameClusterActivations, Group: groupCluster, Unit: "{activation}", Kind: Counter,
		Attributes: []string{attrOutcome},
		Help: "Activations of this process's member, as they began and ended: `activated`, `failed`, `ended` (as intended: handed over, idle), `lost`; and `abandoned`, a call of the host, or a request, that did not return in time. " +
			"The program feeds these instruments: `cluster.Options.Observe` and `cluster.LocatorOptions.Observe` are `Metrics.Cluster`.",
		Question: "How many identities come and go, is any of them lost, and does the host hang?",
	},
	{
		Name: nameClusterActivation, Group: groupCluster, Unit: "s", Kind: Histogram, Buckets: seconds,
		Help:     "Time from when the member learned of an identity that it is to serve until it serves it: requests to the store, and the host's own start.",
		Question: "How long does the first caller wait?",
	},
	{
		Name: nameClusterLag, Group: groupCluster, Unit: "s", Kind: Histogram, Buckets: seconds,
		Help:     "Age of a claim of another process when the member learned of it, by the clocks of the store and of this process.",
		Question: "How late are members told of their identities?",
	},
	{
		Name: nameClusterForwards, Group: groupCluster, Unit: "{request}", Kind: Counter, Attributes: []string{attrOutcome},
		Help: "Requests that a handler sent to another member: `ok` when there was a response, `not_here` when that member did not serve it, `not_proven` when " +
			"something responded that does not prove that it is one, `failed` when it was not reached or the connection broke. Each try counts.",
		Question: "How many requests arrive at the wrong member, and how many of those in vain?",
	},
	{
		Name: nameClusterFailover, Group: groupCluster, Unit: "s", Kind: Histogram, Buckets: waits,
		Help:     "Time from the arrival of a request whose first try was in vain until a member served it. Requests that were given up are not among it.",
		Question: "What do callers notice of a hand-over, or of a member that died?",
	},
	{
		Name: nameDeliveries, Group: groupSweep, Unit: "{message}", Kind: Counter, Attributes: []string{attrOutcome},
		CloudWatch: []string{attrOutcome},
		Help:       "Deliveries of a queue, by the outcome that the log says: `ready`, `failed`, `attempt_failed`, `not_stored`, `locked`, `lock_lost`, `gate_failed`, `target_away` and others.",
		Question:   "Is the work of the queue done, and why is it not?",
	},
	{
		Name: nameTargetAway, Group: groupSweep, Unit: "{target}", Kind: UpDown,
		Help:     "1 while the target of the worker cannot be reached, or refuses work for now, so that no message begins; otherwise 0.",
		Question: "Does the queue stand still because of the target?",
	},
	{
		Name: nameSweeps, Group: groupSweep, Unit: "{sweep}", Kind: Counter, Attributes: []string{attrWhat, attrOutcome},
		CloudWatch: []string{attrWhat, attrOutcome},
		Help: "Sweeps of `analyses`, of `clusters` and of `tallies`, by their outcome: `ok`, also if documents could not be read and were passed by, or `failed` if it ended early or " +
			"something else went wrong.",
		Question: "Does the sweep run, and does it get through?",
	},
	{
		Name: nameSwept, Group: groupSweep, Unit: "{document}", Kind: Counter, Attributes: []string{attrWhat, attrOutcome},
		CloudWatch: []string{attrWhat, attrOutcome},
		Help: "What sweeps found: of analyses `requeued`, `failed` (given up after too many takeovers), `skipped` and `error`; of clusters members that were `evicted`, " +
			"activations that were `freed`, documents that were `removed`, and `error`. What cannot be read counts as `leasehold.documents.unreadable` instead.",
		Question: "How many workers and members die?",
	},
	{
		Name: nameSweepLag, Group: groupSweep, Unit: "s", Kind: Histogram, Buckets: lags,
		CloudWatch: []string{},
		Help:       "How long the lock of an analysis had expired when a sweep found it.",
		Question:   "How late is the work of workers that died begun again?",
	},
	{
		Name: nameUnreadable, Group: groupSweep, Unit: "{document}", Kind: Counter, Attributes: []string{attrOperation},
		CloudWatch: []string{},
		Help: "Documents that cannot be read and were passed by, each time that a list or a sweep met them, by what met them: lists by their operation, `placement.events`, " +
			"`sweep.analyses`, `sweep.clusters`, `sweep.alarms`, `sweep.tallies`, `sweep.ended` for what is to be removed, and `survey` for machine IDs and analyses that are counted.",
		Question: "Is something in the store damaged, and for whom?",
	},
	{
		Name: nameMachineIDs, Group: groupSurvey, Unit: "{unit}", Kind: Gauge, Attributes: []string{attrSpace, attrState},
		Help:     "Units of a namespace of machine IDs that are `leased` and `free`, when they were counted last.",
		Question: "How full is the namespace, and when will it be exhausted?",
	},
	{
		Name: nameAnalyses, Group: groupSurvey, Unit: "{analysis}", Kind: Gauge, Attributes: []string{attrState},
		Help:     "Analyses by their status, and `locked` for those of them that are being run, when they were counted last.",
		Question: "How much work is left, and how much has failed?",
	},
	{
		Name: nameMembers, Group: groupSurvey, Unit: "{member}", Kind: Gauge, Attributes: []string{attrState},
		Help: "Members of all clusters that are `active`, `full` (active, and take no more activations) and `draining`, and `expired` for those of them whose leases have expired and " +
			"who were not evicted yet, when they were counted last.",
		Question: "Is there room for more identities, and who is about to be missed?",
	},
	{
		Name: nameClusters, Group: groupSurvey, Unit: "{cluster}", Kind: Gauge,
		Help:     "Clusters that have members, when they were counted last.",
		Question: "Did a cluster lose its last member?",
	},
	{
		Name: nameImbalance, Group: groupSurvey, Unit: "1", Kind: Gauge,
		Help:     "Partitions of the member that has the most, relative to its weight's share, in the cluster where that is the most, when they were counted last. 1 is balanced.",
		Question: "Is the work of placement spread evenly?",
	},
	{
		Name: nameSurveyed, Group: groupSurvey, Unit: "s", Kind: Gauge,
		Help:     "Time since machine IDs, analyses and members were counted.",
		Question: "How old are these numbers?",
	},
	{
		Name: nameStoreDuration, Group: groupStore, Unit: "s", Kind: Histogram, Buckets: seconds,
		Attributes: []string{attrSystem, attrDBOp, attrCollection, attrError},
		CloudWatch: []string{attrDBOp},
		Help:       "Time of one call of the store, with its retries.",
		Question:   "Is the store slow, or failing?",
	},
	{
		Name: nameStoreWrites, Group: groupStore, Unit: "{write}", Kind: Counter,
		Attributes: []string{attrSystem, attrCollection, attrOutcome},
		CloudWatch: []string{attrOutcome},
		Help: "Conditional writes by their outcome: `applied`, `refused` (the condition did not hold), `unknown` (an error after which the write may have been applied), " +
			"`not_applied` (an error that says that it was not).",
		Question: "How many writes are ambiguous, and how many compete?",
	},
	{
		Name: nameStoreJoint, Group: groupStore, Unit: "{write}", Kind: Counter,
		Attributes: []string{attrSystem, attrCollection},
		Help:       "Writes of several documents in one step: of sets of locks, and of placement. Each also counts in `leasehold.store.writes`.",
		Question:   "How much of the load is steps that the store charges more for?",
	},
	{
		Name: nameStoreFallback, Group: groupStore, Unit: "{write}", Kind: Counter,
		Attributes: []string{attrSystem, attrCollection},
		Help: "Writes that commands decided on the document that the write before had found: locks with several " +
			"holders, a line or a lock delay. Further tries of them count, a first write that is sent again does not. " +
			"Each also counts in `leasehold.store.writes`.",
		Question: "How often does a command need more than one request, and do callers contend for one lock?",
	},
	{
		Name: nameStoreDocuments, Group: groupStore, Unit: "{document}", Kind: Counter,
		Attributes: []string{attrSystem, attrDBOp, attrCollection},
		Help:       "Documents that calls of the store read, wrote or removed.",
		Question:   "Which kind of documents is read and written so much?",
	},
	{
		Name: nameStoreBilled, Group: groupStore, Unit: "{unit}", Kind: ObservedCounter,
		Attributes: []string{attrSystem, attrWhat},
		CloudWatch: []string{attrWhat},
		Help: "What the store's service bills, for `reads` and for `writes`: on DynamoDB the units that its responses say, and for a write that is refused those of the item that it found; " +
			"on Firestore documents, as its Standard edition bills them. Requests whose response was lost are not among it. Missing on stores that are not billed by use.",
		Question: "What does it cost? [costs](limits.md#costs) has the prices. The service's own metrics say it for the whole table or database (ConsumedWriteCapacityUnits, " +
			"firestore.googleapis.com/document/write_ops_count).",
	},
	{
		Name: nameStoreRequests, Group: groupStore, Unit: "{request}", Kind: ObservedCounter,
		Attributes: []string{attrSystem},
		CloudWatch: []string{},
		Help:       "Requests that the store sent to its service, with those that it sent again; on SQLite transactions that it committed.",
		Question:   "How many requests does a call cost, and how many writes share a transaction?",
	},
	{
		Name: nameStoreRetries, Group: groupStore, Unit: "{request}", Kind: ObservedCounter, Attributes: []string{attrSystem},
		CloudWatch: []string{},
		Help:       "Requests that the store sent again; on SQLite attempts at the lock of the file.",
		Question:   "Is the service unwell before calls fail?",
	},
	{
		Name: nameStoreThrottled, Group: groupStore, Unit: "{request}", Kind: ObservedCounter,
		Attributes: []string{attrSystem},
		CloudWatch: []string{},
		Help:       "Requests that the service rejected because there were too many.",
		Question:   "Is the capacity enough?",
	},
	{
		Name: nameStoreWarnings, Group: groupStore, Unit: "{warning}", Kind: Gauge, Attributes: []string{attrSystem},
		Help:     "What is set up in a way that can cost data; the log says what.",
		Question: "Was the setting of a server changed while it runs?",
	},
	{
		Name: nameStoreLogSize, Group: groupStore, Unit: "By", Kind: Gauge, Attributes: []string{attrSystem},
		Help:     "Size of SQLite's log, the file that ends in -wal. From 64 MiB on it is a warning.",
		Question: "Does a program read the file for so long that its log grows?",
	},
	{
		Name: nameClockBehind, Group: groupStore, Unit: "s", Kind: Gauge,
		Help:     "By how much the store's time is behind the highest that it has shown, as `/readyz` found last; 0 if it is not.",
		Question: "Was the clock of the store ahead, or set back?",
	},
	{
		Name: nameClockOffset, Group: groupStore, Unit: "s", Kind: Gauge, Attributes: []string{attrSystem},
		CloudWatch: []string{},
		Help:       "By how much the clock of the store is ahead of that of this process. On DynamoDB only, where the process's clock counts.",
		Question:   "Is the clock of this machine near the bound (LEASEHOLD_MAX_SKEW)?",
	},
	{
		Name: nameClockUncertainty, Group: groupStore, Unit: "s", Kind: Gauge, Attributes: []string{attrSystem},
		Help:     "How well that offset is known.",
		Question: "How much longer than its lease does a lock stay closed?",
	},
}

// alarming are the outcomes of operations about which an alert says something when they happen once. Their series begin
// at 0 with the process: a counter that appears with its first event has not increased, as Prometheus sees it.
var alarming = []struct{ operation, outcome string }{
	{"activation.activated", "STALE_TOKEN"},
	{"activation.alarm", "STALE_TOKEN"},
	{"activation.deactivate", "STALE_TOKEN"},
	{"activation.failed", "STALE_TOKEN"},
	{"activation.state", "STALE_TOKEN"},
	{"analysis.finish", "LEASE_LOST"},
	{"analysis.refresh", "LEASE_LOST"},
	{"analysis.release", "LEASE_LOST"},
	{"fence.check", "STALE_TOKEN"},
	{"lock.release", "LEASE_LOST"},
	{"lock.release_set", "LEASE_LOST"},
	{"lock.renew", "LEASE_LOST"},
	{"lock.renew_set", "LEASE_LOST"},
	{"machine_ids.lease", "MACHINE_IDS_EXHAUSTED"},
	{"placement.transfer", "STALE_TOKEN"},
	{"run.finish", "LEASE_LOST"},
	{"run.refresh", "LEASE_LOST"},
	{"run.release", "LEASE_LOST"},
}

// passing are the operations that pass documents by which cannot be read.
var passing = []string{
	"activation.list", "analysis.list", "lock.list", "machine_ids.map", "machine_ids.occupancy", "placement.events",
	"run.list", "sweep.alarms", "sweep.analyses", "sweep.clusters", "sweep.ended", "sweep.tallies", surveyed,
}

// surveyed is the operation of a survey, which reads all pages of machine IDs.
const surveyed = "survey"

// Operations lists what requests are counted as.
var Operations = []string{
	"activation.activated",
	"activation.alarm",
	"activation.claim",
	"activation.deactivate",
	"activation.failed",
	"activation.get",
	"activation.list",
	"activation.state",
	"analysis.create",
	"analysis.finish",
	"analysis.get",
	"analysis.list",
	"analysis.lock",
	"analysis.refresh",
	"analysis.release",
	"analysis.retry",
	"caller.get",
	"fence.check",
	"fence.get",
	"fence.remove",
	"fence.reset",
	"history.get",
	"lock.acquire",
	"lock.acquire_set",
	"lock.force_release",
	"lock.get",
	"lock.list",
	"lock.release",
	"lock.release_set",
	"lock.renew",
	"lock.renew_set",
	"machine_ids.force_release",
	"machine_ids.lease",
	"machine_ids.map",
	"machine_ids.occupancy",
	"machine_ids.release",
	"outcomes.list",
	"placement.clusters",
	"placement.drain",
	"placement.events",
	"placement.evict",
	"placement.heartbeat",
	"placement.join",
	"placement.leave",
	"placement.lookup",
	"placement.members",
	"placement.offer",
	"placement.remove",
	"placement.replace",
	"placement.takeover",
	"placement.topology",
	"placement.transfer",
	"run.again",
	"run.begin",
	"run.finish",
	"run.get",
	"run.list",
	"run.refresh",
	"run.release",
	"run.remove",
	"run.retry",
	"sweep",
	"task.deliver",
}
