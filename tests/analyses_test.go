package tests

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest/official"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// makeAnalyses creates analyses in a store, as the producer does.
func makeAnalyses(t *testing.T, store docstore.Store, ids ...analysis.ID) {
	t.Helper()
	for _, id := range ids {
		k := docstore.Key{Kind: analysis.Kind, ID: string(id)}
		// A token that is there is counted up: short numbers are easier to read.
		d := docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(0)}
		if r, err := store.Write(t.Context(), docstore.Write{Key: k, Set: d}); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
}

// counter counts the requests of a command: those since the last reset.
type counter struct {
	reset func()
	count func() map[string]int
}

// costs counts what the commands of the gate cost on a store: applied and rejected, in the store's own requests.
func costs(t *testing.T, store docstore.Store, advance func(time.Duration), c counter, applied,
	rejected map[string]int) {
	t.Helper()
	analyses := analysis.New(store, nil)
	const id = analysis.ID("a1")
	makeAnalyses(t, store, id)
	ctx := t.Context()
	acquire := func(owner, request string) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			return analyses.Acquire(ctx, analysis.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: 10})
		}
	}
	refresh := func(token int64) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			return analyses.Refresh(ctx, analysis.Refresh{ID: id, Owner: "ann", Token: token, TTLSeconds: 10})
		}
	}
	release := func(token int64) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			return analyses.Release(ctx, analysis.Release{ID: id, Owner: "ann", Token: token})
		}
	}
	finish := func(token int64) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			return analyses.Finish(ctx, analysis.Finish{ID: id, Owner: "ann", Token: token, Status: analysis.Ready})
		}
	}
	retry := func(request string) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			return analyses.Retry(ctx, analysis.Retry{ID: id, By: "root", RequestID: request, Reason: "fixed"})
		}
	}
	// failed lets another writer make the analysis FAILED, which is not counted.
	failed := func(do func() (analysis.Outcome, error)) func() (analysis.Outcome, error) {
		return func() (analysis.Outcome, error) {
			k := docstore.Key{Kind: analysis.Kind, ID: string(id)}
			if r, err := store.Write(ctx, docstore.Write{
				Key: k, Set: docstore.Doc{"status": docstore.String("FAILED")}}); err != nil || !r.Applied {
				t.Fatal(r, err)
			}
			c.reset()
			return do()
		}
	}
	for _, step := range []struct {
		name string
		wait time.Duration
		do   func() (analysis.Outcome, error)
		code analysis.Code
		cost map[string]int
	}{
		{"acquire, granted", 0, acquire("bob", "r1"), analysis.OK, applied},
		{"acquire, replayed", 0, acquire("bob", "r1"), analysis.OK, rejected},
		{"acquire, locked", 0, acquire("ann", "r2"), analysis.Locked, rejected},
		{"acquire, stale", 12 * time.Second, acquire("ann", "r2"), analysis.OK, both(rejected, applied)},
		{"acquire, spent", 0, acquire("bob", "r1"), analysis.RequestIDReused, rejected},
		{"refresh", 0, refresh(2), analysis.OK, applied},
		{"refresh, lost", 0, refresh(1), analysis.Lost, rejected},
		{"release, lost", 0, release(1), analysis.Lost, rejected},
		{"release", 0, release(2), analysis.OK, applied},
		{"release, replayed", 0, release(2), analysis.OK, rejected},
		{"acquire, released", 0, acquire("ann", "r3"), analysis.OK, applied},
		{"finish, lost", 0, finish(2), analysis.Lost, rejected},
		{"finish", 0, finish(3), analysis.OK, applied},
		{"finish, replayed", 0, finish(3), analysis.OK, rejected},
		{"acquire, finished", 0, acquire("ann", "r4"), analysis.AlreadyFinished, rejected},
		{"retry, READY", 0, retry("t1"), analysis.NotFailed, rejected},
		{"retry", 0, failed(retry("t1")), analysis.OK, applied},
		{"retry, replayed", 0, retry("t1"), analysis.OK, rejected},
		{"acquire, retried", 0, acquire("ann", "r5"), analysis.OK, applied},
	} {
		advance(step.wait)
		c.reset()
		if o, err := step.do(); err != nil || o.Code != step.code {
			t.Errorf("%s: %+v, %v, want %s", step.name, o, err, step.code)
		}
		if got := c.count(); !maps.Equal(got, step.cost) {
			t.Errorf("%s: took %v, want %v", step.name, got, step.cost)
		}
	}
}

