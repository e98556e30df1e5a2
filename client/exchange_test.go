package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// sent is a request as it would go over the wire.
type sent struct {
	method, target, body string // target as in the request line
	header               http.Header
	at                   time.Time
}

// answer is what a server, something that stands in front of it, or the network makes of a request.
type answer struct {
	status            int
	contentType, body string
	lost              error // instead of an answer
	cut               error // after the body
	header            http.Header
}

func reply(status int, contentType, body string) answer {
	return answer{status: status, contentType: contentType, body: body}
}

// refusal is the server's answer with a code.
func refusal(code contracts.Code, detail string) answer {
	info, _ := code.Info()
	body, err := json.Marshal(contracts.Problem{
		Type: code.TypeURI(), Title: info.Title, Status: info.Status, Code: code, Retryable: info.Retryable, Detail: detail,
	})
	if err != nil {
		panic(err)
	}
	return reply(info.Status, "application/problem+json", string(body))
}

// wire is a RoundTripper without a network: it keeps each request and answers it by a function of the try, from 1 on.
type wire struct {
	answer func(try int, r *http.Request) answer
	sent   []sent
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.sent = append(w.sent, sent{r.Method, r.URL.RequestURI(), string(body), r.Header, time.Now()})
	a := w.answer(len(w.sent), r)
	if a.lost != nil {
		return nil, a.lost
	}
	content := io.Reader(strings.NewReader(a.body))
	if a.cut != nil {
		content = io.MultiReader(content, iotest.ErrReader(a.cut))
	}
	header := a.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", a.contentType)
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), Header: header,
		Body: io.NopCloser(content),
	}, nil
}

const granted = `{"tenant_id":"acme","lock_key":"deploy","lease_id":"l1","owner_id":"ann","fencing_token":7,"state":"ACTIVE",` +
	`"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,"metadata":{"a":"b"},"replayed":true}`

// always answers every try alike.
func always(a answer) func(int, *http.Request) answer {
	return func(int, *http.Request) answer { return a }
}

// over is a client on a wire.
func over(t *testing.T, w *wire, o client.Options) *client.LockAPI {
	t.Helper()
	o.HTTP = &http.Client{Transport: w}
	c, err := client.New("http://127.0.0.1:8080", &o)
	if err != nil {
		t.Fatal(err)
	}
	return c.LockAPI()
}

// ask is an acquire with a request_id of its own.
var ask = contracts.AcquireRequest{RequestID: "r1", OwnerID: "ann", TTLSeconds: 30}

