package awsdynamodb

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// expressions writes the expressions of one request, and collects the names and values that they refer to. A name that
// may be a reserved word is a placeholder; one that occurs twice gets one, and so does a text or a time.
type expressions struct {
	instants            // what times are
	names, values *mark // of placeholders

	text   []byte
	fields []string               // what the placeholders of names mean
	args   []types.AttributeValue // what the placeholders of values mean
	times  []timeArg
	own    int      // the first of args that the expression being written may share
	sorted []string // scratch
}

// timeArg is a time that is among the values.
type timeArg struct {
	at  time.Time
	arg int
}

func newExpressions(m instants) *expressions {
	return &expressions{instants: m, names: nameMarks, values: valueMarks}
}

// mark makes placeholders: a prefix and a number.
type mark struct {
	prefix string

	once  sync.Once  // a function that reads first needs none
	first [64]string // most requests have no more
}

var nameMarks, valueMarks = &mark{prefix: "#f"}, &mark{prefix: ":v"}

func (m *mark) at(i int) string {
	m.once.Do(func() {
		for i := range m.first {
			m.first[i] = m.prefix + strconv.Itoa(i)
		}
	})
	if i < len(m.first) {
		return m.first[i]
	}
	return m.prefix + strconv.Itoa(i)
}

func (e *expressions) raw(text string) *expressions {
	e.text = append(e.text, text...)
	return e
}

func (e *expressions) name(field string) *expressions {
	// in a request of one's own, all names of Leasehold are placeholders that say so
	if e.names == nameMarks && unreserved(field) {
		return e.raw(field)
	}
	i := slices.Index(e.fields, field)
	if i < 0 {
		i = len(e.fields)
		e.fields = append(e.fields, field)
	}
	return e.raw(e.names.at(i))
}

// unreserved reports whether a name of a field is surely none of the service's words: those have neither digits nor
// underscores, but for the functions. It stands in expressions as it is, which makes a request of many fields a quarter
// shorter.
func unreserved(field string) bool {
	if strings.IndexByte(field, '_') == 0 { // a name that begins so must be a placeholder
		return false
	}
	return strings.ContainsAny(field, "_0123456789") && !slices.Contains(functions, field)
}

var functions = []string{"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with",
	"if_not_exists", "list_append"}

// arg adds a value whose placeholder it returns the number of.
func (e *expressions) arg(v types.AttributeValue) int {
	e.args = append(e.args, v)
	return len(e.args) - 1
}

func (e *expressions) placeholder(arg int) *expressions { return e.raw(e.values.at(arg)) }

// value is a value that is written, or compared for equality.
func (e *expressions) value(v docstore.Value) {
	if i, ok := v.(docstore.Instant); ok {
		e.time(i, e.now)
		return
	}
	if t, ok := v.(docstore.String); ok {
		e.str(string(t))
		return
	}
	e.placeholder(e.arg(encode(v)))
}

func (e *expressions) str(text string) *expressions { return e.placeholder(e.textArg(text)) }

// textArg is the number of a text among the values: one for texts that are equal within a condition or within an
// update. What is compared and what is written have placeholders of their own, so that an owner who comes again makes
// no other shape than one who is new.
func (e *expressions) textArg(text string) int {
	for i, v := range e.args[e.own:] {
		if t, ok := v.(*types.AttributeValueMemberS); ok && t.Value == text {
			return e.own + i
		}
	}
	return e.arg(&types.AttributeValueMemberS{Value: text})
}

func (e *expressions) number(n int64) *expressions { return e.placeholder(e.arg(number(n))) }

// time is a time that lies an offset after now.
func (e *expressions) time(i docstore.Instant, now time.Time) {
	at := now.Add(i.Offset())
	for _, t := range e.times {
		if t.at.Equal(at) {
			e.placeholder(t.arg)
			return
		}
	}
	e.times = append(e.times, timeArg{at, e.arg(encode(i.At(now)))})
	e.placeholder(len(e.args) - 1)
}

// attributeNames is the member of a request; nil if there are none, because the service rejects an empty one.
func (e *expressions) attributeNames() map[string]string {
	if len(e.fields) == 0 {
		return nil
	}
	m := make(map[string]string, len(e.fields))
	for i, n := range e.fields {
		m[e.names.at(i)] = n
	}
	return m
}

// attributeValues is the member of a request; nil if there are none.
func (e *expressions) attributeValues() map[string]types.AttributeValue {
	if len(e.args) == 0 {
		return nil
	}
	m := make(map[string]types.AttributeValue, len(e.args))
	for i, v := range e.args {
		m[e.values.at(i)] = v
	}
	return m
}

