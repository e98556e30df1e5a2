package awssqs

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasehold-dev/leasehold/internal/awsconfig"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Client is what this package asks of the SDK; *sqs.Client of github.com/aws/aws-sdk-go-v2/service/sqs has it.
type Client interface {
	SendMessage(ctx context.Context, in *sdk.SendMessageInput, o ...func(*sdk.Options)) (*sdk.SendMessageOutput, error)
	ReceiveMessage(ctx context.Context, in *sdk.ReceiveMessageInput, o ...func(*sdk.Options)) (*sdk.ReceiveMessageOutput,
		error)
	DeleteMessage(ctx context.Context, in *sdk.DeleteMessageInput, o ...func(*sdk.Options)) (*sdk.DeleteMessageOutput,
		error)
	ChangeMessageVisibility(ctx context.Context, in *sdk.ChangeMessageVisibilityInput,
		o ...func(*sdk.Options)) (*sdk.ChangeMessageVisibilityOutput, error)
	GetQueueAttributes(ctx context.Context, in *sdk.GetQueueAttributesInput,
		o ...func(*sdk.Options)) (*sdk.GetQueueAttributesOutput, error)
	GetQueueUrl(ctx context.Context, in *sdk.GetQueueUrlInput, o ...func(*sdk.Options)) (*sdk.GetQueueUrlOutput, error)
}

var _ Client = (*sdk.Client)(nil)

// Options are the settings of [Open] and [OpenHider]. The zero value works where the AWS configuration of the
// environment does.
type Options struct {
	// Region is that of the queue. The default is the one in the queue's URL, then AWS_REGION, then the shared
	// configuration.
	Region string

	// Endpoint is another server than the region's. The default is the server of the queue's URL if that is none of
	// AWS': an emulator, for instance.
	Endpoint string

	// Tenant says whose an analysis is, such as [TenantBefore]; empty is no one's. A standard queue gets it as message
	// group, which makes it a fair queue: while one tenant has many messages, those of the others are delivered first.
	// nil, or a FIFO queue: nothing is said of tenants.
	Tenant func(analysis.ID) string
}

// TenantBefore returns the part of an ID before the first separator: "acme" of "acme:report-7" with ":". An ID without
// it is no one's.
func TenantBefore(separator string) func(analysis.ID) string {
	return func(id analysis.ID) string {
		tenant, _, found := strings.Cut(string(id), separator)
		if !found {
			return ""
		}
		return tenant
	}
}

// attemptTimeout bounds one attempt of a request. It is longer than the longest poll.
const attemptTimeout = maxWait + 10*time.Second

// connect makes a client of the options and the environment.
func connect(ctx context.Context, o Options) (*sdk.Client, error) {
	client := awshttp.NewBuildableClient().WithTimeout(attemptTimeout)
	c, err := awsconfig.Load(ctx, awsconfig.Options{Service: "sqs", Region: o.Region, Endpoint: o.Endpoint, HTTP: client})
	if err != nil {
		return nil, err
	}
	return sdk.NewFromConfig(c, func(so *sdk.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = &o.Endpoint
		}
	}), nil
}

var regionName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)
})

// at fills in what the URL of a queue says about where it is, such as
// https://sqs.eu-north-1.amazonaws.com/123456789012/analyses.
func (o Options) at(queueURL string) (Options, error) {
	u, err := awsconfig.ParseURL(queueURL)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return o, fmt.Errorf(
			"sqs: the queue is %q: it must be its URL, such as https://sqs.eu-north-1.amazonaws.com/123456789012/analyses",
			queueURL)
	}
	host := u.Hostname()
	ofAWS := strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") ||
		strings.HasSuffix(host, ".api.aws")
	if o.Endpoint == "" && (!ofAWS || strings.Contains(host, ".vpce.")) {
		o.Endpoint = u.Scheme + "://" + u.Host
	}
	if o.Region == "" && ofAWS {
		for label := range strings.SplitSeq(host, ".") {
			if regionName().MatchString(label) {
				o.Region = label
			}
		}
	}
	return o, nil
}
