package suite

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Analyses proves that the analysis gate works on a store: random programs compared with an oracle that is written from
// BE-041. newStore is as for [Locks].
func Analyses(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	analysesProof.of(t, newStore)
}

var analysesProof = proof[GateStep]{program: AnalysisProgram, run: RunAnalyses}
