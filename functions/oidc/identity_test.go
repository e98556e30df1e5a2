package oidc_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

func TestChallenge(t *testing.T) {
	i := newIssuer(t)
	if got := i.identity(t, newClock()).Challenge(); got != `Bearer realm="leasehold"` {
		t.Errorf("Challenge = %q", got)
	}
}

func TestBearer(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := i.identity(t, newClock())
	good := i.token(t, nil)
	const (
		none      = "the request has no Authorization header: send Authorization: Bearer and a token"
		two       = "the request has 2 Authorization headers: send one"
		scheme    = "the Authorization header is not of the scheme Bearer: send Authorization: Bearer and a token"
		empty     = "the Authorization header has no token after Bearer"
		malformed = "the token is not a signed JWT: three parts in base64url with dots between them"
		unsigned  = "Cloud Run has verified this token and removed its signature: send Cloud Run's token in X-Serverless-Authorization and Leasehold's " +
			"in Authorization. For tasks and sweeps set LEASEHOLD_TASK_AUTH=platform, so that only Cloud Run verifies callers, or let everyone invoke the service, so that Leasehold does"
	)
	for _, c := range []struct {
		name    string
		headers []string
		want    string // empty: accepted
	}{
		{"one", []string{"Bearer " + good}, ""},
		{"scheme in lower case", []string{"bearer " + good}, ""}, // RFC 9110, section 11.1
		{"several spaces", []string{"Bearer   " + good + " "}, ""},
		{"none", nil, none},
		{"two", []string{"Bearer " + good, "Bearer " + good}, two},
		{"two of different schemes", []string{"Basic dTpw", "Bearer " + good}, two},
		{"two in one line", []string{"Bearer " + good + ", Bearer " + good}, malformed},
		{"empty header", []string{""}, scheme},
		{"other scheme", []string{"Basic dTpw"}, scheme},
		{"scheme that begins alike", []string{"BearerToken " + good}, scheme},
		{"token without a scheme", []string{good}, scheme},
		{"scheme alone", []string{"Bearer"}, empty},
		{"scheme and a space", []string{"Bearer "}, empty},
		{"opaque token", []string{"Bearer 2YotnFZFEjr1zCsicMWpAA"}, malformed},
		{"signature removed by Cloud Run", []string{"Bearer " + good[:strings.LastIndex(good, ".")] +
			".SIGNATURE_REMOVED_BY_GOOGLE"}, unsigned},
		{"two parts", []string{"Bearer " + good[:strings.LastIndex(good, ".")]}, malformed},
		{"five parts, encrypted", []string{"Bearer a.b.c.d.e"}, malformed},
		{"not base64url", []string{"Bearer a+b.c/d.e="}, malformed},
		{"header is not JSON", []string{"Bearer YQ.YQ.YQ"}, malformed},
		{"JSON serialization", []string{`Bearer {"payload":"e30","protected":"e30","signature":"YQ"}`}, malformed},
		{"32 KiB", []string{"Bearer " + strings.Repeat("a", 32<<10)}, malformed},
		{"more than 32 KiB", []string{"Bearer " + strings.Repeat("a", 32<<10+1)}, "the token has 32769 bytes, 32768 at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			if c.headers != nil {
				r.Header["Authorization"] = c.headers
			}
			_, err := id.Identify(r)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, httpapi.ErrUnauthenticated) || err.Error() != c.want {
				t.Fatalf("Identify: %v\nwant ErrUnauthenticated: %s", err, c.want)
			}
			wantSilent(t, err, good)
		})
	}
}

