package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// DefaultOutcomes is the Options.Outcomes of the programs that serve the console.
const DefaultOutcomes = 1024

// Bounds of what is remembered of one exchange, in bytes.
const (
	maxOutcomePath = 1024
	maxOutcomeText = 512
)

// outcomes remembers how the last exchanges of a process ended, for administrators who ask what happened. What was
// rejected or failed is kept apart from what was carried out, so that neither pushes the other out. A nil *outcomes
// remembers nothing.
type outcomes struct {
	since time.Time
	now   func() time.Time

	mu             sync.Mutex
	last           int64 // number of the latest one
	rejected, done ring
}

// ring is the latest exchanges, up to a number.
type ring struct {
	kept []contracts.Outcome
	size int
	next int // where the next one goes, once as many are kept
}

// newOutcomes returns a memory of so many exchanges of each kind; nil for none.
func newOutcomes(size int, now func() time.Time) *outcomes {
	if size <= 0 {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	return &outcomes{since: now(), now: now, rejected: ring{size: size}, done: ring{size: size}}
}

func (r *ring) add(o contracts.Outcome) {
	if len(r.kept) < r.size {
		r.kept = append(r.kept, o)
		return
	}
	r.kept[r.next] = o
	r.next = (r.next + 1) % r.size
}

// remember keeps an exchange that ended. Of those that were carried out it keeps commands that change something for
// good, see Route.Routine.
func (o *outcomes) remember(r *http.Request, n *exchangeLog, status int, took time.Duration, requestID string) {
	rejected := n.problem != nil
	if o == nil || n.route == nil || !rejected && (n.route.Routine || r.Method == http.MethodGet ||
		r.Method == http.MethodHead) {
		return
	}
	e := contracts.Outcome{
		RequestID: requestID, Method: r.Method, Path: cut(canonical(r.URL.EscapedPath()), maxOutcomePath),
		TenantID: cut(n.tenant, maxOutcomeText),
		Status:   status, TookMs: milliseconds(took), Action: cmp.Or(n.action, n.route.Audit), Subject: n.caller.Subject,
		CallerTenant: n.caller.Tenant,
	}
	for _, a := range n.audit {
		if a.Value.Kind() != slog.KindString {
			continue
		}
		switch a.Key {
		case "owner":
			e.OwnerID = cut(a.Value.String(), maxOutcomeText)
		case "reason":
			e.Reason = cut(a.Value.String(), maxOutcomeText)
		}
	}
	if rejected {
		p := *n.problem
		p.RequestID = requestID
		said := p.Problem()
		said.Activation = nil
		said.Detail, said.Field = cut(said.Detail, maxOutcomeText), cut(said.Field, maxOutcomeText)
		e.Problem = &said
	}
	at := o.now()
	e.At = direct.Time(at)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	e.Number = o.last
	if rejected {
		o.rejected.add(e)
	} else {
		o.done.add(e)
	}
}

// plain are the characters that no one escapes in a path.
const plain = "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

// canonical is a path in which everything is escaped in one way, so that paths can be compared.
func canonical(escaped string) string {
	if !strings.ContainsFunc(escaped, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return escaped // as nearly all are
	}
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = url.PathEscape(plain)
		}
	}
	return strings.Join(segments, "/")
}

// cut keeps a text short.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// outcomeQuery selects outcomes.
type outcomeQuery struct {
	tenant          string // whose administrator asks; empty for all, in development mode
	requestID, path string
	kind            string // "true" for rejected ones, "false" for the others, empty for all
	after, before   int64  // numbers
	size            int
}

// wants reports whether the query selects an outcome. It belongs to the tenant of its caller; that of a caller who
// could not be identified, to the tenant that the path names.
func (q outcomeQuery) wants(e *contracts.Outcome) bool {
	return (q.tenant == "" || cmp.Or(e.CallerTenant, e.TenantID) == q.tenant) &&
		(q.requestID == "" || e.RequestID == q.requestID) && strings.HasPrefix(e.Path, q.path) &&
		e.Number > q.after && e.Number < q.before
}

// find returns what the query selects, the newest first, and whether there is more; and how many were forgotten.
func (o *outcomes) find(q outcomeQuery) (found []contracts.Outcome, more bool, forgotten int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var lists [][]contracts.Outcome
	if q.kind != "false" {
		lists = append(lists, o.rejected.kept)
	}
	if q.kind != "true" {
		lists = append(lists, o.done.kept)
	}
	for _, list := range lists {
		for i := range list {
			if q.wants(&list[i]) {
				found = append(found, list[i])
			}
		}
	}
	slices.SortFunc(found, func(a, b contracts.Outcome) int { return cmp.Compare(b.Number, a.Number) })
	if len(found) > q.size {
		found, more = found[:q.size:q.size], true
	}
	return found, more, o.last - int64(len(o.rejected.kept)+len(o.done.kept))
}

// outcomeRest is what follows the outcomes of a page.
type outcomeRest struct {
	Since     contracts.Time `json:"since"`
	Forgotten int64          `json:"forgotten"`
	nextPage
}

// outcomeBytes is about what an outcome takes.
const outcomeBytes = 1 << 10

func (a *api) listOutcomes(w http.ResponseWriter, r *http.Request, c Caller) error {
	given, err := query(r, "request_id", "path", "rejected", "after", "page_size", "page_token")
	if err != nil {
		return err
	}
	q := outcomeQuery{tenant: c.Tenant, requestID: given["request_id"], path: canonical(given["path"]),
		before: math.MaxInt64, size: page.DefaultSize}
	if err := field.OptionalText("request_id", q.requestID, 128); err != nil {
		return err
	}
	if err := field.OptionalText("path", given["path"], maxOutcomePath); err != nil {
		return err
	}
	kind, asked := given["rejected"]
	if asked && kind != "true" && kind != "false" {
		return field.Errorf("rejected", "must be true or false, or left out for all")
	}
	q.kind = kind
	if q.after, err = number(given, "after", 0, math.MaxInt64); err != nil {
		return err
	}
	if token, ok := given["page_token"]; ok {
		if q.before, err = number(given, "page_token", 1, math.MaxInt64); err != nil {
			return field.Errorf("page_token", "is not one that a page gave: %q", clip(token))
		}
	}
	size, err := pageSize(given)
	if err != nil {
		return err
	}
	if size != 0 {
		if err := field.Range("page_size", int64(size), 1, page.MaxSize); err != nil {
			return err
		}
		q.size = size
	}
	if a.outcomes == nil {
		return contracts.Errorf(contracts.CodeNotConfigured,
			"this process does not remember outcomes, because it serves no console")
	}
	same := func(o contracts.Outcome) contracts.Outcome { return o }
	return sendList(a, w, r, "outcomes", same, func(context.Context) ([]contracts.Outcome, any, page.Cost, error) {
		found, more, forgotten := a.outcomes.find(q)
		rest := outcomeRest{Since: direct.Time(a.outcomes.since), Forgotten: forgotten}
		if more {
			rest.Token = strconv.FormatInt(found[len(found)-1].Number, 10)
		}
		return found, rest, page.Cost{Kept: len(found) * outcomeBytes}, nil
	})
}

// getCaller says who the server takes the caller for.
func (a *api) getCaller(c call) (contracts.CallerInfo, error) {
	return contracts.CallerInfo{
		Subject: c.caller.Subject, TenantID: c.caller.Tenant, Administrator: c.caller.Admin, Worker: c.caller.Worker,
		MachineIDs:  c.caller.MachineIDs || c.caller.Admin,
		Development: a.identity.Unverified(), At: direct.Time(a.now()),
	}, nil
}
