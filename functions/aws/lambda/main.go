// Command lambda is the program of all Lambda functions of Leasehold, over DynamoDB. The handler name of the function,
// which Lambda puts into _HANDLER, chooses what it does:
//
//	api      the HTTP API, behind a function URL, API Gateway (an HTTP or REST API) or an Application Load Balancer
//	worker   takes the messages of an SQS queue to the work; the event source mapping must report batch item failures
//	sweep    puts stale analyses back into their queue, and sweeps clusters, when a schedule calls it
//
// It is built for the runtime provided.al2023, whose executable is called bootstrap (make lambda). Settings are
// environment variables; docs/reference/settings.md lists them. Region and credentials are the variables that Lambda
// sets; a program that needs profiles, a CA bundle or FIPS endpoints of the AWS SDK is built without the tag
// leasehold.noprofiles. The tag leasehold.noqueues leaves out the clients of SQS and STS: what is left starts sooner,
// in less memory, and as a worker, or as a sweep with a queue, the program queues beside it takes its place, which is
// built without the tag. A zip has both. The log is on standard output, in the format that the function's logging
// configuration says (AWS_LAMBDA_LOG_FORMAT) and from the level of the settings on, with Lambda's ID of the request;
// audit events always, unless that configuration leaves out INFO (AWS_LAMBDA_LOG_LEVEL). For work that is a Go
// function, build a main like this one around aws.NewWorker.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/emf"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// openTimeout is a little less than the 10 s that Lambda gives an instance to start, so that errors reach the log.
const openTimeout = 9 * time.Second

