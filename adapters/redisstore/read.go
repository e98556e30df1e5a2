package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Get implements [docstore.Store]. All documents of a shard are of one instant, and one round trip.
func (s *Store) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := docstore.ValidateKeys(keys); err != nil {
		return docstore.Snapshot{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Snapshot{}, err
	}
	defer s.calls.End()
	snap := docstore.Snapshot{Docs: make([]docstore.Doc, len(keys))}
	for number, of := range s.keys.shards {
		var there []docstore.Key
		var places []int
		for i, k := range keys {
			if s.keys.number(k.Tenant) == number {
				there, places = append(there, k), append(places, i)
			}
		}
		if len(there) == 0 {
			continue
		}
		at, docs, err := s.read(ctx, of, there)
		if err != nil {
			return docstore.Snapshot{}, err
		}
		for i, place := range places {
			snap.Docs[place] = docs[i]
		}
		if snap.At.IsZero() || at.Before(snap.At) {
			snap.At = at
		}
	}
	return snap, nil
}

// read returns documents of one shard.
func (s *Store) read(ctx context.Context, of *shard, keys []docstore.Key) (time.Time, []docstore.Doc, error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = of.doc(k)
	}
	reply, err := s.do(ctx, "read from", readScript, nil, of, names, appendList(nil, 0))
	if err != nil {
		return time.Time{}, nil, err
	}
	docs := make([]docstore.Doc, len(keys))
	for i := range docs {
		if docs[i], err = reply.rest.doc(); err != nil {
			return time.Time{}, nil, fmt.Errorf("%w: %w", docstore.ErrDamaged, s.unreadable("read from", err))
		}
	}
	return reply.at, docs, nil
}

// readEach is [Store.read], by halves where another program has put something else in the place of a document: damaged
// are those, by their position.
func (s *Store) readEach(ctx context.Context, of *shard, keys []docstore.Key) (at time.Time, docs []docstore.Doc,
	damaged map[int]error, err error) {
	at, docs, err = s.read(ctx, of, keys)
	switch {
	case !errors.Is(err, docstore.ErrDamaged):
		return at, docs, nil, err
	case len(keys) == 1:
		return at, make([]docstore.Doc, 1), map[int]error{0: fmt.Errorf("%s: %w", keys[0], err)}, nil
	}
	damaged = map[int]error{}
	for half := range slices.Chunk(keys, (len(keys)+1)/2) {
		then, some, bad, err := s.readEach(ctx, of, half)
		if err != nil {
			return time.Time{}, nil, nil, err
		}
		for i, e := range bad {
			damaged[len(docs)+i] = e
		}
		if docs = append(docs, some...); at.IsZero() {
			at = then
		}
	}
	return at, docs, damaged, nil
}

// listedAtOnce is how many documents of a page one script reads. The server does nothing else meanwhile, so that a
// large page would keep all other callers waiting.
const listedAtOnce = 50

// List implements [docstore.Store]. A page is two round trips, one for the IDs and one for each 50 of their documents,
// because a script must be told which keys it touches; a page without documents is one. What is on the page is decided
// by the first, what the documents hold by the others, and the page's At is that of the second.
func (s *Store) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	return s.page(ctx, q)
}

func (s *Store) page(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	low, high := lexRange(q)
	of := s.keys.of(q.Tenant)
	// One more, so that the last page can say that it is the last.
	at, ids, others, err := s.ids(ctx, of, q.Kind, q.Tenant, q.Size()+1, low, high)
	if err != nil {
		return docstore.Page{}, err
	}
	next := ""
	if n := q.Size(); len(ids) > n {
		ids = ids[:n]
		next = ids[n-1]
	}
	page := docstore.Page{At: at}
	if len(ids) > 0 {
		if page, err = s.documents(ctx, of, q.Kind, q.Tenant, ids); err != nil {
			return docstore.Page{}, err
		}
	}
	page.Next = next
	if next != "" {
		others = slices.DeleteFunc(others, func(m string) bool { return m > next }) // those are of the next page
	}
	page.Damaged = appendStrange(page.Damaged, docstore.Key{Kind: q.Kind, Tenant: q.Tenant}, of.ids(q.Kind, q.Tenant),
		others)
	return page, nil
}

// ids are the IDs in a range of those of a kind and tenant, most at most. others are members that another program put
// among them and that are none: no document has them, and no page could begin behind them.
func (s *Store) ids(ctx context.Context, of *shard, kind, tenant string, most int, low, high string) (at time.Time, ids,
	others []string, err error) {
	for {
		asked := most - len(ids)
		then, members, err := s.members(ctx, of, of.ids(kind, tenant), asked, low, high)
		if err != nil {
			return time.Time{}, nil, nil, err
		}
		if at.IsZero() {
			at = then
		}
		for _, m := range members {
			if (docstore.Key{Kind: kind, Tenant: tenant, ID: m}).Validate() == nil {
				ids = append(ids, m)
			} else {
				others = append(others, m)
			}
		}
		if len(ids) == most || len(members) < asked {
			return at, ids, others, nil
		}
		low = "(" + members[len(members)-1]
	}
}

// appendStrange adds to what is damaged on a page that a set of Leasehold's own has members of another program's: one
// line for all of them.
func appendStrange(damaged []docstore.Damaged, k docstore.Key, set string, members []string) []docstore.Damaged {
	if len(members) == 0 {
		return damaged
	}
	return append(damaged, docstore.Damaged{Key: k, Err: fmt.Errorf(
		"%w: %s has %d members that another program put there, such as %.100q: they are passed by, remove them",
		docstore.ErrDamaged, set, len(members), members[0])})
}

