package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// An index has the documents of a kind and tenant in shards, because what has one hash key is one partition of the
// service, and what waits for a time is always written at its end. The shard is that of the document's ID. Those who
// look for documents look at all shards; how many there are is at least [DefaultIndexShards], and otherwise said by the
// item of shardsKey, which a process writes before it uses more than it found there.

// Bounds of [Options].IndexShards.
const (
	DefaultIndexShards = driver.DefaultDueShards
	MaxIndexShards     = driver.MaxDueShards
)

// shardsKey is of no document: a partition key without a slash. Its item has attrShards.
var shardsKey = map[string]types.AttributeValue{
	attrPartition: &types.AttributeValueMemberS{Value: "settings"},
	attrSort:      &types.AttributeValueMemberS{Value: "index"},
}

const attrShards = "shards" // N: the highest number of shards that was ever used

// dueKey is the hash key of a shard of an index.
func dueKey(shard int, kind, tenant string) string {
	return strconv.Itoa(shard) + "/" + partition(kind, tenant)
}

// waits reports whether a write sets a field by which documents are to be found.
func (s *Store) waits(w docstore.Write) bool {
	for _, f := range s.due {
		if _, sets := w.Set[f]; sets {
			return true
		}
	}
	return false
}

// announce makes the table say how many shards this store uses, before it uses more than all look at: one read by a
// process that may use more than [DefaultIndexShards], and one write where no process has used as many.
func (s *Store) announce(ctx context.Context) error {
	if s.announced.Load() {
		return nil
	}
	known, err := s.usedShards(ctx)
	if err != nil {
		return err
	}
	if known < s.shards {
		begin := s.clock.start()
		out, err := s.client.UpdateItem(ctx, &sdk.UpdateItemInput{
			TableName: &s.table, Key: shardsKey, UpdateExpression: aws.String("SET #n = :n"),
			ConditionExpression:       aws.String("attribute_not_exists(#n) OR #n < :n"),
			ExpressionAttributeNames:  map[string]string{"#n": attrShards},
			ExpressionAttributeValues: map[string]types.AttributeValue{":n": number(int64(s.shards))},
		}, s.attempts())
		switch _, more := errors.AsType[*types.ConditionalCheckFailedException](err); {
		case err == nil:
			s.clock.learn(begin, dateOf(out.ResultMetadata))
		case !more: // otherwise another process uses as many, or more
			s.learnFrom(begin, err)
			return s.explain(ctx, "write to", err)
		}
	}
	s.announced.Store(true)
	return nil
}

// usedShards is how many shards may have documents.
func (s *Store) usedShards(ctx context.Context) (int, error) {
	begin := s.clock.start()
	out, err := s.client.GetItem(ctx, &sdk.GetItemInput{TableName: &s.table, Key: shardsKey,
		ConsistentRead: aws.Bool(true)}, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return 0, s.explain(ctx, "read from", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	n, there := decode(out.Item)[attrShards]
	used, whole := n.(docstore.Int)
	if there && (!whole || used < 0 || used > MaxIndexShards) {
		return 0, fmt.Errorf(
			"dynamodb: table %s: its item %q says that its indexes have %v shards: they have %d at most, so that a later version "+
				"of Leasehold uses it, or the item is damaged", s.table, "settings", n, MaxIndexShards)
	}
	return max(DefaultIndexShards, int(used)), nil
}
