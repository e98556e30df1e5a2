package idempotency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/leasehold-dev/leasehold/once"
)

// unkept is a response that was sent and is not stored yet. It is what this process responds meanwhile, and it is sent
// to the gate until that has it, or another process took over.
type unkept struct {
	storing  *once.Storing
	response *record
	print    fingerprint
	id       string // of the run
	of       string // the request, for people
}

// keep holds a response until it is stored.
func (c *call) keep(s *once.Storing, response *record) {
	u := &unkept{s, response, c.print, c.id, fmt.Sprintf("key %q of %s %s, run %s", c.key, c.r.Method, c.r.URL.Path, c.id)}
	r := c.r.WithContext(context.WithoutCancel(c.r.Context()))
	r.Body = http.NoBody
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unkept[c.id] = u
	go func() {
		<-s.Done()
		c.forget(u)
		switch out := s.Outcome(); {
		case out.Status == once.Ready:
		case once.IsLost(out.Err):
			c.o.Warn(r, fmt.Errorf("the response was sent and is not stored: another process has carried the request out, too: "+
				"%s: %w", u.of, out.Err))
		default:
			c.o.Warn(r, fmt.Errorf("the response was sent and is not stored; the handler may run again: %s: %w", u.of, out.Err))
		}
	}()
}

// forget lets the gate say what came of a request.
func (m *Middleware) forget(u *unkept) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unkept[u.id] == u {
		delete(m.unkept, u.id)
	}
}

// kept responds with what is not stored yet. false means that there is nothing.
func (c *call) kept() bool {
	c.mu.Lock()
	u := c.unkept[c.id]
	c.mu.Unlock()
	switch {
	case u == nil:
		return false
	case c.print.gate != u.print.gate || c.print.differs(u.print.parts):
		reused().send(c.w)
	default:
		u.response.replay(c.w)
	}
	return true
}

// Shutdown waits until all responses that were sent are stored, or ctx ends; then it gives up. The error names the
// requests whose response is not stored, whose handler so may run again; it is nil if there are none. A process calls
// it when [http.Server.Shutdown] has returned: what that waits for can leave something here.
func (m *Middleware) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.unkept))
	m.mu.Unlock()
	var errs []error
	for _, u := range all {
		select {
		case <-u.storing.Done():
		case <-ctx.Done():
			u.storing.Stop()
		}
		m.forget(u)
		if out := u.storing.Outcome(); errors.Is(out.Err, once.ErrNotStored) {
			errs = append(errs, fmt.Errorf("idempotency: %s: %w", u.of, out.Err))
		}
	}
	return errors.Join(errs...)
}
