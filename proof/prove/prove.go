package prove

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options are what a proof is asked for.
type Options struct {
	Seed       uint64 // of the first history
	Operations int    // that are to be carried out by the store, at least; 1 or more. Each kind of world has its turn, too
	Workers    int    // goroutines; 0 means as many as there are processors

	// Progress is told how many operations were carried out so far; it may be called from several goroutines at once. May
	// be nil.
	Progress func(operations int)
}

// Count is how often something happened.
type Count struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Report is what a proof did and found.
type Report struct {
	Histories  int        `json:"histories"`
	Operations int        `json:"operations"` // requests that servers carried out
	Faults     []Count    `json:"faults"`
	Judged     []Judged   `json:"judged"`
	Seed       uint64     `json:"seed"`             // of the history that broke a promise
	Broken     *Violation `json:"broken,omitempty"` // nil: none was broken
}

// Judged is how often a promise was judged.
type Judged struct {
	Promise
	Count int `json:"count"`
}

// Random carries out histories of the seeds from o.Seed on, until they have as many operations as are asked for, one
// breaks a promise, or ctx ends: then the report is of what was done by then. The same seed is the same history on
// every machine.
func Random(ctx context.Context, o Options) Report {
	var (
		all     counts
		mu      sync.Mutex
		workers sync.WaitGroup
		next    atomic.Uint64
		done    atomic.Int64
		report  = Report{Seed: o.Seed}
	)
	next.Store(o.Seed)
	n := o.Workers
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}
	for range n {
		workers.Go(func() {
			for ctx.Err() == nil {
				seed := next.Add(1) - 1
				if seed-o.Seed >= worlds && int(done.Load()) >= o.Operations {
					return
				}
				mu.Lock()
				stop := report.Broken != nil
				mu.Unlock()
				if stop {
					return
				}
				c, broken := one(seed, nil)
				total := done.Add(int64(c.operations))
				if o.Progress != nil {
					o.Progress(int(total))
				}
				mu.Lock()
				report.Histories++
				all.add(&c)
				if broken != nil && (report.Broken == nil || seed < report.Seed) {
					report.Broken, report.Seed = broken, seed
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	report.fill(&all)
	return report
}

// one carries out the history of a seed.
func one(seed uint64, log *history) (counts, *Violation) {
	var c counts
	draw := rand.New(rand.NewPCG(seed, 0))
	r := newRig(drawn(seed, draw), &c)
	r.draw, r.log = draw, log
	r.w = r.newWorld()
	r.play()
	return c, r.w.broken
}

// fill writes what was counted into the report.
func (r *Report) fill(c *counts) {
	r.Operations = c.operations
	for i, n := range c.faults {
		if faultNames[i] != "" {
			r.Faults = append(r.Faults, Count{faultNames[i], n})
		}
	}
	for i, n := range c.judged {
		r.Judged = append(r.Judged, Judged{Promises[i], n})
	}
}
