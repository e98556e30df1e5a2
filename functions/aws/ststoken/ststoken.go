// Package ststoken gets ID tokens of an AWS role from AWS STS, for work behind a URL that verifies OpenID Connect
// tokens.
package ststoken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/internal/awsconfig"
	"github.com/leasehold-dev/leasehold/internal/bearer"
)

const (
	lifetime = 15 * time.Minute // of a token
	early    = 5 * time.Minute  // before its expiry a token is replaced
	timeout  = 15 * time.Second // of one request to STS
)

// New returns the source of ID tokens of the role that this process runs as, for one audience. A token is used until
// five minutes before its expiry, unless the target rejects it. The account must have outbound identity federation
// enabled, and the role needs the permission sts:GetWebIdentityToken
// (https://docs.aws.amazon.com/STS/latest/APIReference/API_GetWebIdentityToken.html).
func New(audience string) tasks.Token {
	s := &source{audience: audience}
	return s.token
}

type source struct {
	audience string

	mu      sync.Mutex
	client  *sts.Client // nil before the first token
	current string
	expires time.Time
}

func (s *source) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expires) > early && !bearer.Rejected(ctx) {
		return s.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if s.client == nil {
		c, err := awsconfig.Load(ctx, awsconfig.Options{Service: "sts"})
		if err != nil {
			return "", err
		}
		s.client = sts.NewFromConfig(c)
	}
	out, err := s.client.GetWebIdentityToken(ctx, &sts.GetWebIdentityTokenInput{
		Audience: []string{s.audience}, SigningAlgorithm: aws.String("ES384"),
		DurationSeconds: aws.Int32(int32(lifetime / time.Second)),
	})
	if err != nil {
		return "", fmt.Errorf("an ID token of the AWS role for the audience %q: %w", s.audience, err)
	}
	s.current, s.expires = aws.ToString(out.WebIdentityToken), aws.ToTime(out.Expiration)
	return s.current, nil
}
