package direct_test

import (
	"errors"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestGiveUpOnAStore: a program on a store gives up as one does over HTTP: it gets no lease and no error, and the
// request has nothing.
func TestGiveUpOnAStore(t *testing.T) {
	service := lock.New(docstore.NewMemory(nil), nil)
	p := direct.Locks(service, "acme")
	several, ok := p.(locks.SetProvider)
	if !ok {
		t.Fatalf("%T", p)
	}
	one := contracts.AcquireRequest{OwnerID: "ann", RequestID: "r1", TTLSeconds: 30, Mode: contracts.LockModeExclusive}
	set := contracts.LockSetAcquireRequest{OwnerID: "ann", RequestID: "r2", TTLSeconds: 30,
		LockKeys: []string{"a", "b"}}
	acquire := func() error { _, err := p.Acquire(t.Context(), "deploy", one); return err }
	acquireSet := func() error { _, err := several.AcquireSet(t.Context(), set); return err }
	if err := errors.Join(acquire(), acquireSet()); err != nil {
		t.Fatal(err)
	}
	one.GiveUp, set.GiveUp = true, true
	one.NotAfter, set.NotAfter = "soon", "soon" // which does not matter
	for range 2 {
		l, err := p.Acquire(t.Context(), "deploy", one)
		if err != nil || l.LockKey != "" || l.FencingToken != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		s, err := several.AcquireSet(t.Context(), set)
		if err != nil || len(s.Leases) > 0 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	for _, key := range []string{"deploy", "a", "b"} {
		st, _, err := service.Get(t.Context(), lock.ID{Tenant: "acme", Key: key})
		if err != nil || st.Phase != lock.Released {
			t.Errorf("%+v, %v", st, err)
		}
	}
	one.TTLSeconds, set.TTLSeconds = 31, 31
	if err := acquire(); !errors.Is(err, contracts.CodeRequestIDReused) {
		t.Error(err)
	}
	if err := acquireSet(); !errors.Is(err, contracts.CodeRequestIDReused) {
		t.Error(err)
	}
	one.RequestID, set.RequestID = "", ""
	if err := acquire(); !errors.Is(err, contracts.CodeInvalidArgument) {
		t.Error(err)
	}
	if err := acquireSet(); !errors.Is(err, contracts.CodeInvalidArgument) {
		t.Error(err)
	}
	one.GiveUp, set.GiveUp = false, false
	one.RequestID, one.TTLSeconds, one.NotAfter = "r1", 30, ""
	set.RequestID, set.TTLSeconds, set.NotAfter = "r2", 30, ""
	if err := acquire(); !errors.Is(err, contracts.CodeRequestIDReused) {
		t.Error(err)
	}
	if err := acquireSet(); !errors.Is(err, contracts.CodeRequestIDReused) {
		t.Error(err)
	}
}
