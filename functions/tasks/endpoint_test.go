package tasks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// endpoint is the handler of a bench, each exchange held against the contract.
func (b *bench) endpoint(life context.Context, d tasks.Endpoint) http.Handler {
	b.t.Helper()
	d.Worker = &b.Worker
	if d.Guard == nil {
		d.Guard = tasks.Platform{}
	}
	route, err := d.Route(life)
	if err != nil {
		b.t.Fatal(err)
	}
	return contracttest.Handler(b.t, httpapi.Handler([]httpapi.Route{route},
		&httpapi.Options{Log: slog.New(slog.NewJSONHandler(b.log, nil))}))
}

// post sends a body to a path.
func post(ctx context.Context, h http.Handler, path string, body io.Reader,
	header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+path, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wants fails the test unless an answer has a status, and a problem of the code or a body.
func wants(t *testing.T, name string, w *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	got := strings.TrimSpace(w.Body.String())
	var p contracts.Problem
	if w.Code >= 400 {
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s: %v in %s", name, err, w.Body)
		}
		got = string(p.Code)
	}
	if w.Code != status || got != want {
		t.Errorf("%s: %d %s, want %d %s\n%s", name, w.Code, got, status, want, w.Body)
	}
}

const a1 = `{"analysisId":"a1"}`

// TestResponses: BE-041-ENTRY, BE-041-DOD-4. The response to the queue, for every outcome; afterwards the lock is free.
func TestResponses(t *testing.T) {
	locked := docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("2000-01-01T00:02:00.000Z")}
	fails := func(err error) once.Work { return func(context.Context, once.Lock) (string, error) { return "", err } }
	for name, c := range map[string]struct {
		before docstore.Doc // nil: no document
		work   once.Work
		body   string
		change func(*tasks.Worker)
		status int
		want   string // body, or code
		after  string // Retry-After
	}{
		"ready": {docstore.Doc{"x": docstore.Int(1)}, succeeds, a1, nil, 200,
			`{"analysis_id":"a1","outcome":"ready"}`, ""},
		"failed": {docstore.Doc{"x": docstore.Int(1)}, fails(once.Permanent(errors.New("x"))), a1, nil, 200,
			`{"analysis_id":"a1","outcome":"failed"}`, ""},
		"already finished": {docstore.Doc{"status": docstore.String("READY")}, nil, a1, nil, 200,
			`{"analysis_id":"a1","outcome":"already_finished"}`, ""},
		"unknown":   {nil, nil, a1, nil, 404, "NOT_FOUND", "60"},
		"malformed": {nil, nil, "<xml/>", nil, 200, `{"outcome":"malformed"}`, ""},
		"empty":     {nil, nil, "", nil, 200, `{"outcome":"malformed"}`, ""},
		"1 MiB": {docstore.Doc{"x": docstore.Int(1)}, succeeds, `{"analysisId":"a1","x":"` +
			strings.Repeat("x", 1<<20-len(`{"analysisId":"a1","x":""}`)) + `"}`, nil, 200,
			`{"analysis_id":"a1","outcome":"ready"}`, ""},
		"more than 1 MiB": {docstore.Doc{"x": docstore.Int(1)}, nil, `{"analysisId":"a1","x":"` +
			strings.Repeat("x", 2<<20) + `"}`, nil, 200, `{"outcome":"malformed"}`, ""},
		"locked": {locked, nil, a1, nil, 409, "ANALYSIS_LOCKED", "120"},
		"locked, acknowledged": {locked, nil, a1, func(w *tasks.Worker) { w.AckLocked = true }, 200,
			`{"analysis_id":"a1","outcome":"locked"}`, ""},
		"attempt failed": {docstore.Doc{"x": docstore.Int(1)}, fails(errors.New("secret of the target")), a1, nil, 424,
			"ATTEMPT_FAILED", ""},
		"panic": {docstore.Doc{"x": docstore.Int(1)}, func(context.Context, once.Lock) (string,
			error) {
			panic("oh")
		}, a1, nil, 424, "ATTEMPT_FAILED", ""},
		"damaged": {docstore.Doc{"status": docstore.Int(7)}, nil, a1, nil, 500, "DOCUMENT_DAMAGED", ""},
		"time of no kind": {docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.Int(1)}, nil, a1, nil,
			409, "LOCK_UNREADABLE", ""},
		"failed before": {docstore.Doc{"status": docstore.String("FAILED")}, nil, a1, nil, 200,
			`{"analysis_id":"a1","outcome":"already_failed"}`, ""},
		"from SNS": {docstore.Doc{"x": docstore.Int(1)}, succeeds,
			`{"Type":"Notification","MessageId":"1","Message":"{\"analysisId\":\"a1\"}"}`, nil, 200,
			`{"analysis_id":"a1","outcome":"ready"}`, ""},
		"from SNS, malformed": {nil, nil, `{"Type":"Notification","Message":"hello"}`, nil, 200, `{"outcome":"malformed"}`,
			""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.work)
				if c.work == nil {
					b.Work = func(context.Context, once.Lock) (string, error) {
						t.Error("the work ran")
						return "", nil
					}
				}
				if c.change != nil {
					c.change(&b.Worker)
				}
				if c.before != nil {
					b.put("a1", c.before)
				}
				w := post(t.Context(), b.endpoint(t.Context(), tasks.Endpoint{}), tasks.TaskPath, strings.NewReader(c.body))
				wants(t, name, w, c.status, c.want)
				if got := w.Header().Get("Retry-After"); got != c.after {
					t.Errorf("Retry-After is %q, want %q", got, c.after)
				}
				if strings.Contains(w.Body.String(), "secret") {
					t.Errorf("the queue gets %s", w.Body)
				}
				if c.status != 409 && c.want != `{"analysis_id":"a1","outcome":"locked"}` {
					b.wantFree()
				}
			})
		})
	}
}

