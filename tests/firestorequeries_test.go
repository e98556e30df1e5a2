package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// firestoreIndexes are the indexes that people are told to create.
type firestoreIndexes struct {
	Indexes []struct {
		CollectionGroup, QueryScope, Density string
		Fields                               []struct{ FieldPath, Order string }
	}
	FieldOverrides []struct {
		CollectionGroup, FieldPath string
		TTL                        bool
	}
}

func readFirestoreIndexes(t *testing.T, name string) (file firestoreIndexes) {
	t.Helper()
	content, err := os.ReadFile("../adapters/gcpfirestore/" + name)
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil {
		t.Fatal(name, err)
	}
	return file
}

// index describes an index by what a query needs of it.
func index(collection, scope string, fields []string) string {
	return fmt.Sprintf("%s %s (%s)", collection, scope, strings.Join(fields, ", "))
}

// enterprise is what the Enterprise edition, which makes no index by itself, is told to have.
var enterprise = sync.OnceValues(func() (map[string]bool, error) {
	var file firestoreIndexes
	content, err := os.ReadFile("../adapters/gcpfirestore/firestore.indexes.enterprise.json")
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	declared := map[string]bool{}
	for _, x := range file.Indexes {
		var fields []string
		for _, f := range x.Fields {
			fields = append(fields, f.FieldPath+" "+f.Order)
		}
		declared[index(x.CollectionGroup, x.QueryScope, fields)] = true
	}
	return declared, err
})

// needed is the index that a request needs; empty if there is none, as for what is read by names and in their order.
func needed(m proto.Message) (string, error) {
	switch m := m.(type) {
	case *pb.RunQueryRequest:
		return neededBy(m.GetStructuredQuery())
	case *pb.RunAggregationQueryRequest, *pb.PartitionQueryRequest, *pb.ExecutePipelineRequest:
		return "", fmt.Errorf("%T is not used yet: say here which index it needs", m)
	case *pb.ListenRequest:
		if m.GetAddTarget().GetQuery() != nil {
			return "", errors.New("listening to a query is not used yet: say here which index it needs")
		}
	}
	return "", nil
}

func neededBy(q *pb.StructuredQuery) (string, error) {
	var fields []string
	if w := q.GetWhere(); w != nil {
		for _, w := range append(w.GetCompositeFilter().GetFilters(), w) {
			f := w.GetFieldFilter()
			switch {
			case f == nil && w.GetCompositeFilter().GetOp() == pb.StructuredQuery_CompositeFilter_AND:
			case f == nil || f.GetOp() == pb.StructuredQuery_FieldFilter_EQUAL:
				return "", fmt.Errorf("a filter of another kind: say here which index it needs: %v", w)
			case f.GetField().GetFieldPath() != q.GetOrderBy()[0].GetField().GetFieldPath():
				return "", fmt.Errorf("the first order is not that of the filter: %v", q)
			}
		}
	}
	for _, o := range q.GetOrderBy() {
		if name := o.GetField().GetFieldPath(); name != "__name__" {
			fields = append(fields, name+" "+o.GetDirection().String())
		}
	}
	from := q.GetFrom()[0]
	if len(fields) == 0 {
		return "", nil // in the order of names
	}
	scope := "COLLECTION"
	if from.GetAllDescendants() {
		scope = "COLLECTION_GROUP"
	}
	return index(from.GetCollectionId(), scope, fields), nil
}

// watchQueries makes a test fail if anything asks the emulator for what no declared index has. On the Standard edition
// Firestore would refuse it or use an index that it made by itself; on Enterprise it would read the whole collection.
func watchQueries(t *testing.T, server *firestoretest.Server) {
	t.Helper()
	declared, err := enterprise()
	if err != nil {
		t.Fatal(err)
	}
	server.Inject(firestoretest.Fault{Effect: firestoretest.Fail{Code: codes.Unavailable},
		Match: func(m proto.Message) bool {
			if x, err := needed(m); err != nil {
				t.Error(err)
			} else if x != "" && !declared[x] {
				t.Errorf("a query needs the index %s, which firestore.indexes.enterprise.json does not declare", x)
			}
			return false
		}})
}

