package awsdynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Expression is a condition for a request of one's own: put its parts into ConditionExpression,
// ExpressionAttributeNames and ExpressionAttributeValues. Its placeholders begin with #lease and :lease, so that they
// live beside others.
type Expression struct {
	Condition string
	Names     map[string]string
	Values    map[string]types.AttributeValue
}

// Condition compiles a condition on the attributes of an item of one's own, in whatever table. With lock.FenceCond it
// makes a write reject an older fencing token than the one that the item remembers ; the write must then
// set that attribute to its token.
//
// Times and [docstore.Absent] are rejected: what they mean depends on this store's clock and keys. See [Store.Check].
func Condition(c docstore.Cond) (Expression, error) {
	// Any valid key will do: what is validated is the condition.
	if err := (docstore.Write{Key: docstore.Key{Kind: "any", ID: "any"}, If: c}).Validate(); err != nil {
		return Expression{}, err
	}
	if c == nil {
		return Expression{}, fmt.Errorf("%w: no condition", docstore.ErrInvalid)
	}
	if err := portable(c); err != nil {
		return Expression{}, fmt.Errorf("%w: condition: %w", docstore.ErrInvalid, err)
	}
	e := &expressions{names: leaseNameMarks, values: leaseValueMarks}
	return Expression{Condition: string(e.condition(c).text), Names: e.attributeNames(), Values: e.attributeValues()}, nil
}

var leaseNameMarks, leaseValueMarks = &mark{prefix: "#lease"}, &mark{prefix: ":lease"}

// portable reports whether a condition means the same on any item.
func portable(c docstore.Cond) error {
	each := func(cs []docstore.Cond) error {
		for _, part := range cs {
			if err := portable(part); err != nil {
				return err
			}
		}
		return nil
	}
	timed := func(field string, v docstore.Value) error {
		if _, ok := v.(docstore.Instant); ok {
			return fmt.Errorf("field %s is compared with the store's time, which only a check of the store knows", field)
		}
		return nil
	}
	switch c := c.(type) {
	case docstore.Absent:
		return errors.New("that there is no item depends on the table's key: write attribute_not_exists of it")
	case docstore.Eq:
		return timed(c.Field, c.Value)
	case docstore.LE:
		return timed(c.Field, c.Value)
	case docstore.Any:
		return each(c)
	case docstore.All:
		return each(c)
	case docstore.Not:
		return portable(c.Cond)
	default:
		return nil
	}
}

// Check is an element for a TransactWriteItems of one's own that lets the transaction pass only if the condition holds
// on a document of this store. With the key and the condition of lock.WhileHeld the effect and the proof that the lease
// still stands are one atomic step: a holder that was paused too long is stopped by the service, with nothing left to
// chance .
//
// Times are resolved now, by this store's clock: send the transaction at once. The transaction must be sent to the same
// region and account as this store's requests. The error is [docstore.ErrInvalid], [docstore.ErrClockSkew],
// [docstore.ErrClosed], or that of measuring the clock.
func (s *Store) Check(ctx context.Context, k docstore.Key, c docstore.Cond) (types.TransactWriteItem, error) {
	if err := (docstore.Write{Key: k, If: c}).Validate(); err != nil {
		return types.TransactWriteItem{}, err
	}
	if c == nil {
		return types.TransactWriteItem{}, fmt.Errorf("%w: no condition", docstore.ErrInvalid)
	}
	begin, err := s.begin(ctx)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	defer s.calls.End()
	e := newExpressions(begin.instants())
	condition := string(e.condition(c).text)
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: aws.String(s.table), Key: itemKey(k), ConditionExpression: aws.String(condition),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.attributeValues(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}, nil
}
