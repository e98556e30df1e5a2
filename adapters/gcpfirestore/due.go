package gcpfirestore

import (
	"context"
	"fmt"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

var _ docstore.DueLister = (*Store)(nil)

// Due implements [docstore.DueLister]. One request for a page, from the index that Firestore keeps for every field by
// itself: the collection must not be exempt from it (see firestore.indexes.json). The read is strongly consistent.
// Documents whose IDs no key has make a page shorter.
//
// Firestore indexes the first 1500 bytes of a text. Texts that begin alike for so long may be seen twice or not at all;
// no time is that long.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	after, err := driver.ParseDueCursor(q.After)
	if err != nil {
		return docstore.Page{}, err
	}
	if strings.ContainsRune(after.ID, slash) || len(after.ID) > maxIDBytes {
		return docstore.Page{}, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, q.After)
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
	req := dueRequest(s.layout.documents()+"/"+path, q, after)
	var r queried
	if err := s.retry(ctx, bounded, "look for due documents", func() error {
		r, err = s.runQuery(bounded, req)
		return err
	}); err != nil {
		return docstore.Page{}, err
	}
	page := docstore.Page{At: docstore.TruncateMilli(r.at.AsTime())}
	var last driver.DueCursor
	for i, d := range r.docs {
		if i == q.Size() {
			page.Next = last.String()
			break
		}
		_, escaped := cutLast(d.GetName())
		last = driver.DueCursor{Value: d.GetFields()[q.Field].GetStringValue(), ID: escaped}
		if k, ok := keyOf(q.Kind, q.Tenant, escaped); ok {
			page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: decodeDoc(d.GetFields())})
		}
	}
	return page, nil
}

// dueRequest asks for the documents of a collection behind a cursor, and one more, which tells whether a next page
// follows. A comparison with text finds text only.
func dueRequest(collection string, q docstore.DueQuery, after driver.DueCursor) *pb.RunQueryRequest {
	query := &pb.StructuredQuery{
		From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: q.Kind}},
		Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: q.Field}, Op: pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL, Value: text(string(q.Bound())),
		}}},
		OrderBy: []*pb.StructuredQuery_Order{ascending(q.Field), ascending(nameField)},
		Limit:   wrapperspb.Int32(int32(q.Size() + 1)), //nolint:gosec // at most MaxLimit+1
	}
	if after.ID != "" {
		query.StartAt = &pb.Cursor{Values: []*pb.Value{text(after.Value), reference(collection, after.ID)}}
	}
	return queryRequest(collection, query)
}
