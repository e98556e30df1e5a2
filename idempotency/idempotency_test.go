package idempotency_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// gate is one of runs on a store in memory.
func gate(store docstore.Store) once.Gate { return direct.Runs(runs.New(store, nil), "shop", 0) }

// user is the scope of these tests.
func user(r *http.Request) string { return cmp.Or(r.Header.Get("X-User"), "ann") }

func middleware(t *testing.T, g once.Gate, o *idempotency.Options) *idempotency.Middleware {
	t.Helper()
	var named idempotency.Options
	if o != nil {
		named = *o
	}
	named.Name = cmp.Or(named.Name, "payments")
	if named.Warn == nil {
		named.Warn = func(*http.Request, error) {}
	}
	m, err := idempotency.New(g, user, &named)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown(t.Context()) }) // that has ended
	return m
}

// post sends a request with a key, which may be empty, and returns the response.
func post(h http.Handler, key, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// payments is a handler that takes a while and says how often it ran.
func payments(runs *atomic.Int64, takes time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := runs.Add(1)
		body, _ := io.ReadAll(r.Body)
		time.Sleep(takes)
		w.Header().Set("Location", fmt.Sprintf("/payments/%d", n))
		w.Header().Set("Set-Cookie", "secret")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d of %s", n, body)
	})
}

func replayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get(idempotency.ReplayedHeader) == "true"
}

// is compares status, code and, for the problems, their form.
func is(t *testing.T, what string, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	if w.Code != status || code != "" && !strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
		t.Errorf("%s: %d %s, want %d %s", what, w.Code, w.Body, status, code)
	}
	if code != "" && w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %v", what, w.Header())
	}
}

// Test64RequestsWithOneKey: one run, and 64 equal responses, in four processes that share a store.
func Test64RequestsWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := &counting{Store: docstore.NewMemory(nil)}
		var processes []http.Handler
		for range 4 {
			processes = append(processes, middleware(t, gate(store), nil).Wrap(payments(&runs, 3*time.Second)))
		}
		got := make([]*httptest.ResponseRecorder, 64)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = post(processes[i%4], "k1", "ten euros") })
		}
		all.Wait()
		first := 0
		for i, w := range got {
			if w.Code != 201 || w.Body.String() != "payment 1 of ten euros" || w.Header().Get("Location") != "/payments/1" ||
				w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d: %d %s %v", i, w.Code, w.Body, w.Header())
			}
			if !replayed(w) {
				first++
			} else if w.Header().Get("Set-Cookie") != "" {
				t.Error("a cookie went to another caller")
			}
		}
		if runs.Load() != 1 || first != 1 {
			t.Errorf("%d runs, and %d responses that were not replayed", runs.Load(), first)
		}
		// One begin and one finish, and of each other process one begin for each poll: 100 ms, 200 ms and so on, within 3
		// seconds.
		if n := store.writes.Load(); n > 2+3*9 {
			t.Errorf("%d requests to the store", n)
		}
	})
}

// counting counts the writes of a store.
type counting struct {
	docstore.Store
	writes atomic.Int64
}

func (c *counting) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	c.writes.Add(1)
	return c.Store.Write(ctx, w...)
}

// TestCost: a request with a new key costs two requests to the store, a repeated one one.
func TestCost(t *testing.T) {
	var runs atomic.Int64
	store := &counting{Store: docstore.NewMemory(nil)}
	h := middleware(t, gate(store), nil).Wrap(payments(&runs, 0))
	post(h, "k1", "")
	if n := store.writes.Swap(0); n != 2 {
		t.Errorf("the first: %d", n)
	}
	post(h, "k1", "")
	if n := store.writes.Load(); n != 1 || runs.Load() != 1 {
		t.Errorf("the second: %d, %d runs", n, runs.Load())
	}
}

