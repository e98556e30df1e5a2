package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

func TestNothingIsReadBeforeTheFirstToken(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := i.identity(t, newClock())
	i.wantFetches(t, 0)
	r := request(t, "")
	if _, err := id.Identify(r); !errors.Is(err, httpapi.ErrUnauthenticated) {
		t.Fatal(err)
	}
	i.wantFetches(t, 0)
	for range 3 {
		wantCaller(t, id, i.token(t, nil))
	}
	i.wantFetches(t, 1)
	if i.discoveries != 1 {
		t.Errorf("%d discoveries, want 1", i.discoveries)
	}
}

func TestKeysFromTheConfiguredURL(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, JWKSURL: i.url + "/keys", Now: newClock().now})
	wantCaller(t, id, i.token(t, nil))
	i.wantFetches(t, 1)
	if i.discoveries != 0 {
		t.Errorf("%d discoveries, want none", i.discoveries)
	}
}

func TestRotation(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	id := i.identity(t, c)
	tokenOld, tokenNew := i.token(t, nil), sign(t, jose.ES256, p256New(), "b", i.claims(nil))
	wantCaller(t, id, tokenOld)

	// The new key replaces the old one. Its first token makes the server look, and then the old key is gone, too.
	i.publish("", public(p256New(), "b"))
	c.advance(10 * time.Second)
	wantCaller(t, id, tokenOld)
	i.wantFetches(t, 1)
	wantCaller(t, id, tokenNew)
	i.wantFetches(t, 2)
	wantUnauthenticated(t, id, tokenOld, unknownKey("a"))
	i.wantFetches(t, 2)
}

// TestRemovedKey asks how long a key works that the issuer has removed, if no token makes the server look: until the
// end of the set's life, to the nanosecond.
func TestRemovedKey(t *testing.T) {
	for _, c := range []struct {
		cacheControl string
		life         time.Duration
	}{
		{"", 15 * time.Minute},
		{"no-store", 15 * time.Minute},
		{"public, max-age=300, must-revalidate", 5 * time.Minute},
		{"Max-Age=300", 5 * time.Minute},
		{`max-age="300"`, 5 * time.Minute},
		{"s-maxage=120", 15 * time.Minute},
		{"max-age=0", time.Minute},
		{"max-age=59", time.Minute},
		{"max-age=86401", 24 * time.Hour},
		{"max-age=99999999999999999999", 24 * time.Hour},
		{"max-age=-1", 15 * time.Minute},
		{"max-age=soon", 15 * time.Minute},
		{"max-age", 15 * time.Minute},
	} {
		t.Run(c.cacheControl, func(t *testing.T) {
			i := newIssuer(t)
			i.publish(c.cacheControl, public(p256(), "a"))
			clock := newClock()
			id := i.identity(t, clock)
			token := i.token(t, object{"exp": noon.Add(48 * time.Hour).Unix()})
			wantCaller(t, id, token)
			i.publish(c.cacheControl, public(p256New(), "b"))
			clock.advance(c.life/2 - 1)
			wantCaller(t, id, token)
			i.wantFetches(t, 1)
			clock.advance(c.life - c.life/2 + 1)
			wantUnauthenticated(t, id, token, unknownKey("a"))
			i.wantFetches(t, 2)
		})
	}
}

// TestIssuerIsDownForAWhile: known keys work to the end of their life while the issuer is down, and the server recovers
// by itself.
func TestIssuerIsDownForAWhile(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	id := i.identity(t, c)
	token, made := i.token(t, nil), sign(t, jose.ES256, p256(), "made up", i.claims(nil))
	wantCaller(t, id, token)
	i.serveKeys(fail(http.StatusBadGateway))

	c.advance(time.Minute)
	wantUnavailable(t, id, made, "/keys responded with status 502") // it may be a new key: it cannot be found out
	i.wantFetches(t, 2)
	wantUnavailable(t, id, made, "/keys responded with status 502")
	i.wantFetches(t, 2)
	wantCaller(t, id, token)

	c.advance(14*time.Minute - 1)
	wantCaller(t, id, token) // tries in the background
	c.advance(1)
	wantUnavailable(t, id, token, "/keys responded with status 502")
	i.wantFetches(t, 3)

	i.publish("", public(p256(), "a"))
	c.advance(10*time.Second - 2)
	wantUnavailable(t, id, token, "/keys responded with status 502")
	i.wantFetches(t, 3)
	c.advance(1)
	wantCaller(t, id, token)
	i.wantFetches(t, 4)
	wantUnauthenticated(t, id, made, unknownKey("made up"))
	i.wantFetches(t, 4)
}

