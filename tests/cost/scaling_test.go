package cost

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

const plotPath = "../../docs/pictures/scaling.svg"

// TestScaling: the plot of docs/reference/limits.md is what the simulation makes of what is counted today.
func TestScaling(t *testing.T) {
	all := counted(t)
	want := Plot(all)
	if *update {
		if err := os.WriteFile(plotPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(plotPath); err != nil || string(got) != want {
		t.Errorf("docs/pictures/scaling.svg is out of date: run make costs UPDATE=1 (%v)", err)
	}
	for d := xml.NewDecoder(strings.NewReader(want)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSimulation: the simulation agrees with what must be so: no store carries more than its units allow, and with many
// keys it comes close; one that is idle takes as long as a cycle takes by itself; more load never takes less time.
func TestSimulation(t *testing.T) {
	all := counted(t)
	for _, c := range Stores {
		cycle := find(all, c.Store).Of(Cycle)
		for _, l := range Loads {
			limit, bound := Limit(c, cycle, l, 0), Bound(c, cycle, l, 0)
			// it may be passed for as long as a burst, or the time until a queue is long, lasts
			if limit > 1.2*bound || limit < 0.3*bound {
				t.Errorf("%s, %s: %v cycles a second, by the units %v", c.Store, l.Name, limit, bound)
			}
			last := 0.0
			for rate := bound / 1000; rate < 2*bound; rate *= 8 {
				ms := slowest(c, cycle, l, rate, 0)
				if ms < 0.999*last {
					t.Errorf("%s, %s: %v ms at %v, less than with a tenth of the load", c.Store, l.Name, ms, rate)
				}
				last = ms
			}
		}
		if ms := slowest(c, cycle, Loads[2], 0.001, 0); ms > 1.01*c.Service {
			t.Errorf("%s: %v ms without load, want %v", c.Store, ms, c.Service)
		}
	}
	none := Carries{Unit: writes, Service: 1}
	if got := Limit(none, Usage{2, 2, 0}, Loads[0], 0); !math.IsInf(got, 1) {
		t.Errorf("a store without bounds carries %v", got)
	}
	ramp := Carries{Tenant: 500, Doubles: true, Unit: writes, Service: 10}
	for minutes, want := range map[float64]float64{0: 250, 4: 250, 5: 375, 10: 562.5, 30: 2847.65625} {
		if got := Bound(ramp, Usage{2, 2, 0}, Loads[1], minutes); got != want {
			t.Errorf("after %v minutes: %v, want %v", minutes, got, want)
		}
	}
}
