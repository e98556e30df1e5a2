package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestSizesOfEpochs: with 5000 members and 65 536 partitions, each member with labels and an address, no document of an
// epoch is near the bounds of the stores, whatever can change at once: the second member joins and gets half of all
// partitions, one of 5000 joins or leaves, or 30 are evicted.
func TestSizesOfEpochs(t *testing.T) {
	t.Parallel()
	all := members(5000)
	for i := range all {
		all[i].Number, all[i].Since = 1767225600000000+int64(i)*7919, 1
		all[i].Address, all[i].At = fmt.Sprintf("10.0.%d.%d:9000", i/250, i%250), time.UnixMilli(1767225600000).UTC()
		all[i].Labels = map[string]string{"zone": fmt.Sprint("eu-west-1", i%3), "pod": fmt.Sprintf("%x", i*104729)}
	}
	alone, _ := NewTopology(MaxPartitions).Next(all[:1], nil, "one")
	full, _ := alone.Next(all, nil, "all")
	for _, c := range []struct {
		what   string
		before *Topology
		after  []Member
		most   int
	}{
		{"the second joins", alone, all[:2], 14_000},
		{"one leaves", full, all[1:], 6000},
		{"30 are evicted", full, all[30:], 8000},
	} {
		next, _ := c.before.Next(c.after, nil, "a change")
		w, err := next.writeChanges(Cluster{}, c.before)
		if err != nil {
			t.Fatal(err)
		}
		changes, _ := w.Set[fChanges].(docstore.Bytes)
		t.Logf("%s: %d bytes", c.what, len(changes))
		if len(changes) > c.most {
			t.Errorf("%s: %d bytes, want %d at most", c.what, len(changes), c.most)
		}
	}
}
