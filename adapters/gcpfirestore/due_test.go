package gcpfirestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestDue: a page is one request, whatever is on it, and documents that no key leads to are passed by, which can take
// one more.
func TestDue(t *testing.T) {
	for _, root := range []string{"", "leasehold/v1"} {
		server := firestoretest.Start(t, nil)
		store, user := open(t, server, root), client(t, server)
		var want []string
		for i := range 5 {
			id := fmt.Sprintf("a/%d", i)
			want = append(want, id)
			if _, err := store.Write(t.Context(), docstore.Write{
				Key: key(id), Set: docstore.Doc{"until": docstore.FormatTime(time.Unix(int64(i/2), 0))},
			}); err != nil {
				t.Fatal(err)
			}
		}
		path := "tenants/acme/locks/"
		if root != "" {
			path = root + "/" + path
		}
		// escapes that no one writes, and names of the user's own
		for _, foreign := range []string{".x", "\u0001", "b.\uff0e"} {
			if _, err := user.Doc(path+foreign).Set(t.Context(),
				map[string]any{"until": "1970-01-01T00:00:00.000Z"}); err != nil {
				t.Fatal(err)
			}
		}
		want = append([]string{"\u0001", ".x"}, want...) // two of them are keys
		if _, err := user.Doc(path+"null").Set(t.Context(), map[string]any{"until": nil}); err != nil {
			t.Fatal(err)
		}
		if _, err := user.Doc(path+"time").Set(t.Context(), map[string]any{"until": time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		for limit := 1; limit <= 9; limit++ {
			server.ResetCounts()
			got, pages := walkDue(t, store, limit)
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q, want %q", limit, got, want)
			}
			if wantPages, took := (7+limit-1)/limit, server.Counts(); pages != wantPages || len(took) != 1 ||
				took["RunQuery"] > pages+1 {
				t.Errorf("pages of %d: %d pages took %v, want %d", limit, pages, took, wantPages)
			}
		}
	}
}

func walkDue(t *testing.T, store *gcpfirestore.Store, limit int) (ids []string, pages int) {
	t.Helper()
	q := docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "until", UpTo: time.Unix(2, 0), Limit: limit}
	for {
		p, err := store.Due(t.Context(), q)
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

// TestIndexesKeepWhatDueNeeds: the file that people deploy turns off the index of no collection that is asked for due
// documents.
func TestIndexesKeepWhatDueNeeds(t *testing.T) {
	content, err := os.ReadFile("firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		FieldOverrides []struct{ CollectionGroup, FieldPath string }
	}
	if err := json.Unmarshal(content, &file); err != nil || len(file.FieldOverrides) == 0 {
		t.Fatalf("%+v, %v", file, err)
	}
	for _, o := range file.FieldOverrides {
		if o.CollectionGroup == analysis.Kind {
			t.Errorf("%s of %s is exempt", o.FieldPath, o.CollectionGroup)
		}
	}
}

// TestTimestampOfAnotherWriter, BE-041-RULE-3, BE-041-RULE-4: a lockExpiresAt that is Firestore's own timestamp is
// judged like a time that is text. A sweep, which looks for text, does not find it.
func TestTimestampOfAnotherWriter(t *testing.T) {
	clock := suite.NewClock()
	store, server := onClock(t, firestoretest.Pessimistic, clock.Now)
	analyses, user := analysis.New(store, nil), client(t, server)
	write := func(until time.Time) {
		t.Helper()
		if _, err := user.Doc("leasehold/v1/analyses/a").Set(t.Context(),
			map[string]any{"lockOwner": "other", "lockExpiresAt": until}); err != nil {
			t.Fatal(err)
		}
	}
	acquire := func(request string) analysis.Outcome {
		t.Helper()
		o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: "a", Owner: "ann", RequestID: request, TTLSeconds: 300})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	until := clock.Now().Add(time.Second)
	write(until)
	if o := acquire("r1"); o.Code != analysis.Locked || o.RetryAfter != time.Second || !o.Grant.ExpiresAt.Equal(until) {
		t.Errorf("while it is ahead: %+v", o)
	}
	clock.Advance(time.Second)
	if swept, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: noQueue{t}}); err != nil ||
		swept != (analysis.Swept{}) {
		t.Errorf("%+v, %v", swept, err)
	}
	if o := acquire("r2"); o.Code != analysis.OK || o.Grant.Owner != "ann" {
		t.Errorf("once it has passed: %+v", o)
	}
}

// noQueue is a queue that must not be used.
type noQueue struct{ t *testing.T }

func (q noQueue) Enqueue(_ context.Context, id analysis.ID, _ string) error {
	q.t.Errorf("%s was queued", id)
	return nil
}
