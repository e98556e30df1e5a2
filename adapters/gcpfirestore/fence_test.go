package gcpfirestore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// fenced is a lock that ann holds with token 1, and a transaction of hers behind it.
type fenced struct {
	t      *testing.T
	server *firestoretest.Server
	store  *gcpfirestore.Store
	client *sdk.Client
	locks  *lock.Locks
	id     lock.ID
	token  int64 // of the first lease
}

const fenceRoot = "leasehold/v1"

func newFenced(t *testing.T, o *firestoretest.Options) *fenced {
	t.Helper()
	server := firestoretest.Start(t, o)
	f := &fenced{
		t: t, server: server, store: open(t, server, fenceRoot), client: client(t, server),
		id: lock.ID{Tenant: "a/b", Key: "k"},
	}
	f.locks = lock.New(f.store, nil)
	f.token = f.acquire("ann")
	return f
}

func (f *fenced) acquire(owner string) (token int64) {
	f.t.Helper()
	o, err := f.locks.Acquire(f.t.Context(), lock.Acquire{
		ID: f.id, Owner: owner, RequestID: owner, TTLSeconds: 60, Metadata: map[string]string{"__a__": "1"},
	})
	if err != nil || o.Code != lock.OK {
		f.t.Fatalf("acquire for %s: %+v, error %v", owner, o, err)
	}
	return o.Lease.Token
}

func (f *fenced) release() {
	f.t.Helper()
	o, err := f.locks.Release(f.t.Context(), lock.Release{ID: f.id, Owner: "ann", Token: f.token, RequestID: "e1"})
	if err != nil || o.Code != lock.OK {
		f.t.Fatalf("release: %+v, error %v", o, err)
	}
}

// effect is a transaction that writes while the fence lets it. Between, if not nil, runs after each pass of the fence.
func (f *fenced) effect(owner string, token int64, between func()) error {
	return f.client.RunTransaction(f.t.Context(), func(_ context.Context, tx *sdk.Transaction) error {
		if err := gcpfirestore.Fence(f.client, tx, fenceRoot, lock.WhileHeld(f.id, owner, token)); err != nil {
			return err
		}
		if between != nil {
			between()
		}
		return tx.Set(f.client.Doc("effects/x"), map[string]any{"by": owner})
	})
}

// done reports whether the effect is there.
func (f *fenced) done() bool {
	f.t.Helper()
	_, err := f.client.Doc("effects/x").Get(f.t.Context())
	if err != nil && status.Code(err) != codes.NotFound {
		f.t.Fatal(err)
	}
	return err == nil
}

// TestFence: LS-FENCE-001.
func TestFence(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *fenced)
		owner  string
		later  int64 // than the token of the first lease
		passes bool
	}{
		"held":            {nil, "ann", 0, true},
		"another owner":   {nil, "bob", 0, false},
		"another token":   {nil, "ann", 1, false},
		"released":        {func(f *fenced) { f.release() }, "ann", 0, false},
		"taken over":      {func(f *fenced) { f.release(); f.acquire("bob") }, "ann", 0, false},
		"nearly expired":  {func(f *fenced) { f.server.SetClockOffset(59 * time.Second) }, "ann", 0, true},
		"expired":         {func(f *fenced) { f.server.SetClockOffset(time.Minute) }, "ann", 0, false},
		"never there":     {func(f *fenced) { f.id.Key = "other" }, "ann", 0, false},
		"same key, other": {func(f *fenced) { f.id.Tenant = "a" }, "ann", 0, false},
	} {
		for mode := range modes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				f := newFenced(t, &firestoretest.Options{Mode: modes[mode]})
				if c.before != nil {
					c.before(f)
				}
				err := f.effect(c.owner, f.token+c.later, nil)
				fence, refused := errors.AsType[*gcpfirestore.FenceError](err)
				if refused == c.passes || c.passes && err != nil {
					t.Errorf("error %v, want to pass: %v", err, c.passes)
				}
				if refused && (fence.Key.ID != f.id.Key || fence.At.IsZero() ||
					!strings.Contains(err.Error(), fence.Key.String())) {
					t.Errorf("the error is %#v", fence)
				}
				if refused && (fence.Found == nil) != (f.id != lock.ID{Tenant: "a/b", Key: "k"}) {
					t.Errorf("the document found is %v", fence.Found)
				}
				if f.done() != c.passes {
					t.Errorf("the effect is there: %v, want %v", f.done(), c.passes)
				}
			})
		}
	}
}

