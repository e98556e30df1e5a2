package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/once"
)

// page is a response that is none of Leasehold.
func page(status int, contentType, text string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(strings.NewReader(text)),
		}, nil
	}
}

// refusedPort is what a port says that nothing listens on.
func refusedPort() (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// unmet runs call with a client whose requests are all answered by reply, after the first answers, and returns how
// many were sent until its error, and how long that took. If no connection was made nothing is sent after that.
func unmet(t *testing.T, reply func() (*http.Response, error), o *locks.Options,
	call func(context.Context, *client.Client, *locks.Client) error, first ...func() (*http.Response, error)) (
	sent int, took time.Duration, err error) {
	t.Helper()
	var all atomic.Int32 // a request may be given up in the background
	synctest.Test(t, func(t *testing.T) {
		h := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			if n := int(all.Add(1)); n <= len(first) {
				return first[n-1]()
			}
			return reply()
		})}
		c, e := client.New("http://127.0.0.1:1", &client.Options{HTTP: h})
		if e != nil {
			t.Fatal(e)
		}
		holder, e := c.Locks("default", o)
		if e != nil {
			t.Fatal(e)
		}
		for range first {
			_, _ = c.LockAPI().Get(t.Context(), "default", "first")
		}
		begin := time.Now()
		err = call(t.Context(), c, holder)
		took, sent = time.Since(begin), int(all.Load())-len(first)
		before := all.Load()
		e = holder.Close(t.Context())
		time.Sleep(time.Minute)
		if _, refused := errors.AsType[*net.OpError](err); refused && (e != nil || all.Load() != before) {
			t.Errorf("%d requests more after the error; close: %v", all.Load()-before, e)
		}
	})
	return sent, took, err
}

// calls are the ways to ask for a grant.
var calls = map[string]func(context.Context, *client.Client, *locks.Client) error{
	"request": func(ctx context.Context, c *client.Client, _ *locks.Client) error {
		_, err := c.LockAPI().Acquire(ctx, "default", "k", contracts.AcquireRequest{OwnerID: "me", TTLSeconds: 30})
		return err
	},
	"lock": func(ctx context.Context, _ *client.Client, holder *locks.Client) error {
		return holder.Do(ctx, "k", nil, func(context.Context, *locks.Lock) error { return nil })
	},
	"run": func(ctx context.Context, c *client.Client, _ *locks.Client) error {
		_, err := once.Run(ctx, c.Runs("default"), "r", func(context.Context, once.Lock) (string, error) {
			return "", nil
		}, nil)
		return err
	},
}

// TestAWrongAddressIsNamedAtOnce: a client whose server has never answered asks three times, and its error, which comes
// within a second, has the address. As nothing was carried out, nothing is given up.
func TestAWrongAddressIsNamedAtOnce(t *testing.T) {
	for name, call := range calls {
		sent, took, err := unmet(t, refusedPort, nil, call)
		if sent != 3 || took > time.Second || err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: after %d requests and %v: %v", name, sent, took, err)
		}
	}
}

// TestAnotherServerIsNamedAtOnce: so it is where another server answers, unless that says that the server behind it is
// away.
func TestAnotherServerIsNamedAtOnce(t *testing.T) {
	locked := calls["lock"]
	for name, reply := range map[string]func() (*http.Response, error){
		"page":     page(http.StatusOK, "text/html", "<html>"),       //nolint:bodyclose // the client does
		"no page":  page(http.StatusNotFound, "text/html", "<html>"), //nolint:bodyclose // the client does
		"redirect": page(http.StatusFound, "text/html", ""),          //nolint:bodyclose // the client does
	} {
		_, took, err := unmet(t, reply, nil, locked)
		if took > time.Second || err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("%s: after %v: %v", name, took, err)
		}
	}
	away := page(http.StatusBadGateway, "text/html", "<html>") //nolint:bodyclose // the client does
	if _, took, err := unmet(t, away, nil, locked); took < 9*time.Second ||
		err == nil {
		t.Errorf("a proxy whose server is away: after %v: %v", took, err)
	}
}

// TestAServerThatHasAnsweredIsAwayForAWhile: then a connection that is refused is no wrong address. Nor is it one where
// the caller says for how long to ask.
func TestAServerThatHasAnsweredIsAwayForAWhile(t *testing.T) {
	missing := page(http.StatusNotFound, "application/problem+json", //nolint:bodyclose // the client does
		`{"code": "LOCK_NOT_FOUND", "status": 404}`)
	for name, least := range map[string]time.Duration{"request": 0, "lock": 9 * time.Second, "run": 4 * time.Second} {
		sent, took, err := unmet(t, refusedPort, nil, calls[name], missing)
		if sent <= 3 || took < least || err == nil {
			t.Errorf("%s: after %d requests and %v: %v", name, sent, took, err)
		}
	}
	o := &locks.Options{RetryFor: 10 * time.Second}
	if _, took, err := unmet(t, refusedPort, o, calls["lock"]); took < 9*time.Second || err == nil {
		t.Errorf("RetryFor: after %v: %v", took, err)
	}
}

// TestManyRequestsAtOnceHaveThreeTriesEach: a server that is away for a moment when a program begins, which asks for
// many leases at once, is no wrong address.
func TestManyRequestsAtOnceHaveThreeTriesEach(t *testing.T) {
	const many = 20
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			h := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				if time.Now().Equal(begin) { // the first try of each
					return refusedPort()
				}
				return &http.Response{
					StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/problem+json"}},
					Body: io.NopCloser(strings.NewReader(`{"code": "PERMISSION_DENIED", "status": 403}`)),
				}, nil
			})}
			c, err := client.New("http://127.0.0.1:1", &client.Options{HTTP: h})
			if err != nil {
				t.Fatal(err)
			}
			holder, err := c.Locks("default", nil)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range many {
				all.Go(func() {
					if err := call(t.Context(), c, holder); !errors.Is(err, contracts.CodePermissionDenied) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			all.Wait()
			if err := holder.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
