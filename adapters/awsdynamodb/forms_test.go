package awsdynamodb_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestOneRequestWrites: registers that shift, counters that start at the store's time, documents with an end and
// deletions are one request each, granted or rejected, and one transaction together.
func TestOneRequestWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		k, other := docstore.Key{Kind: "k", Tenant: "t", ID: "x"}, docstore.Key{Kind: "k", Tenant: "t", ID: "y"}
		everything := docstore.Write{
			Key: k, Set: docstore.Doc{"a1": docstore.String("new"), "a2": docstore.Before("a1")},
			Add: map[string]int64{"token": 1}, StartAtNow: []string{"token"}, Keep: time.Hour,
		}
		var token docstore.Int
		for _, c := range []struct {
			name    string
			writes  []docstore.Write
			applied bool
			op      string
		}{
			{"first", []docstore.Write{everything}, true, "UpdateItem"},
			{"second", []docstore.Write{everything}, true, "UpdateItem"},
			{"delete refused", []docstore.Write{{Key: k, If: docstore.Eq{Field: "token", Value: docstore.Int(1)}, Delete: true}},
				false, "DeleteItem"},
			{"delete", []docstore.Write{{Key: k, If: docstore.Has{Field: "token"}, Delete: true}}, true, "DeleteItem"},
			{"delete nothing", []docstore.Write{{Key: k, If: docstore.Has{Field: "token"}, Delete: true}}, false, "DeleteItem"},
			{"several", []docstore.Write{everything, {Key: other}}, true, "TransactWriteItems"},
			{"several, delete refused", []docstore.Write{everything, {Key: other, If: docstore.Has{Field: "b"}, Delete: true}},
				false, "TransactWriteItems"},
			{"several, delete", []docstore.Write{{Key: other}, {Key: k, If: docstore.Has{Field: "token"}, Delete: true}}, true,
				"TransactWriteItems"},
		} {
			server.ResetCounts()
			r, err := store.Write(t.Context(), c.writes...)
			if err != nil || r.Applied != c.applied {
				t.Fatalf("%s: %+v, %v", c.name, r, err)
			}
			if got := server.Requests(); !maps.Equal(got, map[string]int{c.op: 1}) {
				t.Errorf("%s: took %v, want one %s", c.name, got, c.op)
			}
			switch c.name {
			case "first":
				token = docstore.Int(r.At.UnixMicro()) + 1
				if want := (docstore.Doc{"a1": docstore.String("new"), "a2": docstore.String(""),
					"token": token}); !r.Docs[0].Equal(want) {
					t.Errorf("first: %v, want %v", r.Docs[0], want)
				}
			case "second":
				if want := (docstore.Doc{"a1": docstore.String("new"), "a2": docstore.String("new"),
					"token": token + 1}); !r.Docs[0].Equal(want) {
					t.Errorf("second: %v, want %v", r.Docs[0], want)
				}
			case "delete refused":
				if r.Docs[0]["token"] != token+1 {
					t.Errorf("the refusal shows %v", r.Docs[0])
				}
			case "delete", "delete nothing":
				if r.Docs[0] != nil {
					t.Errorf("%s: %v", c.name, r.Docs[0])
				}
			}
		}
		s, err := store.Get(t.Context(), k, other)
		if err != nil || s.Docs[0] != nil || s.Docs[1] == nil {
			t.Errorf("at last %v, %v", s.Docs, err)
		}
	})
}

// TestGuards: what cannot be copied or added to is damaged, and stays as it was, alone and within several writes.
func TestGuards(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		k := docstore.Key{Kind: "k", ID: "x"}
		before := docstore.Doc{"n": docstore.Int(1), "s": docstore.String("x"), "max": docstore.Int(docstore.MaxInt)}
		if _, err := store.Write(t.Context(), docstore.Write{Key: k, Set: before}); err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]docstore.Write{
			"a number is copied": {Set: docstore.Doc{"b": docstore.Before("n")}},
			"text starts":        {Add: map[string]int64{"s": 1}, StartAtNow: []string{"s"}},
			"beyond the bound":   {Add: map[string]int64{"max": 1}, StartAtNow: []string{"max"}},
		} {
			w.Key = k
			if r, err := store.Write(t.Context(), w); !errors.Is(err, docstore.ErrDamaged) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			if r, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "k", ID: "y"}}, w); !errors.Is(err,
				docstore.ErrDamaged) {
				t.Errorf("%s, with another: %+v, %v", name, r, err)
			}
		}
		if s, err := store.Get(t.Context(), k); err != nil || !s.Docs[0].Equal(before) {
			t.Errorf("the document is %v, %v", s.Docs, err)
		}
	})
}

// TestDeleteSentTwice: a deletion whose response is lost is sent again by the SDK, and then finds nothing.
func TestDeleteSentTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		k := docstore.Key{Kind: "k", ID: "x"}
		if _, err := store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"v": docstore.Int(1)}}); err != nil {
			t.Fatal(err)
		}
		server.ResetCounts()
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropAfter, Op: "DeleteItem", Times: 1})
		r, err := store.Write(t.Context(), docstore.Write{Key: k, If: docstore.Eq{Field: "v", Value: docstore.Int(1)},
			Delete: true})
		if err != nil || r.Applied || r.Docs[0] != nil || server.Count("DeleteItem") != 2 {
			t.Errorf("%+v, %v, %d requests", r, err, server.Count("DeleteItem"))
		}
	})
}

