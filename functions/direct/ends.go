package direct

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/internal/ends"
)

// ended sends a granting request to a store, with an end if its caller has named none: when ctx ends, because nothing
// else bounds it. The store's clock may be another than that of this process. So a refusal of the end corrects the
// clock, and the request is sent once more.
func ended[T any](ctx context.Context, clock *ends.Clock, end *string, send func() (T, error)) (T, error) {
	if *end != "" {
		return send()
	}
	begin := time.Now()
	*end = clock.End(ctx, 0)
	got, err := send()
	if clock.Refused(err, time.Since(begin)) {
		begin, *end = time.Now(), clock.End(ctx, 0)
		got, err = send()
		clock.Refused(err, time.Since(begin)) // for the next call
	}
	return got, err
}
