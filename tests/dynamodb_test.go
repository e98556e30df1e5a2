package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// dynamoClient is the real SDK, with its own rules for trying again switched on, as a program has it.
func dynamoClient(url string, transport http.RoundTripper) *sdk.Client {
	o := sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("local",
			"local", ""),
	}
	if transport != nil {
		o.HTTPClient = &http.Client{Transport: transport}
	}
	return sdk.New(o)
}

// openDynamo opens a store in a table, which it creates.
func openDynamo(t testing.TB, client *sdk.Client, table string, o awsdynamodb.Options) *awsdynamodb.Store {
	t.Helper()
	o.Client, o.CreateTable = client, true
	s, err := awsdynamodb.Open(t.Context(), table, &o)
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

// overNetwork is an emulator of its own for each store of a suite, behind a socket.
func overNetwork(t *testing.T) (*dynamodbtest.Server, *sdk.Client) {
	t.Helper()
	server := dynamodbtest.Start(t, nil)
	return server, dynamoClient(server.URL, nil)
}

// faultyDynamoDB opens a store on an emulator that loses requests and responses.
func faultyDynamoDB(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
	t.Helper()
	kinds := map[suite.Fate]dynamodbtest.Kind{
		suite.LostRequest: dynamodbtest.DropBefore, suite.LostResponse: dynamodbtest.DropAfter,
		suite.AppliedThenError: dynamodbtest.FailAfter, suite.AppliedLate: dynamodbtest.DelayResponse,
	}
	server, client := overNetwork(t)
	var injected *dynamodbtest.Injection
	faults := suite.Faults{
		Next: func(_ *testing.T, f suite.Fate) {
			fault := dynamodbtest.Fault{Kind: kinds[f], Times: 1, Match: func(r dynamodbtest.Request) bool {
				return r.Op == "UpdateItem" || r.Op == "TransactWriteItems"
			}}
			if f == suite.AppliedLate {
				fault.Delay = time.Minute // the caller gives up long before
			}
			injected = server.Inject(fault)
		},
		Met: func() bool { return injected.Hits() > 0 },
		Settle: func(t *testing.T) {
			t.Helper()
			if injected.Hits() != 1 {
				t.Errorf("the fault happened %d times", injected.Hits())
			}
		},
	}
	return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now}), faults
}

// TestMachineIDRequestsOnDynamoDB: what a lease costs, in requests and in units that are billed, on a page with none
// leased and with all but one.
func TestMachineIDRequestsOnDynamoDB(t *testing.T) {
	t.Parallel()
	server, client := overNetwork(t)
	clock := suite.NewClock()
	config := machineid.DefaultService()
	config.BitTs, config.BitID = config.BitTs+6, config.BitID-6 // one page
	store := openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: clock.Now})
	s, err := machineid.New(store, []machineid.ServiceConfig{config}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lease := func() string {
		server.ResetCounts()
		before := server.Consumed()
		if r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil || len(r.Leases) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		now := server.Consumed()
		return fmt.Sprintf("%v, %v read and %v write units", server.Requests(), now.Read-before.Read, now.Write-before.Write)
	}
	lease() // it sets the space up
	if got, want := lease(), "map[GetItem:1 UpdateItem:1], 1 read and 1 write units"; got != want {
		t.Errorf("a page with one lease: %s, want %s", got, want)
	}
	for range 125 {
		lease()
	}
	if got, want := lease(), "map[GetItem:1 UpdateItem:1], 1 read and 4 write units"; got != want {
		t.Errorf("a page with one machine ID left: %s, want %s", got, want)
	}
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.As(err, new(*kazahana.ExhaustedError)) {
		t.Errorf("the page was not full: %v", err)
	}
}

