package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/audit"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

type auditCmd struct {
	Files  []string `name:"file" short:"f" required:"" sep:"none" placeholder:"FILE" help:"File with audit events, may be given several times; - is standard input. Lines of JSON, also compressed with gzip."`
	Tenant string   `default:"default" env:"LEASEHOLD_TENANT" help:"The tenant of a lock, a run or an identity (${env}; default ${default})."`

	Lock      string `xor:"thing" required:"" placeholder:"KEY" help:"Who had this lock."`
	RunID     string `name:"run" xor:"thing" required:"" placeholder:"ID" help:"Who ran this run."`
	Analysis  string `xor:"thing" required:"" placeholder:"ID" help:"Who ran this analysis."`
	MachineID *int64 `name:"machine-id" xor:"thing" required:"" placeholder:"NUMBER" help:"Who had this machine ID of --service."`
	Identity  string `xor:"thing" required:"" placeholder:"KIND/ID" help:"Which member of --cluster had this identity."`
	Service   string `default:"default" help:"The service of a machine ID (default ${default})."`
	Cluster   string `help:"The cluster of an identity."`

	At   auditTime `placeholder:"TIME" help:"The time, such as 2026-11-26T03:12:00Z or 2026-11-26T03:12:00+01:00; without a zone it is UTC. Without a time, all who had it are listed."`
	JSON bool      `name:"json" help:"Print the answer as JSON, on one line; an error as JSON on standard error."`
}

// Help is the longer help of the command.
func (auditCmd) Help() string {
	return `Who had this at 03:12, with which fencing token, from when to when, and who had it next: a lock, a run or an analysis, a machine ID, an identity of placement. It reads the audit events that servers wrote, and asks no server:

  leasehold audit --file /var/log/leasehold/audit.jsonl --lock deploy-prod --at 2026-11-26T03:12:00Z
  leasehold audit --file /var/log/leasehold/audit.jsonl --run nightly
  leasehold audit --file /var/log/leasehold/audit.jsonl --machine-id 7 --service orders --at 2026-11-26T03:12:00Z
  leasehold audit --file /var/log/leasehold/audit.jsonl --identity room/lobby --cluster chat --at 2026-11-26T03:12:00Z

Rotated files are named together, in any order: --file audit.jsonl --file audit.jsonl.1. Events that are there twice count once. What a cloud's sink exports is read as it is:

  gcloud logging read 'jsonPayload.message="audit"' --format json | leasehold audit --file - --lock deploy-prod --at …
  aws logs filter-log-events --log-group-name … --filter-pattern '{ $.message = "audit" }' | leasehold audit --file - …

All times are the store's. Renewals are no audit events: a lease that was released, given up or ended by an administrator was held until then. One that expired was held until its lease ended, and possibly longer, if it was renewed: the answer says which of the two. Machine IDs have no fencing token, and are never renewed: their times tell leases apart. A member has an identity until it gives it up, or until the next one has it: it may have been dead before. What lies before the first event, or after the last, is not known.

Events are chained: each has its number in a stream, which a server begins when it starts, and the hash of the one before. The answer says which are whole. Where events are missing, or are not as they were written, it is "possibly" or "not known" what they may have said. Lines that cannot be read are counted and named on standard error.

Exit codes: 0 someone had it, or may have had it, also if events are missing that would say so; 5 no one had it, as far as the events say; 1 a file cannot be read, or has lines of which none is an audit event.`
}

// auditTime is a time of the command line.
type auditTime struct{ time.Time }

// timeForms are how a time may be written, beside RFC 3339; without a zone it is UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04"}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *auditTime) UnmarshalText(text []byte) error {
	for _, form := range timeForms {
		if at, err := time.Parse(form, strings.Replace(string(text), " ", "T", 1)); err == nil {
			t.Time = at.UTC()
			return nil
		}
	}
	return fmt.Errorf("%q is no time: write one such as 2026-11-26T03:12:00Z", text)
}

