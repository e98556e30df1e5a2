package suite

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// deep asks for the sizes of the night: more seeds, more processes. The environment sets it; see CONTRIBUTING.md.
var deep = os.Getenv("LEASEHOLD_TEST_DEEP") == "1"

// AtDepth is the size of a check: the first normally, the second in a deep run.
func AtDepth[T any](normally, deeply T) T {
	if deep {
		return deeply
	}
	return normally
}

// EveryStore skips a test that puts rules on one more store, unless the environment asks for depth: normally they are
// put to the test in memory, and each store by package docstoretest.
func EveryStore(t *testing.T) {
	t.Helper()
	if !deep {
		t.Skip("rules run on every store in a deep run only: set LEASEHOLD_TEST_DEEP=1")
	}
}

// Deep skips a test that counts at a large size what others count at a small one, or runs one more example, unless the
// environment asks for depth.
func Deep(t *testing.T) {
	t.Helper()
	if !deep {
		t.Skip("it runs in a deep run only: set LEASEHOLD_TEST_DEEP=1")
	}
}

// Whatever tests import this package run random programs against stores: 40 for each property, unless the command line
// asks for another number. Many of them wait, for stores and for other processes, so that more of them run at once than
// there are processors; fewer in a deep run, whose programs are longer and work more than they wait. Programs leave
// much garbage and keep little: collecting it less often saves a tenth of the time.
func init() { //nolint:gochecknoinits // before flags are parsed, so that the command line wins
	testing.Init()
	atOnce := AtDepth(24, 6) * runtime.GOMAXPROCS(0)
	for name, value := range map[string]string{"rapid.checks": "40", "test.parallel": strconv.Itoa(atOnce)} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	debug.SetGCPercent(400)
}
