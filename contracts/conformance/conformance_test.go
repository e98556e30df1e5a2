package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts/conformance"
)

// TestScriptsAreReadable: all scripts have the form that the player reads.
func TestScriptsAreReadable(t *testing.T) {
	all, err := conformance.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no scripts")
	}
}

// TestParse: what is wrong with a script is said with its place.
func TestParse(t *testing.T) {
	for _, c := range []struct{ steps, want string }{
		{`{"result": "lock"}`, `steps[0]: there is no call "lock"`},
		{`{"call": "acquire", "as": "lock"}`, `the call "lock" has no result`},
		{`{"call": "acquire"}`, `steps[0]: as is ""`},
		{`{"pass": 1, "key": "k"}`, `steps[0]: a step "pass" has no member "key"`},
		{`{"pass": -1}`, `steps[0]: time does not go back`},
		{`{"note": "nothing"}`, `steps[0]: it is of no kind`},
		{`{"request": "GET /"}`, `steps[0]: a request has an answer or a fault`},
		{`{"deliver": "slow"}`, `steps[0]: no answer "slow" is held`},
		{`{"stop": "renewals"}`, `steps[0]: no requests "renewals" are repeated`},
		{`{"request": "GET /", "fault": "hang", "repeat": "r"}`, `the requests "r" are never stopped`},
		{`{"request": "GET /", "fault": "hang", "repeat": "r", "within": 1}`, `steps[0]: requests that repeat are not held`},
		{`{"wait": 1}`, `unknown field "wait"`},
		{`{"call": "handle", "as": "first"}`, `steps[0]: http is the request of handle`},
		{`{"call": "try", "as": "first", "http": {"method": "GET", "path": "/"}}`, `steps[0]: http is the request of handle`},
	} {
		_, err := conformance.Parse("s", fmt.Appendf(nil, `{"area": "locks", "proves": "it", "client": {}, "steps": [%s]}`,
			c.steps))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.steps, err, c.want)
		}
	}
	for area, client := range map[string]string{"middleware": `{}`, "locks": `{"middleware": {"name": "payments"}}`} {
		_, err := conformance.Parse("s", fmt.Appendf(nil, `{"area": "%s", "proves": "it", "client": %s, "steps": [{"pass": 1}]}`,
			area, client))
		if err == nil || !strings.Contains(err.Error(), "client.middleware") {
			t.Errorf("%s: %v", area, err)
		}
	}
	_, err := conformance.Parse("s", []byte(`{"area": "locks", "proves": "it", "client": {"refused": true},
		"steps": [{"request": "GET /", "fault": "hang"}]}`))
	if err == nil || !strings.Contains(err.Error(), "steps[0]: no request arrives where nothing listens") {
		t.Error(err)
	}
}