// TestTimeOver: the work is stopped at the delivery's time limit, by the endpoint's own or by that of the platform less
// a margin, and the lock is free then.
func TestTimeOver(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, platform, want time.Duration
	}{
		"default":                   {0, 0, 10 * time.Minute},
		"configured":                {30 * time.Minute, 0, 30 * time.Minute},
		"the platform's is shorter": {0, time.Minute, 45 * time.Second},
		"the platform's is short":   {0, 20 * time.Second, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() })
				b.put("a1", docstore.Doc{"x": docstore.Int(1)})
				ctx := t.Context()
				if c.platform > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.platform)
					defer cancel()
				}
				h, begin := b.endpoint(t.Context(), tasks.Endpoint{Timeout: c.timeout}), time.Now()
				wants(t, name, post(ctx, h, tasks.TaskPath, strings.NewReader(a1)), 409, "RUN_INTERRUPTED")
				if took := time.Since(begin); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				b.wantFree()
			})
		})
	}
}

// TestStopping: when the process ends, running work is stopped, and its lock is free for another worker.
func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		b := newBench(t, func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		h := b.endpoint(life, tasks.Endpoint{})
		time.AfterFunc(time.Minute, end)
		wants(t, "stopping", post(t.Context(), h, tasks.TaskPath, strings.NewReader(a1)), 409, "RUN_INTERRUPTED")
		b.wantFree()
		if !strings.Contains(b.log.String(), "the server is shutting down") {
			t.Errorf("the log says %s", b.log)
		}
	})
}

// TestHungUp: a run whose queue hangs up first is counted as failed, every time, and the last one that may fail ends
// the analysis.
func TestHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		b.MaxFailures = 3
		h := b.endpoint(t.Context(), tasks.Endpoint{})
		for failures := docstore.Int(1); failures <= 3; failures++ {
			ctx, hangUp := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, hangUp)
			post(ctx, h, tasks.TaskPath, strings.NewReader(a1)) // no one reads the response
			if d := b.doc(); d["lockFailures"] != failures || (d["status"] == docstore.String("FAILED")) != (failures == 3) {
				t.Errorf("after %d runs: %v", failures, d)
			}
			b.wantFree()
		}
		if reason := string(b.doc()["failureReason"].(docstore.String)); !strings.Contains(reason,
			"the queue hung up before the run ended") {
			t.Errorf("the reason is %q", reason)
		}
		wants(t, "again", post(t.Context(), h, tasks.TaskPath, strings.NewReader(a1)), 200,
			`{"analysis_id":"a1","outcome":"already_failed"}`)
	})
}

// TestHungUpWhileStopping: at the end of the process connections are closed as well; that is no failure.
func TestHungUpWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		ctx, hangUp := context.WithCancel(t.Context())
		b := newBench(t, func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		h := b.endpoint(life, tasks.Endpoint{})
		time.AfterFunc(time.Minute, func() { end(); hangUp() })
		wants(t, "stopping", post(ctx, h, tasks.TaskPath, strings.NewReader(a1)), 409, "RUN_INTERRUPTED")
		if b.wantFree(); b.doc()["lockFailures"] != nil {
			t.Errorf("counted: %v", b.doc())
		}
	})
}

