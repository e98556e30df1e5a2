package kazahana

import (
	"errors"
	"fmt"
)

// ErrClosed is the answer of a [Generator] after [Generator.Close].
var ErrClosed = errors.New("the generator is closed")

// ErrTimeRange marks a clock that shows a time which no ID can bear: before the epoch, or from [Layout.End] on.
var ErrTimeRange = errors.New("the time does not fit into an ID")

// ErrEpochMismatch marks a lease whose customEpoch is not that of the IDs made before. Its IDs would be stamped with
// shifted times and could equal older ones, so it is refused. Either the server's setting was changed, or IDs were made
// before the first lease with an [Options.DefaultEpoch] that is not the server's.
var ErrEpochMismatch = errors.New("the lease has another epoch")

// ClockBackwardError says that the clock stands further behind the last ID than [Options.MaxBackwardMs] allows. Nothing
// was issued; the error stays until the clock has caught up to within the limit.
type ClockBackwardError struct {
	BackwardMs int64 // how far the clock is behind
	LimitMs    int64
}

// Error says what to look at.
func (e *ClockBackwardError) Error() string {
	return fmt.Sprintf("the clock moved backward by %d ms (limit: %d ms): check NTP and the system's time settings", e.BackwardMs, e.LimitMs)
}

// LeaseAcquisitionError says that there is no lease, that the last try to get one failed, and that
// [Options.DisableFallback] is set. It unwraps to the failure.
type LeaseAcquisitionError struct {
	Cause error
}

// Error is the situation and its cause.
func (e *LeaseAcquisitionError) Error() string {
	return "no lease could be acquired and fallback is disabled: " + e.Cause.Error()
}

// Unwrap is the failure of the last try.
func (e *LeaseAcquisitionError) Unwrap() error { return e.Cause }

// NoProviderError says that [New] was given neither a provider nor the right to fall back: no ID could ever be made.
type NoProviderError struct{}

// Error says what is missing.
func (*NoProviderError) Error() string {
	return "no lease provider is configured and fallback is disabled"
}