// TestKeyIsNewAfterItsTime: on a store from which nothing removes records, a key is a new one once its record was kept
// for as long as was said, for whatever payload; a millisecond before it is not.
func TestKeyIsNewAfterItsTime(t *testing.T) {
	for kept, keep := range map[time.Duration]time.Duration{time.Minute: time.Minute, 24 * time.Hour: 0} {
		for _, past := range []time.Duration{0, time.Millisecond, 9 * kept} {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int64
				g := direct.Runs(runs.New(docstore.NewMemory(nil), nil), "shop", keep)
				h := middleware(t, g, nil).Wrap(payments(&ran, 0))
				post(h, "k1", "10")
				time.Sleep(kept - time.Millisecond)
				if w := post(h, "k1", "20"); w.Code != http.StatusUnprocessableEntity || ran.Load() != 1 {
					t.Errorf("%v, before: %d %s", kept, w.Code, w.Body)
				}
				time.Sleep(time.Millisecond + past)
				for range 2 {
					if w := post(h, "k1", "20"); w.Code != http.StatusCreated || ran.Load() != 2 {
						t.Errorf("%v and %v: %d %s, %d runs", kept, past, w.Code, w.Body, ran.Load())
					}
				}
			})
		}
	}
}

// TestAnotherPayload is 422, while the first runs and after it, in the same process and another one; another scope,
// name or key is another request.
func TestAnotherPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := docstore.NewMemory(nil)
		o := &idempotency.Options{Headers: []string{"x-currency"}}
		here, there := middleware(t, gate(store), o).Wrap(payments(&runs, 5*time.Second)),
			middleware(t, gate(store), o).Wrap(payments(&runs, 5*time.Second))
		go post(here, "k1", "ten")
		time.Sleep(time.Second)
		others := map[string]func(*http.Request){
			"body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("tens")) },
			"path":   func(r *http.Request) { r.URL.Path = "/refunds" },
			"query":  func(r *http.Request) { r.URL.RawQuery = "a=1" },
			"host":   func(r *http.Request) { r.Host = "shop.example" },
			"method": func(r *http.Request) { r.Method = http.MethodPatch },
			"header": func(r *http.Request) { r.Header.Set("X-Currency", "JPY") },
		}
		for range 2 { // while it runs, and after it
			for name, change := range others {
				is(t, name+", here", post(here, "k1", "ten", change), 422, "IDEMPOTENCY_KEY_REUSED")
				is(t, name+", there", post(there, "k1", "ten", change), 422, "IDEMPOTENCY_KEY_REUSED")
			}
			time.Sleep(10 * time.Second)
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
		same := post(there, "k1", "ten", func(r *http.Request) { r.Header.Set("X-Other", "1") })
		if same.Code != 201 || !replayed(same) {
			t.Errorf("a header that is no part of the payload: %d %s", same.Code, same.Body)
		}
		named := middleware(t, gate(store), &idempotency.Options{Name: "other", Headers: o.Headers}).Wrap(payments(&runs, 0))
		for what, w := range map[string]*httptest.ResponseRecorder{
			"another scope": post(there, "k1", "ten", func(r *http.Request) { r.Header.Set("X-User", "bob") }),
			"another key":   post(there, "k2", "ten"),
			"another name":  post(named, "k1", "ten"),
		} {
			if w.Code != 201 || replayed(w) {
				t.Errorf("%s: %d %s", what, w.Code, w.Body)
			}
		}
		if runs.Load() != 4 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// TestPartsAreNotJoined: a key, its scope and its name are three things, and so are the parts of a payload: what one
// caller's scope ends with is not what another's key begins with.
func TestPartsAreNotJoined(t *testing.T) {
	var runs atomic.Int64
	store := docstore.NewMemory(nil)
	h := middleware(t, gate(store), &idempotency.Options{Name: "shop", Headers: []string{"X-A", "X-B"}}).Wrap(
		payments(&runs, 0))
	as := func(user string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("X-User", user) } }
	named := middleware(t, gate(store), &idempotency.Options{Name: "shopa", Headers: []string{"X-A", "X-B"}}).Wrap(
		payments(&runs, 0))
	for what, w := range map[string]*httptest.ResponseRecorder{
		"ann, b1":              post(h, "b1", "ten", as("ann")),
		"annb, 1":              post(h, "1", "ten", as("annb")),
		"an, nb1":              post(h, "nb1", "ten", as("an")),
		"another name, nn, b1": post(named, "b1", "ten", as("nn")),
	} {
		if w.Code != 201 || replayed(w) {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	if runs.Load() != 4 {
		t.Errorf("%d runs", runs.Load())
	}

	post(h, "k1", "ten", func(r *http.Request) { r.Header.Set("X-A", "one"); r.URL.RawQuery = "a=1" })
	for what, change := range map[string]func(*http.Request){
		"body in the query": func(r *http.Request) {
			r.URL.RawQuery, r.Body, r.ContentLength = "a=1ten", http.NoBody, 0
		},
		"query in the path":  func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/paymentsa=1", "" },
		"header in its name": func(r *http.Request) { r.Header.Del("X-A"); r.Header.Set("X-B", "one") },
		"two values":         func(r *http.Request) { r.Header["X-A"] = []string{"on", "e"} },
	} {
		is(t, what, post(h, "k1", "ten", func(r *http.Request) {
			r.Header.Set("X-A", "one")
			r.URL.RawQuery = "a=1"
		}, change), 422, "IDEMPOTENCY_KEY_REUSED")
	}
}

// TestKeys: the header field in the forms that are accepted, and those that are not.
func TestKeys(t *testing.T) {
	var runs atomic.Int64
	h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(payments(&runs, 0))
	post(h, `"8e03 \"\\x"`, "")
	for _, key := range []string{`"8e03 \"\\x"`, ` "8e03 \"\\x"	`} {
		if w := post(h, key, ""); !replayed(w) {
			t.Errorf("%q: %d %s", key, w.Code, w.Body)
		}
	}
	post(h, `k-1`, "")
	if w := post(h, `"k-1"`, ""); !replayed(w) {
		t.Errorf("quoted and plain: %d %s", w.Code, w.Body)
	}
	if w := post(h, strings.Repeat("k", 255), ""); w.Code != 201 {
		t.Errorf("255 characters: %d %s", w.Code, w.Body)
	}
	before := runs.Load()
	for _, key := range []string{
		`"`, `""`, `"a`, `"a"b"`, `"a" "b"`, `"a";p=1`, `"\a"`, `"a\`, "\"\u00e9\"", "\"\x00\"", "\"\t\"", `a b`, `a"b`,
		`a,b`, `a;b`, `a\b`, "\u00e9", strings.Repeat("k", 256),
		`"` + strings.Repeat("k", 256) + `"`,
	} {
		is(t, key, post(h, key, ""), 400, "IDEMPOTENCY_KEY_INVALID")
	}
	is(t, "empty", post(h, "", "", func(r *http.Request) {
		r.Header["Idempotency-Key"] = []string{""}
	}), 400, "IDEMPOTENCY_KEY_INVALID")
	is(t, "twice", post(h, "", "", func(r *http.Request) {
		r.Header["Idempotency-Key"] = []string{"a", "a"}
	}), 400, "IDEMPOTENCY_KEY_INVALID")
	if runs.Load() != before {
		t.Error("a handler ran")
	}
}

// TestWithoutKey: requests without a key, and of other methods, reach the handler as they are, unless a key is
// required.
func TestWithoutKey(t *testing.T) {
	var runs atomic.Int64
	h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(payments(&runs, 0))
	for range 2 {
		is(t, "no key", post(h, "", ""), 201, "")
		is(t, "GET", post(h, "k1", "", func(r *http.Request) { r.Method = "GET" }), 201, "")
	}
	if runs.Load() != 4 {
		t.Errorf("%d runs", runs.Load())
	}
	h = middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Required: true, Methods: []string{"PUT"}}).Wrap(
		payments(&runs, 0))
	is(t, "required", post(h, "", "", func(r *http.Request) { r.Method = "PUT" }), 400, "IDEMPOTENCY_KEY_REQUIRED")
	is(t, "not for POST", post(h, "", ""), 201, "")
}

