package awsdynamodb

import (
	"math/big"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Attributes of an item that are not fields of its document. The fields' names begin with a letter, so that they cannot
// meet.
const (
	attrPartition = "_pk"  // S: kind and tenant
	attrSort      = "_sk"  // S: ID
	attrMark      = "_doc" // BOOL: makes an update create a document that has no fields

	// attrDue (S) is the hash key of the indexes for [Store.Due]: a shard, kind and tenant. Items have it that have, or
	// had, a field of [Options].Due; those that only other programs wrote do not.
	attrDue = "_due"

	// attrKeep (N) is the table's time-to-live attribute: Unix seconds until which the document is kept. Items without it
	// are kept for ever.
	attrKeep = TimeToLiveAttribute
)

// keepUntil is the stored form of an instant until which a document is kept: in whole seconds, and no earlier.
func keepUntil(t time.Time) docstore.Int {
	return docstore.Int(t.Add(time.Second - 1).Unix())
}

// partition joins kind and tenant. A kind has no slash, so that different pairs give different texts.
func partition(kind, tenant string) string { return kind + "/" + tenant }

// measuringKey is of no document: a partition key without a slash.
var measuringKey = map[string]types.AttributeValue{
	attrPartition: &types.AttributeValueMemberS{Value: "clock"},
	attrSort:      &types.AttributeValueMemberS{Value: "clock"},
}

func itemKey(k docstore.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attrPartition: &types.AttributeValueMemberS{Value: partition(k.Kind, k.Tenant)},
		attrSort:      &types.AttributeValueMemberS{Value: k.ID},
	}
}

// encode writes a value. Times have been resolved by then, and the port rejects to write what is opaque.
func encode(v docstore.Value) types.AttributeValue {
	switch v := v.(type) {
	case docstore.String:
		return &types.AttributeValueMemberS{Value: string(v)}
	case docstore.Int:
		return number(int64(v))
	case docstore.Bool:
		return &types.AttributeValueMemberBOOL{Value: bool(v)}
	case docstore.Bytes:
		return &types.AttributeValueMemberB{Value: []byte(v)}
	case docstore.Map:
		m := make(map[string]types.AttributeValue, len(v))
		for k, t := range v {
			m[k] = &types.AttributeValueMemberS{Value: t}
		}
		return &types.AttributeValueMemberM{Value: m}
	default:
		return &types.AttributeValueMemberNULL{Value: true}
	}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// decode reads an item; no item is no document. The SDK's decoder would turn whole numbers into float64.
func decode(item map[string]types.AttributeValue) docstore.Doc {
	if len(item) == 0 {
		return nil
	}
	doc := make(docstore.Doc, len(item))
	for name, v := range item {
		switch name {
		case attrPartition, attrSort, attrMark, attrKeep, attrDue:
		default:
			doc[name] = decodeValue(v)
		}
	}
	return doc
}

func decodeValue(v types.AttributeValue) docstore.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return docstore.String(v.Value)
	case *types.AttributeValueMemberBOOL:
		return docstore.Bool(v.Value)
	case *types.AttributeValueMemberN:
		if n, ok := whole(v.Value); ok {
			return docstore.Int(n)
		}
	case *types.AttributeValueMemberB:
		if len(v.Value) <= docstore.MaxBytes {
			return docstore.Bytes(v.Value)
		}
	case *types.AttributeValueMemberM:
		if m, ok := table(v.Value); ok {
			return m
		}
	case *types.AttributeValueMemberNULL:
		return docstore.Opaque{Raw: v, Null: true}
	}
	return docstore.Opaque{Raw: v}
}

// whole reads a number that is whole and within the port's range. The service writes such numbers as plain digits;
// other servers may write 1E2 or 5.0.
func whole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r, ok := new(big.Rat).SetString(text)
		if !ok || !r.IsInt() || !r.Num().IsInt64() {
			return 0, false
		}
		n = r.Num().Int64()
	}
	return n, n <= docstore.MaxInt && n >= -docstore.MaxInt
}

func table(attrs map[string]types.AttributeValue) (docstore.Map, bool) {
	m := make(docstore.Map, len(attrs))
	for k, v := range attrs {
		text, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			return nil, false
		}
		m[k] = text.Value
	}
	return m, true
}
