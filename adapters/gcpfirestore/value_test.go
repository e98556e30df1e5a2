package gcpfirestore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/rates"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// TestForeignDocument: what a user's document holds is read as far as the port can express it, and survives a write.
func TestForeignDocument(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s, c := open(t, server, ""), client(t, server)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	doc := c.Doc("analyses/abc-123")
	theirs := map[string]any{
		"text": "x", "whole": int64(1) << 53, "yes": true, "labels": map[string]any{"a": "1"}, "none": map[string]any{},
		"large": int64(1)<<53 + 1, "part": 0.5, "one": 1.0, "nothing": nil, "when": at, "list": []any{"a", int64(1)},
		"bytes": []byte{0, 255}, "many": make([]byte, docstore.MaxBytes+1),
		"nested": map[string]any{"a": "1", "b": int64(2)}, "a field": "y", "ref": c.Doc("a/b"),
	}
	if _, err := doc.Set(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	k := docstore.Key{Kind: "analyses", ID: "abc-123"}
	r, err := s.Write(t.Context(), docstore.Write{
		Key: k,
		If: docstore.All{
			docstore.Eq{Field: "text", Value: docstore.String("x")},
			docstore.Eq{Field: "whole", Value: docstore.Int(docstore.MaxInt)},
			docstore.Eq{Field: "yes", Value: docstore.Bool(true)}, docstore.Eq{Field: "labels", Value: docstore.Map{"a": "1"}},
			docstore.Eq{Field: "bytes", Value: docstore.Bytes("\x00\xff")},
			docstore.Has{Field: "nothing"},
			docstore.Not{Cond: docstore.LE{Field: "large", Value: docstore.Int(docstore.MaxInt)}},
			docstore.Not{Cond: docstore.LE{Field: "one", Value: docstore.Int(docstore.MaxInt)}},
		},
		Set: docstore.Doc{"lockOwner": docstore.String("me")}, Unset: []string{"yes"},
	})
	if err != nil || !r.Applied {
		t.Fatalf("%+v, error %v", r, err)
	}
	for field, v := range r.Docs[0] {
		_, opaque := v.(docstore.Opaque)
		_, native := map[string]bool{"text": true, "whole": true, "labels": true, "none": true, "bytes": true,
			"a field": true, "lockOwner": true}[field]
		if opaque == native {
			t.Errorf("%s is %#v", field, v)
		}
	}
	if o, _ := r.Docs[0]["nothing"].(docstore.Opaque); !o.Null || !o.Time.IsZero() {
		t.Errorf("null is %#v", o)
	}
	if o, _ := r.Docs[0]["when"].(docstore.Opaque); o.Null || !o.Time.Equal(at) {
		t.Errorf("a timestamp is %#v, want %v", o, at)
	}
	snap, err := doc.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs["lockOwner"] = "me"
	delete(theirs, "yes")
	got := snap.Data()
	if ref, ok := got["ref"].(*sdk.DocumentRef); !ok || ref.Path != theirs["ref"].(*sdk.DocumentRef).Path {
		t.Errorf("ref is %v", got["ref"])
	}
	delete(got, "ref")
	delete(theirs, "ref")
	if !reflect.DeepEqual(got, theirs) {
		t.Errorf("the document is %v, want %v", got, theirs)
	}
}

// TestMapKeys: keys that Firestore keeps for itself, and those that look like their escaped form.
func TestMapKeys(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s, c := open(t, server, ""), client(t, server)
	want := docstore.Map{"__x__": "1", "__x__\u0001": "2", "____": "3", "__": "4", ".": "5", "a.b": "6", "`": "7",
		"x\u0001": "8", "a/b": "9"}
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("m"), Set: docstore.Doc{"m": want}}); err != nil {
		t.Fatal(err)
	}
	snap, err := s.Get(t.Context(), key("m"))
	if err != nil || !snap.Docs[0].Equal(docstore.Doc{"m": want}) {
		t.Errorf("%v, error %v, want %v", snap.Docs, err, want)
	}
	stored, err := c.Doc("tenants/acme/locks/m").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := stored.Data()["m"].(map[string]any)
	for _, plain := range []string{"__", ".", "a.b", "`", "x\u0001", "a/b"} {
		if m[plain] != want[plain] {
			t.Errorf("%q holds %v, want %q", plain, m[plain], want[plain])
		}
	}
	if len(m) != len(want) || m["__x__"] != nil {
		t.Errorf("stored is %v", m)
	}
}

// TestLayout: where documents are, with and without a root.
func TestLayout(t *testing.T) {
	server := firestoretest.Start(t, nil)
	c := client(t, server)
	for i, l := range []struct {
		root string
		key  docstore.Key
		path string
	}{
		{"", docstore.Key{Kind: "analyses", ID: "abc-123"}, "analyses/abc-123"},
		{"", docstore.Key{Kind: "locks", Tenant: "acme", ID: "a/b"}, "tenants/acme/locks/a.／b"},
		{"", docstore.Key{Kind: "locks", Tenant: "a/b", ID: "x"}, "tenants/a.／b/locks/x"},
		{"", docstore.Key{Kind: "tenants", ID: "acme"}, "tenants/acme"},
		{"", docstore.Key{Kind: "tenants", Tenant: "acme", ID: "x"}, "tenants/acme/tenants/x"},
		{"leasehold/v1", docstore.Key{Kind: "locks", ID: "x"}, "leasehold/v1/locks/x"},
		{"leasehold/v1", docstore.Key{Kind: "locks", Tenant: "acme", ID: "x"}, "leasehold/v1/tenants/acme/locks/x"},
		{"a/b/c/d", docstore.Key{Kind: "locks", Tenant: "acme", ID: "x"}, "a/b/c/d/tenants/acme/locks/x"},
	} {
		s := open(t, server, l.root)
		if _, err := s.Write(t.Context(), docstore.Write{Key: l.key, If: docstore.Absent{},
			Set: docstore.Doc{"i": docstore.Int(i)}}); err != nil {
			t.Fatal(err)
		}
		snap, err := c.Doc(l.path).Get(t.Context())
		if err != nil || snap.Data()["i"] != int64(i) {
			t.Errorf("%s: error %v", l.path, err)
		}
		page, err := s.List(t.Context(), docstore.Query{Kind: l.key.Kind, Tenant: l.key.Tenant})
		if err != nil || len(page.Entries) == 0 || page.Entries[0].Key != l.key {
			t.Errorf("%s: listed %v, error %v", l.path, page.Entries, err)
		}
	}
}

