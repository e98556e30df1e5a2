package redisstore

import (
	"cmp"
	"context"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

var _ docstore.DueLister = (*Store)(nil)

// Due implements [docstore.DueLister]. A page is two round trips, one without documents is one. The index is made when
// a kind and field are first asked for: that reads all documents of the kind in the tenant's shard once, while writes
// go on. It is filled anew, with a first page, if writes passed it while it was filled, see [Store.fill].
//
// What another program stores in the field is found once Leasehold has written to the document, and not before.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	after, err := driver.ParseDueCursor(q.After)
	if err != nil {
		return docstore.Page{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	found, others, err := s.duePage(ctx, q, after)
	if err != nil {
		return docstore.Page{}, err
	}
	if !found.filled && q.After == "" { // later pages go on with what there is
		if err := s.fill(ctx, q); err != nil {
			return docstore.Page{}, err
		}
		var more []string
		if found, more, err = s.duePage(ctx, q, after); err != nil {
			return docstore.Page{}, err
		}
		others = append(others, more...)
	}
	page := docstore.Page{
		At: found.at, Damaged: appendStrange(nil, docstore.Key{Kind: q.Kind, Tenant: q.Tenant},
			s.keys.of(q.Tenant).by(q.Kind, q.Tenant), others),
	}
	members := found.members
	if n := q.Size(); len(members) > n {
		members = members[:n]
		page.Next = driver.DueCursor{Value: members[n-1].text, ID: members[n-1].key.ID}.String()
	}
	if len(members) == 0 {
		return page, nil
	}
	keys := make([]docstore.Key, len(members))
	for i, m := range members {
		keys[i] = m.key
	}
	at, docs, damaged, err := s.readEach(ctx, s.keys.of(q.Tenant), keys)
	if err != nil {
		return docstore.Page{}, err
	}
	page.At = at
	var stale []member
	for i, m := range members {
		if err := damaged[i]; err != nil {
			page.Damaged = append(page.Damaged, docstore.Damaged{Key: m.key, Err: err})
		} else if docs[i][q.Field] == docstore.Value(docstore.String(m.text)) {
			page.Entries = append(page.Entries, docstore.Entry{Key: m.key, Doc: docs[i]})
		} else {
			stale = append(stale, m)
		}
	}
	return page, s.tidy(ctx, q, stale)
}

// name is an index as the store keeps it.
func name(q docstore.DueQuery) string { return q.Kind + "/" + q.Field }

// member is a document in an index.
type member struct {
	key  docstore.Key
	text string // of the field, when it was put there

	entry string // the member itself
}

// dueFound is the answer of due.lua.
type dueFound struct {
	reply
	filled  bool // all writes have kept the index since it was filled
	members []member
}

// duePage is [Store.dueMembers], after what another program has put into the index was removed from it: that has no
// place at which a page could end. others is what was removed.
func (s *Store) duePage(ctx context.Context, q docstore.DueQuery, after driver.DueCursor) (found dueFound,
	others []string, err error) {
	for {
		var some []string
		if found, some, err = s.dueMembers(ctx, q, after); err != nil || len(some) == 0 {
			return found, others, err
		}
		stale := make([]member, len(some))
		for i, text := range some {
			stale[i] = member{key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: "x"}, entry: text} // no entry of this ID
		}
		if err := s.tidy(ctx, q, stale); err != nil {
			return dueFound{}, nil, err
		}
		others = append(others, some...)
	}
}

// dueMembers returns what an index has for a page, and one more; others are members that are no documents.
func (s *Store) dueMembers(ctx context.Context, q docstore.DueQuery, after driver.DueCursor) (found dueFound,
	others []string, err error) {
	of := s.keys.of(q.Tenant)
	low, high := "["+q.Field+"\x00", "("+beginning(q.Field, string(q.Bound()))+"\x02"
	if after.ID != "" {
		low = "(" + entry(q.Field, after.Value, after.ID)
	}
	args := appendInt(appendText(appendList(nil, 4), "", name(q)), int64(q.Size()+1))
	r, err := s.do(ctx, "look for due documents in", dueScript, nil, of, []string{of.by(q.Kind, q.Tenant)},
		appendText(appendText(args, "", low), "", high))
	if err != nil {
		return dueFound{}, nil, err
	}
	filled := r.rest.next()
	texts, err := r.rest.list()
	if filled.kind != isBool || err != nil {
		return dueFound{}, nil, s.unreadable("look for due documents in", errPacked)
	}
	found = dueFound{reply: r, filled: filled.n == 1}
	for _, text := range texts {
		rest, ok := strings.CutPrefix(text, q.Field+"\x00")
		value, id, separated := strings.Cut(rest, "\x00\x01")
		k := docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id}
		if !ok || !separated || k.Validate() != nil {
			others = append(others, text)
			continue
		}
		found.members = append(found.members, member{k, strings.ReplaceAll(value, "\x00\xff", "\x00"), text})
	}
	return found, others, nil
}

