package contracttest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/leasehold-dev/leasehold/contracts"
)

// auditSchema is that of [contracts.AuditEvent].
var auditSchema = sync.OnceValues(func() (*openapi3.Schema, error) {
	_, internal, err := Load()
	if err != nil {
		return nil, err
	}
	return internal.Components.Schemas["AuditEvent"].Value, nil
})

// AuditEvents returns the audit events of a log in JSON, in the order of its lines. It fails the test for one that its
// schema does not describe, or that has the ID of another.
func AuditEvents(t TB, log string) (events []contracts.AuditEvent) {
	t.Helper()
	schema, err := auditSchema()
	if err != nil {
		t.Fatalf("%v", err)
	}
	ids := map[string]bool{}
	for line := range strings.Lines(log) {
		var l struct {
			Msg     string          `json:"msg"`
			Message string          `json:"message"`
			Audit   json.RawMessage `json:"audit"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Msg+l.Message != "audit" {
			continue
		}
		var value any
		if err := json.Unmarshal(l.Audit, &value); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := schema.VisitJSON(value); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		var e contracts.AuditEvent
		known := json.NewDecoder(bytes.NewReader(l.Audit))
		known.DisallowUnknownFields()
		if err := known.Decode(&e); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if e.Schema != contracts.AuditSchema || ids[e.ID] {
			t.Errorf("schema %d, or an ID of two events: %s", e.Schema, line)
		}
		ids[e.ID] = true
		events = append(events, e)
	}
	return events
}
