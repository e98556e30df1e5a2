package gcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestFrozen: an instance is stopped for ten minutes, between calls or in one, and its clocks stand still. It grants
// nothing late, and says of no lease that it lasts when it has ended.
func TestFrozen(t *testing.T) {
	const stopped = 10 * time.Minute
	clock := suite.NewClock() // the service's; those of the process stand still
	server := firestoretest.Start(t, &firestoretest.Options{Now: clock.Now})
	f := newAPI(env("FIRESTORE_EMULATOR_HOST=127.0.0.1:1 LEASEHOLD_DEVELOPMENT=1"), slog.New(slog.DiscardHandler),
		func(ctx context.Context, _ *settings.Config) (docstore.Store, error) {
			s, err := gcpfirestore.Open(ctx, &gcpfirestore.Options{Project: "demo", ClientOptions: server.ClientOptions()})
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
			}
			return s, err
		})
	call := func(method, path, members string) (status int, said map[string]any) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080/v1/tenants/acme/locks/"+path,
			strings.NewReader("{"+members+"}"))
		r.RemoteAddr = "127.0.0.1:4711"
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
			t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
		return w.Code, said
	}
	stopIn := func(t *testing.T, method string) { // when the service has the request and has not begun with it
		stop := sync.OnceFunc(func() { clock.Advance(stopped) })
		fault := server.Inject(firestoretest.Fault{Method: method, Effect: firestoretest.Fail{Code: codes.Aborted},
			Match: func(proto.Message) bool {
				stop()
				return false
			}})
		t.Cleanup(fault.Remove)
	}
	acquire := func(who string, seconds int) string {
		return fmt.Sprintf(`"request_id":%q,"owner_id":%q,"ttl_seconds":%d`, who, who, seconds)
	}

	t.Run("between calls", func(t *testing.T) {
		status, lease := call(http.MethodPost, "between/acquire", acquire("ann", 60))
		if status != http.StatusOK {
			t.Fatal(status, lease)
		}
		clock.Advance(stopped)
		if status, said := call(http.MethodGet, "between", ""); status != http.StatusOK || said["state"] != "EXPIRED" {
			t.Errorf("the lock: %d %v", status, said)
		}
		if status, said := call(http.MethodPost, "between/renew", fmt.Sprintf(
			`"request_id":"r","lease_id":%q,"owner_id":"ann","fencing_token":%v,"ttl_seconds":60`, lease["lease_id"],
			lease["fencing_token"])); status == http.StatusOK {
			t.Errorf("renewed: %v", said)
		}
		if status, said := call(http.MethodPost, "between/acquire", acquire("bob", 60)); status != http.StatusOK {
			t.Errorf("the next: %d %v", status, said)
		}
	})
	for name, c := range map[string]struct {
		method   string
		seconds  int
		ends     bool
		status   int
		code     any
		free     bool
		leftWith float64 // milliseconds of a lease that was granted; one is not known
	}{
		"before the decision, the request has an end":         {"BatchGetDocuments", 3600, true, 409, "TOO_LATE", true, 0},
		"before the decision":                                 {"BatchGetDocuments", 60, false, 200, nil, false, 60_000},
		"after the decision, for longer than the lease lasts": {"Commit", 60, false, 409, "LEASE_EXPIRED", true, 0},
		"after the decision":                                  {"Commit", 3600, false, 200, nil, false, 3_000_000 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			key := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			body := acquire("ann", c.seconds)
			if c.ends {
				body += `,"not_after":"` + clock.Now().Add(5*time.Second).Format(time.RFC3339) + `"`
			}
			stopIn(t, c.method)
			status, said := call(http.MethodPost, key+"/acquire", body)
			if left, _ := said["remaining_ms"].(float64); status != c.status || said["code"] != c.code ||
				left != c.leftWith {
				t.Errorf("%d %v", status, said)
			}
			status, said = call(http.MethodPost, key+"/acquire", acquire("bob", 60))
			if free := status == http.StatusOK; free != c.free {
				t.Errorf("the next: %d %v", status, said)
			}
		})
	}
}
