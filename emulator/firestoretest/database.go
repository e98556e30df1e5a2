package firestoretest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// How much of the past is kept for reads at a time, read-only transactions and resumed listeners.
const (
	history     = time.Hour // as the service does without point-in-time recovery
	maxVersions = 1000      // of one document; bounds what a busy document costs in memory
	sweepEvery  = 4096      // commits between two searches for documents that were deleted long ago
)

// A database holds the documents, transactions and listeners of one "projects/P/databases/D". Everything in it is
// guarded by mu. Stored documents are never changed, only replaced, so that responses may share them.
type database struct {
	name            string
	clock           *clock
	options         Options
	nextTransaction *atomic.Uint64 // the last number given out, by any database of the server

	mu          sync.Mutex
	collections map[string]map[string]*record // by the collection's path, then by ID
	open        map[uint64]*transaction
	expired     map[uint64]bool   // why they are no longer open
	ages        map[uint64]uint64 // of those that are attempts of an earlier one, until they are tried again
	queue       []*request        // who waits for locks, in the order of arrival
	listeners   map[*listener]struct{}
	commits     int
}

// A record is a document's present and past, oldest first, at least one version.
type record struct {
	versions []version
	floor    time.Time // versions before were forgotten
}

// A version is what a document was from a time on; doc is nil where it did not exist.
type version struct {
	from time.Time
	doc  *pb.Document
}

func newDatabase(name string, c *clock, o Options, next *atomic.Uint64) *database {
	return &database{
		name: name, clock: c, options: o, nextTransaction: next,

		collections: make(map[string]map[string]*record),
		open:        make(map[uint64]*transaction),
		expired:     make(map[uint64]bool),
		ages:        make(map[uint64]uint64),
		listeners:   make(map[*listener]struct{}),
	}
}

func (db *database) documentName(path string) string { return db.name + "/documents/" + path }

// current returns the document at the path, nil if there is none.
func (db *database) current(path string) *pb.Document {
	collection, id := splitPath(path)
	r := db.collections[collection][id]
	if r == nil {
		return nil
	}
	return r.versions[len(r.versions)-1].doc
}

// changed returns the time of the document's last change; zero if it never existed or was forgotten.
func (db *database) changed(path string) time.Time {
	collection, id := splitPath(path)
	r := db.collections[collection][id]
	if r == nil {
		return time.Time{}
	}
	return r.versions[len(r.versions)-1].from
}

var errTooOld = status.Error(codes.FailedPrecondition, "The requested snapshot version is too old.")

// at returns the document as it was at a time.
func (r *record) at(t time.Time) (*pb.Document, error) {
	i := len(r.versions) - 1
	for i >= 0 && r.versions[i].from.After(t) {
		i--
	}
	switch {
	case i >= 0:
		return r.versions[i].doc, nil
	case t.Before(r.floor):
		return nil, errTooOld
	default:
		return nil, nil //nolint:nilnil // no document is a valid result
	}
}

// A view reads documents: all at one time in the past, or the present when at is zero.
type view struct {
	db *database
	at time.Time
}

func (v view) document(path string) (*pb.Document, error) {
	if v.at.IsZero() {
		return v.db.current(path), nil
	}
	collection, id := splitPath(path)
	if r := v.db.collections[collection][id]; r != nil {
		return r.at(v.at)
	}
	return nil, nil //nolint:nilnil // no document is a valid result
}

// each calls f with every document of a collection, in no order.
func (v view) each(collection string, f func(id string, doc *pb.Document)) error {
	for id, r := range v.db.collections[collection] {
		doc := r.versions[len(r.versions)-1].doc
		if !v.at.IsZero() {
			var err error
			if doc, err = r.at(v.at); err != nil {
				return err
			}
		}
		if doc != nil {
			f(id, doc)
		}
	}
	return nil
}

// put makes the document at a path what it is from a time on; fields are ignored if it does not exist.
func (db *database) put(path string, doc *pb.Document, at time.Time) {
	collection, id := splitPath(path)
	if db.collections[collection] == nil {
		db.collections[collection] = make(map[string]*record)
	}
	r := db.collections[collection][id]
	if r == nil {
		r = &record{}
		db.collections[collection][id] = r
	}
	r.versions = append(r.versions, version{at, doc})
	keep := 0 // the oldest version that is still needed: the one that was current when history began
	for keep+1 < len(r.versions) && !r.versions[keep+1].from.After(at.Add(-history)) {
		keep++
	}
	if over := len(r.versions) - maxVersions; keep < over {
		keep = over
	}
	if keep > 0 {
		r.floor = r.versions[keep].from
		r.versions = slices.Delete(r.versions, 0, keep)
	}
}

