package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

type onceCmd struct {
	remote

	Analysis string   `arg:"" help:"The analysis: the ID of its document."`
	Command  []string `arg:"" help:"The command and its arguments, after \"--\"."`

	Create      bool          `help:"Make the document of the analysis if there is none."`
	Every       time.Duration `placeholder:"DURATION" help:"Run once in each window of this length, in whole minutes from 1m to 8784h, such as 24h: the window's begin (UTC) is added to the name. The document is made."`
	Owner       string        `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who runs it (${env}); the default is host and process ID."`
	TTL         time.Duration `name:"ttl" default:"5m" help:"How long the lock lasts without a refresh, in whole seconds (default ${default})."`
	Heartbeat   time.Duration `placeholder:"DURATION" help:"Time between refreshes; the default is a fifth of --ttl."`
	MaxFailures int64         `placeholder:"N" help:"The analysis turns FAILED when so many runs have failed (default: never)."`
	Skip        bool          `help:"That another worker runs the analysis is no error: nothing is run, and the exit code is 0."`
	Quiet       bool          `short:"q" help:"Say nothing but errors: not that nothing is to be done, or that a request is tried again; but that no server has ever responded at its address."`
	Grace       time.Duration `default:"10s" help:"Time for the command between SIGTERM and SIGKILL when this process is asked to stop (default ${default})."`

	kong.Plugins // the flags of the settings

	flags settingFlags
}

