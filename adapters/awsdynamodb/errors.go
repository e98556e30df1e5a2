package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// actions are what the caller's IAM policy must allow on the table. ConditionCheckItem is for writes of several
// documents; CreateTable and UpdateTimeToLive are needed only to create it, Scan only for maintenance of all tenants.
const actions = "dynamodb:DescribeTable, GetItem, Query, UpdateItem, DeleteItem, ConditionCheckItem"

// explain turns an error of the SDK into one that names the table and says what to do.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	subject := fmt.Sprintf("dynamodb: %s table %s", doing, s.table)
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: ended by the caller, its outcome is unknown: %w", subject, cause)
	}
	if isBusy(err) {
		reason := "other transactions, or writes in another region, kept its documents"
		if throttled(err) {
			reason = "it is throttled: the table's capacity, or that of one partition, is used up"
		}
		return fmt.Errorf("%w: %s: %s for longer than %v (Options.RetryTimeout): %w", docstore.ErrUnavailable, subject,
			reason, s.retryTimeout, err)
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		// The network, or the provider of the credentials.
		return fmt.Errorf("%w: %s: no readable response: check the endpoint, the network and the credentials: %w",
			docstore.ErrUnavailable, subject, err)
	}
	if m, ok := invalid(err); ok {
		switch {
		case strings.Contains(m, "item size") || strings.Contains(m, "collection size of items"):
			return fmt.Errorf(
				"%w: %s: too large: a document takes 400 KB at most, names and values together, and one step 4 MB: %w",
				docstore.ErrInvalid, subject, err)
		case strings.Contains(m, "index key") || strings.Contains(m, "all range keys has exceeded"):
			return fmt.Errorf("%w: %s: a field that an index orders must be text of 1 to 1024 bytes: %w", docstore.ErrInvalid,
				subject, err)
		case strings.Contains(m, "does not match the schema"):
			return fmt.Errorf("%s: it cannot hold documents of Leasehold: its key must be %s: name another table: %w",
				subject, rightKeys, err)
		}
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("%s: there is no such table in this region and account: create it with Terraform "+
			"(hash_key %q, range_key %q), or for development with --create-table: %w", subject, attrPartition, attrSort, err)
	case "AccessDeniedException":
		return fmt.Errorf("%s: access is denied: the IAM policy must allow %s on it: %w", subject, actions, err)
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException",
		"MissingAuthenticationTokenException",
		"IncompleteSignatureException":
		return fmt.Errorf("%s: the credentials are not accepted: check AWS_ACCESS_KEY_ID, AWS_PROFILE or the role: %w",
			subject, err)
	}
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.HTTPStatusCode() >= http.StatusInternalServerError {
		return fmt.Errorf("%w: %s: the service failed: %w", docstore.ErrUnavailable, subject, err)
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// unsupported is the error of a step on several documents where there are no transactions.
func (s *Store) unsupported(doing string) error {
	return fmt.Errorf(
		"%w: dynamodb: %s table %s: it is a global table with multi-Region strong consistency, which has no transactions: "+
			"several documents cannot be read or changed in one step. Locks and analyses, one at a time, work; for the rest use a table of one region",
		docstore.ErrUnsupported, doing, s.table)
}

// lacksTransactions reports whether a transaction was rejected because the table has none. Opening a table finds that
// out before; a lazy store asks when a transaction was rejected as such.
func (s *Store) lacksTransactions(ctx context.Context, err error) bool {
	if _, canceled := errors.AsType[*types.TransactionCanceledException](err); canceled {
		return false
	}
	if _, rejected := invalid(err); !rejected {
		return false
	}
	_, err = s.describe(ctx)
	return err == nil && s.single.Load()
}

// invalid is what a request was rejected for as such, or one of the writes of a transaction, in lower case.
func invalid(err error) (message string, ok bool) {
	if canceled, is := errors.AsType[*types.TransactionCanceledException](err); is {
		for _, r := range canceled.CancellationReasons {
			if aws.ToString(r.Code) == "ValidationError" {
				return strings.ToLower(aws.ToString(r.Message)), true
			}
		}
		return "", false
	}
	api, is := errors.AsType[smithy.APIError](err)
	if !is || api.ErrorCode() != "ValidationException" {
		return "", false
	}
	return strings.ToLower(api.ErrorMessage()), true
}

// throttled reports whether an error that [isBusy] knows is about capacity.
func throttled(err error) bool {
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, r := range canceled.CancellationReasons {
			if aws.ToString(r.Code) == "TransactionConflict" {
				return false
			}
		}
		return true
	}
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && isThrottling(api.ErrorCode())
}
