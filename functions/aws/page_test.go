package aws_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestLargestPages: a list of the largest pages of the largest locks arrives through events, whatever characters their
// text has: those that JSON escapes become longer, twice.
func TestLargestPages(t *testing.T) {
	event := strings.NewReplacer("/prod/", "/", "prefix=a%2Fb&state=ACTIVE",
		"page_size=1000").Replace(string(file(t, "apigw_stage.json")))
	for name, c := range map[string]struct {
		text  string // of 512 bytes, with the one that repeats
		locks int
	}{
		"plain": {"x", 100}, "HTML": {"<", 100}, "quotes": {`"`, 100}, "backslashes": {`\`, 100},
		"separators": {"\u2028", 100}, "emoji": {"😀", 100},
		"many small ones": {"", 1200},
	} {
		t.Run(name, func(t *testing.T) {
			store := docstore.NewMemory(nil)
			metadata := map[string]string{}
			for i := range lock.MaxMetadata {
				if c.text != "" {
					metadata[fmt.Sprint(c.text, i)] = strings.Repeat(c.text, lock.MaxMetadataValueBytes/len(c.text))
				}
			}
			for i := range c.locks {
				o, err := lock.New(store, nil).Acquire(t.Context(), lock.Acquire{
					ID: lock.ID{Tenant: "acme", Key: fmt.Sprintf("%04d", i)}, Owner: "ann", RequestID: "r1", TTLSeconds: 3600,
					Metadata: metadata,
				})
				if err != nil || o.Code != lock.OK {
					t.Fatal(o, err)
				}
			}
			h := aws.New(httpapi.New(store, aws.Authorizer{}, nil), nil)
			for seen, request := 0, event; ; {
				out, err := h.Invoke(t.Context(), []byte(request))
				if err != nil {
					t.Fatal(err)
				}
				var response struct {
					StatusCode int
					Headers    map[string]string
					Body       string
				}
				var page contracts.LockPage
				if err := json.Unmarshal(out, &response); err != nil || response.StatusCode != http.StatusOK ||
					len(out) > aws.MaxResponseBytes {
					t.Fatalf("%v, %d with %d bytes: %.300s", err, response.StatusCode, len(out), response.Body)
				}
				if err := json.Unmarshal([]byte(response.Body), &page); err != nil ||
					response.Headers["X-Content-Type-Options"] != "nosniff" {
					t.Fatalf("%v, %v: %.300s", err, response.Headers, response.Body)
				}
				if seen += len(page.Locks); page.NextPageToken == "" {
					if seen != c.locks {
						t.Errorf("the pages have %d locks, want %d", seen, c.locks)
					}
					return
				}
				request = strings.Replace(event, "page_size=1000", "page_size=1000&page_token="+page.NextPageToken, 1)
			}
		})
	}
}
