package dynamodbtest

import (
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// maxPage is how many bytes of items a query or scan looks at before it ends the page.
const maxPage = 1 << 20

// walkParams are the members that Query and Scan share.
type walkParams struct {
	placeholders
	TableName              string
	IndexName              *string
	ConsistentRead         bool
	ExclusiveStartKey      map[string]any
	FilterExpression       *string
	Limit                  *int64
	ReturnConsumedCapacity string
}

// walk is a query or scan that is ready to run.
type walk struct {
	*walkParams
	table  *table
	index  *index // nil: the table itself
	rows   *view
	filter *expr.Condition
	start  attr.Map // the key to go on behind; nil: from the beginning
}

func (r *walkParams) targets() []target { return []target{{table: r.TableName}} }

func (r *walkParams) filterExpression() expression {
	return expression{"FilterExpression", r.FilterExpression}
}

// checkWalk checks what can be checked without the table.
func (r *walkParams) checkWalk() *apiError {
	var index *apiError
	if r.IndexName != nil {
		index = checkName("IndexName", *r.IndexName)
	}
	return all(
		checkName("TableName", r.TableName),
		index,
		atLeast(1, "Limit", r.Limit),
		checkCapacity(r.ReturnConsumedCapacity),
	)
}

// open compiles the filter, finds the table and index, and checks the request against them.
func (s *Server) open(r *walkParams, env *expr.Env) (*walk, *apiError) {
	filter, err := r.filterExpression().condition(env)
	if err != nil {
		return nil, err
	}
	if err := allUsed(env); err != nil {
		return nil, err
	}
	t, err := s.table(r.TableName)
	if err != nil {
		return nil, err
	}
	w := &walk{walkParams: r, table: t, rows: t.rows, filter: filter}
	if r.IndexName != nil {
		if w.index = t.index(*r.IndexName); w.index == nil {
			return nil, invalid("The table does not have the specified index: %s", *r.IndexName)
		}
		if r.ConsistentRead {
			return nil, invalid("Consistent reads are not supported on global secondary indexes")
		}
		w.rows = w.index.rows
	}
	if r.ExclusiveStartKey != nil {
		if w.start, err = w.startKey(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// keys are the attributes of a position in the walk: the key of the index and that of the table.
func (w *walk) keys() []keyAttr {
	keys := w.rows.key.attrs()
	for _, a := range w.table.key.attrs() {
		if !w.rows.key.has(a.name) {
			keys = append(keys, a)
		}
	}
	return keys
}

func (w *walk) startKey() (attr.Map, *apiError) {
	key, err := attr.DecodeMap(w.ExclusiveStartKey)
	if err != nil {
		e := valueError(err)
		e.msg = "The provided starting key is invalid: " + e.msg
		return nil, e
	}
	keys := w.keys()
	if len(key) != len(keys) {
		return nil, invalid("The provided starting key is invalid")
	}
	for _, a := range keys {
		if v := key[a.name]; v == nil || v.Type() != a.kind {
			return nil, invalid("The provided starting key is invalid: " +
				"The provided key element does not match the schema")
		}
	}
	return key, nil
}

// page collects rows, which the caller offers in order, until the page is full.
type page struct {
	*walk
	items   []map[string]any
	scanned int
	bytes   int      // looked at
	last    attr.Map // where the page ended, when it was full
}

// add takes a row and reports whether another fits into the page.
func (p *page) add(row attr.Map) bool {
	p.scanned++
	p.bytes += attr.Size(row)
	if p.filter == nil || p.filter.Holds(row) {
		p.items = append(p.items, attr.JSONMap(row))
	}
	if p.Limit != nil && p.scanned == int(*p.Limit) || p.bytes >= maxPage {
		p.last = make(attr.Map)
		for _, a := range p.keys() {
			p.last[a.name] = row[a.name]
		}
		return false
	}
	return true
}

// run walks over rows in the order that the function gives, and builds the response.
func (w *walk) run(s *Server, m mode, each func(add func(attr.Map) bool)) any {
	if m.stale && !w.ConsistentRead {
		forward := w.table.rewind()
		defer forward()
	}
	p := &page{walk: w, items: []map[string]any{}}
	each(p.add)

	used := newUsage(w.table)
	if w.index == nil {
		used.read(p.bytes, w.ConsistentRead)
	} else {
		used.readIndex(p.bytes)
	}
	s.charge(used)
	out := map[string]any{"Items": p.items, "Count": len(p.items), "ScannedCount": p.scanned}
	if p.last != nil {
		out["LastEvaluatedKey"] = attr.JSONMap(p.last)
	}
	if wantsCapacity(w.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json()
	}
	return out
}

type query struct {
	walkParams
	KeyConditionExpression *string
	ScanIndexForward       *bool
}

func (r *query) run(s *Server, m mode) (any, *apiError) {
	if err := r.checkWalk(); err != nil {
		return nil, err
	}
	if r.KeyConditionExpression == nil {
		return nil, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	env, err := r.env(r.filterExpression(), expression{"KeyConditionExpression", r.KeyConditionExpression})
	if err != nil {
		return nil, err
	}
	conditions, bad := env.KeyConditions(*r.KeyConditionExpression)
	if bad != nil {
		return nil, invalid("%v", bad)
	}
	w, err := s.open(&r.walkParams, env)
	if err != nil {
		return nil, err
	}
	hash, sort, err := w.split(conditions)
	if err != nil {
		return nil, err
	}
	if err := w.checkFilterKeys(); err != nil {
		return nil, err
	}
	if err := w.checkStart(hash, sort); err != nil {
		return nil, err
	}
	backward := r.ScanIndexForward != nil && !*r.ScanIndexForward
	return w.run(s, m, func(add func(attr.Map) bool) { w.partition(hash, sort, backward, add) }), nil
}

// split finds the condition on the hash key, which every query needs, and the one on the sort key, if there is one.
func (w *walk) split(conditions []expr.KeyCondition) (hash, sort *expr.KeyCondition, err *apiError) {
	key := w.rows.key
	if len(conditions) > 2 {
		return nil, nil, invalid("Conditions can be of length 1 or 2 only")
	}
	for i := range conditions {
		c := &conditions[i]
		var a keyAttr
		switch {
		case c.Name == key.hash.name:
			hash, a = c, key.hash
		case key.sort != nil && c.Name == key.sort.name:
			sort, a = c, *key.sort
		default:
			continue
		}
		if c.Value.Type() != a.kind {
			return nil, nil, badValue("Condition parameter type does not match schema type")
		}
		if kind := emptyKind(c.Value); kind != "" {
			return nil, nil, invalid("One or more parameter values are not valid. The AttributeValue for a key "+
				"attribute cannot contain an empty %s value. Key: %s", kind, a.name)
		}
	}
	switch {
	case hash == nil:
		return nil, nil, invalid("Query condition missed key schema element: %s", key.hash.name)
	case hash.Op != "=" || len(conditions) == 2 && key.sort == nil:
		return nil, nil, invalid("Query key condition not supported")
	case len(conditions) == 2 && sort == nil:
		return nil, nil, invalid("Query condition missed key schema element: %s", key.sort.name)
	case sort != nil && sort.Op == "begins_with" && key.sort.kind == attr.N:
		return nil, nil, invalid("Invalid KeyConditionExpression: Incorrect operand type for operator or function; " +
			"operator or function: begins_with, operand type: N")
	}
	return hash, sort, nil
}

func (w *walk) checkFilterKeys() *apiError {
	if w.filter == nil {
		return nil
	}
	for _, name := range w.filter.Names() {
		if w.rows.key.has(name) {
			return invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
	}
	return nil
}

// checkStart rejects to go on from a key that the query would not have come by.
func (w *walk) checkStart(hash, sort *expr.KeyCondition) *apiError {
	if w.start == nil {
		return nil
	}
	if !hash.Matches(w.start[hash.Name]) {
		return invalid("The provided starting key is outside query boundaries based on provided conditions")
	}
	if sort != nil && !sort.Matches(w.start[sort.Name]) {
		return invalid("The provided starting key does not match the range key predicate")
	}
	return nil
}

// partition offers the rows of one hash key that meet the condition on the sort key, behind the start key.
func (w *walk) partition(hash, sort *expr.KeyCondition, backward bool, add func(attr.Map) bool) {
	rows := w.rows.partition(hash.Value)
	from, to := 0, len(rows)
	if w.start != nil {
		at, exact := slices.BinarySearchFunc(rows, w.start, w.rows.compare)
		if backward {
			to = at
		} else if from = at; exact {
			from++
		}
	}
	rows = rows[from:to]
	for i := range rows {
		row := rows[i]
		if backward {
			row = rows[len(rows)-1-i]
		}
		if sort != nil && !sort.Matches(row[sort.Name]) {
			continue
		}
		if !add(row) {
			return
		}
	}
}

type scan struct{ walkParams }

func (r *scan) run(s *Server, m mode) (any, *apiError) {
	if err := r.checkWalk(); err != nil {
		return nil, err
	}
	env, err := r.env(r.filterExpression())
	if err != nil {
		return nil, err
	}
	w, err := s.open(&r.walkParams, env)
	if err != nil {
		return nil, err
	}
	return w.run(s, m, w.everything), nil
}

// everything offers all rows behind the start key.
func (w *walk) everything(add func(attr.Map) bool) {
	from, skip := 0, 0
	if w.start != nil {
		var found bool
		if from, found = w.rows.find(id(w.start[w.rows.key.hash.name])); found {
			var exact bool
			if skip, exact = slices.BinarySearchFunc(w.rows.parts[from].rows, w.start, w.rows.compare); exact {
				skip++
			}
		}
	}
	for _, p := range w.rows.parts[from:] {
		rows := p.rows[skip:]
		skip = 0
		for _, row := range rows {
			if !add(row) {
				return
			}
		}
	}
}