// TestClaims asks about tokens whose signature is right.
func TestClaims(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := i.identity(t, newClock())
	at := func(d time.Duration) int64 { return noon.Add(d).Unix() }
	const (
		now       = ", it is now 2026-01-01T12:00:00Z"
		forever   = "the token has no claim exp: tokens that never expire are not accepted"
		noSubject = "the token has no claim sub with a text: it must name the caller"
		badSub    = "the token's claim sub has control characters or is not UTF-8"
		noTenant  = `the token has no claim "tenant_id" with a text: it must name the caller's tenant`
		badTenant = `the token's claim "tenant_id" has control characters or is not UTF-8`
	)
	from := func(issuer string) string {
		return fmt.Sprintf("the token is from issuer %q, this server accepts %q", issuer, i.url)
	}
	forAudience := func(quoted string) string {
		return "the token is for audience " + quoted + `, this server is "leasehold"`
	}
	noTime := func(claim string) string {
		return "the token's claim " + claim + " is not a time: it must be a number of seconds since 1970"
	}
	long := strings.Repeat("a", 100)
	for _, c := range []struct {
		name    string
		changes object
		want    string // empty: accepted
	}{
		{"good", nil, ""},

		{"other issuer", object{"iss": "https://evil.example"}, from("https://evil.example")},
		{"issuer with a slash more", object{"iss": i.url + "/"}, from(i.url + "/")},
		{"no issuer", object{"iss": nil}, from("")},

		{"audience array", object{"aud": []string{"other", "leasehold"}}, ""},
		{"other audience", object{"aud": "other"}, forAudience(`"other"`)},
		{"audience that contains ours", object{"aud": "leasehold-staging"}, forAudience(`"leasehold-staging"`)},
		{"array without ours", object{"aud": []string{"other", "Leasehold"}}, forAudience(`"other Leasehold"`)},
		{"names in one string", object{"aud": "other leasehold"}, forAudience(`"other leasehold"`)},
		{"long audience", object{"aud": long + "a"}, forAudience(`"` + long + `"…`)},
		{"empty audience array", object{"aud": []string{}}, forAudience(`""`)},
		{"no audience", object{"aud": nil}, forAudience(`""`)},
		{"audience is a number", object{"aud": 7}, forAudience(`""`)},

		{"expired, just inside leeway", object{"exp": at(-29 * time.Second)}, ""},
		{"expired, a moment inside leeway", object{"exp": float64(at(-30*time.Second)) + 0.5}, ""},
		{"expired, just outside leeway", object{"exp": at(-30 * time.Second)}, "the token expired at 2026-01-01T11:59:30Z" +
			now},
		{"no expiry", object{"exp": nil}, forever},
		{"expiry is a text", object{"exp": "1767272400"}, noTime("exp")},
		{"expiry in milliseconds", object{"exp": noon.UnixMilli()}, noTime("exp")},
		{"negative expiry", object{"exp": -1}, noTime("exp")},

		{"not before, just inside leeway", object{"nbf": at(30 * time.Second)}, ""},
		{"not before, just outside leeway", object{"nbf": at(31 * time.Second)},
			"the token is not valid before 2026-01-01T12:00:31Z" + now},
		{"no not-before", object{"nbf": nil}, ""},
		{"not before is a list", object{"nbf": []int{1}}, noTime("nbf")},

		{"issued just inside leeway", object{"iat": at(30 * time.Second)}, ""},
		{"issued just outside leeway", object{"iat": at(31 * time.Second)},
			"the token was issued in the future, at 2026-01-01T12:00:31Z" + now + ": synchronize the clocks"},
		{"no issue time", object{"iat": nil}, ""},
		{"issue time is a bool", object{"iat": true}, noTime("iat")},

		{"no subject", object{"sub": nil}, noSubject},
		{"empty subject", object{"sub": ""}, noSubject},
		{"subject is a number", object{"sub": 42}, noSubject},
		{"long subject", object{"sub": strings.Repeat("é", 256) + "e"}, "the token's claim sub has 513 bytes, 512 at most"},
		{"a subject ten times as long", object{"sub": strings.Repeat("é", 2560)}, "the token's claim sub has 5120 bytes, 512 at most"},
		{"subject with a control character", object{"sub": "ci\n42"}, badSub},
		{"subject that did not decode", object{"sub": "ci\ufffd"}, badSub},

		{"no tenant", object{"tenant_id": nil}, noTenant},
		{"tenant null", object{"tenant_id": json.RawMessage("null")}, noTenant},
		{"tenant list", object{"tenant_id": []string{"acme"}}, noTenant},
		{"tenant number", object{"tenant_id": 7}, noTenant},
		{"empty tenant", object{"tenant_id": ""},
			`the token's claim "tenant_id" is empty: it must name the caller's tenant`},
		{"tenant with a control character", object{"tenant_id": "ac\x00me"}, badTenant},
		{"tenant under a name of other case", object{"tenant_id": nil, "Tenant_ID": "acme"}, noTenant},

		{"a name of other case changes nothing", object{"TENANT_ID": "other", "Sub": "root", "Exp": 1}, ""},
		{"issuer under a name of other case", object{"iss": nil, "Iss": i.url}, from("")},
		{"audience under a name of other case", object{"aud": nil, "Aud": audience}, forAudience(`""`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				wantCaller(t, id, i.token(t, c.changes))
			} else {
				wantUnauthenticated(t, id, i.token(t, c.changes), c.want)
			}
		})
	}
}