// TestBodies: any bytes come back as they were, up to the bound; beyond it a replay says what happened and never cuts.
func TestBodies(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	const line = len(
		`{"v":1,"status":200,"header":"Content-Type=text%2Fplain%3B+charset%3Dutf-8","body":"text","bytes":262000}`) + 1
	for name, c := range map[string]struct {
		body  string
		whole bool
	}{
		"empty": {"", true}, "text": {"höhe\n\"x\"", true}, "bytes": {"\x00\xff\xfe", true}, "NUL": {"a\x00b", true},
		"newlines":     {"\n\n", true},
		"at the bound": {long(once.MaxResultBytes - line), true}, "beyond": {long(once.MaxResultBytes - line + 1), false},
		"ten times":    {long(10 * once.MaxResultBytes), false},
		"bytes beyond": {strings.Repeat("\xff", once.MaxResultBytes*3/4), false},
	} {
		var warned int
		h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Warn: func(*http.Request, error) { warned++ },
			Replay: []string{"x-bytes"}}).
			Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["X-Bytes"] = []string{"a\xff&=", "b"}
				if name == "at the bound" || name == "beyond" {
					delete(w.Header(), "X-Bytes")
				}
				io.WriteString(w, c.body)
			}))
		first, second := post(h, "k1", ""), post(h, "k1", "")
		if first.Code != 200 || first.Body.String() != c.body {
			t.Errorf("%s: the first caller gets %d and %d bytes", name, first.Code, first.Body.Len())
		}
		if (warned == 0) != c.whole {
			t.Errorf("%s: %d warnings", name, warned)
		}
		if !c.whole {
			is(t, name, second, 409, "IDEMPOTENT_RESPONSE_NOT_STORED")
			continue
		}
		want := maps.Clone(first.Header())
		want["Idempotency-Replayed"] = []string{"true"}
		if second.Code != 200 || second.Body.String() != c.body || !maps.EqualFunc(second.Header(), want, slices.Equal) {
			t.Errorf("%s: %d, %d bytes, %v", name, second.Code, second.Body.Len(), second.Header())
		}
	}
}

