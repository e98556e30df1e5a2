package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Defaults and bounds of [Config].
const (
	DefaultTenantClaim = "tenant_id"
	DefaultLeeway      = 30 * time.Second
	MaxLeeway          = 5 * time.Minute
)

// defaultTimeout bounds each request to the issuer, unless Config.HTTPClient is set.
const defaultTimeout = 5 * time.Second

// PublicIssuers are issuers of which every account of the world can get a token, for any audience, each with the claims
// whose values it gives to one organization or owner only. All other claims an account can choose, or shares with
// accounts of others.
var PublicIssuers = map[string][]string{
	GoogleIssuer:                {"hd"},
	"https://appleid.apple.com": nil,
	"https://gitlab.com":        {"namespace_id", "namespace_path"},
	"https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0": nil, // personal accounts
	"https://token.actions.githubusercontent.com": {"repository_owner",
		"repository_owner_id", "enterprise", "enterprise_id"},
}

// Config says which tokens are accepted. Issuer and Audience are required; the rest has defaults.
type Config struct {
	// Issuer is the URL of the issuer, exactly as in the claim iss of its tokens, including a slash at the end.
	// It begins with https://. Only an issuer on this machine (localhost, 127.0.0.0/8, ::1) may be an http:// one.
	Issuer string

	// Audience is the name of this server at the issuer. A token is accepted only if its claim aud is this name or a
	// list with it.
	Audience string

	// Clients are accepted in place of an audience, by the claim client_id: a token without the claim aud is accepted if
	// its client is one of them. It is for Amazon Cognito, whose access tokens have no aud, unless one is asked for. Nil:
	// every token must have an aud.
	Clients []string

	// JWKSURL is where the issuer publishes its keys, under the same rules as Issuer. Empty means the jwks_uri of the
	// document <Issuer>/.well-known/openid-configuration (OpenID Connect Discovery 1.0).
	JWKSURL string

	// TenantClaim is the name of the claim that holds the caller's tenant. The claim is a string at the top level of
	// the token; dots in the name are part of the name. Empty means [DefaultTenantClaim].
	TenantClaim string

	// Scopes give rights to callers whose tokens have them in the claims scope and scp, each either scopes separated by
	// spaces (RFC 8693) or an array.
	Scopes httpapi.Scopes

	// RequiredScope is a scope that every token must have, in the same claims. Empty requires none.
	RequiredScope string

	// Leeway is how far the clocks of the issuer and of this server may differ: a token is accepted from nbf - Leeway
	// until just before exp + Leeway, and iat may be up to Leeway ahead. Zero means [DefaultLeeway]. At most [MaxLeeway].
	Leeway time.Duration

	// HTTPClient reads from the issuer. It follows redirects by its own rules, but never to a URL that JWKSURL could not
	// be. Nil means a client with a timeout of 5 seconds. Two requests (discovery, keys) have 10 seconds together,
	// whatever the client's timeout is.
	HTTPClient *http.Client

	// Log is told which keys of the issuer are not used, and why. Nil means [slog.Default].
	Log *slog.Logger

	// Now is the clock by which tokens expire and keys age. Nil means [time.Now].
	Now func() time.Time
}

