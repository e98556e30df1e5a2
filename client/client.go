// Package client is the Go client of a Leasehold server over HTTP: locks, the run-once gate of analyses, and machine
// IDs. It needs the standard library and the libraries of this module only.
//
// Hold a lock while I work:
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	l, err := c.Locks("default", nil)
//	err = l.Do(ctx, "deploy-prod", nil, func(ctx context.Context, lock *locks.Lock) error {
//		return deploy(ctx, lock.Token()) // ctx ends before another can have the lock
//	})
//
// Run this once and give me its result, or IDs:
//
//	receipt, err := once.Do(ctx, c.Runs("default"), "order-1024", order, charge, nil)
//	ids, err := kazahana.New(c.MachineIDs(), nil) // then ids.NextID(ctx)
//
// [Client.LockAPI] and the others send single requests; [Client.Locks] and the packages once and kazahana keep what
// they get.
//
// # Errors
//
// What the server rejects is a [*contracts.Error]: errors.Is matches its code, errors.As gives the rest. Where there
// was no usable response, it matches [contracts.ErrNoResponse] or [contracts.ErrInvalidResponse].
//
// # Retries
//
// A request whose response was lost, or that the server could not complete (UNAVAILABLE, DEADLINE_EXCEEDED), is sent
// again with the same request_id until the context ends or the tries are used up, and not before the time that the
// server asks for, or a proxy before it; if that is longer than 10 s, it is not sent again ([contracts.RetryAfter]).
// A try waits 2 s for its response, those that follow it 4 s, 8 s and 15 s, beside what the server is asked to wait.
// A call whose context has no deadline ends after 5 s, and what the server is asked to wait.
// While the server has never answered, a connection that cannot be made, and what another server answers, are an error
// after three tries of a request, within a second: its address may be wrong.
// Retries are idempotent: a command takes effect once. [MachineIDs] sends each request once, because the generator of
// IDs retries by itself. A lock command that ends without a response all the same is an [UnknownOutcomeError], which
// names its request_id.
//
// # Ends
//
// Each try of a request that grants something says in not_after until when it may: 2 s after the client has stopped to
// wait for the response, or the caller's context ends, in the time of the server. So what comes late, from a proxy or a
// server that was stopped, obtains nothing. The machine's own clock need not be right: the client learns the server's
// time from the header Date of responses, and from a refusal, which is answered by sending the same request once more.
// A caller that sets NotAfter keeps it, and the error TOO_LATE is the caller's then.
//
// A command with GiveUp gives up the request with its RequestID and returns the zero value, and no error, once nothing
// of it is left: see [LockAPI.Abandon].
package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/internal/bearer"
	"github.com/leasehold-dev/leasehold/internal/ends"
)

// Client is a connection to one server. It may be used by several goroutines at once.
type Client struct {
	base  string
	name  string // the base in errors, without its password
	http  *http.Client
	token *bearer.Source // nil: requests have none
	tries int
	wait  time.Duration // that the server is asked for
	ends  *ends.Clock   // of the server
	met   *atomic.Bool  // the server has answered
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// HTTP sends the requests; nil means a client that keeps up to 256 connections to a server open for the next requests;
	// that of net/http keeps two. Its Timeout bounds tries beside the times that are said above. Redirects are not
	// followed, whatever it says. After a try without a response its idle connections are closed, so that the next one
	// makes a new connection. One of HTTP/2 is not idle while other requests use it: a transport with a SendPingTimeout
	// finds out that it is dead.
	HTTP *http.Client

	// Token returns the bearer token of a request; nil sends none, which a server in development mode accepts. With a
	// token the base URL must begin with https://, unless it is this machine's own. It is called for each request, and
	// again when the server has rejected the token ([Rejected]): if it returns another one then, the same request is sent
	// with that, of which there are three at most. Only what becomes of the last one is the caller's.
	//
	// One call at a time is under way: requests that come meanwhile share it, and wait for it no longer than for a
	// response. So its context, which ends after a minute, has no values of a request: whose token is wanted, the client
	// says. With an error the request was not sent. It is the error of a single request at once, and of a lock or a run
	// after three tries, within a second, while the server has never answered; later it is tried again like a connection
	// that is refused.
	Token func(context.Context) (string, error)

	// Tries is how often a request is sent at most while no response arrives; 0 means 4. Before a retry the client waits a
	// random time of up to 200 ms, 400 ms, 800 ms and so on, 10 s at most.
	Tries int
}

