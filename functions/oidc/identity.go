package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// algorithms are the accepted values of alg. All have a public and a private key: with a shared key (HS256 and its
// like) everyone who can verify a token can make one, and an issuer's public key could be used as the shared one.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// Identity is the [httpapi.Identity] that [New] makes. It may be used by several goroutines at once.
type Identity struct{ tokens }

// tokens verifies the tokens of one issuer.
type tokens struct {
	config   Config
	keys     *keyCache
	verifier gooidc.Config
}

var _ httpapi.Identity = (*Identity)(nil)

// Challenge implements [httpapi.Identity]: bearer tokens are accepted (RFC 6750, section 3).
func (*tokens) Challenge() string { return `Bearer realm="leasehold"` }

// Unverified implements [httpapi.Identity].
func (*tokens) Unverified() bool { return false }

// Identify implements [httpapi.Identity]: it returns the caller that the bearer token of the request names. The error
// is [httpapi.ErrUnauthenticated] if there is no valid token, and another one if the issuer's keys could not be read or
// r's context ended first.
func (i *Identity) Identify(r *http.Request) (httpapi.Caller, error) {
	var caller httpapi.Caller
	err := i.read(r, func(payload []byte) (err error) {
		caller, err = i.config.caller(payload)
		return err
	})
	if err != nil {
		return httpapi.Caller{}, err
	}
	return caller, nil
}

// read verifies the signature of the request's token and passes its payload to check.
func (t *tokens) read(r *http.Request, check func(payload []byte) error) error {
	raw, err := httpapi.Bearer(r.Header)
	if err != nil {
		return err
	}
	signed, err := parse(raw)
	if err != nil {
		return err
	}
	p := &proof{keys: t.keys, signed: signed}
	_, rejected := gooidc.NewVerifier(t.config.Issuer, p, &t.verifier).Verify(r.Context(), raw)
	if p.err != nil {
		return p.err
	}
	if err := check(p.payload); err != nil {
		return err
	}
	if rejected != nil {
		// go-oidc found something that check did not: it ignores the case of claims' names, and reads claims that are not
		// used here.
		return httpapi.Unauthenticated("the token's claims are not those of an OpenID Connect token: " +
			"a registered claim has the wrong type, or is there twice with different spellings")
	}
	return nil
}

// parse parses a JWT and rejects what cannot be valid with any key. go-oidc parses again, but gives its reasons as text
// only, and accepts white space and JSON.
func parse(raw string) (*jose.JSONWebSignature, error) {
	const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	malformed := httpapi.Unauthenticated("the token is not a signed JWT: three parts in base64url with dots between them")
	if strings.HasSuffix(raw, ".SIGNATURE_REMOVED_BY_GOOGLE") {
		return nil, httpapi.Unauthenticated(
			"Cloud Run has verified this token and removed its signature: send Cloud Run's token in " +
				"X-Serverless-Authorization and Leasehold's in Authorization. For tasks and sweeps set LEASEHOLD_TASK_AUTH=platform, " +
				"so that only Cloud Run verifies callers, or let everyone invoke the service, so that Leasehold does")
	}
	if strings.Count(raw, ".") != 2 || strings.Trim(raw, base64url+".") != "" {
		return nil, malformed
	}
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if other, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return nil, httpapi.Unauthenticated("the token's algorithm is %s, accepted are %s",
			quote(string(other.Got)), strings.Join(algorithmNames(), ", "))
	}
	if err != nil {
		return nil, malformed
	}
	if len(signed.Signatures[0].Signature) == 0 {
		return nil, httpapi.Unauthenticated("the token is not signed")
	}
	return signed, nil
}

// proof is the [gooidc.KeySet] of one token. It keeps the result, because Verify turns the errors of its key set into
// text, which does not tell a wrong signature from an issuer that is down.
type proof struct {
	keys    *keyCache
	signed  *jose.JSONWebSignature
	payload []byte
	err     error
}

// VerifySignature implements [gooidc.KeySet].
func (p *proof) VerifySignature(ctx context.Context, _ string) ([]byte, error) {
	p.payload, p.err = p.keys.verify(ctx, p.signed)
	return p.payload, p.err
}

// quote quotes a part of a token, at most 100 bytes of it.
func quote(s string) string {
	const most = 100
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q…", s[:most])
}
