package main

import (
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestAnalysisTable: what others chose cannot be taken for columns or commands to a terminal, and what cannot be read
// has its line.
func TestAnalysisTable(t *testing.T) {
	page := contracts.AnalysisPage{
		Analyses: []contracts.Analysis{
			{AnalysisID: "a1", Status: "FAILED", FinishedAt: "2026-01-01T02:00:00.000Z", Failures: 5,
				FailureReason: "no\nmodel"},
			{AnalysisID: "a\x1b[2J", OwnerID: "worker-7", ExpiresAt: "2026-01-01T00:05:00.000Z", Locked: true, Runs: 3},
		},
		Unreadable: []contracts.UnreadableAnalysis{{AnalysisID: "a9", Code: contracts.CodeDocumentDamaged}},
	}
	const want = `ANALYSIS    STATUS            FINISHED                  OWNER     UNTIL                     FAILURES  REASON
a1          FAILED            2026-01-01T02:00:00.000Z  -         -                         5         "no\nmodel"
"a\x1b[2J"  -                 -                         worker-7  2026-01-01T00:05:00.000Z  0
a9          DOCUMENT_DAMAGED  -                         -         -                         -         the server's log says what is wrong with the document
`
	if got := analysisTable(page, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const text = `analysis   "a\x1b[2J"
status     -
run by     worker-7
until      2026-01-01T00:05:00.000Z
takeovers  2
failures   0
`
	if got := analysisCard(page.Analyses[1]); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	gone := contracts.Analysis{AnalysisID: "a2", Status: "PENDING", OwnerID: "w", ExpiresAt: "2026-01-01T00:05:00.000Z",
		Runs: 1}
	const expired = `analysis     a2
status       PENDING
last run by  w, whose lock expired
until        2026-01-01T00:05:00.000Z
failures     0
`
	if got := analysisCard(gone); got != expired {
		t.Errorf("got\n%s\nwant\n%s", got, expired)
	}
}
