package gcpfirestore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func waits(id string, second int64) docstore.Write {
	return docstore.Write{Key: key(id), Set: docstore.Doc{"until": docstore.FormatTime(time.Unix(second, 0))}}
}

func write(t *testing.T, s docstore.Store, w docstore.Write) {
	t.Helper()
	if r, err := s.Write(t.Context(), w); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
}

// found are the IDs of the documents that wait until a second, in the order in which they are found.
func found(t *testing.T, s docstore.Store, second int64, limit int) (ids []string) {
	t.Helper()
	q := docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "until", UpTo: time.Unix(second, 0), Limit: limit}
	for {
		p, err := docstore.Due(t.Context(), s, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			ids = append(ids, e.Key.ID)
		}
		if q.After = p.Next; q.After == "" {
			return ids
		}
	}
}

// noIndex makes Firestore refuse what asks for a field that is exempt from indexing.
func noIndex(server *firestoretest.Server, field string) *firestoretest.Injection {
	return server.Inject(firestoretest.Fault{
		Method: "RunQuery", Effect: firestoretest.Fail{Code: codes.FailedPrecondition,
			Message: "The query requires an index."},
		Match: func(m proto.Message) bool {
			orders := m.(*pb.RunQueryRequest).GetStructuredQuery().GetOrderBy()
			return orders[0].GetField().GetFieldPath() == field
		},
	})
}

// TestShards: documents are spread evenly, and found in the order of their times, with and without the field's own
// index; a write costs what it costs without shards.
func TestShards(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s, user := openWith(t, server, gcpfirestore.Options{Due: []string{"until"}, IndexShards: 8}), client(t, server)
	times := map[string]int64{}
	for i := range 200 {
		id := fmt.Sprint("document ", i)
		times[id] = int64(i * 7 % 40) // 150 of them are due: the field's own index has no more than one query asks for
		write(t, s, waits(id, times[id]))
	}
	server.ResetCounts()
	write(t, s, waits("document 0", times["document 0"]))
	if got := server.Counts(); !maps.Equal(got, map[string]int{"BatchGetDocuments": 1, "Commit": 1}) {
		t.Errorf("a write took %v", got)
	}
	docs, err := user.Collection("tenants/acme/locks").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	shards := map[string]int{}
	for _, d := range docs {
		due, _ := d.Data()["_due_until"].(string)
		shard, rest, _ := strings.Cut(due, " ")
		if shards[shard]++; rest != d.Data()["until"] {
			t.Errorf("%s: %q", d.Ref.ID, due)
		}
	}
	if len(shards) != 8 {
		t.Errorf("shards %v", shards)
	}
	for shard, n := range shards {
		if n > 50 {
			t.Errorf("shard %s has %d of 200", shard, n)
		}
	}
	check := func(what string, queries int) {
		t.Helper()
		want := slices.DeleteFunc(slices.Collect(maps.Keys(times)), func(id string) bool { return times[id] > 29 })
		slices.Sort(want)
		for _, limit := range []int{1, 7, 1000} {
			server.ResetCounts()
			got := found(t, s, 29, limit)
			if limit == 1000 && server.Count("RunQuery") != queries {
				t.Errorf("%s: %d queries, want %d", what, server.Count("RunQuery"), queries)
			}
			if !slices.IsSortedFunc(got, func(a, b string) int { return int(times[a] - times[b]) }) {
				t.Errorf("%s, pages of %d: not in the order of time", what, limit)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: %d documents, want %d", what, limit, len(got), len(want))
			}
		}
	}
	check("with the field's own index", 9)
	refused := noIndex(server, "until")
	check("without it", 8)
	if refused.Hits() != 1 {
		t.Errorf("it was asked %d times after it was refused", refused.Hits())
	}
}

// TestShardsBesideOtherWriters: what processes without the setting and other programs write is found by the field's own
// index: documents without a shard, and those whose shard says what no longer is.
func TestShardsBesideOtherWriters(t *testing.T) {
	server := firestoretest.Start(t, nil)
	plain := open(t, server, "")
	s := openWith(t, server, gcpfirestore.Options{Due: []string{"until"}, IndexShards: 8})
	write(t, plain, waits("earlier", 1))
	write(t, s, waits("sharded", 2))
	write(t, s, waits("moved by another", 3))
	write(t, plain, waits("moved by another", 50))
	write(t, s, waits("brought by another", 60))
	write(t, plain, waits("brought by another", 4))
	write(t, s, waits("ended by another", 5))
	write(t, plain, docstore.Write{Key: key("ended by another"), Unset: []string{"until"}})
	write(t, s, waits("ended", 6))
	write(t, s, docstore.Write{Key: key("ended"), Unset: []string{"until"}})
	write(t, s, waits("a number", 7))
	write(t, s, docstore.Write{Key: key("a number"), Set: docstore.Doc{"until": docstore.Int(7)}})
	write(t, s, waits("deleted", 8))
	write(t, s, docstore.Write{Key: key("deleted"), If: docstore.Has{Field: "until"}, Delete: true})
	write(t, s, docstore.Write{Key: key("touched"), Set: docstore.Doc{"other": docstore.Int(1)}})
	for limit := 1; limit < 6; limit++ {
		if got, want := found(t, s, 30, limit), []string{"earlier", "sharded", "brought by another"}; !slices.Equal(got,
			want) {
			t.Errorf("pages of %d: %q, want %q", limit, got, want)
		}
		if got, want := found(t, plain, 30, limit), []string{"earlier", "sharded", "brought by another"}; !slices.Equal(got,
			want) {
			t.Errorf("without the setting, pages of %d: %q, want %q", limit, got, want)
		}
	}
	data := func(id string) map[string]any {
		d, err := client(t, server).Doc("tenants/acme/locks/" + id).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Data()
	}
	for _, id := range []string{"ended", "a number", "touched", "earlier"} {
		if _, there := data(id)["_due_until"]; there {
			t.Errorf("%s has a shard: %v", id, data(id))
		}
	}
	if snap, err := s.Get(t.Context(), key("sharded")); err != nil || len(snap.Docs[0]) != 1 {
		t.Errorf("%v, %v: the shard is no field of the document", snap.Docs, err)
	}
}

