package runs

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// List selects runs of one tenant for [Runs.List].
type List struct {
	Tenant string
	Prefix string         // of the ID; empty selects all
	Stage  analysis.Stage // empty selects all
	Owner  string         // of the lock, also of one that has expired; empty selects all
	Urgent bool           // only those that are Stale or failed, or whose last run failed
	// Since and Before select those that changed in this span: began, were refreshed, or ended. Since is in it, Before is
	// not; the zero time is no bound.
	Since, Before time.Time

	PageSize  int    // 1 to page.MaxSize; 0 means page.DefaultSize
	PageToken string // Page.Next of the page before; empty for the first
}

// Page is a page of runs by ascending bytes of their IDs. Their results are left out: they may be long.
type Page struct {
	Runs []analysis.Listed // Err says that the document cannot be read
	Next string            // List.PageToken of the next page; empty when this was the last
	Cost page.Cost

	Looked analysis.Looked
}

// firstRead is how many documents are read before their size is known: they have results.
const firstRead = 25

func (q List) page() page.Query {
	return page.Query{
		Kind: Kind, Tenant: q.Tenant, Prefix: q.Prefix, Size: q.PageSize, Token: q.PageToken, FirstRead: firstRead,
		Selective: q.Stage != "" || q.Owner != "" || q.Urgent || !q.Since.IsZero() || !q.Before.IsZero(),
	}
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	if err := (ID{Tenant: q.Tenant, ID: "any"}).Validate(); err != nil {
		return err
	}
	if !q.Before.IsZero() && !q.Since.Before(q.Before) {
		return field.Errorf("changed_before", "must be later than changed_after")
	}
	return cmp.Or(field.OptionalText("prefix", q.Prefix, analysis.MaxIDBytes), q.Stage.Valid(),
		field.OptionalText("owner_id", q.Owner, analysis.MaxOwnerBytes), q.page().Validate())
}

// spans reports whether a time is in the span that was asked for.
func (q List) spans(t time.Time) bool {
	return !t.Before(q.Since) && (q.Before.IsZero() || t.Before(q.Before))
}

// List returns a page of the tenant's runs, bounded by bytes too. Each page is a strongly consistent read by itself.
func (r *Runs) List(ctx context.Context, q List) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	var p Page
	done, err := q.page().Read(ctx, r.store, func(e docstore.Entry, damaged error, at time.Time) page.Entry {
		p.Looked.Documents++
		s, err := ID{Tenant: q.Tenant, ID: e.Key.ID}.document(0).State(e.Doc)
		s = s.At(at)
		s.Result, err = "", cmp.Or(damaged, err)
		if err == nil && !s.Exists { // it is kept no longer, or remembers a request that was given up
			return page.Entry{Bytes: analysis.Size(e)}
		}
		if err == nil && (!p.Looked.Passes(s, at, q.Stage, q.Owner, q.Urgent) || !q.spans(s.Changed())) {
			return page.Entry{Bytes: analysis.Size(e)}
		}
		p.Runs = append(p.Runs, analysis.Listed{ID: analysis.ID(e.Key.ID), State: s, Locked: s.Locked(at), Err: err})
		return page.Entry{Kept: true, Bytes: analysis.Size(e)}
	})
	if err != nil {
		return Page{}, err
	}
	p.Next, p.Cost = done.Next, done.Cost
	return p, nil
}
