package dynamodbtest

import (
	"maps"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// write is one conditional change of one item: what PutItem, UpdateItem, DeleteItem and the items of a transaction have
// in common. It is made in two steps. The first needs only the request; its errors reject a whole transaction. The
// second needs the table; its errors are those of one item.
type write struct {
	tableName string
	condition *expr.Condition
	update    *expr.Update
	item      attr.Map // of a put: the whole item; otherwise the key
	verb      verb
	showFound bool // ReturnValuesOnConditionCheckFailure is ALL_OLD

	table *table // second step
	id    itemID
}

type verb int

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck
)

// writeParams are the members that the requests with one write share.
type writeParams struct {
	placeholders
	TableName                           string
	ConditionExpression                 *string
	ReturnValuesOnConditionCheckFailure string
}

// check looks at each member by itself. The prefix leads to them in a transaction.
func (p *writeParams) check(prefix, member string, raw map[string]any) *apiError {
	var noItem *apiError
	if raw == nil {
		noItem = missing(prefix + strings.ToLower(member))
	}
	return all(noItem, checkName(prefix+"tableName", p.TableName),
		oneOf(prefix+"returnValuesOnConditionCheckFailure", p.ReturnValuesOnConditionCheckFailure, "ALL_OLD", "NONE"))
}

// prepare is the first step. The update is nil where the request has none.
func (p *writeParams) prepare(v verb, member string, raw map[string]any, updates *string) (*write, *apiError) {
	w := &write{tableName: p.TableName, verb: v, showFound: p.ReturnValuesOnConditionCheckFailure == "ALL_OLD"}
	err := p.check("", member, raw)
	if err != nil {
		return nil, err
	}
	if w.item, err = decodeItem(member, raw); err != nil {
		return nil, err
	}
	expressions := []expression{{"ConditionExpression", p.ConditionExpression}}
	if v == verbUpdate {
		expressions = []expression{{"UpdateExpression", updates}, expressions[0]}
	}
	env, err := p.env(expressions...)
	if err != nil {
		return nil, err
	}
	if w.update, err = (expression{"UpdateExpression", updates}).update(env); err != nil {
		return nil, err
	}
	if w.condition, err = (expression{"ConditionExpression", p.ConditionExpression}).condition(env); err != nil {
		return nil, err
	}
	if err := allUsed(env); err != nil {
		return nil, err
	}
	if v == verbPut && attr.Size(w.item) > maxItemSize {
		return nil, invalid("Item size has exceeded the maximum allowed size")
	}
	return w, nil
}

// resolve is the second step.
func (w *write) resolve(t *table) *apiError {
	w.table = t
	err := t.checkKey
	if w.verb == verbPut {
		err = t.checkItem
	}
	if err := err(w.item); err != nil {
		return err
	}
	w.id = t.key.id(w.item)
	if w.update != nil {
		return t.checkUpdate(w.update)
	}
	return nil
}

// decide returns the item as the write leaves it, nil for none, or why it does not apply to the item found.
func (w *write) decide(found attr.Map) (attr.Map, *apiError) {
	if w.condition != nil && !w.condition.Holds(found) {
		if w.showFound {
			return nil, conditionFailed(found)
		}
		return nil, conditionFailed(nil)
	}
	switch w.verb {
	case verbPut:
		return w.item, nil
	case verbDelete:
		return nil, nil
	case verbCheck:
		return found, nil
	default:
		return w.updated(found)
	}
}

// updated returns the item found as the update leaves it. One that is not there begins as its key.
func (w *write) updated(found attr.Map) (attr.Map, *apiError) {
	after := found
	if after == nil {
		after = maps.Clone(w.item)
	}
	if w.update != nil {
		var err error
		if after, err = w.update.Apply(after); err != nil {
			return nil, invalid("%v", err)
		}
	}
	if err := w.table.checkIndexKeys(after); err != nil {
		return nil, err
	}
	if attr.Size(after) > maxItemSize {
		return nil, invalid("Item size to update has exceeded the maximum allowed size")
	}
	return after, nil
}

