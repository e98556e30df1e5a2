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
func indexName(field string) string { return "due-" + field }

// indexesOf finds the global secondary indexes that [Store.Due] can use, by the field that they order: those by
// partition key and the text of a field, with whole items in them, that are not being built or removed.
func indexesOf(t *types.TableDescription) map[string]string {
	found := map[string]string{}
	for _, x := range t.GlobalSecondaryIndexes {
		ready := x.IndexStatus == types.IndexStatusActive || x.IndexStatus == types.IndexStatusUpdating || x.IndexStatus == ""
		whole := x.Projection != nil && x.Projection.ProjectionType == types.ProjectionTypeAll
		if !ready || !whole || len(x.KeySchema) != 2 {
			continue
		}
		field := aws.ToString(x.KeySchema[1].AttributeName)
		if keysOf(x.KeySchema, t.AttributeDefinitions) == attrPartition+" (HASH, S) and "+field+" (RANGE, S)" {
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
	if name, ok := s.indexes[field]; ok {
		return name, nil
	}
	return "", fmt.Errorf("%w: dynamodb: table %s, field %q", docstore.ErrNoIndex, s.table, field)
}

// Due implements [docstore.DueLister]: one Query of the index on the field, if there is one. An index follows its
// table with a delay, mostly below a second: a document may be found as it was, or later than it could be.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	begin, err := s.begin(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	index, err := s.index(ctx, q.Field)
	if err != nil {
		return docstore.Page{}, err
	}
	after, err := driver.ParseDueCursor(q.After) // that of a store without an index is another
	if err != nil {
		return docstore.Page{}, err
	}
	e := newExpressions(instants{})
	e.name(attrPartition).raw(" = ").str(partition(q.Kind, q.Tenant)).raw(" AND ").name(q.Field).raw(" <= ").str(string(q.Bound()))
	in := &sdk.QueryInput{
		TableName: aws.String(s.table), IndexName: aws.String(index),
		KeyConditionExpression: aws.String(string(e.text)),
		Limit:                  aws.Int32(int32(q.Size() + 1)), //nolint:gosec // at most MaxLimit+1
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.attributeNames(), e.attributeValues()
	if after.ID != "" {
		in.ExclusiveStartKey = itemKey(docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: after.ID})
		in.ExclusiveStartKey[q.Field] = &types.AttributeValueMemberS{Value: after.Value}
	}
	out, err := s.client.Query(ctx, in, s.attempts(always))
	if err != nil {
		s.learnFrom(begin, err)
		return docstore.Page{}, s.explain(ctx, "look for due documents in", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	page := docstore.Page{}
	for _, item := range out.Items {
		id, ok := item[attrSort].(*types.AttributeValueMemberS)
		if !ok {
			continue
		}
		page.Entries = append(page.Entries, docstore.Entry{
			Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id.Value}, Doc: decode(item),
		})
	}
	// The query asks for one more, so that the last page can say that it is the last. A page of large documents
	// ends before that, after a megabyte.
	n := len(page.Entries)
	if n > q.Size() {
		n = q.Size()
	} else if len(out.LastEvaluatedKey) == 0 {
		n = 0
	}
	if n > 0 {
		last := page.Entries[n-1]
		value, _ := last.Doc[q.Field].(docstore.String)
		page.Entries, page.Next = page.Entries[:n:n], driver.DueCursor{Value: string(value), ID: last.Key.ID}.String()
	}
	page.At = s.clock.after()
	return page, nil
}