func TestExchanges(t *testing.T) {
	const (
		ended = `{"tenant_id":"acme","lock_key":"deploy","owner_id":"ann","fencing_token":7,"state":"RELEASED","replayed":true}`
		seen  = `{"tenant_id":"acme","lock_key":"deploy","lease_id":"l1","owner_id":"ann","state":"RELEASED",` +
			`"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","released_at":"2026-01-01T00:00:10.000Z",` +
			`"ttl_seconds":30,"metadata":{},"force_release":{"by":"root","reason":"hangs","at":"2026-01-01T00:00:10.000Z"}}`
		path = "/v1/tenants/acme/locks/deploy"
	)
	aLease := contracts.Lease{
		TenantID: "acme", LockKey: "deploy", LeaseID: "l1", OwnerID: "ann", FencingToken: 7, State: contracts.StateActive,
		AcquiredAt: "2026-01-01T00:00:00.000Z", ExpiresAt: "2026-01-01T00:00:30.000Z", RemainingMs: 30_000, TTLSeconds: 30,
		Metadata: contracts.Metadata{"a": "b"}, Replayed: true,
	}
	aLock := contracts.Lock{
		TenantID: "acme", LockKey: "deploy", LeaseID: "l1", OwnerID: "ann", State: contracts.StateReleased,
		AcquiredAt: "2026-01-01T00:00:00.000Z", ExpiresAt: "2026-01-01T00:00:30.000Z", ReleasedAt: "2026-01-01T00:00:10.000Z",
		TTLSeconds: 30, Metadata: contracts.Metadata{},
		ForceRelease: &contracts.ForcedRelease{By: "root", Reason: "hangs", At: "2026-01-01T00:00:10.000Z"},
	}
	forced := contracts.ForceReleased{
		TenantID: aLock.TenantID, LockKey: aLock.LockKey, LeaseID: aLock.LeaseID, OwnerID: aLock.OwnerID, State: aLock.State,
		AcquiredAt: aLock.AcquiredAt, ExpiresAt: aLock.ExpiresAt, ReleasedAt: aLock.ReleasedAt, TTLSeconds: aLock.TTLSeconds,
		Metadata: aLock.Metadata, ForceRelease: aLock.ForceRelease,
	}
	other := aLock
	other.TenantID, other.LockKey = "a/b", "a&b=c ü/1"
	ofOther := strings.NewReplacer(`"acme"`, `"a/b"`, `"deploy"`, `"a&b=c ü/1"`).Replace
	cases := []struct {
		name                 string
		do                   func(context.Context, *client.LockAPI) (any, error)
		method, target, body string
		answer               string
		want                 any
	}{
		{
			"acquire",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{
					RequestID: "r1", OwnerID: "ann", TTLSeconds: 30, Metadata: contracts.Metadata{"a": "b"},
				})
			},
			"POST", path + "/acquire", `{"metadata":{"a":"b"},"owner_id":"ann","request_id":"r1","ttl_seconds":30}`, granted,
			aLease,
		}, {
			"acquire with the least",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{RequestID: "r1", TTLSeconds: 30})
			},
			"POST", path + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, granted, aLease,
		}, {
			"renew",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{RequestID: "n1", OwnerID: "ann", FencingToken: 7,
					TTLSeconds: 30})
			},
			"POST", path + "/renew", `{"fencing_token":7,"owner_id":"ann","request_id":"n1","ttl_seconds":30}`, granted, aLease,
		}, {
			"release",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{RequestID: "e1", OwnerID: "ann", FencingToken: 7})
			},
			"POST", path + "/release", `{"fencing_token":7,"owner_id":"ann","request_id":"e1"}`, ended,
			contracts.EndedLease{
				TenantID: "acme", LockKey: "deploy", OwnerID: "ann", FencingToken: 7, State: contracts.StateReleased,
				Replayed: true,
			},
		}, {
			"force-release",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{
					RequestID: "f1", OwnerID: "root", Reason: "hangs", LeaseID: "l1",
				})
			},
			"POST", path + "/force-release", `{"lease_id":"l1","owner_id":"root","reason":"hangs","request_id":"f1"}`, seen,
			forced,
		}, {
			"get",
			func(ctx context.Context, c *client.LockAPI) (any, error) { return c.Get(ctx, "acme", "deploy") },
			"GET", path, "", seen, aLock,
		}, {
			"list all",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.List(ctx, "acme", client.LockQuery{})
			},
			"GET", "/v1/tenants/acme/locks", "", `{"locks":[]}`, contracts.LockPage{Locks: []contracts.Lock{}},
		}, {
			"list some",
			func(ctx context.Context, c *client.LockAPI) (any, error) {
				return c.List(ctx, "a/b", client.LockQuery{Prefix: "a&b=c ü", State: contracts.StateReleased, PageSize: 5,
					PageToken: "ZGVwbG95"})
			},
			"GET", "/v1/tenants/a%2Fb/locks?page_size=5&page_token=ZGVwbG95&prefix=a%26b%3Dc+%C3%BC&state=RELEASED", "",
			`{"locks":[` + ofOther(seen) + `],"next_page_token":"eA"}`,
			contracts.LockPage{Locks: []contracts.Lock{other}, NextPageToken: "eA"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := &wire{answer: always(reply(200, "application/json; charset=utf-8", c.answer))}
			got, err := c.do(t.Context(), over(t, w, client.Options{}))
			if l, ok := got.(client.Lease); ok {
				got = l.Lease
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
			if len(w.sent) != 1 || w.sent[0].method != c.method || w.sent[0].target != c.target {
				t.Fatalf("sent %+v, want one %s %s", w.sent, c.method, c.target)
			}
			r := w.sent[0]
			if !equalJSON(withoutEnd(r.body), c.body) {
				t.Errorf("body %s\nwant %s", r.body, c.body)
			}
			contentType := "application/json"
			if c.body == "" {
				contentType = ""
			}
			if got := r.header.Get("Content-Type"); got != contentType {
				t.Errorf("content type %q, want %q", got, contentType)
			}
			if a, given := r.header["Authorization"]; given {
				t.Errorf("without a token the request carries %q", a)
			}
		})
	}
}

