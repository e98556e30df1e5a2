package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestFence: a token passes, a lower one is rejected with the highest, and names survive the way.
func TestFence(t *testing.T) {
	base, _ := serve(t)
	c, err := client.New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		resource string
		token    int64
		code     contracts.Code // empty: it passes
	}{{"orders/ü db", 7, ""}, {"orders/ü db", 7, ""}, {"orders/ü db", 6, contracts.CodeStaleToken}, {"other", 1, ""}, {"other", 0, contracts.CodeInvalidArgument}} {
		p, err := c.Fences().Check(t.Context(), "acme", x.resource, x.token)
		e, _ := errors.AsType[*contracts.Error](err)
		switch {
		case x.code == "" && (err != nil || p != contracts.FencePassed{TenantID: "acme", Resource: x.resource, FencingToken: x.token}):
			t.Errorf("%+v: %+v, %v", x, p, err)
		case x.code != "" && !errors.Is(err, x.code), x.code == contracts.CodeStaleToken && e.HighestToken != 7:
			t.Errorf("%+v: %+v", x, err)
		}
	}
}

// TestFenceOfAnother: a response about another fence is none.
func TestFenceOfAnother(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"tenant_id":"acme","resource":"other","fencing_token":7}`, `{"tenant_id":"other","resource":"db","fencing_token":7}`,
		`{"tenant_id":"acme","resource":"db","fencing_token":8}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		c, err := client.New(server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Fences().Check(t.Context(), "acme", "db", 7); err == nil {
			t.Errorf("%s: %+v", body, p)
		}
		server.Close()
	}
}
