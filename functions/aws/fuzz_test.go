package aws_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// FuzzEvents: whatever an event contains, it is an error or gets a response with a status, and a caller has a subject
// and a tenant.
func FuzzEvents(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		event, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(event)
	}
	f.Add(alb("/healthz", ""))
	f.Add([]byte(albListsEvent))
	f.Add(rest("/healthz", `{"claims": {"sub": 1, "tenant_id": [true, null, {"a": 1}], "scope": "a b"}}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		h := aws.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := aws.Authorizer{IAMTenant: "iam"}.Identify(r)
			if (err == nil) != (c.Subject != "" && c.Tenant != "") || err != nil && c != (httpapi.Caller{}) {
				t.Errorf("%+v, %v", c, err)
			}
			_, _ = w.Write([]byte(r.URL.EscapedPath()))
		}), nil)
		out, err := h.Invoke(t.Context(), event)
		if err != nil {
			return
		}
		var response struct {
			StatusCode int `json:"statusCode"`
		}
		if err := json.Unmarshal(out, &response); err != nil || response.StatusCode != http.StatusOK &&
			response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s, %v", out, err)
		}
	})
}
