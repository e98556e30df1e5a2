package analysis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// id is the analysis that most of these tests are about.
const id = analysis.ID("a1")

// bench is the gate on a store whose clock stands at the suite's epoch, with one new analysis.
type bench struct {
	t        *testing.T
	clock    *suite.Clock // the store's
	own      *suite.Clock // that of Analyses
	memory   *docstore.Memory
	store    *suite.Watched
	analyses *analysis.Analyses
}

func begin(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: suite.NewClock(), own: suite.NewClockAt(suite.Epoch.Add(-time.Hour))}
	b.memory = docstore.NewMemory(&docstore.MemoryOptions{Now: b.clock.Now})
	b.store = &suite.Watched{Store: b.memory}
	b.analyses = analysis.New(b.store, &analysis.Options{Now: b.own.Now})
	// A token that is there is counted up: short numbers are easier to read. TestTokensSurviveDeletion begins without one.
	b.put(id, docstore.Doc{"status": docstore.String("PENDING"), "title": docstore.String("mine"),
		"lockToken": docstore.Int(0)})
	return b
}

// put writes fields into an analysis' document, as another writer.
func (b *bench) put(id analysis.ID, d docstore.Doc) {
	b.t.Helper()
	r, err := b.memory.Write(context.Background(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: string(id)},
		Set: d})
	if err != nil || !r.Applied {
		b.t.Fatalf("put %s: %+v, %v", id, r, err)
	}
}

// document reads an analysis' document as it is.
func (b *bench) document(id analysis.ID) docstore.Doc {
	b.t.Helper()
	s, err := b.memory.Get(context.Background(), docstore.Key{Kind: analysis.Kind, ID: string(id)})
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Docs[0]
}

// userView is the document of analysis a1 without what the gate remembers of requests.
func (b *bench) userView() docstore.Doc {
	b.t.Helper()
	d := b.document("a1")
	maps.DeleteFunc(d, func(f string, _ docstore.Value) bool { return strings.HasPrefix(f, "lockRequest") })
	return d
}

// do carries out a command of any kind.
func (b *bench) do(c any) (analysis.Outcome, error) {
	b.t.Helper()
	switch c := c.(type) {
	case analysis.Acquire:
		return b.analyses.Acquire(b.t.Context(), c)
	case analysis.Refresh:
		return b.analyses.Refresh(b.t.Context(), c)
	case analysis.Release:
		return b.analyses.Release(b.t.Context(), c)
	case analysis.Finish:
		return b.analyses.Finish(b.t.Context(), c)
	case analysis.Retry:
		return b.analyses.Retry(b.t.Context(), c)
	default:
		b.t.Fatalf("%T is no command", c)
		return analysis.Outcome{}, nil
	}
}

// gets fails the test unless the command ends with the code.
func (b *bench) gets(c any, code analysis.Code, replayed bool) analysis.Outcome {
	b.t.Helper()
	o, err := b.do(c)
	if err != nil || o.Code != code || o.Replayed != replayed {
		b.t.Fatalf("%#v:\ngot  %+v, %v\nwant %s, replayed %v", c, o, err, code, replayed)
	}
	return o
}

func at(ms int) time.Time { return suite.Epoch.Add(time.Duration(ms) * time.Millisecond) }

func acquire(owner, request string, ttl int64) analysis.Acquire {
	return analysis.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: ttl}
}

func refresh(owner string, token, ttl int64) analysis.Refresh {
	return analysis.Refresh{ID: id, Owner: owner, Token: token, TTLSeconds: ttl}
}

func release(owner string, token int64, failed string) analysis.Release {
	return analysis.Release{ID: id, Owner: owner, Token: token, Failed: failed}
}

func ready(owner string, token int64, result string) analysis.Finish {
	return analysis.Finish{ID: id, Owner: owner, Token: token, Status: analysis.Ready, Result: result}
}

func retry(by, request, reason string) analysis.Retry {
	return analysis.Retry{ID: id, By: by, RequestID: request, Reason: reason}
}

func failed(owner string, token int64, reason string) analysis.Finish {
	return analysis.Finish{ID: id, Owner: owner, Token: token, Status: analysis.Failed, Reason: reason}
}

