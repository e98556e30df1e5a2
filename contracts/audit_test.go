package contracts_test

import (
	"bytes"
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
