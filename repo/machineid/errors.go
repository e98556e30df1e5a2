package machineid

import (
	"errors"
	"strconv"
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
