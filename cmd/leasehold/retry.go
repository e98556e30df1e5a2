package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/contracts"
)

// retryMany are the flags that retry all that is FAILED, instead of one that is named.
type retryMany struct {
	All    bool     `help:"Everything that is FAILED, instead of one: in the order of the names, and as --prefix and --since say."`
	Prefix string   `help:"With --all: only those whose name begins with this."`
	Since  pastTime `placeholder:"TIME" help:"With --all: only those that ended at this time or later: such as 24h (ago) or 2026-11-22T14:00Z."`
}

// check checks the flags against the name of one.
func (m retryMany) check(what, name, request string) error {
	switch {
	case m.All && name != "":
		return usage("%s %s and --all cannot both be given", what, name)
	case m.All && request != "":
		return usage("--request-id is for one: with --all, each retry has a name of its own")
	case !m.All && name == "":
		return usage("missing: the name of one %s, or --all", what)
	case !m.All && (m.Prefix != "" || !m.Since.IsZero()):
		return usage("--prefix and --since are for --all")
	default:
		return nil
	}
}

// each retries what is named, one after the other, and goes on after one that cannot be retried. What is no longer
// FAILED, or has failed again, was retried by someone else meanwhile.
func (m retryMany) each(ctx context.Context, s *streams, what string, names []string, quiet bool,
	retry func(name string) error) error {
	var done, others int
	var wrong []error
	for _, name := range names {
		err := retry(name)
		switch {
		case err == nil:
			done++
		case ctx.Err() != nil:
			return err
		case errors.Is(err, contracts.CodeNotFailed), errors.Is(err, contracts.CodeEndChanged),
			errors.Is(err, contracts.CodeNotFound):
			others++
		case errors.Is(err, contracts.CodePermissionDenied), errors.Is(err, contracts.CodeUnauthenticated):
			return err // the next one has the same end
		default:
			wrong = append(wrong, fmt.Errorf("%s: %w", printable(name), err))
		}
	}
	if !quiet {
		fmt.Fprintf(s.err, "%d %s retried; %d had been retried or removed meanwhile; %d could not be retried\n", done, what,
			others, len(wrong))
	}
	return errors.Join(wrong...)
}