func newOnceCmd() onceCmd {
	flags := newSettingFlags(settings.Directly)
	return onceCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (onceCmd) Help() string {
	return `Asks for the run of an analysis, runs the command with a heartbeat, and ends the analysis: READY if the command exits with 0, otherwise the run is counted as failed and may be tried again.

  leasehold once a-1024 -- ./analyze.sh --input s3://bucket/a-1024
  17 2 * * *  leasehold once nightly --every 24h --skip -q -- /usr/local/bin/nightly
  leasehold once nightly --every 24h --store sqlite --data /var/lib/jobs -- ./nightly.sh

The second line is one of a crontab, for a job that several machines have: one of them runs it, once a day, the others say nothing, and no one gets mail unless it fails. The third needs no server: every process opens the same store, here a file on one machine.

The command finds LEASEHOLD_ANALYSIS_ID, LEASEHOLD_FENCING_TOKEN (pass it on to what the command writes to) and LEASEHOLD_RESULT, a file whose content becomes the result, in its environment, and none of Leasehold's secrets (LEASEHOLD_AUTH_TOKEN …). When the lock is lost, the command and all that it started (its process group) are killed at once; what the command leaves behind when it ends by itself is killed, too, for the run is over then. If this process itself is killed, Linux kills the command, but not what it started; elsewhere nothing does. Then the token protects.

An analysis that is finished does not run again. For work that comes round again, --every runs the command once in each window: with "--every 24h nightly" the analysis is nightly@2026-11-22T00:00Z, all day long by UTC. Windows of whole days begin at midnight, those of weeks on Monday. The name of the window is taken by the clock of this machine: do not start the command just at the turn.

Exit codes, as those of env and timeout:

    0        the analysis is READY now, or was READY before; with --skip also: another worker runs it
    1 to 255 the command's own: it failed, and may be tried again, or not
    118      the server or the store could not be reached, or failed: try again later
    120      another worker runs the analysis: try again later
    121      the lock was lost during the run, and the command was killed
    122      there is no such analysis; --create makes it
    123      the analysis was FAILED before: "leasehold analysis retry"
    125      another error of Leasehold: usage, a rejected request, a result that was not stored
    126      the command cannot be run
    127      the command was not found
    128+N    signal N killed the command
    130      this process was interrupted (SIGINT, SIGTERM)

Whatever is not the command's own is said on standard error in a line that begins with "leasehold:", and so is an exit code of the command that is one of the above.`
}

// Bounds of --every: a window has a name in whole minutes, and the longest has a leap year.
const (
	minEvery = time.Minute
	maxEvery = 366 * 24 * time.Hour
)

// Run runs the command.
func (c *onceCmd) Run(ctx context.Context, k *kong.Context, s *streams) error {
	begin := time.Now()
	c.Analysis = windowName(c.Analysis, c.Every, begin)
	path, err := c.prepare()
	if err != nil {
		return trouble(err)
	}
	gate, done, err := c.gate(ctx, k, s)
	if err != nil {
		return trouble(err)
	}
	defer done()
	asked := once.Gate(gate)
	if c.Create || c.Every > 0 {
		asked = once.Creating(gate)
	}
	var begun atomic.Bool
	out, err := once.Run(ctx, &announced{Gate: asked, remote: c.remote, to: s.err, quiet: c.Quiet}, c.Analysis,
		func(ctx context.Context, l once.Lock) (string, error) {
			begun.Store(true)
			return c.perform(ctx, path, l, s)
		}, &once.Options{
			Owner: c.Owner, TTL: c.TTL, Heartbeat: c.Heartbeat, MaxFailures: c.MaxFailures, RetryFor: runRetryFor,
			SettleTime: runSettleTime,
			Warn:       func(err error) { c.sayf(s, "%v", err) },
		})
	switch {
	case err != nil:
		return trouble(c.explain(err))
	case ctx.Err() != nil && out.Status == once.Stopped && !begun.Load():
		return interruption("interrupted before the run of %s began", c.Analysis)
	case ctx.Err() != nil && out.Status == once.Stopped:
		return interruption("interrupted: the run of %s was stopped, and may be tried again", c.Analysis)
	case out.Status == once.Locked && c.Skip:
		c.sayf(s, "skipped: %v", c.exit(out))
		return nil
	case out.Status == once.AlreadyFinished, out.Status == once.AlreadyFailed:
		return c.skipped(ctx, out.Status, gate, begin, s)
	default:
		return c.exit(out)
	}
}

// gate is what says whether an analysis may run: that of a server, or of a store.
type gate interface {
	once.Creator

	Get(ctx context.Context, analysisID string) (contracts.Analysis, error)
}

// gate is the gate of a server, or of a store if the flags name one.
func (c *onceCmd) gate(ctx context.Context, k *kong.Context, s *streams) (g gate, done func(), err error) {
	store, done, err := c.flags.direct(ctx, k, s)
	if err != nil {
		return nil, nil, err
	}
	if store != nil {
		return direct.Analyses(analysis.New(store, nil)), done, nil
	}
	server, err := c.connect()
	if err != nil {
		return nil, nil, err
	}
	return server.Analyses(), done, nil
}

// sayf says what is no error, unless that is not wanted.
func (c *onceCmd) sayf(s *streams, format string, args ...any) {
	if !c.Quiet {
		fmt.Fprintf(s.err, "leasehold: "+format+"\n", args...)
	}
}

// prepare checks the flags and finds the command.
func (c *onceCmd) prepare() (path string, err error) {
	switch {
	case c.TTL < time.Second || c.TTL > once.MaxTTL || c.TTL%time.Second != 0:
		return "", usage("--ttl %v: must be whole seconds from 1s to %v", c.TTL, once.MaxTTL)
	case c.Heartbeat < 0 || c.Heartbeat >= c.TTL:
		return "", usage("--heartbeat %v: must be less than --ttl %v, or the lock is lost each time", c.Heartbeat, c.TTL)
	case c.MaxFailures < 0 || c.Grace < 0:
		return "", usage("--max-failures and --grace must not be negative")
	case c.Every != 0 && (c.Every < minEvery || c.Every > maxEvery || c.Every%time.Minute != 0):
		return "", usage("--every %v: must be whole minutes from 1m to 8784h, such as 1h, 24h or 168h", c.Every)
	}
	return find(c.Command[0])
}

// windowName is the name of an analysis that runs once in each window: with the window's begin. Windows are counted
// from the zero time, a Monday at midnight UTC.
func windowName(analysis string, every time.Duration, now time.Time) string {
	if every <= 0 {
		return analysis
	}
	return analysis + "@" + windowTime(now.UTC().Truncate(every))
}

// windowTime is a time as the names of windows have it.
func windowTime(t time.Time) string { return t.Format("2006-01-02T15:04Z") }

// trouble gives an error the exit code of Leasehold's own errors, unless it is an interruption, or the command did not
// begin.
func trouble(err error) error {
	e, ok := errors.AsType[*exitError](err)
	switch {
	case ok && e.code != exitUsage, errors.Is(err, context.Canceled):
		return err
	case unavailable(err):
		return &exitError{exitUnavailable, err}
	default:
		return &exitError{exitTrouble, err}
	}
}

// skipped says that the analysis was finished before: when and why, as far as the server tells.
func (c *onceCmd) skipped(ctx context.Context, status once.Status, gate gate, begin time.Time,
	s *streams) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	a, _ := gate.Get(ctx, c.Analysis) // the run is skipped whatever the answer
	since := ""
	if a.FinishedAt != "" {
		since = ", since " + a.FinishedAt
	}
	if status == once.AlreadyFailed {
		why := ""
		if a.FailureReason != "" {
			why = ": " + printable(a.FailureReason)
		}
		return &exitError{exitFailedBefore,
			fmt.Errorf("%s is FAILED already%s%s; it does not run again before: leasehold analysis retry %s --reason WHY",
				c.Analysis, since, why, c.Analysis)}
	}
	next := "to run it once a day: leasehold once --every 24h " + c.Analysis + " -- COMMAND"
	if c.Every > 0 {
		next = "the next window begins at " + windowTime(begin.UTC().Truncate(c.Every).Add(c.Every))
	}
	result := ""
	if a.Result != "" {
		result = ", with the result " + printable(a.Result)
	}
	c.sayf(s, "%s is finished already%s%s, and nothing was run; %s", c.Analysis, since, result, next)
	return nil
}

