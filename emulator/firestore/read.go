package firestore

import (
	"context"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A selector is how a request wants its reads to fit together. At most one of its parts is set; none stands for the
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

// read reads documents by their paths, or a query. In a pessimistic transaction it locks them, which may take a while.
func (db *database) read(ctx context.Context, s selector, paths []string, q *query) (reading, error) {
	r, out, err := db.startRead(ctx, s, paths, q)
	if err != nil {
		return reading{}, err
	}
	if err = db.await(ctx, r); err == nil {
		err = out.err
	}
	if err != nil && s.begin != nil {
		db.abandon(out.begun) // nobody will hear of it
	}
	if err != nil {
		return reading{}, err
	}
	return out.reading, nil
}

// abandon ends a transaction that may be open.
func (db *database) abandon(token []byte) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if tx, err := db.transaction(token); err == nil {
		db.end(tx)
		db.wake()
	}
}

type readOutcome struct {
	reading
	err error
}

func (db *database) startRead(ctx context.Context, s selector, paths []string, q *query) (*request, *readOutcome, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	out := &readOutcome{}
	tx, v, err := db.resolve(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if s.begin != nil {
		out.begun = tx.token()
	}
	r := &request{run: func() { out.err = db.runRead(out, tx, v, paths, q) }}
	if tx != nil && tx.locking() {
		r.tx, r.paths, r.query = tx, paths, q
	}
	db.start(r)
	return r, out, nil
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

func (db *database) runRead(out *readOutcome, tx *transaction, v view, paths []string, q *query) error {
	out.at = v.at
	if out.at.IsZero() {
		out.at = db.clock.read()
	}
	var err error
	if q != nil {
		out.docs, out.skipped, err = q.run(v)
	} else {
		out.docs, err = v.documents(paths)
	}
	if err != nil {
		if tx != nil && !tx.readOnly {
			return errContention // its documents changed too often to still know the snapshot
		}
		return err
	}
	if tx == nil || tx.readOnly {
		return nil
	}
	for _, path := range paths {
		tx.reads[path] = struct{}{}
	}
	if q != nil {
		tx.queries = append(tx.queries, queryRead{q, out.docs})
		for _, doc := range out.docs {
			tx.reads[strings.TrimPrefix(doc.GetName(), db.documentName(""))] = struct{}{}
		}
	}
	return nil
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