// about is what is asked about.
func (c *auditCmd) about() (audit.Thing, error) {
	if c.Cluster == "" == (c.Identity != "") {
		return audit.Thing{}, usage("--identity and --cluster go together")
	}
	if c.Service != "default" && c.MachineID == nil {
		return audit.Thing{}, usage("--service goes with --machine-id")
	}
	switch {
	case c.Lock != "":
		return audit.Thing{Kind: audit.Lock, Tenant: c.Tenant, Key: c.Lock}, nil
	case c.RunID != "":
		return audit.Thing{Kind: audit.Run, Tenant: c.Tenant, Key: c.RunID}, nil
	case c.Analysis != "":
		return audit.Thing{Kind: audit.Analysis, Key: c.Analysis}, nil
	case c.Identity != "":
		return audit.Thing{Kind: audit.Identity, Tenant: c.Tenant, Cluster: c.Cluster, Key: c.Identity}, nil
	case c.MachineID != nil:
		return audit.Thing{Kind: audit.MachineID, Key: c.Service, MachineID: c.MachineID}, nil
	default:
		return audit.Thing{}, usage("say what it is about: --lock, --run, --analysis, --machine-id or --identity")
	}
}

// Run answers.
func (c *auditCmd) Run(ctx context.Context, s *streams) error {
	about, err := c.about()
	if err != nil {
		return err
	}
	log := audit.Log{About: about}
	for _, name := range c.Files {
		if err := log.ReadFile(ctx, name); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; servers write the file that LEASEHOLD_AUDIT_LOG names", err)
		} else if err != nil {
			return err
		}
	}
	const mostNamed = 10
	for _, b := range log.Broken[:min(len(log.Broken), mostNamed)] {
		fmt.Fprintf(s.err, "leasehold: left out: %s\n", b)
	}
	n := log.BrokenLines
	if n > 0 {
		fmt.Fprintf(s.err, "leasehold: %d lines could not be read: what they say is not in the answer\n", n)
	}
	a := log.All()
	if !c.At.IsZero() {
		a = log.At(c.At.Time)
	}
	if a.First == "" && log.Some && n == 0 {
		return errors.New("no audit event could be read, so that nothing is known: there is none in what was given; " +
			"servers write them into the file of LEASEHOLD_AUDIT_LOG")
	}
	if a.First == "" && n > 0 {
		return fmt.Errorf("no audit event could be read, so that nothing is known: %s", log.Reason())
	}
	if err := show(s, c.JSON, a, "%s", auditAnswer(a)); err != nil {
		return err
	}
	if len(a.Holders)+len(a.Leases) == 0 && !a.Unknown {
		return &exitError{exitMissing, nil} // the answer has said so
	}
	return nil
}

// historyBytes is how much of its audit events a server reads for a request: a second's work, and a day of most.
const historyBytes = 64 << 20

// history answers from the audit file of a server, and those that it was rotated to; nil if it has none.
func history(file string) func(context.Context, httpapi.HistoryQuery) (contracts.LeaseHistory, error) {
	if file == "" {
		return nil
	}
	return func(ctx context.Context, q httpapi.HistoryQuery) (contracts.LeaseHistory, error) {
		log := audit.Log{About: audit.Thing{Kind: q.Kind, Tenant: q.Tenant, Key: q.Key, Cluster: q.Cluster,
			MachineID: q.MachineID}}
		if err := log.ReadNewest(ctx, file, historyBytes); err != nil {
			return contracts.LeaseHistory{}, err
		}
		if q.At.IsZero() {
			return log.All().LeaseHistory, nil
		}
		return log.At(q.At).LeaseHistory, nil
	}
}

