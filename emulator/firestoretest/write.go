package firestoretest

import (
	"math"
	"slices"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A write is one parsed and checked entry of a Commit or BatchWrite.
type write struct {
	name, path string
	delete     bool
	keep       bool        // the operation names no fields of its own: it only transforms
	fields     fields      // of an update
	masked     bool        // an update that touches only what mask names
	mask       []fieldPath // meaningful when masked
	transforms []transform
	exists     *bool      // precondition
	updateTime *time.Time // precondition
}

type fields = map[string]*pb.Value

// A transform computes a field's new value from its old one (nil: none), and what the response tells about it.
type transform struct {
	path  fieldPath
	stamp bool // it writes the server timestamp
	apply func(old *pb.Value, requestTime time.Time) (now, result *pb.Value)
}

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
		w.name, w.keep = op.Transform.GetDocument(), true
		if len(transforms) > 0 {
			return nil, invalid("a transform cannot have update_transforms")
		}
		transforms = op.Transform.GetFieldTransforms()
	default:
		return nil, invalid("a write has no operation")
	}
	var err error
	if w.path, err = documentPath(database, w.name); err != nil {
		return nil, err
	}
	if in.GetUpdateMask() != nil {
		if w.delete || w.keep {
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
		parsed, err := parseTransform(t)
		if err != nil {
			return nil, err
		}
		w.transforms = append(w.transforms, parsed)
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

func (w *write) stamps() bool {
	return slices.ContainsFunc(w.transforms, func(t transform) bool { return t.stamp })
}

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

// apply returns the document's fields after the write (exists is false after a delete) and the results of its
// transforms, in order. It does not look at the precondition.
func (w *write) apply(found *pb.Document, requestTime time.Time) (after fields, exists bool, results []*pb.Value, err error) {
	if w.delete {
		return nil, false, nil, nil
	}
	switch {
	case w.keep:
		after = found.GetFields()
	case w.masked:
		after = found.GetFields()
		for _, p := range w.mask {
			after = with(after, p, lookup(w.fields, p))
		}
	default:
		after = w.fields
	}
	for _, t := range w.transforms {
		now, result := t.apply(lookup(after, t.path), requestTime)
		after = with(after, t.path, now)
		results = append(results, result)
	}
	if n := documentBytes(&pb.Document{Name: w.name, Fields: after}); n > maxDocumentBytes {
		return nil, false, nil, invalid("Document %q cannot be written because its size (%d bytes) exceeds the maximum "+
			"allowed size of %d bytes.", w.name, n, maxDocumentBytes)
	}
	return after, true, results, nil
}

func parseTransform(in *pb.DocumentTransform_FieldTransform) (transform, error) {
	paths, err := parseFieldPaths([]string{in.GetFieldPath()}, false)
	if err != nil {
		return transform{}, err
	}
	t := transform{path: paths[0]}
	switch op := in.GetTransformType().(type) {
	case *pb.DocumentTransform_FieldTransform_SetToServerValue:
		if op.SetToServerValue != pb.DocumentTransform_FieldTransform_REQUEST_TIME {
			return t, invalid("transform of %s: set_to_server_value %v is not REQUEST_TIME", in.GetFieldPath(), op.SetToServerValue)
		}
		t.stamp = true
		t.apply = func(_ *pb.Value, at time.Time) (*pb.Value, *pb.Value) {
			v := &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(serverTimestamp(at))}}
			return v, v
		}
	case *pb.DocumentTransform_FieldTransform_Increment:
		t.apply, err = numeric(op.Increment, add)
	case *pb.DocumentTransform_FieldTransform_Maximum:
		t.apply, err = numeric(op.Maximum, func(old, operand *pb.Value) *pb.Value { return extreme(old, operand, 1) })
	case *pb.DocumentTransform_FieldTransform_Minimum:
		t.apply, err = numeric(op.Minimum, func(old, operand *pb.Value) *pb.Value { return extreme(old, operand, -1) })
	case *pb.DocumentTransform_FieldTransform_AppendMissingElements:
		t.apply, err = elements(op.AppendMissingElements, func(old, operand []*pb.Value) []*pb.Value {
			for _, e := range operand {
				if !contains(old, e) {
					old = append(old, e)
				}
			}
			return old
		})
	case *pb.DocumentTransform_FieldTransform_RemoveAllFromArray:
		t.apply, err = elements(op.RemoveAllFromArray, func(old, operand []*pb.Value) []*pb.Value {
			kept := []*pb.Value{}
			for _, e := range old {
				if !contains(operand, e) {
					kept = append(kept, e)
				}
			}
			return kept
		})
	default:
		return t, invalid("transform of %s has no type", in.GetFieldPath())
	}
	if err != nil {
		return t, invalid("transform of %s: %s", in.GetFieldPath(), status.Convert(err).Message())
	}
	return t, nil
}

type applyFunc = func(*pb.Value, time.Time) (*pb.Value, *pb.Value)

// numeric makes a transform of a function on numbers. A field that is no number takes the operand.
func numeric(operand *pb.Value, f func(old, operand *pb.Value) *pb.Value) (applyFunc, error) {
	if rank(operand) != rankNumber {
		return nil, invalid("the operand must be a number")
	}
	return func(old *pb.Value, _ time.Time) (*pb.Value, *pb.Value) {
		v := operand
		if rank(old) == rankNumber {
			v = f(old, operand)
		}
		return v, v
	}, nil
}

// add keeps integers in their range: an overflow gives the integer of the largest magnitude.
func add(a, b *pb.Value) *pb.Value {
	x, xInt := a.GetValueType().(*pb.Value_IntegerValue)
	y, yInt := b.GetValueType().(*pb.Value_IntegerValue)
	if !xInt || !yInt {
		return doubleOf(toDouble(a) + toDouble(b))
	}
	i, j := x.IntegerValue, y.IntegerValue
	switch {
	case j > 0 && i > math.MaxInt64-j:
		return integerOf(math.MaxInt64)
	case j < 0 && i < math.MinInt64-j:
		return integerOf(math.MinInt64)
	default:
		return integerOf(i + j)
	}
}

func integerOf(i int64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: i}}
}

func doubleOf(d float64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: d}}
}

func toDouble(v *pb.Value) float64 {
	if i, ok := v.GetValueType().(*pb.Value_IntegerValue); ok {
		return float64(i.IntegerValue)
	}
	return v.GetDoubleValue()
}

// extreme is the larger (sign 1) or smaller (sign −1) of two numbers. NaN wins always; of two equal numbers the old one
// stays, whatever its type.
func extreme(old, operand *pb.Value, sign int) *pb.Value {
	switch {
	case isNaN(old) || !isNaN(operand) && compare(operand, old)*sign <= 0:
		return old
	default:
		return operand
	}
}

// elements makes a transform of a function on arrays. A field that is no array counts as an empty one. The response
// tells nothing about the result.
func elements(operand *pb.ArrayValue, f func(old, operand []*pb.Value) []*pb.Value) (applyFunc, error) {
	v, err := stored(arrayOf(operand.GetValues()), 1)
	if err != nil {
		return nil, err
	}
	return func(old *pb.Value, _ time.Time) (*pb.Value, *pb.Value) {
		values := append([]*pb.Value{}, old.GetArrayValue().GetValues()...) // a copy: stored values are shared
		return arrayOf(f(values, v.GetArrayValue().GetValues())), null
	}, nil
}
