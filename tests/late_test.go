//go:build unix

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lateRequest is a request that grants something, on two servers that share a store.
type lateRequest struct {
	path, body string // without the end

	// before are requests that come first, to the first server: a path and a body each. What they respond may be named in
	// what follows, as {member} of the first or {2.member} of the second.
	before []string

	look  string // a path that shows what the request changes; what it shows of times is left out
	again string // what another caller sends, and obtains, once the request is given up; empty for one without give_up
}

// lateRequests are one of each kind.
var lateRequests = map[string]lateRequest{
	"acquire": {
		path: "/v1/tenants/default/locks/k/acquire", body: `"request_id":"late","owner_id":"ghost","ttl_seconds":300`,
		look: "/v1/tenants/default/locks/k", again: `"request_id":"n","owner_id":"next","ttl_seconds":300`,
	},
	"acquire in line": {
		path: "/v1/tenants/default/locks/fair/acquire",
		body: `"request_id":"late","owner_id":"ghost","ttl_seconds":300,"fair":true`,
		look: "/v1/tenants/default/locks/fair", again: `"request_id":"n","owner_id":"next","ttl_seconds":300,"fair":true`,
	},
	"permits": {
		path:  "/v1/tenants/default/locks/permits/acquire",
		body:  `"request_id":"late","owner_id":"ghost","ttl_seconds":300,"mode":"permits","limit":1`,
		look:  "/v1/tenants/default/locks/permits",
		again: `"request_id":"n","owner_id":"next","ttl_seconds":300,"mode":"permits","limit":1`,
	},
	"shared": {
		path: "/v1/tenants/default/locks/shared/acquire",
		body: `"request_id":"late","owner_id":"ghost","ttl_seconds":300,"mode":"shared"`,
		look: "/v1/tenants/default/locks/shared", again: `"request_id":"n","owner_id":"next","ttl_seconds":300`,
	},
	"rate": {
		path:  "/v1/tenants/default/locks/rate/acquire",
		body:  `"request_id":"late","owner_id":"ghost","mode":"rate","limit":1,"window_seconds":600`,
		look:  "/v1/tenants/default/locks/rate",
		again: `"request_id":"n","owner_id":"next","mode":"rate","limit":1,"window_seconds":600`,
	},
	"replace": {
		before: []string{"/v1/tenants/default/locks/replace/acquire",
			`"request_id":"b","owner_id":"newer","ttl_seconds":300,"replace":true`},
		path:  "/v1/tenants/default/locks/replace/acquire",
		body:  `"request_id":"late","owner_id":"ghost","ttl_seconds":300,"replace":true`,
		look:  "/v1/tenants/default/locks/replace",
		again: `"request_id":"n","owner_id":"next","ttl_seconds":300,"replace":true`,
	},
	"set": {
		path:  "/v1/tenants/default/lock-sets/acquire",
		body:  `"request_id":"late","owner_id":"ghost","ttl_seconds":300,"lock_keys":["s1","s2","s3"]`,
		look:  "/v1/tenants/default/locks?prefix=s",
		again: `"request_id":"n","owner_id":"next","ttl_seconds":300,"lock_keys":["s1","s2","s3"]`,
	},
	"run": {
		path: "/v1/tenants/default/runs/r1/begin", body: `"request_id":"late","owner_id":"ghost","ttl_seconds":300`,
		look: "/v1/tenants/default/runs/r1", again: `"request_id":"n","owner_id":"next","ttl_seconds":300`,
	},
	"analysis": {
		before: []string{"PUT /v1/analyses/a1", ""},
		path:   "/v1/analyses/a1/lock", body: `"request_id":"late","owner_id":"ghost","ttl_seconds":300`,
		look: "/v1/analyses/a1", again: `"request_id":"n","owner_id":"next","ttl_seconds":300`,
	},
	"machine ID": {path: "/v1/machine-ids/lease", body: ``, look: "/v1/machine-ids"},
	"join": {
		path: "/v1/tenants/default/clusters/c1/members/ghost/join", body: `"request_id":"late","kinds":["room"]`,
		look: "/v1/tenants/default/clusters/c1/members",
	},
	"replace a member": {
		before: []string{"/v1/tenants/default/clusters/c2/members/newer/join", `"request_id":"b","kinds":["room"]`},
		path:   "/v1/tenants/default/clusters/c2/members/ghost/replace",
		body:   `"request_id":"late","kinds":["room"],"replaces":{"member":"newer","incarnation":{incarnation}}`,
		look:   "/v1/tenants/default/clusters/c2/members",
	},
	"claim": {
		before: []string{"/v1/tenants/default/clusters/c3/members/m/join", `"request_id":"b","kinds":["room"]`},
		path:   "/v1/tenants/default/clusters/c3/activations/room/1/claim", body: `"request_id":"late"`,
		look: "/v1/tenants/default/clusters/c3/activations",
	},
	"transfer": {
		before: []string{
			"/v1/tenants/default/clusters/c4/members/m/join", `"request_id":"b","kinds":["room"]`,
			"/v1/tenants/default/clusters/c4/activations/room/1/claim",
			`"request_id":"c","member":"m","incarnation":{incarnation}`,
			"/v1/tenants/default/clusters/c4/members/other/join", `"request_id":"b","kinds":["room"]`,
		},
		path: "/v1/tenants/default/clusters/c4/activations/room/1/transfer",
		body: `"request_id":"late","member":"m","incarnation":{incarnation},"fencing_token":{2.fencing_token},"to":"other"`,
		look: "/v1/tenants/default/clusters/c4/activations",
	},
}

