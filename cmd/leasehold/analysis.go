package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

type analysisCmd struct {
	remote
	output

	List  analysisListCmd  `cmd:"" help:"List analyses."`
	Get   analysisGetCmd   `cmd:"" help:"Look at an analysis."`
	Retry analysisRetryCmd `cmd:"" help:"Let a FAILED analysis run again (operators)."`
}

// AfterApply reads the flags together.
func (c *analysisCmd) AfterApply() error {
	c.settle()
	return cmp.Or(ofNoTenant("analyses belong"), c.remote.AfterApply())
}

// Help is the longer help of the command.
func (analysisCmd) Help() string {
	return `What failed, and once more:

  leasehold analysis list --urgent
  leasehold analysis retry a-1024 --reason "the model is fixed"
  leasehold analysis retry --all --prefix report- --since 24h --reason "the target is back"

Looking needs the right of workers or operators, a retry that of operators. An analysis is the document analyses/{id} of your own store, which a queue worker runs: see "leasehold worker --help". It belongs to no tenant. What "leasehold once" runs are runs of a tenant: see "leasehold run --help".

Exit codes: 0 done, 5 no such analysis, 6 the analysis is not FAILED, or has just failed again: nothing was retried, 130 interrupted. With --json an error is a JSON object on standard error, with its code and exit_code.`
}

// analyses is the client that the commands about analyses share.
func (c *analysisCmd) analyses() (*client.Analyses, error) {
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	return server.Analyses(), nil
}

// outcome gives an error of the server its exit code.
func (c *analysisCmd) outcome(err error) error {
	err = c.explain(err)
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return withExit(e.Code, err)
	}
	return err
}

type analysisListCmd struct {
	Prefix string `help:"Only analyses whose ID begins with this."`
	Status string `placeholder:"STATUS" complete:"FAILED,PENDING,READY" help:"Only analyses with this status, such as FAILED, READY or PENDING."`
	Urgent bool   `help:"Only analyses that failed, for good or with their last run, and those whose worker was lost and that no other has taken over."`
}

// Run lists analyses, page by page. With --json it prints one analysis a line; those that cannot be read have a code.
func (c *analysisListCmd) Run(ctx context.Context, a *analysisCmd, s *streams) error {
	server, err := a.analyses()
	if err != nil {
		return err
	}
	q := client.AnalysisQuery{Prefix: c.Prefix, Status: c.Status, Urgent: c.Urgent, PageSize: 1000}
	for shown := false; ; {
		page, err := server.List(ctx, q)
		if err != nil {
			return a.outcome(err)
		}
		some := len(page.Analyses)+len(page.Unreadable) > 0
		shown = shown || some
		if a.JSON {
			err = showEach(s, page)
		} else if some {
			_, err = fmt.Fprint(s.out, analysisTable(page, a.wide()))
		}
		if err != nil {
			return err
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			if shown {
				return nil
			}
			return c.none(a, s)
		}
	}
}

// AfterApply checks the flags together: what failed once has a status of its own, or PENDING.
func (c *analysisListCmd) AfterApply() error {
	if c.Urgent && c.Status != "" {
		return usage("--urgent and --status cannot both be given: what needs a look has several statuses")
	}
	return nil
}

// none says that there was nothing to list. A status that Leasehold does not write may be a word of the user's own, or
// a mistake.
func (c *analysisListCmd) none(a *analysisCmd, s *streams) error {
	text := "no analyses"
	if c.Prefix != "" {
		text += " that begin with " + printable(c.Prefix)
	}
	if c.Status != "" {
		text += " with the status " + printable(c.Status)
	}
	if c.Urgent {
		text += " that failed or lost their worker"
	}
	if c.Status != "" && !slices.Contains(statuses, strings.ToUpper(c.Status)) {
		return &exitError{exitMissing, fmt.Errorf("%s; Leasehold writes %s, other words are your programs'", text,
			strings.Join(statuses, ", "))}
	}
	if !a.JSON {
		fmt.Fprintln(s.err, text)
	}
	return nil
}

// statuses are those that Leasehold and its examples write.
var statuses = []string{"PENDING", string(contracts.RunReady), string(contracts.RunFailed)}

