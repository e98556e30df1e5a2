package main

import (
	"context"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/idempotency"
)

type runCmd struct {
	inTenant

	Get runGetCmd `cmd:"" help:"Look at a run: by its name, or by the Idempotency-Key of a request."`
}

// Help is the longer help of the command.
func (runCmd) Help() string {
	return `A run has a name that its callers choose: the first one does the work, all later ones get its result. A request with an Idempotency-Key is a run, too, whose name is a hash of scope and key:

  leasehold run get invoice-2026-11
  leasehold run get --idempotency-key 8e03978e-40d5-43dd-bc93-6894a57f9324 --scope alice

Exit codes: 0 done, 5 there is no such run, or its record was removed; 130 interrupted. With --json an error is a JSON object on standard error, with its code and exit_code.`
}

type runGetCmd struct {
	ID string `arg:"" optional:"" name:"run" help:"The run: the name that its callers gave it."`

	Key   string `name:"idempotency-key" placeholder:"KEY" help:"The run of a request with this Idempotency-Key, instead of a name."`
	Scope string `help:"Whose request it was, as the function scope of the middleware says. Needed with --idempotency-key."`
	Name  string `help:"Options.Name of the middleware, if that is set."`
}

// AfterApply checks the flags together.
func (c *runGetCmd) AfterApply() error {
	switch {
	case c.ID == "" && c.Key == "":
		return usage("the run is missing: leasehold run get RUN, or leasehold run get --idempotency-key KEY --scope SCOPE")
	case c.ID != "" && (c.Key != "" || c.Scope != "" || c.Name != ""):
		return usage("a run is named by its name, or by --idempotency-key with --scope: give one of them")
	case c.ID == "" && c.Scope == "":
		return usage("--scope is missing: the same key of another caller is another run")
	case c.ID == "":
		id, err := idempotency.RunID(c.Name, c.Scope, c.Key)
		if err != nil {
			return usage("--idempotency-key: %w", err)
		}
		c.ID = id
	}
	return nil
}

// Run shows a run.
func (c *runGetCmd) Run(ctx context.Context, r *runCmd, s *streams) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	got, err := server.Runs(r.Tenant).Get(ctx, c.ID)
	if err != nil {
		return r.outcome(err)
	}
	return show(s, r.JSON, got, "%s", card("run", contracts.Analysis{
		AnalysisID: got.RunID, Status: string(got.Status), Finished: got.Finished, FinishedAt: got.FinishedAt,
		Locked: got.Locked, OwnerID: got.OwnerID, ExpiresAt: got.ExpiresAt, Runs: got.Runs, Failures: got.Failures,
		FailureReason: got.FailureReason, Result: got.Result,
	}))
}
