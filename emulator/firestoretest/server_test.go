package firestoretest_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

func codeOf(err error) codes.Code { return status.Code(err) }

func TestListenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		addr    string
		options *firestoretest.Options
		want    string
	}{
		"all interfaces":       {":0", nil, "not a loopback address"},
		"another interface":    {"192.0.2.1:0", nil, "not a loopback address"},
		"no port":              {"127.0.0.1", nil, "missing port"},
		"a negative timeout":   {"", &firestoretest.Options{LockTimeout: -1}, "LockTimeout"},
		"an unknown mode":      {"", &firestoretest.Options{Mode: 7}, "Mode"},
		"a malformed database": {"", &firestoretest.Options{Databases: []string{"p"}}, "Databases"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := firestoretest.Listen(test.addr, test.options)
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, want something about %q", err, test.want)
			}
		})
	}
}

func TestCloseTwice(t *testing.T) {
	s, err := firestoretest.Listen("localhost:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Close ends what is waiting: a lock, a listener.
func TestCloseWithRequestsUnderWay(t *testing.T) {
	s, c := start(t, &firestoretest.Options{LockTimeout: time.Hour})
	stub := raw(t, s)
	tx := begin(t, stub, nil)
	tx.mustGet("locks/a", -1)
	it := c.Doc("locks/a").Snapshots(t.Context())
	_ = must[*sdk.DocumentSnapshot](t)(it.Next())
	done := make(chan error, 1)
	go func() { done <- plain(t, stub, set("locks/a", 1)) }()
	waitFor(t, func() bool { return s.Waiting() == 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-done, codes.Unavailable)
}

func TestEmulatorHost(t *testing.T) {
	s := firestoretest.Start(t, nil)
	t.Setenv("FIRESTORE_EMULATOR_HOST", s.Addr())
	c, err := sdk.NewClient(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(t.Context(), m{"n": 1}))
	other, otherClient := start(t, nil) // its options win over the environment
	_ = must[*sdk.WriteResult](t)(otherClient.Doc("locks/b").Set(t.Context(), m{"n": 1}))
	if s.Count("Commit") != 1 || other.Count("Commit") != 1 {
		t.Fatalf("%d and %d commits, want one each", s.Count("Commit"), other.Count("Commit"))
	}
}

func TestDatabases(t *testing.T) {
	ctx := t.Context()
	s := firestoretest.Start(t, &firestoretest.Options{
		Databases: []string{database, "projects/test-project/databases/second", "projects/q/databases/(default)"}})
	connect := func(project, db string) *sdk.Client {
		c := must[*sdk.Client](t)(sdk.NewClientWithDatabase(ctx, project, db, s.ClientOptions()...))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	first, second, other := connect(project, "(default)"), connect(project, "second"), connect("q", "(default)")
	for i, c := range []*sdk.Client{first, second, other} {
		_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Create(ctx, m{"n": i}))
	}
	for i, c := range []*sdk.Client{first, second, other} {
		wantData(t, c.Doc("locks/a"), m{"n": int64(i)})
	}
	_, err := connect("p", "(default)").Doc("locks/a").Create(ctx, m{"n": 1})
	wantCode(t, err, codes.NotFound, "The database (default) does not exist for project p")
	// A transaction of one database is none of another.
	stub := raw(t, s)
	tx := begin(t, stub, nil)
	_, err = stub.Commit(ctx, &pb.CommitRequest{Database: "projects/q/databases/(default)", Transaction: tx.id})
	wantCode(t, err, codes.InvalidArgument)
}

// A create, an update and a transaction cost what they cost.
func TestCounts(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	d := c.Doc("locks/a")
	_ = must[*sdk.WriteResult](t)(d.Create(ctx, m{"n": 1}))
	_, _ = d.Create(ctx, m{"n": 1})
	_ = data(t, d)
	if err := c.RunTransaction(ctx, func(_ context.Context, tx *sdk.Transaction) error {
		_, err := tx.Get(d)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"Commit": 3, "BatchGetDocuments": 2, "BeginTransaction": 1}
	if got := s.Counts(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	s.ResetCounts()
	if got := s.Counts(); len(got) != 0 {
		t.Fatalf("counts %v", got)
	}
}

// What is not there says so, by name.
func TestUnimplemented(t *testing.T) {
	ctx := t.Context()
	s, _ := start(t, nil)
	stub := raw(t, s)
	unknown := &pb.CommitRequest{Database: database}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
	nested := &pb.CommitRequest{Database: database, Writes: []*pb.Write{set("locks/a", 1)}}
	nested.GetWrites()[0].GetUpdate().GetFields()["n"].ProtoReflect().SetUnknown(unknown.ProtoReflect().GetUnknown())
	for name, test := range map[string]struct {
		call func() error
		want string
	}{
		"request options": {func() error {
			_, err := stub.Commit(ctx, &pb.CommitRequest{Database: database, RequestOptions: &pb.RequestOptions{}})
			return err
		}, "request_options"},
		"explain": {func() error {
			stream := must[pb.Firestore_RunQueryClient](t)(
				stub.RunQuery(ctx, &pb.RunQueryRequest{Parent: root, ExplainOptions: &pb.ExplainOptions{}}))
			_, err := stream.Recv()
			return err
		}, "explain_options"},
		"an unknown field": {func() error { _, err := stub.Commit(ctx, unknown); return err }, "CommitRequest"},
		"one in a value":   {func() error { _, err := stub.Commit(ctx, nested); return err }, "google.firestore.v1.Value"},
		"a mask": {func() error {
			stream := must[pb.Firestore_BatchGetDocumentsClient](t)(stub.BatchGetDocuments(ctx, &pb.BatchGetDocumentsRequest{
				Database: database, Mask: &pb.DocumentMask{}}))
			_, err := stream.Recv()
			return err
		}, "field mask"},
		"a method": {func() error {
			_, err := stub.PartitionQuery(ctx, &pb.PartitionQueryRequest{})
			return err
		}, "PartitionQuery"},
		"a stream": {func() error {
			stream := must[pb.Firestore_WriteClient](t)(stub.Write(ctx))
			_, err := stream.Recv()
			return err
		}, "Write"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.call()
			wantCode(t, err, codes.Unimplemented)
			if !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v does not name %s", err, test.want)
			}
		})
	}
}

// TestBilled: what the two editions bill. The Enterprise edition bills by size, the larger of before and after.
func TestBilled(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	d := c.Doc("locks/a")
	write := func(text int) func() {
		return func() { _ = must[*sdk.WriteResult](t)(d.Set(ctx, m{"s": strings.Repeat("x", text)})) }
	}
	type bill struct{ reads, writes, unitsRead, unitsWritten int }
	for _, step := range []struct {
		what string
		do   func()
		want bill
	}{
		{"a document that is missing", func() { _, _ = d.Get(ctx) }, bill{reads: 1, unitsRead: 1}},
		{"a small document", write(10), bill{writes: 1, unitsWritten: 1}},
		{"exactly a KiB", write(1024 - 32 - 16 - len("locks") - len("a") - 2 - len("s") - 2),
			bill{writes: 1, unitsWritten: 1}},
		{"one byte more", write(1024 - 32 - 16 - len("locks") - len("a") - 2 - len("s") - 1),
			bill{writes: 1, unitsWritten: 2}},
		{"a large one", write(5000), bill{writes: 1, unitsWritten: 5}},
		{"read", func() { _ = data(t, d) }, bill{reads: 1, unitsRead: 2}},
		{"a query", func() { _, _ = c.Collection("locks").Documents(ctx).GetAll() }, bill{reads: 1, unitsRead: 2}},
		{"a query that finds none", func() {
			_, _ = c.Collection("none").Documents(ctx).GetAll()
		}, bill{reads: 1, unitsRead: 1}},
		{"a create that is refused", func() { _, _ = d.Create(ctx, m{}) }, bill{}},
		{"small again", write(10), bill{writes: 1, unitsWritten: 5}},
		{"deleted", func() { _ = must[*sdk.WriteResult](t)(d.Delete(ctx)) }, bill{writes: 1, unitsWritten: 1}},
	} {
		s.ResetCounts()
		step.do()
		var got bill
		got.reads, got.writes = s.Billed()
		got.unitsRead, got.unitsWritten = s.Units()
		if got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
	}
}

// REST and browsers get a response that says what is here instead, whatever they ask for.
func TestREST(t *testing.T) {
	s := firestoretest.Start(t, nil)
	for _, target := range []string{
		"GET /", "POST /v1/projects/p/databases/(default)/documents:commit",
		"POST /google.firestore.v1.Firestore/Write/channel",
		"PUT /emulator/v1/projects/p:securityRules", "PROPFIND /",
		"DELETE /emulator/v1/projects/p/databases/(default)/documents",
	} {
		method, path, _ := strings.Cut(target, " ")
		for _, body := range []string{"", strings.Repeat("x", 1<<20)} {
			request := must[*http.Request](t)(
				http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, strings.NewReader(body)))
			res, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			var problem struct {
				Error struct{ Status, Message string }
			}
			err = json.NewDecoder(res.Body).Decode(&problem)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusNotImplemented || problem.Error.Status != "UNIMPLEMENTED" ||
				!strings.Contains(problem.Error.Message, "speaks gRPC only") {
				t.Errorf("%s: %d %+v, %v", target, res.StatusCode, problem, err)
			}
		}
	}
}

// A connection that says nothing, or not all, or ends at once, is no obstacle: not to others and not to Close.
func TestConnectionsThatSayNothing(t *testing.T) {
	s, err := firestoretest.Listen("", nil)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	for _, first := range []string{"", "P", "PRI * HTTP/2.0", "GET / HTTP/1.1\r\n", "end"} {
		conn := must[net.Conn](t)(dialer.DialContext(t.Context(), "tcp", s.Addr()))
		defer conn.Close()
		if first == "end" {
			_ = conn.Close()
		} else if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, plain(t, raw(t, s), set("locks/a", 1)), codes.OK)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