// both is the cost of one command after the other.
func both(a, b map[string]int) map[string]int {
	sum := maps.Clone(a)
	for name, n := range b {
		sum[name] += n
	}
	return sum
}

// sweepCosts counts what sweeps over five stale analyses cost, in pages of two: the first queues them, the second finds
// them queued, and of the one that has nothing to do only the look remains.
func sweepCosts(t *testing.T, store docstore.Store, advance func(time.Duration), c counter, first, second,
	idle map[string]int) {
	t.Helper()
	analyses := analysis.New(store, nil)
	var ids []analysis.ID
	for i := range 5 {
		ids = append(ids, analysis.ID(fmt.Sprint("s", i)))
	}
	makeAnalyses(t, store, ids...)
	sweep := func(name string, want analysis.Swept, cost map[string]int) {
		t.Helper()
		c.reset()
		done, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: everything{}, PageSize: 2})
		if err != nil || done != want {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
		if got := c.count(); !maps.Equal(got, cost) {
			t.Errorf("%s: took %v, want %v", name, got, cost)
		}
	}
	sweep("nothing to do", analysis.Swept{}, idle)
	for _, id := range ids {
		if o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: id, Owner: "ann", RequestID: "r1",
			TTLSeconds: 5}); err != nil || o.Code != analysis.OK {
			t.Fatal(o, err)
		}
	}
	advance(7 * time.Second)
	sweep("five stale", analysis.Swept{Stale: 5, Requeued: 5}, first)
	sweep("again", analysis.Swept{Stale: 5, Skipped: 5}, second)
}

// everything is a queue that takes all.
type everything struct{}

func (everything) Enqueue(context.Context, analysis.ID, string) error { return nil }

// TestAnalysisCostsOnDynamoDB: each command is one request, whatever becomes of it, with the clock watched as in
// production. A page of a sweep is one Query of each of the 8 shards of the index, and more of those that have more
// than their part; a sweep begins with a read for the time, and one for the number of shards.
func TestAnalysisCostsOnDynamoDB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		store := openDynamo(t, dynamoClient("http://dynamodb.local", server.RoundTripper()), "leasehold",
			awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		c := counter{server.ResetCounts, server.Requests}
		one := map[string]int{"UpdateItem": 1}
		costs(t, store, time.Sleep, c, one, one)
		sweepCosts(t, store, time.Sleep, c, map[string]int{"GetItem": 2, "Query": 12, "UpdateItem": 5},
			map[string]int{"GetItem": 2, "Query": 12},
			map[string]int{"GetItem": 2, "Query": 8})
	})
}

// TestAnalysisCostsOnFirestore: two requests for a command that writes, one for one that does not, one for a page of a
// sweep.
func TestAnalysisCostsOnFirestore(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]firestoretest.Mode{
		"pessimistic": firestoretest.Pessimistic, "optimistic": firestoretest.Optimistic,
	} {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClock()
			store, server := startFirestore(t, mode, clock.Now)
			c := counter{server.ResetCounts, server.Counts}
			costs(t, store, clock.Advance, c, map[string]int{"BatchGetDocuments": 1, "Commit": 1},
				map[string]int{"BatchGetDocuments": 1})
			sweepCosts(t, store, clock.Advance, c, map[string]int{"BatchGetDocuments": 6, "Commit": 5, "RunQuery": 3},
				map[string]int{"BatchGetDocuments": 1, "RunQuery": 3}, map[string]int{"BatchGetDocuments": 1, "RunQuery": 1})
		})
	}
}

// TestAnalysisCostsOnShardsOfFirestore: the same with shards, whose pages are a query of each of the 8 and one of the
// field's own index, more of those that have more than their part; a sweep begins with a read for the time, and one for
// the number of shards.
func TestAnalysisCostsOnShardsOfFirestore(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	_, server := startFirestore(t, firestoretest.Pessimistic, clock.Now)
	store := openFirestore(t, &gcpfirestore.Options{
		Project: "test", Root: "leasehold/v1", ClientOptions: server.ClientOptions(), Due: []string{analysis.ExpiryField},
		IndexShards: 8,
	})
	c := counter{server.ResetCounts, server.Counts}
	costs(t, store, clock.Advance, c, map[string]int{"BatchGetDocuments": 1, "Commit": 1},
		map[string]int{"BatchGetDocuments": 1})
	sweepCosts(t, store, clock.Advance, c, map[string]int{"BatchGetDocuments": 7, "Commit": 5, "RunQuery": 15},
		map[string]int{"BatchGetDocuments": 2, "RunQuery": 15}, map[string]int{"BatchGetDocuments": 2, "RunQuery": 9})
}

