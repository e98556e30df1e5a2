package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TaskSettings are those of the doors for Cloud Tasks and Cloud Scheduler. Each is named after the environment variable that
// sets it, and errors name that.
type TaskSettings struct {
	TargetURL       string        // LEASEHOLD_TARGET_URL
	TargetToken     string        // LEASEHOLD_TARGET_TOKEN
	TargetTokenFile string        // LEASEHOLD_TARGET_TOKEN_FILE
	TargetAudience  string        // LEASEHOLD_TARGET_AUDIENCE
	TTL             time.Duration // LEASEHOLD_TTL
	Heartbeat       time.Duration // LEASEHOLD_HEARTBEAT
	MaxFailures     int64         // LEASEHOLD_MAX_FAILURES
	OnLocked        string        // LEASEHOLD_ON_LOCKED: retry, ack
	TaskTimeout     time.Duration // LEASEHOLD_TASK_TIMEOUT

	TaskAuth     string // LEASEHOLD_TASK_AUTH: token, platform
	TaskIssuer   string // LEASEHOLD_TASK_ISSUER
	TaskAudience string // LEASEHOLD_TASK_AUDIENCE
	TaskAccount  string // LEASEHOLD_TASK_ACCOUNT
	SweepAccount string // LEASEHOLD_SWEEP_ACCOUNT

	TaskQueue    string        // LEASEHOLD_TASK_QUEUE
	TaskURL      string        // LEASEHOLD_TASK_URL
	MaxTakeovers int64         // LEASEHOLD_MAX_TAKEOVERS
	RequeueEvery time.Duration // LEASEHOLD_REQUEUE_EVERY
	SweepGrace   time.Duration // LEASEHOLD_SWEEP_GRACE

	// Development lets callers on this machine in where no account is named.
	Development bool
}

// TaskDoor is the worker's door over a store: NOT_CONFIGURED without a target. When ctx ends, running work is stopped.
func (s TaskSettings) TaskDoor(ctx context.Context, store docstore.Store, log *slog.Logger) (httpapi.Route, error) {
	if s.TargetURL == "" {
		return tasks.Door{}.Route(ctx)
	}
	work, err := s.target()
	if err != nil {
		return httpapi.Route{}, err
	}
	if s.OnLocked != "" && s.OnLocked != "retry" && s.OnLocked != "ack" {
		return httpapi.Route{}, fmt.Errorf("LEASEHOLD_ON_LOCKED is %q: it must be retry or ack", s.OnLocked)
	}
	guard, err := s.guard(ctx, s.TaskAccount)
	if err != nil {
		return httpapi.Route{}, err
	}
	return tasks.Door{
		Worker: &tasks.Worker{
			Gate: tasks.Local(analysis.New(store, nil)), Work: work.Run, TTL: s.TTL, Heartbeat: s.Heartbeat,
			MaxFailures: s.MaxFailures, AckLocked: s.OnLocked == "ack", Log: log,
		},
		Guard: guard, Timeout: s.TaskTimeout,
	}.Route(ctx)
}

// SweepDoor is the scheduler's door over a store: NOT_CONFIGURED without a queue. done ends the queue's connection. ctx is
// the lifetime of credentials.
func (s TaskSettings) SweepDoor(ctx context.Context, store docstore.Store, log *slog.Logger) (route httpapi.Route, done func() error, err error) {
	done = func() error { return nil }
	if s.TaskQueue == "" {
		route, err = tasks.SweepDoor{}.Route()
		return route, done, err
	}
	if s.TaskURL == "" {
		return route, done, errors.New("LEASEHOLD_TASK_QUEUE needs LEASEHOLD_TASK_URL: where the queue delivers, such as https://worker.example.com" + tasks.TaskPath)
	}
	guard, err := s.guard(ctx, cmp.Or(s.SweepAccount, s.TaskAccount))
	if err != nil {
		return route, done, err
	}
	// The queue waits a little longer than the worker works, so that it hears what came of it.
	patience := min(cmp.Or(s.TaskTimeout, tasks.DefaultTimeout)+2*tasks.Margin, gcpcloudtasks.MaxDeadline)
	queue, err := gcpcloudtasks.Open(ctx, s.TaskQueue, s.TaskURL, &gcpcloudtasks.Options{
		Account: s.TaskAccount, Audience: s.TaskAudience, Deadline: patience,
	})
	if err != nil {
		return route, done, fmt.Errorf("LEASEHOLD_TASK_QUEUE, LEASEHOLD_TASK_URL and LEASEHOLD_TASK_ACCOUNT: %w", err)
	}
	route, err = tasks.SweepDoor{
		Analyses: analysis.New(store, nil),
		Sweep:    analysis.Sweep{Queue: queue, MaxTakeovers: s.MaxTakeovers, RequeueEvery: s.RequeueEvery, Grace: s.SweepGrace},
		Guard:    guard, Log: log,
	}.Route()
	if err != nil {
		return route, done, errors.Join(err, queue.Close())
	}
	return route, queue.Close, nil
}

