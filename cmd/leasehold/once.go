package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

type onceCmd struct {
	tenanted

	Name    string   `arg:"" name:"name" help:"The run, or the job: a name that its callers choose."`
	Command []string `arg:"" help:"The command and its arguments, after \"--\"."`

	jobFlags
	MaxFailures  int64         `placeholder:"N" help:"The run turns FAILED when so many attempts have failed (default: never)."`
	MaxTakeovers *int64        `placeholder:"N" help:"The run turns FAILED when it was taken over so often from a machine that crashed or was cut off (default: as the server says, 3). With 0 it is begun once and never again: at most once."`
	Owner        string        `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who runs it (${env}); the default is host and process ID."`
	TTL          time.Duration `name:"ttl" default:"5m" help:"How long the lock lasts without a refresh, in whole seconds (default ${default})."`
	Heartbeat    time.Duration `placeholder:"DURATION" help:"Time between refreshes; the default is a fifth of --ttl."`
	Skip         bool          `help:"That another worker runs it is no error: nothing is run, and the exit code is 0."`
	Quiet        bool          `short:"q" help:"Say nothing but errors, and why nothing was run where that is neither that it is done nor that another worker is at it."`
	Grace        time.Duration `default:"10s" help:"Time for the command between SIGTERM and SIGKILL when this process is asked to stop (default ${default})."`

	kong.Plugins // the flags of the settings

	flags settingFlags
	job   job
}

