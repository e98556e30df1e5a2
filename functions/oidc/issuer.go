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

// keys reads the issuer's keys, and how long they may be used. Their address is discovered each time, so that an
// issuer may change it.
func (i *issuer) keys(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	from := i.jwksURL
	if from == "" {
		var err error
		if from, err = i.discover(ctx); err != nil {
			return nil, 0, err
		}
	}
	body, header, err := i.get(ctx, from)
	if err != nil {
		return nil, 0, err
	}
	keys, err := parseKeys(body)
	if err != nil {
		return nil, 0, fmt.Errorf("the key set at %s %w", from, err)
	}
	return keys, lifeOf(header), nil
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
		return "", fmt.Errorf("the document at %s is of issuer %s, the configured issuer is %q: "+
			"they must be identical", at, quote(document.Issuer), i.url)
	}
	if err := checkSource(document.JWKSURI); err != nil {
		return "", fmt.Errorf("the jwks_uri %s in the document at %s %w", quote(document.JWKSURI), at, err)
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

// parseKeys returns those keys of a key set that can verify tokens here. Others are passed over, as RFC 7517, section
// 5, asks: sets also hold keys for encryption and of kinds that are not known yet. A set without such a key is a
// mistake of the issuer, which must not replace keys that work.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("is not JSON that has keys: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("has %d keys, %d at most", len(document.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && usable(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("has no key for the signatures %s (it has %d keys)",
			strings.Join(algorithmNames(), ", "), len(document.Keys))
	}
	return keys, nil
}

// usable tells public keys for accepted signatures from all others. A private key is not used even though its public
// half could be: it was published.
func usable(key *jose.JSONWebKey) bool {
	if !key.Valid() || key.Use != "" && key.Use != "sig" {
		return false
	}
	if key.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(key.Algorithm)) {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256() || k.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return true
	default:
		return false
	}
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
