package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// pipes is a network in memory, for a bubble. Its connections hold no byte: what is not read is not sent.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
	case <-p.done:
		_ = there.Close()
	}
	return here
}

// piped is a server with all bounds that `leasehold serve` has, a store that takes 5 ms for each request, and what is
// between it and its clients: nothing, or a proxy that passes on bodies as they come.
type piped struct {
	t       *testing.T
	store   docstore.Store
	network *pipes // of the clients
	closers []func()
	quiet   *http.Client
	tls     bool
}

const slowStore = 5 * time.Millisecond

func servePiped(t *testing.T, behindProxy, withTLS bool) *piped {
	t.Helper()
	s := &piped{t: t, store: docstore.NewMemory(nil), network: newPipes(), tls: withTLS}
	fillLocks(t, s.store, 1) // of the tenant acme, with more than 16 KB of metadata
	h := httpapi.New(slowStoreOf{s.store}, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{
		Concurrent: 256, Lists: 4, BodyBytes: httpapi.DefaultBodyBytes, PageBytes: httpapi.DefaultPageBytes,
	}})
	server := httpapi.Server(h, slog.New(slog.DiscardHandler), httpapi.MaxConnections)
	if withTLS {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate(t)}}
		go func() { _ = server.ServeTLS(s.network, "", "") }()
	} else {
		front := s.network
		if behindProxy {
			back := newPipes()
			s.closers = append(s.closers, s.proxy(back))
			front = back
		}
		go func() { _ = server.Serve(front) }()
	}
	s.closers = append(s.closers, func() { _ = server.Close() })
	transport := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return s.network.dial(), nil },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, // #nosec G402 -- of the test
		MaxIdleConnsPerHost: 100,
	}
	s.quiet = &http.Client{Transport: transport}
	s.closers = append([]func(){transport.CloseIdleConnections}, s.closers...)
	return s
}

// proxy is one that streams, in front of the server.
func (s *piped) proxy(back *pipes) (closeIt func()) {
	to, _ := url.Parse("http://backend")
	proxy := httputil.NewSingleHostReverseProxy(to)
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return back.dial(), nil },
	}
	proxy.Transport, proxy.ErrorLog = transport, slog.NewLogLogger(slog.DiscardHandler, 0)
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute, ErrorLog: proxy.ErrorLog}
	go func() { _ = server.Serve(s.network) }()
	return func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	}
}

func (s *piped) close() {
	for _, end := range s.closers {
		end()
	}
	_ = s.network.Close()
	time.Sleep(time.Second) // a server lingers on connections that it closes
	synctest.Wait()
}

// dial is a connection of a client that speaks HTTP by itself.
func (s *piped) dial() net.Conn {
	c := s.network.dial()
	if s.tls {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // #nosec G402 -- of the test
	}
	s.closers = append([]func(){func() { _ = c.Close() }}, s.closers...)
	return c
}

