package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// weighed counts the bytes of responses with events, those of the events in them, and those of responses without
// any, which are counted as well.
type weighed struct{ responses, all, events, empty, none atomic.Int64 }

// through is the way to a server whose responses are weighed.
type through struct {
	*weighed

	server http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (w through) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.server.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/events") {
		return res, err
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(text))
	var page struct{ Events []json.RawMessage }
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	w.responses.Add(1)
	w.all.Add(int64(len(text)))
	if len(page.Events) == 0 {
		w.empty.Add(1)
		w.none.Add(int64(len(text)))
	}
	for _, e := range page.Events {
		w.events.Add(int64(len(e)))
	}
	return res, nil
}

// timed is a host that knows how long ago what it serves was claimed.
type timed struct {
	mu      sync.Mutex
	claimed map[string]time.Time
	took    []time.Duration
}

func (h *timed) Activate(_ context.Context, a cluster.Activation) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, time.Since(h.claimed[a.ID]))
	return nil
}

func (*timed) Deactivate(context.Context, cluster.Activation, error) {}

// TestCostOfFollowing: members that follow events over HTTP get what they need and at most as much again, however many
// they are, and serve what was claimed for them within about a second. The store is read once a second for each server.
// With -v, and for all sizes LEASEHOLD_TEST_DEEP=1, it prints the table of docs/guides/placement.md.
func TestCostOfFollowing(t *testing.T) {
	t.Parallel()
	const (
		perServer = 100 // fewer than may wait on a server
		seconds   = 20
	)
	for _, size := range suite.AtDepth([][2]int{{10, 1}, {50, 50}}, [][2]int{{10, 1}, {50, 50}, {300, 20}, {1000, 100}}) {
		members, rate := size[0], size[1]
		t.Run(fmt.Sprint(members, " x ", rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, w, host := &counted{Store: docstore.NewMemory(nil)}, &weighed{}, &timed{claimed: map[string]time.Time{}}
				servers := 0
				var server *inProcess
				for i := range members {
					if i%perServer == 0 {
						servers++
						server = &inProcess{Handler: httpapi.New(store, httpapi.Development{}, nil)}
					}
					s, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: through{w, server}}})
					if err != nil {
						t.Fatal(err)
					}
					m, err := cluster.NewMember(s.Placements("acme", "chat"), fmt.Sprint("member-", i), host,
						&cluster.Options{Kinds: []string{"room"}, TTL: time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					defer m.Stop(context.WithoutCancel(t.Context()))
				}
				time.Sleep(time.Minute) // until no event of a join is young
				before := [...]int64{w.responses.Load(), w.all.Load(), w.none.Load(), w.events.Load(), store.lists.Load(),
					w.empty.Load()}
				callers := placement.New(store, nil)
				for i := range rate * seconds {
					id := fmt.Sprint("room-", i)
					host.mu.Lock()
					host.claimed[id] = time.Now()
					host.mu.Unlock()
					o, err := callers.Claim(t.Context(), placement.Claim{Cluster: placement.Cluster{Tenant: "acme", Name: "chat"},
						Identity: placement.Identity{Kind: "room", ID: id}, RequestID: "c"})
					if err != nil || o.Code != placement.OK {
						t.Fatalf("%+v, %v", o, err)
					}
					time.Sleep(time.Second / time.Duration(rate))
				}
				time.Sleep(3 * time.Second) // for the last ones
				per := func(n int64) float64 { return float64(n) / float64(members) / (seconds + 3) }
				responses, all := w.responses.Load()-before[0], w.all.Load()-before[1]
				empty := w.empty.Load() - before[5]
				none, events, lists := w.none.Load()-before[2], w.events.Load()-before[3], store.lists.Load()-before[4]
				slices.Sort(host.took)
				n := len(host.took)
				if n != rate*seconds {
					t.Fatalf("%d of %d claims were served", n, rate*seconds)
				}
				p50, p99 := host.took[n/2].Round(10*time.Millisecond), host.took[n*99/100].Round(10*time.Millisecond)
				t.Logf("| %d × %d | %.0f | %.0f | %.2f | %.2f s | %.2f s | %.1f |", members, rate, per(all), per(events),
					float64(responses)/float64(members)/(seconds+3), p50.Seconds(), p99.Seconds(),
					float64(lists)/float64(servers)/(seconds+3))
				if all-none > 2*events {
					t.Errorf("%d bytes of responses for %d bytes of events", all-none, events)
				}
				// a member is told after 8 s that there is nothing, in so few bytes
				if empty > int64(members)*(seconds+3)/8+int64(members) || none > 250*empty {
					t.Errorf("%d responses without events have %d bytes", empty, none)
				}
				if p99 > 1100*time.Millisecond {
					t.Errorf("99 of 100 claims are served within %v", p99)
				}
			})
		})
	}
}

// TestCostOfALook: what one look at the events of a cluster costs on the stores that bill by use, when there are none
// and when a hundred are young: the figures of docs/guides/placement.md. It is the same for one who follows and for
// many.
func TestCostOfALook(t *testing.T) {
	t.Parallel()
	db, documents := dynamodbtest.Start(t, nil), firestoretest.Start(t, nil)
	for name, c := range map[string]struct {
		store       docstore.Store
		reset       func()
		units       func() float64 // of reading
		none, young float64
	}{
		"dynamodb": {openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "locks", awsdynamodb.Options{}),
			db.ResetCounts, func() float64 { return db.Consumed().Read }, 1, 6},
		"firestore": {openFirestore(t, &gcpfirestore.Options{Project: "demo", ClientOptions: documents.ClientOptions()}),
			documents.ResetCounts, func() float64 {
				reads, _ := documents.Billed()
				return float64(reads)
			}, 1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			chat := placement.Cluster{Tenant: "acme", Name: "chat"}
			s := placement.New(c.store, nil)
			look := func() float64 {
				t.Helper()
				c.reset()
				fresh := placement.New(c.store, nil) // which has not looked yet
				if _, err := fresh.Events(t.Context(), chat, placement.EventQuery{Member: "ann"}); err != nil {
					t.Fatal(err)
				}
				return c.units()
			}
			if got := look(); got != c.none {
				t.Errorf("%v units when there is nothing, want %v", got, c.none)
			}
			o, err := s.Join(t.Context(), placement.Join{Cluster: chat, Member: "ann", RequestID: "j", TTL: time.Minute,
				Offer: placement.Offer{Kinds: []string{"room"}}})
			if err != nil || o.Code != placement.OK {
				t.Fatalf("%+v, %v", o, err)
			}
			for i := range 99 {
				if _, err := s.Claim(t.Context(), placement.Claim{Cluster: chat, RequestID: "c",
					Identity: placement.Identity{Kind: "room", ID: strconv.Itoa(i)}}); err != nil {
					t.Fatal(err)
				}
			}
			got := look()
			t.Logf("%v units for a hundred events", got)
			if got > c.young {
				t.Errorf("%v units for a hundred events, want %v at most", got, c.young)
			}
		})
	}
}
