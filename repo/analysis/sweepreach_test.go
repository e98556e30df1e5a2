package analysis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// staleDoc is an analysis whose worker died at a time.
func staleDoc(expired time.Time) docstore.Doc {
	return docstore.Doc{"lockOwner": docstore.String("dead"), "lockToken": docstore.Int(1),
		"lockExpiresAt": docstore.FormatTime(expired)}
}

// hopeless are documents that no sweep can help, each for another reason. All of them are found before what expired at
// at(-1000).
var hopeless = map[string]func(i int) docstore.Doc{
	"damaged": func(i int) docstore.Doc {
		d := staleDoc(at(-4000 + i%7))
		d["lockToken"] = docstore.String("7")
		return d
	},
	"unclear": func(int) docstore.Doc {
		return docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": docstore.String("1767225600")}
	},
	"queued just now": func(i int) docstore.Doc {
		d := staleDoc(at(-4000 + i%7))
		d["lockRequeuedAt"], d["lockRequeueId"] = docstore.FormatTime(at(0)), docstore.String("earlier")
		return d
	},
	"of another writer": func(i int) docstore.Doc {
		return docstore.Doc{"lockExpiresAt": docstore.FormatTime(at(-4000 + i%7))}
	},
}

// TestSweepReaches: a stale analysis behind any number of those that no sweep can help is queued: by the first sweep
// below ten times the bound, and by the second from there on.
func TestSweepReaches(t *testing.T) {
	reaches := func(most, n, sweeps int, doc func(int) docstore.Doc) func(*testing.T) {
		return func(t *testing.T) {
			b := begin(t)
			for i := range n {
				b.put(analysis.ID(fmt.Sprintf("h%06d", i)), doc(i))
			}
			b.put("stale", staleDoc(at(-1000)))
			q := &queue{}
			c := analysis.Sweep{Queue: q, PageSize: docstore.MaxLimit, Most: most}
			for sweep := range sweeps {
				done, _ := b.analyses.Sweep(t.Context(), c)
				if last := sweep == sweeps-1; done.More == last || done.Requeued == 1 != last {
					t.Fatalf("sweep %d: %+v", sweep, done)
				}
			}
			b.queued(q, once("stale"))
			// The next ones begin with the first again, and so find what comes before the place of the last.
			b.put("another", staleDoc(at(-5000)))
			for range sweeps {
				_, _ = b.analyses.Sweep(t.Context(), c)
			}
			b.queued(q, once("another"))
		}
	}
	for name, doc := range hopeless {
		const most = 100
		for n, sweeps := range map[int]int{most - 1: 1, most: 1, most + 1: 1, 10*most - 1: 1, 10 * most: 2, 20 * most: 3} {
			t.Run(fmt.Sprintf("%d that are %s", n, name), reaches(most, n, sweeps, doc))
		}
	}
	t.Run("as many as it acts on by default", reaches(0, analysis.DefaultMostSwept, 1, hopeless["damaged"]))
}

// TestSweepsReachAll: whatever mixture of analyses there is, and whatever cuts sweeps off, each stale one is queued by
// ceil(n/bound)+1 of them.
func TestSweepsReachAll(t *testing.T) {
	kinds := append(slices.Sorted(maps.Keys(hopeless)), "stale", "fails")
	rapid.Check(t, func(rt *rapid.T) {
		b := begin(t)
		if rapid.Bool().Draw(rt, "without an index") {
			b.analyses = analysis.New(struct{ docstore.Store }{b.store}, nil)
		}
		mixture := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 60).Draw(rt, "mixture")
		want, fails := map[analysis.ID]int{}, map[analysis.ID]bool{}
		for i, kind := range mixture {
			id := analysis.ID(fmt.Sprintf("%02d", i))
			doc := staleDoc(at(-2000 - rapid.IntRange(0, 9).Draw(rt, "expired")))
			switch kind {
			case "stale":
				want[id] = 1
			case "fails":
				fails[id] = true
			default:
				doc = hopeless[kind](i)
			}
			b.put(id, doc)
		}
		most, cutAt := rapid.IntRange(1, 12).Draw(rt, "most"), 0
		tried, cutOff := 0, func() {}
		q := &queue{before: func(id analysis.ID) error {
			if tried++; cutAt > 0 && tried == cutAt {
				cutOff()
			}
			if fails[id] {
				return errors.New("the queue does not take it")
			}
			return nil
		}}
		c := analysis.Sweep{Queue: q, Most: most, PageSize: rapid.IntRange(1, 20).Draw(rt, "page size")}
		for range rapid.IntRange(0, 5).Draw(rt, "sweeps that are cut off") {
			ctx, cancel := context.WithCancel(t.Context())
			tried, cutAt, cutOff = 0, rapid.IntRange(1, 5).Draw(rt, "cut off at"), cancel
			_, _ = b.analyses.Sweep(ctx, c)
			cancel()
		}
		tried, cutAt = 0, 0
		for range (len(mixture)+most-1)/most + 1 {
			_, _ = b.analyses.Sweep(t.Context(), c) // those that fail, and those that cannot be read, are its error
		}
		if got := q.take(); len(want) > 0 && !maps.Equal(got, want) {
			rt.Fatalf("queued %v, want %v", got, want)
		}
	})
}

