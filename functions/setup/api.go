package setup

import (
	"log/slog"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// API returns the options of the HTTP API, with the routes of the console if it is on. Audit events go to the log.
func API(c *settings.Config, ids *machineid.Service, log *slog.Logger) *httpapi.Options {
	o := &httpapi.Options{
		Log: log, Timeout: c.RequestTimeout, MachineIDs: ids, MaxIDsPerSubject: int(c.IDMaxLeasesPerSubject),
		Retention: c.Retention, StateRetention: c.StateRetention, RecordRefusals: c.RecordRefusals,
		JoinDelay:       c.PlacementJoinDelay,
		InsecureAnyHost: c.InsecureListenAnywhere, Origins: c.CORSOrigins,
		MaxTakeovers: c.MaxTakeovers,
		Limits: httpapi.Limits{
			Concurrent: int(c.MaxConcurrent), BodyBytes: httpapi.DefaultBodyBytes, Lists: httpapi.DefaultLists(),
			PageBytes: httpapi.DefaultPageBytes,
			PerTenant: float64(c.TenantRate), PerSubject: float64(c.SubjectRate),
			RefuseWithoutStore: c.RateWithoutStore == "refuse", LocksPerTenant: int(c.MaxLocksPerTenant),
			RunsPerTenant:     int(c.MaxRunsPerTenant),
			ClustersPerTenant: int(c.MaxClustersPerTenant), IdentitiesPerCluster: int(c.MaxIdentitiesPerCluster),
		},
	}
	if o.MaxWait = c.MaxWait; o.MaxWait == 0 {
		o.MaxWait = -1 // none is held
	}
	if o.MaxWaiting = int(c.MaxWaiting); o.MaxWaiting == 0 {
		o.MaxWaiting = -1 // no bound
	}
	if o.LogSample = int(c.LogSample); o.LogSample == 0 {
		o.LogSample = -1 // none
	}
	if c.Console {
		o.Routes, o.Outcomes, o.Home = consoleRoutes(), httpapi.DefaultOutcomes, "console/"
	}
	return o
}
