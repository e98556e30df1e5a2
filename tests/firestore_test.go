package tests

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest/official"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// modes are those of a Firestore database: they must make no difference.
var modes = map[string]firestoretest.Mode{"pessimistic": firestoretest.Pessimistic, "optimistic": firestoretest.Optimistic}

// onFirestore opens a store on an emulator of its own.
func onFirestore(t *testing.T, mode firestoretest.Mode, now func() time.Time) (*gcpfirestore.Store, *firestoretest.Server) {
	t.Helper()
	server := firestoretest.Start(t, &firestoretest.Options{Mode: mode, Now: now})
	return openFirestore(t, &gcpfirestore.Options{Project: "test", Root: "leasehold/v1", ClientOptions: server.ClientOptions()}), server
}

func openFirestore(t *testing.T, o *gcpfirestore.Options) *gcpfirestore.Store {
	t.Helper()
	s, err := gcpfirestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLocksOnFirestore: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-CC-001, LS-ACC-01, LS-ACC-02, LS-ACC-03,
// LS-ACC-04.
func TestLocksOnFirestore(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			})
		})
	}
}

// TestAmbiguousWritesOnFirestore: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003.
func TestAmbiguousWritesOnFirestore(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.Ambiguous(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
				s, server := onFirestore(t, mode, now)
				return s, firestoreFaults(server)
			})
		})
	}
}

// TestAnalysesOnFirestore: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4.
func TestAnalysesOnFirestore(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.Analyses(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			})
		})
	}
}

func TestMachineIDsOnFirestore(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.MachineIDs(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			})
		})
	}
}

// TestAmbiguousAnalysesOnFirestore: commits whose request or answer was lost, with a store that sends again by itself.
func TestAmbiguousAnalysesOnFirestore(t *testing.T) {
	suite.AmbiguousAnalyses(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s, server := onFirestore(t, firestoretest.Pessimistic, now)
		return s, firestoreFaults(server)
	})
}

func TestAmbiguousMachineIDsOnFirestore(t *testing.T) {
	suite.AmbiguousMachineIDs(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s, server := onFirestore(t, firestoretest.Pessimistic, now)
		return s, firestoreFaults(server)
	})
}

// TestMachineIDCostsOnFirestore: three requests for any number of leases that a page has room for.
func TestMachineIDCostsOnFirestore(t *testing.T) {
	store, server := onFirestore(t, firestoretest.Pessimistic, suite.NewClock().Now)
	s := machineid.NewDefault(store, nil)
	for _, throughput := range []int64{1, 1, 5 * 256, 100 * 256} {
		server.ResetCounts()
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: throughput}); err != nil {
			t.Fatal(err)
		}
		if got := server.Counts(); !maps.Equal(got, map[string]int{"BatchGetDocuments": 2, "Commit": 1}) {
			t.Errorf("throughput %d: requests %v, want two BatchGetDocuments and a Commit", throughput, got)
		}
	}
}

// firestoreFaults are the fates of a Commit. The store sends it again by itself after all but the last.
func firestoreFaults(server *firestoretest.Server) suite.Faults {
	var late *firestoretest.Injection
	caughtUp := make(chan struct{})
	return suite.Faults{
		Next: func(_ *testing.T, f suite.Fate) {
			effect := map[suite.Fate]firestoretest.Effect{
				suite.LostRequest:      firestoretest.Fail{Code: codes.Unavailable},
				suite.LostAnswer:       firestoretest.ApplyThenFail{Code: codes.Unavailable},
				suite.AppliedThenError: firestoretest.ApplyThenFail{Code: codes.Internal},
				suite.AppliedLate:      firestoretest.ApplyLate{Until: caughtUp},
			}[f]
			late = server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: effect})
		},
		Settle: func(t *testing.T) {
			t.Helper()
			close(caughtUp)
			if err := late.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if late.Hits() != 1 {
				t.Errorf("the fault happened %d times, want once", late.Hits())
			}
		},
	}
}

