package awsdynamodb

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// tries is how often a request is sent that fails for reasons other than throttling and conflicts.
const tries = 3

var pauses = backoff.Policy{First: 25 * time.Millisecond, Max: time.Second}

// attempts makes the SDK send a request that reads again by the store's rules instead of its own. What was throttled,
// or met other transactions, is sent again for as long as Options.RetryTimeout says; what else failed, a few times.
func (s *Store) attempts() func(*sdk.Options) { return s.attempt(s.retries()) }

// retries decides about the tries of one call.
func (s *Store) retries() *retryer {
	s.conns.Begin()
	return &retryer{retryTimeout: s.retryTimeout, begin: time.Now(), sent: &s.sent, conns: s.conns, reads: true}
}

// attempt makes the SDK ask a retryer.
func (s *Store) attempt(r *retryer) func(*sdk.Options) {
	return func(o *sdk.Options) {
		o.Retryer = r
		if o.EndpointResolverV2 != nil {
			o.EndpointResolverV2 = s.endpoint.through(o.EndpointResolverV2)
		}
	}
}

// writing decides about the tries of a write, which the store sends again itself: [Store.persist] says how. repeatable
// says that a request which may have been executed can be sent again all the same.
//
// The SDK by itself does so always. A write whose response was lost, or that was applied by a server which then said
// 500, thus arrives twice. Most writes of Leasehold are rejected the second time because of the first, and the rule
// recognises them by their request_id. A write that would be executed twice, such as an Add without a condition, is not
// sent again after such a failure: the caller gets [docstore.ErrUnavailable], which says that the outcome is unknown,
// and it alone knows what sending it again would mean. A transaction carries a token by which the service knows it
// again. What was certainly not executed (throttling, a conflict, a connection that could not be made, a rejection that
// could not be read) is sent again in any case.
func (s *Store) writing(repeatable func() bool) *retryer {
	r := s.retries()
	r.reads, r.repeatable = false, repeatable
	return r
}

// passing knows the errors that often pass by themselves: 500 and its kin, connections that broke, attempts that took
// too long. It also knows a signature that was rejected for its time; the SDK corrects that.
var passing = retry.IsErrorRetryables(retry.DefaultRetryables)

// retryer decides for one call. It is asked from one goroutine.
type retryer struct {
	reads        bool        // the SDK sends the request again, and not the store
	repeatable   func() bool // of a write, asked only after a failure that leaves its outcome unknown
	retryTimeout time.Duration
	begin        time.Time
	sent         *driver.Sent
	conns        *conns.Set
	sending      bool // the call's first attempt is under way, or over
	failed       int  // attempts that failed for other reasons than throttling and conflicts
	tried        int  // attempts after which another follows
}

var _ aws.RetryerV2 = (*retryer)(nil)

// IsErrorRetryable implements [aws.Retryer].
func (r *retryer) IsErrorRetryable(err error) bool { return r.reads && r.again(err) }

// again reports whether a request is sent again after it failed.
func (r *retryer) again(err error) bool {
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return false
	}
	if isBusy(err) {
		if throttled(err) {
			r.sent.Throttled.Add(1)
		}
		return time.Since(r.begin) < r.retryTimeout
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		r.conns.Leave()
	}
	r.failed++
	if r.failed >= tries {
		return false
	}
	return changedNothing(err) || passing.IsErrorRetryable(err) == aws.TrueTernary && (r.reads || r.repeatable())
}

// pause waits before the next attempt. The error is the context's.
func (r *retryer) pause(ctx context.Context) error {
	r.tried++
	return pauses.Sleep(ctx, r.tried)
}

// MaxAttempts implements [aws.Retryer]: IsErrorRetryable says when it is enough.
func (*retryer) MaxAttempts() int { return 0 }

// RetryDelay implements [aws.Retryer].
func (*retryer) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return pauses.Delay(attempt), nil
}

// GetRetryToken implements [aws.Retryer]. The SDK's quota, which is shared among all calls of a client, is not used: a
// call that waits for its turn under contention must not make another one fail.
func (*retryer) GetRetryToken(context.Context, error) (func(error) error, error) {
	return noToken, nil
}

// GetInitialToken implements [aws.Retryer].
func (*retryer) GetInitialToken() func(error) error { return noToken }

// GetAttemptToken implements [aws.RetryerV2].
func (r *retryer) GetAttemptToken(context.Context) (func(error) error, error) {
	r.sent.Requests.Add(1)
	if r.sending {
		r.sent.Retries.Add(1)
	}
	r.sending = true
	return noToken, nil
}

func noToken(error) error { return nil }

// isBusy reports whether the service rejected the request for now, without executing it.
func isBusy(err error) bool {
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		busy := false
		for _, r := range canceled.CancellationReasons {
			switch code := aws.ToString(r.Code); {
			case isThrottling(code), code == "TransactionConflict", code == "ThrottlingError",
				code == "ProvisionedThroughputExceeded":
				busy = true
			case code != "None":
				return false
			}
		}
		return busy
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	// An earlier attempt of this very transaction is still under way: its token keeps it from being done twice.
	code := api.ErrorCode()
	return isThrottling(code) || code == "TransactionConflictException" || code == "TransactionInProgressException" ||
		code == "ReplicatedWriteConflictException" // another region of a strongly consistent table is changing the item
}

func isThrottling(code string) bool {
	switch code {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded":
		return true
	default:
		return false
	}
}

// notExecuted reports whether a write that failed, and is sent again, surely changed nothing so far.
func notExecuted(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "TransactionInProgressException" {
		return false
	}
	return isBusy(err) || changedNothing(err)
}

// changedNothing reports whether an attempt that failed was surely not executed: no connection could be made, or the
// service rejected it (a status of 4xx) and only the reason could not be read.
func changedNothing(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	_, readable := errors.AsType[smithy.APIError](err)
	r, answered := errors.AsType[*smithyhttp.ResponseError](err)
	return answered && !readable && r.HTTPStatusCode()/100 == 4
}