// twoServers are two processes that serve one file.
func twoServers(t *testing.T) [2]*process {
	t.Helper()
	args := []string{"--data", t.TempDir()}
	return [2]*process{start(t, args...), start(t, args...)}
}

// prepared carries out what comes before a request, and fills in what its body names of that.
func (r lateRequest) prepared(t *testing.T, server *process) (body string) {
	t.Helper()
	fill := func(s string) string { return s }
	var names []string
	for i := 0; i+1 < len(r.before); i += 2 {
		method, path, ok := strings.Cut(r.before[i], " ")
		if !ok {
			method, path = http.MethodPost, r.before[i]
		}
		status, said := send(t, method, server.url+path, fill(r.before[i+1]))
		if status != http.StatusOK && status != http.StatusCreated {
			t.Fatalf("%s: %d %v", path, status, said)
		}
		if a, ok := said["activation"].(map[string]any); ok {
			said = a
		}
		for name, v := range said {
			names = append(names, fmt.Sprintf("{%d.%s}", i/2+1, name), fmt.Sprint(v))
			if i == 0 {
				names = append(names, "{"+name+"}", fmt.Sprint(v))
			}
		}
		fill = strings.NewReplacer(names...).Replace
	}
	return fill(r.body)
}

// send sends a request, whose body has the members, and returns what the server responds.
func send(t *testing.T, method, url, members string) (status int, said map[string]any) {
	t.Helper()
	var body io.Reader
	if members != "" || method == http.MethodPost {
		body = strings.NewReader("{" + members + "}")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&said); err != nil && len(text) > 0 {
		t.Fatalf("%s: %v in %s", url, err, text)
	}
	return response.StatusCode, said
}

