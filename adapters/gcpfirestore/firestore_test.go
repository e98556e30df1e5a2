package gcpfirestore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

const project = "test"

var modes = map[string]firestoretest.Mode{"pessimistic": firestoretest.Pessimistic,
	"optimistic": firestoretest.Optimistic}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				return open(t, firestoretest.Start(t, &firestoretest.Options{Mode: mode}), "")
			})
		})
	}
}

// TestConformanceOfShards: the same with documents in the shards of an index, for processes with the default number and
// with more.
func TestConformanceOfShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{8, 64} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			t.Parallel()
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				return openWith(t, firestoretest.Start(t, nil), gcpfirestore.Options{Due: []string{"until"}, IndexShards: shards})
			})
		})
	}
}

// TestHistoriesOfAFailingService: Commits and their responses are lost between the store and the service.
func TestHistoriesOfAFailingService(t *testing.T) {
	t.Parallel()
	effects := map[docstoretest.Fate]firestoretest.Effect{
		docstoretest.LostRequest:      firestoretest.Fail{Code: codes.Unavailable},
		docstoretest.LostResponse:     firestoretest.ApplyThenFail{Code: codes.Unavailable},
		docstoretest.AppliedThenError: firestoretest.ApplyThenFail{Code: codes.Internal},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docstoretest.RunFaults(t, func(t *testing.T) (docstore.Store, docstoretest.Meet) {
				server := firestoretest.Start(t, &firestoretest.Options{Mode: mode})
				return open(t, server, ""), func(f docstoretest.Fate, text string) {
					server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: effects[f],
						Match: func(m proto.Message) bool { return strings.Contains(fmt.Sprint(m), text) }})
				}
			})
		})
	}
}

// open opens a store on an emulator for one test, which closes it.
func open(t *testing.T, server *firestoretest.Server, root string) *gcpfirestore.Store {
	t.Helper()
	return openWith(t, server, gcpfirestore.Options{Root: root})
}

func openWith(t *testing.T, server *firestoretest.Server, o gcpfirestore.Options) *gcpfirestore.Store {
	t.Helper()
	o.Project, o.ClientOptions = project, server.ClientOptions()
	s, err := gcpfirestore.Open(t.Context(), &o)
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

// client opens the ordinary client library on an emulator for one test, which closes it.
func client(t *testing.T, server *firestoretest.Server) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(t.Context(), project, server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func key(id string) docstore.Key { return docstore.Key{Kind: "locks", Tenant: "acme", ID: id} }

// waitFor waits for a state of the emulator that the test has already brought about and that only needs to arrive:
// there are sockets in between, which no fake clock moves. The bound is there so that a state that never arrives fails
// the test.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}
