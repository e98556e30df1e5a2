package awsdynamodb

import (
	"context"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// lastEndpoint remembers what the SDK resolved last. The SDK evaluates its rules for every request, although all
// requests of a store lead to the same endpoint.
type lastEndpoint struct {
	last atomic.Pointer[resolved]
}

// resolved is an endpoint and what it was resolved from.
type resolved struct {
	from     endpointRules
	endpoint smithyendpoints.Endpoint // its parts are shared, and not changed by the SDK
}

// endpointRules are [sdk.EndpointParameters] in a form that can be compared.
type endpointRules struct {
	region, url, account, accountMode, resource string
	dualStack, fips                             bool
}

// through is a resolver that asks another one only for what is not remembered.
func (l *lastEndpoint) through(r sdk.EndpointResolverV2) sdk.EndpointResolverV2 {
	return rememberingResolver{l, r}
}

type rememberingResolver struct {
	remembered *lastEndpoint
	sdk.EndpointResolverV2
}

// ResolveEndpoint implements [sdk.EndpointResolverV2].
func (r rememberingResolver) ResolveEndpoint(ctx context.Context, p sdk.EndpointParameters) (smithyendpoints.Endpoint,
	error) {
	if len(p.ResourceArnList) > 0 || aws.ToBool(p.IsSearchOperation) { // transactions, which are not sent as often
		return r.EndpointResolverV2.ResolveEndpoint(ctx, p)
	}
	from := endpointRules{
		region: aws.ToString(p.Region), url: aws.ToString(p.Endpoint), resource: aws.ToString(p.ResourceArn),
		account: aws.ToString(p.AccountId), accountMode: aws.ToString(p.AccountIdEndpointMode),
		dualStack: aws.ToBool(p.UseDualStack), fips: aws.ToBool(p.UseFIPS),
	}
	if l := r.remembered.last.Load(); l != nil && l.from == from {
		return l.endpoint, nil
	}
	endpoint, err := r.EndpointResolverV2.ResolveEndpoint(ctx, p)
	if err == nil {
		r.remembered.last.Store(&resolved{from, endpoint})
	}
	return endpoint, err
}
