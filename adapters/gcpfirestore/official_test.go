package gcpfirestore_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest/official"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestOfficialEmulator runs what needs no clock of its own on Google's emulator.
func TestOfficialEmulator(t *testing.T) {
	addr := official.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", addr)
	fresh := func(t *testing.T) *gcpfirestore.Store {
		t.Helper()
		s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{Project: "p-" + strings.ToLower(rand.Text()[:12])})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		return s
	}
	t.Run("conformance", func(t *testing.T) {
		const reason = "measured with the generated client alone: the emulator's commits become visible one document after " +
			"the other, to plain reads and in read-only transactions, although all carry one read time; the service promises " +
			"one moment"
		docstoretest.Run(t, func(t *testing.T) docstore.Store { return fresh(t) },
			docstoretest.Exception{Check: "Transfers", Reason: reason},
			docstoretest.Exception{Check: "History", Reason: reason})
	})
	t.Run("fifty callers, one grant", func(t *testing.T) {
		suite.OneGrant(t, func(t *testing.T, _ func() time.Time) docstore.Store { return fresh(t) })
	})
	t.Run("life of a lease", func(t *testing.T) {
		locks := lock.New(fresh(t), nil)
		id := lock.ID{Tenant: "acme", Key: "a/b"}
		var token int64
		for n := 0; n < 2; n++ {
			begin := time.Now()
			o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: rand.Text(), TTLSeconds: 2})
			if err == nil && o.Code == lock.LeaseExpired { // the first request to an emulator that has just started is slow
				t.Log(o.Detail)
				time.Sleep(time.Until(o.Lease.ExpiresAt.Add(2 * time.Millisecond)))
				token, n = o.Lease.Token, n-1
				continue
			}
			if err != nil || o.Code != lock.OK || token > 0 && o.Lease.Token != token+1 {
				t.Fatalf("acquire %d after token %d: %+v, error %v", n, token, o, err)
			}
			token = o.Lease.Token
			held, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "bob", RequestID: rand.Text(), TTLSeconds: 1})
			if time.Since(begin) < 2*time.Second && (err != nil || held.Code != lock.Held || held.Lease.Owner != "ann") {
				t.Errorf("acquire while held: %+v, error %v", held, err)
			}
			// A lease that has run out frees the lock by itself, by the clock of the emulator.
			time.Sleep(time.Until(o.Lease.ExpiresAt.Add(2 * time.Millisecond)))
		}
	})
}
