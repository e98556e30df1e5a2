package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// Bounds of a request.
const (
	MaxBodyBytes   = 64 << 10         // of a body, unless it carries an analysis' result; more is PAYLOAD_TOO_LARGE
	MaxHeaderBytes = 48 << 10         // of a request's header lines, 32 KiB of them for a token; more is 431
	DefaultTimeout = 10 * time.Second // for a request's work
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	Log   *slog.Logger // one line for each request, see RequestMessage, and faults; nil means none
	Audit *slog.Logger // audit events, see AuditMessage; nil means Log
	// AuditUnknown gets the audit events of requests that were rejected before it was known who sent them, instead of
	// Audit: anyone can cause them. nil means Audit.
	AuditUnknown *slog.Logger

	Timeout time.Duration // for the work of one request; 0 means DefaultTimeout
	// Home is where GET / leads browsers, relative to it, such as "console/". Empty: nowhere, and other programs are told
	// that there is no such path in any case.
	Home string

	Routes []Route // endpoints beside those of the API, which authenticate callers themselves

	// LogSample is how many requests that were carried out share one line, by chance; 0 means LogAll, a negative number
	// that they have none. Requests that were rejected or failed always have one, and audit events are always written.
	LogSample int

	// Traces makes spans of requests; nil means none. The trace that a request names is in problems and passed on without
	// it, too.
	Traces *telemetry.Traces

	// MachineIDs leases machine IDs; nil means the default service on the store, [machineid.DefaultMaxLeases] to a
	// request.
	MachineIDs *machineid.Service

	// MaxIDsPerSubject bounds the leases of machine IDs that one subject has of this process; 0 means
	// DefaultMaxIDsPerSubject, a negative number that there is no bound. In development mode callers have no subject.
	MaxIDsPerSubject int

	// InsecureAnyHost lets an API that does not verify callers accept requests under any host name and through proxies,
	// for containers of a development machine. Every caller that can reach it may then do everything, and so may a web
	// page that has its own name pointed at this machine.
	InsecureAnyHost bool

	// Origins are those whose web pages may call the API, beside pages of the server's own origin; none if empty. Each
	// must pass [CheckOrigin].
	Origins []string

	Limits Limits // for verified callers

	// MaxWait is how long a response is held at most for a request with wait_seconds; 0 means DefaultMaxWait, which no
	// request exceeds, a negative number that none is held. A request that would wait for longer is told when to come
	// again, and keeps its place in line until then. Where an instance serves one request at a time, none is to be held:
	// one that waits keeps the instance from all others.
	MaxWait time.Duration

	// MaxWaiting is how many responses are held at once, for locks and for events each. 0 means DefaultMaxWaiting, a
	// negative number that there is no bound.
	MaxWaiting int

	// MaxTakeovers ends an analysis whose workers die again and again; 0 means analysis.DefaultMaxTakeovers.
	MaxTakeovers int64

	// Retention is how long the record of a lock is kept after its lease has ended, and those of activations that are free
	// and of members that left: from lock.MinRetention to lock.KeepForever. 0 means lock.DefaultRetention.
	Retention time.Duration

	// StateRetention is how long activations that are free are kept with their states. 0 is for ever.
	StateRetention time.Duration

	// JoinDelay is how long a member that joins waits for others; see placement.Options. 0 is not at all.
	JoinDelay time.Duration

	// RecordRefusals makes a lock say who was refused it last; see lock.Options. 0: nothing is recorded.
	RecordRefusals time.Duration

	// Outcomes is how many of the last requests of each tenant are remembered for its administrators: so many that were
	// rejected or failed, and as many that were carried out; of all tenants together, four times as many. 0: none.
	Outcomes int

	// History answers from a file of audit events who had something; nil if there is no such file.
	History func(context.Context, HistoryQuery) (contracts.LeaseHistory, error)

	// Metrics measures requests and what they end as; nil measures nothing. That of the store is
	// [metrics.Metrics.Observe].
	Metrics *metrics.Metrics

	// Damage is what /readyz says of documents that cannot be read, where work beside requests counts there, too; nil:
	// requests alone do.
	Damage *metrics.Damage

	// Build is what callers are told of the program (GET /v1/caller); its zero value says nothing.
	Build buildinfo.Info

	// Leaving is closed when the server is about to stop, and still serves: it is not ready from then on, and each
	// response over HTTP/1.1 is the last one of its connection, so that load balancers and clients go elsewhere. nil:
	// never.
	Leaving <-chan struct{}

	// Stop is closed when the server stops: requests that wait, for locks or for events, respond then. nil: never.
	Stop <-chan struct{}

	// Now is the server's clock. It measures how long the store takes to respond, so that it must be monotonic, and says
	// which tokens a fence can have seen. nil means time.Now.
	Now func() time.Time
}