// TestStartsOnce: a counter that starts at the store's time is not counted twice after a lost response.
func TestStartsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		k := docstore.Key{Kind: "k", ID: "x"}
		for _, w := range []docstore.Write{
			{Key: k, Add: map[string]int64{"n": 1}, StartAtNow: []string{"n"}},
			{Key: k, Set: docstore.Doc{"a": docstore.String("x"), "b": docstore.Before("a")}},
		} {
			server.ResetCounts()
			server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropAfter, Op: "UpdateItem", Times: 1})
			if r, err := store.Write(t.Context(), w); !errors.Is(err, docstore.ErrUnavailable) {
				t.Errorf("%+v, %v", r, err)
			}
			if got := server.Count("UpdateItem"); got != 1 {
				t.Errorf("%d requests", got)
			}
		}
	})
}

// TestKeepIsTimeToLive: the service itself removes a document some time after its Keep, and no earlier; every write
// that says so moves the end.
func TestKeepIsTimeToLive(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		k, forever := docstore.Key{Kind: "k", ID: "x"}, docstore.Key{Kind: "k", ID: "y"}
		write := func(w docstore.Write) docstore.Result {
			t.Helper()
			r, err := store.Write(t.Context(), w)
			if err != nil || !r.Applied {
				t.Fatal(r, err)
			}
			return r
		}
		write(docstore.Write{Key: forever, Set: docstore.Doc{"v": docstore.Int(1)}})
		write(docstore.Write{Key: k, Keep: time.Minute})
		end := write(docstore.Write{Key: k, Keep: time.Hour}).At.Add(time.Hour)
		write(docstore.Write{Key: k, Set: docstore.Doc{"v": docstore.Int(1)}}) // leaves it
		time.Sleep(time.Until(end))
		if n := server.ExpireNow(); n != 0 {
			t.Errorf("%d documents were removed at the end itself", n)
		}
		if s, err := store.Get(t.Context(), k); err != nil || !s.Docs[0].Equal(docstore.Doc{"v": docstore.Int(1)}) {
			t.Errorf("until then %v, %v", s.Docs, err)
		}
		time.Sleep(2 * time.Second)
		if n := server.ExpireNow(); n != 1 {
			t.Errorf("%d documents were removed, want 1", n)
		}
		if s, err := store.Get(t.Context(), k, forever); err != nil || s.Docs[0] != nil || s.Docs[1] == nil {
			t.Errorf("afterwards %v, %v", s.Docs, err)
		}
	})
}

// TestTimeToLiveDenied: a table that could be created and has no time to live works, and says so.
func TestTimeToLiveDenied(t *testing.T) {
	server := dynamodbtest.New(nil)
	server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Op: "UpdateTimeToLive"})
	s := openWith(t, dial(server), awsdynamodb.Options{})
	if w := s.Warnings(); len(w) != 1 {
		t.Errorf("warnings: %q", w)
	}
}

// TestWalk: all tenants of a kind, page by page, whatever else is in the table, one request for a page.
func TestWalk(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		want := map[docstore.Key]bool{}
		for _, kind := range []string{"locks", "lock", "locksx"} {
			for i := range 12 {
				k := docstore.Key{Kind: kind, Tenant: []string{"", "acme", "a/b"}[i%3], ID: fmt.Sprint("id/", i)}
				if _, err := store.Write(t.Context(), docstore.Write{Key: k, Keep: time.Hour}); err != nil {
					t.Fatal(err)
				}
				if kind == "locks" {
					want[k] = true
				}
			}
		}
		stray := map[string]types.AttributeValue{
			"_pk": &types.AttributeValueMemberS{Value: "locks/x\x00y"}, "_sk": &types.AttributeValueMemberS{Value: "\x00"},
		}
		if _, err := client.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("leasehold"),
			Item: stray}); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 5, 37, 0} {
			found, pages := map[docstore.Key]bool{}, 0
			server.ResetCounts()
			for q := (docstore.WalkQuery{Kind: "locks", Limit: limit}); pages == 0 || q.After != ""; pages++ {
				p, err := store.Walk(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range p.Entries {
					if found[e.Key] || e.Doc == nil || len(e.Doc) != 0 {
						t.Errorf("%s: %v, seen before: %v", e.Key, e.Doc, found[e.Key])
					}
					found[e.Key] = true
				}
				q.After = p.Next
			}
			if !maps.Equal(found, want) {
				t.Errorf("limit %d: found %v, want %v", limit, found, want)
			}
			if got := server.Count("Scan"); got != pages {
				t.Errorf("limit %d: %d requests for %d pages", limit, got, pages)
			}
		}
		for _, after := range []string{"x", `["a"]`, `["",""]`} {
			if _, err := store.Walk(t.Context(), docstore.WalkQuery{Kind: "locks", After: after}); !errors.Is(err,
				docstore.ErrInvalid) {
				t.Errorf("after %q: %v", after, err)
			}
		}
	})
}