// TestLifeOfAnAnalysis is one story: each command's whole outcome, the document that it leaves, and the one request
// that it costs, whatever the outcome.
func TestLifeOfAnAnalysis(t *testing.T) {
	b := begin(t)
	const (
		gone     = "there is no such analysis; its document may have been removed"
		ended    = "the lock expired; stop the work, or acquire again"
		notYours = "the lock belongs to another owner_id"
		over     = "another worker took the analysis over; stop the work that this token protects"
		never    = "this token was never granted"
		otherTTL = "this request_id was used before with another ttl_seconds or due time: use a new one"
		spent    = "this request_id obtained the lock before, and that has ended, or it was given up: use a new one"
	)
	grant := func(owner string, token int64, until int, runs, failures int64) analysis.Grant {
		return analysis.Grant{Status: "PENDING", Owner: owner, Token: token, ExpiresAt: at(until), Runs: runs,
			Failures: failures}
	}
	free := func(token, failures int64) analysis.Grant {
		return analysis.Grant{Status: "PENDING", Token: token, Failures: failures}
	}
	type outcome = analysis.Outcome
	for _, s := range []struct {
		name  string
		after time.Duration // since the step before
		do    any
		want  outcome // At is filled in
	}{
		{"no such analysis: acquire", 0, analysis.Acquire{ID: "none", Owner: "ann", RequestID: "r1", TTLSeconds: 1},
			outcome{Code: analysis.NotFound, Detail: "there is no document analyses/none"}},
		{"no such analysis: refresh", 0, analysis.Refresh{ID: "none", Owner: "ann", Token: 1, TTLSeconds: 1},
			outcome{Code: analysis.NotFound, Detail: gone}},
		{"no such analysis: release", 0, analysis.Release{ID: "none", Owner: "ann", Token: 1},
			outcome{Code: analysis.NotFound, Detail: gone}},
		{"no such analysis: finish", 0, analysis.Finish{ID: "none", Owner: "ann", Token: 1, Status: analysis.Ready},
			outcome{Code: analysis.NotFound, Detail: gone}},
		{"refresh before the first run", 0, refresh("ann", 1, 300), outcome{Code: analysis.Lost, Detail: never}},
		{"BE-041-RULE-2: acquire what no one runs", 0, acquire("ann", "r1", 300),
			outcome{Code: analysis.OK, Grant: grant("ann", 1, 300_000, 1, 0)}},
		{"acquire again", time.Second, acquire("ann", "r1", 300),
			outcome{Code: analysis.OK, Replayed: true, Grant: grant("ann", 1, 300_000, 1, 0)}},
		{"BE-041-RULE-4: acquire what another worker runs", 0, acquire("bob", "r2", 300), outcome{
			Code: analysis.Locked, RetryAfter: 299 * time.Second, Grant: analysis.Grant{Status: "PENDING", Owner: "ann",
				ExpiresAt: at(300_000)}}},
		{"the same worker, another attempt", 0, acquire("ann", "r3", 300), outcome{
			Code: analysis.Locked, RetryAfter: 299 * time.Second, Grant: analysis.Grant{Status: "PENDING", Owner: "ann",
				ExpiresAt: at(300_000)}}},
		{"refresh", 99 * time.Second, refresh("ann", 1, 300),
			outcome{Code: analysis.OK, Grant: grant("ann", 1, 400_000, 1, 0)}},
		{"refresh again", 0, refresh("ann", 1, 300), outcome{Code: analysis.OK, Grant: grant("ann", 1, 400_000, 1, 0)}},
		{"refresh by another", 0, refresh("bob", 1, 300), outcome{Code: analysis.NotOwner, Detail: notYours}},
		{"acquire with another ttl", 0, acquire("ann", "r1", 299), outcome{Code: analysis.RequestIDReused, Detail: otherTTL}},
		{"BE-041-CONFLICT-1: release by another", 0, release("bob", 1, ""),
			outcome{Code: analysis.NotOwner, Detail: notYours}},
		{"finish by another", 0, ready("bob", 1, ""), outcome{Code: analysis.NotOwner, Detail: notYours}},
		{"release with a token that was never granted", 0, release("ann", 2, ""),
			outcome{Code: analysis.Lost, Detail: never}},
		{"BE-041-DOD-4: release after a failed run", 0, release("ann", 1, "no disk"),
			outcome{Code: analysis.OK, Grant: free(1, 1)}},
		{"release again", 0, release("ann", 1, "no disk"), outcome{Code: analysis.OK, Replayed: true, Grant: free(1, 1)}},
		{"acquire again what was released", 0, acquire("ann", "r1", 300),
			outcome{Code: analysis.RequestIDReused, Detail: spent}},
		{"release with a reason that was not counted", 0, release("ann", 1, "no memory"), outcome{
			Code: analysis.Released, Detail: "the lock was released before, without this failure_reason, which was not stored"}},
		{"refresh what was released", 0, refresh("ann", 1, 300),
			outcome{Code: analysis.Released, Detail: "the lock was released; acquire again"}},
		{"finish what was released", 0, ready("ann", 1, ""),
			outcome{Code: analysis.Released, Detail: "the lock was released; acquire again"}},
		{"acquire what was released: no takeover", 0, acquire("bob", "r2", 10),
			outcome{Code: analysis.OK, Grant: grant("bob", 2, 110_000, 1, 1)}},
		{"refresh at lockExpiresAt", 10 * time.Second, refresh("bob", 2, 10), outcome{Code: analysis.Expired, Detail: ended}},
		{"BE-041-RULE-3, BE-041-DOD-3: acquire at lockExpiresAt, a takeover", 0, acquire("cy", "r4", 10),
			outcome{Code: analysis.OK, Grant: grant("cy", 3, 120_000, 2, 1)}},
		{"refresh by a zombie", 0, refresh("bob", 2, 10), outcome{Code: analysis.Lost, Detail: over}},
		{"finish by a zombie", 0, ready("bob", 2, "old"), outcome{Code: analysis.Lost, Detail: over}},
		{"fail by a zombie", 0, failed("bob", 2, "late"), outcome{Code: analysis.Lost, Detail: over}},
		{"release by a zombie", 0, release("bob", 2, "late"), outcome{Code: analysis.Lost, Detail: over}},
		{"finish late, while no one has taken over", time.Hour, ready("cy", 3, "gs://b/1"),
			outcome{Code: analysis.OK, Grant: analysis.Grant{Status: analysis.Ready, Token: 3, Failures: 1}}},
		{"finish again", 0, ready("cy", 3, "gs://b/1"),
			outcome{Code: analysis.OK, Replayed: true, Grant: analysis.Grant{Status: analysis.Ready, Token: 3, Failures: 1}}},
		{"release after the finish", 0, release("cy", 3, ""),
			outcome{Code: analysis.OK, Replayed: true, Grant: analysis.Grant{Status: analysis.Ready, Token: 3, Failures: 1}}},
		{"finish with nothing to add", 0, ready("cy", 3, ""),
			outcome{Code: analysis.OK, Replayed: true, Grant: analysis.Grant{Status: analysis.Ready, Token: 3, Failures: 1}}},
		{"finish with another result", 0, ready("cy", 3, "gs://b/2"), outcome{
			Code: analysis.AlreadyFinished, Grant: analysis.Grant{Status: analysis.Ready},
			Detail: "the analysis is already READY with another result or failure_reason, which stays"}},
		{"release with a reason after the finish", 0, release("cy", 3, "no disk"), outcome{
			Code: analysis.AlreadyFinished, Grant: analysis.Grant{Status: analysis.Ready},
			Detail: "the analysis is already READY; it stays so; this failure_reason was not stored"}},
		{"finish the other way", 0, failed("cy", 3, "no"), outcome{
			Code: analysis.AlreadyFinished, Grant: analysis.Grant{Status: analysis.Ready},
			Detail: "the analysis is already READY; it stays so"}},
		{"BE-041-RULE-1, BE-041-DOD-2: acquire what is READY", 0, acquire("ann", "r5", 300),
			outcome{Code: analysis.AlreadyFinished, Grant: analysis.Grant{Status: analysis.Ready}, Result: "gs://b/1"}},
	} {
		b.clock.Advance(s.after)
		b.store.Forget()
		s.want.At = b.clock.Now()
		before := b.document(id)
		got, err := b.do(s.do)
		if err != nil || !reflect.DeepEqual(got, s.want) {
			t.Fatalf("%s:\ngot  %+v, %v\nwant %+v", s.name, got, err, s.want)
		}
		writes := []string{"Write"}
		if strings.Contains(s.name, "takeover") && s.want.Grant.Runs > 1 {
			writes = append(writes, "Write")
		}
		if r := b.store.Requests(); !slices.Equal(r, writes) {
			t.Errorf("%s: the store saw %v, want %v", s.name, r, writes)
		}
		if after := b.document(id); (s.want.Code != analysis.OK || s.want.Replayed) && !after.Equal(before) {
			t.Errorf("%s: changed the document from %v to %v", s.name, before, after)
		}
	}
	want := docstore.Doc{
		"status": docstore.String("READY"), "result": docstore.String("gs://b/1"), "lockToken": docstore.Int(3),
		"lockFailures":    docstore.Int(1),
		"lockFailedToken": docstore.Int(1), "title": docstore.String("mine"),
		"lockFinishedAt": docstore.FormatTime(b.clock.Now()),
	}
	if got := b.userView(); !got.Equal(want) {
		t.Errorf("the document is %v\nwant %v", got, want)
	}
}