// asQuiet sends twenty acquires and twenty reads of another tenant. All are served, and none takes longer than twice as
// long as without anyone else.
func (s *piped) asQuiet(who, when string) {
	s.t.Helper()
	_, tenant, _ := strings.Cut(who, "@")
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	for i := range 40 {
		method, path, body := "POST", fmt.Sprint("/acquire-", i, "/acquire"), `{"request_id":"r1","ttl_seconds":60}`
		want := http.StatusOK
		if i%2 == 1 {
			method, path, body, want = "GET", "/none", "", http.StatusNotFound
		}
		r, err := http.NewRequestWithContext(s.t.Context(), method, scheme+"://server/v1/tenants/"+tenant+"/locks"+path,
			strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		r.Header.Set("Authorization", who)
		begin := time.Now()
		response, err := s.quiet.Do(r)
		if err != nil {
			s.t.Fatalf("%s: %v", when, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if took := time.Since(begin); response.StatusCode != want || took > 2*slowStore {
			s.t.Errorf("%s: request %d of %s: %d after %v", when, i, who, response.StatusCode, took)
		}
	}
}

// slowStoreOf is a store of which each request takes 5 ms, of a bubble's time.
type slowStoreOf struct{ docstore.Store }

func (s slowStoreOf) Write(ctx context.Context, ws ...docstore.Write) (docstore.Result, error) {
	time.Sleep(slowStore)
	return s.Store.Write(ctx, ws...)
}

func (s slowStoreOf) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(slowStore)
	return s.Store.Get(ctx, keys...)
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"server"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write sends a text, and does not wait for longer than the server reads.
func write(c net.Conn, text string) { go func() { _, _ = io.WriteString(c, text) }() }

// statuses reads the statuses of the responses of connections, each until its end.
func statuses(conns []net.Conn) func() map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[int]int{}
	for _, c := range conns {
		all.Go(func() {
			status := 0 // closed without a response
			if response, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				status = response.StatusCode
				_ = response.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	return func() map[int]int {
		all.Wait()
		return got
	}
}

// noisyPost is the head of a request with a body of a hundred bytes.
func noisyPost(method, path, who string) string {
	return fmt.Sprintf("%s /v1/tenants/noisy/%s HTTP/1.1\r\nHost: server\r\nAuthorization: %s\r\nContent-Length: 100\r\n\r\n{",
		method, path, who)
}

// TestBodiesThatDoNotArrive: hundreds of connections on which one byte of a body arrives keep no one waiting: not another
// tenant, nor another subject of the same. They are told so after 5 s, and nothing was done for them; those beyond the
// share of their subject sooner. It is the same behind a proxy that passes on bodies as they come, and for endpoints that
// want no body. Callers who are not known are told so at once.
func TestBodiesThatDoNotArrive(t *testing.T) {
	for _, behindProxy := range []bool{false, true} {
		for _, c := range []struct {
			name, method, path, who string
			n                       int
			want                    map[int]int
		}{
			{"acquires", "POST", "locks/k/acquire", "ann@noisy", 300, map[int]int{408: 300}},
			{"more than a subject may have", "POST", "locks/k/acquire", "ann@noisy", 600, map[int]int{408: 512, 503: 88}},
			{"runs", "POST", "runs/k/begin", "ann@noisy", 300, map[int]int{408: 300}},
			{"reads with a body", "GET", "locks/k", "ann@noisy", 300, map[int]int{404: 300}},
			{"lists with a body", "GET", "locks", "ann@noisy", 300, map[int]int{200: 300}},
			{"no token", "POST", "locks/k/acquire", "none", 300, map[int]int{401: 300}},
			{"another tenant's", "POST", "locks/k/acquire", "ann@other", 300, map[int]int{403: 300}},
		} {
			if behindProxy && c.want[408] != c.n {
				continue // the proxy responds while it reads a body, which holds a mutex, and no bubble gets over that
			}
			t.Run(fmt.Sprint(c.name, " ", behindProxy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := servePiped(t, behindProxy, false)
					defer s.close()
					s.asQuiet("bob@quiet", "alone")
					conns := make([]net.Conn, c.n)
					for i := range conns {
						conns[i] = s.dial()
						write(conns[i], noisyPost(c.method, c.path, c.who))
					}
					got := statuses(conns)
					synctest.Wait()
					s.asQuiet("bob@quiet", "beside the first")
					s.asQuiet("bob@noisy", "beside the first")
					time.Sleep(time.Second) // what finds no room has been told so
					s.asQuiet("bob@quiet", "beside those that have room")
					if behindProxy {
						for _, c := range conns {
							_ = c.Close()
						}
						got()
					} else {
						g := got()
						if c.path == "locks" { // how many lists are too many depends on how they come
							g[200] += g[503]
							delete(g, 503)
						}
						if !maps.Equal(g, c.want) {
							t.Errorf("got %v, want %v", g, c.want)
						}
					}
					s.asQuiet("bob@quiet", "afterwards")
					if d, err := s.store.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "noisy", ID: "k"}); err != nil ||
						d.Docs[0] != nil {
						t.Errorf("something was done: %+v %v", d, err)
					}
				})
			})
		}
	}
}

// h2 is a connection of HTTP/2 that sends what it wants, and reads what comes only if it wants.
type h2 struct {
	*http2.Framer

	conn net.Conn
	mu   sync.Mutex // of what is written
	head bytes.Buffer
	next uint32
	enc  *hpack.Encoder
}

func (s *piped) h2(window uint32) *h2 {
	s.t.Helper()
	c := s.dial()
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	h := &h2{Framer: http2.NewFramer(c, c), conn: c, next: 1}
	h.enc = hpack.NewEncoder(&h.head)
	if err := h.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// send sends a request, and a part of its body if it has one.
func (h *h2) send(method, path, who, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head.Reset()
	for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "server"},
		{":path", "/v1/tenants/" + path}, {"authorization", who}} {
		_ = h.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if body != "" {
		_ = h.enc.WriteField(hpack.HeaderField{Name: "content-length", Value: "100"})
	}
	_ = h.WriteHeaders(http2.HeadersFrameParam{StreamID: h.next, BlockFragment: h.head.Bytes(), EndHeaders: true,
		EndStream: body == ""})
	if body != "" {
		_ = h.WriteData(h.next, false, []byte(body))
	}
	h.next += 2
}

// read reads what comes until the connection ends, and counts the statuses.
func (h *h2) read() func() map[string]int {
	got, done := map[string]int{}, make(chan struct{})
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go func() {
		defer close(done)
		for {
			f, err := h.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				got[f.PseudoValue("status")]++
			case *http2.SettingsFrame:
				if !f.IsAck() {
					go func() {
						h.mu.Lock()
						defer h.mu.Unlock()
						_ = h.WriteSettingsAck()
					}()
				}
			}
		}
	}()
	return func() map[string]int {
		_ = h.conn.Close()
		<-done
		return got
	}
}

