package gcpfirestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

var _ docstore.DueLister = (*Store)(nil)

// Due implements [docstore.DueLister]. One request for a page, from the index that Firestore keeps for every field by
// itself: the collection must not be exempt from it (see firestore.indexes.json). With [Options].IndexShards it is one
// for each shard, at once, more for those that have much, and one to the field's own index as long as there is one, for
// what was written without shards; the first page takes one more, for the number of shards. The read is strongly
// consistent. Documents whose IDs no key has make a page shorter.
//
// Firestore indexes the first 1500 bytes of a text. Texts that begin alike for so long may be seen twice or not at all;
// no time is that long.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	path, err := collection(s.layout.root, q.Kind, q.Tenant)
	if err != nil {
		return docstore.Page{}, err
	}
	at := driver.BeginDue(0, true)
	switch {
	case q.After != "":
		if at, err = parseDuePlaces(q.After); err != nil {
			return docstore.Page{}, err
		}
	case slices.Contains(s.due, q.Field):
		used, err := s.usedShards(ctx)
		if err != nil {
			return docstore.Page{}, err
		}
		_, exempt := s.exempt.Load(q.Field)
		at = driver.BeginDue(used, !exempt)
	}
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer leave()
	var (
		page docstore.Page
		mu   sync.Mutex // of page.At
	)
	page.Entries, page.Next, err = at.Page(bounded, q.Size(), func(_ context.Context, shard int, after driver.DueCursor,
		most int) ([]driver.DueItem, bool, error) {
		r, err := s.readDue(ctx, bounded, s.layout.documents()+"/"+path, q, dueShard{shard, shard == at.Shards, shard > 0},
			after, most)
		if err != nil {
			return nil, false, err
		}
		mu.Lock()
		defer mu.Unlock()
		if r.at.After(page.At) {
			page.At = r.at
		}
		return r.items, len(r.items) < most, nil
	})
	if err != nil {
		return docstore.Page{}, err
	}
	return page, nil
}

// parseDuePlaces reads the places that a page gave. The IDs in them are parts of names.
func parseDuePlaces(after string) (driver.DuePlaces, error) {
	at, err := driver.ParseDuePlaces(after)
	if err != nil {
		return at, err
	}
	for _, place := range at.At {
		if len(place) == 2 && (strings.ContainsRune(place[1], slash) || len(place[1]) > maxIDBytes) {
			return at, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, after)
		}
	}
	return at, nil
}

// dueShard is a part of what is to be found.
type dueShard struct {
	shard  int
	single bool // all of it, by the field itself
	rest   bool // what the shards have is left out
}

// dueRead is what was read of a shard.
type dueRead struct {
	items []driver.DueItem
	at    time.Time
}

func (s *Store) readDue(
	ctx, bounded context.Context, collection string, q docstore.DueQuery, x dueShard, after driver.DueCursor, most int,
) (dueRead, error) {
	field, low, high := dueField(q.Field), shardPrefix(x.shard), shardPrefix(x.shard)+string(q.Bound())
	if x.single {
		field, low, high = q.Field, "", string(q.Bound())
	}
	req := dueRequest(collection, q.Kind, field, low, high, after, most)
	var r queried
	err := s.retry(ctx, bounded, "look for due documents", func() error {
		var err error
		if r, err = s.runQuery(bounded, req); x.single && x.rest && status.Code(err) == codes.FailedPrecondition {
			s.exempt.Store(q.Field, true) // there is no such index any more: the shards have everything
			r, err = queried{at: timestamppb.New(time.Time{})}, nil
		}
		return err
	})
	if err != nil {
		return dueRead{}, err
	}
	found := dueRead{items: make([]driver.DueItem, len(r.docs)), at: docstore.TruncateMilli(r.at.AsTime())}
	for i, d := range r.docs {
		_, escaped := cutLast(d.GetName())
		k, ok := keyOf(q.Kind, q.Tenant, escaped)
		value, sharded := d.GetFields()[q.Field].GetStringValue(), d.GetFields()[dueField(q.Field)].GetStringValue()
		// What was written without shards may have a shard of before.
		number, rest, cut := strings.Cut(sharded, " ")
		inShard := cut && number != "" && rest == value
		found.items[i] = driver.DueItem{
			Entry: docstore.Entry{Key: k, Doc: decodeDoc(d.GetFields())}, At: driver.DueCursor{Value: value, ID: escaped},
			Skip: !ok || x.single && x.rest && inShard || !x.single && !inShard,
		}
		if !x.single {
			found.items[i].At.Value = rest
		}
	}
	return found, nil
}

// dueRequest asks for the documents of a collection behind a place. A comparison with text finds text only.
func dueRequest(collection, kind, field, low, high string, after driver.DueCursor, most int) *pb.RunQueryRequest {
	where := compare(field, pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL, high)
	if low != "" {
		both := &pb.StructuredQuery_CompositeFilter{
			Op: pb.StructuredQuery_CompositeFilter_AND, Filters: []*pb.StructuredQuery_Filter{
				compare(field, pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, low), where,
			},
		}
		where = &pb.StructuredQuery_Filter{
			FilterType: &pb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: both},
		}
	}
	query := &pb.StructuredQuery{
		From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: kind}}, Where: where,
		OrderBy: []*pb.StructuredQuery_Order{ascending(field), ascending(nameField)},
		Limit:   wrapperspb.Int32(int32(most)), //nolint:gosec // at most MaxLimit+1
	}
	if after.ID != "" {
		query.StartAt = &pb.Cursor{Values: []*pb.Value{text(low + after.Value), reference(collection, after.ID)}}
	}
	return queryRequest(collection, query)
}

func compare(field string, op pb.StructuredQuery_FieldFilter_Operator, with string) *pb.StructuredQuery_Filter {
	filter := &pb.StructuredQuery_FieldFilter{
		Field: &pb.StructuredQuery_FieldReference{FieldPath: field}, Op: op, Value: text(with),
	}
	return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: filter}}
}

// shardsKey is the document that says how many shards were ever used, if that is more than the default.
var shardsKey = docstore.Key{Kind: "leasehold_index", ID: "shards"}

const shardsField = "shards"

// waits reports whether a write sets a field by which documents are to be found.
func (s *Store) waits(w docstore.Write) bool {
	return slices.ContainsFunc(s.due, func(f string) bool { _, sets := w.Set[f]; return sets })
}

// announce stores how many shards this store uses, before it uses more than all look at.
func (s *Store) announce(ctx context.Context) error {
	if s.announced.Load() {
		return nil
	}
	n := docstore.Int(s.shards)
	if _, err := s.Write(ctx, docstore.Write{
		Key: shardsKey, Set: map[string]docstore.Value{shardsField: n},
		If: docstore.Any{docstore.Not{Cond: docstore.Has{Field: shardsField}}, docstore.LE{Field: shardsField, Value: n - 1}},
	}); err != nil { // refused is: as many, or more, are stored
		return err
	}
	s.announced.Store(true)
	return nil
}

// usedShards is how many shards may have documents.
func (s *Store) usedShards(ctx context.Context) (int, error) {
	snap, err := s.Get(ctx, shardsKey)
	if err != nil {
		return 0, err
	}
	v, there := snap.Docs[0][shardsField]
	n, whole := v.(docstore.Int)
	if there && (!whole || n < 0 || n > driver.MaxDueShards) {
		return 0, fmt.Errorf(
			"firestore: the document %s says that indexes have %v shards: they have %d at most, so that a later version of Leasehold "+
				"uses the database, or the document is damaged", shardsKey, v, driver.MaxDueShards)
	}
	return max(driver.DefaultDueShards, int(n)), nil
}
