package cost

import (
	"fmt"
	"math"
	"strings"
)

// The plot, in pixels.
const (
	panelWidth, panelHeight = 300, 240
	left, top, gap          = 60, 40, 50
)

// Axes: cycles a second, and milliseconds.
const (
	leastRate, mostRate = 0.1, 1e5
	leastTime, mostTime = 0.1, 1e5
)

// colors of the stores, readable on white and on dark.
var colors = []string{"#d97706", "#2563eb", "#dc2626", "#059669"}

// Plot draws how long a cycle takes at the 99th percentile as the load grows, one panel for each load, as SVG.
func Plot(all []Counted) string {
	var b strings.Builder
	width := left + len(Loads)*(panelWidth+gap)
	height := top + panelHeight + 70
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
		"\n", width, height)
	fmt.Fprintf(&b, `<title>How long a cycle takes as the load grows</title>`+"\n"+
		`<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, l := range Loads {
		x0 := left + i*(panelWidth+gap)
		x := func(rate float64) float64 { return float64(x0) + panelWidth*along(rate, leastRate, mostRate) }
		y := func(ms float64) float64 { return float64(top+panelHeight) - panelHeight*along(ms, leastTime, mostTime) }
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x0, top-14, l.Name)
		for e := math.Log10(leastRate); e <= math.Log10(mostRate); e++ {
			r := math.Pow(10, e)
			fmt.Fprintf(&b,
				`<path d="M%.1f %d V%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n",
				x(r), top, top+panelHeight, x(r), top+panelHeight+16, short(r))
		}
		for e := math.Log10(leastTime); e <= math.Log10(mostTime); e++ {
			ms := math.Pow(10, e)
			fmt.Fprintf(&b, `<path d="M%d %.1f h%d" stroke="#ddd"/>`+"\n", x0, y(ms), panelWidth)
			if i == 0 {
				fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end" fill="#555">%s ms</text>`+"\n", x0-6, y(ms)+4, short(ms))
			}
		}
		for n, c := range Stores {
			cycle := find(all, c.Store).Of(Cycle)
			var line []string
			for step := 0; ; step++ {
				rate := leastRate * math.Pow(10, float64(step)/8)
				if rate > mostRate*1.001 {
					break
				}
				ms := slowest(c, cycle, l, rate, 0)
				line = append(line, fmt.Sprintf("%.1f,%.1f", x(rate), y(min(ms, mostTime))))
				if rate > 1.5*Bound(c, cycle, l, 0) {
					break // from here on it grows for as long as the load is there
				}
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "),
				colors[n])
		}
	}
	for n, c := range Stores {
		at := left + n*180
		fmt.Fprintf(&b, `<path d="M%d %d h24" stroke="%s" stroke-width="3"/><text x="%d" y="%d">%s</text>`+"\n", at,
			height-16, colors[n], at+30, height-12, c.Store)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#555">cycles a second</text>`+"\n</svg>\n",
		width-gap, height-12)
	return b.String()
}

// along is where a number is between two others, on a logarithmic scale.
func along(v, least, most float64) float64 {
	return math.Log(max(v, least)/least) / math.Log(most/least)
}

// short is a power of ten in few characters.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", v/1000)
	}
	return fmt.Sprintf("%g", math.Round(v*10)/10)
}
