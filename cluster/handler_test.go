package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

var secret = []byte("thirty-two bytes that all share.")

// wires is a network in memory, which works in virtual time.
type wires struct {
	mu    sync.Mutex
	ends  map[string]*listener
	dials atomic.Int64
	tls   func(name string) *tls.Config // of a member, as server and as client; nil is without TLS
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	open   []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// kill closes everything, as when a process is killed.
func (l *listener) kill() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
}

// from is a connection whose other end has an address.
type from struct{ net.Conn }

func (from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 999} }

func (n *wires) listen(address string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.ends[address] = l
	return l
}

func (n *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.dials.Add(1)
	n.mu.Lock()
	l := n.ends[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	if l == nil {
		return nil, refused
	}
	near, far := net.Pipe()
	l.mu.Lock()
	l.open = append(l.open, near, far)
	l.mu.Unlock()
	select {
	case l.conns <- from{far}:
		return near, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// site is a member with its server.
type site struct {
	joined

	l      *cluster.Locator
	lp     *faulty  // its provider
	events *journal // of it
	end    *listener
	server *http.Server
	client *http.Client
	inner  atomic.Pointer[http.HandlerFunc]
	calls  atomic.Int64
}

func (w *world) net() *wires { return &wires{ends: map[string]*listener{}} }

func identity(r *http.Request) (cluster.Identity, bool) {
	id, ok := strings.CutPrefix(r.URL.Path, "/rooms/")
	return room(strings.Split(id, "/")[0]), ok
}

// site starts a member behind a Handler. The member is not started if change says so by a name without kinds.
func (w *world) site(n *wires, name string, change func(*cluster.Options, *host), o cluster.HandlerOptions) *site {
	w.t.Helper()
	s := &site{joined: w.member(name, change), lp: w.provider(), events: &journal{}}
	transport := &http.Transport{DialContext: n.dial, DisableCompression: true}
	if n.tls != nil {
		transport.TLSClientConfig, o.Scheme = n.tls(name), "https"
	}
	o.Identity = identity
	if o.Secret == nil && o.Trust == nil {
		o.Secret = secret
	}
	o.Transport = transport
	s.l = cluster.NewLocator(s.lp, &cluster.LocatorOptions{Observe: s.events.add})
	h, err := cluster.NewHandler(s.Member, s.l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		if f := s.inner.Load(); f != nil {
			(*f)(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		c, _ := cluster.CallOf(r.Context())
		fmt.Fprintf(w, "%s has %s: %s", name, c.ID, body)
	}), o)
	if err != nil {
		w.t.Fatal(err)
	}
	s.end, s.server = n.listen(name+":1"), &http.Server{Handler: h,
		ErrorLog: log.New(io.Discard, "", 0)}
	var end net.Listener = s.end
	if n.tls != nil {
		end = tls.NewListener(s.end, n.tls(name))
	}
	go s.server.Serve(end)
	s.client = &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{DialContext: n.dial, DisableCompression: true}}
	if err := s.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := s.l.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { transport.CloseIdleConnections() })
	return s
}

// stop ends it all.
func (s *site) close() {
	s.l.Stop()
	_ = s.Stop(context.Background())
	_ = s.server.Close()
	s.end.kill()
	s.client.CloseIdleConnections()
}

func (s *site) get(t *testing.T, path string) string {
	t.Helper()
	return s.send(t, http.MethodGet, path, nil)
}

func (s *site) send(t *testing.T, method, path string, body io.Reader) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.name()+":1"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(res.StatusCode) + " " + string(text)
}

func (j joined) name() string { return j.host.name }

