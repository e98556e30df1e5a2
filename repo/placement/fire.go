package placement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	maxAlarms     = 1000 // entries that a look deals with in one cluster
	firstAlarms   = 1    // entries that are read where perhaps none is due
	maxAlarmLooks = 8    // clusters that are looked at at a time
	alarmReads    = 50   // activations in one read: each may have a state

	// AlarmDue is the reason in the events of a firing: in that of a claim, unless that has another reason, and in one
	// from ACTIVE to ACTIVE, which tells the owner.
	AlarmDue = "its alarm is due"
)

// Alarms is what a look for alarms did.
type Alarms struct {
	Clusters int  // that have, or had, alarms
	Fired    int  // alarms of which owners were told, or for which members were given the identities
	Waiting  int  // that are due, and cannot be fired: no member is eligible, or the owner is in its lock phase
	Removed  int  // entries of alarms that were replaced, cleared or carried out, or that moved on to a later one
	Errors   int  // clusters and documents that could not be looked at
	Damaged  int  // of the Errors, documents that cannot be read
	More     bool // some are due that it did not come to

	Late []time.Duration // of each alarm that was fired for the first time, how long it had been due
}

// FireAlarms looks for alarms that are due, in all clusters of the store, and fires them: it tells the owner by an
// event, or gives an identity that no one has to the member on which it is placed, as a claim does. An alarm that was
// fired is due again after a pause, until its owner clears it. Any number of looks may run at once. It is a list for
// each thousand clusters that have alarms, and one for each of them; what is due takes a read for each 50, and a step
// for each 20. A cluster without active members is left alone, so that its alarms are fired when one joins.
//
// An error says what could not be looked at; see [Service.Sweep].
func (s *Service) FireAlarms(ctx context.Context) (Alarms, error) {
	var (
		sum      Alarms
		all      sweeping // what could not be read
		mu       sync.Mutex
		looks    sync.WaitGroup
		room     = make(chan struct{}, maxAlarmLooks)
		troubles []error
	)
	for q := (docstore.Query{Kind: alarmedKind, Limit: docstore.MaxLimit}); ; {
		p, err := s.store.List(ctx, q)
		if err != nil {
			looks.Wait()
			return sum, fmt.Errorf("clusters with alarms: %w", err)
		}
		mu.Lock()
		all.damaged(p)
		mu.Unlock()
		for _, e := range p.Entries {
			room <- struct{}{}
			looks.Go(func() {
				defer func() { <-room }()
				l := &alarmLook{sweeping: sweeping{Service: s, left: math.MaxInt}}
				c, err := clusterOf(e.Key)
				if err == nil {
					err = l.cluster(ctx, c)
				}
				if err != nil {
					l.trouble(fmt.Errorf("alarms of cluster %q: %w", e.Key.ID, err))
				}
				mu.Lock()
				defer mu.Unlock()
				sum.Clusters++
				sum.Fired, sum.Waiting = sum.Fired+l.fired.Fired, sum.Waiting+l.fired.Waiting
				sum.Removed, sum.More = sum.Removed+l.fired.Removed, sum.More || l.fired.More
				sum.Late = append(sum.Late, l.fired.Late...)
				all.done.Errors, all.done.Damaged = all.done.Errors+l.done.Errors, all.done.Damaged+l.done.Damaged
				all.unreadable.Add(l.unreadable)
				troubles = append(troubles, l.troubles...)
			})
		}
		if q.After = p.Next; p.Next == "" {
			break
		}
	}
	looks.Wait()
	sum.Errors, sum.Damaged = all.done.Errors, all.done.Damaged
	if len(troubles) > mostTroubles {
		troubles = troubles[:mostTroubles]
	}
	return sum, errors.Join(errors.Join(troubles...), errors.Join(all.troubles...), all.unreadable.Err())
}

// alarmLook is a look for the alarms of one cluster.
type alarmLook struct {
	sweeping

	fired Alarms
}

// cluster fires what is due in a cluster.
func (l *alarmLook) cluster(ctx context.Context, c Cluster) error {
	due, err := l.due(ctx, c)
	if err != nil || len(due) == 0 {
		return err
	}
	ended, err := l.evictEnded(ctx, c, MaxMembers)
	l.done.Errors, l.done.Damaged = l.done.Errors+ended.damaged.Count, l.done.Damaged+ended.damaged.Count
	l.unreadable.Add(ended.damaged)
	if err != nil {
		return err
	}
	t, err := l.Topology(ctx, c)
	if err != nil || !t.Ready() {
		return err
	}
	for some := range slices.Chunk(due, alarmReads) {
		if err := l.fire(ctx, c, t, some); err != nil {
			return err
		}
	}
	return nil
}

// due are the entries whose time has come, the first of them.
func (l *alarmLook) due(ctx context.Context, c Cluster) (due []docstore.Entry, err error) {
	q := docstore.Query{Kind: alarmKind, Tenant: c.space(), Limit: firstAlarms}
	for len(due) < maxAlarms {
		p, err := l.store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		l.learn(p.At)
		l.damaged(p)
		now := p.At.UTC().Format(entryID)
		for _, e := range p.Entries {
			if e.Key.ID[:min(len(e.Key.ID), len(now))] > now {
				return due, nil
			}
			due = append(due, e)
		}
		if p.Next == "" {
			return due, nil
		}
		q.After, q.Limit = p.Next, max(1, min(sweepPage, maxAlarms-len(due)))
	}
	l.fired.More = true
	return due, nil
}

