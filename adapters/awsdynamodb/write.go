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
	r, err := s.persist(ctx, begin, writes)
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

// request is a request that writes, with the times of one reading of the clock.
type request interface {
	// send sends it once.
	send(context.Context, func(*sdk.Options)) (docs []docstore.Doc, date time.Time, err error)

	// repeatable reports whether it can be sent again as it is although it may have been executed.
	repeatable() bool

	// applied is the result if send returned no error, and refused that of an error, if it is a refusal.
	applied(docs []docstore.Doc) (docstore.Result, error)
	refused(context.Context, error) (docstore.Result, error)
}

// persist sends writes, again and again, until it is known what became of them, or until it seems pointless. A try that
// was certainly not executed is followed by another request with a new reading of the clock: a write that was throttled
// for long does not carry an old time. One that may have been executed is sent again as it was, so that it takes effect
// once; the service knows a transaction by its token.
func (s *Store) persist(ctx context.Context, begin reading, writes []docstore.Write) (docstore.Result, error) {
	var (
		r       request
		unknown bool    // r may have been executed
		of      reading // what the times of r are
		now     = begin // before the try
	)
	retries := s.writing(func() bool { return r.repeatable() })
	for {
		late := now.late(writes)
		switch {
		case !unknown && len(late) > 0:
			return s.refuseLate(ctx, now, writes, late)
		case !unknown:
			r, of = s.request(now, writes), now
		}
		docs, date, err := r.send(ctx, s.attempt(retries))
		if err == nil {
			s.clock.learn(now, date)
		} else {
			date = s.learnFrom(now, err)
		}
		var result docstore.Result
		switch {
		case err == nil:
			result, err = r.applied(docs)
		case !retries.again(err):
			result, err = r.refused(ctx, err)
		default:
			unknown = unknown || !notExecuted(err)
			if retries.pause(ctx) != nil {
				return result, s.explain(ctx, "write to", err)
			}
			next, failed := s.now(ctx)
			if unknown && (failed != nil || len(next.late(writes)) > 0) {
				return result, s.explain(ctx, "write to", err)
			}
			if failed != nil {
				return result, failed
			}
			now = next
			continue
		}
		result.Before, result.Lost = of.monotonic-begin.monotonic, s.clock.lost(of, date)
		return result, err
	}
}

// request makes the request of writes by a reading of the clock.
func (s *Store) request(now reading, writes []docstore.Write) request {
	if len(writes) == 1 {
		p := s.prepare(writes[0], now.instants())
		return &one{s, &p}
	}
	t := &transaction{s, now.instants(), make([]prepared, len(writes)), rand.Text()}
	for i, w := range writes {
		t.writes[i] = s.prepare(w, t.instants)
	}
	return t
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

// one is the request of one write.
type one struct {
	s *Store
	*prepared
}

func (o *one) applied(docs []docstore.Doc) (docstore.Result, error) {
	for f := range o.Add {
		if _, ok := docs[0][f].(docstore.Int); !ok {
			return docstore.Result{},
				fmt.Errorf("dynamodb: %s: field %q held a fraction, to which was added: the document is damaged", o.Key, f)
		}
	}
	return docstore.Result{Applied: true, At: o.now, Docs: docs}, nil
}

func (o *one) refused(ctx context.Context, err error) (docstore.Result, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return docstore.Result{}, o.s.explain(ctx, "write to", err)
	}
	found := decode(failed.Item)
	if found == nil && o.holds(o.If, nil) {
		// The condition could not have failed on no document: this server does not return what it found.
		if found, err = o.s.foundBy(ctx, o.prepared); err != nil {
			return docstore.Result{}, err
		}
	}
	if err := o.rejection(found); err != nil {
		return docstore.Result{}, err
	}
	margin := o.distance(o.If)
	return docstore.Result{At: o.now.Add(-margin), Margin: margin, Docs: []docstore.Doc{found}, Refused: []int{0}}, nil
}

func (o *one) repeatable() bool { return rejectsRepeat(o.Write, o.instants) }

func (o *one) send(ctx context.Context, attempt func(*sdk.Options)) ([]docstore.Doc, time.Time, error) {
	if o.Delete {
		out, err := o.s.client.DeleteItem(ctx, &sdk.DeleteItemInput{
			TableName:                           &o.s.table,
			Key:                                 itemKey(o.Key),
			ConditionExpression:                 optional(&o.condition),
			ExpressionAttributeNames:            o.names,
			ExpressionAttributeValues:           o.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, attempt)
		if err != nil {
			return nil, time.Time{}, err
		}
		return []docstore.Doc{nil}, dateOf(out.ResultMetadata), nil
	}
	out, err := o.s.client.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName:                           &o.s.table,
		Key:                                 itemKey(o.Key),
		ConditionExpression:                 optional(&o.condition),
		UpdateExpression:                    optional(&o.update),
		ExpressionAttributeNames:            o.names,
		ExpressionAttributeValues:           o.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, attempt)
	if err != nil {
		return nil, time.Time{}, err
	}
	return []docstore.Doc{decode(out.Attributes)}, dateOf(out.ResultMetadata), nil
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

// transaction is the request of several writes.
type transaction struct {
	s *Store
	instants
	writes []prepared
	token  string // the same for every attempt
}

func (*transaction) repeatable() bool { return true }

func (t *transaction) send(ctx context.Context, attempt func(*sdk.Options)) ([]docstore.Doc, time.Time, error) {
	if t.s.single.Load() {
		return nil, time.Time{}, t.s.unsupported("write to")
	}
	in := &sdk.TransactWriteItemsInput{
		TransactItems: make([]types.TransactWriteItem, len(t.writes)), ClientRequestToken: &t.token,
	}
	for i := range t.writes {
		in.TransactItems[i] = t.s.transactItem(&t.writes[i])
	}
	out, err := t.s.client.TransactWriteItems(ctx, in, attempt)
	if err != nil {
		return nil, time.Time{}, err
	}
	return make([]docstore.Doc, len(t.writes)), dateOf(out.ResultMetadata), nil
}

func (t *transaction) applied(docs []docstore.Doc) (docstore.Result, error) {
	return docstore.Result{Applied: true, At: t.now, Docs: docs}, nil
}

func (t *transaction) refused(ctx context.Context, err error) (docstore.Result, error) {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if errors.Is(err, docstore.ErrUnsupported) {
		return docstore.Result{}, err
	}
	if t.s.lacksTransactions(ctx, err) {
		return docstore.Result{}, t.s.unsupported("write to")
	}
	if !ok || isBusy(err) || len(canceled.CancellationReasons) != len(t.writes) {
		return docstore.Result{}, t.s.explain(ctx, "write to", err)
	}
	r := docstore.Result{Docs: make([]docstore.Doc, len(t.writes))}
	var damaged error
	for i, reason := range canceled.CancellationReasons {
		if aws.ToString(reason.Code) != "ConditionalCheckFailed" {
			continue
		}
		found := decode(reason.Item)
		if e := t.writes[i].rejection(found); e != nil {
			damaged = e
			continue
		}
		r.Refused, r.Docs[i] = append(r.Refused, i), found
		r.Margin = max(r.Margin, t.distance(t.writes[i].If))
	}
	switch {
	case len(r.Refused) > 0:
		r.At = t.now.Add(-r.Margin)
		return r, nil
	case damaged != nil:
		return docstore.Result{}, damaged
	default:
		return docstore.Result{}, t.s.explain(ctx, "write to", err)
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