// TestListPassesOverForeignIDs: documents that no key leads to do not make pages short, and cost another request.
func TestListPassesOverForeignIDs(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s, c := open(t, server, ""), client(t, server)
	for i := range 5 {
		for _, id := range []string{fmt.Sprintf("a.．%d", i), fmt.Sprintf("a.．%d．", i)} {
			if _, err := c.Doc("locks/"+id).Set(t.Context(), map[string]any{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		if _, err := s.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "locks", ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	server.ResetCounts()
	var times []*timestamppb.Timestamp
	server.Inject(firestoretest.Fault{Method: "RunQuery", Effect: firestoretest.Delay{},
		Match: func(m proto.Message) bool {
			times = append(times, proto.CloneOf(m.(*pb.RunQueryRequest).GetReadTime()))
			return true
		}})
	page, err := s.List(t.Context(), docstore.Query{Kind: "locks", Limit: 2})
	if err != nil || len(page.Entries) != 2 || page.Entries[1].Key.ID != "b" || page.Next != "b" {
		t.Errorf("the page is %v, next %q, error %v; want a and b", page.Entries, page.Next, err)
	}
	if got := server.Count("RunQuery"); got != 6 {
		t.Errorf("%d requests, want 6: one and five more for ten documents in the way", got)
	}
	for i, at := range times {
		if (at == nil) != (i == 0) || i > 1 && !proto.Equal(at, times[1]) {
			t.Errorf("the read times asked for are %v: all but the first must be that of the first answer", times)
		}
	}
}

// TestListAsksForItsRange: a prefix does not read what lies behind it.
func TestListAsksForItsRange(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s := open(t, server, "")
	var sent *pb.StructuredQuery
	server.Inject(firestoretest.Fault{Method: "RunQuery", Effect: firestoretest.Delay{},
		Match: func(m proto.Message) bool {
			sent = proto.CloneOf(m.(*pb.RunQueryRequest)).GetStructuredQuery()
			return true
		}})
	const collection = "projects/test/databases/(default)/documents/tenants/acme/locks/"
	for _, c := range []struct {
		query      docstore.Query
		start, end string // "" for none; a start begins with ">" if it lies before the first
		limit      int32
	}{
		{docstore.Query{}, "", "", 101},
		{docstore.Query{Limit: 5, After: "m"}, ">m", "", 6},
		{docstore.Query{Prefix: "a/"}, "a.／", "a0", 101},
		{docstore.Query{Prefix: "a/", After: "a/b"}, ">a.／b", "a0", 101},
		{docstore.Query{Prefix: "b", After: "a"}, "b", "c", 101},
		{docstore.Query{Prefix: "b", After: "z"}, ">z", "", 101},
	} {
		c.query.Kind, c.query.Tenant = "locks", "acme"
		if _, err := s.List(t.Context(), c.query); err != nil {
			t.Fatal(err)
		}
		show := func(cursor *pb.Cursor) string {
			if cursor == nil {
				return ""
			}
			name := strings.TrimPrefix(cursor.GetValues()[0].GetReferenceValue(), collection)
			if !cursor.GetBefore() {
				name = ">" + name
			}
			return name
		}
		if start, end := show(sent.GetStartAt()), show(sent.GetEndAt()); start != c.start || end != c.end ||
			sent.GetLimit().GetValue() != c.limit {
			t.Errorf("%+v: from %q to %q, limit %d; want from %q to %q, limit %d", c.query, start, end,
				sent.GetLimit().GetValue(), c.start, c.end, c.limit)
		}
	}
}

// TestIndexesFile: the file that turns indexes off names the kinds of documents that are kept, and those that end, by
// the adapter's own field.
func TestIndexesFile(t *testing.T) {
	content, err := os.ReadFile("firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []any
			TTL                        bool
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{lock.Kind: true, runs.Kind: true, lock.FenceKind: true, machineid.Kind: true,
		"placement_clusters": true, "placement_registry": true, "placement_alarms": true, "placement_alarm_clusters": true,
		rates.Kind: true, census.TallyKind: true}
	ends := map[string]bool{lock.Kind: true, runs.Kind: true, rates.Kind: true}
	for _, kind := range []string{placement.ActivationKind, "placement_epochs", "placement_events", "placement_members",
		"placement_member_leases"} {
		want[kind], ends[kind] = true, true
	}
	for _, o := range file.FieldOverrides {
		if o.TTL {
			if !ends[o.CollectionGroup] || o.FieldPath != "_keep_until" || len(o.Indexes) != 0 {
				t.Errorf("TTL policy %+v", o)
			}
			delete(ends, o.CollectionGroup)
			continue
		}
		if !want[o.CollectionGroup] || o.FieldPath != "*" || len(o.Indexes) != 0 {
			t.Errorf("override %+v", o)
		}
		delete(want, o.CollectionGroup)
	}
	if len(want)+len(ends) != 0 {
		t.Errorf("missing: %v; TTL policies of %v", want, ends)
	}
}
