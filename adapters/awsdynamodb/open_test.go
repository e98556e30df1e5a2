package awsdynamodb_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// noEnvironment hides what this machine knows of AWS.
func noEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	none := t.TempDir() + "/none"
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

func TestOpenRefuses(t *testing.T) {
	noEnvironment(t)
	server := dynamodbtest.Start(t, nil)
	client := dial(server)
	for name, in := range map[string]*sdk.CreateTableInput{
		"hash-only": table("_pk", types.ScalarAttributeTypeS),
		"numbers":   table("_pk", types.ScalarAttributeTypeS, "_sk", types.ScalarAttributeTypeN),
		"names":     table("pk", types.ScalarAttributeTypeS, "sk", types.ScalarAttributeTypeS),
	} {
		in.TableName = aws.String(name)
		if _, err := client.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, table string
		options     awsdynamodb.Options
		want        []string // in the error
		is          error
	}{
		{"no name", "", awsdynamodb.Options{Client: client}, []string{"name of the table is empty"}, nil},
		{"no region", "t", awsdynamodb.Options{}, []string{"no region", "AWS_REGION"}, nil},
		{"no credentials", "t", awsdynamodb.Options{Region: "eu-north-1"},
			[]string{"no credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"}, nil},
		{"endpoint no URL", "t", awsdynamodb.Options{Endpoint: "localhost:8000"},
			[]string{`"localhost:8000"`, "http://127.0.0.1:8000"}, nil},
		{"no server", "t", awsdynamodb.Options{Endpoint: closed(t)},
			[]string{"table t", "connection refused", "check the endpoint"}, docstore.ErrUnavailable},
		{"client and region", "t", awsdynamodb.Options{Client: client, Region: "x"}, []string{"Region"}, nil},
		{"missing", "missing", awsdynamodb.Options{Client: client}, []string{"missing", "--create-table", "Terraform"}, nil},
		{"no sort key", "hash-only", awsdynamodb.Options{Client: client},
			[]string{"key is _pk (HASH, S)", "must be _pk (HASH, S) and _sk (RANGE, S)"}, nil},
		{"sort key of numbers", "numbers", awsdynamodb.Options{Client: client}, []string{"_sk (RANGE, N)"}, nil},
		{"other names", "names", awsdynamodb.Options{Client: client}, []string{"pk (HASH, S) and sk (RANGE, S)"}, nil},
		{"retryTimeout", "t", awsdynamodb.Options{RetryTimeout: -1}, []string{"RetryTimeout"}, nil},
		{"skew too small", "t", awsdynamodb.Options{MaxSkew: time.Millisecond}, []string{"MaxSkew", "100ms"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := awsdynamodb.Open(ctx, c.table, &c.options)
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want %q in it", err, part)
				}
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want %v", err, c.is)
			}
		})
	}
}

func table(namesAndTypes ...any) *sdk.CreateTableInput {
	in := &sdk.CreateTableInput{BillingMode: types.BillingModePayPerRequest}
	for i := 0; i < len(namesAndTypes); i += 2 {
		name, kind := namesAndTypes[i].(string), namesAndTypes[i+1].(types.ScalarAttributeType)
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(name),
			AttributeType: kind})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{
			AttributeName: aws.String(name), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i/2],
		})
	}
	return in
}

