package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/functions/gcp"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/tokenfile"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

type serveCmd struct {
	kong.Plugins // the flags of the settings

	flags settingFlags
}

func newServeCmd() serveCmd {
	flags := newSettingFlags(settings.Serve)
	return serveCmd{flags.plugin(), flags}
}

// Help is the longer help of the command.
func (serveCmd) Help() string {
	return `Without settings the server stores everything in one SQLite file in your data folder, listens on 127.0.0.1:8080 and runs in development mode: it accepts every caller, from this machine only.

For other machines, set --auth-tokens: callers then send tokens of that file, which "leasehold token new" makes, and --tls-cert and --tls-key give the server TLS. Or set --auth-issuer and --auth-audience: callers send tokens of that issuer, the owner of a lease is the token's subject, and the tenant comes from a claim. Where no certificate is given, terminate TLS in front of the server.

  leasehold serve
  leasehold serve --listen 127.0.0.1:0 --store memory
  leasehold serve --store firestore --project my-project
  leasehold serve --store dynamodb --table leasehold --region eu-west-1
  leasehold serve --store redis --redis-addr 127.0.0.1:6379
  leasehold serve --listen 0.0.0.0:8443 --auth-tokens /etc/leasehold/tokens --tls-cert /etc/leasehold/cert.pem --tls-key /etc/leasehold/key.pem
  leasehold serve --listen 0.0.0.0:8080 --auth-issuer https://issuer.example --auth-audience leasehold
  leasehold serve --target-url http://127.0.0.1:9000/run

Every flag can be set by the environment variable in parentheses; the flag wins. docs/reference/settings.md lists all settings.

SIGTERM or Ctrl-C lets requests in flight finish; a second signal ends the server at once. Behind a load balancer, --shutdown-delay lets it take the server out first.`
}

// Run serves until the context ends.
func (cmd *serveCmd) Run(ctx context.Context, s *streams) error {
	signals, stop := interruptsOf(ctx), ctx
	signals.endAtOnce()
	c, err := cmd.flags.load()
	if err != nil {
		return err
	}
	if err := guardFiles(c, newLog(c.Log, s)); err != nil {
		return err
	}
	spareCollections()
	written, err := openLogs(c, s)
	if err != nil {
		return err
	}
	log := written.log
	defer closeLogged(log, "close the audit log", written.close)
	lifetime := context.WithoutCancel(ctx) // requests in flight at the end may still need keys and credentials
	ctx, drain := context.WithCancel(lifetime)
	defer drain()
	undelayed := context.AfterFunc(stop, drain) // until it serves
	identity, err := identify(lifetime, c, log)
	if err != nil {
		return usage("%w", err)
	}
	certificate, err := openCertificate(c, log)
	if err != nil {
		return err
	}
	observed, err := observe(ctx, c, log)
	if err != nil {
		return err
	}
	defer observed.end()
	store, where, err := openStore(ctx, c, log, use{count: observed.metrics != nil})
	if err != nil {
		return err
	}
	defer closeLogged(log, "close the store", store.Close)
	endBeside, err := besideNone(c, log)
	if err != nil {
		return err
	}
	defer closeLogged(log, "close the file of servers", endBeside)
	store = observed.store(store)
	// Whether the store accepts requests is told elsewhere.
	if behind, _, err := httpapi.StoreBehind(ctx, store); err == nil && behind > 0 {
		log.Warn(httpapi.BehindText(behind))
		observed.metrics.StoreBehind(behind)
	}
	pruning, endPruning := context.WithCancel(ctx)
	var pruned sync.WaitGroup
	damage := new(metrics.Damage)
	pruned.Go(func() { setup.PruneLoop(pruning, store, log, observed.metrics, damage) })
	pruned.Go(func() {
		setup.SweepLoop(pruning, setup.Clusters(c, store, observed.metrics), store, log, observed.metrics, damage)
	})
	pruned.Go(func() {
		setup.AlarmLoop(pruning, setup.Clusters(c, store, observed.metrics), log, observed.metrics, damage)
	})
	defer pruned.Wait()
	defer endPruning()

	ids, err := machineid.New(store, c.IDServices, &machineid.Options{Log: log, MaxLeases: int(c.IDMaxLeases),
		Closed: c.IDServicesClosed})
	if err != nil {
		return usage("%s: %w", c.Name("LEASEHOLD_ID_SERVICES"), err)
	}
	if err := checkSpaces(ctx, ids); err != nil {
		return err
	}
	pruned.Go(func() { setup.SurveyLoop(pruning, observed.metrics, c.MetricsSurvey, store, ids, log, damage) })

	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with %s", c.Listen, err,
			c.Name("LEASEHOLD_LISTEN"))
	}
	// The end of ctx cancels running work, whose locks are released.
	task, err := setup.TaskRoute(ctx, c, gcp.IDToken, store, log, observed.metrics, observed.traces)
	if err != nil {
		return errors.Join(usage("%w", err), l.Close())
	}
	sweep, done, err := gcp.SweepRoute(lifetime, c, store, log, observed.metrics, damage)
	if err != nil {
		return errors.Join(usage("%w", err), l.Close())
	}
	defer closeLogged(log, "close the queue", done)
	o := setup.API(c, ids, log)
	o.Routes = append(o.Routes, task, sweep)
	o.Leaving, o.Stop, o.Build, o.Metrics, o.Traces = stop.Done(), ctx.Done(), buildinfo.This(version), observed.metrics,
		observed.traces
	o.Damage = damage
	o.Audit, o.AuditUnknown = written.audit, written.unknown
	o.History = history(c.AuditLog)
	api := httpapi.New(store, identity, o)
	server := httpapi.Server(setup.BasePath(c.BasePath, api), log, connections(c))
	ended := make(chan error, 1)
	var skipped <-chan struct{}
	over := func() {}
	if c.ShutdownDelay > 0 && undelayed() {
		skipped, over = signals.delayed()
	}
	go func() { ended <- certificate.serve(server, l) }()

	if c.InsecureListenAnywhere {
		log.WarnContext(ctx, insecure, "listen", l.Addr().String())
	}
	logStart(ctx, log, c, o.Build, where, slog.String("listen", l.Addr().String()),
		slog.String("authentication", c.Authentication("development mode")), slog.String("audit", cmp.Or(c.AuditLog, "log")))
	for _, told := range []func(*settings.Config) (detail, fix string){auditBesideStore, tokensInTheClear} {
		if detail, fix := told(c); detail != "" {
			log.Warn(detail + ": " + fix)
		}
	}
	url := certificate.scheme() + "://" + fromHere(l.Addr().String())
	fmt.Fprintln(s.out, "listening on", url)
	if c.Log == "text" {
		fmt.Fprint(s.out, whatNext(c, url, where))
	}
	if isBrief(c, s.err) {
		fmt.Fprintln(s.out, "A line for each event follows; --log text writes all of it.")
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the server ended: %w", err)
	case <-stop.Done():
	}
	if skipped != nil {
		log.Info("about to stop: not ready, but requests are served", "for_ms", c.ShutdownDelay.Milliseconds())
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended: %w", err)
		case <-time.After(c.ShutdownDelay):
		case <-skipped:
		}
		over()
	}
	drain()
	log.Info("stopping: requests in flight may finish", "within_ms", c.ShutdownTimeout.Milliseconds())
	grace, cancel := context.WithTimeout(lifetime, c.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
		return fmt.Errorf("requests in flight were cancelled after %v", c.ShutdownTimeout)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the server ended: %w", err)
	}
	log.Info("stopped")
	return nil
}