// TestFirstAcquire: BE-041-TEST-1, BE-041-DOD-1. What the document then says is what the requirement's own code reads.
func TestFirstAcquire(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", analysis.DefaultTTLSeconds), analysis.OK, false)
	want := docstore.Doc{
		"status": docstore.String("PENDING"), "title": docstore.String("mine"), "lockOwner": docstore.String("ann"),
		"lockExpiresAt":   docstore.String("2026-01-01T00:05:00.000Z"),
		"lockHeartbeatAt": docstore.String("2026-01-01T00:00:00.000Z"),
		"lockToken":       docstore.Int(1), "lockRuns": docstore.Int(1),
	}
	if got := b.userView(); !got.Equal(want) {
		t.Errorf("the document is %v\nwant %v", got, want)
	}
	if got, _ := b.document(id)["lockRequest1"].(docstore.String); len(got) != 15 {
		t.Errorf("the request is remembered as %q", got)
	}
	s, now, err := b.analyses.Get(t.Context(), id)
	end := at(300_000)
	wantState := analysis.State{
		Exists: true, Status: "PENDING", Owner: "ann", Expiry: analysis.Expiry{Text: "2026-01-01T00:05:00.000Z",
			Earliest: end, Latest: end},
		Heartbeat: suite.Epoch, Token: 1, Requests: s.Requests, Runs: 1,
	}
	if err != nil || s != wantState || !now.Equal(suite.Epoch) {
		t.Errorf("Get: %+v at %v, %v", s, now, err)
	}
	if s, _, err := b.analyses.Get(t.Context(), "none"); err != nil || s.Exists {
		t.Errorf("Get of none: %+v, %v", s, err)
	}
}

// TestTwoAtOnce: BE-041-TEST-2, BE-041-CONFLICT-3. Of many deliveries at once one runs; the others are told who does.
func TestTwoAtOnce(t *testing.T) {
	for _, callers := range []int{2, 50} {
		b := begin(t)
		outcomes := make(chan analysis.Outcome, callers)
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				o, err := b.analyses.Acquire(t.Context(), acquire(fmt.Sprint("worker ", n), fmt.Sprint("r", n), 300))
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			})
		}
		all.Wait()
		close(outcomes)
		codes, owners := map[analysis.Code]int{}, map[string]bool{}
		for o := range outcomes {
			codes[o.Code]++
			owners[o.Grant.Owner] = true
		}
		if want := map[analysis.Code]int{analysis.OK: 1, analysis.Locked: callers - 1}; !maps.Equal(codes, want) ||
			len(owners) != 1 {
			t.Errorf("%d callers: %v, owners %v", callers, codes, owners)
		}
	}
}

// TestAfterTheTTL: BE-041-TEST-3, BE-041-DOD-3, BE-041-TTL. The boundary belongs to the next one: a lock of 300 s is
// over after 300 s.
func TestAfterTheTTL(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.clock.Advance(300*time.Second - time.Millisecond)
	if o := b.gets(acquire("bob", "r2", 300), analysis.Locked, false); o.RetryAfter != time.Millisecond {
		t.Errorf("come again after %v", o.RetryAfter)
	}
	b.clock.Advance(time.Millisecond)
	if o := b.gets(acquire("bob", "r2", 300), analysis.OK, false); o.Grant.Token != 2 || o.Grant.Runs != 2 {
		t.Errorf("the takeover is %+v", o.Grant)
	}
	// The same attempt has had its run: it gets no second one.
	b.clock.Advance(300 * time.Second)
	b.gets(acquire("bob", "r2", 300), analysis.RequestIDReused, false)
	if o := b.gets(acquire("bob", "r3", 300), analysis.OK, false); o.Grant.Token != 3 || o.Grant.Runs != 3 {
		t.Errorf("the takeover is %+v", o.Grant)
	}
}