// TestOpenKeepsItsDeadline: a service that accepts connections and never answers.
func TestOpenKeepsItsDeadline(t *testing.T) {
	noEnvironment(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := awsdynamodb.Open(ctx, "t", &awsdynamodb.Options{Endpoint: silent(t)})
	if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// TestOpenLocal: an emulator on this machine needs nothing in the environment.
func TestOpenLocal(t *testing.T) {
	noEnvironment(t)
	server := dynamodbtest.Start(t, nil)
	o := &awsdynamodb.Options{Endpoint: server.URL, CreateTable: true}
	for range 2 { // creates it, then finds it
		s, err := awsdynamodb.Open(t.Context(), "leasehold", o)
		if err != nil {
			t.Fatal(err)
		}
		if w := s.Warnings(); len(w) != 0 {
			t.Errorf("warnings: %q", w)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := server.Count("CreateTable"); got != 1 {
		t.Errorf("%d tables were created", got)
	}
	out, err := dial(server).DescribeTimeToLive(t.Context(), &sdk.DescribeTimeToLiveInput{
		TableName: aws.String("leasehold")})
	if err != nil || aws.ToString(out.TimeToLiveDescription.AttributeName) != "_keep_until" {
		t.Errorf("documents whose time has passed are never removed: time to live %+v, %v", out, err)
	}
	server.ResetCounts()
	s, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := server.Requests(); len(got) != 1 || got["DescribeTable"] != 1 {
		t.Errorf("opening took %v, want one DescribeTable", got)
	}
	if skew := s.Stats().Skew; !skew.Known || skew.Offset != 0 || skew.Low > 0 || skew.High < 0 {
		t.Errorf("after opening the clock is known as %+v", skew)
	}
}

// meddler is a client whose answers and errors a test changes.
type meddler struct {
	awsdynamodb.Client
	describe func(*types.TableDescription)
	update   func(context.Context, *sdk.UpdateItemInput, ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error)
}

func (m meddler) DescribeTable(ctx context.Context, in *sdk.DescribeTableInput,
	o ...func(*sdk.Options)) (*sdk.DescribeTableOutput, error) {
	out, err := m.Client.DescribeTable(ctx, in, o...)
	if err == nil && m.describe != nil {
		m.describe(out.Table)
	}
	return out, err
}

func (m meddler) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput,
	o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	if m.update != nil {
		return m.update(ctx, in, o...)
	}
	return m.Client.UpdateItem(ctx, in, o...)
}

func TestOpenLooksAtTheTable(t *testing.T) {
	client := inMemory()
	for name, c := range map[string]struct {
		describe      func(*types.TableDescription)
		refuse, warns string
	}{
		"global": {func(d *types.TableDescription) {
			d.Replicas = []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}}
		}, "", "two of them could grant the same lease"},
		"global, first version": {func(d *types.TableDescription) {
			d.GlobalTableVersion = aws.String("2017.11.29")
		}, "", "two of them could grant the same lease"},
		"global, strong": {func(d *types.TableDescription) {
			d.Replicas = []types.ReplicaDescription{{}}
			d.MultiRegionConsistency = types.MultiRegionConsistencyStrong
		}, "", "no transactions"},
		"being created": {func(d *types.TableDescription) { d.TableStatus = types.TableStatusCreating }, "being created", ""},
		"archived":      {func(d *types.TableDescription) { d.TableStatus = types.TableStatusArchived }, "ARCHIVED", ""},
		"being updated": {func(d *types.TableDescription) { d.TableStatus = types.TableStatusUpdating }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := awsdynamodb.Open(t.Context(), "leasehold",
				&awsdynamodb.Options{Client: client, CreateTable: true}); err != nil {
				t.Fatal(err)
			}
			s, err := awsdynamodb.Open(t.Context(), "leasehold",
				&awsdynamodb.Options{Client: meddler{Client: client, describe: c.describe}})
			if c.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuse) {
					t.Errorf("error %v, want %q in it", err, c.refuse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, c.warns) || (w == "") != (c.warns == "") {
				t.Errorf("warnings %q, want %q in them", w, c.warns)
			}
		})
	}
}

// TestServiceErrors: what the service says in words of its own is answered with what to do.
func TestServiceErrors(t *testing.T) {
	k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"}
	for _, c := range []struct {
		code string
		want string
		is   error
	}{
		{"AccessDeniedException", "dynamodb:DescribeTable, GetItem, Query, UpdateItem, DeleteItem, ConditionCheckItem", nil},
		{"ExpiredTokenException", "credentials are not accepted", nil},
		{"UnrecognizedClientException", "credentials are not accepted", nil},
		{"ResourceNotFoundException", "--create-table", nil},
		{"ValidationException", "ValidationException", nil},
		{"ThrottlingException", "throttled", docstore.ErrUnavailable},
		{"TransactionConflictException", "other transactions", docstore.ErrUnavailable},
		{"ReplicatedWriteConflictException", "writes in another region", docstore.ErrUnavailable},
	} {
		t.Run(c.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what is tried again waits
				s := open(t, meddler{Client: inMemory(), update: func(context.Context, *sdk.UpdateItemInput,
					...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
					return nil, &smithy.GenericAPIError{Code: c.code, Message: "no"}
				}})
				_, err := s.Write(t.Context(), docstore.Write{Key: k})
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "table leasehold") {
					t.Errorf("error %v, want %q in it", err, c.want)
				}
				if errors.Is(err, docstore.ErrUnavailable) != (c.is != nil) {
					t.Errorf("error %v; to be tried again: %v", err, c.is != nil)
				}
			})
		})
	}
}

