package tasks_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// respond is a client whose requests all get one response.
type respond func(*http.Request) (*http.Response, error)

func (f respond) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// status is a response with a header.
func status(code int, header ...string) respond {
	return func(*http.Request) (*http.Response, error) {
		w := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
		for i := 0; i < len(header); i += 2 {
			w.Header.Set(header[i], header[i+1])
		}
		return w, nil
	}
}

// TestNotBegun: which ends of a request say that the work has not begun, and for how long the target wants to be left
// alone. Nothing else does: what may have begun counts.
func TestNotBegun(t *testing.T) {
	refused := func(err error) respond { return func(*http.Request) (*http.Response, error) { return nil, err } }
	for name, c := range map[string]struct {
		way   http.RoundTripper
		begun bool
		after time.Duration
	}{
		"refused":          {refused(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), false, 0},
		"no such name":     {refused(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "worker"}}), false, 0},
		"wrong name":       {refused(&tls.CertificateVerificationError{Err: errors.New("x")}), false, 0},
		"no TLS":           {refused(http.ErrSchemeMismatch), false, 0},
		"cut while read":   {refused(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), true, 0},
		"no response":      {refused(io.ErrUnexpectedEOF), true, 0},
		"301":              {status(301, "Location", "https://other.example"), false, 0},
		"302":              {status(302, "Location", "https://other.example"), false, 0},
		"308":              {status(308), false, 0},
		"401":              {status(401), false, 0},
		"429":              {status(429), false, 0},
		"503":              {status(503), false, 0},
		"503, seconds":     {status(503, "Retry-After", "42"), false, 42 * time.Second},
		"429, at a time":   {status(429, "Retry-After", "Sat, 01 Jan 2000 00:01:30 GMT"), false, 90 * time.Second},
		"503, in the past": {status(503, "Retry-After", "Fri, 31 Dec 1999 00:00:00 GMT"), false, 0},
		"503, negative":    {status(503, "Retry-After", "-1"), false, 0},
		"503, a year":      {status(503, "Retry-After", "31536000"), false, time.Hour},
		"503, nonsense":    {status(503, "Retry-After", "soon"), false, 0},
		"400":              {status(400, "Retry-After", "42"), true, 0},
		"403":              {status(403), true, 0},
		"404":              {status(404), true, 0},
		"500":              {status(500, "Retry-After", "42"), true, 0},
		"502":              {status(502), true, 0},
		"504":              {status(504), true, 0},
		"no port": {&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("this is no net.OpError")
		}}, false, 0},
		"no TLS there": {&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			return here, there.Close()
		}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target, err := tasks.NewTarget("https://worker.example/run?key=secret",
					&tasks.TargetOptions{Client: &http.Client{Transport: c.way}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = target.Run(t.Context(), once.Lock{RunID: "a1", Token: 1})
				n, not := errors.AsType[*tasks.NotBegunError](err)
				if err == nil || not == c.begun || not && n.RetryAfter != c.after || strings.Contains(err.Error(), "secret") {
					t.Fatalf("%v: not begun: %v, %+v; want %v after %v", err, not, n, !c.begun, c.after)
				}
				b := newBench(t, target.Run)
				b.put("a1", docstore.Doc{"x": docstore.Int(1)})
				a := b.deliver()
				counted := docstore.Value(nil)
				if c.begun {
					counted = docstore.Int(1)
				}
				if b.doc()["lockFailures"] != counted || (a.Outcome == tasks.TargetAway) == c.begun || a.Done {
					t.Errorf("%+v, %v", a, b.doc())
				}
				b.wantFree()
			})
		})
	}
}

