// Each shape of a write has a script of its own. One script that interprets all of them would take 2.1 times the
// processor time of the server for a cycle of a lock, 133 µs instead of 63 with 64 callers, of the one thread that it
// has, and 3.1 times the instructions.

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

// Bounds of what the server keeps: it may keep each script until it ends. The text of what is beyond them comes along
// with each write, see carry.lua.
const (
	mostShapes = 256      // scripts that a store tells the server
	mostText   = 32 << 10 // bytes of one
)

// Bounds of a script whose values are local variables. What is beyond them is written as one of several is.
const (
	mostLocals = 120 // values that it is told or works out: Lua has 200 local variables
	mostShown  = 100 // fields whose values it returns: they are in its stack at once
)

// shapes are the writes that have become scripts. Rules write in few shapes, again and again: the same condition on the
// same fields, and the same fields set, with other values. The script of each knows what to read; it interprets
// nothing.
type shapes struct {
	mu     sync.RWMutex
	all    map[string]*script // by what [shapes.compile] makes of writes
	most   int                // instead of mostShapes, in tests; below 0 is none
	locals int                // instead of mostLocals, in tests; below 0 is none
}

// compile returns the script of writes, and its arguments behind those of begin.lua.
func (s *shapes) compile(writes []docstore.Write) (sc *script, args []byte) {
	if w := writes[0]; len(writes) == 1 && !w.Delete && len(w.Return) <= mostShown {
		var room [1024]byte
		sh := shaper{shape: room[:0], args: make([]byte, 0, 512)}
		sh.write(w)
		if sh.told+sh.made <= cmp.Or(s.locals, mostLocals) {
			if sc = s.known(sh.shape); sc == nil {
				text, origins := single(w)
				sc = s.add(sh.shape, text, origins)
			}
			return sc, sh.args
		}
	}
	var shape []byte
	var found []string      // the shapes, each once
	var of []docstore.Write // one of each
	args = appendList(nil, len(writes))
	for _, w := range writes {
		sh := shaper{several: true}
		sh.write(w)
		number := slices.Index(found, string(sh.shape))
		if number < 0 {
			number = len(found)
			found, of = append(found, string(sh.shape)), append(of, w)
			shape = append(append(shape, 0xff), sh.shape...) // a byte that is in no name
		}
		args = append(appendInt(appendList(args, 2+sh.told), int64(number+1)), sh.args...)
	}
	if sc = s.known(shape); sc == nil {
		sc = s.add(shape, several(of), nil)
	}
	return sc, args
}

// known is the script of a shape, nil if there is none yet.
func (s *shapes) known(shape []byte) *script {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[string(shape)]
}

// add keeps the script of a shape, or returns one that brings its text along.
func (s *shapes) add(shape []byte, text string, origins []origin) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= cmp.Or(s.most, mostShapes) || len(text) > mostText {
		return &script{text: carryScript.text, sha: carryScript.sha, carried: text, origins: origins}
	}
	if s.all == nil {
		s.all = map[string]*script{}
	}
	sc := rawScript("#!lua\n" + text)
	sc.origins = origins
	s.all[string(shape)] = sc
	return sc
}

// shaper goes through a write once. It tells its shape from its arguments, in one order: whatever is in the text of the
// script is in the shape, everything else is an argument.
type shaper struct {
	shape  []byte
	args   []byte // packed
	told   int    // how many arguments there are
	made   int    // how many values the script works out
	prefix string // the last argument that is a prefix
	has    string // the name of that in the script, empty if there is none yet
	lua    bool   // the text is asked for, too
	text   bool   // it compares texts

	several bool // the values are in a table, see several.lua
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
	if s.several {
		return "v[" + strconv.Itoa(2+s.told) + "]" // behind the number of the shape, and the ID
	}
	return "v" + strconv.Itoa(s.told)
}

// work counts a value that the script works out, and returns how it is declared and its name.
func (s *shaper) work(name byte, i int) (declared, is string) {
	s.made++
	if !s.lua {
		return "", ""
	}
	if is = string(name) + strconv.Itoa(i); s.several {
		return "", "v." + is
	}
	return "local ", is
}

