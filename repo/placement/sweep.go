package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// DefaultSweepLimit is how many documents a sweep looks at in clusters that have to be looked through.
	DefaultSweepLimit = 10_000

	// one for each cluster of the store, of no tenant: written before the cluster's first epoch
	registryKind = "placement_registry"
	markKind     = "placement_sweeps" // one for the store: where the next sweep begins

	walkEvery  = 24 * time.Hour // how often a cluster is looked through whose members stay the same
	keepLocked = time.Hour      // after the end of a lock phase that no one ended
	overdue    = 48 * time.Hour // when documents that the store was told to remove are removed by a sweep

	sweepPage  = 250 // documents in one read, a few megabytes at most
	sweepBatch = 80  // writes in one step
	epochPage  = 8   // an epoch is a large document

	saveTimeout = 5 * time.Second
)

// Swept is what a sweep did.
type Swept struct {
	Clusters int  // that it looked at
	Evicted  int  // members whose leases had ended
	Freed    int  // activations whose owners are gone, or did not activate them for an hour after their lock phase
	Removed  int  // documents that the store should have removed two days ago
	Retired  int  // clusters that had neither members nor activations for the retention
	Errors   int  // clusters and documents that could not be looked at
	Damaged  int  // of the Errors, documents that cannot be read: they fail again until they are repaired
	More     bool // it ended before it was through: the next one goes on
}

// Plus is the sum of two sweeps, the second of which went on where the first stopped.
func (s Swept) Plus(t Swept) Swept {
	return Swept{
		Clusters: s.Clusters + t.Clusters, Evicted: s.Evicted + t.Evicted, Freed: s.Freed + t.Freed,
		Removed: s.Removed + t.Removed, Retired: s.Retired + t.Retired,
		Errors: s.Errors + t.Errors, Damaged: s.Damaged + t.Damaged, More: t.More,
	}
}

// Sweep does what no one else may ever do, in all clusters of the store. It evicts the members whose leases have ended,
// so that a new epoch begins even if no one asks. It frees the activations of members that are gone, with an event for
// each; and it removes what is kept for a time only, where the store does not.
//
// It looks at limit documents at most where it has to look through a cluster: after its members changed, and once a
// day. 0 means DefaultSweepLimit. What it does not reach, the next sweep does. Everything it does is conditional on
// what it found, so that any number of sweeps may run at once, beside members at work. A cluster without members costs
// one read, any other one read and a list of its leases.
//
// An error says what could not be done; other clusters were swept, unless the store did not respond. A deadline that
// ends it after it did something is no error: the next one goes on. Documents that cannot be read are no failure: they
// are passed by, and a [docstore.Unreadable] says which, see [docstore.Failure].
func (s *Service) Sweep(ctx context.Context, limit int) (Swept, error) {
	if limit < 0 {
		return Swept{}, field.Errorf("limit", "is %d: a number of documents, or 0 for %d", limit, DefaultSweepLimit)
	}
	if limit == 0 {
		limit = DefaultSweepLimit
	}
	w := &sweeping{Service: s, left: limit}
	entries, mark, err := w.clusters(ctx)
	if err != nil {
		return w.done, err
	}
	next := "" // after which cluster the next sweep begins
	for i, e := range entries {
		left := w.left
		err := w.cluster(ctx, e)
		over := fatal(err) && errors.Is(ctx.Err(), context.DeadlineExceeded) && (w.moved || w.done.Clusters > 0)
		if err != nil && !over {
			w.trouble(fmt.Errorf("cluster %q: %w", e.Key.ID, err))
		}
		if fatal(err) {
			next, w.done.More = e.Key.ID, true
			break
		}
		w.done.Clusters++
		if w.left <= 0 && left > 0 && i+1 < len(entries) {
			next = e.Key.ID // a large cluster that goes on is the last of the next sweep
		}
	}
	var unmarked error
	if next != mark && !w.lost {
		unmarked = s.mark(ctx, next)
	}
	return w.done, errors.Join(errors.Join(w.troubles...), unmarked, w.unreadable.Err())
}

