package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// MachineIDs leases machine IDs for a [kazahana.Generator] from a server's /v1/machine-ids. Each call sends one request, which
// it ends after 10 s: the generator retries by itself, and leases whose response was lost expire.
type MachineIDs struct{ client *Client }

var _ kazahana.LeaseProvider = (*MachineIDs)(nil)

// machineIDTimeout bounds one request: IDs wait for it.
const machineIDTimeout = 10 * time.Second

const machineIDPath = "/v1/machine-ids/lease"

// Acquire leases machine IDs. If none is free, the error is a [kazahana.ExhaustedError] and a [contracts.Error].
func (m *MachineIDs) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	content, err := m.send(ctx, http.MethodPost, machineIDPath, o)
	if err != nil {
		if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeMachineIDsExhausted {
			return kazahana.AcquireResponse{}, fmt.Errorf("%w: %w", &kazahana.ExhaustedError{RetryAfter: e.RetryAfter}, err)
		}
		return kazahana.AcquireResponse{}, err
	}
	return decode(m.client, content, complete(func(r kazahana.AcquireResponse) bool { return len(r.Leases) > 0 }))
}

// Release ends a lease. One that has expired, or that the server does not know, counts as released.
func (m *MachineIDs) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	_, err := m.send(ctx, http.MethodDelete, machineIDPath+"/"+strconv.FormatInt(o.ID, 10), contracts.MachineIDReleaseRequest{
		ServiceID: o.ServiceID, Signature: o.Signature, Timestamp: o.Timestamp,
	})
	if errors.Is(err, contracts.CodeNotFound) {
		return nil
	}
	return err
}

func (m *MachineIDs) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	payload, err := encode(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, machineIDTimeout)
	defer cancel()
	content, _, err := m.client.exchange(ctx, method, path, payload, 16<<20) // 8192 leases with their layouts are 2 MiB
	return content, err
}