// TestRequestBody: at the bound it reaches the handler whole, beyond it, or cut off, the handler does not run.
func TestRequestBody(t *testing.T) {
	var runs atomic.Int64
	h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{MaxBody: 10}).Wrap(payments(&runs, 0))
	if w := post(h, "k1", "0123456789"); w.Body.String() != "payment 1 of 0123456789" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	is(t, "beyond", post(h, "k2", "0123456789a"), 413, "PAYLOAD_TOO_LARGE")
	is(t, "cut off", post(h, "k3", "", func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("01"), &broken{}))
	}), 400, "BODY_INCOMPLETE")
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestTwinWaits for as long as it may, and then is told when to come again.
func TestTwinWaits(t *testing.T) {
	for _, where := range []string{"here", "there"} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			store := docstore.NewMemory(nil)
			here := middleware(t, gate(store), &idempotency.Options{Wait: new(4 * time.Second)}).Wrap(payments(&runs, 10*time.Second))
			twin := here
			if where == "there" {
				twin = middleware(t, gate(store), &idempotency.Options{Wait: new(4 * time.Second)}).Wrap(payments(&runs, 10*time.Second))
			}
			go post(here, "k1", "")
			time.Sleep(time.Second)
			began := time.Now()
			w := post(twin, "k1", "")
			is(t, where, w, 409, "IDEMPOTENT_REQUEST_RUNNING")
			if took := time.Since(began); took < 4*time.Second || took > 5*time.Second || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: after %v: %v", where, took, w.Header())
			}
			time.Sleep(2 * time.Second)
			if w := post(twin, "k1", ""); w.Code != 201 || !replayed(w) || time.Since(began) > 9*time.Second+time.Second {
				t.Errorf("%s: %d %s after %v", where, w.Code, w.Body, time.Since(began))
			}
			synctest.Wait()
			never := middleware(t, gate(store), &idempotency.Options{Wait: new(time.Duration)}).Wrap(payments(&runs, 10*time.Second))
			go post(never, "k2", "")
			synctest.Wait()
			began = time.Now()
			is(t, "no wait", post(never, "k2", ""), 409, "IDEMPOTENT_REQUEST_RUNNING")
			if time.Since(began) != 0 {
				t.Errorf("it waited for %v", time.Since(began))
			}
			time.Sleep(time.Minute)
			if runs.Load() != 2 {
				t.Errorf("%d runs", runs.Load())
			}
		})
	}
}

