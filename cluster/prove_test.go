package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// stranger is an ordinary web server, which answers everything, and has recorded the answer to another hop.
type stranger struct {
	recorded string
	mu       sync.Mutex
	asked    int      // without anything of a caller's
	caught   []string // of callers
}

func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	if got := r.Header.Get("Cookie") + r.Header.Get("Authorization") + string(body); got != "" {
		s.caught = append(s.caught, got)
	} else {
		s.asked++
	}
	s.mu.Unlock()
	w.Header().Set("Set-Cookie", "stranger=1")
	w.Header().Set("Leasehold-Answer", s.recorded)
	w.WriteHeader(http.StatusEarlyHints)
	fmt.Fprint(w, "a page")
}

func (s *stranger) saw() (asked int, caught string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, strings.Join(s.caught, ", ")
}

// instead has something else answer at the address of a member, whose process dies.
func (s *site) instead(n *wires, h http.Handler) (stop func()) {
	s.p.set(func(string) (error, bool) { return errNetwork, false })
	s.end.kill()
	end, server := n.listen(s.name()+":1"), &http.Server{Handler: h}
	go server.Serve(end)
	return func() {
		_ = server.Close()
		end.kill()
	}
}

// asks sends a request with a cookie, a token and a body, and returns what comes of it: the response, and interim ones.
func (s *site) asks(t *testing.T, method, path string) (got string, header http.Header, interim []string) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, header))
			return nil
		},
	})
	r, _ := http.NewRequestWithContext(ctx, method, "http://"+s.name()+":1"+path, strings.NewReader("body"))
	r.Header.Set("Cookie", "session=secret")
	r.Header.Set("Authorization", "Bearer secret")
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(body)), res.Header, interim
}

// twoOn are two members, and their network.
func (w *world) twoOn() (n *wires, ann, bob *site) {
	n = w.net()
	o := cluster.HandlerOptions{}
	ann, bob = w.site(n, "ann", nil, o), w.site(n, "bob", nil, o)
	time.Sleep(3 * time.Second) // both locators have the epoch
	return n, ann, bob
}

// TestHandlerWebServerAtTheAddress: a web server has the address of a member that died. Nothing of its response reaches
// a caller, and it gets nothing of a request: that is served by the next member. If the member has responded in the
// last two seconds, the request reaches the web server, and what may not be sent twice is an error.
func TestHandlerWebServerAtTheAddress(t *testing.T) {
	for _, c := range []struct {
		method string
		lately bool
		want   string
	}{
		{http.MethodGet, false, "200 ann"}, {http.MethodPost, false, "200 ann"},
		{http.MethodGet, true, "200 ann"}, {http.MethodPost, true, "502"},
	} {
		t.Run(fmt.Sprint(c.method, c.lately), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				n, ann, bob := w.twoOn()
				there := bob.at(t, ann.l)
				if got := ann.get(t, "/rooms/"+there); !strings.HasPrefix(got, "200 bob") {
					t.Fatal(got)
				}
				if !c.lately {
					time.Sleep(3 * time.Second)
				}
				before := request(t, "/rooms/"+there, nil)
				cluster.SignHop(secret, before, "acme/chat", "bob", bob.Incarnation(), room(there))
				_, recorded, _ := cluster.AnswerTo(secret, before)
				other := &stranger{recorded: recorded}
				stop := bob.instead(n, other)
				start := time.Now()
				got, header, interim := ann.asks(t, c.method, "/rooms/"+there)
				if !strings.HasPrefix(got, c.want) || len(interim) > 0 ||
					header.Get("Set-Cookie")+header.Get("Leasehold-Answer") != "" {
					t.Errorf("%s, %v, %v", got, header, interim)
				}
				asked, caught := other.saw()
				if (caught == "") == c.lately || asked == 0 && !c.lately || asked > 30 {
					t.Errorf("it was asked %d times, and caught %q", asked, caught)
				}
				if took := time.Since(start); took > 12*time.Second {
					t.Errorf("after %v", took)
				}
				unproven := 0
				for _, e := range ann.events.has(cluster.Forwarded) {
					if errors.Is(e.Err, cluster.ErrNotProven) {
						unproven++
					}
				}
				if unproven == 0 || unproven > 30 {
					t.Errorf("%d events", unproven)
				}
				stop()
				ann.close()
				bob.p.set(nil)
				bob.close()
			})
		})
	}
}

