package dynamodbtest

import (
	"fmt"
	"slices"
)

// updateTable creates or deletes one index.
type updateTable struct {
	named
	AttributeDefinitions        []attributeDefinition
	GlobalSecondaryIndexUpdates []indexUpdate
}

type indexUpdate struct {
	Create *indexSpec
	Delete *struct{ IndexName string }
}

// check looks at each member by itself.
func (r *updateTable) check() *apiError {
	errs := []*apiError{checkDefinitions(r.AttributeDefinitions)}
	for i, u := range r.GlobalSecondaryIndexUpdates {
		prefix := fmt.Sprintf("globalSecondaryIndexUpdates.%d.member.", i+1)
		if u.Create != nil {
			errs = append(errs, u.Create.check(prefix+"create."))
		}
		if u.Delete != nil {
			errs = append(errs, checkName(prefix+"delete.indexName", u.Delete.IndexName))
		}
	}
	return all(errs...)
}

// run changes a copy of the table, which takes the table's place when everything about it is in order. Unlike the
// service's, the change is complete when the request responds.
func (r *updateTable) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s, r.check())
	if err != nil {
		return nil, err
	}
	switch n := len(r.GlobalSecondaryIndexUpdates); {
	case n == 0:
		return nil, unsupported("UpdateTable without GlobalSecondaryIndexUpdates")
	case n > 1:
		return nil, newError(prefixDynamo+"LimitExceededException",
			"Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	next := *t
	next.indexes, next.definitions = slices.Clone(t.indexes), slices.Clone(t.definitions)
	switch u := r.GlobalSecondaryIndexUpdates[0]; {
	case u.Create != nil && u.Delete == nil:
		err = r.createIndex(&next, *u.Create)
	case u.Delete != nil && u.Create == nil:
		err = next.deleteIndex(u.Delete.IndexName)
	default:
		err = badValue("One of Create, Update and Delete must be specified in each of GlobalSecondaryIndexUpdates")
	}
	if err != nil {
		return nil, err
	}
	*t = next
	return map[string]any{"TableDescription": t.describe()}, nil
}

// createIndex adds an index and fills it with the items that have its keys.
func (r *updateTable) createIndex(t *table, spec indexSpec) *apiError {
	more, err := distinct(r.AttributeDefinitions)
	if err != nil {
		return err
	}
	for _, d := range more {
		i := slices.IndexFunc(t.definitions, func(a keyAttr) bool { return a.name == d.name })
		switch {
		case i < 0:
			t.definitions = append(t.definitions, d)
		case t.definitions[i].kind != d.kind:
			return badValue("The type of the attribute %s cannot change from %s to %s", d.name, t.definitions[i].kind, d.kind)
		}
	}
	if err := all(t.addIndex(spec), t.checkDefinitionsUsed()); err != nil {
		return err
	}
	x := t.index(spec.IndexName)
	for _, item := range t.items {
		x.rows.replace(nil, x.image(item))
	}
	return nil
}

// deleteIndex removes an index and the definitions that only it used.
func (t *table) deleteIndex(name string) *apiError {
	if t.index(name) == nil {
		return newError(prefixDynamo+"ResourceNotFoundException", "Requested resource not found: index %s", name)
	}
	t.indexes = slices.DeleteFunc(t.indexes, func(x *index) bool { return x.name == name })
	t.definitions = slices.DeleteFunc(t.definitions, func(a keyAttr) bool {
		return !t.key.has(a.name) && !slices.ContainsFunc(t.indexes, func(x *index) bool { return x.key.has(a.name) })
	})
	return nil
}
