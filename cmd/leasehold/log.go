package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/leasehold-dev/leasehold/functions/gcp"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
)

// logs are what a program writes beside its output.
type logs struct {
	log   *slog.Logger // lines of the level of the settings
	audit *slog.Logger // audit events, whatever the level
	close func() error
}

// openLogs opens the log on standard error, and the file of audit events if there is one.
func openLogs(c *settings.Config, s *streams) (*logs, error) {
	all := newLog(c.Log, s)
	l := &logs{log: telemetry.AtLeast(c.Level(), all), audit: all, close: func() error { return nil }}
	if c.AuditLog == "" {
		return l, nil
	}
	f, err := os.OpenFile(c.AuditLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot open the file of audit events: %w", c.Name("LEASEHOLD_AUDIT_LOG"), err)
	}
	l.audit, l.close = slog.New(fallback{telemetry.NewHandler(slog.NewJSONHandler(f, nil)), all}), f.Close
	return l, nil
}

// newLog returns a log on standard error in a format of --log.
func newLog(format string, s *streams) *slog.Logger {
	switch format {
	case "cloud-logging":
		return gcp.NewLog(s.err)
	case "json":
		return slog.New(telemetry.NewHandler(slog.NewJSONHandler(s.err, nil)))
	default:
		return slog.New(telemetry.NewHandler(slog.NewTextHandler(s.err, nil)))
	}
}

// fallback writes what its handler does not take to a log: an event must not be lost because a disk is full.
type fallback struct {
	slog.Handler

	log *slog.Logger
}

// Handle implements [slog.Handler].
func (h fallback) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r.Clone())
	if err == nil {
		return nil
	}
	h.log.ErrorContext(ctx, "an audit event is here because its file did not take it", "err", err)
	return h.log.Handler().Handle(ctx, r)
}
