package idsim

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// counts are what happened, for Result.
type counts struct {
	leases, exhausted, releases, replays atomic.Int64
	kills, shutdowns, restarts           atomic.Int64
	partitions, steps, storeSteps        atomic.Int64
	cutOff, lostRequests, lostResponses  atomic.Int64
	backward, without, timeouts          atomic.Int64
	waits, rejected, unexpected          atomic.Int64
}

// Result is what happened in a run.
type Result struct {
	Lasted time.Duration // of the bubble's time

	IDs        int64 // all of the next three
	Leased     int64 // made under a lease
	Cached     int64 // made under a lease while the servers could not be reached
	Random     int64 // made without a live lease, with the fallback bit
	Collisions int64 // of the random ones, IDs that another process had made

	Leases    int64 // granted, with those whose response was lost
	Rejected  int64 // of them, by the generator, because the clocks were too far apart
	Exhausted int64 // requests for a lease that found no free machine ID
	Releases  int64 // leases released
	Replays   int64 // releases that arrived again later

	Kills, Shutdowns, Restarts, Partitions int64
	Steps, StoreSteps                      int64 // of the processes' clocks and of the store's
	CutOff, LostRequests, LostResponses    int64 // calls of the servers

	SequenceWaits   int64 // IDs that waited because the sequences of a millisecond were used up
	ClockRejections int64 // IDs rejected because the clock was behind
	NoLease         int64 // IDs rejected because there was no lease, by generators that do not fall back
	Timeouts        int64 // IDs that were not waited for any longer

	Claims int // most that the checker had to remember at once: pairs of machine ID and millisecond

	Found   [faults]int // by kind
	Reports []string    // of the first faults, and of errors that nothing explains
}

func (w *world) result(lasted time.Duration) Result {
	c, n := w.checker, &w.counts
	return Result{
		Lasted: lasted,
		IDs:    c.leased + c.cached + c.random, Leased: c.leased, Cached: c.cached, Random: c.random,
		Collisions: c.collisions,
		Leases:     n.leases.Load(), Rejected: n.rejected.Load(), Exhausted: n.exhausted.Load(), Releases: n.releases.Load(),
		Replays: n.replays.Load(),
		Kills:   n.kills.Load(), Shutdowns: n.shutdowns.Load(), Restarts: n.restarts.Load(), Partitions: n.partitions.Load(),
		Steps: n.steps.Load(), StoreSteps: n.storeSteps.Load(),
		CutOff: n.cutOff.Load(), LostRequests: n.lostRequests.Load(), LostResponses: n.lostResponses.Load(),
		SequenceWaits: n.waits.Load(), ClockRejections: n.backward.Load(), NoLease: n.without.Load(),
		Timeouts: n.timeouts.Load(),
		Claims:   c.most, Found: c.found, Reports: append(c.reports, w.errs...),
	}
}

// Clean reports whether nothing is wrong.
func (r Result) Clean() bool { return r.Found == [faults]int{} && len(r.Reports) == 0 }

// String is all of it, in a few lines.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "%d IDs in %v: %d under a lease, %d under a cached one, %d without a live one, of which %d were made twice\n",
		r.IDs, r.Lasted.Round(time.Second), r.Leased, r.Cached, r.Random, r.Collisions)
	fmt.Fprintf(
		&b, "%d leases granted, %d of them rejected by the clock; %d responses that none is free; %d released, %d of them once more later\n",
		r.Leases, r.Rejected, r.Exhausted, r.Releases, r.Replays)
	fmt.Fprintf(
		&b, "%d kills, %d shutdowns, %d restarts, %d partitions; %d steps of clocks, %d of the store's; %d calls cut off, %d requests and %d responses lost\n",
		r.Kills, r.Shutdowns, r.Restarts, r.Partitions, r.Steps, r.StoreSteps, r.CutOff, r.LostRequests, r.LostResponses)
	fmt.Fprintf(&b,
		"%d waits for sequences; IDs rejected: %d by the clock, %d without a lease, %d not waited for; %d claims at most",
		r.SequenceWaits, r.ClockRejections, r.NoLease, r.Timeouts, r.Claims)
	for f, n := range r.Found {
		if n > 0 {
			fmt.Fprintf(&b, "\n%d × %s", n, Fault(f))
		}
	}
	for _, line := range r.Reports {
		b.WriteString("\n" + line)
	}
	return b.String()
}