// New returns the handler of the whole API over one store. Options may be nil.
func New(store docstore.Store, identity Identity, o *Options) http.Handler {
	f := newFrame(o)
	if o == nil {
		o = &Options{}
	}
	a := &api{
		frame: f, store: store, identity: identity, guard: lock.NewGuard(
			store, &lock.GuardOptions{Now: o.Now, MaxPerTenant: o.Limits.LocksPerTenant}),
	}
	f.caller, a.credentials.identify, a.credentials.challenge = a.identify, a.identify, identity.Challenge()
	a.locks = lock.New(store, &lock.Options{
		Now: o.Now, Retention: o.Retention, MaxPerTenant: o.Limits.LocksPerTenant, Stop: o.Stop, Working: a.step,
		Seat:           a.seat,
		RecordRefusals: o.RecordRefusals, HandedOver: f.handedOver,
	})
	a.analyses = analysis.New(store, &analysis.Options{Now: o.Now, MaxTakeovers: o.MaxTakeovers})
	a.runs = runs.New(store, &runs.Options{Options: analysis.Options{Now: o.Now, MaxTakeovers: o.MaxTakeovers},
		MaxPerTenant: o.Limits.RunsPerTenant})
	a.machineIDs, a.idQuota = o.MachineIDs, newIDQuota(o.MaxIDsPerSubject, o.Now)
	a.placement = placement.New(store, &placement.Options{
		Now: o.Now, Retention: o.Retention, StateRetention: o.StateRetention, MaxClusters: o.Limits.ClustersPerTenant,
		MaxIdentities: o.Limits.IdentitiesPerCluster,
		JoinDelay:     o.JoinDelay,
		Evicted:       o.Metrics.Evicted,
	})
	a.watches = newWatches(o.Stop)
	a.maxWait = max(0, cmp.Or(o.MaxWait, DefaultMaxWait))
	most := int64(cmp.Or(o.MaxWaiting, DefaultMaxWaiting))
	if most < 0 {
		most = noBound
	}
	a.lockWaiters, a.watches.waiters = newBound(lockWaits, most, 0, 0), newBound(eventWaits, most, 0, 0)
	if a.now = o.Now; a.now == nil {
		a.now = time.Now
	}
	a.build, a.history = o.Build, o.History
	a.ready, a.admission = newReadiness(store, o.Now, f.storeBehind()), newAdmission(o.Limits, store, f, o.Now)
	a.metrics.Waiting(map[string]func() int{"locks": a.lockWaiters.count, "events": a.watches.waiters.count})
	routes := append(a.routes(), o.Routes...)
	if a.machineIDs == nil {
		a.machineIDs = machineid.NewDefault(store, &machineid.Options{Log: f.log, MaxLeases: machineid.DefaultMaxLeases})
	}
	return f.handler(routes, identity.Unverified())
}

type api struct {
	*frame

	store       docstore.Store
	identity    Identity
	credentials credentials
	now         func() time.Time
	locks       *lock.Locks
	guard       *lock.Guard
	analyses    *analysis.Analyses
	runs        *runs.Runs
	machineIDs  *machineid.Service
	idQuota     *idQuota
	placement   *placement.Service
	watches     *watches

	maxWait     time.Duration // for which a response is held
	lockWaiters *bound

	build     buildinfo.Info
	history   func(context.Context, HistoryQuery) (contracts.LeaseHistory, error)
	ready     *readiness
	admission *admission
}