// TestServerThatKeepsWhatItFound: dynalite rejects without returning the item. Where the rejection proves that there is
// one, it is read.
func TestServerThatKeepsWhatItFound(t *testing.T) {
	client := inMemory()
	m := meddler{Client: client}
	m.update = func(ctx context.Context, in *sdk.UpdateItemInput, o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
		out, err := client.UpdateItem(ctx, in, o...)
		if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
			failed.Item = nil
		}
		return out, err
	}
	locks := lock.New(open(t, m), nil)
	c := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", TTLSeconds: 60}
	if o, err := locks.Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
		t.Fatal(o, err)
	}
	if o, err := locks.Acquire(t.Context(), c); err != nil || o.Code != lock.OK || !o.Replayed {
		t.Errorf("repeated: %+v, %v", o, err)
	}
	c.Owner = "bob"
	if o, err := locks.Acquire(t.Context(), c); err != nil || o.Code != lock.Held || o.Lease.Owner != "ann" {
		t.Errorf("held: %+v, %v", o, err)
	}
}

// garbled breaks off the body of the next answers with a status.
type garbled struct {
	http.RoundTripper
	status, times int
}

func (g *garbled) RoundTrip(r *http.Request) (*http.Response, error) {
	w, err := g.RoundTripper.RoundTrip(r)
	if err == nil && w.StatusCode == g.status && g.times > 0 {
		g.times--
		w.Body = io.NopCloser(iotest.ErrReader(errors.New("the connection broke")))
	}
	return w, err
}

// TestResponseBreaksOff: a rejection whose reason cannot be read changed nothing, and the write is sent again. A
// success or a failure that cannot be read may not be repeated: the outcome is unknown.
func TestResponseBreaksOff(t *testing.T) {
	server := dynamodbtest.New(nil)
	g := &garbled{RoundTripper: server.RoundTripper()}
	s := open(t, sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://dynamodb.local"), Credentials: anybody,
		HTTPClient: &http.Client{Transport: g},
	}))
	count := docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}, Add: map[string]int64{"n": 1}}
	server.ResetCounts()
	g.status, g.times = http.StatusOK, 1
	if r, err := s.Write(t.Context(), count); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("a success that breaks off: %+v, %v", r, err)
	}
	if n := server.Count("UpdateItem"); n != 1 {
		t.Errorf("a success that breaks off: %d requests", n)
	}
	server.ResetCounts()
	server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailAfter, Op: "UpdateItem", Times: 1})
	g.status, g.times = http.StatusInternalServerError, 1
	if r, err := s.Write(t.Context(), count); !errors.Is(err, docstore.ErrUnavailable) ||
		errors.Is(err, docstore.ErrNotWritten) {
		t.Errorf("a failure that breaks off: %+v, %v", r, err)
	}
	if snap, err := s.Get(t.Context(), count.Key); err != nil || snap.Docs[0]["n"] != docstore.Int(2) ||
		server.Count("UpdateItem") != 1 {
		t.Errorf("a failure that breaks off: %d requests, %v, %v", server.Count("UpdateItem"), snap.Docs, err)
	}
	server.ResetCounts()
	g.status, g.times = http.StatusBadRequest, 1
	count.If = docstore.Absent{}
	if r, err := s.Write(t.Context(), count); err != nil || r.Applied || r.Docs[0]["n"] != docstore.Int(2) {
		t.Errorf("a refusal that breaks off: %+v, %v", r, err)
	}
	count.If = docstore.Not{Cond: docstore.Has{Field: "n"}}
	count.Add = nil
	g.times = 1
	if r, err := s.Write(t.Context(), count); err != nil || r.Applied || r.Docs[0]["n"] != docstore.Int(2) {
		t.Errorf("a refusal that breaks off, of a write that does not refuse itself: %+v, %v", r, err)
	}
	if n := server.Count("UpdateItem"); n != 4 {
		t.Errorf("refusals that break off: %d requests, want 4", n)
	}
}

