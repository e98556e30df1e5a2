package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/leasehold-dev/leasehold/functions/gcp"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// taskFlags are the settings of the internal doors, to which Cloud Tasks and Cloud Scheduler come. The Cloud Functions read
// the same environment variables.
type taskFlags struct {
	TaskTarget         string        `group:"Analyses from a queue" env:"LEASEHOLD_TARGET_URL" placeholder:"URL" help:"Where analyses are run: it gets a POST for each (${env}). https, or this machine. Without it the door for tasks says so."`
	TaskTokenFile      string        `name:"task-target-token-file" group:"Analyses from a queue" env:"LEASEHOLD_TARGET_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the target's bearer token, read for each run (${env}). LEASEHOLD_TARGET_TOKEN holds the token itself."`
	TaskTargetAudience string        `group:"Analyses from a queue" env:"LEASEHOLD_TARGET_AUDIENCE" placeholder:"NAME" help:"Audience of an ID token for the target, from Google Cloud's metadata server (${env})."`
	TaskTTL            time.Duration `name:"task-ttl" group:"Analyses from a queue" default:"5m" env:"LEASEHOLD_TTL" help:"How long a lock lasts without a heartbeat (${env}; default ${default})."`
	TaskHeartbeat      time.Duration `group:"Analyses from a queue" env:"LEASEHOLD_HEARTBEAT" help:"Time between heartbeats (${env}; default: a fifth of the ttl)."`
	TaskMaxFailures    int64         `group:"Analyses from a queue" default:"5" env:"LEASEHOLD_MAX_FAILURES" help:"Runs that may fail before the analysis turns FAILED (${env}; default ${default})."`
	TaskOnLocked       string        `group:"Analyses from a queue" default:"retry" enum:"retry,ack" env:"LEASEHOLD_ON_LOCKED" help:"What the queue hears while somebody else runs the analysis: ${enum} (${env}; default ${default}). After ack, nothing brings the analysis again if that run fails."`
	TaskTimeout        time.Duration `group:"Analyses from a queue" default:"10m" env:"LEASEHOLD_TASK_TIMEOUT" help:"Time for one run, 30m at most (${env}; default ${default})."`

	TaskAuth     string `group:"Analyses from a queue" default:"token" enum:"token,platform" env:"LEASEHOLD_TASK_AUTH" help:"Who checks callers of the internal doors: ${enum} (${env}; default ${default}). platform: nobody here does, because what stands before the server has."`
	TaskIssuer   string `group:"Analyses from a queue" default:"https://accounts.google.com" env:"LEASEHOLD_TASK_ISSUER" placeholder:"URL" help:"Issuer of the queue's tokens (${env}; default ${default})."`
	TaskAudience string `group:"Analyses from a queue" env:"LEASEHOLD_TASK_AUDIENCE" placeholder:"NAME" help:"Audience of the queue's tokens (${env}; default: --task-url)."`
	TaskAccount  string `group:"Analyses from a queue" env:"LEASEHOLD_TASK_ACCOUNT" placeholder:"EMAIL" help:"Service account of the queue's tokens (${env}). In development mode, none is needed."`
	SweepAccount string `group:"Analyses from a queue" env:"LEASEHOLD_SWEEP_ACCOUNT" placeholder:"EMAIL" help:"Service account of the scheduler's tokens (${env}; default: --task-account)."`

	TaskQueue    string        `group:"Analyses from a queue" env:"LEASEHOLD_TASK_QUEUE" placeholder:"NAME" help:"Queue in Cloud Tasks that sweeps put stale analyses into, projects/P/locations/L/queues/Q (${env}). CLOUD_TASKS_EMULATOR_HOST is honored. Without it the door for sweeps says so."`
	TaskURL      string        `name:"task-url" group:"Analyses from a queue" env:"LEASEHOLD_TASK_URL" placeholder:"URL" help:"Where that queue delivers: this server's /internal/tasks/analysis, as the queue reaches it (${env})."`
	MaxTakeovers int64         `group:"Analyses from a queue" default:"5" env:"LEASEHOLD_MAX_TAKEOVERS" help:"Takeovers after which a sweep turns an analysis FAILED (${env}; default ${default})."`
	RequeueEvery time.Duration `group:"Analyses from a queue" default:"15m" env:"LEASEHOLD_REQUEUE_EVERY" help:"Time after which a queued analysis that nobody has begun is queued again (${env}; default ${default})."`
	SweepGrace   time.Duration `group:"Analyses from a queue" env:"LEASEHOLD_SWEEP_GRACE" help:"How long a lock must have been over (${env}; default: no time)."`
}

// routes are the internal doors. done ends what they opened. ctx ends when the server is to stop: running work is
// stopped then, and its locks given back.
func (f *taskFlags) routes(ctx context.Context, store docstore.Store, log *slog.Logger, development bool) (routes []httpapi.Route, done func() error, err error) {
	s := gcp.TaskSettings{
		TargetURL: f.TaskTarget, TargetToken: os.Getenv("LEASEHOLD_TARGET_TOKEN"), TargetTokenFile: f.TaskTokenFile, TargetAudience: f.TaskTargetAudience, TTL: f.TaskTTL,
		Heartbeat: f.TaskHeartbeat, MaxFailures: f.TaskMaxFailures, OnLocked: f.TaskOnLocked, TaskTimeout: f.TaskTimeout,
		TaskAuth: f.TaskAuth, TaskIssuer: f.TaskIssuer, TaskAudience: f.TaskAudience, TaskAccount: f.TaskAccount, SweepAccount: f.SweepAccount,
		TaskQueue: f.TaskQueue, TaskURL: f.TaskURL, MaxTakeovers: f.MaxTakeovers, RequeueEvery: f.RequeueEvery, SweepGrace: f.SweepGrace,
		Development: development,
	}
	switch {
	case f.TaskMaxFailures < 1 || f.MaxTakeovers < 1:
		return nil, nil, usage("--task-max-failures and --max-takeovers must be at least 1")
	case f.TaskTTL <= 0 || f.TaskHeartbeat < 0 || f.TaskTimeout <= 0 || f.RequeueEvery <= 0 || f.SweepGrace < 0:
		return nil, nil, usage("--task-ttl, --task-timeout and --requeue-every must be longer than 0, --task-heartbeat and --sweep-grace not shorter")
	}
	task, err := s.TaskDoor(ctx, store, log)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	// The queue's credentials are renewed for as long as the server lives, which is longer than ctx.
	sweep, done, err := s.SweepDoor(context.WithoutCancel(ctx), store, log)
	if err != nil {
		return nil, nil, errors.Join(usage("%w", err), done())
	}
	return []httpapi.Route{task, sweep}, done, nil
}
