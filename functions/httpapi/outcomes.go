package httpapi

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
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

// Bounds of what is remembered of all tenants.
const (
	// maxOutcomeTenants is how many tenants have outcomes; the one that asked for nothing for the longest time is
	// forgotten.
	maxOutcomeTenants = 256

	// maxOutcomeShares is how many outcomes all tenants have together, as a multiple of Options.Outcomes. Beyond it the
	// tenant with the most loses its oldest.
	maxOutcomeShares = 4

	// maxUnidentified is how many outcomes of callers are remembered that could not be identified: anyone can make them.
	maxUnidentified = 64
)

// outcomes remembers how the last exchanges of a process ended, for administrators who ask what happened: of each
// tenant apart, so that none pushes out, sees or counts those of another, and of callers that could not be identified
// apart from all. What was rejected or failed is kept apart from what was carried out, likewise. A nil *outcomes
// remembers nothing.
type outcomes struct {
	since time.Time
	now   func() time.Time
	size  int // of each kind, of a tenant

	mu           sync.Mutex
	last         int64 // number of the latest one of all
	of           map[string]*tenantOutcomes
	unidentified *tenantOutcomes
	kept         [kinds]int // of all tenants
	forgot       bool       // a tenant
}

// The kinds of outcomes.
const (
	done = iota
	rejected
	kinds
)

// tenantOutcomes are those of a tenant.
type tenantOutcomes struct {
	since time.Time
	used  time.Time
	first int64 // the number before its first
	last  int64 // number of the latest one of this tenant
	rings [kinds][]outcome
}

// outcome has two numbers: its place among those of its tenant, and among all.
type outcome struct {
	contracts.Outcome

	overall int64
}

