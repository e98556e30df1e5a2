package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

type serveCmd struct {
	Listen string `default:"127.0.0.1:8080" env:"LEASEHOLD_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on (${env}). Port 0 takes a free one. An address that others can reach needs --auth-issuer."`

	storeFlags
	taskFlags

	AuthIssuer      string        `env:"LEASEHOLD_AUTH_ISSUER" placeholder:"URL" help:"OpenID Connect issuer whose tokens are accepted (${env}). Without it the server runs in development mode."`
	AuthAudience    string        `env:"LEASEHOLD_AUTH_AUDIENCE" placeholder:"NAME" help:"Audience that tokens must be meant for (${env})."`
	AuthJWKSURL     string        `name:"auth-jwks-url" env:"LEASEHOLD_AUTH_JWKS_URL" placeholder:"URL" help:"Where the issuer's keys are, if not where its discovery document says (${env})."`
	AuthTenantClaim string        `default:"tenant_id" env:"LEASEHOLD_AUTH_TENANT_CLAIM" placeholder:"CLAIM" help:"Claim that names the tenant (${env}; default ${default})."`
	AuthAdminScope  string        `default:"leasehold:admin" env:"LEASEHOLD_AUTH_ADMIN_SCOPE" placeholder:"SCOPE" help:"Scope that may force-release (${env}; default ${default})."`
	AuthWorkerScope string        `default:"leasehold:worker" env:"LEASEHOLD_AUTH_WORKER_SCOPE" placeholder:"SCOPE" help:"Scope that may run analyses (${env}; default ${default})."`
	AuthLeeway      time.Duration `default:"30s" env:"LEASEHOLD_AUTH_LEEWAY" help:"How far the issuer's clock may be off (${env}; default ${default})."`

	IDServices string `name:"id-services" env:"LEASEHOLD_ID_SERVICES" placeholder:"FILE" help:"JSON file with the services that machine IDs are leased to, or the JSON itself (${env}; the default is the service default)."`

	Log             string        `default:"text" enum:"text,json" env:"LEASEHOLD_LOG" help:"Form of the log on standard error: ${enum} (${env})."`
	RequestTimeout  time.Duration `default:"10s" env:"LEASEHOLD_REQUEST_TIMEOUT" help:"Time for the work of one request (${env}; default ${default})."`
	ShutdownTimeout time.Duration `default:"15s" env:"LEASEHOLD_SHUTDOWN_TIMEOUT" help:"Time for requests in flight after SIGTERM or Ctrl-C (${env}; default ${default})."`
}

// Help is the longer help of the command.
func (serveCmd) Help() string {
	return `Without settings the server keeps its locks in one SQLite file in your data folder, listens on 127.0.0.1:8080 and believes every caller: development mode. It answers on this machine only.

For others to reach it, set --auth-issuer and --auth-audience; callers then send tokens of that issuer, the owner of a lease is the token's subject, and the tenant comes from a claim.

  leasehold serve
  leasehold serve --listen 127.0.0.1:0 --store memory
  leasehold serve --store firestore --project my-project
  leasehold serve --store dynamodb --table leasehold --region eu-west-1
  leasehold serve --store redis --redis-addr 127.0.0.1:6379
  leasehold serve --listen 0.0.0.0:8080 --auth-issuer https://issuer.example --auth-audience leasehold
  leasehold serve --store firestore --project my-project --task-target http://127.0.0.1:9000/run

SIGTERM or Ctrl-C lets requests in flight finish; a second signal ends the server at once.`
}