// equalJSON compares two objects member by member; an empty body equals only itself.
func equalJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func TestPathsAreEscaped(t *testing.T) {
	for key, want := range map[string]string{
		"a/b":     "a%2Fb",
		"ü":       "%C3%BC",
		"%":       "%25",
		"%2F":     "%252F",
		"a b+c":   "a%20b+c",
		"a?b#c;d": "a%3Fb%23c%3Bd",
		"a:b@c":   "a:b@c",
	} {
		t.Run(key, func(t *testing.T) {
			name, _ := json.Marshal(key)
			answer := strings.NewReplacer(`"acme"`, string(name), `"deploy"`, string(name)).Replace(granted)
			w := &wire{answer: always(reply(200, "application/json", answer))}
			if _, err := over(t, w, client.Options{}).Acquire(t.Context(), key, key, ask); err != nil {
				t.Fatal(err)
			}
			if got, want := w.sent[0].target, "/v1/tenants/"+want+"/locks/"+want+"/acquire"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestBaseMayHaveAPath(t *testing.T) {
	w := &wire{answer: always(reply(200, "application/json", `{"locks":[]}`))}
	c, err := client.New("https://example.com/leasehold//", &client.Options{HTTP: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.LockAPI().List(t.Context(), "acme", client.LockQuery{}); err != nil ||
		w.sent[0].target != "/leasehold/v1/tenants/acme/locks" {
		t.Errorf("sent %+v, %v", w.sent, err)
	}
}

func TestNewRefusesWhatIsNoServer(t *testing.T) {
	for _, base := range []string{
		"", "127.0.0.1:8080", "localhost", "ftp://127.0.0.1", "http://", "http:///v1", "http://127.0.0.1:8080?x=1",
		"http://127.0.0.1:8080?",
		"http://127.0.0.1:8080#x", "http://127.0.0.1:8080#", "http://127.0.0.1:port", "http://%zz", "/v1",
	} {
		t.Run(base, func(t *testing.T) {
			c, err := client.New(base, nil)
			if want := fmt.Sprintf("server %q: must be a URL like http://127.0.0.1:8080", base); c != nil || err == nil ||
				err.Error() != want {
				t.Errorf("got %v, %v\nwant %s", c, err, want)
			}
		})
	}
}

// TestRequestIDIsMadeUpOnce: LS-ACQ-004, LS-RNW-003 and LS-REL-003 need every delivery to carry the same request_id.
func TestRequestIDIsMadeUpOnce(t *testing.T) {
	for name, do := range map[string]func(context.Context, *client.LockAPI) error{
		"acquire": func(ctx context.Context, c *client.LockAPI) error {
			_, err := c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{TTLSeconds: 30})
			return err
		},
		"renew": func(ctx context.Context, c *client.LockAPI) error {
			_, err := c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{FencingToken: 7, TTLSeconds: 30})
			return err
		},
		"release": func(ctx context.Context, c *client.LockAPI) error {
			_, err := c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{FencingToken: 7})
			return err
		},
		"force-release": func(ctx context.Context, c *client.LockAPI) error {
			_, err := c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{Reason: "hangs"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: always(answer{lost: errors.New("connection reset")})}
				c := over(t, w, client.Options{Tries: 3})
				ids := map[string]int{}
				for range 2 { // two intentions
					if err := do(t.Context(), c); err == nil {
						t.Fatal("no error without an answer")
					}
				}
				for _, s := range w.sent {
					var body struct {
						RequestID string `json:"request_id"`
					}
					if err := json.Unmarshal([]byte(s.body), &body); err != nil {
						t.Fatal(err)
					}
					if len(body.RequestID) != 26 {
						t.Errorf("request_id %q does not have 128 random bits in 26 letters and digits", body.RequestID)
					}
					ids[body.RequestID]++
				}
				for id, n := range ids {
					if len(ids) != 2 || n != 3 {
						t.Errorf("request_id %q was sent %d times, and there are %d; want 2, 3 times each", id, n, len(ids))
					}
				}
			})
		})
	}
}