// TestHeartbeats: a worker that refreshes keeps the others out for as long as it works, however late a message is
// delivered again.
func TestHeartbeats(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	for range 60 {
		b.clock.Advance(120 * time.Second)
		if o := b.gets(refresh("ann", 1, 300), analysis.OK, false); !o.Grant.ExpiresAt.Equal(
			b.clock.Now().Add(300 * time.Second)) {
			t.Fatalf("refreshed until %v", o.Grant.ExpiresAt)
		}
		b.gets(acquire("bob", "r2", 300), analysis.Locked, false)
	}
	if got := b.document(id)["lockHeartbeatAt"]; got != docstore.Value(docstore.FormatTime(b.clock.Now())) {
		t.Errorf("lockHeartbeatAt is %v", got)
	}
}

// TestFinishedIsNeverAcquired: BE-041-TEST-4, BE-041-DOD-2, whatever the lock fields say.
func TestFinishedIsNeverAcquired(t *testing.T) {
	for _, status := range []analysis.Status{analysis.Ready, analysis.Failed} {
		for name, d := range map[string]docstore.Doc{
			"no lock":           {},
			"a stale lock":      {"lockOwner": docstore.String("ann"), "lockExpiresAt": docstore.FormatTime(at(-1))},
			"a lock":            {"lockOwner": docstore.String("ann"), "lockExpiresAt": docstore.FormatTime(at(1000))},
			"its own lock":      {"lockOwner": docstore.String("bob"), "lockExpiresAt": docstore.FormatTime(at(1000))},
			"an expiry of null": {"lockOwner": docstore.String("ann"), "lockExpiresAt": docstore.Bool(false)},
			"a far expiry":      {"lockOwner": docstore.String("ann"), "lockExpiresAt": docstore.String("soon")},
		} {
			t.Run(string(status)+", "+name, func(t *testing.T) {
				b := begin(t)
				b.put(id, d)
				b.put(id, docstore.Doc{"status": docstore.String(status)})
				before := b.document(id)
				if o := b.gets(acquire("bob", "r1", 300), analysis.AlreadyFinished,
					false); o.Grant != (analysis.Grant{Status: status}) {
					t.Errorf("got %+v", o)
				}
				if got := b.document(id); !got.Equal(before) {
					t.Errorf("changed the document to %v", got)
				}
			})
		}
	}
}

// TestReleaseByAnother: BE-041-TEST-5, BE-041-CONFLICT-1. Neither another owner, nor the same under an earlier token,
// takes the lock off.
func TestReleaseByAnother(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 1), analysis.OK, false)
	b.clock.Advance(time.Second)
	b.gets(acquire("ann", "r2", 300), analysis.OK, false)
	before := b.document(id)
	b.gets(release("bob", 2, ""), analysis.NotOwner, false)
	b.gets(release("ann", 1, ""), analysis.Lost, false)
	b.gets(release("ann", 3, ""), analysis.Lost, false)
	if got := b.document(id); !got.Equal(before) {
		t.Errorf("the lock was %v and is %v", before, got)
	}
	b.gets(acquire("bob", "r3", 300), analysis.Locked, false)
	b.gets(release("ann", 2, ""), analysis.OK, false)
	b.gets(acquire("bob", "r3", 300), analysis.OK, false)
}

// TestFinishEndsTheLock, BE-041-DOD-4: READY and FAILED take the lock off in the same step, and the other status'
// leftovers with it.
func TestFinishEndsTheLock(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.gets(release("ann", 1, "no disk"), analysis.OK, false)
	b.gets(acquire("ann", "r2", 300), analysis.OK, false)
	b.gets(ready("ann", 2, ""), analysis.OK, false)
	common := docstore.Doc{
		"title": docstore.String("mine"), "lockToken": docstore.Int(2), "lockFailures": docstore.Int(1),
		"lockFailedToken": docstore.Int(1),
		"lockFinishedAt":  docstore.FormatTime(b.clock.Now()),
	}
	want := common.Clone()
	want["status"] = docstore.String("READY")
	if got := b.userView(); !got.Equal(want) {
		t.Errorf("READY leaves %v\nwant %v", got, want)
	}

	b.put(id, docstore.Doc{"status": docstore.String("PENDING"), "result": docstore.Map{"my": "own"}})
	b.gets(acquire("ann", "r3", 300), analysis.OK, false)
	if end := b.document(id)["lockFinishedAt"]; end != nil {
		t.Errorf("a run that has not ended is said to have ended at %v", end)
	}
	b.gets(failed("ann", 3, "bad input"), analysis.OK, false)
	want = common.Clone()
	maps.Copy(want, docstore.Doc{
		"status": docstore.String("FAILED"), "failureReason": docstore.String("bad input"), "lockToken": docstore.Int(3),
		"result":       docstore.Map{"my": "own"},
		"lockFailures": docstore.Int(2), "lockFailedToken": docstore.Int(3), // this run failed, too
	})
	if got := b.userView(); !got.Equal(want) {
		t.Errorf("FAILED leaves %v\nwant %v", got, want)
	}
}

