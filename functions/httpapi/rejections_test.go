package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// strangers are the logs of an API with the requests of callers who are not known, with a pause before each.
type strangers struct {
	handler    http.Handler
	log, audit bytes.Buffer
	unknown    bytes.Buffer // audit events about them
	pause      time.Duration
}

func newStrangers() *strangers {
	s := &strangers{}
	s.handler = httpapi.New(docstore.NewMemory(nil), byName{}, &httpapi.Options{
		Log:          slog.New(slog.NewJSONHandler(&s.log, nil)),
		Audit:        slog.New(slog.NewJSONHandler(&s.audit, nil)),
		AuditUnknown: slog.New(slog.NewJSONHandler(&s.unknown, nil)),
	})
	return s
}

// byName knows who sends a header with a name. The reason of a rejection is what the request says.
type byName struct{}

func (byName) Challenge() string { return "" }
func (byName) Unverified() bool  { return false }

func (byName) Identify(r *http.Request) (httpapi.Caller, error) {
	if ann := r.Header.Get("Ann"); ann != "" {
		return httpapi.Caller{Subject: ann, Tenant: "acme"}, nil
	}
	return httpapi.Caller{}, httpapi.Unauthenticated("no token%s", r.Header.Get("Reason"))
}

func (s *strangers) send(t *testing.T, from, path string, header ...string) {
	t.Helper()
	time.Sleep(s.pause)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path,
		strings.NewReader(`{"request_id":"r","ttl_seconds":60}`))
	r.RemoteAddr = from
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.handler.ServeHTTP(httptest.NewRecorder(), r)
}

// events are the audit events about unknown callers, and how many requests they are about.
func (s *strangers) events(t *testing.T) (events []contracts.AuditEvent, requests int64) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	for _, e := range contracttest.AuditEvents(t, s.unknown.String()) {
		events, requests = append(events, e), requests+max(1, e.Count)
	}
	return events, requests
}

func (s *strangers) written() int { return s.log.Len() + s.audit.Len() + s.unknown.Len() }

// TestRejectionsAreFolded: 40,000 requests without a token write less than 1 MB of log and audit in all, and so do those
// of 20 seconds, however many they are, whatever they vary: where they come from, why they are rejected, how long their paths and methods are. The
// events say how many they were, and none of them is among those of callers who are known, whose events all stand.
func TestRejectionsAreFolded(t *testing.T) {
	t.Parallel()
	const grants = 100
	for name, request := range map[string]func(n int) (from, path string, header []string){
		"one address": func(int) (string, string, []string) { return "192.0.2.1:5", deploy + "/acquire", nil },
		"a network": func(n int) (string, string, []string) {
			return fmt.Sprintf("192.0.2.%d:%d", n%256, 1024+n), deploy + "/acquire", nil
		},
		"a customer's network": func(n int) (string, string, []string) {
			return fmt.Sprintf("[2001:db8::%x]:5", n), deploy + "/acquire", nil
		},
		"everywhere": func(n int) (string, string, []string) {
			return fmt.Sprintf("10.%d.%d.1:5", n/256%256, n%256), deploy + "/acquire", nil
		},
		"reasons": func(n int) (string, string, []string) {
			return "192.0.2.1:5", deploy + "/acquire", []string{"Reason", fmt.Sprint(n, strings.Repeat("é", 5000))}
		},
		"everything long": func(n int) (string, string, []string) {
			long := strings.Repeat("k", 8000)
			return fmt.Sprintf("10.%d.%d.1:5", n/256%256, n%256), "/v1/tenants/acme/locks/" + long + "/acquire",
				[]string{"X-Forwarded-For", long, "X-Request-Id", long}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, requests := newStrangers(), 4_000 // in 20 s
				if name == "one address" {
					requests = 40_000
				}
				s.pause = 20 * time.Second / time.Duration(requests)
				for n := range requests {
					from, path, header := request(n)
					s.send(t, from, path, header...)
					if n%(requests/grants) == 0 {
						s.send(t, "192.0.2.1:5", fmt.Sprintf("/v1/tenants/acme/locks/%d/acquire", n), "Ann", "ann")
					}
				}
				events, told := s.events(t)
				if told != int64(requests) {
					t.Errorf("the events are about %d requests, want %d", told, requests)
				}
				if n := s.written(); n >= 1e6 {
					t.Errorf("%d bytes were written", n)
				} else {
					t.Logf("%d bytes, %d events", n, len(events))
				}
				if n := len(contracttest.AuditEvents(t, s.audit.String())); n != grants {
					t.Errorf("%d events of grants, want %d and nothing else", n, grants)
				}
			})
		})
	}
}

// TestFirstRejectionIsWhole: the first rejection of its kind in a second has its line and its event at once, as if there
// were no others. Those after it are one line and one event, which say why, where from and how many, when the second is
// over; other reasons and networks are apart. Who is known is never folded.
func TestFirstRejectionIsWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStrangers()
		lines := func() (found []map[string]any) {
			t.Helper()
			for line := range strings.Lines(s.log.String()) {
				var l map[string]any
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				found = append(found, l)
			}
			s.log.Reset()
			return found
		}
		for n := range 3 {
			s.send(t, fmt.Sprintf("192.0.2.%d:5", n), deploy+"/acquire")
		}
		first := contracttest.AuditEvents(t, s.unknown.String())
		if got := lines(); len(got) != 1 || got[0]["msg"] != "request" || got[0]["remote"] != "192.0.2.0:5" ||
			len(first) != 1 || first[0].Remote != "192.0.2.0:5" || first[0].Path != deploy+"/acquire" || first[0].Count != 0 {
			t.Fatalf("before the second was over: %v, %+v", got, first)
		}
		s.send(t, "192.0.3.1:5", deploy+"/acquire")
		s.send(t, "192.0.2.1:5", deploy+"/acquire", "Reason", ": it has expired")
		for range 3 {
			s.send(t, "192.0.2.1:5", "/v1/tenants/other/locks/k/acquire", "Ann", "ann") // PERMISSION_DENIED
		}
		events, requests := s.events(t)
		if len(events) != 4 || requests != 5 {
			t.Fatalf("%d events about %d requests: %+v", len(events), requests, events)
		}
		if e := events[3]; e.Action != "rejected" || e.Outcome != "UNAUTHENTICATED" || e.Rejected != "no token" ||
			e.Remote != "192.0.2.0/24" || e.Count != 2 || e.Path != "" || e.Chosen != nil {
			t.Errorf("%+v", e)
		}
		got := lines()
		if len(got) != 6 || got[5]["msg"] != httpapi.RejectedMessage || got[5]["count"] != 2. ||
			got[5]["remote"] != "192.0.2.0/24" || got[5]["reason"] != "no token" || got[5]["outcome"] != "UNAUTHENTICATED" {
			t.Errorf("%v", got)
		}
		if n := len(contracttest.AuditEvents(t, s.audit.String())); n != 3 {
			t.Errorf("%d events about a caller who is known, want 3", n)
		}
		s.send(t, "192.0.2.1:5", deploy+"/acquire") // of another second
		if events, _ := s.events(t); len(events) != 5 || events[4].Path == "" {
			t.Errorf("%+v", events)
		}
	})
}
