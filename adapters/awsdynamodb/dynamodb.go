package awsdynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Client is the part of the SDK's client that a [Store] uses.
type Client interface {
	DescribeTable(context.Context, *sdk.DescribeTableInput, ...func(*sdk.Options)) (*sdk.DescribeTableOutput, error)
	CreateTable(context.Context, *sdk.CreateTableInput, ...func(*sdk.Options)) (*sdk.CreateTableOutput, error)
	UpdateTimeToLive(context.Context, *sdk.UpdateTimeToLiveInput, ...func(*sdk.Options)) (*sdk.UpdateTimeToLiveOutput,
		error)
	GetItem(context.Context, *sdk.GetItemInput, ...func(*sdk.Options)) (*sdk.GetItemOutput, error)
	Query(context.Context, *sdk.QueryInput, ...func(*sdk.Options)) (*sdk.QueryOutput, error)
	Scan(context.Context, *sdk.ScanInput, ...func(*sdk.Options)) (*sdk.ScanOutput, error)
	UpdateItem(context.Context, *sdk.UpdateItemInput, ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error)
	DeleteItem(context.Context, *sdk.DeleteItemInput, ...func(*sdk.Options)) (*sdk.DeleteItemOutput, error)
	TransactGetItems(context.Context, *sdk.TransactGetItemsInput, ...func(*sdk.Options)) (*sdk.TransactGetItemsOutput,
		error)
	TransactWriteItems(context.Context, *sdk.TransactWriteItemsInput,
		...func(*sdk.Options)) (*sdk.TransactWriteItemsOutput, error)
}

// timeToLive is what the SDK's client does for [Store.TimeToLive] alone.
type timeToLive interface {
	DescribeTimeToLive(context.Context, *sdk.DescribeTimeToLiveInput,
		...func(*sdk.Options)) (*sdk.DescribeTimeToLiveOutput, error)
}

var (
	_ Client     = (*sdk.Client)(nil)
	_ timeToLive = (*sdk.Client)(nil)
)

// Defaults of [Options].
const (
	DefaultMaxSkew      = time.Second
	DefaultRetryTimeout = 5 * time.Second
)

// minSkew is the least that [Options].MaxSkew may be: responses are dated in whole seconds, and a busy process reads
// its clock some milliseconds late.
const minSkew = 100 * time.Millisecond

// maxIndexes is how many global secondary indexes a table may have, unless AWS has raised the quota.
const maxIndexes = 20

// TrustClock as [Options].MaxSkew uses the caller's clock as it is: nothing is measured or rejected, and the time is
// taken for exact. It is for tests with a clock of their own, and for machines whose clocks are synchronized and
// monitored otherwise.
const TrustClock time.Duration = -1

// Options are the settings of [Open]. The zero value works where the environment names a region and credentials.
type Options struct {
	// Region is the AWS region; empty means that of the environment or the shared configuration.
	Region string

	// Endpoint is the URL of the service; empty means that of the region. An endpoint on this machine is an
	// emulator: without a region or credentials in the environment it gets made-up ones.
	Endpoint string

	// Client talks to the service instead of one made of Region and Endpoint. The store has its own rules for
	// retries; the client's do not apply.
	Client Client

	// MaxSkew is how far the caller's clock may be off before calls end with [docstore.ErrClockSkew], at least 100 ms; see
	// the package comment. Callers of one table may have different ones. 0 means [DefaultMaxSkew]; see [TrustClock], too.
	MaxSkew time.Duration

	// RetryTimeout is how long a call retries after throttling and conflicts before it ends with
	// [docstore.ErrUnavailable]; 0 means [DefaultRetryTimeout]. The context may end it earlier.
	RetryTimeout time.Duration

	// CreateTable creates the table if it is missing, paid per request, with time to live on _keep_until. It is for
	// development: in production use Terraform.
	CreateTable bool

	// Lazy makes [Open] send nothing: a process that starts often then depends on no call of the control plane, and its
	// policy need not allow DescribeTable. The first call measures the clock with a GetItem, a table that cannot be used
	// is the error of the first call, and what Open would warn of goes unnoticed. [Store.Due] looks for its index when it
	// is first called.
	Lazy bool

	// Due names text fields by which [Store.Due] is to find documents, such as analysis.ExpiryField. A write that sets one
	// also stores in which shard of the index the document is, which takes no further request. Name those of all indexes
	// if the store is Lazy: otherwise they are found at the table, and those of Indexes are among them.
	Due []string

	// Indexes names text fields, 20 at most: CreateTable makes an index on each, and [Open] warns if a table that was
	// there has none, or only one that is not sharded. Indexes that the table has are used whether they are named here or
	// not. Each costs a write for every write that changes its field or a document that has it.
	Indexes []string

	// IndexShards is how many shards documents are spread over in the indexes, from 8 to 64: 0 means [DefaultIndexShards].
	// A shard takes some 1000 write units a second. It can be raised at any time, by one process after the other, and
	// nothing is missed; [Store.Due] sends a request for each shard of the highest number that was ever used.
	IndexShards int

	// CountUnits asks the service with each request how many units it bills, for [Store.Usage]. That is free of charge;
	// requests and responses are some 50 bytes longer.
	CountUnits bool

	// Now is the caller's clock; nil means time.Now.
	Now func() time.Time

	dial conns.Dial // in tests, instead of the system's
}

