package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// openTable looks at the table, or creates it, and measures the clock by the response.
func (s *Store) openTable(ctx context.Context, o *Options) error {
	t, err := s.describe(ctx)
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing && o.CreateTable {
		t, err = s.create(ctx, o.Indexes)
	}
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	if err := s.check(t); err != nil {
		return err
	}
	s.indexes = indexesOf(t)
	s.due = slices.AppendSeq(s.due, maps.Keys(s.indexes))
	for _, field := range o.Indexes {
		if s.indexes[field] == "" {
			s.warnings = append(s.warnings,
				fmt.Sprintf("table %s has no index on %q that can be used, so that all documents are read to "+
					"find those that wait for a time: create one with the hash key %q, the range key %q and all attributes, then start again",
					s.table, field, attrDue, field))
		}
	}
	s.warn(t)
	return nil
}

func (s *Store) describe(ctx context.Context) (*types.TableDescription, error) {
	begin := s.clock.start()
	out, err := s.client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: aws.String(s.table)}, s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return nil, err
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	s.single.Store(out.Table.MultiRegionConsistency == types.MultiRegionConsistencyStrong)
	if out.Table == nil {
		return nil, errors.New("the response to DescribeTable has no table")
	}
	return out.Table, nil
}

// create makes the table and waits until it can be used. Another process may be doing the same.
func (s *Store) create(ctx context.Context, indexes []string) (*types.TableDescription, error) {
	in := &sdk.CreateTableInput{
		TableName:            aws.String(s.table),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            keys(attrPartition, attrSort),
		AttributeDefinitions: []types.AttributeDefinition{text(attrPartition), text(attrSort)},
	}
	if len(indexes) > 0 {
		in.AttributeDefinitions = append(in.AttributeDefinitions, text(attrDue))
	}
	for _, field := range indexes {
		in.AttributeDefinitions = append(in.AttributeDefinitions, text(field))
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(indexName(field)), KeySchema: keys(attrDue, field),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		})
	}
	_, err := s.client.CreateTable(ctx, in, s.attempts())
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return nil, err
	}
	created := err == nil
	t, err := s.describe(ctx)
	for err == nil && t.TableStatus == types.TableStatusCreating {
		if err := backoff.Sleep(ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
		t, err = s.describe(ctx)
	}
	if err == nil && created {
		s.enableTimeToLive(ctx)
	}
	return t, err
}

// enableTimeToLive lets the service remove documents whose Keep has passed. Without it they stay, which is safe: that
// it failed is a warning.
func (s *Store) enableTimeToLive(ctx context.Context) {
	_, err := s.client.UpdateTimeToLive(ctx, &sdk.UpdateTimeToLiveInput{
		TableName:               aws.String(s.table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrKeep), Enabled: aws.Bool(true)},
	}, s.attempts())
	if err != nil {
		s.warnings = append(s.warnings,
			fmt.Sprintf("table %s was created, but time to live could not be enabled, so that ended locks "+
				"are never removed: run aws dynamodb update-time-to-live --table-name %s --time-to-live-specification "+
				"Enabled=true,AttributeName=%s: %v", s.table, s.table, attrKeep, err))
	}
}

// TimeToLiveAttribute is the attribute of items that the table's time to live must name.
const TimeToLiveAttribute = "_keep_until"

// TimeToLive reports whether the service removes documents whose Keep has passed. It needs the permission
// dynamodb:DescribeTimeToLive, which nothing else does.
func (s *Store) TimeToLive(ctx context.Context) (bool, error) {
	c, ok := s.client.(timeToLive)
	if !ok {
		return false, fmt.Errorf("%w: the client cannot describe the time to live", docstore.ErrUnsupported)
	}
	in := &sdk.DescribeTimeToLiveInput{TableName: aws.String(s.table)}
	out, err := c.DescribeTimeToLive(ctx, in, s.attempts())
	if err != nil {
		return false, s.explain(ctx, "describe the time to live", err)
	}
	d := out.TimeToLiveDescription
	return d != nil && aws.ToString(d.AttributeName) == attrKeep &&
		(d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling), nil
}

func keys(hash, order string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(order), KeyType: types.KeyTypeRange},
	}
}

func text(name string) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
}

// check rejects a table that cannot hold documents.
func (s *Store) check(t *types.TableDescription) error {
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating, "":
	case types.TableStatusCreating:
		return fmt.Errorf("dynamodb: table %s is still being created: try again in a moment", s.table)
	default:
		return fmt.Errorf("dynamodb: table %s cannot be used: its status is %s", s.table, t.TableStatus)
	}
	if found := keysOf(t.KeySchema, t.AttributeDefinitions); found != rightKeys {
		return fmt.Errorf(
			"dynamodb: table %s cannot hold documents of Leasehold: its key is %s, it must be %s: name another table, "+
				"or create one with Terraform (hash_key %q, range_key %q), or for development with --create-table",
			s.table, found, rightKeys, attrPartition, attrSort)
	}
	return nil
}

const rightKeys = attrPartition + " (HASH, S) and " + attrSort + " (RANGE, S)"

// keysOf describes the key of a table or an index, in the form of rightKeys.
func keysOf(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) string {
	var parts []string
	for _, k := range schema {
		for _, d := range definitions {
			if aws.ToString(d.AttributeName) == aws.ToString(k.AttributeName) {
				parts = append(parts, fmt.Sprintf("%s (%s, %s)", aws.ToString(k.AttributeName), k.KeyType, d.AttributeType))
			}
		}
	}
	return strings.Join(parts, " and ")
}

// warn adds warnings about the table and the clock.
func (s *Store) warn(t *types.TableDescription) {
	if len(t.Replicas) > 0 || t.GlobalTableVersion != nil {
		if t.MultiRegionConsistency == types.MultiRegionConsistencyStrong {
			s.warnings = append(s.warnings,
				fmt.Sprintf("table %s is a global table with strong consistency: it has no transactions and no "+
					"time to live, so that several locks together, machine IDs and placement are refused, and ended locks stay",
					s.table))
		} else {
			s.warnings = append(s.warnings,
				fmt.Sprintf("table %s is a global table: its regions copy changes later, so that two of them "+
					"could grant the same lease with the same token: let all callers use one region", s.table))
		}
	}
	if _, err := s.clock.look(); errors.Is(err, errOff) {
		s.warnings = append(s.warnings, "the clock: "+s.clock.describe()+": calls will end with CLOCK_SKEW until it is set")
	}
}
