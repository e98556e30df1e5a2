// Package awsconfig reads the configuration of an AWS client, and checks that it names a region and credentials.
//
// On Lambda all that a client needs is in environment variables, and reading the shared configuration beside them costs
// a cold start more than the rest of it. So they are read directly there; everywhere else, and where a variable is set
// that only the SDK's own loader understands, that loader is used. The build tag leasehold.noprofiles leaves the loader
// out of the program, which is what make lambda does: it links clients of three more services.
package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// Options say which configuration to read.
type Options struct {
	Service string // for the errors, and for AWS_ENDPOINT_URL_…
	Region  string // empty means that of the environment or the shared configuration
	// empty means the region's; an endpoint on this machine needs neither a region nor credentials
	Endpoint string
	HTTP     *awshttp.BuildableClient // nil means one of the SDK's own
}

// Load reads the environment and the shared configuration.
func Load(ctx context.Context, o Options) (aws.Config, error) {
	fail := func(err error) (aws.Config, error) { return aws.Config{}, fmt.Errorf("%s: %w", o.Service, err) }
	local, err := onThisMachine(o.Endpoint)
	if err != nil {
		return fail(fmt.Errorf("endpoint %w", err))
	}
	c, ok, err := fromEnvironment(o, local)
	if err == nil && !ok {
		c, err = fromEverywhere(ctx, o, local)
	}
	if err != nil {
		return fail(fmt.Errorf("cannot read the AWS configuration: %w", err))
	}
	if c.Region == "" {
		return fail(
			errors.New("no region: name one (--region), or set AWS_REGION, or a region in the profile of ~/.aws/config"))
	}
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return fail(fmt.Errorf("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "+
			"or give this machine a role: %w", errors.Join(ctx.Err(), err)))
	}
	return c, nil
}

// What an emulator on this machine gets, which asks for neither.
const (
	localRegion = "local"
	localKey    = "local"
)

// onThisMachine reports whether an endpoint is on this machine. Empty is not.
func onThisMachine(endpoint string) (bool, error) {
	if endpoint == "" {
		return false, nil
	}
	u, err := ParseURL(endpoint)
	if err != nil {
		return false, err
	}
	return loopback(u.Hostname()), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// beyond are variables that only the SDK's loader understands.
var beyond = []string{
	"AWS_ACCOUNT_ID_ENDPOINT_MODE", "AWS_AUTH_SCHEME_PREFERENCE", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_DEFAULTS_MODE",
	"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_USE_DUALSTACK_ENDPOINT",
	"AWS_USE_FIPS_ENDPOINT",
}

// onlyElsewhere returns the variables that keep the configuration from being read directly.
func onlyElsewhere() (names []string) {
	for _, name := range beyond {
		if os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// first returns the value of the first variable that is set.
func first(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// fromEnvironment reads what Lambda sets. It is not ok where that is not all: not on Lambda, or without keys there.
func fromEnvironment(o Options, local bool) (c aws.Config, ok bool, err error) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" || len(onlyElsewhere()) > 0 {
		return aws.Config{}, false, nil
	}
	keys := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), AccountID: os.Getenv("AWS_ACCOUNT_ID"), Source: "EnvConfigCredentials",
	}
	c = aws.Config{Region: o.Region, AccountIDEndpointMode: aws.AccountIDEndpointModePreferred,
		AppID: os.Getenv("AWS_SDK_UA_APP_ID")}
	if c.Region == "" {
		c.Region = first("AWS_REGION", "AWS_DEFAULT_REGION")
	}
	if local && c.Region == "" {
		c.Region = localRegion
	}
	switch {
	case keys.HasKeys(): // the instance ends before they do
		c.Credentials = static(keys)
	case local:
		c.Credentials = static(aws.Credentials{AccessKeyID: localKey, SecretAccessKey: localKey})
	default:
		if c.Credentials, err = fromContainer(); c.Credentials == nil || err != nil {
			return aws.Config{}, false, err
		}
	}
	if o.HTTP != nil {
		c.HTTPClient = o.HTTP
	}
	if url := first("AWS_ENDPOINT_URL_"+strings.ToUpper(o.Service), "AWS_ENDPOINT_URL"); url != "" {
		c.BaseEndpoint = &url
	}
	return c, true, retries(&c)
}

func static(keys aws.Credentials) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil })
}

// retries reads how often to try.
func retries(c *aws.Config) (err error) {
	if mode := os.Getenv("AWS_RETRY_MODE"); mode != "" {
		if c.RetryMode, err = aws.ParseRetryMode(mode); err != nil {
			return fmt.Errorf("AWS_RETRY_MODE: %w", err)
		}
	}
	if n := os.Getenv("AWS_MAX_ATTEMPTS"); n != "" {
		if _, err := fmt.Sscan(n, &c.RetryMaxAttempts); err != nil || c.RetryMaxAttempts < 1 {
			return fmt.Errorf("AWS_MAX_ATTEMPTS is %q: it must be a number from 1 on", n)
		}
	}
	return nil
}

// ParseURL reads the URL of a server.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a URL such as http://127.0.0.1:8000", s)
	}
	return u, nil
}
