package awsdynamodb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Walker = (*Store)(nil)

// Walk implements [docstore.Walker]. One Scan, which reads up to q.Limit items of all kinds, at most a megabyte: a page
// has those of the kind among them, which may be none. The caller's IAM policy must allow dynamodb:Scan. Items whose
// IDs no key has are left out.
func (s *Store) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	e := newExpressions(instants{})
	e.raw("begins_with(").name(attrPartition).raw(", ").str(partition(q.Kind, "")).raw(")")
	in := &sdk.ScanInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true),
		FilterExpression: aws.String(string(e.text)),
		Limit:            aws.Int32(int32(q.Size())), //nolint:gosec // at most MaxLimit
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.attributeNames(), e.attributeValues()
	if q.After != "" {
		at, err := parseItemCursor(q.After)
		if err != nil {
			return docstore.Page{}, err
		}
		in.ExclusiveStartKey = at.key()
	}
	begin, err := s.begin(ctx)
	if err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	out, err := s.client.Scan(ctx, in, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return docstore.Page{}, s.explain(ctx, "walk", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	page := docstore.Page{At: s.clock.after()}
	page.Margin = s.clock.beyond(page.At)
	for _, item := range out.Items {
		tenant, ok := strings.CutPrefix(keyText(item, attrPartition), partition(q.Kind, ""))
		k := docstore.Key{Kind: q.Kind, Tenant: tenant, ID: keyText(item, attrSort)}
		if ok && k.Validate() == nil {
			page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: decode(item)})
		}
	}
	if last := out.LastEvaluatedKey; len(last) > 0 {
		page.Next = itemCursor{keyText(last, attrPartition), keyText(last, attrSort)}.String()
	}
	return page, nil
}

// itemCursor is a place in the order of a Scan: partition key and sort key.
type itemCursor [2]string

func (c itemCursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // texts have a JSON form
	}
	return string(b)
}

func (c itemCursor) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attrPartition: &types.AttributeValueMemberS{Value: c[0]}, attrSort: &types.AttributeValueMemberS{Value: c[1]},
	}
}

func parseItemCursor(s string) (itemCursor, error) {
	var c itemCursor
	if err := json.Unmarshal([]byte(s), &c); err != nil || c[0] == "" || c[1] == "" {
		return itemCursor{}, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, s)
	}
	return c, nil
}

// keyText is a key attribute of an item, empty if it is missing.
func keyText(item map[string]types.AttributeValue, name string) string {
	s, _ := item[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}