// New returns the identity that the tokens of one issuer give. It sends nothing: the keys are read when the first
// token arrives. ctx is the lifetime of the identity; after its end no keys are read. The error names the field
// of a setting that cannot work.
func New(ctx context.Context, c Config) (*Identity, error) {
	t, err := newTokens(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Identity{t}, nil
}

func newTokens(ctx context.Context, c Config) (tokens, error) {
	if err := c.check(); err != nil {
		return tokens{}, fmt.Errorf("oidc: %w", err)
	}
	c.TenantClaim = cmp.Or(c.TenantClaim, DefaultTenantClaim)
	c.Leeway = cmp.Or(c.Leeway, DefaultLeeway)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	from := &issuer{url: c.Issuer, jwksURL: c.JWKSURL, client: onlySecure(c.HTTPClient)}
	return tokens{
		config: c,
		keys:   &keyCache{lifetime: ctx, read: from.keys, log: c.Log, clock: func() term.Moment { return term.Of(c.Now()) }},
		verifier: gooidc.Config{
			ClientID:             c.Audience,
			SupportedSigningAlgs: algorithmNames(),
			// go-oidc knows no tokens without aud. claims.go compares aud, or the client.
			SkipClientIDCheck: c.Clients != nil,
			// go-oidc allows no leeway for exp and 5 minutes for nbf, and does not check iat. claims.go checks all three with
			// the configured leeway.
			SkipExpiryCheck: true,
		},
	}, nil
}

func (c Config) check() error {
	if c.Issuer == "" {
		return errors.New("Issuer is required: the URL of the OpenID Connect issuer, as its tokens spell it in iss")
	}
	if err := checkSource(c.Issuer); err != nil {
		return fmt.Errorf("Issuer %s %w", quoteURL(c.Issuer), err)
	}
	if strings.ContainsAny(c.Issuer, "?#") {
		return fmt.Errorf("Issuer %s must not have a query or a fragment: OpenID Connect issuers have neither",
			quoteURL(c.Issuer))
	}
	if c.Audience == "" {
		return errors.New("Audience is required: the name of this server in the claim aud; without it, " +
			"tokens that were issued for other servers would be accepted")
	}
	if slices.Contains(c.Clients, "") {
		return errors.New("Clients has an empty name: a token without a client would be accepted")
	}
	if c.JWKSURL != "" {
		if err := checkSource(c.JWKSURL); err != nil {
			return fmt.Errorf("JWKSURL %s %w", quoteURL(c.JWKSURL), err)
		}
	}
	for _, s := range []struct {
		name, scope string
	}{{"Scopes.Admin", c.Scopes.Admin}, {"Scopes.Operate", c.Scopes.Operate}, {"Scopes.Worker", c.Scopes.Worker},
		{"Scopes.MachineIDs", c.Scopes.MachineIDs}, {"RequiredScope", c.RequiredScope}} {
		if strings.ContainsFunc(s.scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Errorf("%s %q must be one scope: printable ASCII without spaces, quotes and backslashes", s.name, s.scope)
		}
	}
	if c.Leeway < 0 || c.Leeway > MaxLeeway {
		return fmt.Errorf("Leeway is %v, it must be from 0 (for the default of %v) to %v: "+
			"clocks that differ by more must be synchronized", c.Leeway, DefaultLeeway, MaxLeeway)
	}
	return nil
}

// quoteURL is a URL for an error, without what may be a password in it.
func quoteURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		return strconv.Quote(u.Redacted())
	case strings.Contains(s, "@"):
		return "(not shown, because it may have a password)"
	}
	return strconv.Quote(s)
}

// checkSource rejects what is not a URL from which keys may be read.
func checkSource(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return errors.New("is not a URL: it must look like https://issuer.example.com")
	}
	return checkURL(u)
}

// checkURL accepts the URLs from which keys may be read. Keys decide which callers are accepted, so the response must
// be authenticated by TLS or not leave the machine.
func checkURL(u *url.URL) error {
	switch {
	case u.User != nil:
		return errors.New("must not have a user or a password: keys are public")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("must begin with https://")
	case !loopback(u.Hostname()):
		return errors.New("must begin with https://: over http:// the keys could be replaced on the way " +
			"(http:// is accepted only for this machine itself)")
	default:
		return nil
	}
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// onlySecure returns a client like c that does not follow redirects to URLs from which keys may not be read.
func onlySecure(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Timeout: defaultTimeout}
	}
	secure, follow := *c, c.CheckRedirect
	secure.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if err := checkURL(r.URL); err != nil {
			return fmt.Errorf("the URL that it redirects to %w", err)
		}
		if follow != nil {
			return follow(r, via)
		}
		if len(via) >= 10 { // what net/http does when there is no CheckRedirect
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &secure
}
