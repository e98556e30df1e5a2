package lock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Locks carries out the lock commands on a store. It keeps nothing between calls: any number of them, in any number of
// processes, may work on the same store.
//
// An error from a command means that the store could not say how it ended (see [docstore.Store.Write]) or that the
// command was malformed (a [field.Error]). After any other error, send the command again with the same request_id.
type Locks struct {
	store      docstore.Store
	now        func() time.Time
	newLeaseID func() string
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to answer; it needs to be steady, not right. nil stands for time.Now.
	Now func() time.Time

	// NewLeaseID returns an ID that was never used before. nil stands for 128 random bits.
	NewLeaseID func() string
}

// New returns the lock commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Locks {
	l := &Locks{store: store, now: time.Now, newLeaseID: rand.Text}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	if o != nil && o.NewLeaseID != nil {
		l.newLeaseID = o.NewLeaseID
	}
	return l
}

// command is what all lock commands have in common.
type command interface {
	Validate() error
	Decide(State, time.Time) (State, Outcome)
	Write() docstore.Write
}

// Acquire asks for the lock; see [Acquire.Decide]. One request to the store, whatever the outcome.
func (l *Locks) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	if c.LeaseID == "" {
		c.LeaseID = l.newLeaseID()
	}
	return l.timely(ctx, c, c.ID)
}

// Renew asks for more time; see [Renew.Decide]. One request to the store, whatever the outcome.
func (l *Locks) Renew(ctx context.Context, c Renew) (Outcome, error) {
	return l.timely(ctx, c, c.ID)
}

// Release gives the lock back; see [Release.Decide]. One request to the store, whatever the outcome.
func (l *Locks) Release(ctx context.Context, c Release) (Outcome, error) {
	return l.do(ctx, c, c.ID)
}

// ForceRelease ends whatever lease there is; see [ForceRelease.Decide]. The caller must have made sure that this is
// somebody who may. One request to the store, whatever the outcome.
func (l *Locks) ForceRelease(ctx context.Context, c ForceRelease) (Outcome, error) {
	return l.do(ctx, c, c.ID)
}

// do sends the command's write. If the store applied it, the document now says what was granted; if it refused, the
// document found is explained by Decide, which first looks for the command's own request_id (LS-ACC-04).
func (l *Locks) do(ctx context.Context, c command, id ID) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	r, err := l.store.Write(ctx, c.Write())
	if err != nil {
		return Outcome{}, fmt.Errorf("lock %s: %w", id.key(), err)
	}
	s, err := stateOf(id.key(), r.Docs[0])
	if err != nil {
		return Outcome{}, err
	}
	if r.Applied {
		return id.ok(s, r.At), nil
	}
	_, o := c.Decide(s, r.At)
	if o.Code == OK && !o.Replayed {
		return Outcome{}, fmt.Errorf("%w: %s: the store refused what the rule grants", docstore.ErrDamaged, id.key())
	}
	if o.Replayed && s.PhaseAt(r.At) == Active && s.PhaseAt(r.At.Add(r.Margin)) == Expired {
		// The repeated command's lease is over, and yet too shortly to be followed by another: it is not handed out again.
		return id.held(s, r.At), nil
	}
	return o, nil
}

// timely is do for the commands that hand out time. A lease that had run out by the time the store answered is no
// grant: whoever got it would begin its work unprotected. The time is measured from before the request, so that it errs
// on the early side for the holder.
func (l *Locks) timely(ctx context.Context, c command, id ID) (Outcome, error) {
	begin := l.now()
	o, err := l.do(ctx, c, id)
	if err != nil || o.Code != OK {
		return o, err
	}
	if took := l.now().Sub(begin); o.Lease.ExpiresAt.Sub(o.At) <= took {
		o = id.refused(LeaseExpired, o.Lease.Token, State{ExpiresAt: o.Lease.ExpiresAt}, o.At)
		o.Detail = fmt.Sprintf("the store took %v to answer, longer than the lease lasts; ask for a longer ttl_seconds", took.Round(time.Millisecond))
	}
	return o, nil
}