// connections are how many may be open at once: twice as many as wait for locks and for events.
func connections(c *settings.Config) int { return max(httpapi.MaxConnections, 4*int(c.MaxWaiting)) }

// identify is who callers are: by the tokens of an issuer, of a file, or of both.
func identify(ctx context.Context, c *settings.Config, log *slog.Logger) (httpapi.Identity, error) {
	who, err := setup.Identity(ctx, c, httpapi.Development{})
	if err != nil || c.AuthTokens == "" {
		return who, err
	}
	if c.AuthIssuer == "" {
		who = nil
	}
	i, err := tokenfile.Open(c.AuthTokens, who, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name("LEASEHOLD_AUTH_TOKENS"), err)
	}
	return i, nil
}

// logStart writes the line with which a program begins to work.
func logStart(ctx context.Context, log *slog.Logger, c *settings.Config, b buildinfo.Info, where string,
	more ...slog.Attr) {
	log.LogAttrs(ctx, slog.LevelInfo, "started", append([]slog.Attr{
		slog.String("version", b.Version), slog.String("commit", b.Commit), slog.String("store", c.Store),
		slog.String("stored", where),
	}, more...)...)
}

// insecure warns of a server or an emulator that other machines can reach.
const insecure = "INSECURE: every caller that reaches this address is accepted, also from other machines and from web pages, and may do everything"

// fromHere is the address of a listener as programs on this machine reach it.
func fromHere(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// closeLogged closes something at the end of a command.
func closeLogged(log *slog.Logger, what string, closeIt func() error) {
	if err := closeIt(); err != nil {
		log.Error(what, "err", err)
	}
}

// checkSpaces makes sure that the namespaces of machine IDs in the store agree with their configuration.
func checkSpaces(ctx context.Context, ids *machineid.Service) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return ids.Check(ctx)
}

func whatNext(c *settings.Config, url, where string) string {
	if c.Authenticates() {
		return fmt.Sprintf("Locks are stored %s. Callers authenticate with %s.\n", where, c.Authentication(""))
	}
	who := "Development mode: every caller on this machine is accepted and names itself."
	if c.InsecureListenAnywhere {
		who = insecure + "."
	}
	console := ""
	if c.Console {
		console = fmt.Sprintf("Watch it: %s/console/\n\n", url)
	}
	server := ""
	if url != defaultServer {
		server = " --server " + url
	}
	return fmt.Sprintf(`Locks are stored %[1]s.
%[4]s

Try it in another terminal:

  leasehold lock acquire my-lock --ttl 60s%[3]s
  leasehold lock list%[3]s

or with curl:

  curl -s %[2]s/v1/tenants/default/locks/my-lock/acquire -d '{"request_id":"'$(date +%%s)'","owner_id":"me","ttl_seconds":60}'
  curl -s %[2]s/v1/tenants/default/locks

%[5]sStop with Ctrl-C. The API: %[2]s/openapi.yaml
`, where, url, server, who, console)
}

// defaultServer is the server that commands call unless told otherwise.
const defaultServer = "http://127.0.0.1:8080"
