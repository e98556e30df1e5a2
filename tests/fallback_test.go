package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// cable is a process's way to the servers, which can be cut.
type cable struct {
	kazahana.LeaseProvider
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (c *cable) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	if c.cut.Load() {
		return kazahana.AcquireResponse{}, errCut
	}
	return c.LeaseProvider.Acquire(ctx, o)
}

// cutOff runs processes that are cut off from their servers during some durations of a lease, evenly, or all at once.
// When the last lease has expired, each makes IDs for so many milliseconds, some in each. It returns how many of them
// had been made by another process: under the cached machine IDs, and if all numbers are random.
func cutOff(t *testing.T, processes, durations, perMs, ms int) (cached, random int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(suite.Epoch.Add(time.Hour)))
		const lasts = time.Minute
		config := machineid.DefaultService()
		config.LeaseDuration = lasts.Milliseconds()
		servers, err := machineid.New(docstore.NewMemory(nil), []machineid.ServiceConfig{config}, nil)
		if err != nil {
			t.Fatal(err)
		}
		quiet := slog.New(slog.DiscardHandler)
		newGenerator := func(p kazahana.LeaseProvider) *kazahana.Generator {
			g, err := kazahana.New(p, &kazahana.Options{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = g.Close(context.Background()) })
			return g
		}
		var (
			cables  []*cable
			courses [2][]*kazahana.Generator
		)
		for range processes {
			c := &cable{LeaseProvider: servers}
			cables = append(cables, c)
			courses[0] = append(courses[0], newGenerator(c))
			courses[1] = append(courses[1], newGenerator(nil))
			time.Sleep(lasts / time.Duration(processes)) // leases that end at different times
		}
		for _, c := range cables {
			c.cut.Store(true)
			time.Sleep(lasts * time.Duration(durations) / time.Duration(processes))
		}
		time.Sleep(2 * lasts)
		var twice [2]int
		layout := kazahana.DefaultLayout()
		noWait, cancel := context.WithCancel(t.Context())
		cancel()
		for range ms {
			for course, generators := range courses {
				seen := map[kazahana.ID]bool{}
				for _, g := range generators {
					ctx := t.Context()
					for range perMs {
						id, err := g.NextID(ctx)
						if ctx = noWait; errors.Is(err, context.Canceled) {
							break // the others must stay in this millisecond
						}
						if err != nil || !layout.Decode(id).Fallback {
							t.Fatalf("%d, %v", id, err)
						}
						if seen[id] {
							twice[course]++
						}
						seen[id] = true
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
		cached, random = twice[0], twice[1]
	})
	return cached, random
}

// TestFallbackTable compares the two ways to make IDs without a lease: under the machine ID of the last lease, with a
// sequence that begins at a random number, and with random numbers alone. docs/guides/ids.md has a row of its table;
// in a deep run it has 1000 processes and a second.
func TestFallbackTable(t *testing.T) {
	processes, ms := suite.AtDepth(100, 1000), suite.AtDepth(100, 1000)
	var table strings.Builder
	fmt.Fprintf(&table, "IDs made twice by %d processes in %d ms\n%28s %9s %9s %9s\n", processes, ms, "cut off within",
		"IDs/ms", "cached", "random")
	for _, durations := range []int{0, 6, 60} {
		for _, perMs := range []int{1, 4} {
			cached, random := cutOff(t, processes, durations, perMs, ms)
			within := "at once"
			if durations > 0 {
				within = fmt.Sprintf("%d lease durations", durations)
			}
			fmt.Fprintf(&table, "%28s %9d %9d %9d\n", within, perMs, cached, random)
			if durations == 0 && cached > 0 {
				t.Errorf("%d processes that were cut off together made %d IDs twice: their machine IDs differ", processes, cached)
			}
		}
	}
	t.Log(table.String())
}
