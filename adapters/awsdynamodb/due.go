package awsdynamodb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.DueLister = (*Store)(nil)

// indexName is what CreateTable calls the index on a field. Any other name will do as well.
func indexName(field string) string { return "due-sharded-" + field }

// dueIndex is the names of a table's indexes on a field, empty for those that it does not have.
type dueIndex struct {
	sharded string // by attrDue
	single  string // by the partition key, of earlier versions: it has all documents, in one partition
}

// indexesOf finds the global secondary indexes that [Store.Due] can use, by the field that they order: those by
// shard, or partition key, and the text of a field, with whole items in them, that are not being built or removed.
func indexesOf(t *types.TableDescription) map[string]dueIndex {
	found := map[string]dueIndex{}
	for _, x := range t.GlobalSecondaryIndexes {
		ready := x.IndexStatus == types.IndexStatusActive || x.IndexStatus == types.IndexStatusUpdating || x.IndexStatus == ""
		whole := x.Projection != nil && x.Projection.ProjectionType == types.ProjectionTypeAll
		if !ready || !whole || len(x.KeySchema) != 2 {
			continue
		}
		field := aws.ToString(x.KeySchema[1].AttributeName)
		of := found[field]
		switch keysOf(x.KeySchema, t.AttributeDefinitions) {
		case attrDue + " (HASH, S) and " + field + " (RANGE, S)":
			of.sharded = aws.ToString(x.IndexName)
		case attrPartition + " (HASH, S) and " + field + " (RANGE, S)":
			of.single = aws.ToString(x.IndexName)
		default:
			continue
		}
		found[field] = of
	}
	return found
}

// index finds the indexes on a field. The error is [docstore.ErrNoIndex], or that of looking at the table.
func (s *Store) index(ctx context.Context, field string) (dueIndex, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.indexes == nil {
		t, err := s.describe(ctx)
		if err != nil {
			return dueIndex{}, s.explain(ctx, "look for an index of", err)
		}
		s.indexes = indexesOf(t)
	}
	if x, ok := s.indexes[field]; ok {
		return x, nil
	}
	return dueIndex{}, fmt.Errorf("%w: dynamodb: table %s, field %q", docstore.ErrNoIndex, s.table, field)
}

// Due implements [docstore.DueLister] by the indexes on the field, if there are any. A page is a Query of each shard, at once, and more of
// those that have much; the first page takes a GetItem before, for the number of shards. Of a table that has an index of earlier versions
// only, which is not sharded, a page is one Query. If a table has both, the one of earlier versions is asked as well, for the documents that only
// earlier versions and other programs wrote.
//
// An index follows its table with a delay, mostly below a second: a document may be found as it was, or later than it could be.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	if _, err := s.begin(ctx); err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	index, err := s.index(ctx, q.Field)
	if err != nil {
		return docstore.Page{}, err
	}
	at, err := parseDuePlaces(q.After) // that of a store without an index is another
	if err != nil {
		return docstore.Page{}, err
	}
	if q.After == "" {
		if at, err = s.beginnings(ctx, index); err != nil {
			return docstore.Page{}, err
		}
	}
	if at.Single && index.single == "" || at.Shards > 0 && index.sharded == "" {
		return docstore.Page{}, fmt.Errorf("%w: after %q is of a page from an index that table %s does not have any more", docstore.ErrInvalid, q.After, s.table)
	}
	streams := at.streams(q, index)
	page := docstore.Page{}
	for {
		// The next document is known when none of the streams may have one that has not been read.
		if err := s.fill(ctx, q, streams); err != nil {
			return docstore.Page{}, err
		}
		page.Entries = merge(page.Entries, streams, q.Size())
		more := slices.ContainsFunc(streams, func(x *stream) bool { return len(x.read) > 0 })
		ended := !slices.ContainsFunc(streams, func(x *stream) bool { return !x.ended || len(x.read) > 0 })
		switch {
		case ended:
			page.At = s.clock.after()
			return page, nil
		case len(page.Entries) == q.Size() && more:
			page.At, page.Next = s.clock.after(), at.after(streams)
			return page, nil
		}
	}
}

// beginnings are the places at which a walk begins.
func (s *Store) beginnings(ctx context.Context, index dueIndex) (duePlaces, error) {
	at := duePlaces{Single: index.single != ""}
	if index.sharded != "" {
		var err error
		if at.Shards, err = s.usedShards(ctx); err != nil {
			return duePlaces{}, err
		}
	}
	at.At = make([]duePlace, at.all())
	return at, nil
}

// duePlaces is how far a walk has come: in each shard, and last in the index of earlier versions. Documents with equal values are in an order
// that only the service knows, so that a place in one shard says nothing about another.
type duePlaces struct {
	Shards int        `json:"shards"`
	Single bool       `json:"single,omitempty"`
	At     []duePlace `json:"at"`
}

// duePlace is the value and the ID of the last document that was read; empty at the beginning, and a single text when there is no more.
type duePlace []string

func (p duePlaces) all() int {
	if p.Single {
		return p.Shards + 1
	}
	return p.Shards
}

