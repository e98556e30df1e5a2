package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// TestExitCodesOfOnce: what is not the command's own has a code that commands seldom have.
func TestExitCodesOfOnce(t *testing.T) {
	errLost := fmt.Errorf("%w: it expired", once.ErrLost)
	for name, c := range map[string]struct {
		out  once.Outcome
		code int
		says string
	}{
		"ready": {once.Outcome{Status: once.Ready}, 0, ""},
		"locked": {once.Outcome{Status: once.Locked, RetryAfter: time.Minute}, 120,
			"another worker runs a1; its lock expires in 1m0s unless it is refreshed"},
		"lost": {once.Outcome{Status: once.Lost, Err: errLost}, 121, "the lock is lost: it expired"},
		"failed before": {once.Outcome{Status: once.AlreadyFailed, Err: once.ErrFailed}, 123,
			"a1: the run was FAILED before, and does not begin again unless it is retried: leasehold run retry a1 --reason WHY"},
		"not stored": {once.Outcome{Status: once.NotStored, Err: errors.New("no answer")}, 125,
			"the command of a1 is done, and the gate does not know it: it runs again when it is asked for: no answer"},
		"failed": {once.Outcome{Status: once.Retry, Err: errors.New("no paper")}, 125,
			"the run of a1 failed, and may be tried again: no paper"},
		"too large": {once.Outcome{Status: once.Failed, Err: errors.New("the result is too large")}, 125,
			"a1 is FAILED: the result is too large"},
		"not found": {once.Outcome{Status: once.Retry, Err: once.Uncounted(notStarted(fs.ErrNotExist))}, 127,
			"the run of a1 failed, and may be tried again: file does not exist"},
		"no program": {once.Outcome{Status: once.Retry, Err: once.Uncounted(notStarted(fs.ErrPermission))}, 126,
			"the run of a1 failed, and may be tried again: permission denied"},
		"over time": {once.Outcome{Status: once.Stopped, Err: errors.New("over")}, 125, "the run of a1 was stopped: over"},
	} {
		err := (&runNews{cmd: &onceCmd{tenanted: tenanted{Tenant: "default"}, Name: "a1"}}).exit(c.out)
		code, says := 0, ""
		if err != nil {
			says = err.Error()
			code = report(t.Context(), err, false, &streams{&strings.Builder{}, &strings.Builder{}})
		}
		if code != c.code || says != c.says {
			t.Errorf("%s: got %d %q, want %d %q", name, code, says, c.code, c.says)
		}
	}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"a setting":      {usage("--ttl"), 125},
		"the server":     {contracts.Errorf(contracts.CodePermissionDenied, "no"), 125},
		"unreachable":    {&unreachableError{"gone", errors.New("refused")}, 118},
		"overloaded":     {contracts.Errorf(contracts.CodeOverloaded, "later"), 118},
		"rate limited":   {contracts.Errorf(contracts.CodeRateLimited, "later"), 118},
		"internal error": {contracts.Errorf(contracts.CodeInternal, "no"), 118},
		"damaged":        {contracts.Errorf(contracts.CodeDocumentDamaged, "no"), 125},
		"no command":     {notStarted(&exec.Error{Name: "x", Err: exec.ErrNotFound}), 127},
		"no program":     {notStarted(&exec.Error{Name: "x", Err: fs.ErrPermission}), 126},
		"here, not PATH": {notStarted(&exec.Error{Name: "x", Err: exec.ErrDot}), 126},
	} {
		if code := report(t.Context(), trouble(c.err), false,
			&streams{&strings.Builder{}, &strings.Builder{}}); code != c.code {
			t.Errorf("%s: %d, want %d", name, code, c.code)
		}
	}
}