// Store is a [docstore.Store] in a DynamoDB table.
type Store struct {
	table        string
	client       Client
	conns        *conns.Set // of a client that was made here
	retryTimeout time.Duration
	clock        *clock
	warnings     []string
	calls        driver.InFlight
	sent         driver.Sent
	billed       driver.Billed
	counts       bool // billed is what the service says
	shapes       shapes
	endpoint     lastEndpoint

	due       []string // fields
	shards    int      // of the indexes, for what this store writes
	announced atomic.Bool
	single    atomic.Bool // the table is known to have no transactions

	looking sync.Mutex
	indexes map[string]string // names by field; nil until the table was looked at

	applied, refused, skewed, measured atomic.Int64
}

var _ docstore.Store = (*Store)(nil)

// Open returns a store in a table. Options may be nil. The context bounds the opening only.
//
// It sends one DescribeTable, unless it is to be lazy. It rejects, with an error that says what to do: a region or
// credentials that are not there, a service that cannot be reached, a table that is missing or has other keys. What it
// lets pass although it is suspicious is in [Store.Warnings].
func Open(ctx context.Context, table string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := o.validate(table); err != nil {
		return nil, err
	}
	s := &Store{
		table: table, client: o.Client, retryTimeout: o.RetryTimeout, clock: newClock(o.Now, o.MaxSkew),
		due: slices.Concat(o.Due, o.Indexes), shards: cmp.Or(o.IndexShards, DefaultIndexShards),
	}
	if s.retryTimeout == 0 {
		s.retryTimeout = DefaultRetryTimeout
	}
	if s.client == nil {
		s.conns = &conns.Set{}
		c, err := connect(ctx, o, s.conns)
		if err != nil {
			return nil, err
		}
		s.client = c
	}
	if s.counts = o.CountUnits; s.counts {
		s.client = billing{s.client, &s.billed}
	}
	if o.Lazy {
		return s, nil
	}
	if err := s.openTable(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

func (o *Options) validate(table string) error {
	switch {
	case table == "":
		return errors.New("dynamodb: the name of the table is empty: name one (--table)")
	case o.MaxSkew > 0 && o.MaxSkew < minSkew:
		return fmt.Errorf("dynamodb: MaxSkew is %v: responses are dated in whole seconds, use %v or more",
			o.MaxSkew, minSkew)
	case o.RetryTimeout < 0:
		return fmt.Errorf("dynamodb: RetryTimeout is %v: use a positive time, or 0 for %v", o.RetryTimeout,
			DefaultRetryTimeout)
	case o.Client != nil && (o.Region != "" || o.Endpoint != ""):
		return errors.New("dynamodb: Client has a region and an endpoint of its own: leave out Region and Endpoint")
	}
	if o.Lazy && o.CreateTable {
		return errors.New("dynamodb: a lazy store cannot create its table: leave out Lazy or CreateTable")
	}
	if len(o.Indexes) > maxIndexes {
		return fmt.Errorf("dynamodb: Indexes names %d fields: a table has %d indexes at most", len(o.Indexes), maxIndexes)
	}
	if o.IndexShards != 0 && (o.IndexShards < DefaultIndexShards || o.IndexShards > MaxIndexShards) {
		return fmt.Errorf("dynamodb: IndexShards is %d: from %d to %d, or 0 for %d", o.IndexShards, DefaultIndexShards,
			MaxIndexShards, DefaultIndexShards)
	}
	return errors.Join(checkFields("Due", o.Due), checkFields("Indexes", o.Indexes))
}

// checkFields rejects names that are none of text fields, and those that are named twice.
func checkFields(option string, fields []string) error {
	for i, field := range fields {
		if err := (docstore.DueQuery{Kind: "x", Field: field}).Validate(); err != nil {
			return fmt.Errorf("dynamodb: %s: %w", option, err)
		}
		if slices.Contains(fields[:i], field) {
			return fmt.Errorf("dynamodb: %s names %q twice", option, field)
		}
	}
	return nil
}

// Warnings are sentences for the log about what [Open] found.
func (s *Store) Warnings() []string { return slices.Clone(s.warnings) }

// Close implements [docstore.Store]. It lets calls in progress end. Idle connections close by themselves.
func (s *Store) Close() error { return s.calls.Close(nil) }

// Usage implements [docstore.Meter].
func (s *Store) Usage() docstore.Usage {
	u, skew := s.sent.Usage(), s.clock.skew()
	u.Warnings = len(s.warnings)
	if s.counts {
		u.Billed = s.billed.Sum()
	}
	u.Clock = docstore.Clock{Known: skew.Known, Offset: skew.Offset, Uncertainty: skew.High - skew.Low}
	return u
}

// Stats is what a store did since it was opened, and what it knows of its clock.
type Stats struct {
	Applied  int64 // calls of Write whose conditions held, each with all of its writes
	Refused  int64 // calls of Write with a condition that did not hold
	Skewed   int64 // calls that ended with ErrClockSkew
	Measured int64 // requests that were sent only to measure the clock
	Skew     Skew
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{
		Applied: s.applied.Load(), Refused: s.refused.Load(), Skewed: s.skewed.Load(), Measured: s.measured.Load(),
		Skew: s.clock.skew(),
	}
}
