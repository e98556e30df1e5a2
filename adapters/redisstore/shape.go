// Writes that are compiled, each shape to a script of its own. It is the second way to carry out a write, beside
// write.lua, and stays for what it brings: without it a Redis server takes 2.1 times the processor time for a cycle of
// a lock, 133 µs instead of 63 with 64 callers, of the one thread that it has, and 3.1 times the instructions.

package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Bounds of compiled writes. What is beyond them is interpreted by write.lua.
const (
	mostShapes = 256 // scripts that a store compiles: the server keeps each until it ends
	mostLocals = 120 // values that one script is told or works out: Lua has 200 local variables
	mostShown  = 100 // fields whose values one script returns: they are in its stack at once
	mostNamed  = 120 // fields that are named in the text of a script
)

// shapes are the writes that have become scripts of their own. Rules write in few shapes, again and again: the same
// condition on the same fields, and the same fields set, with other values. A script for each knows what to read, and
// interprets nothing.
type shapes struct {
	mu   sync.RWMutex
	all  map[string]*script // by [shaper].shape; nil for one that is too large
	most int                // instead of mostShapes, in tests; below 0 is none
}

// compile returns the script of a write of one document, and its arguments behind those of begin.lua. There is none for
// a deletion, nor for one beyond the bounds.
func (s *shapes) compile(w docstore.Write) (sc *script, args []byte) {
	if w.Delete {
		return nil, nil
	}
	var room [1024]byte
	sh := shaper{shape: room[:0], args: make([]byte, 0, 512)}
	sh.write(w)
	s.mu.RLock()
	sc, known := s.all[string(sh.shape)]
	full := len(s.all) >= cmp.Or(s.most, mostShapes)
	s.mu.RUnlock()
	if known || full {
		return sc, sh.args
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*script{}
	}
	sc = sh.script(w)
	s.all[string(sh.shape)] = sc
	return sc, sh.args
}

// shaper goes through a write once. It tells its shape from its arguments, in one order: whatever is in the text of the
// script is in the shape, everything else is an argument.
type shaper struct {
	shape  []byte
	args   []byte   // packed
	told   int      // how many arguments there are
	made   int      // how many values the script works out
	prefix string   // the last argument that is a prefix
	has    string   // the name of that in the script, empty if there is none yet
	lua    bool     // the text is asked for, too
	text   bool     // it compares texts
	names  []string // the fields that are named
}

// say adds to the shape: what comes, and the name of a field if there is one.
func (s *shaper) say(what byte, names ...string) {
	s.shape = append(s.shape, what)
	for _, n := range names {
		s.shape = append(append(s.shape, n...), 0)
	}
}

// arg counts an argument that was appended, and returns it as the script has it.
func (s *shaper) arg() string {
	s.told++
	if !s.lua {
		return ""
	}
	return "v" + strconv.Itoa(s.told)
}

// field is a field of the document as the script has it.
func (s *shaper) field(name string) string {
	if s.lua && !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	return s.join("f[", s.quote(name), "]")
}

// join is strings.Join, but while only the shape is asked for.
func (s *shaper) join(parts ...string) string {
	if !s.lua {
		return ""
	}
	return strings.Join(parts, "")
}

// value adds a value.
func (s *shaper) value(v docstore.Value) string {
	i, ok := v.(docstore.Instant)
	switch {
	case !ok:
		s.say('v')
		s.args = appendValue(s.args, v)
		return s.arg()
	case i.Offset() == 0:
		s.say('n')
		return "moment"
	default:
		s.say('t')
		s.args = appendInt(s.args, i.Offset().Milliseconds())
		return s.join("(moment + ", s.arg(), ")")
	}
}

