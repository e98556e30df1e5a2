package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

// settings are what the environment says, as the package comment lists it.
type settings struct {
	table, endpoint string
	maxSkew         time.Duration
	oidc            oidc.Config // of the issuer, if there is one
	authorizer      aws.Authorizer
}

func settingsFrom(getenv func(string) string) (settings, error) {
	s := settings{
		table:    getenv("LEASEHOLD_TABLE"),
		endpoint: getenv("LEASEHOLD_ENDPOINT"),
		oidc: oidc.Config{
			Issuer:      getenv("LEASEHOLD_AUTH_ISSUER"),
			Audience:    getenv("LEASEHOLD_AUTH_AUDIENCE"),
			JWKSURL:     getenv("LEASEHOLD_AUTH_JWKS_URL"),
			TenantClaim: getenv("LEASEHOLD_AUTH_TENANT_CLAIM"),
			AdminScope:  getenv("LEASEHOLD_AUTH_ADMIN_SCOPE"),
		},
		authorizer: aws.Authorizer{
			TenantClaim: getenv("LEASEHOLD_AUTH_TENANT_CLAIM"),
			AdminScope:  getenv("LEASEHOLD_AUTH_ADMIN_SCOPE"),
			IAMTenant:   getenv("LEASEHOLD_TENANT"),
		},
	}
	if admins := getenv("LEASEHOLD_IAM_ADMINS"); admins != "" {
		for arn := range strings.SplitSeq(admins, ",") {
			s.authorizer.IAMAdmins = append(s.authorizer.IAMAdmins, strings.TrimSpace(arn))
		}
	}
	var err error
	if s.maxSkew, err = duration(getenv, "LEASEHOLD_MAX_SKEW"); err != nil {
		return settings{}, err
	}
	if s.oidc.Leeway, err = duration(getenv, "LEASEHOLD_AUTH_LEEWAY"); err != nil {
		return settings{}, err
	}
	switch {
	case s.table == "":
		return settings{}, errors.New("LEASEHOLD_TABLE is required: the name of the DynamoDB table")
	case s.oidc.Issuer == "" && (s.oidc.Audience != "" || s.oidc.JWKSURL != "" || s.oidc.Leeway != 0):
		return settings{}, errors.New("LEASEHOLD_AUTH_AUDIENCE, _JWKS_URL and _LEEWAY need LEASEHOLD_AUTH_ISSUER: " +
			"without an issuer an authorizer before the function says who callers are")
	case s.oidc.Issuer != "" && (s.authorizer.IAMTenant != "" || s.authorizer.IAMAdmins != nil):
		return settings{}, errors.New("LEASEHOLD_TENANT and LEASEHOLD_IAM_ADMINS are about IAM callers, whom nobody looks at " +
			"with LEASEHOLD_AUTH_ISSUER: set either")
	}
	return s, nil
}

// duration is a setting like "500ms"; 0 if it is not set.
func duration(getenv func(string) string, name string) (time.Duration, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q: it must be a duration such as 500ms or 30s", name, text)
	}
	return d, nil
}

func (s settings) identity(ctx context.Context) (httpapi.Identity, error) {
	if s.oidc.Issuer == "" {
		return s.authorizer, nil
	}
	return oidc.New(ctx, s.oidc)
}