// at is a room that is placed on a member.
func (s *site) at(t *testing.T, l *cluster.Locator) string {
	t.Helper()
	for i := range 1000 {
		where, err := l.Locate(t.Context(), room(strconv.Itoa(i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if where.Member == s.name() {
			return strconv.Itoa(i)
		}
	}
	t.Fatal("no room is placed there")
	return ""
}

// hostless makes a member that hosts no rooms.
func hostless(o *cluster.Options, _ *host) { o.Kinds = []string{"other"} }

// two are two members.
func (w *world) two(o cluster.HandlerOptions) (ann, bob *site) {
	n := w.net()
	ann, bob = w.site(n, "ann", nil, o), w.site(n, "bob", nil, o)
	time.Sleep(3 * time.Second) // both locators have the epoch
	return ann, bob
}

// TestHandler: a request is served by the member of its identity, wherever it arrives, with its body, its caller and
// where it came from.
func TestHandler(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{Caller: func(r *http.Request) string { return r.Header.Get("User") }})
		here, there := ann.at(t, ann.l), bob.at(t, ann.l)
		if got := ann.send(t, http.MethodPost, "/rooms/"+here, strings.NewReader("hello")); got !=
			"200 ann has "+here+": hello" {
			t.Error(got)
		}
		if got := ann.send(t, http.MethodPost, "/rooms/"+there, strings.NewReader("hello")); got !=
			"200 bob has "+there+": hello" {
			t.Error(got)
		}
		if got := ann.get(t, "/"); !strings.HasPrefix(got, "404") {
			t.Error(got)
		}
		serve := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c, ok := cluster.CallOf(r.Context())
			fmt.Fprint(rw, ok, c.Caller, c.From, r.Host, r.URL, r.Header.Get("X-Forwarded-For"),
				r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Leasehold-Forward"),
				c.Token == w.record(room(there)).FencingToken, cluster.Check(r.Context()))
		})
		bob.inner.Store(&serve)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://ann:1/rooms/"+there+"/a%2Fb?x=1;y", nil)
		r.Header.Set("User", "eve")
		r.Header.Set("X-Forwarded-For", "1.2.3.4")
		res, err := ann.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		want := "true eve ann ann:1 /rooms/" + there + "/a%2Fb?x=1;y 10.0.0.9 ann:1 http  true <nil>"
		if spaced(string(text)) != spaced(want) {
			t.Errorf("%q, want %q", text, want)
		}
		if len(ann.events.has(cluster.Forwarded)) != 2 || len(ann.events.has(cluster.FailedOver)) != 0 {
			t.Errorf("%+v", ann.events.has(cluster.Forwarded))
		}
		ann.close()
		bob.close()
	})
}

// spaced leaves spaces out, which Print sets by types.
func spaced(s string) string { return strings.ReplaceAll(s, " ", "") }

// TestHandlerStreams: what is written is forwarded as it comes, after an upgrade in both directions; a connection
// learns that its activation is to end, and a caller that goes away ends the request.
func TestHandlerStreams(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		ended := make(chan error, 1)
		stream := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			for i := range 3 {
				fmt.Fprintf(rw, "%s %d\n", body, i)
				_ = http.NewResponseController(rw).Flush()
				time.Sleep(time.Second)
			}
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		})
		bob.inner.Store(&stream)
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://ann:1/rooms/"+there, strings.NewReader("line"))
		start := time.Now()
		res, err := ann.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for i := range 3 {
			if line, err := lines.ReadString('\n'); line != fmt.Sprintf("line %d\n", i) ||
				time.Since(start).Round(time.Second) != time.Duration(i)*time.Second {
				t.Errorf("%q, %v after %v", line, err, time.Since(start))
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		upgrade := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			call, _ := cluster.CallOf(r.Context())
			conn, both, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			line, _ := both.ReadString('\n')
			_, _ = io.WriteString(conn, "echo "+line)
			<-call.Ending
			_, _ = io.WriteString(conn, "bye\n")
		})
		bob.inner.Store(&upgrade)
		conn, lines := ann.upgrade(t, there)
		_, _ = io.WriteString(conn, "two\n")
		if line, err := lines.ReadString('\n'); line != "echo two\n" {
			t.Errorf("%q, %v", line, err)
		}
		go bob.Stop(t.Context())
		if line, err := lines.ReadString('\n'); line != "bye\n" {
			t.Errorf("%q, %v", line, err)
		}
		_ = conn.Close()
		bob.close()
		ann.close()
	})
}

// upgrade makes a connection of another protocol.
func (s *site) upgrade(t *testing.T, id string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", s.name()+":1")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /rooms/%s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", id)
	lines := bufio.NewReader(conn)
	res, err := http.ReadResponse(lines, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", res, err)
	}
	_ = res.Body.Close() // which is empty
	return conn, lines
}

