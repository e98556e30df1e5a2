package firestoretest

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Ranks of the types: values of different types are ordered by them.
const (
	rankNone = iota
	rankNull
	rankBool
	rankNumber
	rankTimestamp
	rankString
	rankBytes
	rankReference
	rankGeoPoint
	rankArray
	rankMap
)

func rank(v *pb.Value) int {
	switch v.GetValueType().(type) {
	case *pb.Value_NullValue:
		return rankNull
	case *pb.Value_BooleanValue:
		return rankBool
	case *pb.Value_IntegerValue, *pb.Value_DoubleValue:
		return rankNumber
	case *pb.Value_TimestampValue:
		return rankTimestamp
	case *pb.Value_StringValue:
		return rankString
	case *pb.Value_BytesValue:
		return rankBytes
	case *pb.Value_ReferenceValue:
		return rankReference
	case *pb.Value_GeoPointValue:
		return rankGeoPoint
	case *pb.Value_ArrayValue:
		return rankArray
	case *pb.Value_MapValue:
		return rankMap
	default:
		return rankNone
	}
}

// compare is the order of all values: null, booleans, numbers (NaN first, integers and doubles by their exact size),
// times, text by bytes, bytes, references by segments, geographical points, arrays, maps. It is the order of the
// service's page on data types. Two values that compare as 0 are equal for filters.
func compare(a, b *pb.Value) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch rank(a) {
	case rankBool:
		return compareBools(a.GetBooleanValue(), b.GetBooleanValue())
	case rankNumber:
		return compareNumbers(a, b)
	case rankTimestamp:
		x, y := a.GetTimestampValue(), b.GetTimestampValue()
		return cmp.Or(cmp.Compare(x.GetSeconds(), y.GetSeconds()), cmp.Compare(x.GetNanos(), y.GetNanos()))
	case rankString:
		return strings.Compare(a.GetStringValue(), b.GetStringValue())
	case rankBytes:
		return bytes.Compare(a.GetBytesValue(), b.GetBytesValue())
	case rankReference:
		return comparePaths(a.GetReferenceValue(), b.GetReferenceValue())
	case rankGeoPoint:
		x, y := a.GetGeoPointValue(), b.GetGeoPointValue()
		return cmp.Or(cmp.Compare(x.GetLatitude(), y.GetLatitude()), cmp.Compare(x.GetLongitude(), y.GetLongitude()))
	case rankArray:
		return slices.CompareFunc(a.GetArrayValue().GetValues(), b.GetArrayValue().GetValues(), compare)
	case rankMap:
		return compareMaps(a.GetMapValue().GetFields(), b.GetMapValue().GetFields())
	default:
		return 0
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func compareNumbers(a, b *pb.Value) int {
	x, xInt := a.GetValueType().(*pb.Value_IntegerValue)
	y, yInt := b.GetValueType().(*pb.Value_IntegerValue)
	switch {
	case xInt && yInt:
		return cmp.Compare(x.IntegerValue, y.IntegerValue)
	case xInt:
		return -compareDoubleInt(b.GetDoubleValue(), x.IntegerValue)
	case yInt:
		return compareDoubleInt(a.GetDoubleValue(), y.IntegerValue)
	default:
		return cmp.Compare(a.GetDoubleValue(), b.GetDoubleValue()) // NaN is less than every other number and equal to NaN
	}
}

// compareDoubleInt compares exactly: 2^53+1 as an integer is greater than 2^53 as a double.
func compareDoubleInt(d float64, i int64) int {
	switch {
	case math.IsNaN(d), math.IsInf(d, -1):
		return -1
	case math.IsInf(d, 1):
		return 1
	}
	return new(big.Float).SetFloat64(d).Cmp(new(big.Float).SetInt64(i))
}

func compareMaps(a, b map[string]*pb.Value) int {
	x, y := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	for i := range min(len(x), len(y)) {
		if c := cmp.Or(strings.Compare(x[i], y[i]), compare(a[x[i]], b[y[i]])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func isNaN(v *pb.Value) bool {
	d, ok := v.GetValueType().(*pb.Value_DoubleValue)
	return ok && math.IsNaN(d.DoubleValue)
}

var errTooDeep = invalid("a value is nested deeper than %d maps and arrays", maxValueDepth)

// stored checks a value that is about to be written or compared with, and returns it in the form in which it is kept:
// times in microseconds. The input is left as it was.
func stored(v *pb.Value, depth int) (*pb.Value, error) {
	switch t := v.GetValueType().(type) {
	case *pb.Value_NullValue, *pb.Value_BooleanValue, *pb.Value_IntegerValue, *pb.Value_DoubleValue:
		return v, nil
	case *pb.Value_StringValue:
		if len(t.StringValue) > maxValueBytes || !utf8.ValidString(t.StringValue) {
			return nil, invalid("a text value is longer than %d bytes or not valid UTF-8", maxValueBytes)
		}
		return v, nil
	case *pb.Value_BytesValue:
		if len(t.BytesValue) > maxValueBytes {
			return nil, invalid("a bytes value is longer than %d bytes", maxValueBytes)
		}
		return v, nil
	case *pb.Value_TimestampValue:
		if err := t.TimestampValue.CheckValid(); err != nil {
			return nil, invalid("a timestamp value is not valid: %v", err)
		}
		at := timestamppb.New(t.TimestampValue.AsTime().Truncate(time.Microsecond))
		return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: at}}, nil
	case *pb.Value_ReferenceValue:
		db, path, err := splitName(t.ReferenceValue)
		if err == nil {
			err = checkPath(path, len(db))
		}
		return v, err
	case *pb.Value_GeoPointValue:
		lat, lng := t.GeoPointValue.GetLatitude(), t.GeoPointValue.GetLongitude()
		if !(lat >= -90 && lat <= 90 && lng >= -180 && lng <= 180) {
			return nil, invalid("a geographical point (%v, %v) is off the globe", lat, lng)
		}
		return v, nil
	case *pb.Value_ArrayValue:
		if depth > maxValueDepth {
			return nil, errTooDeep
		}
		values := make([]*pb.Value, len(t.ArrayValue.GetValues()))
		for i, e := range t.ArrayValue.GetValues() {
			if rank(e) == rankArray {
				return nil, invalid("Cannot convert an array value in an array value.")
			}
			var err error
			if values[i], err = stored(e, depth+1); err != nil {
				return nil, err
			}
		}
		return arrayOf(values), nil
	case *pb.Value_MapValue:
		if depth > maxValueDepth {
			return nil, errTooDeep
		}
		fields, err := storedFields(t.MapValue.GetFields(), depth+1)
		return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: fields}}}, err
	case nil:
		return nil, invalid("a value has no type")
	default:
		return nil, invalid("a value of type %T cannot be stored", t)
	}
}

