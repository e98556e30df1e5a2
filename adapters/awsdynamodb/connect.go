package awsdynamodb

import (
	"context"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/internal/awsconfig"
	"github.com/leasehold-dev/leasehold/internal/conns"
)

// connections are kept open for later requests: as many as a busy process has calls at once. The SDK keeps ten.
const connections = 128

// connect makes a client of the options and the environment, whose connections are in the set.
func connect(ctx context.Context, o *Options, set *conns.Set) (*sdk.Client, error) {
	client := awshttp.NewBuildableClient().WithTimeout(conns.TryTimeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
		dial := conns.Dial(t.DialContext)
		if o.dial != nil {
			dial = o.dial
		}
		t.DialContext = set.Track(dial)
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
