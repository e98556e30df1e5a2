package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
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
	}{{"orders/ü db", 7, ""}, {"orders/ü db", 7, ""}, {"orders/ü db", 6, contracts.CodeStaleToken}, {"other", 1, ""},
		{"other", 0, contracts.CodeInvalidArgument}} {
		p, err := c.Fences().Check(t.Context(), "acme", x.resource, fence.Lease{Subject: "lock/db", Token: x.token})
		e, _ := errors.AsType[*contracts.Error](err)
		switch {
		case x.code == "" && (err != nil || p != contracts.FencePassed{TenantID: "acme", Resource: x.resource,
			FencingToken: x.token, Subject: "lock/db"}):
			t.Errorf("%+v: %+v, %v", x, p, err)
		case x.code != "" && !errors.Is(err, x.code), x.code == contracts.CodeStaleToken && e.HighestToken != 7:
			t.Errorf("%+v: %+v", x, err)
		}
	}
	_, err = c.Fences().Check(t.Context(), "acme", "other", fence.Lease{Subject: "run/r1", Token: 2})
	if !errors.Is(err, contracts.CodeOtherSubject) {
		t.Errorf("another subject: %v", err)
	}
}

// TestFenceReset: a fence that a wrong token has closed forgets it, once, and only the token that was named.
func TestFenceReset(t *testing.T) {
	base, _ := serve(t)
	c, err := client.New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	const resource = "orders/ü db"
	check := func(token int64) error {
		_, err := c.Fences().Check(t.Context(), "acme", resource, fence.Lease{Subject: "lock/db", Token: token})
		return err
	}
	reset := func(highest int64, reason string) (contracts.FenceReset, error) {
		return c.Fences().Reset(t.Context(), "acme", resource, contracts.FenceResetRequest{
			OwnerID: "ann", HighestToken: highest, Reason: reason})
	}
	if _, err := reset(9, "typo"); !errors.Is(err, contracts.CodeNotFound) {
		t.Errorf("no fence: %v", err)
	}
	if err := check(9); err != nil {
		t.Fatal(err)
	}
	_, err = reset(8, "typo")
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeStaleToken || e.HighestToken != 9 {
		t.Errorf("another token: %v", err)
	}
	if _, err := reset(9, ""); !errors.Is(err, contracts.CodeInvalidArgument) {
		t.Errorf("no reason: %v", err)
	}
	for _, replayed := range []bool{false, true} {
		got, err := reset(9, "typo")
		if want := (contracts.FenceReset{TenantID: "acme", Resource: resource, ResetToken: 9,
			Replayed: replayed}); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := check(3); err != nil {
		t.Errorf("after the reset: %v", err)
	}
	remove := contracts.FenceRemoveRequest{OwnerID: "ann", HighestToken: 4, Reason: "gone"}
	if _, err := c.Fences().Remove(t.Context(), "acme", resource, remove); !errors.Is(err, contracts.CodeStaleToken) {
		t.Errorf("another token: %v", err)
	}
	remove.HighestToken = 3
	for _, replayed := range []bool{false, true} {
		got, err := c.Fences().Remove(t.Context(), "acme", resource, remove)
		if want := (contracts.FenceRemoved{TenantID: "acme", Resource: resource, RemovedToken: 3,
			Replayed: replayed}); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestFenceOfAnother: a response about another fence is none.
func TestFenceOfAnother(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"tenant_id":"acme","resource":"other","fencing_token":7}`,
		`{"tenant_id":"other","resource":"db","fencing_token":7}`,
		`{"tenant_id":"acme","resource":"db","fencing_token":8,"subject":"lock/db"}`,
		`{"tenant_id":"acme","resource":"db","fencing_token":7,"subject":"lock/other"}`,
		`{"tenant_id":"acme","resource":"db","reset_token":8,"replayed":false}`,
		`{"tenant_id":"acme","resource":"x","reset_token":7,"replayed":false}`,
		`{"tenant_id":"acme","resource":"db","removed_token":8,"replayed":false}`,
		`{"tenant_id":"acme","cluster":"chat","epoch":8,"identities":0,"replayed":false}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		c, err := client.New(server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Fences().Check(t.Context(), "acme", "db", fence.Lease{Subject: "lock/db", Token: 7}); err == nil {
			t.Errorf("%s: %+v", body, p)
		}
		if p, err := c.Fences().Reset(t.Context(), "acme", "db", contracts.FenceResetRequest{
			HighestToken: 7, Reason: "typo"}); err == nil {
			t.Errorf("%s: %+v", body, p)
		}
		if p, err := c.Fences().Remove(t.Context(), "acme", "db", contracts.FenceRemoveRequest{
			HighestToken: 7, Reason: "gone"}); err == nil {
			t.Errorf("%s: %+v", body, p)
		}
		if p, err := c.RemoveCluster(t.Context(), "acme", "chat", contracts.ClusterRemoveRequest{
			Epoch: 7, Reason: "gone"}); err == nil {
			t.Errorf("%s: %+v", body, p)
		}
		server.Close()
	}
}