// TestForeignAttributes: what others keep in an item stays, and a fraction in a counter is no token.
func TestForeignAttributes(t *testing.T) {
	client := inMemory()
	s := open(t, client)
	k := docstore.Key{Kind: "analyses", Tenant: "acme", ID: "a"}
	list := &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberN{Value: "1.5"}}}
	item := map[string]types.AttributeValue{
		"_pk": &types.AttributeValueMemberS{Value: "analyses/acme"}, "_sk": &types.AttributeValueMemberS{Value: "a"},
		"list": list, "a name": &types.AttributeValueMemberS{Value: "kept"}, "n": &types.AttributeValueMemberN{Value: "1.5"},
	}
	if _, err := client.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("leasehold"),
		Item: item}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Has{Field: "list"},
		Set: docstore.Doc{"status": docstore.String("x")}})
	want := docstore.Doc{"list": docstore.Opaque{}, "n": docstore.Opaque{}, "a name": docstore.String("kept"),
		"status": docstore.String("x")}
	if err != nil || !r.Applied || !r.Docs[0].Equal(want) {
		t.Errorf("%+v, %v; want %v", r, err, want)
	}
	out, err := client.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("leasehold"),
		Key: map[string]types.AttributeValue{"_pk": item["_pk"], "_sk": item["_sk"]}})
	if err != nil || len(out.Item["list"].(*types.AttributeValueMemberL).Value) != 1 {
		t.Errorf("the list is %v, %v", out.Item["list"], err)
	}
	if r, err := s.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"n": 1}}); err == nil ||
		!strings.Contains(err.Error(), `"n"`) {
		t.Errorf("adding to a fraction: %+v, %v", r, err)
	}
	// The service returns no documents of several writes, and a condition cannot ask for whole numbers: the sum is stored
	// in silence, and the next write of this document alone, or a reader, finds out.
	several := []docstore.Write{{Key: k, Add: map[string]int64{"n": 1}},
		{Key: docstore.Key{Kind: k.Kind, Tenant: k.Tenant, ID: "b"}, Add: map[string]int64{"n": 1}}}
	if r, err := s.Write(t.Context(), several...); err != nil || !r.Applied {
		t.Errorf("adding to a fraction and another: %+v, %v; if it is refused now, correct the comment of the package", r,
			err)
	}
	snap, err := s.Get(t.Context(), k)
	if _, opaque := snap.Docs[0]["n"].(docstore.Opaque); err != nil || !opaque {
		t.Errorf("%v, %v", snap.Docs, err)
	}
	if r, err := s.Write(t.Context(), several[0]); err == nil || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("adding to a fraction again: %+v, %v", r, err)
	}
}

