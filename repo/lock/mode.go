package lock

import (
	"cmp"

	"github.com/leasehold-dev/leasehold/repo/field"
)

// Mode says how many may hold a lock at a time. A lock that is held or waited for keeps its mode, [Exclusive] and
// [Shared] being one, and its limit; one that is free takes those of the next acquire.
type Mode string

// The modes of a lock.
const (
	Exclusive Mode = ""        // one holder; the contract says "exclusive"
	Shared    Mode = "shared"  // up to MaxHolders holders, and none beside an exclusive one
	Permits   Mode = "permits" // Acquire.Limit holders at a time
	// Rate:
	// Acquire.Limit grants in any window of Acquire.WindowSeconds, which are not held, renewed or released
	Rate Mode = "rate"
)

// checkMode checks the mode with what belongs to it.
func (c Acquire) checkMode() error {
	switch c.Mode {
	case Exclusive, Shared:
		if c.Limit != 0 {
			return field.Errorf("limit", "belongs to the modes permits and rate: leave it out, or set mode")
		}
	case Permits:
		if err := field.Range("limit", c.Limit, 1, MaxPermits); err != nil {
			return err
		}
	case Rate:
		if err := first(field.Range("limit", c.Limit, 1, MaxRate), field.Range("window_seconds", c.WindowSeconds, 1,
			MaxWindowSeconds)); err != nil {
			return err
		}
		if c.TTLSeconds != 0 {
			return field.Errorf("ttl_seconds", "does not belong to the mode rate, whose grants are not held: leave it out")
		}
		if c.LockDelaySeconds != 0 {
			return field.Errorf("lock_delay_seconds",
				"does not belong to the mode rate, whose grants are not held: leave it out")
		}
	default:
		return field.Errorf("mode", "must be exclusive, shared, permits or rate")
	}
	if c.Mode != Rate {
		if c.WindowSeconds != 0 {
			return field.Errorf("window_seconds", "belongs to the mode rate: leave it out, or set mode")
		}
		if err := checkTTL(c.TTLSeconds); err != nil {
			return err
		}
	}
	switch {
	case c.Replace && c.Mode != Exclusive:
		return field.Errorf("replace", "belongs to the mode exclusive: a lock with several holders has none to replace")
	case c.MaxWaiting != 0 && !c.queues():
		return field.Errorf("max_waiting", "belongs to a lock with a line: set fair, or a mode that has one")
	}
	return first(field.Range("wait_seconds", c.WaitSeconds, 0, MaxWaitSeconds),
		field.Range("max_waiting", cmp.Or(c.MaxWaiting, 1), 1, MaxWaiting),
		field.Range("lock_delay_seconds", c.LockDelaySeconds, 0, MaxLockDelaySeconds))
}

// queues reports whether the request waits in line.
func (c Acquire) queues() bool {
	return c.Fair || c.Mode == Shared || c.Mode == Permits || c.Mode == Rate
}