// TestPlacementRequestsOnDynamoDB: what a step costs, in requests and in units that are billed.
func TestPlacementRequestsOnDynamoDB(t *testing.T) {
	t.Parallel()
	server, client := overNetwork(t)
	clock := suite.NewClock()
	store := openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: clock.Now})
	want := map[string]string{
		"placed by a known epoch":       "map[], 0 read and 0 write units",
		"looked up":                     "map[TransactGetItems:1], 6 read and 0 write units",
		"claimed":                       "map[TransactGetItems:1 TransactWriteItems:1], 6 read and 6 write units",
		"claimed again":                 "map[TransactGetItems:1], 6 read and 0 write units",
		"activated":                     "map[TransactWriteItems:1], 0 read and 6 write units",
		"state":                         "map[UpdateItem:1], 0 read and 1 write units",
		"first alarm":                   "map[GetItem:1 TransactWriteItems:1 UpdateItem:1], 1 read and 5 write units",
		"alarm":                         "map[TransactWriteItems:1], 0 read and 4 write units",
		"state with an alarm":           "map[TransactWriteItems:1], 0 read and 4 write units",
		"state with an alarm for later": "map[UpdateItem:1], 0 read and 1 write units",
		"state, alarm cleared":          "map[UpdateItem:1], 0 read and 1 write units",
		"alarm for later":               "map[UpdateItem:1], 0 read and 1 write units",
		"alarm for earlier":             "map[TransactWriteItems:1], 0 read and 4 write units",
		"looked for an alarm for later": "map[GetItem:2 Query:4 TransactWriteItems:1], 6 read and 6 write units",
		"looked for alarms":             "map[GetItem:2 Query:4 TransactWriteItems:1], 6 read and 8 write units",
		"looked for alarms, none due":   "map[Query:2], 2 read and 0 write units",
		"alarm cleared":                 "map[UpdateItem:1], 0 read and 1 write units",
		"deactivated":                   "map[TransactWriteItems:1], 0 read and 4 write units",
		"heartbeat":                     "map[UpdateItem:1], 0 read and 1 write units",
		"topology":                      "map[GetItem:1], 1 read and 0 write units",
		"events, none new":              "map[Query:1], 1 read and 0 write units",
		"joined":                        "map[TransactGetItems:1 TransactWriteItems:1], 6 read and 12 write units",
	}
	var units dynamodbtest.Units
	suite.PlacementSteps(t, store, clock, func() { server.ResetCounts(); units = server.Consumed() }, func(step string) {
		now := server.Consumed()
		got := fmt.Sprintf("%v, %v read and %v write units", server.Requests(), now.Read-units.Read, now.Write-units.Write)
		if got != want[step] {
			t.Errorf("%s: %s, want %s", step, got, want[step])
		}
	})
}

// TestPlacementUnitsAtScale: what changes of the members cost on DynamoDB with a thousand of them and 16 384
// partitions: each join, the largest step of all, and a replacement of every member, one after the other.
func TestPlacementUnitsAtScale(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	const members = 1000
	server := dynamodbtest.New(nil)
	clock := suite.NewClock()
	store := openDynamo(t, dynamoClient("http://dynamodb.test", server.RoundTripper()), "leasehold",
		awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: clock.Now})
	s := placement.New(store, &placement.Options{Now: clock.Now, Sleep: clock.Sleep})
	chat := placement.Cluster{Tenant: "acme", Name: "chat"}
	before := server.Consumed().Write
	units := func(o placement.MemberOutcome, err error) (placement.Incarnation, float64) {
		t.Helper()
		if err != nil || o.Code != placement.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		clock.Advance(37 * time.Millisecond)
		n := server.Consumed().Write
		before, n = n, n-before
		return o.Incarnation, n
	}
	join := func(i int, replaces placement.Incarnation) (placement.Incarnation, float64) {
		return units(s.Join(t.Context(), placement.Join{
			Cluster: chat, Member: fmt.Sprintf("chat-7d9f8b6c5-%05x", i*7919%0x100000), RequestID: "j", TTL: time.Hour,
			Address: fmt.Sprintf("10.%d.%d.%d:9000", i%4, i/4%200, i%251), Partitions: 16384, Replaces: replaces,
			Offer: placement.Offer{Kinds: []string{"room", "user"},
				Labels: map[string]string{"zone": "eu-west-1" + "abc"[i%3:i%3+1]}},
		}))
	}
	var alive []placement.Incarnation
	var joins, most, last float64
	for i := range members {
		m, n := join(i, placement.Incarnation{})
		alive, joins, most, last = append(alive, m), joins+n, max(most, n), n
	}
	_, leave := units(s.Leave(t.Context(), chat, alive[members-1]))
	var replacement float64
	for i, old := range alive[:members-1] {
		_, n := join(members+i, old)
		_, left := units(s.Leave(t.Context(), chat, old))
		replacement, most = replacement+n+left, max(most, n, left)
	}
	got := fmt.Sprintf("joins %v, the last %v, most %v, a leave %v, replacement %v", joins, last, most, leave, replacement)
	if want := "joins 15787, the last 16, most 22, a leave 16, replacement 37962"; got != want {
		t.Errorf("write units: %s, want %s", got, want)
	}
	if most > 50 || replacement > 300*1000 {
		t.Errorf("a change of %v write units, a replacement of all members of %v", most, replacement)
	}
}

