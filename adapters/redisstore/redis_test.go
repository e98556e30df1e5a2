package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store { return open(t, server, nil) }, exceptions(server)...)
	})
}

// TestHistoriesOfAFailingServer: commands and responses are lost between the store and its server.
func TestHistoriesOfAFailingServer(t *testing.T) {
	t.Parallel()
	fates := map[docstoretest.Fate]redistest.Fate{
		docstoretest.LostRequest: redistest.LostRequest, docstoretest.LostResponse: redistest.LostResponse,
		docstoretest.AppliedThenError: redistest.ReturnsError,
	}
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		docstoretest.RunFaults(t, func(t *testing.T) (docstore.Store, docstoretest.Meet) {
			return open(t, server, nil), func(f docstoretest.Fate, text string) {
				server.InjectInto(fates[f], "EVALSHA", text)
			}
		})
	})
}

// exceptions are what the stand-in cannot do; the real server has none.
func exceptions(server *redistest.Server) []docstoretest.Exception {
	if server.Real {
		return nil
	}
	return []docstoretest.Exception{{
		Check:  "ListOrder",
		Reason: "miniredis 2.40 takes the bounds (- and [- of ZRANGE BYLEX, which name the ID \"-\", for the bound - of the whole range",
	}}
}

var prefixes atomic.Int64

// open opens an empty store for one test, which closes it: with a prefix of its own, unless the options name one.
func open(t testing.TB, server *redistest.Server, o *redisstore.Options) *redisstore.Store {
	t.Helper()
	var options redisstore.Options
	if o != nil {
		options = *o
	}
	if options.Client == nil && options.Addr == "" { // the server is nil where there are several
		options.Addr = server.URL()
	}
	if options.Prefix == "" {
		options.Prefix = fmt.Sprint("test-", prefixes.Add(1))
	}
	s, err := redisstore.Open(t.Context(), &options)
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

// onConnect is for a client that is brought along.
func onConnect(t *testing.T, prefix string) func(context.Context, *sdk.Conn) error {
	t.Helper()
	f, err := redisstore.OnConnect(prefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func key(id string) docstore.Key { return docstore.Key{Kind: "locks", Tenant: "acme", ID: id} }
