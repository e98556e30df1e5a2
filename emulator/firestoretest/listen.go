package firestoretest

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A listener is one Listen stream.
type listener struct {
	db      *database
	stream  pb.Firestore_ListenServer
	dirty   chan struct{} // something has changed; holds one, however much did
	dropped chan error    // the stream shall end
	targets map[int32]*target
}

// A target is what a listener watches: some documents.
type target struct {
	id    int32
	paths []string
	shown map[string]*pb.Document // what the client was told last, by name
}

// Listen implements the protocol. Several changes that follow each other closely may reach the client as one; each
// snapshot is consistent.
func (s *service) Listen(stream pb.Firestore_ListenServer) error {
	first, err := stream.Recv()
	if err != nil {
		return ended(err)
	}
	db, err := s.server.database(first.GetDatabase())
	if err != nil {
		return err
	}
	l := &listener{
		db:      db,
		stream:  stream,
		dirty:   make(chan struct{}, 1),
		dropped: make(chan error, 1),
		targets: make(map[int32]*target),
	}
	db.register(l)
	defer db.unregister(l)
	requests, failed := make(chan *pb.ListenRequest), make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- req:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for req := first; ; {
		if err := l.handle(req); err != nil {
			return err
		}
		req = nil
		for req == nil {
			select {
			case req = <-requests:
			case <-l.dirty:
				if err := l.refresh(); err != nil {
					return err
				}
			case err := <-l.dropped:
				return err
			case err := <-failed:
				return ended(err)
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			}
		}
	}
}

// ended makes the end of a stream that the client has closed a good one.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (db *database) register(l *listener) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.listeners[l] = struct{}{}
}

func (db *database) unregister(l *listener) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.listeners, l)
}

func (db *database) dropListeners(err error) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	for l := range db.listeners {
		select {
		case l.dropped <- err:
		default: // it is about to end already
		}
	}
	return len(db.listeners)
}

func (l *listener) handle(req *pb.ListenRequest) error {
	if req.GetDatabase() != l.db.name {
		return invalid("the database of a Listen stream cannot change from %q to %q", l.db.name, req.GetDatabase())
	}
	if len(req.GetLabels()) > 0 {
		return unimplemented("labels")
	}
	switch change := req.GetTargetChange().(type) {
	case *pb.ListenRequest_AddTarget:
		return l.add(change.AddTarget)
	case *pb.ListenRequest_RemoveTarget:
		return unimplemented("remove_target")
	default:
		return invalid("a ListenRequest has neither add_target nor remove_target")
	}
}

// add begins to watch a target: its present state, then CURRENT, then a snapshot.
func (l *listener) add(in *pb.Target) error {
	t, err := l.parse(in)
	if err != nil {
		return l.send(&pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: &pb.TargetChange{
			TargetChangeType: pb.TargetChange_REMOVE,
			TargetIds:        []int32{in.GetTargetId()},
			Cause:            status.Convert(err).Proto(),
		}}})
	}
	l.targets[t.id] = t
	out := []*pb.ListenResponse{targetChange(pb.TargetChange_ADD, t.id)}
	at, changes, err := l.start(t, in)
	if err != nil {
		return err
	}
	out = append(out, changes...)
	current := targetChange(pb.TargetChange_CURRENT, t.id)
	current.GetTargetChange().ReadTime = timestamppb.New(at)
	current.GetTargetChange().ResumeToken = resumeToken(at)
	return l.send(append(out, current, snapshot(at))...)
}

func (l *listener) parse(in *pb.Target) (*target, error) {
	t := &target{id: in.GetTargetId()}
	switch {
	case t.id <= 0:
		return nil, unimplemented("add_target.target_id without a positive number")
	case l.targets[t.id] != nil:
		return nil, invalid("target_id %d is in use on this stream", t.id)
	case in.GetOnce():
		return nil, unimplemented("add_target.once")
	}
	switch what := in.GetTargetType().(type) {
	case *pb.Target_Documents:
		for _, name := range what.Documents.GetDocuments() {
			path, err := documentPath(l.db.name, name)
			if err != nil {
				return nil, err
			}
			t.paths = append(t.paths, path)
		}
		if len(t.paths) == 0 {
			return nil, invalid("add_target.documents is empty")
		}
	case *pb.Target_Query:
		return nil, unimplemented("add_target.query")
	default:
		return nil, invalid("add_target has neither query nor documents")
	}
	return t, nil
}