// TestStreamsOfHTTP2: two connections with 200 requests each, of which a byte of the body arrives; and whose windows are
// closed, so that nothing of a response can be sent; and a connection that is not read at all: other tenants are served
// as without them.
func TestStreamsOfHTTP2(t *testing.T) {
	for name, c := range map[string]struct {
		window         uint32
		path, body     string
		method, status string
		unread         bool // nothing is read of what the server sends
	}{
		"unfinished bodies":        {1 << 16, "noisy/locks/k/acquire", "{", "POST", "408", false},
		"windows of 0":             {0, "acme/locks/k000", "", "GET", "200", false},
		"lists in windows of 0":    {0, "acme/locks", "", "GET", "200", false},
		"connections not read":     {1 << 16, "acme/locks/k000", "", "GET", "", true},
		"lists that are not read":  {1 << 16, "acme/locks", "", "GET", "", true},
		"bodies in windows of 0":   {0, "noisy/locks/k/acquire", "{", "POST", "408", false},
		"no token, no end, no end": {0, "noisy/locks/k/acquire", "{", "POST", "401", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := servePiped(t, false, true)
				defer s.close()
				s.asQuiet("bob@quiet", "alone")
				var got []func() map[string]int
				for range 2 {
					h := s.h2(c.window)
					if !c.unread {
						got = append(got, h.read())
					} else if _, err := h.ReadFrame(); err != nil {
						t.Fatal(err)
					}
					tenant, _, _ := strings.Cut(c.path, "/")
					who := "ann@" + tenant
					if c.status == "401" {
						who = "none"
					}
					go func() {
						for range 200 {
							h.send(c.method, c.path, who, c.body)
						}
					}()
				}
				synctest.Wait()
				time.Sleep(20 * time.Millisecond)
				s.asQuiet("bob@quiet", "beside them")
				s.asQuiet("bob@acme", "beside them")
				time.Sleep(10 * time.Second) // bodies have been given up
				s.asQuiet("bob@quiet", "later")
				served := 0
				for _, read := range got {
					g := read()
					if g[c.status]+g["503"] != 200 {
						t.Errorf("responses: %v, want 200 times %s, or 503", g, c.status)
					}
					served += g[c.status]
				}
				// Two hundred more than a subject's share of slots, and all that may wait, are too many. Of lists 64 wait.
				least := 200
				if c.path == "acme/locks" {
					least = 64
				}
				if !c.unread && served < least {
					t.Errorf("%d of 400 responses are %s, want %d at least", served, c.status, least)
				}
			})
		})
	}
}

