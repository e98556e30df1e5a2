package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// settings are what the environment says, as the package comment lists it.
type settings struct {
	project, database, root string
	oidc                    oidc.Config // of the issuer, if there is one
	tenant                  string
	subjects, workers       []string
	development             bool
	tasks                   TaskSettings
	idServices              []machineid.ServiceConfig // nil: the default one
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
			WorkerScope: getenv("LEASEHOLD_AUTH_WORKER_SCOPE"),
		},
		tenant:      getenv("LEASEHOLD_TENANT"),
		development: getenv("LEASEHOLD_DEVELOPMENT") == "1",
	}
	s.subjects, s.workers = list(getenv("LEASEHOLD_SUBJECTS")), list(getenv("LEASEHOLD_WORKERS"))
	if text := getenv("LEASEHOLD_ID_SERVICES"); text != "" {
		services, err := machineid.ParseServices([]byte(text))
		if err != nil {
			return settings{}, fmt.Errorf("LEASEHOLD_ID_SERVICES: %w", err)
		}
		s.idServices = services
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
	var err error
	if s.tasks, err = taskSettingsFrom(getenv); err != nil {
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
	case o.Issuer == "" && (cmp.Or(o.Audience, o.JWKSURL, o.TenantClaim, o.AdminScope, o.WorkerScope, s.tenant) != "" || o.Leeway != 0 || s.workers != nil):
		return errors.New("LEASEHOLD_AUTH_…, LEASEHOLD_TENANT and LEASEHOLD_WORKERS need LEASEHOLD_AUTH_ISSUER: without an issuer nobody is authenticated")
	case s.tenant == "" && s.subjects != nil:
		return errors.New("LEASEHOLD_SUBJECTS needs LEASEHOLD_TENANT: it says who belongs to that tenant")
	case s.tenant != "" && o.TenantClaim != "":
		return errors.New("LEASEHOLD_TENANT is every caller's tenant, LEASEHOLD_AUTH_TENANT_CLAIM names each one's: set one of them")
	case s.tenant != "" && s.subjects == nil && o.Issuer == oidc.GoogleIssuer:
		return errors.New("LEASEHOLD_TENANT needs LEASEHOLD_SUBJECTS with the issuer " + oidc.GoogleIssuer +
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
	who := workers{tokens, s.workers}
	if s.tenant == "" {
		return signed{who}, nil
	}
	return signed{fixedTenant{who, s.tenant, s.subjects}}, nil
}

// list is what stands between commas; nil if nothing does.
func list(text string) (items []string) {
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	return items
}

// doors are the settings of the internal doors.
func (s settings) doors() TaskSettings {
	t := s.tasks
	t.Development = s.development
	return t
}

func taskSettingsFrom(getenv func(string) string) (TaskSettings, error) {
	s := TaskSettings{
		TargetURL:       getenv("LEASEHOLD_TARGET_URL"),
		TargetToken:     getenv("LEASEHOLD_TARGET_TOKEN"),
		TargetTokenFile: getenv("LEASEHOLD_TARGET_TOKEN_FILE"),
		TargetAudience:  getenv("LEASEHOLD_TARGET_AUDIENCE"),
		OnLocked:        getenv("LEASEHOLD_ON_LOCKED"),
		TaskAuth:        getenv("LEASEHOLD_TASK_AUTH"),
		TaskIssuer:      getenv("LEASEHOLD_TASK_ISSUER"),
		TaskAudience:    getenv("LEASEHOLD_TASK_AUDIENCE"),
		TaskAccount:     getenv("LEASEHOLD_TASK_ACCOUNT"),
		SweepAccount:    getenv("LEASEHOLD_SWEEP_ACCOUNT"),
		TaskQueue:       getenv("LEASEHOLD_TASK_QUEUE"),
		TaskURL:         getenv("LEASEHOLD_TASK_URL"),
	}
	for name, d := range map[string]*time.Duration{
		"LEASEHOLD_TTL": &s.TTL, "LEASEHOLD_HEARTBEAT": &s.Heartbeat, "LEASEHOLD_TASK_TIMEOUT": &s.TaskTimeout,
		"LEASEHOLD_REQUEUE_EVERY": &s.RequeueEvery, "LEASEHOLD_SWEEP_GRACE": &s.SweepGrace,
	} {
		text := getenv(name)
		if text == "" {
			continue
		}
		var err error
		if *d, err = time.ParseDuration(text); err != nil || *d <= 0 {
			return TaskSettings{}, fmt.Errorf("%s is %q: it must be a duration such as 30s or 5m", name, text)
		}
	}
	for name, n := range map[string]*int64{"LEASEHOLD_MAX_FAILURES": &s.MaxFailures, "LEASEHOLD_MAX_TAKEOVERS": &s.MaxTakeovers} {
		text := getenv(name)
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil || *n <= 0 {
			return TaskSettings{}, fmt.Errorf("%s is %q: it must be a whole number above 0", name, text)
		}
	}
	return s, nil
}
