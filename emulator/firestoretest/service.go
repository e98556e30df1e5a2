package firestoretest

import (
	"context"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// service is what the protocol sees of a [Server]. The methods that it leaves out return UNIMPLEMENTED.
type service struct {
	pb.UnimplementedFirestoreServer
	server *Server
}

var _ pb.FirestoreServer = (*service)(nil)

// parentIn finds the database of a parent's name, and its path, "" for the root.
func (s *service) parentIn(name string) (*database, string, error) {
	dbName, path, err := parentPath(name)
	if err != nil {
		return nil, "", err
	}
	db, err := s.server.database(dbName)
	return db, path, err
}

// BatchGetDocuments implements the protocol. Documents come in the order asked for, each once.
func (s *service) BatchGetDocuments(req *pb.BatchGetDocumentsRequest,
	stream pb.Firestore_BatchGetDocumentsServer) error {
	db, err := s.server.database(req.GetDatabase())
	if err != nil {
		return err
	}
	switch {
	case req.GetMask() != nil:
		return unimplemented("mask")
	case req.GetNewTransaction() != nil:
		return unimplemented("new_transaction")
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
	r, err := db.read(selector{token: req.GetTransaction(), readTime: req.GetReadTime()}, paths, nil)
	if err != nil {
		return err
	}
	s.server.billReads(r.docs)
	for i, doc := range r.docs {
		res := &pb.BatchGetDocumentsResponse{ReadTime: timestamppb.New(r.at)}
		if doc != nil {
			res.Result = &pb.BatchGetDocumentsResponse_Found{Found: doc}
		} else {
			res.Result = &pb.BatchGetDocumentsResponse_Missing{Missing: db.documentName(paths[i])}
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	return nil
}

// BeginTransaction implements the protocol.
func (s *service) BeginTransaction(_ context.Context, req *pb.BeginTransactionRequest) (*pb.BeginTransactionResponse,
	error) {
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
	writes, err := parseWrites(db.name, req.GetWrites())
	if err != nil {
		return nil, err
	}
	done, err := db.commit(ctx, writes, req.GetTransaction())
	if err != nil {
		return nil, err
	}
	db.afterStamp(ctx, done)
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

// RunQuery implements the protocol.
func (s *service) RunQuery(req *pb.RunQueryRequest, stream pb.Firestore_RunQueryServer) error {
	switch {
	case req.GetExplainOptions() != nil:
		return unimplemented("explain_options")
	case len(req.GetTransaction()) > 0:
		return unimplemented("transaction")
	case req.GetNewTransaction() != nil:
		return unimplemented("new_transaction")
	}
	db, parent, err := s.parentIn(req.GetParent())
	if err != nil {
		return err
	}
	q, err := parseQuery(parent, req.GetStructuredQuery())
	if err != nil {
		return err
	}
	r, err := db.read(selector{readTime: req.GetReadTime()}, nil, q)
	if err != nil {
		return err
	}
	s.server.billReads(r.docs)
	at := timestamppb.New(r.at)
	done := &pb.RunQueryResponse_Done{Done: true}
	if len(r.docs) == 0 {
		return stream.Send(&pb.RunQueryResponse{ReadTime: at, ContinuationSelector: done})
	}
	for i, doc := range r.docs {
		res := &pb.RunQueryResponse{Document: doc, ReadTime: at}
		if i == len(r.docs)-1 {
			res.ContinuationSelector = done
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	return nil
}
