// Command leasehold runs a server, and calls one: locks, analyses, IDs.
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
	exitOK          = 0
	exitFailed      = 1   // an error of the server, the network or the store
	exitUsage       = 2   // an error in the command line or in a setting
	exitHeld        = 3   // another owner holds the lock, or another worker runs the analysis
	exitGone        = 4   // the lease is lost, expired, released or not yours
	exitMissing     = 5   // the lock or the analysis does not exist
	exitInterrupted = 130 // by SIGINT or SIGTERM, while waiting for a lock
)

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a server: the HTTP API over the embedded store or another one."`
	Demo    demoCmd    `cmd:"" help:"Show in ten seconds what Leasehold is for."`
	Lock    lockCmd    `cmd:"" help:"Acquire, renew, release and list locks of a server."`
	Once    onceCmd    `cmd:"" help:"Run a command under the lock of an analysis: once at a time, and not again once it succeeded."`
	Worker  workerCmd  `cmd:"" help:"Run the analyses of an SQS queue, each by one worker at a time."`
	Store   storeCmd   `cmd:"" help:"Maintain a store: remove ended locks, raise tokens after a restore."`
	ID      idCmd      `cmd:"" name:"id" help:"Generate IDs, decode them, convert them to public IDs and back."`
	Emulate emulateCmd `cmd:"" help:"Run an in-memory emulator of Firestore, DynamoDB, SQS or Cloud Tasks."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `Locks with fencing tokens for serverless functions.

Start with "leasehold serve"; it prints what to try next. A flag can also be set by the environment variable in its help.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 held by another owner, 4 the lease is lost, expired or released, 5 not found, 130 interrupted while waiting.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// streams are the outputs of a command.
type streams struct{ out, err io.Writer }

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code := -1
	c := cli{Serve: newServeCmd(), Worker: newWorkerCmd(), Store: newStoreCmd()}
	parser, err := kong.New(&c,
		kong.Name("leasehold"),
		kong.Description(description),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code = c }), // --help: kong expects that this ends the process
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
		fmt.Fprintf(stderr, "leasehold: %v\nRun \"leasehold --help\", or a command with --help, for the usage.\n", err)
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

// exitError is an error with its exit code.
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
