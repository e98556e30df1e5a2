package awsdynamodb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestLateWithClocksApart (PLC-ONE-5): with clocks as far apart as they may be, no join, claim or transfer and no
// lease of machine IDs is sent to the service after its end by the true time, and none is refused that has clearly
// not ended.
func TestLateWithClocksApart(t *testing.T) {
	t.Parallel()
	for what, run := range map[string]func(context.Context, suite.Late, string, uint64) (suite.LateCounts, error){
		"placement": suite.LatePlacements, "machine IDs": suite.LateMachineIDs,
	} {
		for _, c := range []course{
			{off: 990 * time.Millisecond, bounds: []time.Duration{time.Second}},
			{off: 4900 * time.Millisecond, bounds: []time.Duration{5 * time.Second, 10 * time.Second}},
		} {
			t.Run(fmt.Sprintf("%s, off by %v", what, c.off), func(t *testing.T) {
				t.Parallel()
				var sum suite.LateCounts
				for seed := range suite.AtDepth(uint64(4), 30) {
					synctest.Test(t, func(t *testing.T) {
						random := rand.New(rand.NewPCG(seed, 0))
						server := dynamodbtest.New(nil)
						client := dialThrough(slowly{server.RoundTripper(), random})
						time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // a Date has whole seconds
						l := suite.Late{Now: time.Now, Sleep: time.Sleep, Unsure: 2*c.off + 3*time.Second}
						for i, off := range []time.Duration{c.off, -c.off, 0} {
							l.Stores = append(l.Stores, openWith(t, client, awsdynamodb.Options{
								MaxSkew: c.bounds[i%len(c.bounds)], Now: func() time.Time { return time.Now().Add(off) },
							}))
						}
						n, err := run(t.Context(), l, "late", seed)
						if err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						sum.Add(n)
					})
				}
				if min(sum.Effects, sum.TooLate, sum.TooFar) == 0 {
					t.Errorf("the ends were not put to the test: %+v", sum)
				}
			})
		}
	}
}