// TestSweepGoesOn: a sweep whose deadline passes while it works has more to do, and no error. The next one goes on
// behind what was done, also behind one that takes all the time.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := docstore.NewMemory(nil)
		defer func() { _ = memory.Close() }()
		analyses := analysis.New(memory, nil)
		ids := numbered(9)
		for i, id := range ids {
			w := docstore.Write{
				Key: docstore.Key{Kind: analysis.Kind, ID: string(id)},
				Set: staleDoc(time.Now().Add(time.Duration(i-100) * time.Minute)),
			}
			if _, err := memory.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		slow := &queue{before: func(id analysis.ID) error {
			if id == ids[4] {
				time.Sleep(time.Hour)
			}
			time.Sleep(time.Second)
			return nil
		}}
		c := analysis.Sweep{Queue: slow, PageSize: 4}
		sweep := func(want analysis.Swept, cut bool, queued ...analysis.ID) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			done, err := analyses.Sweep(ctx, c)
			if done != want || errors.Is(err, context.DeadlineExceeded) != cut || err != nil && !cut {
				t.Errorf("%+v, %v; want %+v", done, err, want)
			}
			if got := slow.take(); !maps.Equal(got, once(queued...)) {
				t.Errorf("queued %v, want %v", got, queued)
			}
		}
		more := analysis.Swept{Stale: 3, Requeued: 2, More: true}
		sweep(more, false, ids[0], ids[1])
		sweep(analysis.Swept{Stale: 3, Requeued: 2, More: true}, false, ids[2], ids[3])
		sweep(analysis.Swept{Stale: 1, Errors: 1, More: true}, true) // ids[4] takes all of it
		sweep(more, false, ids[5], ids[6])
		sweep(analysis.Swept{Stale: 2, Requeued: 2}, false, ids[7], ids[8])
	})
}

// TestSweepPlace: a place that is damaged, of another index or of a document that is gone is the beginning, or costs a
// page more.
func TestSweepPlace(t *testing.T) {
	for name, place := range map[string]docstore.Doc{
		"none":             {"after": docstore.String(""), "last": docstore.String("")},
		"of another index": {"after": docstore.String("no token of this store"), "last": docstore.String("n001")},
		"damaged":          {"after": docstore.Int(7), "last": docstore.Bool(true)},
		"gone":             {"after": docstore.String(""), "last": docstore.String("n0015")},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			ids := numbered(5)
			b.stale(ids...)
			mark := docstore.Key{Kind: "analysis_sweeps", ID: "next"}
			if _, err := b.store.Write(t.Context(), docstore.Write{Key: mark, Set: place}); err != nil {
				t.Fatal(err)
			}
			q := &queue{}
			b.sweeps(analysis.Sweep{Queue: q, PageSize: 2}, analysis.Swept{Stale: 5, Requeued: 5})
			b.queued(q, once(ids...))
		})
	}
	t.Run("cannot be written", func(t *testing.T) {
		b := begin(t)
		b.stale(numbered(2)...)
		writes := 0
		b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if writes++; writes == 2 {
				return docstore.Result{}, docstore.ErrUnavailable
			}
			return apply()
		}
		done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: &queue{}, Most: 1})
		if want := (analysis.Swept{Stale: 1, Requeued: 1, More: true}); done != want ||
			!errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("%+v, %v", done, err)
		}
	})
}