func TestIssuerIsDownAtTheStart(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	// The issuer's port is closed at first: the server behind it stands in for it later.
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	up := atomic.Bool{}
	id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Now: c.now,
		HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if !up.Load() {
				r = r.Clone(r.Context())
				r.URL.Host = strings.TrimPrefix(closed.URL, "http://")
			}
			return http.DefaultTransport.RoundTrip(r)
		})}})
	token := i.token(t, nil)
	wantUnavailable(t, id, token, "connection refused")
	up.Store(true)
	wantUnavailable(t, id, token, "connection refused")
	c.advance(10 * time.Second)
	wantCaller(t, id, token)
	i.wantFetches(t, 1)
}

// TestFlood sends tokens with made-up key names: the issuer receives one request in 10 seconds.
func TestFlood(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	id := i.identity(t, c)
	flood := func() {
		var all sync.WaitGroup
		for n := range 50 {
			kid := fmt.Sprint("made up ", n)
			token := sign(t, jose.ES256, p256New(), kid, i.claims(nil))
			all.Go(func() {
				if _, err := id.Identify(request(t, token)); err == nil || err.Error() != unknownKey(kid) {
					t.Errorf("Identify: %v, want %s", err, unknownKey(kid))
				}
			})
		}
		all.Wait()
	}
	flood()
	i.wantFetches(t, 1)
	for n := range 3 {
		c.advance(10*time.Second - 1)
		flood()
		i.wantFetches(t, 1+n)
		c.advance(1)
		flood()
		i.wantFetches(t, 2+n)
	}
	wantCaller(t, id, i.token(t, nil))
	// Wrong signatures under a known name ask the issuer as often, and no more.
	for n := range 3 {
		c.advance(time.Minute)
		for range 20 {
			wantUnauthenticated(t, id, sign(t, jose.ES256, p256New(), "a", i.claims(nil)), "the token's signature is wrong")
		}
		i.wantFetches(t, 5+n)
	}
	// Nor do they wait for an issuer that is down.
	i.serveKeys(fail(http.StatusBadGateway))
	c.advance(10 * time.Second)
	wantUnauthenticated(t, id, sign(t, jose.ES256, p256New(), "a", i.claims(nil)), "the token's signature is wrong")
	wantCaller(t, id, i.token(t, nil))
}

// TestANewKeyUnderAKnownName: an issuer may give a new key the name of the old one. Its first token makes the server
// look, within the bound of fetches.
func TestANewKeyUnderAKnownName(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	id := i.identity(t, c)
	wantCaller(t, id, i.token(t, nil))
	i.publish("", public(p256New(), "a"))
	token := sign(t, jose.ES256, p256New(), "a", i.claims(nil))
	c.advance(10*time.Second - 1)
	wantUnauthenticated(t, id, token, "the token's signature is wrong")
	c.advance(1)
	wantCaller(t, id, token)
	i.wantFetches(t, 2)
}

// TestWhatAKeyDoesNotNeed: members that verification does not need make no key unusable, nor does padding.
func TestWhatAKeyDoesNotNeed(t *testing.T) {
	plain := object{}
	b, err := public(rsa2048(), "a").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &plain); err != nil {
		t.Fatal(err)
	}
	for name, odd := range map[string]object{
		"x5c":          {"x5c": []string{"MIIB"}},
		"x5c, no list": {"x5c": "MIIB"},
		"x5t":          {"x5t": "a+b/c="},
		"x5t#S256":     {"x5t#S256": 7},
		"x5u":          {"x5u": "not a URL"},
		"key_ops":      {"key_ops": "verify"},
		"padding":      {"n": plain["n"].(string) + "==", "e": "AQAB===="},
		"of its own":   {"issued": true},
	} {
		t.Run(name, func(t *testing.T) {
			key := maps.Clone(plain)
			maps.Copy(key, odd)
			i := newIssuer(t)
			i.serveKeys(keySet(key))
			wantCaller(t, i.identity(t, newClock()), sign(t, jose.RS256, rsa2048(), "a", i.claims(nil)))
		})
	}
	key := maps.Clone(plain)
	key["kid"] = 7
	i := newIssuer(t)
	i.serveKeys(keySet(key))
	wantCaller(t, i.identity(t, newClock()), sign(t, jose.RS256, rsa2048(), "7", i.claims(nil)))
}

