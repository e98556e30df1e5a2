package dynamodbtest

import (
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// readParams are the members with which a request reads single items.
type readParams struct {
	ExpressionAttributeNames map[string]string
	ProjectionExpression     *string
}

// projection binds the projection of a read; nil selects everything.
func (r *readParams) projection() (*expr.Projection, *apiError) {
	p := expression{projectionName, r.ProjectionExpression}
	env, err := placeholders{ExpressionAttributeNames: r.ExpressionAttributeNames}.env(p)
	if err != nil {
		return nil, err
	}
	bound, err := p.projection(env)
	if err != nil {
		return nil, err
	}
	return bound, allUsed(env)
}

// fetch reads one item by its key. A stale read finds the version before the latest.
func (t *table) fetch(key attr.Map, stale bool) attr.Map {
	id := t.key.id(key)
	if stale {
		return t.previous(id)
	}
	return t.items[id]
}

// project returns the response's form of an item; nil when there is no item. An item of which nothing is selected is an
// empty one.
func project(p *expr.Projection, item attr.Map) map[string]any {
	switch {
	case item == nil:
		return nil
	case p == nil:
		return attr.JSONMap(item)
	default:
		return attr.JSONMap(p.Of(item))
	}
}

type getItem struct {
	readParams
	TableName              string
	Key                    map[string]any
	ConsistentRead         bool
	ReturnConsumedCapacity string
}

func (r *getItem) targets() []target { return []target{{r.TableName, r.Key}} }

func (r *getItem) run(s *Server, m mode) (any, *apiError) {
	var noKey *apiError
	if r.Key == nil {
		noKey = missing("Key")
	}
	err := all(noKey, checkName("TableName", r.TableName), checkCapacity(r.ReturnConsumedCapacity))
	if err != nil {
		return nil, err
	}
	key, err := decodeItem("Key", r.Key)
	if err != nil {
		return nil, err
	}
	projection, err := r.projection()
	if err != nil {
		return nil, err
	}
	t, err := s.table(r.TableName)
	if err != nil {
		return nil, err
	}
	if err := t.checkRead(key, projection); err != nil {
		return nil, err
	}
	item := t.fetch(key, m.stale && !r.ConsistentRead)
	used := newUsage(t)
	used.read(attr.Size(item), r.ConsistentRead)
	s.charge(used)
	out := map[string]any{}
	if found := project(projection, item); found != nil {
		out["Item"] = found
	}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json(r.ReturnConsumedCapacity)
	}
	return out, nil
}

// checkRead checks the key and the projection of a read of one item.
func (t *table) checkRead(key attr.Map, p *expr.Projection) *apiError {
	if err := t.checkKey(key); err != nil {
		return err
	}
	if p != nil {
		return t.checkScalarKeys(p.Paths())
	}
	return nil
}