// TestHandlerDrain (PLC-LIFE-2): while a member is replaced, requests come all the time, at both members. None fails,
// none is served twice, and one that the old member has begun is ended by it.
func TestHandlerDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		ann := w.site(n, "ann", nil, cluster.HandlerOptions{})
		front := w.site(n, "front", hostless, cluster.HandlerOptions{})
		var served atomic.Int64
		slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			time.Sleep(100 * time.Millisecond)
			served.Add(1)
			if r.Context().Err() != nil {
				rw.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = rw.Write(body)
		})
		ann.inner.Store(&slow)
		var sent int64
		var work sync.WaitGroup
		over := make(chan struct{})
		for c := range 8 {
			work.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-over:
						return
					default:
					}
					atomic.AddInt64(&sent, 1)
					at, text := front, strings.Repeat("x", 1000*c)
					if c%2 == 0 {
						at = ann
					}
					if got := at.send(t, http.MethodPost, "/rooms/"+strconv.Itoa(c/2), strings.NewReader(text)); got != "200 "+text {
						t.Errorf("%d: %.100s", c, got)
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		bob := w.site(n, "bob", func(o *cluster.Options, _ *host) {
			o.Replaces = contracts.Incarnation{Member: "ann", Incarnation: ann.Incarnation()}
		}, cluster.HandlerOptions{})
		bob.inner.Store(&slow)
		time.Sleep(20 * time.Second)
		close(over)
		work.Wait()
		if s := ann.Status(); s.State != cluster.Draining || len(bob.Activations()) != 4 {
			t.Errorf("%+v; %v", s, bob.Activations())
		}
		if got := served.Load(); got != sent {
			t.Errorf("%d requests were served %d times", sent, got)
		}
		if len(front.events.has(cluster.FailedOver)) == 0 {
			t.Error("no request was in the way of the change")
		}
		ann.close()
		bob.close()
		front.close()
	})
}

// TestHandlerKill: a member is killed. Requests for what it had wait until its lease has ended and another one serves
// them; a request that it had begun fails, unless it can be repeated.
func TestHandlerKill(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{Concurrent: true})
		there := bob.at(t, ann.l)
		began := make(chan struct{}, 9)
		hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			began <- struct{}{}
			<-r.Context().Done()
		})
		bob.inner.Store(&hang)
		all := make(chan string, 3)
		go func() { all <- "post " + ann.send(t, http.MethodPost, "/rooms/"+there, strings.NewReader("p")) }()
		<-began
		go func() { all <- "get " + ann.get(t, "/rooms/"+there) }()
		<-began
		bob.p.set(func(string) (error, bool) { return errNetwork, false }) // it sends nothing any more
		bob.end.kill()
		go func() { all <- "late " + ann.send(t, http.MethodPost, "/rooms/"+there, strings.NewReader("l")) }()
		start := time.Now()
		if got := <-all; !strings.HasPrefix(got, "post 502") {
			t.Error(got)
		}
		got := <-all + "; " + <-all
		for _, want := range []string{"get 200 ann has " + there + ": ", "late 200 ann has " + there + ": l"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if took := time.Since(start); took < 5*time.Second || took > 12*time.Second {
			t.Errorf("after %v", took)
		}
		for _, e := range ann.events.has(cluster.FailedOver) {
			if e.Took < 5*time.Second || e.Took > 12*time.Second || e.Err == nil {
				t.Errorf("%+v", e)
			}
		}
		ann.close()
		bob.p.set(nil)
		bob.close()
	})
}

