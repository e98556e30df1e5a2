package awsdynamodb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Meter = (*awsdynamodb.Store)(nil)

// TestUsage: requests are counted as the service counts them, those that were sent again and those that were throttled,
// too; conflicts and conditions that do not hold are no throttling.
func TestUsage(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		before := store.Usage()
		server.ResetCounts()
		w := docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}, If: docstore.Absent{},
			Set: map[string]docstore.Value{"n": docstore.Int(1)}}
		for _, fault := range []dynamodbtest.Fault{
			{Kind: dynamodbtest.Throttle, Op: "UpdateItem", Times: 2}, {Kind: dynamodbtest.Conflict, Op: "UpdateItem", Times: 1},
			{},
		} {
			if fault.Op != "" {
				server.Inject(fault)
			}
			if _, err := store.Write(t.Context(), w); err != nil { // applied, and then refused
				t.Fatal(err)
			}
		}
		if _, err := store.Get(t.Context(), w.Key); err != nil {
			t.Fatal(err)
		}
		got := store.Usage()
		if n := int64(server.Count("UpdateItem") + server.Count("GetItem")); got.Requests-before.Requests != n ||
			got.Retries-before.Retries != 3 || got.Throttled-before.Throttled != 2 {
			t.Errorf("%+v, before that %+v; the service counts %d", got, before, n)
		}
		if !got.Clock.Known || got.Clock.Offset.Abs() > time.Second || got.Clock.Uncertainty <= 0 {
			t.Errorf("the clock: %+v", got.Clock)
		}
	})
}

// TestBilled: what is counted is what the service bills, for requests of all kinds, small and large documents, and for
// writes that are refused, too. A store that does not ask, does not know.
func TestBilled(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		if u := openWith(t, client, awsdynamodb.Options{Indexes: []string{"until"}}).Usage(); u.Billed.Known {
			t.Errorf("%+v", u.Billed)
		}
		store := openWith(t, client, awsdynamodb.Options{CountUnits: true, Indexes: []string{"until"}})
		var keys []docstore.Key
		var now docstore.Billed
		for i, large := range []int{0, 100, 4000} {
			key := docstore.Key{Kind: "k", ID: fmt.Sprint("x", i)}
			keys = append(keys, key)
			fields := map[string]docstore.Value{
				"n": docstore.Int(-1020300), "m": docstore.Map{"a": "b"}, "b": docstore.Bool(true), "y": docstore.Bytes("\x01\x02"),
				"until": docstore.String("2026-01-01T00:00:00Z"), "zero": docstore.Int(0),
				"text": docstore.String(strings.Repeat("x", large)),
			}
			create := docstore.Write{Key: key, If: docstore.Absent{}, Set: fields}
			other, third, fourth := create, create, create
			other.Key.Kind, third.Key.Kind, fourth.Key.Kind = "o", "p", "q"
			for _, step := range []struct {
				what string
				do   func() error
			}{
				{"create or refuse", func() error { _, err := store.Write(t.Context(), create); return err }},
				{"read", func() error { _, err := store.Get(t.Context(), key); return err }},
				{"read several", func() error { _, err := store.Get(t.Context(), keys...); return err }},
				{"list", func() error { _, err := store.List(t.Context(), docstore.Query{Kind: key.Kind}); return err }},
				{"walk", func() error { _, err := store.Walk(t.Context(), docstore.WalkQuery{Kind: key.Kind}); return err }},
				{"due", func() error {
					_, err := store.Due(t.Context(), docstore.DueQuery{Kind: key.Kind, Field: "until", UpTo: time.Now()})
					return err
				}},
				// applied, then both are refused
				{"together", func() error { _, err := store.Write(t.Context(), third, other); return err }},
				{"one of two", func() error { _, err := store.Write(t.Context(), create, fourth); return err }},
				{"delete", func() error {
					_, err := store.Write(t.Context(), docstore.Write{Key: other.Key, If: docstore.Not{Cond: docstore.Absent{}},
						Delete: true})
					return err
				}},
			} {
				for range 2 {
					server.ResetCounts()
					before := store.Usage().Billed
					if err := step.do(); err != nil {
						t.Fatal(step.what, err)
					}
					now = store.Usage().Billed
					got := dynamodbtest.Units{Read: now.Reads - before.Reads, Write: now.Writes - before.Writes}
					want := server.Consumed()
					if step.what == "one of two" { // what it would have written, the service does not show
						want.Write = min(want.Write, max(got.Write, 4))
					}
					if got != want {
						t.Errorf("%s of %d bytes: %+v, the service bills %+v", step.what, large, got, want)
					}
				}
			}
		}
		if !now.Known || now.Reads == 0 || now.Writes == 0 {
			t.Errorf("%+v", now)
		}
	})
}