// seen is what a path shows, without the time at which it is asked.
func (r lateRequest) seen(t *testing.T, server *process) string {
	t.Helper()
	status, said := send(t, http.MethodGet, server.url+r.look, "")
	for _, name := range []string{"at", "instance", "trace_id", "remaining_ms"} {
		delete(said, name)
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(status, " ", string(text))
}

// TestRequestsHeldBack: a request of each kind, which was held back until after its end, reaches another server than
// its caller had sent it to: it has no effect, and the response says by which time it was judged, whenever it comes
// (LS-ACC-04).
func TestRequestsHeldBack(t *testing.T) {
	t.Parallel()
	servers := twoServers(t)
	for name, r := range lateRequests {
		t.Run(name, func(t *testing.T) {
			body := r.prepared(t, servers[0])
			before := r.seen(t, servers[0])
			end := "not_after"
			if name == "machine ID" {
				end = "notAfter"
			}
			for _, late := range []time.Duration{time.Millisecond, 9 * time.Second, 2 * time.Minute} {
				members := fmt.Sprintf(`%s,"%s":"%s"`, body, end,
					time.Now().Add(-late).UTC().Format("2006-01-02T15:04:05.000Z"))
				members = strings.TrimPrefix(members, ",")
				status, said := send(t, http.MethodPost, servers[1].url+r.path, members)
				if status != http.StatusConflict || said["code"] != "TOO_LATE" || said["field"] != end ||
					said["store_time"] == nil {
					t.Errorf("%v late: %d %v", late, status, said)
				}
				if after := r.seen(t, servers[0]); after != before {
					t.Errorf("%v late: before\n%s\nafter\n%s", late, before, after)
				}
			}
			// With an end that lies ahead the same request has its effect.
			members := strings.TrimPrefix(fmt.Sprintf(`%s,"%s":"%s"`, body, end,
				time.Now().Add(failAfter).UTC().Format(time.RFC3339Nano)), ",")
			if status, said := send(t, http.MethodPost, servers[1].url+r.path, members); status != http.StatusOK {
				t.Errorf("in time: %d %v", status, said)
			}
		})
	}
}

// TestGivenUpRequests: a request that can be given up is given up at one server. Copies of it that arrive at the other
// one afterwards obtain nothing; and what the request had obtained, without its caller knowing, is free for the next
// caller at once (LS-ACC-04).
func TestGivenUpRequests(t *testing.T) {
	t.Parallel()
	for _, obtained := range []bool{false, true} {
		servers := twoServers(t)
		for name, r := range lateRequests {
			if r.again == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, obtained %v", name, obtained), func(t *testing.T) {
				body := r.prepared(t, servers[0])
				if obtained {
					if status, said := send(t, http.MethodPost, servers[1].url+r.path, body); status != http.StatusOK {
						t.Fatalf("%d %v", status, said)
					}
				}
				for range 2 {
					status, said := send(t, http.MethodPost, servers[0].url+r.path, body+`,"give_up":true`)
					if status != http.StatusNoContent {
						t.Fatalf("given up: %d %v", status, said)
					}
				}
				for _, s := range servers {
					if status, said := send(t, http.MethodPost, s.url+r.path, body); status == http.StatusOK {
						t.Errorf("a copy obtained %v", said)
					}
				}
				if name == "rate" && obtained {
					return // what the grant allowed may have been done
				}
				if status, said := send(t, http.MethodPost, servers[1].url+r.path, r.again); status != http.StatusOK ||
					said["acquired"] == false {
					t.Errorf("the next caller: %d %v", status, said)
				}
			})
		}
	}
}

// TestServerThatStopsAndGoesOn: twelve acquires are on their way to a server that is stopped. Their callers give up at
// another one. When the first server goes on, it carries none of them out: every lock is free (LS-ACC-04).
func TestServerThatStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	servers := twoServers(t)
	const callers = 12
	path := func(s *process, i int) string {
		return fmt.Sprintf("%s/v1/tenants/default/locks/k%d/acquire", s.url, i)
	}
	for i := range callers { // both know the locks
		if status, said := send(t, http.MethodPost, path(servers[i%2], i),
			`"request_id":"w","owner_id":"warm","ttl_seconds":1`); status != http.StatusOK {
			t.Fatal(said)
		}
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := servers[0].cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	waitUntilStopped(t, servers[0].cmd.Process.Pid)
	var calls sync.WaitGroup
	body := func(i int) string {
		return fmt.Sprintf(`"request_id":"r%d","owner_id":"ghost","ttl_seconds":300,"replace":true`, i)
	}
	for i := range callers {
		calls.Go(func() {
			if status, said := send(t, http.MethodPost, path(servers[0], i), body(i)); status == http.StatusOK {
				t.Errorf("k%d was obtained after it was given up: %v", i, said)
			}
		})
	}
	for i := range callers {
		status, said := send(t, http.MethodPost, path(servers[1], i), body(i)+`,"give_up":true`)
		if status != http.StatusNoContent {
			t.Errorf("given up: %d %v", status, said)
		}
	}
	signal(syscall.SIGCONT)
	calls.Wait()
	for i := range callers {
		status, said := send(t, http.MethodPost, path(servers[1], i),
			`"request_id":"n","owner_id":"next","ttl_seconds":300,"wait_seconds":2`)
		if status != http.StatusOK {
			t.Errorf("k%d: %d %v", i, status, said)
		}
	}
}

// holdingFront is in front of a server. It holds the first request that matches back until it is told to let it go, and
// passes all others on.
type holdingFront struct {
	*httptest.Server

	held    chan struct{} // closed when the request is held back
	letGo   chan struct{} // closed by the test
	late    chan int      // the status of its response, once it was let go
	givenUp chan int      // the status of the response to each request that gives up
}

