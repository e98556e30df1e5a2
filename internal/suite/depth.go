package suite

import (
	"flag"
	"os"
	"runtime/debug"
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
// for another number. Programs leave much garbage and keep little, so that collecting it less often saves a tenth of the time.
func init() { //nolint:gochecknoinits // before flags are parsed, so that the command line wins
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400)
}
