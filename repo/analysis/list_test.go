package analysis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// TestListIsBounded: a page of large documents ends at three quarters of a megabyte, whatever page_size says; a page on
// which a filter leaves nothing costs few requests and goes on; and a walk over all pages sees every analysis once.
func TestListIsBounded(t *testing.T) {
	for _, c := range []struct {
		name      string
		document  docstore.Value // a field of the user's own
		analyses  int
		size      int
		status    analysis.Status
		most      int // analyses in a page
		requests  int // for the first page
		firstPage int // analyses on the first page
	}{
		{"small, default", docstore.Int(1), 300, 0, "", 100, 2, 100},
		{"small, largest", docstore.Int(1), 1200, 1000, "", 1000, 2, 1000},
		{"large", docstore.String(strings.Repeat("x", 100<<10)), 60, 1000, "", 8, 1, 8},
		{"large, of bytes", docstore.Bytes(strings.Repeat("x", 100<<10)), 60, 1000, "", 8, 1, 8},
		{"by a status that few have", docstore.Int(1), 900, 100, "FAILED", 100, 6, 9},
		{"by a status that none has", docstore.Int(1), 11_000, 100, "LOST", 0, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t)
			want := map[analysis.ID]bool{}
			for i := range c.analyses {
				id, status := analysis.ID(fmt.Sprintf("n%05d", i)), analysis.Status("PENDING")
				if i%100 == 0 {
					status = "FAILED"
				}
				b.put(id, docstore.Doc{"status": docstore.String(status), "own": c.document})
				if c.status == "" || c.status == status {
					want[id] = true
				}
			}
			got := map[analysis.ID]bool{}
			last := analysis.ID("")
			for q := (analysis.List{Prefix: "n", PageSize: c.size, Status: c.status}); ; {
				b.store.Forget()
				p, err := b.analyses.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if q.PageToken == "" && (len(b.store.Requests()) != c.requests || len(p.Analyses) != c.firstPage) {
					t.Errorf("the first page has %d analyses and cost %d requests, want %d and %d", len(p.Analyses),
						len(b.store.Requests()), c.firstPage, c.requests)
				}
				if len(p.Analyses) > c.most {
					t.Fatalf("a page of %d analyses, %d at most", len(p.Analyses), c.most)
				}
				for _, l := range p.Analyses {
					if l.ID <= last || l.Err != nil {
						t.Fatalf("%s follows %s: %v", l.ID, last, l.Err)
					}
					got[l.ID], last = true, l.ID
				}
				if q.PageToken = p.Next; p.Next == "" {
					break
				}
			}
			if len(got) != len(want) {
				t.Errorf("the pages show %d analyses, want %d", len(got), len(want))
			}
		})
	}
}

