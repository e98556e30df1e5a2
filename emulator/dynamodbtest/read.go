package dynamodbtest

import "github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"

// fetch reads one item by its key. A stale read finds the version before the latest.
func (t *table) fetch(key attr.Map, stale bool) attr.Map {
	id := t.key.id(key)
	if stale {
		return t.previous(id)
	}
	return t.items[id]
}

type getItem struct {
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
	t, err := s.table(r.TableName)
	if err != nil {
		return nil, err
	}
	if err := t.checkKey(key); err != nil {
		return nil, err
	}
	item := t.fetch(key, m.stale && !r.ConsistentRead)
	used := newUsage(t)
	used.read(attr.Size(item), r.ConsistentRead)
	s.charge(used)
	out := map[string]any{}
	if item != nil {
		out["Item"] = attr.JSONMap(item)
	}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json()
	}
	return out, nil
}
