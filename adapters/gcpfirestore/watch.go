package gcpfirestore

import (
	"context"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// listenPauses are between two streams of one watch.
var listenPauses = backoff.Policy{First: time.Second, Max: 30 * time.Second, EqualJitter: true}

// Watch implements [docstore.Watcher] by a stream of the service: one for each watch, begun again when it ends.
// Firestore bills a read when the stream begins and for each change that it tells.
func (s *Store) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	if err := k.Validate(); err != nil {
		return docstore.Watch{}, err
	}
	name, err := s.layout.document(k)
	if err != nil {
		return docstore.Watch{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Watch{}, err
	}
	defer s.calls.End()
	changed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.life, cancel)
	s.watching.Go(func() {
		defer cancel()
		defer unlink()
		s.watch(ctx, name, func() {
			select {
			case changed <- struct{}{}:
			default: // it has an entry
			}
		})
	})
	return docstore.Watch{Changed: changed, Complete: func() bool { return true }}, nil
}

// watch listens until the context ends. What cannot be listened to can perhaps be read, so no error ends it.
func (s *Store) watch(ctx context.Context, name string, signal func()) {
	for failures := 0; ; failures++ {
		begun := false
		_ = s.listen(ctx, name, func() {
			begun = true
			signal()
		})
		if begun {
			failures = 0
		}
		if listenPauses.Sleep(ctx, failures) != nil {
			return
		}
	}
}

// listen listens on one stream. Each snapshot is one signal, also the first one, which says what the document is now.
func (s *Store) listen(ctx context.Context, name string, signal func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := s.conns.Guard() // until it answers
	defer stop()
	stream, err := s.client.Listen(s.outgoing(ctx))
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.ListenRequest{Database: s.layout.database,
		TargetChange: &pb.ListenRequest_AddTarget{AddTarget: &pb.Target{
			TargetId: 1, TargetType: &pb.Target_Documents{Documents: &pb.Target_DocumentsTarget{Documents: []string{name}}},
		}}}); err != nil {
		return err
	}
	for current, pending := false, true; ; {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		stop()
		switch r := r.GetResponseType().(type) {
		case *pb.ListenResponse_DocumentChange, *pb.ListenResponse_DocumentDelete, *pb.ListenResponse_DocumentRemove:
			s.billed.Read(1)
			pending = true
		case *pb.ListenResponse_TargetChange:
			switch c := r.TargetChange; c.GetTargetChangeType() {
			case pb.TargetChange_REMOVE:
				return status.ErrorProto(c.GetCause())
			case pb.TargetChange_CURRENT:
				current = true
			case pb.TargetChange_RESET:
				current, pending = false, true
			case pb.TargetChange_ADD: // it listens
			case pb.TargetChange_NO_CHANGE: // a snapshot, if it is about all targets
				if current && pending && len(c.GetTargetIds()) == 0 && c.GetReadTime() != nil {
					pending = false
					signal()
				}
			}
		}
	}
}
