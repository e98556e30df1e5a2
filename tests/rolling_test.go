//go:build unix

package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/redistest"
)

// terminate sends SIGTERM to the process.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// stops waits until the process has ended, which it must have done in order.
func (p *process) stops(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, p.stderr.Bytes())
		}
	case <-time.After(failAfter):
		t.Fatal("it does not end")
	}
}

// awaitLine waits until the line of a lock has a length.
func awaitLine(t *testing.T, lock string, length int) {
	t.Helper()
	awaited(t, "the line has its length", func() bool {
		line, _ := ask(t, anew(), "GET", lock, "").body["waiting"].([]any)
		return len(line) == length
	})
}

// reply is a response, or that there was none.
type reply struct {
	status int
	body   map[string]any
	closes bool // it is the last one of its connection
	err    error
}

// ask sends a request with a client, once.
func ask(t *testing.T, c *http.Client, method, url, body string) (r reply) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	request.GetBody = nil // so that the transport does not send it again by itself
	w, err := c.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = w.Body.Close() }()
	r.status, r.closes = w.StatusCode, w.Close
	content, err := io.ReadAll(w.Body)
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	r.err = errors.Join(err, d.Decode(&r.body))
	return r
}

// TestShutdownDelay: after SIGTERM the server is not ready, says so, and serves on new connections, too; who waits for
// a lock waits on. Another signal ends the delay: then those who wait are told to come again at once. Without another
// signal it lasts as long as it should.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory", "--shutdown-delay", "1h")
	const acquire = `{"request_id":%q,"owner_id":%[1]q,"ttl_seconds":3600,"wait_seconds":%d,"fair":true}`
	lock := p.url + "/v1/tenants/acme/locks/k"
	if r := ask(t, anew(), "POST", lock+"/acquire", fmt.Sprintf(acquire, "ann", 0)); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	waits := make(chan reply)
	go func() { waits <- ask(t, anew(), "POST", lock+"/acquire", fmt.Sprintf(acquire, "bob", 20)) }()
	awaitLine(t, lock, 1)
	p.terminate(t)
	awaited(t, "it is not ready", func() bool {
		r := ask(t, anew(), "GET", p.url+"/readyz", "")
		detail, _ := r.body["detail"].(string)
		return r.status == 503 && strings.Contains(detail, "about to stop")
	})
	kept := &http.Client{Transport: &http.Transport{}}
	for _, r := range []reply{ask(t, kept, "GET", p.url+"/healthz", ""),
		ask(t, kept, "POST", lock+"-other/acquire", fmt.Sprintf(acquire, "ann", 0))} {
		if r.err != nil || r.status != 200 || !r.closes {
			t.Errorf("in the delay: %+v", r)
		}
	}
	select {
	case r := <-waits:
		t.Errorf("the wait ended in the delay: %+v", r)
	default:
	}
	p.terminate(t)
	if r := <-waits; r.status != 409 || r.body["code"] != "LOCK_HELD" || r.body["retry_after_ms"] != json.Number("1") ||
		r.body["position"] != json.Number("1") {
		t.Errorf("who waits: %+v", r)
	}
	p.stops(t)

	const delay = 300 * time.Millisecond
	p = start(t, "--store", "memory", "--shutdown-delay", delay.String())
	begin := time.Now()
	p.terminate(t)
	p.stops(t)
	if took := time.Since(begin); took < delay {
		t.Errorf("it stopped after %v", took)
	}
}

// balancer passes connections on to servers, as kube-proxy does: in turn to those that are ready, by their /readyz, and
// to one that is not for a while longer. It counts that by connections and not by time, so that it is the same on every
// machine.
type balancer struct {
	mu     sync.Mutex
	pool   []*backend
	failed []string // connections that could not be passed on
}

// backend is a server of a pool.
type backend struct {
	*process

	leaving bool
	late    int            // connections that it had after it said that it is not ready
	open    map[string]int // connections, by the front on which they came
	dialing int            // connections that are being made
}

// lateConnections is how many connections are passed on to a server that is not ready.
const lateConnections = 10