// sweep forgets documents that were deleted before history began.
func (db *database) sweep(now time.Time) {
	for path, docs := range db.collections {
		for id, r := range docs {
			if last := r.versions[len(r.versions)-1]; last.doc == nil && last.from.Before(now.Add(-history)) {
				delete(docs, id)
			}
		}
		if len(docs) == 0 {
			delete(db.collections, path)
		}
	}
}

// A committed is what a Commit did.
type committed struct {
	at      time.Time
	results []*pb.WriteResult
	stamp   time.Time // the server timestamp that it wrote; zero if none
	units   int       // see Server.Units
}

// afterStamp waits, for a millisecond at most, until the clock is past the server timestamp of a commit, so that the
// next commit of the caller that gets the response has a later one, as on the service, where a commit takes longer than
// that.
func (db *database) afterStamp(ctx context.Context, done committed) {
	if done.stamp.IsZero() {
		return
	}
	wait := min(done.stamp.Add(time.Millisecond).Sub(db.clock.read()), time.Millisecond)
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// stage computes what the writes make of the documents, one after the other, without changing any. The documents
// after are in changes, nil for those that would not exist; those that would stay as they are do not appear.
func (db *database) stage(writes []*write, requestTime, at time.Time) (
	changes map[string]*pb.Document, results []*pb.WriteResult, err error,
) {
	changes = make(map[string]*pb.Document)
	for _, w := range writes {
		found, staged := changes[w.path]
		if !staged {
			found = db.current(w.path)
		}
		if err := w.check(found); err != nil {
			return nil, nil, err
		}
		after, exists, transformed, err := w.apply(found, requestTime)
		if err != nil {
			return nil, nil, err
		}
		result := &pb.WriteResult{TransformResults: transformed}
		switch {
		case !exists:
			if found != nil {
				changes[w.path] = nil
			}
		case found != nil && equalFields(found.GetFields(), after):
			result.UpdateTime = found.GetUpdateTime() // a write that changes nothing does not count as an update
		default:
			doc := &pb.Document{Name: w.name, Fields: after, CreateTime: timestamppb.New(at), UpdateTime: timestamppb.New(at)}
			if found != nil {
				doc.CreateTime = found.GetCreateTime()
			}
			changes[w.path] = doc
			result.UpdateTime = doc.GetUpdateTime()
		}
		results = append(results, result)
	}
	return changes, results, nil
}

func equalFields(a, b fields) bool {
	return proto.Equal(&pb.MapValue{Fields: a}, &pb.MapValue{Fields: b})
}

// apply carries out writes whose locks are free: all of them or, with an error, none.
func (db *database) apply(writes []*write, requestTime time.Time) (committed, error) {
	at := db.clock.tick()
	changes, results, err := db.stage(writes, requestTime, at)
	if err != nil {
		return committed{}, err
	}
	done := committed{at: at, results: results, units: db.unitsOf(writes, changes)}
	for path, doc := range changes {
		if doc == nil && db.current(path) == nil {
			continue // created and deleted in one commit
		}
		db.put(path, doc, at)
	}
	if db.commits++; db.commits%sweepEvery == 0 {
		db.sweep(at)
	}
	if len(changes) > 0 {
		db.wakeListeners()
	}
	if slices.ContainsFunc(writes, (*write).stamps) {
		done.stamp = serverTimestamp(requestTime)
	}
	return done, nil
}

// unitsOf counts the write units of a commit, before its changes are stored.
func (db *database) unitsOf(writes []*write, changes map[string]*pb.Document) int {
	n := 0
	for _, w := range writes {
		n += units(max(storedBytes(db.current(w.path)), storedBytes(changes[w.path])), writeUnit)
	}
	return n
}

func (db *database) wakeListeners() {
	for l := range db.listeners {
		select {
		case l.dirty <- struct{}{}:
		default: // it has not yet looked at the last one
		}
	}
}
