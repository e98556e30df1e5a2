package oidc

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// verified reads the payload of a token whose signature is valid, and rejects another issuer, another audience and a
// token that is expired or not valid yet.
func (c Config) verified(payload []byte) (claims, error) {
	var token claims
	if err := json.Unmarshal(payload, &token); err != nil {
		return nil, httpapi.Unauthenticated("the token's payload is not a JSON object")
	}
	if iss, _ := token.text("iss"); iss != c.Issuer {
		return nil, httpapi.Unauthenticated("the token is from issuer %s, this server accepts %q", quote(iss), c.Issuer)
	}
	if err := c.checkAudience(token); err != nil {
		return nil, err
	}
	return token, c.checkTimes(token, c.Now())
}

// checkAudience rejects a token that is for another server, and one that is for none unless its client is accepted for
// that.
func (c Config) checkAudience(token claims) error {
	aud := token.texts("aud")
	if slices.Contains(aud, c.Audience) {
		return nil
	}
	client, named := token.text("client_id")
	if raw, there := token["aud"]; named && (!there || string(raw) == "null") {
		if slices.Contains(c.Clients, client) {
			return nil
		}
		return httpapi.Unauthenticated("the token has no audience, and its client %s is not in LEASEHOLD_AUTH_CLIENTS: "+
			"list the client there, or send a token for audience %q", quote(client), c.Audience)
	}
	return httpapi.Unauthenticated("the token is for audience %s, this server is %q", quote(strings.Join(aud, " ")),
		c.Audience)
}

// caller reads the caller from the payload of a token whose signature is valid.
func (c Config) caller(payload []byte) (httpapi.Caller, error) {
	token, err := c.verified(payload)
	if err != nil {
		return httpapi.Caller{}, err
	}
	subject, err := token.subject()
	if err != nil {
		return httpapi.Caller{}, err
	}
	tenant, isText := token.text(c.TenantClaim)
	switch {
	case !isText:
		return httpapi.Caller{}, httpapi.Unauthenticated(
			"the token has no claim %q with a text: it must name the caller's tenant",
			c.TenantClaim)
	case tenant == "":
		// Essential: to httpapi, a caller without a tenant is one that may use every tenant.
		return httpapi.Caller{}, httpapi.Unauthenticated("the token's claim %q is empty: it must name the caller's tenant",
			c.TenantClaim)
	case !readable(tenant):
		return httpapi.Caller{}, httpapi.Unauthenticated("the token's claim %q has control characters or is not UTF-8",
			c.TenantClaim)
	}
	switch {
	case c.TenantClaim == "email" && !token.isTrue("email_verified"):
		return httpapi.Caller{}, httpapi.Unauthenticated(
			"the token's claim email_verified is not true: its issuer has not verified the address, which names the tenant")
	case c.RequiredScope != "" && !token.hasScope(c.RequiredScope):
		return httpapi.Caller{}, fmt.Errorf("%w: the token does not have the scope %s, which this server requires",
			httpapi.ErrForbidden, c.RequiredScope)
	}
	return httpapi.Caller{
		Subject: subject, Tenant: tenant, Rights: c.Scopes.Rights(token.hasScope),
	}, nil
}

// checkTimes compares exp, nbf and iat with the clock (RFC 7519, sections 4.1.4 to 4.1.6).
func (c Config) checkTimes(token claims, now time.Time) error {
	exp, hasExp, err := token.instant("exp")
	if err != nil {
		return err
	}
	nbf, _, err := token.instant("nbf") // absent is 1970, which is in the past
	if err != nil {
		return err
	}
	iat, _, err := token.instant("iat")
	if err != nil {
		return err
	}
	switch {
	case !hasExp:
		return httpapi.Unauthenticated("the token has no claim exp: tokens that never expire are not accepted")
	case !now.Before(exp.Add(c.Leeway)):
		return httpapi.Unauthenticated("the token expired at %s, it is now %s", stamp(exp), stamp(now))
	case now.Add(c.Leeway).Before(nbf):
		return httpapi.Unauthenticated("the token is not valid before %s, it is now %s", stamp(nbf), stamp(now))
	case now.Add(c.Leeway).Before(iat):
		return httpapi.Unauthenticated("the token was issued in the future, at %s, it is now %s: synchronize the clocks",
			stamp(iat), stamp(now))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// claims are the members of a token's payload under their exact names: JSON's names differ if their case does, but
// structs are filled by encoding/json whatever the case, and an issuer may let its users choose names of their own.
type claims map[string]json.RawMessage

// text returns a claim that is a string, and whether it is.
func (c claims) text(name string) (string, bool) {
	var s *string
	if json.Unmarshal(c[name], &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// texts returns a claim that is a string or an array of strings, and nothing if it is neither.
func (c claims) texts(name string) []string {
	if s, ok := c.text(name); ok {
		return []string{s}
	}
	var list []string
	if json.Unmarshal(c[name], &list) != nil {
		return nil
	}
	return list
}

// isTrue reports whether a claim is the boolean true; the text "true" is not.
func (c claims) isTrue(name string) bool { return string(c[name]) == "true" }

// instant returns a claim that is a NumericDate (RFC 7519, section 2): seconds since 1970, perhaps with a fraction. ok
// is whether it is there.
func (c claims) instant(name string) (t time.Time, ok bool, err error) {
	const year10000 = 253402300800
	raw, there := c[name]
	if !there || string(raw) == "null" {
		return time.Unix(0, 0), false, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds < 0 || seconds >= year10000 {
		return time.Time{}, false, httpapi.Unauthenticated(
			"the token's claim %s is not a time: it must be a number of seconds since 1970", name)
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true, nil
}

func (c claims) subject() (string, error) {
	sub, _ := c.text("sub")
	switch {
	case sub == "":
		return "", httpapi.Unauthenticated("the token has no claim sub with a text: it must name the caller")
	case len(sub) > httpapi.MaxSubjectBytes:
		return "", httpapi.Unauthenticated("the token's claim sub has %d bytes, %d at most", len(sub), httpapi.MaxSubjectBytes)
	case !readable(sub):
		return "", httpapi.Unauthenticated("the token's claim sub has control characters or is not UTF-8")
	}
	return sub, nil
}

// readable reports whether a name is unambiguous text. encoding/json decodes invalid bytes to U+FFFD: two names that
// differ only there would become one.
func readable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// hasScope looks for a whole scope in the claims scope (RFC 8693, section 4.2) and scp (Microsoft's and Okta's name).
func (c claims) hasScope(want string) bool {
	for _, name := range []string{"scope", "scp"} {
		for _, part := range c.texts(name) {
			if slices.Contains(strings.Split(part, " "), want) {
				return true
			}
		}
	}
	return false
}
