package kazahana

import (
	"errors"
	"fmt"
)

// ErrClosed is the error of a [Generator] after [Generator.Close].
var ErrClosed = errors.New("the generator is closed")

// ErrTimeRange marks a clock that shows a time which does not fit into an ID: before the epoch, or from [Layout.End]
// on.
var ErrTimeRange = errors.New("the time does not fit into an ID")

// ErrEpochMismatch marks a lease whose customEpoch is not that of the IDs made before. Its IDs would have shifted
// timestamps and could equal older ones, so it is rejected. Either the server's setting was changed, or IDs were made
// before the first lease with an [Options.DefaultEpoch] that is not the server's.
var ErrEpochMismatch = errors.New("the lease has another epoch")

// ClockBackwardError says that the clock is further behind the last ID than [Options.MaxBackwardMs] allows. Nothing
// was issued; the error stays until the clock has caught up to within the limit.
type ClockBackwardError struct {
	BackwardMs int64 // how far the clock is behind
	LimitMs    int64
}

// Error says what to look at.
func (e *ClockBackwardError) Error() string {
	return fmt.Sprintf("the clock moved backward by %d ms (limit: %d ms): check NTP and the system's time settings", e.BackwardMs, e.LimitMs)
}

// LeaseAcquisitionError says that there is no lease, that the last attempt to get one failed, and that
// [Options.DisableFallback] is set. It unwraps to the failure.
type LeaseAcquisitionError struct {
	Cause error
}

// Error is the situation and its cause.
func (e *LeaseAcquisitionError) Error() string {
	return "no lease could be acquired and fallback is disabled: " + e.Cause.Error()
}

// Unwrap is the failure of the last attempt.
func (e *LeaseAcquisitionError) Unwrap() error { return e.Cause }

// NoProviderError says that [New] was given neither a provider nor fallback: no ID could ever be made.
type NoProviderError struct{}

// Error says what is missing.
func (*NoProviderError) Error() string {
	return "no lease provider is configured and fallback is disabled"
}
