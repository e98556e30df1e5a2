// Package awsconfig reads the configuration of an AWS client, and checks that it names a region and credentials.
package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Options say which configuration to read.
type Options struct {
	Service  string // for the errors
	Region   string // empty means that of the environment or the shared configuration
	Endpoint string // empty means the region's; an endpoint on this machine needs neither a region nor credentials
	HTTP     *awshttp.BuildableClient
}

// Load reads the environment and the shared configuration.
func Load(ctx context.Context, o Options) (aws.Config, error) {
	fail := func(err error) (aws.Config, error) { return aws.Config{}, fmt.Errorf("%s: %w", o.Service, err) }
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(o.HTTP)}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Endpoint != "" {
		u, err := ParseURL(o.Endpoint)
		if err != nil {
			return fail(fmt.Errorf("endpoint %w", err))
		}
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			load = append(load, config.WithDefaultRegion("local"))
			if os.Getenv("AWS_ACCESS_KEY_ID") == "" && os.Getenv("AWS_PROFILE") == "" {
				load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
			}
		}
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return fail(fmt.Errorf("cannot read the AWS configuration: %w", err))
	}
	if c.Region == "" {
		return fail(errors.New("no region: name one (--region), or set AWS_REGION, or a region in the profile of ~/.aws/config"))
	}
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return fail(fmt.Errorf("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "+
			"or give this machine a role: %w", errors.Join(ctx.Err(), err)))
	}
	return c, nil
}

// ParseURL reads the URL of a server.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a URL such as http://127.0.0.1:8000", s)
	}
	return u, nil
}
