package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

// Each key is generated once, by the first test that needs it.
var (
	p256    = newKey(func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
	p256New = newKey(func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
	p384    = newKey(func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) })
	p521    = newKey(func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) })
	rsa2048 = newKey(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	rsa1024 = newKey(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 1024) })
	ed      = newKey(func() (crypto.Signer, error) { _, k, err := ed25519.GenerateKey(rand.Reader); return k, err })
)

func newKey(generate func() (crypto.Signer, error)) func() crypto.Signer {
	return sync.OnceValue(func() crypto.Signer {
		k, err := generate()
		if err != nil {
			panic(err)
		}
		return k
	})
}

// noon is when the fake clocks start.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const audience = "leasehold"

// clock is a fake one: it moves when a test says so.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: noon} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// issuer is an OpenID Connect issuer on a loopback port. Its responses may be changed at any time.
type issuer struct {
	url string

	mu          sync.Mutex
	discovery   http.HandlerFunc
	jwks        http.HandlerFunc
	discoveries int
	fetches     int // of the key set
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.count(&i.discoveries, &i.discovery)(w, r)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { i.count(&i.fetches, &i.jwks)(w, r) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	i.discover(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	i.publish("", keys...)
	return i
}

func (i *issuer) count(n *int, h *http.HandlerFunc) http.HandlerFunc {
	i.mu.Lock()
	defer i.mu.Unlock()
	*n++
	return *h
}

// publish makes keys the issuer's key set.
func (i *issuer) publish(cacheControl string, keys ...jose.JSONWebKey) {
	i.serveKeys(func(w http.ResponseWriter, _ *http.Request) {
		if cacheControl != "" {
			w.Header().Set("Cache-Control", cacheControl)
		}
		send(w, jose.JSONWebKeySet{Keys: keys})
	})
}

func (i *issuer) serveKeys(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.jwks = h
}

func (i *issuer) discover(document any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.discovery = func(w http.ResponseWriter, _ *http.Request) { send(w, document) }
}

// wantFetches asserts how often the key set has been read since the issuer began.
func (i *issuer) wantFetches(t *testing.T, want int) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fetches != want {
		t.Fatalf("the key set was read %d times, want %d", i.fetches, want)
	}
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func fail(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret details", status) }
}

// public is the entry of a signer's public key in a key set.
func public(k crypto.Signer, kid string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.Public(), KeyID: kid, Use: "sig"}
}

type object = map[string]any

// claims are the claims of a good token, with changes; a change to nil removes a claim.
func (i *issuer) claims(changes object) object {
	c := object{
		"iss": i.url, "aud": audience, "sub": "ci-42", "tenant_id": "acme",
		"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(time.Hour).Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// token signs what the issuer would sign with the key p256, which it calls "a".
func (i *issuer) token(t *testing.T, changes object) string {
	t.Helper()
	return sign(t, jose.ES256, p256(), "a", i.claims(changes))
}

// sign makes a JWT. A payload of bytes is signed as it is.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, payload any) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	return signWith(t, alg, key, options, payload)
}

func signWith(t *testing.T, alg jose.SignatureAlgorithm, key any, o *jose.SignerOptions, payload any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	b, isBytes := payload.([]byte)
	if !isBytes {
		if b, err = json.Marshal(payload); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := signer.Sign(b)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// identity trusts the issuer, by the clock.
func (i *issuer) identity(t *testing.T, c *clock) *oidc.Identity {
	t.Helper()
	return newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Now: c.now})
}

func newIdentity(t *testing.T, c oidc.Config) *oidc.Identity {
	t.Helper()
	id, err := oidc.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func request(t *testing.T, token string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func identify(t *testing.T, id *oidc.Identity, token string) (httpapi.Caller, error) {
	t.Helper()
	caller, err := id.Identify(request(t, token))
	if err != nil {
		wantSilent(t, err, token)
	}
	return caller, err
}

// wantSilent asserts that an error gives away nothing of the token: neither a part of it nor its signature.
func wantSilent(t *testing.T, err error, token string) {
	t.Helper()
	for part := range strings.SplitSeq(token, ".") {
		for ; len(part) >= 8; part = part[8:] {
			if strings.Contains(err.Error(), part[:8]) {
				t.Errorf("the error has a part of the token, %q: %v", part[:8], err)
			}
		}
	}
}

func wantCaller(t *testing.T, id *oidc.Identity, token string) {
	t.Helper()
	caller, err := identify(t, id, token)
	if want := (httpapi.Caller{Subject: "ci-42", Tenant: "acme"}); err != nil || caller != want {
		t.Fatalf("Identify = %+v, %v, want %+v", caller, err, want)
	}
}

// wantUnauthenticated asserts that the caller is unauthenticated, with exactly this sentence.
func wantUnauthenticated(t *testing.T, id *oidc.Identity, token, sentence string) {
	t.Helper()
	caller, err := identify(t, id, token)
	if caller != (httpapi.Caller{}) || !errors.Is(err, httpapi.ErrUnauthenticated) || err.Error() != sentence {
		t.Fatalf("Identify = %+v, %v\nwant ErrUnauthenticated: %s", caller, err, sentence)
	}
}

// wantUnavailable asserts that it could not be found out who the caller is.
func wantUnavailable(t *testing.T, id *oidc.Identity, token, because string) {
	t.Helper()
	caller, err := identify(t, id, token)
	unavailable := err != nil && !errors.Is(err, httpapi.ErrUnauthenticated)
	if !unavailable || caller != (httpapi.Caller{}) || !strings.Contains(err.Error(), because) {
		t.Fatalf("Identify = %+v, %v\nwant another error than ErrUnauthenticated, with: %s", caller, err, because)
	}
	if strings.Contains(err.Error(), "secret details") {
		t.Errorf("the error repeats what the issuer answered: %v", err)
	}
}

func unknownKey(kid string) string {
	return fmt.Sprintf("the token is signed with the key %q, which this server's issuer does not publish: "+
		"get a new token, from that issuer", kid)
}