func main() {
	setup.GrowStack()
	log := slog.New(telemetry.NewHandler(lambdacontext.NewLogHandler()))
	slog.SetDefault(log) // aws-lambda-go writes the errors of invocations to the standard log, and nothing else
	slog.SetLogLoggerLevel(slog.LevelError)
	h, err := open(context.Background(), os.Getenv("_HANDLER"), os.Environ(), log)
	if err != nil {
		log.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(h)
}

// open makes the handler that all invocations of this instance share.
func open(ctx context.Context, name string, environ []string, log *slog.Logger) (lambda.Handler, error) {
	// Identities live longer than the start, which has a time limit.
	starting, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	switch name {
	case "api":
		return openAPI(ctx, starting, environ, log)
	case "worker":
		return openWorker(starting, environ, log)
	case "sweep":
		return openSweep(starting, environ, log)
	default:
		return nil, fmt.Errorf("the handler name of this function is %q: it must be api, worker or sweep", name)
	}
}

func openAPI(ctx, starting context.Context, environ []string, log *slog.Logger) (lambda.Handler, error) {
	c, err := settings.Load(settings.LambdaAPI, environ, nil)
	if err != nil {
		return nil, err
	}
	lines := telemetry.AtLeast(c.Level(), log)
	identity, err := setup.Identity(ctx, c, aws.Authorizer{
		TenantClaim: setup.TenantClaim(c), Scopes: setup.Scopes(c), IAMTenant: c.AuthTenant,
	})
	if err != nil {
		return nil, err
	}
	table, err := openStore(starting, c, lines, &awsdynamodb.Options{Lazy: true, Due: []string{analysis.ExpiryField}})
	if err != nil {
		return nil, err
	}
	ids, err := machineid.New(table.store, c.IDServices, &machineid.Options{Log: lines, MaxLeases: int(c.IDMaxLeases),
		Closed: c.IDServicesClosed})
	if err != nil {
		return nil, err
	}
	var fronts []aws.FrontDoor // none are all
	for _, name := range c.FrontDoor {
		fronts = append(fronts, aws.FrontDoor(name))
	}
	o := setup.API(c, ids, lines)
	o.Audit, o.Build, o.Metrics = slog.New(httpapi.ChainAudit(log.Handler())), buildinfo.This(""), table.metrics
	logStart(ctx, lines, c, slog.String("authentication", c.Authentication("API Gateway or IAM, as the events say")),
		slog.Any("front_doors", c.FrontDoor))
	api := httpapi.New(table.store, identity, o)
	return table.measured(aws.New(api, &aws.Options{Log: lines, BasePath: c.BasePath, FrontDoors: fronts}), lines), nil
}

func openSweep(ctx context.Context, environ []string, log *slog.Logger) (lambda.Handler, error) {
	c, err := settings.Load(settings.LambdaSweep, environ, nil)
	if err != nil {
		return nil, err
	}
	log = telemetry.AtLeast(c.Level(), log)
	var queue analysis.Queue
	if c.QueueURL != "" { // first: this may be the program without queues
		if queue, err = openQueue(ctx, c, log); err != nil {
			return nil, err
		}
	}
	table, err := openStore(ctx, c, log, &awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
	if err != nil {
		return nil, err
	}
	logStart(ctx, log, c)
	if queue == nil {
		log.WarnContext(ctx, "LEASEHOLD_QUEUE_URL is not set: analyses are left alone")
		return sweeper(table, nil, analysis.Sweep{}, c, log)
	}
	return sweeper(table, analysis.New(table.store, nil), setup.Sweep(c, queue), c, log)
}

func sweeper(t *table, a *analysis.Analyses, s analysis.Sweep, c *settings.Config, log *slog.Logger) (lambda.Handler,
	error) {
	sweep, err := aws.NewSweeper(a, s, setup.Clusters(c, t.store, t.metrics), log)
	if err != nil {
		return nil, err
	}
	sweep.Metrics, sweep.Tallies = t.metrics, t.store
	return t.measured(sweep, log), nil
}

// table is the store of an instance, with what measures it.
type table struct {
	store    docstore.Store
	metrics  *metrics.Metrics // nil: nothing is measured
	provider *emf.Provider
}

// measured returns a handler that writes after each invocation what was measured.
func (t *table) measured(h lambda.Handler, log *slog.Logger) lambda.Handler {
	if t.metrics == nil {
		return h
	}
	return emf.Handler{Invoker: h, Provider: t.provider, Out: os.Stdout, Log: log}
}

// openStore opens the table of the settings and logs its warnings. What starts with each burst of requests is lazy: it
// must not depend on the control plane. The sweep starts once in minutes and looks at the table.
func openStore(ctx context.Context, c *settings.Config, log *slog.Logger, o *awsdynamodb.Options) (*table, error) {
	o.Region, o.Endpoint, o.MaxSkew, o.IndexShards = c.Region, c.Endpoint, c.MaxSkew, int(c.IndexShards)
	o.CountUnits = c.MetricsEMF
	store, err := awsdynamodb.Open(ctx, c.Table, o)
	if err != nil {
		return nil, err
	}
	for _, w := range store.Warnings() {
		log.WarnContext(ctx, w, "table", c.Table)
	}
	if !c.MetricsEMF {
		return &table{store: store}, nil
	}
	t := &table{provider: emf.New(emf.Namespace(c.Table), nil)}
	if t.metrics, err = metrics.New(t.provider, nil); err != nil {
		return nil, err
	}
	setup.NoSurvey(ctx, t.metrics, log)
	t.store = telemetry.Store(store, t.metrics.Observe(store, metrics.SystemDynamoDB)...)
	return t, nil
}

// logStart writes the line with which an instance begins to work. It does not look for the caller, as the methods of a
// log do, which no handler here shows and for which the program file is read.
func logStart(ctx context.Context, log *slog.Logger, c *settings.Config, more ...slog.Attr) {
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	b := buildinfo.This("")
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "started", 0)
	line.AddAttrs(append([]slog.Attr{
		slog.String("version", b.Version), slog.String("commit", b.Commit), slog.String("store", "dynamodb"),
		slog.String("stored", "in the DynamoDB table "+c.Table),
	}, more...)...)
	_ = log.Handler().Handle(ctx, line)
}
