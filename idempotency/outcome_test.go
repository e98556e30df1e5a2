package idempotency_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// ends is a handler that responds in one way, and counts its runs.
func ends(runs *atomic.Int64, takes time.Duration, respond func(w http.ResponseWriter, r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := runs.Add(1)
		time.Sleep(takes)
		w.Header().Set("X-Run", strconv.FormatInt(n, 10))
		respond(w, r)
	})
}

// TestWhatIsStored: by default, what came of a handler that began, but for what says that nothing was done. With
// StoreSuccess, what is an answer.
func TestWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		status           int
		retryAfter       string
		outcome, success bool // stored by which policy
	}{
		{200, "", true, true}, {204, "", true, true}, {302, "", true, true}, {400, "", true, true}, {403, "", true, true},
		{404, "", true, true}, {409, "", true, true}, {409, "1", false, false}, {422, "", true, true},
		{401, "", true, false}, {408, "", true, false}, {425, "", false, false}, {429, "", false, false},
		{500, "", true, false}, {500, "1", true, false}, {502, "", true, false}, {503, "", true, false},
		{503, "1", false, false}, {504, "", true, false}, {599, "", true, false},
	} {
		for name, policy := range map[string]struct {
			store  func(int, http.Header) bool
			stored bool
		}{
			"nil": {nil, c.outcome}, "outcome": {idempotency.StoreOutcome, c.outcome},
			"success": {idempotency.StoreSuccess, c.success},
		} {
			for _, nothing := range []bool{false, true} {
				var runs atomic.Int64
				h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Store: policy.store}).Wrap(
					ends(&runs, 0, func(w http.ResponseWriter, r *http.Request) {
						if c.retryAfter != "" {
							w.Header().Set("Retry-After", c.retryAfter)
						}
						if nothing {
							idempotency.NothingDone(r)
						}
						w.WriteHeader(c.status)
					}))
				stored := policy.stored && !nothing
				first, second := post(h, "k1", "a"), post(h, "k1", "a")
				if first.Code != c.status || second.Code != c.status || (runs.Load() == 1) != stored || replayed(first) ||
					replayed(second) != stored || first.Header().Get("X-Run") != "1" {
					t.Errorf("%d, %s, nothing done: %v: %d, %d, %d runs, replayed %v", c.status, name, nothing, first.Code,
						second.Code, runs.Load(), replayed(second))
				}
				is(t, name+", another payload", post(h, "k1", "b"), 422, "IDEMPOTENCY_KEY_REUSED")
			}
		}
	}
	// Without a key it has no effect.
	post(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { idempotency.NothingDone(r) }), "", "")
}

// TestNothingDoneInside: a handler's word holds for each middleware around it, and through those between.
func TestNothingDoneInside(t *testing.T) {
	var runs atomic.Int64
	store := docstore.NewMemory(nil)
	h := ends(&runs, 0, func(_ http.ResponseWriter, r *http.Request) { idempotency.NothingDone(r) })
	h = middleware(t, gate(store), &idempotency.Options{Name: "inner"}).Wrap(h)
	h = middleware(t, gate(store), &idempotency.Options{Name: "outer"}).Wrap(h)
	if post(h, "k1", ""); replayed(post(h, "k1", "")) || runs.Load() != 2 {
		t.Errorf("%d runs", runs.Load())
	}
}

// panics sends a request and returns what came out as a panic.
func panics(h http.Handler) (w *httptest.ResponseRecorder, value any) {
	defer func() { value = recover() }()
	return post(h, "k1", ""), nil
}

// TestPanics: the panic comes to the server as it was. By default the key is then used: no one knows what the handler
// did before.
func TestPanics(t *testing.T) {
	for name, store := range map[string]func(int, http.Header) bool{
		"outcome": nil, "success": idempotency.StoreSuccess,
	} {
		for _, value := range []any{"broken", http.ErrAbortHandler, errors.New("x"), nil} { // nil: runtime.Goexit
			var runs atomic.Int64
			var warned []string
			h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Store: store,
				Warn: func(_ *http.Request, err error) { warned = append(warned, err.Error()) }}).
				Wrap(ends(&runs, 0, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
					if runs.Load() > 1 {
						return
					}
					if value == nil {
						runtime.Goexit()
					}
					panic(value)
				}))
			if w, p := panics(h); w != nil || p == nil || value != nil && p != value {
				t.Errorf("%s: panic(%v) arrived as %v, %v", name, value, p, w)
			}
			if len(warned) != 1 || !strings.Contains(warned[0], "outcome_test.go") {
				t.Errorf("the stack: %q", warned)
			}
			w := post(h, "k1", "")
			if store != nil {
				if w.Code != 201 || replayed(w) || runs.Load() != 2 {
					t.Errorf("%s, %v: %d, %d runs", name, value, w.Code, runs.Load())
				}
				continue
			}
			is(t, name, w, 500, "IDEMPOTENT_REQUEST_FAILED")
			if !replayed(w) || runs.Load() != 1 || !strings.Contains(w.Body.String(), `"retryable":false`) {
				t.Errorf("%v: %s, %d runs", value, w.Body, runs.Load())
			}
		}
	}
}

// Test64WithEachOutcome: 64 requests with one key at once run the handler once, whatever comes of it, and all get that.
// In several processes that holds for what is stored.
func Test64WithEachOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		respond func(http.ResponseWriter, *http.Request)
		status  int
		stored  bool
	}{
		"created": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, 201, true},
		"failed": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			500, true},
		"too many": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, 429, false},
		"nothing": {func(w http.ResponseWriter, r *http.Request) {
			idempotency.NothingDone(r)
			w.WriteHeader(http.StatusOK)
		}, 200, false},
		"panic":  {func(http.ResponseWriter, *http.Request) { panic("broken") }, 500, true},
		"goexit": {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 500, true},
		"nothing, and panic": {func(_ http.ResponseWriter, r *http.Request) {
			idempotency.NothingDone(r)
			panic("broken")
		}, 500, false},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", once.MaxResultBytes))
		}, 200, true},
	} {
		for _, processes := range []int{1, 4} {
			if processes > 1 && (!c.stored || name == "too large") { // others are told that it was
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				var runs, panicked atomic.Int64
				store := docstore.NewMemory(nil)
				var shops []http.Handler
				for range processes {
					shops = append(shops, middleware(t, gate(store), nil).Wrap(ends(&runs, 3*time.Second, c.respond)))
				}
				var all sync.WaitGroup
				for i := range 64 {
					all.Go(func() {
						switch w, p := panics(shops[i%processes]); {
						case p != nil:
							panicked.Add(1)
						case w.Code != c.status:
							t.Errorf("%s, %d processes: %d %s", name, processes, w.Code, w.Body)
						}
					})
				}
				all.Wait()
				if runs.Load() != 1 || panicked.Load() > 1 {
					t.Errorf("%s, %d processes: %d runs, %d panics", name, processes, runs.Load(), panicked.Load())
				}
				if _, _ = panics(shops[0]); (runs.Load() == 1) != c.stored {
					t.Errorf("%s, %d processes: %d runs after the next request", name, processes, runs.Load())
				}
			})
		}
	}
}

// TestMemoryOfWaitingRequests: requests that wait for one another hold one body.
func TestMemoryOfWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := strings.Repeat("x", 1<<20)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var runs atomic.Int64
		h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(
			ends(&runs, 9*time.Second, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") }))
		before := heap()
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if w := post(h, "k1", body); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if more := int64(heap()) - int64(before); more > 16<<20 {
			t.Errorf("64 requests of 1 MiB hold %d KiB", more>>10)
		}
		all.Wait()
	})
}