// showEach prints a page as JSON, one analysis a line.
func showEach(s *streams, page contracts.AnalysisPage) error {
	for _, a := range page.Analyses {
		if err := show(s, true, a, ""); err != nil {
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

// analysisTable is a page of analyses for people.
func analysisTable(page contracts.AnalysisPage, wide bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "ANALYSIS\tSTATUS\tFINISHED\tOWNER\tUNTIL\tFAILURES\tREASON")
	text := printable
	if wide {
		text = quoted
		fmt.Fprint(w, "\tRUNS\tRETRIED\tRESULT")
	}
	fmt.Fprintln(w)
	for _, a := range page.Analyses {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s", text(a.AnalysisID), cmp.Or(text(a.Status), "-"),
			cmp.Or(a.FinishedAt, "-"),
			cmp.Or(text(a.OwnerID), "-"), cmp.Or(a.ExpiresAt, "-"), a.Failures, text(a.FailureReason))
		if wide {
			retried := "-"
			if a.Retry != nil {
				retried = a.Retry.At
			}
			fmt.Fprintf(w, "\t%d\t%s\t%s", a.Runs, retried, text(a.Result))
		}
		fmt.Fprintln(w)
	}
	for _, u := range page.Unreadable {
		fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\tthe server's log says what is wrong with the document\n", printable(u.AnalysisID),
			u.Code)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return trimmed(b.String())
}

type analysisGetCmd struct {
	Analysis string `arg:"" help:"The analysis: the ID of its document."`
}

// Run shows an analysis.
func (c *analysisGetCmd) Run(ctx context.Context, a *analysisCmd, s *streams) error {
	server, err := a.analyses()
	if err != nil {
		return err
	}
	got, err := server.Get(ctx, c.Analysis)
	if err != nil {
		return a.outcome(err)
	}
	return show(s, a.JSON, got, "%s", analysisCard(got))
}

// work is what the cards of analyses and runs show.
type work struct {
	what, id, state, due, begun, finished, owner, until, reason, result, kept string
	locked                                                                    bool
	runs, failures                                                            int64
	retry                                                                     *contracts.RunRetry
}

// analysisCard is one analysis for people, a member a line.
func analysisCard(a contracts.Analysis) string {
	return card(work{what: "analysis", id: a.AnalysisID, state: cmp.Or(a.Status, "-"), finished: a.FinishedAt,
		owner: a.OwnerID, until: a.ExpiresAt, locked: a.Locked, runs: a.Runs, failures: a.Failures, reason: a.FailureReason,
		result: a.Result, retry: a.Retry})
}

// card is an analysis or a run for people.
func card(a work) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	line(a.what, quoted(a.id))
	line("status", quoted(a.state))
	line("due", a.due)
	line("begun", a.begun)
	line("finished", a.finished)
	switch {
	case a.locked:
		line("run by", quoted(a.owner))
		line("until", cmp.Or(a.until, "a time that cannot be read"))
	case a.owner != "":
		line("last run by", quoted(a.owner)+", whose lock expired")
		line("until", a.until)
	}
	if a.runs > 1 {
		line("takeovers", strconv.FormatInt(a.runs-1, 10))
	}
	line("failures", strconv.FormatInt(a.failures, 10))
	line("reason", quoted(a.reason))
	line("result", quoted(a.result))
	if r := a.retry; r != nil {
		line("retried", fmt.Sprintf("%s by %s: %s", r.At, quoted(r.By), quoted(r.Reason)))
	}
	line("kept until", a.kept)
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

type analysisRetryCmd struct {
	Analysis string `arg:"" optional:"" help:"The analysis: the ID of its document."`
	retryMany
	Reason string `required:"" help:"Why: it stays in the document until the next retry."`
	Owner  string `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who retries it (${env}); the default is user@host. With authentication: a suffix to the token's subject, by default none."`
	requestID
}

// AfterApply checks the flags together.
func (c *analysisRetryCmd) AfterApply() error { return c.check("analysis", c.Analysis, c.RequestID) }

// Run retries an analysis, or all that are FAILED.
func (c *analysisRetryCmd) Run(ctx context.Context, a *analysisCmd, s *streams) error {
	server, err := a.analyses()
	if err != nil {
		return err
	}
	if !c.All {
		found, err := server.Get(ctx, c.Analysis)
		if err != nil {
			return a.outcome(err)
		}
		return c.retry(ctx, a, s, server, found)
	}
	found := map[string]contracts.Analysis{}
	var names []string
	q := client.AnalysisQuery{Prefix: c.Prefix, Status: string(contracts.RunFailed), PageSize: 1000}
	for {
		page, err := server.List(ctx, q)
		if err != nil {
			return a.outcome(err)
		}
		for _, one := range page.Analyses {
			if c.ended(one) {
				found[one.AnalysisID] = one
				names = append(names, one.AnalysisID)
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return c.each(ctx, s, "analyses", names, a.JSON, func(name string) error {
				return c.retry(ctx, a, s, server, found[name])
			})
		}
	}
}

// ended reports whether an analysis ended since the time of the flag. One that another program made FAILED may not say
// when.
func (c *analysisRetryCmd) ended(one contracts.Analysis) bool {
	at, err := time.Parse(time.RFC3339, one.FinishedAt)
	return c.Since.IsZero() || err == nil && !at.Before(c.Since.Time)
}

// retry retries an analysis that was found so. A delivery that is delayed on its way lets no later failure run again.
func (c *analysisRetryCmd) retry(ctx context.Context, a *analysisCmd, s *streams, server *client.Analyses,
	found contracts.Analysis) error {
	r := contracts.AnalysisRetryRequest{RequestID: c.RequestID, OwnerID: owner{c.Owner}.id(a.remote), Reason: c.Reason}
	if found.Status == string(contracts.RunFailed) {
		r.FinishedAt = found.FinishedAt
	}
	got, err := server.Retry(ctx, found.AnalysisID, r)
	if err != nil {
		return a.outcome(err)
	}
	if got.Replayed {
		return show(s, a.JSON, got, "this request retried %s before; nothing was changed now, and it is %s\n",
			printable(got.AnalysisID), cmp.Or(printable(got.Status), "without a status"))
	}
	return show(s, a.JSON, got,
		"%s is %s again, and its failures count from 0; the next sweep queues it for a worker\n",
		printable(got.AnalysisID), got.Status)
}
