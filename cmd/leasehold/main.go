// Command leasehold runs a server, and calls one: locks, analyses, placement, IDs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// cli has the commands in the order of the help: first those that people need on the first day.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a server: the HTTP API over the embedded store or another one."`
	Demo    demoCmd    `cmd:"" help:"Show what Leasehold is for, in a browser or in the terminal."`
	Lock    lockCmd    `cmd:"" help:"Run a command under a lock; acquire, renew, release and list locks."`
	Once    onceCmd    `cmd:"" help:"Run a command once, or once each time that it is due: a nightly job, work with a name."`
	Run     runCmd     `cmd:"" help:"List runs, look at one, let one run again, remove one."`
	ID      idCmd      `cmd:"" name:"id" help:"Generate IDs, decode them, convert them to public IDs and back."`
	Token   tokenCmd   `cmd:"" help:"Make, list and revoke the bearer tokens of a server without an identity provider."`
	Doctor  doctorCmd  `cmd:"" help:"Check the settings of a server, its store and its clock, or a server that runs, and say what to do."`
	Help    helpCmd    `cmd:"" help:"Show the help of a command; so does the command with --help."`
	Version versionCmd `cmd:"" help:"Print the version, the commit and its date; so does --version."`

	Worker    workerCmd    `cmd:"" group:"use" help:"Run the analyses of an SQS queue, each by one worker at a time."`
	Analysis  analysisCmd  `cmd:"" group:"use" help:"List analyses, which a queue worker runs, look at one, retry one that failed."`
	Placement placementCmd `cmd:"" group:"use" help:"Look at a cluster: its members, where an identity is, what changed; drain a member."`
	Fence     fenceCmd     `cmd:"" group:"use" help:"Check fencing tokens where a resource cannot."`

	Store  storeCmd  `cmd:"" group:"admin" help:"Maintain a store: remove ended locks, raise tokens after a restore."`
	Audit  auditCmd  `cmd:"" group:"admin" help:"Say who had a lock at a time, with which token, from the audit events of servers."`
	Health healthCmd `cmd:"" group:"admin" help:"Check that a server is ready: for health checks of containers."`

	Prove      proveCmd      `cmd:"" group:"tools" help:"Look for a broken promise: put faults to locks, runs and machine IDs, in virtual time, without a server."`
	Emulate    emulateCmd    `cmd:"" group:"tools" help:"Run an in-memory emulator of Firestore, DynamoDB, SQS or Cloud Tasks."`
	Completion completionCmd `cmd:"" group:"tools" help:"Print a script that completes commands and flags in a shell."`
	Man        manCmd        `cmd:"" group:"tools" help:"Print a manual page, or write all of them."`
}

// groups are the headings of the help.
var groups = []kong.Group{
	{Key: "use", Title: "Queues, placement, fences:"},
	{Key: "admin", Title: "Administration:"},
	{Key: "tools", Title: "Tests and shells:"},
}

func newCLI() cli {
	return cli{Serve: newServeCmd(), Lock: lockCmd{Run: newLockRunCmd()}, Once: newOnceCmd(), Worker: newWorkerCmd(),
		Store: newStoreCmd(), Doctor: newDoctorCmd()}
}

const description = `Locks with fencing tokens for serverless functions.

Start with "leasehold serve"; it prints what to try next. A flag can also be set by the environment variable in its help. --server, --tenant, --auth-token-file, --output and --json may stand before the command too. Durations have a unit: 500ms, 30s, 5m, 2h.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 held, 4 the lease is lost, expired or released, 5 not found, 6 not FAILED or not READY, 130 interrupted; those of "once" and "lock run" are in their help. With --json an error is a JSON object on standard error, with its code and exit_code.`

func main() {
	os.Exit(run(catch(), os.Args[1:], os.Stdout, os.Stderr))
}

// streams are the outputs of a command.
type streams struct{ out, err io.Writer }

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code := -1
	s := &streams{stdout, stderr}
	c := newCLI()
	parser, err := kong.New(&c,
		kong.Name("leasehold"),
		kong.Description(description),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ExplicitGroups(groups),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code = c }), // --help: kong expects that this ends the process
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
		durations,
	)
	if err == nil {
		err = ignoreEmpty(parser.Model, os.Getenv)
	}
	if err != nil {
		fmt.Fprintln(stderr, "leasehold:", err)
		return exitFailed
	}
	if len(args) > 0 && args[0] == completeCommand {
		complete(parser.Model, args[1:], stdout)
		return exitOK
	}
	args = arrange(args)
	command, err := parser.Parse(args)
	if code >= 0 {
		return code
	}
	if err != nil {
		name, wrong := inWords(err)
		code = report(ctx, &exitError{usageCode(args), wrong}, wantsJSON(args), s)
		if !wantsJSON(args) {
			fmt.Fprintf(stderr, "Run \"%s --help\" for the usage.\n", name)
		}
		return code
	}
	if err := command.Run(); err != nil {
		return report(ctx, err, wantsJSON(args), s)
	}
	return exitOK
}

// usageCode is the exit code of arguments that cannot be read: "once" and "lock run" leave the low ones to the command
// that they run.
func usageCode(args []string) int {
	if len(args) > 0 && args[0] == "once" || len(args) > 1 && args[0] == "lock" && args[1] == "run" {
		return exitTrouble
	}
	return exitUsage
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

// Run has nothing to do: "help lock" is "lock --help" before it is parsed.
func (helpCmd) Run() error { return nil }
