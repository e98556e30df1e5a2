package docstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// marked is damage by its own word, whatever it wraps.
type marked struct{ error }

func (m marked) Unwrap() error      { return m.error }
func (marked) Is(target error) bool { return target == docstore.ErrDamaged }

// TestFailure: what a pass went past is told from what failed, however the errors were joined; an error that is both is
// a failure.
func TestFailure(t *testing.T) {
	damage := func(n int) error { return fmt.Errorf("%w: document %d", docstore.ErrDamaged, n) }
	unavailable := fmt.Errorf("%w: no route", docstore.ErrUnavailable)
	for _, err := range []error{
		nil, unavailable, errors.Join(damage(1), unavailable),
		fmt.Errorf("queue it again: %w", errors.Join(unavailable, damage(1))),
		fmt.Errorf("one: %w; two: %w", damage(1), unavailable),
	} {
		var u docstore.Unreadable
		if u.Take(err) || u.Count != 0 || u.Err() != nil {
			t.Errorf("%v was taken", err)
		}
		if passed, failed := docstore.Failure(err); fmt.Sprint(failed) != fmt.Sprint(err) || passed.Count != 0 {
			t.Errorf("%v: failed %v, passed %+v", err, failed, passed)
		}
	}
	for _, err := range []error{
		docstore.ErrDamaged, damage(1), fmt.Errorf("lock: %w", damage(1)), errors.Join(damage(1), damage(2)),
		marked{unavailable}, marked{damage(1)},
		fmt.Errorf("%w: %w", docstore.ErrDamaged, unavailable),
		fmt.Errorf("a key: %w", fmt.Errorf("%w: %w", docstore.ErrDamaged, errors.New("WRONGTYPE"))),
	} {
		var u docstore.Unreadable
		if !u.Take(err) || u.Count != 1 || !errors.Is(u.Err(), docstore.ErrDamaged) {
			t.Errorf("%v was not taken: %+v", err, u)
		}
	}
	// Damage that is the whole of a pass is a failure: nothing was passed by.
	if passed, failed := docstore.Failure(damage(1)); failed == nil || passed.Count != 0 {
		t.Errorf("failed %v, passed %+v", failed, passed)
	}
	var a, b docstore.Unreadable
	for i := range 15 {
		a.Take(damage(i))
		b.Take(damage(100 + i))
	}
	passed, failed := docstore.Failure(errors.Join(errors.Join(unavailable, a.Err()), nil, b.Err()))
	if !errors.Is(failed, docstore.ErrUnavailable) || errors.Is(failed, docstore.ErrDamaged) || passed.Count != 30 ||
		len(passed.Named) != docstore.MostNamed {
		t.Errorf("failed %v, passed %+v", failed, passed)
	}
	if text := passed.Error(); !strings.Contains(text, "document 104\nand 10 more") ||
		strings.Contains(text, "document 105") || len(passed.Texts()) != 20 {
		t.Error(text)
	}
	if passed, failed = docstore.Failure(errors.Join(a.Err(), b.Err())); failed != nil || passed.Count != 30 ||
		a.Count != 15 {
		t.Errorf("failed %v, passed %+v", failed, passed)
	}
}
