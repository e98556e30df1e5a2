package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// stores are those that a handler can ask.
func stores(t *testing.T) map[string]fence.Store {
	t.Helper()
	db := openSQLite(t)
	s, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), s.Schema()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]fence.Store{
		"memory":     fence.NewMemory(nil),
		"SQL":        s.Store(db),
		"server":     c.Fences().For("acme"),
		"on a store": direct.Fences(lock.NewGuard(docstore.NewMemory(nil), nil), "acme"),
	}
}

// path is the resource of a request.
func path(r *http.Request) string { return r.URL.Path }

// passes answers with the token of the context.
var passes = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	l, ok := fence.From(r.Context())
	fmt.Fprint(w, l.Token, ok)
})

// ordersLease is a lease of the lock of orders.
func ordersLease(token int64) fence.Lease { return fence.Lease{Subject: "lock/orders", Token: token} }

// ask sends a request with header values to a handler; unless the header is that of the subject it has one.
func ask(t *testing.T, h http.Handler, target, header string, values ...string) (*httptest.ResponseRecorder,
	contracts.Problem) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, nil)
	if header == fence.SubjectHeader {
		r.Header.Set(fence.Header, "7")
	} else {
		r.Header.Set(fence.SubjectHeader, "lock/orders")
	}
	for _, v := range values {
		r.Header.Add(header, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var p contracts.Problem
	if w.Code != http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil ||
			w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code {
			t.Errorf("%v in %d %v %s", err, w.Code, w.Header(), w.Body)
		}
	}
	return w, p
}

// TestHandler: LS-FENCE-001 before a handler, with each store.
func TestHandler(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			h := fence.NewHandler(passes, s, path, nil)
			now := time.Now().UnixMicro()
			far := strconv.FormatInt(now+(fence.MaxAhead+time.Minute).Microseconds(), 10)
			for i, c := range []struct {
				target  string
				values  []string
				code    contracts.Code // empty: it passes
				highest int64
				detail  string // part of it
			}{
				{"/orders", []string{"5"}, "", 0, ""},
				{"/orders", []string{"5"}, "", 0, ""},
				{"/orders", []string{"6"}, "", 0, ""},
				{"/orders", []string{"5"}, contracts.CodeStaleToken, 6, ""},
				{"/files", []string{"5"}, "", 0, ""},
				{"/orders", nil, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token is missing"},
				{"/orders", []string{""}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be one decimal number"},
				{"/orders", []string{"0"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"-7"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"+7"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"7 "}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"7e3"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"7", "7"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"99999999999999999999"}, contracts.CodeInvalidArgument, 0, "Leasehold-Fencing-Token must be"},
				{"/orders", []string{"9007199254740993"}, contracts.CodeInvalidArgument, 0,
					"Leasehold-Fencing-Token must be a whole number from 1"},
				{"/orders", []string{far}, contracts.CodeInvalidArgument, 0,
					"Leasehold-Fencing-Token is a number that no lock has given"},
				{"/orders", []string{"6"}, "", 0, ""}, // what was rejected has changed nothing
				{"/" + strings.Repeat("x", fence.MaxResourceBytes), []string{"6"}, contracts.CodeInvalidArgument, 0, "resource"},
				{"/orders", []string{strconv.FormatInt(now, 10)}, "", 0, ""},
			} {
				w, p := ask(t, h, c.target, fence.Header, c.values...)
				if p.Code != c.code || p.HighestToken != c.highest || !strings.Contains(p.Detail, c.detail) {
					t.Errorf("%d, %s %q: %d %+v, want %q", i, c.target, c.values, w.Code, p, c.code)
				}
				if c.code == "" && w.Body.String() != c.values[0]+" true" {
					t.Errorf("%d: %s", i, w.Body)
				}
			}
		})
	}
}

