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

// maxTokenBytes bounds the work that an unknown sender can cause. Real tokens have one or two thousand bytes.
const maxTokenBytes = 8 << 10

// algorithms are the accepted values of alg. All have a public and a private key: with a shared key (HS256 and its
// like) whoever can verify a token can make one, and an issuer's public key could be passed off as the shared one.
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

// tokens knows the tokens of one issuer.
type tokens struct {
	config   Config
	keys     *keyCache
	verifier gooidc.Config
}

var _ httpapi.Identity = (*Identity)(nil)

// Challenge implements [httpapi.Identity]: bearer tokens are accepted (RFC 6750, section 3).
func (*tokens) Challenge() string { return `Bearer realm="leasehold"` }

// Identify implements [httpapi.Identity]: it returns the caller that the bearer token of the request names. The error is
// [httpapi.ErrUnauthenticated] if there is no such token or it cannot be believed, and another one if the issuer's keys
// could not be read or r's context ended first.
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

// read verifies the signature of the request's token and has its payload judged.
func (t *tokens) read(r *http.Request, judge func(payload []byte) error) error {
	raw, err := bearer(r.Header)
	if err != nil {
		return err
	}
	signed, err := parse(raw)
	if err != nil {
		return err
	}
	p := &proof{keys: t.keys, signed: signed}
	_, refused := gooidc.NewVerifier(t.config.Issuer, p, &t.verifier).Verify(r.Context(), raw)
	if p.err != nil {
		return p.err
	}
	if err := judge(p.payload); err != nil {
		return err
	}
	if refused != nil {
		// go-oidc saw something that the judge did not: it reads claims whatever the case of their names, and claims that
		// are of no use here.
		return refuse("the token's claims are not those of an OpenID Connect token: " +
			"a registered claim has the wrong type, or is there twice with different spellings")
	}
	return nil
}

// bearer returns the token of the Authorization header (RFC 6750, section 2.1).
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", refuse("the request has no Authorization header: send Authorization: Bearer and a token")
	case 1:
	default:
		return "", refuse("the request has %d Authorization headers: send one", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", refuse("the Authorization header is not of the scheme Bearer: send Authorization: Bearer and a token")
	case token == "":
		return "", refuse("the Authorization header has no token after Bearer")
	case len(token) > maxTokenBytes:
		return "", refuse("the token has %d bytes, %d at most", len(token), maxTokenBytes)
	}
	return token, nil
}

// parse takes a JWT apart and refuses what no key could make good. go-oidc parses once more but flattens its reasons to
// text, and accepts white space and JSON, which a header cannot mean.
func parse(raw string) (*jose.JSONWebSignature, error) {
	const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	malformed := refuse("the token is not a signed JWT: three parts in base64url with dots between them")
	if strings.HasSuffix(raw, ".SIGNATURE_REMOVED_BY_GOOGLE") {
		return nil, refuse("Cloud Run has verified this token and removed its signature: send Cloud Run's token in " +
			"X-Serverless-Authorization and Leasehold's in Authorization. For tasks and sweeps set LEASEHOLD_TASK_AUTH=platform, " +
			"so that only Cloud Run verifies callers, or let everyone invoke the service, so that Leasehold does")
	}
	if strings.Count(raw, ".") != 2 || strings.Trim(raw, base64url+".") != "" {
		return nil, malformed
	}
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if other, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return nil, refuse("the token's algorithm is %s, accepted are %s",
			quote(string(other.Got)), strings.Join(algorithmNames(), ", "))
	}
	if err != nil {
		return nil, malformed
	}
	if len(signed.Signatures[0].Signature) == 0 {
		return nil, refuse("the token is not signed")
	}
	return signed, nil
}

// proof is the [gooidc.KeySet] of one token. It keeps what was found out, because Verify turns the errors of its key set
// into text, and the difference between a wrong signature and an issuer that is down would be lost.
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

// refusal is an [httpapi.ErrUnauthenticated] whose text is the sentence for the caller and nothing more.
type refusal string

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Error is the sentence.
func (r refusal) Error() string { return string(r) }

// Unwrap says what kind of error it is.
func (refusal) Unwrap() error { return httpapi.ErrUnauthenticated }

// quote shows what a token says, in quotes and not at any length.
func quote(s string) string {
	const most = 100
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q…", s[:most])
}
