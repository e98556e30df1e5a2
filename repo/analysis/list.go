package analysis

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// List selects analyses for [Analyses.List]. The zero value selects all.
type List struct {
	Prefix    string // of the ID; empty selects all
	Status    Status // in upper or lower case; empty selects all
	Stage     Stage  // empty selects all
	Owner     string // of the lock, also of one that has expired; empty selects all
	Urgent    bool   // only those that are Stale or failed, or whose last run failed
	PageSize  int    // 1 to page.MaxSize; 0 means page.DefaultSize
	PageToken string // Page.Next of the page before; empty for the first
}

// Page is a page of analyses by ascending bytes of their IDs.
type Page struct {
	Analyses []Listed
	Next     string // List.PageToken of the next page; empty when this was the last
	Cost     page.Cost
	Looked   Looked
}

// Stage is how far an analysis, or a run, has come, whatever its own program writes into its status.
type Stage string

// The stages.
const (
	StageRunning Stage = "RUNNING" // locked
	StageStale   Stage = "STALE"   // not finished, and its lock has expired: it waits for a takeover
	StageReady   Stage = "READY"
	StageFailed  Stage = "FAILED"
	StagePending Stage = "PENDING" // none of these: not begun, or its last run released it
)

// Stage is how far it has come, by the store's time.
func (s State) Stage(now time.Time) Stage {
	switch {
	case s.Locked(now):
		return StageRunning
	case s.Status.Finished():
		return Stage(s.Status)
	case s.Owner != "":
		return StageStale
	default:
		return StagePending
	}
}

// Valid reports whether it is one of the stages, or none. The error is a [field.Error].
func (s Stage) Valid() error {
	switch s {
	case "", StageRunning, StageStale, StageReady, StageFailed, StagePending:
		return nil
	default:
		return field.Errorf("state", "must be RUNNING, STALE, READY, FAILED or PENDING, or left out")
	}
}

// Looked counts what was read for a page, whether or not it is in the page: the sums over all pages are those of all.
type Looked struct {
	Documents int // also those that cannot be read, and those that are kept no longer
	Stages    map[Stage]int
}

// Passes counts a document, and reports whether it is one of those with a stage, an owner, or a need for attention that
// were asked for.
func (l *Looked) Passes(s State, now time.Time, stage Stage, owner string, urgent bool) bool {
	is := s.Stage(now)
	if l.Stages == nil {
		l.Stages = map[Stage]int{}
	}
	l.Stages[is]++
	return (stage == "" || stage == is) && (owner == "" || owner == s.Owner) &&
		(!urgent || is == StageStale || is == StageFailed || is == StagePending && s.Failures > 0)
}

// Listed is an analysis of a [Page].
type Listed struct {
	ID     ID
	State  State
	Locked bool // see [State.Locked]

	// Err says that the document cannot be read ([docstore.ErrDamaged]), or that no command can name its ID (a
	// [field.Error]). There is no State then, so that the document is listed whatever the status that was asked for.
	Err error
}

// firstRead is how many documents are read before their size is known: they are the users' own, and may be large.
const firstRead = 25

// page is the query for the documents.
func (q List) page() page.Query {
	return page.Query{
		Kind: Kind, Prefix: q.Prefix, Size: q.PageSize, Token: q.PageToken, FirstRead: firstRead,
		Selective: q.Status != "" || q.Stage != "" || q.Owner != "" || q.Urgent,
	}
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	return first(field.OptionalText("prefix", q.Prefix, MaxIDBytes),
		field.OptionalText("status", string(q.Status), MaxStatusBytes), q.Stage.Valid(),
		field.OptionalText("owner_id", q.Owner, MaxOwnerBytes),
		q.page().Validate())
}

// List returns a page of analyses, bounded by bytes too. Each page is a strongly consistent read by itself; an analysis
// that changes between two pages may be seen in either state. A page may be short, or even empty, and still have a
// Next.
func (a *Analyses) List(ctx context.Context, q List) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	var p Page
	done, err := q.page().Read(ctx, a.store, func(e docstore.Entry, damaged error, at time.Time) page.Entry {
		p.Looked.Documents++
		id := ID(e.Key.ID)
		s, err := id.State(e.Doc)
		err = cmp.Or(damaged, err)
		if invalid := id.Validate(); invalid != nil && damaged == nil {
			s, err = State{}, invalid
		}
		kept := err != nil || p.Looked.Passes(s, at, q.Stage, q.Owner, q.Urgent) &&
			(q.Status == "" || strings.EqualFold(string(q.Status), string(s.Status)))
		if kept {
			p.Analyses = append(p.Analyses, Listed{ID: id, State: s, Locked: s.Locked(at), Err: err})
		}
		return page.Entry{Kept: kept, Bytes: Size(e)}
	})
	if err != nil {
		return Page{}, err
	}
	p.Next, p.Cost = done.Next, done.Cost
	return p, nil
}

// Size is about how many bytes a document takes.
func Size(e docstore.Entry) int {
	n := 256 + len(e.Key.ID)
	for f, v := range e.Doc {
		n += len(f) + 8
		switch v := v.(type) {
		case docstore.String:
			n += len(v)
		case docstore.Bytes:
			n += len(v)
		case docstore.Map:
			for k, text := range v {
				n += len(k) + len(text) + 8
			}
		case docstore.Opaque:
			n += len(fmt.Sprint(v.Raw))
		default: // a number or a truth
		}
	}
	return n
}