// beginning is how the members of an index begin whose documents have a text in the field, up to a byte that is 1.
func beginning(field, text string) string {
	return field + "\x00" + strings.ReplaceAll(text, "\x00", "\x00\xff") + "\x00"
}

// entry is a member of an index, as in index.lua.
func entry(field, text, id string) string { return beginning(field, text) + "\x01" + id }

// fill puts all documents of a kind that are in the shard of a tenant into an index. Each write keeps the index from
// before the first of them is read, unless a failover forgets that it should, or what was put there: then the next
// first page fills it again.
func (s *Store) fill(ctx context.Context, q docstore.DueQuery) error {
	begun, err := s.kept(ctx, q, nil)
	if err != nil {
		return err
	}
	if err := s.fillAll(ctx, q); err != nil {
		return err
	}
	_, err = s.kept(ctx, q, begun)
	return err
}

// kept makes writes keep an index, and returns the numbers with which it is to be called again once the index is
// filled, see kept.lua.
func (s *Store) kept(ctx context.Context, q docstore.DueQuery, begun []int64) ([]int64, error) {
	args := appendText(appendList(nil, 1+len(begun)), "", name(q))
	for _, n := range begun {
		args = appendInt(args, n)
	}
	r, err := s.do(ctx, making, keptScript, nil, s.keys.of(q.Tenant), nil, args)
	if err != nil {
		return nil, err
	}
	missed, err := r.rest.number()
	server, errServer := r.rest.number()
	if err = cmp.Or(err, errServer); err != nil {
		return nil, s.unreadable(making, err)
	}
	return []int64{missed, server}, nil
}

// making is what is done to an index, in errors.
const making = "make an index of"

// fillAll puts the documents of all tenants of the shard into an index.
func (s *Store) fillAll(ctx context.Context, q docstore.DueQuery) error {
	of := s.keys.of(q.Tenant)
	for low := "[" + place(q.Kind, ""); ; {
		_, places, err := s.members(ctx, of, of.tenants, docstore.MaxLimit, low, "("+place(q.Kind, "")+"\xff")
		if err != nil {
			return err
		}
		for _, p := range places {
			tenant, ok := s.keys.tenant(of, q.Kind, p)
			if !ok {
				continue // another program has put it there
			}
			if err := s.fillTenant(ctx, of, q, tenant); err != nil {
				return err
			}
		}
		if len(places) < docstore.MaxLimit {
			return nil
		}
		low = "(" + places[len(places)-1]
	}
}

func (s *Store) fillTenant(ctx context.Context, of *shard, q docstore.DueQuery, tenant string) error {
	for low := "-"; ; {
		_, ids, err := s.members(ctx, of, of.ids(q.Kind, tenant), docstore.MaxLimit, low, "+")
		if err != nil || len(ids) == 0 {
			return err
		}
		keys, args := []string{of.by(q.Kind, tenant)}, appendText(appendList(nil, 1+len(ids)), "", q.Field)
		for _, id := range ids {
			args = appendText(args, "", id)
			keys = append(keys, of.doc(docstore.Key{Kind: q.Kind, Tenant: tenant, ID: id}))
		}
		if _, err := s.do(ctx, making, fillScript, nil, of, keys, args); err != nil {
			return err
		}
		if len(ids) < docstore.MaxLimit {
			return nil
		}
		low = "(" + ids[len(ids)-1]
	}
}

// tidy removes from an index what is not so any more.
func (s *Store) tidy(ctx context.Context, q docstore.DueQuery, stale []member) error {
	if len(stale) == 0 {
		return nil
	}
	of := s.keys.of(q.Tenant)
	keys, args := []string{of.by(q.Kind, q.Tenant)}, appendText(appendList(nil, 1+2*len(stale)), "", q.Field)
	for _, m := range stale {
		keys = append(keys, of.doc(m.key))
		args = appendText(appendText(args, "", m.key.ID), "", m.entry)
	}
	_, err := s.do(ctx, "tidy an index of", tidyScript, nil, of, keys, args)
	return err
}
