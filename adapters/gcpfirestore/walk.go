package gcpfirestore

import (
	"context"
	"fmt"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Walker = (*Store)(nil)

// Walk implements [docstore.Walker]. One request for a page: a query of the collection group of the kind, in the order
// of names, which needs no index. Collections of that name which are not of this store, at other places of the
// database, are read as well and left out, and so are documents whose IDs no key has.
func (s *Store) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	top := s.layout.documents()
	if s.layout.root != "" {
		top += "/" + s.layout.root
	}
	query := &pb.StructuredQuery{
		From:    []*pb.StructuredQuery_CollectionSelector{{CollectionId: q.Kind, AllDescendants: true}},
		OrderBy: []*pb.StructuredQuery_Order{ascending(nameField)},
		Limit:   wrapperspb.Int32(int32(q.Size() + 1)), //nolint:gosec // at most MaxLimit+1
	}
	if q.After != "" {
		if !isPath(q.After) {
			return docstore.Page{}, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, q.After)
		}
		query.StartAt = &pb.Cursor{Values: []*pb.Value{reference(top, q.After)}}
	}
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer leave()
	req := &pb.RunQueryRequest{Parent: top, QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: query}}
	var r queried
	if err := s.retry(ctx, bounded, "walk", func() error {
		r, err = s.runQuery(bounded, req)
		return err
	}); err != nil {
		return docstore.Page{}, err
	}
	page := docstore.Page{At: docstore.TruncateMilli(r.at.AsTime())}
	var last string // path of a document of this page
	for i, d := range r.docs {
		if i == q.Size() {
			page.Next = last
			break
		}
		last = strings.TrimPrefix(d.GetName(), top+"/")
		if k, ok := keyAt(q.Kind, last); ok {
			page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: decodeDoc(d.GetFields())})
		}
	}
	return page, nil
}

// keyAt is the key of the document of a kind at a path below the root. ok is false if no key leads there.
func keyAt(kind, path string) (k docstore.Key, ok bool) {
	ids := strings.Split(path, "/")
	switch {
	case len(ids) == 2 && ids[0] == kind:
		return keyOf(kind, "", ids[1])
	case len(ids) == 4 && ids[0] == "tenants" && ids[2] == kind:
		tenant, ok := unescapeID(ids[1])
		if !ok {
			return docstore.Key{}, false
		}
		return keyOf(kind, tenant, ids[3])
	default:
		return docstore.Key{}, false
	}
}

// isPath reports whether a text is the path of a document.
func isPath(s string) bool {
	ids := strings.Split(s, "/")
	for _, id := range ids {
		if id == "" || len(id) > maxIDBytes {
			return false
		}
	}
	return len(ids)%2 == 0
}
