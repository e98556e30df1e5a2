package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/idempotency"
)

type runCmd struct {
	inTenant

	List   runListCmd   `cmd:"" help:"List the runs of a tenant."`
	Get    runGetCmd    `cmd:"" help:"Look at a run: by its name, or by the Idempotency-Key of a request."`
	Retry  runRetryCmd  `cmd:"" help:"Let a FAILED run be run again."`
	Again  runAgainCmd  `cmd:"" help:"Let a READY run be run once more."`
	Remove runRemoveCmd `cmd:"" help:"Remove the record of a run: its name is a new one then."`
}

// Help is the longer help of the command.
func (runCmd) Help() string {
	return `A run has a name that its callers choose: the first one does the work, all later ones get its result. Those of "leasehold once", of the clients in all languages and of requests with an Idempotency-Key are in one list. The name of such a request's run is a hash of scope and key. A job that comes round again is one run, with the time for which its latest run was due.

  leasehold run list --urgent
  leasehold run list --state READY --since 24h --prefix invoice-
  leasehold run get invoice-2026-11
  leasehold run get --idempotency-key 8e03978e-40d5-43dd-bc93-6894a57f9324 --scope alice --name payments
  leasehold run retry invoice-2026-11 --reason "the bank responds again"
  leasehold run retry --all --prefix invoice- --since 24h --reason "the bank responds again"
  leasehold run again report --reason "the prices were wrong"
  leasehold run remove invoice-2026-10 --reason "the customer has left"

retry, again and remove begin nothing: the next caller that begins the run does its work. The server writes them with their reason into its audit events.

Exit codes: 0 done, 3 a worker runs it, so that it cannot be removed, 5 there is no such run, or its record was removed, 6 the run is not FAILED (retry) or not READY (again), or has ended again: nothing was changed; 130 interrupted. With --json an error is a JSON object on standard error, with its code and exit_code.`
}

// runs is the client that the commands about runs share.
func (r *runCmd) runs() (*client.Runs, error) {
	server, err := r.connect()
	if err != nil {
		return nil, err
	}
	return server.Runs(r.Tenant), nil
}

type runListCmd struct {
	Prefix  string   `help:"Only runs whose name begins with this."`
	State   string   `placeholder:"STATE" complete:"RUNNING,STALE,PENDING,READY,FAILED" help:"Only runs in this state: RUNNING, READY, FAILED; STALE, whose worker was lost and that no other has taken over; PENDING, which wait to be begun again."`
	ByOwner string   `name:"owner" placeholder:"NAME" help:"Only runs that this owner has, or had until its lock expired."`
	Urgent  bool     `help:"Only runs that failed, for good or with their last attempt, and those that are STALE."`
	Since   pastTime `placeholder:"TIME" help:"Only runs that began, were refreshed or ended at this time or later: such as 24h (ago) or 2026-11-22T14:00Z."`
	Until   pastTime `placeholder:"TIME" help:"Only runs of which the same is earlier than this."`
}

// states are those of a run.
var states = []contracts.WorkState{contracts.RUNNING, contracts.STALE, contracts.PENDING, contracts.READY,
	contracts.FAILED}

// AfterApply checks the flags.
func (c *runListCmd) AfterApply() error {
	switch {
	case c.Urgent && c.State != "":
		return usage("--urgent and --state cannot both be given: what needs a look has several states")
	case !c.Since.IsZero() && !c.Until.IsZero() && !c.Since.Before(c.Until.Time):
		return usage("--until must be later than --since")
	case c.State == "":
		return nil
	}
	var names []string
	for _, s := range states {
		if strings.EqualFold(c.State, string(s)) {
			c.State = string(s)
			return nil
		}
		names = append(names, string(s))
	}
	return usage("--state %s: must be one of %s", c.State, strings.Join(names, ", "))
}

// query is what to ask for.
func (c *runListCmd) query() client.RunQuery {
	return client.RunQuery{Prefix: c.Prefix, State: contracts.WorkState(c.State), Owner: c.ByOwner, Urgent: c.Urgent,
		ChangedAfter: c.Since.Time, ChangedBefore: c.Until.Time, PageSize: 1000}
}

