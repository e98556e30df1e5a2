package dynamodbtest

import (
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Limits of the batch operations.
const (
	maxBatchGet   = 100
	maxBatchWrite = 25
)

type batchGetItem struct {
	RequestItems           map[string]keysAndAttributes
	ReturnConsumedCapacity string
}

type keysAndAttributes struct {
	readParams
	Keys           []map[string]any
	ConsistentRead bool
}

func (r *batchGetItem) targets() []target {
	var out []target
	for _, name := range sortedKeys(r.RequestItems) {
		for _, key := range r.RequestItems[name].Keys {
			out = append(out, target{name, key})
		}
	}
	return out
}

func (r *batchGetItem) run(s *Server, m mode) (any, *apiError) {
	errs := []*apiError{checkCapacity(r.ReturnConsumedCapacity)}
	if len(r.RequestItems) == 0 {
		errs = append(errs, badBatch(r.RequestItems != nil))
	}
	for _, name := range sortedKeys(r.RequestItems) {
		errs = append(errs, checkName("TableName", name),
			length(maxBatchGet, "requestItems."+name+".member.keys", len(r.RequestItems[name].Keys)))
	}
	if err := all(errs...); err != nil {
		return nil, err
	}
	if n := len(r.targets()); n > maxBatchGet {
		return nil, invalid("Too many items requested for the BatchGetItem call")
	}
	responses, used := map[string]any{}, usages{}
	for _, name := range sortedKeys(r.RequestItems) {
		items, err := r.read(s, m, name, used)
		if err != nil {
			return nil, err
		}
		responses[name] = items
	}
	s.charge(used.sorted()...)
	out := map[string]any{"Responses": responses, "UnprocessedKeys": map[string]any{}}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json(r.ReturnConsumedCapacity)
	}
	return out, nil
}

// read gets the items of one table.
func (r *batchGetItem) read(s *Server, m mode, name string, used usages) ([]map[string]any, *apiError) {
	part := r.RequestItems[name]
	projection, err := part.projection()
	if err != nil {
		return nil, err
	}
	t, err := s.table(name)
	if err != nil {
		return nil, err
	}
	items, seen := []map[string]any{}, map[itemID]bool{}
	for _, raw := range part.Keys {
		key, err := decodeItem("Key", raw)
		if err != nil {
			return nil, err
		}
		if err := t.checkRead(key, projection); err != nil {
			return nil, err
		}
		if seen[t.key.id(key)] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[t.key.id(key)] = true
		item := t.fetch(key, m.stale && !part.ConsistentRead)
		used.of(t, 1).read(attr.Size(item), part.ConsistentRead)
		if found := project(projection, item); found != nil {
			items = append(items, found)
		}
	}
	return items, nil
}

func badBatch(present bool) *apiError {
	if !present {
		return missing("RequestItems")
	}
	return constraint("{}", "RequestItems", "Member must have length greater than or equal to 1")
}

type batchWriteItem struct {
	RequestItems                map[string][]writeRequest
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

type writeRequest struct {
	PutRequest    *struct{ Item map[string]any }
	DeleteRequest *struct{ Key map[string]any }
}

func (r *batchWriteItem) targets() []target {
	var out []target
	for _, name := range sortedKeys(r.RequestItems) {
		for _, w := range r.RequestItems[name] {
			switch {
			case w.PutRequest != nil:
				out = append(out, target{name, w.PutRequest.Item})
			case w.DeleteRequest != nil:
				out = append(out, target{name, w.DeleteRequest.Key})
			}
		}
	}
	return out
}

func (r *batchWriteItem) run(s *Server, _ mode) (any, *apiError) {
	errs := []*apiError{checkCapacity(r.ReturnConsumedCapacity), checkCollectionMetrics(r.ReturnItemCollectionMetrics)}
	if len(r.RequestItems) == 0 {
		errs = append(errs, badBatch(r.RequestItems != nil))
	}
	total := 0
	for _, name := range sortedKeys(r.RequestItems) {
		n := len(r.RequestItems[name])
		if n < 1 || n > maxBatchWrite {
			errs = append(errs, constraint("{"+name+"=[...]}", "RequestItems", "Map value must satisfy constraint: "+
				"[Member must have length less than or equal to 25, Member must have length greater than or equal to 1]"))
		}
		errs = append(errs, checkName("TableName", name))
		total += n
	}
	if err := all(errs...); err != nil {
		return nil, err
	}
	if total > maxBatchWrite {
		return nil, invalid("Too many items requested for the BatchWriteItem call")
	}
	var writes []*write
	for _, name := range sortedKeys(r.RequestItems) {
		more, err := r.prepare(s, name)
		if err != nil {
			return nil, err
		}
		writes = append(writes, more...)
	}
	used := usages{}
	for _, w := range writes {
		before := w.table.items[w.id]
		after := w.item
		if w.verb == verbDelete {
			after = nil
		}
		used.of(w.table, 1).wrote(before, after)
		w.table.put(w.id, after)
		w.table.commit() // each item by itself: a batch is not atomic
	}
	s.charge(used.sorted()...)
	out := map[string]any{"UnprocessedItems": map[string]any{}}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json(r.ReturnConsumedCapacity)
	}
	return out, nil
}

// prepare checks the writes to one table.
func (r *batchWriteItem) prepare(s *Server, name string) ([]*write, *apiError) {
	var writes []*write
	for _, request := range r.RequestItems[name] {
		p := writeParams{TableName: name}
		var w *write
		var err *apiError
		switch put, del := request.PutRequest, request.DeleteRequest; {
		case (put == nil) == (del == nil):
			return nil, invalid("Supplied AttributeValue has more than one datatypes set, " +
				"must contain exactly one of the supported datatypes")
		case put != nil:
			w, err = p.prepare(verbPut, "Item", put.Item, nil)
		default:
			w, err = p.prepare(verbDelete, "Key", del.Key, nil)
		}
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	t, err := s.table(name)
	if err != nil {
		return nil, err
	}
	seen := map[itemID]bool{}
	for _, w := range writes {
		if err := w.resolve(t); err != nil {
			return nil, err
		}
		if seen[w.id] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[w.id] = true
	}
	return writes, nil
}