// TestPlayerOverHTTP: a runner of another language sees a run from its beginning to the outcome.
func TestPlayerOverHTTP(t *testing.T) {
	p, err := conformance.NewPlayer()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	defer s.Close()
	for _, c := range []struct {
		name, body, observed string
		want                 string
	}{
		{
			"as the script says", `{"owner_id":"worker-1","request_id":"r1","ttl_seconds":30}`,
			`{"error":{"class":"held","code":"LOCK_HELD","owner":"worker-2","retry_after_ms":12000}}`,
			`{"passed":true,"failures":[]}`,
		},
		{
			"another owner", `{"owner_id":"worker-2","request_id":"r1","ttl_seconds":30}`, "",
			`{"passed":false,"failures":["steps[1] (request): body.owner_id is \"worker-2\", want \"worker-1\""]}`,
		},
		{
			"another result", `{"owner_id":"worker-1","request_id":"r1","ttl_seconds":30,"fair":false}`, `{"value":{"token":7}}`,
			`{"passed":false,"failures":["steps[2] (result): lock is {\"token\":7}, want the error ` +
				`{\"class\": \"held\", \"code\": \"LOCK_HELD\", \"owner\": \"worker-2\", \"retry_after_ms\": 12000}"]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var run struct{ Run, Base_URL string } //nolint:revive // as in the JSON
			text := send(t, http.MethodPost, s.URL+"/runs", `{"script": "lock-try-held"}`)
			if err := json.Unmarshal([]byte(text), &run); err != nil {
				t.Fatal(err)
			}
			send(t, http.MethodPost, run.Run+"/steps/0", "")
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, run.Base_URL+
					"/v1/tenants/acme/locks/deploy-prod/acquire", strings.NewReader(c.body))
				q.Header.Set("Content-Type", "application/json")
				w, err := http.DefaultClient.Do(q)
				if err != nil {
					return // the run has ended
				}
				defer w.Body.Close()
				if w.StatusCode != http.StatusConflict {
					t.Errorf("the answer has the status %s", w.Status)
				}
			}()
			if got := send(t, http.MethodGet, run.Run+"?arrival=20", ""); got != `{"waiting":1}` {
				t.Errorf("the state is %s", got)
			}
			for i, o := range []string{"", c.observed, "{}"} {
				if got := send(t, http.MethodPost, fmt.Sprintf("%s/steps/%d", run.Run, i+1), o); !strings.HasPrefix(got,
					`{"failures":[],"ok":true`) {
					break
				}
			}
			if got := send(t, http.MethodPost, run.Run+"/end", ""); got != c.want {
				t.Errorf("the outcome is\n%s, want\n%s", got, c.want)
			}
			<-answered
		})
	}
}

// TestRefused: where a script says so, nothing listens at the client's base URL, as long as the player is there.
func TestRefused(t *testing.T) {
	p, err := conformance.NewPlayer()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	defer s.Close()
	var first, second struct {
		BaseURL string `json:"base_url"`
	}
	for _, run := range []any{&first, &second} {
		text := send(t, http.MethodPost, s.URL+"/runs", `{"script": "lock-wrong-address"}`)
		if err := json.Unmarshal([]byte(text), run); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC() // a connection that nothing refers to would be closed
	at := strings.TrimPrefix(first.BaseURL, "http://")
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
	if first != second || at == "" || err == nil {
		t.Errorf("%q, then %q: a connection is %v", first.BaseURL, second.BaseURL, c)
	}
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at); err == nil {
		_ = l.Close()
		t.Errorf("another program can be given %s", at)
	}
}

// TestLevels: a client can be written in steps, the first of which has an order; every level has its scripts.
func TestLevels(t *testing.T) {
	p, err := conformance.NewPlayer()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	defer s.Close()
	count := map[conformance.Level]int{}
	for _, level := range []conformance.Level{"", conformance.Core, conformance.Robust, conformance.Modes,
		conformance.OfRuns, conformance.OfIDs, conformance.Level(conformance.OfMiddleware)} {
		var got struct {
			Scripts []struct {
				Name  string
				Level conformance.Level
			}
		}
		text := send(t, http.MethodGet, s.URL+"/scripts?level="+string(level), "")
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		count[level] = len(got.Scripts)
		for _, script := range got.Scripts {
			if level != "" && script.Level != level {
				t.Errorf("%s is of the level %s, among those of %s", script.Name, script.Level, level)
			}
		}
		if level == conformance.Core && got.Scripts[0].Name != "lock-hold-renew-release" {
			t.Errorf("the first one is %s", got.Scripts[0].Name)
		}
	}
	if count[conformance.Core] != conformance.CoreScripts {
		t.Errorf("%d of the %d scripts of the first level are there", count[conformance.Core], conformance.CoreScripts)
	}
	for level, n := range count {
		if n < 10 {
			t.Errorf("the level %q has %d scripts", level, n)
		}
	}
}

// TestStepTimeout: a request that does not come fails its step when the time for it is over.
func TestStepTimeout(t *testing.T) {
	p, err := conformance.NewPlayer()
	if err != nil {
		t.Fatal(err)
	}
	p.StepTimeout = time.Millisecond
	s := httptest.NewServer(p)
	defer s.Close()
	var run struct{ Run string }
	text := send(t, http.MethodPost, s.URL+"/runs", `{"script": "lock-try-held"}`)
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		t.Fatal(err)
	}
	send(t, http.MethodPost, run.Run+"/steps/0", "")
	if got := send(t, http.MethodPost, run.Run+"/steps/1", ""); !strings.Contains(got, `"ok":false`) {
		t.Error(got)
	}
}

func send(t *testing.T, method, url, body string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if !w.Close {
		t.Errorf("%s %s: the connection stays open, and a client could send a request on it that it repeats by itself",
			method, url)
	}
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// TestPaths: clients escape the parts of a path differently; what they mean counts.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		path, said string // said is the path in the header
		want       bool
	}{
		{"/v1/locks/a%3Ab%2Fc?q=1", "/v1/locks/a%3Ab%2Fc", true}, {"/v1/locks/a:b%2Fc?q=1", "/v1/locks/a:b%2Fc", true},
		{"/v1/locks/a:b%2fc?q=1", "/v1/locks/a:b%2fc", true}, {"/v1/locks/a:b%2Fc?q=1", "", false},
		{"/v1/locks/a:b%2Fc?q=1", "/v1/locks/a:b/c", false}, {"/v1/locks/a:b/c?q=1", "", false},
		{"/v1/locks/a:b%2Fc", "/v1/locks/a:b%2Fc", false}, {"/v1//locks/a:b%2Fc?q=1", "/v1//locks/a:b%2Fc", false},
		{"/v1/locks/a%253Ab%2Fc?q=1", "/v1/locks/a%253Ab%2Fc", false},
	} {
		s, err := conformance.Parse("s", []byte(`{"area": "locks", "proves": "it", "client": {}, "steps": [
			{"request": "GET /v1/locks/a%3Ab%2Fc?q=1", "answer": {"status": 200, "text": "yes"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		run := conformance.NewRun(s, "")
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // the connection breaks off if the request is another
			q := httptest.NewRequest(http.MethodGet, c.path, nil)
			q.Header.Set("Leasehold-Path", c.said)
			run.ServeHTTP(httptest.NewRecorder(), q)
		}()
		err = run.Step(t.Context(), 0, conformance.Observed{})
		if run.End(); (err == nil) != c.want {
			t.Errorf("%s: %v", c.path, err)
		}
		<-done
	}
}

// TestEnds: a request that grants something may have an end, whether or not the script says so: a time that has not
// passed, and that is not further away than an hour.
func TestEnds(t *testing.T) {
	const acquire, lease = "/v1/tenants/acme/locks/deploy/acquire", "/v1/machine-ids/lease"
	for _, c := range []struct {
		path, body string
		want       string // the difference, empty for none
	}{
		{acquire, `{}`, ""},
		{acquire, `{"not_after": ""}`, ""},
		{acquire, `{"not_after": "2030-01-01T00:00:06.000Z"}`, ""},
		{acquire, `{"not_after": "2030-01-01T01:00:18.000Z"}`, ""},
		{lease, `{"notAfter": "2030-01-01T00:00:06Z"}`, ""},
		{"/v1/tenants/acme/lock-sets/acquire", `{"not_after": "2030-01-01T00:00:06Z"}`, ""},
		{"/v1/tenants/acme/runs/r/begin", `{"not_after": "2030-01-01T00:00:06Z"}`, ""},
		{"/v1/analyses/a/lock", `{"not_after": "2030-01-01T00:00:06Z"}`, ""},
		{acquire, `{"not_after": "2030-01-01T00:00:04.999Z"}`, // a second after it was set back
			`body.not_after is "2030-01-01T00:00:04.999Z", want a time from 2030-01-01T00:00:05.000Z to 2030-01-01T01:00:18.000Z`},
		{acquire, `{"not_after": "2030-01-01T01:00:18.001Z"}`,
			`body.not_after is "2030-01-01T01:00:18.001Z", want a time from 2030-01-01T00:00:05.000Z to 2030-01-01T01:00:18.000Z`},
		{acquire, `{"not_after": 7}`,
			`body.not_after is 7, want a time from 2030-01-01T00:00:05.000Z to 2030-01-01T01:00:18.000Z`},
		{acquire, `{"metadata": {"not_after": "2030-01-01T00:00:06.000Z"}}`,
			`body.metadata is {"not_after":"2030-01-01T00:00:06.000Z"}, want none`},
		{"/v1/tenants/acme/locks/deploy/renew", `{"not_after": "2030-01-01T00:00:06.000Z"}`,
			`body.not_after is "2030-01-01T00:00:06.000Z", want none`},
	} {
		s, err := conformance.Parse("s", fmt.Appendf(nil, `{"area": "locks", "proves": "it", "client": {}, "steps": [
			{"pass": 6}, {"set": -1}, {"set": 2}, {"freeze": 5},
			{"request": "POST %s", "within": 5, "body": {}, "fault": "hang"}]}`, c.path))
		if err != nil {
			t.Fatal(err)
		}
		run := conformance.NewRun(s, "")
		for i := range 4 {
			if err := run.Step(t.Context(), i, conformance.Observed{}); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // the connection breaks off
			q := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			q.Header.Set("Content-Type", "application/json")
			run.ServeHTTP(httptest.NewRecorder(), q)
		}()
		err = run.Step(t.Context(), 4, conformance.Observed{})
		run.End()
		<-done
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.path, c.body, err, c.want)
		}
	}
}

// TestNoDate: the player says no date, because the time of a script is another than that of its machine; one that a
// script says is sent. A request that is given up is answered without a body.
func TestNoDate(t *testing.T) {
	for answer, want := range map[string]string{
		`{"like": "given_up"}`: "204 [] ",
		`{"text": "", "headers": {"Date": "Tue, 01 Jan 2030 00:05:00 GMT"}}`: "200 [Tue, 01 Jan 2030 00:05:00 GMT] 0",
	} {
		s, err := conformance.Parse("s", fmt.Appendf(nil, `{"area": "locks", "proves": "it", "client": {}, "steps": [
			{"request": "POST /", "answer": %s}]}`, answer))
		if err != nil {
			t.Fatal(err)
		}
		run := conformance.NewRun(s, "")
		server := httptest.NewServer(run)
		go func() { _ = run.Step(t.Context(), 0, conformance.Observed{}) }()
		w, err := http.Post(server.URL, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		server.Close()
		if got := fmt.Sprint(w.StatusCode, w.Header.Values("Date"), " ", w.Header.Get("Content-Length")); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}