// Run lists runs, page by page. With --json it prints one run a line; those that cannot be read have a code.
func (c *runListCmd) Run(ctx context.Context, r *runCmd, s *streams) error {
	server, err := r.runs()
	if err != nil {
		return err
	}
	q := c.query()
	for shown := false; ; {
		page, err := server.List(ctx, q)
		if err != nil {
			return r.outcome(err)
		}
		some := len(page.Runs)+len(page.Unreadable) > 0
		shown = shown || some
		if r.JSON {
			err = showRuns(s, page)
		} else if some {
			_, err = fmt.Fprint(s.out, runTable(page, r.wide()))
		}
		if err != nil {
			return err
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			if !shown && !r.JSON {
				fmt.Fprintf(s.err, "no such runs of tenant %s\n", printable(r.Tenant))
			}
			return nil
		}
	}
}

// showRuns prints a page as JSON, one run a line.
func showRuns(s *streams, page contracts.RunPage) error {
	for _, r := range page.Runs {
		if err := show(s, true, r, ""); err != nil {
			return err
		}
	}
	for _, u := range page.Unreadable {
		if err := show(s, true, u, ""); err != nil {
			return err
		}
	}
	return nil
}

// stateOf is how far a run has come.
func stateOf(r contracts.Run) contracts.WorkState {
	switch {
	case r.Finished:
		return contracts.WorkState(r.Status)
	case r.Locked:
		return contracts.RUNNING
	case r.OwnerID != "":
		return contracts.STALE
	default:
		return contracts.PENDING
	}
}

// runTable is a page of runs for people.
func runTable(page contracts.RunPage, wide bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "RUN\tSTATE\tDUE\tFINISHED\tOWNER\tUNTIL\tFAILURES\tREASON")
	text := printable
	if wide {
		text = quoted
		fmt.Fprint(w, "\tRUNS\tBEGUN\tKEPT\tRETRIED")
	}
	fmt.Fprintln(w)
	for _, r := range page.Runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", text(r.RunID), stateOf(r), cmp.Or(r.DueAt, "-"),
			cmp.Or(r.FinishedAt, "-"), cmp.Or(text(r.OwnerID), "-"), cmp.Or(r.ExpiresAt, "-"), r.Failures, text(r.FailureReason))
		if wide {
			retried := "-"
			if r.Retry != nil {
				retried = r.Retry.At
			}
			fmt.Fprintf(w, "\t%d\t%s\t%s\t%s", r.Runs, cmp.Or(r.BegunAt, "-"), cmp.Or(r.KeptUntil, "-"), retried)
		}
		fmt.Fprintln(w)
	}
	for _, u := range page.Unreadable {
		fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\tthe server's log says what is wrong with the record\n", printable(u.RunID),
			u.Code)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// runCard is one run for people, a member a line.
func runCard(r contracts.Run) string {
	return card(work{
		what: "run", id: r.RunID, state: string(stateOf(r)), due: r.DueAt, begun: r.BegunAt, finished: r.FinishedAt,
		owner: r.OwnerID, until: r.ExpiresAt, locked: r.Locked, runs: r.Runs, failures: r.Failures, reason: r.FailureReason,
		result: r.Result, retry: r.Retry, kept: r.KeptUntil,
	})
}

type runGetCmd struct {
	ID string `arg:"" optional:"" name:"run" help:"The run: the name that its callers gave it."`

	Key   string `name:"idempotency-key" placeholder:"KEY" help:"The run of a request with this Idempotency-Key, instead of a name."`
	Scope string `help:"Whose request it was, as the function scope of the middleware says. Needed with --idempotency-key."`
	Name  string `help:"Options.Name of the middleware. Needed with --idempotency-key."`
}

