package lock

import (
	"context"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// FenceRemove asks a [Guard] to remove the fence of a resource: an administrator's tool for resources that are gone,
// whose fences count against the bound of a tenant. What the fence knew is lost, as by a reset: the next token that is
// checked passes, whichever it is.
type FenceRemove struct {
	Tenant   string // tenant_id
	Resource string // what is protected
	// the highest token that the administrator knows of, before a reset if there was one: only that fence is removed
	Highest int64
	By      string // the administrator
	Reason  string // for the log: nothing of the fence is left to keep it with
}

// FenceRemoveOutcome is the result of [Guard.Remove].
type FenceRemoveOutcome struct {
	Removed  bool
	Replayed bool  // there is no fence: it was removed before, or there was none
	Highest  int64 // if it was not removed: the highest token
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c FenceRemove) Validate() error { return c.reset().Validate() }

// reset is the command that has the same bounds, and forgets as much.
func (c FenceRemove) reset() FenceReset { return FenceReset(c) }

// Write applies while the highest token is the one that was named, or was reset from it, so that a late delivery
// removes no fence that has seen another token since.
func (c FenceRemove) Write() docstore.Write {
	named := docstore.Int(c.Highest)
	return docstore.Write{
		Key: c.reset().fence().key(),
		If: docstore.Any{
			docstore.Eq{Field: fToken, Value: named},
			docstore.All{docstore.Eq{Field: fToken, Value: docstore.Int(0)}, docstore.Eq{Field: fResetFrom, Value: named}},
		},
		Delete: true,
	}
}

// State reads the document of a fence; nil is one that there is not.
func (c FenceRemove) State(d docstore.Doc) (*FenceState, error) {
	if d == nil {
		return nil, nil //nolint:nilnil // it is said to be none
	}
	s, err := c.reset().State(d)
	return &s, err
}

// Granted is the removal.
func (c FenceRemove) Granted(*FenceState, rule.When) FenceRemoveOutcome {
	return FenceRemoveOutcome{Removed: true}
}

// Refusal recognises a removal that has been carried out: there is no fence.
func (c FenceRemove) Refusal(s *FenceState, _ rule.When) FenceRemoveOutcome {
	if s == nil {
		return FenceRemoveOutcome{Removed: true, Replayed: true}
	}
	return FenceRemoveOutcome{Highest: s.Highest}
}

// Remove removes the fence of a resource; see [FenceRemove]. The caller of this method must have authorized the
// administrator. One request to the store, two with GuardOptions.MaxPerTenant; after an error, sending it again has no
// second effect. The fence counts against the bound of the tenant no more.
func (g *Guard) Remove(ctx context.Context, c FenceRemove) (FenceRemoveOutcome, error) {
	if err := c.Validate(); err != nil {
		return FenceRemoveOutcome{}, err
	}
	o, err := rule.Run(ctx, g.store, g.now, c)
	if err == nil && o.Removed && !o.Replayed {
		g.census.Removed(ctx, c.Tenant)
	}
	return o, err
}