// TestAnalysisCostsOnSQLite: one transaction for a command that writes, none to sync for one that does not.
func TestAnalysisCostsOnSQLite(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	store, ok := onSQLite(t, clock.Now).(*sqlitestore.Store)
	if !ok {
		t.Fatal("not a SQLite store")
	}
	var before sqlitestore.Stats
	c := counter{func() { before = store.Stats() }, func() map[string]int {
		now, counts := store.Stats(), map[string]int{}
		for name, n := range map[string]int64{
			"transactions": now.Transactions - before.Transactions, "applied": now.Applied - before.Applied,
			"refused": now.Refused - before.Refused,
		} {
			if n != 0 {
				counts[name] = int(n)
			}
		}
		return counts
	}}
	costs(t, store, clock.Advance, c, map[string]int{"transactions": 1, "applied": 1}, map[string]int{"refused": 1})
	sweepCosts(t, store, clock.Advance, c, map[string]int{"transactions": 5, "applied": 5}, map[string]int{},
		map[string]int{})
}

// TestAnalysisCostsOnRedis: each command is one request, whatever becomes of it, once the server knows its script. A
// page of a sweep is two, one for the index and one for the analyses.
func TestAnalysisCostsOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		for _, known := range []bool{false, true} { // the server gets to know the scripts
			clock := suite.NewClock()
			store := openRedis(t, server, clock.Now)
			for range 2 { // an index is made
				if _, err := analysis.New(store, nil).Sweep(t.Context(), analysis.Sweep{Queue: everything{}}); err != nil {
					t.Fatal(err)
				}
				makeAnalyses(t, store, "known")
			}
			c := counter{server.ResetCommands, func() map[string]int {
				got := server.Commands()
				if !known {
					delete(got, "EVAL")
				}
				return got
			}}
			one := map[string]int{"EVALSHA": 1}
			costs(t, store, clock.Advance, c, one, one)
			// The time, a page of two requests for each of three pages, and the marks.
			sweepCosts(t, store, clock.Advance, c, map[string]int{"EVALSHA": 1 + 6 + 5}, map[string]int{"EVALSHA": 1 + 6},
				map[string]int{"EVALSHA": 1 + 1})
		}
	})
}

// TestAnalysisMarginOnDynamoDB: a lock ends at the latest time that its caller's clock allows, and may be taken over
// when the earliest has passed that, by the sweep too. A repeated acquire is told what is left from now.
func TestAnalysisMarginOnDynamoDB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper())
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		analyses := analysis.New(store, nil)
		const id = analysis.ID("a1")
		makeAnalyses(t, store, id)
		ann := analysis.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
		bob := analysis.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 10}
		const widest = 1020 * time.Millisecond // a clock that is known by one response
		first, err := analyses.Acquire(t.Context(), ann)
		if err != nil || first.Code != analysis.OK || first.At.Before(time.Now()) || first.At.After(time.Now().Add(widest)) {
			t.Fatal(first, err)
		}
		until := func(d time.Duration) { time.Sleep(time.Until(first.Grant.ExpiresAt.Add(d))) }
		locked := func(c analysis.Acquire) {
			t.Helper()
			o, err := analyses.Acquire(t.Context(), c)
			if err != nil || o.Code != analysis.Locked || o.RetryAfter <= 0 || o.RetryAfter > time.Until(first.Grant.ExpiresAt)+
				widest {
				t.Errorf("%s: %+v, %v; want locked", c.Owner, o, err)
			}
		}
		until(-5 * time.Second)
		locked(bob)
		if o, err := analyses.Acquire(t.Context(), ann); err != nil || !o.Replayed ||
			o.Grant.ExpiresAt.Sub(o.At) > 5*time.Second {
			t.Errorf("repeated within the term: %+v, %v", o, err)
		}
		until(0)
		if o, err := analyses.Acquire(t.Context(), ann); err != nil || o.Code != analysis.RequestIDReused {
			t.Errorf("repeated at the end: %+v, %v", o, err)
		}
		locked(bob)
		sweep := func(want analysis.Swept) {
			t.Helper()
			if done, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: everything{}}); err != nil || done != want {
				t.Errorf("sweep: %+v, %v, want %+v", done, err, want)
			}
		}
		sweep(analysis.Swept{Stale: 1, Skipped: 1})
		until(widest)
		sweep(analysis.Swept{Stale: 1, Requeued: 1})
		if o, err := analyses.Acquire(t.Context(), bob); err != nil || o.Code != analysis.OK ||
			o.Grant.Token <= first.Grant.Token || o.Grant.Runs != 2 {
			t.Errorf("takeover: %+v, %v", o, err)
		}
	})
}