// field is a field of the document as the script has it.
func (s *shaper) field(name string) string {
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
	keep   string

	// What is sent back of the document, and the origin of each field of [docstore.Write.Return], nil for all of it.
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
	if w.Delete {
		s.say('D')
		return c
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
			declared, text := s.work('b', i)
			if s.lua {
				c.before = append(c.before, fmt.Sprintf(beforeText, declared, text, s.field(string(b))))
			}
			set(s.field(f), text)
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
		declared, sum := s.work('n', i)
		if s.lua {
			begin, reach, behind := "0", "", ""
			if starts {
				begin, reach, behind = startText, fmt.Sprintf(reachText, sum), fmt.Sprintf(behindText, sum)
			}
			c.before = append(c.before, fmt.Sprintf(addText, declared, sum, s.field(f), n, begin, reach, behind))
		}
		set(s.field(f), sum)
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
	if w.Return == nil || s.several {
		return c
	}
	s.say('>', w.Return...)
	if !s.lua {
		return c
	}
	c.origins = []origin{}
	for _, f := range w.Return {
		from := source(w, f)
		c.origins = append(c.origins, from)
		if from == fromScript {
			c.shown = append(c.shown, s.field(f))
		}
	}
	return c
}

// What a script works out of the document, before it changes anything: the text that a field had, and a counter.
const (
	beforeText = `%[1]s%[2]s = %[3]s
if %[2]s == nil then
  %[2]s = ''
else
  local is = type(%[2]s)
  damaged = damaged or not (is == 'string' and byte(%[2]s, 1, 1) ~= 255 or is == 'number' and %[2]s %% 1 ~= 0)
end
`
	addText = `%[1]s%[2]s = %[3]s
if %[2]s == nil then
  %[2]s = %[5]s
end
if type(%[2]s) ~= 'number' or %[2]s %% 1 ~= 0 or%[7]s
  %[4]s > 0 and %[2]s > MAX - %[4]s or %[4]s < 0 and %[2]s < -MAX - %[4]s then
  damaged = true
else
  %[2]s = %[2]s + %[4]s
%[6]send
`
)

// A counter that starts at the time does so above the floor, and moves that. It does not go on from below what the
// store may have forgotten, see server.lua.
const (
	startText  = "math.max(now * 1000, floor)\n  started = true"
	behindText = "\n  least and %[1]s < least or"
	reachText  = "  if %[1]s > reached then\n    reached = %[1]s\n  end\n"
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

// endsText sets the end of a document. One that is moved by each write would be a command more to store and to sync
// with each. So one that is moved goes a little farther than it must, and stays while it is not too near nor much too
// far: a document is never removed too early by that.
const endsText = `local ending, farther = now + %[1]s, (%[1]s - %[1]s %% %[2]d) / %[2]d
if ends == 0 then
  ends = ending
  call('ZADD', KEYS[2], ends, key:sub(#KEYS[1] + 2)) -- both begin alike, up to own and doc:
elseif ends < ending or ends > ending + 2 * farther then
  ends = ending + farther
  call('ZADD', KEYS[2], ends, key:sub(#KEYS[1] + 2))
end`

// noEndText leaves the end of a document as it is. One that was deleted by hand may have left one.
const noEndText = `if not listed then
  call('ZREM', KEYS[2], key:sub(#KEYS[1] + 2))
end`

// endSteps is in how many steps the end of a document moves while it is kept: one that is kept for 30 days may stay 22
// hours longer.
const endSteps = 64

// single is the text of the script of a write that is alone, and the origins of what it returns.
func single(w docstore.Write) (text string, origins []origin) {
	s := shaper{lua: true}
	c := s.write(w)
	var told strings.Builder
	for i := range s.told {
		told.WriteString(", v" + strconv.Itoa(i+1))
	}
	args, functions, index := "id"+told.String(), "", textText+indexText
	if s.text {
		functions, index = textText, indexText
	}
	applied := "return pack('applied', now, writes) .. after"
	if c.origins != nil {
		applied = "return pack(" + strings.Join(append([]string{"'applied', now, writes"}, c.shown...), ", ") + ")"
	}
	found := c.found(index, "return pack('refused', now, writes, 1) .. (stored or pack(nil))",
		"return pack('damaged', now, writes, 1) .. (stored or pack(nil)) .. pack(floor, least)")
	return program(args, "call('MGET', KEYS[1], KEYS[4])", functions, singleText+found,
		c.change()+"call('MSET', KEYS[1], own, key, after)\n"+applied), c.origins
}

// singleText is what stands before found.lua: that the key is not of another type, which MGET does not tell.
const singleText = `local key, ids, by, stored = KEYS[4], KEYS[5], KEYS[6], all[2]
if not stored then
  call('GET', key)
end
`

// several is the text of the script of writes of these shapes.
func several(of []docstore.Write) string {
	var functions []string
	for _, w := range of {
		s := shaper{lua: true, several: true}
		c := s.write(w)
		change := deleteText
		if !w.Delete {
			change = c.change() + "call('SET', key, after)\nreturn after\n"
		}
		found := c.found("", "refused[#refused + 1] = pack(i) .. (stored or pack(nil))\n  return",
			"damage = damage or pack('damaged', now, writes, i) .. (stored or pack(nil)) .. pack(floor, least)\n  return")
		functions = append(functions, "function(i, v, id, key, ids, by)\nlocal stored = call('GET', key)\ncall('ZCARD', ids)\n"+
			found+"return function()\n"+change+"end\nend")
	}
	return program("docs", "{call('GET', KEYS[1])}", textText+indexText,
		fill(severalText, "$SHAPES", strings.Join(functions, ", ")), `call('SET', KEYS[1], own)
local applied = {pack('applied', now, writes)}
for i, change in ipairs(changes) do
  applied[i + 1] = change()
end
return table.concat(applied)`)
}

// program is the text of a script, but for its first line.
func program(args, read, functions, found, change string) string {
	_, body, _ := strings.Cut(writeText, "\n\n") // without its comment
	return fill(body, "$ARGS", args, "$READ", read, "$STOP\n", stopText, "$FUNCTIONS", functions, "$FOUND\n", found,
		"$HEADROOM", strconv.Itoa(headroom), "$WROTE\n", wroteText, "$CHANGE", change)
}

// found are the statements that read a document and check everything.
func (c changes) found(index, refused, damaged string) string {
	return fill(foundText, "$COND", c.cond, "$REFUSED", refused, "$BEFORE\n", strings.Join(c.before, ""),
		"$DAMAGED", damaged, "$INDEX\n", index)
}

// change are the statements that make the document what it is after.
func (c changes) change() string {
	ends := noEndText
	if c.keep != "" {
		ends = fmt.Sprintf(endsText, c.keep, endSteps)
	}
	return fill(changeText, "$CHANGES\n", strings.Join(c.set, ""), "$ENDS", ends)
}

// fill puts texts in the place of names.
func fill(text string, names ...string) string { return strings.NewReplacer(names...).Replace(text) }
