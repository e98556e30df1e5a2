package firestoretest

import (
	"context"
	"encoding/binary"
	"strconv"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Write implements the protocol: the stream over which the client libraries for devices and the web write. The first
// request opens it, each further one is a commit of its own. A commit that fails ends the stream with its error, which
// those libraries hand to the caller; then they open another.
func (s *service) Write(stream pb.Firestore_WriteServer) error {
	open, err := stream.Recv()
	if err != nil {
		return ended(err)
	}
	db, err := s.server.database(open.GetDatabase())
	switch {
	case err != nil:
		return err
	case open.GetStreamId() != "" || len(open.GetStreamToken()) > 0:
		return unimplemented("stream_id or stream_token of a stream that is resumed")
	case len(open.GetWrites()) > 0:
		return invalid("The first request of a Write stream must not have writes.")
	}
	id := strconv.FormatUint(s.server.lastStream.Add(1), 10)
	for n, req := uint64(0), open; ; n++ {
		res := &pb.WriteResponse{StreamToken: binary.BigEndian.AppendUint64(nil, n)}
		if req == open {
			res.StreamId = id
		} else {
			done, err := s.streamed(stream.Context(), db, req, n)
			if err != nil {
				return err
			}
			res.WriteResults, res.CommitTime = done.results, timestamppb.New(done.at)
		}
		if err := stream.Send(res); err != nil {
			return err
		}
		if req, err = stream.Recv(); err != nil {
			return ended(err)
		}
	}
}

// streamed applies the writes of one request of a stream, the one after the response n-1.
func (s *service) streamed(ctx context.Context, db *database, req *pb.WriteRequest, n uint64) (committed, error) {
	switch token := req.GetStreamToken(); {
	case req.GetDatabase() != "" && req.GetDatabase() != db.name:
		return committed{}, invalid("the database of a Write stream cannot change from %q to %q", db.name, req.GetDatabase())
	case len(req.GetLabels()) > 0:
		return committed{}, unimplemented("labels")
	case len(token) != 8 || binary.BigEndian.Uint64(token) >= n:
		return committed{}, invalid("stream_token is not one that this stream has sent")
	}
	return s.write(ctx, db, req.GetWrites(), nil)
}

// write is a Commit.
func (s *service) write(ctx context.Context, db *database, in []*pb.Write, token []byte) (committed, error) {
	writes, err := parseWrites(db.name, in)
	if err != nil {
		return committed{}, err
	}
	done, err := db.commit(ctx, writes, token)
	if err == nil {
		db.afterStamp(ctx, done)
	}
	return done, err
}

func notSupported(method string) error {
	return status.Errorf(codes.Unimplemented, "the method %s is not supported by this emulator", method)
}

// PartitionQuery rejects the request by name.
func (*service) PartitionQuery(context.Context, *pb.PartitionQueryRequest) (*pb.PartitionQueryResponse, error) {
	return nil, notSupported("PartitionQuery")
}

// ExecutePipeline rejects the request by name.
func (*service) ExecutePipeline(*pb.ExecutePipelineRequest, pb.Firestore_ExecutePipelineServer) error {
	return notSupported("ExecutePipeline")
}