// TestTaskBeforeItsDocument: a task that overtakes the document of its analysis, or that meets one which cannot be
// read, is retried for the grace period, by the time of the task, or by when this process first saw it. Then it is
// dropped, and the log has it.
func TestTaskBeforeItsDocument(t *testing.T) {
	for name, c := range map[string]struct {
		eta     time.Duration // of the first delivery, before now; negative: the header is missing
		keep    bool          // the header of later deliveries says the same
		damage  docstore.Doc
		retried string
		dropped string
	}{
		"the task's time":           {2 * time.Minute, true, nil, "404 NOT_FOUND", "unknown_analysis"},
		"the attempt's time":        {0, false, nil, "404 NOT_FOUND", "unknown_analysis"},
		"without a time":            {-1, false, nil, "404 NOT_FOUND", "unknown_analysis"},
		"a status that is a number": {-1, false, docstore.Doc{"status": docstore.Int(7)}, "500 DOCUMENT_DAMAGED", "damaged"},
		"a lock that cannot be read": {-1, false, docstore.Doc{"lockOwner": docstore.String("w"),
			"lockExpiresAt": docstore.String("soon")}, "409 LOCK_UNREADABLE", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Hour)
				b := newBench(t, succeeds)
				if c.damage != nil {
					b.put("a1", c.damage)
				}
				h, begin := b.endpoint(t.Context(), tasks.Endpoint{}), time.Now()
				deliver := func() *httptest.ResponseRecorder {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tasks.TaskPath, strings.NewReader(a1))
					r.Header.Set("X-Cloudtasks-Taskname", "t1")
					if eta := begin.Add(-c.eta); c.eta >= 0 {
						if !c.keep {
							eta = time.Now()
						}
						r.Header.Set("X-Cloudtasks-Tasketa", fmt.Sprintf("%d.%06d", eta.Unix(), eta.Nanosecond()/1000))
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w
				}
				code, want, _ := strings.Cut(c.retried, " ")
				status, _ := strconv.Atoi(code)
				left := tasks.DefaultGrace - max(c.eta, 0)
				for range 2 {
					wants(t, "in time", deliver(), status, want)
					time.Sleep(left/2 - time.Second)
				}
				if strings.Contains(b.log.String(), `"dead":true`) {
					t.Errorf("the log says %s", b.log)
				}
				time.Sleep(2 * time.Second)
				body := fmt.Sprintf(`{"analysis_id":"a1","outcome":%q}`, c.dropped)
				wants(t, "after the grace", deliver(), 200, body)
				if log := b.log.String(); !strings.Contains(log, `"level":"ERROR","msg":"delivery"`) ||
					!strings.Contains(log, `"dead":true`) {
					t.Errorf("the log says %s", log)
				}
				b.put("a1", docstore.Doc{"status": docstore.String("PENDING"), "lockOwner": docstore.String("")})
				wants(t, "once it is there", deliver(), 200, `{"analysis_id":"a1","outcome":"ready"}`)
			})
		})
	}
}

// TestLockLost: the lock of a worker that cannot reach the gate runs out; the worker that took over is left alone.
func TestLockLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		h := b.endpoint(t.Context(), tasks.Endpoint{})
		time.AfterFunc(90*time.Second, func() {
			b.put("a1", docstore.Doc{"lockOwner": docstore.String("other"), "lockToken": docstore.Int(docstore.MaxInt)})
		})
		wants(t, "lost", post(t.Context(), h, tasks.TaskPath, strings.NewReader(a1)), 409, "RUN_INTERRUPTED")
		if d := b.doc(); d["lockOwner"] != docstore.String("other") {
			t.Errorf("the document is %v", d)
		}
	})
}

// down is a store that does not answer.
type down struct {
	docstore.Store

	err error
}

func (s down) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, s.err
}

func TestGateDown(t *testing.T) {
	for code, err := range map[string]error{"UNAVAILABLE": docstore.ErrUnavailable, "CLOCK_SKEW": docstore.ErrClockSkew} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, succeeds)
			b.Gate = direct.Analyses(analysis.New(down{b.store, err}, nil))
			wants(t, code, post(t.Context(), b.endpoint(t.Context(), tasks.Endpoint{}), tasks.TaskPath, strings.NewReader(a1)),
				503, code)
			time.Sleep(time.Minute) // what goes on in the background ends
		})
	}
}