// TestHandlerMemberOfAnotherCluster: at the address of a member that died is a member of its name, of another cluster or
// tenant, with the same secret, and even the same incarnation. It serves nothing, and gets nothing.
func TestHandlerMemberOfAnotherCluster(t *testing.T) {
	for _, other := range []placement.Cluster{{Tenant: "acme", Name: "other"}, {Tenant: "evil", Name: "chat"}} {
		t.Run(other.Tenant+other.Name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				p := direct.Cluster(w.service, other)
				h := &host{w: w, name: "other", contexts: map[cluster.Identity]context.Context{}}
				m, err := cluster.NewMember(p, "bob", h, (cluster.Options{Kinds: []string{"room"}, Address: "bob:1",
					Partitions: 16}).WithClock(w.now))
				if err != nil {
					t.Fatal(err)
				}
				n, ann, bob := w.twoOn() // no time passes between the joins of a bubble
				there := bob.at(t, ann.l)
				first := bob.Incarnation()
				if err := m.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				l := cluster.NewLocator(p, nil)
				if err := l.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				var caught atomic.Int64
				strange, err := cluster.NewHandler(m, l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					caught.Add(1)
				}), cluster.HandlerOptions{Identity: identity, Secret: secret})
				if err != nil {
					t.Fatal(err)
				}
				res := httptest.NewRecorder()
				r := request(t, "/rooms/"+there, nil) // a hop of this cluster, for its incarnation
				cluster.SignHop(secret, r, "acme/chat", "bob", m.Incarnation(), cluster.Identity{Kind: "room", ID: there})
				strange.ServeHTTP(res, r)
				if res.Code != http.StatusMisdirectedRequest || caught.Load() != 0 {
					t.Errorf("a hop of another cluster: %d", res.Code)
				}
				if got := ann.get(t, "/rooms/"+there); !strings.HasPrefix(got, "200 bob") || first == 0 {
					t.Fatal(got)
				}
				time.Sleep(3 * time.Second)
				stop := bob.instead(n, strange)
				got, _, _ := ann.asks(t, http.MethodPost, "/rooms/"+there)
				if !strings.HasPrefix(got, "200 ann") || caught.Load() != 0 {
					t.Errorf("%s; %d were served by a stranger", got, caught.Load())
				}
				stop()
				l.Stop()
				_ = m.Stop(t.Context())
				ann.close()
				bob.p.set(nil)
				bob.close()
			})
		})
	}
}

// TestHandlerSecretsThatDiffer: members with different secrets serve nothing for each other, nothing of a caller is
// sent, and each side has an event that says why.
func TestHandlerSecretsThatDiffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.net()
		ann := w.site(n, "ann", nil, cluster.HandlerOptions{Wait: 3 * time.Second})
		bob := w.site(n, "bob", nil, cluster.HandlerOptions{Wait: 3 * time.Second,
			Secret: []byte("another one, of more than 32 bytes")})
		time.Sleep(3 * time.Second)
		there := bob.at(t, ann.l)
		if got, header, _ := ann.asks(t, http.MethodPost, "/rooms/"+there); !strings.HasPrefix(got, "503") ||
			bob.calls.Load() != 0 || header.Get("Leasehold-Answer") != "" {
			t.Errorf("%s %v; %d served", got, header, bob.calls.Load())
		}
		said := func(events []cluster.Event, names string) bool {
			for _, e := range events {
				if e.Err != nil && strings.Contains(e.Err.Error(), "Secret differs") && strings.Contains(e.Err.Error(), names) {
					return true
				}
			}
			return false
		}
		if e := bob.events.has(cluster.RequestFailed); !said(e, "ann") {
			t.Errorf("the one that was asked: %+v", e)
		}
		if e := ann.events.has(cluster.Forwarded); !said(e, "bob") {
			t.Errorf("the one that asked: %+v", e)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerAsksOnce: a member is asked whether it is there once for all requests that come together, not while it
// serves requests, and again after it served none for some time.
func TestHandlerAsksOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, ann, bob := w.twoOn()
		there := bob.at(t, ann.l)
		var asks atomic.Int64
		inner := bob.server.Handler
		bob.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				asks.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
			inner.ServeHTTP(rw, r)
		})
		var work sync.WaitGroup
		for range 50 {
			work.Go(func() {
				if got := ann.send(t, http.MethodPost, "/rooms/"+there, nil); !strings.HasPrefix(got, "200") {
					t.Error(got)
				}
			})
		}
		work.Wait()
		if n := asks.Load(); n != 1 {
			t.Errorf("50 requests at once asked %d times", n)
		}
		for range 60 {
			time.Sleep(time.Second)
			ann.get(t, "/rooms/"+there)
		}
		if n := asks.Load(); n != 1 {
			t.Errorf("a request in each second asked %d times", n)
		}
		time.Sleep(10 * time.Second)
		ann.get(t, "/rooms/"+there)
		if n := asks.Load(); n != 2 {
			t.Errorf("after a pause: asked %d times", n)
		}
		ann.close()
		bob.close()
	})
}