// TestSomebodyElseFinishes: a status that another writer set stays, and the holder learns it with its next refresh.
func TestSomebodyElseFinishes(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.put(id, docstore.Doc{"status": docstore.String("FAILED")})
	before := b.document(id)
	if o := b.gets(refresh("ann", 1, 300), analysis.AlreadyFinished, false); o.Grant.Status != analysis.Failed {
		t.Errorf("got %+v", o)
	}
	b.gets(ready("ann", 1, "late"), analysis.AlreadyFinished, false)
	if got := b.document(id); !got.Equal(before) {
		t.Errorf("the document was %v and is %v", before, got)
	}
	b.gets(release("ann", 1, ""), analysis.OK, false)
	if got := b.document(id); got["status"] != docstore.Value(docstore.String("FAILED")) || got["lockOwner"] != nil {
		t.Errorf("after the release: %v", got)
	}
}

// TestForeignExpiry, BE-041-RULE-3, BE-041-RULE-4: what another writer put into lockExpiresAt is held as long as it is
// ahead in any form of ISO 8601, free once it has passed, and cannot be taken over as long as it cannot be judged.
func TestForeignExpiry(t *testing.T) {
	for _, c := range []struct {
		expiry docstore.Value
		code   analysis.Code
	}{
		{docstore.String(""), analysis.OK},
		{docstore.String("2025-12-31T23:59:59+00:00"), analysis.OK},
		{docstore.String("2026-01-01T08:59:59.999+09:00"), analysis.OK},
		{docstore.String("2026-01-01T00:00Z"), analysis.OK},
		{docstore.String("20251231T235959Z"), analysis.OK},
		{docstore.String("2025-12-31T11:59"), analysis.OK}, // passed at every place
		{docstore.String("2026-01-01T09:00:00.001+09:00"), analysis.Locked},
		{docstore.String("2025-12-31T19:30:00-05:00"), analysis.Locked}, // sorts before now
		{docstore.String("2026-01-01T00:01Z"), analysis.Locked},
		{docstore.String("2026-01-01T00:00:00,5Z"), analysis.Locked},
		{docstore.String("20260101T000001Z"), analysis.Locked},
		{docstore.String("2026-01-01T23:59:59Z"), analysis.Locked},
		{docstore.String("2026-01-02T00:00:01Z"), analysis.Locked},
		{docstore.String("2026-01-02"), analysis.Locked},
		{docstore.String("2026-01-01T00:00:00"), analysis.Unreadable},
		{docstore.String("2026-01-01"), analysis.Unreadable},
		{docstore.String("1999"), analysis.Unreadable},
		{docstore.String("3000"), analysis.Unreadable},
		{docstore.String("soon"), analysis.Unreadable},
		{docstore.String("1767225600"), analysis.Unreadable},
		{docstore.String("2026-02-30T00:00:00.000Z"), analysis.Unreadable},
		{docstore.Int(1767225600000), analysis.Unreadable},
		{docstore.Bool(false), analysis.Unreadable},
		{docstore.Map{"seconds": "1767225600"}, analysis.Unreadable},
	} {
		t.Run(fmt.Sprint(c.expiry), func(t *testing.T) {
			b := begin(t)
			b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": c.expiry})
			before := b.document(id)
			o := b.gets(acquire("ann", "r1", 300), c.code, false)
			if c.code == analysis.OK {
				if o.Grant.Token != 1 || o.Grant.Owner != "ann" {
					t.Errorf("got %+v", o)
				}
				return
			}
			if o.Grant.Owner != "other" || c.code == analysis.Unreadable && !strings.Contains(o.Detail, "lockExpiresAt") {
				t.Errorf("got %+v", o)
			}
			if got := b.document(id); !got.Equal(before) {
				t.Errorf("changed the document to %v", got)
			}
			b.put(id, docstore.Doc{"lockOwner": docstore.String("")}) // repaired
			b.gets(acquire("ann", "r1", 300), analysis.OK, false)
		})
	}
	const stale = docstore.String("2025-12-31T23:59:59+00:00")
	t.Run("it changes in between", func(t *testing.T) {
		b := begin(t)
		b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": stale})
		calls := 0
		b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if calls++; calls == 2 {
				b.put(id, docstore.Doc{"lockExpiresAt": docstore.FormatTime(at(5000))})
			}
			return apply()
		}
		if o := b.gets(acquire("ann", "r1", 300), analysis.Locked, false); o.Grant.Owner != "other" ||
			o.RetryAfter != 5*time.Second {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("another owner in between", func(t *testing.T) {
		b := begin(t)
		b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": stale})
		calls := 0
		b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			calls++
			b.put(id, docstore.Doc{"lockOwner": docstore.String(fmt.Sprint("other ", calls))})
			return apply()
		}
		o, err := b.do(acquire("ann", "r1", 300))
		if !errors.Is(err, docstore.ErrUnavailable) || o != (analysis.Outcome{}) {
			t.Errorf("got %+v, %v", o, err)
		}
	})
	t.Run("the response of the second write is lost", func(t *testing.T) {
		b := begin(t)
		b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": stale})
		calls := 0
		b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if calls++; calls == 2 {
				if r, err := apply(); err != nil || !r.Applied {
					t.Errorf("%+v, %v", r, err)
				}
			}
			return apply()
		}
		if o := b.gets(acquire("ann", "r1", 300), analysis.OK, true); o.Grant.Token != 1 {
			t.Errorf("got %+v", o)
		}
	})
}

