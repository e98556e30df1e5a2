package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// ObtainableAnalyses proves on a store that a stale analysis is acquired by one worker that asks once, and that one
// which has ended says so: after programs of workers, sweeps and administrators, whichever program wrote the lock, in
// whatever spelling.
func ObtainableAnalyses(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store, programs int) {
	t.Helper()
	clock := NewClock()
	store := newStore(t, clock.Now)
	for seed := range programs {
		if err := staleAnalyses(t.Context(), store, clock, seed); err != nil {
			t.Errorf("program %d: %v", seed, err)
		}
	}
}

// staleForms are what other writers may make of a lock that has ended: of any, or only of one that a worker has.
var staleForms = []struct {
	name   string
	locked bool
	change func(now time.Time, w *docstore.Write)
}{
	{"as it is", false, func(time.Time, *docstore.Write) {}},
	{"without a time", false, func(_ time.Time, w *docstore.Write) { delete(w.Set, "lockExpiresAt") }},
	{"another offset from UTC", true, func(now time.Time, w *docstore.Write) {
		w.Set["lockExpiresAt"] = docstore.String(now.In(time.FixedZone("", 9*3600)).Format("2006-01-02T15:04:05.000-07:00"))
	}},
	{"the basic form", true, func(now time.Time, w *docstore.Write) {
		w.Set["lockExpiresAt"] = docstore.String(now.Format("20060102T150405Z"))
	}},
	{"a time of some place", true, func(now time.Time, w *docstore.Write) {
		w.Set["lockExpiresAt"] = docstore.String(now.Add(-12 * time.Hour).Format("2006-01-02T15:04:05"))
	}},
	{"a day", true, func(now time.Time, w *docstore.Write) {
		w.Set["lockExpiresAt"] = docstore.String(now.Add(-3 * 24 * time.Hour).Format("2006-01-02"))
	}},
	{"an owner that is no text", true, func(_ time.Time, w *docstore.Write) { w.Set["lockOwner"] = docstore.Int(7) }},
	{"queued again just now", true, func(now time.Time, w *docstore.Write) {
		w.Set["lockRequeuedAt"], w.Set["lockRequeueId"] = docstore.FormatTime(now), docstore.String("a sweep")
	}},
	{"without a token", true, func(_ time.Time, w *docstore.Write) { delete(w.Set, "lockToken") }},
	{"without a status", false, func(_ time.Time, w *docstore.Write) {
		if s := w.Set["status"]; s != docstore.Value(docstore.String("READY")) &&
			s != docstore.Value(docstore.String("FAILED")) {
			delete(w.Set, "status")
		}
	}},
}

// staleAnalyses carries out a program, waits until no lock lasts, and asks for each analysis, through a store that may
// have a fault.
func staleAnalyses(ctx context.Context, store docstore.Store, clock *Clock, seed int) error {
	name := fmt.Sprint("obtain ", seed)
	g := &gateProgram{
		store: store, lossy: &lossyStore{through: through{store}}, clock: clock, name: name,
		oracles: map[string]*gateOracle{"k": {status: "PENDING"}, "l m": {status: "PENDING"}},
	}
	g.analyses = analysis.New(g.lossy, &analysis.Options{Now: clock.Now, MaxTakeovers: programTakeovers})
	for id := range g.oracles {
		if err := g.create(ctx, id); err != nil {
			return err
		}
	}
	program := slices.DeleteFunc(slices.Clone(AnalysisProgram.Example(seed)),
		func(s GateStep) bool { return s.Do == "garbage" })
	if err := g.run(ctx, program); err != nil {
		return err
	}
	const longest = 2 * time.Second
	clock.Advance(longest)
	o := &analysis.Options{Now: clock.Now, MaxTakeovers: programTakeovers}
	s := &staleGate{store: store, clock: clock, servers: []*analysis.Analyses{analysis.New(store, o),
		analysis.New(store, o)}}
	for _, id := range []string{"k", "l m"} {
		key := docstore.Key{Kind: analysis.Kind, ID: string(g.id(id))}
		r, err := store.Get(ctx, key)
		if err != nil {
			return err
		}
		for n, form := range staleForms {
			if _, locked := r.Docs[0]["lockOwner"]; form.locked && !locked {
				continue
			}
			w := docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: fmt.Sprint(key.ID, " ", n)}, Set: r.Docs[0].Clone()}
			form.change(clock.Now(), &w)
			if err := s.ask(ctx, w); err != nil {
				return fmt.Errorf("%s, %s, %v: %w", id, form.name, w.Set, err)
			}
		}
		if err := g.otherWriter(ctx, id, docstore.Write{Unset: []string{"lockExpiresAt"}}); err != nil {
			return err
		}
	}
	return nil
}