// runRetryFor is how long a run is asked for while no server responds: a command that a timer starts must outlast a
// restart of the server.
const runRetryFor = 30 * time.Second

// runSettleTime is how long an interrupted process may go on to give up its request or to release the lock: nothing goes
// on when it has ended. A second interrupt leaves it less, see [hurryTime].
const runSettleTime = 10 * time.Second

// lookTimeout bounds the look at an analysis that was skipped.
const lookTimeout = 5 * time.Second

// exit gives the outcome of a run its exit code.
func (c *onceCmd) exit(out once.Outcome) error {
	switch out.Status {
	case once.Ready:
		return nil
	case once.Locked:
		return &exitError{exitOtherHolds, fmt.Errorf("another worker runs %s; its lock expires in %v unless it is refreshed",
			c.Analysis, out.RetryAfter)}
	case once.Unknown:
		return &exitError{exitNoAnalysis, fmt.Errorf("there is no analysis %s; --create makes it", c.Analysis)}
	case once.Lost:
		return &exitError{exitLost, out.Err}
	case once.Failed:
		return failedRun(fmt.Errorf("%s is FAILED: %w", c.Analysis, out.Err))
	case once.Retry:
		return failedRun(fmt.Errorf("the run of %s failed, and may be tried again: %w", c.Analysis, out.Err))
	default:
		return failedRun(fmt.Errorf("the run of %s was stopped: %w", c.Analysis, out.Err))
	}
}

// failedRun gives the error of a run the exit code of the command, if the command is what failed.
func failedRun(err error) error {
	code, ok := exitCode(err)
	if !ok {
		return trouble(err)
	}
	return &exitError{code, itsOwn(err, code, "once")}
}

// perform is the work: the command, with the result that it left in a file.
func (c *onceCmd) perform(ctx context.Context, path string, l once.Lock, s *streams) (string, error) {
	dir, err := os.MkdirTemp("", "leasehold-once-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system's folder for what is left behind
	result := filepath.Join(dir, "result")

	if err := once.Check(ctx); err != nil {
		return "", err
	}
	p, err := begin(path, c.Command, settings.WithoutLock(os.Environ()), []string{
		"LEASEHOLD_ANALYSIS_ID=" + l.AnalysisID, "LEASEHOLD_FENCING_TOKEN=" + strconv.FormatInt(l.Token, 10),
		"LEASEHOLD_RESULT=" + result,
	}, s)
	if err != nil {
		return "", once.Uncounted(err) // that says nothing about the analysis
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		// At once if the lock is lost, or with a second signal, else after a time of grace, during which the lock is still
		// refreshed, and may be lost.
		p.end(c.Grace, func() bool { return interruptsOf(ctx).hurry() || errors.Is(once.Check(ctx), once.ErrLost) })
		return "", context.Cause(ctx)
	}
	if err := p.outcome(); err != nil {
		return "", err
	}
	text, err := os.ReadFile(result)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
