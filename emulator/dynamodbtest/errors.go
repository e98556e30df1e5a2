package dynamodbtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Where the types of errors come from, as their prefixes say.
const (
	prefixDynamo   = "com.amazonaws.dynamodb.v20120810#"
	prefixService  = "com.amazon.coral.service#"
	prefixValidate = "com.amazon.coral.validate#"
	prefixLimits   = "com.amazon.coral.availability#"
)

// apiError is a response that is not a success. It is no Go error on purpose: a nil of it must not turn into one.
type apiError struct {
	status int
	kind   string // with its prefix
	msg    string
	item   attr.Map // found by a failed condition, when the request asked for it
	causes []cause  // of a canceled transaction, one for each of its items
	broken []string // constraints of single members that the request does not satisfy
}

// cause is one entry of CancellationReasons.
type cause struct {
	Code    string
	Message string         `json:",omitempty"`
	Item    map[string]any `json:",omitempty"`
}

// body is the JSON of the error. The service spells the member "Message" in a few of them.
func (e *apiError) body() map[string]any {
	out := map[string]any{"__type": e.kind}
	switch {
	case e.causes != nil:
		out["Message"] = e.msg
		out["CancellationReasons"] = e.causes
	case e.kind == prefixService+"SerializationException":
		out["Message"] = e.msg
	default:
		out["message"] = e.msg
	}
	if e.item != nil {
		out["Item"] = attr.JSONMap(e.item)
	}
	return out
}

func newError(kind, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kind, msg: fmt.Sprintf(format, args...)}
}

// invalid is the service's response to a request that makes no sense.
func invalid(format string, args ...any) *apiError {
	return newError(prefixValidate+"ValidationException", format, args...)
}

// badValue is an invalid request with the service's most common opening.
func badValue(format string, args ...any) *apiError {
	return invalid("One or more parameter values were invalid: "+format, args...)
}

// unsupported says loudly that this server lacks what the service may have.
func unsupported(format string, args ...any) *apiError {
	return invalid("emulator/dynamodbtest does not support "+format, args...)
}

func badShape(format string, args ...any) *apiError {
	return newError(prefixService+"SerializationException", format, args...)
}

func noTable(name string) *apiError {
	return newError(prefixDynamo+"ResourceNotFoundException", "Requested resource not found: Table: %s not found", name)
}

func conditionFailed(found attr.Map) *apiError {
	e := newError(prefixDynamo+"ConditionalCheckFailedException", "The conditional request failed")
	e.item = found
	return e
}

func internalError() *apiError {
	e := newError(prefixDynamo+"InternalServerError", "Internal server error")
	e.status = http.StatusInternalServerError
	return e
}

// canceled is a transaction that was given up, for the reason of each of its items.
func canceled(causes []cause) *apiError {
	codes := make([]string, len(causes))
	for i, c := range causes {
		codes[i] = c.Code
	}
	e := newError(prefixDynamo+"TransactionCanceledException",
		"Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", strings.Join(codes, ", "))
	e.causes = causes
	return e
}

// valueError turns an error of decoding an attribute value into the response that the service gives.
func valueError(err error) *apiError {
	if _, ok := errors.AsType[*attr.ShapeError](err); ok {
		return badShape("%v", err)
	}
	return invalid("%v", err)
}
