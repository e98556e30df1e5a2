package gcpfirestore

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Get implements [docstore.Store]. One request.
func (s *Store) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := docstore.ValidateKeys(keys); err != nil {
		return docstore.Snapshot{}, err
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		var err error
		if names[i], err = s.layout.document(k); err != nil {
			return docstore.Snapshot{}, err
		}
	}
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return docstore.Snapshot{}, err
	}
	defer leave()
	var r reading
	if err := s.retry(ctx, bounded, "read", func() error {
		r, err = s.read(bounded, names)
		return err
	}); err != nil {
		return docstore.Snapshot{}, err
	}
	snap := docstore.Snapshot{At: r.at, Docs: make([]docstore.Doc, len(names))}
	for i, name := range names {
		snap.Docs[i] = r.doc(name)
	}
	return snap, nil
}

// reading is what a read found.
type reading struct {
	at    time.Time
	found map[string]*pb.Document // by name; nil for a document that does not exist
}

// doc is a copy of a document.
func (r reading) doc(name string) docstore.Doc {
	if d := r.found[name]; d != nil {
		return decodeDoc(d.GetFields())
	}
	return nil
}

// read reads documents by their names, in one request. The service sends them one by one, each with its read time, and
// guarantees that those sent before have not changed until then: the last read time is that of all.
func (s *Store) read(ctx context.Context, names []string) (reading, error) {
	r := reading{found: make(map[string]*pb.Document, len(names))}
	distinct := make([]string, 0, len(names))
	for _, name := range names {
		if _, twice := r.found[name]; !twice {
			distinct = append(distinct, name)
		}
		r.found[name] = nil
	}
	defer s.conns.Guard()()
	stream, err := s.client.BatchGetDocuments(s.outgoing(ctx), &pb.BatchGetDocumentsRequest{
		Database: s.layout.database, Documents: distinct,
	})
	if err != nil {
		return reading{}, err
	}
	missing := len(distinct)
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return reading{}, err
		}
		if res.GetResult() == nil {
			continue
		}
		missing--
		s.billed.Read(1) // also one that does not exist
		if d := res.GetFound(); d != nil {
			r.found[d.GetName()] = d
		}
		r.saw(res.GetReadTime())
	}
	if missing != 0 || len(r.found) != len(distinct) {
		return reading{}, status.Errorf(codes.Internal, "the answer lacks %d of %d documents", missing, len(distinct))
	}
	return r, nil
}

// saw notes a read time.
func (r *reading) saw(t *timestamppb.Timestamp) {
	if at := docstore.TruncateMilli(t.AsTime()); at.After(r.at) {
		r.at = at
	}
}

// List implements [docstore.Store]. One request for a page; more only if the collection holds documents whose IDs no
// key has.
func (s *Store) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	path, err := collection(s.layout.root, q.Kind, q.Tenant)
	if err != nil {
		return docstore.Page{}, err
	}
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer leave()
	w := walk{query: q, collection: s.layout.documents() + "/" + path}
	if q.After >= q.Prefix {
		w.from, w.beyond = lowerBound(q.After), escapeID(q.After) == lowerBound(q.After)
	} else {
		w.from = lowerBound(q.Prefix)
	}
	for !w.done {
		var r queried
		if err := s.retry(ctx, bounded, "list", func() error {
			r, err = s.runQuery(bounded, w.request())
			return err
		}); err != nil {
			return docstore.Page{}, err
		}
		w.take(r)
	}
	return w.page, nil
}

// walk fills a page. Escaping keeps the order of IDs, so that a page is a range of names.
type walk struct {
	query      docstore.Query
	collection string // its name
	from       string // escaped ID at which to begin, or behind which; empty for the first
	beyond     bool   // behind it
	at         *timestamppb.Timestamp
	page       docstore.Page
	done       bool
}

// size is how many documents are still wanted: those of the page, and one that tells whether a next page follows.
func (w *walk) size() int { return w.query.Size() + 1 - len(w.page.Entries) }

// request asks for the documents that come next.
func (w *walk) request() *pb.RunQueryRequest {
	query := &pb.StructuredQuery{
		From:    []*pb.StructuredQuery_CollectionSelector{{CollectionId: w.query.Kind}},
		OrderBy: []*pb.StructuredQuery_Order{ascending(nameField)},
		Limit:   wrapperspb.Int32(int32(w.size())), //nolint:gosec // at most MaxLimit+1
	}
	if w.from != "" {
		query.StartAt = &pb.Cursor{Values: []*pb.Value{reference(w.collection, w.from)}, Before: !w.beyond}
	}
	// Without an end, a prefix that few IDs have would read documents that lie behind it. An end that cannot be named,
	// or that lies before the beginning, is found by take.
	if end, ok := successor(w.query.Prefix); ok {
		if end = escapeID(end); len(end) <= maxIDBytes && end > w.from {
			query.EndAt = &pb.Cursor{Values: []*pb.Value{reference(w.collection, end)}, Before: true}
		}
	}
	req := queryRequest(w.collection, query)
	if w.at != nil {
		req.ConsistencySelector = &pb.RunQueryRequest_ReadTime{ReadTime: w.at} // a page is of one instant
	}
	return req
}

// take adds what a query found to the page.
func (w *walk) take(r queried) {
	w.done = len(r.docs) < w.size()
	w.at = r.at
	w.page.At = docstore.TruncateMilli(r.at.AsTime())
	for _, d := range r.docs {
		_, w.from = cutLast(d.GetName())
		w.beyond = true
		k, ok := keyOf(w.query.Kind, w.query.Tenant, w.from)
		switch {
		case !ok || k.ID <= w.query.After:
			continue // no key leads to this document, or it is from before the page
		case !strings.HasPrefix(k.ID, w.query.Prefix):
			if k.ID < w.query.Prefix {
				continue
			}
			w.done = true
			return
		case len(w.page.Entries) == w.query.Size():
			w.page.Next = w.page.Entries[len(w.page.Entries)-1].Key.ID
			w.done = true
			return
		}
		w.page.Entries = append(w.page.Entries, docstore.Entry{Key: k, Doc: decodeDoc(d.GetFields())})
	}
}

// outgoing adds the headers by which the service finds the database.
func (s *Store) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, s.headers...)
}
