package awsdynamodb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
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
	if s.shards > DefaultIndexShards && slices.ContainsFunc(writes, s.waits) {
		if err := s.announce(ctx); err != nil {
			return docstore.Result{}, err
		}
	}
	var r docstore.Result
	if late := begin.late(writes); len(late) > 0 {
		r, err = s.refuseLate(ctx, begin, writes, late)
	} else if len(writes) == 1 {
		r, err = s.writeOne(ctx, begin, s.prepare(writes[0], begin.instants()))
	} else {
		r, err = s.writeSeveral(ctx, begin, writes)
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

// late are the positions of the writes that may not be applied any more, or not yet, see [docstore.Write].Until. The
// service has no clock that could say so: the caller's is asked before anything is sent.
func (r reading) late(writes []docstore.Write) (late []int) {
	for i, w := range writes {
		if !w.InTime(r.latest) {
			late = append(late, i)
		}
	}
	return late
}

// refuseLate is the refusal of writes that come too late: what they find is read, and nothing is written.
func (s *Store) refuseLate(ctx context.Context, begin reading, writes []docstore.Write, late []int) (docstore.Result,
	error) {
	keys := make([]docstore.Key, len(late))
	for i, at := range late {
		keys[i] = writes[at].Key
	}
	items, err := s.read(ctx, begin, keys)
	if err != nil {
		return docstore.Result{}, err
	}
	m := begin.instants()
	r := docstore.Result{Docs: make([]docstore.Doc, len(writes)), Refused: late}
	for i, at := range late {
		r.Docs[at] = decode(items[i])
		r.Margin = max(r.Margin, m.distance(writes[at].If))
	}
	r.At = m.now.Add(-r.Margin)
	return r, nil
}

// prepared is a write with its expressions.
type prepared struct {
	docstore.Write
	instants // what its times are
	*shape
	values map[string]types.AttributeValue
}

func (s *Store) prepare(w docstore.Write, m instants) prepared {
	b := beside{mark: len(w.Set)+len(w.Add) == 0 && m.holds(w.If, nil)} // creates the document where there is none
	if s.waits(w) {
		b.due = dueKey(driver.DueShard(w.Key.ID, s.shards), w.Key.Kind, w.Key.Tenant)
	}
	p := prepared{Write: w, instants: m}
	p.shape, p.values = s.shapes.compile(w, b, m)
	return p
}

// optional is a member of a request that must be left out when it is empty.
func optional(text *string) *string {
	if *text == "" {
		return nil
	}
	return text
}

// rejection is the error, if any, behind the service's rejection of one write, given the document that it found.
func (p *prepared) rejection(found docstore.Doc) error {
	if !p.holds(p.If, found) {
		return nil
	}
	_, err := p.Apply(found, p.now)
	return err
}

func (s *Store) writeOne(ctx context.Context, begin reading, p prepared) (docstore.Result, error) {
	after, date, err := s.send(ctx, &p)
	if err == nil {
		s.clock.learn(begin, date)
		for f := range p.Add {
			if _, ok := after[f].(docstore.Int); !ok {
				return docstore.Result{},
					fmt.Errorf("dynamodb: %s: field %q held a fraction, to which was added: the document is damaged",
						p.Key, f)
			}
		}
		return docstore.Result{Applied: true, At: p.now, Docs: []docstore.Doc{after}}, nil
	}
	s.learnFrom(begin, err)
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
	found := decode(failed.Item)
	if found == nil && p.holds(p.If, nil) {
		// The condition could not have failed on no document: this server does not return what it found.
		if found, err = s.foundBy(ctx, &p); err != nil {
			return docstore.Result{}, err
		}
	}
	if err := p.rejection(found); err != nil {
		return docstore.Result{}, err
	}
	margin := p.distance(p.If)
	return docstore.Result{At: p.now.Add(-margin), Margin: margin, Docs: []docstore.Doc{found}, Refused: []int{0}}, nil
}

// send sends one write. It returns the document after it, and the date of the response, zero if that has none.
func (s *Store) send(ctx context.Context, p *prepared) (after docstore.Doc, date time.Time, err error) {
	attempts := s.attempts(func() bool { return rejectsRepeat(p.Write, p.instants) })
	if p.Delete {
		out, err := s.client.DeleteItem(ctx, &sdk.DeleteItemInput{
			TableName:                           &s.table,
			Key:                                 itemKey(p.Key),
			ConditionExpression:                 optional(&p.condition),
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
		TableName:                           &s.table,
		Key:                                 itemKey(p.Key),
		ConditionExpression:                 optional(&p.condition),
		UpdateExpression:                    optional(&p.update),
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
func (s *Store) foundBy(ctx context.Context, p *prepared) (docstore.Doc, error) {
	item, err := s.getItem(ctx, s.clock.start(), p.Key)
	if err != nil {
		return nil, err
	}
	found := decode(item)
	if p.holds(p.If, found) && p.rejection(found) == nil {
		return nil, fmt.Errorf(
			"%w: dynamodb: write to table %s: %s changed while the rejection was examined: nothing was written",
			docstore.ErrUnavailable, s.table, p.Key)
	}
	return found, nil
}

func (s *Store) writeSeveral(ctx context.Context, begin reading, writes []docstore.Write) (docstore.Result, error) {
	m := begin.instants()
	ps := make([]prepared, len(writes))
	for i, w := range writes {
		ps[i] = s.prepare(w, m)
	}
	in := &sdk.TransactWriteItemsInput{
		TransactItems:      make([]types.TransactWriteItem, len(ps)),
		ClientRequestToken: aws.String(rand.Text()), // the same for every attempt
	}
	for i := range ps {
		in.TransactItems[i] = s.transactItem(&ps[i])
	}
	if s.single.Load() {
		return docstore.Result{}, s.unsupported("write to")
	}
	out, err := s.client.TransactWriteItems(ctx, in, s.attempts(always))
	r := docstore.Result{At: m.now, Docs: make([]docstore.Doc, len(ps))}
	if err == nil {
		s.clock.learn(begin, dateOf(out.ResultMetadata))
		r.Applied = true
		return r, nil
	}
	s.learnFrom(begin, err)
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if s.lacksTransactions(ctx, err) {
		return docstore.Result{}, s.unsupported("write to")
	}
	if !ok || isBusy(err) || len(canceled.CancellationReasons) != len(ps) {
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
	var damaged error
	for i, reason := range canceled.CancellationReasons {
		if aws.ToString(reason.Code) != "ConditionalCheckFailed" {
			continue
		}
		found := decode(reason.Item)
		if e := ps[i].rejection(found); e != nil {
			damaged = e
			continue
		}
		r.Refused, r.Docs[i] = append(r.Refused, i), found
		r.Margin = max(r.Margin, m.distance(ps[i].If))
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
			TableName: &s.table, Key: itemKey(p.Key), ConditionExpression: &p.condition,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	if p.update == "" {
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &s.table, Key: itemKey(p.Key), ConditionExpression: &p.condition,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: itemKey(p.Key), ConditionExpression: optional(&p.condition), UpdateExpression: &p.update,
		ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values, ReturnValuesOnConditionCheckFailure: allOld,
	}}
}
