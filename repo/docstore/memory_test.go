package docstore_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

func TestMemoryConformance(t *testing.T) {
	docstoretest.Run(t, func(*testing.T) docstore.Store { return docstore.NewMemory(nil) })
}

func TestMemoryClock(t *testing.T) {
	at := time.Date(2026, 1, 1, 9, 0, 30, 999_999_999, time.FixedZone("JST", 9*60*60))
	m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return at }})
	k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"}
	r, err := m.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"until": docstore.Now.Add(30 * time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 1, 0, 0, 30, 999_000_000, time.UTC); r.At != want {
		t.Errorf("At is %v, want %v", r.At, want)
	}
	if got, want := r.Docs[0]["until"], docstore.String("2026-01-01T00:01:00.999Z"); got != want {
		t.Errorf("until is %v, want %v", got, want)
	}
}
