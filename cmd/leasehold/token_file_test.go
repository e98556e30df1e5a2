//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// keyRing is an identity that accepts some tokens, and says which ones it saw.
type keyRing struct {
	httpapi.Development

	mu    sync.Mutex
	valid map[string]bool
	seen  map[string]int // by token
	said  *sync.Cond     // it saw one
}

func newKeyRing(valid ...string) *keyRing {
	k := &keyRing{seen: map[string]int{}}
	k.said = sync.NewCond(&k.mu)
	k.accept(valid...)
	return k
}

func (k *keyRing) Unverified() bool { return false }

func (k *keyRing) Identify(r *http.Request) (httpapi.Caller, error) {
	secret, err := httpapi.Bearer(r.Header)
	if err != nil {
		return httpapi.Caller{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[secret]++
	k.said.Broadcast()
	if !k.valid[secret] {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token is not known, or was revoked")
	}
	return httpapi.Caller{Subject: "ann", Tenant: "default"}, nil
}

// accept makes these the tokens that are accepted.
func (k *keyRing) accept(tokens ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.valid = map[string]bool{}
	for _, token := range tokens {
		k.valid[token] = true
	}
}

// waits waits until it has seen a token so often, and returns how often it has.
func (k *keyRing) waits(token string, times int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.seen[token] < times {
		k.said.Wait()
	}
	return k.seen[token]
}

// TestTokenFileIsReplaced: every command that goes on sends the token that its file has by now, and goes on when the
// one before is no longer accepted.
func TestTokenFileIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		args string // "WAIT" is a command that runs until it is told to end
		code int
	}{
		"lock run":          {"lock run k --ttl 2s -- WAIT", 0},
		"lock run, several": {"lock run k --also l --ttl 2s -- WAIT", 0},
		"once":              {"once -q r --ttl 2s -- WAIT", 0},
		"lock get --watch":  {"lock get k --watch --interval 100ms", exitInterrupted},
		"lock list --watch": {"lock list --watch --interval 100ms", exitInterrupted},
		"placement events":  {"placement events c -f", exitInterrupted},
		"lock run --wait":   {"lock run held --wait 1h -- true", exitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeyRing("one")
			server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), k, &httpapi.Options{}))
			defer server.Close()
			dir := t.TempDir()
			path, over := filepath.Join(dir, "token"), filepath.Join(dir, "over")
			replace(t, path, "one")
			command := func(ctx context.Context, args []string) (int, string) {
				var out, errs strings.Builder
				code := run(ctx, append([]string{"--server", server.URL, "--auth-token-file", path}, args...), &out, &errs)
				return code, errs.String()
			}
			if code, said := command(t.Context(), []string{"lock", "acquire", "held", "--ttl", "1h"}); code != 0 {
				t.Fatal(said)
			}
			var args []string
			for word := range strings.FieldsSeq(c.args) {
				if word == "WAIT" {
					args = append(args, "sh", "-c", "until [ -e "+over+" ]; do sleep 0.02; done")
					continue
				}
				args = append(args, word)
			}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			type end struct {
				code int
				said string
			}
			ended := make(chan end, 1)
			go func() {
				code, said := command(ctx, args)
				ended <- end{code, said}
			}()
			k.waits("one", 2)                               // the first is of the acquire
			for _, next := range []string{"two", "three"} { // twice: what was replaced once may be again
				replace(t, path, "")
				replace(t, path, next)
				k.accept(next)
				k.waits(next, 1)
			}
			replace(t, over, "")
			if c.code == exitInterrupted {
				interrupt()
			}
			if got := <-ended; got.code != c.code {
				t.Errorf("%d, want %d: %s", got.code, c.code, got.said)
			}
		})
	}
}

// TestTokenIsReplacedLate: a lock outlives that its token is revoked before the file has another one, as long as the
// lease does.
func TestTokenIsReplacedLate(t *testing.T) {
	t.Parallel()
	k := newKeyRing("one")
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), k, nil))
	defer server.Close()
	dir := t.TempDir()
	path, begun, over := filepath.Join(dir, "token"), filepath.Join(dir, "begun"), filepath.Join(dir, "over")
	replace(t, path, "one")
	var out, errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"--server", server.URL, "--auth-token-file", path, "lock", "run", "k", "--ttl", "10s",
			"--", "sh", "-c", "touch " + begun + "; until [ -e " + over + " ]; do sleep 0.02; done"}, &out, &errs)
	}()
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(5 * time.Millisecond)
	}
	k.accept("two")
	k.waits("one", k.waits("one", 1)+2) // a renewal is refused, and its next try is sent
	replace(t, path, "two")
	k.waits("two", 2)
	replace(t, over, "")
	if code := <-ended; code != 0 || !strings.Contains(errs.String(), "UNAUTHENTICATED") ||
		!strings.Contains(errs.String(), "is renewed again") {
		t.Errorf("%d: %s", code, &errs)
	}
}

// replace replaces a file whole.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}
