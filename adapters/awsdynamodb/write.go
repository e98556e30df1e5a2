package awsdynamodb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Write implements [docstore.Store]. One document is one UpdateItem or DeleteItem, several are one TransactWriteItems.
func (s *Store) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := docstore.ValidateWrites(writes); err != nil {
		return docstore.Result{}, err
	}
	begin, err := s.begin(ctx)
	if err != nil {
		return docstore.Result{}, err
	}
	defer s.calls.End()
	m := begin.instants()
	prepared := make([]prepared, len(writes))
	for i, w := range writes {
		prepared[i] = prepare(w, m)
	}
	var r docstore.Result
	if len(prepared) == 1 {
		r, err = s.writeOne(ctx, begin, m, prepared[0])
	} else {
		r, err = s.writeSeveral(ctx, begin, m, prepared)
	}
	switch {
	case err != nil:
		return docstore.Result{}, err
	case r.Applied:
		s.applied.Add(1)
	default:
		s.refused.Add(1)
	}
	return r, nil
}

// prepared is a write whose times are resolved, with its expressions.
type prepared struct {
	docstore.Write        // as it is to be applied
	cond           fixed  // its condition
	condition      string // cond, and the guards of what is added to and copied; empty if there is nothing to ask
	update         string // empty if there is nothing to change
	names          map[string]string
	values         map[string]types.AttributeValue
}

func prepare(w docstore.Write, m instants) prepared {
	p := prepared{Write: w, cond: m.fix(w.If)}
	p.Set = make(docstore.Doc, len(w.Set)+1)
	for f, v := range w.Set {
		p.Set[f] = driver.Resolve(v, m.now)
	}
	// What only removes fields, or changes nothing, creates a document all the same where there is none.
	if len(p.Set)+len(p.Add) == 0 && p.cond.Holds(nil, m.now) {
		p.Set[attrMark] = docstore.Bool(true)
	}
	e := newExpressions()
	p.condition = e.conditions(p.cond.Cond, p.Write, m.now)
	p.update = e.update(p.Write, m.now)
	p.names, p.values = e.attributeNames(), e.attributeValues()
	return p
}

// optional is a member of a request that must be left out when it is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// rejection is the error, if any, behind the service's rejection of one write, given the document that it found.
func (p *prepared) rejection(found docstore.Doc, m instants) error {
	if !p.cond.Holds(found, m.now) {
		return nil
	}
	_, err := p.Apply(found, m.now)
	return err
}

func (s *Store) writeOne(ctx context.Context, begin reading, m instants, p prepared) (docstore.Result, error) {
	doc, date, err := s.send(ctx, p)
	if err == nil {
		s.clock.learn(begin, date)
		for f := range p.Add {
			if _, ok := doc[f].(docstore.Int); !ok {
				return docstore.Result{}, fmt.Errorf("dynamodb: %s: field %q held a fraction, to which was added: the document is damaged",
					p.Key, f)
			}
		}
		return docstore.Result{Applied: true, At: m.now, Docs: []docstore.Doc{doc}}, nil
	}
	s.learnFrom(begin, err)
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
	found := decode(failed.Item)
	if found == nil && p.cond.Holds(nil, m.now) {
		// The condition could not have failed on no document: this server does not return what it found.
		if found, err = s.foundBy(ctx, p, m); err != nil {
			return docstore.Result{}, err
		}
	}
	if err := p.rejection(found, m); err != nil {
		return docstore.Result{}, err
	}
	return docstore.Result{
		At: m.now.Add(-p.cond.margin), Margin: p.cond.margin, Docs: []docstore.Doc{found}, Refused: []int{0},
	}, nil
}

// send sends one write. It returns the document after it, and the Date of the response.
func (s *Store) send(ctx context.Context, p prepared) (docstore.Doc, time.Time, error) {
	attempts := s.attempts(rejectsRepeat(p.Write, p.cond.Cond))
	if p.Delete {
		out, err := s.client.DeleteItem(ctx, &sdk.DeleteItemInput{
			TableName:                           aws.String(s.table),
			Key:                                 itemKey(p.Key),
			ConditionExpression:                 optional(p.condition),
			ExpressionAttributeNames:            p.names,
			ExpressionAttributeValues:           p.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, attempts)
		if err != nil {
			return nil, time.Time{}, err
		}
		return nil, dateOf(out.ResultMetadata), nil
	}
	out, err := s.client.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName:                           aws.String(s.table),
		Key:                                 itemKey(p.Key),
		ConditionExpression:                 optional(p.condition),
		UpdateExpression:                    optional(p.update),
		ExpressionAttributeNames:            p.names,
		ExpressionAttributeValues:           p.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, attempts)
	if err != nil {
		return nil, time.Time{}, err
	}
	return decode(out.Attributes), dateOf(out.ResultMetadata), nil
}

// foundBy reads the document that rejected a write, for servers that do not return it (dynalite).
func (s *Store) foundBy(ctx context.Context, p prepared, m instants) (docstore.Doc, error) {
	item, err := s.getItem(ctx, s.clock.start(), p.Key)
	if err != nil {
		return nil, err
	}
	found := decode(item)
	if p.cond.Holds(found, m.now) && p.rejection(found, m) == nil {
		return nil, fmt.Errorf("%w: dynamodb: write to table %s: %s changed while the rejection was examined: nothing was written",
			docstore.ErrUnavailable, s.table, p.Key)
	}
	return found, nil
}

func (s *Store) writeSeveral(ctx context.Context, begin reading, m instants, ps []prepared) (docstore.Result, error) {
	in := &sdk.TransactWriteItemsInput{
		TransactItems:      make([]types.TransactWriteItem, len(ps)),
		ClientRequestToken: aws.String(rand.Text()), // the same for every attempt
	}
	for i := range ps {
		in.TransactItems[i] = s.transactItem(&ps[i])
	}
	out, err := s.client.TransactWriteItems(ctx, in, s.attempts(true))
	r := docstore.Result{At: m.now, Docs: make([]docstore.Doc, len(ps))}
	if err == nil {
		s.clock.learn(begin, dateOf(out.ResultMetadata))
		r.Applied = true
		return r, nil
	}
	s.learnFrom(begin, err)
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || isBusy(err) || len(canceled.CancellationReasons) != len(ps) {
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
	var damaged error
	for i, reason := range canceled.CancellationReasons {
		if aws.ToString(reason.Code) != "ConditionalCheckFailed" {
			continue
		}
		found := decode(reason.Item)
		if e := ps[i].rejection(found, m); e != nil {
			damaged = e
			continue
		}
		r.Refused, r.Docs[i] = append(r.Refused, i), found
		r.Margin = max(r.Margin, ps[i].cond.margin)
	}
	switch {
	case len(r.Refused) > 0:
		r.At = m.now.Add(-r.Margin)
		return r, nil
	case damaged != nil:
		return docstore.Result{}, damaged
	default:
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
}

// transactItem is one write of a transaction. One that changes nothing is a check; where it might have to create its
// document it has been given something to change.
func (s *Store) transactItem(p *prepared) types.TransactWriteItem {
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	if p.Delete {
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: aws.String(s.table), Key: itemKey(p.Key), ConditionExpression: aws.String(p.condition),
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	if p.update == "" {
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: aws.String(s.table), Key: itemKey(p.Key), ConditionExpression: aws.String(p.condition),
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.table), Key: itemKey(p.Key), ConditionExpression: optional(p.condition), UpdateExpression: aws.String(p.update),
		ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
	}}
}
