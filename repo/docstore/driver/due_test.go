package driver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// TestDuePages: whatever the shards hold and however little a read returns, the pages have every document once, in the
// order of its value, are full but for the last, and begin where the one before ended.
func TestDuePages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(0, 5).Draw(t, "shards")
		single := shards == 0 || rapid.Bool().Draw(t, "single")
		places := driver.BeginDue(shards, single)
		all := make([][]driver.DueItem, len(places.At))
		var want []string
		for shard := range all {
			for i := range rapid.IntRange(0, 12).Draw(t, "documents") {
				id := fmt.Sprintf("%d-%02d", shard, i)
				item := driver.DueItem{
					Entry: docstore.Entry{Key: docstore.Key{ID: id}}, Skip: rapid.IntRange(0, 4).Draw(t, "skip") == 0,
					At: driver.DueCursor{Value: rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "value"), ID: id},
				}
				if all[shard] = append(all[shard], item); !item.Skip {
					want = append(want, item.At.Value+" "+id)
				}
			}
			// The order of equal values is the shard's own.
			slices.SortStableFunc(all[shard], func(a, b driver.DueItem) int { return strings.Compare(a.At.Value, b.At.Value) })
		}
		// at a time, by a service that ends a page early
		returned := rapid.SliceOfN(rapid.IntRange(1, 4), 5, 5).Draw(t, "returned")
		read := func(_ context.Context, shard int, after driver.DueCursor, most int) ([]driver.DueItem, bool, error) {
			items := all[shard]
			if after != (driver.DueCursor{}) {
				items = items[1+slices.IndexFunc(items, func(x driver.DueItem) bool { return x.At == after }):]
			}
			n := min(len(items), most, returned[(shard+len(items))%len(returned)])
			return slices.Clone(items[:n]), n == len(items), nil
		}
		size := rapid.IntRange(1, 9).Draw(t, "size")
		var got []string
		for last := ""; ; {
			entries, next, err := places.Page(context.Background(), size, read)
			if err != nil {
				t.Fatal(err)
			}
			if next != "" && len(entries) != size || len(entries) > size {
				t.Fatalf("%d of %d documents, next %q", len(entries), size, next)
			}
			for _, e := range entries {
				shard := int(e.Key.ID[0] - '0')
				i := slices.IndexFunc(all[shard], func(x driver.DueItem) bool { return x.Key == e.Key })
				if value := all[shard][i].At.Value; value < last {
					t.Fatalf("%q comes after %q", value, last)
				} else {
					last = value
					got = append(got, value+" "+e.Key.ID)
				}
			}
			if next == "" {
				break
			}
			if places, err = driver.ParseDuePlaces(next); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// TestDuePageFails: the error of one shard is that of the page, and all reads have ended by then.
func TestDuePageFails(t *testing.T) {
	var running atomic.Int64
	broken := errors.New("broken")
	_, _, err := driver.BeginDue(8, true).Page(t.Context(), 10, func(_ context.Context, shard int, _ driver.DueCursor,
		_ int) ([]driver.DueItem, bool, error) {
		defer running.Add(-1)
		if running.Add(1); shard == 3 {
			return nil, false, broken
		}
		return nil, true, nil
	})
	if !errors.Is(err, broken) || running.Load() != 0 {
		t.Errorf("%v, %d running", err, running.Load())
	}
}

func TestDuePlacesOfOthers(t *testing.T) {
	for _, after := range []string{
		"", "x", "{}", "[]", `{"shards":0,"at":[]}`, `{"shards":1,"at":[]}`, `{"shards":1,"at":[null,null]}`,
		`{"shards":65,"at":[]}`, `{"shards":-1,"single":true,"at":[]}`,
		`{"shards":1,"at":[["a",""]]}`, `{"shards":1,"at":[["a","b","c"]]}`, `{"shards":1,"at":["a"]}`,
		`{"shards":"1","at":[null]}`,
	} {
		if p, err := driver.ParseDuePlaces(after); !errors.Is(err, docstore.ErrInvalid) {
			t.Errorf("%s: %+v, %v", after, p, err)
		}
	}
	for _, after := range []string{`{"shards":1,"at":[null]}`, `{"shards":2,"single":true,"at":[null,[""],["a","b"]]}`} {
		if _, err := driver.ParseDuePlaces(after); err != nil {
			t.Errorf("%s: %v", after, err)
		}
	}
	for _, shards := range []int{1, 8, 13, 64} {
		counts := make([]int, shards)
		for i := range 1000 * shards {
			counts[driver.DueShard(fmt.Sprint("analysis ", i), shards)]++
		}
		if least, most := slices.Min(counts), slices.Max(counts); least < 800 || most > 1200 {
			t.Errorf("%d shards have from %d to %d of 1000 documents for each", shards, least, most)
		}
	}
}
