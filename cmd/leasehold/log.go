package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/leasehold-dev/leasehold/functions/gcp"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
)

// logs are what a program writes beside its output.
type logs struct {
	log     *slog.Logger // lines of the level of the settings
	audit   *slog.Logger // audit events, whatever the level
	unknown *slog.Logger // those of requests whose senders are not known
	close   func() error // after the last event
}

// chained returns a log that chains its audit events, and what ends their stream.
func chained(h slog.Handler) (*slog.Logger, func() error) {
	chain := httpapi.ChainAudit(h)
	return slog.New(chain), func() error { return chain.End(context.Background()) }
}

// Bounds of the file of audit events that strangers cause.
const (
	unknownSuffix    = ".rejected" // after the name of the other one
	maxUnknownSize   = 16 << 20    // bytes of one file
	maxUnknownFiles  = 4
	bytesOfAuditSize = 1 << 20 // LEASEHOLD_AUDIT_SIZE is in MiB
)

// openLogs opens the log on standard error, and the files of audit events if there are some.
func openLogs(c *settings.Config, s *streams) (*logs, error) {
	all := newLog(c.Log, s)
	if isBrief(c, s.err) {
		all = slog.New(newBriefHandler(s.err))
	}
	l := &logs{log: telemetry.AtLeast(c.Level(), all)}
	if c.AuditLog == "" {
		l.audit, l.close = chained(all.Handler())
		l.unknown = l.audit
		return l, nil
	}
	open := func(path string, size int64, files int) (*slog.Logger, func() error, error) {
		f, err := openAuditFile(path, size, files, all)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: cannot open the file of audit events: %w", c.Name("LEASEHOLD_AUDIT_LOG"), err)
		}
		log, end := chained(fallback{telemetry.NewHandler(slog.NewJSONHandler(f, nil)), all})
		return log, func() error { return errors.Join(end(), f.close()) }, nil
	}
	audit, end, err := open(c.AuditLog, c.AuditSize*bytesOfAuditSize, int(c.AuditFiles))
	if err != nil {
		return nil, err
	}
	unknown, endUnknown, err := open(c.AuditLog+unknownSuffix, maxUnknownSize, maxUnknownFiles)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	l.audit, l.unknown = audit, unknown
	l.close = func() error { return errors.Join(end(), endUnknown()) }
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
