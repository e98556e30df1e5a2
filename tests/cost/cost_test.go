package cost

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"

	"github.com/leasehold-dev/leasehold/internal/price"
)

var update = flag.Bool("update", false, "write the tables into the documents")

// counted counts all operations on all stores, once for all tests.
func counted(t *testing.T) []Counted {
	t.Helper()
	countOnce.Do(func() {
		var all []Counted
		for _, open := range stores {
			s := open(t)
			reads := readsAMinute
			if s.watched {
				reads = watchedAMinute
			}
			for _, c := range count(t, s) {
				c.Usage[WaitMinute] = c.Of(Look).Times(float64(reads))
				c.Usage[MachineIDHour] = c.Of(MachineIDs).Times(leasesAnHour)
				all = append(all, c)
			}
		}
		counts = all
	})
	if counts == nil {
		t.Fatal("an operation could not be counted, see above")
	}
	return counts
}

var (
	countOnce sync.Once
	counts    []Counted
)

// marked is a table of a document that this package makes.
var marked = regexp.MustCompile(`(?s)<!-- table: ([a-z-]+) -->\n(.*?)<!-- end -->\n`)

// compare compares the marked parts of a document with what they must be, and writes them if it was asked to.
func compare(t *testing.T, path string, parts map[string]string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	after := marked.ReplaceAllStringFunc(string(content), func(found string) string {
		name, was := marked.FindStringSubmatch(found)[1], marked.FindStringSubmatch(found)[2]
		seen[name] = true
		want, ok := parts[name]
		switch want = "\n" + want + "\n"; {
		case !ok:
			t.Errorf("%s: no table is called %q", path, name)
		case was != want && !*update:
			t.Errorf("%s: the table %q is out of date: run make costs UPDATE=1. It must be\n%s", path, name, want)
		}
		return fmt.Sprintf("<!-- table: %s -->\n%s<!-- end -->\n", name, want)
	})
	for name, text := range parts {
		if !seen[name] {
			t.Errorf("%s: the table %q is missing", path, name)
		}
		if testing.Verbose() {
			fmt.Printf("%s\n", text)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCosts: docs/reference/limits.md has what is counted today, at the prices of price.go of package price, and what
// the simulation makes of it.
func TestCosts(t *testing.T) {
	all := counted(t)
	compare(t, "../../docs/reference/limits.md", map[string]string{
		"prices":     PricesTable(),
		"operations": OperationsTable(all),
		"functions":  FunctionsTable(),
		"faaskeeper": FaaSKeeperTable(all),
		"break-even": BreakEvenTable(all),
		"limits":     LimitsTable(all),
		"sources":    SourcesTable(),
		"sweep":      SweepTable(all),
	})
	page, err := os.ReadFile("../../docs/reference/limits.md")
	if err != nil || !strings.Contains(string(page), price.AsOf) || !strings.Contains(string(page), price.In) {
		t.Errorf("docs/reference/limits.md does not say that the prices are those of %s in %s: %v", price.AsOf, price.In, err)
	}
}

// TestPromisedCounts: what is promised about requests and units is what is counted. A table that changes shows more;
// this fails whatever is documented.
func TestPromisedCounts(t *testing.T) {
	all := counted(t)
	for store, want := range map[string]map[string]Usage{
		price.DynamoDB.Name: {
			Cycle: {2, 2, 0}, Renew: {1, 1, 0}, Held: {1, 1, 0}, Expired: {1, 1, 0}, Look: {1, 0, 1},
			SharedCycle: {4, 4, 0}, SharedRenew: {2, 2, 0}, SharedHeld: {1, 1, 0}, SetCycle: {3, 12, 6},
		},
		price.FirestoreStandard.Name: {
			Cycle: {4, 2, 2}, Renew: {2, 1, 1}, Held: {1, 0, 1}, Expired: {2, 1, 1}, Look: {1, 0, 1},
			SharedCycle: {6, 2, 4}, Run: {4, 2, 2}, Refresh: {2, 1, 1}, Finished: {1, 0, 1}, Running: {1, 0, 1},
		},
		price.FirestoreEnterprise.Name: {Cycle: {4, 2, 2}, Renew: {2, 1, 1}, Held: {1, 0, 1}, Run: {4, 3, 2},
			Refresh: {2, 2, 1}},
		"Redis": {Cycle: {2, 0, 0}, Renew: {1, 0, 0}, Held: {1, 0, 0}, Look: {1, 0, 0},
			Run: {2, 0, 0}},
		"SQLite": {Cycle: {2, 0, 0}, Renew: {1, 0, 0}, Held: {0, 0, 0}, Run: {2, 0, 0}},
	} {
		c := find(all, store)
		if c == nil {
			t.Errorf("%s was not counted", store)
			continue
		}
		for operation, u := range want {
			if got := c.Of(operation); got != u {
				t.Errorf("%s, %s: %+v, want %+v", store, operation, got, u)
			}
		}
	}
}

// TestArithmetic: from counts to dollars, by hand.
func TestArithmetic(t *testing.T) {
	cycle := Usage{Requests: 2, Writes: 2}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"a cycle on DynamoDB", cycle.On(price.DynamoDB), 1.25},
		{"at the prices of the paper", cycle.On(price.FaaSKeeper.DynamoDB), 2.50},
		{"a lock of FaaSKeeper", 2 * price.FaaSKeeper.WriteLeast, 22.36},
		{"two writes and two reads on Firestore Standard", Usage{4, 2, 2}.On(price.FirestoreStandard), 2.40},
		{"the same on Enterprise", Usage{4, 2, 2}.On(price.FirestoreEnterprise), 0.62},
		{"half a read", Usage{1, 0, 0.5}.On(price.DynamoDB), 0.0625},
		{"10 ms of Lambda", price.Functions[0].PerMillion(0.010), 0.20 + 0.010*0.128*13.3333667 - 0.010*0.128*0.0000333},
		{"10.2 ms are billed as 11", price.Functions[0].PerMillion(0.0102), 0.20 + 0.011*0.128*13.3333334},
		{"10 ms of Cloud Run are billed as 100", price.Functions[2].PerMillion(0.010), 0.40 + 0.1*(24+0.25*2.5)},
		{"three machines for a day", 3 * price.SmallMachine.Day(), 1.4976},
	} {
		if math.Abs(c.got-c.want) > 1e-4 {
			t.Errorf("%s: $%v, want $%v", c.what, c.got, c.want)
		}
	}
	// The paper's own break-even, from its prices of a write and of machines: the constants of price.go of package price
	// agree with each other.
	least, most := 3*price.SmallMachine.Day()/price.FaaSKeeper.WriteMost*1e6,
		3*price.SmallMachine.Day()/price.FaaSKeeper.WriteLeast*1e6
	if b := float64(price.FaaSKeeper.BreakEven); b < least || b > most {
		t.Errorf("%v writes a day, want between %v and %v", b, least, most)
	}
	for in, want := range map[float64]string{0: "0", 0.026: "$0.026", 0.625: "$0.625", 1.25: "$1.25",
		22.36: "$22.36", 0.2: "$0.20"} {
		if got := dollars(in); got != want {
			t.Errorf("%v is shown as %s, want %s", in, got, want)
		}
	}
	if got := thousands(1198080.9); got != "1,198,080" {
		t.Error(got)
	}
}

var _ docstore.Watcher = watching{}