// TestBrokenBody: a message that did not arrive whole comes again.
func TestBrokenBody(t *testing.T) {
	b := newBench(t, succeeds)
	wants(t, "broken", post(t.Context(), b.endpoint(t.Context(), tasks.Endpoint{}), tasks.TaskPath,
		iotest.ErrReader(io.ErrUnexpectedEOF)), 400, "INVALID_ARGUMENT")
}

// TestNamedByQueue: the lock says which delivery holds it.
func TestNamedByQueue(t *testing.T) {
	var owner string
	b := newBench(t, func(_ context.Context, l once.Lock) (string, error) { owner = l.Owner; return "", nil })
	h := b.endpoint(t.Context(), tasks.Endpoint{})
	for _, c := range []struct {
		want   string
		header []string
	}{
		{"analyses/t1#3.2", []string{
			"X-CloudTasks-QueueName", "analyses", "X-CloudTasks-TaskName", "t1", "X-CloudTasks-TaskRetryCount", "3",
			"X-CloudTasks-TaskExecutionCount", "2",
		}},
		{"request/r1#", []string{"X-Request-Id", "r1"}},
	} {
		b.put("a1", docstore.Doc{"status": docstore.String("NEW")})
		wants(t, c.want, post(t.Context(), h, tasks.TaskPath, strings.NewReader(a1), c.header...), 200,
			`{"analysis_id":"a1","outcome":"ready"}`)
		if !strings.HasPrefix(owner, c.want) {
			t.Errorf("the owner is %q, want %q", owner, c.want)
		}
	}
}

