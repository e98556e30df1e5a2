package gcp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLifeEnds: the end of a life waits for requests in flight, whose responses have been sent by then, but no longer
// than it may.
func TestLifeEnds(t *testing.T) {
	l, log := newLife(), slog.New(slog.DiscardHandler)
	quiet := newLife()
	if code := quiet.stop(t.Context(), log); code != 0 {
		t.Errorf("nothing in flight: exit code %d", code)
	}
	late := httptest.NewRecorder() // between the end of the life and that of the process
	quiet.serve(http.NotFoundHandler(), late, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if late.Code != http.StatusNotFound {
		t.Errorf("a late request: %d", late.Code)
	}
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w := httptest.NewRecorder()
	go func() {
		defer close(left)
		l.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			_, _ = io.WriteString(w, "done")
		}), w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}()
	<-entered
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if code := l.stop(ended, log); code != 1 || l.ctx.Err() == nil {
		t.Errorf("no time left: exit code %d, %v", code, l.ctx.Err())
	}
	codes := make(chan int)
	go func() { codes <- l.stop(t.Context(), log) }()
	close(leave)
	if code := <-codes; code != 0 || !w.Flushed || w.Body.String() != "done" {
		t.Errorf("exit code %d, flushed %v, %q", code, w.Flushed, w.Body)
	}
	<-left
}