// TestWhatIsSentAgain: only what leaves the outcome open is.
func TestWhatIsSentAgain(t *testing.T) {
	const maybe = " (request_id r1 may have been carried out)"
	cases := []struct {
		name   string
		answer answer
		again  bool
		want   string // the error, if this is the last try
	}{
		{"lost answer", answer{lost: errors.New("connection reset")}, true,
			`Post "http://127.0.0.1:8080/v1/tenants/acme/locks/deploy/acquire": connection reset` + maybe},
		{"answer that broke off", answer{status: 200, contentType: "application/json", body: granted[:20],
			cut: io.ErrUnexpectedEOF}, true,
			"read the response: unexpected EOF" + maybe},
		{"503", refusal(contracts.CodeUnavailable, ""), true, "UNAVAILABLE: store unavailable" + maybe},
		{"504", refusal(contracts.CodeDeadlineExceeded, "send it again"), true, "DEADLINE_EXCEEDED: send it again" + maybe},
		{"HTML 502 of a proxy", reply(502, "text/html", "<h1>Bad Gateway</h1>"), true,
			`http://127.0.0.1:8080 responded 502 Bad Gateway with content type "text/html", which is not Leasehold` + maybe},
		{"JSON 503 of a proxy", reply(503, "application/json", `{"message":"no healthy upstream"}`), true,
			`http://127.0.0.1:8080 responded 503 Service Unavailable with content type "application/json", which is not Leasehold` + maybe},

		{"400", refusal(contracts.CodeInvalidArgument, "ttl_seconds must be a whole number from 1 to 86400"), false,
			"INVALID_ARGUMENT: ttl_seconds must be a whole number from 1 to 86400"},
		{"401", refusal(contracts.CodeUnauthenticated, ""), false, "UNAUTHENTICATED: not authenticated"},
		{"403", refusal(contracts.CodeNotOwner, ""), false, "NOT_OWNER: not the owner of the lease"},
		{"409 that may end", refusal(contracts.CodeLockHeld, ""), false, "LOCK_HELD: lock is held"},
		{"409", refusal(contracts.CodeLeaseExpired, ""), false, "LEASE_EXPIRED: lease expired"},
		{"422", refusal(contracts.CodeRequestIDReused, ""), false, "REQUEST_ID_REUSED: request_id used before"},
		{"500", refusal(contracts.CodeInternal, ""), false, "INTERNAL: internal error"},
		{"200 text/html", reply(200, "text/html", "<h1>Welcome</h1>"), false,
			`http://127.0.0.1:8080 responded 200 OK with content type "text/html", which is not Leasehold`},
		{"200 without a type", reply(200, "", granted), false,
			`http://127.0.0.1:8080 responded 200 OK with content type "", which is not Leasehold`},
		{"201", reply(201, "application/json", granted), false,
			`http://127.0.0.1:8080 responded 201 Created with content type "application/json", which is not Leasehold`},
		{"404 of another server", reply(404, "text/plain", "404 page not found"), false,
			`http://127.0.0.1:8080 responded 404 Not Found with content type "text/plain", which is not Leasehold`},
		{"429 of a proxy", reply(429, "text/plain", "slow down"), false,
			`http://127.0.0.1:8080 responded 429 Too Many Requests with content type "text/plain", which is not Leasehold`},
		{"cut JSON", reply(200, "application/json", granted[:20]), false,
			"invalid response of http://127.0.0.1:8080: unexpected end of JSON input" + maybe},
		{"no JSON", reply(200, "application/json", "yes"), false,
			"invalid response of http://127.0.0.1:8080: invalid character 'y' looking for beginning of value" + maybe},
		{"a member of another type", reply(200, "application/json", `{"lease_id":"l1","fencing_token":"7"}`), false,
			"invalid response of http://127.0.0.1:8080: json: cannot unmarshal string into Go struct field Lease.fencing_token of type int64" + maybe},
		{"JSON of something else", reply(200, "application/json", `{"status":"ok"}`), false,
			"invalid response of http://127.0.0.1:8080: required members are missing" + maybe},
		{"JSON null", reply(200, "application/json", "null"), false,
			"invalid response of http://127.0.0.1:8080: required members are missing" + maybe},
		{"problem without a code", reply(503, "application/problem+json", `{"title":"busy","status":503,"retryable":true}`),
			false,
			"invalid response of http://127.0.0.1:8080: status 503 with a problem that cannot be read"},
		{"problem that is no JSON", reply(503, "application/problem+json", "busy"), false,
			"invalid response of http://127.0.0.1:8080: status 503 with a problem that cannot be read"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(try int, _ *http.Request) answer {
					if try == 1 {
						return c.answer
					}
					return reply(200, "application/json", granted)
				}}
				got, err := over(t, w, client.Options{Tries: 2}).Acquire(t.Context(), "acme", "deploy", ask)
				switch {
				case c.again && (err != nil || got.FencingToken != 7 || len(w.sent) != 2 ||
					withoutEnd(w.sent[0].body) != withoutEnd(w.sent[1].body)):
					t.Errorf("got %+v, %v after %+v; want the grant, and the same request twice", got, err, w.sent)
				case !c.again && (err == nil || len(w.sent) != 1):
					t.Errorf("got %+v, %v after %d tries; want an error after 1", got, err, len(w.sent))
				}
			})
			w := &wire{answer: always(c.answer)}
			got, err := over(t, w, client.Options{Tries: 1}).Acquire(t.Context(), "acme", "deploy", ask)
			if err == nil || err.Error() != c.want || len(w.sent) != 1 {
				t.Errorf("got  %v after %d tries\nwant %s after 1", err, len(w.sent), c.want)
			}
			if err != nil && !reflect.DeepEqual(got, client.Lease{}) {
				t.Errorf("the error came with the lease %+v", got)
			}
		})
	}
}

