package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

// google is the issuer of Google's own ID tokens.
const google = "https://accounts.google.com"

// settings are what the environment says, as the package comment lists it.
type settings struct {
	project, database, root string
	oidc                    oidc.Config // of the issuer, if there is one
	tenant                  string
	subjects                []string
	development             bool
}

func settingsFrom(getenv func(string) string) (settings, error) {
	s := settings{
		project:  getenv("GOOGLE_CLOUD_PROJECT"),
		database: getenv("LEASEHOLD_DATABASE"),
		root:     getenv("LEASEHOLD_ROOT"),
		oidc: oidc.Config{
			Issuer:      getenv("LEASEHOLD_AUTH_ISSUER"),
			Audience:    getenv("LEASEHOLD_AUTH_AUDIENCE"),
			JWKSURL:     getenv("LEASEHOLD_AUTH_JWKS_URL"),
			TenantClaim: getenv("LEASEHOLD_AUTH_TENANT_CLAIM"),
			AdminScope:  getenv("LEASEHOLD_AUTH_ADMIN_SCOPE"),
		},
		tenant:      getenv("LEASEHOLD_TENANT"),
		development: getenv("LEASEHOLD_DEVELOPMENT") == "1",
	}
	if subjects := getenv("LEASEHOLD_SUBJECTS"); subjects != "" {
		for subject := range strings.SplitSeq(subjects, ",") {
			s.subjects = append(s.subjects, strings.TrimSpace(subject))
		}
	}
	if leeway := getenv("LEASEHOLD_AUTH_LEEWAY"); leeway != "" {
		d, err := time.ParseDuration(leeway)
		if err != nil || d <= 0 {
			return settings{}, fmt.Errorf("LEASEHOLD_AUTH_LEEWAY is %q: it must be a duration such as 30s", leeway)
		}
		s.oidc.Leeway = d
	}
	if err := s.check(getenv); err != nil {
		return settings{}, err
	}
	return s, nil
}

// check refuses settings that cannot work, or would let in whom nobody meant.
func (s settings) check(getenv func(string) string) error {
	if s.development {
		switch {
		case getenv("K_SERVICE") != "":
			return errors.New("LEASEHOLD_DEVELOPMENT believes every caller: it is refused on Cloud Run")
		case getenv("FIRESTORE_EMULATOR_HOST") == "":
			return errors.New("LEASEHOLD_DEVELOPMENT believes every caller: it needs FIRESTORE_EMULATOR_HOST")
		case s.oidc.Issuer != "":
			return errors.New("LEASEHOLD_DEVELOPMENT believes every caller, LEASEHOLD_AUTH_ISSUER only its tokens: set one of them")
		}
	}
	o := s.oidc
	switch {
	case o.Issuer == "" && (cmp.Or(o.Audience, o.JWKSURL, o.TenantClaim, o.AdminScope, s.tenant) != "" || o.Leeway != 0):
		return errors.New("LEASEHOLD_AUTH_… and LEASEHOLD_TENANT need LEASEHOLD_AUTH_ISSUER: without an issuer nobody is authenticated")
	case s.tenant == "" && s.subjects != nil:
		return errors.New("LEASEHOLD_SUBJECTS needs LEASEHOLD_TENANT: it says who belongs to that tenant")
	case s.tenant != "" && o.TenantClaim != "":
		return errors.New("LEASEHOLD_TENANT is every caller's tenant, LEASEHOLD_AUTH_TENANT_CLAIM names each one's: set one of them")
	case s.tenant != "" && s.subjects == nil && o.Issuer == google:
		return errors.New("LEASEHOLD_TENANT needs LEASEHOLD_SUBJECTS with the issuer " + google +
			": everybody with a Google account can get a token for any audience")
	}
	return nil
}

// identity says who callers are. ctx is the lifetime of the instance.
func (s settings) identity(ctx context.Context) (httpapi.Identity, error) {
	switch {
	case s.development:
		return httpapi.Development{}, nil
	case s.oidc.Issuer == "":
		return nobody{}, nil
	}
	config := s.oidc
	if s.tenant != "" {
		config.TenantClaim = "sub" // there in every token; fixedTenant puts the tenant in its place
	}
	tokens, err := oidc.New(ctx, config)
	if err != nil {
		return nil, err
	}
	if s.tenant == "" {
		return signed{tokens}, nil
	}
	return signed{fixedTenant{tokens, s.tenant, s.subjects}}, nil
}
