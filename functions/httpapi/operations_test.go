package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/metrics"
)

// TestOperationsOfRoutes: each endpoint of the API counts as an operation that the documentation lists.
func TestOperationsOfRoutes(t *testing.T) {
	// of other routes, and of a claim
	counted := map[string]bool{"sweep": true, "task.deliver": true, "placement.takeover": true}
	for _, r := range (&api{frame: newFrame(nil)}).routes() {
		if !strings.HasPrefix(r.Path, "/v1/") {
			continue
		}
		name := (&exchangeLog{route: &r}).operation()
		if !slices.Contains(metrics.Operations, name) || counted[name] {
			t.Errorf("%s %s counts as %q", r.Method, r.Path, name)
		}
		counted[name] = true
	}
	for _, name := range metrics.Operations {
		if !counted[name] {
			t.Errorf("no endpoint counts as %s", name)
		}
	}
}
