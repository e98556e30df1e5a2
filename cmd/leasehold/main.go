// Leasehold on the command line: a server over the embedded store, and the lock commands against a server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes, for scripts. They are part of what the command promises; --help lists them.
const (
	exitOK      = 0
	exitFailed  = 1 // something broke: the server, the network, the store
	exitUsage   = 2 // the command line or a value in it cannot be accepted
	exitHeld    = 3 // somebody else holds the lock, or runs the analysis
	exitGone    = 4 // the lease is lost, expired, released or not yours
	exitMissing = 5 // there is no such lock, or no such analysis
)

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a server: the HTTP API over the embedded store."`
	Demo    demoCmd    `cmd:"" help:"Show what Leasehold is for, live, in ten seconds."`
	Lock    lockCmd    `cmd:"" help:"Take, keep, give back and look at locks of a running server."`
	Once    onceCmd    `cmd:"" help:"Run a command under the gate of an analysis: once at a time, and never again when it is done."`
	Worker  workerCmd  `cmd:"" help:"Take the messages of an SQS queue through the analysis gate to the work."`
	ID      idCmd      `cmd:"" name:"id" help:"Make IDs, take them apart, convert them to public IDs and back."`
	Emulate emulateCmd `cmd:"" help:"Run an in-memory emulator of Firestore, DynamoDB, SQS or Cloud Tasks."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `Locks with fencing tokens for serverless functions.

Start with "leasehold serve"; it prints what to try next. Every flag can also be set by the environment variable that its help names.

Exit codes: 0 done, 1 something broke, 2 wrong usage, 3 the lock is held by somebody else, 4 the lease is gone, 5 no such lock.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default handling is back, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// streams are where a command writes.
type streams struct{ out, err io.Writer }

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code := -1
	c := cli{Serve: newServeCmd(), Worker: newWorkerCmd()}
	parser, err := kong.New(&c,
		kong.Name("leasehold"),
		kong.Description(description),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code = c }), // --help: kong believes that this ends the process
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&streams{stdout, stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "leasehold:", err)
		return exitFailed
	}
	command, err := parser.Parse(markDashes(args))
	if code >= 0 {
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "leasehold: %v\nRun \"leasehold --help\", or a command with --help, to see what there is.\n", err)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(stderr, "leasehold:", err)
		if e, ok := errors.AsType[*exitError](err); ok {
			return e.code
		}
		return exitFailed
	}
	return exitOK
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as one of the command line.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

type versionCmd struct{}

// version is set by release builds with -ldflags "-X main.version=v1.2.3".
var version string

// Run prints the version: the one set at build time, else the module's, else the commit.
func (versionCmd) Run(s *streams) error {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
		for _, set := range info.Settings {
			if set.Key == "vcs.revision" && (v == "" || v == "(devel)") {
				v = "commit " + set.Value
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "development build"
	}
	_, err := fmt.Fprintln(s.out, "leasehold", v)
	return err
}