// TestRememberedAcquires, LS-ACC-04: a request that had the lock gets it never again while it is remembered, whatever
// became of that lock, and is no run.
func TestRememberedAcquires(t *testing.T) {
	for name, end := range map[string]func(b *bench, owner string, token int64){
		"released": func(b *bench, owner string, token int64) { b.gets(release(owner, token, ""), analysis.OK, false) },
		"failed": func(b *bench, owner string, token int64) {
			b.gets(release(owner, token, "no disk"), analysis.OK, false)
		},
		"expired": func(b *bench, _ string, _ int64) { b.clock.Advance(time.Second) },
		"unlocked by another writer": func(b *bench, _ string, _ int64) {
			b.put(id, docstore.Doc{"lockOwner": docstore.String("")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.gets(acquire("ann", "r0", 1), analysis.OK, false)
			end(b, "ann", 1)
			for n := range int64(analysis.RememberedRequests) {
				before := b.document(id)
				if o := b.gets(acquire("ann", "r0", 1), analysis.RequestIDReused, false); !strings.Contains(o.Detail,
					"use a new one") {
					t.Errorf("got %+v", o)
				}
				b.gets(acquire("ann", "r0", 2), analysis.RequestIDReused, false)
				if got := b.document(id); !got.Equal(before) {
					t.Errorf("a late duplicate made %v of %v", got, before)
				}
				owner := []string{"ann", "bob"}[n%2]
				if o := b.gets(acquire(owner, fmt.Sprint("r", n+1), 1), analysis.OK, false); o.Grant.Token != n+2 {
					t.Errorf("got %+v", o)
				}
				if n < analysis.RememberedRequests-1 {
					b.gets(acquire("ann", "r0", 1), analysis.RequestIDReused, false) // another holds it
				}
				end(b, owner, n+2)
			}
			b.gets(acquire("bob", "r0", 1), analysis.OK, false) // the same ID of another owner is another request
		})
	}
}

// TestPoisonEnds: an analysis whose workers die, or whose runs fail, again and again is ended by the next acquire,
// without a sweep.
func TestPoisonEnds(t *testing.T) {
	t.Run("takeovers", func(t *testing.T) {
		for _, most := range []int64{0, 1, 3} {
			b := begin(t)
			b.analyses = analysis.New(b.store, &analysis.Options{Now: b.own.Now, MaxTakeovers: most})
			bound := cmp.Or(most, analysis.DefaultMaxTakeovers)
			for run := range bound + 1 {
				if o := b.gets(acquire("ann", fmt.Sprint("r", run), 1), analysis.OK, false); o.Grant.Runs != run+1 {
					t.Fatalf("run %d is %+v", run, o)
				}
				b.clock.Advance(time.Second)
			}
			o := b.gets(acquire("bob", "last", 1), analysis.AlreadyFinished, false)
			reason := fmt.Sprintf("given up after %d takeovers: its workers died, or lost their locks, again and again", bound)
			if o.Grant != (analysis.Grant{Status: analysis.Failed}) || o.Detail != reason {
				t.Errorf("got %+v", o)
			}
			want := docstore.Doc{
				"status": docstore.String("FAILED"), "title": docstore.String("mine"), "lockToken": docstore.Int(bound + 2),
				"failureReason":  docstore.String(reason),
				"lockFinishedAt": docstore.FormatTime(b.clock.Now()),
			}
			if got := b.userView(); !got.Equal(want) {
				t.Errorf("the document is %v\nwant %v", got, want)
			}
			b.gets(ready("ann", bound+1, "late"), analysis.Lost, false)
			b.gets(acquire("bob", "next", 1), analysis.AlreadyFinished, false)
		}
	})
	t.Run("failures", func(t *testing.T) {
		b := begin(t)
		try := func(n int64) analysis.Acquire {
			c := acquire("ann", fmt.Sprint("r", n), 1)
			c.MaxFailures = 3
			return c
		}
		for n := range int64(3) {
			b.gets(try(n), analysis.OK, false)
			b.gets(release("ann", n+1, "no disk"), analysis.OK, false)
		}
		if o := b.gets(try(3), analysis.AlreadyFinished, false); o.Grant.Status != analysis.Failed ||
			o.Detail != "given up after 3 failed runs" {
			t.Errorf("got %+v", o)
		}
		if d := b.document(id); d["status"] != docstore.Value(docstore.String("FAILED")) ||
			d["lockFailures"] != docstore.Value(docstore.Int(3)) {
			t.Errorf("the document is %v", d)
		}
	})
}

// TestTokensSurviveDeletion: a document that is deleted and made again under a worker begins with a higher token, so
// that the old worker can neither refresh, release nor finish the new run.
func TestTokensSurviveDeletion(t *testing.T) {
	b := begin(t)
	newDocument := func() {
		key := docstore.Key{Kind: analysis.Kind, ID: string(id)}
		if r, err := b.memory.Write(t.Context(), docstore.Write{Key: key, If: docstore.Not{Cond: docstore.Absent{}},
			Delete: true}); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
		b.clock.Advance(2 * time.Millisecond)
		b.put(id, docstore.Doc{"status": docstore.String("PENDING")})
	}
	newDocument()
	last := int64(0)
	for n := range 5 {
		o := b.gets(acquire("ann", "r1", 300), analysis.OK, false) // what the old document remembered is gone, too
		if now := b.clock.Now().UnixMicro(); o.Grant.Token != now+1 || o.Grant.Token <= last {
			t.Fatalf("grant %d has the token %d after %d, at %d", n, o.Grant.Token, last, now)
		}
		last = o.Grant.Token
		newDocument()
		b.gets(refresh("ann", last, 300), analysis.Lost, false) // before the next run, and during it
		next := b.gets(acquire("ann", "r1", 300), analysis.OK, false)
		b.gets(refresh("ann", last, 300), analysis.Lost, false)
		b.gets(release("ann", last, ""), analysis.Lost, false)
		b.gets(ready("ann", last, "old"), analysis.Lost, false)
		b.gets(refresh("ann", next.Grant.Token, 300), analysis.OK, false)
		last = next.Grant.Token
		newDocument()
	}
}

// TestDamagedDocuments: what cannot be read is an error for all commands, and none writes to it.
func TestDamagedDocuments(t *testing.T) {
	for name, damage := range map[string]docstore.Doc{
		"status is a number":      {"status": docstore.Int(1)},
		"status is a map":         {"status": docstore.Map{"state": "READY"}},
		"token is text":           {"lockToken": docstore.String("1")},
		"token is negative":       {"lockToken": docstore.Int(-1)},
		"runs are text":           {"lockRuns": docstore.String("1")},
		"failures are a boolean":  {"lockFailures": docstore.Bool(true)},
		"failures are negative":   {"lockFailures": docstore.Int(-7)},
		"status sorts above text": {"status": docstore.String("\U0010FFFFREADY")},
		"a request is a number":   {"lockRequest3": docstore.Int(1)},
		"a retry is a number":     {"lockRetry2": docstore.Int(1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.gets(acquire("ann", "r1", 1), analysis.OK, false)
			b.put(id, damage)
			before := b.document(id)
			for range 2 { // locked, and stale
				for _, c := range []any{acquire("bob", "r2", 1), refresh("ann", 1, 1), release("ann", 1, "x"),
					release("ann", 1, ""), ready("ann", 1, ""), failed("ann", 1, "x"), retry("root", "r1", "x")} {
					o, err := b.do(c)
					if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "analyses//a1") ||
						o != (analysis.Outcome{}) {
						t.Errorf("%#v: %+v, %v", c, o, err)
					}
				}
				b.clock.Advance(time.Second)
			}
			if _, _, err := b.analyses.Get(t.Context(), id); !errors.Is(err, docstore.ErrDamaged) {
				t.Errorf("Get: %v", err)
			}
			if got := b.document(id); !got.Equal(before) {
				t.Errorf("the document was %v and is %v", before, got)
			}
		})
	}
}