// TestKeysThatAreNotUsedAreLogged: with the reason, once for as long as they stay the same, and with nothing of the
// keys but their names.
func TestKeysThatAreNotUsedAreLogged(t *testing.T) {
	var log strings.Builder
	odd := object{"kty": "EC", "crv": "P-256", "x": "c2VjcmV0", "y": "AA", "kid": "odd"}
	i := newIssuer(t)
	i.serveKeys(keySet(public(p256(), "a"), public(rsa1024(), "short"), odd, object{"kty": "oct", "k": "c2VjcmV0"}))
	c := newClock()
	id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Now: c.now,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		wantCaller(t, id, i.token(t, object{"exp": noon.Add(48 * time.Hour).Unix()}))
		c.advance(time.Hour)
	}
	i.wantFetches(t, 3)
	said := log.String()
	for _, want := range []string{"short", "it has 1024 bits, 2048 at least", "odd", "cannot be read", "a secret key"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not say %q:\n%s", want, said)
		}
	}
	if strings.Count(said, "level=WARN") != 1 || strings.Contains(said, "c2VjcmV0") {
		t.Errorf("the log says:\n%s", said)
	}
}

func TestKeySets(t *testing.T) {
	body := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	set := keySet
	changed := func(change func(*jose.JSONWebKey)) jose.JSONWebKey {
		k := public(p256(), "a")
		change(&k)
		return k
	}
	const none = "has no key for the signatures RS256, PS256, ES256, ES384, EdDSA"
	good := public(p256(), "a")
	for _, c := range []struct {
		name string
		jwks http.HandlerFunc
		want string // empty: the good key is found
	}{
		{"good", set(good), ""},
		{"good among others", set(object{"kty": "OKP", "crv": "Ed448", "x": "AA", "kid": "a"}, object{"kty": "new"},
			object{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}, "no key", public(rsa1024(), "a"), good), ""},
		{"two of a name", set(public(p256New(), "a"), good), ""},
		{"no use", set(changed(func(k *jose.JSONWebKey) { k.Use = "" })), ""},

		{"500", fail(http.StatusInternalServerError), "/keys responded with status 500"},
		{"404", fail(http.StatusNotFound), "/keys responded with status 404"},
		{"a page", body("<html>sign in</html>"),
			"/keys is not JSON that has keys: invalid character '<' looking for beginning of value"},
		{"cut off", body(`{"keys":[`), "/keys is not JSON that has keys: unexpected end of JSON input"},
		{"nothing", body(""), "/keys is not JSON that has keys: unexpected end of JSON input"},
		{"connection lost", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"keys":[`)
		}, "/keys: unexpected EOF"},
		{"no keys member", body(`{}`), none + " (it has 0 keys)"},
		{"no keys", body(`{"keys":[]}`), none + " (it has 0 keys)"},
		{"for encryption", set(changed(func(k *jose.JSONWebKey) { k.Use = "enc" })), none + " (it has 1 keys)"},
		{"for another algorithm", set(changed(func(k *jose.JSONWebKey) { k.Algorithm = "ECDH-ES" })),
			none + " (it has 1 keys)"},
		{"private", set(changed(func(k *jose.JSONWebKey) { k.Key = p256().(*ecdsa.PrivateKey) })),
			none + " (it has 1 keys)"},
		{"shared secret", set(object{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}), none + " (it has 1 keys)"},
		{"RSA of 1024 bits", set(public(rsa1024(), "a")), none + " (it has 1 keys)"},
		{"P-521", set(public(p521(), "a")), none + " (it has 1 keys)"},
		{"100 keys", set(slices.Repeat([]any{good}, 100)...), ""},
		{"101 keys", set(slices.Repeat([]any{good}, 101)...), "/keys has 101 keys, 100 at most"},
		{"1 MiB", body(padded(t, good, 1<<20)), ""},
		{"more than 1 MiB", body(padded(t, good, 1<<20+1)), "/keys has more than 1048576 bytes"},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			for line := strings.Repeat(" ", 1<<16); ; {
				if _, err := io.WriteString(w, line); err != nil {
					return // the reader has had enough
				}
			}
		}, "/keys has more than 1048576 bytes"},
		{"redirect to a URL without TLS", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://issuer.example/keys", http.StatusFound)
		}, "the URL that it redirects to must begin with https://"},
		{"redirect for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, "stopped after 10 redirects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIssuer(t)
			i.serveKeys(c.jwks)
			id := i.identity(t, newClock())
			if c.want == "" {
				wantCaller(t, id, i.token(t, nil))
			} else {
				wantUnavailable(t, id, i.token(t, nil), c.want)
				_, err := identify(t, id, i.token(t, nil))
				lasts := strings.Contains(c.want, none) || strings.Contains(c.want, "100 at most")
				if errors.Is(err, httpapi.ErrMisconfigured) != lasts {
					t.Errorf("%v: that it lasts is said to be %v", err, !lasts)
				}
			}
		})
	}
}

// keySet serves a set of these keys.
func keySet(keys ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { send(w, object{"keys": keys}) }
}

// padded is a key set of exactly size bytes.
func padded(t *testing.T, key jose.JSONWebKey, size int) string {
	t.Helper()
	b, err := json.Marshal(object{"keys": []any{key}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + strings.Repeat(" ", size-len(b))
}

// TestBadResponseKeepsTheKeys: what is not a key set does not replace one.
func TestBadResponseKeepsTheKeys(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	c := newClock()
	id := i.identity(t, c)
	wantCaller(t, id, i.token(t, nil))
	i.publish("")
	c.advance(10 * time.Second)
	wantUnavailable(t, id, sign(t, jose.ES256, p256(), "b", i.claims(nil)), "(it has 0 keys)")
	wantCaller(t, id, i.token(t, nil))
}

func TestDiscovery(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	for _, c := range []struct {
		name     string
		document any
		want     string
	}{
		{"other issuer", object{"issuer": i.url + "/", "jwks_uri": i.url + "/keys"},
			fmt.Sprintf("is of issuer %q, the configured issuer is %q: they must be identical", i.url+"/", i.url)},
		{"no keys", object{"issuer": i.url},
			`the jwks_uri "" in the document at ` + i.url + `/.well-known/openid-configuration is not a URL`},
		{"keys without TLS", object{"issuer": i.url, "jwks_uri": "http://issuer.example/keys"},
			"must begin with https://: over http://"},
		{"array", []int{}, "is not an OpenID Connect configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i.discover(c.document)
			wantUnavailable(t, i.identity(t, newClock()), i.token(t, nil), c.want)
			_, err := identify(t, i.identity(t, newClock()), i.token(t, nil))
			if lasts := c.name != "array"; errors.Is(err, httpapi.ErrMisconfigured) != lasts {
				t.Errorf("%v: that it lasts is said to be %v", err, !lasts)
			}
		})
	}
	i.wantFetches(t, 0)
}

// TestRedirectsOfTheClient: the rules of the user's own client hold as well.
func TestRedirectsOfTheClient(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t, public(p256(), "a"))
	i.serveKeys(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.url+"/keys", http.StatusFound)
	})
	for _, refused := range []error{nil, errors.New("stay here")} {
		id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Now: newClock().now, HTTPClient: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return refused },
		}})
		if refused == nil {
			wantCaller(t, id, i.token(t, nil))
		} else {
			wantUnavailable(t, id, i.token(t, nil), "stay here")
		}
	}
	other.wantFetches(t, 1)
}

func TestMovedKeys(t *testing.T) {
	i, other := newIssuer(t, public(p256(), "a")), newIssuer(t, public(p256New(), "b"))
	c := newClock()
	id := i.identity(t, c)
	wantCaller(t, id, i.token(t, nil))
	i.discover(object{"issuer": i.url, "jwks_uri": other.url + "/keys"})
	c.advance(10 * time.Second)
	wantCaller(t, id, sign(t, jose.ES256, p256New(), "b", i.claims(nil)))
}

// roundTripper serves requests without a socket, so that a synctest bubble knows when all goroutines wait.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent is an issuer without sockets that does not respond until the gate is open.
type silent struct {
	gate    chan struct{}
	begun   atomic.Int64
	ended   atomic.Int64 // by the end of the request's context
	payload string
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	return &silent{gate: make(chan struct{}), payload: padded(t, public(p256(), "a"), 1000)}
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.begun.Add(1)
	if err := r.Context().Err(); err != nil {
		return nil, err // before the gate is looked at, as the real transport does
	}
	select {
	case <-s.gate:
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(s.payload)), Request: r}, nil
	case <-r.Context().Done():
		s.ended.Add(1)
		return nil, r.Context().Err()
	}
}

const far = "https://issuer.example"

func (s *silent) config(client *http.Client) oidc.Config {
	client.Transport = s
	return oidc.Config{Issuer: far, Audience: audience, JWKSURL: far + "/keys", HTTPClient: client}
}

func (s *silent) token(t *testing.T) string {
	t.Helper()
	now := time.Now()
	return (&issuer{url: far}).token(t, object{"iat": now.Unix(), "nbf": nil, "exp": now.Add(time.Hour).Unix()})
}

// TestColdCacheUnderLoad: a hundred requests wait for one fetch, all at once, and all get its response; also those that
// come when it has been running for so long that another would be allowed.
func TestColdCacheUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(t)
		var ahead atomic.Int64 // of the bubble's clock, by which the fetch would time out
		config := s.config(&http.Client{})
		config.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		id := newIdentity(t, config)
		token := s.token(t)
		var responses atomic.Int64
		for n := range 100 {
			if n == 50 {
				synctest.Wait()
				ahead.Store(int64(time.Minute))
			}
			r := request(t, token)
			go func() {
				if caller, err := id.Identify(r); err != nil || caller.Subject != "ci-42" {
					t.Errorf("Identify = %+v, %v", caller, err)
				}
				responses.Add(1)
			}()
		}
		synctest.Wait()
		if s.begun.Load() != 1 || responses.Load() != 0 {
			t.Fatalf("%d fetches, %d responses before the issuer's, want 1 and 0", s.begun.Load(), responses.Load())
		}
		close(s.gate)
		synctest.Wait()
		if s.begun.Load() != 1 || responses.Load() != 100 {
			t.Fatalf("%d fetches, %d responses, want 1 and 100", s.begun.Load(), responses.Load())
		}
	})
}

// TestSlowIssuer: a request waits no longer than its context allows, and does not take the fetch with it.
func TestSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(t)
		id := newIdentity(t, s.config(&http.Client{}))
		token := s.token(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := id.Identify(request(t, token).WithContext(ctx))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, httpapi.ErrUnauthenticated) {
			t.Errorf("Identify: %v, want the deadline", err)
		}
		if waited := time.Since(began); waited != 300*time.Millisecond {
			t.Errorf("waited %v, want 300ms", waited)
		}
		synctest.Wait()
		if s.ended.Load() != 0 {
			t.Fatal("the fetch ended with the request that began it")
		}
		close(s.gate)
		wantCaller(t, id, token)
		if s.begun.Load() != 1 {
			t.Errorf("%d fetches, want 1", s.begun.Load())
		}
	})
}

// TestHangingIssuer: without a deadline of its own, a request waits as long as a fetch may take.
func TestHangingIssuer(t *testing.T) {
	for _, c := range []struct {
		name   string
		client *http.Client
		want   time.Duration
	}{
		{"client with a timeout", &http.Client{Timeout: 5 * time.Second}, 5 * time.Second},
		{"client without a timeout", &http.Client{}, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilent(t)
				id := newIdentity(t, s.config(c.client))
				began := time.Now()
				wantUnavailable(t, id, s.token(t), far+"/keys")
				if waited := time.Since(began); waited != c.want {
					t.Errorf("waited %v, want %v", waited, c.want)
				}
			})
		})
	}
}

// TestEndOfTheLifetime: after the context of New has ended nothing is read, and what was read works to its end.
func TestEndOfTheLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(t)
		close(s.gate)
		ctx, end := context.WithCancel(t.Context())
		config := s.config(&http.Client{})
		id, err := oidc.New(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		token := s.token(t)
		wantCaller(t, id, token)
		end()
		time.Sleep(15*time.Minute - 1)
		wantCaller(t, id, token)
		time.Sleep(time.Nanosecond)
		wantUnavailable(t, id, token, context.Canceled.Error())
	})
}

// TestRefreshInTheBackground: from half their life on keys are read again without anybody waiting for it.
func TestRefreshInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(t)
		close(s.gate)
		id := newIdentity(t, s.config(&http.Client{}))
		token := s.token(t)
		wantCaller(t, id, token)
		s.gate = make(chan struct{})
		time.Sleep(15*time.Minute/2 - 1)
		wantCaller(t, id, token)
		synctest.Wait()
		if s.begun.Load() != 1 {
			t.Fatalf("%d fetches before half the life, want 1", s.begun.Load())
		}
		time.Sleep(time.Nanosecond)
		for range 3 {
			wantCaller(t, id, token)
		}
		synctest.Wait()
		if s.begun.Load() != 2 {
			t.Fatalf("%d fetches at half the life, want 2", s.begun.Load())
		}
		close(s.gate)
		synctest.Wait()
		time.Sleep(15 * time.Minute / 2) // past the end of the first life: the second one's half
		wantCaller(t, id, token)
		synctest.Wait()
		if s.begun.Load() != 3 {
			t.Fatalf("%d fetches, want 3", s.begun.Load())
		}
	})
}

// TestDiscoveryOfIssuers: where the keys of well-known issuers are, by documents of the form that they publish. Their
// hosts are reached by a transport of the test; it refuses every other address.
func TestDiscoveryOfIssuers(t *testing.T) {
	for name, c := range map[string]struct{ issuer, document, keys string }{
		"Google": {"https://accounts.google.com", "https://accounts.google.com/.well-known/openid-configuration",
			"https://www.googleapis.com/oauth2/v3/certs"},
		"GitHub Actions": {"https://token.actions.githubusercontent.com",
			"https://token.actions.githubusercontent.com/.well-known/openid-configuration",
			"https://token.actions.githubusercontent.com/.well-known/jwks"},
		"Auth0": {"https://acme.eu.auth0.com/", "https://acme.eu.auth0.com/.well-known/openid-configuration",
			"https://acme.eu.auth0.com/.well-known/jwks.json"},
		"Okta": {"https://acme.okta.com/oauth2/default",
			"https://acme.okta.com/oauth2/default/.well-known/openid-configuration",
			"https://acme.okta.com/oauth2/default/v1/keys"},
		"Entra": {"https://login.microsoftonline.com/1/v2.0",
			"https://login.microsoftonline.com/1/v2.0/.well-known/openid-configuration",
			"https://login.microsoftonline.com/1/discovery/v2.0/keys"},
		"Entra, 1.0": {"https://sts.windows.net/1/", "https://sts.windows.net/1/.well-known/openid-configuration",
			"https://login.microsoftonline.com/common/discovery/keys"},
		"Cognito": {"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_A",
			"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_A/.well-known/openid-configuration",
			"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_A/.well-known/jwks.json"},
		"Keycloak": {"https://keycloak.acme.example/realms/acme",
			"https://keycloak.acme.example/realms/acme/.well-known/openid-configuration",
			"https://keycloak.acme.example/realms/acme/protocol/openid-connect/certs"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := []string{}
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.String())
				w := httptest.NewRecorder()
				switch r.URL.String() {
				case c.document:
					send(w, object{"issuer": c.issuer, "jwks_uri": c.keys, "subject_types_supported": []string{"pairwise"},
						"id_token_signing_alg_values_supported": []string{"RS256"}})
				case c.keys:
					send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public(p256(), "a")}})
				default:
					return nil, errors.New("no such address")
				}
				return w.Result(), nil
			})
			id := newIdentity(t, oidc.Config{Issuer: c.issuer, Audience: audience, Now: newClock().now,
				HTTPClient: &http.Client{Transport: transport}})
			i := &issuer{url: c.issuer}
			wantCaller(t, id, i.token(t, nil))
			if want := []string{c.document, c.keys}; !slices.Equal(asked, want) {
				t.Errorf("asked for %q, want %q", asked, want)
			}
		})
	}
}
