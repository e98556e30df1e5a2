package awsdynamodb

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// expressions collects the names and values that the expressions of one request refer to. Every name is a placeholder,
// so that reserved words are names like any other; a name or value that occurs twice gets one.
type expressions struct {
	nameMark, valueMark string // what placeholders begin with
	names               []string
	values              []docstore.Value
}

func newExpressions() *expressions { return &expressions{nameMark: "#f", valueMark: ":v"} }

func (e *expressions) name(field string) string {
	i := slices.Index(e.names, field)
	if i < 0 {
		i = len(e.names)
		e.names = append(e.names, field)
	}
	return e.nameMark + strconv.Itoa(i)
}

func (e *expressions) value(v docstore.Value) string {
	i := -1
	if _, table := v.(docstore.Map); !table {
		i = slices.IndexFunc(e.values, func(o docstore.Value) bool {
			_, table := o.(docstore.Map)
			return !table && o == v
		})
	}
	if i < 0 {
		i = len(e.values)
		e.values = append(e.values, v)
	}
	return e.valueMark + strconv.Itoa(i)
}

// attributeNames is the member of a request; nil if there are none, because the service rejects an empty one.
func (e *expressions) attributeNames() map[string]string {
	if len(e.names) == 0 {
		return nil
	}
	m := make(map[string]string, len(e.names))
	for i, n := range e.names {
		m[e.nameMark+strconv.Itoa(i)] = n
	}
	return m
}

// attributeValues is the member of a request; nil if there are none.
func (e *expressions) attributeValues() map[string]types.AttributeValue {
	if len(e.values) == 0 {
		return nil
	}
	m := make(map[string]types.AttributeValue, len(e.values))
	for i, v := range e.values {
		m[e.valueMark+strconv.Itoa(i)] = encode(v)
	}
	return m
}

// condition writes a condition whose times are resolved. DynamoDB's conditions are two-valued as the port's are: a
// comparison with an attribute that is missing or of another type is false, and NOT of it is true. A pair of
// parentheses directly inside another is an error to the service, so each operator brings exactly one pair.
//
// A number that the port cannot express (a fraction, or beyond 2^53) is still compared by its size.
func (e *expressions) condition(c docstore.Cond) string {
	switch c := c.(type) {
	case docstore.Absent:
		return "attribute_not_exists(" + e.name(attrPartition) + ")"
	case docstore.Has:
		return "attribute_exists(" + e.name(c.Field) + ")"
	case docstore.Eq:
		return e.name(c.Field) + " = " + e.value(c.Value)
	case docstore.LE:
		return e.name(c.Field) + " <= " + e.value(c.Value)
	case docstore.Any:
		return e.join(c, " OR ", " AND ")
	case docstore.All:
		return e.join(c, " AND ", " OR ")
	case docstore.Not:
		return "(NOT " + e.condition(c.Cond) + ")"
	default:
		return ""
	}
}

// join combines conditions. None at all is a constant, which the language does not have: that a document exists and
// does not exist, joined by the opposite operator, is always false for Any and always true for All.
func (e *expressions) join(cs []docstore.Cond, operator, opposite string) string {
	switch len(cs) {
	case 0:
		key := e.name(attrPartition)
		return "(attribute_exists(" + key + ")" + opposite + "attribute_not_exists(" + key + "))"
	case 1:
		return e.condition(cs[0])
	}
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = e.condition(c)
	}
	return "(" + strings.Join(parts, operator) + ")"
}

// guard holds when n can be added to the field: it is missing, where it counts as start, or a number, and the sum stays
// within the port's range. The service by itself would add to any number, without bounds.
func (e *expressions) guard(field string, start, n int64) string {
	low, high := max(-docstore.MaxInt, -docstore.MaxInt-n), min(docstore.MaxInt, docstore.MaxInt-n)
	name := e.name(field)
	between := name + " BETWEEN " + e.value(docstore.Int(low)) + " AND " + e.value(docstore.Int(high))
	if start < low || start > high {
		return between
	}
	return "(attribute_not_exists(" + name + ") OR " + between + ")"
}

// guardText holds when the field can be copied by a [docstore.Before]: it is missing, or text.
func (e *expressions) guardText(field string) string {
	name := e.name(field)
	return "(attribute_not_exists(" + name + ") OR attribute_type(" + name + ", " + e.value(docstore.String("S")) + "))"
}

// conditions is the condition of a write together with the guards of what it adds and copies; empty if there is nothing to
// ask. now is what counters start at, see [docstore.Write].StartAtNow.
func (e *expressions) conditions(c docstore.Cond, w docstore.Write, now time.Time) string {
	var parts []string
	if all, ok := c.(docstore.All); !ok || len(all) > 0 {
		parts = append(parts, e.condition(c))
	}
	for _, f := range slices.Sorted(maps.Keys(w.Add)) {
		parts = append(parts, e.guard(f, start(w, f, now), w.Add[f]))
	}
	copied := map[string]bool{}
	for _, v := range w.Set {
		if b, ok := v.(docstore.Before); ok {
			copied[string(b)] = true
		}
	}
	for _, f := range slices.Sorted(maps.Keys(copied)) {
		parts = append(parts, e.guardText(f))
	}
	return strings.Join(parts, " AND ")
}

// start is what a missing field counts as when a write adds to it.
func start(w docstore.Write, field string, now time.Time) int64 {
	if slices.Contains(w.StartAtNow, field) {
		return now.UnixMicro()
	}
	return 0
}

// update writes the changes of a write whose times are resolved; empty if there are none. All operands are the item as it
// was before the update, so that one SET can shift a register.
func (e *expressions) update(w docstore.Write, now time.Time) string {
	var clauses []string
	clause := func(verb string, actions []string) {
		if len(actions) > 0 {
			clauses = append(clauses, verb+" "+strings.Join(actions, ", "))
		}
	}
	var set, add, remove []string
	for _, f := range slices.Sorted(maps.Keys(w.Set)) {
		if b, ok := w.Set[f].(docstore.Before); ok {
			set = append(set, e.name(f)+" = if_not_exists("+e.name(string(b))+", "+e.value(docstore.String(""))+")")
			continue
		}
		set = append(set, e.name(f)+" = "+e.value(w.Set[f]))
	}
	if w.Keep > 0 {
		set = append(set, e.name(attrKeep)+" = "+e.value(keepUntil(now.Add(w.Keep))))
	}
	for _, f := range slices.Sorted(maps.Keys(w.Add)) {
		if slices.Contains(w.StartAtNow, f) {
			name := e.name(f)
			set = append(set, name+" = if_not_exists("+name+", "+e.value(docstore.Int(start(w, f, now)))+") + "+e.value(docstore.Int(w.Add[f])))
			continue
		}
		add = append(add, e.name(f)+" "+e.value(docstore.Int(w.Add[f])))
	}
	for _, f := range slices.Sorted(slices.Values(w.Unset)) {
		remove = append(remove, e.name(f))
	}
	clause("SET", set)
	clause("ADD", add)
	clause("REMOVE", remove)
	return strings.Join(clauses, " ")
}
