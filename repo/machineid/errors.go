package machineid

import (
	"errors"
	"strconv"
)

// ErrBadSignature is answered to a release that its lease's holder did not sign. Nothing was changed.
var ErrBadSignature = errors.New("the signature is not that of the machine ID's holder")

// UnknownServiceError is answered to a caller who names a service that is not configured.
type UnknownServiceError struct {
	ServiceID string
}

// Error names the service.
func (e *UnknownServiceError) Error() string {
	return "serviceId " + strconv.Quote(e.ServiceID) + " is not configured"
}
