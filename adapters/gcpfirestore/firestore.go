// Package gcpfirestore keeps the documents of Leasehold in Cloud Firestore, in the user's own project.
//
// # Who decides
//
// Firestore decides, in its Commit. A write reads the documents, evaluates the conditions in Go with [driver.Evaluate],
// and commits the change on the condition that each document still has the update time that was read (or still does not
// exist). A Commit is atomic over all its documents; if one of them has changed, nothing is written and the store reads
// again.
//
//	Write ─▶ BatchGetDocuments ─▶ evaluate ─┬─ rejected ──▶ the documents found           1 request
//	              ▲                         └─ Commit ─┬─▶ the document after            2 requests
//	              └───── another write came first ────┘
//
// # Why not RunTransaction
//
// It costs three requests, and four for a rejection that has to be rolled back. And a transaction of a database in
// pessimistic mode (the default of the Standard edition) locks what it reads: fifty callers that read one document in
// order to write it all wait for one another until locks time out. A Commit on update times holds no locks between
// requests, and of fifty callers one succeeds at once while the others find out with one more read. It is the same in
// optimistic mode. There is no transaction that could expire, be left open by a function that was frozen, or have to be
// rolled back.
//
// # Whose clock
//
// Firestore's clock. Now is the read time of the documents that the decision is based on, cut to milliseconds; the
// clocks of the callers do not matter. The change is applied slightly later, at the commit time: a lease renewed in its
// last milliseconds may be read as expired in between. No caller can have taken it over, because that would have
// changed the document.
//
// # Lost responses
//
// A Commit may have been applied although its response says UNAVAILABLE, or never comes. The store then reads again. If
// the documents are as they were, the Commit is repeated: however many of the two arrive, only one can find the update
// time that it names. If they have changed, this Commit may have done it. When the conditions no longer hold, that is a
// rejection with the document found, in which the caller recognizes a write of its own (see repo/lock). When they still
// hold, as they do for a write without a condition, writing again might be writing twice: that is
// [docstore.ErrUnavailable], outcome unknown.
//
// The generated client repeats a Commit after UNAVAILABLE by itself; a failed precondition could then be its own
// doing or another caller's. The store therefore turns its retries off and has its own.
//
// # What is stored where
//
// See [Options].Root for the paths; fields are values that the console shows. Documents of the user's own are patched
// with an update mask and keep all other fields, whatever their types. Firestore indexes every field by default, which
// Leasehold does not need, and which limits a collection to some 500 writes a second because times only grow:
// firestore.indexes.json beside this file turns it off for the collections of Leasehold whose documents are written
// often. It is for a database of Leasehold's own: Firestore turns it off for every collection of these names in the
// database.
//
// The time until which a document is kept ([docstore.Write].Keep) is the timestamp field _keep_until, which the port
// does not show. firestore.indexes.json makes it a TTL policy of the collections whose documents end: Firestore then
// removes a document within a day or so of that time, and without the policy never. Set a TTL policy on no other field.
//
// # What can go wrong
//
// A connection on which a request waits, and from which nothing has come for 2.5 seconds, is closed, and the request is
// sent on a new one. Contention, quotas and lost connections are retried with growing, jittered pauses, within the
// context's deadline and [Options].Timeout; what remains is [docstore.ErrUnavailable]. A missing database, permission
// or credential is an error at once, with a text that says what to do.
package gcpfirestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	vkit "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// DefaultTimeout is how long a call takes at most when the options name no time.
const DefaultTimeout = 30 * time.Second

// DefaultDatabase is the ID of a project's default database.
const DefaultDatabase = "(default)"