// routes is the table of endpoints.
func (a *api) routes() []Route {
	const (
		one   = "/v1/tenants/{tenant_id}/locks/{lock_key}"
		set   = "/v1/tenants/{tenant_id}/lock-sets"
		gated = "/v1/analyses/{analysis_id}"
		named = "/v1/tenants/{tenant_id}/runs/{run_id}"

		cluster    = "/v1/tenants/{tenant_id}/clusters/{cluster}"
		member     = cluster + "/members/{member}"
		activation = cluster + "/activations/{kind}/{id}"
	)
	return []Route{
		{Method: "POST", Path: one + "/acquire", Audit: "lock.acquire", Do: a.authenticated(ofTenant(a.acquire))},
		{Method: "POST", Path: one + "/renew", Routine: true, Operation: "lock.renew", Do: a.withCaller(command(a, a.renew))},
		{Method: "POST", Path: one + "/release", Audit: "lock.release", Do: a.withCaller(command(a, a.release))},
		{Method: "POST", Path: one + "/force-release", Audit: "lock.force_release",
			Do: a.withCaller(needs(Admin, "ending another owner's lease", command(a, a.forceRelease)))},
		{Method: "GET", Path: one, Operation: "lock.get", Do: a.withCaller(look(a, a.getLock))},
		{Method: "POST", Path: set + "/acquire", Audit: "lock.acquire_set", Do: a.withCaller(command(a, a.acquireSet))},
		{Method: "POST", Path: set + "/renew", Routine: true, Operation: "lock.renew_set",
			Do: a.withCaller(command(a, a.renewSet))},
		{Method: "POST", Path: set + "/release", Audit: "lock.release_set", Do: a.withCaller(command(a, a.releaseSet))},
		{Method: "GET", Path: "/v1/tenants/{tenant_id}/locks", Operation: "lock.list",
			Do: a.authenticated(ofTenant(a.listLocks))},
		{Method: "GET", Path: "/v1/tenants/{tenant_id}/fences/{resource}", Operation: "fence.get",
			Do: a.withCaller(look(a, a.getFence))},
		{Method: "POST", Path: "/v1/tenants/{tenant_id}/fences/{resource}/check", Routine: true, Operation: "fence.check",
			Do: a.withCaller(command(a, a.checkFence))},
		{Method: "POST", Path: "/v1/tenants/{tenant_id}/fences/{resource}/reset", Audit: "fence.reset",
			Do: a.withCaller(needs(Admin, "resetting a fence", command(a, a.resetFence)))},
		{Method: "POST", Path: "/v1/tenants/{tenant_id}/fences/{resource}/remove", Audit: "fence.remove",
			Do: a.withCaller(needs(Admin, "removing a fence", command(a, a.removeFence)))},
		{Method: "POST", Path: gated + "/lock", Audit: "analysis.lock", Do: a.withWorker(command(a, a.lockAnalysis))},
		{Method: "POST", Path: gated + "/refresh", Routine: true, Operation: "analysis.refresh",
			Do: a.withWorker(command(a, a.refreshAnalysis))},
		{Method: "POST", Path: gated + "/release", Audit: "analysis.release",
			Do: a.withWorker(command(a, a.releaseAnalysis))},
		{Method: "POST", Path: gated + "/finish", Audit: "analysis.finish", Do: a.withWorker(command(a, a.finishAnalysis))},
		{Method: "POST", Path: gated + "/retry", Audit: "analysis.retry",
			Do: a.authenticated(needs(Operate, "retrying an analysis", command(a, a.retryAnalysis)))},
		{Method: "PUT", Path: gated, Operation: "analysis.create", Do: a.withWorker(a.createAnalysis)},
		{Method: "GET", Path: gated, Operation: "analysis.get", Do: a.authenticated(needs(Worker|Operate, "seeing an analysis", look(a, a.getAnalysis)))},
		{Method: "GET", Path: "/v1/analyses", Operation: "analysis.list", Do: a.authenticated(needs(Worker|Operate, "listing analyses", a.listAnalyses))},
		{Method: "POST", Path: named + "/begin", Audit: "run.begin", Do: a.withCaller(command(a, a.beginRun))},
		{Method: "POST", Path: named + "/refresh", Routine: true, Operation: "run.refresh",
			Do: a.withCaller(command(a, a.refreshRun))},
		{Method: "POST", Path: named + "/release", Audit: "run.release", Do: a.withCaller(command(a, a.releaseRun))},
		{Method: "POST", Path: named + "/finish", Audit: "run.finish", Do: a.withCaller(command(a, a.finishRun))},
		{Method: "POST", Path: named + "/retry", Audit: "run.retry",
			Do: a.withCaller(command(a, a.retryRun(analysis.Failed)))},
		{Method: "POST", Path: named + "/again", Audit: "run.again",
			Do: a.withCaller(command(a, a.retryRun(analysis.Ready)))},
		{Method: "POST", Path: named + "/remove", Audit: "run.remove", Do: a.withCaller(command(a, a.removeRun))},
		{Method: "GET", Path: named, Operation: "run.get", Do: a.withCaller(look(a, a.getRun))},
		{Method: "GET", Path: "/v1/tenants/{tenant_id}/runs", Operation: "run.list",
			Do: a.authenticated(ofTenant(a.listRuns))},
		{Method: "POST", Path: "/v1/machine-ids/lease", Audit: "machine_ids.lease",
			Do: a.authenticated(needs(MachineIDs, "leasing machine IDs", command(a, a.leaseMachineIDs)))},
		{Method: "DELETE", Path: "/v1/machine-ids/lease/{id}", Audit: "machine_ids.release",
			Do: a.authenticated(a.releaseMachineID)},
		{Method: "POST", Path: "/v1/machine-ids/force-release", Audit: "machine_ids.force_release",
			Do: a.authenticated(needs(Operate, "ending leases of other callers", command(a, a.forceReleaseMachineIDs)))},
		{Method: "GET", Path: "/v1/machine-ids", Operation: "machine_ids.occupancy",
			Do: a.authenticated(needs(MachineIDs|Operate, "seeing machine IDs", look(a, a.machineIDOccupancy)))},
		{Method: "GET", Path: "/v1/machine-ids/spaces/{space}", Operation: "machine_ids.map",
			Do: a.authenticated(needs(MachineIDs|Operate, "seeing machine IDs", look(a, a.machineIDMap)))},
		{Method: "GET", Path: "/v1/tenants/{tenant_id}/clusters", Operation: "placement.clusters",
			Do: a.ofCluster(a.listClusters)},
		{Method: "POST", Path: cluster + "/remove", Audit: "placement.remove",
			Do: a.ofCluster(needs(Admin|Operate, "removing a cluster", command(a, a.removeCluster)))},
		{Method: "POST", Path: member + "/join", Audit: "placement.join", Do: a.withCaller(command(a, a.joinCluster))},
		{Method: "POST", Path: member + "/replace", Audit: "placement.replace",
			Do: a.withCaller(command(a, a.replaceMember))},
		{Method: "POST", Path: member + "/heartbeat", Routine: true, Operation: "placement.heartbeat",
			Do: a.withCaller(command(a, a.heartbeatMember))},
		{Method: "POST", Path: member + "/drain", Audit: "placement.drain",
			Do: a.ofCluster(a.ofMember(true, a.placement.DrainMember))},
		{Method: "POST", Path: member + "/leave", Audit: "placement.leave",
			Do: a.withCaller(a.ofMember(false, a.placement.Leave))},
		{Method: "POST", Path: member + "/evict", Audit: "placement.evict",
			Do: a.ofCluster(needs(Admin|Operate, "evicting a member", command(a, a.evictMember)))},
		{Method: "POST", Path: member + "/offer", Operation: "placement.offer", Do: a.withCaller(command(a, a.changeOffer))},
		{Method: "GET", Path: cluster + "/members", Operation: "placement.members",
			Do: a.ofCluster(a.listMembers)},
		{Method: "GET", Path: cluster + "/topology", Operation: "placement.topology",
			Do: a.ofCluster(a.getTopology)},
		{Method: "GET", Path: cluster + "/placements/{kind}/{id}", Operation: "placement.lookup",
			Do: a.ofCluster(look(a, a.lookupPlacement))},
		{Method: "GET", Path: cluster + "/activations", Operation: "activation.list",
			Do: a.ofCluster(a.listActivations)},
		{Method: "GET", Path: activation, Operation: "activation.get", Do: a.ofCluster(look(a, a.getActivation))},
		{Method: "POST", Path: activation + "/claim", Audit: "placement.claim", Operation: "activation.claim",
			Do: a.withCaller(command(a, a.claimActivation))},
		{Method: "POST", Path: activation + "/activated", Operation: "activation.activated",
			Do: a.withCaller(command(a, a.activated))},
		{Method: "POST", Path: activation + "/failed", Audit: "placement.fail", Operation: "activation.failed",
			Do: a.withCaller(command(a, a.activationFailed))},
		{Method: "POST", Path: activation + "/deactivate", Audit: "placement.deactivate", Operation: "activation.deactivate",
			Do: a.withCaller(command(a, a.deactivate))},
		{Method: "POST", Path: activation + "/state", Operation: "activation.state",
			Do: a.withCaller(command(a, a.writeState))},
		{Method: "POST", Path: activation + "/alarm", Operation: "activation.alarm",
			Do: a.withCaller(command(a, a.setAlarm))},
		{Method: "POST", Path: activation + "/transfer", Audit: "placement.transfer",
			Do: a.withCaller(command(a, a.transferActivation))},
		{Method: "GET", Path: cluster + "/events", Timeout: maxEventWait + a.timeout, Operation: "placement.events",
			Do: a.ofCluster(a.listEvents)},
		{Method: "GET", Path: "/v1/caller", Operation: "caller.get", Do: a.authenticated(glance(a.getCaller))},
		{Method: "GET", Path: "/v1/outcomes", Operation: "outcomes.list",
			Do: a.authenticated(needs(Admin|Operate, "reading outcomes", a.listOutcomes))},
		{Method: "GET", Path: "/v1/history", Operation: "history.get",
			Do: a.authenticated(needs(Admin|Operate, "reading audit events", glance(a.getHistory)))},
		{Method: "GET", Path: "/healthz", Do: a.healthz},
		{Method: "GET", Path: "/readyz", Do: a.readyz},
		{Method: "GET", Path: "/openapi.yaml", Do: document("application/yaml", contracts.OpenAPI)},
		{Method: "GET", Path: "/openapi.json", Do: document("application/json", contracts.OpenAPIJSON)},
	}
}

