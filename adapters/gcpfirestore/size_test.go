package gcpfirestore_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// fieldsBytes is the size of fields as Firestore counts it: text with one byte more, numbers and times as 8 bytes, a
// map as a document without a name, which has 32 bytes more than its fields.
func fieldsBytes(t *testing.T, fields map[string]any) int {
	t.Helper()
	n := 32
	for name, v := range fields {
		n += len(name) + 1
		switch v := v.(type) {
		case string:
			n += len(v) + 1
		case int64, time.Time:
			n += 8
		case []byte:
			n += len(v)
		case map[string]any:
			n += fieldsBytes(t, v)
		default:
			t.Fatalf("%T has no size here", v)
		}
	}
	return n
}

// TestSizeOfALock: with ordinary names and 256 bytes of labels, the document of a lock that has been used for long.
// Firestore bills a write by the document, whatever its size. docs/guides/stores.md has the figures.
func TestSizeOfALock(t *testing.T) {
	clock := suite.NewClock()
	store, server := onClock(t, firestoretest.Pessimistic, clock.Now)
	c := client(t, server)
	plain, forced := suite.UsedLock(t, lock.New(store, nil), clock.Advance, func() int { return lockBytes(t, c) })
	if plain > 1086 || forced > 1162 {
		t.Errorf("%d bytes, %d after force-releases: correct docs/guides/stores.md", plain, forced)
	}
}

// lockBytes is the size of the document of the one lock.
func lockBytes(t *testing.T, c *firestore.Client) int {
	t.Helper()
	docs, err := c.CollectionGroup(lock.Kind).Documents(t.Context()).GetAll()
	if err != nil || len(docs) != 1 {
		t.Fatal(len(docs), err)
	}
	_, path, _ := strings.Cut(docs[0].Ref.Path, "/documents/")
	name := 16
	for id := range strings.SplitSeq(path, "/") {
		name += len(id) + 1
	}
	return name + fieldsBytes(t, docs[0].Data())
}

// TestSizeOfASharedLock: what holders and places in line take of the document. docs/guides/stores.md has the figures.
func TestSizeOfASharedLock(t *testing.T) {
	clock := suite.NewClock()
	store, server := onClock(t, firestoretest.Pessimistic, clock.Now)
	c := client(t, server)
	held, all, holder, place := suite.SharedLock(t, lock.New(store, nil), func() int { return lockBytes(t, c) })
	if held > 11622 || all > 20138 || holder > 115 || place > 86 {
		t.Errorf("%d bytes, %d with places, %d for a holder, %d for a place: correct docs/guides/stores.md", held,
			all, holder, place)
	}
}
