package oidc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

// TestAccount: one account gets in, whose address the issuer has verified.
func TestAccount(t *testing.T) {
	const email = "queue@p.iam.gserviceaccount.com"
	i := newIssuer(t, public(p256(), "a"))
	account, err := oidc.NewAccount(t.Context(), oidc.Config{Issuer: i.url, Audience: "leasehold", Now: newClock().now},
		email)
	if err != nil {
		t.Fatal(err)
	}
	good := object{"email": email, "email_verified": true, "tenant_id": nil}
	with := func(name string, v any) object {
		o := object{name: v}
		for n, v := range good {
			if _, there := o[n]; !there {
				o[n] = v
			}
		}
		return o
	}
	const (
		noEmail    = "the token has no claim email with a text: Google's ID tokens of service accounts have it if asked for"
		unverified = "the token's claim email_verified is not true: its issuer has not verified the address"
	)
	for _, c := range []struct {
		name    string
		changes object
		kind    error
		want    string // empty: let in
	}{
		{"good, without a tenant", good, nil, ""},
		{"no address", with("email", nil), httpapi.ErrUnauthenticated, noEmail},
		{"address that is no text", with("email", 1), httpapi.ErrUnauthenticated, noEmail},
		{"empty address", with("email", ""), httpapi.ErrUnauthenticated, noEmail},
		{"not verified", with("email_verified", false), httpapi.ErrUnauthenticated, unverified},
		{"verified in words", with("email_verified", "true"), httpapi.ErrUnauthenticated, unverified},
		{"not said to be verified", with("email_verified", nil), httpapi.ErrUnauthenticated, unverified},
		{"another account", with("email", "eve@p.iam.gserviceaccount.com"), httpapi.ErrForbidden,
			`forbidden: the token is of the account "eve@p.iam.gserviceaccount.com", this endpoint is for another`},
		{"another audience", with("aud", "other"), httpapi.ErrUnauthenticated,
			`the token is for audience "other", this server is "leasehold"`},
		{"expired", with("exp", noon.Unix()-31), httpapi.ErrUnauthenticated,
			"the token expired at 2026-01-01T11:59:29Z, it is now 2026-01-01T12:00:00Z"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header.Set("Authorization", "Bearer "+i.token(t, c.changes))
		subject, err := account.Verify(r)
		want := ""
		switch {
		case err == nil:
			want, _ = good["email"].(string)
		case errors.Is(err, httpapi.ErrForbidden):
			want = "eve@p.iam.gserviceaccount.com"
		}
		if subject != want {
			t.Errorf("%s: subject %q, want %q", c.name, subject, want)
		}
		if c.want == "" != (err == nil) || err != nil && (err.Error() != c.want || !errors.Is(err, c.kind)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := account.Verify(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)); !errors.Is(err,
		httpapi.ErrUnauthenticated) {
		t.Errorf("no token: %v", err)
	}
}

func TestNewAccountRejects(t *testing.T) {
	for name, c := range map[string]struct {
		config oidc.Config
		email  string
	}{
		"no account":  {oidc.Config{Issuer: oidc.GoogleIssuer, Audience: "a"}, ""},
		"no audience": {oidc.Config{Issuer: oidc.GoogleIssuer}, "q@p"},
		"no issuer":   {oidc.Config{Audience: "a"}, "q@p"},
	} {
		if _, err := oidc.NewAccount(t.Context(), c.config, c.email); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