// staleGate asks two servers in turn.
type staleGate struct {
	store   docstore.Store
	clock   *Clock
	servers []*analysis.Analyses
	sent    int
}

func (s *staleGate) acquire(ctx context.Context, id analysis.ID) (analysis.Outcome, error) {
	s.sent++
	return s.servers[s.sent%2].Acquire(ctx, analysis.Acquire{ID: id, Owner: fmt.Sprint("worker ", s.sent),
		RequestID: fmt.Sprint("asks ", s.sent), TTLSeconds: 60})
}

// ask makes the document, asks for it, and removes it: the sweep of another program must not find it.
func (s *staleGate) ask(ctx context.Context, w docstore.Write) error {
	if _, err := s.store.Write(ctx, w); err != nil {
		return err
	}
	defer func() {
		_, _ = s.store.Write(ctx, docstore.Write{Key: w.Key, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true})
	}()
	id := analysis.ID(w.Key.ID)
	o, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	status, _ := w.Set["status"].(docstore.String)
	runs, _ := w.Set["lockRuns"].(docstore.Int)
	owner := w.Set["lockOwner"] != nil
	switch {
	case status == "READY":
		if o.Code != analysis.AlreadyFinished || o.Grant.Status != analysis.Ready {
			return fmt.Errorf("asked for an analysis that is READY: %+v", o)
		}
		return nil
	case status == "FAILED", owner && runs > programTakeovers: // given up
		if o.Code != analysis.AlreadyFinished || o.Grant.Status != analysis.Failed {
			return fmt.Errorf("asked for an analysis that is FAILED: %+v", o)
		}
		r, err := s.servers[0].Retry(ctx, analysis.Retry{ID: id, By: "root", RequestID: "asks", Reason: "another try"})
		if err != nil || r.Code != analysis.OK {
			return fmt.Errorf("retry: %+v, %w", r, err)
		}
		if o, err = s.acquire(ctx, id); err != nil {
			return err
		}
	}
	if o.Code != analysis.OK || o.Replayed {
		return fmt.Errorf("one worker that asks once for a stale analysis gets %s (%s), %+v", o.Code, o.Detail, o)
	}
	if before, had := w.Set["lockToken"].(docstore.Int); had && o.Grant.Token <= int64(before) {
		return fmt.Errorf("token %d after %d", o.Grant.Token, before)
	}
	if other, err := s.acquire(ctx, id); err != nil || other.Code != analysis.Locked ||
		other.Grant.Owner != o.Grant.Owner {
		return fmt.Errorf("another worker gets %+v, %w", other, err)
	}
	return nil
}

// ObtainableRuns proves on a store that a run whose holder died is begun by the next caller that asks once, that one
// which has ended says so, and that its ID is free once its record is removed. dead are how many callers die with a run
// before; [TriesOfRuns] are all that matter.
func ObtainableRuns(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store, dead []int) {
	t.Helper()
	clock := NewClock()
	store := newStore(t, clock.Now)
	if err := obtainableRuns(t.Context(), store, clock, dead); err != nil {
		t.Error(err)
	}
}

// TriesOfRuns are from none to one more than are taken over.
var TriesOfRuns = func() (dead []int) {
	for n := range analysis.DefaultMaxTakeovers + 2 {
		dead = append(dead, n)
	}
	return dead
}()

