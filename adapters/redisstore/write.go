package redisstore

import (
	"context"
	"fmt"
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
	sc, args := s.shapes.compile(writes)
	reply, err := s.do(ctx, "write to", sc, writes, of, keys, args)
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

// result reads the response of a write.
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
		if sc.origins != nil {
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
	if least := rest.next(); least.kind != isNil {
		if least.kind != isInt {
			return nil, errPacked
		}
		if behind := writes[i].Behind(least.n, found); behind != nil {
			return behind, nil
		}
	}
	if _, damaged = writes[i].StartFrom(floor, found, at).Apply(found, at); damaged == nil {
		return nil, fmt.Errorf("%s is said to be damaged, and is not", writes[i].Key)
	}
	return damaged, nil
}