// apply runs a prepared write by itself and returns the item before and after.
func (s *Server) apply(w *write) (before, after attr.Map, used *usage, failed *apiError) {
	t, err := s.table(w.tableName)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := w.resolve(t); err != nil {
		return nil, nil, nil, err
	}
	used = newUsage(t)
	before = t.items[w.id]
	after, err = w.decide(before)
	if err != nil {
		if err.kind == prefixDynamo+"ConditionalCheckFailedException" {
			used.refused(before)
			s.charge(used)
		}
		return nil, nil, nil, err
	}
	used.wrote(before, after)
	s.charge(used)
	t.put(w.id, after)
	t.commit()
	return before, after, used, nil
}

// itemWrite are the members that PutItem, UpdateItem and DeleteItem share.
type itemWrite struct {
	writeParams
	ReturnValues                string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

func (r *itemWrite) checkOptions() *apiError {
	if r.ReturnValues == "UPDATED_OLD" || r.ReturnValues == "UPDATED_NEW" {
		return unsupported("ReturnValues %s", r.ReturnValues)
	}
	return all(
		checkCapacity(r.ReturnConsumedCapacity),
		checkCollectionMetrics(r.ReturnItemCollectionMetrics),
		oneOf("ReturnValues", r.ReturnValues, "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"),
	)
}

func checkCollectionMetrics(level string) *apiError {
	if level == "SIZE" {
		return unsupported("ReturnItemCollectionMetrics SIZE")
	}
	return oneOf("ReturnItemCollectionMetrics", level, "SIZE", "NONE")
}

// response is the body of a write's success.
func (r *itemWrite) response(attributes attr.Map, used *usage) any {
	out := map[string]any{}
	if len(attributes) > 0 {
		out["Attributes"] = attr.JSONMap(attributes)
	}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json()
	}
	return out
}

// onlyOld checks ReturnValues where there is no item after the write to return.
func (r *itemWrite) onlyOld() *apiError {
	if r.ReturnValues == "" || r.ReturnValues == "NONE" || r.ReturnValues == "ALL_OLD" {
		return nil
	}
	return invalid("ReturnValues can only be ALL_OLD or NONE")
}

type putItem struct {
	itemWrite
	Item map[string]any
}

func (r *putItem) targets() []target { return []target{{r.TableName, r.Item}} }

func (r *putItem) run(s *Server, _ mode) (any, *apiError) {
	if err := all(r.check("", "Item", r.Item), r.checkOptions(), r.onlyOld()); err != nil {
		return nil, err
	}
	w, err := r.prepare(verbPut, "Item", r.Item, nil)
	if err != nil {
		return nil, err
	}
	return r.runOld(s, w)
}

type deleteItem struct {
	itemWrite
	Key map[string]any
}

func (r *deleteItem) targets() []target { return []target{{r.TableName, r.Key}} }

func (r *deleteItem) run(s *Server, _ mode) (any, *apiError) {
	if err := all(r.check("", "Key", r.Key), r.checkOptions(), r.onlyOld()); err != nil {
		return nil, err
	}
	w, err := r.prepare(verbDelete, "Key", r.Key, nil)
	if err != nil {
		return nil, err
	}
	return r.runOld(s, w)
}

// runOld applies a write that can return only the item before it.
func (r *itemWrite) runOld(s *Server, w *write) (any, *apiError) {
	before, _, used, err := s.apply(w)
	if err != nil {
		return nil, err
	}
	if r.ReturnValues != "ALL_OLD" {
		before = nil
	}
	return r.response(before, used), nil
}

type updateItem struct {
	itemWrite
	Key              map[string]any
	UpdateExpression *string
}

func (r *updateItem) targets() []target { return []target{{r.TableName, r.Key}} }

func (r *updateItem) run(s *Server, _ mode) (any, *apiError) {
	if err := all(r.check("", "Key", r.Key), r.checkOptions()); err != nil {
		return nil, err
	}
	w, err := r.prepare(verbUpdate, "Key", r.Key, r.UpdateExpression)
	if err != nil {
		return nil, err
	}
	before, after, used, err := s.apply(w)
	if err != nil {
		return nil, err
	}
	var attributes attr.Map
	switch r.ReturnValues {
	case "ALL_OLD":
		attributes = before
	case "ALL_NEW":
		attributes = after
	}
	return r.response(attributes, used), nil
}
