package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// FenceKind is the kind of document in which [Guard] remembers the highest token of a resource.
const FenceKind = "fences"

// Guard protects the resource behind a lock: it remembers the highest fencing token of each resource and rejects every older
// one. A holder that was paused beyond its lease is stopped here, at the latest after the new holder's first request.
//
// A guard is asked before the effect, and a holder can be paused between the two. If the resource can compare tokens itself,
// in the same atomic step as the effect, let it: [FenceCond] is that comparison for a document of this store.
type Guard struct {
	store docstore.Store
}

// NewGuard returns a guard that keeps the tokens in the store.
func NewGuard(store docstore.Store) *Guard { return &Guard{store} }

// Fence asks a [Guard] to let a token pass.
type Fence struct {
	Tenant   string // tenant_id
	Resource string // what is protected; often named like the lock
	Token    int64  // fencing_token
}

// FenceOutcome is the result of [Guard.Check].
type FenceOutcome struct {
	Passed  bool
	Highest int64 // the highest token of the resource, including this one
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Fence) Validate() error {
	return first(name("tenant_id", c.Tenant, MaxTenantBytes), name("resource", c.Resource, MaxKeyBytes), checkToken(c.Token))
}

// Write applies to a token that is not older than the highest so far. The same token passes any number of times: a holder
// does more than one thing.
func (c Fence) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  FenceCond(fToken, c.Token),
		Set: map[string]docstore.Value{fToken: docstore.Int(c.Token)},
	}
}

// State reads the highest token so far, 0 if there is none.
func (c Fence) State(d docstore.Doc) (highest int64, err error) {
	v, ok := d[fToken].(docstore.Int)
	if d != nil && !ok {
		return 0, fmt.Errorf("%w: %s: field %q is not a whole number", docstore.ErrDamaged, c.key(), fToken)
	}
	return int64(v), nil
}

// Granted lets the token pass.
func (c Fence) Granted(highest int64, _ rule.When) FenceOutcome {
	return FenceOutcome{Passed: true, Highest: highest}
}

// Refusal rejects the token.
func (c Fence) Refusal(highest int64, _ rule.When) FenceOutcome {
	return FenceOutcome{Highest: highest}
}

func (c Fence) key() docstore.Key {
	return docstore.Key{Kind: FenceKind, Tenant: c.Tenant, ID: c.Resource}
}

// FenceCond holds for a token that is not older than the one that a document keeps in a field. Put it into the write of the
// effect, together with setting the field to the token.
func FenceCond(fieldName string, token int64) docstore.Cond {
	return docstore.Any{
		docstore.Not{Cond: docstore.Has{Field: fieldName}},
		docstore.LE{Field: fieldName, Value: docstore.Int(token)},
	}
}

// WhileHeld is a write that changes nothing and applies while the lease of owner and token is held. In one step
// with the writes of an effect, it makes sure that the lease is held at the moment of the effect.
func WhileHeld(id ID, owner string, token int64) docstore.Write {
	return docstore.Write{Key: id.key(), If: heldBy(owner, token)}
}

// Check lets a token pass or rejects it. One request to the store. After an error the token must not be relied on; checking
// again is harmless.
func (g *Guard) Check(ctx context.Context, c Fence) (FenceOutcome, error) {
	if err := c.Validate(); err != nil {
		return FenceOutcome{}, err
	}
	return rule.Run(ctx, g.store, time.Now, c)
}
