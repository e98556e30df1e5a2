package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const (
	// attemptTimeout bounds one attempt of a request, so that a connection that has died without a word does not keep
	// a caller who brought no deadline.
	attemptTimeout = 10 * time.Second

	// connections are kept open for later requests: as many as a busy process has calls at once. The SDK keeps ten.
	connections = 128
)

// connect makes a client of the options and the environment, and makes sure that there are a region and credentials.
func connect(ctx context.Context, o *Options) (*sdk.Client, error) {
	local, err := isLocal(o.Endpoint)
	if err != nil {
		return nil, err
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(attemptTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
		})),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if local {
		load = append(load, config.WithDefaultRegion("local"))
		if os.Getenv("AWS_ACCESS_KEY_ID") == "" && os.Getenv("AWS_PROFILE") == "" {
			load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("dynamodb: cannot read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("dynamodb: no region: set --region or AWS_REGION, or a region in the profile of ~/.aws/config")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return nil, fmt.Errorf("dynamodb: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "+
			"or give this machine a role: %w", err)
	}
	return sdk.NewFromConfig(cfg, func(so *sdk.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
	}), nil
}

// isLocal reports whether an endpoint is on this machine.
func isLocal(endpoint string) (bool, error) {
	if endpoint == "" {
		return false, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("dynamodb: endpoint %q is no URL like http://127.0.0.1:8000", endpoint)
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(), nil
}