// firing is what is to be done about entries, in steps of the same kind.
type firing struct {
	lone, drop, move, tell, wait [][]docstore.Write
	give                         map[string][][]docstore.Write // by the member that is given identities
	to                           map[string]*Member
	late                         map[docstore.Key]time.Duration // of what is fired for the first time, by its activation
}

// fire deals with entries that are due, by what their activations say.
func (l *alarmLook) fire(ctx context.Context, c Cluster, t *Topology, due []docstore.Entry) error {
	var of []subject
	var entries []docstore.Entry
	for _, e := range due {
		parts := strings.SplitN(e.Key.ID, "/", 3)
		if len(parts) != 3 || (Identity{parts[1], parts[2]}).Validate() != nil {
			l.trouble(fmt.Errorf("%w: %s is no entry of an alarm", docstore.ErrDamaged, e.Key))
			continue
		}
		if s := (subject{c, Identity{parts[1], parts[2]}}); !slices.Contains(of, s) { // the next look has the other entry
			of, entries = append(of, s), append(entries, e)
		}
	}
	if len(of) == 0 {
		return nil
	}
	docs, at, err := l.read(ctx, of)
	if err != nil {
		return err
	}
	f := firing{give: map[string][][]docstore.Write{}, to: map[string]*Member{}, late: map[docstore.Key]time.Duration{}}
	for i, s := range of {
		switch doc := docs[i].(type) {
		case error:
			l.trouble(doc)
		case docstore.Doc:
			f.decide(s, entries[i], doc, t, at, l.trouble)
		}
	}
	return l.carryOut(ctx, c, f)
}

// read returns the documents of activations, or why one cannot be read.
func (l *alarmLook) read(ctx context.Context, of []subject) (docs []any, at time.Time, err error) {
	keys := make([]docstore.Key, len(of))
	for i, s := range of {
		keys[i] = s.key()
	}
	docs = make([]any, len(of))
	snap, err := l.store.Get(ctx, keys...)
	if err == nil {
		l.learn(snap.At)
		for i, d := range snap.Docs {
			docs[i] = d
		}
		return docs, snap.At, nil
	}
	if !errors.Is(err, docstore.ErrDamaged) || len(of) == 1 {
		docs[0] = err
		if errors.Is(err, docstore.ErrDamaged) {
			err = nil
		}
		return docs, at, err
	}
	for i := range of { // all but those
		one, oneAt, err := l.read(ctx, of[i:i+1])
		if err != nil {
			return nil, at, err
		}
		docs[i] = one[0]
		if at.IsZero() || !oneAt.IsZero() && oneAt.Before(at) {
			at = oneAt
		}
	}
	return docs, at, nil
}