// TestOutlivesWriteTimeout: the server's limit for answers is for quick ones. Here it is over before any run can be.
func TestOutlivesWriteTimeout(t *testing.T) {
	b := newBench(t, succeeds)
	b.put("a1", docstore.Doc{"x": docstore.Int(1)})
	route, err := tasks.Endpoint{Worker: &b.Worker, Guard: tasks.Development{}}.Route(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(httpapi.Handler([]httpapi.Route{route}, nil))
	s.Config.WriteTimeout = time.Nanosecond
	s.Start()
	defer s.Close()
	a, err := s.Client().Post(s.URL+tasks.TaskPath, "application/json", strings.NewReader(a1))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if body, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK ||
		!bytes.Contains(body, []byte("ready")) {
		t.Errorf("%d %s, %v", a.StatusCode, body, err)
	}
}

// TestGuards keep others out, before anything is read.
func TestGuards(t *testing.T) {
	b := newBench(t, succeeds)
	b.put("a1", docstore.Doc{"x": docstore.Int(1)})
	unread := iotest.ErrReader(errors.New("was read"))
	for name, c := range map[string]struct {
		guard  tasks.Guard
		change func(*http.Request)
		status int
		want   string
	}{
		"no token":            {guardOf(httpapi.ErrUnauthenticated), nil, 401, "UNAUTHENTICATED"},
		"another account":     {guardOf(httpapi.ErrForbidden), nil, 403, "PERMISSION_DENIED"},
		"keys cannot be read": {guardOf(errors.New("no route")), nil, 503, "UNAVAILABLE"},
		"another machine": {tasks.Development{}, func(r *http.Request) { r.RemoteAddr = "192.0.2.1:5000" }, 403,
			"PERMISSION_DENIED"},
		"another name": {tasks.Development{}, func(r *http.Request) { r.Host = "evil.example" }, 403,
			"PERMISSION_DENIED"},
		"a proxy": {tasks.Development{}, func(r *http.Request) {
			r.Header.Set("X-Forwarded-For", "192.0.2.1")
		}, 403, "PERMISSION_DENIED"},
		"page of another site": {tasks.Development{}, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403, "PERMISSION_DENIED"},
		"this machine (no body)": {tasks.Development{}, nil, 400, "INVALID_ARGUMENT"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+tasks.TaskPath, unread)
		r.RemoteAddr = "127.0.0.1:5000"
		if c.change != nil {
			c.change(r)
		}
		w := httptest.NewRecorder()
		// The contract's check would read the body first.
		route, err := tasks.Endpoint{Worker: &b.Worker, Guard: c.guard}.Route(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		httpapi.Handler([]httpapi.Route{route}, nil).ServeHTTP(w, r)
		wants(t, name, w, c.status, c.want)
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (c.status == 401) {
			t.Errorf("%s: challenge %q", name, challenge)
		}
	}
	if d := b.doc(); d["lockToken"] != nil {
		t.Errorf("something ran: %v", d)
	}
}

type guard struct{ err error }

func guardOf(err error) tasks.Guard                  { return guard{err} }
func (g guard) Verify(*http.Request) (string, error) { return "", g.err }
func (guard) Challenge() string                      { return "Bearer" }

// TestAuditOfInternalEndpoints: the events of deliveries that ran, of sweeps, and of callers that were kept out, name
// the account that called, and those of deliveries the run; one that did not run has none, and a caller without a token
// has no account to name.
func TestAuditOfInternalEndpoints(t *testing.T) {
	const queueAccount, other = "queue@p.iam.gserviceaccount.com", "other@p.iam.gserviceaccount.com"
	issuer := cloudtaskstest.Start(t, nil)
	who, err := oidc.NewAccount(t.Context(), oidc.Config{Issuer: issuer.Issuer(), Audience: "leasehold"}, queueAccount)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(_ context.Context, l once.Lock) (string, error) {
		if l.RunID == "bad" {
			return "", errors.New("the disk is full")
		}
		return "done", nil
	})
	b.put("a1", docstore.Doc{"x": docstore.Int(1)})
	b.put("bad", docstore.Doc{"x": docstore.Int(1)})
	task, err := tasks.Endpoint{Worker: &b.Worker, Guard: who}.Route(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := tasks.SweepEndpoint{Analyses: analysis.New(b.store, nil), Sweep: analysis.Sweep{Queue: &queueOf{}},
		Guard: who}.Route()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h := httpapi.Handler([]httpapi.Route{task, sweep}, &httpapi.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for name, c := range map[string]struct {
		account, path, body string
		status              int
		want                []string // of the audit event; nil: there is none
	}{
		"a run": {queueAccount, tasks.TaskPath, `{"analysisId":"a1"}`, 200,
			[]string{`"action":"task.deliver","outcome":"ok"`, `"subject":"` + queueAccount + `"`,
				`"kind":"analysis","key":"a1"`,
				`"result":"ready"`, `"fencing_token":`, `"owner":"request/`}},
		"a run that fails": {queueAccount, tasks.TaskPath, `{"analysisId":"bad"}`, 424,
			[]string{`"action":"task.deliver","outcome":"ATTEMPT_FAILED"`, `"key":"bad"`, `"result":"attempt_failed"`,
				`"fencing_token":`}},
		"a retry": {queueAccount, tasks.TaskPath, `{"analysisId":"missing"}`, 404, nil},
		"a sweep": {queueAccount, tasks.SweepPath, "", 200,
			[]string{`"action":"sweep","outcome":"ok"`, `"subject":"` + queueAccount + `"`}},
		"another account": {other, tasks.TaskPath, `{"analysisId":"a1"}`, 403,
			[]string{`"action":"task.deliver","outcome":"PERMISSION_DENIED"`, `"subject":"` + other + `"`, `"rejected":`}},
		"no token": {"", tasks.SweepPath, "", 401, []string{`"action":"sweep","outcome":"UNAUTHENTICATED"`}},
	} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
		if c.account != "" {
			token, err := issuer.Token(c.account, "leasehold")
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
		}
		var events []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `"msg":"audit"`) {
				events = append(events, line)
			}
		}
		event := strings.Join(events, "")
		contracttest.AuditEvents(t, event)
		if (event == "") != (c.want == nil) || strings.Contains(event, "caller_tenant") ||
			c.account == "" && strings.Contains(event, `"subject"`) {
			t.Errorf("%s: %s", name, event)
		}
		for _, want := range c.want {
			if !strings.Contains(event, want) {
				t.Errorf("%s: no %s in %s", name, want, event)
			}
		}
	}
}

