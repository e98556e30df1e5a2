package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/internal/settings"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// settings are what the environment says, as the package comment lists it.
type apiSettings struct {
	store      settings.Store
	oidc       oidc.Config // of the issuer, if there is one
	authorizer aws.Authorizer
	idServices []machineid.ServiceConfig // nil: the default one
}

func settingsFrom(getenv settings.Getenv) (apiSettings, error) {
	s := apiSettings{
		oidc: oidc.Config{
			Issuer:      getenv("LEASEHOLD_AUTH_ISSUER"),
			Audience:    getenv("LEASEHOLD_AUTH_AUDIENCE"),
			JWKSURL:     getenv("LEASEHOLD_AUTH_JWKS_URL"),
			TenantClaim: getenv("LEASEHOLD_AUTH_TENANT_CLAIM"),
			AdminScope:  getenv("LEASEHOLD_AUTH_ADMIN_SCOPE"),
			WorkerScope: getenv("LEASEHOLD_AUTH_WORKER_SCOPE"),
		},
		authorizer: aws.Authorizer{
			TenantClaim: getenv("LEASEHOLD_AUTH_TENANT_CLAIM"),
			AdminScope:  getenv("LEASEHOLD_AUTH_ADMIN_SCOPE"),
			WorkerScope: getenv("LEASEHOLD_AUTH_WORKER_SCOPE"),
			IAMTenant:   getenv("LEASEHOLD_TENANT"),
			IAMAdmins:   list(getenv("LEASEHOLD_IAM_ADMINS")),
			IAMWorkers:  list(getenv("LEASEHOLD_IAM_WORKERS")),
		},
	}
	var err error
	if text := getenv("LEASEHOLD_ID_SERVICES"); text != "" {
		if s.idServices, err = machineid.ParseServices([]byte(text)); err != nil {
			return apiSettings{}, fmt.Errorf("LEASEHOLD_ID_SERVICES: %w", err)
		}
	}
	if s.store, err = getenv.Store(); err != nil {
		return apiSettings{}, err
	}
	if s.oidc.Leeway, err = getenv.Duration("LEASEHOLD_AUTH_LEEWAY"); err != nil {
		return apiSettings{}, err
	}
	switch {
	case s.oidc.Issuer == "" && (s.oidc.Audience != "" || s.oidc.JWKSURL != "" || s.oidc.Leeway != 0):
		return apiSettings{}, errors.New("LEASEHOLD_AUTH_AUDIENCE, _JWKS_URL and _LEEWAY need LEASEHOLD_AUTH_ISSUER: " +
			"without an issuer an authorizer before the function says who callers are")
	case s.oidc.Issuer != "" && (s.authorizer.IAMTenant != "" || s.authorizer.IAMAdmins != nil || s.authorizer.IAMWorkers != nil):
		return apiSettings{}, errors.New("LEASEHOLD_TENANT, LEASEHOLD_IAM_ADMINS and _WORKERS are about IAM callers, whom nobody looks at " +
			"with LEASEHOLD_AUTH_ISSUER: set either")
	}
	return s, nil
}

// list is a setting with commas; nil if it is not set.
func list(text string) (parts []string) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

func (s apiSettings) identity(ctx context.Context) (httpapi.Identity, error) {
	if s.oidc.Issuer == "" {
		return s.authorizer, nil
	}
	return oidc.New(ctx, s.oidc)
}
