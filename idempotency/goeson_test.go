package idempotency_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestTimeoutHandler: a handler that goes on beside the 503 of its http.TimeoutHandler is not run again beside the
// first, whatever the policy says. Around the middleware, its 503 is no outcome: a retry gets what came of the handler.
func TestTimeoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, atOnce atomic.Int64
		slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			if atOnce.Add(1) > 1 {
				t.Error("two at once")
			}
			time.Sleep(time.Minute)
			atOnce.Add(-1)
			w.WriteHeader(http.StatusCreated)
		})
		o := &idempotency.Options{Store: idempotency.StoreSuccess}
		within := middleware(t, gate(docstore.NewMemory(nil)), o).Wrap(http.TimeoutHandler(slow, time.Second, "late"))
		if first, second := post(within, "k1", "a"), post(within, "k1", "a"); first.Code != 503 || second.Code != 503 ||
			!replayed(second) || runs.Load() != 1 {
			t.Errorf("%d, %d, %d runs", first.Code, second.Code, runs.Load())
		}
		time.Sleep(2 * time.Minute)
		around := http.TimeoutHandler(middleware(t, gate(docstore.NewMemory(nil)), o).Wrap(slow), time.Second, "late")
		if w := post(around, "k1", "a"); w.Code != 503 {
			t.Error(w.Code)
		}
		time.Sleep(2 * time.Minute)
		if w := post(around, "k1", "a"); w.Code != 201 || !replayed(w) || runs.Load() != 2 {
			t.Errorf("%d, %d runs", w.Code, runs.Load())
		}
	})
}

// TestProxyError: a proxy that had no connection to the server behind it has done nothing, and the key is free. Its
// default handler of errors does not say so: 502 is an outcome then. So is what was sent and has no response.
func TestProxyError(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(http.ResponseWriter, *http.Request, error)
		cut     bool // the first request is sent, and the connection ends
		second  int
	}{
		"refused": {idempotency.ProxyError, false, 201}, "cut": {idempotency.ProxyError, true, 502},
		"default": {nil, false, 502},
	} {
		t.Run(name, func(t *testing.T) {
			var cut atomic.Bool
			cut.Store(c.cut)
			behind := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if cut.Swap(false) {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusCreated)
			}))
			behind.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			behind.Start()
			defer behind.Close()
			gone := httptest.NewServer(http.NotFoundHandler())
			gone.Close()
			to := gone.URL
			if c.cut {
				to = behind.URL
			}
			proxy := &httputil.ReverseProxy{ErrorHandler: c.handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
				Rewrite: func(r *httputil.ProxyRequest) {
					u, err := url.Parse(to)
					if err != nil {
						t.Error(err)
					}
					r.SetURL(u)
				}}
			h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(proxy)
			first := post(h, "k1", "a")
			to = behind.URL
			if second := post(h, "k1", "a"); first.Code != 502 || second.Code != c.second {
				t.Errorf("%d, then %d, want 502, then %d", first.Code, second.Code, c.second)
			}
		})
	}
}

// TestTrailers: the first caller and later ones get the trailers of a handler, announced or not.
func TestTrailers(t *testing.T) {
	h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, x-lines")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set("X-Lines", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		w.Header().Set("X-Lost", "set after the header was sent")
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	for i := range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("a"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(idempotency.Header, "k1")
		w, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if err != nil || string(body) != "body" || w.Trailer.Get("X-Sum") != "7" || w.Trailer.Get("X-Lines") != "1" ||
			w.Trailer.Get("X-Late") != "yes" || len(w.Trailer) != 3 || w.Header.Get("X-Lost") != "" ||
			(w.Header.Get(idempotency.ReplayedHeader) == "true") != (i > 0) {
			t.Errorf("%d: %q, %v, %v, %v", i, body, w.Header, w.Trailer, err)
		}
	}
}

// TestNestingIsSaidAtOnce: a middleware around one of the same name is named when it is made.
func TestNestingIsSaidAtOnce(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	m := middleware(t, gate(docstore.NewMemory(nil)), nil)
	other := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Name: "other"})
	m.Wrap(other.Wrap(http.NotFoundHandler()))
	if log.Len() > 0 {
		t.Errorf("%s", &log)
	}
	m.Wrap(m.Wrap(http.NotFoundHandler()))
	if !strings.Contains(log.String(), idempotency.ErrNested.Error()) {
		t.Errorf("%s", &log)
	}
}