// TestTenantByEmail: an address that the issuer has not verified is whatever its account says.
func TestTenantByEmail(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id, err := oidc.New(t.Context(), oidc.Config{Issuer: i.url, Audience: "leasehold", TenantClaim: "email",
		Now: newClock().now})
	if err != nil {
		t.Fatal(err)
	}
	for _, verified := range []any{true, nil, false, "true"} {
		caller, err := identify(t, id, i.token(t, object{"email": "ann@example.com", "email_verified": verified}))
		if verified == true {
			if err != nil || caller.Tenant != "ann@example.com" {
				t.Errorf("verified: %+v, %v", caller, err)
			}
		} else if !errors.Is(err, httpapi.ErrUnauthenticated) || caller.Tenant != "" {
			t.Errorf("email_verified %v: %+v, %v", verified, caller, err)
		}
	}
}

// TestRequiredScope: a token without it is another program's.
func TestRequiredScope(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id, err := oidc.New(t.Context(), oidc.Config{Issuer: i.url, Audience: "leasehold", RequiredScope: "locks",
		Now: newClock().now})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		scopes object
		want   bool
	}{
		{object{"scope": "openid locks"}, true}, {object{"scp": []string{"locks"}}, true}, {object{"scope": nil}, false},
		{object{"scope": "locks2 xlocks LOCKS"}, false}, {object{"scope": "leasehold:admin"}, false},
	} {
		_, err := identify(t, id, i.token(t, c.scopes))
		if (err == nil) != c.want || err != nil && !errors.Is(err, httpapi.ErrForbidden) {
			t.Errorf("%v: %v", c.scopes, err)
		}
	}
}

func TestSubjectOf512Bytes(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	sub := strings.Repeat("é", 256)
	caller, err := identify(t, i.identity(t, newClock()), i.token(t, object{"sub": sub}))
	if err != nil || caller.Subject != sub {
		t.Errorf("Identify = %+v, %v", caller, err)
	}
}

// TestPayload asks about payloads that no JSON encoder makes.
func TestPayload(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := i.identity(t, newClock())
	good, err := json.Marshal(i.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	const odd = "the token's claims are not those of an OpenID Connect token: " +
		"a registered claim has the wrong type, or is there twice with different spellings"
	for _, c := range []struct {
		name    string
		payload []byte
		want    string
	}{
		{"empty", []byte{}, "the token's payload is not a JSON object"},
		{"text", []byte("hello"), "the token's payload is not a JSON object"},
		{"array", []byte("[]"), "the token's payload is not a JSON object"},
		{"null", []byte("null"), `the token is from issuer "", this server accepts "` + i.url + `"`},
		{"invalid UTF-8 in the subject", bytes.Replace(good, []byte("ci-42"), []byte("ci-\xff"), 1),
			"the token's claim sub has control characters or is not UTF-8"},
		{"half a surrogate in the tenant", bytes.Replace(good, []byte("acme"), []byte(`\ud800`), 1),
			`the token's claim "tenant_id" has control characters or is not UTF-8`},
		{"unregistered claims", append(bytes.TrimSuffix(good, []byte("}")), `,"x":{"sub":"root"},"y":[null,1.5]}`...), ""},
		{"another audience in other case, last", append(bytes.TrimSuffix(good, []byte("}")), `,"AUD":"other"}`...), odd},
		{"nonce is a number", append(bytes.TrimSuffix(good, []byte("}")), `,"nonce":7}`...), odd},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := sign(t, jose.ES256, p256(), "a", c.payload)
			if c.want == "" {
				wantCaller(t, id, token)
			} else {
				wantUnauthenticated(t, id, token, c.want)
			}
		})
	}
}

