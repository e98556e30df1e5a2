package cloudtaskstest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// tokenLife is how long Google's ID tokens are good.
const tokenLife = time.Hour

// keyID names the key in tokens and in the key set.
const keyID = "emulator"

// signingKey is the one of all emulators of a process, because making it takes longer than everything else.
var signingKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// issuer signs tokens and publishes its keys (OpenID Connect Discovery 1.0).
type issuer struct {
	*loopback.HTTP

	now    func() time.Time
	signer jose.Signer
}

func startIssuer(now func() time.Time) (*issuer, error) {
	key, err := signingKey()
	if err != nil {
		return nil, fmt.Errorf("cloud tasks emulator: make a key: %w", err)
	}
	private := jose.JSONWebKey{Key: key, KeyID: keyID, Algorithm: string(jose.RS256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("cloud tasks emulator: %w", err)
	}
	l, err := loopback.Listen("cloud tasks emulator", "", false)
	if err != nil {
		return nil, err
	}
	url := "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /.well-known/openid-configuration", document(map[string]any{
		"issuer": url, "jwks_uri": url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
	}))
	mux.Handle("GET /keys", document(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}}))
	return &issuer{HTTP: loopback.ServeHTTP(l, mux), now: now, signer: signer}, nil
}

// document serves JSON.
func document(v any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // an error means that the caller is gone
	})
}

// token is an ID token of a service account, with the claims of Google's. change may be nil.
func (i *issuer) token(account, audience string, change func(map[string]any)) (string, error) {
	subject := fnv.New64a()
	_, _ = subject.Write([]byte(account)) // it never fails
	id := strconv.FormatUint(subject.Sum64(), 10)
	now := i.now()
	claims := map[string]any{
		"iss": i.URL, "aud": audience, "azp": id, "sub": id, "email": account, "email_verified": true,
		"iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	}
	if change != nil {
		change(claims)
	}
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("cloud tasks emulator: claims: %w", err)
	}
	signed, err := i.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("cloud tasks emulator: sign: %w", err)
	}
	return signed.CompactSerialize()
}