// TestHandlerFrozen: a member is frozen while it works on requests, and no one else asks for what it has. It closes
// nothing. It is evicted when its lease has ended, and left some seconds later: what can be repeated is served by the
// next member, also if its time was over by then; all else is an error, and is not sent again.
func TestHandlerFrozen(t *testing.T) {
	for _, c := range []struct {
		method, key string
		want        string
	}{
		{http.MethodGet, "", "200 ann has "}, {http.MethodHead, "", "200 "}, {http.MethodPost, "", "504"},
		{http.MethodPost, "k", "200 ann has "},
	} {
		t.Run(c.method+c.key, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				ann, bob := w.two(cluster.HandlerOptions{})
				there := bob.at(t, ann.l)
				release := make(chan struct{})
				if got := ann.get(t, "/rooms/"+there); got != "200 bob has "+there+": " {
					t.Error(got)
				}
				hang := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }) // it sees no context
				bob.inner.Store(&hang)
				start := time.Now()
				bob.p.set(func(string) (error, bool) { return errNetwork, false })
				r, _ := http.NewRequestWithContext(t.Context(), c.method, "http://ann:1/rooms/"+there, nil)
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				res, err := ann.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if got := fmt.Sprint(res.StatusCode, " ", string(text)); !strings.HasPrefix(got, c.want) {
					t.Errorf("%s, want %s", got, c.want)
				}
				// its lease of 10 s, a look at most 2 s later, one at the new epoch 2 s later, and 5 s for its response
				if took := time.Since(start); took < 10*time.Second || took > 20*time.Second {
					t.Errorf("after %v", took)
				}
				if n := ann.calls.Load(); n != map[bool]int64{true: 1}[!strings.HasPrefix(c.want, "504")] {
					t.Errorf("served %d times by the other member", n)
				}
				close(release)
				ann.close()
				bob.p.set(nil)
				bob.close()
			})
		})
	}
}

// TestHandlerSlow: a member that takes long is not left while it lives, and all requests that it works on cost one
// request in two seconds together.
func TestHandlerSlow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{Concurrent: true})
		there := bob.at(t, ann.l)
		slow := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(40 * time.Second) // longer than a request waits for a member that serves it
			fmt.Fprint(rw, "done")
		})
		bob.inner.Store(&slow)
		before := ann.lp.count("lookup")
		var work sync.WaitGroup
		for range 50 {
			work.Go(func() {
				if got := ann.get(t, "/rooms/"+there); got != "200 done" {
					t.Error(got)
				}
			})
		}
		work.Wait()
		if n := ann.lp.count("lookup") - before; n > 20 || bob.calls.Load() != 50 {
			t.Errorf("%d requests to the provider, %d of 50 served", n, bob.calls.Load())
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerNotHere: a locator that is behind sends a request to a member that has given the identity away. The
// request is served, once, with its whole body, and no member forwards it twice.
func TestHandlerNotHere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		ann := w.site(n, "ann", nil, cluster.HandlerOptions{})
		body := strings.Repeat("0123456789", 5000)
		if got := ann.get(t, "/rooms/a"); got != "200 ann has a: " {
			t.Error(got)
		}
		front := w.site(n, "front", hostless, cluster.HandlerOptions{})
		if got := front.get(t, "/rooms/a"); got != "200 ann has a: " { // it knows where the room is now
			t.Error(got)
		}
		bob := w.site(n, "bob", nil, cluster.HandlerOptions{})
		if err := ann.Drain(t.Context()); err != nil { // the locator of front does not learn of it
			t.Fatal(err)
		}
		if got := front.send(t, http.MethodPost, "/rooms/a", strings.NewReader(body)); got != "200 bob has a: "+body {
			t.Errorf("%.100s", got)
		}
		if ann.calls.Load() != 2 || bob.calls.Load() != 1 || len(ann.events.has(cluster.Forwarded)) != 0 {
			t.Errorf("served %d and %d times", ann.calls.Load(), bob.calls.Load())
		}
		f := front.events.has(cluster.Forwarded)
		if len(f) != 3 || f[1].Err == nil || f[1].Peer != "ann" || f[2].Err != nil || f[2].Peer != "bob" {
			t.Errorf("%+v", f)
		}
		ann.close()
		bob.close()
		front.close()
	})
}

