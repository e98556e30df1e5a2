package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Write implements [docstore.Store]. However many writes there are, they are one script and one round trip.
func (s *Store) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := docstore.ValidateWrites(writes); err != nil {
		return docstore.Result{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Result{}, err
	}
	defer s.calls.End()
	keys := make([]string, 0, 2*len(writes))
	program := []string{s.now()}
	for _, w := range writes {
		keys = append(keys, s.keys.doc(w.Key), s.keys.ids(w.Key.Kind, w.Key.Tenant))
		program = appendWrite(program, w)
	}
	reply, err := s.run(ctx, writeScript, false, keys, program...)
	if err != nil {
		return docstore.Result{}, s.explain(ctx, "write to", err)
	}
	return s.result(reply, writes)
}

// appendWrite appends what write.lua wants to know of a write.
func appendWrite(program []string, w docstore.Write) []string {
	program = append(program, w.Key.ID)
	if w.If == nil {
		program = appendCond(program, docstore.All{})
	} else {
		program = appendCond(program, w.If)
	}
	program = append(program, strconv.Itoa(len(w.Set)))
	for f, v := range w.Set {
		program = append(program, f, encode(v))
	}
	program = append(program, strconv.Itoa(len(w.Add)))
	for f, n := range w.Add {
		program = append(program, f, strconv.FormatInt(n, 10))
	}
	program = append(program, strconv.Itoa(len(w.Unset)))
	return append(program, w.Unset...)
}

// appendCond appends a condition, the operator before its operands.
func appendCond(program []string, c docstore.Cond) []string {
	several := func(op string, parts []docstore.Cond) []string {
		program = append(program, op, strconv.Itoa(len(parts)))
		for _, p := range parts {
			program = appendCond(program, p)
		}
		return program
	}
	switch c := c.(type) {
	case docstore.Absent:
		return append(program, "absent")
	case docstore.Has:
		return append(program, "has", c.Field)
	case docstore.Eq:
		return append(program, "eq", c.Field, encode(c.Value))
	case docstore.LE:
		return append(program, "le", c.Field, encode(c.Value))
	case docstore.Any:
		return several("any", c)
	case docstore.All:
		return several("all", c)
	case docstore.Not:
		return appendCond(append(program, "not"), c.Cond)
	default:
		panic(fmt.Sprintf("redis: %T has passed the port's validation", c))
	}
}

// result reads the response of write.lua.
func (s *Store) result(reply []any, writes []docstore.Write) (docstore.Result, error) {
	r, damaged, err := parseResult(reply, writes)
	if err != nil {
		return docstore.Result{}, fmt.Errorf("redis: write to %s on %s: the script's answer cannot be read, the outcome is unknown: %w",
			s.keys.root, s.addr, err)
	}
	return r, damaged
}

func parseResult(reply []any, writes []docstore.Write) (r docstore.Result, damaged, err error) {
	if len(reply) < 2 {
		return r, nil, fmt.Errorf("it has %d parts", len(reply))
	}
	if r.At, err = decodeTime(reply[1]); err != nil {
		return r, nil, err
	}
	r.Docs = make([]docstore.Doc, len(writes))
	outcome, rest := reply[0], reply[2:]
	switch {
	case outcome == "applied" && len(writes) == 1 && len(rest) == 1:
		r.Applied = true
		r.Docs[0], err = decodeDoc(rest[0])
		return r, nil, err
	case outcome == "applied" && len(writes) > 1 && len(rest) == 0:
		r.Applied = true
		return r, nil, nil
	case outcome != "refused" && outcome != "damaged" || len(rest) == 0 || len(rest)%2 != 0:
		return r, nil, fmt.Errorf("%v with %d parts for %d writes", outcome, len(rest), len(writes))
	}
	for len(rest) > 0 {
		n, ok := rest[0].(int64)
		if !ok || n < 1 || n > int64(len(writes)) {
			return r, nil, fmt.Errorf("it speaks of write %v of %d", rest[0], len(writes))
		}
		i := int(n) - 1
		found, err := decodeDoc(rest[1])
		if err != nil {
			return r, nil, err
		}
		if outcome == "damaged" {
			// The reference knows what is wrong with it.
			if _, err := writes[i].Apply(found, r.At); err != nil {
				return docstore.Result{}, err, nil
			}
			return r, nil, fmt.Errorf("%s is said to be damaged, and is not", writes[i].Key)
		}
		r.Refused, r.Docs[i], rest = append(r.Refused, i), found, rest[2:]
	}
	return r, nil, nil
}