// TestFenceHoldsUntilCommit: a lease that ends between the fence and the commit. In optimistic mode the transaction
// finds out when it commits; in pessimistic mode the end of the lease waits for the transaction.
func TestFenceHoldsUntilCommit(t *testing.T) {
	t.Run("optimistic", func(t *testing.T) {
		f := newFenced(t, &firestoretest.Options{Mode: firestoretest.Optimistic})
		tries := 0
		err := f.effect("ann", f.token, func() {
			tries++
			f.release()
			f.acquire("bob")
		})
		fence, ok := errors.AsType[*gcpfirestore.FenceError](err)
		if !ok || tries != 1 || f.done() || fence.Found["owner_id"] != docstore.String("bob") {
			t.Errorf("error %v after %d tries, effect %v", err, tries, f.done())
		}
		metadata, _ := fence.Found["metadata"].(docstore.Map)
		if metadata["__a__"] != "1" {
			t.Errorf("the document found is %v", fence.Found)
		}
	})
	t.Run("pessimistic", func(t *testing.T) {
		f := newFenced(t, nil)
		released := make(chan bool)
		err := f.effect("ann", f.token, func() {
			go func() {
				f.release()
				close(released)
			}()
			waitFor(t, func() bool { return f.server.Waiting() > 0 })
		})
		if err != nil || !f.done() {
			t.Errorf("error %v, effect %v, want it before the release", err, f.done())
		}
		<-released
	})
}

// TestFenceRefuses what cannot work, before it reads.
func TestFenceRefuses(t *testing.T) {
	f := newFenced(t, nil)
	held := lock.WhileHeld(f.id, "ann", f.token)
	for name, c := range map[string]struct {
		root  string
		write docstore.Write
		want  string
	}{
		"root": {"leasehold", held, "names a collection"},
		"key":  {fenceRoot, docstore.Write{}, "kind"},
		"a change": {fenceRoot, docstore.Write{Key: held.Key, Unset: []string{"token"}},
			"leave Set, Add, Unset, Keep and Delete empty"},
		"an end": {fenceRoot, docstore.Write{Key: held.Key, Keep: time.Hour},
			"leave Set, Add, Unset, Keep and Delete empty"},
		"deletion": {fenceRoot, docstore.Write{Key: held.Key, If: held.If, Delete: true},
			"leave Set, Add, Unset, Keep and Delete empty"},
		"long keys": {fenceRoot, docstore.Write{Key: docstore.Key{Kind: "locks", ID: strings.Repeat("/", 1000)}},
			"4000 bytes"},
	} {
		f.server.ResetCounts()
		err := f.client.RunTransaction(t.Context(), func(_ context.Context, tx *sdk.Transaction) error {
			return gcpfirestore.Fence(f.client, tx, c.root, c.write)
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || f.server.Count("BatchGetDocuments") != 0 {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	// After a write, Firestore allows no read.
	err := f.client.RunTransaction(t.Context(), func(_ context.Context, tx *sdk.Transaction) error {
		if err := tx.Set(f.client.Doc("effects/x"), map[string]any{}); err != nil {
			return err
		}
		return gcpfirestore.Fence(f.client, tx, fenceRoot, held)
	})
	if err == nil || f.done() {
		t.Errorf("after a write: error %v", err)
	}
}
