package tasks

import (
	"encoding/json"
	"testing"
)

// FuzzMessage: whatever a queue brings, a message is either refused or names one analysis that can be, the one that
// every other reader finds in it.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"analysisId":"a1"}`, `{"analysisId":"a1","analysisId":"a2"}`, `{"AnalysisID":"a1"}`,
		`{"analysis_id":"a1"}`, `{"analysis_id":"a1","analysisId":"a1"}`, `{"analysisId":null}`, `[]`, "\xff", ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id, err := analysisID(body)
		if err != nil {
			return
		}
		if err := id.Validate(); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		var other map[string]any
		if err := json.Unmarshal(body, &other); err != nil || spelled(other) != string(id) {
			t.Errorf("%q is %q here and %q to encoding/json, %v", body, id, spelled(other), err)
		}
	})
}

// spelled is the name in a message, in either spelling; nil if there is none or both.
func spelled(m map[string]any) any {
	a, b := m["analysisId"], m["analysis_id"]
	if (a == nil) == (b == nil) {
		return nil
	}
	if a != nil {
		return a
	}
	return b
}
