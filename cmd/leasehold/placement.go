package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

type placementCmd struct {
	inTenant

	Members membersCmd `cmd:"" help:"List the members of a cluster."`
	Where   whereCmd   `cmd:"" help:"Say on which member an identity is, or would be."`
	Drain   drainCmd   `cmd:"" help:"Give a member no new activations, before its process is stopped."`
	Events  eventsCmd  `cmd:"" help:"Show what changed in a cluster during the last day."`
	Remove  removeCmd  `cmd:"" help:"Remove a cluster that has no members (administrators, operators)."`
}

// Help is the longer help of the command.
func (placementCmd) Help() string {
	return `List the members, look up the identity "lobby" of the kind "room", follow the events:

  leasehold placement members chat
  leasehold placement where chat room lobby
  leasehold placement events chat --follow

Exit codes: 0 done, 4 the incarnation or the epoch has ended, 5 no such member or cluster, or none that may host the identity, 130 interrupted. With --json an error is a JSON object on standard error, with its code and exit_code.`
}

// placements is the client that the commands about a cluster share.
func (c *placementCmd) placements(name string) (*client.Placements, error) {
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	return server.Placements(c.Tenant, name), nil
}

type membersCmd struct {
	Cluster string `arg:"" help:"The cluster."`
}

// Run lists members. With --json it prints one member a line.
func (c *membersCmd) Run(ctx context.Context, p *placementCmd, s *streams) error {
	server, err := p.placements(c.Cluster)
	if err != nil {
		return err
	}
	list, err := server.Members(ctx)
	if err != nil {
		return p.outcome(err)
	}
	if p.JSON {
		for _, m := range list.Members {
			if err := show(s, true, m, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list.Members) == 0 {
		fmt.Fprintf(s.err, "no members of the cluster %s of tenant %s\n", c.Cluster, p.Tenant)
		return nil
	}
	_, err = fmt.Fprint(s.out, memberTable(list, p.wide()))
	return err
}

// memberTable is the members of a cluster for people.
func memberTable(list contracts.MemberList, wide bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, epoch %d since %s\n", list.Cluster, list.Status, list.Epoch, list.ChangedAt)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "MEMBER\tSTATUS\tINCARNATION\tSINCE\tADDRESS\tKINDS\tLABELS")
	text := printable
	if wide {
		text = quoted
		fmt.Fprint(w, "\tWEIGHT\tEPOCH")
	}
	fmt.Fprintln(w)
	for _, m := range list.Members {
		status := string(m.Status)
		if m.Full {
			status += " (full)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s", text(m.Member), status, m.Incarnation, m.At,
			cmp.Or(text(m.Address), "-"),
			cmp.Or(text(strings.Join(m.Kinds, " ")), "-"), labels(m.Labels, text))
		if wide {
			fmt.Fprintf(w, "\t%d\t%d", max(m.Weight, 1), m.Since)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return trimmed(b.String())
}

type whereCmd struct {
	Cluster string            `arg:"" help:"The cluster."`
	Kind    string            `arg:"" help:"The kind of the identity."`
	ID      string            `arg:"" help:"The identity."`
	Label   map[string]string `placeholder:"K=V" help:"A label that the member must have."`
}

// Run says where an identity is.
func (c *whereCmd) Run(ctx context.Context, p *placementCmd, s *streams) error {
	server, err := p.placements(c.Cluster)
	if err != nil {
		return err
	}
	got, err := server.Lookup(ctx, c.Kind, c.ID, cluster.Query{Labels: c.Label})
	if err != nil {
		return p.outcome(err)
	}
	return show(s, p.JSON, got, "%s", whereText(got))
}

// whereText is a placement in words.
func whereText(p contracts.Placement) string {
	name := printable(p.Kind + "/" + p.ID)
	at := func(m *contracts.ClusterMember) string {
		if m.Address == "" {
			return printable(m.Member)
		}
		return printable(m.Member) + " at " + printable(m.Address)
	}
	switch {
	case p.Owner != nil && p.Activation != nil:
		return fmt.Sprintf("%s is %s on %s, fencing token %d%s\n", name, p.Activation.Phase, at(p.Owner),
			p.Activation.FencingToken, alarmText(p.Activation))
	case p.Placed == nil:
		return name + " is not active, and no member may host it\n"
	case p.Activation != nil && p.Activation.Failed:
		return fmt.Sprintf("%s is not active: %s; a claim places it on %s%s\n", name, quoted(p.Activation.Reason),
			at(p.Placed), alarmText(p.Activation))
	default:
		return fmt.Sprintf("%s is not active; a claim places it on %s%s\n", name, at(p.Placed), alarmText(p.Activation))
	}
}

// alarmText is the alarm of an activation in words, empty if it has none.
func alarmText(a *contracts.Activation) string {
	switch {
	case a == nil || a.AlarmAt == "":
		return ""
	case a.AlarmTries > 0:
		return "; its alarm is due since " + a.AlarmAt
	default:
		return "; its alarm is set for " + a.AlarmAt
	}
}

type drainCmd struct {
	Cluster     string `arg:"" help:"The cluster."`
	Member      string `arg:"" help:"The member, as \"placement members\" shows it."`
	Incarnation int64  `placeholder:"N" help:"Drain only this incarnation; the default is the current one."`
}

// Run drains a member.
func (c *drainCmd) Run(ctx context.Context, p *placementCmd, s *streams) error {
	server, err := p.placements(c.Cluster)
	if err != nil {
		return err
	}
	number := c.Incarnation
	if number == 0 {
		list, err := server.Members(ctx)
		if err != nil {
			return p.outcome(err)
		}
		for _, m := range list.Members {
			if m.Member == c.Member {
				number = m.Incarnation
			}
		}
		if number == 0 {
			return p.outcome(contracts.Errorf(contracts.CodeMemberUnknown, "the cluster %s has no member %q",
				c.Cluster, c.Member))
		}
	}
	got, err := server.Drain(ctx, c.Member, contracts.MemberRequest{Incarnation: number})
	if err != nil {
		return p.outcome(err)
	}
	return show(s, p.JSON, got,
		"%s drains: %d partitions left it, epoch %d; it keeps what it hosts until it hands that over\n",
		printable(got.Member), got.Moved, got.Epoch)
}

type removeCmd struct {
	Cluster string `arg:"" help:"The cluster."`
	Epoch   int64  `placeholder:"N" help:"Remove it only if this is its epoch; the default is the current one."`
	Reason  string `required:"" help:"Why: it stays in the server's log."`
}

// Help is the longer help of the command.
func (removeCmd) Help() string {
	return `For a cluster that is not used any more, so that it does not count against the bound of the tenant. Without it, servers remove it when it had neither members nor identities for the retention.

  leasehold placement remove chat --reason "the test is over"

Everything that is remembered of its identities is lost, with their states, and so are its events. A cluster with members that live is not removed: stop them first. If the name is used again, fencing tokens are higher than before.`
}

// Run removes a cluster.
func (c *removeCmd) Run(ctx context.Context, p *placementCmd, s *streams) error {
	server, err := p.connect()
	if err != nil {
		return err
	}
	epoch := c.Epoch
	if epoch == 0 {
		list, err := server.Placements(p.Tenant, c.Cluster).Members(ctx)
		if err != nil {
			return p.outcome(err)
		}
		if epoch = list.Epoch; epoch == 0 {
			return p.outcome(contracts.Errorf(contracts.CodeNotFound, "there is no cluster %q of tenant %s",
				c.Cluster, p.Tenant))
		}
	}
	done, err := server.RemoveCluster(ctx, p.Tenant, c.Cluster, contracts.ClusterRemoveRequest{
		Epoch: epoch, Reason: c.Reason})
	if err != nil {
		return p.outcome(err)
	}
	return show(s, p.JSON, done, "the cluster %s of tenant %s is removed, with %d identities\n", done.Cluster,
		done.TenantID, done.Identities)
}

type eventsCmd struct {
	Cluster string `arg:"" help:"The cluster."`
	After   string `placeholder:"TIME" help:"Only events after this time, such as 2026-01-01T00:00:00.000Z; the default is all that are kept, which is a day."`
	Follow  bool   `short:"f" help:"Wait for more, until the command is stopped."`
}

// eventWait is how long one request waits for more events.
const eventWait = 8 * time.Second

// eventRetry is the pause of one that follows after a request that failed.
const eventRetry = time.Second

// Run shows events. With --json it prints one event a line.
func (c *eventsCmd) Run(ctx context.Context, p *placementCmd, s *streams) error {
	// the server compares texts: another offset than UTC, or no time at all, would leave out events without a word
	if c.After != "" {
		at, err := time.Parse(time.RFC3339, c.After)
		if err != nil {
			return usage("--after %q: must be a time such as 2026-01-01T00:00:00.000Z", c.After)
		}
		c.After = at.UTC().Format(contracts.TimeFormat)
	}
	server, err := p.placements(c.Cluster)
	if err != nil {
		return err
	}
	const most = 1000
	q := cluster.EventQuery{After: c.After, PageSize: most}
	if c.Follow {
		q.Wait = eventWait
	}
	answered := false // before that the address may be wrong
	for events := cluster.NewEventReader(server, q); ; {
		page, more, err := events.Next(ctx)
		slow, ok := errors.AsType[*url.Error](err)
		if c.Follow && (answered || ok && slow.Timeout()) && unavailable(p.outcome(err)) && ctx.Err() == nil {
			if _, err := fmt.Fprintf(s.err, "leasehold: %v; asking again\n", p.outcome(err)); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(eventRetry):
			}
			continue
		}
		if err != nil {
			return p.outcome(err)
		}
		answered = true
		for _, e := range page.Events {
			if err := show(s, p.JSON, e, "%s\n", eventText(e)); err != nil {
				return err
			}
		}
		if !more && !c.Follow {
			return nil
		}
	}
}

// eventText is an event in one line.
func eventText(e contracts.PlacementEvent) string {
	what := "member " + printable(e.Member)
	if e.Kind != "" {
		what = printable(e.Kind+"/"+e.ID) + " on " + printable(e.Member)
	}
	text := fmt.Sprintf("%s  %s  %s → %s", e.At, what, cmp.Or(e.From, "-"), e.To)
	if e.FencingToken != 0 {
		text += fmt.Sprintf("  token %d", e.FencingToken)
	}
	if e.Kind == "" && e.Epoch != 0 {
		text += fmt.Sprintf("  epoch %d, %d partitions moved", e.Epoch, e.Moved)
	}
	if e.Reason != "" {
		text += "  " + quoted(e.Reason)
	}
	return text
}
