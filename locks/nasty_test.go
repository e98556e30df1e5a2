package locks_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// nasties are what a server, or what stands before it, may send in place of a response. body is the right one.
var nasties = map[string]func(w http.ResponseWriter, r *http.Request, body string){
	"hangs": func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
	"slower than the lease": func(w http.ResponseWriter, _ *http.Request, body string) {
		time.Sleep(40 * time.Second)
		ok(w, body)
	},
	"a redirect": func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Location", "/login")
		w.WriteHeader(http.StatusFound)
	},
	"a page": func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, 200, "text/html", "<html>welcome")
	},
	"not found": func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, 404, "text/html", "<html>404")
	},
	"a bad gateway": func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, 502, "text/html", "<html>502")
	},
	"an error": func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, 500, "text/plain", "oops")
	},
	"a problem without a code": func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, 409, "application/problem+json", "{}")
	},
	"half of it":              func(w http.ResponseWriter, _ *http.Request, body string) { ok(w, body[:len(body)/2]) },
	"nothing":                 func(w http.ResponseWriter, _ *http.Request, _ string) { ok(w, "") },
	"null":                    func(w http.ResponseWriter, _ *http.Request, _ string) { ok(w, "null") },
	"another lock's lease":    replace(`"lock_key":"deploy"`, `"lock_key":"deplox"`),
	"another tenant's lease":  replace(`"tenant_id":"acme"`, `"tenant_id":"acmf"`),
	"another owner's lease":   replace(`"owner_id":"ann"`, `"owner_id":"bob"`),
	"another token":           replace(`"fencing_token":\d+`, `"fencing_token":-7`),
	"a lease that has ended":  replace(`"state":"ACTIVE"`, `"state":"EXPIRED"`),
	"a lease without an end":  replace(`"remaining_ms":\d+,`, ``),
	"a lease in another mode": replace(`"metadata":`, `"mode":"rate","metadata":`),
	"a permit of none":        replace(`"metadata":`, `"permit":7,"metadata":`),
}

func send(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func ok(w http.ResponseWriter, body string) { send(w, 200, "application/json", body) }

func replace(old, now string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		ok(w, regexp.MustCompile(old).ReplaceAllString(body, now))
	}
}

// nastyClient is a client of a server that carries out each command, and responds to those of a name with something
// else.
func nastyClient(t *testing.T, store docstore.Store, command string,
	nasty func(http.ResponseWriter, *http.Request, string)) *locks.Client {
	t.Helper()
	return nastyClientOf(t, store, func(path, _ string) bool { return strings.HasSuffix(path, command) }, nasty)
}

// nastyClientOf is the same for the requests that are chosen by path and body.
func nastyClientOf(
	t *testing.T, store docstore.Store, chosen func(path, body string) bool,
	nasty func(http.ResponseWriter, *http.Request, string),
) *locks.Client {
	t.Helper()
	right := httpapi.New(store, httpapi.Development{}, nil)
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !chosen(r.URL.Path, string(body)) {
			right.ServeHTTP(w, r)
			return
		}
		got := httptest.NewRecorder()
		right.ServeHTTP(got, r)
		nasty(w, r, got.Body.String())
	})
	c, err := client.New("http://127.0.0.1", &client.Options{HTTP: &http.Client{Transport: handler{server}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := locks.New(c.LockAPI().For("acme"), &locks.Options{Owner: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestNastyServer: whatever is sent in place of a lease grants nothing and extends nothing, and no call hangs.
func TestNastyServer(t *testing.T) {
	for name, nasty := range nasties {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				c := nastyClient(t, docstore.NewMemory(nil), "/acquire", nasty)
				if l, err := c.TryLock(t.Context(), "deploy", nil); err == nil {
					t.Errorf("acquired with token %d", l.Token())
				}
				if took := time.Since(begin); took > 25*time.Second+time.Second { // 10 s, and a try that was begun
					t.Errorf("it took %v", took)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := c.Close(ctx); err != nil && !errors.Is(err, locks.ErrNotReleased) {
					t.Errorf("close: %v", err)
				}
				time.Sleep(2 * time.Minute)
			})
			synctest.Test(t, func(t *testing.T) {
				c := nastyClient(t, docstore.NewMemory(nil), "/renew", nasty)
				begin := time.Now()
				err := c.Do(t.Context(), "deploy", nil, func(ctx context.Context, _ *locks.Lock) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				if took := time.Since(begin); !errors.Is(err, locks.ErrLost) || took != 27*time.Second-time.Millisecond {
					t.Errorf("after %v: %v", took, err)
				}
				time.Sleep(2 * time.Minute)
			})
			synctest.Test(t, func(t *testing.T) {
				store := docstore.NewMemory(nil)
				c := nastyClient(t, store, "/release", nasty)
				begin := time.Now()
				err := c.Do(t.Context(), "deploy", nil, func(context.Context, *locks.Lock) error { return nil })
				if took := time.Since(begin); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				t.Log(err)
				time.Sleep(2 * time.Minute)
				right := nastyClient(t, store, "/nothing", nasty)
				if err := right.Do(t.Context(), "deploy", nil,
					func(context.Context, *locks.Lock) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNastyServerWhileWaiting: the same for requests that wait, in every mode. No one has the lock while another has
// it, no call hangs, and in the end nothing is held.
func TestNastyServerWhileWaiting(t *testing.T) {
	for mode, o := range map[string]locks.LockOptions{
		"exclusive": {}, "fair": {Fair: true}, "shared": {Shared: true}, "permits": {Permits: 1}, "replace": {Replace: true},
	} {
		for name, nasty := range nasties {
			t.Run(mode+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := docstore.NewMemory(nil)
					holder := nastyClient(t, store, "/nothing", nasty)
					first := o
					first.Shared, first.Replace = false, false
					held, err := holder.TryLock(background, "deploy", &first)
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(time.Minute, func() { _ = held.Unlock(background) })
					c := nastyClientOf(t, store, func(_, body string) bool { return strings.Contains(body, `"wait_seconds"`) }, nasty)
					begin := time.Now()
					o := o
					o.Wait = new(2 * time.Minute)
					l, err := c.Lock(background, "deploy", &o)
					took := time.Since(begin)
					switch {
					case err == nil && took < time.Minute:
						t.Errorf("acquired after %v", took)
					case err == nil:
						if err := l.Unlock(background); err != nil {
							t.Error(err)
						}
					case took > 2*time.Minute+time.Second:
						t.Errorf("%v after %v", err, took)
					}
					if err := c.Close(background); err != nil && !errors.Is(err, locks.ErrNotReleased) {
						t.Error(err)
					}
					time.Sleep(2 * time.Minute)
					right := nastyClient(t, store, "/nothing", nasty)
					if l, err := right.TryLock(background, "deploy", nil); err != nil {
						t.Errorf("in the end: %v", err)
					} else if err := l.Unlock(background); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestLongerThanAsked: a lease that lasts longer than was asked for is counted as it was asked for.
func TestLongerThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := replace(`"remaining_ms":\d+`, `"remaining_ms":99000000`)
		c := nastyClient(t, docstore.NewMemory(nil), "e", long) // acquire and release
		l, err := c.TryLock(t.Context(), "deploy", nil)
		if err != nil {
			t.Fatal(err)
		}
		if left := l.Remaining(); left > 27*time.Second {
			t.Errorf("%v are left", left)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
