package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

func (a *api) leaseMachineIDs(c call, b *contracts.MachineIDLeaseRequest) (leases kazahana.AcquireResponse, err error) {
	o := kazahana.AcquireOptions{ServiceID: b.ServiceID, Meta: b.Meta}
	if b.ThroughputPerMs != nil {
		if o.ThroughputPerMs = *b.ThroughputPerMs; o.ThroughputPerMs == 0 {
			return leases, field.Errorf("throughputPerMs", "must be at least 1; leave it out for one lease")
		}
	}
	if o.NotAfter, err = direct.LeaseEnd(*b); err != nil {
		return leases, err
	}
	n, err := a.machineIDs.Count(o)
	if err != nil {
		return leases, machineIDError(err, "")
	}
	granted, err := a.idQuota.reserve(c.caller.Subject, n)
	if err != nil {
		return leases, err
	}
	leases, err = a.machineIDs.Acquire(machineid.WithCaller(c.Context(), c.caller.Subject), o)
	granted(leases.Leases)
	if err != nil {
		return leases, machineIDError(err, "retry: leases whose response was lost expire")
	}
	e := c.event()
	ofMachineIDLeases(e, b.ServiceID)
	e.Owner, e.Leases = c.caller.Subject, int64(len(leases.Leases))
	for _, l := range leases.Leases {
		e.MachineIDs = append(e.MachineIDs, l.ID)
		begin := time.UnixMilli(l.Created) // of all of them
		atStore(e, begin)
		e.GrantedAt, e.ExpiresAt = e.At, direct.Time(time.UnixMilli(l.Expired))
	}
	return leases, nil
}

// ofMachineIDLeases says in an event that it is about machine IDs of a service, as a body names it.
func ofMachineIDLeases(e *contracts.AuditEvent, service string) {
	e.Kind, e.Key = "machine_ids", cmp.Or(service, machineid.DefaultServiceID)
}

func (a *api) releaseMachineID(w http.ResponseWriter, r *http.Request, c Caller) error {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != text {
		return field.Errorf("id", "must be a machine ID, a whole number in decimal")
	}
	var body contracts.MachineIDReleaseRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	done, err := answer(a, r, func() (machineid.Ended, error) {
		return a.machineIDs.End(r.Context(), kazahana.ReleaseOptions{
			ServiceID: body.ServiceID, ID: id, Signature: body.Signature, Timestamp: body.Timestamp,
		})
	})
	if err != nil {
		return machineIDError(err, "the lease may have been released: send the release again, or let it run out")
	}
	a.idQuota.released(c.Subject, id)
	e := AuditEvent(r)
	ofMachineIDLeases(e, cmp.Or(done.ServiceID, body.ServiceID))
	e.MachineIDs, e.Replayed = []int64{id}, done.ServiceID == ""
	if !e.Replayed {
		e.Leases, e.GrantedAt, e.EndedAt = 1, direct.Time(done.Created), direct.Time(done.Free)
	}
	return send(w, nil)
}

func (a *api) forceReleaseMachineIDs(c call, b *contracts.MachineIDForceReleaseRequest) (
	ended contracts.MachineIDForceRelease, err error) {
	if err := field.Text("reason", b.Reason, 256); err != nil {
		return ended, err
	}
	done, err := a.machineIDs.ForceRelease(machineid.WithCaller(c.Context(), c.caller.Subject), machineid.ForceRelease{
		ServiceID: b.ServiceID, First: b.First, Last: b.Last, Reason: b.Reason,
	})
	if err != nil {
		return ended, machineIDError(err, "some leases may have been ended: send the same body again")
	}
	e := c.event()
	ofMachineIDLeases(e, b.ServiceID)
	e.Leases, e.MachineIDs = int64(done.Leases), done.IDs
	atStore(e, done.At)
	e.EndedAt = e.At
	return contracts.MachineIDForceRelease{Space: done.Space, Leases: done.Leases, Free: unixMilliseconds(done.Free)}, nil
}

func (a *api) machineIDOccupancy(c call) (contracts.MachineIDOccupancy, error) {
	names := a.machineIDs.Spaces()
	body := contracts.MachineIDOccupancy{Spaces: make([]contracts.MachineIDSpace, len(names))}
	for i, name := range names {
		o, _, err := a.machineIDs.Occupancy(c.Context(), name)
		if err != nil {
			return body, machineIDError(err, "try again")
		}
		a.unreadable(c.Request, o.Unreadable.Count)
		body.Spaces[i] = contracts.MachineIDSpace{
			Space: o.Space, Units: o.Units, Leased: o.Leased, Free: o.Free, NextFree: unixMilliseconds(o.NextFree),
			Leases:          o.Services,
			UnreadablePages: o.Unreadable.Count,
		}
	}
	return body, nil
}

func (a *api) machineIDMap(c call) (body contracts.MachineIDMap, err error) {
	name := c.PathValue("space")
	if err := field.Text("space", name, machineid.MaxSpaceBytes); err != nil {
		return body, err
	}
	m, ok, err := a.machineIDs.Map(c.Context(), name)
	if err != nil {
		return body, machineIDError(err, "try again")
	}
	if !ok {
		return body, contracts.Errorf(contracts.CodeNotFound, "no namespace of machine IDs has this name")
	}
	a.unreadable(c.Request, m.Unreadable.Count)
	return contracts.MachineIDMap{
		Space: m.Space, At: m.At.UnixMilli(), LongestLease: m.LongestLease.Milliseconds(), Units: m.Units,
		Leased: m.Leased, Free: m.Free,
		NextFree: unixMilliseconds(m.NextFree), Leases: m.Services, Pages: m.Pages, UnreadablePages: m.Unreadable.Count,
		CustomEpoch: m.Layout.CustomEpoch, BitReserve: m.Layout.BitReserve, BitTS: m.Layout.BitTs, BitID: m.Layout.BitID,
	}, nil
}

// unixMilliseconds is a time as machine IDs have it; 0, which the contract leaves out, for none.
func unixMilliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// machineIDError translates an error of the rule. After an error of the store the caller follows the advice: these
// requests carry no request_id.
func machineIDError(err error, advice string) error {
	var (
		exhausted *kazahana.ExhaustedError
		unknown   *machineid.UnknownServiceError
		ended     *machineid.EndError
	)
	switch {
	case errors.As(err, &exhausted):
		e := contracts.Errorf(contracts.CodeMachineIDsExhausted, "all machine IDs of this service's namespace are leased")
		e.RetryAfter = exhausted.RetryAfter
		return e
	case errors.As(err, &ended):
		return direct.LeaseEnded(ended)
	case errors.As(err, &unknown):
		return contracts.Errorf(contracts.CodeUnknownService, "serviceId %q is not configured on this server",
			clip(unknown.ServiceID))
	case errors.Is(err, machineid.ErrBadSignature):
		return contracts.Errorf(contracts.CodeBadSignature,
			"sign \"id:timestamp\" with the secret of the lease that lasts now")
	default:
		return &advised{err, advice}
	}
}