// TestClients: a token without an audience is accepted by its client, one with another audience never.
func TestClients(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	const forOther = `the token is for audience "other", this server is "leasehold"`
	notListed := func(client string) string {
		return "the token has no audience, and its client " + client +
			` is not in LEASEHOLD_AUTH_CLIENTS: list the client there, or send a token for audience "leasehold"`
	}
	for _, c := range []struct {
		name    string
		clients []string
		claims  object
		want    string // empty: accepted
	}{
		{"listed", []string{"1a", "2b"}, object{"aud": nil, "client_id": "2b"}, ""},
		{"not listed", []string{"1a"}, object{"aud": nil, "client_id": "2b"}, notListed(`"2b"`)},
		{"none is listed", nil, object{"aud": nil, "client_id": "2b"}, notListed(`"2b"`)},
		{"empty", []string{"1a"}, object{"aud": nil, "client_id": ""}, notListed(`""`)},
		{"no client", []string{"1a"}, object{"aud": nil}, `the token is for audience "", this server is "leasehold"`},
		{"client is no text", []string{"1a"}, object{"aud": nil, "client_id": []string{"1a"}},
			`the token is for audience "", this server is "leasehold"`},
		{"client in a claim of another name", []string{"1a"}, object{"aud": nil, "azp": "1a", "cid": "1a"},
			`the token is for audience "", this server is "leasehold"`},
		{"listed, for our audience", []string{"1a"}, object{"client_id": "1a"}, ""},
		{"not listed, for our audience", []string{"1a"}, object{"client_id": "2b"}, ""},
		{"listed, for another audience", []string{"1a"}, object{"aud": "other", "client_id": "1a"}, forOther},
		{"listed, for an empty list of audiences", []string{"1a"}, object{"aud": []string{}, "client_id": "1a"},
			`the token is for audience "", this server is "leasehold"`},
		{"listed, for an audience that is no text", []string{"1a"}, object{"aud": 7, "client_id": "1a"},
			`the token is for audience "", this server is "leasehold"`},
		{"the audience of a client's name", []string{"1a"}, object{"aud": "1a", "client_id": "1a"},
			`the token is for audience "1a", this server is "leasehold"`},
		{"expired", []string{"1a"}, object{"aud": nil, "client_id": "1a", "exp": noon.Unix() - 30},
			"the token expired at 2026-01-01T11:59:30Z, it is now 2026-01-01T12:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Clients: c.clients, Now: newClock().now})
			claims := object{"aud": audience}
			maps.Copy(claims, c.claims)
			if token := i.token(t, claims); c.want == "" {
				wantCaller(t, id, token)
			} else {
				wantUnauthenticated(t, id, token, c.want)
			}
		})
	}
	if _, err := oidc.New(t.Context(), oidc.Config{Issuer: i.url, Audience: audience,
		Clients: []string{"1a", ""}}); err == nil || !strings.Contains(err.Error(), "Clients has an empty name") {
		t.Errorf("an empty client: %v", err)
	}
}

func TestLeewayOfTheConfiguration(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	expires := i.token(t, object{"exp": noon.Unix()})
	begins := i.token(t, object{"nbf": noon.Add(5 * time.Minute).Unix(), "iat": nil})
	for _, leeway := range []time.Duration{time.Nanosecond, time.Second, oidc.MaxLeeway} {
		at := func(now time.Time) *oidc.Identity {
			return newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Leeway: leeway,
				Now: func() time.Time { return now }})
		}
		end := noon.Add(leeway)
		wantCaller(t, at(end.Add(-1)), expires)
		wantUnauthenticated(t, at(end), expires, "the token expired at 2026-01-01T12:00:00Z, it is now "+
			end.Format(time.RFC3339))
		// go-oidc by itself allows 5 minutes for nbf, whatever was configured.
		begin := noon.Add(5*time.Minute - leeway)
		wantCaller(t, at(begin), begins)
		wantUnauthenticated(t, at(begin.Add(-1)), begins,
			"the token is not valid before 2026-01-01T12:05:00Z, it is now "+begin.Add(-1).Format(time.RFC3339))
	}
}

func TestTenantClaimOfTheConfiguration(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	const claim = "https://example.com/tenant"
	id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, TenantClaim: claim, Now: newClock().now})
	caller, err := identify(t, id, i.token(t, object{claim: "blue"}))
	if want := (httpapi.Caller{Subject: "ci-42", Tenant: "blue"}); err != nil || caller != want {
		t.Errorf("Identify = %+v, %v, want %+v", caller, err, want)
	}
	wantUnauthenticated(t, id, i.token(t, nil),
		`the token has no claim "https://example.com/tenant" with a text: it must name the caller's tenant`)
}