// Options are the settings of [Open]. The zero value works where credentials name a project.
type Options struct {
	// Project is the ID of the Google Cloud project. Empty means the environment's GOOGLE_CLOUD_PROJECT, or else
	// for the project that the credentials belong to.
	Project string

	// Database is the ID of the database in the project; empty means [DefaultDatabase].
	Database string

	// Root is the path of a document below which everything lives, such as "leasehold/v1"; empty means the top level
	// of the database. The document itself need not exist. A document of kind K, tenant T and ID I is Root/K/I if T is
	// empty, and otherwise Root/tenants/T/K/I.
	Root string

	// Due names text fields by which [Store.Due] is to find documents, such as analysis.ExpiryField, and IndexShards,
	// from 8 to 64, how many shards of an index they are spread over: a write that sets such a field F also sets the
	// field _due_F, which begins with the shard. IndexShards 0 is none: Firestore's own index on F is asked, which takes
	// some 500 writes a second. All processes must have the setting before F is exempt from indexing. IndexShards can be
	// raised at any time, by one process after the other; [Store.Due] sends a request for each shard of the highest
	// number that was ever used.
	Due         []string
	IndexShards int

	// Timeout bounds a call whose context has no earlier deadline; 0 means [DefaultTimeout].
	Timeout time.Duration

	// Now is the clock that counts how long requests take; nil means time.Now. Documents have times of the service only.
	Now func() time.Time

	// ClientOptions are given to the client library: credentials, an endpoint, a connection.
	ClientOptions []option.ClientOption

	dial conns.Dial // in tests, instead of the system's
}

// Store is a [docstore.Store] in a Firestore database.
type Store struct {
	client  *vkit.Client
	conns   *conns.Set
	layout  layout
	headers []string
	timeout time.Duration
	now     func() time.Time
	release func() error // closes what Open opened beside the client
	calls   driver.InFlight
	sent    driver.Sent
	billed  driver.Billed

	due       []string // fields that are sharded; empty if none are
	shards    int
	announced atomic.Bool
	exempt    sync.Map // fields that Firestore does not index by themselves, as it said

	life     context.Context //nolint:containedctx // of what is watched
	end      context.CancelFunc
	watching sync.WaitGroup
}

var (
	_ docstore.Store   = (*Store)(nil)
	_ docstore.Watcher = (*Store)(nil)
)

// Open connects with a database. Options may be nil. It sends nothing: whether the database exists and may be used
// is said by the first call. The context bounds the search for credentials only.
//
// If the environment has FIRESTORE_EMULATOR_HOST, the store speaks to the emulator there, in plain text and without
// credentials, unless the ClientOptions bring a connection of their own.
func Open(ctx context.Context, o *Options) (*Store, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Timeout < 0 {
		return nil, fmt.Errorf("firestore: Timeout is %v: name a positive time, or 0 for %v", options.Timeout, DefaultTimeout)
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Database == "" {
		options.Database = DefaultDatabase
	}
	if strings.ContainsAny(options.Database, "/ ") {
		return nil, fmt.Errorf("firestore: Database %q is not the ID of a database", options.Database)
	}
	if err := checkRoot(options.Root); err != nil {
		return nil, err
	}
	if n := options.IndexShards; n != 0 && (n < driver.DefaultDueShards || n > driver.MaxDueShards ||
		len(options.Due) == 0) {
		return nil, fmt.Errorf(
			"firestore: IndexShards is %d, for the fields %q: from %d to %d, for the fields of Due, or 0 for none",
			n, options.Due, driver.DefaultDueShards, driver.MaxDueShards)
	}
	for _, field := range options.Due {
		if err := (docstore.DueQuery{Kind: "x", Field: field}).Validate(); err != nil {
			return nil, fmt.Errorf("firestore: Due: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return connect(ctx, options)
}

// Close implements [docstore.Store].
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.end()
		s.watching.Wait()
		var errs []error
		for _, release := range []func() error{s.client.Close, s.release} {
			// Canceled: someone has closed the connection before, the client that uses it or its owner.
			if err := release(); err != nil && status.Code(err) != codes.Canceled {
				errs = append(errs, fmt.Errorf("firestore: close: %w", err))
			}
		}
		return errors.Join(errs...)
	})
}

// enter begins a call and bounds its time, or says why it must not begin. A nil error obliges the caller to call leave.
func (s *Store) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, nil, err
	}
	s.conns.Begin()
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	return bounded, func() {
		cancel()
		s.calls.End()
	}, nil
}