// TestLongHandler: the lock of a run is refreshed while its handler works, however long that takes.
func TestLongHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := docstore.NewMemory(nil)
		go post(middleware(t, gate(store), nil).Wrap(payments(&runs, 10*time.Minute)), "k1", "")
		time.Sleep(time.Second)
		w := post(middleware(t, gate(store), &idempotency.Options{Wait: new(time.Hour)}).Wrap(payments(&runs, 0)), "k1", "")
		if w.Code != 201 || !replayed(w) || runs.Load() != 1 {
			t.Errorf("%d %s, %d runs", w.Code, w.Body, runs.Load())
		}
	})
}

// severed is a gate that can be cut off.
type severed struct {
	once.Gate
	down atomic.Bool
}

func (s *severed) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	if s.down.Load() {
		return once.Grant{}, docstore.ErrUnavailable
	}
	return s.Gate.Acquire(ctx, r)
}

func (s *severed) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	if s.down.Load() {
		return time.Time{}, docstore.ErrUnavailable
	}
	return s.Gate.Refresh(ctx, l, ttl)
}

func (s *severed) Release(ctx context.Context, l once.Lock, failed string) error {
	if s.down.Load() {
		return docstore.ErrUnavailable
	}
	return s.Gate.Release(ctx, l, failed)
}

func (s *severed) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	if s.down.Load() {
		return docstore.ErrUnavailable
	}
	return s.Gate.Finish(ctx, l, r)
}

