package tasks

import (
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Local is the gate of a worker that has the store at hand.
func Local(a *analysis.Analyses) once.Gate { return direct.Analyses(a) }
