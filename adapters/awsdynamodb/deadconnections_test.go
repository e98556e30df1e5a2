package awsdynamodb

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/internal/conns/connstest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestDeadConnections: calls leave connections that have gone dead.
func TestDeadConnections(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIAFAKE", "AWS_SECRET_ACCESS_KEY": "fake"} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		n := connstest.New()
		server := &http.Server{Handler: dynamodbtest.New(nil)}
		go server.Serve(n)
		defer server.Close()
		s, err := Open(t.Context(), "locks", &Options{Region: "eu-north-1", Endpoint: "http://localhost",
			CreateTable: true, dial: n.Dial})
		if err != nil {
			t.Fatal(err)
		}
		connstest.Calls(t, n, func() error {
			_, err := s.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"})
			return err
		})
	})
}
