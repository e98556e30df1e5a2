package flat_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/flat"
)

const lease = `{"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","fencing_token":1767225600000000,"lease_id":"l1",` +
	`"lock_key":"deploy-prod","metadata":{},"owner_id":"ann","remaining_ms":-1,"replayed":false,"state":"ACTIVE","tenant_id":"acme","ttl_seconds":60}`

// FuzzUnmarshal: what is read is what encoding/json reads, and what a strict library reads, which takes no member twice and none that is not named.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		lease, lease + "\n", lease + "\n\n", lease + " ", "", "{", "{}", "{}\n", "null", "[]", `{"a"}`, `{"ttl_seconds":60,}`, `{,}`, `{"ttl_seconds":060}`, `{"ttl_seconds":+6}`, `{"ttl_seconds":-0}`,
		`{"ttl_seconds":-06}`, `{"ttl_seconds":6.0}`, `{"ttl_seconds":6e1}`, `{"ttl_seconds":1_0}`, `{"ttl_seconds":0x10}`, `{"ttl_seconds":}`, `{"ttl_seconds":null}`, `{"ttl_seconds":0}`,
		`{"ttl_seconds":9223372036854775807}`, `{"ttl_seconds":9223372036854775808}`, `{"ttl_seconds":-9223372036854775808}`, `{"ttl_seconds":"6"}`, `{"ttl_seconds": 6}`,
		`{"owner_id":"é"}`, `{"owner_id":"<&>"}`, "{\"owner_id\":\"\xff\"}", `{"owner_id":"a\n"}`, "{\"owner_id\":\"a\tb\"}", `{"owner_id":"a","owner_id":"b"}`, `{"OWNER_ID":"a"}`, `{"owner_id":7}`,
		`{"metadata":{"a":"b"}}`, `{"metadata":null}`, `{"replayed":true}`, `{"replayed":tru}`, `{"replayed":1}`, `{"other":1}`, `{"owner_id":"a"}x`, `{"owner_id":"a"`, `{"ttl_seconds":6`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var got, want, strict contracts.Lease
		if !flat.Unmarshal(content, &got) {
			// What was read until then is no harm.
			errGot, errWant := json.Unmarshal(content, &got), json.Unmarshal(content, &want)
			if (errGot == nil) != (errWant == nil) || errGot == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %+v, %v; want %+v, %v", content, got, errGot, want, errWant)
			}
			return
		}
		if err := json.Unmarshal(content, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, encoding/json reads %+v, %v", content, got, want, err)
		}
		if err := jsonv2.Unmarshal(content, &strict, jsonv2.RejectUnknownMembers(true)); err != nil || !reflect.DeepEqual(got, strict) {
			t.Errorf("%q: %+v, a strict library reads %+v, %v", content, got, strict, err)
		}
	})
}

// FuzzAppend: what is written is what encoding/json writes, and can be read again.
func FuzzAppend(f *testing.F) {
	for _, s := range []string{"", "ann", `a"b`, `a\b`, "<", ">", "&", "\x00", "\x1f", "\x7f", "é", "\u2028", "\xff"} {
		f.Add(s, int64(60), true, false)
		f.Add(s, int64(-1<<63), false, true)
	}
	f.Fuzz(func(t *testing.T, text string, n int64, is, labels bool) {
		l := contracts.Lease{OwnerID: text, LockKey: "k", Mode: contracts.LockMode(text), TTLSeconds: n, Permit: n, Replayed: is, Metadata: contracts.Metadata{}}
		if labels {
			l.Metadata["a"] = text
		}
		want, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		switch got, ok := flat.Append([]byte("before"), l); {
		case !ok && string(got) != "before":
			t.Errorf("%q is left of what could not be written", got)
		case ok && string(got) != "before"+string(want):
			t.Errorf("%s, want %s", got, want)
		case ok:
			var again contracts.Lease
			if !flat.Unmarshal(want, &again) || !reflect.DeepEqual(again, l) {
				t.Errorf("%s is read as %+v", want, again)
			}
		}
	})
}

// TestHotTypes: the requests and responses that are most of all can be written and read.
func TestHotTypes(t *testing.T) {
	for _, v := range []any{
		contracts.AcquireRequest{RequestID: "r1", OwnerID: "ann", TTLSeconds: 60}, contracts.RenewRequest{RequestID: "r1", FencingToken: 7, ExpiresAt: "2026-01-01T00:01:00.000Z"},
		contracts.ReleaseRequest{RequestID: "r1", OwnerID: "ann", FencingToken: 7}, contracts.Lease{LockKey: "k", FencingToken: 7, Metadata: contracts.Metadata{}},
		contracts.EndedLease{LockKey: "k", State: contracts.StateReleased, Replayed: true},
	} {
		want, err := json.Marshal(v)
		got, ok := flat.Append(nil, v)
		if err != nil || !ok || !bytes.Equal(got, want) {
			t.Errorf("%T: %v, %s, want %s, %v", v, ok, got, want, err)
		}
		again := reflect.New(reflect.TypeOf(v))
		if !flat.Unmarshal(got, again.Interface()) || !reflect.DeepEqual(again.Elem().Interface(), v) {
			t.Errorf("%T: %s is read as %+v", v, got, again.Elem())
		}
	}
}

// TestLeftToTheLibrary: a type whose JSON is not what its fields say is neither written nor read.
func TestLeftToTheLibrary(t *testing.T) {
	type embedded struct{ contracts.ReleaseRequest }
	for _, v := range []any{
		time.Time{}, struct {
			At time.Time `json:"at"`
		}{}, embedded{}, struct {
			N int64 `json:"n,string"`
		}{}, struct{ N int64 }{}, struct {
			N int64 `json:"-"`
		}{}, struct {
			N [2]int64 `json:"n,omitempty"`
		}{}, struct {
			N float64 `json:"n"`
		}{}, struct {
			N *int64 `json:"n"`
		}{}, struct {
			N map[string]string `json:"n"`
		}{}, 7, "a", nil, map[string]string{}, &contracts.ReleaseRequest{},
	} {
		if b, ok := flat.Append(nil, v); ok {
			t.Errorf("%T: %s", v, b)
		}
	}
	for content, into := range map[string]any{
		`{"at":"2026-01-01T00:00:00Z"}`: &struct {
			At time.Time `json:"at"`
		}{}, `{"request_id":"r1"}`: &embedded{}, `{"n":"7"}`: &struct {
			N int64 `json:"n,string"`
		}{}, `{"n":7}`: &struct {
			N *int64 `json:"n"`
		}{}, `{"n":[]}`: &struct {
			N []string `json:"n"`
		}{}, `{}`: new(time.Time), `{"a":1}`: (*contracts.Lease)(nil), "7": new(int), "{}\n": contracts.Lease{},
	} {
		if flat.Unmarshal([]byte(content), into) {
			t.Errorf("%s into %T", content, into)
		}
	}
}

// TestAllocations: a lease is read with its texts in one piece.
func TestAllocations(t *testing.T) {
	content, room := []byte(lease), make([]byte, 0, 1024)
	var l contracts.Lease
	if got := testing.AllocsPerRun(100, func() {
		if !flat.Unmarshal(content, &l) {
			t.Fatal("it was not read")
		}
	}); got > 1 {
		t.Errorf("%v allocations for a lease that is read, 1 at most", got)
	}
	var boxed any = l
	if got := testing.AllocsPerRun(100, func() {
		if _, ok := flat.Append(room, boxed); !ok {
			t.Fatal("it was not written")
		}
	}); got > 0 {
		t.Errorf("%v allocations for a lease that is written, none at most", got)
	}
}