// TestHandlerOfTwoSubjects: LS-FENCE-001. Tokens of two locks, or of two runs, have no order: with each store the second
// one is told so, and not that its lock is lost. A subject is compared as it is, whatever is in it.
func TestHandlerOfTwoSubjects(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			h := fence.NewHandler(passes, s, path, nil)
			for i, c := range []struct {
				target string
				values []string
				code   contracts.Code // empty: it passes
				detail string         // part of it
			}{
				{"/orders", []string{"run/key-1"}, "", ""},
				{"/orders", []string{"run/key-1"}, "", ""},
				{"/orders", []string{"run/key-2"}, contracts.CodeOtherSubject, `a token of "run/key-2" cannot be compared with those of "run/key-1"`},
				{"/orders", []string{"run/KEY-1"}, contracts.CodeOtherSubject, ""},
				{"/files", []string{"run/key-2"}, "", ""},
				{"/pool", []string{"lock/a%20%25%C3%A9#2"}, "", ""},
				{"/pool", []string{"lock/a%20%25e%CC%81#2"}, contracts.CodeOtherSubject, ""},
				{"/pool", []string{"lock/a%20%25%C3%A9#3"}, contracts.CodeOtherSubject, `"lock/a %é#2"`},
				{"/orders", nil, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject is missing"},
				{"/orders", []string{""}, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject is missing"},
				{"/orders", []string{"%zz"}, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject must be one percent-encoded text"},
				{"/orders", []string{"a", "a"}, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject must be one"},
				{"/orders", []string{"%00"}, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject must be UTF-8"},
				{"/orders", []string{"%ff"}, contracts.CodeInvalidArgument, "Leasehold-Fencing-Subject must be UTF-8"},
				{"/long", []string{strings.Repeat("x", fence.MaxSubjectBytes)}, "", ""},
				{"/long", []string{strings.Repeat("x", fence.MaxSubjectBytes+1)}, contracts.CodeInvalidArgument,
					"Leasehold-Fencing-Subject must be UTF-8 of at most 320 bytes"},
				{"/orders", []string{"run/key-1"}, "", ""}, // what was rejected has changed nothing
			} {
				w, p := ask(t, h, c.target, fence.SubjectHeader, c.values...)
				if p.Code != c.code || !strings.Contains(p.Detail, c.detail) || p.HighestToken != 0 {
					t.Errorf("%d, %s %q: %d %+v, want %q", i, c.target, c.values, w.Code, p, c.code)
				}
			}
		})
	}
}

// TestHandlerOptions: other headers, and requests without a token.
func TestHandlerOptions(t *testing.T) {
	var seen []error
	h := fence.NewHandler(passes, fence.NewMemory(nil), path, &fence.HandlerOptions{
		Header: "X-Token", SubjectHeader: "X-Lock", AllowNone: true, OnError: func(_ *http.Request, err error) { seen = append(seen, err) },
	})
	if _, p := ask(t, h, "/orders", "X-Token", "5"); p.Field != "X-Lock" {
		t.Errorf("without a subject: %+v", p)
	}
	seen = nil
	both := fence.Transport{Base: through{h}, Header: "X-Token", SubjectHeader: "X-Lock"}
	a, err := both.RoundTrip(httptest.NewRequestWithContext(fence.With(t.Context(), ordersLease(5)), http.MethodPost, "/orders", nil))
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatal(a, err)
	}
	_ = a.Body.Close()
	h = fence.NewHandler(passes, fence.NewMemory(nil), path, &fence.HandlerOptions{
		Header: "X-Token", AllowNone: true, OnError: func(_ *http.Request, err error) { seen = append(seen, err) },
	})
	if w, _ := ask(t, h, "/orders", "X-Token", "5"); w.Body.String() != "5 true" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w, _ := ask(t, h, "/orders", fence.Header, "4"); w.Body.String() != "0 false" {
		t.Errorf("without a token: %d %s", w.Code, w.Body)
	}
	if _, p := ask(t, h, "/orders", "X-Token", "4"); p.Code != contracts.CodeStaleToken {
		t.Errorf("%+v", p)
	}
	if _, p := ask(t, h, "/orders", "X-Token", "zero"); p.Code != contracts.CodeInvalidArgument || p.Field != "X-Token" {
		t.Errorf("%+v", p)
	}
	if len(seen) != 2 || !errors.Is(seen[0], contracts.CodeStaleToken) ||
		!errors.Is(seen[1], contracts.CodeInvalidArgument) {
		t.Errorf("%v", seen)
	}
}

// broken is a store that fails.
type broken struct{ err error }

// Check implements [fence.Store].
func (b broken) Check(context.Context, string, fence.Lease) error { return b.err }

// TestHandlerWithoutAnAnswer: what the store does not let pass does not pass, and what it says of itself is not shown.
func TestHandlerWithoutAnAnswer(t *testing.T) {
	limit := contracts.Errorf(contracts.CodeLockLimit, "full")
	limit.RetryAfter = 1500 * time.Millisecond
	for i, c := range []struct {
		err   error
		code  contracts.Code
		after string
	}{
		{errors.New("secret"), contracts.CodeUnavailable, ""},
		{contracts.Errorf(contracts.CodeUnauthenticated, "secret"), contracts.CodeUnavailable, ""},
		{context.DeadlineExceeded, contracts.CodeUnavailable, ""},
		{limit, contracts.CodeLockLimit, "2"},
		{fmt.Errorf("%w: of a store without the type", contracts.CodeStaleToken), contracts.CodeStaleToken, ""},
	} {
		var seen error
		h := fence.NewHandler(passes, broken{c.err}, path, &fence.HandlerOptions{
			OnError: func(_ *http.Request, err error) { seen = err }})
		w, p := ask(t, h, "/orders", fence.Header, "5")
		if p.Code != c.code || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Retry-After") != c.after {
			t.Errorf("%d: %d %v %s", i, w.Code, w.Header(), w.Body)
		}
		if p.Code == contracts.CodeUnavailable && !errors.Is(seen, c.err) {
			t.Errorf("%d: %v is not for the log: %v", i, c.err, seen)
		}
	}
}

// through is a RoundTripper that calls a handler.
type through struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (h through) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// bare is a store of one's own, whose error has no more than its code.
type bare struct{}

func (bare) Check(context.Context, string, fence.Lease) error {
	return &contracts.Error{Code: contracts.CodeStaleToken, HighestToken: 7}
}

