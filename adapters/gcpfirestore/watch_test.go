package gcpfirestore_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// received waits for a signal.
func received(t *testing.T, changed <-chan struct{}, of string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Fatalf("no signal of %s", of)
	}
}

// TestWatchAcrossOutages: a stream that the service ends, or refuses to begin, is begun again, and what changed
// meanwhile is signalled. The streams end with the watch and with the store.
func TestWatchAcrossOutages(t *testing.T) {
	t.Parallel()
	server := firestoretest.Start(t, nil)
	s := open(t, server, "leasehold/v1")
	refused := server.Inject(firestoretest.Fault{Method: "Listen", Times: 1,
		Effect: firestoretest.Fail{Code: codes.Unavailable}})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Watch(ctx, key("a"))
	if err != nil || !w.Complete() {
		t.Fatalf("%+v, error %v", w, err)
	}
	received(t, w.Changed, "a watch whose first stream was refused")
	refused.Remove()
	write := func() {
		t.Helper()
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("a"), Add: map[string]int64{"n": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	received(t, w.Changed, "a change")
	if n := server.DropListeners(codes.Unavailable, "moved"); n != 1 {
		t.Fatalf("%d listeners", n)
	}
	write()
	received(t, w.Changed, "a change while no stream was open")
	write()
	received(t, w.Changed, "a change on the new stream")
	cancel()
	waitFor(t, func() bool { return server.DropListeners(codes.Unavailable, "none") == 0 })
	if _, err := s.Watch(t.Context(), key("b")); err != nil { // ended by the store
		t.Fatal(err)
	}
}

// TestHandOvers: servers hand locks over to each other without reads by the clock; and what one writes is signalled to
// the other.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	server := firestoretest.Start(t, nil)
	suite.HandOvers(t, open(t, server, ""), open(t, server, ""), open(t, server, ""))
	if err := docstoretest.Watched(t.Context(), open(t, server, ""), open(t, server, ""), true); err != nil {
		t.Error(err)
	}
}

// TestWaitOnAListener: who waits for a lock that another process holds has it as soon as it is released, with few
// reads.
func TestWaitOnAListener(t *testing.T) {
	t.Parallel()
	server := firestoretest.Start(t, nil)
	here, there := lock.New(open(t, server, ""), nil), lock.New(open(t, server, ""), nil)
	id := lock.ID{Tenant: "acme", Key: "k"}
	held, err := there.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 600})
	if err != nil || held.Code != lock.OK {
		t.Fatalf("%+v, error %v", held, err)
	}
	got := make(chan lock.Outcome, 1)
	go func() {
		o, err := here.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "bob", RequestID: "r2", TTLSeconds: 600,
			WaitSeconds: 20})
		if err != nil {
			t.Error(err)
		}
		got <- o
	}()
	// each acquire's, and that of the watch
	waitFor(t, func() bool { return server.Count("Listen") == 1 && server.Count("BatchGetDocuments") >= 3 })
	if o, err := there.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: held.Lease.Token,
		RequestID: "e1"}); err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, error %v", o, err)
	}
	if o := <-got; o.Code != lock.OK || o.Lease.Token != held.Lease.Token+1 {
		t.Errorf("%+v", o)
	}
	// Two of each acquire and release that writes, one of the refusal, and those of the watch: at its beginning, at the
	// release, and after it if the second came late.
	if reads := server.Count("BatchGetDocuments"); reads > 8 {
		t.Errorf("%d reads", reads)
	}
}
