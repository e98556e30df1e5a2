package direct_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// TestRunsAsOverHTTP: what a program is told of runs is the same over HTTP and on a store, results and rejections
// alike.
func TestRunsAsOverHTTP(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	memory := func() docstore.Store { return docstore.NewMemory(&docstore.MemoryOptions{Now: now}) }
	server := httptest.NewServer(
		contracttest.Handler(t, httpapi.New(memory(), httpapi.Development{}, &httpapi.Options{Now: now, MaxTakeovers: 1})))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	both := []once.Gate{c.Runs("shop"), direct.Runs(runs.New(memory(), &runs.Options{
		Options: analysis.Options{Now: now, MaxTakeovers: 1}}), "shop", 0)}

	ctx, token := t.Context(), at.UnixMicro()+1
	acquire := func(id, owner, request, fingerprint string) func(once.Gate) (any, error) {
		return func(g once.Gate) (any, error) {
			return g.Acquire(ctx, once.Acquire{
				RunID: id, Owner: owner, RequestID: request, TTL: 30 * time.Second, MaxFailures: 3, Fingerprint: fingerprint,
			})
		}
	}
	lock := func(owner string, token int64) once.Lock {
		return once.Lock{RunID: "o1", Owner: owner, Token: token}
	}
	refresh := func(owner string, token int64) func(once.Gate) (any, error) {
		return func(g once.Gate) (any, error) { return g.Refresh(ctx, lock(owner, token), time.Minute) }
	}
	release := func(owner string, token int64, failed string) func(once.Gate) (any, error) {
		return func(g once.Gate) (any, error) { return nil, g.Release(ctx, lock(owner, token), failed) }
	}
	finish := func(owner string, token int64, r once.Result) func(once.Gate) (any, error) {
		return func(g once.Gate) (any, error) { return nil, g.Finish(ctx, lock(owner, token), r) }
	}
	for _, s := range []struct {
		name string
		wait time.Duration
		do   func(once.Gate) (any, error)
		code contracts.Code
		says string // of the result
	}{
		{"begin", 0, acquire("o1", "ann", "r1", "f1"), "", `"Acquired":true`},
		{"begin again", time.Second, acquire("o1", "ann", "r1", "f1"), "", `"Remaining":29000000000`},
		{"another", 0, acquire("o1", "bob", "r2", "f1"), "", `"RetryAfter":29000000000`},
		{"something else", 0, acquire("o1", "bob", "r2", "f2"), contracts.CodeRunDiffers, ""},
		{"refresh", 0, refresh("ann", token), "", "2026-01-01T00:01:01Z"},
		{"refresh of another", 0, refresh("bob", token), contracts.CodeNotOwner, ""},
		{"release, failed", 0, release("ann", token, "no network"), "", ""},
		{"release again", 0, release("ann", token, "no network"), "", ""},
		{"refresh of what was released", 0, refresh("ann", token), contracts.CodeLeaseReleased, ""},
		{"a late duplicate", 0, acquire("o1", "ann", "r1", "f1"), contracts.CodeRequestIDReused, ""},
		{"the next, whose process dies", 0, acquire("o1", "dee", "r9", "f1"), "", `"Failures":1`},
		{"take over", time.Minute, acquire("o1", "bob", "r2", "f1"), "", `"Runs":2`},
		{"a late finish", 0, finish("ann", token, once.Result{Result: "ch_0"}), contracts.CodeLeaseLost, ""},
		{"finish", 0, finish("bob", token+2, once.Result{Result: "ch_1"}), "", ""},
		{"finish again", 0, finish("bob", token+2, once.Result{Result: "ch_1"}), "", ""},
		{"finish otherwise", 0, finish("bob", token+2, once.Result{Result: "ch_2"}), contracts.CodeAlreadyFinished, ""},
		{"the result", 0, acquire("o1", "cy", "r3", "f1"), "", `"Result":{"Failed":false,"Result":"ch_1","Reason":""}`},
		{"something else later", 0, acquire("o1", "cy", "r3", "f2"), contracts.CodeRunDiffers, ""},
		{"a run of no one", 0, func(g once.Gate) (any, error) {
			return nil, g.Release(ctx, once.Lock{RunID: "o2", Owner: "ann", Token: 1}, "")
		}, contracts.CodeNotFound, ""},
		{"an ID with a slash", 0, acquire("a/b", "ann", "r1", ""), contracts.CodeInvalidArgument, ""},
	} {
		at = at.Add(s.wait)
		var told [2]string
		for i, g := range both {
			got, err := s.do(g)
			text, _ := json.Marshal(got)
			if told[i] = string(text); err != nil {
				told[i] = ""
			}
			if (s.code == "") != (err == nil) || s.code != "" && !errors.Is(err, s.code) {
				t.Fatalf("%s, %d: %v, %v", s.name, i, told[i], err)
			}
			if e, ok := errors.AsType[*contracts.Error](err); ok && s.code == contracts.CodeNotFound && e.Field != "run_id" {
				t.Errorf("%s, %d: field %q", s.name, i, e.Field)
			}
		}
		if told[0] != told[1] || !strings.Contains(told[0], s.says) {
			t.Errorf("%s:\nHTTP:  %s\nstore: %s", s.name, told[0], told[1])
		}
	}
	got, err := c.Runs("shop").Get(ctx, "o1")
	if err != nil || got.Result != "ch_1" || !got.Finished || got.Status != contracts.RunReady || got.Failures != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Runs("shop").Get(ctx, "o3"); !errors.Is(err, contracts.CodeNotFound) {
		t.Error(err)
	}
}