// TestGateFails: the handler does not run while the gate cannot be asked. If it cannot be told the result, the caller
// gets the response all the same, and a warning says what may happen.
func TestGateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var warned []string
		cut := &severed{Gate: gate(docstore.NewMemory(nil))}
		m := middleware(t, cut, &idempotency.Options{Wait: new(time.Second),
			Warn: func(_ *http.Request, err error) { warned = append(warned, err.Error()) }})
		cut.down.Store(true)
		began := time.Now()
		w := post(m.Wrap(payments(&runs, 0)), "k1", "")
		is(t, "down", w, 503, "IDEMPOTENCY_UNAVAILABLE")
		if took := time.Since(began); took > 2*time.Second || runs.Load() != 0 || w.Header().Get("Retry-After") != "1" ||
			len(warned) == 0 {
			t.Errorf("after %v, %d runs, %v, %q", took, runs.Load(), w.Header(), warned)
		}
		cut.down.Store(false)
		warned = nil
		w = post(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cut.down.Store(true)
			payments(&runs, 0).ServeHTTP(w, r)
		})), "k1", "")
		if w.Code != 201 || len(warned) == 0 || !strings.Contains(warned[len(warned)-1], "may run again") {
			t.Errorf("%d %s, %q", w.Code, w.Body, warned)
		}
		time.Sleep(time.Minute) // what goes on in the background ends
	})
	for code, status := range map[contracts.Code]int{
		contracts.CodePermissionDenied: 500, contracts.CodeRunDiffers: 422, contracts.CodeInvalidArgument: 500,
		contracts.CodeDocumentDamaged: 500,
	} {
		var runs atomic.Int64
		w := post(middleware(t, refusing{contracts.Errorf(code, "no")}, nil).Wrap(payments(&runs, 0)), "k1", "")
		if w.Code != status || runs.Load() != 0 {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
	}
	for name, g := range map[string]once.Grant{
		"given up": {Reason: contracts.SkipAlreadyFinished, Status: "FAILED",
			Result: once.Result{Failed: true, Reason: "takeovers"}},
		"foreign": {Reason: contracts.SkipAlreadyFinished, Status: "READY", Result: once.Result{Result: "hello"}},
		"later": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":2,"status":200,"body":"text","bytes":0}` + "\n"}},
		"shorter": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":1,"status":200,"body":"text","bytes":2}` + "\nx"}},
		"strange": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":1,"status":200,"body":"xml","bytes":1}` + "\nx"}},
		"not base64": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":1,"status":200,"body":"base64","bytes":1}` + "\n!"}},
		"header": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":1,"status":200,"header":"%zz","body":"text","bytes":1}` + "\nx"}},
		"informative": {Reason: contracts.SkipAlreadyFinished, Status: "READY",
			Result: once.Result{Result: `{"v":1,"status":100,"body":"text","bytes":1}` + "\nx"}},
	} {
		var runs atomic.Int64
		warned := 0
		w := post(middleware(t, saying{g}, &idempotency.Options{Warn: func(*http.Request, error) { warned++ }}).Wrap(
			payments(&runs, 0)), "k1", "")
		if w.Code != 500 || runs.Load() != 0 || warned == 0 || replayed(w) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// refusing is a gate that refuses this program.
type refusing struct{ err error }

func (g refusing) Acquire(context.Context, once.Acquire) (once.Grant, error) {
	return once.Grant{}, g.err
}
func (refusing) Refresh(context.Context, once.Lock, time.Duration) (time.Time, error) {
	panic("not asked for")
}
func (refusing) Release(context.Context, once.Lock, string) error     { panic("not asked for") }
func (refusing) Finish(context.Context, once.Lock, once.Result) error { panic("not asked for") }

// saying is a gate with one response.
type saying struct{ grant once.Grant }

func (g saying) Acquire(context.Context, once.Acquire) (once.Grant, error) { return g.grant, nil }
func (saying) Refresh(context.Context, once.Lock, time.Duration) (time.Time, error) {
	panic("not asked for")
}
func (saying) Release(context.Context, once.Lock, string) error     { panic("not asked for") }
func (saying) Finish(context.Context, once.Lock, once.Result) error { panic("not asked for") }

// TestCallerHangsUp: the handler goes on, and the retry finds its response; one that only waits leaves. A deadline ends
// the handler.
func TestCallerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			select {
			case <-time.After(5 * time.Second):
				io.WriteString(w, "done")
			case <-r.Context().Done():
				http.Error(w, "stopped", http.StatusServiceUnavailable)
			}
		})
		store := docstore.NewMemory(nil)
		h := middleware(t, gate(store), nil).Wrap(handler)
		ctx, hangUp := context.WithCancel(t.Context())
		with := func(ctx context.Context) func(*http.Request) {
			return func(r *http.Request) { *r = *r.WithContext(ctx) }
		}
		go post(h, "k1", "", with(ctx))
		time.Sleep(time.Second)
		waiting := make(chan struct{})
		go func() {
			post(middleware(t, gate(store), nil).Wrap(handler), "k1", "", with(ctx))
			close(waiting)
		}()
		time.Sleep(time.Second)
		hangUp()
		<-waiting
		if w := post(h, "k1", ""); w.Body.String() != "done" || !replayed(w) || runs.Load() != 1 {
			t.Errorf("%d %s, %d runs", w.Code, w.Body, runs.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if w := post(h, "k2", "", with(ctx)); w.Code != 503 || w.Body.String() != "stopped\n" {
			t.Errorf("a deadline: %d %s", w.Code, w.Body)
		}
		if w := post(h, "k2", ""); w.Code != 503 || !replayed(w) {
			t.Errorf("after it: %d %s", w.Code, w.Body)
		}
	})
}