// TestDeclaredIndexes: the tests of this package watch all queries. Here are the files themselves: what Enterprise is
// told to have is what the standard edition has by itself and is not told to leave out, and both remove the same
// documents.
func TestDeclaredIndexes(t *testing.T) {
	standard, own := readFirestoreIndexes(t, "firestore.indexes.json"),
		readFirestoreIndexes(t, "firestore.indexes.enterprise.json")
	var expiring [2][]string
	for i, file := range []firestoreIndexes{standard, own} {
		for _, o := range file.FieldOverrides {
			if o.TTL {
				expiring[i] = append(expiring[i], o.CollectionGroup+" "+o.FieldPath)
			}
		}
		slices.Sort(expiring[i])
	}
	if len(expiring[0]) == 0 || !slices.Equal(expiring[0], expiring[1]) {
		t.Errorf("time to live in one file: %q, in the other: %q", expiring[0], expiring[1])
	}
	if len(standard.Indexes) != 0 {
		t.Errorf("the Standard edition needs no composite index, and has %v", standard.Indexes)
	}
	for _, x := range own.Indexes {
		if x.Density != "SPARSE_ANY" {
			t.Errorf("the index of %s has entries for documents that no query finds", x.CollectionGroup)
		}
		for _, o := range standard.FieldOverrides {
			if o.CollectionGroup == x.CollectionGroup {
				t.Errorf("%s of %s is exempt on the Standard edition", o.FieldPath, x.CollectionGroup)
			}
		}
	}
	// The check itself.
	where := func(field string) *pb.StructuredQuery_Filter {
		filter := &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: field},
			Op:    pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL,
		}
		return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: filter}}
	}
	orders := func(fields ...string) (all []*pb.StructuredQuery_Order) {
		for _, f := range fields {
			all = append(all, &pb.StructuredQuery_Order{Field: &pb.StructuredQuery_FieldReference{FieldPath: f},
				Direction: pb.StructuredQuery_ASCENDING})
		}
		return all
	}
	declared, err := enterprise()
	if err != nil || len(declared) != len(own.Indexes) {
		t.Fatal(declared, err)
	}
	for name, c := range map[string]struct {
		query *pb.StructuredQuery
		fine  bool
	}{
		"by names": {&pb.StructuredQuery{OrderBy: orders("__name__")}, true},
		"due": {&pb.StructuredQuery{Where: where("lockExpiresAt"), OrderBy: orders("lockExpiresAt", "__name__")},
			true},
		"another field": {&pb.StructuredQuery{Where: where("owner"), OrderBy: orders("owner", "__name__")}, false},
		"an order":      {&pb.StructuredQuery{OrderBy: orders("owner")}, false},
		"two orders": {&pb.StructuredQuery{Where: where("lockExpiresAt"), OrderBy: orders("lockExpiresAt", "owner")},
			false},
		"mismatch": {&pb.StructuredQuery{Where: where("owner"), OrderBy: orders("lockExpiresAt")}, false},
		"all of a kind": {&pb.StructuredQuery{
			From:  []*pb.StructuredQuery_CollectionSelector{{CollectionId: "analyses", AllDescendants: true}},
			Where: where("lockExpiresAt"), OrderBy: orders("lockExpiresAt"),
		}, false},
	} {
		if c.query.From == nil {
			c.query.From = []*pb.StructuredQuery_CollectionSelector{{CollectionId: "analyses"}}
		}
		x, err := needed(&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: c.query}})
		if fine := err == nil && (x == "" || declared[x]); fine != c.fine {
			t.Errorf("%s: %q, %v; fine is %v", name, x, err, fine)
		}
	}
	for _, m := range []proto.Message{
		&pb.RunAggregationQueryRequest{}, &pb.PartitionQueryRequest{}, &pb.ExecutePipelineRequest{},
		&pb.ListenRequest{TargetChange: &pb.ListenRequest_AddTarget{
			AddTarget: &pb.Target{TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{}}}}},
	} {
		if _, err := needed(m); err == nil {
			t.Errorf("%T passes", m)
		}
	}
}
