package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func write(t *testing.T, s docstore.Store, w docstore.Write) {
	t.Helper()
	if r, err := s.Write(t.Context(), w); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
}

// shardsIn counts the items of each shard.
func shardsIn(t *testing.T, client *sdk.Client, table string) map[string]int {
	t.Helper()
	out, err := client.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	shards := map[string]int{}
	for _, item := range out.Items {
		if due, ok := item["_due"].(*types.AttributeValueMemberS); ok {
			shards[due.Value]++
		}
	}
	return shards
}

// TestShards: documents are spread evenly, and found in the order of their times, whatever shard has them; among equal
// times, too, no page loses or repeats one.
func TestShards(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	client := dial(server)
	for _, n := range []int{0, 13, 64} {
		name := "shards-" + strconv.Itoa(n)
		s := openTable(t, name, awsdynamodb.Options{Client: client, CreateTable: true, Indexes: []string{"until"},
			IndexShards: n})
		times := map[string]int64{}
		for i := range 400 {
			id := fmt.Sprint("document ", i)
			times[id] = rand.Int64N(40)
			write(t, s, waits(id, times[id], nil))
		}
		shards := shardsIn(t, client, name)
		if want := max(n, awsdynamodb.DefaultIndexShards); len(shards) != want {
			t.Errorf("%d shards, want %d", len(shards), want)
		}
		for shard, found := range shards {
			if mean := 400 / len(shards); !strings.HasSuffix(shard, "/k/acme") || found > 3*mean+3 {
				t.Errorf("%s has %d of 400", shard, found)
			}
		}
		for _, limit := range []int{1, 7, 100, 1000} {
			q := waiting(29)
			q.Limit = limit
			got, _ := walkDue(t, s, q)
			if !slices.IsSortedFunc(got, func(a, b string) int { return int(times[a] - times[b]) }) {
				t.Errorf("%d shards, pages of %d: not in the order of time", n, limit)
			}
			want := slices.DeleteFunc(slices.Collect(maps.Keys(times)), func(id string) bool { return times[id] > 29 })
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%d shards, pages of %d: %d documents, want %d", n, limit, len(got), len(want))
			}
		}
	}
}

// TestMoreShards: the number of shards is raised by one process while others write with the former, and while a walk is
// under way. Everything is found, also by processes that know of the former number only. It costs a read in each
// process that uses more than the default, and a write in one.
func TestMoreShards(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	open := func(n int) *awsdynamodb.Store {
		return openTable(t, "leasehold", awsdynamodb.Options{Client: dial(server), CreateTable: true,
			Indexes: []string{"until"}, IndexShards: n})
	}
	former := open(0)
	all := map[string]bool{}
	fill := func(s docstore.Store, prefix string, n int) {
		for i := range n {
			id := fmt.Sprint(prefix, i)
			all[id] = true
			write(t, s, waits(id, int64(i), nil))
		}
	}
	fill(former, "a", 30)
	q := waiting(100)
	q.Limit = 10
	page, err := former.Due(t.Context(), q)
	if err != nil || len(page.Entries) != 10 {
		t.Fatal(page, err)
	}
	passed := map[string]bool{}
	for _, e := range page.Entries {
		passed[e.Key.ID] = true
	}

	for i, want := range []map[string]int{{"GetItem": 1, "UpdateItem": 2}, {"GetItem": 1, "UpdateItem": 1}} {
		more := open(40)
		server.ResetCounts()
		fill(more, fmt.Sprint("b", i), 1)
		if got := server.Requests(); !maps.Equal(got, want) {
			t.Errorf("process %d: the first write took %v, want %v", i, got, want)
		}
		server.ResetCounts()
		fill(more, fmt.Sprint("c", i), 20)
		if got := server.Requests(); !maps.Equal(got, map[string]int{"UpdateItem": 20}) {
			t.Errorf("process %d: later writes took %v", i, got)
		}
	}
	fill(open(20), "d", 20) // a process whose settings are behind does not lower it
	fill(former, "e", 5)
	server.ResetCounts()
	write(t, former, waits("e0", 0, nil))
	if got := server.Requests(); !maps.Equal(got, map[string]int{"UpdateItem": 1}) {
		t.Errorf("with the default number a write took %v", got)
	}

	// What stayed as it was during the walk is seen once.
	q.After = page.Next
	rest, _ := walkDue(t, former, q)
	for _, id := range rest {
		if passed[id] {
			t.Errorf("%s was seen twice", id)
		}
		passed[id] = true
	}
	for i := range 30 {
		if id := fmt.Sprint("a", i); !passed[id] {
			t.Errorf("%s was not seen", id)
		}
	}
	for name, s := range map[string]docstore.Store{"former": former, "new": open(0)} {
		server.ResetCounts()
		got, _ := walkDue(t, s, waiting(100))
		want := slices.Sorted(maps.Keys(all))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %d documents of %d", name, len(got), len(want))
		}
		if got := server.Requests(); got["GetItem"] != 1 || got["Query"] < 40 || got["Query"] > 60 {
			t.Errorf("%s: took %v", name, got)
		}
	}
}