// TestHandlerNotHereOfAService: a header that a service sets, for whatever reason, is not the response of a member that
// does not have the identity: the response is the caller's, once, and the header goes no further.
func TestHandlerNotHereOfAService(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		says := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Leasehold-Answer", "a nonce of another request")
			rw.WriteHeader(http.StatusAccepted)
		})
		bob.inner.Store(&says)
		res := httptest.NewRecorder()
		ann.server.Handler.ServeHTTP(res, request(t, "/rooms/"+there, nil))
		if res.Code != http.StatusAccepted || bob.calls.Load() != 1 || res.Header().Get("Leasehold-Answer") != "" {
			t.Errorf("%d %v, served %d times", res.Code, res.Header(), bob.calls.Load())
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerForged: a request that says that it was forwarded, and was not by a member, is refused: with another
// secret, none, another method, another address, or another caller.
func TestHandlerForged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		n := w.net()
		n.ends = map[string]*listener{"bob:1": bob.end}
		var seen http.Header
		tap := n.listen("bob:1") // as another process at this address receives it
		spy := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if name, value, ask := cluster.AnswerTo(secret, r); ask {
				rw.Header().Set(name, value)
				return
			}
			seen = r.Header.Clone()
		})
		server := &http.Server{Handler: spy}
		go server.Serve(tap)
		l := cluster.NewLocator(w.provider(), nil)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		way := &http.Transport{DialContext: n.dial}
		h, err := cluster.NewHandler(nil, l, nil, cluster.HandlerOptions{Identity: identity, Secret: secret, Transport: way,
			Caller: func(*http.Request) string { return "eve" }})
		if err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(new(recorder), request(t, "/rooms/"+there, nil))
		hop := seen.Get("Leasehold-Forward")
		method := http.MethodGet
		send := func(path string, change func(http.Header)) string {
			r := request(t, "http://bob:1"+path, nil)
			r.Method, r.Header, r.RequestURI = method, seen.Clone(), ""
			change(r.Header)
			res, err := bob.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			return strconv.Itoa(res.StatusCode) + " " + string(text)
		}
		if got := send("/rooms/"+there, func(http.Header) {}); got != "200 bob has "+there+": " {
			t.Error(got) // it was forwarded, and is as it was
		}
		payload, proof, _ := strings.Cut(hop, ".")
		for what, got := range map[string]string{
			"no proof":        send("/rooms/"+there, func(h http.Header) { h.Set("Leasehold-Forward", payload+".") }),
			"another payload": send("/rooms/"+there, func(h http.Header) { h.Set("Leasehold-Forward", "e30."+proof) }),
			"another path":    send("/rooms/other", func(http.Header) {}),
			"another address": send("/rooms/"+there, func(h http.Header) { h.Set("X-Forwarded-For", "127.0.0.1") }),
			"two":             send("/rooms/"+there, func(h http.Header) { h.Add("Leasehold-Forward", hop) }),
		} {
			if !strings.HasPrefix(got, "403") {
				t.Errorf("%s: %s", what, got)
			}
		}
		for _, method = range []string{http.MethodPost, http.MethodDelete, http.MethodHead} {
			if got := send("/rooms/"+there, func(http.Header) {}); !strings.HasPrefix(got, "403") {
				t.Errorf("a captured GET as %s: %s", method, got)
			}
		}
		for _, o := range []cluster.HandlerOptions{
			{}, {Identity: identity}, {Identity: identity, Secret: []byte("short")},
			{Identity: identity, Secret: secret, Tries: -1}, {Secret: secret},
		} {
			if _, err := cluster.NewHandler(nil, l, nil, o); err == nil {
				t.Errorf("%+v", o)
			}
		}
		l.Stop()
		_ = server.Close()
		tap.kill()
		ann.close()
		bob.close()
	})
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	_, a.key, _ = ed25519.GenerateKey(rand.Reader)
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
	a.cert = a.sign(a.cert, a.key).Leaf
	return a
}

// sign makes a certificate of it for a key.
func (a *authority) sign(c *x509.Certificate, key ed25519.PrivateKey) tls.Certificate {
	a.t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// of is the certificate of a machine, in an organizational unit.
func (a *authority) of(name, unit string) tls.Certificate {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name, OrganizationalUnit: []string{unit}}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
}

