package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// FenceKind is the kind of document in which [Guard] remembers the highest token of a resource.
const FenceKind = "fences"

// Guard protects the resource behind a lock: it remembers the highest fencing token of each resource and rejects every
// older one. A holder that was paused beyond its lease is stopped here, at the latest after the new holder's first
// request.
//
// A guard is asked before the effect, and a holder can be paused between the two. If the resource can compare tokens
// itself, in the same atomic step as the effect, let it: [FenceCond] is that comparison for a document of this store.
type Guard struct {
	store  docstore.Store
	now    func() time.Time
	census *census.Census
}

// GuardOptions are the settings of [NewGuard]. The zero value works.
type GuardOptions struct {
	Now func() time.Time // the time, for [MaxAhead]; nil means time.Now

	// MaxPerTenant is how many fences a tenant may have, as [Options].MaxPerTenant for locks. 0: no bound.
	MaxPerTenant int
}

// MaxAhead is how far a token may lie in the future. Tokens start at the store's time in microseconds and are increased
// far less often than that: one that lies further ahead was given by no lock, and would make the fence reject all that
// are.
const MaxAhead = fencing.MaxAhead

// NewGuard returns a guard that keeps the tokens in the store. Options may be nil.
func NewGuard(store docstore.Store, o *GuardOptions) *Guard {
	g := &Guard{store: store, now: time.Now}
	if o != nil && o.Now != nil {
		g.now = o.Now
	}
	if o != nil {
		g.census = census.New(store, FenceKind, o.MaxPerTenant, g.now)
	}
	return g
}

// Fence asks a [Guard] to let a token pass.
type Fence struct {
	Tenant   string // tenant_id
	Resource string // what is protected; often named like the lock
	Lease    fencing.Lease
}

// FenceOutcome is the result of [Guard.Check].
type FenceOutcome struct {
	Passed  bool
	Highest int64 // the highest token of the resource, including this one

	// Other, unless it is empty, is what Highest is a token of, while the lease that was checked is one of another lock or
	// run: their tokens have no order, and nothing was compared.
	Other string

	// Limit: the resource has no fence yet, and the tenant has as many as it may have. The token must not be relied on.
	Limit bool
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Fence) Validate() error {
	return first(name("tenant_id", c.Tenant, MaxTenantBytes), name("resource", c.Resource, MaxKeyBytes),
		checkToken(c.Lease.Token), name("subject", c.Lease.Subject, fencing.MaxSubjectBytes))
}

// Write applies to a token that is not older than the highest so far, and is one of the same lock or run. The same
// token passes any number of times: a holder does more than one thing.
func (c Fence) Write() docstore.Write {
	return docstore.Write{Key: c.key(), If: FenceCond(fToken, c.Lease), Set: FenceSet(fToken, c.Lease)}
}

// State reads the lease with the highest token so far; the zero lease if there is none.
func (c Fence) State(d docstore.Doc) (highest fencing.Lease, err error) {
	token, ok := d[fToken].(docstore.Int)
	if d != nil && !ok {
		return highest, fmt.Errorf("%w: %s: field %q is not a whole number", docstore.ErrDamaged, c.key(), fToken)
	}
	subject, ok := d[fToken+subjectSuffix].(docstore.String)
	if token > 0 && !ok {
		return highest, fmt.Errorf("%w: %s: field %q is not a text", docstore.ErrDamaged, c.key(), fToken+subjectSuffix)
	}
	return fencing.Lease{Subject: string(subject), Token: int64(token)}, nil
}

// Granted lets the token pass.
func (c Fence) Granted(highest fencing.Lease, _ rule.When) FenceOutcome {
	return FenceOutcome{Passed: true, Highest: highest.Token}
}

// Refusal rejects the token.
func (c Fence) Refusal(highest fencing.Lease, _ rule.When) FenceOutcome {
	o := FenceOutcome{Highest: highest.Token}
	if highest.Subject != c.Lease.Subject {
		o.Other = highest.Subject
	}
	return o
}

func (c Fence) key() docstore.Key {
	return docstore.Key{Kind: FenceKind, Tenant: c.Tenant, ID: c.Resource}
}

// subjectSuffix is behind the name of the field of a token, in the name of the one that has its subject.
const subjectSuffix = "_subject"

// FenceCond holds for a lease whose token is not older than the one that a document keeps in a field, and is one of the
// same lock or run, which the document keeps in a field of that name with "_subject" behind it. Put it into the write
// of the effect, together with [FenceSet].
func FenceCond(fieldName string, l fencing.Lease) docstore.Cond {
	return docstore.Any{
		docstore.Not{Cond: docstore.Has{Field: fieldName}},
		docstore.Eq{Field: fieldName, Value: docstore.Int(0)}, // after a reset
		docstore.All{
			docstore.Eq{Field: fieldName + subjectSuffix, Value: docstore.String(l.Subject)},
			docstore.LE{Field: fieldName, Value: docstore.Int(l.Token)},
		},
	}
}

// FenceSet is what a write of the effect sets where [FenceCond] holds.
func FenceSet(fieldName string, l fencing.Lease) map[string]docstore.Value {
	return map[string]docstore.Value{
		fieldName:                 docstore.Int(l.Token),
		fieldName + subjectSuffix: docstore.String(l.Subject),
	}
}

// WhileHeld is a write that changes nothing and applies while the lease of owner and token is held. In one step
// with the writes of an effect, it makes sure that the lease is held at the moment of the effect.
func WhileHeld(id ID, owner string, token int64) docstore.Write {
	return docstore.Write{Key: id.key(), If: heldBy(owner, token)}
}

