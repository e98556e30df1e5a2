package gcpfirestore

import (
	"context"
	"errors"
	"io"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// nameField is the service's name for the name of a document.
const nameField = "__name__"

func ascending(field string) *pb.StructuredQuery_Order {
	return &pb.StructuredQuery_Order{
		Field: &pb.StructuredQuery_FieldReference{FieldPath: field}, Direction: pb.StructuredQuery_ASCENDING,
	}
}

// reference is the name of a document as a value.
func reference(collection, escaped string) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: collection + "/" + escaped}}
}

func queryRequest(collection string, q *pb.StructuredQuery) *pb.RunQueryRequest {
	parent, _ := cutLast(collection)
	return &pb.RunQueryRequest{Parent: parent, QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: q}}
}

// cutLast parts a name before its last ID.
func cutLast(name string) (parent, id string) {
	i := strings.LastIndexByte(name, '/')
	return name[:i], name[i+1:]
}

// keyOf is the key of a document by the last ID of its name. ok is false if no key has that ID.
func keyOf(kind, tenant, escaped string) (k docstore.Key, ok bool) {
	id, ok := unescapeID(escaped)
	k = docstore.Key{Kind: kind, Tenant: tenant, ID: id}
	return k, ok && k.Validate() == nil
}

// queried is the response to a query.
type queried struct {
	docs []*pb.Document
	at   *timestamppb.Timestamp
}

func (s *Store) runQuery(ctx context.Context, req *pb.RunQueryRequest) (queried, error) {
	defer s.conns.Guard()()
	stream, err := s.client.RunQuery(s.outgoing(ctx), req)
	if err != nil {
		return queried{}, err
	}
	var r queried
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return queried{}, err
		}
		if d := res.GetDocument(); d != nil {
			r.docs = append(r.docs, d)
		}
		if t := res.GetReadTime(); t != nil {
			r.at = t
		}
	}
	s.billed.Read(float64(max(1, len(r.docs))))
	if r.at == nil {
		return queried{}, status.Error(codes.Internal, "the answer to a query has no read time")
	}
	return r, nil
}