// Run serves until the context ends.
func (c *serveCmd) Run(ctx context.Context, s *streams) error {
	log, err := c.logger(s)
	if err != nil {
		return err
	}
	services, err := c.idServices()
	if err != nil {
		return err
	}
	identity, err := c.identity(context.WithoutCancel(ctx)) // requests in flight at the end may still need keys
	if err != nil {
		return err
	}
	store, where, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error("close the store", "err", err)
		}
	}()

	ids, err := machineid.New(store, services, &machineid.Options{Log: log})
	if err != nil {
		return usage("--id-services: %w", err)
	}
	if err := checkSpaces(ctx, ids); err != nil {
		return err
	}

	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", c.Listen, err)
	}
	routes, done, err := c.routes(ctx, store, log, c.AuthIssuer == "")
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() {
		if err := done(); err != nil {
			log.Error("close the queue", "err", err)
		}
	}()
	server := httpapi.Server(httpapi.New(store, identity, &httpapi.Options{
		Log: log, Timeout: c.RequestTimeout, Routes: routes, MachineIDs: ids,
	}), log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()

	url := "http://" + l.Addr().String()
	fmt.Fprintln(s.out, "listening on", url)
	if c.Log == "text" {
		fmt.Fprint(s.out, c.whatNext(url, where))
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the server ended: %w", err)
	case <-ctx.Done():
	}
	log.Info("stopping: requests in flight may finish", "within", c.ShutdownTimeout)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
		return fmt.Errorf("requests were still in flight after %v; they were cut off", c.ShutdownTimeout)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the server ended: %w", err)
	}
	log.Info("stopped")
	return nil
}

func (c *serveCmd) logger(s *streams) (*slog.Logger, error) {
	if c.RequestTimeout <= 0 || c.ShutdownTimeout <= 0 {
		return nil, usage("--request-timeout and --shutdown-timeout must be longer than 0")
	}
	return newLog(c.Log, s), nil
}

// newLog is a log on standard error in one of the forms that --log knows.
func newLog(form string, s *streams) *slog.Logger {
	if form == "json" {
		return slog.New(slog.NewJSONHandler(s.err, nil))
	}
	return slog.New(slog.NewTextHandler(s.err, nil))
}

// idServices reads the services that machine IDs are leased to; none stand for the default one.
func (c *serveCmd) idServices() ([]machineid.ServiceConfig, error) {
	if c.IDServices == "" {
		return nil, nil
	}
	text := []byte(c.IDServices)
	if !strings.HasPrefix(c.IDServices, "[") {
		var err error
		if text, err = os.ReadFile(c.IDServices); err != nil {
			return nil, usage("--id-services: %w", err)
		}
	}
	services, err := machineid.ParseServices(text)
	if err != nil {
		return nil, usage("--id-services: %w", err)
	}
	return services, nil
}

// checkSpaces makes sure that the store's spaces of machine IDs are as they are configured.
func checkSpaces(ctx context.Context, ids *machineid.Service) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return ids.Check(ctx)
}

// identity says who callers are. Development mode believes everybody, so it is refused on an address that others can
// reach.
func (c *serveCmd) identity(ctx context.Context) (httpapi.Identity, error) {
	if c.AuthIssuer != "" {
		i, err := oidc.New(ctx, oidc.Config{
			Issuer: c.AuthIssuer, Audience: c.AuthAudience, JWKSURL: c.AuthJWKSURL,
			TenantClaim: c.AuthTenantClaim, AdminScope: c.AuthAdminScope, WorkerScope: c.AuthWorkerScope, Leeway: c.AuthLeeway,
		})
		if err != nil {
			return nil, usage("%w", err)
		}
		return i, nil
	}
	if c.AuthAudience != "" || c.AuthJWKSURL != "" {
		return nil, usage("--auth-audience and --auth-jwks-url need --auth-issuer: without an issuer nobody would be authenticated")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, usage("--listen %q: must be host:port, such as 127.0.0.1:8080", c.Listen)
	}
	if !httpapi.Loopback(host) {
		return nil, usage("--listen %s can be reached from other machines, and without --auth-issuer everybody there could take and end locks.\n"+
			"Listen on 127.0.0.1, or set --auth-issuer and --auth-audience", c.Listen)
	}
	return httpapi.Development{}, nil
}

func (c *serveCmd) whatNext(url, where string) string {
	if c.AuthIssuer != "" {
		return fmt.Sprintf("Locks are kept %s. Callers authenticate with tokens of %s.\n", where, c.AuthIssuer)
	}
	return fmt.Sprintf(`Locks are kept %s.
Development mode: callers name themselves, from this machine only.

Try it, in another terminal:

  curl -s %[2]s/v1/tenants/acme/locks/deploy-prod/acquire -d '{"request_id":"r1","owner_id":"me","ttl_seconds":60}'
  curl -s %[2]s/v1/tenants/acme/locks

Stop with Ctrl-C. The whole API: %[2]s/openapi.yaml
`, where, url)
}