// TestStoreThatRefusesWhatTheRuleGrants: a store that evaluates a condition otherwise than Go does is an error, not an
// outcome.
func TestStoreThatRefusesWhatTheRuleGrants(t *testing.T) {
	b := begin(t)
	b.store.OnWrite = func(func() (docstore.Result, error)) (docstore.Result, error) {
		return docstore.Result{At: b.clock.Now(), Docs: []docstore.Doc{b.document(id)}, Refused: []int{0}}, nil
	}
	o, err := b.do(acquire("ann", "r1", 300))
	if !errors.Is(err, docstore.ErrDamaged) || o != (analysis.Outcome{}) {
		t.Errorf("got %+v, %v", o, err)
	}
}

// TestResponsesThatCameTooLate: a lock that expired before the store responded is no grant.
func TestResponsesThatCameTooLate(t *testing.T) {
	for _, c := range []struct {
		name     string
		age      time.Duration // of ann's lock of 30 s with token 1; negative: there is none
		do       any
		took     time.Duration
		code     analysis.Code
		replayed bool
	}{
		{"acquire in time", -1, acquire("ann", "r1", 30), 30*time.Second - time.Nanosecond, analysis.OK, false},
		{"acquire at the end", -1, acquire("ann", "r1", 30), 30 * time.Second, analysis.Expired, false},
		{"acquire under a clock that was set back", -1, acquire("ann", "r1", 30), -time.Hour, analysis.OK, false},
		{"replay in time", 20 * time.Second, acquire("ann", "r1", 30), 10*time.Second - time.Nanosecond, analysis.OK, true},
		{"replay at the end", 20 * time.Second, acquire("ann", "r1", 30), 10 * time.Second, analysis.Expired, false},
		{"refresh in time", 20 * time.Second, refresh("ann", 1, 5), 5*time.Second - time.Nanosecond, analysis.OK, false},
		{"refresh at the end", 20 * time.Second, refresh("ann", 1, 5), 5 * time.Second, analysis.Expired, false},
		{"locked, late", 20 * time.Second, acquire("bob", "r2", 5), time.Hour, analysis.Locked, false},
		{"release, late", 20 * time.Second, release("ann", 1, ""), time.Hour, analysis.OK, false},
		{"finish, late", 20 * time.Second, ready("ann", 1, ""), time.Hour, analysis.OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t)
			if c.age >= 0 {
				b.gets(acquire("ann", "r1", 30), analysis.OK, false)
				b.clock.Advance(c.age)
			}
			b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				r, err := apply()
				b.own.Advance(c.took)
				return r, err
			}
			o := b.gets(c.do, c.code, c.replayed)
			want := "the store took " + c.took.String() + " to respond, longer than the lock lasts; ask for a longer ttl_seconds"
			if c.code == analysis.Expired && (o.Detail != want || o.Grant != (analysis.Grant{})) {
				t.Errorf("got %+v\nwant no grant and %q", o, want)
			}
		})
	}
}

