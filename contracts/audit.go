package contracts

import "log/slog"

// AuditSchema is the version of [AuditEvent] that this package writes and reads.
const AuditSchema = 1

// LogValue implements [slog.LogValuer]: the event as a group with the members that its JSON has, so that every format
// of a log shows it.
func (e AuditEvent) LogValue() slog.Value {
	g := make(group, 0, 26)
	g.number("schema", e.Schema)
	g.text("id", e.ID)
	g.text("at", e.At)
	g.text("clock", e.Clock)
	g.text("action", e.Action)
	g.text("outcome", e.Outcome)
	g.text("cause", e.Cause)
	g.text("subject", e.Subject)
	g.text("token_id", e.TokenID)
	g.text("caller_tenant", e.CallerTenant)
	g.text("remote", e.Remote)
	g.text("path", e.Path)
	g.text("tenant", e.Tenant)
	g.text("kind", e.Kind)
	g.text("key", e.Key)
	g.text("cluster", e.Cluster)
	g.text("owner", e.Owner)
	g.text("taken_from", e.TakenFrom)
	g.text("replaces", e.Replaces)
	g.number("fencing_token", e.FencingToken)
	g.number("incarnation", e.Incarnation)
	g.number("epoch", e.Epoch)
	g.number("highest_token", e.HighestToken)
	g.text("lease", e.Lease)
	g.text("mode", e.Mode)
	g.number("permit", e.Permit)
	g.text("granted_at", e.GrantedAt)
	g.text("expires_at", e.ExpiresAt)
	g.text("ended_at", e.EndedAt)
	g.flag("replayed", e.Replayed)
	g.flag("takeover", e.Takeover)
	g.flag("all_leases", e.AllLeases)
	if len(e.MachineIDs) > 0 {
		g = append(g, slog.Any("machine_ids", e.MachineIDs))
	}
	g.number("leases", e.Leases)
	g.number("runs", e.Runs)
	g.number("failures", e.Failures)
	g.text("message_id", e.MessageID)
	g.text("result", e.Result)
	g.text("rejected", e.Rejected)
	g.number("count", e.Count)
	if c := e.Chosen; c != nil {
		by := make(group, 0, 5)
		by.text("owner_id", c.OwnerID)
		by.text("request_id", c.RequestID)
		by.text("x_request_id", c.XRequestID)
		by.text("reason", c.Reason)
		by.text("forwarded_for", c.ForwardedFor)
		g = append(g, slog.GroupAttrs("chosen", by...))
	}
	return slog.GroupValue(g...)
}

// group is the members of an event; those that say nothing are left out.
type group []slog.Attr

func (g *group) text(name, s string) {
	if s != "" {
		*g = append(*g, slog.String(name, s))
	}
}

func (g *group) number(name string, n int64) {
	if n != 0 {
		*g = append(*g, slog.Int64(name, n))
	}
}

func (g *group) flag(name string, is bool) {
	if is {
		*g = append(*g, slog.Bool(name, true))
	}
}
