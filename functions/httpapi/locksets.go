package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/wire"
)

func (a *api) acquireSet(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.LockSetAcquireRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	tenant := r.PathValue("tenant_id")
	o, err := a.locks.AcquireSet(r.Context(), wire.AcquireSet(tenant, owner, body))
	ranSet(r, o)
	auditNote(r, slog.String("owner", owner), slog.Any("locks", body.LockKeys))
	if err != nil {
		return err
	}
	got, err := wire.LockSet(tenant, o)
	if err != nil {
		return err
	}
	return send(w, got)
}

func (a *api) renewSet(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.LockSetRenewRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	tenant := r.PathValue("tenant_id")
	command, err := wire.RenewSet(tenant, owner, body)
	if err != nil {
		return err
	}
	o, err := a.locks.RenewSet(r.Context(), command)
	ranSet(r, o)
	if err != nil {
		return err
	}
	got, err := wire.LockSet(tenant, o)
	if err != nil {
		return err
	}
	return send(w, got)
}

func (a *api) releaseSet(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.LockSetReleaseRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	tenant := r.PathValue("tenant_id")
	o, err := a.locks.ReleaseSet(r.Context(), wire.ReleaseSet(tenant, owner, body))
	ranSet(r, o)
	if err != nil {
		return err
	}
	got, err := wire.LockSetReleased(tenant, o)
	if err != nil {
		return err
	}
	return send(w, got)
}
