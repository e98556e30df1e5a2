package tests

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// issuer is an OpenID Connect issuer on loopback.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	respond := func(path string, body func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(body()); err != nil {
				t.Error(err)
			}
		})
	}
	respond("/.well-known/openid-configuration", func() any {
		return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
	})
	respond("/keys", func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}}
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is a token of svc-deploy in the tenant acme, changed by what change says.
func (i *issuer) token(t *testing.T, change map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": "leasehold", "sub": "svc-deploy", "tenant_id": "acme",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, change)
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// TestServeWithAuthentication: the whole way from the flags to the codes, on an address that others could reach
// (LS-AUTH-001).
func TestServeWithAuthentication(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := start(t, "--store", "memory", "--auth-issuer", i.URL, "--auth-audience", "leasehold")
	good := i.token(t, nil)
	header, payload, _ := strings.Cut(good, ".")
	payload, _, _ = strings.Cut(payload, ".")
	const none = "eyJhbGciOiJub25lIn0" // {"alg":"none"}

	cases := []struct {
		name, token, path, body string
		status                  int
		says                    string
	}{
		{"no token", "", "acme/locks/k/acquire", `{"request_id":"r1","ttl_seconds":30}`, 401, `"code":"UNAUTHENTICATED"`},
		{"expired", i.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "acme/locks/k/acquire",
			`{"request_id":"r1","ttl_seconds":30}`, 401, "expired"},
		{"unsigned", header + "." + payload + ".", "acme/locks/k/acquire", `{"request_id":"r1","ttl_seconds":30}`,
			401, "not signed"},
		{"alg none", none + "." + payload + ".", "acme/locks/k/acquire", `{"request_id":"r1","ttl_seconds":30}`,
			401, "algorithm"},
		{"wrong audience", i.token(t, map[string]any{"aud": "other"}), "acme/locks/k/acquire",
			`{"request_id":"r1","ttl_seconds":30}`, 401, "audience"},
		{"wrong issuer", i.token(t, map[string]any{"iss": "https://other.example"}), "acme/locks/k/acquire",
			`{"request_id":"r1","ttl_seconds":30}`, 401, "UNAUTHENTICATED"},
		{"no tenant", i.token(t, map[string]any{"tenant_id": nil}), "acme/locks/k/acquire",
			`{"request_id":"r1","ttl_seconds":30}`, 401, "tenant_id"},
		{"wrong tenant", good, "rival/locks/k/acquire", `{"request_id":"r1","ttl_seconds":30}`, 403,
			`"code":"PERMISSION_DENIED"`},
		{"good", good, "acme/locks/k/acquire", `{"request_id":"r1","ttl_seconds":30}`, 200, `"owner_id":"svc-deploy"`},
		{"an instance of the same subject", good, "acme/locks/k/release",
			`{"request_id":"e1","fencing_token":{token},"owner_id":"w2"}`, 403, `"code":"NOT_OWNER"`},
		{"force without the scope", good, "acme/locks/k/force-release", `{"request_id":"f1","reason":"x"}`, 403,
			`"code":"PERMISSION_DENIED"`},
		{"force with it", i.token(t, map[string]any{"sub": "root", "scope": "openid leasehold:admin"}),
			"acme/locks/k/force-release", `{"request_id":"f1","reason":"x"}`, 200, `"by":"root"`},
	}
	var lease contracts.Lease // of the case "good"
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := strings.ReplaceAll(c.body, "{token}", strconv.FormatInt(lease.FencingToken, 10))
			r, err := http.NewRequestWithContext(unhurried(t), http.MethodPost, p.url+"/v1/tenants/"+c.path,
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Body.Close()
			got, err := io.ReadAll(w.Body)
			if err != nil || w.StatusCode != c.status || !strings.Contains(string(got), c.says) {
				t.Errorf("got %d %s, %v; want %d with %s", w.StatusCode, got, err, c.status, c.says)
			}
			if c.name == "good" {
				if err := json.Unmarshal(got, &lease); err != nil {
					t.Fatal(err)
				}
			}
			if c.status == http.StatusUnauthorized && w.Header.Get("WWW-Authenticate") == "" {
				t.Error("401 without a challenge")
			}
		})
	}
	p.kill(t)
	for _, c := range cases {
		if i := strings.LastIndexByte(c.token, '.'); i > 0 && strings.Contains(p.stderr.String(), c.token[:i]) {
			t.Errorf("the log has the token of %q", c.name)
		}
	}
}

// TestServeWorkers: analyses are for callers with the worker's scope, whatever it is called here; operators may see
// them, and administrators of a tenant may not.
func TestServeWorkers(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := start(t, "--store", "memory", "--auth-issuer", i.URL, "--auth-audience", "leasehold", "--auth-worker-scope",
		"jobs")
	for _, c := range []struct {
		scope string
		code  contracts.Code
	}{
		{"openid leasehold:worker", contracts.CodePermissionDenied},
		{"openid leasehold:admin", contracts.CodePermissionDenied},
		{"openid leasehold:operate", contracts.CodeNotFound}, // who may look, and not run any
		{"openid jobs", contracts.CodeNotFound},
	} {
		server, err := client.New(p.url, &client.Options{Token: func(context.Context) (string, error) {
			return i.token(t, map[string]any{"scope": c.scope}), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Analyses().Get(unhurried(t), "a1"); !errors.Is(err, c.code) {
			t.Errorf("scope %q: %v, want %s", c.scope, err, c.code)
		}
	}
}