func newHoldingFront(t *testing.T, server *process, match func(path string, body []byte) bool) *holdingFront {
	t.Helper()
	f := &holdingFront{held: make(chan struct{}), letGo: make(chan struct{}), late: make(chan int, 1),
		givenUp: make(chan int, 64)}
	var once sync.Once
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		givesUp, first := bytes.Contains(body, []byte(`"give_up":true`)), false
		if !givesUp && match(r.URL.Path, body) {
			once.Do(func() { first = true })
		}
		if first {
			close(f.held)
			<-f.letGo
		}
		response, said, err := passOn(r, body, server.url) //nolint:bodyclose // it has read and closed it
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		case first:
			f.late <- response.StatusCode
		case givesUp:
			f.givenUp <- response.StatusCode
		}
		for name := range response.Header {
			w.Header().Set(name, response.Header.Get(name))
		}
		w.WriteHeader(response.StatusCode)
		_, _ = w.Write(said)
	}))
	t.Cleanup(f.Close)
	return f
}

// TestCommandsGivenUpWhileTheirRequestIsHeldBack: a command is interrupted, once or twice, while its request is on the
// way. The request arrives after the command has ended, and obtains nothing: the next caller has it at once.
func TestCommandsGivenUpWhileTheirRequestIsHeldBack(t *testing.T) {
	t.Parallel()
	const lock = "/v1/tenants/default/locks/k/acquire"
	const next = `"request_id":"n","owner_id":"next","ttl_seconds":300`
	for name, c := range map[string]struct {
		args         []string
		before       string // an acquire that comes first
		path, after  string // what the next caller sends, and where
		nothingAfter bool   // it obtains nothing: another holds the lock
	}{
		"acquire": {args: []string{"lock", "run", "k"}, path: lock, after: next},
		"wait":    {args: []string{"lock", "run", "k", "--wait", "10m"}, path: lock, after: next},
		"in line": {args: []string{"lock", "run", "k", "--wait", "10m", "--fair"}, path: lock, after: next + `,"fair":true`},
		"permits": {args: []string{"lock", "run", "k", "--permits", "1"}, path: lock,
			after: next + `,"mode":"permits","limit":1`},
		"shared": {args: []string{"lock", "run", "k", "--shared"}, path: lock, after: next},
		"set":    {args: []string{"lock", "run", "k", "--also", "k2"}, path: lock, after: next},
		"run":    {args: []string{"once", "a1"}, path: "/v1/tenants/default/runs/a1/begin", after: next},
		"replace": {args: []string{"lock", "run", "k", "--replace"}, path: lock, after: next, nothingAfter: true,
			before: `"request_id":"b","owner_id":"newer","ttl_seconds":300,"replace":true`},
		"rate": {args: []string{"lock", "run", "k", "--rate", "1/h"}, path: lock,
			after: `"request_id":"n","owner_id":"next","mode":"rate","limit":1,"window_seconds":3600`},
	} {
		for interrupts := 1; interrupts <= 2; interrupts++ {
			t.Run(fmt.Sprintf("%s, %d SIGINT", name, interrupts), func(t *testing.T) {
				t.Parallel()
				server := start(t, "--store", "memory")
				front := newHoldingFront(t, server, func(path string, _ []byte) bool {
					return strings.HasSuffix(path, "/acquire") || strings.HasSuffix(path, "/begin")
				})
				if c.before != "" {
					if status, said := send(t, http.MethodPost, server.url+c.path, c.before); status != http.StatusOK {
						t.Fatal(said)
					}
				}
				job := exec.CommandContext(t.Context(), binary(t), append(append(c.args, "--server", front.URL, "--ttl", "5m"),
					"--", "true")...)
				job.Env = environment()
				if err := job.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-front.held:
				case <-time.After(failAfter):
					t.Fatal("no request came")
				}
				for range interrupts { // the system may make one of two; see TestInterruptedAgain for each by itself
					if err := job.Process.Signal(syscall.SIGINT); err != nil {
						t.Fatal(err)
					}
				}
				if err := job.Wait(); err == nil {
					t.Error("a command that was interrupted ended as if it had run")
				}
				select {
				case status := <-front.givenUp:
					if status != http.StatusNoContent {
						t.Errorf("it gave up, and was answered %d", status)
					}
				default:
					t.Error("it ended, and did not give up")
				}
				close(front.letGo)
				if status := <-front.late; status == http.StatusOK {
					t.Errorf("the request that was held back obtained what it asked for")
				}
				status, said := send(t, http.MethodPost, server.url+c.path, c.after)
				if obtained := status == http.StatusOK && said["acquired"] != false; obtained == c.nothingAfter {
					t.Errorf("the next caller: %d %v", status, said)
				}
			})
		}
	}
}
