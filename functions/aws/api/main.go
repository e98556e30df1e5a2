// Command api is the Lambda function of the HTTP API: API Gateway or a function URL before it, a DynamoDB table behind it.
// It is built for the runtime provided.al2023, whose executable is called bootstrap:
//
//	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -tags lambda.norpc -ldflags "-s -w" -o bootstrap ./functions/aws/api
//
// Its settings are environment variables:
//
//	LEASEHOLD_TABLE               DynamoDB table; required
//	LEASEHOLD_ENDPOINT            where DynamoDB is, if not in AWS: an emulator
//	LEASEHOLD_MAX_SKEW            how far this machine's clock may be off, such as 500ms
//	LEASEHOLD_TENANT              tenant of callers whom IAM has verified; without it they are refused
//	LEASEHOLD_IAM_ADMINS          ARNs of IAM callers who may force-release, with commas between them
//	LEASEHOLD_IAM_WORKERS         ARNs of IAM callers who may run analyses, with commas between them
//	LEASEHOLD_AUTH_TENANT_CLAIM   claim that names the tenant; default tenant_id
//	LEASEHOLD_AUTH_ADMIN_SCOPE    scope that may force-release; default leasehold:admin
//	LEASEHOLD_AUTH_WORKER_SCOPE   scope that may run analyses; default leasehold:worker
//	LEASEHOLD_AUTH_ISSUER         verify bearer tokens of this OpenID Connect issuer here, whatever an authorizer says
//	LEASEHOLD_AUTH_AUDIENCE       audience of these tokens; required with an issuer
//	LEASEHOLD_AUTH_JWKS_URL       where the issuer's keys are, if not where its discovery document says
//	LEASEHOLD_AUTH_LEEWAY         how far the issuer's clock may be off; default 30s
//	LEASEHOLD_ID_SERVICES         services that machine IDs are leased to, as a JSON list; default: one service, default
//
// Without an issuer callers are those whom an authorizer before the function has verified, and nobody else: there is no
// development mode on Lambda. Region and credentials are AWS's own variables, which Lambda sets. The log is JSON on
// standard error.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/internal/settings"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log) // aws-lambda-go writes the errors of invocations to the standard log
	h, err := open(context.Background(), os.Getenv, log)
	if err != nil {
		log.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(h)
}

// open makes the handler that all invocations of this instance share.
func open(ctx context.Context, getenv func(string) string, log *slog.Logger) (*aws.Handler, error) {
	s, err := settingsFrom(getenv)
	if err != nil {
		return nil, err
	}
	identity, err := s.identity(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, settings.OpenTimeout)
	defer cancel()
	store, err := s.store.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	ids, err := machineid.New(store, s.idServices, &machineid.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return aws.New(httpapi.New(store, identity, &httpapi.Options{Log: log, MachineIDs: ids}), log), nil
}
