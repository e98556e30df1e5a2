package contracts_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestACodeIsAnError: callers ask for a code, however deep the error is wrapped.
func TestACodeIsAnError(t *testing.T) {
	held := contracts.Errorf(contracts.CodeLockHeld, "by %s", "ann")
	for _, err := range []error{contracts.CodeLockHeld, held, fmt.Errorf("deploy: %w", held),
		errors.Join(errors.New("x"), held)} {
		if !errors.Is(err, contracts.CodeLockHeld) || errors.Is(err, contracts.CodeLeaseLost) {
			t.Errorf("%v", err)
		}
	}
	if want := "LOCK_HELD: by ann"; held.Error() != want || held.Status != 409 || !held.Retryable {
		t.Errorf("%+v", held)
	}
	if got := contracts.Errorf(contracts.CodeLockHeld, "").Error(); got != "LOCK_HELD: lock is held" {
		t.Error(got)
	}
	if cause := errors.New("network"); !errors.Is(&contracts.Error{Code: contracts.CodeUnavailable, Cause: cause}, cause) {
		t.Error("the cause is out of reach")
	}
	if e := contracts.Errorf("TEAPOT", "%d%%", 7); e.Code != contracts.CodeInternal ||
		e.Detail != `unknown code "TEAPOT": 7%` {
		t.Errorf("%+v", e)
	}
}

// TestFinal: the response's own word comes first, then its status and its code; without a response the code says it
// all.
func TestFinal(t *testing.T) {
	response := func(status int, code contracts.Code, retryable bool) *contracts.Error {
		return &contracts.Error{Code: code, Status: status, Retryable: retryable}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{response(409, contracts.CodeLockHeld, true), false},
		{response(409, contracts.CodeLockHeld, false), true},
		{response(403, contracts.CodePermissionDenied, false), true},
		{response(403, contracts.CodePermissionDenied, true), false},
		{response(500, contracts.CodeInternal, false), false},
		{response(503, contracts.CodeUnavailable, false), false},
		{response(500, contracts.CodeDocumentDamaged, false), true},
		{response(500, contracts.CodeDocumentDamaged, true), false},
		{response(501, contracts.CodeNotConfigured, false), true},
		{response(404, "TEAPOT", false), true},
		{response(409, "TEAPOT", true), false},
		{response(500, "TEAPOT", false), false},
		{response(501, "TEAPOT", false), true},
		{response(0, contracts.CodeUnavailable, false), false}, // of a provider of one's own
		{response(0, contracts.CodeInvalidArgument, false), true},
		{response(0, "TEAPOT", false), false},
		{contracts.CodeLockHeld, false},
		{contracts.CodeLeaseLost, true},
		{contracts.CodeDocumentDamaged, true},
		{contracts.CodeInternal, false},
		{contracts.Code("TEAPOT"), false},
		{errors.New("404 Not Found"), false},
	} {
		for _, err := range []error{c.err, fmt.Errorf("acquire: %w", c.err), errors.Join(errors.New("x"), c.err)} {
			if got := contracts.Final(err); got != c.want {
				t.Errorf("%#v: %v, want %v", c.err, got, c.want)
			}
		}
	}
}

// TestFinalCodes: what a code alone says is what its response says.
func TestFinalCodes(t *testing.T) {
	for _, c := range all(t) {
		info, _ := c.Info()
		if e := contracts.Errorf(c, ""); e.Final() != c.Final() || c.Final() && info.Retryable {
			t.Errorf("%s: %v, and as a response %v", c, c.Final(), e.Final())
		}
	}
}

// TestTextOfLockHeld: who holds the lock and until when, if there is a lease; of several locks also which one.
func TestTextOfLockHeld(t *testing.T) {
	until := time.Date(2026, 1, 1, 0, 0, 12, 0, time.UTC)
	for want, e := range map[string]contracts.Error{
		"LOCK_HELD: lock is held (by ann, until 2026-01-01T00:00:12.000Z unless it renews)": {
			Owner: "ann", ExpiresAt: until},
		"LOCK_HELD: lock is held (a/b by ann, until 2026-01-01T00:00:12.000Z unless it renews)": {
			LockKey: "a/b", Owner: "ann", ExpiresAt: until},
		"LOCK_HELD: lock is held":       {Owner: "ann"},
		"LOCK_HELD: lock is held (a/b)": {LockKey: "a/b"},
		"LOCK_HELD: the rate of 2 in 10s is used up; the next grant is possible at 2026-01-01T00:00:12.000Z": {
			Owner: "ann", Detail: "the rate of 2 in 10s is used up; the next grant is possible at 2026-01-01T00:00:12.000Z",
		},
	} {
		e.Code, e.Title = contracts.CodeLockHeld, "lock is held"
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestAnErrorAndItsBody: what a server writes is what a client reads.
func TestAnErrorAndItsBody(t *testing.T) {
	e := contracts.Errorf(contracts.CodeLockHeld, "")
	e.Owner, e.ExpiresAt, e.RetryAfter = "ann", time.Date(2026, 1, 1, 0, 0, 12, 400e6, time.UTC), 2400*time.Millisecond
	e.HighestToken, e.Field, e.RequestID, e.PollAfter = 7, "x", "r1", 1500*time.Millisecond
	p := e.Problem()
	if p.ExpiresAt != "2026-01-01T00:00:12.400Z" || p.RetryAfterMs != 2400 || p.PollAfterMs != 1500 ||
		p.Instance != "urn:request:r1" ||
		p.Type != e.Code.TypeURI() {
		t.Errorf("%+v", p)
	}
	if got := p.Err(); *got != *e {
		t.Errorf("%+v, want %+v", got, e)
	}
	strange := contracts.Problem{Code: "TEAPOT", ExpiresAt: "soon", RetryAfterMs: 1 << 62, PollAfterMs: 1 << 62,
		Instance: "/x"}.Err()
	if !strange.ExpiresAt.IsZero() || strange.RetryAfter != 24*time.Hour || strange.PollAfter != 10*time.Second ||
		strange.RequestID != "" {
		t.Errorf("%+v", strange)
	}
	if got := (contracts.Problem{RetryAfterMs: -1}).Err(); got.RetryAfter != 0 {
		t.Errorf("%+v", got)
	}
}