// Check lets a token pass or rejects it. One request to the store; with GuardOptions.MaxPerTenant two for the first
// token of a resource, and one or two where this process has no room in hand for it. The error is a [field.Error] for
// a token beyond [MaxAhead]. After an error the token must not be relied on; checking again is harmless.
func (g *Guard) Check(ctx context.Context, c Fence) (FenceOutcome, error) {
	if err := c.Validate(); err != nil {
		return FenceOutcome{}, err
	}
	if err := fencing.Given(c.Lease.Token, g.now()); err != nil {
		return FenceOutcome{}, field.Errorf("fencing_token", "%v", err)
	}
	var o FenceOutcome
	err := g.census.Within(ctx, c.Tenant, false, func(existing bool) (census.Effect, error) {
		if !existing {
			var err error
			o, err = rule.Run(ctx, g.store, g.now, c)
			return census.Created, err // as far as is known, there was none before
		}
		var err error
		if o, err = rule.Run(ctx, g.store, g.now, checkExisting{c}); o.Limit {
			return census.Missing, err
		}
		return census.Other, err
	})
	return o, err
}

// Highest reads the lease with the highest token of a resource, the zero lease if there is none. One request to the
// store.
func (g *Guard) Highest(ctx context.Context, tenant, resource string) (fencing.Lease, error) {
	c := Fence{Tenant: tenant, Resource: resource}
	if err := first(name("tenant_id", tenant, MaxTenantBytes), name("resource", resource, MaxKeyBytes)); err != nil {
		return fencing.Lease{}, err
	}
	s, err := g.store.Get(ctx, c.key())
	if err != nil {
		return fencing.Lease{}, fmt.Errorf("%s: %w", c.key(), err)
	}
	return c.State(s.Docs[0])
}

// checkExisting is a check of a resource that has a fence.
type checkExisting struct{ Fence }

// Write does not apply where there is no fence.
func (c checkExisting) Write() docstore.Write {
	w := c.Fence.Write()
	w.If = docstore.All{docstore.Has{Field: fToken}, w.If}
	return w
}

// Refusal says if there is none: tokens of a document are above 0, but for one that was reset, which every token
// passes.
func (c checkExisting) Refusal(highest fencing.Lease, when rule.When) FenceOutcome {
	if highest.Token == 0 {
		return FenceOutcome{Limit: true}
	}
	return c.Fence.Refusal(highest, when)
}

// Unwrap implements [rule.Wrapper].
func (c checkExisting) Unwrap() any { return c.Fence }

// FenceReset asks a [Guard] to forget the highest token of a resource, and what it is one of: an administrator's tool
// for a fence that a wrong token has closed, and for a resource that another lock protects from now on. Until a current
// token has been checked again, old ones pass.
type FenceReset struct {
	Tenant   string // tenant_id
	Resource string // what is protected
	Highest  int64  // the highest token that the administrator knows of: the fence is reset only while it is that one
	By       string // the administrator
	Reason   string // stays in the fence's document
}

// FenceResetOutcome is the result of [Guard.Reset].
type FenceResetOutcome struct {
	Reset    bool
	Replayed bool  // the fence was reset from this token before, and has seen no other token since
	Highest  int64 // if it was not reset: the highest token, 0 if there is none
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c FenceReset) Validate() error {
	return first(name("tenant_id", c.Tenant, MaxTenantBytes), name("resource", c.Resource, MaxKeyBytes),
		field.Range("highest_token", c.Highest, 1, docstore.MaxInt), checkOwner(c.By), checkReason(c.Reason))
}

// Write applies while the highest token is the one that was named, so that a late delivery resets nothing that came
// after.
func (c FenceReset) Write() docstore.Write {
	return docstore.Write{
		Key: c.fence().key(),
		If:  docstore.Eq{Field: fToken, Value: docstore.Int(c.Highest)},
		Set: map[string]docstore.Value{
			fToken:       docstore.Int(0),
			fResetFrom:   docstore.Int(c.Highest),
			fResetBy:     docstore.String(c.By),
			fResetReason: docstore.String(c.Reason),
			fResetAt:     docstore.Now,
		},
		Unset: []string{fToken + subjectSuffix},
	}
}

// Names of the fields in which a fence keeps its latest reset.
const (
	fResetFrom   = "reset_from"
	fResetBy     = "reset_by"
	fResetReason = "reset_reason"
	fResetAt     = "reset_at"
)

func (c FenceReset) fence() Fence { return Fence{Tenant: c.Tenant, Resource: c.Resource} }

// FenceState is what the document of a fence says. The zero FenceState is a fence that has seen no token.
type FenceState struct {
	Highest   int64 // the highest token since the latest reset
	ResetFrom int64 // the highest token before it
}

// State reads the document of a fence.
func (c FenceReset) State(d docstore.Doc) (FenceState, error) {
	highest, err := c.fence().State(d)
	if err != nil {
		return FenceState{}, err
	}
	from, _ := d[fResetFrom].(docstore.Int)
	return FenceState{highest.Token, int64(from)}, nil
}

// Granted resets the fence.
func (c FenceReset) Granted(FenceState, rule.When) FenceResetOutcome {
	return FenceResetOutcome{Reset: true}
}

// Refusal recognises a reset that has been carried out.
func (c FenceReset) Refusal(s FenceState, _ rule.When) FenceResetOutcome {
	if s.Highest == 0 && s.ResetFrom == c.Highest {
		return FenceResetOutcome{Reset: true, Replayed: true}
	}
	return FenceResetOutcome{Highest: s.Highest}
}

// Reset forgets the highest token of a resource. The caller of this method must have authorized the administrator. One
// request to the store; after an error, sending it again has no second effect.
func (g *Guard) Reset(ctx context.Context, c FenceReset) (FenceResetOutcome, error) {
	if err := c.Validate(); err != nil {
		return FenceResetOutcome{}, err
	}
	return rule.Run(ctx, g.store, g.now, c)
}