// auditAnswer is an answer in words.
func auditAnswer(a audit.Answer) string {
	var b strings.Builder
	b.WriteString(auditThing(a))
	if a.At != "" {
		b.WriteString(" at " + a.At)
	}
	b.WriteString(": ")
	unknown := len(a.Holders) == 0 && a.At != "" && a.At < a.First // of an event about it, or about another thing
	switch {
	case len(a.Holders) == 0 && a.Events == 0:
		b.WriteString("nothing is known, there is no event about it\n")
	case a.At == "" && len(a.Leases) == 1:
		b.WriteString("one lease\n")
	case a.At == "":
		fmt.Fprintf(&b, "%d leases\n", len(a.Leases))
	case unknown:
		fmt.Fprintf(&b, "the events begin at %s: what was before is not known\n", a.First)
	case a.Unknown:
		b.WriteString("not known, events that may say so are missing\n")
	case len(a.Holders) == 0:
		b.WriteString("no one had it\n")
	case len(a.Holders) > 1:
		fmt.Fprintf(&b, "%d leases\n", len(a.Holders))
	}
	for _, l := range a.Leases {
		fmt.Fprintln(&b, holderOf(l.Owner, l.FencingToken))
		writeLease(&b, l)
	}
	for _, h := range a.Holders {
		who := holderOf(h.Owner, h.FencingToken)
		switch {
		case !*h.Certain && h.GrantedAt == "":
			who = "possibly " + who + ", if it was granted by then"
		case !*h.Certain && a.Kind == audit.Identity:
			who = "possibly " + who + ", if it lived until then"
		case !*h.Certain:
			who = "possibly " + who + ", if its lease lasted until then"
		}
		fmt.Fprintln(&b, who)
		writeLease(&b, h)
	}
	if a.Before != nil {
		fmt.Fprintf(&b, "before: %s\n", holderOf(a.Before.Owner, a.Before.FencingToken))
		writeLease(&b, *a.Before)
	}
	if a.After != nil {
		fmt.Fprintf(&b, "after: %s\n", holderOf(a.After.Owner, a.After.FencingToken))
		writeLease(&b, *a.After)
	}
	if a.First != "" && (a.At == "" || a.At < a.First || a.At > a.Last) {
		fmt.Fprintf(&b, "The events are from %s to %s: what happened outside is not known.\n", a.First, a.Last)
	}
	writeChain(&b, a.Chain)
	return b.String()
}

// writeChain says which events are whole.
func writeChain(w io.Writer, c audit.Chain) {
	many := func(n int, one string) string {
		if n != 1 {
			one += "s"
		}
		return fmt.Sprint(n, " ", one)
	}
	switch {
	case c.Whole:
		fmt.Fprintf(w, "Whole: %s in %s.\n", many(c.Events, "event"), many(c.Streams, "stream"))
	case c.Streams > 0:
		fmt.Fprintln(w, "The events are not whole:")
		writeStretches(w, c)
	}
	if c.Unchained > 0 {
		left := "whether some are missing is not known"
		if c.Streams > 0 {
			left = "they may have been added, and are left out"
		}
		fmt.Fprintf(w, "In no stream: %s; %s.\n", many(c.Unchained, "event"), left)
	}
	if c.Unended > 0 {
		fmt.Fprintf(w, "Without an end: %s; later events of it may be missing, unless it goes on.\n", many(c.Unended, "stream"))
	}
}

// writeStretches names the stretches of streams that are not whole, up to some.
func writeStretches(w io.Writer, c audit.Chain) {
	const most = 20
	broken := map[string]bool{}
	for _, s := range c.Stretches {
		broken[s.Stream] = broken[s.Stream] || s.Before+s.After != ""
	}
	told := 0
	for _, s := range c.Stretches {
		if !broken[s.Stream] {
			continue
		}
		if told++; told > most {
			fmt.Fprintln(w, "  and more: --json has them")
			return
		}
		if s.Before != "" {
			fmt.Fprintf(w, "  stream %s: %s\n", s.Stream, s.Before)
		}
		if s.Last > 0 {
			fmt.Fprintf(w, "  stream %s: %d to %d are whole, from %s to %s\n", s.Stream, s.First, s.Last, s.From, s.To)
		}
		if s.After != "" {
			fmt.Fprintf(w, "  stream %s: %s\n", s.Stream, s.After)
		}
	}
}