func TestAdmin(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	for _, test := range []struct {
		name   string
		scope  string // of the configuration
		claims object
		want   bool
	}{
		{"no scopes", "", nil, false},
		{"alone", "", object{"scope": "leasehold:admin"}, true},
		{"among others", "", object{"scope": "openid leasehold:admin email"}, true},
		{"absent", "", object{"scope": "openid email"}, false},
		{"beginning of another", "", object{"scope": "leasehold:administrator"}, false},
		{"end of another", "", object{"scope": "x-leasehold:admin"}, false},
		{"other case", "", object{"scope": "Leasehold:Admin"}, false},
		{"other separator", "", object{"scope": "openid,leasehold:admin"}, false},
		{"scp array", "", object{"scp": []string{"openid", "leasehold:admin"}}, true},
		{"scp array, absent", "", object{"scp": []string{"openid", "leasehold:administrator"}}, false},
		{"scp string", "", object{"scp": "openid leasehold:admin"}, true},
		{"scp where scope is without", "", object{"scope": "openid", "scp": []string{"leasehold:admin"}}, true},
		{"neither text nor list", "", object{"scope": object{"leasehold:admin": true}}, false},
		{"list with a number", "", object{"scp": []any{"leasehold:admin", 1}}, false},
		{"other claim", "", object{"roles": "leasehold:admin"}, false},
		{"configured", "ops", object{"scope": "dev ops"}, true},
		{"configured, the default is nothing", "ops", object{"scope": "leasehold:admin"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Scopes: httpapi.Scopes{Admin: test.scope}, Now: newClock().now})
			caller, err := identify(t, id, i.token(t, test.claims))
			if want := map[bool]httpapi.Rights{true: httpapi.Admin}[test.want]; err != nil || caller.Rights != want {
				t.Errorf("rights %b, %v, want %b", caller.Rights, err, want)
			}
		})
	}
}

// TestRights: each scope gives its right and no other one; a scope by another name takes the place of the default.
func TestRights(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	named := httpapi.Scopes{Admin: "boss", Operate: "ops", Worker: "hand", MachineIDs: "numbers"}
	for _, test := range []struct {
		scopes httpapi.Scopes
		claim  string
		want   httpapi.Rights
	}{
		{httpapi.Scopes{}, "", 0},
		{httpapi.Scopes{}, "leasehold:admin", httpapi.Admin},
		{httpapi.Scopes{}, "openid leasehold:operate", httpapi.Operate},
		{httpapi.Scopes{}, "leasehold:worker", httpapi.Worker},
		{httpapi.Scopes{}, "leasehold:ids", httpapi.MachineIDs},
		{httpapi.Scopes{}, "leasehold:ids leasehold:admin", httpapi.MachineIDs | httpapi.Admin},
		{httpapi.Scopes{}, "leasehold:workers leasehold:operator leasehold:idsx", 0},
		{named, "boss ops hand numbers", httpapi.AllRights},
		{named, "ops", httpapi.Operate},
		{named, "leasehold:admin leasehold:operate leasehold:worker leasehold:ids", 0},
	} {
		id := newIdentity(t, oidc.Config{Issuer: i.url, Audience: audience, Scopes: test.scopes, Now: newClock().now})
		for _, claim := range []any{test.claim, strings.Fields(test.claim)} {
			caller, err := identify(t, id, i.token(t, object{"scp": claim}))
			if err != nil || caller.Rights != test.want {
				t.Errorf("%+v: rights %b, %v, want %b", test, caller.Rights, err, test.want)
			}
		}
	}
}