// condition writes a condition. DynamoDB's conditions are two-valued as the port's are: a
// comparison with an attribute that is missing or of another type is false, and NOT of it is true. A pair of
// parentheses directly inside another is an error to the service, so each operator brings exactly one pair.
//
// A number that the port cannot express (a fraction, or beyond 2^53) is still compared by its size.
func (e *expressions) condition(c docstore.Cond) *expressions { return e.part(c, false) }

// part writes a part of a condition, which a Not around it may negate.
func (e *expressions) part(c docstore.Cond, negated bool) *expressions {
	switch c := c.(type) {
	case docstore.Absent:
		e.raw("attribute_not_exists(").name(attrPartition).raw(")")
	case docstore.Has:
		e.raw("attribute_exists(").name(c.Field).raw(")")
	case docstore.Eq:
		e.name(c.Field).raw(" = ").value(c.Value)
	case docstore.LE:
		e.name(c.Field).raw(" <= ")
		if i, ok := c.Value.(docstore.Instant); ok {
			e.time(i, e.compared(i, negated))
		} else {
			e.value(c.Value)
		}
	case docstore.Any:
		e.join(c, negated, " OR ", " AND ")
	case docstore.All:
		e.join(c, negated, " AND ", " OR ")
	case docstore.Not:
		e.raw("(NOT ").part(c.Cond, !negated).raw(")")
	}
	return e
}

// join combines conditions. None at all is a constant, which the language does not have: that a document exists and
// does not exist, joined by the opposite operator, is always false for Any and always true for All.
func (e *expressions) join(cs []docstore.Cond, negated bool, operator, opposite string) {
	switch len(cs) {
	case 0:
		e.raw("(attribute_exists(").name(attrPartition).raw(")").raw(opposite).raw("attribute_not_exists(").name(
			attrPartition).raw("))")
	case 1:
		e.part(cs[0], negated)
	default:
		for i, c := range cs {
			if i == 0 {
				e.raw("(")
			} else {
				e.raw(operator)
			}
			e.part(c, negated)
		}
		e.raw(")")
	}
}

// guard holds when n can be added to the field: it is missing, where it counts as start, or a number, and the sum stays
// within the port's range. The service by itself would add to any number, without bounds.
func (e *expressions) guard(field string, start, n int64) {
	low, high := max(-docstore.MaxInt, -docstore.MaxInt-n), min(docstore.MaxInt, docstore.MaxInt-n)
	missing := start >= low && start <= high
	if missing {
		e.raw("(attribute_not_exists(").name(field).raw(") OR ")
	}
	e.name(field).raw(" BETWEEN ").number(low).raw(" AND ").number(high)
	if missing {
		e.raw(")")
	}
}

// guardText holds when the field can be copied by a [docstore.Before]: it is missing, or text. kind is the number of
// the value "S".
func (e *expressions) guardText(field string, kind int) {
	e.raw("(attribute_not_exists(").name(field).raw(") OR attribute_type(").name(field).raw(", ").placeholder(kind).raw(
		"))")
}

// conditions is the condition of a write together with the guards of what it adds and copies; empty if there is nothing
// to ask.
func (e *expressions) conditions(w docstore.Write) *expressions {
	begin := len(e.text)
	and := func() {
		if len(e.text) > begin {
			e.raw(" AND ")
		}
	}
	if all, ok := w.If.(docstore.All); w.If != nil && (!ok || len(all) > 0) {
		e.condition(w.If)
	}
	for _, f := range sortedKeys(e, w.Add) {
		and()
		e.guard(f, start(w, f, e.now), w.Add[f])
	}
	copied := e.sorted[:0]
	for _, v := range w.Set {
		if b, ok := v.(docstore.Before); ok {
			copied = append(copied, string(b))
		}
	}
	slices.Sort(copied)
	e.sorted = copied
	if len(copied) > 0 {
		kind := e.arg(textType)
		for _, f := range slices.Compact(copied) {
			and()
			e.guardText(f, kind)
		}
	}
	return e
}

// What many requests have in common.
var (
	textType  types.AttributeValue = &types.AttributeValueMemberS{Value: "S"}
	emptyText types.AttributeValue = &types.AttributeValueMemberS{Value: ""}
	marked    types.AttributeValue = &types.AttributeValueMemberBOOL{Value: true}
)

