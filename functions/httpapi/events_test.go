package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestEventsThatCannotBeRead: they are listed by themselves, also where there is nothing else, and keep none behind
// them.
func TestEventsThatCannotBeRead(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.join("alice", `,"ttl_seconds":3600`)
	p, err := d.store.List(t.Context(), docstore.Query{Kind: "placement_events", Tenant: "acme/chat"})
	if err != nil || len(p.Entries) != 1 {
		t.Fatal(p, err)
	}
	k := p.Entries[0].Key
	if _, err := d.store.Write(t.Context(),
		docstore.Write{Key: k, Set: docstore.Doc{"epoch": docstore.String("x")}}); err != nil {
		t.Fatal(err)
	}
	d.clock.Advance(time.Minute)
	a := d.get(chat + "/events").ok(t)
	if want := `"unreadable":[{"code":"DOCUMENT_DAMAGED","event_id":"` + k.ID + `"}]`; !strings.Contains(a.raw, want) ||
		a.body["next"] != "2026-01-01T00:00:50.000Z" {
		t.Errorf("%s, want %s", a.raw, want)
	}
	d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c1"}`).ok(t)
	if a := d.get(chat + "/events?wait_seconds=1").ok(t); !strings.Contains(a.raw, `"unreadable":[`) ||
		!strings.Contains(a.raw, `"id":"lobby"`) {
		t.Errorf("%s", a.raw)
	}
	if a := d.get(chat + "/events?after=" + k.ID).ok(t); strings.Contains(a.raw, "unreadable") ||
		!strings.Contains(a.raw, `"id":"lobby"`) {
		t.Errorf("%s", a.raw)
	}
}

// TestEventsAreFollowed: who follows next sees every event, pages or not, and none that was shown is shown
// again.
func TestEventsAreFollowed(t *testing.T) {
	d := open(t, httpapi.Development{})
	events := func(query string) (ids []string, next string, raw string) {
		t.Helper()
		a := d.get(chat + "/events" + query).ok(t)
		all, _ := a.body["events"].([]any)
		for _, e := range all {
			id, _ := e.(map[string]any)["event_id"].(string)
			ids = append(ids, id)
		}
		next, _ = a.body["next"].(string)
		return ids, next, a.raw
	}
	after := func(next, more string) string { return "?after=" + url.QueryEscape(next) + more }
	if ids, next, raw := events(""); len(ids) != 0 || next == "" || !strings.Contains(raw, `"events":[]`) {
		t.Errorf("no events: %s", raw)
	}
	alice := d.join("alice", `,"ttl_seconds":3600`)
	d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c1"}`).ok(t)
	ids, next, raw := events("")
	if len(ids) != 2 || !strings.Contains(raw, `"member":"alice","moved":16,"to":"ACTIVE"`) ||
		!strings.Contains(raw, `"fencing_token":1767225600000001,"from":"FREE","id":"lobby","incarnation":`+alice+
			`,"kind":"room"`) {
		t.Errorf("%s", raw)
	}
	if again, same, _ := events(after(next, "")); len(again) != 0 || same != next {
		t.Errorf("%v, %s: nothing is new after %s", again, same, next)
	}
	d.post(chat+"/activations/room/garden/claim", `{"request_id":"c1"}`).ok(t)
	if more, _, _ := events(after(next, "")); len(more) != 1 || slices.Contains(ids, more[0]) {
		t.Errorf("%v: the new one alone", more)
	}
	d.clock.Advance(time.Minute)
	d.post(chat+"/activations/room/attic/claim", `{"request_id":"c1"}`).ok(t)
	seen := map[string]bool{}
	for next := ""; ; {
		page, then, _ := events(after(next, "&page_size=1"))
		if next = then; len(page) == 0 {
			break
		}
		seen[page[0]] = true
	}
	if len(seen) < 4 {
		t.Errorf("pages of one show %v", seen)
	}
	if mine, _, _ := events("?member=alice"); len(mine) != 4 {
		t.Errorf("of alice: %v", mine)
	}
	if others, _, _ := events("?member=bob"); len(others) != 0 {
		t.Errorf("of bob: %v", others)
	}
	d.get(chat+"/events?after=2025-12-30T00:00:00.000Z").refuses(t, 410, "CURSOR_EXPIRED", "")
	if later, _, _ := events("?after=2026-01-01T00:00:30.000Z"); len(later) == 0 ||
		!strings.HasPrefix(later[0], "2026-01-01T00:01:00.000Z") {
		t.Errorf("after a time: %v", later)
	}
	for query, field := range map[string]string{
		"?after=x%3F": "after", "?after=~": "after", "?after=~0123456789abcdeX": "after", "?wait_seconds=21": "wait_seconds",
		"?wait_seconds=-1":  "wait_seconds",
		"?wait_seconds=1.0": "wait_seconds", "?page_size=0": "page_size", "?page_size=1001": "page_size", "?wait=1": "wait",
		"?after=a&after=b": "after", "?member=%00": "member",
	} {
		d.get(chat+"/events"+query).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
}

// counted counts how often events are asked for.
type counted struct {
	docstore.Store

	lists func()
}

func (c counted) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if q.Kind == "placement_events" {
		c.lists()
	}
	return c.Store.List(ctx, q)
}

