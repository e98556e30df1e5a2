package awsdynamodb_test

import (
	"errors"
	"fmt"
	"maps"
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
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// waiting is the query for what waits until a second of 1970.
func waiting(second int64) docstore.DueQuery {
	return docstore.DueQuery{Kind: "k", Tenant: "acme", Field: "until", UpTo: time.Unix(second, 0)}
}

func waits(id string, second int64, more docstore.Doc) docstore.Write {
	d := docstore.Doc{"until": docstore.FormatTime(time.Unix(second, 0))}
	maps.Copy(d, more)
	return docstore.Write{Key: docstore.Key{Kind: "k", Tenant: "acme", ID: id}, Set: d}
}

// walkDue reads all pages.
func walkDue(t *testing.T, s docstore.Store, q docstore.DueQuery) (ids []string, pages int) {
	t.Helper()
	for {
		p, err := docstore.Due(t.Context(), s, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			ids = append(ids, e.Key.ID)
		}
		if pages++; p.Next == "" {
			return ids, pages
		}
		q.After = p.Next
	}
}

// TestRequestsOfDue: the first page reads how many shards there are, and each page asks all of them once, more than
// once only those that have more than their part. Where there is no index, a page is one Query of the table.
func TestRequestsOfDue(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	for name, indexes := range map[string][]string{"indexed": {"until", "other"}, "plain": nil} {
		s, err := awsdynamodb.Open(t.Context(), name, &awsdynamodb.Options{Client: dial(server), CreateTable: true,
			Indexes: indexes})
		if err != nil {
			t.Fatal(err)
		}
		if w := s.Warnings(); len(w) != 0 {
			t.Errorf("%s: warnings %q", name, w)
		}
		var want []string
		for i := range 7 {
			want = append(want, fmt.Sprint("w", i))
			if _, err := s.Write(t.Context(), waits(want[i], int64(i/2), nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(t.Context(), docstore.Write{
				Key: docstore.Key{Kind: "k", Tenant: "acme", ID: fmt.Sprint("x", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		for limit := 1; limit <= 8; limit++ {
			server.ResetCounts()
			q := waiting(3)
			q.Limit = limit
			got, pages := walkDue(t, s, q)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: %q", name, limit, got)
			}
			wantPages, took := (7+limit-1)/limit, server.Requests()
			switch {
			case indexes == nil && maps.Equal(took, map[string]int{"Query": pages}):
			case indexes != nil && pages == wantPages && took["GetItem"] == 1 && took["Query"] <= 8+4*(pages-1)+1 &&
				len(took) == 2:
			default:
				t.Errorf("%s, pages of %d: %d pages took %v", name, limit, pages, took)
			}
		}
	}
}

// TestDueOfLargeDocuments: a page that ends after a megabyte is a short one, and the next goes on.
func TestDueOfLargeDocuments(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	s, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: dial(server), CreateTable: true,
		Indexes: []string{"until"}})
	if err != nil {
		t.Fatal(err)
	}
	large := docstore.Doc{"text": docstore.String(strings.Repeat("x", 300_000))}
	for i := range 10 {
		if _, err := s.Write(t.Context(), waits(strconv.Itoa(i), int64(i), large)); err != nil {
			t.Fatal(err)
		}
	}
	// Of large documents each shard responds with three at a time, so that those that have more are asked again.
	for i := range 40 {
		if _, err := s.Write(t.Context(), waits("l"+strconv.Itoa(i), 30, large)); err != nil {
			t.Fatal(err)
		}
	}
	server.ResetCounts()
	got, pages := walkDue(t, s, waiting(20))
	if want := strings.Split("0123456789", ""); !slices.Equal(got, want) || pages != 1 {
		t.Errorf("%d pages in %d requests: %q", pages, server.Count("Query"), got)
	}
	server.ResetCounts()
	if got, pages = walkDue(t, s, waiting(40)); len(got) != 50 || pages != 1 || server.Count("Query") < 2*8 {
		t.Errorf("%d pages in %d requests: %q", pages, server.Count("Query"), got)
	}
}

// TestIndexesThatCanBeUsed: an index must order the documents of a shard by the text, whole, and be complete.
func TestIndexesThatCanBeUsed(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	index := func(name string, projection types.ProjectionType, keys ...string) types.GlobalSecondaryIndex {
		x := types.GlobalSecondaryIndex{IndexName: aws.String(name), Projection: &types.Projection{
			ProjectionType: projection}}
		for i, k := range keys {
			x.KeySchema = append(x.KeySchema, types.KeySchemaElement{
				AttributeName: aws.String(k), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i],
			})
		}
		return x
	}
	for name, c := range map[string]struct {
		index    types.GlobalSecondaryIndex
		kind     types.ScalarAttributeType
		describe func(*types.TableDescription)
		usable   bool
	}{
		"made by hand": {index("any-name", types.ProjectionTypeAll, "_due", "until"), types.ScalarAttributeTypeS, nil,
			true},
		"keys only": {index("x-keys", types.ProjectionTypeKeysOnly, "_due", "until"), types.ScalarAttributeTypeS, nil,
			false},
		"of numbers": {index("x-numbers", types.ProjectionTypeAll, "_due", "until"), types.ScalarAttributeTypeN, nil,
			false},
		"of all kinds": {index("x-all", types.ProjectionTypeAll, "until", "_due"), types.ScalarAttributeTypeS, nil, false},
		"of a partition": {index("x-partition", types.ProjectionTypeAll, "_pk", "until"), types.ScalarAttributeTypeS, nil,
			false},
		"without a range": {index("x-hash", types.ProjectionTypeAll, "until"), types.ScalarAttributeTypeS, nil, false},
		"being built": {index("x-built", types.ProjectionTypeAll, "_due", "until"), types.ScalarAttributeTypeS,
			func(d *types.TableDescription) {
				d.GlobalSecondaryIndexes[0].IndexStatus = types.IndexStatusCreating
			}, false},
		"being removed": {index("x-removed", types.ProjectionTypeAll, "_due", "until"), types.ScalarAttributeTypeS,
			func(d *types.TableDescription) {
				d.GlobalSecondaryIndexes[0].IndexStatus = types.IndexStatusDeleting
			}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(server)
			in := table("_pk", types.ScalarAttributeTypeS, "_sk", types.ScalarAttributeTypeS)
			in.TableName = aws.String(strings.ReplaceAll(name, " ", "-"))
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
				AttributeName: aws.String("until"), AttributeType: c.kind})
			if slices.ContainsFunc(c.index.KeySchema, func(k types.KeySchemaElement) bool {
				return *k.AttributeName == "_due"
			}) {
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
					AttributeName: aws.String("_due"), AttributeType: types.ScalarAttributeTypeS})
			}
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{c.index}
			if _, err := client.CreateTable(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			server.ResetCounts()
			s, err := awsdynamodb.Open(t.Context(), *in.TableName, &awsdynamodb.Options{
				Client: meddler{Client: client, describe: c.describe}, Indexes: []string{"until"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := server.Requests(); !maps.Equal(got, map[string]int{"DescribeTable": 1}) {
				t.Errorf("opening took %v", got)
			}
			_, err = s.Due(t.Context(), waiting(1))
			if errors.Is(err, docstore.ErrNoIndex) == c.usable || c.usable && err != nil {
				t.Errorf("usable is %v: %v", c.usable, err)
			}
			if w := strings.Join(s.Warnings(), "\n"); strings.Contains(w, `no index on "until"`) == c.usable {
				t.Errorf("warnings: %q", w)
			}
			if _, err := docstore.Due(t.Context(), s, waiting(1)); err != nil {
				t.Errorf("with or without an index: %v", err)
			}
		})
	}
}

// TestIndexRefuses: what an index cannot order is rejected with the reason, and nothing is written.
func TestIndexRefuses(t *testing.T) {
	server := dynamodbtest.Start(t, nil)
	s, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: dial(server), CreateTable: true,
		Indexes: []string{"until"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []docstore.Value{docstore.Int(1), docstore.Bool(true), docstore.Map{}, docstore.String(""),
		docstore.String(strings.Repeat("x", 1025))} {
		w := waits("x", 1, docstore.Doc{"until": v})
		if _, err := s.Write(t.Context(), w); !errors.Is(err, docstore.ErrInvalid) ||
			!strings.Contains(err.Error(), "text of 1 to 1024 bytes") {
			t.Errorf("%v: %v", v, err)
		}
		other := docstore.Write{Key: docstore.Key{Kind: w.Key.Kind, Tenant: w.Key.Tenant, ID: "beside"},
			Add: map[string]int64{"n": 1}}
		if _, err := s.Write(t.Context(), other, w); !errors.Is(err, docstore.ErrInvalid) ||
			!strings.Contains(err.Error(), "text of 1 to 1024 bytes") {
			t.Errorf("%v, in a transaction: %v", v, err)
		}
		if snap, err := s.Get(t.Context(), other.Key); err != nil || snap.Docs[0] != nil {
			t.Errorf("%v, in a transaction: stored %v, %v", v, snap.Docs, err)
		}
		if snap, err := s.Get(t.Context(), w.Key); err != nil || snap.Docs[0] != nil {
			t.Errorf("%v: stored %v, %v", v, snap.Docs, err)
		}
	}
}

func TestIndexSettings(t *testing.T) {
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	for want, indexes := range map[string][]string{"21 fields": many, `"_pk"`: {"_pk"},
		`names "a" twice`: {"a", "b", "a"}} {
		_, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: sdk.New(sdk.Options{}),
			Indexes: indexes})
		if err == nil || !strings.Contains(err.Error(), "Indexes") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", indexes, err)
		}
	}
}
