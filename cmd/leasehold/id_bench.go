package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

type idBenchCmd struct {
	Time time.Duration `default:"600ms" help:"How long each line is measured, from 10ms to 10s (default ${default})."`
}

// Help is the longer help of the command.
func (idBenchCmd) Help() string {
	return `No server takes part: the leases are made up. With few leases the layout is the limit, 256 IDs for each lease and millisecond; with all of
them it is the machine. Each ID is compared with the one before.`
}

// measured is a line of the benchmark.
type measured struct {
	Call         string  `json:"call"`             // the method that makes the IDs
	Batch        int     `json:"batch"`            // IDs in a call
	Leases       int     `json:"leases"`           //
	IDs          int64   `json:"ids"`              // made
	Seconds      float64 `json:"seconds"`          // in this time
	IDsPerSecond int64   `json:"ids_per_second"`   //
	NsPerID      float64 `json:"ns_per_id"`        //
	Limit        int64   `json:"limit_per_second"` // what the leases bear
}

// calls is the method, and of how many IDs a call is.
func (m *measured) calls() string {
	if m.Batch == 1 {
		return m.Call
	}
	return m.Call + " × " + strconv.Itoa(m.Batch)
}

// Run measures one line after the other.
func (c *idBenchCmd) Run(ctx context.Context, top *idCmd, s *streams) error {
	if c.Time < 10*time.Millisecond || c.Time > 10*time.Second {
		return usage("--time %v: must be from 10ms to 10s", c.Time)
	}
	all := int(kazahana.DefaultLayout().MaxMachineID()) + 1
	var lines []measured
	for _, m := range []measured{
		{Call: "NextID", Batch: 1, Leases: 1},
		{Call: "NextID", Batch: 1, Leases: 4},
		{Call: "NextID", Batch: 1, Leases: 16},
		{Call: "NextID", Batch: 1, Leases: all},
		{Call: "NextIDs", Batch: 16, Leases: all},
		{Call: "NextIDs", Batch: 256, Leases: all},
	} {
		fmt.Fprintf(s.err, "measuring %s for %v, leases: %d\n", m.calls(), c.Time, m.Leases)
		if err := m.measure(ctx, c.Time); err != nil {
			return err
		}
		if top.JSON {
			if err := show(s, true, m, ""); err != nil {
				return err
			}
		}
		lines = append(lines, m)
	}
	if top.JSON {
		return nil
	}
	return benchTable(s, lines)
}

// benchTable is the measurement for people.
func benchTable(s *streams, lines []measured) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "CALL\tLEASES\tIDS PER SECOND\tNS PER ID\tLEASES BEAR\t")
	for _, m := range lines {
		fmt.Fprintf(w, "%s\t%d\t%s\t%.1f\t%s\t\n", m.calls(), m.Leases, grouped(m.IDsPerSecond), m.NsPerID, grouped(m.Limit))
	}
	return w.Flush()
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// measure makes IDs on one goroutine for a while.
func (m *measured) measure(ctx context.Context, duration time.Duration) (err error) {
	m.Limit = int64(m.Leases) * kazahana.DefaultLayout().Throughput() * 1000
	g, err := kazahana.New(madeUp(m.Leases), &kazahana.Options{MaxThroughputPerMs: m.Limit / 1000, DisableFallback: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack(ctx, g)) }()
	last, err := g.NextID(ctx) // the leases are there
	if err != nil {
		return err
	}
	// The clock is read after this many calls: often enough to end in time, too rarely to be seen in the figures.
	const between = 64
	ids := make([]kazahana.ID, m.Batch)
	begin := time.Now()
	elapsed := time.Duration(0)
	for ; elapsed < duration; elapsed = time.Since(begin) {
		for range between {
			if m.Batch == 1 {
				ids[0], err = g.NextID(ctx)
			} else {
				err = g.NextIDs(ctx, ids)
			}
			if err != nil {
				return err
			}
			for _, id := range ids {
				if id <= last {
					return fmt.Errorf("ID %v came after %v: please report this", id, last)
				}
				last = id
			}
			m.IDs += int64(m.Batch)
		}
	}
	m.Seconds = elapsed.Seconds()
	m.IDsPerSecond = int64(float64(m.IDs) / m.Seconds)
	m.NsPerID = float64(elapsed.Nanoseconds()) / float64(m.IDs)
	return nil
}

// madeUp is a provider of so many leases for an hour, of the default layout.
type madeUp int

// Acquire returns the leases.
func (n madeUp) Acquire(context.Context, kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	now := time.Now().UnixMilli()
	r := kazahana.AcquireResponse{Leases: make([]kazahana.Lease, n)}
	for i := range r.Leases {
		r.Leases[i] = kazahana.Lease{
			ID: int64(i), Created: now, Expired: now + time.Hour.Milliseconds(), Secret: "made up",
			Layout: kazahana.DefaultLayout(),
		}
	}
	return r, nil
}

// Release has nothing to do.
func (madeUp) Release(context.Context, kazahana.ReleaseOptions) error { return nil }
