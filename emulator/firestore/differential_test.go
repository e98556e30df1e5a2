package firestore_test

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	"github.com/leasehold-dev/leasehold/emulator/firestore"
	"pgregory.net/rapid"
)

// The same random programs on this emulator in both modes: one client alone must not notice the mode.
func TestProgramsDoNotNoticeTheMode(t *testing.T) {
	a, first := start(t, nil)
	b, second := start(t, &firestore.Options{Mode: firestore.Optimistic})
	compare(t, a.Reset, b.Reset, first, second)
}

// The same random programs here and on the official emulator. The codes, the data and the results of queries must be
// the same.
func TestProgramsAgreeWithTheOfficialEmulator(t *testing.T) {
	addr := officialEmulator(t)
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

// officialEmulator returns the address of one that FIRESTORE_EMULATOR_HOST names, or starts the one of an installed
// Google Cloud SDK. Otherwise it skips the test.
func officialEmulator(t *testing.T) string {
	t.Helper()
	if addr := os.Getenv("FIRESTORE_EMULATOR_HOST"); addr != "" {
		return addr
	}
	roots := []string{os.Getenv("CLOUDSDK_ROOT_DIR"), "/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", "/google-cloud-sdk"}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, "google-cloud-sdk"))
	}
	java, noJava := exec.LookPath("java")
	at := slices.IndexFunc(roots, func(root string) bool {
		_, err := os.Stat(jar(root))
		return root != "" && err == nil
	})
	if at < 0 || noJava != nil {
		t.Skip("no official emulator: start one with `gcloud emulators firestore start --host-port=127.0.0.1:8085` " +
			"and set FIRESTORE_EMULATOR_HOST=127.0.0.1:8085")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), java, "-Duser.language=en", "-cp", jar(roots[at]),
		"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host=127.0.0.1", "--port="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("the official emulator does not answer on %s after a minute", addr)
		}
	}
}

func jar(root string) string {
	return filepath.Join(root, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
}
