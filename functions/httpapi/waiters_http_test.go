package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestResponsesThatAreNotHeld: a request that would wait for longer than a response is held is refused then, with its
// place in line and when to come again, in the body and in the header; so is a request for events.
func TestResponsesThatAreNotHeld(t *testing.T) {
	for setting, c := range map[time.Duration]struct {
		took       time.Duration
		poll       float64
		header     string
		eventsPoll float64
	}{
		-1:                       {0, 1000, "1", 2000},
		400 * time.Millisecond:   {400 * time.Millisecond, 600, "1", 1600},
		5 * time.Second:          {5 * time.Second, 50, "1", 50},
		0:                        {20 * time.Second, 0, "40", 0},
		19500 * time.Millisecond: {19500 * time.Millisecond, 0, "41", 0},
	} {
		t.Run(setting.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{MaxWait: setting})
				send := func(method, target, body string) (*httptest.ResponseRecorder, map[string]any, time.Duration) {
					w, begin := httptest.NewRecorder(), time.Now()
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+target,
						strings.NewReader(body)))
					var all map[string]any
					_ = json.Unmarshal(w.Body.Bytes(), &all)
					return w, all, time.Since(begin)
				}
				acquire := func(owner string) (*httptest.ResponseRecorder, map[string]any, time.Duration) {
					return send(http.MethodPost, "/v1/tenants/acme/locks/deploy/acquire", fmt.Sprintf(
						`{"request_id":"by-%[1]s","owner_id":%[1]q,"ttl_seconds":60,"wait_seconds":20,"fair":true}`, owner))
				}
				acquire("ann")
				w, a, took := acquire("bob")
				if _, has := a["position"]; !has { // not one that came once, and whose response is not held
					if poll, _ := a["poll_after_ms"].(float64); c.took > 0 || poll < 750 || poll > 1250 {
						t.Errorf("after %v: %d %s", took, w.Code, w.Body)
					}
					w, a, took = acquire("bob")
				}
				poll, _ := a["poll_after_ms"].(float64)
				if w.Code != 409 || a["code"] != "LOCK_HELD" || a["position"] != 1. || took != c.took || poll != c.poll ||
					w.Header().Get("Retry-After") != c.header {
					t.Errorf("after %v: %d %s, Retry-After %q", took, w.Code, w.Body, w.Header().Get("Retry-After"))
				}
				w, a, took = send(http.MethodGet, chat+"/events?wait_seconds=20", "")
				poll, _ = a["poll_after_ms"].(float64)
				if w.Code != 200 || took != c.took || poll != c.eventsPoll {
					t.Errorf("after %v: %d %s", took, w.Code, w.Body)
				}
			})
		})
	}
}

// TestCallersWithNewRequestIDs: where no response is held, callers that send a new request_id each time leave nothing
// behind that others wait for. They obtain the lock as those without a line do, and one that sends the same request
// again goes before them.
func TestCallersWithNewRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{MaxWait: -1})
		send := func(verb, body string) (token float64, ok bool) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://127.0.0.1:8080/v1/tenants/acme/locks/deploy/"+verb, strings.NewReader(body)))
			var all map[string]any
			_ = json.Unmarshal(w.Body.Bytes(), &all)
			if w.Code != http.StatusOK && all["code"] != "LOCK_HELD" {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
			token, _ = all["fencing_token"].(float64)
			return token, w.Code == http.StatusOK
		}
		// obtain asks every so often, holds the lock for a moment, and returns after how long it had it.
		obtain := func(owner string, every time.Duration, requestID func(n int) string) time.Duration {
			begin := time.Now()
			for n := 0; time.Since(begin) < 5*time.Minute; n++ {
				token, ok := send("acquire", fmt.Sprintf(
					`{"request_id":%q,"owner_id":%q,"ttl_seconds":60,"wait_seconds":20,"fair":true}`, requestID(n), owner))
				if !ok {
					time.Sleep(every)
					continue
				}
				took := time.Since(begin)
				time.Sleep(500 * time.Millisecond)
				send("release", fmt.Sprintf(`{"request_id":"e","owner_id":%q,"fencing_token":%.0f}`, owner, token))
				return took
			}
			return time.Hour
		}
		token, _ := send("acquire", `{"request_id":"a","owner_id":"ann","ttl_seconds":600}`)
		var all sync.WaitGroup
		took := make([]time.Duration, 9)
		for i := range took {
			owner, every := fmt.Sprint("caller-", i), 2*time.Second+time.Duration(i)*70*time.Millisecond
			all.Go(func() {
				took[i] = obtain(owner, every, func(n int) string {
					if i == 0 {
						return "the same"
					}
					return fmt.Sprint(owner, "-", n)
				})
			})
		}
		time.Sleep(30 * time.Second)
		send("release", fmt.Sprintf(`{"request_id":"e","owner_id":"ann","fencing_token":%.0f}`, token))
		all.Wait()
		for i, d := range took {
			if d -= 30 * time.Second; d > time.Minute || i == 0 && d > 3*time.Second {
				t.Errorf("caller %d has the lock %v after it was released", i, d)
			}
		}
		t.Log(took)
	})
}

// TestWaitsOfASubject: one subject holds its share of what its tenant has, and no more: another one has room, for locks
// as for events.
func TestWaitsOfASubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{MaxWaiting: 16}) // four of a tenant
		send := func(subject, method, target, body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+target, strings.NewReader(body))
			r.Header.Set("Authorization", subject)
			h.ServeHTTP(w, r)
			return w
		}
		for what, request := range map[string]func(subject string, n int) *httptest.ResponseRecorder{
			"locks": func(subject string, n int) *httptest.ResponseRecorder {
				return send(subject, http.MethodPost, "/v1/tenants/acme/locks/deploy/acquire",
					fmt.Sprintf(`{"request_id":"%s-%d","ttl_seconds":60,"wait_seconds":20}`, subject, n))
			},
			"events": func(subject string, _ int) *httptest.ResponseRecorder {
				return send(subject, http.MethodGet, "/v1/tenants/acme/clusters/chat/events?wait_seconds=20", "")
			},
		} {
			if what == "locks" {
				request("zoe@acme", 0)
			}
			var all sync.WaitGroup
			begin := time.Now()
			var mu sync.Mutex
			held := map[string]int{}
			for _, subject := range []string{"ann@acme", "bob@acme"} {
				for n := range 5 {
					all.Go(func() {
						w := request(subject, n)
						if time.Since(begin) > 0 {
							mu.Lock()
							defer mu.Unlock()
							held[subject]++
						} else if w.Code != 409 && w.Code != 503 {
							t.Errorf("%s: %d %s", what, w.Code, w.Body)
						}
					})
				}
			}
			all.Wait()
			if held["ann@acme"] != 2 || held["bob@acme"] != 2 {
				t.Errorf("%s: %v are held", what, held)
			}
		}
	})
}