// TestResponsesThatAreNotRead: hundreds of connections on which nothing of a response is read, or not even the rest of
// several, keep no one waiting.
func TestResponsesThatAreNotRead(t *testing.T) {
	for name, path := range map[string]string{"a lock": "locks/k000", "a list": "locks", "the topology": "clusters/chat/topology"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := servePiped(t, false, false)
				defer s.close()
				s.asQuiet("bob@quiet", "alone")
				for range 300 {
					write(s.dial(), strings.Repeat("GET /v1/tenants/acme/"+path+
						" HTTP/1.1\r\nHost: server\r\nAuthorization: ann@acme\r\n\r\n", 4))
				}
				synctest.Wait()
				time.Sleep(20 * time.Millisecond)
				s.asQuiet("bob@quiet", "beside them")
				s.asQuiet("bob@acme", "beside them")
				time.Sleep(time.Minute) // their connections have been closed
				s.asQuiet("ann@acme", "afterwards")
			})
		})
	}
}

// TestConnectionThatIsNotRead: a connection of HTTP/2 that takes no byte ends, and with it all its requests. Without
// that they would have their memory for ever.
func TestConnectionThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := servePiped(t, false, true)
		defer s.close()
		h := s.h2(1 << 16)
		if _, err := h.ReadFrame(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			h.send("GET", "acme/locks/k000", "ann@acme", "")
		}
		time.Sleep(40 * time.Second) // TLS tries for 5 s to say goodbye
		if err := h.WriteData(1, true, make([]byte, 1<<10)); err == nil {
			t.Error("the connection is open")
		}
	})
}

// TestShareOfAConnection: one connection of HTTP/2, as of a proxy, has as many requests under way as one subject's share;
// another subject, and another tenant, has room beside them.
func TestShareOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := servePiped(t, false, true)
		defer s.close()
		h := s.h2(1 << 16)
		read := h.read()
		for range 520 { // each is read, and waits for the rest of its body
			h.send("POST", "noisy/locks/k/acquire", "ann@noisy", "{")
		}
		for _, who := range []string{"bob@noisy", "bob@quiet"} {
			_, tenant, _ := strings.Cut(who, "@")
			for range 10 {
				h.send("GET", tenant+"/locks/k", who, "")
			}
		}
		time.Sleep(time.Second)
		if g := read(); g["404"] != 20 || g["503"] != 20 {
			t.Errorf("%v: want 20 of the others, and 20 of one subject that are too many", g)
		}
	})
}

