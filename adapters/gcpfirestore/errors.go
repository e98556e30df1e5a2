package gcpfirestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// maxFailures is how many requests of a call may fail before the store gives up: with the pauses between them a few
// seconds, in which a lost connection is made anew. Losing to other writers is not a failure; that continues until the
// call's time is up.
const maxFailures = 10

// pauses are drawn at random, so that callers that collided once do not collide again.
var pauses = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second}

// retry repeats do, which only reads, while it fails in a way that may pass.
func (s *Store) retry(ctx, bounded context.Context, doing string, do func() error) error {
	var last error
	for failures := 0; ; failures++ {
		err := s.count(do(), failures > 0)
		if err == nil {
			return nil
		}
		last = telling(last, err)
		if !transient(err) || failures == maxFailures-1 || pauses.Sleep(bounded, failures) != nil {
			return s.explain(ctx, doing, last)
		}
	}
}

// count counts a request that ended with an error or none.
func (s *Store) count(err error, again bool) error {
	s.sent.Requests.Add(1)
	if again {
		s.sent.Retries.Add(1)
	}
	if err != nil && status.Code(err) == codes.ResourceExhausted {
		s.sent.Throttled.Add(1)
	}
	return err
}

// Usage implements [docstore.Meter].
func (s *Store) Usage() docstore.Usage {
	u := s.sent.Usage()
	u.Billed = s.billed.Sum()
	return u
}

// telling returns which of two failures in a row says more: a request that was cut off at the end of the call's time
// does not say why the time was used up.
func telling(before, err error) error {
	if before != nil && status.Code(err) == codes.DeadlineExceeded {
		return before
	}
	return err
}

// transient reports whether a request that failed may succeed if it is repeated. As to whether it was executed, it says
// nothing.
func transient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded, codes.Unknown:
		return true
	default:
		return false
	}
}

// explain turns an error of the service into one that says what to do. ctx is the caller's: when it has ended, that is
// the reason.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	where := strings.TrimPrefix(s.layout.database, "projects/")
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("firestore: %s %s: %w: the last response was: %w", doing, where, ended, err)
	}
	var reason string
	switch status.Code(err) {
	case codes.NotFound:
		reason =
			"there is no such database: name another project or database (Options.Project, Options.Database), or create it " +
				"with `gcloud firestore databases create`"
	case codes.PermissionDenied:
		reason =
			"grant roles/datastore.user on the project to the account that this runs as, and check that the project is the " +
				"right one and has the Firestore API enabled"
	case codes.Unauthenticated:
		reason = "the credentials are not valid: " + credentialsHelp
	case codes.FailedPrecondition:
		reason = "the database does not allow it: it must be one in Native mode"
	case codes.InvalidArgument:
		if m := status.Convert(err).Message(); strings.Contains(m, "exceeds the maximum allowed size") ||
			strings.Contains(m, "payload size exceeds") {
			return fmt.Errorf(
				"%w: firestore: %s %s: too large: a document takes 1 MiB at most, names and values together, and one step 10 MiB: %w",
				docstore.ErrInvalid, doing, where, err)
		}
		return fmt.Errorf("firestore: %s %s: %w", doing, where, err)
	default:
		if transient(err) {
			return fmt.Errorf("%w: firestore: %s %s: retried until it seemed pointless, for %v at most: %w",
				docstore.ErrUnavailable, doing, where, s.timeout, err)
		}
		return fmt.Errorf("firestore: %s %s: %w", doing, where, err)
	}
	return fmt.Errorf("firestore: %s %s: %s: %w", doing, where, reason, err)
}

// contended says that a write lost to other writers until its time was up.
func (s *Store) contended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return s.explain(ctx, "write", err)
	}
	return fmt.Errorf("%w: firestore: write: others write the same documents too often: let fewer callers share them, "+
		"or allow more than %v: %w", docstore.ErrUnavailable, s.timeout, err)
}
