package once_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// creator is a gate whose analyses have to be made.
type creator struct {
	*fake

	made  bool
	fails error // of Create
}

// Create implements [once.Creator].
func (c *creator) Create(context.Context, string) (bool, error) {
	c.calls = append(c.calls, call{name: "create"})
	c.made = c.made || c.fails == nil
	return true, c.fails
}

// Acquire implements [once.Gate].
func (c *creator) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	if !c.made {
		c.calls = append(c.calls, call{name: "acquire"})
		return once.Grant{}, &contracts.Error{Code: contracts.CodeNotFound, Field: "analysis_id"}
	}
	return c.fake.Acquire(ctx, r)
}

// TestCreating: an analysis that is not there is made when it is asked for, one that is there is not asked for twice,
// and nothing is made to give a request up.
func TestCreating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(context.Context, once.Lock) (string, error) { return "done", nil }
		names := func(f *creator) (names []string) {
			for _, c := range f.calls {
				names = append(names, c.name)
			}
			return names
		}
		for _, c := range []struct {
			name  string
			gate  *creator
			want  once.Status
			calls []string
		}{
			{"missing", &creator{fake: &fake{}}, once.Ready, []string{"acquire", "create", "acquire", "finish"}},
			{"there", &creator{fake: &fake{}, made: true}, once.Ready, []string{"acquire", "finish"}},
		} {
			out, err := once.Run(t.Context(), once.Creating(c.gate), "a1", work, nil)
			if got := names(c.gate); err != nil || out.Status != c.want || !slices.Equal(got, c.calls) {
				t.Errorf("%s: %v, %v, after %v; want %v after %v", c.name, out.Status, err, got, c.want, c.calls)
			}
		}
		refused := &creator{fake: &fake{}, fails: contracts.Errorf(contracts.CodePermissionDenied, "no")}
		if _, err := once.Creating(refused).Acquire(t.Context(), once.Acquire{RunID: "a1"}); !errors.Is(err,
			contracts.CodePermissionDenied) {
			t.Errorf("refused: %v", err)
		}
		given := &creator{fake: &fake{}}
		if _, err := once.Creating(given).Acquire(t.Context(), once.Acquire{RunID: "a1", GiveUp: true}); !errors.Is(err,
			contracts.CodeNotFound) || given.made {
			t.Errorf("given up: %v, made: %t", err, given.made)
		}
	})
}
