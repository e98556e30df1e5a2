package tests

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tokenfile"
)

// byAWS asks who sent a request that an authorizer of API Gateway has verified.
func byAWS(t *testing.T, authorizer map[string]any) (c httpapi.Caller, err error) {
	t.Helper()
	event, failed := json.Marshal(map[string]any{"version": "2.0", "rawPath": "/",
		"requestContext": map[string]any{"http": map[string]string{"method": "GET"}, "authorizer": authorizer}})
	if failed != nil {
		t.Fatal(failed)
	}
	ask := func(_ http.ResponseWriter, r *http.Request) { c, err = aws.Authorizer{IAMTenant: "acme"}.Identify(r) }
	if _, failed := aws.New(http.HandlerFunc(ask), nil).Invoke(t.Context(), event); failed != nil {
		t.Fatal(failed)
	}
	return c, err
}

// byToken asks who sent a token that a file has.
func byToken(file, secret string) (httpapi.Caller, error) {
	i, err := tokenfile.Open(file, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return httpapi.Caller{}, err
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	return i.Identify(r)
}

// TestSubjectsOfEveryWayIn: whoever says who a caller is, a subject has 512 bytes at most; more is refused in words that
// have both numbers, and is nowhere cut to another caller's. functions/oidc asks the same of tokens of an issuer, those of
// Google included.
func TestSubjectsOfEveryWayIn(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:iam::123456789012:user/"
	ways := map[string]struct {
		begins string
		asks   func(t *testing.T, subject string) (httpapi.Caller, error)
	}{
		"a JWT that API Gateway verified": {"", func(t *testing.T, subject string) (httpapi.Caller, error) {
			return byAWS(t, map[string]any{"jwt": map[string]any{"claims": map[string]any{"sub": subject, "tenant_id": "acme"}}})
		}},
		"a Lambda authorizer": {"", func(t *testing.T, subject string) (httpapi.Caller, error) {
			return byAWS(t, map[string]any{"lambda": map[string]any{"sub": subject, "tenant_id": "acme"}})
		}},
		"the principal of a Lambda authorizer": {"", func(t *testing.T, subject string) (httpapi.Caller, error) {
			return byAWS(t, map[string]any{"lambda": map[string]any{"principalId": subject, "tenant_id": "acme"}})
		}},
		"IAM": {arn, func(t *testing.T, subject string) (httpapi.Caller, error) {
			return byAWS(t, map[string]any{"iam": map[string]any{"userArn": subject}})
		}},
		"a role of IAM": {"arn:aws:sts::123456789012:assumed-role/", func(t *testing.T, subject string) (httpapi.Caller, error) {
			return byAWS(t, map[string]any{"iam": map[string]any{"userArn": subject + "/session"}})
		}},
		"an identity of Cognito": {"arn:aws:sts::123456789012:assumed-role/pool/", func(t *testing.T, subject string) (
			httpapi.Caller, error) {
			return byAWS(t, map[string]any{"iam": map[string]any{
				"userArn":         "arn:aws:sts::123456789012:assumed-role/pool/CognitoIdentityCredentials",
				"cognitoIdentity": map[string]any{"identityId": subject[strings.LastIndex(subject, "/")+1:]}}})
		}},
		"a file of tokens": {"", func(t *testing.T, subject string) (httpapi.Caller, error) {
			secret, token, err := tokenfile.New(tokenfile.Token{Subject: "x", Tenant: "acme"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			token.Subject = subject // as another program would write it
			text, err := json.Marshal(map[string]any{"tokens": []tokenfile.Token{token}})
			file := filepath.Join(t.TempDir(), "tokens")
			if err == nil {
				err = os.WriteFile(file, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return byToken(file, secret)
		}},
		"leasehold token new": {"", func(t *testing.T, subject string) (httpapi.Caller, error) {
			file := filepath.Join(t.TempDir(), "tokens")
			code, secret, said := run(t, nil, "token", "new", "--file", file, "--subject", subject, "--tenant", "acme")
			if _, err := os.Stat(file); code != 0 && err == nil {
				t.Error("a token that was refused is in the file")
			}
			if code != 0 {
				return httpapi.Caller{}, fmt.Errorf("%d: %s", code, said)
			}
			return byToken(file, strings.TrimSpace(secret))
		}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{httpapi.MaxSubjectBytes, httpapi.MaxSubjectBytes + 1, 10 * httpapi.MaxSubjectBytes} {
				rest := n - len(way.begins)
				subject := way.begins + strings.Repeat("é", rest/2) + strings.Repeat("e", rest%2)
				caller, err := way.asks(t, subject)
				if n <= httpapi.MaxSubjectBytes {
					if err != nil || caller.Subject != subject || caller.Tenant != "acme" {
						t.Errorf("%d bytes: %d bytes of %s, %v", n, len(caller.Subject), caller.Tenant, err)
					}
					continue
				}
				if want := fmt.Sprintf(" has %d bytes, %d at most", n, httpapi.MaxSubjectBytes); err == nil ||
					caller != (httpapi.Caller{}) || !strings.Contains(err.Error(), want) {
					t.Errorf("%d bytes: %+v, %v", n, caller, err)
				}
			}
		})
	}
}