// withCaller admits authenticated callers, and keeps each to its own tenant.
func (a *api) withCaller(do handler) func(http.ResponseWriter, *http.Request) error {
	// as authenticated and ofTenant do: one value, not two
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := a.callerOf(r)
		if err != nil {
			return err
		}
		if err := c.stays(r); err != nil {
			return err
		}
		return onConnection(w, r, c, do)
	}
}

// ofTenant keeps a caller to its own tenant.
func ofTenant(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		if err := c.stays(r); err != nil {
			return err
		}
		return do(w, r, c)
	}
}

// stays rejects a request about another tenant than the caller's.
func (c Caller) stays(r *http.Request) error {
	if tenant := r.PathValue("tenant_id"); c.Tenant != "" && c.Tenant != tenant {
		return contracts.Errorf(contracts.CodePermissionDenied, "your token is for tenant %q, the path for tenant %q",
			c.Tenant, tenant)
	}
	return nil
}

// ofCluster admits authenticated callers to the clusters of their tenant, and operators to those of all.
func (a *api) ofCluster(do handler) func(http.ResponseWriter, *http.Request) error {
	return a.authenticated(func(w http.ResponseWriter, r *http.Request, c Caller) error {
		if !c.May(Operate) {
			if err := c.stays(r); err != nil {
				return err
			}
		}
		return do(w, r, c)
	})
}

// withWorker admits authenticated callers who may run analyses. Those belong to no tenant, so that the caller's plays
// no part.
func (a *api) withWorker(do handler) func(http.ResponseWriter, *http.Request) error {
	return a.authenticated(needs(Worker, "running an analysis", do))
}

func (a *api) identify(r *http.Request) (Caller, error) {
	c, err := a.identity.Identify(r)
	if err != nil {
		return Caller{TokenID: c.TokenID}, &identityError{err, a.identity.Challenge()}
	}
	return c, nil
}

func (a *api) healthz(w http.ResponseWriter, _ *http.Request) error {
	return send(w, contracts.Health{Status: "ok"})
}

// document serves the contract.
func document(contentType string, content []byte) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		_, err := w.Write(content)
		return err
	}
}