// Get returns the lock as it stands. found is false if it was never held. One strongly consistent read.
func (l *Locks) Get(ctx context.Context, id ID) (status Status, found bool, err error) {
	if err := id.Validate(); err != nil {
		return Status{}, false, err
	}
	r, err := l.store.Get(ctx, id.key())
	if err != nil {
		return Status{}, false, fmt.Errorf("lock %s: %w", id.key(), err)
	}
	s, err := stateOf(id.key(), r.Docs[0])
	if err != nil {
		return Status{}, false, err
	}
	return id.lease(s, r.At).Status, s.Phase != None, nil
}

// List selects locks of one tenant for [Locks.List].
type List struct {
	Tenant    string
	Prefix    string // of the lock_key; empty selects all
	Phase     Phase  // None selects all
	PageSize  int    // 1 to MaxPageSize; 0 stands for DefaultPageSize
	PageToken string // Page.Next of the page before; empty for the first
}

// Page is a page of locks by ascending bytes of their keys.
type Page struct {
	Locks []Status
	Next  string // List.PageToken of the next page; empty when this was the last
}

// Bounds of a page.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000

	// maxScanned bounds the documents that one call reads while it looks for locks of a phase. A page may then be
	// short, or even empty, and still have a Next.
	maxScanned = 5000
)

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	if err := first(name("tenant_id", q.Tenant, MaxTenantBytes), field.OptionalText("prefix", q.Prefix, MaxKeyBytes)); err != nil {
		return err
	}
	switch q.Phase {
	case None, Active, Released, Expired:
	default:
		return field.Errorf("state", "must be ACTIVE, RELEASED or EXPIRED, or left out")
	}
	if q.PageSize != 0 {
		if err := field.Range("page_size", int64(q.PageSize), 1, MaxPageSize); err != nil {
			return err
		}
	}
	_, err := q.after()
	return err
}

// pageToken is the List.PageToken of the page that begins behind a key.
func pageToken(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// after is the key behind which the page begins: the inverse of pageToken.
func (q List) after() (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.PageToken)
	if err != nil || field.OptionalText("page_token", string(b), MaxKeyBytes) != nil {
		return "", field.Errorf("page_token", "is not one that a page gave: leave it out to begin again")
	}
	return string(b), nil
}

// List returns a page of the tenant's locks. Each page is a strongly consistent read by itself; a lock that changes
// between two pages may be seen in either state.
func (l *Locks) List(ctx context.Context, q List) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	at, _ := q.after()
	size := q.PageSize
	if size == 0 {
		size = DefaultPageSize
	}
	p := Page{Locks: make([]Status, 0, size)}
	for scanned, limit := 0, size; scanned < maxScanned; {
		r, err := l.store.List(ctx, docstore.Query{Kind: Kind, Tenant: q.Tenant, Prefix: q.Prefix, After: at, Limit: limit})
		if err != nil {
			return Page{}, fmt.Errorf("locks of %q: %w", q.Tenant, err)
		}
		for i, e := range r.Entries {
			id := ID{Tenant: q.Tenant, Key: e.Key.ID}
			s, err := stateOf(e.Key, e.Doc)
			if err != nil {
				return Page{}, err
			}
			if st := id.lease(s, r.At).Status; st.Phase != None && (q.Phase == None || q.Phase == st.Phase) {
				p.Locks = append(p.Locks, st)
			}
			if len(p.Locks) == size && (i+1 < len(r.Entries) || r.Next != "") {
				p.Next = pageToken(e.Key.ID)
				return p, nil
			}
		}
		at = r.Next
		if at == "" {
			return p, nil
		}
		// Where few locks are of the phase, a small page must not cost a request for each lock that is passed over.
		scanned += len(r.Entries)
		limit = min(2*limit, docstore.MaxLimit, maxScanned-scanned)
	}
	p.Next = pageToken(at)
	return p, nil
}
