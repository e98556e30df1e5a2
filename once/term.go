package once

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// expiredError is the loss of a lock that has expired by the clocks of this process, which may be early.
type expiredError struct{}

func (expiredError) Error() string { return ErrLost.Error() + ": it expired" }

func (expiredError) Unwrap() error { return ErrLost }

// expired is the loss of a lock that expired. trouble is why the latest refresh did not succeed.
func expired(trouble error) error {
	if trouble != nil {
		return fmt.Errorf("%w, after refreshes that failed: %w", expiredError{}, trouble)
	}
	return expiredError{}
}

// Check reports whether a run may take its next step: nil while its context lives and its lock lasts. Otherwise the
// error is the cause with which the context was, or is to be, cancelled; [ErrLost] if the lock is lost. ctx is the
// context of the work or one that was made of it. It consults the clocks at the time of the call and costs no request.
func Check(ctx context.Context) error { return term.Check(ctx) }
