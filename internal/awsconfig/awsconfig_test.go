package awsconfig

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// onLambda sets the environment of a function, and nothing else of AWS.
func onLambda(t *testing.T, more map[string]string) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") && value != "" {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
	for name, value := range more {
		t.Setenv(name, value)
	}
}

// keys are what Lambda sets.
func keys(more ...string) map[string]string {
	env := map[string]string{
		"AWS_REGION": "eu-north-1", "AWS_ACCESS_KEY_ID": "AKIAFAKE", "AWS_SECRET_ACCESS_KEY": "fake",
		"AWS_SESSION_TOKEN": "token",
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

// shown is what a client takes from a configuration.
func shown(t *testing.T, c aws.Config) string {
	t.Helper()
	got, err := c.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s %s %s, %d attempts, mode %q, account mode %q, app %q",
		c.Region, got.AccessKeyID, got.SecretAccessKey, got.SessionToken, got.AccountID, c.RetryMaxAttempts, c.RetryMode,
		c.AccountIDEndpointMode, c.AppID)
}

// TestReadDirectly: what is read directly on Lambda is what the SDK's loader reads there.
func TestReadDirectly(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		o    Options
		same bool // the loader reads it, too
	}{
		"as Lambda sets it": {keys(), Options{Service: "dynamodb"}, true},
		"with a region":     {keys(), Options{Service: "dynamodb", Region: "us-west-2"}, true},
		"the other region":  {keys("AWS_REGION", "", "AWS_DEFAULT_REGION", "us-east-2"), Options{Service: "sqs"}, true},
		"with an account":   {keys("AWS_ACCOUNT_ID", "123456789012"), Options{Service: "dynamodb"}, true},
		"retries":           {keys("AWS_RETRY_MODE", "adaptive", "AWS_MAX_ATTEMPTS", "5"), Options{Service: "sqs"}, true},
		"an application":    {keys("AWS_SDK_UA_APP_ID", "mine"), Options{Service: "sqs"}, true},
		// the loader fails on a profile that is missing
		"a profile as well": {keys("AWS_PROFILE", "none"), Options{Service: "sqs"}, false},
		"an emulator": {keys("AWS_REGION", "", "AWS_ACCESS_KEY_ID", ""),
			Options{Service: "dynamodb", Endpoint: "http://127.0.0.1:8000"}, true},
		"an emulator with keys": {keys(), Options{Service: "dynamodb", Endpoint: "http://localhost:8000"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onLambda(t, c.env)
			local, err := onThisMachine(c.o.Endpoint)
			if err != nil {
				t.Fatal(err)
			}
			direct, ok, err := fromEnvironment(c.o, local)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if !c.same {
				return
			}
			loaded, err := fromEverywhere(t.Context(), c.o, local)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := shown(t, direct), shown(t, loaded); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// TestNotReadDirectly: elsewhere, and with what only the SDK's loader understands, that one reads.
func TestNotReadDirectly(t *testing.T) {
	for _, env := range []map[string]string{
		keys("AWS_LAMBDA_RUNTIME_API", ""), keys("AWS_ACCESS_KEY_ID", ""), keys("AWS_CA_BUNDLE", "/x"),
		keys("AWS_CONFIG_FILE", "/x"),
		keys("AWS_USE_FIPS_ENDPOINT", "true"), keys("AWS_DEFAULTS_MODE", "standard"),
	} {
		onLambda(t, env)
		if _, ok, err := fromEnvironment(Options{Service: "dynamodb"}, false); ok || err != nil {
			t.Errorf("%v: %v, %v", env, ok, err)
		}
		for name := range env {
			t.Setenv(name, "")
		}
	}
}

// TestRejected: what is set and cannot be meant is an error that names it.
func TestRejected(t *testing.T) {
	for says, env := range map[string]map[string]string{
		"AWS_RETRY_MODE":   keys("AWS_RETRY_MODE", "often"),
		"AWS_MAX_ATTEMPTS": keys("AWS_MAX_ATTEMPTS", "many"),
		"no region":        keys("AWS_REGION", ""),
		"must be https": keys("AWS_ACCESS_KEY_ID", "", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
			"http://credentials.example/"),
		"is not a URL": keys("AWS_ACCESS_KEY_ID", "", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "credentials"),
	} {
		t.Run(says, func(t *testing.T) {
			onLambda(t, env)
			if _, err := Load(t.Context(), Options{Service: "dynamodb"}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		})
	}
	onLambda(t, keys())
	if _, err := Load(t.Context(), Options{Service: "dynamodb", Endpoint: "ftp://x"}); err == nil ||
		!strings.Contains(err.Error(), "is not a URL") {
		t.Errorf("%v", err)
	}
}

// TestEndpoint: the URL of a service goes before that of all.
func TestEndpoint(t *testing.T) {
	onLambda(t, keys("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:2"))
	for service, want := range map[string]string{"sqs": "http://127.0.0.1:2", "sts": "http://127.0.0.1:1"} {
		c, err := Load(t.Context(), Options{Service: service})
		if err != nil || aws.ToString(c.BaseEndpoint) != want {
			t.Errorf("%s: %q, %v, want %s", service, aws.ToString(c.BaseEndpoint), err, want)
		}
	}
}

// TestFromContainer: where the environment names a URL instead of keys, the keys are asked for there, with its token,
// and again before they expire.
func TestFromContainer(t *testing.T) {
	requests := 0
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if got := r.Header.Get("Authorization"); got != "secret" {
			t.Errorf("the token is %q", got)
		}
		expires := time.Now().Add(-time.Second) // the first is not good for long
		if requests > 1 {
			expires = time.Now().Add(time.Hour)
		}
		fmt.Fprintf(w, `{"AccessKeyId":"AKIA%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, requests,
			expires.UTC().Format(time.RFC3339))
	}))
	defer agent.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range [][2]string{{"AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret"},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file}} {
		t.Run(token[0], func(t *testing.T) {
			requests = 0
			onLambda(t, keys("AWS_ACCESS_KEY_ID", "", "AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL, token[0], token[1]))
			c, ok, err := fromEnvironment(Options{Service: "dynamodb"}, false)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			for _, want := range []string{"AKIA1", "AKIA2", "AKIA2"} {
				if got, err := c.Credentials.Retrieve(context.WithoutCancel(t.Context())); err != nil || got.AccessKeyID != want {
					t.Errorf("%s, %v, want %s", got.AccessKeyID, err, want)
				}
			}
		})
	}
}
