package aws_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestFrozen: an instance is stopped for ten minutes, between invocations or in one; its wall clock has gone on
// afterwards, its monotonic clock stood still. It grants nothing late, and says of no lease that it lasts when it has
// ended.
func TestFrozen(t *testing.T) {
	const stopped = 10 * time.Minute
	clock := suite.NewClock()
	db := dynamodbtest.Start(t, &dynamodbtest.Options{Now: clock.Now})
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAFAKE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "fake")
	t.Setenv("AWS_REGION", "eu-north-1")
	store, err := awsdynamodb.Open(t.Context(), "locks", &awsdynamodb.Options{Endpoint: db.URL, CreateTable: true,
		Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := aws.New(httpapi.New(store, aws.Authorizer{IAMTenant: "acme"}, nil), nil)
	call := func(method, path, members string) (status int, said map[string]any) {
		t.Helper()
		var e events.LambdaFunctionURLRequest
		if err := json.Unmarshal(file(t, "url_iam.json"), &e); err != nil {
			t.Fatal(err)
		}
		e.RawPath, e.Body, e.IsBase64Encoded = "/v1/tenants/acme/locks/"+path, "{"+members+"}", false
		e.RequestContext.HTTP.Method, e.RequestContext.HTTP.Path = method, e.RawPath
		event, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.Invoke(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		var r events.LambdaFunctionURLResponse
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(r.Body), &said); err != nil {
			t.Fatalf("%s: %v in %s", path, err, r.Body)
		}
		return r.StatusCode, said
	}
	acquire := func(request string, seconds int) string {
		return fmt.Sprintf(`"request_id":%q,"owner_id":"ann","ttl_seconds":%d`, request, seconds)
	}

	t.Run("between invocations", func(t *testing.T) {
		status, lease := call(http.MethodPost, "between/acquire", acquire("r1", 60))
		if status != http.StatusOK {
			t.Fatal(status, lease)
		}
		clock.Advance(stopped)
		if status, said := call(http.MethodGet, "between", ""); status != http.StatusOK || said["state"] != "EXPIRED" {
			t.Errorf("the lock: %d %v", status, said)
		}
		if status, said := call(http.MethodPost, "between/renew", fmt.Sprintf(
			`"request_id":"r2","lease_id":%q,"owner_id":"ann","fencing_token":%v,"ttl_seconds":60`, lease["lease_id"],
			lease["fencing_token"])); status == http.StatusOK {
			t.Errorf("renewed: %v", said)
		}
		if status, said := call(http.MethodPost, "between/acquire", acquire("r3", 60)); status != http.StatusOK {
			t.Errorf("the next: %d %v", status, said)
		}
	})
	for name, c := range map[string]struct {
		op       string // in which it is stopped; empty: before all
		seconds  int
		status   int
		code     any
		leftWith time.Duration // of a lease that was granted; a Date does not say it to the second
	}{
		"before the request is sent on":                    {"", 3600, 409, "TOO_LATE", 0},
		"while the clock is measured":                      {"GetItem", 60, 503, "CLOCK_SKEW", 0},
		"in the decision, for longer than the lease lasts": {"UpdateItem", 60, 409, "LEASE_EXPIRED", 0},
		"in the decision":                                  {"UpdateItem", 3600, 200, nil, 50 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			key := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			clock.Advance(stopped) // so that the clock is measured anew, by reading
			body := acquire("r1", c.seconds)
			if c.op == "" {
				body += `,"not_after":"` + clock.Now().Add(5*time.Second).Format(time.RFC3339) + `"`
				clock.Advance(stopped)
			} else {
				stop := sync.OnceFunc(func() { clock.Advance(stopped) })
				fault := db.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Throttle, Op: c.op,
					Match: func(dynamodbtest.Request) bool { // the service has it, and has not begun with it
						stop()
						return false
					}})
				t.Cleanup(fault.Remove)
			}
			status, said := call(http.MethodPost, key+"/acquire", body)
			left := time.Duration(0)
			if ms, ok := said["remaining_ms"].(float64); ok {
				left = time.Duration(ms) * time.Millisecond
			}
			if status != c.status || said["code"] != c.code || (left-c.leftWith).Abs() > 3*time.Second {
				t.Errorf("%d %v", status, said)
			}
			held := c.status == http.StatusOK
			status, said = call(http.MethodPost, key+"/acquire", acquire("r2", 60))
			if free := status == http.StatusOK; free == held {
				t.Errorf("the next: %d %v", status, said)
			}
		})
	}
}
