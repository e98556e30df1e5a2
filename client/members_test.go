package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// sending counts the bytes of the bodies that a server sends.
type sending struct {
	http.ResponseWriter

	bytes *int
}

func (w sending) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	*w.bytes += n
	return n, err
}

// reading counts the bytes of the fields that are read of documents.
type reading struct {
	docstore.Store

	bytes *int
}

func (s reading) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	snap, err := s.Store.Get(ctx, keys...)
	for _, d := range snap.Docs {
		for _, v := range d {
			switch v := v.(type) {
			case docstore.Bytes:
				*s.bytes += len(v)
			case docstore.String:
				*s.bytes += len(v)
			default:
				*s.bytes += 8
			}
		}
	}
	return snap, err
}

// grown makes a cluster that has so many members, which joined together as far as they can.
func grown(t *testing.T, store docstore.Store, chat placement.Cluster, members int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // joins wait for each other, for a second of its time
		s := placement.New(store, &placement.Options{JoinDelay: time.Second})
		const together = 192
		for first := 0; first < members; first += together {
			var done sync.WaitGroup
			for i := first; i < min(members, first+together); i++ {
				done.Go(func() {
					o, err := s.Join(t.Context(), joinOf(chat, i))
					if err != nil || o.Code != placement.OK {
						t.Errorf("%+v, %v", o, err)
					}
				})
			}
			done.Wait()
		}
	})
}

// joinOf is the join of a member of a cluster of many.
func joinOf(chat placement.Cluster, i int) placement.Join {
	return placement.Join{Cluster: chat, Member: fmt.Sprint("member-", i), RequestID: "j", TTL: time.Hour, Partitions: 1024,
		Address: fmt.Sprintf("10.0.%d.%d:9000", i/250, i%250), Offer: placement.Offer{Kinds: []string{"room"}}}
}

// TestFollowingMembers: PLC-PLACE-2. What a locator reads when one member of a thousand, or of 5000, has joined, or
// left, through a server and on a store, is what changed; and the list that it has is the one that it would read whole.
func TestFollowingMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		members int
		all     int // bytes at most over HTTP, of all members
		whole   int // and of the store
		store   int // and of a member that joins
	}{
		"1000": {996, 12_000, 160_000, 1500}, "5000": {placement.MaxMembers - 4, 60_000, 900_000, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := suite.NewClock()
			memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
			chat := placement.Cluster{Tenant: "acme", Name: "chat"}
			service := func(s docstore.Store) *placement.Service {
				return placement.New(s, &placement.Options{Now: clock.Now})
			}
			writer := service(memory)
			join := func(i int) placement.Incarnation {
				t.Helper()
				clock.Advance(time.Millisecond)
				o, err := writer.Join(t.Context(), joinOf(chat, i))
				if err != nil || o.Code != placement.OK {
					t.Fatalf("%+v, %v", o, err)
				}
				return o.Incarnation
			}
			grown(t, memory, chat, c.members)
			join(c.members)
			var wire, stored int
			api := contracttest.Handler(t, httpapi.New(memory, httpapi.Development{}, nil))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				api.ServeHTTP(sending{w, &wire}, r)
			}))
			t.Cleanup(server.Close)
			overHTTP := placements(t, server.URL, nil)
			onStore := direct.Cluster(service(reading{memory, &stored}), chat)
			follow := func(p cluster.Provider) contracts.MemberList {
				t.Helper()
				wire, stored = 0, 0
				list, err := p.Members(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return list
			}
			same := func(what string, most, mostStored int) {
				t.Helper()
				got := follow(overHTTP)
				over := wire
				want := follow(onStore)
				t.Logf("%s: %d bytes over HTTP, %d of the store", what, over, stored)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: epoch %d with %d members, want %d with %d", what, got.Epoch, len(got.Members), want.Epoch,
						len(want.Members))
				}
				if over > most || stored > mostStored {
					t.Errorf("%s: want %d and %d at most", what, most, mostStored)
				}
			}
			same("all", c.all, c.whole)
			same("nothing changed", 0, 100)
			first := join(c.members + 1)
			same("one joined", 300, c.store)
			join(c.members + 2)
			if o, err := writer.Leave(t.Context(), chat, first); err != nil || o.Code != placement.OK {
				t.Fatalf("%+v, %v", o, err)
			}
			join(c.members + 3)
			same("two joined and one left", 600, 3*c.store)
		})
	}
}

// TestMembersOfAnEpochThatWasNotNamed: a response that says what changed since another epoch than the one that is known
// is not taken.
func TestMembersOfAnEpochThatWasNotNamed(t *testing.T) {
	s := &tagged{tag: `"1"`, body: membersBody}
	p := chat(t, s)
	if _, err := p.Members(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, since := range []string{`"epoch":3,"since":2`, `"epoch":2,"since":1,"gone":["w1"]`} {
		s.tag, s.body = `"`+since+`"`, strings.Replace(membersBody, `"epoch":1`, since, 1)
		got, err := p.Members(t.Context())
		if wrong := strings.Contains(since, `"since":2`); (err != nil) != wrong || !wrong && len(got.Members) != 1 {
			t.Errorf("%s: %+v, %v", since, got, err)
		}
	}
	none := chat(t, &tagged{tag: `"1"`, body: s.body})
	if got, err := none.Members(t.Context()); err == nil {
		t.Errorf("it was not asked for changes: %+v", got)
	}
}
