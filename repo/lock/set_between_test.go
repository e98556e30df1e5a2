package lock

import (
	"testing"
	"time"
)

// TestASetWhoseLockIsFreeMeanwhile: a lock that the second write of a set was decided on goes back to plain form, free,
// before that write arrives. Then the first write is right again.
func TestASetWhoseLockIsFreeMeanwhile(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.pass(time.Minute)
	locks := New(counting{s.store, s}, &Options{Now: func() time.Time { return s.now }})
	s.writes = 0
	s.before = func() {
		if s.writes == 2 { // eve has the lock for a moment
			s.before = nil
			s.gets(try("eve", Exclusive), OK, 2)
			s.gets(give("eve", 2), OK, 1)
			s.writes = 2
		}
	}
	o, err := locks.AcquireSet(t.Context(), AcquireSet{
		Tenant: subject.Tenant, Keys: []string{subject.Key, "other"}, Owner: "bob", RequestID: "s", TTLSeconds: 60,
	})
	if err != nil || o.Code != OK || len(o.Leases) != 2 || o.Leases[0].Token != token(3) || s.writes != 3 {
		t.Errorf("got %+v, %v after %d writes", o, err, s.writes)
	}
}

// TestASetAtTheEndOfItsLeases: on a store that knows the time only within a margin, leases are renewed and released
// until they have certainly ended, as no one else can have them until then.
func TestASetAtTheEndOfItsLeases(t *testing.T) {
	for pass, want := range map[time.Duration]Code{
		time.Minute + time.Second - time.Millisecond: OK, time.Minute + time.Second: LeaseExpired,
	} {
		s := newStage(t)
		s.granted(try("ann", Exclusive), 1, 1)
		s.pass(pass)
		locks := New(Uncertain{Store: s.store, Margin: time.Second}, &Options{Now: func() time.Time { return s.now }})
		leases := []SetLease{{Key: subject.Key, Token: token(1)}}
		if want == LeaseExpired {
			o, err := locks.ReleaseSet(t.Context(), ReleaseSet{Tenant: subject.Tenant, Leases: leases, Owner: "ann",
				RequestID: "s"})
			if err != nil || o.Code != want {
				t.Errorf("release: %+v, %v", o, err)
			}
		}
		o, err := locks.RenewSet(t.Context(), RenewSet{Tenant: subject.Tenant, Leases: leases, Owner: "ann",
			RequestID: "s", TTLSeconds: 60})
		if err != nil || o.Code != want {
			t.Errorf("renew: %+v, %v", o, err)
		}
		if want != OK {
			continue
		}
		s.pass(pass)
		o, err = locks.ReleaseSet(t.Context(), ReleaseSet{Tenant: subject.Tenant, Leases: leases, Owner: "ann",
			RequestID: "s"})
		if err != nil || o.Code != want {
			t.Errorf("release: %+v, %v", o, err)
		}
	}
}
