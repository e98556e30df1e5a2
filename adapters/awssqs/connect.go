package awssqs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Client is what this package asks of the SDK; *sqs.Client of github.com/aws/aws-sdk-go-v2/service/sqs has it.
type Client interface {
	SendMessage(ctx context.Context, in *sdk.SendMessageInput, o ...func(*sdk.Options)) (*sdk.SendMessageOutput, error)
	ReceiveMessage(ctx context.Context, in *sdk.ReceiveMessageInput, o ...func(*sdk.Options)) (*sdk.ReceiveMessageOutput, error)
	DeleteMessage(ctx context.Context, in *sdk.DeleteMessageInput, o ...func(*sdk.Options)) (*sdk.DeleteMessageOutput, error)
	ChangeMessageVisibility(ctx context.Context, in *sdk.ChangeMessageVisibilityInput, o ...func(*sdk.Options)) (*sdk.ChangeMessageVisibilityOutput, error)
	GetQueueAttributes(ctx context.Context, in *sdk.GetQueueAttributesInput, o ...func(*sdk.Options)) (*sdk.GetQueueAttributesOutput, error)
	GetQueueUrl(ctx context.Context, in *sdk.GetQueueUrlInput, o ...func(*sdk.Options)) (*sdk.GetQueueUrlOutput, error)
}

var _ Client = (*sdk.Client)(nil)

// Options are the settings of [Open] and [OpenHider]. The zero value works where the AWS configuration of the environment does.
type Options struct {
	// Region is that of the queue. The default is the one in the queue's URL, then AWS_REGION, then the shared configuration.
	Region string

	// Endpoint is another server than the region's. The default is the server of the queue's URL if that is none of
	// AWS': an emulator, for instance.
	Endpoint string
}

// attemptTimeout bounds one attempt of a request. It is longer than the longest poll.
const attemptTimeout = maxWait + 10*time.Second

// connect makes a client of the options and the environment, and makes sure that there are a region and credentials.
func connect(ctx context.Context, o Options) (*sdk.Client, error) {
	local := false
	if o.Endpoint != "" {
		u, err := parseURL(o.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("sqs: endpoint: %w", err)
		}
		ip := net.ParseIP(u.Hostname())
		local = u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	}
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(attemptTimeout))}
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
		return nil, fmt.Errorf("sqs: cannot read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("sqs: no region: set AWS_REGION, or a region in the profile of ~/.aws/config")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("sqs: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "+
			"or give this machine a role: %w", errors.Join(ctx.Err(), err))
	}
	return sdk.NewFromConfig(cfg, func(so *sdk.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
	}), nil
}

var regionName = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)

// at fills in what the URL of a queue says about where it is, such as
// https://sqs.eu-north-1.amazonaws.com/123456789012/analyses.
func (o Options) at(queueURL string) (Options, error) {
	u, err := parseURL(queueURL)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return o, fmt.Errorf("sqs: the queue is %q: it must be its URL, such as https://sqs.eu-north-1.amazonaws.com/123456789012/analyses",
			queueURL)
	}
	host := u.Hostname()
	ofAWS := strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") || strings.HasSuffix(host, ".api.aws")
	if o.Endpoint == "" && (!ofAWS || strings.Contains(host, ".vpce.")) {
		o.Endpoint = u.Scheme + "://" + u.Host
	}
	if o.Region == "" && ofAWS {
		for label := range strings.SplitSeq(host, ".") {
			if regionName.MatchString(label) {
				o.Region = label
			}
		}
	}
	return o, nil
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL like http://127.0.0.1:9324", s)
	}
	return u, nil
}