// TestMargin: a store without a clock of its own explains a refusal by an earlier time. A repeated acquire gets
// what is left from now, and not at all once that is over.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		left       time.Duration // of the lock, by the store's time
		code       analysis.Code
		retryAfter time.Duration
	}{
		{10 * time.Second, analysis.OK, 0},
		{time.Millisecond, analysis.OK, 0},
		{0, analysis.RequestIDReused, 0},
		{-999 * time.Millisecond, analysis.RequestIDReused, 0},
	} {
		b := begin(t)
		b.gets(acquire("ann", "r1", 30), analysis.OK, false)
		b.clock.Advance(30*time.Second - c.left)
		b.store.OnWrite = func(func() (docstore.Result, error)) (docstore.Result, error) {
			return docstore.Result{
				At: b.clock.Now().Add(-time.Second), Margin: time.Second, Docs: []docstore.Doc{b.document(id)}, Refused: []int{0},
			}, nil
		}
		o := b.gets(acquire("ann", "r1", 30), c.code, c.code == analysis.OK)
		if o.RetryAfter != c.retryAfter {
			t.Errorf("%v left: come again after %v, want %v", c.left, o.RetryAfter, c.retryAfter)
		}
		if left := o.Grant.ExpiresAt.Sub(o.At); c.code == analysis.OK && left != c.left {
			t.Errorf("%v left: the grant says %v", c.left, left)
		}
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	for _, cause := range []error{docstore.ErrUnavailable, docstore.ErrClockSkew, docstore.ErrClosed, context.Canceled,
		context.DeadlineExceeded} {
		b := begin(t)
		b.store.Err = fmt.Errorf("%w: as planned", cause)
		for _, c := range []any{acquire("ann", "r1", 30), refresh("ann", 1, 30), release("ann", 1, ""), ready("ann", 1, "")} {
			o, err := b.do(c)
			if !errors.Is(err, cause) || err.Error() != "analyses//a1: "+cause.Error()+": as planned" ||
				o != (analysis.Outcome{}) {
				t.Errorf("%T: got %+v, %v", c, o, err)
			}
		}
		if s, _, err := b.analyses.Get(t.Context(), id); !errors.Is(err, cause) || s != (analysis.State{}) {
			t.Errorf("Get: got %+v, %v", s, err)
		}
		if done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: &queue{}}); !errors.Is(err, cause) ||
			done != (analysis.Swept{}) {
			t.Errorf("Sweep: got %+v, %v", done, err)
		}
	}
}

// TestMalformedCommands: nothing is sent, and the error names the field as the requirement spells it.
func TestMalformedCommands(t *testing.T) {
	b := begin(t)
	b.store.Forget()
	with := func(c analysis.Acquire, change func(*analysis.Acquire)) analysis.Acquire { change(&c); return c }
	good := acquire("ann", "r1", 1)
	for _, c := range []struct {
		field string
		do    any
	}{
		{"analysis_id", with(good, func(c *analysis.Acquire) { c.ID = "" })},
		{"analysis_id", with(good, func(c *analysis.Acquire) { c.ID = "a/b" })},
		{"analysis_id", with(good, func(c *analysis.Acquire) { c.ID = ".." })},
		{"analysis_id", with(good, func(c *analysis.Acquire) {
			c.ID = analysis.ID(strings.Repeat("x", analysis.MaxIDBytes+1))
		})},
		{"analysis_id", with(good, func(c *analysis.Acquire) { c.ID = "a\x00b" })},
		{"owner_id", with(good, func(c *analysis.Acquire) { c.Owner = "" })},
		{"owner_id", with(good, func(c *analysis.Acquire) { c.Owner = "(unreadable)" })},
		{"owner_id", with(good, func(c *analysis.Acquire) { c.Owner = strings.Repeat("x", analysis.MaxOwnerBytes+1) })},
		{"request_id", with(good, func(c *analysis.Acquire) { c.RequestID = "" })},
		{"request_id", with(good, func(c *analysis.Acquire) { c.RequestID = "\xff" })},
		{"ttl_seconds", with(good, func(c *analysis.Acquire) { c.TTLSeconds = 0 })},
		{"ttl_seconds", with(good, func(c *analysis.Acquire) { c.TTLSeconds = -1 })},
		{"ttl_seconds", with(good, func(c *analysis.Acquire) { c.TTLSeconds = analysis.MaxTTLSeconds + 1 })},
		{"fencing_token", refresh("ann", 0, 1)},
		{"fencing_token", refresh("ann", docstore.MaxInt+1, 1)},
		{"ttl_seconds", refresh("ann", 1, 0)},
		{"owner_id", refresh("", 1, 1)},
		{"fencing_token", release("ann", 0, "")},
		{"failure_reason", release("ann", 1, strings.Repeat("x", analysis.MaxReasonBytes+1))},
		{"failure_reason", release("ann", 1, "\xff")},
		{"status", analysis.Finish{ID: id, Owner: "ann", Token: 1, Status: "DONE"}},
		{"status", analysis.Finish{ID: id, Owner: "ann", Token: 1}},
		{"result", analysis.Finish{ID: id, Owner: "ann", Token: 1, Status: analysis.Failed, Result: "x"}},
		{"failure_reason", analysis.Finish{ID: id, Owner: "ann", Token: 1, Status: analysis.Ready, Reason: "x"}},
		{"result", ready("ann", 1, strings.Repeat("x", analysis.MaxResultBytes+1))},
		{"result", ready("ann", 1, "\xff")},
		{"fencing_token", ready("ann", -1, "")},
		{"analysis_id", analysis.Retry{ID: "a/b", By: "root", RequestID: "r1", Reason: "x"}},
		{"owner_id", retry("", "r1", "x")},
		{"request_id", retry("root", "", "x")},
		{"finished_at", analysis.Retry{ID: id, By: "root", RequestID: "r1", Reason: "x",
			FinishedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"reason", retry("root", "r1", "")},
		{"reason", retry("root", "r1", strings.Repeat("x", analysis.MaxRetryBytes+1))},
	} {
		o, err := b.do(c.do)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != c.field || o != (analysis.Outcome{}) {
			t.Errorf("%#v: got %+v, %v; want an error about %s", c.do, o, err, c.field)
		}
	}
	if _, _, err := b.analyses.Get(t.Context(), "a/b"); err == nil {
		t.Error("Get takes a path")
	}
	if got := b.store.Requests(); len(got) != 0 {
		t.Errorf("the store saw %v", got)
	}
	for _, id := range []analysis.ID{"x", "日本語", "a b", "__x__", "%2F",
		analysis.ID(strings.Repeat("x", analysis.MaxIDBytes))} {
		if err := id.Validate(); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