// start computes the first messages about a target's documents: all of them. A client that wants to resume from an
// earlier point is told to forget what it has.
func (l *listener) start(t *target, in *pb.Target) (time.Time, []*pb.ListenResponse, error) {
	l.db.mu.Lock()
	defer l.db.mu.Unlock()
	var out []*pb.ListenResponse
	if in.GetResumeType() != nil {
		out = append(out, targetChange(pb.TargetChange_RESET, t.id))
	}
	at := l.db.clock.read()
	docs, err := t.find(view{db: l.db})
	if err != nil {
		return time.Time{}, nil, err
	}
	for _, path := range t.paths {
		if l.db.current(path) == nil {
			out = append(out, deleted(l.db.documentName(path), t.id, at))
		}
	}
	return at, append(out, l.differences(t, docs, at)...), nil
}

func (t *target) find(v view) ([]*pb.Document, error) {
	var out []*pb.Document
	for _, path := range t.paths {
		doc, err := v.document(path)
		if err != nil {
			return nil, err
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
	return out, nil
}

func (t *target) know(docs []*pb.Document) {
	t.shown = make(map[string]*pb.Document, len(docs))
	for _, doc := range docs {
		t.shown[doc.GetName()] = doc
	}
}

// differences returns the messages that lead from what the client knows to docs.
func (l *listener) differences(t *target, docs []*pb.Document, at time.Time) []*pb.ListenResponse {
	var out []*pb.ListenResponse
	before := t.shown
	t.know(docs)
	for name := range before {
		if t.shown[name] != nil {
			continue
		}
		out = append(out, deleted(name, t.id, at))
	}
	for _, doc := range docs {
		if old := before[doc.GetName()]; old != nil && sameTime(old.GetUpdateTime(), doc.GetUpdateTime()) {
			continue
		}
		out = append(
			out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentChange{DocumentChange: &pb.DocumentChange{
				Document: doc, TargetIds: []int32{t.id},
			}}})
	}
	return out
}

// refresh tells the client what has changed, if anything did that it watches, and ends with one snapshot.
func (l *listener) refresh() error {
	at, out, err := l.changes()
	if err != nil || len(out) == 0 {
		return err
	}
	return l.send(append(out, snapshot(at))...)
}

func (l *listener) changes() (time.Time, []*pb.ListenResponse, error) {
	l.db.mu.Lock()
	defer l.db.mu.Unlock()
	at := l.db.clock.read()
	var out []*pb.ListenResponse
	for _, t := range l.targets {
		docs, err := t.find(view{db: l.db})
		if err != nil {
			return at, nil, err
		}
		out = append(out, l.differences(t, docs, at)...)
	}
	return at, out, nil
}

func (l *listener) send(messages ...*pb.ListenResponse) error {
	for _, m := range messages {
		if err := l.stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func targetChange(kind pb.TargetChange_TargetChangeType, id int32) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: &pb.TargetChange{
		TargetChangeType: kind, TargetIds: []int32{id},
	}}}
}

// snapshot says that all targets are consistent at a time.
func snapshot(at time.Time) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: &pb.TargetChange{
		TargetChangeType: pb.TargetChange_NO_CHANGE, ReadTime: timestamppb.New(at), ResumeToken: resumeToken(at),
	}}}
}

func deleted(name string, id int32, at time.Time) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentDelete{DocumentDelete: &pb.DocumentDelete{
		Document: name, RemovedTargetIds: []int32{id}, ReadTime: timestamppb.New(at),
	}}}
}

func resumeToken(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
}
