package machineid

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/field"
)

// ForceReleaseDelay is how long after [Service.ForceRelease] the machine IDs become free: the clock of a holder that
// was stopped before may have been ahead of the store's by [kazahana.Options.MaxSkew], and by no more than this.
const ForceReleaseDelay = 30 * time.Second

// ForceRelease names leases to end without their holders.
type ForceRelease struct {
	ServiceID string // whose leases; empty means DefaultServiceID
	First     int64  // the smallest machine ID
	Last      *int64 // the largest; nil means that there is no bound
	Reason    string // for the log
}

// ForceReleased is what [Service.ForceRelease] did.
type ForceReleased struct {
	Space  string
	IDs    []int64   // whose leases were ended, in ascending order
	Leases int       // how many
	At     time.Time // the store's time
	Free   time.Time // from when on their machine IDs can be leased again
}

// ForceRelease ends leases whose holders are gone and did not release them: their machine IDs become free after
// [ForceReleaseDelay], or with their leases if that is earlier. Retries are idempotent. A holder that goes on makes IDs
// that may equal those of the next one: stop it first.
//
// One read of all pages, and a write for each page with such leases; after an error some may have been ended. The error
// is a [field.Error], an [*UnknownServiceError] or that of the store. If pages cannot be read it is a
// [docstore.Unreadable], after the leases of all others were ended.
func (s *Service) ForceRelease(ctx context.Context, o ForceRelease) (ForceReleased, error) {
	sv, err := s.service(o.ServiceID)
	if err != nil {
		return ForceReleased{}, err
	}
	if o.First < 0 {
		return ForceReleased{}, field.Errorf("first", "must be a machine ID, 0 or larger")
	}
	if o.Last != nil && *o.Last < o.First {
		return ForceReleased{}, field.Errorf("last", "is %d: must be at least first, %d", *o.Last, o.First)
	}
	sp := s.spaces[sv.space.name]
	seen, err := s.read(ctx, sp, geometry.all)
	if err != nil {
		return ForceReleased{}, err
	}
	at := time.UnixMilli(seen.at).UTC()
	done := ForceReleased{Space: sp.name, At: at, Free: at.Add(ForceReleaseDelay)}
	for _, index := range seen.g.all() {
		if seen.damaged[index] != nil {
			continue
		}
		ended := 0
		var ids []int64
		_, err := s.releaseAt(ctx, sp, seen, index, func(p page, now int64) (page, releaseResult) {
			var after page
			ids = nil
			if after, ended = p.end(now, done.Free.UnixMilli(), func(l lease) bool {
				id := seen.g.id(run{page: index, slot: l.slot, split: p.split}, l.bits-p.split)
				chosen := l.service == sv.ServiceID && id >= o.First && (o.Last == nil || id <= *o.Last)
				if chosen {
					ids = append(ids, id)
				}
				return chosen
			}); ended == 0 {
				return p, notThere
			}
			return after, released
		})
		if err != nil {
			return ForceReleased{}, err
		}
		done.Leases, done.IDs = done.Leases+ended, append(done.IDs, ids...)
	}
	slices.Sort(done.IDs)
	s.log.LogAttrs(ctx, slog.LevelWarn, "machine IDs force-released",
		slog.String("space", sp.name), slog.String("service", sv.ServiceID), slog.Int("leases", done.Leases),
		slog.Int64("first", o.First),
		slog.Any("last", o.Last), slog.Time("free", done.Free), slog.String("reason", o.Reason), callerOf(ctx))
	return done, seen.err()
}

// end is the page without the live leases that are chosen, and their number. Their slots are free from a time on, or
// from the end of the lease if that is earlier.
func (p page) end(now, free int64, chosen func(lease) bool) (after page, n int) {
	after = p.next(now)
	after.held = slices.DeleteFunc(after.held, func(l lease) bool {
		if !chosen(l) {
			return false
		}
		n++
		for slot := l.slot; slot < l.slot+1<<l.bits; slot++ {
			after.notBefore[slot] = max(l.created, min(free, p.notBefore[slot]))
		}
		return true
	})
	return after, n
}