// cond adds a condition.
func (s *shaper) cond(c docstore.Cond) string {
	several := func(op byte, word, none string, parts []docstore.Cond) string {
		s.say(op)
		texts := make([]string, 0, 8)
		for _, p := range parts {
			texts = append(texts, s.cond(p))
		}
		s.say('.')
		if len(parts) == 0 || !s.lua {
			return none
		}
		return "(" + strings.Join(texts, word) + ")"
	}
	switch c := c.(type) {
	case nil:
		s.say('y')
		return "true"
	case docstore.Absent:
		s.say('a')
		return "new"
	case docstore.Has:
		s.say('h', c.Field)
		return s.join("(", s.field(c.Field), " ~= nil)")
	case docstore.Eq:
		s.say('=', c.Field)
		return s.join("(", s.field(c.Field), " == ", s.value(c.Value), ")")
	case docstore.LE:
		s.say('<', c.Field)
		s.text = true
		return s.join("notAfter(", s.field(c.Field), ", ", s.value(c.Value), ")")
	case docstore.Any:
		return several('|', " or ", "false", c)
	case docstore.All:
		if f, id, ok := prefixed(c); ok {
			return s.begins(f, id)
		}
		return several('&', " and ", "true", c)
	case docstore.Not:
		s.say('!')
		return s.join("not ", s.cond(c.Cond))
	default:
		panic(fmt.Sprintf("redis: %T has passed the port's validation", c))
	}
}

// prefixed recognises the condition that a field begins with a text and has more, in the way in which rules say it: it
// is greater than the text, and not greater than the text with a ~.
func prefixed(c docstore.All) (field, prefix string, ok bool) {
	if len(c) != 2 {
		return "", "", false
	}
	not, is := c[0].(docstore.Not)
	low, isLow := not.Cond.(docstore.LE)
	high, isHigh := c[1].(docstore.LE)
	from, isFrom := low.Value.(docstore.String)
	to, isTo := high.Value.(docstore.String)
	return low.Field, string(from), is && isLow && isHigh && isFrom && isTo && low.Field == high.Field && to == from+"~"
}

// begins adds the condition of prefixed. Conditions on several fields have one prefix, as a rule.
func (s *shaper) begins(field, prefix string) string {
	s.say('p', field)
	if s.has == "" || s.prefix != prefix {
		s.say('v')
		s.args = appendText(s.args, "", prefix)
		s.prefix, s.has = prefix, cmp.Or(s.arg(), "v")
	}
	s.text = true
	return s.join("begins(", s.field(field), ", ", s.has, ")")
}

// changes are the parts of a write as the script has them.
type changes struct {
	cond   string
	before []string // statements that find out what fields will hold, and whether they can
	set    []string // statements that change fields
	starts bool     // a counter may start at the time
	keep   string

	// What is sent back of the document, nil for all of it, and the origin of each field of [docstore.Write.Return].
	shown   []string
	origins []origin
}