// listen opens a front of the balancer.
func (b *balancer) listen(t *testing.T, front string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for turn := 0; ; turn++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(c, front, b.choose(front, turn))
		}
	}()
	return "http://" + l.Addr().String()
}

// choose says where a connection goes.
func (b *balancer) choose(front string, turn int) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.pool {
		s := b.pool[(turn+i)%len(b.pool)]
		if s.leaving && s.late >= lateConnections {
			continue
		}
		if s.leaving {
			s.late++
		}
		s.open[front]++
		s.dialing++
		return s
	}
	b.failed = append(b.failed, "no server is there")
	return nil
}

// pass copies both directions of a connection until one has ended.
func (b *balancer) pass(c net.Conn, front string, s *backend) {
	defer c.Close()
	if s == nil {
		return
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.open[front]--
	}()
	other, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	b.mu.Lock()
	if s.dialing--; err != nil {
		b.failed = append(b.failed, err.Error())
	}
	b.mu.Unlock()
	if err != nil {
		return
	}
	defer other.Close()
	go func() {
		_, _ = io.Copy(other, c)
		_ = other.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, other)
}

// add takes a server into the pool once it is ready.
func (b *balancer) add(t *testing.T, p *process) *backend {
	t.Helper()
	awaited(t, "a server is ready", func() bool { return ask(t, anew(), "GET", p.url+"/readyz", "").status == 200 })
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &backend{process: p, open: map[string]int{}}
	b.pool = append(b.pool, s)
	return s
}

// look lets the balancer ask a server whether it is ready.
func (b *balancer) look(t *testing.T, s *backend) (leaving bool) {
	t.Helper()
	r := ask(t, anew(), "GET", s.url+"/readyz", "")
	b.mu.Lock()
	defer b.mu.Unlock()
	s.leaving = s.leaving || r.status != 200
	return s.leaving
}

// gone reports whether a server that is not ready gets no new connection, none is being made, and it has none of a
// front.
func (b *balancer) gone(s *backend, front string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s.leaving && s.late >= lateConnections && s.dialing == 0 && s.open[front] == 0
}

// remove forgets a server that has ended.
func (b *balancer) remove(s *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.pool {
		if other == s {
			b.pool = append(b.pool[:i:i], b.pool[i+1:]...)
		}
	}
}

// callers are those who use the servers behind a balancer while these are replaced.
type callers struct {
	t       *testing.T
	end     chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	requests int
	cutOff   int // waits that a server ended because it stopped
	failures []string
}

// must sends a request that has to succeed.
func (c *callers) must(h *http.Client, url, body string) map[string]any {
	r := ask(c.t, h, "POST", url, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if r.err != nil || r.status != http.StatusOK {
		c.failures = append(c.failures, fmt.Sprintf("%s: %d %v, error %v", url, r.status, r.body, r.err))
	}
	return r.body
}

// ended reports whether the test is over.
func (c *callers) ended() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}

// work acquires, renews and releases a lock again and again, and keeps the lease of another one all the time.
func (c *callers) work(url, name string, h *http.Client) {
	defer c.running.Done()
	lock := func(key, command, id string, token any) map[string]any {
		named := ""
		if token != nil {
			named = fmt.Sprintf(`,"fencing_token":%v`, token)
		}
		if command != "release" {
			named += `,"ttl_seconds":3600`
		}
		return c.must(h, url+"/v1/tenants/acme/locks/"+key+"/"+command,
			fmt.Sprintf(`{"request_id":%q,"owner_id":%q%s}`, id, name, named))
	}
	kept := lock("kept-"+name, "acquire", "kept", nil)["fencing_token"]
	for i := 0; !c.ended(); i++ {
		id := strconv.Itoa(i)
		token := lock("of-"+name, "acquire", "a"+id, nil)["fencing_token"]
		lock("of-"+name, "renew", "n"+id, token)
		lock("kept-"+name, "renew", "k"+id, kept)
		lock("of-"+name, "release", "e"+id, token)
	}
	lock("kept-"+name, "release", "end", kept)
}

