package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"

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
	f := &auditFile{path: c.AuditLog}
	if err := f.reopen(); err != nil {
		return nil, fmt.Errorf("%s: cannot open the file of audit events: %w", c.Name("LEASEHOLD_AUDIT_LOG"), err)
	}
	l.audit = slog.New(fallback{telemetry.NewHandler(slog.NewJSONHandler(f, nil)), all})
	end := f.reopenAt(reopens, all)
	l.close = func() error { end(); return f.close() }
	return l, nil
}

// auditFile is the file of audit events. A program that keeps it small renames it and sends SIGHUP: the file is opened
// anew under its name, and each event is in one file, whole.
type auditFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

func (f *auditFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Write(b)
}

// reopen goes on in the file that has the name now, and makes one if there is none. Where that fails it stays with the
// one that it has.
func (f *auditFile) reopen() error {
	next, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.mu.Lock()
	last := f.file
	f.file = next
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Close()
}

// reopenAt opens the file anew at each of the signals, until it is ended. Failures are in the log.
func (f *auditFile) reopenAt(signals []os.Signal, log *slog.Logger) (end func()) {
	if len(signals) == 0 {
		return func() {} // Notify would take none for all
	}
	asked, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, signals...)
	go func() {
		defer close(over)
		for range asked {
			if err := f.reopen(); err != nil {
				log.Error("the file of audit events cannot be opened anew: events go on in the one before", "err", err)
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
		<-over
	}
}

func (f *auditFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
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