// TestResponsesOfSomethingElse: a server that answers everything with 200 and JSON of its own has granted nothing.
func TestResponsesOfSomethingElse(t *testing.T) {
	commands := map[string]bool{"acquire": true, "renew": true, "release": true, "force-release": true}
	for name, do := range map[string]func(context.Context, *client.LockAPI) (any, error){
		"acquire": func(ctx context.Context, c *client.LockAPI) (any, error) {
			return c.Acquire(ctx, "acme", "deploy", ask)
		},
		"renew": func(ctx context.Context, c *client.LockAPI) (any, error) {
			return c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{FencingToken: 7, TTLSeconds: 30})
		},
		"release": func(ctx context.Context, c *client.LockAPI) (any, error) {
			return c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{FencingToken: 7})
		},
		"force-release": func(ctx context.Context, c *client.LockAPI) (any, error) {
			return c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{Reason: "hangs"})
		},
		"get": func(ctx context.Context, c *client.LockAPI) (any, error) { return c.Get(ctx, "acme", "deploy") },
		"list": func(ctx context.Context, c *client.LockAPI) (any, error) {
			return c.List(ctx, "acme", client.LockQuery{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: always(reply(200, "application/json", `{"ok":true}`))}
			got, err := do(t.Context(), over(t, w, client.Options{}))
			const want = "invalid response of http://127.0.0.1:8080: required members are missing"
			if err == nil || !strings.HasPrefix(err.Error(), want) ||
				strings.Contains(err.Error(), "carried out") != commands[name] {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestScheme: an address with the wrong scheme, or a certificate that is not trusted, is said after one request. The
// scheme is final for all who insist; a certificate may be replaced.
func TestScheme(t *testing.T) {
	var asked atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	plain, secure := httptest.NewServer(count), httptest.NewUnstartedServer(count)
	defer plain.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, c := range []struct {
		address, says string
		final         bool
	}{
		{strings.Replace(plain.URL, "http:", "https:", 1), " is a server without TLS: its address begins with http://", true},
		{strings.Replace(secure.URL, "https:", "http:", 1), " is a server with TLS: its address begins with https://", true},
		{secure.URL, "certificate signed by unknown authority", false},
	} {
		var dials atomic.Int64
		transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
		defer transport.CloseIdleConnections()
		server, err := client.New(c.address, &client.Options{HTTP: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.LockAPI().Get(t.Context(), "acme", "k")
		if err == nil || !strings.Contains(err.Error(), c.says) || contracts.Final(err) != c.final || dials.Load() != 1 {
			t.Errorf("%s: %v, final: %t, after %d connections", c.address, err, contracts.Final(err), dials.Load())
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestError(t *testing.T) {
	w := &wire{answer: always(reply(409, "application/problem+json",
		`{"type":"https://example.com#lock_held","title":"lock is held","status":409,
		"code":"LOCK_HELD","retryable":true,"owner_id":"bob","expires_at":"2026-01-01T00:00:30.000Z","retry_after_ms":20000,"instance":"urn:request:x"}`))}
	_, err := over(t, w, client.Options{}).Acquire(t.Context(), "acme", "deploy", ask)
	want := contracts.Error{
		Title: "lock is held", Status: 409, Code: contracts.CodeLockHeld, Retryable: true, Owner: "bob",
		ExpiresAt: time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC), RetryAfter: 20 * time.Second, RequestID: "x",
	}
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok || *e != want {
		t.Fatalf("got  %+v\nwant %+v", err, want)
	}
	wrapped := fmt.Errorf("deploy: %w", err)
	if !errors.Is(err, contracts.CodeLockHeld) || !errors.Is(wrapped, contracts.CodeLockHeld) ||
		errors.Is(err, contracts.CodeLeaseLost) {
		t.Error("errors.Is and the code disagree")
	}
}

// TestTries: the bound is exact, 0 and less mean 4, and the error is that of the last try.
func TestTries(t *testing.T) {
	for tries, want := range map[int]int{-1: 4, 0: 4, 1: 1, 2: 2, 7: 7} {
		t.Run(strconv.Itoa(tries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(try int, _ *http.Request) answer {
					return refusal(contracts.CodeUnavailable, fmt.Sprint("try ", try))
				}}
				long, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := over(t, w, client.Options{Tries: tries}).Get(long, "acme", "deploy")
				if wantErr := fmt.Sprint("UNAVAILABLE: try ", want); len(w.sent) != want || err == nil || err.Error() != wantErr {
					t.Errorf("%d tries, %v; want %d and %s", len(w.sent), err, want, wantErr)
				}
			})
		})
	}
}

// TestWaits: before try n+1 the client waits for less than 200 ms · 2^(n-1), and uses that range: among 200 exchanges
// one waits for more than half of it, or chance has failed once in 2^200.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries = 6
		var longest [tries - 1]time.Duration
		long, cancel := context.WithTimeout(t.Context(), time.Hour*24)
		defer cancel()
		for range 200 {
			w := &wire{answer: always(reply(503, "text/plain", ""))}
			if _, err := over(t, w, client.Options{Tries: tries}).Get(long, "acme", "deploy"); err == nil {
				t.Fatal("no error without an answer")
			}
			for i := range longest {
				longest[i] = max(longest[i], w.sent[i+1].at.Sub(w.sent[i].at))
			}
		}
		for i, got := range longest {
			if most := 200 * time.Millisecond << i; got > most || got <= most/2 {
				t.Errorf("the longest wait after try %d is %v, want it between %v and %v", i+1, got, most/2, most)
			}
		}
	})
}

// TestRetryAfter: a request is not sent again before the time that the server asks for, or a proxy before it; if that
// is too long it is the caller's to wait, who learns it from the error.
func TestRetryAfter(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name, header string
		inBody       int64 // ms; -1 for an answer that is not the server's
		want         time.Duration
		tries        int
	}{
		{"seconds of a proxy", "3", -1, 3 * time.Second, 4},
		{"seconds of a server", "3", 0, 3 * time.Second, 4},
		{"the body is finer than the header", "3", 2500, 2500 * time.Millisecond, 4},
		{"at the bound", "10", -1, 10 * time.Second, 4},
		{"beyond the bound", "11", -1, 11 * time.Second, 1},
		{"far beyond", "2147483647", -1, day, 1},
		{"more than a number holds", "99999999999999999999", -1, day, 1},
		{"a date", "Tue, 01 Jan 2030 00:00:05 GMT", -1, 5 * time.Second, 4},
		{"a date that has passed", "Mon, 31 Dec 2029 00:00:05 GMT", -1, 0, 4},
		{"a date far ahead", "Tue, 01 Jan 2130 00:00:05 GMT", -1, day, 1},
		{"none", "", -1, 0, 4},
		{"what is no time", "-5", -1, 0, 4},
		{"nor this", "soon", 0, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := reply(503, "text/html", "<html>")
				if c.inBody >= 0 {
					a = reply(503, "application/problem+json",
						fmt.Sprintf(`{"code":"UNAVAILABLE","status":503,"retryable":true,"retry_after_ms":%d}`, c.inBody))
				}
				a.header = http.Header{"Retry-After": {c.header}, "Date": {"Tue, 01 Jan 2030 00:00:00 GMT"}}
				w := &wire{answer: always(a)}
				long, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := over(t, w, client.Options{}).Get(long, "acme", "deploy")
				if got := contracts.RetryAfter(err); err == nil || got != c.want {
					t.Errorf("%v, which asks for %v, want %v", err, got, c.want)
				}
				if len(w.sent) != c.tries {
					t.Fatalf("%d tries, want %d", len(w.sent), c.tries)
				}
				for i := 1; i < len(w.sent); i++ {
					if waited := w.sent[i].at.Sub(w.sent[i-1].at); waited < c.want || waited > max(c.want, 800*time.Millisecond) {
						t.Errorf("try %d came after %v, want %v", i+1, waited, c.want)
					}
				}
			})
		})
	}
}