// TestListOfDamagedDocuments: what cannot be read is listed as such, whatever the status, and the page goes on.
func TestListOfDamagedDocuments(t *testing.T) {
	b := begin(t)
	b.put("b/1", docstore.Doc{"status": docstore.String("FAILED")}) // no command can name it
	b.put("b2", docstore.Doc{"status": docstore.Int(1)})
	b.put("b3", docstore.Doc{"status": docstore.String("FAILED"), "lockOwner": docstore.Int(1),
		"lockExpiresAt": docstore.String("soon")})
	b.put("b4", docstore.Doc{"status": docstore.String("FAILED"), "lockRetry1": docstore.Int(1)})
	b.put("b5", docstore.Doc{"status": docstore.String("FAILED"), "lockRetriedAt": docstore.Int(1),
		"lockFinishedAt": docstore.Int(1)})
	p, err := b.analyses.List(t.Context(), analysis.List{Status: analysis.Failed})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range p.Analyses {
		what := fmt.Sprint(l.State.Status, " ", l.Locked)
		if _, invalid := errors.AsType[*field.Error](l.Err); invalid {
			what = "no name"
		} else if errors.Is(l.Err, docstore.ErrDamaged) {
			what = "damaged"
		}
		if l.Err != nil && l.State != (analysis.State{}) {
			t.Errorf("%s has a state and an error: %+v", l.ID, l)
		}
		got = append(got, string(l.ID)+" "+what)
	}
	if want := []string{"b/1 no name", "b2 damaged", "b3 FAILED true", "b4 damaged", "b5 FAILED false"}; !slices.Equal(got,
		want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, q := range map[string]analysis.List{
		"prefix": {Prefix: strings.Repeat("x", analysis.MaxIDBytes+1)}, "status": {Status: "a\x00"},
		"page_size": {PageSize: 1001}, "page_token": {PageToken: "!"},
	} {
		_, err := b.analyses.List(t.Context(), q)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != name {
			t.Errorf("%+v: %v, want an error about %s", q, err, name)
		}
	}
}

// TestStages: what failed or lost its worker is asked for as such, wherever its ID is, and all stages are counted.
func TestStages(t *testing.T) {
	b := begin(t)
	over, held := docstore.FormatTime(suite.Epoch.Add(-time.Second)), docstore.FormatTime(suite.Epoch.Add(time.Hour))
	doc := func(status, owner string, end docstore.String) docstore.Doc {
		d := docstore.Doc{"status": docstore.String(status)}
		if owner != "" {
			d["lockOwner"], d["lockExpiresAt"], d["lockToken"] = docstore.String(owner), end, docstore.Int(1)
		}
		return d
	}
	for i := range 6000 {
		b.put(analysis.ID(fmt.Sprintf("n%05d", i)), doc("READY", "", ""))
	}
	b.put("z-failed", doc("FAILED", "", ""))
	b.put("z-own", doc("queued", "", ""))
	again := doc("queued", "", "")
	again["lockFailures"] = docstore.Int(1)
	b.put("z-again", again)
	b.put("z-running", doc("queued", "ann", held))
	b.put("z-stale", doc("queued", "bob", over))
	for _, c := range []struct {
		q     analysis.List
		ids   string
		pages int
	}{
		{analysis.List{Urgent: true}, "z-again z-failed z-stale", 2},
		{analysis.List{Stage: analysis.StageStale}, "z-stale", 2},
		{analysis.List{Stage: analysis.StageRunning, Prefix: "z"}, "z-running", 1},
		{analysis.List{Stage: analysis.StagePending, Prefix: "z"}, "z-again z-own", 1},
		{analysis.List{Stage: analysis.StageFailed, Prefix: "z"}, "z-failed", 1},
		{analysis.List{Stage: analysis.StageReady, Prefix: "z"}, "", 1},
		{analysis.List{Owner: "bob", Prefix: "z"}, "z-stale", 1},
		{analysis.List{Urgent: true, Owner: "ann", Prefix: "z"}, "", 1},
	} {
		stages, documents, pages := map[analysis.Stage]int{}, 0, 0
		var ids []string
		for {
			p, err := b.analyses.List(t.Context(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			documents += p.Looked.Documents
			for s, n := range p.Looked.Stages {
				stages[s] += n
			}
			for _, a := range p.Analyses {
				ids = append(ids, string(a.ID))
			}
			if c.q.PageToken = p.Next; p.Next == "" {
				break
			}
		}
		want, ready := "map[FAILED:1 PENDING:2 RUNNING:1 STALE:1]", documents-5
		if c.q.Prefix == "" { // one more, which begin puts, is pending
			want, ready = "map[FAILED:1 PENDING:3 READY:6000 RUNNING:1 STALE:1]", documents-6006
		}
		if got := strings.Join(ids, " "); got != c.ids || pages != c.pages || fmt.Sprint(stages) != want || ready != 0 {
			t.Errorf("%+v: %q on %d pages, %v of %d", c.q, got, pages, stages, documents)
		}
	}
	_, err := b.analyses.List(t.Context(), analysis.List{Stage: "LOST"})
	if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != "state" {
		t.Errorf("a stage that there is not: %v", err)
	}
}
