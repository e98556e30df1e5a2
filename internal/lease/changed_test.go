package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// TestChanged: a lease that expires later than it must is renewed from elsewhere, unless a renewal had no response.
func TestChanged(t *testing.T) {
	known := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		code      contracts.Code
		at        time.Time
		unsure    bool
		expires   time.Time
		elsewhere bool
	}{
		{contracts.CodeLeaseChanged, known.Add(time.Millisecond), false, known.Add(time.Millisecond), true},
		{contracts.CodeLeaseChanged, known.Add(time.Millisecond), true, known.Add(time.Millisecond), false},
		{contracts.CodeLeaseChanged, known.Add(-time.Millisecond), false, known.Add(-time.Millisecond), false},
		{contracts.CodeLeaseChanged, time.Time{}, false, time.Time{}, false},
		{contracts.CodeLockHeld, known.Add(time.Hour), false, time.Time{}, false},
	} {
		e := contracts.Errorf(c.code, "")
		e.ExpiresAt = c.at.In(time.FixedZone("", 3600))
		at, err := lease.Changed(fmt.Errorf("renew: %w", e), known.Format(contracts.TimeFormat), c.unsure)
		want := ""
		if !c.expires.IsZero() {
			want = c.expires.Format(contracts.TimeFormat)
		}
		if at != want || errors.Is(err, lease.ErrElsewhere) != c.elsewhere || (err != nil) != c.elsewhere ||
			lease.Over(err) != c.elsewhere || c.elsewhere && !errors.Is(err, contracts.CodeLeaseChanged) {
			t.Errorf("%+v: %q, %v", c, at, err)
		}
	}
	if at, err := lease.Changed(contracts.CodeLeaseChanged, "", false); at != "" || err != nil {
		t.Errorf("without a time: %q, %v", at, err)
	}
	if !lease.Over(contracts.CodeLeaseLost) || lease.Over(contracts.CodeLockHeld) {
		t.Error("what is lost is over, and nothing else")
	}
}
