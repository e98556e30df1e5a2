//go:build !leasehold.noprofiles

package awsconfig

import (
	"context"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// fromEverywhere reads the environment, the shared configuration, and what the SDK finds credentials in beside them.
func fromEverywhere(ctx context.Context, o Options, local bool) (aws.Config, error) {
	var load []func(*config.LoadOptions) error
	if o.HTTP != nil {
		load = append(load, config.WithHTTPClient(o.HTTP))
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if local {
		load = append(load, config.WithDefaultRegion(localRegion))
		if os.Getenv("AWS_ACCESS_KEY_ID") == "" && os.Getenv("AWS_PROFILE") == "" {
			load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(localKey, localKey, "")))
		}
	}
	return config.LoadDefaultConfig(ctx, load...)
}
