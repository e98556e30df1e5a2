package firestoretest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// service is what the protocol sees of a [Server]. The methods that it leaves out return UNIMPLEMENTED.
type service struct {
	pb.UnimplementedFirestoreServer
	server *Server
}

var _ pb.FirestoreServer = (*service)(nil)

// documentIn finds the database of a document's name, and its path.
func (s *service) documentIn(name string) (*database, string, error) {
	dbName, path, err := splitName(name)
	if err != nil {
		return nil, "", err
	}
	if err := checkPath(path, len(dbName)); err != nil {
		return nil, "", err
	}
	db, err := s.server.database(dbName)
	return db, path, err
}

// parentIn finds the database of a parent's name, and its path, "" for the root.
func (s *service) parentIn(name string) (*database, string, error) {
	dbName, path, err := parentPath(name)
	if err != nil {
		return nil, "", err
	}
	db, err := s.server.database(dbName)
	return db, path, err
}

// parseMask reads a mask; all is true if there is none.
func parseMask(in *pb.DocumentMask) (mask []fieldPath, all bool, err error) {
	if in == nil {
		return nil, true, nil
	}
	mask, err = parseFieldPaths(in.GetFieldPaths(), true)
	return mask, false, err
}

// GetDocument implements the protocol.
func (s *service) GetDocument(ctx context.Context, req *pb.GetDocumentRequest) (*pb.Document, error) {
	db, path, err := s.documentIn(req.GetName())
	if err != nil {
		return nil, err
	}
	mask, all, err := parseMask(req.GetMask())
	if err != nil {
		return nil, err
	}
	r, err := db.read(ctx, selector{token: req.GetTransaction(), readTime: req.GetReadTime()}, []string{path}, nil)
	switch {
	case err != nil:
		return nil, err
	case r.docs[0] == nil:
		return nil, status.Errorf(codes.NotFound, "Document %q not found.", req.GetName())
	case all:
		return r.docs[0], nil
	default:
		return project(r.docs[0], mask), nil
	}
}