// TestPlacementUnitsOfMostMembers: what it costs on DynamoDB when 24 members join at once, one after the other and
// waiting for each other, and what a change and a process that knows nothing cost in a cluster with as many members as
// there may be and 65 536 partitions.
func TestPlacementUnitsOfMostMembers(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		store := openDynamo(t, dynamoClient("http://dynamodb.test", server.RoundTripper()), "leasehold",
			awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock})
		alone := placement.New(store, nil)
		waiting := placement.New(store, &placement.Options{JoinDelay: time.Second})
		ctx := context.WithoutCancel(t.Context())
		var before dynamodbtest.Units
		units := func() (read, write float64) {
			n := server.Consumed()
			read, write, before = n.Read-before.Read, n.Write-before.Write, n
			return read, write
		}
		join := func(s *placement.Service, cluster string, i int) placement.MemberOutcome {
			o, err := s.Join(ctx, placement.Join{
				Cluster: placement.Cluster{Tenant: "acme", Name: cluster}, Member: fmt.Sprintf("chat-7d9f8b6c5-%05x", i*7919),
				RequestID: "j", TTL: time.Hour, Partitions: placement.MaxPartitions,
				Address: fmt.Sprintf("10.%d.%d.%d:9000", i%4, i/4%200, i%251),
				Offer: placement.Offer{Kinds: []string{"room", "user"},
					Labels: map[string]string{"zone": "eu-west-1" + "abc"[i%3:i%3+1]}},
			})
			if err != nil || o.Code != placement.OK {
				t.Errorf("%+v, %v", o, err)
			}
			return o
		}
		together := func(cluster string, first, many int) {
			var done sync.WaitGroup
			for i := range many {
				done.Go(func() { join(waiting, cluster, first+i) })
			}
			done.Wait()
		}
		// two clusters with a thousand members get 24 more
		for _, cluster := range []string{"chat", "alone"} {
			together(cluster, 0, 1000)
		}
		units()
		together("chat", 1000, 24)
		_, ofGroup := units()
		for i := range 24 {
			join(alone, "alone", 1000+i)
		}
		_, ofEach := units()
		if t.Logf("24 joins: %v write units together, %v one by one", ofGroup, ofEach); ofGroup > 170 || ofEach < 3*ofGroup {
			t.Errorf("24 joins took %v write units together, %v one by one", ofGroup, ofEach)
		}
		const most = placement.MaxMembers
		for n := 1024; n < most-1; n += 24 * 8 {
			together("chat", n, min(24*8, most-1-n))
		}
		units()
		last := join(alone, "chat", most)
		_, ofJoin := units()
		chat := placement.Cluster{Tenant: "acme", Name: "chat"}
		if o, err := alone.Leave(ctx, chat, last.Incarnation); err != nil || o.Code != placement.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		_, ofLeave := units()
		top, err := placement.New(store, nil).Topology(ctx, chat)
		if err != nil || len(top.Members) != most-1 {
			t.Fatal(err)
		}
		ofRead, _ := units()
		t.Logf("a join %v, a leave %v write units; all members %v read units", ofJoin, ofLeave, ofRead)
		if ofJoin > 34 || ofLeave > 34 || ofRead > 280 {
			t.Errorf("a join took %v write units, a leave %v, all members %v read units", ofJoin, ofLeave, ofRead)
		}
	})
}