// TestHandlerTrust: with mutual TLS between members, what a member says of a caller is believed, and what others say is
// not: without a certificate, with one that is not a member's, and with one of another authority.
func TestHandlerTrust(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ours := newAuthority(t, "ours")
		roots := x509.NewCertPool()
		roots.AddCert(ours.cert)
		n := w.net()
		n.tls = func(name string) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{ours.of(name, "members")}, RootCAs: roots, ClientCAs: roots,
				ClientAuth: tls.VerifyClientCertIfGiven}
		}
		o := cluster.HandlerOptions{
			Caller: func(r *http.Request) string { return r.Header.Get("User") },
			Trust: func(r *http.Request) bool {
				return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 &&
					slices.Contains(r.TLS.PeerCertificates[0].Subject.OrganizationalUnit, "members")
			},
		}
		ann, bob := w.site(n, "ann", nil, o), w.site(n, "bob", nil, o)
		time.Sleep(3 * time.Second) // both locators have the epoch
		there := bob.at(t, ann.l)
		says := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c, _ := cluster.CallOf(r.Context())
			fmt.Fprintf(rw, "%q by way of %q", c.Caller, c.From)
		})
		bob.inner.Store(&says)
		send := func(to, hop string, certs ...tls.Certificate) string {
			way := &http.Transport{DialContext: n.dial, TLSClientConfig: &tls.Config{RootCAs: roots,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whatever is asked for
					return &append(certs, tls.Certificate{})[0], nil
				}}}
			defer way.CloseIdleConnections()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+to+":1/rooms/"+there, nil)
			r.Header.Set("User", "eve")
			if hop != "" {
				r.Header.Set("Leasehold-Forward", hop)
			}
			res, err := way.RoundTrip(r)
			if err != nil {
				return err.Error()
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			return fmt.Sprint(res.StatusCode, " ", string(text))
		}
		hop := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
			`{"cluster":"acme/chat","to":"bob","incarnation":%d,"kind":"room","id":%q,"caller":"root","from":"ann","nonce":"n"}`, bob.Incarnation(),
			there)) + "."
		for _, c := range []struct{ what, got, want string }{
			{"from outside, to its member", send("bob", ""), `200 "eve" by way of ""`},
			{"from outside, to another one", send("ann", ""), `200 "eve" by way of "ann"`},
			{"of a member", send("bob", hop, ours.of("ann", "members")), `200 "root" by way of "ann"`},
			{"forged, without a certificate", send("bob", hop), "403"},
			{"forged, with the certificate of a user", send("bob", hop, ours.of("ann", "users")), "403"},
		} {
			if !strings.HasPrefix(c.got, c.want) {
				t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
			}
		}
		// TLS ends that connection
		if got := send("bob", hop, newAuthority(t, "other").of("ann", "members")); strings.HasPrefix(got, "200") {
			t.Errorf("forged, with the certificate of another authority: %s", got)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerDeadline: the time that a caller's request has left is that of the request on the other member, too; the
// caller gets 504 then, and the request is tried no more.
func TestHandlerDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann, bob := w.two(cluster.HandlerOptions{})
		there := bob.at(t, ann.l)
		start := time.Now()
		ended, release := make(chan string, 2), make(chan struct{})
		hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			end, ok := r.Context().Deadline()
			ended <- fmt.Sprint(ok, " ", end.Sub(start).Round(time.Millisecond))
			<-release // it sees no context
		})
		bob.inner.Store(&hang)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		res := httptest.NewRecorder()
		ann.server.Handler.ServeHTTP(res, request(t, "/rooms/"+there, nil).WithContext(ctx))
		if res.Code != http.StatusGatewayTimeout || time.Since(start) != 3*time.Second {
			t.Errorf("%d after %v", res.Code, time.Since(start))
		}
		if got := <-ended; got != "true 3s" || bob.calls.Load() != 1 {
			t.Errorf("the member knew of the deadline: %s; it was asked %d times", got, bob.calls.Load())
		}
		close(release)
		ann.close()
		bob.close()
	})
}

// recorder is where a response goes that no one reads.
type recorder struct{ bytes.Buffer }

func (*recorder) Header() http.Header { return http.Header{} }
func (*recorder) WriteHeader(int)     {}

func request(t *testing.T, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "10.0.0.1:1"
	return r
}

// TestHandlerGivesUp: a request that no member serves is tried for as long and as often as the options say. One whose
// identity the host cannot activate is an error at once.
func TestHandlerGivesUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		ann := w.site(n, "ann", func(_ *cluster.Options, h *host) {
			h.activate = func(context.Context, cluster.Activation) error { return errors.New("no disk") }
		}, cluster.HandlerOptions{})
		start := time.Now()
		if got := ann.get(t, "/rooms/a"); !strings.HasPrefix(got, "503") || strings.Contains(got, "disk") ||
			time.Since(start) > time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		front := w.site(n, "front", hostless,
			cluster.HandlerOptions{Wait: 4 * time.Second})
		ann.close()
		start = time.Now()
		if got := front.get(t, "/rooms/a"); !strings.HasPrefix(got, "503") || time.Since(start) != 4*time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		few := w.site(n, "few", hostless,
			cluster.HandlerOptions{Tries: 3})
		start = time.Now()
		if got := few.get(t, "/rooms/a"); !strings.HasPrefix(got, "503") || time.Since(start) > time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		few.close()
		front.close()
	})
}