// AfterApply checks the flags together.
func (c *runGetCmd) AfterApply() error {
	switch {
	case c.ID == "" && c.Key == "":
		return usage("the run is missing: leasehold run get RUN, or leasehold run get --idempotency-key KEY --scope SCOPE --name NAME")
	case c.ID != "" && (c.Key != "" || c.Scope != "" || c.Name != ""):
		return usage("a run is named by its name, or by --idempotency-key with --scope: give one of them")
	case c.ID == "" && c.Scope == "":
		return usage("--scope is missing: the same key of another caller is another run")
	case c.ID == "" && c.Name == "":
		return usage("--name is missing: the same key of another middleware is another run")
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
	server, err := r.runs()
	if err != nil {
		return err
	}
	got, err := server.Get(ctx, c.ID)
	if err != nil {
		return r.outcome(err)
	}
	return show(s, r.JSON, got, "%s", runCard(got))
}

// onceMore are the flags of commands that change what is stored of a run.
type onceMore struct {
	Reason string `required:"" help:"Why: for the audit events, and for those who look at the run."`
	Owner  string `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who does it (${env}); the default is user@host. With authentication: a suffix to the token's subject, by default none."`
	requestID
}

// ask sends a retry, or an again, for the end that the run has now, so that a delivery that is delayed on its way lets
// no later end run again.
func (m onceMore) ask(ctx context.Context, r *runCmd, s *streams, id string, of contracts.RunEnd,
	send func(*client.Runs, contracts.RunRetryRequest) (contracts.RunRetried, error)) error {
	server, err := r.runs()
	if err != nil {
		return err
	}
	found, err := server.Get(ctx, id)
	if err != nil {
		return r.outcome(err)
	}
	request := contracts.RunRetryRequest{RequestID: m.RequestID, OwnerID: owner{m.Owner}.id(r.remote), Reason: m.Reason}
	if found.Status == of {
		request.FinishedAt = found.FinishedAt
	}
	got, err := send(server, request)
	if err != nil {
		return r.outcome(err)
	}
	if got.Replayed {
		return show(s, r.JSON, got, "this request let %s run again before; nothing was changed now, and it is %s\n",
			printable(got.RunID), cmp.Or(string(got.Status), "not finished"))
	}
	return show(s, r.JSON, got,
		"%s waits to be begun again, and its failures count from 0: the next caller does its work\n", printable(got.RunID))
}

type runRetryCmd struct {
	ID string `arg:"" name:"run" optional:"" help:"The run: the name that its callers gave it."`
	retryMany
	onceMore
}

// AfterApply checks the flags together.
func (c *runRetryCmd) AfterApply() error { return c.check("run", c.ID, c.RequestID) }

// Run lets a FAILED run be run again, or all of them.
func (c *runRetryCmd) Run(ctx context.Context, r *runCmd, s *streams) error {
	retry := func(id string) error {
		return c.ask(ctx, r, s, id, contracts.RunFailed,
			func(server *client.Runs, request contracts.RunRetryRequest) (contracts.RunRetried, error) {
				return server.Retry(ctx, id, request)
			})
	}
	if !c.All {
		return retry(c.ID)
	}
	server, err := r.runs()
	if err != nil {
		return err
	}
	var names []string
	q := client.RunQuery{Prefix: c.Prefix, State: contracts.FAILED, ChangedAfter: c.Since.Time, PageSize: 1000}
	for {
		page, err := server.List(ctx, q)
		if err != nil {
			return r.outcome(err)
		}
		for _, one := range page.Runs {
			names = append(names, one.RunID)
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return c.each(ctx, s, "runs", names, r.JSON, retry)
		}
	}
}

// oneRun is the argument of commands about one.
type oneRun struct {
	ID string `arg:"" name:"run" help:"The run: the name that its callers gave it."`
}

type runAgainCmd struct {
	oneRun
	onceMore
}

// Run lets a READY run be run once more.
func (c *runAgainCmd) Run(ctx context.Context, r *runCmd, s *streams) error {
	return c.ask(ctx, r, s, c.ID, contracts.RunReady,
		func(server *client.Runs, request contracts.RunRetryRequest) (contracts.RunRetried, error) {
			return server.Again(ctx, c.ID, request)
		})
}

type runRemoveCmd struct {
	oneRun
	onceMore
}

// Run removes the record of a run.
func (c *runRemoveCmd) Run(ctx context.Context, r *runCmd, s *streams) error {
	server, err := r.runs()
	if err != nil {
		return err
	}
	got, err := server.Remove(ctx, c.ID, contracts.RunRemoveRequest{RequestID: c.RequestID,
		OwnerID: owner{c.Owner}.id(r.remote), Reason: c.Reason})
	if err != nil {
		return r.outcome(err)
	}
	words := "the record of %s is removed: who begins it next does its work\n"
	if got.Replayed {
		words = "this request removed the record of %s before; nothing was changed now\n"
	}
	return show(s, r.JSON, got, words, printable(got.RunID))
}

// pastTime is a time of the command line, or how long ago it was.
type pastTime struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *pastTime) UnmarshalText(text []byte) error {
	var ago longTime
	if ago.UnmarshalText(text) == nil && ago > 0 {
		t.Time = time.Now().Add(-time.Duration(ago)).UTC()
		return nil
	}
	var at auditTime
	if at.UnmarshalText(text) != nil {
		return fmt.Errorf(
			"%q is no time: write one such as 2026-11-26T03:12:00Z, or how long ago it was, such as 24h or 7d", text)
	}
	t.Time = at.Time
	return nil
}
