package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// maxRead is the number of items that TransactGetItems reads in one step, at most.
const maxRead = 100

// begin starts a call: the store is open, the context has not ended, and the clock may be relied on. A nil error
// obliges the caller to s.calls.End.
func (s *Store) begin(ctx context.Context) (reading, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return reading{}, err
	}
	r, err := s.now(ctx)
	if err != nil {
		s.calls.End()
		return reading{}, err
	}
	return r, nil
}

// beginRead is begin for a call that does not decide by the time. Where nothing is known of the clock, its response
// measures it: checkAfter then says whether the clock may be relied on. So the first request of a process is the one
// that its caller wants.
func (s *Store) beginRead(ctx context.Context) (r reading, measures bool, err error) {
	if _, err := s.clock.look(); !errors.Is(err, errUnmeasured) {
		r, err := s.begin(ctx)
		return r, false, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return reading{}, false, err
	}
	return s.clock.start(), true, nil
}

// checkAfter checks the clock at the end of a call that measured it.
func (s *Store) checkAfter(ctx context.Context, measured bool) error {
	if !measured {
		return nil
	}
	_, err := s.now(ctx)
	return err
}

// Get implements [docstore.Store]. One key is read with GetItem, several with TransactGetItems, so that their documents
// are of one instant. Of more than 100 different keys each hundred is of an instant of its own: the service reads no
// more in one step.
func (s *Store) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := docstore.ValidateKeys(keys); err != nil {
		return docstore.Snapshot{}, err
	}
	at := make(map[docstore.Key]int, len(keys)) // position among the different keys
	var different []docstore.Key
	for _, k := range keys {
		if _, seen := at[k]; !seen {
			at[k] = len(different)
			different = append(different, k)
		}
	}
	begin, measures, err := s.beginRead(ctx)
	if err != nil {
		return docstore.Snapshot{}, err
	}
	defer s.calls.End()
	var items []map[string]types.AttributeValue
	for chunk := range slices.Chunk(different, maxRead) {
		read, err := s.read(ctx, begin, chunk)
		if err != nil {
			return docstore.Snapshot{}, err
		}
		items = append(items, read...)
		begin = s.clock.start()
	}
	if err := s.checkAfter(ctx, measures); err != nil {
		return docstore.Snapshot{}, err
	}
	snap := docstore.Snapshot{Docs: make([]docstore.Doc, len(keys))}
	for i, k := range keys {
		snap.Docs[i] = decode(items[at[k]])
	}
	snap.At = s.clock.after()
	snap.Margin = s.clock.beyond(snap.At)
	return snap, nil
}

func (s *Store) getItem(ctx context.Context, begin reading, k docstore.Key) (map[string]types.AttributeValue, error) {
	out, err := s.client.GetItem(ctx, &sdk.GetItemInput{
		TableName: aws.String(s.table), Key: itemKey(k), ConsistentRead: aws.Bool(true),
	}, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return nil, s.explain(ctx, "read from", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	return out.Item, nil
}

// read returns the items of up to maxRead different keys, in order.
func (s *Store) read(ctx context.Context, begin reading, keys []docstore.Key) ([]map[string]types.AttributeValue,
	error) {
	if len(keys) == 1 {
		item, err := s.getItem(ctx, begin, keys[0])
		return []map[string]types.AttributeValue{item}, err
	}
	if s.single.Load() {
		return nil, s.unsupported("read from")
	}
	in := &sdk.TransactGetItemsInput{TransactItems: make([]types.TransactGetItem, len(keys))}
	for i, k := range keys {
		in.TransactItems[i].Get = &types.Get{TableName: aws.String(s.table), Key: itemKey(k)}
	}
	out, err := s.client.TransactGetItems(ctx, in, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		if s.lacksTransactions(ctx, err) {
			return nil, s.unsupported("read from")
		}
		return nil, s.explain(ctx, "read from", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	if len(out.Responses) != len(keys) {
		return nil, fmt.Errorf("dynamodb: read from table %s: %d answers for %d keys", s.table, len(out.Responses), len(keys))
	}
	items := make([]map[string]types.AttributeValue, len(keys))
	for i, r := range out.Responses {
		items[i] = r.Item
	}
	return items, nil
}

// List implements [docstore.Store]. It is one Query, or several where the documents are larger than a megabyte
// together.
func (s *Store) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	begin, err := s.begin(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	page := docstore.Page{}
	in := s.query(q)
	for in != nil {
		in.Limit = aws.Int32(int32(q.Size() + 1 - len(page.Entries))) //nolint:gosec // at most MaxLimit+1
		out, err := s.client.Query(ctx, in, s.attempts())
		if err != nil {
			s.learnFrom(begin, err)
			return docstore.Page{}, s.explain(ctx, "list", err)
		}
		s.clock.learn(begin, dateOf(out.ResultMetadata))
		begin = s.clock.start()
		for _, item := range out.Items {
			id, ok := item[attrSort].(*types.AttributeValueMemberS)
			if !ok {
				return docstore.Page{}, fmt.Errorf("dynamodb: list table %s: an item without its key %s", s.table, attrSort)
			}
			// Asked for, but not kept by every server: dynoxide 1.2 ignores case in begins_with.
			if !strings.HasPrefix(id.Value, q.Prefix) {
				continue
			}
			page.Entries = append(page.Entries, docstore.Entry{
				Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id.Value}, Doc: decode(item),
			})
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if len(out.LastEvaluatedKey) == 0 || len(page.Entries) > q.Size() {
			in = nil
		}
	}
	// The query asks for one more, so that the last page can say that it is the last.
	if n := q.Size(); len(page.Entries) > n {
		page.Entries = page.Entries[:n:n]
		page.Next = page.Entries[n-1].Key.ID
	}
	page.At = s.clock.after()
	page.Margin = s.clock.beyond(page.At)
	return page, nil
}

// query is the request for a page; nil when no ID can be on it. The service rejects to start outside of the prefix.
func (s *Store) query(q docstore.Query) *sdk.QueryInput {
	e := newExpressions(instants{})
	e.name(attrPartition).raw(" = ").str(partition(q.Kind, q.Tenant))
	if q.Prefix != "" {
		e.raw(" AND begins_with(").name(attrSort).raw(", ").str(q.Prefix).raw(")")
	}
	in := &sdk.QueryInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String(string(e.text)),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.attributeValues(),
	}
	switch {
	case q.After == "" || q.After < q.Prefix:
	case !strings.HasPrefix(q.After, q.Prefix):
		return nil
	default:
		in.ExclusiveStartKey = itemKey(docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: q.After})
	}
	return in
}
