package kazahana

import (
	"errors"
	"fmt"
	"time"
)

// Layout says where the parts of an ID are, from the highest bit to the lowest:
//
//	reserve (0) | milliseconds since the epoch | fallback (1 bit) | rest of the machine ID | sequence
//
// The fallback bit is the highest bit of the machine ID: 0 in IDs made under a lease, 1 in all others. The widths add
// up to 64. In the JSON of a lease the members stand beside the lease's own.
type Layout struct {
	CustomEpoch int64 `json:"customEpoch"` // Unix milliseconds of the timestamp 0
	BitReserve  int   `json:"bitReserve"`  // 1 or more zero bits, so that IDs are positive as signed numbers
	BitTs       int   `json:"bitTs"`       // of the timestamp; 41 last 69 years
	BitID       int   `json:"bitId"`       // of the machine ID with its fallback bit
	BitSeq      int   `json:"bitSeq"`      // of the sequence: a lease makes 1<<BitSeq IDs in a millisecond
}

// DefaultEpoch is the epoch of [DefaultLayout]: 2026-01-01T00:00:00Z in Unix milliseconds.
const DefaultEpoch int64 = 1_767_225_600_000

// DefaultLayout is 1 reserved bit, 41 bits of milliseconds since 2026, 14 bits of machine ID, 8 bits of sequence.
func DefaultLayout() Layout {
	return Layout{CustomEpoch: DefaultEpoch, BitReserve: 1, BitTs: 41, BitID: 14, BitSeq: 8}
}

// Validate reports whether the layout can carry IDs, and names the part at fault by its JSON name.
func (l Layout) Validate() error {
	switch {
	case l.CustomEpoch < 0 || l.CustomEpoch > maxEpoch:
		return fmt.Errorf("customEpoch %d: must be a time in Unix milliseconds from 0 to %d (the year 9999)",
			l.CustomEpoch, maxEpoch)
	case l.BitReserve < 1:
		return errors.New("bitReserve must be at least 1, so that IDs are positive as signed 64-bit numbers")
	case l.BitTs < 32:
		return errors.New("bitTs must be at least 32: fewer would be used up within two months")
	case l.BitID < 2:
		return errors.New("bitId must be at least 2: one bit tells fallback IDs apart, one tells machines apart")
	case l.BitSeq < 1:
		return errors.New("bitSeq must be at least 1")
	case l.BitReserve+l.BitTs+l.BitID+l.BitSeq != 64:
		return fmt.Errorf("bitReserve + bitTs + bitId + bitSeq must be 64, not %d", l.BitReserve+l.BitTs+l.BitID+l.BitSeq)
	}
	return nil
}

const maxEpoch int64 = 253_402_300_799_999

// BitNode is the width of what follows the timestamp: machine ID and sequence.
func (l Layout) BitNode() int { return l.BitID + l.BitSeq }

// MaxMachineID is the largest machine ID that can be leased; those above it mark fallback IDs.
func (l Layout) MaxMachineID() int64 { return 1<<(l.BitID-1) - 1 }

// Throughput is how many IDs one lease makes in a millisecond.
func (l Layout) Throughput() int64 { return 1 << l.BitSeq }

// End is the first instant whose timestamp no longer fits, or the year 9999 if that is earlier.
func (l Layout) End() time.Time {
	end := maxEpoch
	if l.BitTs < 62 {
		end = min(end, l.CustomEpoch+1<<l.BitTs)
	}
	return time.UnixMilli(end).UTC()
}