func TestConditionRefuses(t *testing.T) {
	for name, c := range map[string]docstore.Cond{
		"nil":         nil,
		"absent":      docstore.Any{docstore.Absent{}},
		"time":        docstore.Not{Cond: docstore.LE{Field: "t", Value: docstore.Now}},
		"equal time":  docstore.All{docstore.Eq{Field: "t", Value: docstore.Now}},
		"no field":    docstore.Has{},
		"nil further": docstore.Not{},
	} {
		if e, err := awsdynamodb.Condition(c); !errors.Is(err, docstore.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	s := open(t, inMemory())
	k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"}
	if _, err := s.Check(t.Context(), k, nil); !errors.Is(err, docstore.ErrInvalid) {
		t.Errorf("a check of nothing: %v", err)
	}
	if _, err := s.Check(t.Context(), docstore.Key{}, docstore.Absent{}); !errors.Is(err, docstore.ErrInvalid) {
		t.Errorf("a check of no document: %v", err)
	}
	s.Close()
	if _, err := s.Check(t.Context(), k, docstore.Absent{}); !errors.Is(err, docstore.ErrClosed) {
		t.Errorf("a check of a closed store: %v", err)
	}
}

// open opens a store on a client.
func open(t *testing.T, c awsdynamodb.Client) *awsdynamodb.Store {
	t.Helper()
	return openWith(t, c, awsdynamodb.Options{})
}

// openWith opens a store on a client with more options.
func openWith(t *testing.T, c awsdynamodb.Client, o awsdynamodb.Options) *awsdynamodb.Store {
	t.Helper()
	o.Client, o.CreateTable = c, true
	return openTable(t, "leasehold", o)
}

func openTable(t *testing.T, table string, o awsdynamodb.Options) *awsdynamodb.Store {
	t.Helper()
	s, err := awsdynamodb.Open(t.Context(), table, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dial is a client of an emulator.
func dial(server *dynamodbtest.Server) *sdk.Client { return dialThrough(server.RoundTripper()) }

func dialThrough(t http.RoundTripper) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://dynamodb.local"), Credentials: anybody,
		HTTPClient: &http.Client{Transport: t},
	})
}

// dialURL is a client of a server behind a socket.
func dialURL(url string) *sdk.Client {
	return sdk.New(sdk.Options{Region: "us-east-1", BaseEndpoint: aws.String(url), Credentials: anybody})
}

// TestLazy: opening sends nothing, so that no failure of the control plane can keep a process from starting. What
// opening looks at is found by the first call that needs it.
func TestLazy(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		openWith(t, client, awsdynamodb.Options{Indexes: []string{"until"}}) // creates the table
		for name, kinds := range map[string][]any{
			"numbers": {"_pk", types.ScalarAttributeTypeS, "_sk", types.ScalarAttributeTypeN},
			"names":   {"pk", types.ScalarAttributeTypeS, "sk", types.ScalarAttributeTypeS},
		} {
			in := table(kinds...)
			in.TableName = aws.String(name)
			if _, err := client.CreateTable(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		control := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Op: "DescribeTable"})
		lazy := func(name string) *awsdynamodb.Store {
			t.Helper()
			s, err := awsdynamodb.Open(t.Context(), name, &awsdynamodb.Options{Client: client, Lazy: true,
				Due: []string{"until"}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		server.ResetCounts()
		s := lazy("leasehold")
		if got := server.Requests(); len(got) != 0 {
			t.Errorf("opening took %v", got)
		}
		w := waits("x", 1, nil)
		for i, want := range []map[string]int{{"GetItem": 1, "UpdateItem": 1}, {"UpdateItem": 1}} {
			server.ResetCounts()
			if r, err := s.Write(t.Context(), w); err != nil || !r.Applied {
				t.Errorf("write %d: %+v, %v", i, r, err)
			}
			if got := server.Requests(); !maps.Equal(got, want) {
				t.Errorf("write %d: took %v, want %v", i, got, want)
			}
		}
		if p, err := s.Due(t.Context(), waiting(2)); !errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("without the control plane, documents that are due: %v, %v", p, err)
		}
		control.Remove()
		for i, want := range []map[string]int{{"DescribeTable": 1, "GetItem": 1, "Query": 8}, {"GetItem": 1, "Query": 8}} {
			server.ResetCounts()
			if p, err := s.Due(t.Context(), waiting(2)); err != nil || len(p.Entries) != 1 {
				t.Errorf("due %d: %v, %v", i, p, err)
			}
			if got := server.Requests(); !maps.Equal(got, want) {
				t.Errorf("due %d: took %v, want %v", i, got, want)
			}
		}
		for name, want := range map[string]string{"missing": "there is no such table", "numbers": "its key must be",
			"names": "its key must be"} {
			if _, err := lazy(name).Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("table %s: %v, want %q", name, err, want)
			}
		}
		if _, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: client, Lazy: true,
			CreateTable: true}); err == nil {
			t.Error("a lazy store creates its table")
		}
	})
}

// TestFirstReadMeasures: the first read of a process is one request, whose response measures the clock, for the writes
// after it as well. A clock that is off is rejected all the same, and what was read with it.
func TestFirstReadMeasures(t *testing.T) {
	for name, c := range map[string]struct {
		skew     time.Duration
		requests map[string]int
		ok       bool
	}{
		"right": {0, map[string]int{"GetItem": 1, "UpdateItem": 1}, true},
		// the write measures again: a clock may have been set
		"off":    {5 * time.Second, map[string]int{"GetItem": 2}, false},
		"behind": {-5 * time.Second, map[string]int{"GetItem": 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				openWith(t, client, awsdynamodb.Options{}) // makes the table
				s, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: client, Lazy: true})
				if err != nil {
					t.Fatal(err)
				}
				if c.skew != 0 {
					server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.SkewDate, Skew: c.skew})
				}
				server.ResetCounts()
				k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"}
				if _, err := s.Get(t.Context(), k); errors.Is(err, docstore.ErrClockSkew) == c.ok {
					t.Errorf("read: %v", err)
				}
				time.Sleep(2 * time.Second) // in the bubble: a clock that is off is not measured again within a second
				w := docstore.Write{Key: k, Set: docstore.Doc{"n": docstore.Int(1)}}
				if r, err := s.Write(t.Context(), w); r.Applied != c.ok || errors.Is(err, docstore.ErrClockSkew) == c.ok {
					t.Errorf("write: %+v, %v", r, err)
				}
				if got := server.Requests(); !maps.Equal(got, c.requests) {
					t.Errorf("%v, want %v", got, c.requests)
				}
			})
		})
	}
}