// mostTroubles bounds the failures that are returned in words, beside what cannot be read.
const mostTroubles = 20

// trouble counts a cluster or a document that could not be looked at.
func (w *sweeping) trouble(err error) {
	w.done.Errors++
	if w.unreadable.Take(err) {
		w.done.Damaged++
	} else if len(w.troubles) < mostTroubles {
		w.troubles = append(w.troubles, err)
	}
}

// fatal reports whether other clusters would meet the same error.
func fatal(err error) bool {
	return errors.Is(err, docstore.ErrUnavailable) || errors.Is(err, docstore.ErrClosed) ||
		errors.Is(err, docstore.ErrClockSkew) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// entry is the document that names a cluster.
func (c Cluster) entry() docstore.Key { return docstore.Key{Kind: registryKind, ID: c.space()} }

// fAgain is in the document that names a cluster once a join has found it there.
const fAgain = "again"

// register makes a cluster one that sweeps find. It comes before the first epoch, because it belongs to no tenant and
// so to no step of the cluster. full says that the tenant has as many clusters as it may have, and this is none of
// them.
//
// Members of a new cluster come together. So the first of them names it, and takes room for it then: the others find
// the name, and need none. If there is no room, the name goes, unless another join has found it by then.
func (s *Service) register(ctx context.Context, c Cluster, end rule.End) (full bool, err error) {
	found := docstore.Write{Until: end.NotAfter}
	if s.clusters != nil {
		found.Add = map[string]int64{fAgain: 1}
		made, err := s.name(ctx, c, docstore.Write{If: docstore.Absent{}, Until: end.NotAfter})
		if err != nil {
			return false, err
		}
		if made.Applied {
			ok, err := s.clusters.Created(ctx, c.Tenant)
			if ok {
				return false, nil
			}
			_, unnamed := s.unname(ctx, c, made.Docs[0], docstore.Not{Cond: docstore.Has{Field: fAgain}})
			return true, cmp.Or(err, unnamed)
		}
	}
	_, err = s.name(ctx, c, found)
	return false, err
}

// name writes the document that names a cluster. The time of the latest try keeps sweeps from removing it before the
// epoch is written.
func (s *Service) name(ctx context.Context, c Cluster, w docstore.Write) (docstore.Result, error) {
	w.Key, w.Set = c.entry(), map[string]docstore.Value{fAt: docstore.Now}
	r, err := s.store.Write(ctx, w)
	if err != nil {
		return r, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	return r, nil
}

// Clusters selects clusters of a tenant for [Service.Clusters].
type Clusters struct {
	Tenant string
	After  string // what the page before named as next; empty for the first
	Limit  int    // clusters in the page, 1 to docstore.MaxLimit; 0 means docstore.DefaultLimit
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q Clusters) Validate() error {
	if err := first(field.Text("tenant_id", q.Tenant, MaxTenantBytes), checkLimit(q.Limit)); err != nil || q.After == "" {
		return err
	}
	if word("cluster", q.After, MaxClusterBytes) != nil {
		return field.Errorf("page_token", "is not one that a page gave: leave it out to begin again")
	}
	return nil
}

// Clusters lists the names of a tenant's clusters, by ascending bytes: those that members have joined, or tried to.
// next is the After of the page behind it, empty if there is none. One request to the store, unless the names of other
// tenants begin with this one's and a slash.
func (s *Service) Clusters(ctx context.Context, q Clusters) (names []string, next string, err error) {
	if err := q.Validate(); err != nil {
		return nil, "", err
	}
	size := cmp.Or(q.Limit, docstore.DefaultLimit)
	prefix := q.Tenant + "/"
	list := docstore.Query{Kind: registryKind, Prefix: prefix, Limit: size}
	if q.After != "" {
		list.After = prefix + q.After
	}
	for {
		p, err := s.store.List(ctx, list)
		if err != nil {
			return nil, "", fmt.Errorf("clusters of %q: %w", q.Tenant, err)
		}
		left := len(p.Entries) + len(p.Damaged)
		for e := range p.All() { //nolint:errcheck // its name is shown, also if the rest cannot be read
			left--
			name := strings.TrimPrefix(e.Key.ID, prefix)
			if word("cluster", name, MaxClusterBytes) != nil {
				continue // of a tenant whose name is longer; or of another program, which the sweep reports
			}
			if names = append(names, name); len(names) == size && (left > 0 || p.Next != "") {
				return names, name, nil
			}
		}
		if list.After = p.Next; p.Next == "" {
			return names, "", nil
		}
	}
}

var markKey = docstore.Key{Kind: markKind, ID: "next"}

// mark notes where the next sweep begins, also when the time of this one is over.
func (s *Service) mark(ctx context.Context, after string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	w := docstore.Write{Key: markKey, Set: map[string]docstore.Value{fAfter: docstore.String(after)}, Keep: keepEpochs}
	if _, err := s.store.Write(ctx, w); err != nil {
		return fmt.Errorf("where the next sweep begins: %w", err)
	}
	return nil
}

// sweeping is one sweep.
type sweeping struct {
	*Service

	left       int  // documents that may still be looked at
	moved      bool // a page of a cluster was looked at
	lost       bool // another program has put something in the place of the mark: none can be kept
	done       Swept
	troubles   []error // the first failures
	unreadable docstore.Unreadable
	at         time.Time // the store's time of the latest read
}

// damaged counts the documents of a page that the store cannot read.
func (w *sweeping) damaged(p docstore.Page) {
	for _, d := range p.Damaged {
		w.trouble(d.Err)
	}
}

// clusters are the documents that name clusters, those first that the sweep before did not reach.
func (w *sweeping) clusters(ctx context.Context) (entries []docstore.Entry, mark string, err error) {
	snap, err := w.store.Get(ctx, markKey)
	if w.lost = w.unreadable.Take(err); !w.lost && err != nil {
		return nil, "", fmt.Errorf("clusters: %w", err)
	}
	if !w.lost {
		m, _ := snap.Docs[0][fAfter].(docstore.String) // what is damaged is as good as nothing
		mark = string(m)
	}
	for q := (docstore.Query{Kind: registryKind, Limit: docstore.MaxLimit}); ; {
		p, err := w.store.List(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("clusters: %w", err)
		}
		entries, w.at = append(entries, p.Entries...), p.At
		w.damaged(p)
		if q.After = p.Next; p.Next == "" {
			break
		}
	}
	first, _ := slices.BinarySearchFunc(entries, mark, func(e docstore.Entry, mark string) int {
		if e.Key.ID <= mark {
			return -1
		}
		return 1
	})
	return slices.Concat(entries[first:], entries[:first]), mark, nil
}

// progress is how far sweeps have looked through a cluster.
type progress struct {
	rev  int64
	seen epochName // no activation has an owner that left before it
	at   time.Time // when it was looked through

	stage string // where the walk that is under way goes on; empty if there is none
	after string
	began epochName // the epoch at which it began
}

// epochName tells an epoch from those that a store lost: see head.names. Of two in one millisecond it does not: then
// the later one is looked through when walkEvery has passed.
type epochName struct {
	number int64
	at     time.Time
}

func (n epochName) of(t *Topology) bool { return n.number == t.Epoch && n.at.Equal(t.At) }

// Fields of the document that names a cluster; fRev, fEpoch, fChangedAt and fAt as well.
const (
	fWalkedAt = "walked_at"
	fStage    = "stage"
	fAfter    = "after"
	fBegan    = "began"
	fBeganAt  = "began_changed_at"
)

func progressOf(e docstore.Entry) (progress, error) {
	r := rule.Read(e.Key, e.Doc)
	p := progress{
		rev: r.Number(fRev), seen: epochName{r.Number(fEpoch), r.Time(fChangedAt)}, at: r.Time(fWalkedAt),
		stage: r.Text(fStage), after: r.Text(fAfter), began: epochName{r.Number(fBegan), r.Time(fBeganAt)},
	}
	switch {
	case p.stage != "":
		r.Required(fAfter, fBegan, fBeganAt)
	case p.rev > 0:
		r.Required(fEpoch, fChangedAt, fWalkedAt)
	}
	if !slices.ContainsFunc(stages, func(s stage) bool { return s.kind == p.stage }) {
		p.stage, p.after = "", "" // a stage that this program does not have: the walk begins anew
	}
	return p, r.Err()
}

// write keeps progress that was made from what was read; another sweep may have been faster.
func (p progress) write(k docstore.Key) docstore.Write {
	cond := docstore.Cond(docstore.Eq{Field: fRev, Value: docstore.Int(p.rev)})
	if p.rev == 0 {
		cond = docstore.All{docstore.Has{Field: fAt}, docstore.Not{Cond: docstore.Has{Field: fRev}}}
	}
	w := docstore.Write{Key: k, If: cond, Set: map[string]docstore.Value{}, Add: map[string]int64{fRev: 1}}
	if p.stage == "" {
		w.Set[fEpoch], w.Set[fChangedAt] = docstore.Int(p.began.number), docstore.FormatTime(p.began.at)
		w.Set[fWalkedAt], w.Unset = docstore.Now, []string{fStage, fAfter, fBegan, fBeganAt}
		return w
	}
	w.Set[fStage], w.Set[fAfter] = docstore.String(p.stage), docstore.String(p.after)
	w.Set[fBegan], w.Set[fBeganAt] = docstore.Int(p.began.number), docstore.FormatTime(p.began.at)
	return w
}

// cluster sweeps one cluster.
func (w *sweeping) cluster(ctx context.Context, e docstore.Entry) error {
	c, err := clusterOf(e.Key)
	if err != nil {
		return err
	}
	t, err := w.Topology(ctx, c)
	if err != nil {
		return err
	}
	if t == nil { // its first member has not joined yet, or it was removed
		return w.retire(ctx, c, e)
	}
	if len(t.Members) > 0 {
		done, err := w.evictEnded(ctx, c, MaxMembers)
		w.done.Evicted += len(done.evicted)
		w.done.Errors, w.done.Damaged = w.done.Errors+done.damaged.Count, w.done.Damaged+done.damaged.Count
		for i, e := range done.damaged.Named {
			done.damaged.Named[i] = fmt.Errorf("cluster %q: %w", c.space(), e)
		}
		w.unreadable.Add(done.damaged)
		if err != nil {
			return err
		}
		if t = w.Cached(c); t == nil { // what the eviction was decided on, or a later one
			return nil // the cluster was removed meanwhile
		}
	}
	if done, err := w.idle(ctx, c, t, e); done || err != nil {
		return err
	}
	p, err := progressOf(e) // last: its damage keeps no member from being evicted
	if err != nil {
		return err
	}
	if p.stage == "" {
		if p.seen.of(t) && w.at.Before(p.at.Add(walkEvery)) {
			return nil
		}
		p.stage, p.began = stages[0].kind, epochName{t.Epoch, t.At}
	}
	return w.walk(ctx, c, e.Key, p)
}

// walk looks through a cluster, as far as the sweep's limit lets it, and keeps how far it came.
func (w *sweeping) walk(ctx context.Context, c Cluster, k docstore.Key, p progress) error {
	moved := false
	for p.stage != "" && w.left > 0 {
		i := slices.IndexFunc(stages, func(s stage) bool { return s.kind == p.stage })
		next, err := stages[i].do(w, ctx, c, p.after)
		if err != nil { // often that of a sweep whose time has run out: the next one goes on here, not where this one began
			return errors.Join(err, w.save(ctx, k, p, moved))
		}
		moved, w.moved = true, true
		if p.after = next; next == "" {
			if p.stage = ""; i+1 < len(stages) {
				p.stage = stages[i+1].kind
			}
		}
	}
	if p.stage != "" {
		w.done.More = true
	}
	return w.save(ctx, k, p, moved)
}

// save keeps how far a walk came, if it came anywhere, also when the time of the sweep is over.
func (w *sweeping) save(ctx context.Context, k docstore.Key, p progress, moved bool) error {
	if !moved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if _, err := w.store.Write(ctx, p.write(k)); err != nil {
		return fmt.Errorf("progress of the sweep: %w", err)
	}
	return nil
}

// stage is what a walk does with a page of the documents of a kind. It returns after which the next page begins, empty
// for the last.
type stage struct {
	kind string
	do   func(w *sweeping, ctx context.Context, c Cluster, after string) (next string, err error)
}

var stages = []stage{
	{ActivationKind, (*sweeping).activations}, {leaseKind, (*sweeping).leases}, {memberKind, (*sweeping).members},
	{eventKind, (*sweeping).events}, {epochKind, (*sweeping).epochs},
}

// page reads documents of a cluster.
func (w *sweeping) page(ctx context.Context, c Cluster, kind, after string, limit int) (docstore.Page, error) {
	p, err := w.store.List(ctx, docstore.Query{Kind: kind, Tenant: c.space(), After: after,
		Limit: max(1, min(w.left, limit))})
	if err != nil {
		return p, fmt.Errorf("%s of %q: %w", kind, c.Name, err)
	}
	w.damaged(p)
	w.left -= max(1, len(p.Entries)+len(p.Damaged))
	w.at = p.At
	w.learn(p.At)
	return p, nil
}

// activations frees a page of activations that no one has any more, and removes those that have been free for long
// enough and have no state.
func (w *sweeping) activations(ctx context.Context, c Cluster, after string) (string, error) {
	page, err := w.page(ctx, c, ActivationKind, after, sweepPage)
	if err != nil {
		return "", err
	}
	var abandoned, unfound []Activation
	var kept [][]docstore.Write
	t := w.Cached(c)
	for _, e := range page.Entries {
		kind, id, _ := strings.Cut(e.Key.ID, "/")
		a, err := (subject{c, Identity{kind, id}}).stored(e.Doc)
		switch {
		case err != nil: // others are not kept from being freed
			w.trouble(err)
		case a.Phase != Free && (!t.Live(a.Owner) || a.lapsedFor(keepLocked, page.At)):
			abandoned = append(abandoned, a)
		case a.unfound(page.At):
			unfound = append(unfound, a)
		case a.Phase == Free && len(a.State) > 0 && e.Doc[fKeptUntil] != nil && w.keepState == keepForever:
			kept = append(kept, (subject{c, a.Identity}).kept(a))
		}
	}
	if len(abandoned) > 0 {
		// An owner that joined since is in the epoch that is current now; one that is not is gone for ever.
		if t, err = w.Topology(ctx, c); err != nil || t == nil { // the cluster was removed from the store meanwhile
			return "", err
		}
	}
	var steps [][]docstore.Write
	for _, a := range abandoned {
		s := subject{c, a.Identity}
		switch {
		case !t.Live(a.Owner):
			steps = append(steps, s.freed(a, t.Epoch, "its owner is gone", w.keepState, page.At))
		case a.lapsedFor(keepLocked, page.At):
			steps = append(steps, s.freed(a, t.Epoch, "its owner did not activate it", w.keepState, page.At))
		}
	}
	n, err := w.apply(ctx, steps, nothing)
	if w.done.Freed += n; err != nil {
		return "", err
	}
	if _, err := w.apply(ctx, kept, nothing); err != nil {
		return "", err
	}
	if err := w.foundAgain(ctx, c, unfound); err != nil {
		return "", err
	}
	free := docstore.Eq{Field: fPhase, Value: docstore.String(Free)}
	due := docstore.Any{
		docstore.All{free, stateless, alarmless, docstore.LE{Field: fChangedAt, Value: docstore.Now.Add(-w.retention)}},
	}
	if w.keepState < keepForever {
		due = append(due, over(fKeptUntil, 0, free))
	}
	return page.Next, w.remove(ctx, page, due)
}

// kept has the store keep a free activation with its state, which a program with another setting has told it to remove.
func (c subject) kept(a Activation) []docstore.Write {
	return []docstore.Write{{
		Key: c.key(), If: docstore.Eq{Field: fRev, Value: docstore.Int(a.rev)}, Unset: []string{fKeptUntil},
		Keep: keepForever,
	}}
}

// lapsedFor reports whether the lock phase ended so long ago.
func (a Activation) lapsedFor(d time.Duration, at time.Time) bool {
	return a.Phase == Locked && !at.Before(a.LockUntil.Add(d))
}

// freed ends an activation for an owner that does not: it and its event are one step, which applies while the
// activation is as it was read.
func (c subject) freed(a Activation, epoch int64, reason string, retention time.Duration,
	at time.Time) []docstore.Write {
	e := Event{Member: a.Owner, Identity: a.Identity, From: string(a.Phase), To: string(Free), Epoch: epoch,
		Token: a.Token, Reason: reason}
	w := docstore.Write{
		Key: c.key(),
		If: docstore.All{ // a repair of the store raises tokens and counts nothing
			docstore.Eq{Field: fRev, Value: docstore.Int(a.rev)}, docstore.Eq{Field: fToken, Value: docstore.Int(a.Token)},
		},
		Set: map[string]docstore.Value{
			fPhase: docstore.String(Free), fChangedAt: docstore.Now, fReason: docstore.String(reason),
		},
		Add:   map[string]int64{fRev: 1},
		Unset: []string{fLockUntil, fActivatedAt},
	}
	return []docstore.Write{ending(w, retention), e.write(c.Cluster, at)}
}

// over holds for documents that have ended and that the store should have removed two days ago: so long, and what they
// are kept for, after the time in a field.
func over(field string, keep time.Duration, ended docstore.Cond) docstore.Cond {
	return docstore.All{ended, docstore.LE{Field: field, Value: docstore.Now.Add(-keep - overdue)}}
}

// leases removes leases that were ended.
func (w *sweeping) leases(ctx context.Context, c Cluster, after string) (string, error) {
	page, err := w.page(ctx, c, leaseKind, after, sweepPage)
	if err != nil {
		return "", err
	}
	return page.Next, w.remove(ctx, page, over(fKeptUntil, 0, docstore.Not{Cond: docstore.Has{Field: fExpiresAt}}))
}

// members removes members that left or died.
func (w *sweeping) members(ctx context.Context, c Cluster, after string) (string, error) {
	page, err := w.page(ctx, c, memberKind, after, sweepPage)
	if err != nil {
		return "", err
	}
	return page.Next, w.remove(ctx, page, over(fKeptUntil, 0, docstore.Any{
		docstore.Eq{Field: fStatus, Value: docstore.String(MemberLeft)},
		docstore.Eq{Field: fStatus, Value: docstore.String(MemberDead)},
	}))
}

// events removes the oldest events, until a page has some that are to stay: they are in the order of time.
func (w *sweeping) events(ctx context.Context, c Cluster, after string) (string, error) {
	page, err := w.page(ctx, c, eventKind, after, sweepPage)
	if err != nil {
		return "", err
	}
	due := over(fAt, keepEvents, docstore.Has{Field: fTo})
	for _, e := range slices.Backward(page.Entries) {
		if _, err := eventOf(e.Key, e.Doc); err == nil { // those that cannot be read say nothing of the ones behind them
			if !due.Holds(e.Doc, page.At) {
				page.Next = ""
			}
			break
		}
	}
	return page.Next, w.remove(ctx, page, due)
}

// epochs removes the oldest epochs, those that are needed no more since one began long enough ago. The order of their
// IDs is theirs.
func (w *sweeping) epochs(ctx context.Context, c Cluster, after string) (string, error) {
	page, err := w.page(ctx, c, epochKind, after, epochPage)
	if err != nil {
		return "", err
	}
	enders, err := w.enders(ctx, c, page.Entries)
	if err != nil {
		return "", err
	}
	began, ended := over(fChangedAt, keepEpochs, docstore.Has{Field: fEpoch}), 0
	// all before one that has ended have, also those that cannot be read
	for i, d := range enders {
		if began.Holds(d, page.At) {
			ended = i + 1
		}
	}
	if ended == 0 {
		return "", nil
	}
	next := ""
	if page.Next != "" && ended == len(enders) {
		next = page.Entries[ended-1].Key.ID
	}
	page.Entries = page.Entries[:ended]
	return next, w.remove(ctx, page, docstore.Has{Field: fEpoch})
}

// enders are, for each epoch of a page, the document of the one from which on it is not needed: it has that part of the
// state again.
func (w *sweeping) enders(ctx context.Context, c Cluster, page []docstore.Entry) (docs []docstore.Doc, err error) {
	docs = make([]docstore.Doc, len(page))
	var keys []docstore.Key
	var at []int
	for i, e := range page {
		if n, err := strconv.ParseInt(e.Key.ID, 10, 64); err == nil && e.Key == c.epoch(n) {
			keys, at = append(keys, c.epoch(n+epochParts)), append(at, i)
		}
	}
	if len(keys) == 0 {
		return docs, nil
	}
	snap, err := w.store.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("epochs of %q: %w", c.Name, err)
	}
	for i, d := range snap.Docs {
		docs[at[i]] = d
	}
	return docs, nil
}

// remove removes those documents of a page for which a condition holds, in steps that ask again.
func (w *sweeping) remove(ctx context.Context, page docstore.Page, due docstore.Cond) error {
	var steps [][]docstore.Write
	for _, e := range page.Entries {
		if due.Holds(e.Doc, page.At) {
			steps = append(steps, []docstore.Write{{Key: e.Key, If: due, Delete: true}})
		}
	}
	n, err := w.apply(ctx, steps, nothing)
	w.done.Removed += n
	return err
}

// nothing is for [sweeping.apply], for steps that are only counted.
func nothing([]docstore.Write) {}

// apply carries out steps of the same length, as many at once as fit, each time beside writes that belong to all of
// them. Those that came too late, because others changed the documents, are left out; all are whose writes beside them
// did. It tells did of those that were applied, and returns how many.
func (w *sweeping) apply(ctx context.Context, steps [][]docstore.Write, did func(step []docstore.Write),
	beside ...docstore.Write) (applied int, err error) {
	for len(steps) > 0 {
		n := min(len(steps), sweepBatch/len(steps[0]))
		batch := slices.Clone(steps[:n])
		for steps = steps[n:]; len(batch) > 0; {
			r, err := w.store.Write(ctx, append(slices.Concat(batch...), beside...)...)
			if errors.Is(err, docstore.ErrDamaged) {
				n, err := w.applyEach(ctx, batch, did, beside, err)
				if applied += n; err != nil {
					return applied, err
				}
				break
			}
			if err != nil {
				return applied, fmt.Errorf("%s: %w", batch[0][0].Key, err)
			}
			if r.Applied {
				applied += len(batch)
				for _, step := range batch {
					did(step)
				}
				break
			}
			late := map[int]bool{}
			for _, i := range r.Refused {
				late[i/len(batch[0])] = true
			}
			if late[len(batch)] {
				return applied, nil
			}
			kept := batch[:0]
			for i, s := range batch {
				if !late[i] {
					kept = append(kept, s)
				}
			}
			if len(kept) == len(batch) {
				return applied, fmt.Errorf("%w: %s: the store refused a step and does not say which", docstore.ErrDamaged,
					batch[0][0].Key)
			}
			batch = kept
		}
	}
	return applied, nil
}

// applyEach applies steps one by one, of which some cannot be applied because a document is damaged: those are counted.
func (w *sweeping) applyEach(ctx context.Context, steps [][]docstore.Write, did func(step []docstore.Write),
	beside []docstore.Write, damaged error) (applied int, err error) {
	if len(steps) == 1 {
		w.trouble(fmt.Errorf("%s: %w", steps[0][0].Key, damaged))
		return 0, nil
	}
	for _, step := range steps {
		n, err := w.apply(ctx, [][]docstore.Write{step}, did, beside...)
		if applied += n; err != nil {
			return applied, err
		}
	}
	return applied, nil
}
