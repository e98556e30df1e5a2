package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// noNetwork is a RoundTripper without a network.
type noNetwork struct{ http.Handler }

func (d noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

func provider(t *testing.T, h http.Handler, token func(context.Context) (string, error)) *client.MachineIDs {
	t.Helper()
	p, err := client.New("https://id.example.com/", &client.Options{
		HTTP: &http.Client{Transport: noNetwork{h}}, Token: token,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.MachineIDs()
}

// TestProtocol: method, path, body and headers are those of the contract, byte by byte.
func TestProtocol(t *testing.T) {
	var sent []string
	p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), " ",
			r.Header.Get("Authorization"), " ", withoutEnd(string(body))))
		if r.Method == http.MethodDelete {
			w.WriteHeader([]int{http.StatusNoContent, http.StatusOK}[len(sent)%2])
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w,
			`{"leases":[{"id":42,"created":1780315200000,"expired":1780315800000,"secret":"s","customEpoch":1767225600000,`+
				`"bitReserve":1,"bitTs":41,"bitId":14,"bitSeq":8,"more":"is ignored"}]}`)
	}), func(context.Context) (string, error) { return "tok", nil })
	got, err := p.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a", Meta: map[string]string{"pid": "1"},
		ThroughputPerMs: 257})
	want := kazahana.AcquireResponse{Leases: []kazahana.Lease{{
		ID: 42, Created: 1780315200000, Expired: 1780315800000, Secret: "s", Layout: kazahana.DefaultLayout(),
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	for _, service := range []string{"", "a"} { // 204 is one valid response, 200 another
		if err := p.Release(t.Context(), kazahana.ReleaseOptions{ServiceID: service, ID: 42, Signature: "ab",
			Timestamp: 7}); err != nil {
			t.Error(err)
		}
	}
	if want := []string{
		`POST https://id.example.com/v1/machine-ids/lease application/json Bearer tok {"serviceId":"a","meta":{"pid":"1"},"throughputPerMs":257}`,
		`DELETE https://id.example.com/v1/machine-ids/lease/42 application/json Bearer tok {"signature":"ab","timestamp":7}`,
		`DELETE https://id.example.com/v1/machine-ids/lease/42 application/json Bearer tok {"serviceId":"a","signature":"ab","timestamp":7}`,
	}; !reflect.DeepEqual(sent, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
	}
}

func TestResponsesOfOthers(t *testing.T) {
	const asJSON, asProblem = "application/json", "application/problem+json"
	for _, c := range []struct {
		name              string
		status            int
		contentType, body string
		wrong             string
	}{
		{"a proxy's page", 502, "text/html", "<h1>Bad Gateway</h1>",
			`responded 502 Bad Gateway with content type "text/html", which is not Leasehold`},
		{"a page for everything", 200, "text/html", "<h1>Welcome</h1>", "invalid response"},
		{"no content type", 200, "", `{"leases":[]}`, "required members are missing"},
		{"other JSON", 200, asJSON, `{"hello":"world"}`, "required members are missing"},
		{"no JSON", 200, asJSON, `{"leases":`, "invalid response"},
		{"leases of another form", 200, asJSON, `{"leases":[{"id":"x"}]}`, "invalid response"},
		{"a JSON error", 500, asJSON, `{"error":"x"}`, "which is not Leasehold"},
		{"a broken problem", 400, asProblem, `<`, "status 400 with a problem that cannot be read"},
		{"a problem without a code", 400, asProblem, `{"title":"x"}`, "status 400 with a problem that cannot be read"},
		{"no content for an acquire", 204, "", "", "invalid response"},
		{
			"a rejection", 401, asProblem,
			`{"code":"UNAUTHENTICATED","title":"not authenticated","detail":"the token has expired"}`,
			"UNAUTHENTICATED: the token has expired",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}), nil)
			if _, err := p.Acquire(t.Context(), kazahana.AcquireOptions{}); err == nil ||
				!strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}

// TestEndOfTheCallersIDs: an end that the caller has named is sent as it is, and its refusal is the caller's.
func TestEndOfTheCallersIDs(t *testing.T) {
	const end = "2026-06-01T12:00:00.5Z"
	var sent []string
	p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"type":"t","title":"too late","status":409,"code":"TOO_LATE","field":"notAfter",`+
			`"store_time":"2026-06-01T13:00:00.000Z","retryable":false}`)
	}), nil)
	at, err := time.Parse(time.RFC3339Nano, end)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a", NotAfter: at})
	if want := []string{`{"serviceId":"a","notAfter":"` + end + `"}`}; !errors.Is(err, contracts.CodeTooLate) ||
		!reflect.DeepEqual(sent, want) {
		t.Errorf("%v, sent %q, want %q", err, sent, want)
	}
}

// TestAnySuccessCounts: a server of the protocol may use any status of success and any content type.
func TestAnySuccessCounts(t *testing.T) {
	for _, status := range []int{200, 201, 202, 203, 204, 299} {
		p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			if r.Method == http.MethodPost {
				fmt.Fprint(w, `{"leases":[{"id":1}]}`)
			} else {
				fmt.Fprint(w, "released")
			}
		}), nil)
		if r, err := p.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil || len(r.Leases) != 1 {
			t.Errorf("acquire, %d: %+v, %v", status, r, err)
		}
		if err := p.Release(t.Context(), kazahana.ReleaseOptions{ID: 1}); err != nil {
			t.Errorf("release, %d: %v", status, err)
		}
	}
}

// TestWhatNoRetryCures: a generator tells its caller, and does not fall back.
func TestWhatNoRetryCures(t *testing.T) {
	for status, want := range map[int]bool{
		300: true, 302: true, 400: true, 401: true, 403: true, 404: true, 405: true, 410: true, 413: true, 501: true,
		408: false, 425: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), nil)
		_, err := p.Acquire(t.Context(), kazahana.AcquireOptions{})
		if err == nil || errors.Is(err, kazahana.ErrConfiguration) != want {
			t.Errorf("%d: %v", status, err)
		}
	}
	c, err := client.New("https://id.example.com", &client.Options{HTTP: &http.Client{Transport: unreachable{}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.MachineIDs().Acquire(t.Context(), kazahana.AcquireOptions{}); err == nil ||
		errors.Is(err, kazahana.ErrConfiguration) {
		t.Errorf("no connection: %v", err)
	}
}

// unreachable is a RoundTripper without a server.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func TestProblems(t *testing.T) {
	body := ""
	p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, body)
	}), nil)
	body = `{"code":"UNAVAILABLE","title":"store unavailable","retryable":true,"retry_after_ms":1500}`
	_, err := p.Acquire(t.Context(), kazahana.AcquireOptions{})
	e, ok := errors.AsType[*contracts.Error](err)
	if want := (contracts.Error{
		Status: 503, Code: "UNAVAILABLE", Title: "store unavailable", Retryable: true, RetryAfter: 1500 * time.Millisecond,
	}); !ok || *e != want || err.Error() != "UNAVAILABLE: store unavailable" {
		t.Errorf("%#v", err)
	}
	for ms, want := range map[string]time.Duration{"90000": 90 * time.Second, "-1": 0,
		"9000000000000000000": 24 * time.Hour} {
		body = `{"code":"MACHINE_IDS_EXHAUSTED","title":"full","retry_after_ms":` + ms + `}`
		_, err := p.Acquire(t.Context(), kazahana.AcquireOptions{})
		if full, ok := errors.AsType[*kazahana.ExhaustedError](err); !ok || full.RetryAfter != want ||
			!errors.Is(err, kazahana.ErrExhausted) || !errors.Is(err, contracts.CodeMachineIDsExhausted) {
			t.Errorf("%s: %v", ms, err)
		}
	}
	body = `{"code":"NOT_FOUND","title":"not found"}`
	if err := p.Release(t.Context(), kazahana.ReleaseOptions{ID: 1}); err != nil {
		t.Errorf("a lease that is not there any more: %v", err)
	}
	body = `{"code":"LEASE_LOST","title":"lost"}`
	if err := p.Release(t.Context(), kazahana.ReleaseOptions{ID: 1}); err == nil {
		t.Error("a rejected release counts as done")
	}
}

func TestLostResponses(t *testing.T) {
	gone := errors.New("connection reset")
	for name, respond := range map[string]func() (*http.Response, error){
		"lost": func() (*http.Response, error) { return nil, gone },
		"cut": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(gone))}, nil
		},
	} {
		tries := 0
		p, err := client.New("http://127.0.0.1:1", &client.Options{
			HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { tries++; return respond() })},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.MachineIDs().Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, gone) || tries != 1 {
			t.Errorf("%s: %v after %d tries", name, err, tries)
		}
	}
	p := provider(t, http.NotFoundHandler(), func(context.Context) (string, error) { return "", gone })
	if _, err := p.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, gone) ||
		!strings.Contains(err.Error(), "get a token") {
		t.Errorf("no token: %v", err)
	}
}

// Without options a server that does not respond is given up after ten seconds.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := http.DefaultTransport
		defer func() { http.DefaultTransport = transport }()
		http.DefaultTransport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		p, err := client.New("http://127.0.0.1:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := p.MachineIDs().Acquire(t.Context(), kazahana.AcquireOptions{}); err == nil ||
			time.Since(begin) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "id.example.com", "ftp://id.example.com", "https://",
		"https://id.example.com/?a", "https://id.example.com/#a", ":"} {
		if _, err := client.New(endpoint, nil); err == nil || !strings.Contains(err.Error(), "must be a URL like") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// A password in the endpoint is sent, and appears in no error.
func TestPasswordInTheEndpoint(t *testing.T) {
	const password = "hunter2"
	for _, response := range []string{`{}`, `[`, ``} {
		sent := ""
		p, err := client.New("https://user:"+password+"@id.example.com", &client.Options{
			HTTP: &http.Client{Transport: noNetwork{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, sent, _ = r.BasicAuth()
				if response != "" {
					w.Header().Set("Content-Type", "application/json")
				}
				fmt.Fprint(w, response)
			})}},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.MachineIDs().Acquire(t.Context(), kazahana.AcquireOptions{})
		if err == nil || !strings.Contains(err.Error(), "id.example.com") || strings.Contains(err.Error(), password) ||
			sent != password {
			t.Errorf("sent %q, and after %q: %v", sent, response, err)
		}
	}
	for _, endpoint := range []string{"ftp://user:" + password + "@id.example.com", "https://user:" + password +
		"@id.example.com?a", "https://user:" + password + "@:x"} {
		if _, err := client.New(endpoint, nil); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%v", err)
		}
	}
}

// TestForceReleaseMachineIDs: an administrator ends leases through a server, and a body that is no such response is an
// error.
func TestForceReleaseMachineIDs(t *testing.T) {
	var sent []string
	body := `{"space":"default","leases":2,"free":1767225630000}`
	p := provider(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		sent = append(sent, fmt.Sprint(r.Method, " ", r.URL.Path, " ", string(got)))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}), nil)
	got, err := p.ForceRelease(t.Context(), contracts.MachineIDForceReleaseRequest{ServiceID: "a", First: 7,
		Last: new(int64(9)), Reason: "gone"})
	if want := (contracts.MachineIDForceRelease{Space: "default", Leases: 2, Free: 1767225630000}); err != nil ||
		got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if want := []string{
		`POST /v1/machine-ids/force-release {"first":7,"last":9,"reason":"gone","serviceId":"a"}`}; !reflect.DeepEqual(sent,
		want) {
		t.Errorf("sent %s, want %s", sent, want)
	}
	body = `{"leases":2}`
	if got, err := p.ForceRelease(t.Context(), contracts.MachineIDForceReleaseRequest{Reason: "gone"}); err == nil {
		t.Errorf("%+v", got)
	}
}