// TestHandlerOfABareError: the status is that of the code.
func TestHandlerOfABareError(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/x", nil)
	r.Header.Set(fence.Header, "5")
	r.Header.Set(fence.SubjectHeader, "lock/x")
	w := httptest.NewRecorder()
	fence.NewHandler(passes, bare{}, path, nil).ServeHTTP(w, r)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"highest_token":7`) ||
		!strings.Contains(w.Body.String(), `"status":409`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestTransport: LS-FENCE-001 from the context of a lock to the handler. A lock that was lost sends nothing, and what
// its holder sends in spite of that is rejected once the next holder has written.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(26 * 365 * 24 * time.Hour) // of the bubble: tokens begin at the time
		service := direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme")
		sent := 0
		behind := fence.NewHandler(passes, fence.NewMemory(nil), path, nil)
		web := &http.Client{Transport: &fence.Transport{Base: through{http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				sent++
				behind.ServeHTTP(w, r)
			})}}}
		post := func(ctx context.Context) (int, string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://orders.example/orders", strings.NewReader("x"))
			if err != nil {
				return 0, "", err
			}
			a, err := web.Do(r)
			if err != nil {
				return 0, "", err
			}
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			if len(r.Header) > 0 {
				t.Errorf("the caller's request has %v", r.Header)
			}
			return a.StatusCode, string(body), err
		}
		hold := func(ctx context.Context) *locks.Lock {
			c, err := locks.New(service, &locks.Options{TTL: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			l, err := c.TryLock(ctx, "orders", &locks.LockOptions{MaxHold: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := hold(t.Context())
		derived, cancel := context.WithCancel(first.Context())
		defer cancel()
		if status, body, err := post(derived); status != http.StatusOK || body != fmt.Sprint(first.Token(), " true") ||
			err != nil {
			t.Errorf("the first: %d %s %v", status, body, err)
		}
		time.Sleep(20 * time.Second)
		if _, _, err := post(derived); !errors.Is(err, locks.ErrLost) || sent != 1 {
			t.Errorf("after the loss: %v, %d requests", err, sent)
		}
		second := hold(t.Context())
		if status, body, err := post(second.Context()); status != http.StatusOK ||
			body != fmt.Sprint(second.Token(), " true") || err != nil {
			t.Errorf("the second: %d %s %v", status, body, err)
		}
		if status, body, err := post(fence.With(t.Context(), first.Lease())); status != http.StatusConflict ||
			!strings.Contains(body, "STALE_TOKEN") || err != nil {
			t.Errorf("the first again: %d %s %v", status, body, err)
		}
		if status, _, err := post(fence.With(second.Context(), ordersLease(second.Token()+1))); status != http.StatusOK || err != nil {
			t.Errorf("the innermost token: %d %v", status, err)
		}
		if err := second.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		_ = first.Unlock(t.Context())
	})
}

// closed notes that a body was closed.
type closed struct {
	io.Reader
	yes bool
}

// Close implements [io.Closer].
func (c *closed) Close() error { c.yes = true; return nil }

// TestTransportWithoutAToken: nothing is sent, unless it is allowed.
func TestTransportWithoutAToken(t *testing.T) {
	var headers []string
	base := through{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		headers = append(headers, fmt.Sprint(r.Header.Values("X-Token"), r.Header.Values(fence.SubjectHeader)))
	})}
	for _, ctx := range []context.Context{t.Context(), fence.With(t.Context(), ordersLease(0))} {
		body := &closed{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://ann:secret@orders.example/", body)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&fence.Transport{Base: base, Header: "X-Token"}).RoundTrip(r)
		if err == nil || !errors.Is(err, fence.ErrNoToken) || strings.Contains(err.Error(), "secret") ||
			len(headers) > 0 || !body.yes {
			t.Errorf("%v, %v, %v, closed %v", a, err, headers, body.yes)
			_ = a.Body.Close()
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for _, ctx := range []context.Context{t.Context(), fence.With(t.Context(), fence.Lease{Subject: "lock/a \u00e9/%", Token: 7})} {
		a, err := (&fence.Transport{Base: base, Header: "X-Token", AllowNone: true}).RoundTrip(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
	}
	if got := fmt.Sprint(headers); got != "[[] [] [7] [lock/a%20%C3%A9/%25]]" {
		t.Error(got)
	}
}

// TestContextOfARun: the context of an analysis' run has its token, as that of a lock has.
func TestContextOfARun(t *testing.T) {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Analyses().Create(t.Context(), "a1"); err != nil {
		t.Fatal(err)
	}
	out, err := c.Analyses().Run(t.Context(), "a1", func(ctx context.Context, l once.Lock) (string, error) {
		if lease, ok := fence.From(ctx); !ok || lease != l.Lease() || lease.Token != l.Token {
			t.Errorf("%v %v, want %v", lease, ok, l.Lease())
		}
		return "", nil
	}, nil)
	if err != nil || out.Status != once.Ready {
		t.Errorf("%+v, %v", out, err)
	}
}
