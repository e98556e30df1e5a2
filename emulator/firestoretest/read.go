package firestoretest

import (
	"cmp"
	"context"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A selector is how a request wants its reads to fit together. At most one of its parts is set; none means the
// present.
type selector struct {
	token    []byte                 // in this transaction
	begin    *pb.TransactionOptions // in a new one
	readTime *timestamppb.Timestamp // at this time
}

// A reading is what a read found.
type reading struct {
	docs    []*pb.Document // of the paths, in order, nil for missing; or of the query
	skipped int            // documents that the query's offset left out
	at      time.Time
	begun   []byte // the transaction that the selector asked for
}

// read reads documents by their paths, or a query, which may have to wait. A pessimistic transaction holds them from
// then on.
func (db *database) read(ctx context.Context, s selector, paths []string, q *query) (reading, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	tx, v, err := db.resolve(ctx, s)
	if err != nil {
		return reading{}, err
	}
	var r reading
	if q != nil && tx != nil && tx.locking() {
		wait := &request{tx: tx, query: q, run: func() { r, err = db.runRead(tx, v, paths, q) }}
		db.start(wait)
		db.mu.Unlock()
		refused := db.await(ctx, wait)
		db.mu.Lock()
		err = cmp.Or(refused, err)
	} else {
		r, err = db.runRead(tx, v, paths, q)
	}
	switch {
	case s.begin == nil:
	case err != nil:
		db.end(tx) // no client knows of it
		db.wake()
	default:
		r.begun = tx.token()
	}
	return r, err
}

// resolve returns the transaction (nil: none) and the view that a selector asks for.
func (db *database) resolve(ctx context.Context, s selector) (*transaction, view, error) {
	v := view{db: db}
	var tx *transaction
	var err error
	switch {
	case s.begin != nil:
		tx, err = db.begin(s.begin)
	case len(s.token) > 0:
		tx, err = db.transaction(s.token)
	case s.readTime != nil:
		v.at, err = db.readTime(s.readTime)
	default:
		if by := staleness(ctx); by > 0 {
			if v.at = db.clock.read().Add(-by); v.at.Before(db.floor) {
				v.at = db.floor
			}
		}
	}
	if err != nil || tx == nil {
		return nil, v, err
	}
	if tx.at.IsZero() && tx.mode == Optimistic {
		tx.at = db.clock.read()
	}
	v.at = tx.at
	return tx, v, nil
}

func (db *database) runRead(tx *transaction, v view, paths []string, q *query) (reading, error) {
	r := reading{at: v.at}
	if r.at.IsZero() {
		r.at = db.clock.read()
	}
	var err error
	if q != nil {
		r.docs, r.skipped, err = q.run(v)
	} else {
		r.docs, err = v.documents(paths)
	}
	if tx == nil || tx.readOnly {
		return r, err
	}
	if err != nil {
		return r, errContention // its documents changed too often to still know the snapshot
	}
	for _, path := range paths {
		tx.reads[path] = struct{}{}
	}
	if q != nil {
		tx.queries = append(tx.queries, queryRead{q, r.docs})
		for _, doc := range r.docs {
			tx.reads[strings.TrimPrefix(doc.GetName(), db.documentName(""))] = struct{}{}
		}
	}
	return r, nil
}

func (v view) documents(paths []string) ([]*pb.Document, error) {
	docs := make([]*pb.Document, len(paths))
	for i, path := range paths {
		var err error
		if docs[i], err = v.document(path); err != nil {
			return nil, err
		}
	}
	return docs, nil
}