func TestEndpointRefusesSettings(t *testing.T) {
	gate := direct.Analyses(analysis.New(docstore.NewMemory(nil), nil))
	works := &tasks.Worker{Gate: gate, Work: succeeds}
	for _, c := range []struct {
		says     string
		endpoint tasks.Endpoint
	}{
		{"Guard is required", tasks.Endpoint{Worker: works}},
		{"from 1s to 30m0s", tasks.Endpoint{Worker: works, Guard: tasks.Platform{}, Timeout: 31 * time.Minute}},
		{"from 1s to 30m0s", tasks.Endpoint{Worker: works, Guard: tasks.Platform{}, Timeout: time.Millisecond}},
		{"Work is required", tasks.Endpoint{Worker: &tasks.Worker{Gate: gate}, Guard: tasks.Platform{}}},
	} {
		if _, err := c.endpoint.Route(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.endpoint, err, c.says)
		}
	}
}

// TestNotSetUp: endpoints without their dependencies say what is missing, and the others work.
func TestNotSetUp(t *testing.T) {
	task, err := tasks.Endpoint{}.Route(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := tasks.SweepEndpoint{}.Route()
	if err != nil {
		t.Fatal(err)
	}
	h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), httpapi.Development{},
		&httpapi.Options{Routes: []httpapi.Route{task, sweep}}))
	for path, says := range map[string]string{tasks.TaskPath: "LEASEHOLD_TARGET_URL",
		tasks.SweepPath: "LEASEHOLD_TASK_QUEUE"} {
		w := post(t.Context(), h, path, strings.NewReader(a1))
		wants(t, path, w, 501, "NOT_CONFIGURED")
		if !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %s", path, w.Body)
		}
		if w := post(t.Context(), h, path+"/x", nil); w.Code != 404 {
			t.Errorf("%s/x: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}
}

// queueOf is an [analysis.Queue] that keeps what it is given, or fails.
type queueOf struct {
	err   error
	names []string
	calls atomic.Int32
}

func (q *queueOf) Enqueue(_ context.Context, id analysis.ID, name string) error {
	q.calls.Add(1)
	if q.err != nil {
		return q.err
	}
	q.names = append(q.names, string(id)+" "+name)
	return nil
}

// TestSweepEndpoint: counts, and which troubles make a sweep one that has to come again.
func TestSweepEndpoint(t *testing.T) {
	stale := docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
		"lockToken": docstore.Int(3), "lockRuns": docstore.Int(1)}
	given := docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
		"lockToken": docstore.Int(3), "lockRuns": docstore.Int(6)}
	damaged := docstore.Doc{"lockOwner": docstore.String("w"),
		"lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"), "lockToken": docstore.String("x")}
	refuses := errors.New("the queue is down")
	for name, c := range map[string]struct {
		docs   []docstore.Doc
		queue  error
		status int
		want   string
	}{
		"nothing to do": {nil, nil, 200, `{"errors":0,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":0}`},
		"stale": {[]docstore.Doc{stale, stale}, nil, 200,
			`{"errors":0,"failed":0,"more":false,"requeued":2,"skipped":0,"stale":2}`},
		"given up": {[]docstore.Doc{given}, nil, 200,
			`{"errors":0,"failed":1,"more":false,"requeued":0,"skipped":0,"stale":1}`},
		"one damaged": {[]docstore.Doc{damaged}, nil, 200,
			`{"damaged":1,"errors":1,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":1,"unreadable":["analysis a: docstore: damaged document: analyses//a: field \"lockToken\" is not a whole number from 0 on"]}`},
		"one damaged of several": {[]docstore.Doc{damaged, stale}, nil, 200,
			`{"damaged":1,"errors":1,"failed":0,"more":false,"requeued":1,"skipped":0,"stale":2,"unreadable":["analysis a: docstore: damaged document: analyses//a: field \"lockToken\" is not a whole number from 0 on"]}`},
		"the queue is down":  {[]docstore.Doc{stale, stale}, refuses, 503, "UNAVAILABLE"},
		"and one is damaged": {[]docstore.Doc{damaged, stale}, refuses, 503, "UNAVAILABLE"},
		"and one is given up": {[]docstore.Doc{stale, given}, refuses, 200,
			`{"errors":1,"failed":1,"more":false,"requeued":0,"skipped":0,"stale":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				for i, d := range c.docs {
					b.put(string(rune('a'+i)), d)
				}
				q := &queueOf{err: c.queue}
				w := post(t.Context(), b.sweepDoor(q), tasks.SweepPath, nil)
				wants(t, name, w, c.status, c.want)
				if c.queue != nil && !strings.Contains(b.log.String(), "the queue is down") {
					t.Errorf("the log says %s", b.log)
				}
			})
		})
	}
}

// TestSweepPrunes: beside a sweep ended locks are removed and counted; if that fails the sweep counts all the same, and
// they are removed also when the sweep fails.
func TestSweepPrunes(t *testing.T) {
	for name, c := range map[string]struct {
		removed    int
		err, store error
		status     int
		want, log  string
	}{
		"some": {removed: 7, status: 200,
			want: `{"errors":0,"failed":0,"more":false,"pruned":7,"requeued":0,"skipped":0,"stale":0}`},
		"none": {status: 200, want: `{"errors":0,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":0}`},
		"it fails": {removed: 3, err: errors.New("disk on fire"), status: 200,
			want: `{"errors":0,"failed":0,"more":false,"pruned":3,"requeued":0,"skipped":0,"stale":0}`, log: "disk on fire"},
		"a failed sweep": {removed: 7, store: docstore.ErrUnavailable, status: 503, want: "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			if c.store != nil {
				b.store = unreadable{b.store, c.store}
			}
			called := false
			b.prune = func(ctx context.Context) (int, error) {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("it has no time limit")
				}
				called = true
				return c.removed, c.err
			}
			w := post(t.Context(), b.sweepDoor(&queueOf{}), tasks.SweepPath, nil)
			wants(t, name, w, c.status, c.want)
			if !called || !strings.Contains(b.log.String(), c.log) {
				t.Errorf("called %v; the log says %s", called, b.log)
			}
		})
	}
}

