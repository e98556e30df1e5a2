package suite

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// deep asks for the sizes of the gate: more seeds, more processes. The environment sets it; see CONTRIBUTING.md.
var deep = os.Getenv("LEASEHOLD_TEST_DEEP") == "1"

// AtDepth is the size of a check: the first normally, the second in a deep run.
func AtDepth[T any](normally, deeply T) T {
	if deep {
		return deeply
	}
	return normally
}

// Whatever tests import this package run random programs against stores: 40 for each property, unless the command line asks
// for another number. Many of them wait, for stores and for other processes, so that more of them run at once than there are
// processors. Programs leave much garbage and keep little: collecting it less often saves a tenth of the time.
func init() { //nolint:gochecknoinits // before flags are parsed, so that the command line wins
	testing.Init()
	for name, value := range map[string]string{"rapid.checks": "40", "test.parallel": strconv.Itoa(8 * runtime.GOMAXPROCS(0))} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	debug.SetGCPercent(400)
}