// newOutcomes returns a memory of so many exchanges of each kind, of each tenant; nil for none.
func newOutcomes(size int, now func() time.Time) *outcomes {
	if size <= 0 {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	since := now()
	return &outcomes{since: since, now: now, size: size, of: map[string]*tenantOutcomes{},
		unidentified: &tenantOutcomes{since: since}}
}

// tenant returns the outcomes of a tenant. One that was forgotten and comes again has higher numbers than before.
func (o *outcomes) tenant(name string, at time.Time) *tenantOutcomes {
	t := o.of[name]
	if t == nil {
		if len(o.of) >= maxOutcomeTenants {
			idle := ""
			for other, its := range o.of {
				if oldest := o.of[idle]; oldest == nil || its.used.Before(oldest.used) {
					idle = other
				}
			}
			for kind := range kinds {
				o.kept[kind] -= len(o.of[idle].rings[kind])
			}
			delete(o.of, idle)
			o.forgot = true
		}
		t = &tenantOutcomes{since: o.since}
		if o.forgot {
			t.since, t.first = at, at.Sub(o.since).Microseconds()
			t.last = t.first
		}
		o.of[name] = t
	}
	t.used = at
	return t
}

// add keeps an outcome, and forgets another if there are too many: of the tenant itself, or of the one that has the
// most.
func (o *outcomes) add(e contracts.Outcome, kind int, identified bool, at time.Time) {
	o.last++
	t, most := o.unidentified, min(maxUnidentified, o.size)
	if identified {
		t, most = o.tenant(e.CallerTenant, at), o.size
	}
	t.last++
	e.Number = t.last
	t.rings[kind] = append(t.rings[kind], outcome{e, o.last})
	if len(t.rings[kind]) > most {
		t.forget(kind)
		return
	}
	if !identified {
		return
	}
	if o.kept[kind]++; o.kept[kind] <= maxOutcomeShares*o.size {
		return
	}
	for _, other := range o.of {
		if len(other.rings[kind]) > len(t.rings[kind]) {
			t = other
		}
	}
	t.forget(kind)
	o.kept[kind]--
}

// forget removes the oldest one.
func (t *tenantOutcomes) forget(kind int) {
	t.rings[kind][0] = outcome{}
	t.rings[kind] = t.rings[kind][1:]
}

// forgotten is how many were forgotten.
func (t *tenantOutcomes) forgotten() int64 {
	return t.last - t.first - int64(len(t.rings[done])+len(t.rings[rejected]))
}

// remember keeps an exchange that ended. Of those that were carried out it keeps commands that change something for
// good, see Route.Routine.
func (o *outcomes) remember(r *http.Request, n *exchangeLog, status int, took time.Duration, requestID string) {
	kind := done
	if n.problem != nil {
		kind = rejected
	}
	if o == nil || n.route == nil || kind == done && (n.route.Routine || r.Method == http.MethodGet ||
		r.Method == http.MethodHead) {
		return
	}
	e := contracts.Outcome{
		RequestID: requestID, Method: r.Method, Path: cut(canonical(r.URL.EscapedPath()), maxOutcomePath),
		TenantID: cut(n.tenant, maxOutcomeText),
		Status:   status, TookMs: milliseconds(took), Action: cmp.Or(n.action, n.route.Audit), Subject: n.caller.Subject,
		CallerTenant: n.caller.Tenant,
	}
	e.OwnerID = cut(n.event.Owner, maxOutcomeText)
	if n.body != nil {
		e.Reason = cut(textOf(reflect.ValueOf(n.body).Elem(), "Reason"), maxOutcomeText)
	}
	if n.problem != nil {
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
	o.add(e, kind, n.known, at)
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

// wants reports whether the query selects an outcome.
func (q outcomeQuery) wants(e *contracts.Outcome) bool {
	return (q.requestID == "" || e.RequestID == q.requestID) && strings.HasPrefix(e.Path, q.path) &&
		e.Number > q.after && e.Number < q.before
}

// outcomesFound is what a query selects, the newest first.
type outcomesFound struct {
	list      []contracts.Outcome
	more      bool
	since     time.Time
	forgotten int64
}

// find returns what the query selects. Those of a tenant have their numbers in it, and those of all, among all.
func (o *outcomes) find(q outcomeQuery) (found outcomesFound) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found.since = o.since
	var tenants []*tenantOutcomes
	if q.tenant == "" {
		tenants = append(slices.Collect(maps.Values(o.of)), o.unidentified)
		found.forgotten = o.last
		for _, t := range tenants {
			found.forgotten -= int64(len(t.rings[done]) + len(t.rings[rejected]))
		}
	} else if t := o.of[q.tenant]; t != nil {
		tenants, found.since, found.forgotten = []*tenantOutcomes{t}, t.since, t.forgotten()
	}
	for _, t := range tenants {
		for kind := range kinds {
			if q.kind != "" && (q.kind == "true") != (kind == rejected) {
				continue
			}
			for _, e := range t.rings[kind] {
				if q.tenant == "" {
					e.Number = e.overall
				}
				if q.wants(&e.Outcome) {
					found.list = append(found.list, e.Outcome)
				}
			}
		}
	}
	slices.SortFunc(found.list, func(a, b contracts.Outcome) int { return cmp.Compare(b.Number, a.Number) })
	if len(found.list) > q.size {
		found.list, found.more = found.list[:q.size:q.size], true
	}
	return found
}

// outcomeRest is what follows the outcomes of a page.
type outcomeRest struct {
	Since     contracts.Time `json:"since"`
	Forgotten int64          `json:"forgotten"`
	nextPage
}

// outcomeBytes is about what an outcome takes.
const outcomeBytes = 1 << 10

// seesOf is the tenant whose outcomes a caller sees. Empty is all.
func (c Caller) seesOf() string {
	if c.May(Operate) {
		return ""
	}
	return c.Tenant
}

func (a *api) listOutcomes(w http.ResponseWriter, r *http.Request, c Caller) error {
	given, err := query(r, "request_id", "path", "rejected", "after", "page_size", "page_token")
	if err != nil {
		return err
	}
	q := outcomeQuery{tenant: c.seesOf(), requestID: given["request_id"], path: canonical(given["path"]),
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
		found := a.outcomes.find(q)
		rest := outcomeRest{Since: direct.Time(found.since), Forgotten: found.forgotten}
		if found.more {
			rest.Token = strconv.FormatInt(found.list[len(found.list)-1].Number, 10)
		}
		return found.list, rest, page.Cost{Kept: len(found.list) * outcomeBytes}, nil
	})
}

// getCaller says who the server takes the caller for.
func (a *api) getCaller(c call) (contracts.CallerInfo, error) {
	return contracts.CallerInfo{
		Subject: c.caller.Subject, TenantID: c.caller.Tenant, Administrator: c.caller.May(Admin),
		Operator: c.caller.May(Operate), Worker: c.caller.May(Worker), MachineIDs: c.caller.May(MachineIDs),
		Development: a.identity.Unverified(), Version: a.build.Version, Commit: a.build.Commit, At: direct.Time(a.now()),
	}, nil
}