// sortedKeys are the keys of a map, in order, until the next call.
func sortedKeys[V any](e *expressions, m map[string]V) []string {
	keys := e.sorted[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e.sorted = keys
	return keys
}

// start is what a missing field counts as when a write adds to it.
func start(w docstore.Write, field string, now time.Time) int64 {
	if slices.Contains(w.StartAtNow, field) {
		return now.UnixMicro()
	}
	return 0
}

// beside is what a write stores beside the fields of its document.
type beside struct {
	mark bool   // creates a document that may have no field
	due  string // the shard in which the document is to be found; empty leaves it as it is
}

// update writes the changes of a write; empty if there are none. All
// operands are the item as it was before the update, so that one SET can shift a register.
func (e *expressions) update(w docstore.Write, b beside) *expressions {
	c := clause{e: e, begin: len(e.text)}
	e.own = len(e.args)
	empty := -1 // the number of the value ""
	for _, f := range sortedKeys(e, w.Set) {
		c.next("SET ")
		copied, ok := w.Set[f].(docstore.Before)
		if !ok {
			e.name(f).raw(" = ").value(w.Set[f])
			continue
		}
		if empty < 0 {
			empty = e.arg(emptyText)
		}
		e.name(f).raw(" = if_not_exists(").name(string(copied)).raw(", ").placeholder(empty).raw(")")
	}
	if b.mark {
		c.next("SET ")
		e.name(attrMark).raw(" = ").placeholder(e.arg(marked))
	}
	if b.due != "" {
		c.next("SET ")
		e.name(attrDue).raw(" = ").str(b.due)
	}
	if w.Keep > 0 {
		c.next("SET ")
		e.name(attrKeep).raw(" = ").number(int64(keepUntil(e.now.Add(w.Keep))))
	}
	added := sortedKeys(e, w.Add)
	for _, f := range added {
		if slices.Contains(w.StartAtNow, f) {
			c.next("SET ")
			e.name(f).raw(" = if_not_exists(").name(f).raw(", ").number(start(w, f, e.now)).raw(") + ").number(w.Add[f])
		}
	}
	for _, f := range added {
		if !slices.Contains(w.StartAtNow, f) {
			c.next("ADD ")
			e.name(f).raw(" ").number(w.Add[f])
		}
	}
	e.sorted = append(e.sorted[:0], w.Unset...)
	slices.Sort(e.sorted)
	for _, f := range e.sorted {
		c.next("REMOVE ")
		e.name(f)
	}
	return e
}

// clause writes actions, those of one verb together.
type clause struct {
	e     *expressions
	begin int // of the text
	verb  string
}

// next begins an action.
func (c *clause) next(verb string) {
	switch {
	case verb == c.verb:
		c.e.raw(", ")
	case len(c.e.text) > c.begin:
		c.e.raw(" ").raw(verb)
	default:
		c.e.raw(verb)
	}
	c.verb = verb
}

// shape is what the requests of many writes have in common: all but the key and the values.
type shape struct {
	condition string // empty if there is nothing to ask
	update    string // empty if there is nothing to change
	names     map[string]string
}

// shapes are those that a store has met. A process sends writes of a few dozens, millions of times, so that their texts
// and names are made once. What is shared is never changed.
type shapes struct {
	mu    sync.RWMutex
	known map[string]*shape
	pool  sync.Pool // of *expressions, with their buffers
}

// maxShapes bounds what is remembered: a lock with many holders has writes of many shapes.
const maxShapes = 1024

// compile returns the shape of a write, and its values.
func (s *shapes) compile(w docstore.Write, b beside, m instants) (*shape, map[string]types.AttributeValue) {
	e, ok := s.pool.Get().(*expressions)
	if !ok {
		e = newExpressions(m)
	}
	e.instants = m
	condition := len(e.conditions(w).text)
	update := len(e.raw("\x00").text) // no expression and no name has such a byte
	if !w.Delete {
		e.update(w, b)
	}
	names := len(e.text)
	for _, f := range e.fields {
		e.raw("\x00").raw(f)
	}
	s.mu.RLock()
	found := s.known[string(e.text)]
	s.mu.RUnlock()
	if found == nil {
		found = &shape{condition: string(e.text[:condition]), update: string(e.text[update:names]), names: e.attributeNames()}
		s.remember(string(e.text), found)
	}
	values := e.attributeValues()
	clear(e.args)
	e.text, e.fields, e.args, e.times, e.own = e.text[:0], e.fields[:0], e.args[:0], e.times[:0], 0
	s.pool.Put(e)
	return found, values
}

func (s *shapes) remember(text string, found *shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxShapes {
		s.known = map[string]*shape{}
	}
	s.known[text] = found
}