// way is a Transport.
type way func(*http.Request) (*http.Response, error)

func (w way) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// asMember is a Transport to something that proves that it is a member.
func asMember(w way) way {
	return func(r *http.Request) (*http.Response, error) {
		name, value, ask := cluster.AnswerTo(secret, r)
		res, err := &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, error(nil)
		if !ask {
			res, err = w(r)
		}
		if res != nil {
			res.Header = http.Header{name: {value}}
		}
		return res, err
	}
}

// TestHandlerBody: a body of which a member has read a part is sent again from its beginning, unless more of it was
// read than is kept.
func TestHandlerBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		l, _ := w.locator(nil)
		for most, want := range map[int]string{5: "0123456789", 4: ""} {
			var got string
			tries := 0
			h, err := cluster.NewHandler(nil, l, nil, cluster.HandlerOptions{Identity: identity, Secret: secret, Body: most,
				Transport: asMember(func(r *http.Request) (*http.Response, error) {
					if tries++; tries == 1 {
						_, _ = io.ReadFull(r.Body, make([]byte, 5))
						return nil, &net.OpError{Op: "dial", Err: errNetwork}
					}
					body, err := io.ReadAll(r.Body)
					got = string(body)
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
				})})
			if err != nil {
				t.Fatal(err)
			}
			h.ServeHTTP(new(recorder), request(t, "/rooms/a", strings.NewReader("0123456789")))
			if got != want {
				t.Errorf("with %d bytes that are kept: %q after %d tries, want %q", most, got, tries, want)
			}
		}
		l.Stop()
		w.stop(m)
	})
}

// TestHandlerBodyBeyondWhatIsKept: once more of a body was read than is kept, the request is sent no second time, by
// the handler or by its Transport, and no part of the body is taken for the whole.
func TestHandlerBodyBeyondWhatIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		l, _ := w.locator(nil)
		read := func(r io.Reader) string {
			text, err := io.ReadAll(io.LimitReader(r, 5))
			if err != nil {
				return err.Error()
			}
			return string(text)
		}
		for most, want := range map[int]string{
			5: "01234; again: 01234; opened before: 01234; 2 tries",
			4: "01234; again: none; opened before: the body was sent already, and is too large to be sent again; 1 tries",
		} {
			var got string
			tries := 0
			h, err := cluster.NewHandler(nil, l, nil, cluster.HandlerOptions{Identity: identity, Secret: secret, Body: most,
				Transport: asMember(func(r *http.Request) (*http.Response, error) {
					if tries++; tries == 2 {
						return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
					}
					before, err := r.GetBody()
					if err != nil {
						t.Fatal(err)
					}
					got = read(r.Body) + "; again: "
					if again, err := r.GetBody(); err != nil {
						got += "none"
					} else {
						got += read(again)
					}
					got += "; opened before: " + read(before)
					return nil, &net.OpError{Op: "dial", Err: errNetwork}
				})})
			if err != nil {
				t.Fatal(err)
			}
			h.ServeHTTP(new(recorder), request(t, "/rooms/a", strings.NewReader("0123456789")))
			if got = fmt.Sprintf("%s; %d tries", got, tries); got != want {
				t.Errorf("with %d bytes that are kept: %s, want %s", most, got, want)
			}
		}
		l.Stop()
		w.stop(m)
	})
}

// TestServeAfterALoss (PLC-LIFE-3): a member that drains, is stopped or has lost its lease says of every identity that
// it is not here.
func TestServeAfterALoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		check := func(m joined, want error) {
			t.Helper()
			_, err := m.Serve(t.Context(), room("a"), nil)
			if _, ok := errors.AsType[*cluster.NotHereError](err); !ok || !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		m := w.member("ann", nil)
		check(m, cluster.ErrNotRunning)
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Error(err)
		}
		w.freeze(11 * time.Second)
		check(m, cluster.ErrNotReady)
		time.Sleep(20 * time.Second) // it has joined again
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		check(m, cluster.ErrDraining)
		w.stop(m)
		check(m, cluster.ErrNotRunning)
		synctest.Wait()
	})
}
