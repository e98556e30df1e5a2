package firestoretest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	sdk "cloud.google.com/go/firestore"
	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest/official"
)

// The same random programs on this emulator in both modes: one client alone must not notice the mode.
func TestProgramsDoNotNoticeTheMode(t *testing.T) {
	a, first := start(t, nil)
	b, second := start(t, &firestoretest.Options{Mode: firestoretest.Optimistic})
	compare(t, a.Reset, b.Reset, first, second)
}

// The same random programs here and on the official emulator. The codes, the data and the results of queries must be
// the same.
func TestProgramsAgreeWithTheOfficialEmulator(t *testing.T) {
	addr := official.Start(t)
	s, here := start(t, nil)
	t.Setenv("FIRESTORE_EMULATOR_HOST", addr)
	there := must[*sdk.Client](t)(sdk.NewClient(t.Context(), "diff-"+strings.ToLower(rand.Text()[:12])))
	defer there.Close()
	compare(t, s.Reset, func() { removeAll(t, there) }, here, there)
}

func compare(t *testing.T, resetA, resetB func(), a, b *sdk.Client) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		resetA()
		resetB()
		program := genProgram().Draw(t, "program")
		got, want := run(t.Context(), t, a, program), run(t.Context(), t, b, program)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("step %d: %+v\nhere  %s\nthere %s", i, program[i], got[i], want[i])
			}
		}
	})
}

// removeAll removes what programs write from a Firestore that has no Reset.
func removeAll(t *testing.T, c *sdk.Client) {
	for _, path := range docPaths {
		if _, err := c.Doc(path).Delete(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
