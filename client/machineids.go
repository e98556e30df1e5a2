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

// MachineIDs leases machine IDs for a [kazahana.Generator] from a server's /v1/machine-ids. Each call sends one
// request, which it ends after 10 s: the generator retries by itself, and leases whose response was lost expire. A
// request that arrives later than that leases nothing.
type MachineIDs struct{ client *Client }

var _ kazahana.LeaseProvider = (*MachineIDs)(nil)

// machineIDTimeout bounds one request: IDs wait for it.
const machineIDTimeout = 10 * time.Second

const machineIDPath = "/v1/machine-ids/lease"

// Acquire leases machine IDs. Any 2xx response with leases is a success. If none is free, the error is a
// [kazahana.ExhaustedError] and a [contracts.Error]. A response that no retry will turn into leases, such as a web
// page, an unknown path or a missing scope, is a [kazahana.ErrConfiguration].
func (m *MachineIDs) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, machineIDTimeout)
	defer cancel()
	content, err := m.lease(ctx, o)
	if e, ok := errors.AsType[*contracts.Error](err); ok && (e.Code == contracts.CodeMachineIDsExhausted ||
		e.Code == contracts.CodeMachineIDLimit) {
		err = fmt.Errorf("%w: %w", &kazahana.ExhaustedError{RetryAfter: e.RetryAfter}, err)
	}
	if err != nil {
		return kazahana.AcquireResponse{}, err
	}
	r, err := decode(m.client, content, complete(func(r kazahana.AcquireResponse) bool { return len(r.Leases) > 0 }))
	if err != nil {
		return kazahana.AcquireResponse{}, kazahana.Misconfigured(err)
	}
	return r, nil
}

// Release ends a lease. Any 2xx response is a success. A lease that has expired, or that the server does not know,
// counts as released.
func (m *MachineIDs) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	ctx, cancel := context.WithTimeout(ctx, machineIDTimeout)
	defer cancel()
	_, err := m.send(ctx, http.MethodDelete, machineIDPath+"/"+strconv.FormatInt(o.ID, 10),
		contracts.MachineIDReleaseRequest{
			ServiceID: o.ServiceID, Signature: o.Signature, Timestamp: o.Timestamp,
		})
	if errors.Is(err, contracts.CodeNotFound) {
		return nil
	}
	return err
}

// ForceRelease ends the leases of a service, or those of a range of its machine IDs, whose holders are gone;
// administrators may. Stop the holders first: one that goes on makes IDs that may equal those of the next. After a
// retry, the number of leases is that of the last request, and may be smaller than what was ended.
func (m *MachineIDs) ForceRelease(ctx context.Context, r contracts.MachineIDForceReleaseRequest) (
	contracts.MachineIDForceRelease, error) {
	return call(ctx, m.client, http.MethodPost, "/v1/machine-ids/force-release", r,
		complete(func(r contracts.MachineIDForceRelease) bool { return r.Space != "" && r.Free > 0 }))
}

// lease sends a request for leases, and once more if its end was refused because the clock is wrong. An end that the
// caller has named is kept: TOO_LATE is the caller's then.
func (m *MachineIDs) lease(ctx context.Context, o kazahana.AcquireOptions) ([]byte, error) {
	if !o.NotAfter.IsZero() {
		return m.send(ctx, http.MethodPost, machineIDPath, o)
	}
	body := struct {
		kazahana.AcquireOptions

		NotAfter string `json:"notAfter"` // in place of the embedded one
	}{o, m.client.ends.End(ctx, m.client.http.Timeout)}
	begin := time.Now()
	content, err := m.send(ctx, http.MethodPost, machineIDPath, body)
	if m.client.ends.Refused(err, time.Since(begin)) {
		body.NotAfter = m.client.ends.End(ctx, m.client.http.Timeout)
		begin = time.Now()
		content, err = m.send(ctx, http.MethodPost, machineIDPath, body)
		m.client.ends.Refused(err, time.Since(begin)) // for the next call
	}
	return content, err
}

func (m *MachineIDs) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	payload, err := encode(body)
	if err != nil {
		return nil, err
	}
	const most = 16 << 20 // 8192 leases with their layouts are 2 MiB
	//nolint:bodyclose // send has read and closed it
	w, content, _, err := m.client.send(ctx, method, path, payload, most, nil)
	if err != nil {
		return nil, err
	}
	if w.StatusCode >= 200 && w.StatusCode < 300 {
		return content, nil
	}
	_, err = m.client.rejection(w, content)
	if after := contracts.RetryAfter(err); after > 0 {
		err = later{err, after}
	}
	if misconfigured(w.StatusCode, err) {
		err = kazahana.Misconfigured(err)
	}
	return nil, err
}

// misconfigured reports whether what the server responded is to be cured by those who run the program or the server:
// its URL, its rights, its settings. A damaged document is not: another program has written it, and IDs go on without a
// lease until it is mended.
func misconfigured(status int, err error) bool {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e.Final() && e.Code != contracts.CodeDocumentDamaged
	}
	// of a proxy, or of another server altogether
	return !passes(status) && (status < http.StatusInternalServerError || status == http.StatusNotImplemented)
}
