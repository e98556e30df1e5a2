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
	mostFields = 80  // that one script names: Lua's stack is limited
)

// shapes are the writes that have become scripts of their own. Rules write in few shapes, again and again: the same condition on the
// same fields, and the same fields set, with other values. A script for each knows what to read, and interprets nothing.
type shapes struct {
	mu   sync.RWMutex
	all  map[string]*script // by [shaper].shape; nil for one that is too large
	most int                // instead of mostShapes, in tests; below 0 is none
}

// compile returns the script of a write of one document, and its arguments behind those of begin.lua. There is none for a deletion, nor
// for one beyond the bounds.
func (s *shapes) compile(w docstore.Write) (sc *script, args []string) {
	if w.Delete {
		return nil, nil
	}
	var room [1024]byte
	sh := shaper{shape: room[:0], args: make([]string, 0, 40)}
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

// shaper goes through a write once. It tells its shape from its arguments, in one order: whatever is in the text of the script is in the
// shape, everything else is an argument.
type shaper struct {
	shape     []byte
	args      []string
	prefixArg int   // the number of the argument that is a prefix, 0 if there is none
	lua       *text // nil while only the shape is asked for
}

// text is what the script needs to know beside the write.
type text struct {
	fields                 map[string]int // that are read, and where HMGET returns them
	names                  []string
	now, time, whole, text bool // the functions that it uses, and the time of the write
}

// say adds to the shape: what comes, and the name of a field if there is one.
func (s *shaper) say(what byte, names ...string) {
	s.shape = append(s.shape, what)
	for _, n := range names {
		s.shape = append(append(s.shape, n...), 0)
	}
}

// arg adds an argument, and returns it as the script has it.
func (s *shaper) arg(v string) string {
	s.args = append(s.args, v)
	if s.lua == nil {
		return ""
	}
	return "ARGV[" + strconv.Itoa(len(s.args)+argsBefore) + "]"
}

// argsBefore are the arguments of begin.lua.
const argsBefore = 3

// field is a field that the script reads.
func (s *shaper) field(name string) string {
	if s.lua == nil {
		return ""
	}
	i, ok := s.lua.fields[name]
	if !ok {
		s.lua.names = append(s.lua.names, name)
		i = len(s.lua.names)
		s.lua.fields[name] = i
	}
	return "f[" + strconv.Itoa(i) + "]"
}

// join is strings.Join, but while only the shape is asked for.
func (s *shaper) join(parts ...string) string {
	if s.lua == nil {
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
		return s.arg(encode(v))
	case i == docstore.Now:
		s.say('n')
		if s.lua != nil {
			s.lua.now, s.lua.time = true, true
		}
		return "moment"
	default:
		s.say('t')
		if s.lua != nil {
			s.lua.time = true
		}
		return s.join("'s:' .. format(now + ", s.arg(strconv.FormatInt(i.Offset().Milliseconds(), 10)), ")")
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
		if len(parts) == 0 || s.lua == nil {
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
		return s.join("(not ", s.field(mark), " and call('HLEN', key) == 0)")
	case docstore.Has:
		s.say('h', c.Field)
		return s.join("(", s.field(c.Field), " ~= false)")
	case docstore.Eq:
		s.say('=', c.Field)
		return s.join("(", s.field(c.Field), " == ", s.value(c.Value), ")")
	case docstore.LE:
		s.say('<', c.Field)
		if _, number := c.Value.(docstore.Int); number {
			s.say('i')
			if s.lua != nil {
				s.lua.whole = true
			}
			return s.join("notGreater(", s.field(c.Field), ", ", s.value(c.Value), ")")
		}
		if s.lua != nil {
			s.lua.text = true
		}
		return s.join("notAfter(", s.field(c.Field), ", ", s.value(c.Value), ")")
	case docstore.Any:
		return several('|', " or ", "false", c)
	case docstore.All:
		if f, id, ok := prefixed(c); ok {
			return s.prefix(f, id)
		}
		return several('&', " and ", "true", c)
	case docstore.Not:
		s.say('!')
		return s.join("not ", s.cond(c.Cond))
	default:
		panic(fmt.Sprintf("redis: %T has passed the port's validation", c))
	}
}

// prefixed recognises the condition that a field begins with a text and has more, in the way in which rules say it: it is greater than the
// text, and not greater than the text with a ~.
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

// prefix adds the condition of prefixed. What is greater than the prefix, and not greater than it with a ~, begins with it: so that is asked
// first, and the rest seldom. Conditions on several fields have one prefix, as a rule.
func (s *shaper) prefix(field, prefix string) string {
	s.say('p', field)
	if s.prefixArg == 0 || s.args[s.prefixArg-1] != "s:"+prefix {
		s.say('v')
		s.arg("s:" + prefix)
		s.prefixArg = len(s.args)
	}
	if s.lua == nil {
		return ""
	}
	s.lua.text = true
	f, v := s.field(field), "ARGV["+strconv.Itoa(s.prefixArg+argsBefore)+"]"
	return fmt.Sprintf("(%s and %[1]s ~= %s and %[1]s:sub(1, #%[2]s) == %[2]s and notAfter(%[1]s, %[2]s .. '~'))", f, v)
}

// changes are the parts of a write as the script has them.
type changes struct {
	cond   string
	counts []string // statements that find out the counters, and what fields had
	starts bool     // a counter may start at the time
	set    []string // fields and values
	unset  []string
	there  []string // what the fields to remove hold, if they are few
	keep   string
	shown  []string // what is returned of the document; nil is all of it
}

// write adds a write.
func (s *shaper) write(w docstore.Write) (c changes) {
	var made map[string]string // fields that the script works out, and the names of its variables
	if s.lua != nil {
		made = map[string]string{}
	}
	s.arg(w.Key.ID)
	c.cond = s.cond(w.If)
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
	set := func(name, value string) {
		if s.lua != nil {
			c.set = append(c.set, name, value)
		}
	}
	for i, f := range names {
		if b, ok := w.Set[f].(docstore.Before); ok {
			s.say('B', f, string(b))
			v := s.join("b", strconv.Itoa(i))
			if s.lua != nil {
				made[f] = v
				c.counts = append(c.counts, fmt.Sprintf("local %s = %s or 's:'\ndamaged = damaged or %[1]s:sub(1, 2) ~= 's:'\n", v, s.field(string(b))))
			}
			set(s.quote(f), v)
			continue
		}
		s.say('S', f)
		set(s.quote(f), s.value(w.Set[f]))
	}
	for _, f := range rows {
		s.say('R')
		set(s.arg(f), s.value(w.Set[f]))
	}
	names = names[:0]
	for f := range w.Add {
		names = append(names, f)
	}
	slices.Sort(names)
	for i, f := range names {
		starts := slices.Contains(w.StartAtNow, f)
		s.say('A', f, strconv.FormatBool(starts))
		n := s.arg(strconv.FormatInt(w.Add[f], 10))
		if s.lua == nil {
			continue
		}
		s.lua.whole = true
		missing, then := "0", ""
		if starts {
			c.starts = true
			missing, then = "math.max(now * 1000, floor)\n  started = true", "\n  reached = math.max(reached, %[1]s)"
		}
		v := "n" + strconv.Itoa(i)
		made[f] = v
		c.counts = append(c.counts, fmt.Sprintf(`local %s, by%[1]s = %s, tonumber(%s)
if %[1]s then
  %[1]s = whole(%[1]s)
else
  %[1]s = `+missing+`
end
if not %[1]s or by%[1]s > 0 and %[1]s > MAX - by%[1]s or by%[1]s < 0 and %[1]s < -MAX - by%[1]s then
  damaged = true
else
  %[1]s = %[1]s + by%[1]s`+then+`
end
`, v, s.field(f), n))
		set(s.quote(f), "string.format('i:%.0f', "+v+")")
	}
	for _, f := range w.Unset {
		s.say('U', f)
		if s.lua != nil {
			c.unset = append(c.unset, s.quote(f))
			if len(w.Unset) <= fewUnset {
				c.there = append(c.there, s.field(f))
			}
		}
	}
	if w.Keep > 0 {
		s.say('K')
		c.keep = s.arg(strconv.FormatInt(w.Keep.Milliseconds(), 10))
	}
	if w.Return != nil {
		s.say('>')
		if s.lua != nil {
			c.shown = []string{}
		}
		for _, f := range w.Return {
			if from := source(w, f); from != given {
				s.say('r', f)
				if s.lua != nil {
					c.shown = append(c.shown, cmp.Or(made[f], s.field(f)))
				}
			}
		}
	}
	return c
}

// origin is where the value of a field comes from that is returned after a write.
type origin int

const (
	given   origin = iota // the write says it, so that nothing need be sent back: a value, a time, or none
	counted               // the script returns a number
	stored                // the script returns it in its stored form
)

// source is the origin of a field after a write.
func source(w docstore.Write, f string) origin {
	if v, set := w.Set[f]; set {
		if _, copied := v.(docstore.Before); copied {
			return stored
		}
		return given
	}
	if _, added := w.Add[f]; added {
		return counted
	}
	if slices.Contains(w.Unset, f) {
		return given
	}
	return stored
}

// returned puts together what [docstore.Write.Return] asks for, from the write, its time, and what the script returned.
func returned(w docstore.Write, at time.Time, values []any) (docstore.Doc, error) {
	doc := make(docstore.Doc, len(w.Return))
	for _, f := range w.Return {
		from := source(w, f)
		if from == given {
			if v, set := w.Set[f]; set {
				doc[f] = driver.Resolve(v, at)
			}
			continue
		}
		if len(values) == 0 {
			return nil, fmt.Errorf("the value of %s is missing", f)
		}
		switch v := values[0].(type) {
		case nil: // there is no such field
		case int64:
			doc[f] = docstore.Int(v)
		case string:
			doc[f] = decode(v)
		default:
			return nil, fmt.Errorf("the value of %s is %T", f, v)
		}
		values = values[1:]
	}
	if len(values) > 0 {
		return nil, fmt.Errorf("%d values that no field has", len(values))
	}
	return doc, nil
}

// inRow reports whether a field that is set is one of a row, such as e1 to e8: its name ends with a digit, its value is given, and nothing
// else in the write names it. Its name is an argument then, so that the row needs one script.
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
	return !names(w.If, f)
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
	if s.lua == nil {
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

// fewUnset is how many fields a write removes, at most, that are read first: mostly they are missing, and a command is saved.
const fewUnset = 2

// headroom is how far the floor is set above a counter that passes it, so that it need not follow each grant.
const headroom = "1000"

// endsText sets the end of a document. One that is moved by each write would be a command more to store and to sync with each. So one that is
// moved goes a little farther than it must, and stays while it is not too near nor much too far: a document is never removed too early by that.
const endsText = `local member, ending = %s, now + %s
local ends = listed and tonumber(call('ZSCORE', KEYS[2], member) or -1) or -1
local farther = math.floor((ending - now) / %d)
$COUNT
if ends < 0 then
  call('ZADD', KEYS[2], ending, member)
elseif ends < ending or ends > ending + 2 * farther then
  call('ZADD', KEYS[2], ending + farther, member)
end`

// endSteps is in how many steps the end of a document moves while it is kept: one that is kept for 30 days may stay 22 hours longer.
const endSteps = 64

// script is the script of a write's shape; nil if it would be too large.
func (s *shaper) script(w docstore.Write) *script {
	lua := shaper{lua: &text{fields: map[string]int{}}}
	c := lua.write(w)
	listed := lua.field(mark)
	if len(lua.lua.names) > mostFields || len(c.set) > 2*mostFields || len(c.unset) > mostFields {
		return nil
	}
	quoted := make([]string, len(lua.lua.names))
	for i, n := range lua.lua.names {
		quoted[i] = lua.quote(n)
	}
	const member = "key:sub(#KEYS[1] + 2)" // both begin alike, up to own and doc:
	parts := map[string]string{
		"FIELDS": strings.Join(quoted, ", "), "COND": c.cond, "BEFORE": strings.Join(c.counts, ""), "LISTED": listed, "INDEX": indexText, "SHOWN": ", call('HGETALL', key)",
		// That of a document that was deleted by hand.
		"ENDS":  "$COUNT\nif not listed and call('HLEN', key) == 0 then\n  call('ZREM', KEYS[2], " + member + ")\nend",
		"COUNT": "writes = call('HINCRBY', KEYS[1], 'writes', '1')",
	}
	for _, one := range []struct {
		used bool
		text string
	}{{lua.lua.time, timeText}, {lua.lua.whole, wholeText}, {lua.lua.text, textText}} {
		if one.used {
			parts["FUNCTIONS"] += one.text
		}
	}
	if lua.lua.now {
		parts["MOMENT"] = "local moment = 's:' .. format(now)"
	}
	if c.keep != "" {
		parts["ENDS"] = fmt.Sprintf(endsText, member, c.keep, endSteps)
	}
	if c.starts {
		parts["COUNTED"] = "local started, reached, floor = false, 0, tonumber(own[4] or 0)"
		parts["COUNT"] += "\nif reached > floor then\n  call('HSET', KEYS[1], 'floor', started and reached or reached + " + headroom + ")\nend"
	}
	if len(c.set) > 0 {
		parts["CHANGES"] = "call('HSET', key, " + strings.Join(c.set, ", ") + ")\n"
	}
	if len(c.unset) > 0 {
		remove := "call('HDEL', key, " + strings.Join(c.unset, ", ") + ")\n"
		if len(c.there) > 0 {
			remove = "if " + strings.Join(c.there, " or ") + " then\n  " + remove + "end\n"
		}
		parts["CHANGES"] += remove
	}
	if c.shown != nil {
		parts["SHOWN"] = strings.Join(append([]string{""}, c.shown...), ", ")
	}
	var fill []string
	parts["ENDS"] = strings.Replace(parts["ENDS"], "$COUNT", parts["COUNT"], 1)
	for _, name := range []string{"FUNCTIONS", "FIELDS", "MOMENT", "COND", "COUNTED", "BEFORE", "LISTED", "INDEX", "ENDS", "CHANGES", "SHOWN"} {
		fill = append(fill, "$"+name, parts[name])
	}
	return rawScript(strings.NewReplacer(fill...).Replace(shapeText))
}