func TestAlgorithms(t *testing.T) {
	named := func(k jose.JSONWebKey, alg jose.SignatureAlgorithm) jose.JSONWebKey {
		k.Algorithm = string(alg)
		return k
	}
	i := newIssuer(t, public(p256(), "p256"), public(p384(), "p384"), public(rsa2048(), "rsa"), public(ed(), "ed"),
		named(public(rsa2048(), "rs256 only"), jose.RS256))
	id := i.identity(t, newClock())
	const accepted = ", accepted are RS256, PS256, ES256, ES384, EdDSA"
	for _, c := range []struct {
		alg  jose.SignatureAlgorithm
		key  crypto.Signer
		kid  string
		want string
	}{
		{jose.RS256, rsa2048(), "rsa", ""},
		{jose.PS256, rsa2048(), "rsa", ""},
		{jose.ES256, p256(), "p256", ""},
		{jose.ES384, p384(), "p384", ""},
		{jose.EdDSA, ed(), "ed", ""},
		{jose.RS256, rsa2048(), "rs256 only", ""},
		{jose.PS256, rsa2048(), "rs256 only", "the token's signature is wrong"},
		{jose.ES256, p256(), "p384", "the token's signature is wrong"},
		{jose.RS512, rsa2048(), "rsa", `the token's algorithm is "RS512"` + accepted},
		{jose.ES512, p521(), "p521", `the token's algorithm is "ES512"` + accepted},
	} {
		t.Run(fmt.Sprintf("%s with %s", c.alg, c.kid), func(t *testing.T) {
			token := sign(t, c.alg, c.key, c.kid, i.claims(nil))
			if c.want == "" {
				wantCaller(t, id, token)
			} else {
				wantUnauthenticated(t, id, token, c.want)
			}
		})
	}
}

// TestForgeries are the known attacks on JWT verification (RFC 8725, section 2).
func TestForgeries(t *testing.T) {
	i := newIssuer(t, public(p256(), "a"))
	id := i.identity(t, newClock())
	good := i.token(t, nil)
	part := strings.Split(good, ".")
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	der, err := x509.MarshalPKIXPublicKey(p256().Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := public(p256(), "a").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	admin := i.claims(object{"sub": "root", "scope": "leasehold:admin"})
	const (
		hs256 = `the token's algorithm is "HS256", accepted are RS256, PS256, ES256, ES384, EdDSA`
		wrong = "the token's signature is wrong"
	)
	algorithm := func(alg string) string {
		return fmt.Sprintf("the token's algorithm is %q, accepted are RS256, PS256, ES256, ES384, EdDSA", alg)
	}
	critical := (&jose.SignerOptions{}).WithHeader("kid", "a").WithHeader("crit", []string{"x"}).WithHeader("x", 1)
	embedded := (&jose.SignerOptions{EmbedJWK: true}).WithHeader("kid", "a")
	for _, c := range []struct {
		name, token, want string
	}{
		{"not signed", part[0] + "." + part[1] + ".", "the token is not signed"},
		{"alg none", encode(object{"alg": "none", "kid": "a"}) + "." + encode(admin) + ".", algorithm("none")},
		{"alg None", encode(object{"alg": "None"}) + "." + encode(admin) + ".", algorithm("None")},
		{"alg none, signature kept", encode(object{"alg": "none"}) + "." + part[1] + "." + part[2], algorithm("none")},
		{"no alg", encode(object{"kid": "a"}) + "." + part[1] + "." + part[2], algorithm("")},
		{"HS256 with the public key in DER", sign(t, jose.HS256, der, "a", admin), hs256},
		{"HS256 with the public key in PEM",
			sign(t, jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "a", admin), hs256},
		{"HS256 with the public key in JSON", sign(t, jose.HS256, jwk, "a", admin), hs256},
		{"other key under a known name", sign(t, jose.ES256, p256New(), "a", admin), wrong},
		{"other key, in the header", signWith(t, jose.ES256, p256New(), embedded, admin), wrong},
		{"other payload", part[0] + "." + encode(admin) + "." + part[2], wrong},
		{"other header", encode(object{"alg": "ES256", "kid": "a", "typ": "JWT"}) + "." + part[1] + "." + part[2], wrong},
		{"signature of zeros", part[0] + "." + part[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)), wrong},
		{"short signature", part[0] + "." + part[1] + "." + part[2][:40], wrong},
		{"unknown extension that is critical",
			signWith(t, jose.ES256, p256(), critical, admin), wrong},
		{"unknown key name", sign(t, jose.ES256, p256(), "b", admin), unknownKey("b")},
		{"no key name, other key", sign(t, jose.ES256, p256New(), "", admin),
			"the token does not name its key, and no key of this server's issuer has signed it"},
	} {
		t.Run(c.name, func(t *testing.T) { wantUnauthenticated(t, id, c.token, c.want) })
	}
	t.Run("no key name, right key", func(t *testing.T) {
		wantCaller(t, id, sign(t, jose.ES256, p256(), "", i.claims(nil)))
	})
}
