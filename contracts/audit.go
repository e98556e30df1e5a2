package contracts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AuditSchema is the version of [AuditEvent] that this package writes and reads.
const AuditSchema = 1

// LogValue implements [slog.LogValuer]: the event as a group with the members that its JSON has, so that every format
// of a log shows it.
func (e AuditEvent) LogValue() slog.Value {
	g := make(group, 0, 32)
	g.number("schema", e.Schema)
	g.text("id", e.ID)
	g.text("stream", e.Stream)
	g.number("number", e.Number)
	g.text("previous", e.Previous)
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
	g.flag("replaced", e.Replaced)
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

// Hash is what the next event of its stream has as Previous: SHA-256, in hexadecimal, of the event as RFC 8785 writes
// JSON, that is without spaces and with the members in the order of their names. So it is the same wherever the event
// is kept, and in whatever form. Members without a value do not count.
func (e AuditEvent) Hash() string {
	sum := sha256.Sum256(appendCanonical(make([]byte, 0, 1024), e.LogValue()))
	return hex.EncodeToString(sum[:])
}

// appendCanonical appends a value of an event.
func appendCanonical(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindGroup:
		members := slices.Clone(v.Group())
		slices.SortFunc(members, func(a, b slog.Attr) int { return cmp.Compare(a.Key, b.Key) })
		b = append(b, '{')
		for _, m := range members {
			if m.Value.Kind() == slog.KindGroup && len(m.Value.Group()) == 0 {
				continue // a log leaves it out
			}
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(appendText(b, m.Key), ':')
			b = appendCanonical(b, m.Value)
		}
		return append(b, '}')
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindAny: // machine IDs
		numbers, _ := v.Any().([]int64)
		b = append(b, '[')
		for i, n := range numbers {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, n, 10)
		}
		return append(b, ']')
	default:
		return appendText(b, v.String())
	}
}

// appendText appends a string. What is not UTF-8 is replaced, as logs do.
func appendText(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ':
			b = utf8.AppendRune(b, r)
		default:
			if i := strings.IndexRune("\b\t\n\f\r", r); i >= 0 {
				b = append(b, '\\', "btnfr"[i])
			} else {
				b = append(b, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
			}
		}
	}
	return append(b, '"')
}