// write adds a write.
func (s *shaper) write(w docstore.Write) (c changes) {
	s.args = appendText(s.args, "", w.Key.ID)
	c.cond = s.cond(w.If)
	if !w.Until.IsZero() {
		s.say('u')
		s.args = appendInt(s.args, w.Until.UnixMilli())
		end := s.arg()
		c.cond = s.join("(now <= ", end, " and now >= ", end, " - ", aheadText, " and ", c.cond, ")")
	}
	var buf, rowBuf [32]string
	names, rows := buf[:0], rowBuf[:0]
	for f := range w.Set {
		if inRow(w, f) {
			rows = append(rows, f)
		} else {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	slices.Sort(rows)
	set := func(field, value string) {
		if s.lua {
			c.set = append(c.set, field+" = "+value+"\n")
		}
	}
	for i, f := range names {
		if b, ok := w.Set[f].(docstore.Before); ok {
			s.say('B', f, string(b))
			s.made++
			if s.lua {
				c.before = append(c.before, fmt.Sprintf(beforeText, i, s.field(string(b))))
				set(s.field(f), "b"+strconv.Itoa(i))
			}
			continue
		}
		s.say('S', f)
		set(s.field(f), s.value(w.Set[f]))
	}
	for _, f := range rows {
		s.say('R')
		s.args = appendText(s.args, "", f)
		name := s.arg()
		set("f["+name+"]", s.value(w.Set[f]))
	}
	names = names[:0]
	for f := range w.Add {
		names = append(names, f)
	}
	slices.Sort(names)
	for i, f := range names {
		starts := slices.Contains(w.StartAtNow, f)
		s.say('A', f, strconv.FormatBool(starts))
		s.args = appendInt(s.args, w.Add[f])
		n := s.arg()
		s.made++
		if !s.lua {
			continue
		}
		text := addText
		if starts {
			text, c.starts = startText, true
		}
		c.before = append(c.before, fmt.Sprintf(text, i, s.field(f), n))
		set(s.field(f), "n"+strconv.Itoa(i))
	}
	for _, f := range w.Unset {
		s.say('U', f)
		if s.lua { // Lua would first make room for what is missing
			c.set = append(c.set, s.join("if ", s.field(f), " ~= nil then ", s.field(f), " = nil end\n"))
		}
	}
	if w.Keep > 0 {
		s.say('K')
		s.args = appendInt(s.args, w.Keep.Milliseconds())
		c.keep = s.arg()
	}
	if w.Return == nil {
		return c
	}
	s.say('>', w.Return...)
	if !s.lua {
		return c
	}
	c.shown = []string{}
	for _, f := range w.Return {
		from := source(w, f)
		c.origins = append(c.origins, from)
		if from == fromScript {
			c.shown = append(c.shown, s.field(f))
		}
	}
	return c
}

// What a script works out of the document, before it changes anything: the text that a field had, a counter, and one
// that starts at the time.
const (
	beforeText = `local b%[1]d = %[2]s
if b%[1]d == nil then
  b%[1]d = ''
else
  local is = type(b%[1]d)
  damaged = damaged or not (is == 'string' and byte(b%[1]d, 1, 1) ~= 255 or is == 'number' and b%[1]d %% 1 ~= 0)
end
`
	addText = `local n%[1]d = %[2]s
if n%[1]d == nil then
  n%[1]d = 0
end
` + sumText + `end
`
	startText = `local n%[1]d, started%[1]d = %[2]s, false
if n%[1]d == nil then
  n%[1]d, started%[1]d = now * 1000, true
  if n%[1]d < floor then
    n%[1]d = floor
  end
end
` + sumText + `  if n%[1]d > reached then
    reached = n%[1]d
  end
  started = started or started%[1]d
end
`
	sumText = `if type(n%[1]d) ~= 'number' or n%[1]d %% 1 ~= 0 or %[3]s > 0 and n%[1]d > MAX - %[3]s or %[3]s < 0 and n%[1]d < -MAX - %[3]s then
  damaged = true
else
  n%[1]d = n%[1]d + %[3]s
`
)

// origin is where the value of a field comes from that is returned after a write.
type origin byte

const (
	fromScript origin = iota // the script sends it back: a number as one, everything else in its stored form
	fromWrite                // the write sets it to a value, or to a time
	fromNone                 // the write removes it
)

// source is the origin of a field after a write. It is the same for all writes of a shape.
func source(w docstore.Write, f string) origin {
	if v, there := w.Set[f]; there {
		if _, copied := v.(docstore.Before); copied {
			return fromScript
		}
		return fromWrite
	}
	if slices.Contains(w.Unset, f) {
		return fromNone
	}
	return fromScript
}

// returned puts together what [docstore.Write.Return] asks for, from the write, its time, and what its script sent
// back.
func (sc *script) returned(w docstore.Write, at time.Time, values unpacker) (docstore.Doc, error) {
	doc := make(docstore.Doc, len(w.Return))
	for i, f := range w.Return {
		switch sc.origins[i] {
		case fromWrite:
			doc[f] = driver.Resolve(w.Set[f], at)
		case fromScript:
			v, err := values.value()
			if err != nil {
				return nil, fmt.Errorf("the value of %s: %w", f, err)
			}
			if v != nil {
				doc[f] = v
			}
		case fromNone:
		}
	}
	if values.rest != "" {
		return nil, fmt.Errorf("%d bytes more than the fields take", len(values.rest))
	}
	return doc, nil
}

// inRow reports whether a field that is set is one of a row, such as e1 to e8: its name ends with a digit, its value is
// given, and nothing else in the write names it, what it wants returned included. Its name is an argument then, so that
// the row needs one script.
func inRow(w docstore.Write, f string) bool {
	if last := f[len(f)-1]; last < '0' || last > '9' {
		return false
	}
	switch w.Set[f].(type) {
	case docstore.Before, docstore.Instant:
		return false
	}
	for _, v := range w.Set {
		if v == docstore.Value(docstore.Before(f)) {
			return false
		}
	}
	return !names(w.If, f) && !slices.Contains(w.Return, f)
}

// names reports whether a condition names a field.
func names(c docstore.Cond, f string) bool {
	one := func(c docstore.Cond) bool { return names(c, f) }
	switch c := c.(type) {
	case docstore.Has:
		return c.Field == f
	case docstore.Eq:
		return c.Field == f
	case docstore.LE:
		return c.Field == f
	case docstore.Any:
		return slices.ContainsFunc(c, one)
	case docstore.All:
		return slices.ContainsFunc(c, one)
	case docstore.Not:
		return one(c.Cond)
	default:
		return false
	}
}

// quote is a text of Lua.
func (s *shaper) quote(name string) string {
	if !s.lua {
		return ""
	}
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(name) {
		if c := name[i]; c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// aheadText is [docstore.MaxAhead] in milliseconds.
var aheadText = strconv.FormatInt(docstore.MaxAhead.Milliseconds(), 10)

// headroom is how far the floor is set above a counter that passes it, so that it need not follow each grant.
const headroom = 1000

// floorText lets the floor follow the counters that start at the time.
const floorText = `if reached > floor then
  floor = started and reached or reached + %d
end
`

// endsText sets the end of a document. One that is moved by each write would be a command more to store and to sync
// with each. So one that is moved goes a little farther than it must, and stays while it is not too near nor much too
// far: a document is never removed too early by that.
const endsText = `local ending, farther = now + %[1]s, (%[1]s - %[1]s %% %[2]d) / %[2]d
if ends == 0 then
  ends = ending
  call('ZADD', KEYS[2], ends, KEYS[4]:sub(#KEYS[1] + 2)) -- both begin alike, up to own and doc:
elseif ends < ending or ends > ending + 2 * farther then
  ends = ending + farther
  call('ZADD', KEYS[2], ends, KEYS[4]:sub(#KEYS[1] + 2))
end`

// noEndText leaves the end of a document as it is. One that was deleted by hand may have left one.
const noEndText = `if not listed then
  call('ZREM', KEYS[2], KEYS[4]:sub(#KEYS[1] + 2))
end`

// endSteps is in how many steps the end of a document moves while it is kept: one that is kept for 30 days may stay 22
// hours longer.
const endSteps = 64

// script is the script of a write's shape; nil if it would be too large.
func (s *shaper) script(w docstore.Write) *script {
	lua := shaper{lua: true}
	c := lua.write(w)
	if lua.told+lua.made > mostLocals || len(lua.names) > mostNamed || len(c.shown) > mostShown {
		return nil
	}
	parts := map[string]string{
		"ARGS": "", "FUNCTIONS": "", "COND": c.cond, "BEFORE": strings.Join(c.before, ""), "CHANGES": strings.Join(c.set, ""),
		"INDEX": indexText, "ENDS": noEndText,
		"SHOWN": ") .. after", "STOP": strings.TrimSuffix(stopText, "\n"), "WROTE": strings.TrimSuffix(wroteText, "\n"),
	}
	for i := range lua.told {
		parts["ARGS"] += ", v" + strconv.Itoa(i+1)
	}
	if lua.text {
		parts["FUNCTIONS"] = textText
	} else {
		parts["INDEX"] = textText + indexText
	}
	if c.keep != "" {
		parts["ENDS"] = fmt.Sprintf(endsText, c.keep, endSteps)
	}
	if c.starts {
		parts["CHANGES"] += fmt.Sprintf(floorText, headroom)
	}
	if c.shown != nil {
		parts["SHOWN"] = strings.Join(append([]string{""}, c.shown...), ", ") + ")"
	}
	var fill []string
	for name, text := range parts {
		fill = append(fill, "$"+name, text)
	}
	sc := rawScript(strings.NewReplacer(fill...).Replace(shapeText))
	sc.origins = c.origins
	return sc
}
