package contracttest_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
)

// TestDocuments, LS-API: the documents are OpenAPI, and their examples match their schemas.
func TestDocuments(t *testing.T) {
	public, internal, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []*openapi3.T{public, internal} {
		if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
			t.Errorf("%s: %v", doc.Info.Title, err)
		}
	}
}

// TestExamples, LS-API: every response with a body has an example; those of problems are what the server would send,
// under the right status. That examples match their schemas is what TestDocuments asks.
func TestExamples(t *testing.T) {
	public, internal, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[contracts.Code]bool{}
	for _, doc := range []*openapi3.T{public, internal} {
		for path, item := range doc.Paths.Map() {
			for method, op := range item.Operations() {
				for status, response := range op.Responses.Map() {
					for mediaType, content := range response.Value.Content {
						where := method + " " + path + " " + status
						values := exampleValues(content)
						if len(values) == 0 {
							t.Errorf("%s: no example of %s", where, mediaType)
						}
						if mediaType != "application/problem+json" {
							continue
						}
						for _, v := range values {
							shown[checkProblem(t, where, status, v)] = true
						}
					}
				}
			}
		}
	}
	for _, v := range public.Components.Schemas["Code"].Value.Enum {
		code, _ := v.(string)
		// METHOD_NOT_ALLOWED belongs to no operation of the document.
		if c := contracts.Code(code); !shown[c] && c != contracts.CodeMethodNotAllowed {
			t.Errorf("no response has an example of %s", c)
		}
	}
}

func exampleValues(m *openapi3.MediaType) []any {
	var values []any
	if m.Example != nil {
		values = append(values, m.Example)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		values = append(values, m.Examples[name].Value.Value)
	}
	return values
}

func checkProblem(t *testing.T, where, status string, example any) contracts.Code {
	t.Helper()
	b, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	var p contracts.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	info, ok := p.Code.Info()
	if !ok || p.Title != info.Title || p.Retryable != info.Retryable || p.Status != info.Status ||
		p.Type != p.Code.TypeURI() {
		t.Errorf("%s: the example of %s is not what the table of codes says: %+v", where, p.Code, p)
	}
	if status != "default" && status != strconv.Itoa(info.Status) {
		t.Errorf("%s: has an example of %s, whose status is %d", where, p.Code, info.Status)
	}
	return p.Code
}