// TestMoreShards: the number is raised by one process while others write with the former, and while a walk is under
// way.
func TestMoreShards(t *testing.T) {
	server := firestoretest.Start(t, nil)
	with := func(n int) *gcpfirestore.Store {
		return openWith(t, server, gcpfirestore.Options{Due: []string{"until"}, IndexShards: n})
	}
	former := with(8)
	noIndex(server, "until")
	var want []string
	fill := func(s docstore.Store, prefix string, n int) {
		for i := range n {
			want = append(want, fmt.Sprint(prefix, i))
			write(t, s, waits(fmt.Sprint(prefix, i), int64(i)))
		}
	}
	fill(former, "a", 20)
	q := docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "until", UpTo: time.Unix(100, 0), Limit: 5}
	page, err := former.Due(t.Context(), q)
	if err != nil || len(page.Entries) != 5 {
		t.Fatal(page, err)
	}
	seen := map[string]int{}
	for _, e := range page.Entries {
		seen[e.Key.ID]++
	}
	for i, more := range []map[string]int{{"BatchGetDocuments": 2, "Commit": 2}, {"BatchGetDocuments": 2, "Commit": 1}} {
		s := with(40)
		server.ResetCounts()
		fill(s, fmt.Sprint("b", i), 1)
		if got := server.Counts(); !maps.Equal(got, more) {
			t.Errorf("process %d: the first write took %v, want %v", i, got, more)
		}
		server.ResetCounts()
		fill(s, fmt.Sprint("c", i), 10)
		if got := server.Counts(); !maps.Equal(got, map[string]int{"BatchGetDocuments": 10, "Commit": 10}) {
			t.Errorf("process %d: later writes took %v", i, got)
		}
	}
	fill(with(20), "d", 10) // a process whose setting is behind does not lower it
	fill(former, "e", 3)
	q.Limit, q.After = 7, page.Next
	for q.After != "" {
		p, err := former.Due(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			seen[e.Key.ID]++
		}
		q.After = p.Next
	}
	for i := range 20 {
		if id := fmt.Sprint("a", i); seen[id] != 1 {
			t.Errorf("%s was seen %d times", id, seen[id])
		}
	}
	slices.Sort(want)
	for _, s := range []docstore.Store{former, with(8)} {
		got := found(t, s, 100, 0)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d documents of %d", len(got), len(want))
		}
	}
}

func TestShardsAreRefused(t *testing.T) {
	server := firestoretest.Start(t, nil)
	for _, o := range []gcpfirestore.Options{
		{Due: []string{"until"}, IndexShards: 7}, {Due: []string{"until"}, IndexShards: 65}, {IndexShards: 8},
		{Due: []string{"_x"}}, {Due: []string{"until"}, IndexShards: -1},
	} {
		o.Project, o.ClientOptions = project, server.ClientOptions()
		if s, err := gcpfirestore.Open(t.Context(), &o); err == nil {
			t.Errorf("%+v was accepted: %v", o, s)
		}
	}
	s := openWith(t, server, gcpfirestore.Options{Due: []string{"until"}, IndexShards: 8})
	for _, v := range []any{65, -1, "9", 1.5} {
		if _, err := client(t, server).Doc("leasehold_index/shards").Set(t.Context(),
			map[string]any{"shards": v}); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Due(t.Context(), docstore.DueQuery{Kind: "locks", Field: "until"}); err == nil ||
			!strings.Contains(err.Error(), "shards") {
			t.Errorf("%v: %v, %v", v, p, err)
		}
	}
	// The index of the shards themselves is needed.
	if _, err := client(t, server).Doc("leasehold_index/shards").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	noIndex(server, "_due_until")
	if p, err := s.Due(t.Context(), docstore.DueQuery{Kind: "locks", Field: "until"}); err == nil ||
		errors.Is(err, docstore.ErrNoIndex) {
		t.Errorf("%v, %v", p, err)
	}
}
