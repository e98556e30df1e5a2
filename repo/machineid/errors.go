package machineid

import (
	"errors"
	"strconv"
	"time"
)

// ErrBadSignature is the error of a release that the lease's holder did not sign. Nothing was changed.
var ErrBadSignature = errors.New("the signature is not that of the machine ID's holder")

// UnknownServiceError is the error of a request that names a service that is not configured.
type UnknownServiceError struct {
	ServiceID string
}

// Error names the service.
func (e *UnknownServiceError) Error() string {
	return "serviceId " + strconv.Quote(e.ServiceID) + " is not configured"
}

// EndError is the error of an acquire that came after its end, [kazahana.AcquireOptions].NotAfter, or whose end is
// further away than it may be. Nothing was leased.
type EndError struct {
	Code string    // rule.TooLate or rule.TooFar
	At   time.Time // the store's time, by which ends are judged
	said string
}

// Error says when the request ended, or how far away its end may be, and the store's time.
func (e *EndError) Error() string { return e.said }
