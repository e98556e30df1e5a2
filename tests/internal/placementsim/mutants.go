package placementsim

import (
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Mutant is a mutation of what is simulated. The zero Mutant is none.
type Mutant struct {
	Store      func(docstore.Store) docstore.Store // between the rules and their store
	Heartbeats bool                                // those that were lost are acknowledged
	Blind      bool                                // the resource takes every write
	Says       string                              // what the simulation must notice; other things may follow from it
}

// Mutants are plausible mistakes, each of which a few simulations must notice.
var Mutants = map[string]Mutant{
	"an unfenced write": {Store: suite.PlacementMutants["an unfenced write"],
		Says: "was written under token"},
	"the member is not part of the claim": {Store: suite.PlacementMutants["the member is not part of the claim"],
		Says: "which is not an active member"},
	"a blind put":                      {Store: suite.PlacementMutants["a blind put"], Says: "was given after"},
	"lost heartbeats acknowledged":     {Heartbeats: true, Says: "was told that it runs"},
	"a resource that compares nothing": {Blind: true, Says: "took effect by turns"},
}
