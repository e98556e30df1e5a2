package httpapi

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
)

// actionEnd is the action of the last event of a stream.
const actionEnd = "audit.end"

// AuditChain is a handler of a log that chains the audit events in it: they are a stream, which has an ID that is
// random, and in it each has its number, from 1 on, and the hash of the one before it. So who reads them notices which
// are missing, changed or added, see [contracts.AuditEvent.Hash]. Other lines pass through it.
//
// Events are numbered in the order in which the handler behind it takes them: one that it does not take has no number,
// and the next one has it. A log whose events have handlers of their own has a stream for each.
type AuditChain struct {
	slog.Handler

	*stream
}

// stream is where a stream is.
type stream struct {
	mu       sync.Mutex
	id       string
	number   int64 // of the event before
	previous string
}

// ChainAudit returns a handler that chains the audit events of a log.
func ChainAudit(h slog.Handler) AuditChain { return AuditChain{h, &stream{}} }

// Handle implements [slog.Handler].
func (c AuditChain) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != AuditMessage {
		return c.Handler.Handle(ctx, r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handle(ctx, r)
}

func (c AuditChain) handle(ctx context.Context, r slog.Record) error {
	chained := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	hash := ""
	r.Attrs(func(a slog.Attr) bool {
		if e, ok := a.Value.Any().(contracts.AuditEvent); ok {
			c.next(&e)
			a, hash = slog.Any(a.Key, e), e.Hash()
		}
		chained.AddAttrs(a)
		return true
	})
	if err := c.Handler.Handle(ctx, chained); err != nil || hash == "" {
		return err
	}
	c.number, c.previous = c.number+1, hash
	return nil
}

// next gives an event its place in the stream, which begins with it if it is the first.
func (s *stream) next(e *contracts.AuditEvent) {
	if s.id == "" {
		s.id = rand.Text()
	}
	e.Stream, e.Number, e.Previous = s.id, s.number+1, s.previous
}

// End writes the event that ends the stream, if it has begun. Events that come later begin another one.
func (c AuditChain) End(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number == 0 || !c.Enabled(ctx, slog.LevelInfo) {
		return nil
	}
	last := slog.NewRecord(time.Now(), slog.LevelInfo, AuditMessage, 0)
	last.AddAttrs(slog.Any("audit", contracts.AuditEvent{
		Schema: contracts.AuditSchema, ID: rand.Text(), At: direct.Time(time.Now()), Clock: "server",
		Action: actionEnd, Outcome: "ok",
	}))
	err := c.handle(ctx, last)
	c.id, c.number, c.previous = "", 0, ""
	return err
}

// WithAttrs implements [slog.Handler].
func (c AuditChain) WithAttrs(attrs []slog.Attr) slog.Handler {
	return AuditChain{c.Handler.WithAttrs(attrs), c.stream}
}

// WithGroup implements [slog.Handler].
func (c AuditChain) WithGroup(name string) slog.Handler {
	return AuditChain{c.Handler.WithGroup(name), c.stream}
}
