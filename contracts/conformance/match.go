package conformance

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// memory is what the patterns of a run have remembered, by name.
type memory map[string]string

// matcher compares values with patterns.
type matcher struct {
	known  memory
	of     request // whose body it is
	strict bool    // members that the pattern does not have must be absent, or empty
	ends   *span   // of a body: the time in which a request that grants something may end; nil for another request
}

// span is an interval of time, its bounds included.
type span struct{ from, to time.Time }

// holds reports whether a value is a time of the interval, in RFC 3339.
func (s span) holds(v any) bool {
	text, _ := v.(string)
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && !at.Before(s.from) && !at.After(s.to)
}

// String is the interval for people.
func (s span) String() string {
	return "from " + s.from.Format(contracts.TimeFormat) + " to " + s.to.Format(contracts.TimeFormat)
}

// decode reads JSON, and keeps numbers as they are.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// match returns how a value differs from a pattern: nothing if it does not. at is where it is. present is false for a
// member that is missing.
func (m matcher) match(at string, pattern, got any, present bool) (differs []string) {
	if p, ok := pattern.(string); ok && (strings.HasPrefix(p, "$") || strings.HasPrefix(p, "@")) {
		return m.special(at, p, got, present)
	}
	if !present {
		if empty(pattern) {
			return nil
		}
		return []string{fmt.Sprintf("%s is missing, want %s", at, show(pattern))}
	}
	switch p := pattern.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %s, want an object", at, show(got))}
		}
		return m.members(at, p, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(p) {
			return []string{fmt.Sprintf("%s is %s, want %s", at, show(got), show(pattern))}
		}
		for i := range p {
			differs = append(differs, m.match(fmt.Sprintf("%s[%d]", at, i), p[i], g[i], true)...)
		}
		return differs
	default:
		if show(pattern) != show(got) {
			return []string{fmt.Sprintf("%s is %s, want %s", at, show(got), show(pattern))}
		}
		return nil
	}
}

func (m matcher) members(at string, p, g map[string]any) (differs []string) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		v, present := g[name]
		differs = append(differs, m.match(at+"."+name, p[name], v, present)...)
	}
	if !m.strict {
		return differs
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if _, asked := p[name]; asked || empty(g[name]) {
			continue
		}
		want := "none"
		if at == "body" && isEnd(name) && m.ends != nil {
			if m.ends.holds(g[name]) {
				continue
			}
			want = "a time " + m.ends.String()
		}
		differs = append(differs, fmt.Sprintf("%s.%s is %s, want %s", at, name, show(g[name]), want))
	}
	return differs
}

// isEnd reports whether a member of a request is its end.
func isEnd(name string) bool { return name == "not_after" || name == "notAfter" }

// special matches a pattern that begins with "$" or "@".
func (m matcher) special(at, p string, got any, present bool) []string {
	text, isText := got.(string)
	name, arg, _ := strings.Cut(p, ":")
	low, high, isRange := strings.Cut(strings.TrimPrefix(p, "$"), "..")
	var ok bool
	switch {
	case p == "$maybe":
		ok = true
	case !present:
		return []string{at + " is missing, want " + p}
	case p == "$any":
		ok = !empty(got)
	case name == "$new":
		for k, v := range m.known {
			if v == text {
				return []string{fmt.Sprintf("%s is %q again, which is %q: want another", at, text, k)}
			}
		}
		if ok = isText && text != ""; ok {
			m.known[arg] = text
		}
	case name == "$same":
		ok = isText && text == m.known[arg]
		if !ok {
			return []string{fmt.Sprintf("%s is %s, want %q as before", at, show(got), m.known[arg])}
		}
	case name == "$signature": // of the release of a machine ID
		id := m.of.path[strings.LastIndex(m.of.path, "/")+1:]
		mac := hmac.New(sha256.New, []byte(arg))
		_, _ = fmt.Fprintf(mac, "%s:%v", id, m.of.body["timestamp"])
		if want := hex.EncodeToString(mac.Sum(nil)); text != want {
			return []string{fmt.Sprintf("%s is %s, want %q: the HMAC-SHA256 of id:timestamp under the lease's secret", at,
				show(got), want)}
		}
		ok = true
	case strings.HasPrefix(p, "@") && isRange:
		from, err1 := after(strings.TrimPrefix(low, "@"))
		to, err2 := after(high)
		if err := errors.Join(err1, err2); err != nil {
			return []string{err.Error()}
		}
		within := span{from, to}
		p, ok = "a time "+within.String(), within.holds(got)
	case strings.HasPrefix(p, "@"), name == "$ms":
		want, err := expand(p, "")
		if err != nil {
			return []string{err.Error()}
		}
		return m.match(at, want, got, present)
	case isRange:
		ok = between(low, high, got)
	default:
		return []string{fmt.Sprintf("%s: the script has the pattern %q, which there is not", at, p)}
	}
	if !ok {
		return []string{fmt.Sprintf("%s is %s, want %s", at, show(got), p)}
	}
	return nil
}

func between(low, high string, got any) bool {
	n, isNumber := got.(json.Number)
	l, err1 := strconv.ParseFloat(low, 64)
	h, err2 := strconv.ParseFloat(high, 64)
	f, err3 := n.Float64()
	return isNumber && err1 == nil && err2 == nil && err3 == nil && f >= l && f <= h
}

// empty reports whether a value says as much as none.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// expand makes the values of an answer: "@30" is the time 30 s after the start, "$ms:30" the same as a number of Unix
// milliseconds, and "$base" the run's base URL.
func expand(v any, base string) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for k, m := range v {
			if all[k], err = expand(m, base); err != nil {
				return nil, err
			}
		}
		return all, nil
	case []any:
		all := make([]any, len(v))
		for i, m := range v {
			if all[i], err = expand(m, base); err != nil {
				return nil, err
			}
		}
		return all, nil
	case string:
		if s, ok := strings.CutPrefix(v, "@"); ok {
			at, err := after(s)
			return at.Format(contracts.TimeFormat), err
		}
		if s, ok := strings.CutPrefix(v, "$ms:"); ok {
			at, err := after(s)
			return json.Number(strconv.FormatInt(at.UnixMilli(), 10)), err
		}
		return strings.ReplaceAll(v, "$base", base), nil
	}
	return v, nil
}

func after(seconds string) (time.Time, error) {
	f, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q are no seconds", seconds)
	}
	return Start.Add(time.Duration(f * float64(time.Second))), nil
}
