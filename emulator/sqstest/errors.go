package sqstest

import (
	"fmt"
	"net/http"
)

// apiError is a response that is not a success. It is no Go error on purpose: a nil of it must not turn into one.
type apiError struct {
	status int
	code   string // as the SDKs know it
	query  string // as clients of the older protocol know it; empty: the same
	msg    string
}

// prefix is where the types of errors come from.
const prefix = "com.amazonaws.sqs#"

// body is the JSON of the error.
func (e *apiError) body() map[string]string {
	return map[string]string{"__type": prefix + e.code, "message": e.msg}
}

// header is the error as the older protocol has it, which the SDKs prefer to the body's type.
func (e *apiError) header() string {
	code, fault := e.query, "Sender"
	if code == "" {
		code = e.code
	}
	if e.status >= http.StatusInternalServerError {
		fault = "Receiver"
	}
	return code + ";" + fault
}

func newError(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, msg: fmt.Sprintf(format, args...)}
}

// unsupported says loudly that this server lacks what the service may have.
func unsupported(format string, args ...any) *apiError {
	return newError("UnsupportedOperation", "emulator/sqstest does not support "+format, args...)
}

func missing(parameter string) *apiError {
	return newError("MissingParameter", "The request must contain the parameter %s.", parameter)
}

// badValue is the service's response to a value that is out of range.
func badValue(value any, parameter, reason string) *apiError {
	return newError("InvalidParameterValue", "Value %v for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

func noQueue() *apiError {
	e := newError("QueueDoesNotExist", "The specified queue does not exist.")
	e.query = "AWS.SimpleQueueService.NonExistentQueue"
	return e
}

func badReceipt(format string, args ...any) *apiError {
	return newError("ReceiptHandleIsInvalid", format, args...)
}

func internalError() *apiError {
	return &apiError{http.StatusInternalServerError, "InternalFailure", "",
		"We encountered an internal error. Please try again."}
}
