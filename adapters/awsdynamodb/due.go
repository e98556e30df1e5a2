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

// indexesOf finds the global secondary indexes that [Store.Due] can use, by the field that they order: those by
// attrDue and the text of a field, with whole items in them, that are not being built or removed.
func indexesOf(t *types.TableDescription) map[string]string {
	found := map[string]string{}
	for _, x := range t.GlobalSecondaryIndexes {
		ready := x.IndexStatus == types.IndexStatusActive || x.IndexStatus == types.IndexStatusUpdating || x.IndexStatus == ""
		whole := x.Projection != nil && x.Projection.ProjectionType == types.ProjectionTypeAll
		if !ready || !whole || len(x.KeySchema) != 2 {
			continue
		}
		field := aws.ToString(x.KeySchema[1].AttributeName)
		if keysOf(x.KeySchema, t.AttributeDefinitions) == attrDue+" (HASH, S) and "+field+" (RANGE, S)" {
			found[field] = aws.ToString(x.IndexName)
		}
	}
	return found
}

// index finds the index on a field. The error is [docstore.ErrNoIndex], or that of looking at the table.
func (s *Store) index(ctx context.Context, field string) (string, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.indexes == nil {
		t, err := s.describe(ctx)
		if err != nil {
			return "", s.explain(ctx, "look for an index of", err)
		}
		s.indexes = indexesOf(t)
	}
	if x, ok := s.indexes[field]; ok {
		return x, nil
	}
	return "", fmt.Errorf("%w: dynamodb: table %s, field %q", docstore.ErrNoIndex, s.table, field)
}

// Due implements [docstore.DueLister] by the index on the field, if there is one. A page is a Query of each shard, at
// once, and more of those that have much; the first page takes a GetItem before, for the number of shards.
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
	at, err := s.duePlaces(ctx, q.After)
	if err != nil {
		return docstore.Page{}, err
	}
	page := docstore.Page{}
	page.Entries, page.Next, err = at.Page(ctx, q.Size(), func(ctx context.Context, shard int, after driver.DueCursor,
		most int) ([]driver.DueItem, bool, error) {
		return s.readDue(ctx, q, index, dueKey(shard, q.Kind, q.Tenant), after, most)
	})
	if err != nil {
		return docstore.Page{}, err
	}
	page.At = s.clock.after()
	page.Margin = s.clock.beyond(page.At)
	return page, nil
}

// duePlaces is where a page begins.
func (s *Store) duePlaces(ctx context.Context, after string) (driver.DuePlaces, error) {
	if after == "" {
		used, err := s.usedShards(ctx)
		return driver.BeginDue(used, false), err
	}
	at, err := driver.ParseDuePlaces(after)
	if err == nil && at.Single { // of a store whose index is not sharded
		err = fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, after)
	}
	return at, err
}

// readDue reads the next items of a shard. A page of large documents ends after a megabyte, before it has most of them.
func (s *Store) readDue(ctx context.Context, q docstore.DueQuery, index, shard string, after driver.DueCursor,
	most int) ([]driver.DueItem, bool, error) {
	e := newExpressions(instants{})
	e.name(attrDue).raw(" = ").str(shard).raw(" AND ").name(q.Field).raw(" <= ").str(string(q.Bound()))
	in := &sdk.QueryInput{
		TableName: &s.table, IndexName: &index, KeyConditionExpression: aws.String(string(e.text)),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.attributeValues(),
		Limit: aws.Int32(int32(most)), //nolint:gosec // at most MaxLimit+1
	}
	if after.ID != "" {
		in.ExclusiveStartKey = itemKey(docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: after.ID})
		in.ExclusiveStartKey[q.Field] = &types.AttributeValueMemberS{Value: after.Value}
		in.ExclusiveStartKey[attrDue] = &types.AttributeValueMemberS{Value: shard}
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
		id := keyText(item, attrSort)
		items[i] = driver.DueItem{
			Entry: docstore.Entry{Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id}, Doc: decode(item)},
			At:    driver.DueCursor{Value: keyText(item, q.Field), ID: id},
		}
	}
	return items, len(out.LastEvaluatedKey) == 0, nil
}
