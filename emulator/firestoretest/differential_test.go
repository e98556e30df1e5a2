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
	rapid.Check(t, func(t *rapid.T) {
		a, closeA := fresh(t, nil)
		defer closeA()
		b, closeB := fresh(t, &firestoretest.Options{Mode: firestoretest.Optimistic})
		defer closeB()
		compare(t, a, b)
	})
}

// The same random programs here and on the official emulator. The codes, the data and the results of queries must be
// the same.
func TestProgramsAgreeWithTheOfficialEmulator(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", official.Start(t))
	there := must[*sdk.Client](t)(sdk.NewClient(t.Context(), "diff-"+strings.ToLower(rand.Text()[:12])))
	defer there.Close()
	rapid.Check(t, func(rt *rapid.T) {
		here, end := fresh(rt, nil)
		defer end()
		removeAll(t, there)
		compare(rt, here, there)
	})
}

func compare(t *rapid.T, a, b *sdk.Client) {
	program := genProgram().Draw(t, "program")
	got, want := run(t.Context(), t, a, program), run(t.Context(), t, b, program)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("step %d: %+v\nhere  %s\nthere %s", i, program[i], got[i], want[i])
		}
	}
}

// removeAll removes what programs write from a Firestore that keeps them.
func removeAll(t *testing.T, c *sdk.Client) {
	for _, path := range docPaths {
		if _, err := c.Doc(path).Delete(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
