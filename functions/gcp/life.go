package gcp

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is the time for requests in flight after SIGTERM: a little less than the 10 s after which Cloud Run kills
// the process.
const stopTimeout = 9 * time.Second

// life is the time in which functions take requests. The framework serves until the process is killed, so that its end
// is found here: when ctx ends, runs are cancelled and release their locks, and the process ends when no request is in
// flight.
type life struct {
	ctx context.Context //nolint:containedctx // its end is what a life is about
	end context.CancelFunc

	mu       sync.Mutex
	ends     []func(context.Context) error // called when no request is in flight any more
	inFlight int
	idle     chan struct{} // closed when no request is in flight; nil as long as no one waits for that
}

func newLife() *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{ctx: ctx, end: end}
}

// processLife returns the life of this process, which SIGTERM ends. The first call takes that signal over; until then
// it ends the process at once, which has no locks then.
var processLife = sync.OnceValue(func() *life {
	l := newLife()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // a second signal ends the process at once
		log := NewLog(os.Stderr)
		log.Info("stopping: runs are cancelled, other requests in flight may finish", "within_ms", stopTimeout.Milliseconds())
		late, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		os.Exit(l.stop(late, log))
	}()
	return l
})

// stop ends the life, waits until no request is in flight and returns the exit code of the process.
func (l *life) stop(ctx context.Context, log *slog.Logger) int {
	l.end()
	idle := make(chan struct{})
	l.mu.Lock()
	if l.inFlight > 0 {
		l.idle = idle
	} else {
		close(idle)
	}
	l.mu.Unlock()
	select {
	case <-idle:
		l.mu.Lock()
		ends := l.ends
		l.mu.Unlock()
		for _, end := range ends {
			if err := end(ctx); err != nil {
				log.WarnContext(ctx, "cannot send the last metrics and spans", "err", err)
			}
		}
		log.InfoContext(ctx, "stopped")
		return 0
	case <-ctx.Done():
		log.ErrorContext(ctx, "requests in flight are cut off", "err", context.Cause(ctx))
		return 1
	}
}

// atEnd calls f at the end of the life, when no request is in flight any more.
func (l *life) atEnd(f func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, f)
}

// serve serves a request that counts as in flight until its response has left the process.
func (l *life) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.inFlight++
	l.mu.Unlock()
	defer func() {
		if l.ctx.Err() != nil {
			// net/http sends a short response after its handler only, and the process may end first
			_ = http.NewResponseController(w).Flush()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.inFlight--; l.inFlight == 0 && l.idle != nil {
			close(l.idle)
			l.idle = nil
		}
	}()
	h.ServeHTTP(w, r)
}