// target is where the work is done.
func (s TaskSettings) target() (*tasks.Target, error) {
	o := &tasks.TargetOptions{}
	switch {
	case s.TargetAudience != "" && (s.TargetToken != "" || s.TargetTokenFile != ""):
		return nil, errors.New("LEASEHOLD_TARGET_TOKEN, or its file, and LEASEHOLD_TARGET_AUDIENCE are two ways to get a token: set one of them")
	case s.TargetTokenFile != "":
		o.Token = tasks.FileToken(s.TargetTokenFile)
	case s.TargetToken != "":
		o.Token = tasks.StaticToken(s.TargetToken)
	case s.TargetAudience != "":
		o.Token = idToken(s.TargetAudience)
	}
	t, err := tasks.NewTarget(s.TargetURL, o)
	if err != nil {
		return nil, fmt.Errorf("LEASEHOLD_TARGET_URL: %w", err)
	}
	return t, nil
}

// idToken gets an ID token of the service account that this runs as, from the metadata server, which keeps it while it is
// good (https://cloud.google.com/run/docs/authenticating/service-to-service).
func idToken(audience string) tasks.Token {
	return func(ctx context.Context) (string, error) {
		token, err := metadata.GetWithContext(ctx, "instance/service-accounts/default/identity?audience="+url.QueryEscape(audience))
		if err != nil {
			return "", fmt.Errorf("the metadata server of Google Cloud: %w", err)
		}
		return strings.TrimSpace(token), nil
	}
}

// guard says who may enter a door.
func (s TaskSettings) guard(ctx context.Context, account string) (tasks.Guard, error) {
	switch s.TaskAuth {
	case "platform":
		if account != "" && s.TaskQueue == "" {
			return nil, errors.New("LEASEHOLD_TASK_AUTH=platform leaves it to the platform who may deliver: take LEASEHOLD_TASK_ACCOUNT out, or the platform's mode")
		}
		return tasks.Platform{}, nil
	case "", "token":
	default:
		return nil, fmt.Errorf("LEASEHOLD_TASK_AUTH is %q: it must be token or platform", s.TaskAuth)
	}
	audience := cmp.Or(s.TaskAudience, s.TaskURL)
	switch {
	case account == "" && s.Development:
		return tasks.Development{}, nil
	case account == "":
		return nil, errors.New("LEASEHOLD_TASK_ACCOUNT is required: the service account whose tokens the queue sends. " +
			"Only if the platform checks callers, as Cloud Run does without public access, set LEASEHOLD_TASK_AUTH=platform")
	case audience == "":
		return nil, errors.New("LEASEHOLD_TASK_AUDIENCE is required: the audience of the queue's tokens, which is the task's URL unless the task says otherwise")
	}
	guard, err := oidc.NewAccount(ctx, oidc.Config{Issuer: cmp.Or(s.TaskIssuer, oidc.GoogleIssuer), Audience: audience}, account)
	if err != nil {
		return nil, fmt.Errorf("LEASEHOLD_TASK_…: %w", err)
	}
	return signedGuard{guard}, nil
}

// signedGuard says what has happened to tokens whose signature Cloud Run took off.
type signedGuard struct{ tasks.Guard }

// Verify implements [tasks.Guard].
func (g signedGuard) Verify(r *http.Request) error {
	if unsigned(r) {
		return refusal("Cloud Run has checked this token and taken its signature off: set LEASEHOLD_TASK_AUTH=platform, " +
			"so that Cloud Run alone decides, or let everybody invoke the service, so that Leasehold does")
	}
	return g.Guard.Verify(r)
}