// TestHandlerProofOfAnyResponse: what a handler does with its response, the proof is on it, and the caller does not see
// it: also on interim responses, of handlers that clear headers, write nothing, or take the connection over.
func TestHandlerProofOfAnyResponse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, ann, bob := w.twoOn()
		there := bob.at(t, ann.l)
		bob.serves(func(rw http.ResponseWriter, r *http.Request) {
			clear(rw.Header())
			rw.Header().Set("Leasehold-Answer", "mine")
			switch r.URL.RawQuery {
			case "hints":
				rw.Header().Set("Link", "</style>")
				rw.WriteHeader(http.StatusEarlyHints)
				fmt.Fprint(rw, "text")
			case "flush":
				_ = http.NewResponseController(rw).Flush()
				fmt.Fprint(rw, "text")
			case "file":
				_, _ = rw.(io.ReaderFrom).ReadFrom(strings.NewReader("text"))
			case "status":
				rw.WriteHeader(http.StatusTeapot)
			}
		})
		for query, want := range map[string]string{"hints": "200 text", "flush": "200 text", "file": "200 text",
			"status": "418 ", "nothing": "200 "} {
			got, header, interim := ann.asks(t, http.MethodPost, "/rooms/"+there+"?"+query)
			if got != want || header.Get("Leasehold-Answer") != "" {
				t.Errorf("%s: %s %v", query, got, header)
			}
			if query == "hints" && (len(interim) != 1 || !strings.Contains(interim[0], "103") ||
				!strings.Contains(interim[0], "/style") || strings.Contains(interim[0], "Leasehold")) {
				t.Errorf("%v", interim)
			}
		}
		for _, write := range []func(io.Writer, http.ResponseWriter){
			func(c io.Writer, _ http.ResponseWriter) { // in pieces
				for _, b := range "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" {
					fmt.Fprint(c, string(b))
				}
			},
			func(_ io.Writer, rw http.ResponseWriter) {
				rw.Header().Set("Connection", "Upgrade")
				rw.Header().Set("Upgrade", "echo")
				rw.WriteHeader(http.StatusSwitchingProtocols)
			},
		} {
			bob.serves(func(rw http.ResponseWriter, _ *http.Request) {
				before := func(c io.Writer) { write(c, rw) }
				if write(io.Discard, rw); rw.Header().Get("Upgrade") != "" { // it is written before
					before = func(io.Writer) {}
				}
				conn, both, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				before(both)
				_ = both.Flush()
				line, _ := both.ReadString('\n')
				_, _ = io.WriteString(conn, "echo "+line)
			})
			conn, lines := ann.upgrade(t, there)
			fmt.Fprintln(conn, "two")
			if line, err := lines.ReadString('\n'); line != "echo two\n" {
				t.Errorf("%q, %v", line, err)
			}
			_ = conn.Close()
			synctest.Wait()
		}
		ann.close()
		bob.close()
	})
}