// TestBodiesThatAreWrong: bodies that come in a byte a second, that end early, that lie about their length or are too
// long are refused, or their connection is closed, and nothing was done. A connection is used again after a request
// whose body was not wanted, if that arrives at once.
func TestBodiesThatAreWrong(t *testing.T) {
	const body = `{"request_id":"r1","ttl_seconds":60}`
	head := func(method, path, who, more string) string {
		return method + " /v1/tenants/noisy/locks/k" + path + " HTTP/1.1\r\nHost: server\r\nAuthorization: " + who + "\r\n" +
			more + "\r\n"
	}
	for name, c := range map[string]struct {
		send  []string // a second after the other
		want  string
		again string // what the next request on the connection is told; empty if the connection has ended
	}{
		"a byte a second":      {append([]string{head("POST", "/acquire", "ann@noisy", "Content-Length: 36\r\n")}, strings.Split(body, "")...), "408", ""},
		"a chunk a second":     {[]string{head("POST", "/acquire", "ann@noisy", "Transfer-Encoding: chunked\r\n"), "1\r\n{\r\n", "1\r\n \r\n", "1\r\n \r\n", "1\r\n \r\n", "1\r\n \r\n", "1\r\n \r\n"}, "408", ""},
		"no chunk":             {[]string{head("POST", "/acquire", "ann@noisy", "Transfer-Encoding: chunked\r\n") + "zz\r\n"}, "400", ""},
		"shorter than it says": {[]string{head("POST", "/acquire", "ann@noisy", "Content-Length: 99\r\n") + body}, "408", ""},
		"longer than it says":  {[]string{head("POST", "/acquire", "ann@noisy", "Content-Length: 35\r\n") + body}, "400", "400"},
		"it says too much":     {[]string{head("POST", "/acquire", "ann@noisy", "Content-Length: 99999999\r\n") + body}, "413", ""},
		"too much in chunks":   {[]string{head("POST", "/acquire", "ann@noisy", "Transfer-Encoding: chunked\r\n") + "11000\r\n" + strings.Repeat(" ", 0x11000) + "\r\n0\r\n\r\n"}, "413", "404"},
		"two lengths":          {[]string{head("POST", "/acquire", "ann@noisy", "Content-Length: 36\r\nContent-Length: 35\r\n") + body}, "400", ""},
		"expected":             {[]string{head("POST", "/acquire", "none", "Content-Length: 36\r\nExpect: 100-continue\r\n")}, "401", ""},
		"unknown, and whole":   {[]string{head("POST", "/acquire", "none", "Content-Length: 36\r\n") + body}, "401", "404"},
		"unknown, not whole":   {[]string{head("POST", "/acquire", "none", "Content-Length: 36\r\n")}, "401", ""},
		"a read with a body":   {[]string{head("GET", "", "ann@noisy", "Content-Length: 36\r\n") + body}, "404", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := servePiped(t, false, false)
				defer s.close()
				conn := s.dial()
				var sending sync.WaitGroup
				defer sending.Wait()
				defer func() { _ = conn.Close() }()
				sending.Go(func() {
					for _, part := range c.send {
						if _, err := io.WriteString(conn, part); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
				reader := bufio.NewReader(conn)
				response, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				said, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if got := response.Status[:3]; got != c.want {
					t.Errorf("%s, want %s: %s", response.Status, c.want, said)
				}
				if took := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); took > 6*time.Second {
					t.Errorf("after %v", took)
				}
				again := ""
				if write(conn, head("GET", "", "ann@noisy", "")); !response.Close {
					if next, err := http.ReadResponse(reader, nil); err == nil {
						again = next.Status[:3]
						_ = next.Body.Close()
					}
				}
				if again != c.again {
					t.Errorf("the next request: %q, want %q", again, c.again)
				}
				if d, err := s.store.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "noisy", ID: "k"}); err != nil ||
					d.Docs[0] != nil {
					t.Errorf("something was done: %+v %v", d, err)
				}
			})
		})
	}
}

// TestARouteReadsItsBodyByItself: what a route has read to its end is not waited for again. Its caller is not taken for
// gone a second after its first line, as long as it streams.
func TestARouteReadsItsBodyByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{Routes: []httpapi.Route{{
			Method: http.MethodPost, Path: "/lines", Timeout: time.Minute,
			Do: func(w http.ResponseWriter, r *http.Request) error {
				if _, err := io.ReadAll(r.Body); err != nil {
					return err
				}
				for n := range 5 {
					if _, err := fmt.Fprintln(w, n, r.Context().Err()); err != nil {
						return err
					}
					if err := http.NewResponseController(w).Flush(); err != nil {
						return err
					}
					time.Sleep(time.Second)
				}
				return nil
			},
		}}})
		server := httpapi.Server(h, slog.New(slog.DiscardHandler), 1)
		go func() { _ = server.Serve(network) }()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return network.dial(), nil
		}}
		a, err := (&http.Client{Transport: transport}).Post("http://127.0.0.1:8080/lines", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		if want := "0 <nil>\n1 <nil>\n2 <nil>\n3 <nil>\n4 <nil>\n"; err != nil || string(text) != want {
			t.Errorf("got %q, %v", text, err)
		}
		_ = a.Body.Close()
		transport.CloseIdleConnections()
		_ = server.Close()
		_ = network.Close()
	})
}
