package firestoretest

import (
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A selector is how a request wants its reads to fit together. At most one of its parts is set; none means the
// present.
type selector struct {
	token    []byte                 // in this transaction
	readTime *timestamppb.Timestamp // at this time
}

// A reading is what a read found.
type reading struct {
	docs []*pb.Document // of the paths, in order, nil for missing; or of the query
	at   time.Time
}

// read reads documents by their paths, or runs a query, which is in no transaction. A transaction remembers what it
// read: a pessimistic one holds it from then on.
func (db *database) read(s selector, paths []string, q *query) (reading, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	tx, v, err := db.resolve(s)
	if err != nil {
		return reading{}, err
	}
	r := reading{at: v.at}
	if r.at.IsZero() {
		r.at = db.clock.read()
	}
	if q != nil {
		r.docs, err = q.run(v)
		return r, err
	}
	if r.docs, err = v.documents(paths); tx == nil {
		return r, err
	}
	if err != nil {
		return r, errContention // its documents changed too often to still know the snapshot
	}
	for _, path := range paths {
		tx.reads[path] = struct{}{}
	}
	return r, nil
}

// resolve returns the transaction (nil: none) and the view that a selector asks for.
func (db *database) resolve(s selector) (*transaction, view, error) {
	v := view{db: db}
	switch {
	case len(s.token) > 0:
		tx, err := db.transaction(s.token)
		if err != nil {
			return nil, v, err
		}
		if tx.at.IsZero() && tx.mode == Optimistic {
			tx.at = db.clock.read()
		}
		v.at = tx.at
		return tx, v, nil
	case s.readTime != nil:
		var err error
		v.at, err = db.readTime(s.readTime)
		return nil, v, err
	default:
		return nil, v, nil
	}
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
