//go:build unix

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGivenUpBehindAFrontEnd: a command that waits for a lock is interrupted behind a front end that does not tell the
// server of callers who have left. The request that waits at the server ends all the same, and does not get the lock
// when it is free.
func TestGivenUpBehindAFrontEnd(t *testing.T) {
	t.Parallel()
	const permits = `,"mode":"permits","limit":1`
	for name, c := range map[string]struct {
		holder string
		flags  []string
	}{
		"plain":   {"", nil},
		"fair":    {"", []string{"--fair"}},
		"permits": {permits, []string{"--permits", "1"}},
		"shared":  {"", []string{"--shared"}},
		"replace": {"", []string{"--replace"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := fmt.Sprintf("127.0.0.1:%d", freePort(t))
			server := start(t, "--store", "memory", "--metrics-listen", metrics)
			waited := make(chan string, 1)
			front := httptest.NewServer(keepsConnections(server.url, func(request, response []byte) {
				if bytes.Contains(request, []byte(`"wait_seconds"`)) {
					select {
					case waited <- string(response):
					default:
					}
				}
			}))
			defer front.Close()
			path := server.url + "/v1/tenants/default/locks/deploy"
			held := sendJSON(t, path+"/acquire", `{"request_id":"a","owner_id":"ann","ttl_seconds":3600`+c.holder+`}`)

			args := append([]string{"lock", "run", "deploy", "--server", front.URL, "--wait", "10m", "--ttl", "5m"}, c.flags...)
			job := exec.CommandContext(t.Context(), binary(t), append(args, "--", "true")...)
			job.Env = environment()
			if err := job.Start(); err != nil {
				t.Fatal(err)
			}
			const one = `leasehold_requests_waiting{leasehold_what="locks"} 1`
			for end := time.Now().Add(failAfter); ; time.Sleep(10 * time.Millisecond) {
				now := page(t, "http://"+metrics+"/metrics")
				if strings.Contains(now, one) {
					break
				}
				if time.Now().After(end) {
					t.Fatal(now)
				}
			}
			if err := job.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := job.Wait(); err == nil {
				t.Error("a command that was interrupted ended as if it had run")
			}
			sendJSON(t, path+"/release", fmt.Sprintf(`{"request_id":"r","owner_id":"ann","fencing_token":%v}`,
				held["fencing_token"]))
			if said := <-waited; !strings.Contains(said, `"LOCK_HELD"`) {
				t.Errorf("the request that waited: %s", said)
			}
			if got := page(t, path); !strings.Contains(got, `"state":"RELEASED"`) || strings.Contains(got, `"waiting":[{`) {
				t.Errorf("afterwards the lock is %s", got)
			}
		})
	}
}

// keepsConnections passes requests on to a server, and does not end them when their caller has left. told is called
// with the body of each request and what the server responds, whether anyone is still there to read it or not; if the
// server ends without a response, that is the error.
func keepsConnections(server string, told func(request, response []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		response, said, err := passOn(r, body, server) //nolint:bodyclose // it has read and closed it
		if err != nil {
			told(body, []byte(err.Error()))
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		told(body, said)
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		_, _ = w.Write(said)
	})
}

// passOn sends a request to a server, and returns what that responds.
func passOn(r *http.Request, body []byte, server string) (response *http.Response, said []byte, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), failAfter)
	defer cancel()
	on, err := http.NewRequestWithContext(ctx, r.Method, server+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	on.Header = r.Header.Clone()
	if response, err = http.DefaultClient.Do(on); err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	said, err = io.ReadAll(response.Body)
	return response, said, err
}

// sendJSON sends a request that succeeds.
func sendJSON(t *testing.T, url, body string) map[string]any {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var got map[string]any
	d := json.NewDecoder(r.Body)
	d.UseNumber()
	if err := d.Decode(&got); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d %v, error %v", r.StatusCode, got, err)
	}
	return got
}

// page reads a page.
func page(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
