package lease

import (
	"fmt"

	"github.com/leasehold-dev/leasehold/contracts"
)

// kind is an error that is one of a kind as well, which its text need not say.
type kind struct {
	error

	of error
}

// Is reports whether the target is the kind.
func (k kind) Is(target error) bool { return target == k.of }

// Unwrap is the error without its kind.
func (k kind) Unwrap() error { return k.error }

// NoResponse makes an error one of [contracts.ErrNoResponse].
func NoResponse(err error) error { return kind{err, contracts.ErrNoResponse} }

// Invalid is the [contracts.ErrInvalidResponse] of who sent it, empty if that is not known.
func Invalid(from string, why error) error {
	if from != "" {
		from = " of " + from
	}
	return fmt.Errorf("%w%s: %w", contracts.ErrInvalidResponse, from, why)
}

// NotLeasehold makes an error one of [contracts.ErrInvalidResponse].
func NotLeasehold(err error) error { return kind{err, contracts.ErrInvalidResponse} }
