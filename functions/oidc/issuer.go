package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

const (
	// maxResponseBytes bounds a response of the issuer. Microsoft's key set, among the largest, has about 20 KiB.
	maxResponseBytes = 1 << 20

	// maxKeys bounds the signatures that one token without a key name can make this server check.
	maxKeys = 100

	// minRSABits is the least that RS256 and PS256 may be used with (RFC 7518, sections 3.3 and 3.5).
	minRSABits = 2048
)

// How long keys live.
const (
	minLife     = time.Minute
	defaultLife = 15 * time.Minute
	maxLife     = 24 * time.Hour
)

// issuer is where keys come from. It reads for itself what go-oidc's NewProvider and RemoteKeySet would read, because
// those accept responses of any size, repeat them in their errors and do not expose how long keys may be kept.
type issuer struct {
	url     string
	jwksURL string // empty: found by discovery
	client  *http.Client
}

// published is what an issuer publishes.
type published struct {
	keys       []jose.JSONWebKey
	passedOver []string      // why others of its keys are not used
	life       time.Duration // for how long the keys may be used
}

// keys reads the issuer's keys. Their address is discovered each time, so that an issuer may change it.
func (i *issuer) keys(ctx context.Context) (published, error) {
	from := i.jwksURL
	if from == "" {
		var err error
		if from, err = i.discover(ctx); err != nil {
			return published{}, err
		}
	}
	body, header, err := i.get(ctx, from)
	if err != nil {
		return published{}, err
	}
	keys, passedOver, err := parseKeys(body)
	if err != nil {
		return published{}, fmt.Errorf("the key set at %s %w", from, err)
	}
	return published{keys, passedOver, lifeOf(header)}, nil
}

// discover returns the address of the key set (OpenID Connect Discovery 1.0, section 4).
func (i *issuer) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(i.url, "/") + "/.well-known/openid-configuration"
	body, _, err := i.get(ctx, at)
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return "", fmt.Errorf("the document at %s is not an OpenID Connect configuration: %w", at, err)
	}
	if document.Issuer != i.url {
		return "", httpapi.Misconfigured("the document at %s is of issuer %s, the configured issuer is %q: "+
			"they must be identical", at, quote(document.Issuer), i.url)
	}
	if err := checkSource(document.JWKSURI); err != nil {
		return "", httpapi.Misconfigured("the jwks_uri %s in the document at %s %v", quote(document.JWKSURI), at, err)
	}
	return document.JWKSURI, nil
}

func (i *issuer) get(ctx context.Context, url string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Cache-Control", "no-cache") // otherwise the age in a cache on the way adds to max-age
	response, err := i.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read to its end, or is not wanted
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s responded with status %d", url, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", url, err)
	}
	if len(body) > maxResponseBytes {
		return nil, nil, fmt.Errorf("%s has more than %d bytes", url, maxResponseBytes)
	}
	return body, response.Header, nil
}

// members are those of a key that verification needs (RFC 7517, RFC 7518, RFC 8037). The others are not looked at: a
// certificate that is odd, or a member of a later standard, makes no key unusable.
var members = []string{"kty", "kid", "use", "alg", "n", "e", "crv", "x", "y"}

// secretMembers are those of private and shared keys.
var secretMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// parseKeys returns those keys of a key set that can verify tokens here, and why each of the others is passed over, as
// RFC 7517, section 5, asks: sets also hold keys for encryption and of kinds that are not known yet. A set without such
// a key is a mistake of the issuer, which must not replace keys that work.
func parseKeys(body []byte) (keys []jose.JSONWebKey, passedOver []string, err error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, nil, fmt.Errorf("is not JSON that has keys: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, nil, httpapi.Misconfigured("has %d keys, %d at most", len(document.Keys), maxKeys)
	}
	for i, raw := range document.Keys {
		key, err := parseKey(raw)
		if err == nil {
			keys = append(keys, key)
			continue
		}
		passedOver = append(passedOver, fmt.Sprintf("key %d %s: %v", i+1, quote(key.KeyID), err))
	}
	if len(keys) == 0 {
		return nil, passedOver, httpapi.Misconfigured("has no key for the signatures %s (it has %d keys)%s",
			strings.Join(algorithmNames(), ", "), len(document.Keys), listed(passedOver))
	}
	return keys, passedOver, nil
}

// listed are the reasons of the first keys that were passed over.
func listed(reasons []string) string {
	const most = 5
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons[:min(most, len(reasons))], "; ")
}

// parseKey returns a public key for accepted signatures. The error says why it is none, and nothing of the key itself.
// A private key is not used even though its public half could be: it was published.
func parseKey(raw []byte) (jose.JSONWebKey, error) {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(raw, &found); err != nil {
		return jose.JSONWebKey{}, errors.New("it is not an object of JSON")
	}
	needed := map[string]string{}
	for _, name := range members {
		if value, ok := found[name]; ok {
			needed[name] = textOf(name, value)
		}
	}
	named := jose.JSONWebKey{KeyID: needed["kid"]}
	for _, name := range secretMembers {
		if _, ok := found[name]; ok {
			return named, fmt.Errorf("it has the member %s of a secret key", name)
		}
	}
	public, err := json.Marshal(needed)
	if err != nil {
		return named, err
	}
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(public); err != nil {
		return named, fmt.Errorf("its kind %s cannot be read", quote(needed["kty"]+" "+needed["crv"]))
	}
	return key, checkKey(&key)
}

// textOf is the text of a member. A number is its digits: some issuers name keys by numbers. Base64 may be padded, as
// RFC 7515 does not have it.
func textOf(name string, value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	switch name {
	case "n", "e", "x", "y":
		return strings.TrimRight(text, "=")
	default:
		return text
	}
}

// checkKey tells public keys for accepted signatures from all others.
func checkKey(key *jose.JSONWebKey) error {
	switch {
	case !key.Valid():
		return errors.New("it is not valid")
	case key.Use != "" && key.Use != "sig":
		return fmt.Errorf("its use is %s", quote(key.Use))
	case key.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(key.Algorithm)):
		return fmt.Errorf("its algorithm is %s", quote(key.Algorithm))
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("it has %d bits, %d at least", bits, minRSABits)
		}
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return fmt.Errorf("its curve is %s", k.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("its kind is not accepted")
	}
	return nil
}

// lifeOf is how long a response may be used: its max-age (RFC 9111, section 5.2.2.1) within bounds.
func lifeOf(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		// A number that is too large is still a number: ParseUint gives the largest there is.
		seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
		if err == nil || errors.Is(err, strconv.ErrRange) {
			return min(max(time.Duration(seconds)*time.Second, minLife), maxLife)
		}
	}
	return defaultLife
}