// TestCallerHangsUpBeforeTheHandler: the gate has taken the run, or has not yet, and its response does not come before
// the caller hangs up or its deadline passes. The handler does not run, and the next request with the key is the first.
func TestCallerHangsUpBeforeTheHandler(t *testing.T) {
	for _, taken := range []bool{true, false} {
		for _, deadline := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				h := middleware(t, gate(&silent{Store: docstore.NewMemory(nil), taken: taken}), nil).Wrap(payments(&runs, 0))
				ctx, hangUp := context.WithCancel(t.Context())
				if deadline {
					ctx, hangUp = context.WithTimeout(t.Context(), 2*time.Second)
				}
				defer hangUp()
				time.AfterFunc(2*time.Second, hangUp)
				began := time.Now()
				if w := post(h, "k1", "ten", func(r *http.Request) { *r = *r.WithContext(ctx) }); w.Code != 503 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				if w := post(h, "k1", "ten"); w.Code != 201 || replayed(w) || runs.Load() != 1 {
					t.Errorf("taken %t, the next: %d %s, %d runs", taken, w.Code, w.Body, runs.Load())
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("taken %t: after %v", taken, took)
				}
			})
		}
	}
}

// silent is a store that does not respond to the first write, which it applies at once or never.
type silent struct {
	docstore.Store

	taken   bool
	written atomic.Bool
}

func (s *silent) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if s.written.Swap(true) {
		return s.Store.Write(ctx, w...)
	}
	if s.taken {
		if _, err := s.Store.Write(ctx, w...); err != nil {
			return docstore.Result{}, err
		}
	}
	<-ctx.Done()
	return docstore.Result{}, ctx.Err()
}

// TestLostMessages: requests and responses between the middleware and the store get lost, again and again. The handler
// runs once, and every caller that sends its request until it has a response gets that one.
func TestLostMessages(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			store := &lossy{Store: docstore.NewMemory(nil), random: rand.New(rand.NewPCG(seed, 1))}
			var all sync.WaitGroup
			for range 3 {
				h := middleware(t, gate(store), nil).Wrap(payments(&runs, 8*time.Second))
				for range 3 {
					all.Go(func() {
						for {
							w := post(h, "k1", "ten")
							if w.Code == 201 && w.Body.String() == "payment 1 of ten" {
								return
							}
							if w.Code != 409 && w.Code != 503 {
								t.Errorf("seed %d: %d %s", seed, w.Code, w.Body)
								return
							}
							time.Sleep(time.Second)
						}
					})
				}
			}
			all.Wait()
			time.Sleep(time.Minute) // what is under way ends
			if runs.Load() != 1 {
				t.Errorf("seed %d: %d runs", seed, runs.Load())
			}
		})
	}
}

// lossy loses a third of the messages to a store, and of those from it.
type lossy struct {
	docstore.Store
	mu     sync.Mutex
	random *rand.Rand
}

func (s *lossy) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.mu.Lock()
	n := s.random.IntN(3)
	s.mu.Unlock()
	if n == 0 {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	r, err := s.Store.Write(ctx, w...)
	if n == 1 {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return r, err
}

// TestNew refuses what cannot work.
func TestNew(t *testing.T) {
	g := gate(docstore.NewMemory(nil))
	for name, c := range map[string]struct {
		gate  once.Gate
		scope func(*http.Request) string
		o     idempotency.Options
	}{
		"gate": {scope: user}, "scope": {gate: g}, "Options.Name": {gate: g, scope: user},
		"TTL":     {g, user, idempotency.Options{Name: "n", TTL: time.Millisecond}},
		"MaxBody": {g, user, idempotency.Options{Name: "n", MaxBody: -1}},
	} {
		if _, err := idempotency.New(c.gate, c.scope, &c.o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHeaderAfterTheResponseBegan: what a handler changes in the header once it has written the status is in no
// response, as with net/http.
func TestHeaderAfterTheResponseBegan(t *testing.T) {
	h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Replay: []string{"X-Step"}}).Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Step", "before")
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("X-Step", "after")
		}))
	for _, again := range []bool{false, true} {
		if w := post(h, "k1", ""); w.Code != 201 || replayed(w) != again || w.Header().Get("X-Step") != "before" {
			t.Errorf("replayed %v: %d %v", again, w.Code, w.Header())
		}
	}
}