// TestCancelledWait: a context that ends while the client waits ends the call at once, with the last error.
func TestCancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		w := &wire{answer: func(try int, _ *http.Request) answer {
			return refusal(contracts.CodeUnavailable, fmt.Sprint("try ", try))
		}}
		begin := time.Now()
		_, err := over(t, w, client.Options{Tries: 30}).Get(ctx, "acme", "deploy") // 30 tries would take years
		if took := time.Since(begin); took != limit {
			t.Errorf("the call ended after %v, want %v", took, limit)
		}
		if want := fmt.Sprint("UNAVAILABLE: try ", len(w.sent)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// TestCancelledTry: a context that ends while a request is under way ends the call; nothing is sent again.
func TestCancelledTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := &wire{answer: func(_ int, r *http.Request) answer {
			<-r.Context().Done()
			return answer{lost: r.Context().Err()}
		}}
		begin := time.Now()
		_, err := over(t, w, client.Options{}).Get(ctx, "acme", "deploy")
		if took := time.Since(begin); took != time.Second || !errors.Is(err, context.DeadlineExceeded) || len(w.sent) != 1 {
			t.Errorf("%v after %v and %d tries, want a deadline exceeded after 1s and 1 try", err, took, len(w.sent))
		}
	})
}

// TestToken: each try asks for the token anew, because it may have run out since.
func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(try int, _ *http.Request) answer {
			if try == 1 {
				return answer{lost: errors.New("connection reset")}
			}
			return reply(200, "application/json", granted)
		}}
		asked := 0
		c := over(t, w, client.Options{Token: func(context.Context) (string, error) {
			asked++
			return fmt.Sprint("token-", asked), nil
		}})
		if _, err := c.Acquire(t.Context(), "acme", "deploy", ask); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"Bearer token-1", "Bearer token-2"} {
			if got := w.sent[i].header.Get("Authorization"); got != want {
				t.Errorf("try %d: Authorization %q, want %q", i+1, got, want)
			}
		}
	})
}

