package dynamodbtest_test

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// TestIndexesFollowTheTable makes random writes and holds each index against the table, the table against a map, and a
// stale scan against the map as it was one write earlier.
func TestIndexesFollowTheTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := dynamodbtest.New(nil)
		c := connect("http://dynamodb.local", func(o *sdk.Options) {
			o.HTTPClient = &http.Client{Transport: s.RoundTripper()}
		})
		if _, err := c.CreateTable(t.Context(), eventsTable()); err != nil {
			rt.Fatal(err)
		}
		scan := func(index string) []string {
			in := &sdk.ScanInput{TableName: aws.String("events")}
			if index != "" {
				in.IndexName = &index
			}
			out, err := c.Scan(t.Context(), in)
			if err != nil {
				rt.Fatal(err)
			}
			var found []string
			for _, it := range out.Items {
				found = append(found, show(item{"id": it["id"], "seq": it["seq"]}))
			}
			slices.Sort(found)
			return found
		}
		model := map[string]item{}
		with := func(name string) []string {
			var found []string
			for key, it := range model {
				if name == "" || it[name] != nil {
					found = append(found, key)
				}
			}
			slices.Sort(found)
			return found
		}
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			before := with("")
			it := item{"id": str(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id")),
				"seq": num(strconv.Itoa(rapid.IntRange(0, 2).Draw(rt, "seq")))}
			key := show(it)
			if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
				if _, existed := model[key]; !existed {
					continue // nothing changes, and a stale read would show the write before
				}
				if _, err := c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("events"), Key: it}); err != nil {
					rt.Fatal(err)
				}
				delete(model, key)
			} else {
				if v := rapid.SampledFrom([]string{"", "open", "done"}).Draw(rt, "state"); v != "" {
					it["state"] = str(v)
				}
				if _, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("events"), Item: it}); err != nil {
					rt.Fatal(err)
				}
				model[key] = it
			}
			s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.StaleRead, Times: 1})
			if got := scan(""); !slices.Equal(got, before) {
				rt.Fatalf("a stale scan finds %v, want %v", got, before)
			}
			for index, name := range map[string]string{"": "", "by-state": "state", "whole-by-state": "state"} {
				if got, want := scan(index), with(name); !slices.Equal(got, want) {
					rt.Fatalf("%q holds %v, want %v", index, got, want)
				}
			}
		}
	})
}
