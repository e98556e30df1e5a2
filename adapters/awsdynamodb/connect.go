package awsdynamodb

import (
	"context"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/internal/awsconfig"
)

const (
	// attemptTimeout bounds one attempt of a request, so that a dead connection does not keep a caller without a
	// deadline.
	attemptTimeout = 10 * time.Second

	// connections are kept open for later requests: as many as a busy process has calls at once. The SDK keeps ten.
	connections = 128
)

// connect makes a client of the options and the environment.
func connect(ctx context.Context, o *Options) (*sdk.Client, error) {
	client := awshttp.NewBuildableClient().WithTimeout(attemptTimeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	})
	c, err := awsconfig.Load(ctx, awsconfig.Options{Service: "dynamodb", Region: o.Region, Endpoint: o.Endpoint,
		HTTP: client})
	if err != nil {
		return nil, err
	}
	return sdk.NewFromConfig(c, func(so *sdk.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = &o.Endpoint
		}
	}), nil
}
