package lock

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestALateRenewalMovesNoExpiryBack: a write that was held back has the time at which it was sent. It does not shorten
// the lease that another renewal has moved meanwhile (LS-RNW-002).
func TestALateRenewalMovesNoExpiryBack(t *testing.T) {
	late := func(s *stage) { // the next write has the time of ten seconds ago
		s.pass(-10 * time.Second)
		writes := 0
		s.before = func() {
			if writes++; writes == 2 {
				s.pass(10 * time.Second)
			}
		}
	}
	for _, mode := range []Mode{Exclusive, Permits} {
		s := newStage(t)
		s.granted(try("ann", mode), 1, 1)
		s.pass(20 * time.Second)
		end := s.send(extend("ann", 1, "n2")).Lease.ExpiresAt
		if want := epoch.Add(80 * time.Second); !end.Equal(want) {
			t.Fatalf("mode %q: the lease ends %v, want %v", mode, end, want)
		}
		late(s)
		o := s.gets(extend("ann", 1, "n1"), OK, 2)
		if !o.Lease.ExpiresAt.Equal(end) {
			t.Errorf("mode %q: the lease ends %v after a late renewal, want %v", mode, o.Lease.ExpiresAt, end)
		}
	}

	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.pass(20 * time.Second)
	end := s.send(extend("ann", 1, "n2")).Lease.ExpiresAt
	late(s)
	locks := New(counting{s.store, s}, &Options{Now: func() time.Time { return s.now }})
	set, err := locks.RenewSet(t.Context(), RenewSet{Tenant: subject.Tenant, Owner: "ann", RequestID: "n1", TTLSeconds: 60,
		Leases: []SetLease{{Key: subject.Key, Token: token(1)}}})
	if err != nil || set.Code != OK || !set.ExpiresAt().Equal(end) {
		t.Errorf("in a set: %+v, %v, want the end %v", set, err, end)
	}
}

// TestASmallerTTLMovesTheExpiryBack: to now + ttl_seconds (LS-RNW-002) as asked for, at the price of one request in
// plain form. A renewal that moves nothing back is one.
func TestASmallerTTLMovesTheExpiryBack(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	renew := extend("ann", 1, "n1")
	s.gets(renew, OK, 1) // at the same time
	s.pass(time.Second)
	renew.TTLSeconds, renew.RequestID = 59, "n2"
	s.gets(renew, OK, 1)
	renew.TTLSeconds, renew.RequestID = 5, "n3"
	o := s.gets(renew, OK, 2)
	if want := s.now.Add(5 * time.Second); !o.Lease.ExpiresAt.Equal(want) || !s.status().ExpiresAt.Equal(want) {
		t.Errorf("the lease ends %v, want %v", o.Lease.ExpiresAt, want)
	}
	if o := s.gets(renew, OK, 1); !o.Replayed {
		t.Errorf("repeated: %+v", o)
	}
	renew.RequestID, renew.TTLSeconds, renew.ExpiresAt = "n4", 1, o.Lease.ExpiresAt
	s.gets(renew, OK, 1) // it names the end
	renew.RequestID = "n5"
	s.gets(renew, LeaseChanged, 1)
	renew.Token, renew.ExpiresAt = token(2), time.Time{}
	s.gets(renew, LeaseLost, 1)
	s.pass(time.Second)
	renew.Token = token(1)
	s.gets(renew, LeaseExpired, 1)
}

// TestAShorterRenewalYieldsToAnother: the second write names the end that the first one found.
func TestAShorterRenewalYieldsToAnother(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	n := 0
	s.before = func() {
		if n++; n == 2 {
			before, writes := s.before, s.writes
			s.before = nil
			s.gets(Renew{ID: subject, Owner: "ann", Token: token(1), RequestID: "n2", TTLSeconds: 3600}, OK, 1)
			s.before, s.writes = before, writes
		}
	}
	renew := extend("ann", 1, "n1")
	renew.TTLSeconds = 5
	if o := s.gets(renew, OK, 3); !o.Lease.ExpiresAt.Equal(s.now.Add(5 * time.Second)) {
		t.Errorf("the lease ends %v", o.Lease.ExpiresAt)
	}
}

// lossy loses the response to the second write, which is sent again.
type lossy struct {
	docstore.Store

	writes int
}

func (s *lossy) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if s.writes++; s.writes == 2 {
		if _, err := s.Store.Write(ctx, w...); err != nil {
			return docstore.Result{}, err
		}
	}
	return s.Store.Write(ctx, w...)
}

// TestAShorterRenewalWhoseResponseIsLost: it was applied by its second write, which is sent again, and is recognised.
func TestAShorterRenewalWhoseResponseIsLost(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	locks := func() *Locks { return New(&lossy{Store: s.store}, &Options{Now: func() time.Time { return s.now }}) }
	renew := extend("ann", 1, "n1")
	renew.TTLSeconds = 30
	if o, err := locks().Renew(t.Context(), renew); err != nil || o.Code != OK || !o.Replayed ||
		!o.Lease.ExpiresAt.Equal(epoch.Add(30*time.Second)) {
		t.Errorf("%+v, %v", o, err)
	}
	set, err := locks().RenewSet(t.Context(), RenewSet{Tenant: subject.Tenant, Owner: "ann", RequestID: "n2",
		TTLSeconds: 5, Leases: []SetLease{{Key: subject.Key, Token: token(1)}}})
	if err != nil || set.Code != OK || !set.Replayed || !set.ExpiresAt().Equal(epoch.Add(5*time.Second)) {
		t.Errorf("in a set: %+v, %v", set, err)
	}
}
