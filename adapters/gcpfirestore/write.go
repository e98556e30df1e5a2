package gcpfirestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Write implements [docstore.Store]. Two requests if it is applied and one if it is rejected; two more each time that
// another caller changes a document in between, or that a request fails.
func (s *Store) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := docstore.ValidateWrites(writes); err != nil {
		return docstore.Result{}, err
	}
	names := make([]string, len(writes))
	for i, w := range writes {
		var err error
		if names[i], err = s.layout.document(w.Key); err != nil {
			return docstore.Result{}, fmt.Errorf("write %d: %w", i, err)
		}
	}
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return docstore.Result{}, err
	}
	defer leave()

	if s.shards > driver.DefaultDueShards && slices.ContainsFunc(writes, s.waits) {
		if err := s.announce(ctx); err != nil {
			return docstore.Result{}, err
		}
	}

	// lost is what the first Commit without a response was based on, nil if all had a response. It may have been
	// applied, and it may still arrive: at most once, and only as long as the documents are as they were.
	// (A document that was made and deleted in between looks as it was. Documents are kept longer than calls take.)
	var lost *reading
	var last error // of a Commit
	failures, began := 0, s.now()
	for try := 0; ; try++ {
		var r reading
		var before time.Time
		if err := s.retry(ctx, bounded, "read", func() error {
			before = s.now()
			r, err = s.read(bounded, names)
			return err
		}); err != nil {
			if bounded.Err() != nil && refuted(last) {
				return docstore.Result{}, s.contended(ctx, last)
			}
			return docstore.Result{}, err
		}
		e, err := evaluate(writes, names, r)
		// After a lost response, documents that are as they were may be written again, and documents that have changed
		// may be shown to the caller. All else would be a guess: a write that might be the second, a rejection that the
		// first one might overtake.
		if lost != nil && (err != nil || e.Applied != lost.same(r)) {
			return docstore.Result{}, unknown()
		}
		result := e.Result()
		result.Before = before.Sub(began)
		if err != nil || !e.Applied {
			return result, err
		}
		done, err := s.commit(bounded, writes, names, r, e)
		err = s.count(err, try > 0)
		last = telling(last, err)
		switch {
		case err == nil:
			result.Lost = stopped(r.at, done, s.now().Sub(before))
			return result, nil
		case refuted(err): // another write came first: nothing was written
			if pauses.Sleep(bounded, try) != nil {
				return docstore.Result{}, s.contended(ctx, err)
			}
		default:
			if lost == nil {
				lost = &r
			}
			if failures++; !transient(err) || failures == maxFailures || pauses.Sleep(bounded, try) != nil {
				if refuted(last) { // this request was cut off at the end of the call's time, which was lost to other writers
					return docstore.Result{}, s.contended(ctx, last)
				}
				return docstore.Result{}, s.explain(ctx, "write", last)
			}
		}
	}
}

// evaluate decides the writes from what was read.
func evaluate(writes []docstore.Write, names []string, r reading) (driver.Evaluation, error) {
	at := 0 // Evaluate asks for the document of each write, in order
	return driver.Evaluate(writes, r.at, func(docstore.Key) (docstore.Doc, error) {
		at++
		return r.doc(names[at-1]), nil
	})
}

// same reports whether every document is the version that it was.
func (r reading) same(later reading) bool {
	for name, d := range r.found {
		if !proto.Equal(d.GetUpdateTime(), later.found[name].GetUpdateTime()) {
			return false
		}
	}
	return true
}

// spread is by how much the times of the service may be further apart than the clock of the caller counted although the
// machine was not stopped: they are of different servers. The clocks of the service are some milliseconds apart at
// most; on the official emulator the largest difference of 5412 writes was half a millisecond.
const spread = 100 * time.Millisecond

// stopped is by how much longer it took from the read to the Commit than the caller's clock counted, see
// [docstore.Result].Lost: both have times of the service. It is 0 unless the machine was stopped in between, and its
// clock with it.
func stopped(read, committed time.Time, counted time.Duration) time.Duration {
	if took := committed.Sub(read); took > counted+spread {
		return took.Truncate(time.Millisecond) + time.Millisecond
	}
	return 0
}

// commit writes what was decided, on the condition that the documents are as they were read. It returns the service's
// time of that.
func (s *Store) commit(ctx context.Context, writes []docstore.Write, names []string, r reading,
	e driver.Evaluation) (time.Time, error) {
	req := &pb.CommitRequest{Database: s.layout.database, Writes: make([]*pb.Write, len(writes))}
	for i, w := range writes {
		req.Writes[i] = s.change(w, names[i], r.found[names[i]], e.After[i], e.At)
	}
	defer s.conns.Guard()()
	res, err := s.client.Commit(s.outgoing(ctx), req)
	if err != nil {
		return time.Time{}, err
	}
	s.billed.Wrote(float64(len(writes)))
	return res.GetCommitTime().AsTime(), nil
}

// change is a write as Firestore takes it: the fields that it names, the condition that the document is the version
// found (nil: none). at is what [docstore.Now] was.
func (s *Store) change(w docstore.Write, name string, found *pb.Document, after docstore.Doc, at time.Time) *pb.Write {
	if w.Delete { // its condition held, so that there is a document
		return &pb.Write{Operation: &pb.Write_Delete{Delete: name}, CurrentDocument: version(found)}
	}
	doc := &pb.Document{Name: name, Fields: make(map[string]*pb.Value, len(w.Set)+len(w.Add))}
	mask := make([]string, 0, len(w.Set)+len(w.Add)+len(w.Unset))
	for f := range w.Set {
		doc.Fields[f] = encode(after[f])
		mask = append(mask, f)
	}
	for f := range w.Add {
		doc.Fields[f] = encode(after[f])
		mask = append(mask, f)
	}
	for _, f := range s.due { // what the write does to the field it does to the other, too
		_, set := w.Set[f]
		_, add := w.Add[f]
		if !set && !add && !slices.Contains(w.Unset, f) {
			continue
		}
		mask = append(mask, dueField(f))
		if v, ok := dueText(w.Key.ID, s.shards, after[f]); ok {
			doc.Fields[dueField(f)] = v
		}
	}
	if w.Keep > 0 {
		doc.Fields[keepField] = timestamp(at.Add(w.Keep))
		mask = append(mask, keepField)
	}
	change := &pb.Write{Operation: &pb.Write_Update{Update: doc}}
	if found == nil {
		change.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: false}}
		return change
	}
	mask = append(mask, w.Unset...) // a field that is named and has no value is removed
	slices.Sort(mask)
	change.UpdateMask = &pb.DocumentMask{FieldPaths: mask}
	change.CurrentDocument = version(found)
	return change
}

// version is the condition that a document is the version found.
func version(found *pb.Document) *pb.Precondition {
	return &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: found.GetUpdateTime()}}
}

// refuted reports whether a Commit failed because a document is not as it was read, or because of other writers:
// it has changed nothing. All client libraries rest on ABORTED meaning that: they run their transactions again.
func refuted(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.AlreadyExists, codes.NotFound, codes.Aborted:
		return true
	default:
		return false
	}
}

// unknown says that a write may have been applied.
func unknown() error {
	return fmt.Errorf("%w: firestore: write: an answer was lost, and what is stored does not tell whether the write was "+
		"applied: send the request again with the same request ID", docstore.ErrUnavailable)
}
