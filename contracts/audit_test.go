package contracts_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestAuditEventInTheLog: each member of an event is in its line of the log, as JSON has it, and one that says nothing
// is not.
func TestAuditEventInTheLog(t *testing.T) {
	t.Parallel()
	whole := contracts.AuditEvent{}
	fill(t, reflect.ValueOf(&whole).Elem())
	for _, e := range []contracts.AuditEvent{{Schema: contracts.AuditSchema}, whole} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("audit", "audit", e)
		var line struct {
			Audit map[string]any `json:"audit"`
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if value == "" { // required, and never empty in an event
				delete(want, name)
			}
		}
		if fmt.Sprint(line.Audit) != fmt.Sprint(want) {
			t.Errorf("the line has\n%v\nwant\n%v", line.Audit, want)
		}
	}
}

// fill gives every field of a struct a value that is not its zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("text of " + v.Type().Field(i).Name)
		case reflect.Int64:
			f.SetInt(int64(i) + 1)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]int64{1, 2}))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
			fill(t, f.Elem())
		default:
			t.Fatalf("a field of kind %s", f.Kind())
		}
	}
}

// TestAuditHash: the hash of an event is that of its JSON in the form of RFC 8785, in which members are in the order of
// their names; and the event that was read from a log has it, too.
func TestAuditHash(t *testing.T) {
	t.Parallel()
	e := contracts.AuditEvent{
		Schema: 1, ID: "I", At: "2026-11-26T03:12:00.000Z", Action: "a<b>&\"\\\b\t\n\f\r\x00\x1f\u007f\u2028é🙂", Outcome: "\xff\xfe",
		FencingToken: 1<<53 - 1, Replayed: true, MachineIDs: []int64{3, -1}, Number: 2,
		Chosen: &contracts.AuditChosen{RequestID: "r", OwnerID: "o"},
	}
	const want = `{"action":"a<b>&\"\\\b\t\n\f\r\u0000\u001f` + "\u007f\u2028é🙂" + `","at":"2026-11-26T03:12:00.000Z",` +
		`"chosen":{"owner_id":"o","request_id":"r"},"fencing_token":9007199254740991,"id":"I","machine_ids":[3,-1],"number":2,` +
		`"outcome":"` + "\ufffd\ufffd" + `","replayed":true,"schema":1}`
	if got := e.Hash(); got != fmt.Sprintf("%x", sha256.Sum256([]byte(want))) {
		t.Errorf("it is not that of %s", want)
	}
	var line bytes.Buffer
	slog.New(slog.NewJSONHandler(&line, nil)).Info("audit", "audit", e)
	var read struct{ Audit contracts.AuditEvent }
	if err := json.Unmarshal(line.Bytes(), &read); err != nil || read.Audit.Hash() != e.Hash() {
		t.Errorf("%v: of %s it is another", err, &line)
	}
	e.Chosen = &contracts.AuditChosen{}
	with := e.Hash()
	e.Chosen = nil
	if with != e.Hash() {
		t.Error("a group without members counts")
	}
}
