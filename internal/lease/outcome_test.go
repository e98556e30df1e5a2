package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// TestOutcome: what an error says of the request, as a code alone and with what a server says.
func TestOutcome(t *testing.T) {
	type says struct{ gone, final, unsettled, settles bool }
	for _, c := range []struct {
		err  error
		want says
	}{
		{errors.New("connection reset"), says{unsettled: true}},
		{context.DeadlineExceeded, says{unsettled: true}},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, says{}},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, says{unsettled: true}},
		{contracts.CodeUnavailable, says{unsettled: true}},
		{contracts.CodeDeadlineExceeded, says{unsettled: true}},
		{contracts.CodeInternal, says{unsettled: true}},
		{contracts.CodeOverloaded, says{}},
		{contracts.CodeRateLimited, says{}},
		{contracts.CodeNotConfigured, says{final: true}},
		{contracts.CodeDocumentDamaged, says{final: true}},
		{contracts.CodeUnauthenticated, says{final: true}},
		{contracts.CodePermissionDenied, says{final: true, settles: true}},
		{contracts.CodeInvalidArgument, says{final: true, settles: true}},
		{contracts.CodeLockHeld, says{settles: true}},
		{contracts.CodeLockDelayed, says{settles: true}},
		{contracts.CodeLockQueueFull, says{settles: true}},
		{contracts.CodeLockModeDiffers, says{final: true, settles: true}},
		{contracts.CodeLeaseChanged, says{settles: true}},
		{contracts.CodeRequestIDReused, says{final: true, settles: true}},
		{contracts.CodeLeaseLost, says{gone: true, final: true, settles: true}},
		{contracts.CodeLeaseExpired, says{gone: true, final: true, settles: true}},
		{contracts.CodeLeaseReleased, says{gone: true, final: true, settles: true}},
		{contracts.CodeNotOwner, says{gone: true, final: true, settles: true}},
	} {
		for _, err := range []error{c.err, fmt.Errorf("acquire: %w", c.err), full(c.err)} {
			if got := (says{lease.Gone(err), lease.Final(err), lease.Unsettled(err), lease.Settles(err)}); got != c.want {
				t.Errorf("%v: %+v, want %+v", err, got, c.want)
			}
		}
	}
}

// full is a code as a server's error.
func full(err error) error {
	if code, ok := errors.AsType[contracts.Code](err); ok {
		return contracts.Errorf(code, "")
	}
	return err
}