// TestLockWithoutAToken: a function that gets no token is an error of a lock and of a run after three tries, within a
// second, as a wrong address is, and nothing is given up; a function that never returns is called once, and the call ends
// in its time. Nothing is sent.
func TestLockWithoutAToken(t *testing.T) {
	why := errors.New("the login has run out")
	for name, c := range map[string]struct {
		hangs bool
		want  time.Duration // at most
		calls int32
	}{"no token": {false, time.Second, 3}, "never returns": {true, 3 * time.Second, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends, calls := make(chan struct{}), atomic.Int32{}
				h := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					t.Error("it is sent")
					return nil, why
				})}
				server, err := client.New("http://127.0.0.1:1", &client.Options{HTTP: h,
					Token: func(context.Context) (string, error) {
						if calls.Add(1); c.hangs {
							<-ends
						}
						return "", why
					}})
				if err != nil {
					t.Fatal(err)
				}
				holder, err := server.Locks("acme", nil)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				_, err = holder.TryLock(t.Context(), "k", nil)
				if took := time.Since(begin); took > c.want || err == nil || errors.Is(err, why) == c.hangs ||
					calls.Load() != c.calls {
					t.Errorf("after %v and %d calls: %v", took, calls.Load(), err)
				}
				begin = time.Now()
				if err := holder.Close(t.Context()); !c.hangs && (err != nil || time.Since(begin) > 0) {
					t.Errorf("closed after %v: %v", time.Since(begin), err)
				}
				if c.hangs && calls.Load() != 1 {
					t.Errorf("%d calls", calls.Load())
				}
				close(ends)
				time.Sleep(time.Minute) // what might have been sent is given up
			})
		})
	}
}