// TestCostsOnFirestore counts the requests of each command: two if it writes, one if it does not.
func TestCostsOnFirestore(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClock()
			store, server := onFirestore(t, mode, clock.Now)
			locks := lock.New(store, nil)
			id := lock.ID{Tenant: "acme", Key: "k"}
			acquire := func(owner, request string) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: 60})
				}
			}
			renew := func(request string) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", Token: 1, RequestID: request, TTLSeconds: 60})
				}
			}
			release := func(token int64) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: token, RequestID: "e1"})
				}
			}
			writes := map[string]int{"BatchGetDocuments": 1, "Commit": 1}
			reads := map[string]int{"BatchGetDocuments": 1}
			for _, c := range []struct {
				name string
				do   func() (lock.Outcome, error)
				code lock.Code
				cost map[string]int
			}{
				{"acquire, the first", acquire("ann", "r1"), lock.OK, writes},
				{"acquire, replayed", acquire("ann", "r1"), lock.OK, reads},
				{"acquire, held", acquire("bob", "r2"), lock.Held, reads},
				{"renew", renew("n1"), lock.OK, writes},
				{"renew, replayed", renew("n1"), lock.OK, reads},
				{"release, never granted", release(7), lock.LeaseLost, reads},
				{"release", release(1), lock.OK, writes},
				{"release, replayed", release(1), lock.OK, reads},
				{"acquire, free", acquire("bob", "r3"), lock.OK, writes},
				{"renew, lost", renew("n2"), lock.LeaseLost, reads},
			} {
				server.ResetCounts()
				o, err := c.do()
				if err != nil || o.Code != c.code {
					t.Errorf("%s: %s, error %v, want %s", c.name, o.Code, err, c.code)
				}
				if got := server.Counts(); !maps.Equal(got, c.cost) {
					t.Errorf("%s: requests %v, want %v", c.name, got, c.cost)
				}
			}
			clock.Advance(time.Hour)
			server.ResetCounts()
			if o, err := acquire("ann", "r4")(); err != nil || o.Code != lock.OK || o.Lease.Token != 3 {
				t.Errorf("acquire, expired: %+v, error %v", o, err)
			}
			if got := server.Counts(); !maps.Equal(got, writes) {
				t.Errorf("acquire, expired: requests %v, want %v", got, writes)
			}
			server.ResetCounts()
			if _, _, err := locks.Get(t.Context(), id); err != nil {
				t.Error(err)
			}
			if got := server.Counts(); !maps.Equal(got, reads) {
				t.Errorf("get: requests %v, want %v", got, reads)
			}
			server.ResetCounts()
			if p, err := locks.List(t.Context(), lock.List{Tenant: "acme"}); err != nil || len(p.Locks) != 1 {
				t.Errorf("list: %d locks, error %v", len(p.Locks), err)
			}
			if got := server.Counts(); !maps.Equal(got, map[string]int{"RunQuery": 1}) {
				t.Errorf("list: requests %v, want one RunQuery", got)
			}
		})
	}
}

// TestFirestoreClockDecides: callers whose clocks are an hour off, either way, get and lose locks by the clock of the
// service.
func TestFirestoreClockDecides(t *testing.T) {
	clock := suite.NewClock()
	store, _ := onFirestore(t, firestoretest.Pessimistic, clock.Now)
	skewed := func(by time.Duration) *lock.Locks {
		return lock.New(store, &lock.Options{Now: func() time.Time { return clock.Now().Add(by) }})
	}
	id := lock.ID{Tenant: "acme", Key: "k"}
	ask := func(locks *lock.Locks, owner string) lock.Outcome {
		t.Helper()
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: "r-" + owner, TTLSeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	slow, fast := skewed(-time.Hour), skewed(time.Hour)
	for i, c := range []struct {
		after time.Duration
		locks *lock.Locks
		owner string
		code  lock.Code
		token int64
	}{
		{0, slow, "slow", lock.OK, 1},
		{0, fast, "fast", lock.Held, 0},
		{59_999 * time.Millisecond, fast, "fast", lock.Held, 0},
		{time.Millisecond, fast, "fast", lock.OK, 2},
		{0, slow, "slow", lock.Held, 0},
		{time.Minute, slow, "slow", lock.OK, 3},
	} {
		clock.Advance(c.after)
		o := ask(c.locks, c.owner)
		if o.Code != c.code || o.Lease.Token != c.token {
			t.Errorf("step %d: %s got %s with token %d, want %s with %d", i, c.owner, o.Code, o.Lease.Token, c.code, c.token)
		}
		if want := docstore.TruncateMilli(clock.Now()); !o.At.Equal(want) || o.Code == lock.OK && !o.Lease.ExpiresAt.Equal(want.Add(time.Minute)) {
			t.Errorf("step %d: decided at %v for a lease until %v, want %v and a minute", i, o.At, o.Lease.ExpiresAt, want)
		}
	}
}

// TestOfficialFirestore runs what needs no clock of its own on Google's emulator.
func TestOfficialFirestore(t *testing.T) {
	addr := official.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", addr)
	fresh := func(t *testing.T) *gcpfirestore.Store {
		t.Helper()
		return openFirestore(t, &gcpfirestore.Options{Project: "p-" + strings.ToLower(rand.Text()[:12])})
	}
	t.Run("conformance", func(t *testing.T) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store { return fresh(t) }, docstoretest.Exception{
			Check: "Transfers",
			Reason: "measured with the generated client alone: the emulator's commits become visible one document after the other, " +
				"to plain reads and in read-only transactions, although all carry one read time; the service promises one moment",
		})
	})
	t.Run("fifty callers, one grant", func(t *testing.T) {
		suite.OneGrant(t, func(t *testing.T, _ func() time.Time) docstore.Store { return fresh(t) })
	})
	t.Run("life of a lease", func(t *testing.T) {
		locks := lock.New(fresh(t), nil)
		id := lock.ID{Tenant: "acme", Key: "a/b"}
		for want := int64(1); want <= 2; want++ {
			begin := time.Now()
			o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: fmt.Sprint("r", want), TTLSeconds: 2})
			if err != nil || o.Code != lock.OK || o.Lease.Token != want {
				t.Fatalf("acquire %d: %+v, error %v", want, o, err)
			}
			held, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "bob", RequestID: "r", TTLSeconds: 1})
			if time.Since(begin) < 2*time.Second && (err != nil || held.Code != lock.Held || held.Lease.Owner != "ann") {
				t.Errorf("acquire while held: %+v, error %v", held, err)
			}
			// A lease that has run out frees the lock by itself, by the clock of the emulator.
			time.Sleep(time.Until(o.Lease.ExpiresAt.Add(2 * time.Millisecond)))
		}
	})
}