// TestEventsAreWaitedFor: a request that waits responds when there is something new, when it has waited long enough,
// when the server stops or when its caller leaves; many that wait share one look at the store a second; and no more
// wait than may.
func TestEventsAreWaitedFor(t *testing.T) {
	serve := func(t *testing.T, stop chan struct{}) (
		call func(ctx context.Context, method, target, body string) *httptest.ResponseRecorder, lists *atomic.Int64) {
		t.Helper()
		lists = new(atomic.Int64)
		store := counted{docstore.NewMemory(nil), func() { lists.Add(1) }}
		h := httpapi.New(store, httpapi.Development{}, &httpapi.Options{Stop: stop})
		return func(ctx context.Context, method, target, body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8080"+target, strings.NewReader(body)))
			return w
		}, lists
	}
	const (
		join  = `{"request_id":"j","kinds":["room"],"partitions":16,"ttl_seconds":3600}`
		empty = `{"events":[],"next":"1999-12-31T23:59:5` // the time of the latest look, less ten seconds
		// another server is asked at once
		stopped = `.000Z","poll_after_ms":50}`
	)
	t.Run("something new", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _ := serve(t, nil)
			begin := time.Now()
			done := make(chan string)
			go func() { done <- call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20", "").Body.String() }()
			time.Sleep(5500 * time.Millisecond) // between two looks at the store
			call(t.Context(), http.MethodPost, chat+"/members/alice/join", join)
			if body, took := <-done, time.Since(begin); !strings.Contains(body, `"member":"alice"`) ||
				took > 6500*time.Millisecond {
				t.Errorf("after %v: %s", took, body)
			}
		})
	})
	t.Run("something new, beside a request for what comes in ten years", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _ := serve(t, nil)
			go call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20&after=2036-01-01T00:00:00.000Z", "")
			synctest.Wait() // its watch is that of the cluster
			begin := time.Now()
			done := make(chan string)
			go func() { done <- call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20", "").Body.String() }()
			time.Sleep(500 * time.Millisecond) // before the first look at the store
			call(t.Context(), http.MethodPost, chat+"/members/alice/join", join)
			if body, took := <-done, time.Since(begin); !strings.Contains(body, `"member":"alice"`) || took > 3*time.Second {
				t.Errorf("after %v: %s", took, body)
			}
			time.Sleep(20 * time.Second) // for the other one
		})
	})
	t.Run("nothing new", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _ := serve(t, nil)
			begin := time.Now()
			w := call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=7", "")
			if took := time.Since(begin); w.Code != 200 || !strings.HasPrefix(w.Body.String(), empty) ||
				strings.Contains(w.Body.String(), "poll_after") ||
				took != 7*time.Second {
				t.Errorf("after %v: %d %s", took, w.Code, w.Body)
			}
		})
	})
	t.Run("events that were shown do not wake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _ := serve(t, nil)
			call(t.Context(), http.MethodPost, chat+"/members/alice/join", join)
			_, next, _ := strings.Cut(strings.TrimSpace(call(t.Context(), http.MethodGet, chat+"/events", "").Body.String()),
				`"next":"`)
			next = strings.TrimSuffix(next, `"}`)
			begin := time.Now()
			// the event gets old meanwhile
			w := call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20&after="+url.QueryEscape(next), "")
			if took := time.Since(begin); !strings.Contains(w.Body.String(), `"events":[]`) || took != 20*time.Second {
				t.Errorf("after %v: %s", took, w.Body)
			}
		})
	})
	t.Run("the server stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			call, _ := serve(t, stop)
			begin := time.Now()
			time.AfterFunc(3*time.Second, func() { close(stop) })
			w := call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20", "")
			if took := time.Since(begin); w.Code != 200 || !strings.HasSuffix(strings.TrimSpace(w.Body.String()), stopped) ||
				took != 3*time.Second {
				t.Errorf("after %v: %d %s", took, w.Code, w.Body)
			}
		})
	})
	t.Run("the caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, lists := serve(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			begin := time.Now()
			// The platform ends the request after 15 s, and 10 s are kept for the response.
			w := call(ctx, http.MethodGet, chat+"/events?wait_seconds=20", "")
			if took := time.Since(begin); w.Code != 200 || took != 5*time.Second {
				t.Errorf("after %v: %d %s", took, w.Code, w.Body)
			}
			gone, leave := context.WithCancel(t.Context())
			time.AfterFunc(2*time.Second, leave)
			call(gone, http.MethodGet, chat+"/events?wait_seconds=20", "")
			if took := time.Since(begin); took != 7*time.Second {
				t.Errorf("a caller that left was kept for %v", took)
			}
			synctest.Wait()
			before := lists.Load()
			time.Sleep(time.Minute) // longer than any wait
			if lists.Load() != before {
				t.Errorf("%d requests to the store while no request waits", lists.Load()-before)
			}
		})
	})
	t.Run("many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, lists := serve(t, nil)
			const most = 256
			codes := make(chan int, most)
			for range most {
				go func() { codes <- call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=20", "").Code }()
			}
			synctest.Wait()
			before := lists.Load()
			time.Sleep(10500 * time.Millisecond) // ten looks, one a second
			if looks := lists.Load() - before; looks > 11 {
				t.Errorf("%d requests to the store in ten seconds", looks)
			}
			if w := call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=1", ""); w.Code != 503 ||
				!strings.Contains(w.Body.String(), "OVERLOADED") || w.Header().Get("Retry-After") == "" {
				t.Errorf("one more: %d %s", w.Code, w.Body)
			}
			for _, other := range []string{"/v1/tenants/rival/clusters/chat/events?wait_seconds=1", chat + "/events"} {
				if w := call(t.Context(), http.MethodGet, other, ""); w.Code != 200 {
					t.Errorf("%s: %d %s", other, w.Code, w.Body)
				}
			}
			for range most {
				if code := <-codes; code != 200 {
					t.Error(code)
				}
			}
			if w := call(t.Context(), http.MethodGet, chat+"/events?wait_seconds=1", ""); w.Code != 200 {
				t.Errorf("later: %d %s", w.Code, w.Body)
			}
		})
	})
	t.Run("many, and something new", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// One list is read at once, and few may wait for their turn.
			h := httpapi.New(pausedLists{docstore.NewMemory(nil)}, httpapi.Development{},
				&httpapi.Options{Limits: httpapi.Limits{Concurrent: 1, PageBytes: 1}})
			call := func(method, target, body string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+target,
					strings.NewReader(body)))
				return w
			}
			const most = 100
			told := make(chan string, most)
			for range most {
				go func() { told <- call(http.MethodGet, chat+"/events?wait_seconds=20", "").Body.String() }()
			}
			time.Sleep(5 * time.Second) // all requests wait
			if w := call(http.MethodPost, chat+"/members/alice/join", join); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for range most {
				if body := <-told; !strings.Contains(body, `"member":"alice"`) {
					t.Errorf("%s", body)
				}
			}
			time.Sleep(time.Second) // for the list that is being read for those who waited
		})
	})
	t.Run("a store that fails", func(t *testing.T) {
		h := contracttest.Handler(t, httpapi.New(brokenLists{docstore.NewMemory(nil)}, httpapi.Development{}, nil))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+chat+
			"/events?wait_seconds=20", nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// brokenLists is a store whose lists fail.
type brokenLists struct{ docstore.Store }

func (brokenLists) List(context.Context, docstore.Query) (docstore.Page, error) {
	return docstore.Page{}, fmt.Errorf("%w: no response", docstore.ErrUnavailable)
}

// pausedLists is a store whose lists take 5 ms, of a bubble's time.
type pausedLists struct{ docstore.Store }

func (s pausedLists) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Store.List(ctx, q)
}
