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
// timestamps and could equal older ones, so it is rejected. Either the server's setting was changed, or fallback IDs
// were made before the first lease with an [Options.DefaultEpoch] that is earlier than the server's: those of the lease
// would be smaller. An epoch before that of the fallback IDs is accepted, with an [EventEpochChanged].
var ErrEpochMismatch = errors.New("the lease has another epoch")

// ClockBackwardError says that the clock is further behind the last ID than [Options.MaxBackwardMs] allows. Nothing
// was issued; the error stays until the clock has caught up to within the limit.
type ClockBackwardError struct {
	BackwardMs int64 // how far the clock is behind
	LimitMs    int64
}

// Error says what to look at.
func (e *ClockBackwardError) Error() string {
	return fmt.Sprintf("the clock moved backward by %d ms (limit: %d ms): check NTP and the system's time settings",
		e.BackwardMs, e.LimitMs)
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

// ErrConfiguration marks an error of [LeaseProvider.Acquire] that no retry cures: the provider was reached, and what it
// sent is no lease. [Misconfigured] makes one.
var ErrConfiguration = errors.New("the lease provider is not configured correctly")

// Misconfigured marks an error as an [ErrConfiguration]. Its text stays.
func Misconfigured(err error) error { return misconfigured{err} }

type misconfigured struct{ error }

// Unwrap is the error itself, and the mark.
func (e misconfigured) Unwrap() []error { return []error{e.error, ErrConfiguration} }

// ConfigurationError says that there never was a lease and that the provider sent something else: its URL, the
// credentials or the service are wrong. It unwraps to the provider's error. IDs are made as soon as a later attempt
// brings a lease.
type ConfigurationError struct {
	Cause error
}

// Error is the situation and its cause.
func (e *ConfigurationError) Error() string {
	return "the lease provider granted no lease: " + e.Cause.Error()
}

// Unwrap is the provider's error, which is an [ErrConfiguration].
func (e *ConfigurationError) Unwrap() error { return e.Cause }

// NoProviderError says that [New] was given neither a provider nor fallback: no ID could ever be made.
type NoProviderError struct{}

// Error says what is missing.
func (*NoProviderError) Error() string {
	return "no lease provider is configured and fallback is disabled"
}