// TestRefreshAndTakeoverOnDynamoDB: a lock can be refreshed until it has certainly ended, which is when it can be taken
// over: never both, at no time around its end, whichever comes first, and never before it ends by the right time.
func TestRefreshAndTakeoverOnDynamoDB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper())
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		analyses := analysis.New(store, nil)
		const (
			from, to = -40 * time.Millisecond, 1040 * time.Millisecond // of the end: a clock that is known by one response
			step     = 20 * time.Millisecond
			n        = 2 * int((to-from)/step+1)
		)
		var (
			ends   [n]time.Time
			tokens [n]int64
		)
		id := func(i int) analysis.ID { return analysis.ID(fmt.Sprint("a", i)) }
		for i := range n {
			makeAnalyses(t, store, id(i))
			o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: id(i), Owner: "ann", RequestID: "r1", TTLSeconds: 10})
			if err != nil || o.Code != analysis.OK {
				t.Fatal(o, err)
			}
			ends[i], tokens[i] = o.Grant.ExpiresAt, o.Grant.Token
		}
		refresh := func(i int) bool {
			o, err := analyses.Refresh(t.Context(), analysis.Refresh{ID: id(i), Owner: "ann", Token: tokens[i], TTLSeconds: 10})
			if err != nil || o.Code != analysis.OK && o.Code != analysis.Expired && o.Code != analysis.Lost {
				t.Errorf("refresh: %+v, %v", o, err)
			}
			return o.Code == analysis.OK
		}
		takeOver := func(i int) bool {
			o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: id(i), Owner: "bob", RequestID: "r1", TTLSeconds: 10})
			if err != nil || o.Code != analysis.OK && o.Code != analysis.Locked {
				t.Errorf("takeover: %+v, %v", o, err)
			}
			if o.Code == analysis.OK && time.Now().Before(ends[i]) {
				t.Errorf("taken over %v before the end", time.Until(ends[i]))
			}
			return o.Code == analysis.OK
		}
		var refreshed, taken int
		for i := 0; i < n; i += 2 {
			past := from + time.Duration(i/2)*step
			time.Sleep(time.Until(ends[i].Add(past)))
			first, then := refresh(i), takeOver(i)
			before, after := takeOver(i+1), refresh(i+1)
			if first == then || before == after {
				t.Errorf("%v after the end: refresh %v, then takeover %v; takeover %v, then refresh %v", past, first, then, before,
					after)
			}
			if past <= 0 && before || past == to && first {
				t.Errorf("%v after the end: refresh %v, takeover %v", past, first, before)
			}
			if first {
				refreshed++
			}
			if before {
				taken++
			}
		}
		if refreshed == 0 || taken == 0 {
			t.Errorf("%d refreshed and %d taken over", refreshed, taken)
		}
	})
}

// TestSweepOfAnIndexThatIsBehind: DynamoDB's indexes follow their tables later. A lock that was refreshed meanwhile is
// left alone.
func TestSweepOfAnIndexThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		client := dynamoClient("http://dynamodb.local", server.RoundTripper())
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		analyses := analysis.New(store, nil)
		makeAnalyses(t, store, "a1")
		for _, request := range []string{"r1", "r2"} { // the second is a takeover that the index does not show yet
			time.Sleep(time.Minute)
			if o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: "a1", Owner: "ann", RequestID: request,
				TTLSeconds: 10}); err != nil || o.Code != analysis.OK {
				t.Fatal(o, err)
			}
		}
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.StaleRead, Op: "Query"})
		done, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: everything{}})
		if want := (analysis.Swept{Stale: 1, Skipped: 1}); err != nil || done != want {
			t.Errorf("%+v, %v; want %+v", done, err, want)
		}
	})
}

