package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

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
	of := s.keys.of(writes[0].Key.Tenant) // all are of one tenant
	keys := append(make([]string, 0, 2+3*len(writes)), of.ends(), of.tenants())
	for _, w := range writes {
		keys = append(keys, of.doc(w.Key), of.ids(w.Key.Kind, w.Key.Tenant), of.by(w.Key.Kind, w.Key.Tenant))
	}
	sc, program := s.program(writes)
	reply, err := s.do(ctx, "write to", sc, false, of, keys, program)
	if err != nil {
		return docstore.Result{}, err
	}
	return s.result(reply, sc, writes)
}

// program is the script of writes, with its arguments: one of its own for the shape of a single write, else that which interprets them.
func (s *Store) program(writes []docstore.Write) (sc *script, args []string) {
	if len(writes) == 1 {
		if sc, args = s.shapes.compile(writes[0]); sc != nil {
			return sc, args
		}
		args = nil
	}
	for _, w := range writes {
		args = appendWrite(args, w)
	}
	return writeScript, args
}

// appendWrite appends what write.lua wants to know of a write.
func appendWrite(program []string, w docstore.Write) []string {
	program = append(program, w.Key.ID)
	if w.If == nil {
		program = appendCond(program, docstore.All{})
	} else {
		program = appendCond(program, w.If)
	}
	if w.Delete {
		return append(program, "delete")
	}
	keep := ""
	if w.Keep > 0 {
		keep = strconv.FormatInt(w.Keep.Milliseconds(), 10)
	}
	program = append(program, keep, strconv.Itoa(len(w.Set)))
	for f, v := range w.Set {
		program = append(program, f, encode(v))
	}
	program = append(program, strconv.Itoa(len(w.Add)))
	for f, n := range w.Add {
		starts := ""
		if slices.Contains(w.StartAtNow, f) {
			starts = "1"
		}
		program = append(program, f, strconv.FormatInt(n, 10), starts)
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
func (s *Store) result(reply reply, sc *script, writes []docstore.Write) (docstore.Result, error) {
	r, damaged, err := parseResult(reply, sc, writes)
	if err != nil {
		return docstore.Result{}, s.unreadable("write to", err)
	}
	return r, damaged
}

func parseResult(reply reply, sc *script, writes []docstore.Write) (r docstore.Result, damaged, err error) {
	r.At = reply.at
	r.Docs = make([]docstore.Doc, len(writes))
	switch rest := reply.rest; {
	case reply.outcome == "applied" && sc != writeScript && writes[0].Return != nil:
		r.Applied = true
		r.Docs[0], err = returned(writes[0], r.At, rest)
		return r, nil, err
	case reply.outcome == "applied" && len(rest) == len(writes):
		r.Applied = true
		for i := range rest {
			if r.Docs[i], err = decodeDoc(rest[i]); err != nil {
				return r, nil, err
			}
		}
		return r, nil, nil
	case reply.outcome == "damaged" && len(rest) == 3:
		damaged, err = parseDamage(rest, writes, r.At)
		return docstore.Result{}, damaged, err
	case reply.outcome != "refused" || len(rest) == 0 || len(rest)%2 != 0:
		return r, nil, fmt.Errorf("%v with %d parts for %d writes", reply.outcome, len(rest), len(writes))
	}
	for rest := reply.rest; len(rest) > 0; rest = rest[2:] {
		i, found, err := parseFound(rest, len(writes))
		if err != nil {
			return r, nil, err
		}
		r.Refused, r.Docs[i] = append(r.Refused, i), found
	}
	return r, nil, nil
}

// parseFound reads the number of a write and the document that it found.
func parseFound(rest []any, writes int) (i int, found docstore.Doc, err error) {
	n, ok := rest[0].(int64)
	if !ok || n < 1 || n > int64(writes) {
		return 0, nil, fmt.Errorf("it speaks of write %v of %d", rest[0], writes)
	}
	found, err = decodeDoc(rest[1])
	return int(n) - 1, found, err
}

// parseDamage asks the reference what is wrong with a document.
func parseDamage(rest []any, writes []docstore.Write, at time.Time) (damaged, err error) {
	i, found, err := parseFound(rest, len(writes))
	if err != nil {
		return nil, err
	}
	floor, ok := whole(rest[2])
	if !ok {
		return nil, fmt.Errorf("the floor is %v", rest[2])
	}
	if _, damaged = writes[i].StartFrom(floor, found, at).Apply(found, at); damaged == nil {
		return nil, fmt.Errorf("%s is said to be damaged, and is not", writes[i].Key)
	}
	return damaged, nil
}