func arrayOf(values []*pb.Value) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: &pb.ArrayValue{Values: values}}}
}

// storedFields is [stored] for the fields of a document or map.
func storedFields(fields map[string]*pb.Value, depth int) (map[string]*pb.Value, error) {
	if _, ok := fields["__type__"]; ok {
		return nil, unimplemented("value of a special type (__type__), such as a vector,")
	}
	out := make(map[string]*pb.Value, len(fields))
	for name, v := range fields {
		if name == "" || len(name) > maxIDBytes || !utf8.ValidString(name) {
			return nil, invalid("field name %q: valid UTF-8, from 1 to %d bytes", name, maxIDBytes)
		}
		if reserved(name) {
			return nil, invalid("The field name %q is reserved.", name)
		}
		s, err := stored(v, depth)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// Bytes that one unit of the Enterprise edition pays for.
const (
	readUnit  = 4096
	writeUnit = 1024
)

// units is how many units so many bytes cost: one at least.
func units(size, unit int) int { return max(1, (size+unit-1)/unit) }

// readUnits is what reading documents costs, nil for each that is missing. A read that finds none costs as much as one.
func readUnits(docs []*pb.Document) int {
	n := 0
	for _, doc := range docs {
		n += units(storedBytes(doc), readUnit)
	}
	return max(1, n)
}

// storedBytes is the size of a document, 0 for nil.
func storedBytes(doc *pb.Document) int {
	if doc == nil {
		return 0
	}
	return documentBytes(doc)
}

// documentBytes is the size that counts against the limit of 1 MiB, by the rules of the service's page on storage size.
func documentBytes(doc *pb.Document) int {
	return nameBytes(doc.GetName()) + fieldBytes(doc.GetFields()) + 32
}

func nameBytes(name string) int {
	n := 16
	if _, path, err := splitName(name); err == nil {
		for id := range strings.SplitSeq(path, "/") {
			n += len(id) + 1
		}
	}
	return n
}

func fieldBytes(fields map[string]*pb.Value) int {
	n := 0
	for name, v := range fields {
		n += len(name) + 1 + valueBytes(v)
	}
	return n
}

func valueBytes(v *pb.Value) int {
	switch t := v.GetValueType().(type) {
	case *pb.Value_IntegerValue, *pb.Value_DoubleValue, *pb.Value_TimestampValue:
		return 8
	case *pb.Value_StringValue:
		return len(t.StringValue) + 1
	case *pb.Value_BytesValue:
		return len(t.BytesValue)
	case *pb.Value_ReferenceValue:
		return nameBytes(t.ReferenceValue)
	case *pb.Value_GeoPointValue:
		return 16
	case *pb.Value_ArrayValue:
		n := 0
		for _, e := range t.ArrayValue.GetValues() {
			n += valueBytes(e)
		}
		return n
	case *pb.Value_MapValue:
		return fieldBytes(t.MapValue.GetFields())
	default:
		return 1 // null and booleans
	}
}