// TestRealServers: a port that no one listens on, and a server that does not speak TLS, have not begun.
func TestRealServers(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, url := range []string{gone.URL, strings.Replace(plain.URL, "http:", "https:", 1)} {
		target, err := tasks.NewTarget(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = target.Run(t.Context(), once.Lock{RunID: "a1", Token: 1}); !errors.As(err, new(*tasks.NotBegunError)) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// counting counts the writes of a store.
type counting struct {
	docstore.Store

	writes atomic.Int64
}

// Write implements [docstore.Store].
func (c *counting) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	c.writes.Add(1)
	return c.Store.Write(ctx, w...)
}

// TestOneProbe: while the target is away, one message of many begins at a time, after pauses that grow, and the store
// has requests of that one alone. When it is back, they begin at once.
func TestOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu sync.Mutex
			at []time.Duration
			up atomic.Bool
		)
		runs := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(at)
		}
		began := time.Now()
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			mu.Lock()
			at = append(at, time.Since(began))
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			if !up.Load() {
				return "", &tasks.NotBegunError{Err: errors.New("refused")}
			}
			return "", nil
		})
		const messages = 20
		for i := range messages {
			b.put(fmt.Sprint("a", i), docstore.Doc{})
		}
		counted := &counting{Store: b.store}
		b.Gate = direct.Analyses(analysis.New(counted, nil))
		if a := b.Deliver(t.Context(), tasks.Message{ID: "m0", Body: []byte(`{"analysisId":"a0"}`)}); a.Outcome != tasks.TargetAway {
			t.Fatalf("%+v", a)
		}
		done := make(chan tasks.Result, messages)
		for i := range messages {
			go func() {
				m := tasks.Message{ID: fmt.Sprint("m", i), Body: fmt.Appendf(nil, `{"analysisId":"a%d"}`, i)}
				done <- b.DeliverHeld(t.Context(), m, tasks.Hold{Timeout: time.Minute})
			}()
		}
		time.Sleep(40 * time.Second)
		away := runs()
		probes := len(away)
		if probes < 6 || probes > 8 || counted.writes.Load() != int64(2*probes) { // 1, 2, 4 … s, each half of it at least
			t.Errorf("%d probes, %d writes: %v", probes, counted.writes.Load(), away)
		}
		for i := 1; i < probes; i++ {
			if least := time.Second << (i - 1) / 2; away[i]-away[i-1] < least {
				t.Errorf("a probe %v after the one before, want %v", away[i]-away[i-1], least)
			}
		}
		up.Store(true)
		for range messages {
			if a := <-done; a.Outcome != once.Ready {
				t.Errorf("%+v", a)
			}
		}
		if n := len(runs()) - probes; n != messages {
			t.Errorf("%d runs of %d messages", n, messages)
		}
		if log := b.log.String(); strings.Count(log, "the target is away: no message begins") != probes ||
			strings.Count(log, "the target responds again") != 1 {
			t.Errorf("the log says %s", log)
		}
	})
}

// TestLongProbe: a probe that the target works on has begun; the others do not wait for its end.
func TestLongProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			if runs.Add(1) == 1 {
				return "", &tasks.NotBegunError{Err: errors.New("refused")}
			}
			time.Sleep(30 * time.Minute)
			return "", nil
		})
		began := time.Now()
		for i := range 3 {
			b.put(fmt.Sprint("a", i), docstore.Doc{})
		}
		done := make(chan tasks.Result, 3)
		for i := range 3 {
			go func() {
				m := tasks.Message{ID: fmt.Sprint("m", i), Body: fmt.Appendf(nil, `{"analysisId":"a%d"}`, i)}
				done <- b.DeliverHeld(t.Context(), m, tasks.Hold{Timeout: time.Hour})
			}()
			synctest.Wait()
		}
		for range 3 {
			if a := <-done; a.Outcome != once.Ready {
				t.Errorf("%+v", a)
			}
		}
		if took := time.Since(began); took > 31*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// TestReturnedForLonger: a message that its receiver cannot hold is returned for longer with each delivery, because
// each counts towards the dead-letter queue: twenty of them last for more than an hour.
func TestReturnedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			return "", &tasks.NotBegunError{Err: errors.New("refused")}
		})
		b.put("a1", docstore.Doc{})
		began := time.Now()
		for i := range 20 {
			a := b.Deliver(t.Context(), tasks.Message{ID: "m1", Try: strconv.Itoa(i + 1), Deliveries: i + 1, Body: []byte(a1)})
			if a.Outcome != tasks.TargetAway || a.RetryAfter < time.Second || a.RetryAfter > 10*time.Minute {
				t.Fatalf("%d: %+v", i, a)
			}
			time.Sleep(a.RetryAfter)
		}
		if all := time.Since(began); all < time.Hour {
			t.Errorf("20 deliveries are used up after %v", all)
		}
		if d := b.doc(); d["lockFailures"] != nil || d["status"] != nil {
			t.Errorf("%v", d)
		}
	})
}

// TestHeldWhileStopping: a message that waits for its target is returned when the process stops, and is kept hidden
// until then.
func TestHeldWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			return "", &tasks.NotBegunError{RetryAfter: time.Hour, Err: errors.New("refused")}
		})
		b.put("a1", docstore.Doc{})
		b.deliver()
		var hidden []time.Duration
		began, stopping := time.Now(), make(chan struct{})
		time.AfterFunc(11*time.Minute, func() { close(stopping) })
		m := tasks.Message{ID: "m1", Body: []byte(a1), Extend: func(_ context.Context, d time.Duration) error {
			hidden = append(hidden, time.Since(began)+d)
			return nil
		}}
		a := b.DeliverHeld(t.Context(), m, tasks.Hold{Timeout: time.Minute, Stopping: stopping})
		if a.Outcome != tasks.TargetAway || a.Done || a.Dead || time.Since(began) != 11*time.Minute {
			t.Errorf("%+v after %v", a, time.Since(began))
		}
		if got := fmt.Sprint(hidden); got != "[5m0s 7m30s 10m0s 12m30s 15m0s]" {
			t.Errorf("hidden until %s", got)
		}
		lost := errors.New("in flight for 12 hours")
		m.Extend = func(context.Context, time.Duration) error { return lost }
		if a := b.DeliverHeld(t.Context(), m, tasks.Hold{Timeout: time.Minute}); !errors.Is(a.Err, lost) || a.Done {
			t.Errorf("%+v", a)
		}
	})
}