func newOnceCmd() onceCmd {
	flags := newSettingFlags(settings.Directly)
	return onceCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (onceCmd) Help() string {
	return `Begins a run of the tenant, runs the command with a heartbeat, and ends the run: READY if the command exits with 0, otherwise the attempt is counted as failed, and whoever begins the run next tries again.

  leasehold once invoice-2026-11 -- ./invoice.sh 2026-11
  17 2 * * *  leasehold once nightly --at 02:00 --tz Europe/Berlin --skip -q -- /usr/local/bin/nightly
  leasehold once nightly --every day --store sqlite --data /var/lib/jobs -- ./nightly.sh

The second line is one of a crontab, for a job that several machines have: one of them runs it, once a night, the others say nothing, and no one gets mail unless it fails. If it fails, the next machine that starts it tries again. The third needs no server: every process opens the same store, here a file on one machine.

A run that is finished does not run again as long as its record is kept (--keep). A job comes round again:

  --at 23:00 --tz Asia/Tokyo   due at 23:00 each day; --every hour, day and week are due at the begin of theirs
  --every 90m                  when so long has passed since the last run that succeeded began

A job has one record, so that two of its runs are never at work at once. By the calendar a run belongs to the time for which it is due, shown as nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo): one that is caught up at 08:00 does not use up the next night, and the time of the server or the store decides, not that of this machine. A time of day that does not exist, as summer time begins, is due at the end of the gap, and one that exists twice the first time. If the run of an earlier time is still at work, the command waits for it until the next time that is due; then it says that this time got no run. With a duration say one that is shorter than the time between two starts.

The command finds LEASEHOLD_RUN_ID, LEASEHOLD_TENANT, LEASEHOLD_DUE_AT (by the calendar), LEASEHOLD_FENCING_TOKEN (pass it on to what the command writes to) and LEASEHOLD_RESULT, a file whose content becomes the result, in its environment, and none of Leasehold's secrets (LEASEHOLD_AUTH_TOKEN …). Standard input and outputs are the command's, a terminal, too. When the lock is lost, or could not be refreshed until a twentieth of --ttl is left, at most 1s, the command and all that it started are killed at once; what the command leaves behind when it ends by itself is killed, too, for the run is over then. A second process of this program sees to that also when this process is stopped (Ctrl-Z, SIGSTOP) or frozen; if it dies, the command gets SIGTERM, and SIGKILL after --grace. On Linux that reaches everything that the command started, on macOS and other systems its process group, on Windows the command alone, and only while this process lives. Then the token protects.

Exit codes, as those of env and timeout:

    0        the run is READY now, or was READY before; with --skip also: another worker runs it
    1 to 255 the command's own: it failed, and may be tried again, or not
    118      the server or the store could not be reached, or failed: try again later
    120      another worker runs it: try again later
    121      the lock was lost during the run, and the command was killed
    122      it is not due by the time of the server or the store: this machine's clock is wrong
    123      the run was FAILED before: "leasehold run retry"
    125      another error of Leasehold: usage, a rejected request, a result that was not stored
    126      the command cannot be run
    127      the command was not found
    128+N    signal N killed the command
    130      this process was interrupted (SIGINT, SIGTERM)

Whatever is not the command's own is said on standard error in a line that begins with "leasehold:", and so is an exit code of the command that is one of the above.`
}

// Run runs the command.
func (c *onceCmd) Run(ctx context.Context, k *kong.Context, s *streams) error {
	path, err := c.prepare()
	if err != nil {
		return trouble(err)
	}
	gate, done, err := c.gate(ctx, k, s)
	if err != nil {
		return trouble(err)
	}
	defer done()
	n := &runNews{Gate: gate, cmd: c, s: s}
	o := &once.Options{
		Owner: c.Owner, TTL: c.TTL, Heartbeat: c.Heartbeat, MaxFailures: c.MaxFailures, MaxTakeovers: c.MaxTakeovers,
		Every: c.job.every, RetryFor: runRetryFor, SettleTime: runSettleTime,
		Warn: func(err error) { c.sayf(s, "%v", err) },
	}
	if c.job.calendar != nil {
		o.Schedule = c.job.calendar
	}
	out, err := once.Run(ctx, n, c.Name, func(ctx context.Context, l once.Lock) (string, error) {
		n.begins()
		return c.perform(ctx, path, l, n.due(), s)
	}, o)
	switch name := n.name(); {
	case err != nil:
		return trouble(c.rejected(err))
	case ctx.Err() != nil && out.Status == once.Stopped && !n.begun:
		return interruption("interrupted before the run of %s began", name)
	case ctx.Err() != nil && out.Status == once.Stopped:
		return interruption("interrupted: the run of %s was stopped, and may be tried again", name)
	default:
		return n.end(ctx, out)
	}
}

// rejected is an error of a request: what to do about it, and of which tenant it was.
func (c *onceCmd) rejected(err error) error {
	if err = c.explain(err); errors.As(err, new(*contracts.Error)) {
		return c.ofTenant(err)
	}
	return err
}

// gate is the gate of a server, or of a store if the flags name one.
func (c *onceCmd) gate(ctx context.Context, k *kong.Context, s *streams) (g once.Gate, done func(), err error) {
	store, done, err := c.flags.direct(ctx, k, s)
	if err != nil {
		return nil, nil, err
	}
	if store != nil {
		return direct.Runs(runs.New(store, nil), c.Tenant, c.job.keep), done, nil
	}
	server, err := c.connect()
	if err != nil {
		return nil, nil, err
	}
	r := server.Runs(c.Tenant)
	r.Keep = c.job.keep
	return r, done, nil
}

// sayf says what is no error, unless that is not wanted.
func (c *onceCmd) sayf(s *streams, format string, args ...any) {
	if !c.Quiet {
		alwaysf(s, format, args...)
	}
}

// alwaysf says what is said with -q, too.
func alwaysf(s *streams, format string, args ...any) {
	fmt.Fprintf(s.err, "leasehold: "+format+"\n", args...)
}

// prepare checks the flags and finds the command.
func (c *onceCmd) prepare() (path string, err error) {
	switch {
	case c.TTL < time.Second || c.TTL > once.MaxTTL || c.TTL%time.Second != 0:
		return "", usage("--ttl %v: must be whole seconds from 1s to %v", c.TTL, once.MaxTTL)
	case c.Heartbeat < 0 || c.Heartbeat >= c.TTL:
		return "", usage("--heartbeat %v: must be less than --ttl %v, or the lock is lost each time", c.Heartbeat, c.TTL)
	case c.MaxFailures < 0:
		return "", usage("--max-failures %d: must be 1 or more, or 0 for no bound", c.MaxFailures)
	case c.MaxTakeovers != nil && *c.MaxTakeovers < 0:
		return "", usage("--max-takeovers %d: must be 0 or more", *c.MaxTakeovers)
	case c.Grace < 0:
		return "", usage("--grace %v: must not be negative", c.Grace)
	}
	if c.job, err = c.jobFlags.job(); err != nil {
		return "", err
	}
	if err := (runs.ID{Tenant: c.Tenant, ID: "x"}).Validate(); err != nil {
		return "", usage("--tenant: %w", err)
	}
	return find(c.Command[0])
}

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

// runRetryFor is how long a run is asked for while no server responds: a command that a timer starts must outlast a
// restart of the server.
const runRetryFor = 30 * time.Second

// runSettleTime is how long an interrupted process may go on to give up its request or to release the lock: nothing
// goes on when it has ended. A second interrupt leaves it less, see [hurryTime].
const runSettleTime = 10 * time.Second

// lookTimeout bounds the look at a run that was skipped.
const lookTimeout = 5 * time.Second

// failedRun gives the error of a run the exit code of the command, if the command is what failed.
func failedRun(err error) error {
	code, ok := exitCode(err)
	if !ok {
		return trouble(err)
	}
	return &exitError{code, itsOwn(err, code, "once")}
}

// settleTime is how long a signal that this process has sent to itself may take.
const settleTime = time.Second

// perform is the work: the command, with the result that it left in a file.
func (c *onceCmd) perform(ctx context.Context, path string, l once.Lock, due time.Time, s *streams) (string, error) {
	dir, err := os.MkdirTemp("", "leasehold-once-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system's folder for what is left behind
	result := filepath.Join(dir, "result")

	if err := once.Check(ctx); err != nil {
		return "", err
	}
	variables := []string{
		"LEASEHOLD_RUN_ID=" + c.Name, "LEASEHOLD_TENANT=" + c.Tenant,
		"LEASEHOLD_FENCING_TOKEN=" + strconv.FormatInt(l.Token, 10), "LEASEHOLD_FENCING_SUBJECT=" + l.Lease().Subject,
		"LEASEHOLD_RESULT=" + result,
	}
	if !due.IsZero() {
		variables = append(variables, "LEASEHOLD_DUE_AT="+due.UTC().Format(time.RFC3339))
	}
	b := bound{left: func() time.Duration { left, _ := term.Left(ctx); return left },
		last: last(c.TTL), ask: last(c.TTL), grace: c.Grace}
	p, err := begin(path, c.Command, settings.WithoutLock(os.Environ()), variables, b, s)
	if err != nil {
		return "", once.Uncounted(err) // that says nothing about the run
	}
	select {
	case <-p.ended:
	case <-p.late:
		p.kill()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(2 * b.last):
			return "", once.Uncounted(errors.New("the lock was refreshed so late that the command was killed before"))
		}
	case <-ctx.Done():
		// At once if the lock is lost, or with a second signal, else after a time of grace, during which the lock is still
		// refreshed, and may be lost.
		p.end(c.Grace, func() bool {
			return interruptsOf(ctx).hurry() || errors.Is(once.Check(ctx), once.ErrLost) || b.left() <= b.last
		})
		return "", context.Cause(ctx)
	}
	if p.interrupted { // as this process is, by the same signal
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(settleTime):
		}
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