// TestSweepOfClusters: clusters are swept with the analyses, without them, and while their queue is down; what cannot
// be swept is counted.
func TestSweepOfClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		clusters := placement.New(b.store, nil)
		log := slog.New(slog.NewJSONHandler(b.log, nil))
		sweep := func(d tasks.SweepEndpoint) *httptest.ResponseRecorder {
			t.Helper()
			d.Guard, d.Log = tasks.Platform{}, log
			route, err := d.Route()
			if err != nil {
				t.Fatal(err)
			}
			return post(t.Context(), contracttest.Handler(
				t, httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Log: log})), tasks.SweepPath, nil)
		}
		join := func(name string) {
			t.Helper()
			cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
			m, err := clusters.Join(t.Context(), placement.Join{Cluster: cluster, Member: name, RequestID: "j",
				Offer: placement.Offer{Kinds: []string{"room"}}})
			if err != nil || m.Code != placement.OK {
				t.Fatalf("%+v, %v", m, err)
			}
			o, err := clusters.Claim(t.Context(), placement.Claim{Cluster: cluster,
				Identity: placement.Identity{Kind: "room", ID: name}, RequestID: "c", By: m.Incarnation})
			if err != nil || o.Code != placement.OK {
				t.Fatalf("%+v, %v", o, err)
			}
			time.Sleep(placement.DefaultTTL)
		}
		join("ann")
		wants(t, "clusters alone", sweep(tasks.SweepEndpoint{Clusters: clusters}), 200,
			`{"clusters":{"clusters":1,"errors":0,"evicted":1,"freed":1,"more":false,"removed":0},"errors":0,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":0}`)
		if !strings.Contains(b.log.String(),
			`"msg":"sweep of clusters","clusters":1,"evicted":1,"freed":1,"removed":0,"retired":0,"errors":0,"damaged":0,"more":false`) {
			t.Errorf("the log: %s", b.log)
		}
		join("bob")
		b.put("a", docstore.Doc{"lockOwner": docstore.String("w"),
			"lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"), "lockToken": docstore.Int(3)})
		down := analysis.Sweep{Queue: &queueOf{err: errors.New("the queue is down")}}
		wants(t, "the queue is down", sweep(tasks.SweepEndpoint{Analyses: analysis.New(b.store, nil), Sweep: down,
			Clusters: clusters}), 503, "UNAVAILABLE")
		up := analysis.Sweep{Queue: &queueOf{}}
		wants(t, "then both", sweep(tasks.SweepEndpoint{Analyses: analysis.New(b.store, nil), Sweep: up, Clusters: clusters}),
			200,
			`{"clusters":{"clusters":1,"errors":0,"evicted":0,"freed":0,"more":false,"removed":0},"errors":0,"failed":0,"more":false,"requeued":1,"skipped":0,"stale":1}`)
		broken := placement.New(unreadable{b.store, docstore.ErrUnavailable}, nil)
		wants(t, "the store is down", sweep(tasks.SweepEndpoint{Clusters: broken}), 200,
			`{"clusters":{"clusters":0,"errors":1,"evicted":0,"freed":0,"more":false,"removed":0},"errors":0,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":0}`)
	})
}

