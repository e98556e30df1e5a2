package client_test

import (
	"errors"
	"testing"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/projectlock"
	"github.com/leasehold-dev/leasehold/once"
)

// TestLosses: every package's loss is a loss, and none is another package's.
func TestLosses(t *testing.T) {
	losses := map[string]error{
		"locks": locks.ErrLost, "once": once.ErrLost, "cluster": cluster.ErrLost, "projectlock": projectlock.ErrLost,
	}
	for name, err := range losses {
		if !errors.Is(err, contracts.ErrLost) {
			t.Errorf("%s: %q is no loss", name, err)
		}
		for other, loss := range losses {
			if other != name && errors.Is(err, loss) {
				t.Errorf("the loss of %s is that of %s", name, other)
			}
		}
	}
}