func parseDuePlaces(after string) (duePlaces, error) {
	var p duePlaces
	if after == "" {
		return p, nil
	}
	err := json.Unmarshal([]byte(after), &p)
	if err != nil || p.Shards < 0 || p.Shards > MaxIndexShards || p.all() == 0 || len(p.At) != p.all() ||
		slices.ContainsFunc(p.At, func(x duePlace) bool { return len(x) > 2 || len(x) == 2 && x[1] == "" }) {
		return duePlaces{}, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, after)
	}
	return p, nil
}

// after is the place behind what was taken from the streams.
func (p duePlaces) after(streams []*stream) string {
	p.At = make([]duePlace, len(streams))
	for i, x := range streams {
		p.At[i] = x.place
		if x.ended && len(x.read) == 0 {
			p.At[i] = duePlace{""}
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts have a JSON form
	}
	return string(b)
}

// stream is what one shard has, in the order of the field.
type stream struct {
	index, hashKey, hash string
	old                  bool // the index of earlier versions: what has a shard is found there

	place duePlace                        // behind which nothing was taken
	start map[string]types.AttributeValue // from which to read on
	read  []dueItem                       // and not taken
	ended bool                            // nothing lies behind what was read
}

// dueItem is an item that was read.
type dueItem struct {
	entry docstore.Entry
	value string // of the field
	skip  bool   // another stream has it
}

func (p duePlaces) streams(q docstore.DueQuery, index dueIndex) []*stream {
	all := make([]*stream, p.all())
	for i := range all {
		x := &stream{index: index.sharded, hashKey: attrDue, hash: dueKey(i, q.Kind, q.Tenant), place: p.At[i], ended: len(p.At[i]) == 1}
		if i == p.Shards {
			x.index, x.hashKey, x.hash, x.old = index.single, attrPartition, partition(q.Kind, q.Tenant), p.Shards > 0
		}
		if len(x.place) == 2 {
			x.start = itemKey(docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: x.place[1]})
			x.start[q.Field] = &types.AttributeValueMemberS{Value: x.place[0]}
			x.start[x.hashKey] = &types.AttributeValueMemberS{Value: x.hash}
		}
		all[i] = x
	}
	return all
}

// fill reads on in all streams of which nothing is at hand, at once.
func (s *Store) fill(ctx context.Context, q docstore.DueQuery, streams []*stream) error {
	var dry []*stream
	for _, x := range streams {
		if !x.ended && len(x.read) == 0 {
			dry = append(dry, x)
		}
	}
	// A page is of one more than it has, so that the last can say that it is the last. Of several shards each has about its part.
	limit := q.Size() + 1
	if len(streams) > 1 {
		limit = min(limit, q.Size()*3/(2*len(streams))+2)
	}
	errs := make([]error, len(dry))
	var all sync.WaitGroup
	for i, x := range dry {
		all.Go(func() { errs[i] = s.readOn(ctx, q, x, limit) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// readOn reads the next items of a stream. A page of large documents ends after a megabyte, before the limit.
func (s *Store) readOn(ctx context.Context, q docstore.DueQuery, x *stream, limit int) error {
	e := newExpressions(instants{})
	e.name(x.hashKey).raw(" = ").str(x.hash).raw(" AND ").name(q.Field).raw(" <= ").str(string(q.Bound()))
	begin := s.clock.start()
	out, err := s.client.Query(ctx, &sdk.QueryInput{
		TableName: &s.table, IndexName: &x.index, KeyConditionExpression: aws.String(string(e.text)), ExclusiveStartKey: x.start,
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.attributeValues(),
		Limit: aws.Int32(int32(limit)), //nolint:gosec // at most MaxLimit+1
	}, s.attempts(always))
	if err != nil {
		s.learnFrom(begin, err)
		return s.explain(ctx, "look for due documents in", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	for _, item := range out.Items {
		_, sharded := item[attrDue]
		x.read = append(x.read, dueItem{
			entry: docstore.Entry{Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: keyText(item, attrSort)}, Doc: decode(item)},
			value: keyText(item, q.Field), skip: x.old && sharded,
		})
	}
	x.start, x.ended = out.LastEvaluatedKey, len(out.LastEvaluatedKey) == 0
	return nil
}

// merge takes documents in the order of the field, until there are size of them or one of the streams has nothing at hand that may have
// more.
func merge(entries []docstore.Entry, streams []*stream, size int) []docstore.Entry {
	for {
		var next *stream
		for _, x := range streams {
			for len(x.read) > 0 && x.read[0].skip {
				x.take()
			}
			switch {
			case len(x.read) == 0 && !x.ended:
				return entries
			case len(x.read) > 0 && (next == nil || x.read[0].value < next.read[0].value):
				next = x
			}
		}
		if next == nil || len(entries) == size {
			return entries
		}
		entries = append(entries, next.take().entry)
	}
}

func (x *stream) take() dueItem {
	first := x.read[0]
	x.read, x.place = x.read[1:], duePlace{first.value, first.entry.Key.ID}
	return first
}