// wait waits in line for a lock that is held until the test is over, and comes again whenever a wait ends. It must keep
// its place; others before it that are slow to come again do not count meanwhile.
func (c *callers) wait(url, name string, place int, granted chan<- string) {
	defer c.running.Done()
	h := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	const acquire = `{"request_id":%q,"owner_id":%[1]q,"ttl_seconds":3600,"wait_seconds":20,"fair":true}`
	for {
		r := ask(c.t, h, "POST", url+"/v1/tenants/acme/locks/line/acquire", fmt.Sprintf(acquire, name))
		if r.err == nil && r.status == http.StatusOK {
			granted <- name
			c.must(h, url+"/v1/tenants/acme/locks/line/release", fmt.Sprintf(
				`{"request_id":"e","owner_id":%q,"fencing_token":%v}`, name, r.body["fencing_token"]))
			return
		}
		position, _ := r.body["position"].(json.Number)
		at, _ := strconv.Atoi(string(position))
		c.mu.Lock()
		if r.err != nil || r.status != http.StatusConflict || (at < 1 || at > place) && !c.ended() {
			c.failures = append(c.failures, fmt.Sprintf("%s waits at place %d: %d %v, error %v", name, place, r.status,
				r.body, r.err))
		}
		if r.body["retry_after_ms"] == json.Number("1") {
			c.cutOff++
		}
		failed := len(c.failures) > 0
		c.mu.Unlock()
		if failed {
			granted <- name + " failed"
			return
		}
	}
}

// TestRollingRestart: two servers behind a balancer are replaced, one after the other, while callers work and wait. No
// connection is refused, no request fails, no lease and no place in line is lost. The delay after SIGTERM lasts until
// the balancer has noticed: the test ends it with a second signal.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		b := &balancer{}
		launched := func() *backend {
			return b.add(t, start(t, "--store", "redis", "--redis-addr", server.URL(), "--shutdown-delay", "1h",
				"--shutdown-timeout", failAfter.String()))
		}
		pool := []*backend{launched(), launched()}
		c := &callers{t: t, end: make(chan struct{})}
		working, waiting := b.listen(t, "working"), b.listen(t, "waiting")
		hold := func(command string, more string) map[string]any {
			return c.must(anew(), working+"/v1/tenants/acme/locks/line/"+command,
				`{"request_id":"`+command+`","owner_id":"holder",`+more+`}`)
		}
		token := hold("acquire", `"ttl_seconds":3600`)["fencing_token"]
		granted := make(chan string, 10)
		const inLine = 4
		for place := range inLine {
			c.running.Add(1)
			go c.wait(waiting, fmt.Sprint("waits-", place+1), place+1, granted)
			awaitLine(t, working+"/v1/tenants/acme/locks/line", place+1)
		}
		for i := range 3 {
			c.running.Add(2)
			// One connection for one request after the other. A transport that may have more makes one too many now and
			// then, and a server closes a connection on which nothing comes for 5 s.
			go c.work(working, fmt.Sprint("kept-alive-", i), &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}})
			go c.work(working, fmt.Sprint("anew-", i), anew())
		}
		for range 4 {
			pool = append(pool, launched())
			old := pool[0]
			pool = pool[1:]
			old.terminate(t)
			awaited(t, "the balancer notices", func() bool { return b.look(t, old) })
			awaited(t, "connections go elsewhere", func() bool { return b.gone(old, "working") })
			if r := ask(t, anew(), "GET", old.url+"/healthz", ""); r.status != 200 { // it has accepted all before this one
				t.Errorf("%+v", r)
			}
			old.terminate(t)
			old.stops(t)
			b.remove(old)
		}
		close(c.end)
		awaitLine(t, working+"/v1/tenants/acme/locks/line", inLine) // all listen
		hold("release", fmt.Sprintf(`"fencing_token":%v`, token))
		for place := range inLine {
			if got, want := <-granted, fmt.Sprint("waits-", place+1); got != want {
				t.Errorf("%s has the lock, want %s", got, want)
			}
		}
		c.running.Wait()
		for _, failure := range append(b.failed, c.failures...) {
			t.Error(failure)
		}
		t.Logf("%d requests, %d waits went on at another server", c.requests, c.cutOff)
	})
}
