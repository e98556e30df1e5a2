package redisstore

import (
	"context"
	"fmt"
	"slices"
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
	keys := append(make([]string, 0, 2+3*len(writes)), of.ends, of.tenants)
	for _, w := range writes {
		keys = of.appendKeys(keys, w.Key)
	}
	sc, program := s.program(writes)
	reply, err := s.do(ctx, "write to", sc, writes, of, keys, program)
	if err != nil {
		return docstore.Result{}, err
	}
	r, err := s.result(reply, sc, writes)
	if r.Applied && !of.tracker.live.Load() {
		for _, w := range writes {
			s.signals.Changed(w.Key)
		}
	}
	return r, err
}

// program is the script of writes, with its arguments: one of its own for the shape of a single write, else that which
// interprets them.
func (s *Store) program(writes []docstore.Write) (sc *script, args []byte) {
	if len(writes) == 1 {
		if sc, args = s.shapes.compile(writes[0]); sc != nil {
			return sc, args
		}
	}
	args = appendList(nil, len(writes))
	for _, w := range writes {
		args = appendWrite(args, w)
	}
	return writeScript, args
}

// appendWrite appends what write.lua wants to know of a write.
func appendWrite(b []byte, w docstore.Write) []byte {
	parts := 7
	if w.Delete {
		parts = 3
	}
	b = appendText(appendList(b, parts), "", w.Key.ID)
	if w.If == nil {
		b = appendCond(b, docstore.All{})
	} else {
		b = appendCond(b, w.If)
	}
	if w.Until.IsZero() {
		b = appendInt(b, 0)
	} else {
		b = appendInt(b, w.Until.UnixMilli())
	}
	if w.Delete {
		return b
	}
	b = appendList(appendInt(b, w.Keep.Milliseconds()), 2*len(w.Set))
	for f, v := range w.Set {
		b = appendValue(appendText(b, "", f), v)
	}
	b = appendList(b, 3*len(w.Add))
	for f, n := range w.Add {
		b = appendBool(appendInt(appendText(b, "", f), n), slices.Contains(w.StartAtNow, f))
	}
	b = appendList(b, len(w.Unset))
	for _, f := range w.Unset {
		b = appendText(b, "", f)
	}
	return b
}

// appendCond appends a condition, the operator before its operands.
func appendCond(b []byte, c docstore.Cond) []byte {
	begin := func(op string, operands int) []byte { return appendText(appendList(b, 1+operands), "", op) }
	several := func(op string, parts []docstore.Cond) []byte {
		b = begin(op, len(parts))
		for _, p := range parts {
			b = appendCond(b, p)
		}
		return b
	}
	switch c := c.(type) {
	case docstore.Absent:
		return begin("absent", 0)
	case docstore.Has:
		return appendText(begin("has", 1), "", c.Field)
	case docstore.Eq:
		return appendValue(appendText(begin("eq", 2), "", c.Field), c.Value)
	case docstore.LE:
		return appendValue(appendText(begin("le", 2), "", c.Field), c.Value)
	case docstore.Any:
		return several("any", c)
	case docstore.All:
		return several("all", c)
	case docstore.Not:
		return appendCond(begin("not", 1), c.Cond)
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
	rest := reply.rest
	switch reply.outcome {
	case "applied":
		r.Applied = true
		if sc != writeScript && writes[0].Return != nil {
			r.Docs[0], err = sc.returned(writes[0], r.At, rest)
			return r, nil, err
		}
		for i := range writes {
			if r.Docs[i], err = rest.doc(); err != nil {
				return r, nil, err
			}
		}
		return r, nil, nil
	case "damaged":
		damaged, err = parseDamage(rest, writes, r.At)
		return docstore.Result{}, damaged, err
	case "refused":
		for rest.rest != "" {
			i, found, err := rest.found(len(writes))
			if err != nil {
				return r, nil, err
			}
			r.Refused, r.Docs[i] = append(r.Refused, i), found
		}
		if len(r.Refused) > 0 {
			return r, nil, nil
		}
	}
	return r, nil, fmt.Errorf("%q, and no more, of %d writes", reply.outcome, len(writes))
}

// found reads the number of a write and the document that it found.
func (u *unpacker) found(writes int) (i int, found docstore.Doc, err error) {
	n, err := u.number()
	if err != nil || n < 1 || n > int64(writes) {
		return 0, nil, fmt.Errorf("it speaks of write %d of %d", n, writes)
	}
	found, err = u.doc()
	return int(n) - 1, found, err
}

// parseDamage asks the reference what is wrong with a document.
func parseDamage(rest unpacker, writes []docstore.Write, at time.Time) (damaged, err error) {
	i, found, err := rest.found(len(writes))
	if err != nil {
		return nil, err
	}
	floor, err := rest.number()
	if err != nil {
		return nil, err
	}
	if _, damaged = writes[i].StartFrom(floor, found, at).Apply(found, at); damaged == nil {
		return nil, fmt.Errorf("%s is said to be damaged, and is not", writes[i].Key)
	}
	return damaged, nil
}
