package tests

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/contracts"
)

// claims are those of a token. A claim that is nil is left out.
type claims map[string]any

// with returns these claims with others in place of some.
func (c claims) with(other claims) claims {
	all := maps.Clone(c)
	maps.Copy(all, other)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// sent is a token as an issuer gives it, and what a server with the settings of docs/guides/authentication.md makes of
// it.
type sent struct {
	name   string
	claims claims
	typ    string               // in its header; empty is JWT
	raw    string               // in place of claims: what is no JWT
	want   contracts.CallerInfo // without the time
	says   string               // in place of want: in the response 401, or 403 if it is about a scope
}

// The claims of tokens, as each issuer documents them or gives them. Times are added.
var (
	google = claims{
		"iss": "https://accounts.google.com", "aud": "leasehold", "azp": "104211111111111111111",
		"sub":   "104211111111111111111",
		"email": "locker@my-project-123.iam.gserviceaccount.com", "email_verified": true,
		"google": claims{"compute_engine": claims{"project_id": "my-project-123", "zone": "europe-west1-b",
			"instance_id": "1"}},
	}
	github = claims{
		"iss": "https://token.actions.githubusercontent.com", "aud": "leasehold", "sub": "repo:acme/shop:ref:refs/heads/main",
		"jti": "1",
		"ref": "refs/heads/main", "ref_type": "branch", "ref_protected": "true", "sha": "0123", "repository": "acme/shop",
		"repository_owner":    "acme",
		"repository_owner_id": "9", "repository_id": "10", "repository_visibility": "private", "run_id": "1",
		"run_number": "10", "run_attempt": "2",
		"actor": "ann", "actor_id": "12", "workflow": "deploy",
		"workflow_ref": "acme/shop/.github/workflows/deploy.yml@refs/heads/main",
		"head_ref":     "", "base_ref": "", "event_name": "push", "runner_environment": "github-hosted",
	}
	auth0 = claims{
		"iss": "https://acme.eu.auth0.com/", "aud": "https://leasehold.acme.example", "sub": "aB3dE@clients", "azp": "aB3dE",
		"gty":   "client-credentials",
		"scope": "leasehold leasehold:admin", "https://leasehold.acme.example/tenant": "acme",
	}
	okta = claims{
		"ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "iss": "https://acme.okta.com/oauth2/default",
		"aud": "api://default",
		"cid": "0oabv6kx4qq6h1U5l0h7", "scp": []string{"leasehold", "leasehold:worker"}, "sub": "0oabv6kx4qq6h1U5l0h7",
		"tenant_id": "acme",
	}
	entra = claims{
		"aud": "66666666-7777-8888-9999-000000000000",
		"iss": "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0",
		"aio": "E2ZgYFBx", "azp": "77777777-0000-0000-0000-000000000000", "azpacr": "1",
		"oid": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
		"rh":  "0.AXoA", "roles": []string{"leasehold:admin"}, "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
		"tid": "11111111-2222-3333-4444-555555555555", "uti": "x", "ver": "2.0",
	}
	entra1 = claims{
		"aud": "api://66666666-7777-8888-9999-000000000000",
		"iss": "https://sts.windows.net/11111111-2222-3333-4444-555555555555/",
		"aio": "E2ZgYFBx", "appid": "77777777-0000-0000-0000-000000000000", "appidacr": "1",
		"idp": "https://sts.windows.net/11111111-2222-3333-4444-555555555555/",
		"oid": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "rh": "0.AXoA", "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
		"tid": "11111111-2222-3333-4444-555555555555", "uti": "x", "ver": "1.0",
	}
	cognitoID = claims{
		"sub": "12345678-9abc-def0-1234-56789abcdef0", "cognito:groups": []string{"ops"}, "email_verified": true,
		"email": "ann@acme.example",
		"iss":   "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEfGhI", "cognito:username": "ann",
		"origin_jti": "1", "event_id": "2", "jti": "3",
		"aud": "1example23456789", "token_use": "id", "custom:tenant": "acme",
	}
	cognitoAccess = claims{
		"sub": "12345678-9abc-def0-1234-56789abcdef0", "cognito:groups": []string{"ops"}, "username": "ann",
		"client_id": "1example23456789",
		"iss":       "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEfGhI", "origin_jti": "1", "event_id": "2",
		"jti":       "3",
		"token_use": "access", "scope": "aws.cognito.signin.user.admin openid",
	}
	cognitoProgram = claims{
		"sub": "2example34567890", "client_id": "2example34567890", "token_use": "access",
		"scope": "leasehold/use leasehold/worker", "version": 2, "jti": "3",
		"iss": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEfGhI",
	}
	keycloak = claims{
		"jti": "trrtcc:1", "iss": "https://keycloak.acme.example/realms/acme", "aud": []string{"leasehold", "account"},
		"sub": "b4c0ffee-0000-4000-8000-000000000000", "typ": "Bearer", "azp": "locker", "acr": "1",
		"allowed-origins": []string{"/*"},
		"realm_access":    claims{"roles": []string{"offline_access"}},
		"resource_access": claims{"account": claims{"roles": []string{"view-profile"}}},
		"scope":           "profile email leasehold:ids", "clientHost": "10.0.0.7", "email_verified": false,
		"preferred_username": "service-account-locker",
		"clientAddress":      "10.0.0.7", "client_id": "locker", "tenant_id": "acme",
	}
)

const (
	noJWT      = "the token is not a signed JWT"
	notListed  = "the caller's subject is not in LEASEHOLD_AUTH_SUBJECTS"
	noAudience = "the token has no audience, and its client"
)

// issuers are the sections of docs/guides/authentication.md, each with the number of its block of settings, and tokens
// for it.
var issuers = []struct {
	name, section string
	block         int
	change        []string // settings in place of those of the page, or NAME= for none
	certificates  bool     // the issuer publishes them with its keys
	tokens        []sent
}{
	{name: "Google", section: "Google: service accounts", tokens: []sent{
		{name: "a service account", claims: google, want: contracts.CallerInfo{Subject: "104211111111111111111",
			TenantID: "acme"}},
		{name: "an administrator", claims: google.with(claims{"sub": "104222222222222222222"}),
			want: contracts.CallerInfo{Subject: "104222222222222222222", TenantID: "acme", Administrator: true}},
		{name: "another account", claims: google.with(claims{"sub": "104999999999999999999"}), says: notListed},
		{name: "a user's own ID token", claims: google.with(claims{"aud": "32555940559.apps.googleusercontent.com"}),
			says: "the token is for audience"},
		{name: "an access token", raw: "ya29.c.b0Aaekm1K3", says: noJWT},
		{name: "one that the account has signed itself", claims: google.with(
			claims{"iss": "locker@my-project-123.iam.gserviceaccount.com"}), says: "the token is from issuer"},
	}},
	{name: "GitHub Actions", section: "GitHub Actions", tokens: []sent{
		{name: "the main branch", claims: github, want: contracts.CallerInfo{Subject: "repo:acme/shop:ref:refs/heads/main",
			TenantID: "acme"}},
		{name: "an environment", claims: github.with(claims{"sub": "repo:acme/shop:environment:production",
			"environment": "production"}), want: contracts.CallerInfo{Subject: "repo:acme/shop:environment:production",
			TenantID: "acme"}},
		{name: "a pull request", claims: github.with(claims{"sub": "repo:acme/shop:pull_request",
			"event_name": "pull_request"}), says: notListed},
		{name: "a fork", claims: github.with(claims{"sub": "repo:eve/shop:ref:refs/heads/main", "repository": "eve/shop",
			"repository_owner": "eve"}), says: notListed},
		{name: "the audience that one gets without asking", claims: github.with(claims{"aud": "https://github.com/acme"}),
			says: "the token is for audience"},
	}},
	{name: "Auth0", section: "Auth0", certificates: true, tokens: []sent{
		{name: "an application", claims: auth0, want: contracts.CallerInfo{Subject: "aB3dE@clients", TenantID: "acme",
			Administrator: true}},
		{name: "of the profile RFC 9068", typ: "at+jwt", claims: auth0.with(claims{"jti": "1", "client_id": "aB3dE"}),
			want: contracts.CallerInfo{Subject: "aB3dE@clients", TenantID: "acme", Administrator: true}},
		{name: "a user, for two audiences", claims: auth0.with(
			claims{"sub": "auth0|5f7c8ec7c33c6c004bbafe82", "gty": nil, "scope": "openid profile leasehold",
				"aud": []string{"https://leasehold.acme.example", "https://acme.eu.auth0.com/userinfo"}}),
			want: contracts.CallerInfo{Subject: "auth0|5f7c8ec7c33c6c004bbafe82", TenantID: "acme"}},
		{name: "permissions without scopes", claims: auth0.with(
			claims{"scope": "openid", "permissions": []string{"leasehold", "leasehold:admin"}}),
			says: "does not have the scope leasehold"},
		{name: "without an audience: encrypted",
			raw:  "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIiwiaXNzIjoiaHR0cHM6Ly9hY21lLmV1LmF1dGgwLmNvbS8ifQ..aXY.Y2lwaGVy.dGFn",
			says: noJWT},
		{name: "an ID token", claims: auth0.with(claims{"aud": "aB3dE", "sub": "auth0|5f7c8ec7c33c6c004bbafe82",
			"scope": nil}), says: "the token is for audience"},
		{name: "an Action that adds no tenant", claims: auth0.with(claims{"https://leasehold.acme.example/tenant": nil}),
			says: "the token has no claim"},
	}},
	{name: "Auth0 without the slash", section: "Auth0",
		change: []string{"LEASEHOLD_AUTH_ISSUER=https://acme.eu.auth0.com"}, tokens: []sent{
			{name: "an application", claims: auth0, says: "the token is from issuer"},
		}},
	{name: "Okta", section: "Okta", tokens: []sent{
		{name: "an application", claims: okta, want: contracts.CallerInfo{Subject: "0oabv6kx4qq6h1U5l0h7",
			TenantID: "acme", Worker: true}},
		{name: "a user", claims: okta.with(claims{"sub": "ann@acme.example", "uid": "00u1",
			"scp": []string{"openid", "leasehold"}}), want: contracts.CallerInfo{Subject: "ann@acme.example", TenantID: "acme"}},
		{name: "a service without the scope", claims: okta.with(claims{"scp": []string{"orders"}}),
			says: "does not have the scope leasehold"},
		{name: "the organization's own server", claims: okta.with(
			claims{"iss": "https://acme.okta.com", "aud": "https://acme.okta.com"}), says: "the token is from issuer"},
	}},
	{name: "Entra", section: "Microsoft Entra ID", certificates: true, tokens: []sent{
		// its roles give no right
		{name: "an application", claims: entra, want: contracts.CallerInfo{Subject: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
			TenantID: "acme", Worker: true}},
		{name: "another application of the directory",
			claims: entra.with(claims{"sub": "dddddddd-0000-0000-0000-000000000000"}), says: notListed},
		{name: "version 1.0", claims: entra1, says: "the token is from issuer"},
		{name: "another directory", claims: entra.with(
			claims{"iss": "https://login.microsoftonline.com/99999999-2222-3333-4444-555555555555/v2.0"}),
			says: "the token is from issuer"},
		{name: "for another application", claims: entra.with(claims{"aud": "api://orders"}),
			says: "the token is for audience"},
	}},
	{name: "Entra, version 1.0", section: "Microsoft Entra ID", certificates: true, change: []string{
		"LEASEHOLD_AUTH_ISSUER=https://sts.windows.net/11111111-2222-3333-4444-555555555555/",
		"LEASEHOLD_AUTH_AUDIENCE=api://66666666-7777-8888-9999-000000000000",
	}, tokens: []sent{
		{name: "an application", claims: entra1, want: contracts.CallerInfo{Subject: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
			TenantID: "acme", Worker: true}},
		{name: "version 2.0", claims: entra, says: "the token is from issuer"},
	}},
	{name: "Entra, users", section: "Microsoft Entra ID", certificates: true,
		change: []string{"LEASEHOLD_AUTH_SUBJECTS=", "LEASEHOLD_AUTH_REQUIRED_SCOPE=access_as_user"}, tokens: []sent{
			{name: "a user", claims: entra.with(claims{"sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
				"scp": "access_as_user openid", "roles": nil}),
				want: contracts.CallerInfo{Subject: "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", TenantID: "acme"}},
			{name: "an application", claims: entra, says: "does not have the scope access_as_user"},
		}},
	{name: "Cognito, users", section: "Amazon Cognito", tokens: []sent{
		{name: "an ID token", claims: cognitoID, want: contracts.CallerInfo{Subject: "12345678-9abc-def0-1234-56789abcdef0",
			TenantID: "acme"}},
		{name: "an access token", claims: cognitoAccess, says: noAudience +
			` \"1example23456789\" is not in LEASEHOLD_AUTH_CLIENTS`},
		{name: "an ID token of another client", claims: cognitoID.with(claims{"aud": "2example34567890"}),
			says: "the token is for audience"},
	}},
	{name: "Cognito, programs", section: "Amazon Cognito", block: 1, tokens: []sent{
		{name: "a program", claims: cognitoProgram, want: contracts.CallerInfo{Subject: "2example34567890",
			TenantID: "acme", Worker: true}},
		{name: "an administrator", claims: cognitoProgram.with(
			claims{"scope": "leasehold/use leasehold/admin", "client_id": "3example45678901", "sub": "3example45678901"}),
			want: contracts.CallerInfo{Subject: "3example45678901", TenantID: "acme", Administrator: true}},
		{name: "with an audience", claims: cognitoProgram.with(claims{"aud": "leasehold"}),
			want: contracts.CallerInfo{Subject: "2example34567890", TenantID: "acme", Worker: true}},
		{name: "with another audience", claims: cognitoProgram.with(claims{"aud": "https://orders.acme.example"}),
			says: "the token is for audience"},
		{name: "of another resource server", claims: cognitoProgram.with(claims{"scope": "orders/use"}),
			says: "does not have the scope leasehold/use"},
		{name: "of a client that is not listed", claims: cognitoAccess.with(claims{"scope": "leasehold/use"}),
			says: noAudience},
		{name: "a user's ID token", claims: cognitoID, says: "the token is for audience"},
	}},
	{name: "Keycloak", section: "Keycloak", certificates: true, tokens: []sent{
		{name: "a service account", claims: keycloak, want: contracts.CallerInfo{
			Subject: "b4c0ffee-0000-4000-8000-000000000000", TenantID: "acme", MachineIDs: true}},
		{name: "without the mapper", claims: keycloak.with(claims{"aud": "account"}), says: "the token is for audience"},
		{name: "without the mapper, and without roles", claims: keycloak.with(claims{"aud": nil}), says: noAudience},
		{name: "by another address", claims: keycloak.with(claims{"iss": "http://keycloak:8080/realms/acme"}),
			says: "the token is from issuer"},
		{name: "without the scope basic", claims: keycloak.with(claims{"sub": nil}), says: "the token has no claim sub"},
	}},
}

// TestTokensOfIssuers: a server with the settings that docs/guides/authentication.md has for an issuer takes the tokens
// of that issuer for what the page says, and says what is wrong with those of its traps.
func TestTokensOfIssuers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/authentication.md")
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range issuers {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			_, section, found := strings.Cut(string(page), "\n### "+i.section+"\n")
			section, _, _ = strings.Cut(section, "\n### ")
			blocks := regexp.MustCompile("(?s)```sh\n(LEASEHOLD_.*?)```").FindAllStringSubmatch(section, -1)
			if !found || len(blocks) <= i.block {
				t.Fatalf("docs/guides/authentication.md has %d blocks of settings for %s", len(blocks), i.section)
			}
			env := append(strings.Fields(blocks[i.block][1]), "LEASEHOLD_AUTH_JWKS_URL="+keySet(t, key, i.certificates))
			for _, c := range i.change {
				name, value, _ := strings.Cut(c, "=")
				env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
				if value != "" {
					env = append(env, c)
				}
			}
			p := serve(t, env, "--store", "memory")
			for _, s := range i.tokens {
				token := s.raw
				if token == "" {
					token = signed(t, key, s)
				}
				status, body := caller(t, p.url, token)
				if s.says != "" {
					want := http.StatusUnauthorized
					if strings.Contains(s.says, "the scope ") {
						want = http.StatusForbidden
					}
					if status != want || !strings.Contains(body, s.says) {
						t.Errorf("%s: %d %s, want %d with %q", s.name, status, body, want, s.says)
					}
					continue
				}
				var got contracts.CallerInfo
				if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
					t.Errorf("%s: %d %s, %v", s.name, status, body, err)
					continue
				}
				got.At, got.Version, got.Commit = contracts.CallerInfo{}.At, "", ""
				if got != s.want {
					t.Errorf("%s: %+v, want %+v", s.name, got, s.want)
				}
			}
		})
	}
}

// caller asks a server whom it takes the bearer of a token for.
func caller(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/caller", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

const keyID = "nOo3ZDrODXEK1jKWhXslHR_KXEg"

// keySet is the URL of the keys of an issuer: one for signatures, and one for encryption that Keycloak publishes beside
// it.
func keySet(t *testing.T, key *rsa.PrivateKey, certificates bool) string {
	t.Helper()
	sig := jose.JSONWebKey{Key: key.Public(), KeyID: keyID, Use: "sig"} // Entra's have no algorithm
	if certificates {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"},
			NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		sig.Certificates = []*x509.Certificate{c}
	} else {
		sig.Algorithm = "RS256"
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "e", Use: "enc", Algorithm: "RSA-OAEP"}, sig}})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// signed is a token, an hour long.
func signed(t *testing.T, key *rsa.PrivateKey, s sent) string {
	t.Helper()
	typ := s.typ
	if typ == "" {
		typ = "JWT"
	}
	now := time.Now()
	payload, err := json.Marshal(
		s.claims.with(claims{"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}))
	if err != nil {
		t.Fatal(err)
	}
	o := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, o)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}