func TestTokenThatCannotBeHad(t *testing.T) {
	w := &wire{answer: always(reply(200, "application/json", granted))}
	expired := errors.New("the login has run out")
	c := over(t, w, client.Options{Token: func(context.Context) (string, error) { return "", expired }})
	_, err := c.Acquire(t.Context(), "acme", "deploy", ask)
	if !errors.Is(err, expired) || err.Error() != "get a token: the login has run out" || len(w.sent) != 0 {
		t.Errorf("got %v after %d requests", err, len(w.sent))
	}
}

// TestTokenThatNeverComes: a function that knows nothing of the context, as those of many token sources, does not keep
// a call beyond its end.
func TestTokenThatNeverComes(t *testing.T) {
	for name, rejected := range map[string]bool{"at first": false, "after a rejection": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: always(reply(401, "application/problem+json", `{"code":"UNAUTHENTICATED"}`))}
				c := over(t, w, client.Options{Token: func(ctx context.Context) (string, error) {
					if rejected == client.Rejected(ctx) {
						time.Sleep(time.Hour)
					}
					return "token", nil
				}})
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Acquire(ctx, "acme", "deploy", ask)
				if took := time.Since(begun); err == nil || took != time.Second {
					t.Errorf("%v after %v, want an error after 1s", err, took)
				}
				if !rejected && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want a deadline exceeded", err)
				}
				time.Sleep(time.Hour) // until the function ends
			})
		})
	}
}

// TestLargestPage: 1000 locks, each with all the metadata that a lock may have.
func TestLargestPage(t *testing.T) {
	metadata := contracts.Metadata{}
	for i := range 32 {
		metadata[fmt.Sprintf("%064d", i)] = strings.Repeat("x", 512)
	}
	one, err := json.Marshal(contracts.Lock{TenantID: "acme", LockKey: "deploy", LeaseID: "l1", Metadata: metadata})
	if err != nil {
		t.Fatal(err)
	}
	page := `{"locks":[` + strings.Repeat(string(one)+",", 999) + string(one) + `]}`
	w := &wire{answer: always(reply(200, "application/json", page))}
	p, err := over(t, w, client.Options{}).List(t.Context(), "acme", client.LockQuery{PageSize: 1000})
	if err != nil || len(p.Locks) != 1000 || !reflect.DeepEqual(p.Locks[999].Metadata, metadata) {
		t.Errorf("%d locks, %v", len(p.Locks), err)
	}
}

func TestNewRequestID(t *testing.T) {
	a, b := client.NewRequestID(), client.NewRequestID()
	if len(a) != 26 || len(b) != 26 || a == b {
		t.Errorf("got %q and %q, want two different names of 26 letters and digits", a, b)
	}
}
