package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/cluster/clustertest"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// wire connects a process to a server, until it is cut.
type wire struct {
	http.RoundTripper

	cut atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (c *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("the process has ended")
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestPlacementOnEveryStore: through each server, and each store, members join, a room is served by one of them, and
// after that has died by the other, with a higher token and the state (PLC-ONE-1, PLC-ONE-5). The events are as their
// readers need them.
func TestPlacementOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, backend := range backends {
		t.Run("serve, "+name, func(t *testing.T) {
			t.Parallel()
			env, args := backend(t)
			p := serve(t, env, args...)
			handOver(t, p.url, http.DefaultTransport, "acme", "")
		})
	}
	t.Run("Cloud Function", func(t *testing.T) {
		t.Parallel()
		emulator := firestoretest.Start(t, nil)
		f := startFunction(t, build(t, "functions/gcp/local"), "API", "GOOGLE_CLOUD_PROJECT=demo",
			"FIRESTORE_EMULATOR_HOST="+emulator.Addr(), "LEASEHOLD_DEVELOPMENT=1")
		handOver(t, f.url, http.DefaultTransport, "acme", "")
	})
	t.Run("Lambda behind an HTTP API", func(t *testing.T) {
		t.Parallel()
		api := startHTTPAPI(t, 6)
		handOver(t, "http://api.example", api, "acme", "svc-deploy#")
	})
}

// handOver lets two members of a name that begins so join over HTTP, and one of them die.
func handOver(t *testing.T, url string, transport http.RoundTripper, tenant, prefix string) {
	t.Helper()
	ctx, end := context.WithTimeout(unhurried(t), failAfter)
	defer end()
	placements := func(c *wire) *client.Placements {
		s, err := client.New(url, &client.Options{HTTP: &http.Client{Transport: c}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Placements(tenant, "chat")
	}
	clusters := 0
	t.Run("events", func(t *testing.T) {
		clustertest.Events(t, func(t *testing.T) (cluster.Provider, func(time.Duration)) {
			clusters++
			s, err := client.New(url, &client.Options{HTTP: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			return s.Placements(tenant, fmt.Sprint("events", clusters)), nil
		}, prefix+"ann", prefix+"bob")
	})
	served, wires, members := noting(make(chan cluster.Activation, 10)), map[string]*wire{}, map[string]*cluster.Member{}
	for _, name := range []string{prefix + "ann", prefix + "bob"} {
		wires[name] = &wire{RoundTripper: transport}
		m, err := cluster.NewMember(placements(wires[name]), name, served,
			&cluster.Options{Kinds: []string{"room"}, Partitions: 16, TTL: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		members[name] = m
	}
	chat := placements(&wire{RoundTripper: transport})
	l := cluster.NewLocator(chat, nil)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	id := cluster.Identity{Kind: "room", ID: "lobby"}
	first, err := l.Activate(ctx, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := <-served; a.Token != first.Token || members[first.Member] == nil {
		t.Fatalf("%+v is served, %+v was found", a, first)
	}
	if err := members[first.Member].WriteState(ctx, id, []byte("one")); err != nil {
		t.Fatal(err)
	}

	wires[first.Member].cut.Store(true)
	var second cluster.Location
	for second.Token <= first.Token {
		if second, err = l.Activate(ctx, id, nil); err != nil {
			t.Fatal(err)
		}
		if second.Token == first.Token { // no one is there
			l.Forget(second)
			pauseFor(ctx, 100*time.Millisecond)
		}
	}
	select {
	case a := <-served:
		if a.Token != second.Token || string(a.State) != "one" || second.Member == first.Member {
			t.Errorf("%+v is served, %+v was found, after %+v", a, second, first)
		}
	case <-ctx.Done():
		t.Fatal("it is not served again")
	}
	gone, now := context.WithCancel(ctx)
	now()
	for name, m := range members {
		if name == first.Member {
			_ = m.Stop(gone) // it cannot hand anything over
		} else if err := m.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
}

// startHTTPAPI starts so many instances on a table of their own.
func startHTTPAPI(t *testing.T, instances int, env ...string) *lambdatest.HTTPAPI {
	t.Helper()
	db := dynamodbtest.Start(t, nil)
	openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "locks", awsdynamodb.Options{}) // creates the table
	bootstrap := build(t, "functions/aws/lambda", "-tags", lambdaTags)
	all := make([]*lambdatest.Instance, instances)
	for i := range all {
		all[i] = lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT="+db.URL,
			"LEASEHOLD_FRONT_DOOR=http-api", "LEASEHOLD_AUTH_TENANT=acme")...)
	}
	return lambdatest.NewHTTPAPI(map[string]string{"sub": "svc-deploy", "tenant_id": "acme", "aud": "leasehold",
		"iss": "https://issuer.example"}, all...)
}

// TestLongPollOnLambda: where responses may be held, a request that waits for events as long as it may is responded to
// within the time that an HTTP API has, with the event that comes meanwhile, or without one.
func TestLongPollOnLambda(t *testing.T) {
	t.Parallel()
	api := startHTTPAPI(t, 2, "LEASEHOLD_MAX_WAIT=20s")
	c, err := client.New("http://api.example", &client.Options{HTTP: &http.Client{Transport: api}})
	if err != nil {
		t.Fatal(err)
	}
	chat := c.Placements("acme", "chat")
	wait := suite.AtDepth(2*time.Second, 20*time.Second)
	begin := time.Now()
	page, err := chat.Events(unhurried(t), cluster.EventQuery{Wait: wait})
	if err != nil || len(page.Events) > 0 || time.Since(begin) < wait-time.Second { // looks are a second apart
		t.Errorf("%+v, %v after %v, want nothing after %v", page, err, time.Since(begin), wait)
	}
	told := make(chan error, 1)
	go func() {
		page, err := chat.Events(unhurried(t), cluster.EventQuery{After: page.Next, Wait: 20 * time.Second})
		if err == nil && (len(page.Events) != 1 || page.Events[0].To != "ACTIVE") {
			err = errors.New("another event")
		}
		told <- err
	}()
	m, err := cluster.NewMember(chat, "svc-deploy", noting(nil), &cluster.Options{ServeOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(unhurried(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	if err := m.Stop(unhurried(t)); err != nil {
		t.Error(err)
	}
}
