package awsdynamodb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
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

// Due implements [docstore.DueLister] by the indexes on the field, if there are any. A page is a Query of each shard,
// at once, and more of those that have much; the first page takes a GetItem before, for the number of shards. Of a
// table that has an index of earlier versions only, which is not sharded, a page is one Query. If a table has both, the
// one of earlier versions is asked as well, for the documents that only earlier versions and other programs wrote.
//
// An index follows its table with a delay, mostly below a second: a document may be found as it was, or later than it
// could be.
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
	at := driver.BeginDue(0, index.single != "")
	switch {
	case q.After != "": // that of a store without an index is another
		at, err = driver.ParseDuePlaces(q.After)
	case index.sharded != "":
		at.Shards, err = s.usedShards(ctx)
		at = driver.BeginDue(at.Shards, at.Single)
	}
	if err != nil {
		return docstore.Page{}, err
	}
	if at.Single && index.single == "" || at.Shards > 0 && index.sharded == "" {
		return docstore.Page{}, fmt.Errorf("%w: after %q is of a page from an index that table %s does not have any more",
			docstore.ErrInvalid, q.After, s.table)
	}
	page := docstore.Page{}
	page.Entries, page.Next, err = at.Page(ctx, q.Size(), func(ctx context.Context, shard int, after driver.DueCursor,
		most int) ([]driver.DueItem, bool, error) {
		x := dueShard{index.sharded, attrDue, dueKey(shard, q.Kind, q.Tenant), false}
		if shard == at.Shards {
			x = dueShard{index.single, attrPartition, partition(q.Kind, q.Tenant), shard > 0}
		}
		return s.readDue(ctx, q, x, after, most)
	})
	if err != nil {
		return docstore.Page{}, err
	}
	page.At = s.clock.after()
	return page, nil
}

// dueShard is a part of an index.
type dueShard struct {
	index, hashKey, hash string
	rest                 bool // what has a shard is found there
}

// readDue reads the next items of a shard. A page of large documents ends after a megabyte, before it has most of them.
func (s *Store) readDue(ctx context.Context, q docstore.DueQuery, x dueShard, after driver.DueCursor,
	most int) ([]driver.DueItem, bool, error) {
	e := newExpressions(instants{})
	e.name(x.hashKey).raw(" = ").str(x.hash).raw(" AND ").name(q.Field).raw(" <= ").str(string(q.Bound()))
	in := &sdk.QueryInput{
		TableName: &s.table, IndexName: &x.index, KeyConditionExpression: aws.String(string(e.text)),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.attributeValues(),
		Limit: aws.Int32(int32(most)), //nolint:gosec // at most MaxLimit+1
	}
	if after.ID != "" {
		in.ExclusiveStartKey = itemKey(docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: after.ID})
		in.ExclusiveStartKey[q.Field] = &types.AttributeValueMemberS{Value: after.Value}
		in.ExclusiveStartKey[x.hashKey] = &types.AttributeValueMemberS{Value: x.hash}
	}
	begin := s.clock.start()
	out, err := s.client.Query(ctx, in, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return nil, false, s.explain(ctx, "look for due documents in", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	items := make([]driver.DueItem, len(out.Items))
	for i, item := range out.Items {
		_, sharded := item[attrDue]
		id := keyText(item, attrSort)
		items[i] = driver.DueItem{
			Entry: docstore.Entry{Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id}, Doc: decode(item)},
			At:    driver.DueCursor{Value: keyText(item, q.Field), ID: id}, Skip: x.rest && sharded,
		}
	}
	return items, len(out.LastEvaluatedKey) == 0, nil
}
