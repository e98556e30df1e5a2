package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// isBrief reports whether a person who tries the server reads its log: one line an event is enough then. Whoever asks
// for a format, for a file of audit events or for authentication, gets everything.
func isBrief(c *settings.Config, w io.Writer) bool {
	return isTerminal(w) && c.InDevelopment() && !c.Given("LEASEHOLD_LOG") && c.AuditLog == ""
}

// briefHandler writes an audit event as a line: when, what, who, of what, and what became of it. A request that was
// refused is one, too. Of all else it writes what is worse than information, as the format text does.
type briefHandler struct {
	slog.Handler // of what is worse

	w  io.Writer
	mu *sync.Mutex
}

func newBriefHandler(w io.Writer) slog.Handler {
	return briefHandler{slog.NewTextHandler(w, nil), w, new(sync.Mutex)}
}

// Handle implements [slog.Handler].
func (h briefHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == httpapi.AuditMessage {
		var event contracts.AuditEvent
		r.Attrs(func(a slog.Attr) bool {
			e, ok := a.Value.Any().(contracts.AuditEvent)
			if ok {
				event = e
			}
			return !ok
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		_, err := fmt.Fprintln(h.w, briefly(r.Time, event))
		return err
	}
	if r.Level < slog.LevelWarn {
		return h.refusal(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Handler.Handle(ctx, r)
}

// refusal writes the line of a request that was refused, and nothing for other ones.
func (h briefHandler) refusal(r slog.Record) error {
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	if r.Message != httpapi.RequestMessage || said["outcome"] == "ok" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintf(h.w, "%s  %s %s  %s\n", r.Time.Local().Format(time.TimeOnly), said["method"], visible(said["path"]),
		said["outcome"])
	return err
}

// WithAttrs implements [slog.Handler].
func (h briefHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements [slog.Handler].
func (h briefHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// briefly is an event in a line.
func briefly(at time.Time, e contracts.AuditEvent) string {
	what := cmp.Or(e.Key, e.Cluster)
	if what != "" && e.Tenant != "" {
		what = e.Tenant + "/" + what
	}
	line := fmt.Sprintf("%s  %-20s  %-24s  %s", at.Local().Format(time.TimeOnly), e.Action,
		visible(cmp.Or(e.Subject, e.Owner, "-")), visible(cmp.Or(what, "-")))
	if line += "  " + e.Outcome; e.FencingToken != 0 {
		line += fmt.Sprintf("  token %d", e.FencingToken)
	}
	return line
}

// visible is what a caller chose, without what would move the cursor of a terminal.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