// auditThing names what an answer is about.
func auditThing(t audit.Answer) string {
	of := " of tenant " + quoted(t.TenantID)
	switch t.Kind {
	case audit.Run:
		return "run " + quoted(t.Key) + of
	case audit.Analysis:
		return "analysis " + quoted(t.Key)
	case audit.MachineID:
		return fmt.Sprintf("machine ID %d of service %s", *t.MachineID, quoted(t.Key))
	case audit.Identity:
		return quoted(t.Key) + " of cluster " + quoted(t.Cluster) + of
	default:
		return quoted(t.Key) + of
	}
}

// holderOf names who had a lease.
func holderOf(owner string, token int64) string {
	if owner == "" {
		owner = "a caller whom the server did not verify"
	} else {
		owner = quoted(owner)
	}
	if token == 0 {
		return owner
	}
	return fmt.Sprintf("%s, with fencing token %d", owner, token)
}

// writeLease says how a lease began and ended.
func writeLease(w io.Writer, l contracts.RecordedLease) {
	line := func(what, text string) { fmt.Fprintf(w, "  %-8s %s\n", what, text) }
	granted := cmp.Or(l.GrantedAt, "at a time that no event tells")
	if l.InLine {
		granted += ", as the next in line"
	}
	switch {
	case l.TookOver && l.TakenFrom != "":
		granted += ", taken over from " + quoted(l.TakenFrom)
	case l.TakenFrom != "":
		granted += ", handed over by " + quoted(l.TakenFrom)
	case l.TookOver:
		granted += ", after the lease before had expired"
	}
	line("granted", granted)
	if l.Remote != "" && (l.Owner == "" || l.TokenID != "") {
		from := quoted(l.Remote)
		if l.TokenID != "" {
			from += ", with token " + quoted(l.TokenID)
		}
		line("from", from)
	}
	if l.Incarnation != 0 {
		line("member", fmt.Sprintf("incarnation %d, epoch %d", l.Incarnation, l.Epoch))
	}
	if l.Runs != 0 {
		line("attempt", fmt.Sprintf("%d since the last that ended by itself; %d have failed", l.Runs, l.Failures))
	}
	if l.Mode != "" && l.Mode != "exclusive" {
		mode := quoted(l.Mode)
		if l.Permit != 0 {
			mode = fmt.Sprintf("%s, number %d", mode, l.Permit)
		}
		line("mode", mode)
	}
	if l.ExpiresAt != "" {
		to := "to " + l.ExpiresAt
		if l.FencingToken != 0 {
			to += ", unless it was renewed"
		}
		line("lease", to)
	}
	switch {
	case l.Ended == audit.TooLate:
		line("ended", "before its holder learned of it, who did not work under it")
	case l.EndedAt == "":
		line("ended", "no event says")
	case l.Ended == audit.Expired && l.NextToken != 0 && l.EndedAt != l.ExpiresAt:
		line("ended", "it had expired by "+l.EndedAt)
	case l.Ended == audit.Unknown:
		line("ended", "by "+l.EndedAt+", no event says how")
	default:
		text := l.EndedAt + ", " + l.Ended
		if l.Ended == audit.Finished {
			text += " as " + quoted(l.Result)
		}
		if l.EndedBy != "" {
			text += " by " + quoted(l.EndedBy)
		}
		if l.Reason != "" {
			text += ": " + quoted(l.Reason)
		}
		line("ended", text)
	}
	if l.NextOwner != "" || l.NextToken != 0 {
		line("next", holderOf(l.NextOwner, l.NextToken))
	}
}
