package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/once"
)

type onceCmd struct {
	remote

	Analysis string   `arg:"" help:"The analysis: the ID of its document."`
	Command  []string `arg:"" help:"The command and its arguments, after \"--\"."`

	Create      bool          `help:"Make the document of the analysis if there is none."`
	Owner       string        `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who runs it (${env}); the default is host and process ID."`
	TTL         time.Duration `name:"ttl" default:"5m" help:"How long the lock lasts without a refresh, in whole seconds (default ${default})."`
	Heartbeat   time.Duration `placeholder:"DURATION" help:"Time between refreshes; the default is a fifth of --ttl."`
	MaxFailures int64         `placeholder:"N" help:"The analysis turns FAILED when so many runs have failed (default: never)."`
	Grace       time.Duration `default:"10s" help:"Time for the command between SIGTERM and SIGKILL when this process is asked to stop (default ${default})."`
}

// Help is the longer help of the command.
func (onceCmd) Help() string {
	return `Asks for the run of an analysis, runs the command with a heartbeat, and ends the analysis: READY if the command exits with 0, otherwise the run is counted as failed and may be tried again.

  leasehold once a-1024 -- ./analyze.sh --input s3://bucket/a-1024

The command finds LEASEHOLD_ANALYSIS_ID, LEASEHOLD_TOKEN (the fencing token: pass it on to what the command writes to) and LEASEHOLD_RESULT, a file whose content becomes the result, in its environment, and none of Leasehold's secrets (LEASEHOLD_AUTH_TOKEN …). When the lock is lost, the command and all that it started (its process group) are killed at once; what the command leaves behind when it ends by itself is killed, too, for the run is over then. If this process itself is killed, nothing kills the command: then the token protects.

Exit codes: 0 the analysis is READY now, or was READY before; 1 the run failed, for good or not; 6 the analysis was FAILED before; 130 it was interrupted; 3 another worker runs it: retry later; 4 the lock was lost; 5 there is no such analysis (--create makes it).`
}

// Run runs the command.
func (c *onceCmd) Run(ctx context.Context, s *streams) error {
	switch {
	case c.TTL < time.Second || c.TTL > once.MaxTTL || c.TTL%time.Second != 0:
		return usage("--ttl %v: must be whole seconds from 1s to %v", c.TTL, once.MaxTTL)
	case c.Heartbeat < 0 || c.Heartbeat >= c.TTL:
		return usage("--heartbeat %v: must be less than --ttl %v, or the lock is lost each time", c.Heartbeat, c.TTL)
	case c.MaxFailures < 0 || c.Grace < 0:
		return usage("--max-failures and --grace must not be negative")
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return usage("%w", err)
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	gate := server.Analyses()
	if c.Create {
		if _, err := gate.Create(ctx, c.Analysis); err != nil {
			return c.explain(err)
		}
	}
	out, err := once.Run(ctx, &announced{Gate: gate, remote: c.remote, to: s.err}, c.Analysis, func(ctx context.Context, l once.Lock) (string, error) {
		return c.perform(ctx, path, l, s)
	}, &once.Options{
		Owner: c.Owner, TTL: c.TTL, Heartbeat: c.Heartbeat, MaxFailures: c.MaxFailures,
		Warn: func(err error) { fmt.Fprintln(s.err, "leasehold:", err) },
	})
	if err != nil {
		return c.explain(err)
	}
	if ctx.Err() != nil && out.Status == once.Stopped {
		return interruption("interrupted: the run of %s was stopped, and may be tried again", c.Analysis)
	}
	return c.exit(out, s)
}

// exit gives an outcome its exit code.
func (c *onceCmd) exit(out once.Outcome, s *streams) error {
	switch out.Status {
	case once.Ready:
		return nil
	case once.AlreadyFinished:
		fmt.Fprintln(s.err, "leasehold:", c.Analysis, "is finished already")
		return nil
	case once.AlreadyFailed:
		return &exitError{exitDead, fmt.Errorf("%s is FAILED and does not run again; its failure_reason says why", c.Analysis)}
	case once.Locked:
		return &exitError{exitHeld, fmt.Errorf("another worker runs %s; its lock expires in %v unless it is refreshed", c.Analysis, out.RetryAfter)}
	case once.Unknown:
		return &exitError{exitMissing, fmt.Errorf("there is no analysis %s; --create makes it", c.Analysis)}
	case once.Lost:
		return &exitError{exitGone, out.Err}
	case once.Failed:
		return fmt.Errorf("%s is FAILED: %w", c.Analysis, out.Err)
	case once.Retry:
		return fmt.Errorf("the run of %s failed, and may be tried again: %w", c.Analysis, out.Err)
	default:
		return fmt.Errorf("the run of %s was stopped: %w", c.Analysis, out.Err)
	}
}

// perform is the work: the command, with the result that it left in a file.
func (c *onceCmd) perform(ctx context.Context, path string, l once.Lock, s *streams) (string, error) {
	dir, err := os.MkdirTemp("", "leasehold-once-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system's folder for what is left behind
	result := filepath.Join(dir, "result")

	command := exec.Command(path, c.Command[1:]...) //nolint:gosec,noctx // what the user asked to run; ended below, as a group
	command.Args[0] = c.Command[0]
	command.Stdout, command.Stderr = s.out, s.err
	if in, err := os.Stdin.Stat(); err == nil && in.Mode()&os.ModeCharDevice == 0 {
		command.Stdin = os.Stdin // a terminal belongs to this process's group: reading from it would stop the command
	}
	command.Env = append(settings.WithoutSecrets(os.Environ()),
		"LEASEHOLD_ANALYSIS_ID="+l.AnalysisID, "LEASEHOLD_TOKEN="+strconv.FormatInt(l.Token, 10), "LEASEHOLD_RESULT="+result)
	inGroup(command)
	if err := once.Check(ctx); err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = command.Wait()
	}()
	select {
	case <-ended:
		kill(command) // what it left behind: it must not work on when another run begins
	case <-ctx.Done():
		c.end(ctx, command, ended)
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Command[0], err)
	}
	text, err := os.ReadFile(result)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// end ends the command and all that it started: at once if the lock is lost, else after a time of grace, during which the
// lock is still refreshed, and may be lost.
func (c *onceCmd) end(ctx context.Context, command *exec.Cmd, ended <-chan struct{}) {
	grace := time.NewTimer(c.Grace)
	defer grace.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for asked := false; !errors.Is(once.Check(ctx), once.ErrLost); asked = true {
		if !asked {
			terminate(command)
		}
		select {
		case <-ended:
			kill(command) // what it left behind
			return
		case <-grace.C:
			kill(command)
			<-ended
			return
		case <-look.C:
		}
	}
	kill(command)
	<-ended
}
