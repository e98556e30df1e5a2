package gcpfirestore

import (
	"strconv"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Text, whole numbers, booleans, bytes and maps of text are Firestore's own values, so that documents can be read and
// repaired in the console. Everything else that a user's document holds is a [docstore.Opaque] with the
// *firestorepb.Value in Raw. It is never written back: a write names the fields that it changes, and Firestore leaves
// the others alone.

// keepField is the field of a TTL policy: a timestamp until which the document is kept. It is none of the port's
// fields, whose names begin with a letter. Documents without it are kept for ever.
const keepField = "_keep_until"

// dueField is the field by which documents are found that have a time in another field, in the shards of an index: the
// number of the shard, a space, and the text of that field. See [Options].Due.
func dueField(field string) string { return duePrefix + field }

const duePrefix = "_due_"

// dueText is the value of a [dueField]; none for what is no text.
func dueText(id string, shards int, v docstore.Value) (*pb.Value, bool) {
	s, ok := v.(docstore.String)
	return text(shardPrefix(driver.DueShard(id, shards)) + string(s)), ok
}

func shardPrefix(shard int) string { return strconv.Itoa(shard) + " " }

// decodeDoc reads a document.
func decodeDoc(fields map[string]*pb.Value) docstore.Doc {
	doc := make(docstore.Doc, len(fields))
	for f, v := range fields {
		if f != keepField && !strings.HasPrefix(f, duePrefix) {
			doc[f] = decode(v)
		}
	}
	return doc
}

func decode(v *pb.Value) docstore.Value {
	switch t := v.GetValueType().(type) {
	case *pb.Value_StringValue:
		return docstore.String(t.StringValue)
	case *pb.Value_IntegerValue:
		if t.IntegerValue <= docstore.MaxInt && t.IntegerValue >= -docstore.MaxInt {
			return docstore.Int(t.IntegerValue)
		}
	case *pb.Value_BooleanValue:
		return docstore.Bool(t.BooleanValue)
	case *pb.Value_BytesValue:
		if len(t.BytesValue) <= docstore.MaxBytes {
			return docstore.Bytes(t.BytesValue)
		}
	case *pb.Value_MapValue:
		if m, ok := decodeMap(t.MapValue.GetFields()); ok {
			return m
		}
	case *pb.Value_NullValue:
		return docstore.Opaque{Raw: v, Null: true}
	case *pb.Value_TimestampValue:
		return docstore.Opaque{Raw: v, Time: t.TimestampValue.AsTime()}
	}
	return docstore.Opaque{Raw: v}
}

func decodeMap(fields map[string]*pb.Value) (docstore.Map, bool) {
	m := make(docstore.Map, len(fields))
	for k, v := range fields {
		text, ok := v.GetValueType().(*pb.Value_StringValue)
		if !ok {
			return nil, false
		}
		m[unescapeMapKey(k)] = text.StringValue
	}
	return m, true
}

// encode writes a value. Only those that the port lets through come here: [docstore.Opaque] and [docstore.Instant] do
// not.
func encode(v docstore.Value) *pb.Value {
	switch v := v.(type) {
	case docstore.String:
		return text(string(v))
	case docstore.Int:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: int64(v)}}
	case docstore.Bool:
		return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: bool(v)}}
	case docstore.Bytes:
		return &pb.Value{ValueType: &pb.Value_BytesValue{BytesValue: []byte(v)}}
	case docstore.Map:
		fields := make(map[string]*pb.Value, len(v))
		for k, t := range v {
			fields[extend(k, isReserved)] = text(t)
		}
		return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: fields}}}
	default:
		return nil
	}
}

func timestamp(t time.Time) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(t)}}
}

// text is one allocation: a value and what it holds lie together. Most values are text.
func text(s string) *pb.Value {
	t := &struct {
		value pb.Value
		text  pb.Value_StringValue
	}{}
	t.text.StringValue = s
	t.value.ValueType = &t.text
	return &t.value
}

// unescapeMapKey undoes what encode does with keys that Firestore keeps for itself.
func unescapeMapKey(k string) string {
	if short, ok := strings.CutSuffix(k, string(lowest)); ok && extend(short, isReserved) == k {
		return short
	}
	return k
}