// TestFirestoreClockDecidesForAnalyses: callers whose clocks are an hour off get and lose locks by the clock of the
// service.
func TestFirestoreClockDecidesForAnalyses(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	store, _ := startFirestore(t, firestoretest.Pessimistic, clock.Now)
	makeAnalyses(t, store, "a1")
	for i, step := range []struct {
		after time.Duration
		off   time.Duration
		code  analysis.Code
	}{
		{0, -time.Hour, analysis.OK}, {59_999 * time.Millisecond, time.Hour, analysis.Locked},
		{time.Millisecond, -time.Hour, analysis.OK},
	} {
		clock.Advance(step.after)
		analyses := analysis.New(store, &analysis.Options{Now: func() time.Time { return clock.Now().Add(step.off) }})
		o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: "a1", Owner: fmt.Sprint("worker ", i),
			RequestID: "r1", TTLSeconds: 60})
		if err != nil || o.Code != step.code || !o.At.Equal(clock.Now()) {
			t.Errorf("step %d: %+v, %v; want %s", i, o, err, step.code)
		}
	}
}

// TestAnalysesOnOfficialFirestore: the gate, and the sweep's query, on Google's emulator. Its clock is its own.
func TestAnalysesOnOfficialFirestore(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", official.Start(t))
	store := openFirestore(t, &gcpfirestore.Options{Project: fmt.Sprint("p-", time.Now().UnixNano())})
	analyses := analysis.New(store, nil)
	makeAnalyses(t, store, "a1", "a2", "日本語", "a b")
	acquire := func(id analysis.ID, owner string, ttl int64) analysis.Outcome {
		t.Helper()
		o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: id, Owner: owner, RequestID: "r-" + owner,
			TTLSeconds: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	var end time.Time
	for _, id := range []analysis.ID{"a1", "日本語", "a b"} {
		o := acquire(id, "ann", 1)
		if end = o.Grant.ExpiresAt; o.Code != analysis.OK || o.Grant.Token != 1 {
			t.Fatalf("%+v", o)
		}
	}
	if o := acquire("a2", "ann", 600); o.Code != analysis.OK {
		t.Fatalf("%+v", o)
	}
	if o := acquire("a2", "bob", 600); o.Code != analysis.Locked || o.Grant.Owner != "ann" {
		t.Errorf("%+v", o)
	}
	time.Sleep(time.Until(end.Add(2 * time.Millisecond))) // by the clock of the emulator, which is this machine's
	for _, want := range []analysis.Swept{{Stale: 3, Requeued: 3}, {Stale: 3, Skipped: 3}} {
		if done, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: everything{}, PageSize: 2}); err != nil ||
			done != want {
			t.Errorf("sweep: %+v, %v; want %+v", done, err, want)
		}
	}
	if o := acquire("a1", "bob", 600); o.Code != analysis.OK || o.Grant.Token != 2 || o.Grant.Runs != 2 {
		t.Errorf("%+v", o)
	}
	if o, err := analyses.Finish(t.Context(), analysis.Finish{ID: "a1", Owner: "ann", Token: 1,
		Status: analysis.Failed}); err != nil || o.Code != analysis.Lost {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := analyses.Finish(t.Context(), analysis.Finish{ID: "a1", Owner: "bob", Token: 2,
		Status: analysis.Ready}); err != nil || o.Code != analysis.OK {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestHolderReckonsEarly: a store cuts its time to milliseconds, so that a lock ends up to one of them earlier than
// asked for. Its holder knows.
func TestHolderReckonsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := onMemory(t, time.Now)
		makeAnalyses(t, store, "a1")
		gate := direct.Analyses(analysis.New(store, nil))
		begin := time.Now()
		time.Sleep(900 * time.Microsecond)
		_, _ = once.Run(t.Context(), gate, "a1", func(ctx context.Context, l once.Lock) (string, error) {
			time.Sleep(time.Until(begin.Add(time.Second + 500*time.Microsecond)))
			g, err := gate.Acquire(ctx, once.Acquire{RunID: "a1", Owner: "b", RequestID: "b", TTL: time.Second})
			if err == nil && g.Acquired && once.Check(ctx) == nil {
				t.Errorf("at %v token %d is granted, and the run of token %d is told that it runs", time.Since(begin),
					g.Lock.Token, l.Token)
			}
			return "", nil
		}, &once.Options{TTL: time.Second, Heartbeat: 999900 * time.Microsecond})
	})
}
