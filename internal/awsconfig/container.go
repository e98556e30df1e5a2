package awsconfig

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
)

// hosts are those of AWS' own agents in containers, which plain HTTP may go to beside this machine.
var hosts = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}

// fromContainer reads credentials from the URL that an execution environment names that lives longer than keys do. They
// are asked for again before they expire. It returns nil if there is none.
func fromContainer() (aws.CredentialsProvider, error) {
	const variable = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	uri := os.Getenv(variable)
	if uri == "" {
		return nil, nil //nolint:nilnil // it is not there, which is no error
	}
	u, err := ParseURL(uri)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	ip := net.ParseIP(u.Hostname())
	known := ip != nil && slices.ContainsFunc(hosts, func(h string) bool { return ip.Equal(net.ParseIP(h)) })
	if u.Scheme != "https" && !loopback(u.Hostname()) && !known {
		return nil, fmt.Errorf("%s is %s: it must be https, or on this machine", variable, u.Redacted())
	}
	return aws.NewCredentialsCache(endpointcreds.New(uri, func(o *endpointcreds.Options) {
		o.AuthorizationToken = os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				token, err := os.ReadFile(file) //nolint:gosec // the environment names the file
				return strings.TrimSpace(string(token)), err
			})
		}
	})), nil
}