// obtainableRuns asks for runs through a store that may have a fault.
func obtainableRuns(ctx context.Context, store docstore.Store, clock *Clock, tries []int) error {
	o := &runs.Options{Options: analysis.Options{Now: clock.Now}}
	servers := []*runs.Runs{runs.New(store, o), runs.New(store, o)}
	const ttl, keep = 30, 3600
	kept := withSlack((ttl + keep) * time.Second)
	sent := 0
	begin := func(id runs.ID) (runs.Outcome, error) {
		sent++
		return servers[sent%2].Begin(ctx, runs.Begin{
			ID: id, Owner: fmt.Sprint("caller ", sent), RequestID: fmt.Sprint("r", sent), TTLSeconds: ttl, KeepSeconds: keep,
			Fingerprint: "f1",
		})
	}
	for _, dead := range tries {
		for _, end := range []string{"dies", "dies after a refresh", "releases", "fails", "is READY", "is FAILED"} {
			id := runs.ID{Tenant: "acme", ID: fmt.Sprint(end, " ", dead)}
			over := dead > analysis.DefaultMaxTakeovers
			for range dead {
				if o, err := begin(id); err != nil || o.Code != analysis.OK {
					return fmt.Errorf("%s: one that asks once for a run whose caller died gets %+v, %w", id.ID, o, err)
				}
				clock.Advance(ttl * time.Second)
			}
			o, err := begin(id)
			if err != nil || !over && o.Code != analysis.OK || over && (o.Code != analysis.AlreadyFinished ||
				o.Grant.Status != analysis.Failed) {
				return fmt.Errorf("%s: one that asks once for a run whose caller died gets %+v, %w", id.ID, o, err)
			}
			finished := over
			for _, r := range servers {
				if over {
					break
				}
				switch end {
				case "dies after a refresh":
					_, err = r.Refresh(ctx, runs.Refresh{ID: id, Owner: o.Grant.Owner, Token: o.Grant.Token, TTLSeconds: ttl,
						KeepSeconds: keep})
				case "releases", "fails":
					reason := map[string]string{"fails": "no disk"}[end]
					_, err = r.Release(ctx, runs.Release{ID: id, Owner: o.Grant.Owner, Token: o.Grant.Token, Failed: reason,
						KeepSeconds: keep})
				case "is READY", "is FAILED":
					finished = true
					status := analysis.Status(strings.TrimPrefix(end, "is "))
					_, err = r.Finish(ctx, runs.Finish{ID: id, Owner: o.Grant.Owner, Token: o.Grant.Token, Status: status,
						KeepSeconds: keep})
				}
				if err != nil {
					return err
				}
			}
			last := o.Grant.Token
			if end == "dies" || end == "dies after a refresh" {
				clock.Advance(ttl * time.Second)
			}
			if o, err = begin(id); finished {
				if err != nil || o.Code != analysis.AlreadyFinished || !over && string(o.Grant.Status) != strings.TrimPrefix(end,
					"is ") {
					return fmt.Errorf("%s: asked for a run that has ended: %+v, %w", id.ID, o, err)
				}
			} else if given := dead == analysis.DefaultMaxTakeovers && strings.HasPrefix(end, "dies"); given {
				if err != nil || o.Code != analysis.AlreadyFinished || o.Grant.Status != analysis.Failed {
					return fmt.Errorf("%s: %+v, %w; want that it was given up", id.ID, o, err)
				}
			} else if err != nil || o.Code != analysis.OK || o.Grant.Token <= last {
				return fmt.Errorf("%s: one that asks once for a run that no one carries out gets %+v, %w", id.ID, o, err)
			}
			last = max(last, o.Grant.Token)
			for _, removed := range []bool{false, true} { // until then the store may leave it there
				if clock.Advance(kept); removed {
					if err := removeRun(ctx, store, id); err != nil {
						return err
					}
					clock.Advance(gone)
				}
				if o, err = begin(id); err != nil || o.Code != analysis.OK || o.Grant.Token <= last || o.Grant.Runs != 1 {
					return fmt.Errorf("%s: begun after it was kept, removed %v: %+v, %w", id.ID, removed, o, err)
				}
				last = o.Grant.Token
			}
			clock.Advance(kept)
			if err := removeRun(ctx, store, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// withSlack is for how long a document is there that is kept for a time. Stores may move its end in steps: see their
// endSteps.
func withSlack(keep time.Duration) time.Duration { return keep + keep/32 }

// removeRun removes the one record of a run, whose time has passed: the store does, or its service, for which the test
// does.
func removeRun(ctx context.Context, store docstore.Store, id runs.ID) error {
	key := docstore.Key{Kind: runs.Kind, Tenant: id.Tenant, ID: id.ID}
	p, prunes := store.(docstore.Pruner)
	if !prunes {
		_, err := store.Write(ctx, docstore.Write{Key: key, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true})
		return err
	}
	if n, err := p.Prune(ctx, 10); n != 1 || err != nil {
		return fmt.Errorf("%s: %d records are removed, want 1; %w", id.ID, n, err)
	}
	return nil
}

// ObtainableRetention proves on a store that once everything has ended and its retention has passed, a pass removes
// everything: at one document more than it removes at once, and at ten times as many. A store whose service does that
// has no pass.
func ObtainableRetention(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Helper()
	for _, documents := range []int{retentionBatch + 1, 10 * retentionBatch} {
		clock := NewClock()
		store := newStore(t, clock.Now)
		p, ok := store.(docstore.Pruner)
		if !ok {
			return
		}
		if err := retention(t.Context(), store, p, clock, documents); err != nil {
			t.Errorf("%d documents: %v", documents, err)
		}
	}
}

// retentionBatch is how many documents a pass of [retention] removes at once.
const retentionBatch = 8

// retention leaves locks of all forms and runs behind, through a store that may have a fault, and lets passes remove
// them.
func retention(ctx context.Context, store docstore.Store, p docstore.Pruner, clock *Clock, documents int) error {
	names, rows := leftTable([]int{2})
	last := clock.Now()
	records := runs.New(store, &runs.Options{Options: analysis.Options{Now: clock.Now}})
	for n := range documents {
		if n%4 == 3 {
			o, err := records.Begin(ctx, runs.Begin{
				ID: runs.ID{Tenant: "acme", ID: strconv.Itoa(n)}, Owner: "ann", RequestID: "r", TTLSeconds: 30,
				KeepSeconds: runs.MinKeepSeconds,
			})
			if err != nil || o.Code != analysis.OK {
				return fmt.Errorf("begin: %+v, %w", o, err)
			}
			continue
		}
		l, err := leave(ctx, store, clock, lock.ID{Tenant: "acme", Key: strconv.Itoa(n)}, rows[names[n%len(names)]].program)
		if err != nil {
			return err
		}
		if l.over.After(last) {
			last = l.over
		}
	}
	pass := func() (removed int, err error) {
		for {
			n, err := p.Prune(ctx, retentionBatch)
			if removed += n; err != nil || n < retentionBatch {
				return removed, err
			}
		}
	}
	if n, err := pass(); n != 0 || err != nil {
		return fmt.Errorf("a pass removes %d documents that are in use, %w", n, err)
	}
	clock.Advance(withSlack(last.Add(lock.MinRetention).Sub(clock.Now())))
	if n, err := pass(); n != documents || err != nil {
		return fmt.Errorf("a pass removes %d documents of %d, %w", n, documents, err)
	}
	for _, kind := range []string{lock.Kind, runs.Kind} {
		page, err := store.List(ctx, docstore.Query{Kind: kind, Tenant: "acme"})
		if err != nil || len(page.Entries) > 0 {
			return fmt.Errorf("%d documents of kind %s are left, %w", len(page.Entries), kind, err)
		}
	}
	return nil
}
