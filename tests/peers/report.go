package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// summary is a peer's line of a table, for one number of callers.
type summary struct {
	rate, low, high float64       // a second: the median of the slices, and the lowest and highest
	client, server  time.Duration // CPU for one
}

func summarize(all []slice) summary {
	rates := make([]float64, len(all))
	var (
		done           int64
		client, server time.Duration
	)
	for i, s := range all {
		rates[i] = s.rate()
		done += s.done
		client += s.client
		server += s.server
	}
	slices.Sort(rates)
	return summary{
		rate: median(rates), low: rates[0], high: rates[len(rates)-1],
		client: client / time.Duration(max(done, 1)), server: server / time.Duration(max(done, 1)),
	}
}

// median is that of numbers in order.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// result is all that was measured of a peer.
type result struct {
	contest
	slices  map[string]map[int][]slice // by scenario and callers
	counts  map[string]counts          // by scenario
	expired []time.Duration
}

// page is the part of the page that is measured.
func page(results []result, skipped []string, rounds int, each time.Duration) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	head := func(cells ...string) {
		row(cells...)
		row(slices.Repeat([]string{"---"}, len(cells))...)
	}
	for _, s := range skipped {
		fmt.Fprintf(&b, "Not measured: %s.\n\n", s)
	}
	fmt.Fprintf(&b, "What the peers promise:\n\n")
	head("peer", "tells an earlier holder from a later one", "after a loss of power", "how long a lock is held")
	for _, r := range results {
		row(r.name, r.fence, r.kept, r.lease)
	}
	for _, sc := range scenarios {
		fmt.Fprintf(
			&b, "\n### %s\n\n%s Per second: the median of %d slices of %v, in parentheses the lowest and the highest.\n\n",
			sc.title, sc.text, rounds, each)
		cells := []string{"peer"}
		for _, n := range sc.callers {
			cells = append(cells, callers(n))
		}
		last := sc.callers[len(sc.callers)-1]
		head(append(cells, "requests", "bytes", "CPU µs, client + server, "+callers(last))...)
		for _, r := range results {
			cells := []string{r.name}
			var s summary
			for _, n := range sc.callers {
				if len(r.slices[sc.name][n]) == 0 {
					cells = append(cells, "not measured")
					continue
				}
				s = summarize(r.slices[sc.name][n])
				cells = append(cells, fmt.Sprintf("%s (%s–%s)", round(s.rate), round(s.low), round(s.high)))
			}
			c := r.counts[sc.name]
			row(append(cells, fmt.Sprintf("%.3g", c.requests), round(c.bytes),
				fmt.Sprintf("%s + %s", round(float64(s.client)/1e3), round(float64(s.server)/1e3)))...)
		}
	}
	fmt.Fprintf(
		&b, "\n### A lock whose holder crashed\n\nA lease of %v has ended %v ago. How long a caller that comes then takes to get the lock, "+
			"by the means that the peer has for waiting.\n\n", crashTTL, afterwards)
	head("peer", "median, ms", "longest, ms")
	for _, r := range results {
		ms := func(d time.Duration) string { return fmt.Sprintf("%.3g", float64(d)/1e6) }
		row(r.name, ms(r.expired[len(r.expired)/2]), ms(r.expired[len(r.expired)-1]))
	}
	return b.String()
}

func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// round shows three digits of a number.
func round(x float64) string {
	if x < 1000 {
		return fmt.Sprintf("%.3g", x)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return fmt.Sprintf("%.0f", math.Round(x/unit)*unit)
}