// TestAfterOfAnotherIndex: a place that is of an index without shards begins no page.
func TestAfterOfAnotherIndex(t *testing.T) {
	s := openTable(t, "leasehold", awsdynamodb.Options{Client: dial(dynamodbtest.Start(t, nil)), CreateTable: true,
		Indexes: []string{"until"}})
	for _, after := range []string{`{"shards":0,"single":true,"at":[["a","b"]]}`, `{"shards":1,"single":true,"at":[[],[]]}`,
		`{"shards":0,"at":[]}`, "x"} {
		q := waiting(1)
		q.After = after
		if p, err := s.Due(t.Context(), q); !errors.Is(err, docstore.ErrInvalid) {
			t.Errorf("%s: %v, %v", after, p, err)
		}
	}
}

// TestNumberOfShardsIsRefused: what later versions or other programs may have left in the table's own item is not
// guessed at.
func TestNumberOfShardsIsRefused(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	client := dial(server)
	for _, n := range []int{1, 7, 65, -8} {
		if _, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{
			Client: client, IndexShards: n}); err == nil || !strings.Contains(err.Error(), "IndexShards") {
			t.Errorf("%d: %v", n, err)
		}
	}
	s := openTable(t, "leasehold", awsdynamodb.Options{Client: client, CreateTable: true, Indexes: []string{"until"},
		IndexShards: 9})
	for _, v := range []types.AttributeValue{&types.AttributeValueMemberN{Value: "65"},
		&types.AttributeValueMemberN{Value: "-1"}, &types.AttributeValueMemberS{Value: "9"}} {
		if _, err := client.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("leasehold"),
			Item: map[string]types.AttributeValue{
				"_pk": &types.AttributeValueMemberS{Value: "settings"}, "_sk": &types.AttributeValueMemberS{Value: "index"},
				"shards": v,
			}}); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Due(t.Context(), waiting(1)); err == nil || !strings.Contains(err.Error(), "shards") {
			t.Errorf("%v: %v, %v", v, p, err)
		}
		if r, err := s.Write(t.Context(), waits("x", 1, nil)); err == nil || !strings.Contains(err.Error(), "shards") {
			t.Errorf("%v: %v, %v", v, r, err)
		}
	}
}

// TestUnitsOfTheGate: with the index of the sweep, an acquire is billed as two units (the document, and the entry that
// it makes), a refresh as three (the entry moves), a release and a finish as two. None takes another request than
// without the index, and one whose condition does not hold costs one unit.
func TestUnitsOfTheGate(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		analyses := analysis.New(openWith(t, client, awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}}), nil)
		const id = analysis.ID("a3f1c9d2-7b64-4e0a-9c58-2f6d1e8b4a70")
		cost := func(what string, units float64, want analysis.Code,
			do func(context.Context) (analysis.Outcome, error)) analysis.Outcome {
			t.Helper()
			server.ResetCounts()
			o, err := do(t.Context())
			if err != nil || o.Code != want {
				t.Fatalf("%s: %+v, %v", what, o, err)
			}
			if got := server.Consumed(); got != (dynamodbtest.Units{Write: units}) ||
				!maps.Equal(server.Requests(), map[string]int{"UpdateItem": 1}) {
				t.Errorf("%s: %+v in %v, want %v", what, got, server.Requests(), units)
			}
			return o
		}
		if _, err := client.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("leasehold"),
			Item: map[string]types.AttributeValue{
				"_pk": &types.AttributeValueMemberS{Value: "analyses/"}, "_sk": &types.AttributeValueMemberS{Value: string(id)},
				"source": &types.AttributeValueMemberS{Value: strings.Repeat("s", 300)},
			}}); err != nil {
			t.Fatal(err)
		}
		for n := range 6 {
			request := fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)
			owner := "worker-7f3d9c2b"
			o := cost("acquire", 2, analysis.OK, func(ctx context.Context) (analysis.Outcome, error) {
				return analyses.Acquire(ctx, analysis.Acquire{ID: id, Owner: owner, TTLSeconds: 300, RequestID: request})
			})
			cost("acquire, locked", 1, analysis.Locked, func(ctx context.Context) (analysis.Outcome, error) {
				return analyses.Acquire(ctx, analysis.Acquire{ID: id, Owner: "another", TTLSeconds: 300, RequestID: request})
			})
			time.Sleep(time.Minute)
			cost("refresh", 3, analysis.OK, func(ctx context.Context) (analysis.Outcome, error) {
				return analyses.Refresh(ctx, analysis.Refresh{ID: id, Owner: owner, Token: o.Grant.Token, TTLSeconds: 300})
			})
			if n < 5 {
				cost("release", 2, analysis.OK, func(ctx context.Context) (analysis.Outcome, error) {
					return analyses.Release(ctx, analysis.Release{ID: id, Owner: owner, Token: o.Grant.Token})
				})
				continue
			}
			cost("finish", 2, analysis.OK, func(ctx context.Context) (analysis.Outcome, error) {
				return analyses.Finish(ctx, analysis.Finish{ID: id, Owner: owner, Token: o.Grant.Token, Status: analysis.Ready})
			})
		}
	})
}