func (b *bench) sweepDoor(q analysis.Queue) http.Handler {
	b.t.Helper()
	log := slog.New(slog.NewJSONHandler(b.log, nil))
	route, err := tasks.SweepEndpoint{
		Analyses: analysis.New(b.store, nil), Sweep: analysis.Sweep{Queue: q}, Guard: tasks.Platform{},
		Log: log, Prune: b.prune,
	}.Route()
	if err != nil {
		b.t.Fatal(err)
	}
	return contracttest.Handler(b.t, httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Log: log}))
}

// TestSweepStoreDown: a sweep that could not begin is to come again.
func TestSweepStoreDown(t *testing.T) {
	for code, err := range map[string]error{"UNAVAILABLE": docstore.ErrUnavailable, "CLOCK_SKEW": docstore.ErrClockSkew} {
		b := newBench(t, nil)
		b.store = unreadable{b.store, err}
		wants(t, code, post(t.Context(), b.sweepDoor(&queueOf{}), tasks.SweepPath, nil), 503, code)
	}
}

type unreadable struct {
	docstore.Store

	err error
}

func (s unreadable) Get(context.Context, ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, s.err
}

func TestSweepEndpointRefusesSettings(t *testing.T) {
	all := analysis.New(docstore.NewMemory(nil), nil)
	for _, c := range []struct {
		says     string
		endpoint tasks.SweepEndpoint
	}{
		{"Guard is required", tasks.SweepEndpoint{Analyses: all, Sweep: analysis.Sweep{Queue: &queueOf{}}}},
		{"queue is required", tasks.SweepEndpoint{Analyses: all, Guard: tasks.Platform{}}},
		{"from 1s to 30m0s", tasks.SweepEndpoint{Analyses: all, Sweep: analysis.Sweep{Queue: &queueOf{}},
			Guard: tasks.Platform{}, Timeout: time.Hour}},
	} {
		if _, err := c.endpoint.Route(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.endpoint, err, c.says)
		}
	}
}

// TestWhatIsNotStored: work that was done while the gate is away, until the time of the delivery is over or the process
// ends, is no success to the queue. It delivers the message again, neither slowed down nor as one that failed, and the
// work is done again. An outage that is shorter is waited for: the queue gets the success that it was.
func TestWhatIsNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		away, life time.Duration
		stored     bool
	}{
		"the time is over": {away: time.Hour, life: 2 * time.Hour}, "the process ends": {away: time.Hour, life: time.Minute},
		"for 9 minutes": {away: 9 * time.Minute, life: 2 * time.Hour, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				paid := 0
				b := newBench(t, nil)
				b.put("a1", docstore.Doc{})
				off := &cut{Store: b.store}
				b.Gate = direct.Analyses(analysis.New(off, nil))
				b.Work = func(context.Context, once.Lock) (string, error) {
					if paid++; paid == 1 {
						off.away.Store(true)
						time.AfterFunc(c.away, func() { off.away.Store(false) })
					}
					return "paid", nil
				}
				deliver := func(life time.Duration) *httptest.ResponseRecorder {
					ctx, end := context.WithTimeout(t.Context(), life)
					defer end()
					return post(t.Context(), b.endpoint(ctx, tasks.Endpoint{}), tasks.TaskPath, strings.NewReader(a1))
				}
				if w := deliver(c.life); c.stored {
					wants(t, "the first", w, 200, `{"analysis_id":"a1","outcome":"ready"}`)
				} else {
					wants(t, "the first", w, 409, "RUN_INTERRUPTED")
					if b.doc()["status"] != nil || b.doc()["lockFailures"] != nil ||
						!strings.Contains(b.log.String(), "the work is done and not stored") {
						t.Errorf("%v; %s", b.doc(), b.log)
					}
					time.Sleep(2 * time.Hour)
					wants(t, "the second", deliver(time.Hour), 200, `{"analysis_id":"a1","outcome":"ready"}`)
				}
				wants(t, "the last", deliver(time.Hour), 200, `{"analysis_id":"a1","outcome":"already_finished"}`)
				if c.stored != (paid == 1) || paid > 2 {
					t.Errorf("%d payments", paid)
				}
			})
		})
	}
}
