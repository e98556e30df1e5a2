package dynamodbtest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// A page in a browser whose site's name leads to this machine gets nothing, unless the server is there for other
// machines.
func TestHost(t *testing.T) {
	for name, test := range map[string]struct {
		options *dynamodbtest.Options
		host    string
		want    bool
	}{
		"this machine":         {nil, "127.0.0.1:8000", true},
		"IPv6":                 {nil, "[::1]:8000", true},
		"a name of it":         {nil, "localhost", true},
		"a site":               {nil, "evil.example:8000", false},
		"almost this machine":  {nil, "127.0.0.1.evil.example", false},
		"a container":          {&dynamodbtest.Options{InsecureListenAnywhere: true}, "emulator:8000", true},
		"a container, unasked": {&dynamodbtest.Options{}, "emulator:8000", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := dynamodbtest.New(test.options)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"QueueName":"q"}`))
			r.Host = test.host
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("Authorization", "any")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if got := w.Code != http.StatusMisdirectedRequest; got != test.want {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if n := s.Count(strings.Split("DynamoDB_20120810.ListTables", ".")[1]); (n == 1) != test.want {
				t.Fatalf("%d requests reached the operation", n)
			}
			if !test.want && !strings.Contains(w.Body.String(), "Options.InsecureListenAnywhere") {
				t.Fatalf("%s does not say what would help", w.Body)
			}
		})
	}
}