// decide says what is to be done about an entry. Each step names what makes it right.
func (f *firing) decide(s subject, entry docstore.Entry, doc docstore.Doc, t *Topology, at time.Time,
	trouble func(error)) {
	a, err := s.State(doc)
	if err == nil && !a.AlarmNext.IsZero() {
		a, err = s.stored(doc)
	}
	if err != nil {
		trouble(err)
		return
	}
	gone := docstore.Write{Key: entry.Key, If: docstore.Eq{Field: fToken, Value: entry.Doc[fToken]}, Delete: true}
	if _, ok := entry.Doc[fToken].(docstore.Int); !ok {
		gone.If = docstore.Not{Cond: docstore.Absent{}} // it says nothing of its own
	}
	same := docstore.Cond(docstore.Eq{Field: fAlarmNext, Value: docstore.FormatTime(a.AlarmNext)})
	sameEntry := docstore.Cond(docstore.Not{Cond: docstore.Has{Field: fAlarmEntry}})
	if !a.alarmEntry.IsZero() {
		sameEntry = docstore.Eq{Field: fAlarmEntry, Value: docstore.FormatTime(a.alarmEntry)}
	}
	mine := !a.alarmEntry.IsZero() && s.alarmEntry(a.alarmEntry) == entry.Key
	switch {
	case doc == nil: // an identity that comes now has a higher token
		f.lone = append(f.lone, []docstore.Write{gone})
		return
	case !mine: // an alarm was set for earlier since, or the entry of a cleared one was removed
		f.drop = append(f.drop, []docstore.Write{gone, {Key: s.key(), If: sameEntry}})
		return
	case a.AlarmNext.IsZero():
		f.drop = append(f.drop, []docstore.Write{gone, {Key: s.key(), Unset: []string{fAlarmEntry},
			If: docstore.All{sameEntry, docstore.Not{Cond: docstore.Has{Field: fAlarmNext}}}}})
		return
	case a.AlarmNext.After(at):
		if s.alarmEntry(a.AlarmNext) != entry.Key {
			f.move = append(f.move, []docstore.Write{gone, s.alarmEntryWrite(a.AlarmNext, a.Token),
				{Key: s.key(), If: docstore.All{sameEntry, same}, Set: map[string]docstore.Value{
					fAlarmEntry: docstore.FormatTime(a.AlarmNext)}}})
		}
		return
	}
	next := docstore.TruncateMilli(at.Add(alarmPause(a.AlarmTries)))
	later := s.alarmEntryWrite(next, a.Token)
	owned := a.Phase != Free && t.Live(a.Owner)
	lapsed := a.Phase == Locked && !at.Before(a.LockUntil)
	to := t.Place(s.Identity, a.Need)
	switch {
	case owned && a.Phase == Active:
		f.late[s.key()] = at.Sub(a.AlarmAt)
		e := Event{Member: a.Owner, Identity: s.Identity, From: string(Active), To: string(Active), Token: a.Token,
			Reason: AlarmDue}
		f.tell = append(f.tell, []docstore.Write{postponed(s, a, same, next), later, gone, e.write(s.Cluster, at)})
	case owned && !lapsed, to == nil:
		f.wait = append(f.wait, []docstore.Write{postponed(s, a, same, next), later, gone})
	default:
		f.late[s.key()] = at.Sub(a.AlarmAt)
		v := view{at: at, top: t, doc: doc, act: a}
		g := v.grant(s, rule.End{}, rule.Identify("alarm", rand.Text()), to, a.Need)
		g.lock, g.lapsed = DefaultLockTTL, owned
		w := g.Write()
		w.Set[fAlarmNext], w.Set[fAlarmEntry] = docstore.FormatTime(next), docstore.FormatTime(next)
		w.Add[fAlarmTries] = 1
		e := Event{Member: g.owner, Identity: s.Identity, From: string(a.Phase), To: string(Locked), Epoch: g.epoch,
			Token: g.token, Reason: AlarmDue}
		if a.Phase != Free && a.Owner != g.owner {
			e.Reason = takenFrom(a.Owner.Member)
		}
		later.Set[fToken] = docstore.Int(g.token)
		f.to[to.Member] = to
		f.give[to.Member] = append(f.give[to.Member], []docstore.Write{w, later, gone, e.write(s.Cluster, at)})
	}
	if a.AlarmTries > 0 {
		delete(f.late, s.key())
	}
}

// postponed has an alarm fired again at a time, while its activation is whose it was.
func postponed(s subject, a Activation, same docstore.Cond, next time.Time) docstore.Write {
	return docstore.Write{
		Key: s.key(),
		If:  append(Hold{s.Cluster, s.Identity, a.Owner, a.Token}.held(a.Phase), same),
		Set: map[string]docstore.Value{fAlarmNext: docstore.FormatTime(next), fAlarmEntry: docstore.FormatTime(next)},
		Add: map[string]int64{fAlarmTries: 1},
	}
}

// carryOut carries out what was decided. What came too late, because others changed the documents, the next look sees.
func (l *alarmLook) carryOut(ctx context.Context, c Cluster, f firing) error {
	fired := func(step []docstore.Write) {
		l.fired.Fired++
		if late, first := f.late[step[0].Key]; first {
			l.fired.Late = append(l.fired.Late, max(late, 0))
		}
	}
	n, err := l.apply(ctx, f.lone, nothing)
	l.fired.Removed += n
	if err == nil {
		n, err = l.apply(ctx, f.drop, nothing)
		l.fired.Removed += n
	}
	if err == nil {
		n, err = l.apply(ctx, f.move, nothing)
		l.fired.Removed += n
	}
	if err == nil {
		n, err = l.apply(ctx, f.wait, nothing)
		l.fired.Waiting += n
	}
	if err == nil {
		_, err = l.apply(ctx, f.tell, fired)
	}
	for _, name := range slices.Sorted(maps.Keys(f.to)) {
		if err == nil {
			_, err = l.apply(ctx, f.give[name], fired, c.unchanged(f.to[name]))
		}
	}
	return err
}

// unfound reports whether an alarm has been due for an hour: a store that came back older may have forgotten its entry,
// or that the cluster has any.
func (a Activation) unfound(at time.Time) bool {
	return !a.AlarmNext.IsZero() && !at.Before(a.AlarmNext.Add(time.Hour))
}

// foundAgain has looks find alarms by an entry of their time.
func (w *sweeping) foundAgain(ctx context.Context, c Cluster, all []Activation) error {
	for _, a := range all {
		if err := w.sayAlarmed(ctx, c, a.Owner); err != nil {
			return err
		}
		s := subject{c, a.Identity}
		if _, err := w.store.Write(ctx, s.alarmEntryWrite(a.AlarmNext, a.Token),
			docstore.Write{Key: s.key(), If: docstore.Eq{Field: fAlarmNext, Value: docstore.FormatTime(a.AlarmNext)},
				Set: map[string]docstore.Value{fAlarmEntry: docstore.FormatTime(a.AlarmNext)}}); err != nil {
			return fmt.Errorf("%s: %w", s.key(), err)
		}
	}
	return nil
}
