package firestoretest

import (
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A write is one parsed and checked entry of a Commit.
type write struct {
	name, path string
	delete     bool
	fields     fields      // of an update
	masked     bool        // an update that touches only what mask names
	mask       []fieldPath // meaningful when masked
	stamped    []fieldPath // fields that take the server timestamp
	exists     *bool       // precondition
	updateTime *time.Time  // precondition
}

type fields = map[string]*pb.Value

func parseWrites(database string, in []*pb.Write) ([]*write, error) {
	if len(in) > maxWrites {
		return nil, invalid("maximum %d writes allowed per request", maxWrites)
	}
	out := make([]*write, len(in))
	for i, w := range in {
		var err error
		if out[i], err = parseWrite(database, w); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parseWrite(database string, in *pb.Write) (*write, error) {
	w := &write{}
	transforms := in.GetUpdateTransforms()
	switch op := in.GetOperation().(type) {
	case *pb.Write_Update:
		w.name = op.Update.GetName()
		var err error
		if w.fields, err = storedFields(op.Update.GetFields(), 1); err != nil {
			return nil, err
		}
	case *pb.Write_Delete:
		w.name, w.delete = op.Delete, true
		if len(transforms) > 0 {
			return nil, invalid("a delete cannot have update_transforms")
		}
	case *pb.Write_Transform:
		return nil, unimplemented("writes.transform")
	default:
		return nil, invalid("a write has no operation")
	}
	var err error
	if w.path, err = documentPath(database, w.name); err != nil {
		return nil, err
	}
	if in.GetUpdateMask() != nil {
		if w.delete {
			return nil, invalid("update_mask goes with an update only")
		}
		w.masked = true
		if w.mask, err = parseFieldPaths(in.GetUpdateMask().GetFieldPaths(), false); err != nil {
			return nil, err
		}
	}
	if len(transforms) > 500 {
		return nil, invalid("a write has %d transforms: at most 500", len(transforms))
	}
	for _, t := range transforms {
		if t.GetSetToServerValue() != pb.DocumentTransform_FieldTransform_REQUEST_TIME {
			return nil, unimplemented("writes.update_transforms other than set_to_server_value REQUEST_TIME")
		}
		paths, err := parseFieldPaths([]string{t.GetFieldPath()}, false)
		if err != nil {
			return nil, err
		}
		w.stamped = append(w.stamped, paths[0])
	}
	switch c := in.GetCurrentDocument().GetConditionType().(type) {
	case *pb.Precondition_Exists:
		w.exists = &c.Exists
	case *pb.Precondition_UpdateTime:
		if err := c.UpdateTime.CheckValid(); err != nil {
			return nil, invalid("current_document.update_time is not valid: %v", err)
		}
		if c.UpdateTime.GetNanos()%1000 != 0 {
			return nil, invalid("current_document.update_time must be in whole microseconds")
		}
		at := c.UpdateTime.AsTime()
		w.updateTime = &at
	}
	return w, nil
}

// serverTimestamp is the server's value for a request that came in at a time.
func serverTimestamp(at time.Time) time.Time { return at.Truncate(time.Millisecond) }

func (w *write) stamps() bool { return len(w.stamped) > 0 }

// check decides the precondition for the document found (nil: none).
func (w *write) check(found *pb.Document) error {
	switch {
	case w.exists != nil && *w.exists && found == nil:
		return status.Errorf(codes.NotFound, "No document to update: %s", w.name)
	case w.exists != nil && !*w.exists && found != nil:
		return status.Errorf(codes.AlreadyExists, "Document already exists: %s", w.name)
	case w.updateTime != nil:
		version := int64(0)
		if found != nil {
			version = found.GetUpdateTime().AsTime().UnixMicro()
		}
		if found == nil || version != w.updateTime.UnixMicro() {
			return status.Errorf(codes.FailedPrecondition,
				"the stored version (%d) does not match the required base version (%d)", version, w.updateTime.UnixMicro())
		}
	}
	return nil
}

// apply returns the document's fields after the write (exists is false after a delete) and the server
// timestamps that it set, in order. It does not look at the precondition.
func (w *write) apply(found *pb.Document, requestTime time.Time) (after fields, exists bool, results []*pb.Value,
	err error) {
	if w.delete {
		return nil, false, nil, nil
	}
	after = w.fields
	if w.masked {
		after = found.GetFields()
		for _, p := range w.mask {
			after = with(after, p, lookup(w.fields, p))
		}
	}
	for _, p := range w.stamped {
		stamp := &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(serverTimestamp(requestTime))}}
		after = with(after, p, stamp)
		results = append(results, stamp)
	}
	if n := documentBytes(&pb.Document{Name: w.name, Fields: after}); n > maxDocumentBytes {
		return nil, false, nil, invalid("Document %q cannot be written because its size (%d bytes) exceeds the maximum "+
			"allowed size of %d bytes.", w.name, n, maxDocumentBytes)
	}
	return after, true, results, nil
}
