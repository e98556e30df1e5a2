package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Get implements [docstore.Store]. All documents are of one instant, and one round trip.
func (s *Store) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := docstore.ValidateKeys(keys); err != nil {
		return docstore.Snapshot{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Snapshot{}, err
	}
	defer s.calls.End()
	at, docs, err := s.read(ctx, keys)
	return docstore.Snapshot{At: at, Docs: docs}, err
}

func (s *Store) read(ctx context.Context, keys []docstore.Key) (time.Time, []docstore.Doc, error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = s.keys.doc(k)
	}
	reply, err := s.run(ctx, readScript, true, names, s.now())
	if err != nil {
		return time.Time{}, nil, s.explain(ctx, "read from", err)
	}
	at, docs, err := parseDocs(reply, len(keys))
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("redis: read from %s on %s: the script's answer cannot be read: %w", s.keys.root, s.addr, err)
	}
	return at, docs, nil
}

func parseDocs(reply []any, keys int) (at time.Time, docs []docstore.Doc, err error) {
	if len(reply) != 1+keys {
		return at, nil, fmt.Errorf("it has %d parts for %d keys", len(reply), keys)
	}
	if at, err = decodeTime(reply[0]); err != nil {
		return at, nil, err
	}
	docs = make([]docstore.Doc, keys)
	for i := range docs {
		if docs[i], err = decodeDoc(reply[1+i]); err != nil {
			return at, nil, err
		}
	}
	return at, docs, nil
}

// List implements [docstore.Store]. A page is two round trips, one for the IDs and one for their documents, because a
// script must be told which keys it touches; a page without documents is one. What is on the page is decided by the
// first, what the documents hold by the second, and the page's At is that of the second.
func (s *Store) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Page{}, err
	}
	defer s.calls.End()
	low, high := lexRange(q)
	// The script returns one more, so that the last page can say that it is the last.
	reply, err := s.run(ctx, listScript, true, []string{s.keys.ids(q.Kind, q.Tenant)}, s.now(), low, high, strconv.Itoa(q.Size()+1))
	if err != nil {
		return docstore.Page{}, s.explain(ctx, "list", err)
	}
	at, keys, err := parseIDs(reply, q)
	if err != nil {
		return docstore.Page{}, fmt.Errorf("redis: list %s on %s: the script's answer cannot be read: %w", s.keys.root, s.addr, err)
	}
	page := docstore.Page{At: at}
	if n := q.Size(); len(keys) > n {
		keys = keys[:n]
		page.Next = keys[n-1].ID
	}
	if len(keys) == 0 {
		return page, nil
	}
	at, docs, err := s.read(ctx, keys)
	if err != nil {
		return docstore.Page{}, err
	}
	page.At = at
	for i, k := range keys {
		if docs[i] != nil { // it may have been deleted by hand, without its ID
			page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: docs[i]})
		}
	}
	return page, nil
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

func parseIDs(reply []any, q docstore.Query) (at time.Time, keys []docstore.Key, err error) {
	if len(reply) != 2 {
		return at, nil, fmt.Errorf("it has %d parts", len(reply))
	}
	if at, err = decodeTime(reply[0]); err != nil {
		return at, nil, err
	}
	ids, ok := reply[1].([]any)
	if !ok {
		return at, nil, fmt.Errorf("the IDs are %T", reply[1])
	}
	keys = make([]docstore.Key, len(ids))
	for i := range ids {
		id, ok := ids[i].(string)
		if !ok {
			return at, nil, fmt.Errorf("an ID is %T", ids[i])
		}
		keys[i] = docstore.Key{Kind: q.Kind, Tenant: q.Tenant, ID: id}
	}
	return at, keys, nil
}