// BatchGetDocuments implements the protocol. Documents come in the order asked for, each once.
func (s *service) BatchGetDocuments(req *pb.BatchGetDocumentsRequest, stream pb.Firestore_BatchGetDocumentsServer) error {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return err
	}
	mask, all, err := parseMask(req.GetMask())
	if err != nil {
		return err
	}
	var paths []string
	seen := make(map[string]bool, len(req.GetDocuments()))
	for _, name := range req.GetDocuments() {
		path, err := documentPath(db.name, name)
		if err != nil {
			return err
		}
		if !seen[path] {
			paths = append(paths, path)
		}
		seen[path] = true
	}
	sel := selector{token: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	r, err := db.read(stream.Context(), sel, paths, nil)
	if err != nil {
		return err
	}
	s.server.billReads(r.docs)
	if r.begun != nil {
		if err := stream.Send(&pb.BatchGetDocumentsResponse{Transaction: r.begun}); err != nil {
			return err
		}
	}
	for i, doc := range r.docs {
		res := &pb.BatchGetDocumentsResponse{ReadTime: timestamppb.New(r.at)}
		switch {
		case doc == nil:
			res.Result = &pb.BatchGetDocumentsResponse_Missing{Missing: db.documentName(paths[i])}
		case all:
			res.Result = &pb.BatchGetDocumentsResponse_Found{Found: doc}
		default:
			res.Result = &pb.BatchGetDocumentsResponse_Found{Found: project(doc, mask)}
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	return nil
}

// BeginTransaction implements the protocol.
func (s *service) BeginTransaction(_ context.Context, req *pb.BeginTransactionRequest) (*pb.BeginTransactionResponse, error) {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	tx, err := db.begin(req.GetOptions())
	if err != nil {
		return nil, err
	}
	return &pb.BeginTransactionResponse{Transaction: tx.token()}, nil
}

// Commit implements the protocol.
func (s *service) Commit(ctx context.Context, req *pb.CommitRequest) (*pb.CommitResponse, error) {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	done, err := s.write(ctx, db, req.GetWrites(), req.GetTransaction())
	if err != nil {
		return nil, err
	}
	s.server.billWrites(done)
	return &pb.CommitResponse{WriteResults: done.results, CommitTime: timestamppb.New(done.at)}, nil
}

// Rollback implements the protocol.
func (s *service) Rollback(_ context.Context, req *pb.RollbackRequest) (*emptypb.Empty, error) {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, db.rollback(req.GetTransaction())
}

// BatchWrite implements the protocol: every write is a commit of its own.
func (s *service) BatchWrite(ctx context.Context, req *pb.BatchWriteRequest) (*pb.BatchWriteResponse, error) {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	if len(req.GetLabels()) > 0 {
		return nil, unimplemented("labels")
	}
	writes, err := parseWrites(db.name, req.GetWrites())
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, w := range writes {
		if seen[w.path] {
			return nil, invalid("the same document cannot be written more than once in a single request: %s", w.name)
		}
		seen[w.path] = true
	}
	res := &pb.BatchWriteResponse{}
	requests := make([]*request, len(writes))
	outcomes := make([]*commitOutcome, len(writes))
	errs := make([]error, len(writes))
	for i, w := range writes { // all before the first wait, so that waits do not add up
		requests[i], outcomes[i], errs[i] = db.startCommit([]*write{w}, nil)
	}
	for i, r := range requests {
		result := &pb.WriteResult{}
		if errs[i] == nil {
			errs[i] = db.await(ctx, r)
		}
		if errs[i] == nil {
			errs[i] = outcomes[i].err
		}
		if errs[i] == nil {
			db.afterStamp(ctx, outcomes[i].done)
			result = outcomes[i].done.results[0]
		}
		res.WriteResults = append(res.WriteResults, result)
		st := status.Convert(errs[i])
		res.Status = append(res.Status, &rpcstatus.Status{
			Code:    int32(st.Code()), //nolint:gosec // the codes end at 16
			Message: st.Message(),
		})
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return res, nil
}

// RunQuery implements the protocol.
func (s *service) RunQuery(req *pb.RunQueryRequest, stream pb.Firestore_RunQueryServer) error {
	if req.GetExplainOptions() != nil {
		return unimplemented("explain_options")
	}
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return err
	}
	q, err := parseQuery(parent, req.GetStructuredQuery())
	if err != nil {
		return err
	}
	sel := selector{token: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	r, err := db.read(stream.Context(), sel, nil, q)
	if err != nil {
		return err
	}
	s.server.billReads(r.docs)
	if r.begun != nil {
		if err := stream.Send(&pb.RunQueryResponse{Transaction: r.begun}); err != nil {
			return err
		}
	}
	at := timestamppb.New(r.at)
	done := &pb.RunQueryResponse_Done{Done: true}
	skipped := int32(r.skipped) //nolint:gosec // at most the query's offset, an int32
	if len(r.docs) == 0 {
		return stream.Send(&pb.RunQueryResponse{ReadTime: at, SkippedResults: skipped, ContinuationSelector: done})
	}
	for i, doc := range r.docs {
		res := &pb.RunQueryResponse{Document: q.shown(doc), ReadTime: at}
		if i == 0 {
			res.SkippedResults = skipped
		}
		if i == len(r.docs)-1 {
			res.ContinuationSelector = done
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	return nil
}

// RunAggregationQuery implements the protocol.
func (s *service) RunAggregationQuery(req *pb.RunAggregationQueryRequest, stream pb.Firestore_RunAggregationQueryServer) error {
	if req.GetExplainOptions() != nil {
		return unimplemented("explain_options")
	}
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return err
	}
	q, err := parseQuery(parent, req.GetStructuredAggregationQuery().GetStructuredQuery())
	if err != nil {
		return err
	}
	aggregate, err := parseAggregations(q, req.GetStructuredAggregationQuery().GetAggregations())
	if err != nil {
		return err
	}
	sel := selector{token: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	r, err := db.read(stream.Context(), sel, nil, q)
	if err != nil {
		return err
	}
	return stream.Send(&pb.RunAggregationQueryResponse{
		Result:      &pb.AggregationResult{AggregateFields: aggregate(r.docs)},
		Transaction: r.begun,
		ReadTime:    timestamppb.New(r.at),
	})
}

// defaultPage is the size of a page when the request names none.
const defaultPage = 300

func pageSize(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, invalid("page_size is negative")
	case n == 0:
		return defaultPage, nil
	default:
		return int(n), nil
	}
}

// page cuts sorted IDs to those after a token, and returns the token of the page that follows. A token is the last ID
// of its page.
func page(ids []string, size int, token string, compare func(a, b string) int) (cut []string, next string, err error) {
	if token != "" {
		after, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return nil, "", invalid("page_token %q was not given out by this server", token)
		}
		first := slices.IndexFunc(ids, func(id string) bool { return compare(id, string(after)) > 0 })
		if first < 0 {
			return nil, "", nil
		}
		ids = ids[first:]
	}
	if len(ids) <= size {
		return ids, "", nil
	}
	return ids[:size], base64.RawURLEncoding.EncodeToString([]byte(ids[size-1])), nil
}

// ListDocuments implements the protocol, ordered by __name__ only.
func (s *service) ListDocuments(ctx context.Context, req *pb.ListDocumentsRequest) (*pb.ListDocumentsResponse, error) {
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetCollectionId() == "" {
		return nil, unimplemented("collection_id left empty")
	}
	order := compareIDs
	switch strings.Join(strings.Fields(req.GetOrderBy()), " ") {
	case "", nameField, nameField + " asc":
	case nameField + " desc":
		order = func(a, b string) int { return compareIDs(b, a) }
	default:
		return nil, unimplemented("order_by other than by __name__")
	}
	if req.GetShowMissing() && req.GetOrderBy() != "" {
		return nil, invalid("show_missing cannot be used with order_by")
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	mask, all, err := parseMask(req.GetMask())
	if err != nil {
		return nil, err
	}
	q, err := parseQuery(parent, &pb.StructuredQuery{
		From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: req.GetCollectionId()}},
	})
	if err != nil {
		return nil, err
	}
	r, err := db.read(ctx, selector{token: req.GetTransaction(), readTime: req.GetReadTime()}, nil, q)
	if err != nil {
		return nil, err
	}
	docs := make(map[string]*pb.Document)
	var ids []string
	for _, doc := range r.docs {
		id := doc.GetName()[strings.LastIndexByte(doc.GetName(), '/')+1:]
		ids = append(ids, id)
		docs[id] = doc
	}
	collection := join(parent, req.GetCollectionId())
	if req.GetShowMissing() {
		below, err := db.idsBelow(collection, r.at)
		if err != nil {
			return nil, err
		}
		for _, id := range below {
			if docs[id] == nil {
				ids = append(ids, id)
				docs[id] = &pb.Document{Name: db.documentName(join(collection, id))}
			}
		}
	}
	slices.SortFunc(ids, order)
	ids, next, err := page(ids, size, req.GetPageToken(), order)
	if err != nil {
		return nil, err
	}
	res := &pb.ListDocumentsResponse{NextPageToken: next}
	for _, id := range ids {
		doc := docs[id]
		if !all {
			doc = project(doc, mask)
		}
		res.Documents = append(res.Documents, doc)
	}
	return res, nil
}

// idsBelow returns the IDs, sorted by their bytes and each once, that follow a path in the names of the documents that existed at a
// time: for a collection those of documents with descendants, for a document those of its collections.
func (db *database) idsBelow(path string, at time.Time) ([]string, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	v := view{db, at}
	found := make(map[string]bool)
	for _, collection := range v.collectionPaths(path) {
		rest := collection
		if path != "" {
			rest = collection[len(path)+1:]
		}
		id, _, _ := strings.Cut(rest, "/")
		if err := v.each(collection, func(string, *pb.Document) { found[id] = true }); err != nil {
			return nil, err
		}
	}
	var ids []string
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// ListCollectionIds implements the protocol.
//
//nolint:revive // the protocol spells Ids
func (s *service) ListCollectionIds(_ context.Context, req *pb.ListCollectionIdsRequest) (*pb.ListCollectionIdsResponse, error) {
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	var at time.Time
	if t := req.GetReadTime(); t != nil {
		db.mu.Lock()
		at, err = db.readTime(t)
		db.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	ids, err := db.idsBelow(parent, at)
	if err != nil {
		return nil, err
	}
	ids, next, err := page(ids, size, req.GetPageToken(), strings.Compare)
	if err != nil {
		return nil, err
	}
	return &pb.ListCollectionIdsResponse{CollectionIds: ids, NextPageToken: next}, nil
}

// commitOne applies one write and returns the document after it.
func (s *service) commitOne(ctx context.Context, db *database, w *pb.Write, shown *pb.DocumentMask) (*pb.Document, error) {
	mask, all, err := parseMask(shown)
	if err != nil {
		return nil, err
	}
	writes, err := parseWrites(db.name, []*pb.Write{w})
	if err != nil {
		return nil, err
	}
	done, err := db.commit(ctx, writes, nil)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	doc, err := view{db, done.at}.document(writes[0].path)
	if err != nil || all {
		return doc, err
	}
	return project(doc, mask), nil
}

// CreateDocument implements the protocol.
func (s *service) CreateDocument(ctx context.Context, req *pb.CreateDocumentRequest) (*pb.Document, error) {
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return nil, err
	}
	if req.GetDocument().GetName() != "" {
		return nil, invalid("document.name must not be set: the name comes from parent, collection_id and document_id")
	}
	id := req.GetDocumentId()
	if id == "" {
		id = rand.Text()[:20]
	}
	name := db.documentName(join(join(parent, req.GetCollectionId()), id))
	return s.commitOne(ctx, db, &pb.Write{
		Operation:       &pb.Write_Update{Update: &pb.Document{Name: name, Fields: req.GetDocument().GetFields()}},
		CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: false}},
	}, req.GetMask())
}

// UpdateDocument implements the protocol.
func (s *service) UpdateDocument(ctx context.Context, req *pb.UpdateDocumentRequest) (*pb.Document, error) {
	db, _, err := s.documentIn(req.GetDocument().GetName())
	if err != nil {
		return nil, err
	}
	return s.commitOne(ctx, db, &pb.Write{
		Operation:       &pb.Write_Update{Update: req.GetDocument()},
		UpdateMask:      req.GetUpdateMask(),
		CurrentDocument: req.GetCurrentDocument(),
	}, req.GetMask())
}

// DeleteDocument implements the protocol.
func (s *service) DeleteDocument(ctx context.Context, req *pb.DeleteDocumentRequest) (*emptypb.Empty, error) {
	db, _, err := s.documentIn(req.GetName())
	if err != nil {
		return nil, err
	}
	_, err = s.commitOne(ctx, db, &pb.Write{
		Operation:       &pb.Write_Delete{Delete: req.GetName()},
		CurrentDocument: req.GetCurrentDocument(),
	}, nil)
	return &emptypb.Empty{}, err
}
