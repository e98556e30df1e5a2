package chaos

import (
	"context"

	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Mutant is a mutation of the system under test, placed between the rules and their store, or around the gate.
type Mutant struct {
	Store func(docstore.Store) docstore.Store
	Gate  func(life context.Context, g once.Gate) once.Gate
	Says  string // what the chaos must find; other things may follow from it
}

// Mutants are plausible mistakes, each of which a simulation must detect.
var Mutants = map[string]Mutant{
	"unfenced finish":  {Store: suite.AnalysisMutants["unfenced finish"], Says: "finished by a holder of"},
	"unfenced release": {Store: suite.AnalysisMutants["unfenced release"], Says: "released by a holder of"},
	"refresh that revives": {Store: suite.AnalysisMutants["refresh that revives"],
		Says: "extended by a holder of"},
	"acquire that ignores the holder": {Store: suite.AnalysisMutants["blind put"], Says: "granted while it was held"},
	"token not increased": {Store: suite.AnalysisMutants["token not increased"],
		Says: "two bodies ran under token"},
	"heartbeat that never stops": {
		Gate: func(life context.Context, g once.Gate) once.Gate { return restless{g, life} },
		Says: "analyses that have not ended",
	},
}

// restless is a gate whose holders refresh their locks for ever.
type restless struct {
	once.Gate

	life context.Context //nolint:containedctx // of the process, which is the mistake
}

// Acquire implements [once.Gate].
func (g restless) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	grant, err := g.Gate.Acquire(ctx, r)
	if err == nil && grant.Acquired {
		go func() {
			for g.life.Err() == nil {
				sleep(g.life, heartbeat)
				_, _ = g.Refresh(g.life, grant.Lock, r.TTL) // it does not even look
			}
		}()
	}
	return grant, err
}
