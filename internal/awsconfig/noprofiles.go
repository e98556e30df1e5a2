//go:build leasehold.noprofiles

package awsconfig

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// fromEverywhere says what this program does not have.
func fromEverywhere(context.Context, Options, bool) (aws.Config, error) {
	if names := onlyElsewhere(); len(names) > 0 {
		return aws.Config{}, fmt.Errorf(
			"this program was built with the tag leasehold.noprofiles and does not understand %s: build it without the tag",
			strings.Join(names, ", "))
	}
	return aws.Config{},
		fmt.Errorf("this program was built with the tag leasehold.noprofiles, for Lambda, and finds no credentials in " +
			"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor at AWS_CONTAINER_CREDENTIALS_FULL_URI: elsewhere, build it without the tag")
}
