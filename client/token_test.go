package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/reread"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// passing is an identity of tokens that are times, and end 8 seconds later.
type passing struct{ httpapi.Development }

const tokenLasts = 8 * time.Second

func (passing) Identify(r *http.Request) (httpapi.Caller, error) {
	secret, err := httpapi.Bearer(r.Header)
	if err != nil {
		return httpapi.Caller{}, err
	}
	made, err := time.Parse(time.RFC3339Nano, secret)
	if err != nil || time.Since(made) >= tokenLasts {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token has ended")
	}
	return httpapi.Caller{Subject: "ann", Tenant: "acme"}, nil
}

func (passing) Unverified() bool { return false }

// inMemory sends requests to a handler, and counts those whose token is rejected.
type inMemory struct {
	handler  http.Handler
	rejected atomic.Int32
}

func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized {
		m.rejected.Add(1)
	}
	return w.Result(), nil
}

// TestTokensThatPass: a lock is held for a minute of which no token lasts longer than 8 seconds, with a file that is
// replaced every 4, and for a moment empty. One whose file is replaced no more is lost, and not before its lease ends.
func TestTokensThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(40 * 365 * 24 * time.Hour) // past the epoch of tokens
		path := filepath.Join(t.TempDir(), "token")
		put := func(text string) {
			t.Helper()
			if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
				t.Fatal(err)
			}
		}
		now := func() string { return time.Now().Format(time.RFC3339Nano) }
		put(now())
		file, err := reread.Token(path)
		if err != nil {
			t.Fatal(err)
		}
		m := &inMemory{handler: httpapi.New(docstore.NewMemory(nil), passing{}, nil)}
		c, err := client.New("https://leasehold.example", &client.Options{HTTP: &http.Client{Transport: m},
			Token: func(ctx context.Context) (string, error) {
				if client.Rejected(ctx) {
					return file.Again(), nil
				}
				return file.Latest(), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		holder, err := c.Locks("acme", &locks.Options{TTL: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		held, err := holder.Lock(t.Context(), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 15 {
			time.Sleep(4*time.Second - 100*time.Millisecond)
			put("")
			time.Sleep(100 * time.Millisecond)
			put(now())
		}
		if err := locks.Check(held.Context()); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		if n := m.rejected.Load(); n != 0 {
			t.Errorf("%d requests were rejected", n)
		}
		begin := time.Now()
		<-held.Context().Done()
		if lasted := time.Since(begin); lasted < tokenLasts || lasted > tokenLasts+6*time.Second ||
			!errors.Is(context.Cause(held.Context()), contracts.CodeUnauthenticated) {
			t.Errorf("without another token: after %v, %v", lasted, context.Cause(held.Context()))
		}
		_ = holder.Close(t.Context())
	})
}

// TestRejectedToken: a request whose token is rejected is sent again with another one, the same in all else, and only if
// there is one. A token that cannot be had then changes nothing.
func TestRejectedToken(t *testing.T) {
	const rejected = `{"code":"UNAUTHENTICATED","title":"x","status":401,"retryable":false}`
	for name, c := range map[string]struct {
		tokens []string // in the order in which they are asked for; the last one again and again, "" cannot be had
		valid  string
		want   []string // tokens that are sent
		code   contracts.Code
	}{
		"another":               {[]string{"old", "new"}, "new", []string{"old", "new"}, ""},
		"no other":              {[]string{"old"}, "new", []string{"old"}, contracts.CodeUnauthenticated},
		"a third one":           {[]string{"old", "older", "new"}, "new", []string{"old", "older", "new"}, ""},
		"a fourth one":          {[]string{"old", "older", "oldest", "new"}, "new", []string{"old", "older", "oldest"}, contracts.CodeUnauthenticated},
		"another is rejected":   {[]string{"old", "older"}, "new", []string{"old", "older"}, contracts.CodeUnauthenticated},
		"another cannot be had": {[]string{"old", ""}, "new", []string{"old"}, contracts.CodeUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(_ int, r *http.Request) answer {
				if r.Header.Get("Authorization") != "Bearer "+c.valid {
					return reply(401, "application/problem+json", rejected)
				}
				return reply(200, "application/json", granted)
			}}
			asked := 0
			server := over(t, w, client.Options{Token: func(ctx context.Context) (string, error) {
				asked++
				if client.Rejected(ctx) != (asked > 1) {
					t.Errorf("call %d: rejected: %v", asked, client.Rejected(ctx))
				}
				if token := c.tokens[min(asked, len(c.tokens))-1]; token != "" {
					return token, nil
				}
				return "", errors.New("no token")
			}})
			_, err := server.Acquire(t.Context(), "acme", "deploy", ask)
			if c.code == "" && err != nil || c.code != "" && !errors.Is(err, c.code) {
				t.Errorf("%v, want %s", err, c.code)
			}
			var got []string
			for _, s := range w.sent {
				got = append(got, strings.TrimPrefix(s.header.Get("Authorization"), "Bearer "))
				if s.body != w.sent[0].body || s.target != w.sent[0].target {
					t.Errorf("%s %s, and then %s %s", w.sent[0].target, w.sent[0].body, s.target, s.body)
				}
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("sent with %q, want %q", got, c.want)
			}
		})
	}
}
