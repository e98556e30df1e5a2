package gcpfirestore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestTheTimeOfTheLastTry: a write that lost to another one reads again, and its time is that of the second read.
func TestTheTimeOfTheLastTry(t *testing.T) {
	clock := suite.NewClock()
	server := firestoretest.Start(t, &firestoretest.Options{Now: clock.Now})
	s := open(t, server, "")
	var read, committed atomic.Int64
	server.Inject(firestoretest.Fault{Method: "BatchGetDocuments", Effect: firestoretest.Fail{Code: codes.Aborted},
		Match: func(proto.Message) bool { read.CompareAndSwap(0, time.Now().UnixNano()); return false }})
	fault(server, firestoretest.Fail{Code: codes.Aborted}, func() {
		committed.Store(time.Now().UnixNano())
		clock.Advance(4 * time.Second)
	})
	r, err := s.Write(t.Context(), docstore.Write{Key: key("n"), Set: docstore.Doc{"at": docstore.Now}})
	if err != nil || !r.At.Equal(clock.Now()) || r.Docs[0]["at"] != docstore.Value(docstore.FormatTime(r.At)) {
		t.Errorf("%+v, %v, now it is %v", r, err, clock.Now())
	}
	if first := time.Duration(committed.Load() - read.Load()); r.Before < first {
		t.Errorf("%v before the last try, want %v or more", r.Before, first)
	}
}

// TestAMachineThatWasStopped: between the read and the Commit, and its clock with it. The service's times say so.
func TestAMachineThatWasStopped(t *testing.T) {
	for _, stood := range []time.Duration{0, 5 * time.Second, 25 * time.Second} {
		clock := suite.NewClock()
		server := firestoretest.Start(t, &firestoretest.Options{Now: clock.Now})
		locks := lock.New(open(t, server, ""), nil)
		server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Fail{Code: codes.Aborted},
			Match: func(proto.Message) bool { clock.Advance(stood); return false }})
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann",
			RequestID: "r1", TTLSeconds: 20})
		switch {
		case err != nil:
			t.Fatal(err)
		case stood > 20*time.Second:
			if o.Code != lock.LeaseExpired {
				t.Errorf("stood for %v: %+v", stood, o)
			}
		case o.Code != lock.OK || (o.Lease.ExpiresAt.Sub(o.At)-20*time.Second+stood).Abs() > time.Millisecond:
			t.Errorf("stood for %v: %+v", stood, o)
		}
	}
}

// TestWhatTheClockCounted: a request that took long is no stop of the machine, and what the clocks of the service may
// be apart is none, either.
func TestWhatTheClockCounted(t *testing.T) {
	const apart = 99 * time.Millisecond // the emulator's times go on by themselves
	for _, c := range []struct{ service, counted, lost time.Duration }{
		{time.Minute, time.Minute, 0},
		{apart, 0, 0},
		{apart + 2*time.Millisecond, 0, apart + 3*time.Millisecond},
		{time.Second + apart, time.Second, 0},
		{time.Second, time.Minute, 0},
	} {
		clock, own := suite.NewClock(), suite.NewClock()
		server := firestoretest.Start(t, &firestoretest.Options{Now: clock.Now})
		s := openWith(t, server, gcpfirestore.Options{Now: own.Now})
		server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Fail{Code: codes.Aborted},
			Match: func(proto.Message) bool {
				clock.Advance(c.service)
				own.Advance(c.counted)
				return false
			}})
		r, err := s.Write(t.Context(), docstore.Write{Key: key("n"), Set: docstore.Doc{"n": docstore.Int(1)}})
		if err != nil || r.Lost != c.lost {
			t.Errorf("%v at the service, %v here: lost %v, %v, want %v", c.service, c.counted, r.Lost, err, c.lost)
		}
	}
}
