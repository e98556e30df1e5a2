package oidc_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

func TestConfig(t *testing.T) {
	const (
		issuer = "https://issuer.example"
		noURL  = " is not a URL: it must look like https://issuer.example.com"
		noTLS  = " must begin with https://: over http:// the keys could be replaced on the way " +
			"(http:// is accepted only for this machine itself)"
		noUser  = " must not have a user or a password: keys are public"
		noQuery = " must not have a query or a fragment: OpenID Connect issuers have neither"
		scope   = " must be one scope: printable ASCII without spaces, quotes and backslashes"
		leeway  = ", it must be from 0 (for the default of 30s) to 5m0s: clocks that differ by more must be synchronized"
	)
	for _, c := range []struct {
		name   string
		config oidc.Config
		want   string // empty: accepted
	}{
		{"least", oidc.Config{Issuer: issuer, Audience: "a"}, ""},
		{"issuer with a path", oidc.Config{Issuer: issuer + "/realms/x/", Audience: "a"}, ""},
		{"loopback name", oidc.Config{Issuer: "http://localhost:9000", Audience: "a"}, ""},
		{"loopback IPv4", oidc.Config{Issuer: "http://127.8.8.8", Audience: "a"}, ""},
		{"loopback IPv6", oidc.Config{Issuer: "http://[::1]:9000", Audience: "a"}, ""},
		{"most leeway", oidc.Config{Issuer: issuer, Audience: "a", Leeway: 5 * time.Minute}, ""},
		{"keys with a query", oidc.Config{Issuer: issuer, Audience: "a", JWKSURL: issuer + "/keys?p=1"}, ""},

		{"no issuer", oidc.Config{Audience: "a"},
			"oidc: Issuer is required: the URL of the OpenID Connect issuer, as its tokens spell it in iss"},
		{"host alone", oidc.Config{Issuer: "issuer.example", Audience: "a"}, `oidc: Issuer "issuer.example"` + noURL},
		{"host and port", oidc.Config{Issuer: "issuer.example:443", Audience: "a"},
			`oidc: Issuer "issuer.example:443"` + noURL},
		{"no host", oidc.Config{Issuer: "https:///x", Audience: "a"}, `oidc: Issuer "https:///x"` + noURL},
		{"damaged", oidc.Config{Issuer: "https://a b", Audience: "a"}, `oidc: Issuer "https://a b"` + noURL},
		{"other scheme", oidc.Config{Issuer: "ftp://issuer.example", Audience: "a"},
			`oidc: Issuer "ftp://issuer.example" must begin with https://`},
		{"no TLS", oidc.Config{Issuer: "http://issuer.example", Audience: "a"},
			`oidc: Issuer "http://issuer.example"` + noTLS},
		{"no TLS, name like loopback", oidc.Config{Issuer: "http://localhost.evil.example", Audience: "a"},
			`oidc: Issuer "http://localhost.evil.example"` + noTLS},
		{"no TLS, private network", oidc.Config{Issuer: "http://10.0.0.1", Audience: "a"},
			`oidc: Issuer "http://10.0.0.1"` + noTLS},
		{"user", oidc.Config{Issuer: "https://u:p@issuer.example", Audience: "a"},
			`oidc: Issuer "https://u:xxxxx@issuer.example"` + noUser},
		{"password without a scheme", oidc.Config{Issuer: "u:hunter2@issuer.example", Audience: "a"},
			"oidc: Issuer (not shown, because it may have a password)" + noURL},
		{"keys with a password", oidc.Config{Issuer: issuer, Audience: "a", JWKSURL: "https://u:hunter2@issuer.example/keys"},
			`oidc: JWKSURL "https://u:xxxxx@issuer.example/keys"` + noUser},
		{"two required scopes", oidc.Config{Issuer: issuer, Audience: "a", RequiredScope: "a b"},
			`oidc: RequiredScope "a b"` + scope},
		{"query", oidc.Config{Issuer: issuer + "?a=b", Audience: "a"},
			`oidc: Issuer "https://issuer.example?a=b"` + noQuery},
		{"fragment", oidc.Config{Issuer: issuer + "#", Audience: "a"}, `oidc: Issuer "https://issuer.example#"` + noQuery},
		{"no audience", oidc.Config{Issuer: issuer},
			"oidc: Audience is required: the name of this server in the claim aud; " +
				"without it, tokens that were issued for other servers would be accepted"},
		{"keys without TLS", oidc.Config{Issuer: issuer, Audience: "a", JWKSURL: "http://issuer.example/keys"},
			`oidc: JWKSURL "http://issuer.example/keys"` + noTLS},
		{"keys at a path", oidc.Config{Issuer: issuer, Audience: "a", JWKSURL: "/keys"}, `oidc: JWKSURL "/keys"` + noURL},
		{"two scopes", oidc.Config{Issuer: issuer, Audience: "a", Scopes: httpapi.Scopes{Admin: "a b"}}, `oidc: Scopes.Admin "a b"` + scope},
		{"two worker scopes", oidc.Config{Issuer: issuer, Audience: "a", Scopes: httpapi.Scopes{Worker: "a b"}},
			`oidc: Scopes.Worker "a b"` + scope},
		{"scope with a quote", oidc.Config{Issuer: issuer, Audience: "a", Scopes: httpapi.Scopes{Admin: `a"b`}},
			`oidc: Scopes.Admin "a\"b"` + scope},
		{"negative leeway", oidc.Config{Issuer: issuer, Audience: "a", Leeway: -1}, "oidc: Leeway is -1ns" + leeway},
		{"too much leeway", oidc.Config{Issuer: issuer, Audience: "a", Leeway: 5*time.Minute + 1},
			"oidc: Leeway is 5m0.000000001s" + leeway},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := oidc.New(t.Context(), c.config)
			switch {
			case c.want == "" && (err != nil || id == nil):
				t.Errorf("New = %v, %v, want no error", id, err)
			case c.want != "" && (err == nil || err.Error() != c.want):
				t.Errorf("New: %v\nwant %s", err, c.want)
			}
		})
	}
}