// New returns a client of the server at a base URL such as "http://127.0.0.1:8080". Options may be nil.
func New(baseURL string, o *Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(baseURL, "?#") {
		return nil, fmt.Errorf("server%s: must be a URL like http://127.0.0.1:8080", quoted(baseURL))
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), name: strings.TrimRight(u.Redacted(), "/"),
		http: &http.Client{Timeout: 15 * time.Second, Transport: transport()}, tries: 4, ends: &ends.Clock{},
		met: &atomic.Bool{}}
	if u.Scheme == "http" && !loopback(u.Hostname()) && (u.User != nil || o != nil && o.Token != nil) {
		return nil, fmt.Errorf("server %q: a token or a password must not travel over plain http: use https:// "+
			"(http:// with credentials is accepted only for this machine itself)", u.Redacted())
	}
	if o != nil {
		if o.Token != nil {
			c.token = bearer.New(o.Token)
		}
		if o.HTTP != nil {
			own := *o.HTTP
			c.http = &own
		}
		if o.Tries > 0 {
			c.tries = o.Tries
		}
	}
	// A redirect could take the token away from TLS, and turns a POST into a GET.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// deadTime is how long nothing came on a connection of HTTP/2 before it is asked whether it lives, and how long it has
// for the answer.
const deadTime = 3 * time.Second

// maxIdle is how many connections to a server stay open while no request needs them, for a minute and a half.
const maxIdle = 256

// networks are those of clients, by the transport of net/http of which they were made: there is one, unless the program
// changes that.
var networks sync.Map

// network sends the requests of all clients together. Its transport is that of net/http with more connections, which
// closes all but two after each request, so that a program with more requests at once would connect for each of them.
type network struct {
	common *http.Transport
	now    atomic.Pointer[connections]
}

// connections are those of a network since a time.
type connections struct {
	*http.Transport

	since time.Time
}

// transport is the way of requests. What a program has put in the place of net/http's is used as it is (nil).
func transport() http.RoundTripper {
	common, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil
	}
	if n, ok := networks.Load(common); ok {
		return n.(*network) //nolint:forcetypeassert // nothing else is stored
	}
	own := &network{common: common}
	own.now.Store(own.connect())
	n, _ := networks.LoadOrStore(common, own)
	return n.(*network) //nolint:forcetypeassert // as above
}

func (n *network) connect() *connections {
	own := n.common.Clone()
	if own.HTTP2 == nil { // one connection is that of all requests: when it is dead, none must wait for it for long
		own.HTTP2 = &http.HTTP2Config{SendPingTimeout: deadTime, PingTimeout: deadTime}
	}
	own.MaxIdleConnsPerHost = max(own.MaxIdleConnsPerHost, maxIdle)
	own.MaxIdleConns = max(own.MaxIdleConns, maxIdle)
	return &connections{own, time.Now()}
}

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	return n.now.Load().RoundTrip(r)
}

// renew has the next requests connect again, because one that was sent then had no response: also where others use its
// connection, as all do of HTTP/2, and so keep it open.
func (n *network) renew(sent time.Time) {
	if old := n.now.Load(); !old.since.After(sent) && n.now.CompareAndSwap(old, n.connect()) {
		old.CloseIdleConnections()
	}
}

// waiting is the client, which waits so much longer for a response.
func (c *Client) waiting(d time.Duration) *Client {
	if d = min(d, time.Minute); d <= 0 {
		return c
	}
	slow := *c
	slow.wait = d
	if c.http.Timeout > 0 {
		own := *c.http
		own.Timeout += d
		slow.http = &own
	}
	return &slow
}

// quoted is a text that is no URL, for an error; nothing if it may hold a password.
func quoted(s string) string {
	if strings.Contains(s, "@") {
		return ""
	}
	return fmt.Sprintf(" %q", s)
}

// loopback reports whether a host is this machine itself.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// Analyses returns the client of the server's analyses. It is a [once.Gate].
func (c *Client) Analyses() *Analyses { return &Analyses{c} }

// MachineIDs returns the client of the server's machine IDs. It is a [kazahana.LeaseProvider].
func (c *Client) MachineIDs() *MachineIDs { return &MachineIDs{c} }

// NewRequestID returns a request_id for a new command: 128 random bits.
func NewRequestID() string { return rand.Text() }
