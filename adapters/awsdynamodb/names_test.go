package awsdynamodb_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestNames: fields that are named like functions, operators and other words of expressions are fields like any other.
func TestNames(t *testing.T) {
	store := open(t, dialURL(dynamodbtest.Start(t, nil).URL))
	for _, f := range []string{
		"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "if_not_exists", "list_append",
		"Begins_With",
		"and", "Between", "SET", "remove", "size", "contains", "status", "ttl", "plain", "a_", "and_", "or1", "n2", "x_y_z",
	} {
		k := docstore.Key{Kind: "names", Tenant: "acme", ID: f}
		for i, w := range []docstore.Write{
			{Key: k, If: docstore.Absent{}, Set: map[string]docstore.Value{f: docstore.Int(1)}},
			{Key: k, If: docstore.All{docstore.Has{Field: f}, docstore.Eq{Field: f, Value: docstore.Int(1)}},
				Add: map[string]int64{f: 2}},
			{
				Key: k, If: docstore.Not{Cond: docstore.LE{Field: f, Value: docstore.Int(2)}},
				Set: map[string]docstore.Value{"other": docstore.String("x")}, Unset: []string{f},
			},
		} {
			r, err := store.Write(t.Context(), w)
			if err != nil || !r.Applied {
				t.Fatalf("field %s, write %d: %+v, %v", f, i+1, r, err)
			}
			want := docstore.Doc{f: docstore.Int(1)}
			switch i {
			case 1:
				want[f] = docstore.Int(3)
			case 2:
				want = docstore.Doc{"other": docstore.String("x")}
			}
			if !r.Docs[0].Equal(want) {
				t.Errorf("field %s, write %d: %v, want %v", f, i+1, r.Docs[0], want)
			}
		}
	}
}