// documents reads those of a kind and tenant with these IDs. One may have been deleted in between.
func (s *Store) documents(ctx context.Context, of *shard, kind, tenant string, ids []string) (docstore.Page, error) {
	keys := make([]docstore.Key, len(ids))
	for i, id := range ids {
		keys[i] = docstore.Key{Kind: kind, Tenant: tenant, ID: id}
	}
	var page docstore.Page
	for chunk := range slices.Chunk(keys, listedAtOnce) {
		at, docs, damaged, err := s.readEach(ctx, of, chunk)
		if err != nil {
			return docstore.Page{}, err
		}
		if page.At.IsZero() {
			page.At = at
		}
		for i, k := range chunk {
			if err := damaged[i]; err != nil {
				page.Damaged = append(page.Damaged, docstore.Damaged{Key: k, Err: err})
			} else if docs[i] != nil {
				page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: docs[i]})
			}
		}
	}
	return page, nil
}

// Walk implements [docstore.Walker]. It goes from shard to shard and from tenant to tenant, and shows the documents of
// one on each page. A page is up to four round trips, and one more for each shard that has no more.
func (s *Store) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	var after docstore.Key
	if q.After != "" {
		var err error
		if after, err = docstore.ParseKey(q.After); err != nil {
			return docstore.Page{}, err
		}
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	var end docstore.Page // if there are no more documents
	if q.After != "" {
		p, err := s.pageOf(ctx, q, after.Tenant, after.ID)
		if err != nil || p.Next != "" {
			return p, err
		}
		end.Damaged = p.Damaged
	}
	from, low := 0, "["+place(q.Kind, "")
	if q.After != "" {
		from, low = s.keys.number(after.Tenant), "("+place(q.Kind, after.Tenant)
	}
	for _, of := range s.keys.shards[from:] {
		var others []string
		for most := 1; ; most = docstore.MaxLimit {
			at, members, err := s.members(ctx, of, of.tenants, most, low, "("+place(q.Kind, "")+"\xff")
			if err != nil {
				return docstore.Page{}, err
			}
			end.At = at
			for _, m := range members {
				tenant, ok := s.keys.tenant(of, q.Kind, m)
				if !ok {
					others = append(others, m)
					continue
				}
				p, err := s.pageOf(ctx, q, tenant, "")
				switch {
				case errors.Is(err, docstore.ErrDamaged): // its IDs are none: those of other tenants are
					end.Damaged = append(end.Damaged, docstore.Damaged{Key: docstore.Key{Kind: q.Kind, Tenant: tenant}, Err: err})
				case err != nil:
					return docstore.Page{}, err
				case p.Next != "":
					p.Damaged = append(p.Damaged, appendStrange(end.Damaged, docstore.Key{Kind: q.Kind}, of.tenants, others)...)
					return p, nil
				default: // it has no documents: another program named it, or removed them
					end.Damaged = append(end.Damaged, p.Damaged...)
				}
			}
			if len(members) < most {
				break
			}
			low = "(" + members[len(members)-1]
		}
		end.Damaged = appendStrange(end.Damaged, docstore.Key{Kind: q.Kind}, of.tenants, others)
		low = "[" + place(q.Kind, "")
	}
	return end, nil
}

// pageOf returns a page of a walk within a tenant. Next is the key of the last document that it looked at, empty if
// there was none.
func (s *Store) pageOf(ctx context.Context, q docstore.WalkQuery, tenant, after string) (docstore.Page, error) {
	low, high := lexRange(docstore.Query{After: after})
	of := s.keys.of(tenant)
	at, ids, others, err := s.ids(ctx, of, q.Kind, tenant, q.Size(), low, high)
	if err != nil {
		return docstore.Page{}, err
	}
	p := docstore.Page{At: at}
	if len(ids) > 0 {
		if p, err = s.documents(ctx, of, q.Kind, tenant, ids); err != nil {
			return docstore.Page{}, err
		}
		last := ids[len(ids)-1]
		p.Next = docstore.Key{Kind: q.Kind, Tenant: tenant, ID: last}.String()
		others = slices.DeleteFunc(others, func(m string) bool { return m > last }) // those are of the next page
	}
	p.Damaged = appendStrange(p.Damaged, docstore.Key{Kind: q.Kind, Tenant: tenant}, of.ids(q.Kind, tenant), others)
	return p, nil
}

// lexRange is the range of IDs that a query asks for, as ZRANGE BYLEX has it. IDs are UTF-8, in which there is no byte
// FF: it stands above all that begins with the prefix.
func lexRange(q docstore.Query) (low, high string) {
	low, high = "-", "+"
	if q.Prefix != "" {
		low, high = "["+q.Prefix, "("+q.Prefix+"\xff"
	}
	if q.After != "" && strings.Compare(q.After, q.Prefix) >= 0 {
		low = "(" + q.After
	}
	return low, high
}

// members returns some members of a sorted set: those in a range of bytes, or without one those whose score the time
// has reached.
func (s *Store) members(ctx context.Context, of *shard, key string, most int, span ...string) (time.Time, []string,
	error) {
	args := appendInt(appendList(nil, 1+len(span)), int64(most))
	for _, bound := range span {
		args = appendText(args, "", bound)
	}
	reply, err := s.do(ctx, "list", listScript, nil, of, []string{key}, args)
	if err != nil {
		return time.Time{}, nil, err
	}
	members, err := reply.rest.list()
	if err != nil {
		return time.Time{}, nil, s.unreadable("list", err)
	}
	return reply.at, members, nil
}
