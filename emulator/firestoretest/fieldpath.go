package firestoretest

import (
	"maps"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// nameField is the pseudo field that means a document's name in queries.
const nameField = "__name__"

// A fieldPath leads to a field through nested maps.
type fieldPath []string

func (p fieldPath) isName() bool { return len(p) == 1 && p[0] == nameField }

func (p fieldPath) equal(o fieldPath) bool { return slices.Equal(p, o) }

// parseFieldPath reads "a.`b.c`.d": segments are identifiers, or anything between backticks with \` and \\ as escapes.
func parseFieldPath(s string) (fieldPath, error) {
	var p fieldPath
	for rest := s; ; {
		var name string
		if strings.HasPrefix(rest, "`") {
			var b strings.Builder
			i, closed := 1, false
			for ; i < len(rest) && !closed; i++ {
				switch c := rest[i]; {
				case c == '`':
					closed = true
				case c == '\\' && i+1 < len(rest):
					i++
					b.WriteByte(rest[i])
				default:
					b.WriteByte(c)
				}
			}
			if !closed {
				return nil, invalid("Invalid property path %q: a backtick is not closed", s)
			}
			name, rest = b.String(), rest[i:]
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
			if !identifier(name) {
				return nil, invalid("Invalid property path %q: %q needs backticks or is empty", s, name)
			}
		}
		if name == "" || len(name) > maxIDBytes {
			return nil, invalid("Invalid property path %q: a segment has from 1 to %d bytes", s, maxIDBytes)
		}
		p = append(p, name)
		if rest == "" {
			return p, nil
		}
		if rest[0] != '.' || len(rest) == 1 {
			return nil, invalid("Invalid property path %q: segments are separated by single dots", s)
		}
		rest = rest[1:]
	}
}

// parseFieldPaths reads the paths of a mask. The pseudo field __name__ is rejected unless named is true.
func parseFieldPaths(paths []string, named bool) ([]fieldPath, error) {
	out := make([]fieldPath, len(paths))
	for i, s := range paths {
		p, err := parseFieldPath(s)
		if err != nil {
			return nil, err
		}
		if reserved(p[0]) && (!named || !p.isName()) {
			return nil, invalid("Invalid property path %q: %q is reserved", s, p[0])
		}
		out[i] = p
	}
	return out, nil
}

func identifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// lookup returns the value at the path, nil if there is none.
func lookup(fields map[string]*pb.Value, p fieldPath) *pb.Value {
	v := fields[p[0]]
	for _, name := range p[1:] {
		m, ok := v.GetValueType().(*pb.Value_MapValue)
		if !ok {
			return nil
		}
		v = m.MapValue.GetFields()[name]
	}
	return v
}

// with returns fields with the value at the path, or without one when v is nil. It copies the maps on the way and
// leaves the input as it was, because stored documents are shared. Maps that are missing on the way are made for a
// value; a value of another type on the way gives place to one. Nothing is made in order to remove something.
func with(fields map[string]*pb.Value, p fieldPath, v *pb.Value) map[string]*pb.Value {
	if v == nil && lookup(fields, p) == nil {
		return fields
	}
	out := make(map[string]*pb.Value, len(fields)+1)
	maps.Copy(out, fields)
	switch {
	case len(p) > 1:
		inner := with(out[p[0]].GetMapValue().GetFields(), p[1:], v)
		out[p[0]] = &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: inner}}}
	case v == nil:
		delete(out, p[0])
	default:
		out[p[0]] = v
	}
	return out
}
